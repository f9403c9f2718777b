package rules

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/tool/local/emulator"
	"github.com/firestore-tally/tally/rollup/route"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// A Judge tries a text of rules on an emulator, in a project of its own. Its database has the id of
// the app's, which rules may name. Calls must not overlap, because all have the same database.
type Judge struct {
	Addr     string // of an emulator that has no other rules for the project
	Project  string // in which nothing else is; "": emulator.RulesProject
	Database string // id of the app's
	Text     string // of the rules

	// Read returns the fields of one of the app's documents, nil if there is none. It may be nil.
	Read func(ctx context.Context, path string) (map[string]*firestorepb.Value, error)
}

type fields = map[string]*firestorepb.Value

// FromEmulator returns a Read of a database on an emulator.
func FromEmulator(addr, project, database string) func(context.Context, string) (map[string]*firestorepb.Value, error) {
	return func(ctx context.Context, path string) (map[string]*firestorepb.Value, error) {
		conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		name := "projects/" + project + "/databases/" + database + "/documents/" + path
		doc, err := firestorepb.NewFirestoreClient(conn).GetDocument(server.context(ctx), &firestorepb.GetDocumentRequest{Name: name})
		if status.Code(err) == codes.NotFound {
			return nil, nil
		}
		if doc.GetFields() == nil && err == nil {
			return make(fields), nil
		}
		return doc.GetFields(), err
	}
}

// A Verdict is what a trial of a request found.
type Verdict string

const (
	Allowed  Verdict = "allowed"
	Refused  Verdict = "refused"
	NotTried Verdict = "not tried"
)

// An Answer says what rules do with a request.
type Answer struct {
	Request
	Verdict Verdict
	Why     string   // it was not tried
	Wrong   bool     // the verdict does harm
	Path    string   // of the document
	User    User     // allowed was allowed, or of an edit, who no longer is
	Fields  []string // of Tally's, that User could write
	Lines   []int    // where the statements begin that may allow the method
}

// A stage is where rules are tried: a database with copies of documents.
type stage struct {
	api      firestorepb.FirestoreClient
	database string
	text     string // of the rules
	rules    *Rules
	users    []User          // allowed may make the requests
	path     string          // of the document whose requests are tried
	has      *fields         // which fields it has now; nil: they are not known
	copies   map[string]bool // paths of other documents
	close    func() error
}

// none are the fields of a document that is not there.
var none = new(fields)

// open puts the rules in force. It returns an emulator.RulesError if they do not compile.
func (j *Judge) open(ctx context.Context) (*stage, error) {
	project := cmp.Or(j.Project, emulator.RulesProject)
	err := emulator.SetRules(ctx, j.Addr, project, j.Database, j.Text)
	if err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient("passthrough:///"+j.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	return &stage{
		api: firestorepb.NewFirestoreClient(conn), database: "projects/" + project + "/databases/" + j.Database,
		text: j.Text, rules: Parse(j.Text), copies: make(map[string]bool), close: conn.Close,
	}, nil
}

// clear deletes the copies, and ends the connection.
func (s *stage) clear(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	for path := range s.copies {
		_ = s.put(ctx, path, none) // else it stays until the emulator ends
	}
	_ = s.close()
}

// turnTo turns to the document at a path, and to the users who may make requests of it when it has
// these fields.
func (s *stage) turnTo(path string, own fields) {
	s.path, s.has, s.users = path, nil, users(s.text, path, own)
	s.copies[path] = true
}

// nameOf returns the full name of the document at a path.
func (s *stage) nameOf(path string) string { return s.database + "/documents/" + path }

// put gives the document at a path these fields, or deletes it.
func (s *stage) put(ctx context.Context, path string, has *fields) error {
	s.copies[path] = true
	w := &firestorepb.Write{Operation: &firestorepb.Write_Update{Update: &firestorepb.Document{Name: s.nameOf(path), Fields: *has}}}
	if has == none {
		w.Operation = &firestorepb.Write_Delete{Delete: s.nameOf(path)}
	}
	return s.commit(server.context(ctx), w)
}

// withOwnReferences returns the fields of a document of another database, with its references to
// documents of that database turned to those of this one.
func (s *stage) withOwnReferences(of fields) fields {
	var in func(v *firestorepb.Value) *firestorepb.Value
	in = func(v *firestorepb.Value) *firestorepb.Value {
		switch kind := v.ValueType.(type) {
		case *firestorepb.Value_ReferenceValue:
			_, path, _ := strings.Cut(kind.ReferenceValue, "/documents/")
			return &firestorepb.Value{ValueType: &firestorepb.Value_ReferenceValue{ReferenceValue: s.nameOf(path)}}
		case *firestorepb.Value_ArrayValue:
			list := new(firestorepb.ArrayValue)
			for _, each := range kind.ArrayValue.Values {
				list.Values = append(list.Values, in(each))
			}
			return &firestorepb.Value{ValueType: &firestorepb.Value_ArrayValue{ArrayValue: list}}
		case *firestorepb.Value_MapValue:
			return &firestorepb.Value{ValueType: &firestorepb.Value_MapValue{MapValue: &firestorepb.MapValue{Fields: s.withOwnReferences(kind.MapValue.Fields)}}}
		}
		return v
	}
	all := make(fields)
	for name, v := range of {
		all[name] = in(v)
	}
	return all
}

// commit makes a write.
func (s *stage) commit(ctx context.Context, w *firestorepb.Write) error {
	_, err := s.api.Commit(ctx, &firestorepb.CommitRequest{Database: s.database, Writes: []*firestorepb.Write{w}})
	return err
}

// allows reports whether the rules allow a user's request of the document when it has these fields.
// The edit says what the request writes.
func (s *stage) allows(ctx context.Context, u User, has *fields, method string, e edit) (bool, error) {
	if s.has != has {
		err := s.put(ctx, s.path, has)
		if err != nil {
			return false, err
		}
		s.has = has
	}

	err := s.ask(u.context(ctx), method, e)
	if status.Code(err) == codes.PermissionDenied {
		return false, nil
	}
	s.has = nil                                    // the request may have changed them
	if status.Code(err) == codes.InvalidArgument { // a guess that is no request, such as a transform in a list
		return false, nil
	}
	return err == nil, err
}

// ask makes a request of the document.
func (s *stage) ask(ctx context.Context, method string, e edit) error {
	name := s.nameOf(s.path)
	switch method {
	case Get:
		_, err := s.api.GetDocument(ctx, &firestorepb.GetDocumentRequest{Name: name})
		return err
	case List:
		return s.list(ctx)
	case Delete:
		return s.commit(ctx, &firestorepb.Write{Operation: &firestorepb.Write_Delete{Delete: name}})
	default:
		return s.commit(ctx, e.write(name, method == "update"))
	}
}

// list asks for documents of the document's collection id, wherever they are.
func (s *stage) list(ctx context.Context) error {
	from := &firestorepb.StructuredQuery_CollectionSelector{CollectionId: path.Base(path.Dir(s.path)), AllDescendants: true}
	found, err := s.api.RunQuery(ctx, &firestorepb.RunQueryRequest{
		Parent: s.database + "/documents",
		QueryType: &firestorepb.RunQueryRequest_StructuredQuery{StructuredQuery: &firestorepb.StructuredQuery{
			From: []*firestorepb.StructuredQuery_CollectionSelector{from}, Limit: wrapperspb.Int32(10),
		}},
	})
	for err == nil {
		_, err = found.Recv()
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// A Document is one of the app's that holds totals, or will.
type Document struct {
	Path   string
	Fields fields
}

// A trial tries the requests of one document that holds the totals of a template.
type trial struct {
	*stage
	template *route.Template
	own      fields  // of the document, without what Tally wrote
	counted  *fields // the same with it
	known    *edit   // one that the rules allow while there are no totals; nil: none was found
}

// Home tries the requests of a document of the app's that holds the totals of a template, or will.
// An answer needs no totals to be there yet.
func (j *Judge) Home(ctx context.Context, t *route.Template, d Document) (answers []Answer, err error) {
	s, err := j.open(ctx)
	if err != nil {
		return nil, err
	}
	defer s.clear(ctx)

	trial := &trial{stage: s, template: t, own: s.withOwnReferences(d.Fields)}
	for _, name := range written(t) {
		delete(trial.own, name)
	}
	counted := maps.Clone(trial.own)
	for _, name := range written(t) {
		counted[name] = valueOf(t, name, 1)
	}
	trial.counted = &counted
	s.turnTo(d.Path, trial.own)
	err = j.copyRead(ctx, s)
	if err != nil {
		return nil, err
	}

	for _, request := range ofTemplate(t) {
		a := Answer{Request: request, Verdict: Refused, Path: d.Path, Lines: s.rules.Lines(d.Path, request.Method)}
		if a.Lines != nil || s.rules.unread != "" { // otherwise no statement may allow it
			err = trial.try(ctx, &a)
		}
		if err != nil {
			return nil, err
		}
		answers = append(answers, a)
	}
	return answers, nil
}

// written returns the fields that Tally writes into documents of a template.
func written(t *route.Template) []string { return append(t.Totals(), document.TallyField) }

// first returns which user may make which of the edits when the document has these fields, or
// create it so when there is none.
func (t *trial) first(ctx context.Context, users []User, has *fields, edits []edit) (u User, e edit, ok bool, err error) {
	method := "update"
	if has == none {
		method = "create"
	}
	for _, e := range edits {
		for _, u := range users {
			ok, err := t.allows(ctx, u, has, method, e)
			if err != nil || ok {
				return u, e, ok, err
			}
		}
	}
	return u, e, false, nil
}

// try tries the request of an answer. Those of an edit come first.
func (t *trial) try(ctx context.Context, a *Answer) error {
	switch a.Kind {
	case Edit:
		return t.edit(ctx, a)
	case Write:
		return t.write(ctx, a)
	default:
		return t.create(ctx, a)
	}
}

// edit finds an edit that the rules allow without totals, and tries it with them.
func (t *trial) edit(ctx context.Context, a *Answer) error {
	u, e, ok, err := t.first(ctx, t.users, &t.own, edits(t.own))
	if err != nil || !ok {
		a.Verdict, a.Why = NotTried, t.unknown(writeMethods)
		return err
	}
	t.known = &e
	still, err := t.allows(ctx, u, t.counted, "update", e)
	a.User, a.Verdict, a.Wrong = u, Allowed, !still
	if !still {
		a.Verdict = Refused
	}
	return err
}

// write finds the first user who can write totals into the document, and which.
func (t *trial) write(ctx context.Context, a *Answer) error {
	var with []edit
	for _, stamps := range stampings(t.own) {
		with = append(with, edit{nil, stamps})
	}
	if t.known != nil {
		with = append(with, *t.known)
	}
	return t.open(ctx, a, t.known != nil, t.counted, with)
}

// create finds the first user who can create the document with totals, and which.
func (t *trial) create(ctx context.Context, a *Answer) error {
	creations := creations(t.own)
	_, _, known, err := t.first(ctx, t.users, none, creations)
	if err != nil {
		return err
	}
	return t.open(ctx, a, known, none, creations)
}

// open tries to write totals along with each of the edits. known says that the rules allow one of
// them without any.
func (t *trial) open(ctx context.Context, a *Answer, known bool, has *fields, with []edit) error {
	for _, u := range t.users {
		for _, name := range written(t.template) {
			_, _, ok, err := t.first(ctx, []User{u}, has, all(with, name, valueOf(t.template, name, 2)))
			if err != nil {
				return err
			}
			if ok {
				a.Fields = append(a.Fields, name)
			}
		}
		if len(a.Fields) > 1 { // the totals say enough
			a.Fields = slices.DeleteFunc(a.Fields, func(name string) bool { return name == document.TallyField })
		}
		if a.Fields != nil {
			a.Verdict, a.Wrong, a.User = Allowed, true, u
			return nil
		}
	}

	a.Verdict = Refused
	if !known {
		a.Verdict, a.Why = NotTried, t.unknown(writeMethods)
	}
	return nil
}

// all returns the edits, each with another field.
func all(edits []edit, name string, v *firestorepb.Value) (with []edit) {
	for _, e := range edits {
		with = append(with, e.with(name, v))
	}
	return with
}

// noGuess is why a request was not tried whose rules ask for nothing that is known.
const noGuess = "no user and no change that was guessed is allowed"

// unknown says why no guess of a method was allowed.
func (s *stage) unknown(methods []string) string {
	bodies := s.rules.bodyText(s.path, methods...)
	var asked []string
	for _, claim := range claims.FindAllStringSubmatch(bodies, -1) {
		name := claim[1] + claim[2]
		if !slices.Contains([]string{"email", "email_verified", "sub", "firebase"}, name) {
			asked = append(asked, "the claim "+name+" of a user")
		}
	}
	for _, path := range readIn(bodies) {
		asked = append(asked, "the document "+path)
	}
	slices.Sort(asked)
	asked = slices.Compact(asked)
	if asked == nil {
		return noGuess
	}
	return "the rules ask for " + strings.Join(asked, ", ") + ", which the trial does not have"
}

// copyRead copies the documents that rules read of a write, for the users who make it: first for
// those whom the document names.
func (j *Judge) copyRead(ctx context.Context, s *stage) error {
	if j.Read == nil {
		return nil
	}
	for _, pattern := range readIn(s.rules.bodyText(s.path, writeMethods...)) {
		for _, u := range slices.Concat(s.users[2:], s.users[:2]) {
			at := s.rules.fill(pattern, s.path, u)
			if len(s.copies) > maxRead || s.copies[at] || !isDocument(at) {
				continue
			}
			fields, err := j.Read(ctx, at)
			if err != nil {
				return err
			}
			if fields == nil {
				continue
			}
			fields = s.withOwnReferences(fields)
			err = s.put(ctx, at, &fields)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// isDocument reports whether a path may be that of a document.
func isDocument(path string) bool {
	ids := strings.Split(path, "/")
	return len(ids)%2 == 0 && !slices.Contains(ids, "")
}

// Others tries the requests of documents that only Tally's routes have: shards, roll-ups of their
// own, and what Tally keeps for itself.
func (j *Judge) Others(ctx context.Context, routes route.Routes) (answers []Answer, err error) {
	s, err := j.open(ctx)
	if err != nil {
		return nil, err
	}
	defer s.clear(ctx)

	for _, request := range Requests(routes) {
		if request.Home() {
			continue
		}
		a, err := s.try(ctx, request)
		if err != nil {
			return nil, err
		}
		answers = withAnswer(answers, a)
	}
	return answers, nil
}

// withAnswer returns the answers with another one. If it says the same of another method than the
// last, one says both.
func withAnswer(answers []Answer, a Answer) []Answer {
	if len(answers) > 0 {
		last := &answers[len(answers)-1]
		isSame := last.Kind == a.Kind && last.Path == a.Path && last.User == a.User && slices.Equal(last.Lines, a.Lines)
		if isSame && last.Wrong && a.Wrong && (!a.Allow || last.SignedOut && a.SignedOut) {
			last.Method += ", " + a.Method
			return answers
		}
	}
	return append(answers, a)
}

// try makes a request as each user who may be allowed to.
func (s *stage) try(ctx context.Context, r Request) (Answer, error) {
	path := r.Path()
	a := Answer{Request: r, Verdict: Refused, Path: path, Lines: s.rules.Lines(path, r.Method)}
	if r.Kind == Increment {
		err := s.put(ctx, above(path), &fields{"num_shards": integer(10)}) // rules may read how many there are
		if err != nil {
			return a, err
		}
	}

	s.turnTo(path, nil)
	before := &r.before
	if r.Method == "create" {
		before = none
	}
	for _, u := range s.users {
		if r.SignedOut && u != SignedOut || r.Allow && !r.SignedOut && u == SignedOut {
			continue
		}
		ok, err := s.allows(ctx, u, before, r.Method, edit{r.after, nil})
		if err != nil {
			return a, err
		}
		if ok {
			a.Verdict, a.User = Allowed, u
			break
		}
	}

	why := s.unknown([]string{r.Method})
	if r.Allow && a.Verdict == Refused && a.Lines != nil && why != noGuess && r.Kind != Increment {
		a.Verdict, a.Why = NotTried, why
	}
	a.Wrong = a.Verdict != NotTried && (a.Verdict == Allowed) != r.Allow
	return a, nil
}

// All tries all requests that matter to the routes. documents are the app's own, by the templates
// whose totals they hold. For a template without one they are made up; a request is tried on the
// next if one says nothing. With an error it returns the answers that it has.
func (j *Judge) All(ctx context.Context, routes route.Routes, documents map[string][]Document) ([]Answer, error) {
	var all []Answer
	for _, t := range routes.Templates() {
		if !t.Existing {
			continue
		}
		own := documents[t.String()]
		if own == nil {
			own = Invent(j.Text, t)
		}
		var known []Answer
		for _, d := range own {
			answers, err := j.Home(ctx, t, d)
			if err != nil {
				return all, err
			}
			known = moreTelling(known, answers)
		}
		all = append(all, known...)
	}
	others, err := j.Others(ctx, routes)
	return append(all, others...), err
}

// moreTelling returns of each two answers the one that says more.
func moreTelling(known, answers []Answer) []Answer {
	if known == nil {
		return answers
	}
	for i, a := range answers {
		if known[i].Verdict == NotTried || a.Wrong && !known[i].Wrong {
			known[i] = a
		}
	}
	return known
}

// above returns the path of the document above another.
func above(path string) string {
	ids := strings.Split(path, "/")
	return strings.Join(ids[:len(ids)-2], "/")
}

// Mistakes returns why rules do not compile, with the places in a file; nil if err is about
// something else.
func Mistakes(err error, file string) error {
	wrong, ok := errors.AsType[*emulator.RulesError](err)
	if !ok {
		return nil
	}
	return wrong.In(file)
}
