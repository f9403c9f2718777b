package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/firestore-tally/tally/internal/emulator"
	"github.com/firestore-tally/tally/rollup"
	"github.com/google/go-cmp/cmp"
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
	h := hints{file: "my.rules", rules: strings.Split("rules_version = '2';\n  allow write: if false;\n", "\n"), say: func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }}
	h.routes = parsed(t, rollup.DefaultRoute+"; posts/{p}/likes/{l} -> post_totals/{p} : count() as likes; a/{a}/s/{s} -> a/{a} : n : documents : existing : every 1h")
	for _, doc := range []struct {
		path   string
		fields map[string]any
	}{
		{"counters/a/shards/0", map[string]any{"count": "x", "Count": int64(1)}}, // the log says what is malformed
		{"counters/a/shards/0", map[string]any{"name": "x"}},
		{"counters/a/shards/0", nil},
		{"posts/a/likes/ann", map[string]any{"n": int64(1)}},
		{"counters/a/shards/1", map[string]any{"n": int64(1), "m": 0.5, "name": "x"}},
		{"counters/b/shards/1", map[string]any{"n": int64(1), "m": 0.5}},
		{"counters/a/shards/2", map[string]any{"tally": int64(1)}}, // no route may sum it
		{"a/1/s/0", map[string]any{"N": int64(1)}},

		{"a/1/a/2/shards/3", map[string]any{"n": int64(1)}},
		{"a/2/a/3/shards/4", map[string]any{"n": int64(1)}},
		{"posts/7/shards/0", map[string]any{"likes": int64(1)}}, // its roll-up would be another's
		{"own/0", map[string]any{"n": int64(1)}},
		{"posts/7/notes/1", map[string]any{"text": "one", "n": int64(1)}},
		{"Shards/likes", map[string]any{"num_shards": int64(1)}},
		{"Shards/x", map[string]any{"n": int64(1)}},
		{"my shards/x", map[string]any{"a, b": int64(1), "n": int64(1)}},
		{"counters/a/shards/3", map[string]any{"the rest": int64(1)}},
	} {
		h.document(doc.path, doc.fields)
	}

	for _, r := range []emulator.Refusal{
		{Method: "update", Database: "(default)", Path: "a/1", Lines: []int{2}},
		{Method: "update", Database: "(default)", Path: "a/2", Lines: []int{2}},
		{Method: "update", Database: "other", Path: "a/\n", User: "ann", Lines: []int{2, 9}},
		{Method: "list", Database: "(default)", Path: "a/*"},
	} {
		h.refused(r)
	}
	want := []string{
		"counters/a/shards/1 has m, n, not count; to sum it, the route is counters/{counter}/shards/{shard} -> rollups/{counter} : m, n",
		"counters/a/shards/2 has tally, not count",
		"a/1/s/0 has N, not n; to sum it, the route is a/{a}/s/{s} -> a/{a} : N : documents : existing : every 1h0m0s",
		"no route covers a/1/a/2/shards/3, which looks like a shard; to sum it, add the route a/{a}/a/{a2}/shards/{shard} -> a_totals/{a}/a/{a2} : n",
		"no route covers posts/7/shards/0, which looks like a shard",
		"no route covers Shards/x, which looks like a shard; to sum it, add the route Shards/{Shard} -> totals/Shards : n",
		"no route covers my shards/x, which looks like a shard; to sum it, add the route `my shards`/{`my shard`} -> totals/`my shards` : `a, b`, n",
		"counters/a/shards/3 has the rest, not count; to sum it, the route is counters/{counter}/shards/{shard} -> rollups/{counter} : `the rest`",
		"refused: update of a/1 by nobody signed in; my.rules line 2: allow write: if false;",
		"refused: update of a/2 by nobody signed in; my.rules line 2: allow write: if false;",
		"refused: update of other: a/\\u000a by user ann; my.rules line 2: allow write: if false;, line 9",
		"refused: list of a/* by nobody signed in; no rule of my.rules allows it",
	}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Errorf("said (-want +got):\n%s", diff)
	}
}

func TestAddOne(t *testing.T) {
	for _, test := range []struct{ routes, database, want string }{
		{rollup.DefaultRoute, "(default)", "TALLY create counters/my-counter &&\n  TALLY increment counters/my-counter"},
		{"a/{b}/c/{d} -> a/{b} : count() : existing", "(default)", ""},
		{"a/{b}/c/{d} -> a/{b} : count() : existing; a/{`e f`}/`it's`/{d} -> t/{`e f`} : n, m", "other",
			`TALLY create 'a/my-e f/it'\''s' --database other &&` + "\n  " + `TALLY increment 'a/my-e f/it'\''s' --database other --total n`},
		{"shards/{shard} -> totals/all : n", "(default)", "TALLY create shards &&\n  TALLY increment shards"},
	} {
		want := strings.ReplaceAll(test.want, "TALLY", os.Args[0])
		if got := addOne(parsed(t, test.routes), test.database); got != want {
			t.Errorf("%s: got %s, want %s", test.routes, got, want)
		}
	}
}
