package storetest

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/value"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
)

// auditOptions are the options of an audit that repairs at once.
func auditOptions() rollup.AuditOptions {
	return rollup.AuditOptions{
		Options:     rollup.Options{Cadence: time.Second, Burst: 5, Timeout: time.Minute, Logger: slog.New(slog.DiscardHandler)},
		Concurrency: 8,
	}
}

func hasTally(t *testing.T, b backend, path string) bool {
	return !document.DecodeTally(b.Get(t, path)["tally"]).AsOf.IsZero()
}

// testAmongForeign has one counter without a roll-up. In the order of paths, more than a page of
// roll-ups of other templates lie before it, in collections of the same name, and more documents
// than a page makes queries, in other collections of the name of its other source.
func testAmongForeign(t *testing.T, b backend) {
	one := map[string]any{"x": 1}
	for i := range 150 {
		b.Put(t, fmt.Sprintf("posts/p1/comments/c%03d/totals/all", i), one)
		b.Put(t, fmt.Sprintf("posts/p00%03d/comments/c/views/v", i), one)
	}
	for _, every := range []string{"", " : every 2s"} {
		b.Put(t, "posts/p05/likes/ann", one)
		b.Delete(t, "posts/p05/totals/all")
		routes, err := route.Parse(fmt.Sprintf(`
			posts/{post}/likes/{user} -> posts/{post}/totals/all : count() as likes%s
			posts/{post}/views/{view} -> posts/{post}/totals/all : count() as views%[1]s`, every))
		if err != nil {
			t.Fatal(err)
		}

		if every == "" {
			report, err := rollup.Audit(t.Context(), b, routes, auditOptions())
			if err != nil || !report.Complete || report.Counters != 1 || report.Missing != 1 || report.RolledUp != 1 {
				t.Errorf("an audit: %+v, %v; want the counter", report, err)
			}
		} else {
			o := rollup.KeepOptions{Options: auditOptions().Options, Concurrency: 8}
			report, err := rollup.Keep(t.Context(), b, routes, o)
			if err != nil || report.Counters != 1 || report.RolledUp != 1 {
				t.Errorf("a tick: %+v, %v; want the counter", report, err)
			}
		}
		if !hasTally(t, b, "posts/p05/totals/all") {
			t.Errorf("posts/p05 has no roll-up%s", every)
		}
	}
}

// foreignRoutes are those among whose documents testForeign puts others.
var foreignRoutes = []string{
	"c/{x}/s/{s} -> c/{x}/r/a : count() as n; c/{x}/t/{s} -> c/{x}/r/a : count() as m",
	"c/{x}/s/{s} -> r/{x} : count() as n",
	"c/{x}/d/{y}/s/{s} -> r/{y}/t/{x} : count() as n; d/{y}/c/{x}/t/{s} -> r/{y}/t/{x} : count() as m",
	"c/a/d/{y}/s/{s} -> d/{y}/s/b : count() as n",
	"s/{s} -> r/a : count() as n; c/a/t/{s} -> r/a : count() as m",
	"s/{s} by g -> c/{g} : count() as n : existing; c/{g}/t/{s} -> c/{g} : count() as m : existing; t/{s} by g -> c/{g} : count() as k : existing",
	"c/{x}/s/{s} by g -> d/{g} : count() as n : existing; t/{s} by g -> d/{g} : count() as k : existing",
	"c/{x}/d/{y}/s/{s} by g -> c/{x}/r/{g} : count() as n : existing",
}

// testForeign puts documents anywhere, by chance: in collections of the names that the routes say,
// below any documents. Some are sources and some are roll-ups. Whatever the others are, a walk to
// the end finds each counter once, and an audit finds each that has no roll-up.
func testForeign(t *testing.T, b backend, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	text := foreignRoutes[int(seed)%len(foreignRoutes)]
	routes, err := route.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	template := routes[0].Template

	one := func(of ...string) string { return of[random.IntN(len(of))] }
	want := make(map[string]bool) // whether the counter has a roll-up
	for range 20 + random.IntN(40) {
		var path []string
		for range 1 + random.IntN(4) {
			path = append(path, one("c", "c", "d", "r", "s", "s", "t"), one("a", "a", "b", "c", "d", "~", "a!", "__id7__", "__id-3__", "s"))
		}
		fields := map[string]any{"x": 1}
		if random.IntN(2) == 0 {
			fields["g"] = one("a", "b", "c", "a/b", "__x__", "", "~", "a!", "b/c")
		}
		if random.IntN(2) == 0 {
			fields["tally"] = rolledUp(value.Int(1), 1, someTime).Tally.Encode()
		}
		at := strings.Join(path, "/")
		if b.Get(t, at) != nil {
			continue
		}
		b.Put(t, at, fields)

		if c, ok := template.Counter(at); ok && fields["tally"] != nil {
			want[c.RollUp] = true
		}
		for _, r := range routes {
			c, ok := r.Belongs(at, func(f document.Field) any { held, _ := f.In(fields); return held })
			if ok {
				want[c.RollUp] = want[c.RollUp] || false
			}
		}
	}
	for path := range want {
		if template.FoundByHomes() && b.Get(t, path) == nil { // no place for totals
			delete(want, path)
		}
	}

	for _, limit := range []int{1, 2, 3, 100} {
		if d := cmp.Diff(want, find(t, b, template, limit)); d != "" {
			t.Errorf("%s, %d at a time (-want +got):\n%s", text, limit, d)
		}
	}
	report, err := rollup.Audit(t.Context(), b, routes, auditOptions())
	if err != nil || !report.Complete {
		t.Errorf("%s: %+v, %v", text, report, err)
	}
	for path, has := range want {
		exists := b.Get(t, path) != nil
		if !has && exists != hasTally(t, b, path) {
			t.Errorf("%s: %s has no roll-up after an audit: %+v", text, path, report)
		}
		if !has && !template.Existing && !exists {
			t.Errorf("%s: %s does not exist after an audit: %+v", text, path, report)
		}
	}
}
