package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/emulator"
	"github.com/firestore-tally/tally/internal/eventrelay"
	"github.com/firestore-tally/tally/rollup"
	"github.com/google/go-cmp/cmp"
	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
)

func parsed(t *testing.T, text string) rollup.Routes {
	t.Helper()
	routes, err := rollup.ParseRoutes(text)
	if err != nil {
		t.Fatal(err)
	}
	return routes
}

// A hint is said once, about what is wrong for sure, and suggests only routes that fit the others.
func TestHints(t *testing.T) {
	var said []string
	h := hints{say: func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }}
	routes := parsed(t, rollup.DefaultRoute+"; posts/{p}/likes/{l} -> post_totals/{p} : count() as likes")

	integer := &firestoredata.Value{ValueType: &firestoredata.Value_IntegerValue{IntegerValue: 1}}
	text := &firestoredata.Value{ValueType: &firestoredata.Value_StringValue{StringValue: "x"}}
	write := func(path string, fields map[string]*firestoredata.Value) {
		e, err := eventrelay.NewEvent("e", time.Now(), nil, &firestoredata.Document{Name: "projects/p/databases/(default)/documents/" + path, Fields: fields})
		if err != nil {
			t.Fatal(err)
		}
		h.event(routes, e)
	}
	write("counters/a/shards/0", map[string]*firestoredata.Value{"count": text, "Count": integer}) // the log says what is malformed
	write("counters/a/shards/0", map[string]*firestoredata.Value{"name": text})
	write("counters/a/shards/0", nil)
	write("posts/a/likes/ann", map[string]*firestoredata.Value{"n": integer})
	write("counters/a/shards/1", map[string]*firestoredata.Value{"n": integer, "m": integer})
	write("counters/b/shards/1", map[string]*firestoredata.Value{"n": integer, "m": integer})
	write("counters/a/shards/2", map[string]*firestoredata.Value{"tally": integer}) // no route may sum it

	h.uncovered(routes, "a/1/a/2/shards/3", []string{"n"})
	h.uncovered(routes, "a/2/a/3/shards/4", []string{"n"})
	h.uncovered(routes, "posts/7/shards/0", []string{"likes"}) // its roll-up would be another's

	rules := "rules_version = '2';\n  allow write: if false;\n"
	for _, r := range []emulator.Refusal{
		{Method: "update", Database: "(default)", Path: "a/1", Lines: []int{2}, Rules: rules},
		{Method: "update", Database: "(default)", Path: "a/2", Lines: []int{2}, Rules: rules},
		{Method: "update", Database: "other", Path: "a/\n", User: "ann", Lines: []int{2, 9}, Rules: rules},
		{Method: "list", Database: "(default)", Path: "a/*"},
	} {
		h.refused("my.rules", r)
	}
	want := []string{
		"counters/a/shards/1 has m, n, not count; to sum it, the route is counters/{counter}/shards/{shard} -> rollups/{counter} : m, n",
		"counters/a/shards/2 has tally, not count",
		"no route covers a/1/a/2/shards/3, which looks like a shard; to sum it, add the route a/{a}/a/{a2}/shards/{shard} -> a_totals/{a}/a/{a2} : n",
		"no route covers posts/7/shards/0, which looks like a shard",
		"refused: update of a/1 by nobody signed in; my.rules line 2: allow write: if false;",
		"refused: update of other: a/\\u000a by user ann; my.rules line 2: allow write: if false;, line 9",
		"refused: list of a/* by nobody signed in; no rule of my.rules allows it",
	}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Errorf("said (-want +got):\n%s", diff)
	}
}

func TestAddOne(t *testing.T) {
	for _, test := range []struct{ routes, database, want string }{
		{rollup.DefaultRoute, "(default)", "go run ./cmd/tally create counters/my-counter &&\n  go run ./cmd/tally increment counters/my-counter"},
		{"a/{b}/c/{d} -> a/{b} : count() : existing", "(default)", ""},
		{"a/{b}/c/{d} -> a/{b} : count() : existing; a/{e f}/it's/{d} -> t/{e f} : n, m", "other",
			`go run ./cmd/tally create 'a/my-e f/it'\''s' --database other &&` + "\n  " + `go run ./cmd/tally increment 'a/my-e f/it'\''s' --database other --total n`},
		{"shards/{shard} -> totals/all : n", "(default)", "go run ./cmd/tally create shards &&\n  go run ./cmd/tally increment shards"},
	} {
		if got := addOne(parsed(t, test.routes), test.database); got != test.want {
			t.Errorf("%s: got %s, want %s", test.routes, got, test.want)
		}
	}
}
