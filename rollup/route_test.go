package rollup_test

import (
	"strings"
	"testing"

	"github.com/firestore-tally/tally/rollup"
	"github.com/google/go-cmp/cmp"
)

func TestMatch(t *testing.T) {
	routes, err := rollup.ParseRoutes(`
		counters/{counter}/shards/{shard}           -> rollups/{counter} : count
		posts/{post}/counters/{name}/shards/{shard} -> posts/{post}/rollups/{name} : likes, views
		samples/php/distributedCounters/{shard}     -> php_rollups/total : Cnt : every 10m : documents; shards/{shard} -> rollups_of/shards : count
	`)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		path   string
		rollUp string // "" means no match
		shards string
		fields string
		option string
	}{
		{"counters/likes/shards/0", "rollups/likes", "counters/likes/shards", "count", ""},
		{"counters/größe 三/shards/٣", "rollups/größe 三", "counters/größe 三/shards", "count", ""},
		{"counters/{counter}/shards/{shard}", "rollups/{counter}", "counters/{counter}/shards", "count", ""},
		{"posts/p/counters/c/shards/9", "posts/p/rollups/c", "posts/p/counters/c/shards", "likes, views", ""},
		{"samples/php/distributedCounters/3", "php_rollups/total", "samples/php/distributedCounters", "Cnt", "documents every 10m0s"},
		{"shards/x", "rollups_of/shards", "shards", "count", ""},
		{path: "counters/likes"},
		{path: "counters/likes/shards"},
		{path: "counters/likes/shards/"},
		{path: "counters//shards/0"},
		{path: "counters/likes/shards/0/more/1"},
		{path: "counters/likes/Shards/0"},
		{path: "rollups/likes"},
		{path: "/counters/likes/shards/0"},
		{path: ""},
		{path: "/"},
	} {
		c, ok := routes.Match(test.path)
		if ok != (test.rollUp != "") {
			t.Errorf("Match(%q): matched %v", test.path, ok)
			continue
		}
		if !ok {
			continue
		}
		option := ""
		if c.Route.Documents {
			option = "documents every " + c.Route.Every.String()
		}
		got := []string{c.RollUp, c.Shards, strings.Join(c.Route.Fields, ", "), option}
		if d := cmp.Diff([]string{test.rollUp, test.shards, test.fields, test.option}, got); d != "" {
			t.Errorf("Match(%q) (-want +got):\n%s", test.path, d)
		}
		if back, ok := c.Route.CounterOfRollUp(c.RollUp); !ok || back != c {
			t.Errorf("CounterOfRollUp(%q) = %+v, %v; want the counter", c.RollUp, back, ok)
		}
		if _, ok := c.Route.CounterOfRollUp(c.RollUp + "/more/1"); ok {
			t.Errorf("CounterOfRollUp matched a longer path")
		}
	}
}

func TestRefusedRoutes(t *testing.T) {
	const base = "counters/{c}/shards/{s} -> rollups/{c} : count"
	for _, test := range []struct {
		name   string
		routes string
		want   string // part of the message
	}{
		{"nothing", " \n ; ", "no route given"},
		{"no arrow", "counters/{c}/shards/{s}", "want <shard path pattern> -> "},
		{"no fields", "counters/{c}/shards/{s} -> rollups/{c}", "want <shard path pattern> -> "},
		{"unknown option", base + " : documents : more", `unknown option "more"; want documents, or every`},
		{"option twice", base + " : documents : every 1s : documents", "the option documents is given twice"},
		{"empty option", base + " : ", "an option is empty"},
		{"option with a word too many", base + " : documents now", `unknown option "documents now"`},
		{"every without a duration", base + " : every", `unknown option "every"; want documents, or every and a duration such as 10s`},
		{"every of no duration", base + " : every day", `"every day": want a duration of at least 1s`},
		{"every too often", base + " : every 999ms", `"every 999ms": want a duration of at least 1s`},
		{"pattern of a collection", "counters/{c}/shards -> rollups/{c} : count", "names a collection"},
		{"template of a collection", "counters/{c}/shards/{s} -> rollups/{c}/x : count", "names a collection"},
		{"empty segment", "counters//shards/{s} -> rollups/x : count", "segment 2 is empty"},
		{"reserved id", "counters/__c__/shards/{s} -> rollups/x : count", "reserves names"},
		{"dot", "counters/./shards/{s} -> rollups/x : count", "does not allow"},
		{"long id", "counters/" + strings.Repeat("x", 1501) + "/shards/{s} -> rollups/x : count", "longer than 1500 bytes"},
		{"not UTF-8", "counters/\xff/shards/{s} -> rollups/x : count", "not valid UTF-8"},
		{"part of a segment", "counters/c{c}/shards/{s} -> rollups/{c} : count", "one whole segment"},
		{"many segments", "counters/{c=**}/shards/{s} -> rollups/{c} : count", "one whole segment"},
		{"captured collection", "{all}/{c}/shards/{s} -> rollups/{all}/of/{c} : count", "only document ids"},
		{"captured twice", "counters/{c}/of/{c}/shards/{s} -> rollups/{c} : count", "captures {c} twice"},
		{"literal shard", "counters/{c}/shards/0 -> rollups/{c} : count", "must capture the shard"},
		{"the shard's capture used", "counters/{c}/shards/{s} -> rollups/{c}/by/{s} : count", "uses the shard's capture {s}"},
		{"a capture not used", "a/{a}/b/{b}/shards/{s} -> rollups/{b} : count", "does not use {a}"},
		{"an unknown capture", "counters/{c}/shards/{s} -> rollups/{x} : count", "uses {x}, which"},
		{"tally", "counters/{c}/shards/{s} -> rollups/{c} : count, tally", `the field "tally" is one that Tally itself writes`},
		{"field twice", "counters/{c}/shards/{s} -> rollups/{c} : count, count", `the field "count" is named twice`},
		{"empty field", "counters/{c}/shards/{s} -> rollups/{c} : count, ", "a field's name is empty"},
		{"nested field", "counters/{c}/shards/{s} -> rollups/{c} : stats.likes", "top-level field"},
		{"one template", base + "\nx/{x}/shards/{s} -> rollups/{x} : n", "could be one document; give each route roll-ups of its own"},
		{"templates that may meet", base + "\nx/y/shards/{s} -> rollups/y : n", "could be one document; give each route roll-ups of its own"},
		{"template is a shard", "counters/{c}/shards/{s} -> counters/{c}/shards/total : count", "matches the shard pattern"},
		{"template is another's shard", base + "\nx/{x}/shards/{s} -> counters/all/shards/{x} : n", "matches the shard pattern"},
		{"captured collection of roll-ups", "counters/{c}/shards/{s} -> totals/of/{c}/total : count", "the roll-up path captures a collection's name, {c}"},
		{"the audit's path is a shard", "rollup_audit/{s} -> rollups/audit : count", "which Tally writes itself"},
		{"roll-up on the audit's path", "counters/x/shards/{s} -> rollup_audit/cursor : count", "where Tally keeps"},
		{"roll-up on the counter document", "counters/{c}/shards/{s} -> counters/{c} : count", "is the counter document of route"},
		{"roll-up on another's counter document", base + "\nx/{x}/shards/{s} -> counters/{x} : n", "is the counter document of route"},
		{"patterns that match one document", base + "\ncounters/x/shards/{s} -> other/x : count", "its shards and those of route"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := rollup.ParseRoutes(test.routes)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}

// Every problem is reported at once, each by its route.
func TestAllProblemsAreReported(t *testing.T) {
	_, err := rollup.ParseRoutes("a/{a}/s/{s} -> r/x : n\nb -> c : n\nc/{c}/s/{s} -> r/{c} : tally")
	for _, want := range []string{`route "a/{a}/s/{s} -> r/x : n"`, `route "b -> c : n"`, `route "c/{c}/s/{s} -> r/{c} : tally"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want also %q", err, want)
		}
	}
}

// The hash is of what makes the totals, not of names of captures, order of fields or options.
func TestHash(t *testing.T) {
	hash := func(text string) string {
		t.Helper()
		routes, err := rollup.ParseRoutes(text)
		if err != nil {
			t.Fatal(err)
		}
		return routes[0].Hash()
	}
	base := hash("a/{a}/b/{b}/s/{s} -> r/{b}/of/{a} : likes, views")
	for _, same := range []string{
		"a/{x}/b/{y}/s/{z} -> r/{y}/of/{x} : likes, views",
		"a/{a}/b/{b}/s/{s} -> r/{b}/of/{a} : views, likes : every 10s : documents",
	} {
		if hash(same) != base {
			t.Errorf("%s: another hash", same)
		}
	}
	seen := map[string]string{base: "the base"}
	for _, other := range []string{
		"a/{a}/b/{b}/s/{s} -> r/{a}/of/{b} : likes, views",
		"a/{a}/b/{b}/s/{s} -> r/{b}/of/{a} : likes",
		"a/{a}/b/{b}/s/{s} -> r/{b}/of/{a} : likes, views, x",
		"a/{a}/b/{b}/t/{s} -> r/{b}/of/{a} : likes, views",
		"a/{a}/b/x/s/{s} -> r/x/of/{a} : likes, views",
		"a/{a}/b/{b}/s/{s} -> q/{b}/of/{a} : likes, views",
	} {
		if text, ok := seen[hash(other)]; ok {
			t.Errorf("%s has the hash of %s", other, text)
		}
		seen[hash(other)] = other
	}
}

// FuzzParseRoutes: no text crashes the parser, and what it accepts it accepts again as it prints
// it.
func FuzzParseRoutes(f *testing.F) {
	f.Add(rollup.DefaultRoute)
	f.Add("posts/{post}/counters/{name}/shards/{shard} -> posts/{post}/rollups/{name} : likes, views : documents")
	f.Add("a/{b}/c/{d} -> {b}/e : f;g/{h} -> i/j : k")
	f.Add("a/{a}/s/{s} -> r/{a} : ->")
	f.Add("a/{->}/s/{s} -> r/{->} : n")
	f.Add(" a / {a}/s/{s}->r/{a}:n\u00a0, m : every 10m\r\n\t;;")
	f.Add("s/{s} -> r/x : documents : documents")
	f.Fuzz(func(t *testing.T, text string) {
		routes, err := rollup.ParseRoutes(text)
		if err != nil {
			return
		}
		var lines []string
		for _, r := range routes {
			lines = append(lines, r.String())
		}
		again, err := rollup.ParseRoutes(strings.Join(lines, "\n"))
		if err != nil || len(again) != len(routes) {
			t.Fatalf("%q printed as %q: %v", text, lines, err)
		}
		for i, r := range again {
			if r.String() != lines[i] {
				t.Errorf("%q printed as %q", lines[i], r)
			}
		}
	})
}

// FuzzMatch: a document belongs to at most one route, and its roll-up leads back to its counter.
func FuzzMatch(f *testing.F) {
	routes, err := rollup.ParseRoutes("counters/{c}/shards/{s} -> rollups/{c} : n; posts/{p}/counters/{c}/shards/{s} -> posts/{p}/rollups/{c} : n; shards/{s} -> all/shards : n")
	if err != nil {
		f.Fatal(err)
	}
	f.Add("counters/a/shards/0")
	f.Add("posts/p/counters/a/shards/0")
	f.Add("shards/0")
	f.Add("shards/shards/0")
	f.Add("counters//shards/0")
	f.Add("counters/\xff/shards/\x00")
	f.Add("posts/counters/counters/shards/shards/ ")
	f.Fuzz(func(t *testing.T, path string) {
		c, ok := routes.Match(path)
		if !ok {
			return
		}
		if !strings.HasPrefix(path, c.Shards+"/") {
			t.Errorf("%q is no shard of %q", path, c.Shards)
		}
		if back, ok := c.Route.CounterOfRollUp(c.RollUp); !ok || back != c {
			t.Errorf("%q: the roll-up %q leads to %+v, not %+v", path, c.RollUp, back, c)
		}
		for _, other := range routes {
			if other == c.Route {
				continue
			}
			if _, ok := other.Counter(c.Shards); ok {
				t.Errorf("%q belongs to two routes", path)
			}
		}
	})
}

// FuzzPaths: whatever the routes, a shard belongs to the counter of the route whose pattern it was
// made from, the roll-up leads back to that counter and to none of another route, and is no shard
// itself.
func FuzzPaths(f *testing.F) {
	f.Add(rollup.DefaultRoute, "likes", "0", "")
	f.Add("posts/{post}/counters/{name}/shards/{shard} -> posts/{post}/rollups/{name} : likes, views", "größe 三", "{name}", "%2F")
	f.Add("a/{b}/c/{d} -> {b}/e : f;g/{h} -> i/j : k", "a", "..", "\xff")
	f.Add("a/{b}/c/{d}/s/{s} -> r/{d}/of/{b}/by/{d} : n", "1", "2", "1")
	f.Add("s/{s} -> s/x/r/y : n\ns/x/s/{s} -> r/{y} : n", "x", "s", "s/x")
	f.Fuzz(func(t *testing.T, text, id0, id1, id2 string) {
		routes, err := rollup.ParseRoutes(text)
		if err != nil {
			return
		}
		ids := []string{id0, id1, id2}
		for _, id := range ids {
			if id == "" || strings.Contains(id, "/") {
				return // no id of a document
			}
		}
		for _, r := range routes {
			var path []string
			for i, segment := range r.Pattern() {
				if segment.Capture {
					segment.Name = ids[i/2%len(ids)]
				}
				path = append(path, segment.Name)
			}
			shard := strings.Join(path, "/")
			c, ok := routes.Match(shard)
			if !ok || c.Route != r || c.Shards != strings.Join(path[:len(path)-1], "/") {
				t.Fatalf("%q of route %q matched %+v, %v", shard, r, c, ok)
			}
			if back, ok := r.CounterOfRollUp(c.RollUp); !ok || back != c {
				t.Errorf("%q: the roll-up %q leads to %+v, not %+v", shard, c.RollUp, back, c)
			}
			for _, other := range routes {
				if of, ok := other.CounterOfRollUp(c.RollUp); ok && other != r {
					t.Errorf("%q: the roll-up %q is also that of %+v", shard, c.RollUp, of)
				}
			}
			if of, ok := routes.Match(c.RollUp); ok {
				t.Errorf("%q: the roll-up %q is a shard of %+v", shard, c.RollUp, of)
			}
		}
	})
}

func TestRoutesAtTheEdge(t *testing.T) {
	for name, test := range map[string]struct{ routes, want string }{
		"earlier template is a later shard": {"x/{x}/shards/{s} -> counters/all/shards/{x} : n\ncounters/{c}/shards/{s} -> rollups/{c} : count", "matches the shard pattern"},
		"a literal does not use a capture":  {"counters/{c}/shards/{s} -> rollups/c : count", "does not use {c}"},
		"two dots":                          {"counters/../shards/{s} -> rollups/x : count", "does not allow"},
		"half a capture":                    {"counters/{c/shards/{s} -> rollups/x : count", "one whole segment"},
		"the other half":                    {"counters/c}/shards/{s} -> rollups/x : count", "one whole segment"},
		"no capture's name":                 {"counters/{}/shards/{s} -> rollups/x : count", "one whole segment"},
		"a field's slash":                   {"counters/{c}/shards/{s} -> rollups/{c} : a/b", "top-level field"},
		"conflicts beside a parse error":    {"b -> c : n; a/{a}/s/{s} -> r/{a} : n; b/{b}/s/{s} -> r/{b} : n", "could be one document"},
	} {
		if _, err := rollup.ParseRoutes(test.routes); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, test.want)
		}
	}
	for _, ok := range []string{
		"counters/{c}/shards/{s} -> s/{c} : count",
		"counters/" + strings.Repeat("x", 1500) + "/shards/{s} -> rollups/x : count",
		"counters/__/shards/{s} -> rollups/___ : count",
		"counters/{c}/shards/{s} -> rollups/{c} : count : documents",
	} {
		r, err := rollup.ParseRoutes(ok)
		if err != nil || r[0].String() != ok {
			t.Errorf("%v, printed %v", err, r)
		}
	}
	r, _ := rollup.ParseRoutes("a/{a}/s/{s} -> r/{a}/of/{a} : n")
	for _, path := range []string{"r/1/of/2", "q/1/of/1", "r/1/by/1"} {
		if c, ok := r[0].CounterOfRollUp(path); ok {
			t.Errorf("%s is taken for a roll-up of %v", path, c)
		}
	}
}
