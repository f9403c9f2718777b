package rulestrial

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
)

func TestMain(m *testing.M) { emulatortest.Main(m) }

// Each form of rules that refuses an owner's edit once the document has totals is found, however
// the rules tell the owner and whatever an edit must do. None is found of rules that go on to allow
// it.
func TestTry(t *testing.T) {
	t.Parallel()
	routes, err := route.Parse("posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing; posts/{post}/comments/{comment} -> posts/{post} : count() as comments : existing")
	if err != nil {
		t.Fatal(err)
	}
	const (
		after, before = "request.resource.data", "resource.data"
		owner         = "request.auth.uid == resource.data.author"
		locked        = "&& request.resource.data.keys().hasOnly(['author', 'title', 'at', 'n', 'by', 'draft'])"
		untouched     = "&& !request.resource.data.diff(resource.data).affectedKeys().hasAny(['tally', 'likes', 'comments'])"
	)
	refuses := func(u User) Result { return Result{Allowed: true, Refused: true, Editor: u} }
	allows := func(u User) Result { return Result{Allowed: true, Editor: u} }
	for _, test := range []struct {
		name, update string // the condition, and functions before it
		want         Result
	}{
		{"no owner", "false", Result{}},
		{"an owner whom the document does not name", "request.auth.uid == 'root'", Result{}},
		{"another document decides", "exists(/databases/$(database)/documents/admins/$(request.auth.uid))", Result{}},

		{"anybody", "true " + untouched, allows(SignedOut)},
		{"a user", "request.auth != null " + untouched, allows(Anybody)},
		{"the owner", owner + untouched, allows("ann")},
		{"keys listed", owner + locked, refuses("ann")},
		{"keys counted", owner + "&& " + after + ".keys().size() == 6", refuses("ann")},
		{"fields counted", owner + "&& " + after + ".size() == 6", refuses("ann")},
		{"a list that has all keys", owner + "&& ['author', 'title', 'at', 'n', 'by', 'draft'].hasAll(" + after + ".keys())", refuses("ann")},
		{"keys as a set", owner + "&& " + after + ".keys().toSet() == ['author', 'title', 'at', 'n', 'by', 'draft'].toSet()", refuses("ann")},
		{"values counted", owner + "&& " + after + ".values().size() == 6", refuses("ann")},
		{"fields that stay", owner + "&& " + after + ".diff(" + before + ").unchangedKeys().size() <= 6", refuses("ann")},
		{"fields of a map compared", owner + "&& " + after + ".diff({'author': 'ann'}).addedKeys().size() <= 6", refuses("ann")},
		{"keys of a choice", owner + "&& (" + after + ".draft ? " + after + " : " + before + ").keys().size() == 6", refuses("ann")},
		{"values in functions", "function keys(doc) { let data = doc.data; return data.keys(); } function few(keys, n) { return keys.size() == n; } allow update: if " + owner + "&& few(keys(request.resource), 6)", refuses("ann")},
		{"by id", "request.auth.uid == post " + locked, refuses("p1")},
		{"by e-mail", "request.auth.token.email == resource.data.by.mail && request.auth.token.email_verified " + locked, refuses("ann@example.com")},
		{"by a map's key", "request.auth.uid in resource.data.by " + locked, refuses("cid")},
		{"with the time", owner + "&& " + after + ".at == request.time " + locked, refuses("ann")},
		{"with a higher version", owner + "&& " + after + ".n == " + before + ".n + 1 && " + after + ".at == request.time " + locked, refuses("ann")},
		{"with another title", owner + "&& " + after + ".title != " + before + ".title " + locked, refuses("ann")},

		{"all fields by the owner", owner, Result{Allowed: true, Editor: "ann", Open: []string{"comments", "likes"}, Writer: "ann"}},
		{"all fields by a user", "request.auth != null", Result{Allowed: true, Editor: Anybody, Open: []string{"comments", "likes"}, Writer: Anybody}},
		{"a total by a user", owner + untouched + "|| request.auth != null && " + after + ".diff(" + before + ").affectedKeys().hasOnly(['likes'])",
			Result{Allowed: true, Editor: Anybody, Open: []string{"likes"}, Writer: Anybody}},
		{"a total that grows, with the time", "request.auth != null && " + after + ".at == request.time && " + after + ".diff(" + before + ").affectedKeys().hasOnly(['likes', 'at'])",
			Result{Allowed: true, Editor: Anybody, Open: []string{"likes"}, Writer: Anybody}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			client := emulatortest.Client(t)
			post := client.Doc("posts/p1")
			document := map[string]any{
				"author": "ann", "title": "A long one", "at": time.Unix(1e9, 0), "n": 4, "draft": true,
				"by": map[string]any{"mail": "ann@example.com", "cid": true}, "likes": 3, "tally": map[string]any{"num_shards": 3},
			}
			if _, err := post.Set(t.Context(), document); err != nil {
				t.Fatal(err)
			}

			text := test.update
			if !strings.Contains(text, "allow update") {
				text = "allow update: if " + text
			}
			rules := "rules_version = '2';\nservice cloud.firestore {\n  match /databases/{database}/documents/posts/{post} {\n" + text + ";\n  }\n}\n"
			trial := Trial{Addr: emulatortest.Addr(t), Project: project(post), Database: firestore.DefaultDatabaseID, Rules: rules}
			got, err := trial.Try(t.Context(), routes.Templates()[0], "posts/p1")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if after, err := post.Get(t.Context()); err != nil || after.Data()["likes"] != int64(3) {
				t.Errorf("the document is %v, error %v; want it as it was", after.Data(), err)
			}
		})
	}
}

// project returns the project of a document.
func project(doc *firestore.DocumentRef) string { return strings.Split(doc.Path, "/")[1] }

// However many fields a document has, the guesses are few: each is a request or two.
func TestGuesses(t *testing.T) {
	own := make(fields)
	for i := range 1000 {
		own[fmt.Sprint("n", i)] = integer(1)
		own[fmt.Sprint("t", i)] = &firestorepb.Value{ValueType: &firestorepb.Value_TimestampValue{}}
		own[fmt.Sprint("s", i)] = &firestorepb.Value{ValueType: &firestorepb.Value_StringValue{StringValue: fmt.Sprint(i)}}
	}
	if users, edits := len(users("posts/p1", own)), len(edits(own)); users != 2+maxNamed || edits != (1+maxFields)*(2+maxFields) {
		t.Errorf("%d users and %d edits", users, edits)
	}
}
