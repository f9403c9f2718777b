package route_test

import (
	"fmt"
	"maps"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
)

// match returns the counter to which the document at path belongs by its path alone, and the first
// route that says so.
func match(routes route.Routes, path string) (route.Counter, *route.Route, bool) {
	for _, r := range routes {
		c, ok := r.Belongs(path, nil)
		if ok {
			return c, r, true
		}
	}
	return route.Counter{}, nil, false
}

func TestMatch(t *testing.T) {
	routes, err := route.Parse(`
		counters/{counter}/shards/{shard}           -> rollups/{counter} : count
		posts/{post}/counters/{name}/shards/{shard} -> posts/{post}/rollups/{name} : likes, views
		posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing
		posts/{p}/ratings/{user} -> posts/{p} : count(), sum(stars) as stars, ` + "`the rest`" + ` as rest : existing
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
		{"posts/7/likes/ann", "posts/7", "posts/7/likes", "count() as likes", "existing"},
		{"posts/7/ratings/ann", "posts/7", "posts/7/ratings", "count(), stars, `the rest` as rest", "existing"},
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
		c, r, ok := match(routes, test.path)
		if ok != (test.rollUp != "") {
			t.Errorf("Match(%q): matched %v", test.path, ok)
			continue
		}
		if !ok {
			continue
		}
		option := ""
		if r.Documents {
			option = "documents every " + c.Template.Every.String()
		}
		if c.Template.Existing {
			option = "existing"
		}
		var totals []string
		for _, total := range r.Totals {
			totals = append(totals, total.String())
		}
		got := []string{c.RollUp, r.Shards(c), strings.Join(totals, ", "), option}
		if d := cmp.Diff([]string{test.rollUp, test.shards, test.fields, test.option}, got); d != "" {
			t.Errorf("Match(%q) (-want +got):\n%s", test.path, d)
		}
		if back, ok := c.Template.Counter(c.RollUp); !ok || back != c {
			t.Errorf("Counter(%q) = %+v, %v; want the counter", c.RollUp, back, ok)
		}
		if _, ok := c.Template.Counter(c.RollUp + "/more/1"); ok {
			t.Errorf("Counter matched a longer path")
		}
	}
}

// What is refused, and with which mistakes, is in testdata/refused.txt. Below the routes, for each
// mistake, stand its short text and its sentence, which package mistakes tests.
func TestRefusedRoutes(t *testing.T) {
	text, err := os.ReadFile("testdata/refused.txt")
	if err != nil {
		t.Fatal(err)
	}
	for block := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		var routes string
		var want []string
		for line := range strings.SplitSeq(block, "\n") {
			short, isShort := strings.CutPrefix(line, "  short: ")
			switch {
			case isShort:
				want = append(want, short)
			case !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, " "):
				routes = line
			}
		}
		got := refused(routes)
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", routes, got, want)
		}
	}
}

// refused returns the short texts of the mistakes for which routes are refused, without the places.
func refused(text string) (all []string) {
	_, err := route.Parse(text)
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range joined.Unwrap() {
			short, _, _ := strings.Cut(err.Error(), "\n")
			all = append(all, short)
		}
	}
	return all
}

// Some texts are too long for that table, or have characters that do not print.
func TestRefusedTexts(t *testing.T) {
	const base = "counters/{c}/shards/{s} -> rollups/{c} : count"
	for text, want := range map[string]string{
		base + `, count() where x == "` + strings.Repeat("é", 750) + `" as n`:        "text too long: 1500 1499",
		base + ", count() where x == \"a\xff\" as n":                                 "text that is not UTF-8",
		"counters/" + strings.Repeat("x", 1501) + "/shards/{s} -> rollups/x : count": "unusable segment: 2 is longer than 1500 bytes, Firestore's limit",
		"counters/\xff/shards/{s} -> rollups/x : count":                              "not UTF-8",
		"counters/`a\tb`/shards/{s} -> rollups/x : count":                            "control character in a name",
		strings.Repeat("a/b/", 100) + "s/{s} -> rollups/x : count":                   "too many segments: 202 200",
	} {
		got := refused(text)
		if !slices.Equal(got, []string{want}) {
			t.Errorf("%.60q: got %q, want %q", text, got, want)
		}
	}
	_, err := route.Parse(" \n ; ")
	if err == nil || !strings.Contains(err.Error(), "no route given") {
		t.Errorf("no routes: %v", err)
	}
}

// "as" stands between spaces of any kind, and as a name in backticks.
func TestAs(t *testing.T) {
	for text, want := range map[string]route.Total{
		"count()":                  {Aggregate: route.Count, Name: "count"},
		"count":                    {Aggregate: route.Sum, Field: document.FieldOf("count"), Name: "count"},
		"`as`":                     {Aggregate: route.Sum, Field: document.FieldOf("as"), Name: "as"},
		"`a as b` as c":            {Aggregate: route.Sum, Field: document.FieldOf("a as b"), Name: "c"},
		"`as` as `as`":             {Aggregate: route.Sum, Field: document.FieldOf("as"), Name: "as"},
		"stars as `as`":            {Aggregate: route.Sum, Field: document.FieldOf("stars"), Name: "as"},
		"stars as AS":              {Aggregate: route.Sum, Field: document.FieldOf("stars"), Name: "AS"},
		"stars  as  n":             {Aggregate: route.Sum, Field: document.FieldOf("stars"), Name: "n"},
		"stars\tas\tn":             {Aggregate: route.Sum, Field: document.FieldOf("stars"), Name: "n"},
		"stars as\n\tn":            {Aggregate: route.Sum, Field: document.FieldOf("stars"), Name: "n"},
		"count()\u00a0as\u00a0n":   {Aggregate: route.Count, Name: "n"},
		" `the  rest`as\u2003n ":   {Aggregate: route.Sum, Field: document.FieldOf("the  rest"), Name: "n"},
		"sum(stars) as n":          {Aggregate: route.Sum, Field: document.FieldOf("stars"), Name: "n"},
		"sum( `the  rest` )as n":   {Aggregate: route.Sum, Field: document.FieldOf("the  rest"), Name: "n"},
		"stars as stars":           {Aggregate: route.Sum, Field: document.FieldOf("stars"), Name: "stars"},
		"größe as 大きさ":             {Aggregate: route.Sum, Field: document.FieldOf("größe"), Name: "大きさ"},
		"count() as count, x as n": {Aggregate: route.Count, Name: "count"},
		"`count` as n":             {Aggregate: route.Sum, Field: document.FieldOf("count"), Name: "n"},
	} {
		routes, err := route.Parse("s/{s} -> r/x : " + text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
		} else if got := routes[0].Totals[0]; !reflect.DeepEqual(got, want) {
			t.Errorf("%q is taken for %+v, want %+v", text, got, want)
		}
	}
}

// Every problem is reported at once, each by its route.
func TestAllProblemsAreReported(t *testing.T) {
	_, err := route.Parse("a/{a}/s/{s} -> r/x : n\nb -> c : n\nc/{c}/s/{s} -> r/{c} : tally")
	const want = `capture that the template lacks: {a} a/{a}/s/{s} []
  a/{a}/s/{s} -> r/x : n
    ^
path of a collection: b 1
  b -> c : n
  ^
total with the name of Tally's own field: tally
  c/{c}/s/{s} -> r/{c} : tally
                         ^`
	if d := cmp.Diff(want, fmt.Sprint(err)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// The hash is of what makes the totals, not of names of captures, order of fields or options.
func TestHash(t *testing.T) {
	hash := func(text string) string {
		t.Helper()
		routes, err := route.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return routes[0].Template.Hash()
	}
	base := hash("a/{a}/b/{b}/s/{s} -> r/{b}/of/{a} : likes, views")
	for _, same := range []string{
		"a/{x}/b/{y}/s/{z} -> r/{y}/of/{x} : likes, views",
		"a/{a}/b/{b}/s/{s} -> r/{b}/of/{a} : views, likes : every 10s : documents",
		"a/{a}/b/{b}/s/{s} -> r/{b}/of/{a} : views as views, likes : existing",
		"a/{a}/b/{b}/s/{s} -> r/{b}/of/{a} : likes, views : cadence 10s",
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
		"a/{a}/b/{b}/s/{s} -> r/{b}/of/{a} : likes, views as seen",
		"a/{a}/b/{b}/s/{s} -> r/{b}/of/{a} : likes, seen as views",
		"a/{a}/b/{b}/s/{s} -> r/{b}/of/{a} : likes, count() as views",
		"a/{a}/b/{b}/s/{s} -> r/{b}/of/{a} : likes, average(views) as views",
		"a/{a}/b/{b}/s/{s} -> r/{b}/of/{a} : likes, views where ok == true as views",
		"a/{a}/b/{b}/s/{s} -> r/{b}/of/{a} : likes, views where ok == false as views",
		"a/{a}/b/{b}/s/{s} -> r/{b}/of/{a} : likes, views where ok == true and kind == 1 as views",
		"a/{a}/b/{b}/s/{s} -> r/{b}/of/{a} : likes, views where ok == true and kind == 2 as views",
		"a/{a}/b/{b}/s/{s} -> r/{b}/of/{a} : likes as views, views as likes",
		"a/{a}/b/{b}/s/{s} -> r/{b}/of/{a} : likes\na/{a}/c/{b}/s/{s} -> r/{b}/of/{a} : views",
		"a/{a}/b/{b}/s/{s} -> r/{b}/of/{a} : likes\na/{a}/c/{b}/s/{s} -> r/{a}/of/{b} : views",
		"s/{s} by shop -> r/{shop} : likes, views : existing",
		"s/{s} by home -> r/{home} : likes, views : existing",
	} {
		if text, ok := seen[hash(other)]; ok {
			t.Errorf("%s has the hash of %s", other, text)
		}
		seen[hash(other)] = other
	}
}

// Routes whose templates differ only in the names of captures share one, whose hash is the same in
// whatever order they come.
func TestTemplate(t *testing.T) {
	const likes, comments, other = "posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing", "posts/{p}/comments/{c} -> posts/{p} : count() as comments, words : existing",
		"x/{x}/y/{y} -> posts/{x}/of/{x} : n"
	parse := func(text ...string) route.Routes {
		t.Helper()
		routes, err := route.Parse(strings.Join(text, "\n"))
		if err != nil {
			t.Fatal(err)
		}
		return routes
	}
	one, back := parse(likes, other, comments), parse(comments, likes)
	if one[0].Template != one[2].Template || one[0].Template == one[1].Template || len(one.Templates()) != 2 || one[0].Template.Hash() != back[0].Template.Hash() ||
		one[0].Template.Hash() == parse(likes)[0].Template.Hash() {
		t.Errorf("%v are of the templates %v", one, one.Templates())
	}
	if got, want := one[0].Template.Totals(), []string{"comments", "likes", "words"}; !slices.Equal(got, want) {
		t.Errorf("totals %v, want %v", got, want)
	}
	c, _ := one[0].Template.Counter("posts/7")
	if got := one[0].Shards(c) + " " + one[2].Shards(c); got != "posts/7/likes posts/7/comments" {
		t.Errorf("posts/7 has the sources %s", got)
	}
	for _, bad := range []string{"posts/7/of/8", "posts/7/of", "posts/7/by/7"} {
		if c, ok := one[1].Template.Counter(bad); ok {
			t.Errorf("%s is taken for %v", bad, c)
		}
	}
}

func TestRoutesAtTheEdge(t *testing.T) {
	for _, ok := range []string{
		"counters/{c}/shards/{s} -> s/{c} : count",
		"counters/" + strings.Repeat("x", 1500) + "/shards/{s} -> rollups/x : count",
		"counters/__/shards/{s} -> rollups/___ : count",
		"counters/{c}/shards/{s} -> rollups/{c} : count : documents",
		"a/{a} -> r/all : count()",
		"a/{a}/s/{s} -> r/{a} : `as` as of, `the as` as n, count() as m, count : existing : every 1m0s",
		"a/{a}/s/{s} -> r/{a} : count : existing : cadence 10s",
		"a/`b; c -> d : e, \"f\"`/s/{`my s`} -> `r\\``/`by` : n",
		"counters/{c}/shards/{s} -> counters/{c} : count : existing",
	} {
		r, err := route.Parse(ok)
		if err != nil || r[0].String() != ok {
			t.Errorf("%v, printed %v", err, r)
		}
	}
	r, _ := route.Parse("a/{a}/s/{s} -> r/{a}/of/{a} : n")
	for _, path := range []string{"r/1/of/2", "q/1/of/1", "r/1/by/1"} {
		if c, ok := r[0].Template.Counter(path); ok {
			t.Errorf("%s is taken for a roll-up of %v", path, c)
		}
	}
}

// One document may be in several counters: by routes of one pattern, which share a trigger.
func TestRoutesOfOnePattern(t *testing.T) {
	routes, err := route.Parse(`
		orders/{order} by shop -> shops/{shop} : count() as orders : existing
		orders/{o} by buyer.id -> users/{buyer.id} : count() as bought : existing
		orders/{o} by seller -> users/{seller} : count() as sold : existing
		orders/{o} -> totals/orders : count()
		orders/{o} -> totals/amounts : count() as n, sum(amount) where kind == "x" and paid == true as paid`)
	if err != nil {
		t.Fatal(err)
	}

	before := map[string]any{"shop": "a", "buyer": map[string]any{"id": "ann"}, "seller": "bob", "note": "x", "kind": "x", "paid": true, "amount": int64(5)}
	changed := func(field string, value any) map[string]any {
		after := maps.Clone(before)
		after[field] = value
		return after
	}
	moved := changed("shop", "b")
	moved["seller"] = "ann"
	strange := map[string]any{"shop": int64(7), "buyer": "ann", "seller": "no/id", "kind": "x", "paid": true, "amount": int64(5)}

	all := []string{"shops/a", "users/ann", "users/bob", "totals/orders", "totals/amounts"}
	some := []string{"shops/a: unchanged", "users/ann: unchanged", "users/bob: unchanged", "totals/orders: unchanged", "totals/amounts"}
	for _, test := range []struct {
		name          string
		before, after map[string]any
		want          []string
	}{
		{"created", nil, before, all},
		{"deleted", before, nil, all},
		{"moved", before, moved, []string{"shops/a", "shops/b", "users/ann", "users/bob", "totals/orders: unchanged", "totals/amounts: unchanged"}},
		{"unchanged", before, changed("note", "y"), []string{"shops/a: unchanged", "users/ann: unchanged", "users/bob: unchanged", "totals/orders: unchanged", "totals/amounts: unchanged"}},
		{"another amount", before, changed("amount", int64(6)), some},
		{"another by the first condition", before, changed("kind", "y"), some},
		{"another by the second condition", before, changed("paid", false), some},
		{"in no group", nil, strange, []string{"totals/orders", "totals/amounts"}},
		{"in no group any more", before, strange, []string{"shops/a", "users/ann", "users/bob", "totals/orders: unchanged", "totals/amounts: unchanged"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			source, covered := routes.Source("orders/1")
			if !covered {
				t.Error("no route covers it")
			}
			var got []string
			for _, c := range source.Concerned(write{"orders/1", test.before, test.after}) {
				name := c.RollUp
				if c.Unchanged {
					name += ": unchanged"
				}
				got = append(got, name)
			}
			if d := cmp.Diff(test.want, got); d != "" {
				t.Errorf("concerns (-want +got):\n%s", d)
			}
		})
	}

	if d := cmp.Diff([]document.Field{"shop", "buyer.id", "seller"}, routes.Keys("orders/1")); d != "" {
		t.Errorf("fields of groups (-want +got):\n%s", d)
	}
	if _, covered := routes.Source("shops/a"); covered || routes.Keys("shops/a") != nil {
		t.Error("a roll-up is covered")
	}
}

// A write is a document at a path before and after it was written; nil: there is none.
type write struct {
	path          string
	before, after map[string]any
}

func (w write) Known() bool { return w.before != nil || w.after != nil }

func (w write) Updated() bool { return w.before != nil && w.after != nil }

func (w write) Changed(f document.Field) bool {
	before, was := f.In(w.before)
	after, is := f.In(w.after)
	return was != is || !reflect.DeepEqual(before, after)
}

func (w write) Has(f document.Field, after bool) bool {
	_, has := w.Value(f, after)
	return has
}

func (w write) Value(f document.Field, after bool) (any, bool) {
	if after {
		return f.In(w.after)
	}
	return f.In(w.before)
}

func (w write) Held(f document.Field) (before, after any) {
	before, _ = f.In(w.before)
	after, _ = f.In(w.after)
	return before, after
}

// A document that no total of a counter sees, neither before a write nor after it, changes none. A
// total sees a document that meets its conditions and has its field, with a value of any kind. What
// an event may hide counts as seen, and so does everything of an event without documents.
func TestUnseen(t *testing.T) {
	type fields = map[string]any
	at := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	const shown, revenue, at30, seen = "count() where shown == true as shown", "sum(amount) where paid == true as revenue", "count() where at > now - 30d as lately", ""
	for _, test := range []struct {
		totals        string
		before, after fields
		want          string
	}{
		{shown, nil, fields{"shown": false}, "unseen"},
		{shown, fields{"shown": false}, nil, "unseen"},
		{shown, fields{"shown": false}, fields{"shown": "true"}, "unseen"},
		{shown, fields{}, fields{"shown": int64(1)}, "unseen"},
		{shown, nil, fields{"shown": true}, seen},
		{shown, fields{"shown": true}, nil, seen},
		{shown, fields{"shown": false}, fields{"shown": true}, seen},
		{shown, fields{"shown": true}, fields{"shown": false}, seen},
		{shown, nil, fields{"shown": document.Hidden{}}, seen},
		{shown, fields{"shown": document.Hidden{}}, nil, seen},
		{shown + ", count() as all", nil, fields{"shown": false}, seen},
		{shown + ", " + revenue, nil, fields{"shown": false, "paid": true, "amount": int64(1)}, seen},
		{revenue, nil, fields{"paid": true}, "unseen"},
		{revenue, nil, fields{"paid": false, "amount": int64(1)}, "unseen"},
		{revenue, nil, fields{"paid": true, "amount": "one"}, seen},
		{revenue, nil, fields{"paid": true, "amount": nil}, seen},
		{"amount", nil, fields{"x": int64(1)}, "unseen"},
		{"amount", nil, fields{"amount": "one"}, seen},
		{"maximum(amount) as most", nil, fields{}, "unseen"},
		{"latest(at) as last", nil, fields{"at": "noon"}, seen},
		{"average(stars) where stars > 0 as stars", nil, fields{"stars": math.NaN()}, "unseen"},
		{"average(stars) where stars > 0 as stars", nil, fields{"stars": 0.5}, seen},
		{"count() where gone == null as there", nil, fields{}, "unseen"},
		{"count() where gone == null as there", nil, fields{"gone": nil}, seen},
		{at30, nil, fields{}, "unseen"},
		{at30, nil, fields{"at": "noon"}, "unseen"},
		{at30, nil, fields{"at": at}, seen},
		{at30, nil, fields{"at": at.AddDate(200, 0, 0)}, seen},
		{at30, nil, fields{"at": document.Hidden{}}, seen},
	} {
		for _, keyed := range []bool{false, true} {
			text, path := "posts/{post}/comments/{comment} -> posts/{post} : "+test.totals+" : existing", "posts/a/comments/1"
			before, after := maps.Clone(test.before), maps.Clone(test.after)
			if keyed {
				text, path = "comments/{comment} by post -> posts/{post} : "+test.totals+" : existing", "comments/1"
				for _, f := range []fields{before, after} {
					if f != nil {
						f["post"] = "a"
					}
				}
			}
			routes, err := route.Parse(text)
			if err != nil {
				t.Fatal(err)
			}

			source, _ := routes.Source(path)
			concerns := source.Concerned(write{path, before, after})
			if len(concerns) != 1 || concerns[0].RollUp != "posts/a" || concerns[0].Unchanged != (test.want == "unseen") {
				t.Errorf("%s, from %v to %v: %+v, want %s", text, before, after, concerns, test.want)
			}
			if c := source.Concerned(write{path, nil, nil}); slices.ContainsFunc(c, func(c route.Concern) bool { return c.Unchanged }) {
				t.Errorf("%s, without documents: %+v", text, c)
			}
		}
	}

	routes, err := route.Parse("comments/{comment} by post -> posts/{post} : " + shown + " : existing")
	if err != nil {
		t.Fatal(err)
	}
	source, _ := routes.Source("comments/1")
	moved := source.Concerned(write{"comments/1", fields{"post": "a", "shown": false}, fields{"post": "b", "shown": true}})
	if len(moved) != 2 || !moved[0].Unchanged || moved[1].Unchanged {
		t.Errorf("moved and shown: %+v", moved)
	}
	moved = source.Concerned(write{"comments/1", fields{"post": "a", "shown": true}, fields{"post": "b", "shown": false}})
	if len(moved) != 2 || moved[0].Unchanged || !moved[1].Unchanged {
		t.Errorf("moved and no longer shown: %+v", moved)
	}
}

// The routes of a document are found without a change of the routes themselves.
func TestSourceLeavesRoutesAlone(t *testing.T) {
	routes, err := route.Parse("orders/{o} by shop -> shops/{shop} : count() as orders : existing; users/{u} -> stats/users : count() as users; orders/{o} by day -> days/{day} : count() as orders : existing")
	if err != nil {
		t.Fatal(err)
	}
	before := routes.String()
	source, _ := routes.Source("orders/1")
	if keys := source.Keys(); !slices.Equal(keys, []document.Field{"shop", "day"}) || routes.String() != before {
		t.Errorf("the keys are %q of\n%s\nwhich were\n%s", keys, routes, before)
	}
}

// BenchmarkConcerned is what an event costs until its counters are known.
func BenchmarkConcerned(b *testing.B) {
	o := order{shop: "a", at: time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)}
	for _, benchmark := range []struct{ name, path, route string }{
		{"keys=0", "shops/a/orders/1", "shops/{shop}/orders/{order} -> shops/{shop} : sum(amount) as revenue : existing"},
		{"keys=1", "orders/1", "orders/{order} by shop -> shops/{shop} : sum(amount) as revenue : existing"},
		{"keys=2", "orders/1", "orders/{order} by shop, day(at) -> shops/{shop}/days/{day} : sum(amount) as revenue : existing"},
	} {
		b.Run(benchmark.name, func(b *testing.B) {
			routes, err := route.Parse(benchmark.route)
			if err != nil {
				b.Fatal(err)
			}

			b.ReportAllocs()
			for b.Loop() {
				source, _ := routes.Source(benchmark.path)
				if concerns := source.Concerned(&o); len(concerns) != 1 {
					b.Fatalf("the event is about %d counters, want 1", len(concerns))
				}
			}
		})
	}
}

// An order is the change of its amount. It makes the values of its fields each time, as an event's
// are decoded.
type order struct {
	shop   string
	at     time.Time
	amount int64
}

func (*order) Known() bool { return true }

func (*order) Updated() bool { return true }

func (*order) Has(document.Field, bool) bool { return true }

func (o *order) Value(f document.Field, after bool) (any, bool) {
	before, now := o.Held(f)
	if after {
		return now, true
	}
	return before, true
}

func (*order) Changed(f document.Field) bool { return f == "amount" }

func (o *order) Held(f document.Field) (before, after any) {
	switch f {
	case "shop":
		return o.shop, o.shop
	case "at":
		return o.at, o.at
	default:
		return o.amount - 1, o.amount
	}
}

// Two routes by one field name it once: a query may not select a field twice.
func TestGroupsNameAFieldOnce(t *testing.T) {
	routes, err := route.Parse("orders/{o} by shop -> shops/{shop} : count() as orders : existing; orders/{o} by shop -> shop_totals/{shop} : amount : existing")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]document.Field{"shop"}, routes.Keys("orders/1")); d != "" {
		t.Errorf("fields of groups (-want +got):\n%s", d)
	}
}
