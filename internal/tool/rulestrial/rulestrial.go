// Package rulestrial tries, on an emulator, whether an app's security rules go together with the
// totals in one of the app's own documents. It makes requests with a copy of the document, in a
// database of its own, so it also finds what package rulesfile cannot read in the rules.
//
// A [Trial] answers two questions:
//
//   - Do the rules refuse an edit of the document once it has totals? Each user whom the document
//     may name tries some edits. If the rules allow one without totals, it is tried with them.
//   - Do the rules let a client write a total?
//
// Who edits the document, and what such an edit changes, is guessed (guess.go). If no guess is
// allowed, the first question has no answer.
package rulestrial

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"maps"
	"strings"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/tool/local/emulator"
	"github.com/firestore-tally/tally/rollup/route"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Database is where the copies of documents are. The emulator makes it with the first. Its feed of
// refused requests names the database, so those of a trial can be left out.
const Database = "tally-rules-trial"

// A Trial is of the documents of one database.
type Trial struct {
	Addr              string // of the emulator
	Project, Database string // of the app
	Rules             string // the text of the app's rules
}

// A Result is what a trial found.
type Result struct {
	// Allowed says that the rules allow an edit of the document without totals, so Refused is known.
	// Refused says that they refuse the same edit with totals. Editor made it.
	Allowed, Refused bool
	Editor           User

	// Open are the totals that Writer could write; nil: no user could write any.
	Open   []string
	Writer User
}

// Try tries the rules on the document at a path, in which a template's totals are. An answer needs
// no totals to be there yet. It returns an error if the document or the emulator is missing.
func (t *Trial) Try(ctx context.Context, template *route.Template, path string) (Result, error) {
	conn, err := grpc.NewClient("passthrough:///"+t.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return Result{}, err
	}
	defer conn.Close()
	api := firestorepb.NewFirestoreClient(conn)
	doc, err := api.GetDocument(server.context(ctx), &firestorepb.GetDocumentRequest{Name: name(t.Project, t.Database, path)})
	if err != nil {
		return Result{}, err
	}

	err = emulator.SetRules(ctx, t.Addr, t.Project, Database, t.Rules)
	if err != nil {
		return Result{}, err
	}
	s := &stage{api: api, database: "projects/" + t.Project + "/databases/" + Database, name: name(t.Project, Database, path)}
	defer s.clear(context.WithoutCancel(ctx))

	s.own = maps.Clone(doc.Fields)
	delete(s.own, document.TallyField)
	for _, total := range template.Totals() {
		delete(s.own, total)
	}
	s.counted = map[string]*firestorepb.Value{document.TallyField: mapOf("num_shards", integer(1))}
	maps.Copy(s.counted, s.own)
	for _, total := range template.Totals() {
		s.counted[total] = integer(1)
	}

	var r Result
	users := users(path, s.own)
	err = s.tryEdits(ctx, &r, users)
	if err == nil {
		err = s.tryTotals(ctx, &r, users, template.Totals())
	}
	return r, err
}

// name returns the full name of a document.
func name(project, database, path string) string {
	return "projects/" + project + "/databases/" + database + "/documents/" + path
}

// A stage is where a copy of a document is written.
type stage struct {
	api            firestorepb.FirestoreClient
	database, name string

	own, counted fields  // of the document, without totals and with them
	has          *fields // which of them the document has now; nil: neither
}

type fields = map[string]*firestorepb.Value

// tryEdits finds an edit that the rules allow without totals, and tries it with them.
func (s *stage) tryEdits(ctx context.Context, r *Result, users []User) error {
	for _, e := range edits(s.own) {
		for _, u := range users {
			allowed, err := s.allows(ctx, u, &s.own, e)
			if err != nil {
				return err
			}
			if !allowed {
				continue
			}

			still, err := s.allows(ctx, u, &s.counted, e)
			if err != nil {
				return err
			}
			r.Allowed, r.Refused, r.Editor = true, !still, u
			return nil
		}
	}
	return nil
}

// tryTotals finds the first user who can write totals, and which.
func (s *stage) tryTotals(ctx context.Context, r *Result, users []User, totals []string) error {
	for _, u := range users {
		for _, total := range totals {
			open := false
			for _, stamps := range stampings(s.own) {
				allowed, err := s.allows(ctx, u, &s.counted, edit{fields{total: integer(2)}, stamps})
				if err != nil {
					return err
				}
				open = open || allowed
			}
			if open {
				r.Open = append(r.Open, total)
			}
		}
		if r.Open != nil {
			r.Writer = u
			return nil
		}
	}
	return nil
}

// allows reports whether the rules allow a user's edit of the document when it has these fields.
func (s *stage) allows(ctx context.Context, u User, has *fields, e edit) (bool, error) {
	if s.has != has {
		err := s.commit(ctx, server, &firestorepb.Write{Operation: &firestorepb.Write_Update{Update: &firestorepb.Document{Name: s.name, Fields: *has}}})
		if err != nil {
			return false, err
		}
		s.has = has
	}

	err := s.commit(ctx, u, e.write(s.name))
	if status.Code(err) == codes.PermissionDenied {
		return false, nil
	}
	s.has = nil
	return err == nil, err
}

// clear deletes the copy.
func (s *stage) clear(ctx context.Context) {
	_ = s.commit(ctx, server, &firestorepb.Write{Operation: &firestorepb.Write_Delete{Delete: s.name}}) // else it stays until the emulator ends
}

// commit makes a write as a user.
func (s *stage) commit(ctx context.Context, u User, w *firestorepb.Write) error {
	_, err := s.api.Commit(u.context(ctx), &firestorepb.CommitRequest{Database: s.database, Writes: []*firestorepb.Write{w}})
	return err
}

// context returns what a user's requests run in. The emulator takes an unsigned token.
func (u User) context(ctx context.Context) context.Context {
	if u == SignedOut {
		return ctx
	}
	token := string(server)
	if u != server {
		claims := map[string]any{"sub": u, "firebase": map[string]any{"sign_in_provider": "password"}}
		if strings.Contains(string(u), "@") {
			claims["email"], claims["email_verified"] = u, true
		}
		payload, _ := json.Marshal(claims) // strings have no error
		part := base64.RawURLEncoding.EncodeToString
		token = part([]byte(`{"alg":"none"}`)) + "." + part(payload) + "."
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
}
