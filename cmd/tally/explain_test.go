//go:build unix

package main

import (
	"encoding/json"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/firestore-tally/tally/cmd/tally/session"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
)

// explainedRoutes have each kind of place for totals.
const explainedRoutes = `posts/{post}/comments/{c} -> posts/{post} : count() where approved == true as comments, sum(stars) as stars : existing
orders/{order} by shop -> shops/{shop} : amount as revenue : existing
visits/{visit} by site, day(at) -> sites/{site}/days/{day} : count() as visits : within sites/{site}
notes/{note} -> totals/notes : count() as notes : every 1h`

// explained is an explanation, as JSON has it.
type explained struct {
	Exists, Counts bool
	Says           string
	Why            []string
	Routes         []struct {
		Counter string
		Asks    []askedPart
		Has     bool
	}
	Holds *struct {
		RollUp                *struct{ Totals map[string]any }
		MadeOf                []string `json:"made_of"`
		LeftOut               []string `json:"left_out"`
		Unkept, Missing, Next string
	}
}

// An askedPart is what a route asks of a document, and what the document has there.
type askedPart struct {
	Asks, Value string
	Holds       bool
}

// explaining returns a console on whose project functions run by explainedRoutes, as tally dev
// would run them, and a function that explains a document.
func explaining(t *testing.T) (c *console, explain func(path string) explained) {
	t.Helper()
	c = newConsole(t)
	alive, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { alive.Close() })
	err = session.NoteDev(t.Context(), emulatortest.Addr(t), c.project, map[string]string{session.AliveAt: alive.Addr().String(), "TALLY_ROUTES": explainedRoutes})
	if err != nil {
		t.Fatal(err)
	}
	return c, func(path string) (e explained) {
		t.Helper()
		status, out, logs := c.run("explain", path, "--json")
		if status != 0 {
			t.Fatalf("explain %s: exit status %d: %s", path, status, logs)
		}
		err := json.Unmarshal([]byte(out), &e)
		if err != nil {
			t.Fatalf("%v in %s", err, out)
		}
		return e
	}
}

// Each way in which a document does not count has an answer of its own, and the first line has it.
func TestExplainWhyNot(t *testing.T) {
	c, explain := explaining(t)
	at := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	c.set("posts/1", map[string]any{"title": "One"})
	c.set("shops/7", map[string]any{"name": "Seven"})
	for _, test := range []struct {
		name, path string
		fields     map[string]any
		want       string
	}{
		{"wrong collection", "posts/1/comment/9", map[string]any{"approved": true}, "no route covers posts/1/comment/9: the document is in comment, and the route says comments: posts/{post}/comments/{c}"},
		{"no collection of a route", "pages/1", map[string]any{"approved": true}, "no route covers pages/1"},
		{"missing field", "posts/1/comments/1", map[string]any{"aproved": true, "stars": 5}, "it has no field approved; did you mean aproved?"},
		{"wrong type", "posts/1/comments/2", map[string]any{"approved": "true", "stars": 5}, "its approved is a string, and approved == true compares it with a boolean"},
		{"wrong type of a sum", "orders/1", map[string]any{"shop": "7", "amount": "5"}, "amount is a string, and sum(amount) sees only finite numbers"},
		{"null key", "orders/2", map[string]any{"shop": nil, "amount": 5}, "its shop is null, not a string"},
		{"list in a key", "orders/3", map[string]any{"shop": []any{"7"}, "amount": 5}, "its shop is an array, and a document is in one group"},
		{"condition unmet", "posts/1/comments/3", map[string]any{"approved": false, "stars": 5}, "its approved is false, and comments takes only documents where approved == true"},
		{"no owner", "visits/1", map[string]any{"site": "gone", "at": at}, "sites/gone/days/2026-11-27, within sites/gone, which does not exist"},
		{"no home", "posts/2/comments/1", map[string]any{"approved": true, "stars": 5}, "posts/2, which does not exist"},
		{"not yet rolled up", "posts/1/comments/4", map[string]any{"approved": true, "stars": 5}, "it is not rolled up yet: its next change is rolled up within seconds"},
		{"not yet visited", "notes/1", map[string]any{}, "it is not rolled up yet: the schedule rolls it up every 1h0m0s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c.set(test.path, test.fields)
			e := explain(test.path)
			if !e.Exists || e.Counts || !strings.Contains(e.Says, test.want) {
				t.Errorf("got %+v, want %q", e, test.want)
			}
		})
	}

	err := session.NoteDev(t.Context(), emulatortest.Addr(t), c.project, map[string]string{session.AliveAt: "127.0.0.1:1", "TALLY_ROUTES": explainedRoutes})
	if err != nil {
		t.Fatal(err)
	}
	status, out, _ := c.run("explain", "posts/1/comments/4", "--routes", explainedRoutes)
	if status != 0 || !strings.HasPrefix(out, "posts/1/comments/4 does not count: no trigger: no functions that run for project ") {
		t.Errorf("without functions: exit status %d, %s", status, out)
	}
}

// A document counts once a roll-up is as of its last write or later, by the same routes. A document
// that is yet to come has the routes that will count it.
func TestExplainOfDocuments(t *testing.T) {
	c, explain := explaining(t)
	c.set("posts/1", map[string]any{"title": "One"})
	c.set("posts/1/comments/9", map[string]any{"approved": true, "stars": 5})
	c.rollUpBy(explainedRoutes, "posts/1/comments/9")
	e := explain("posts/1/comments/9")
	if !e.Counts || e.Says != "posts/1/comments/9 counts in posts/1, and the roll-up has it as it is" || !e.Routes[0].Asks[0].Holds || e.Routes[0].Asks[0].Value != "true" {
		t.Errorf("got %+v", e)
	}

	c.set("posts/1/comments/9", map[string]any{"stars": 4})
	e = explain("posts/1/comments/9")
	if e.Counts || e.Routes[0].Has || !strings.Contains(e.Says, "it is not rolled up yet: the roll-up is as of ") {
		t.Errorf("after another write: got %+v", e)
	}

	e = explain("posts/1/comments/10")
	if e.Exists || e.Counts || e.Says != "posts/1/comments/10 does not exist" || e.Routes[0].Counter != "posts/1" || e.Routes[0].Asks[0].Asks != "comments where approved == true" {
		t.Errorf("before it exists: got %+v", e)
	}

	status, _, logs := c.run("explain", "posts/1/comments")
	if status == 0 || !strings.Contains(logs, "posts/1/comments is a collection: name one of its documents, as in posts/1/comments/ID") {
		t.Errorf("a collection: exit status %d, %s", status, logs)
	}
}

// Of a document that holds totals it says what they are made of, why they stand still, and when
// they are rolled up next.
func TestExplainOfRollUps(t *testing.T) {
	c, explain := explaining(t)
	c.set("shops/7", map[string]any{"name": "Seven"})
	c.set("orders/1", map[string]any{"shop": "7", "amount": 5})
	status, _, logs := c.run("audit", "--repair", "--grace", "0s")
	if status != 0 {
		t.Fatalf("audit: exit status %d: %s", status, logs)
	}
	e := explain("shops/7")
	if e.Says != "shops/7 holds totals" || e.Holds == nil || e.Holds.RollUp == nil || e.Holds.RollUp.Totals["revenue"] != 5.0 ||
		strings.Join(e.Holds.MadeOf, "; ") != `amount as revenue of the documents in orders where shop == "7"` || e.Holds.Next != "its next change is rolled up within seconds, and an audit finds changes whose events were lost" {
		t.Errorf("got %+v, %+v", e, e.Holds)
	}

	e = explain("totals/notes")
	if e.Holds.RollUp != nil || e.Holds.Next != "the schedule rolls it up every 1h0m0s" {
		t.Errorf("got %+v", e.Holds)
	}
	e = explain("sites/gone/days/2026-11-27")
	if e.Says != "sites/gone/days/2026-11-27 does not exist; it would hold totals" || !strings.Contains(e.Holds.Missing, "within sites/gone, which does not exist") {
		t.Errorf("got %+v", e.Holds)
	}

	note := document.AuditCollection + "/" + document.NotePrefix + "unkept-" + document.IDOf("shops/7")
	c.set(note, map[string]any{"counters": []any{map[string]any{"path": "shops/7", "at": time.Now()}}})
	e = explain("shops/7")
	if !strings.Contains(e.Holds.Unkept, "the counter could not be rolled up at ") {
		t.Errorf("got %+v", e.Holds)
	}
}

// A value of the app's in the field of a total is why documents are not in it.
func TestExplainOfForeignKinds(t *testing.T) {
	c, explain := explaining(t)
	c.set("shops/8", map[string]any{"revenue": []string{"the app's"}})
	c.set("orders/2", map[string]any{"shop": "8", "amount": 5})
	status, _, logs := c.run("audit", "--repair", "--grace", "0s")
	if status != 0 {
		t.Fatalf("audit: exit status %d: %s", status, logs)
	}

	const why = `revenue is left out: the field holds an array of the app's: give the total another name by "as", or clear the field`
	e := explain("orders/2")
	if e.Counts || e.Says != "orders/2 does not count in all totals: "+why {
		t.Errorf("got %+v", e)
	}
	e = explain("shops/8")
	if len(e.Holds.LeftOut) != 1 || e.Holds.LeftOut[0] != why {
		t.Errorf("got %+v", e.Holds)
	}
	_, out, _ := c.run("explain", "shops/8", "--routes", explainedRoutes)
	if !strings.Contains(out, "\n  left out: "+why+"\n") {
		t.Errorf("got %s", out)
	}
}

// With --rules, explain says what the app's security rules do on the document that holds the
// totals: here they lock its author out, because they list its fields. Rules that are not there are
// not tried.
func TestExplainRules(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts an emulator")
	}
	c, _ := explaining(t)
	c.set("posts/1", map[string]any{"title": "One", "author": "ann"})
	dir := t.TempDir()
	t.Chdir(dir)
	status, out, logs := c.run("explain", "posts/1", "--rules")
	if status != 0 || !strings.Contains(out, "? not tried: firebase.json names no rules of database (default)") {
		t.Errorf("without rules: exit status %d: %s%s", status, out, logs)
	}

	write(t, "firebase.json", []byte(`{"firestore": {"rules": "app.rules"}}`))
	write(t, "app.rules", []byte(`rules_version = '2';
service cloud.firestore {
  match /databases/{database}/documents {
    match /posts/{post} {
      allow get: if true;
      allow update: if request.auth.uid == resource.data.author
        && request.resource.data.keys().hasOnly(['title', 'author']);
    }
  }
}
`))
	status, out, logs = c.run("explain", "posts/1/comments/9", "--rules")
	if status != 0 || !strings.Contains(out, "✗ app.rules:6: tried: ") || !strings.Contains(out, "posts/") {
		t.Errorf("exit status %d: %s%s", status, out, logs)
	}
}
