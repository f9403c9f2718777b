package route_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
)

// FuzzParseRoutes: no text crashes the parser, and every accepted route has one canonical form, on
// a line for each route or on one line, that it takes for the same routes.
func FuzzParseRoutes(f *testing.F) {
	f.Add(route.Default)
	f.Add("posts/{post}/counters/{name}/shards/{shard} -> posts/{post}/rollups/{name} : likes, views : documents")
	f.Add("posts/{p}/likes/{u} -> posts/{p} : count() as likes : existing; posts/{post}/comments/{c} -> posts/{post} : count() as comments : existing")
	f.Add("a/{b}/c/{d} -> {b}/e : f;g/{h} -> i/j : k")
	f.Add("a/{a}/s/{s} -> r/{a} : ->")
	f.Add("a/{`->`}/s/{s} -> r/{`->`} : n")
	f.Add(" a / {a}/s/{s}->r/{a}:n\u00a0, m : every 10m\r\n\t;;")
	f.Add("s/{s} -> r/x : documents : documents")
	f.Add("s/{s} -> r/x : `a b`\tas\u00a0c, sum(`as`) as `as`")
	f.Add("# all\n`a;b`/{s}\n  -> r/x : n,\n# more\n  `m\\`\\\\` : every 1h30m\nb/{s} -> q/`\"` : n\n   : existing")
	f.Add("a/{a} by x.y -> r/{x.y} : average(n) where a == \"; b -> c : d\" and b == -1.5e+3 as n")
	f.Add("o/{o} by c.`i d` -> s/{`c.i d`} : count() where a == \"\\u0000\" and `b`.c == null as n, latest(at) as l : existing\no/{p} by q -> t/{q} : sum(n) where x == 1e300 as n : existing")
	f.Add(`s/{s} by g -> r/{g} : count() where now > now - 24h and now < timestamp("2099-01-31T12:00:00Z") as n, sum(n) where at >= now - 90s as m : existing`)
	f.Add(`s/{s} by g -> r/{g} : count() where n > -1.5 and n <= 9007199254740993 as n, sum(n) where t in ["]", 1, true, timestamp("2026-01-31T12:00:00.000001+01:00")] as m : existing`)
	f.Add("o/{o} by s, day(at, \"Europe/Berlin\") -> `s`/{s}/d/{day} : count() : within `s`/{s}; o/{o} by month(at) as m -> d/{m} : n : within : cadence 9s")
	f.Add("o/{o} by s, week(at) -> s/{s}/w/{week} : count() : within s/{s}; o/{o} by week -> w/{week} : n : existing")
	f.Fuzz(func(t *testing.T, text string) {
		routes, err := route.Parse(text)
		if err != nil {
			if m := err.Error(); !utf8.ValidString(m) || strings.ContainsFunc(m, func(r rune) bool { return r != '\n' && unicode.IsControl(r) }) {
				t.Errorf("%q: the error cannot be shown: %q", text, m)
			}
			return
		}
		canonical := routes.String()
		for _, text := range []string{canonical, strings.ReplaceAll(canonical, "\n", "; ")} {
			again, err := route.Parse(text)
			if err != nil {
				t.Fatalf("%q, from %q: %v", text, canonical, err)
			}
			if d := cmp.Diff(meanings(routes), meanings(again)); d != "" {
				t.Errorf("%q, from %q, is another route (-want +got):\n%s", text, canonical, d)
			}
			if again.String() != canonical {
				t.Errorf("%q becomes %q", canonical, again)
			}
		}
	})
}

// A meaning is all that a route says.
type meaning struct {
	Pattern, Template route.Path
	By                string
	Totals            []route.Total
	Fields            []document.Field
	Documents         bool
	Existing, Within  bool
	Owner             string
	Every             time.Duration
	Hash              string
}

func meanings(routes route.Routes) []meaning {
	var all []meaning
	for _, r := range routes {
		all = append(all, meaning{r.Pattern(), r.Template.Segments(), fmt.Sprint(r.By), r.Totals, r.Reads(), r.Documents, r.Template.Existing, r.Template.Within, route.Counter{Template: r.Template, RollUp: r.Template.String()}.Owner(), r.Template.Every, r.Template.Hash()})
	}
	return all
}

// FuzzQuote: a name that a route can have is read as itself, in each place of a name.
func FuzzQuote(f *testing.F) {
	for _, name := range []string{"a", "", "by", "my posts", "a; b -> c : d, e", "`", "\\", "\\`", "\"", "a->", "->", "#", "größe", "\u202e", "\x00", "\xff", "a.b", "1e+5", "__x__"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		q := route.Quote(name)
		routes, err := route.Parse(q + "/{" + q + "}/s/{`x x`} -> `x x`/{" + q + "} : " + q + ", count() as `x x`")
		if document.CheckID(name) != nil || name == "tally" || name == "x x" || strings.ContainsAny(name, "{}=*.`[]~/()") || strings.ContainsFunc(name, unicode.IsControl) {
			return
		}
		if err != nil {
			t.Fatalf("%q as %s: %v", name, q, err)
		}
		got := []string{routes[0].Pattern()[0].Name, routes[0].Pattern()[1].Name, routes[0].Totals[0].Field.Names()[0], routes[0].Totals[0].Name}
		if d := cmp.Diff([]string{name, name, name, name}, got); d != "" {
			t.Errorf("%q as %s (-want +got):\n%s", name, q, d)
		}
	})
}

// FuzzMatch: a document belongs to at most one route, and its roll-up leads back to its counter.
func FuzzMatch(f *testing.F) {
	routes, err := route.Parse("counters/{c}/shards/{s} -> rollups/{c} : n; posts/{p}/counters/{c}/shards/{s} -> posts/{p}/rollups/{c} : n; shards/{s} -> all/shards : n")
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
		c, r, ok := match(routes, path)
		if !ok {
			return
		}
		if !strings.HasPrefix(path, r.Shards(c)+"/") {
			t.Errorf("%q is not a shard of %q", path, r.Shards(c))
		}
		if back, ok := c.Template.Counter(c.RollUp); !ok || back != c {
			t.Errorf("%q: the roll-up %q leads to %+v, not %+v", path, c.RollUp, back, c)
		}
		for _, other := range routes {
			if other == r {
				continue
			}
			if _, ok := other.Counter(r.Shards(c)); ok {
				t.Errorf("%q belongs to two routes", path)
			}
		}
	})
}

// FuzzPaths: whatever the routes, a shard belongs to the counter of the route whose pattern it was
// made from, the roll-up leads back to that counter and to none of another route. If it is a shard
// itself, its own roll-up follows, and so on, but not without end.
func FuzzPaths(f *testing.F) {
	f.Add(route.Default, "likes", "0", "")
	f.Add("posts/{post}/counters/{name}/shards/{shard} -> posts/{post}/rollups/{name} : likes, views", "größe 三", "{name}", "%2F")
	f.Add("posts/{p}/likes/{u} -> posts/{p} : count() as likes : existing; posts/{post}/comments/{c} -> posts/{post} : count() as comments : existing", "7", "ann", "x")
	f.Add("a/{b}/c/{d} -> {b}/e : f;g/{h} -> i/j : k", "a", "..", "\xff")
	f.Add("a/{b}/c/{d}/s/{s} -> r/{d}/of/{b}/`by`/{d} : n", "1", "2", "1")
	f.Add("s/{s} -> s/x/r/y : n\ns/x/s/{s} -> r/{y} : n", "x", "s", "s/x")
	f.Add("a/{a}/s/{s} -> b/{a}/s/x : n; b/{b}/s/{s} -> c/{b} : n; c/{c} -> d/all : n", "1", "2", "x")
	f.Fuzz(func(t *testing.T, text, id0, id1, id2 string) {
		routes, err := route.Parse(text)
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
			c, of, ok := match(routes, shard)
			if !ok || of != r || r.Shards(c) != strings.Join(path[:len(path)-1], "/") {
				t.Fatalf("%q of route %q matched %+v, %v", shard, r, c, ok)
			}
			if back, ok := r.Template.Counter(c.RollUp); !ok || back != c {
				t.Errorf("%q: the roll-up %q leads to %+v, not %+v", shard, c.RollUp, back, c)
			}
			for _, other := range routes {
				if of, ok := other.Template.Counter(c.RollUp); ok && other.Template != r.Template {
					t.Errorf("%q: the roll-up %q is also that of %+v", shard, c.RollUp, of)
				}
			}
			last := c.RollUp
			for range routes {
				next, _, ok := match(routes, last)
				if !ok {
					break
				}
				last = next.RollUp
			}
			if _, of, ok := match(routes, last); ok {
				t.Errorf("%q: the roll-ups after it do not end: %q is a shard of %+v", shard, last, of)
			}
		}
	})
}
