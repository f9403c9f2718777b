package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/value"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
)

func mustRoute(t *testing.T, text string) *route.Route {
	t.Helper()
	routes, err := route.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return routes[0]
}

// walk finds all counters that have shards of the route, as none of its roll-ups has a tally, and
// all documents at roll-ups' paths, limit at a time, and returns their paths sorted.
func walk(t *testing.T, b backend, r *route.Route, limit int) (shards, rollUps []string) {
	t.Helper()
	rollUp := func(c route.Counter) string { return c.RollUp }
	for _, by := range []struct {
		paths *[]string
		page  func(from string) (rollup.Page, error)
		path  func(route.Counter) string
		again func(path string) (route.Counter, bool)
	}{
		{&shards, func(from string) (rollup.Page, error) { return b.Missing(t.Context(), r, time.Time{}, from, limit) }, r.Shards, r.Counter},
		{&rollUps, func(from string) (rollup.Page, error) { return b.RollUps(t.Context(), r.Template, from, limit) }, rollUp, r.Template.Counter},
	} {
		pages := 0
		for from, more := "", true; more; pages++ {
			if pages > 10_000 {
				t.Fatalf("%s: no end after %d pages, at %q", r, pages, from)
			}
			p, err := by.page(from)
			if err != nil || len(p.Found) > limit {
				t.Fatalf("%s: from %q: %d found, want at most %d: %v", r, from, len(p.Found), limit, err)
			}
			for _, f := range p.Found {
				if again, ok := by.again(by.path(f.Counter)); !ok || again != f.Counter {
					t.Errorf("%s: found %+v, want %+v", r, f.Counter, again)
				}
				*by.paths = append(*by.paths, by.path(f.Counter))
			}
			from, more = p.Next, p.Next != ""
			if n := len(p.Found); n > 1 && limit == 3 { // a walk may go on behind any counter that it found
				*by.paths, from, more = (*by.paths)[:len(*by.paths)-n+1], p.Found[0].Next, true
			}
		}
		slices.Sort(*by.paths)
	}
	return shards, rollUps
}

func testWalks(t *testing.T, b backend) {
	for _, path := range []string{
		"counters/missing parent/shards/0", "counters/parent", "counters/parent/shards/0", "counters/parent/shards/1", "counters/parent!/shards/0",
		"counters/a/shards/0", "counters/a b/shards/0", "counters/a-b/shards/0",
		"posts/p/counters/likes/shards/0", "posts/p/counters/likes/shards/1", "posts/p/counters/views/shards/0", "posts/q", "posts/q/counters/likes/shards/0",
		"shards/0", "samples/php/distributedCounters/0", "samples/a/distributedCounters/0",
		// documents of the same collection groups that are neither shards nor roll-ups
		"aaa/x/shards/0", "zzz/x/shards/0", "counters/b/other/x/shards/0", "counters/b/zother/x/shards/0", "counters/b/shards/0", "counters/c/shards/gone/shards/0",
		"counters/c/shards/here", "posts/p/shards/0", "posts/r/drafts/1/counters/2/shards/0", "posts/s/counters/likes/shards/0",
		"rollups/a", "rollups/parent", "rollups/lone", "rollups/a/rollups/deeper", "posts/p/rollups/likes", "posts/p/drafts/1/rollups/likes", "posts/r/rollups/views",
		"rollups_of/php", "rollups_of/others", "sums/a/totals/count", "sums/a/totals/other", "sums/b/totals/aaa", "sums/c/totals/count", "sums/c/totals/zzz", "totals/count",
	} {
		b.Put(t, path, map[string]any{"count": 1})
	}
	for _, test := range []struct {
		route           string
		shards, rollUps []string
	}{
		{"counters/{c}/shards/{s} -> rollups/{c} : count",
			[]string{"counters/a b/shards", "counters/a-b/shards", "counters/a/shards", "counters/b/shards", "counters/c/shards", "counters/missing parent/shards",
				"counters/parent!/shards", "counters/parent/shards"},
			[]string{"rollups/a", "rollups/lone", "rollups/parent"}},
		{"posts/{p}/counters/{c}/shards/{s} -> posts/{p}/rollups/{c} : count",
			[]string{"posts/p/counters/likes/shards", "posts/p/counters/views/shards", "posts/q/counters/likes/shards", "posts/s/counters/likes/shards"},
			[]string{"posts/p/rollups/likes", "posts/r/rollups/views"}},
		{"posts/p/counters/{c}/shards/{s} -> sums/{c}/totals/count : count",
			[]string{"posts/p/counters/likes/shards", "posts/p/counters/views/shards"}, []string{"sums/a/totals/count", "sums/c/totals/count"}},
		{"posts/{p}/counters/likes/shards/{s} -> sums/{p}/totals/zzz : count",
			[]string{"posts/p/counters/likes/shards", "posts/q/counters/likes/shards", "posts/s/counters/likes/shards"}, []string{"sums/c/totals/zzz"}},
		{"shards/{s} -> rollups/all : count", []string{"shards"}, nil},
		{"samples/php/distributedCounters/{s} -> rollups_of/php : count", []string{"samples/php/distributedCounters"}, []string{"rollups_of/php"}},
		{"none/{c}/shards/{s} -> noRollups/{c} : count", nil, nil},
	} {
		for _, limit := range []int{1, 3, 1000} {
			shards, rollUps := walk(t, b, mustRoute(t, test.route), limit)
			if d := cmp.Diff(test.shards, shards); d != "" {
				t.Errorf("%s: counters, %d at a time (-want +got):\n%s", test.route, limit, d)
			}
			if d := cmp.Diff(test.rollUps, rollUps); d != "" {
				t.Errorf("%s: roll-ups, %d at a time (-want +got):\n%s", test.route, limit, d)
			}
		}
	}
}

// A layout is where a template has its roll-ups, and its shards by two routes.
type layout struct{ first, second, template string }

// layouts are those by which counters are found. X and Y are the captures.
var layouts = map[string]layout{
	"one capture":                    {"c/X/s", "c/X/t", "r/X"},
	"two captures":                   {"c/X/d/Y/s", "e/X/f/Y/g", "c/X/r/Y"},
	"captures in another order":      {"c/X/d/Y/s", "e/X/f/Y/g", "r/Y/q/X"},
	"second source in another order": {"c/X/d/Y/s", "e/Y/f/X/g", "r/X/q/Y"},
}

func (l layout) at(pattern, x, y string) string {
	return strings.NewReplacer("X", x, "Y", y).Replace(pattern)
}

// find walks a template's roll-ups, and the shards of its routes, limit at a time. It returns the
// counters that it finds, and whether each has a roll-up. Each must come once.
func find(t *testing.T, b backend, template *route.Template, limit int) map[string]bool {
	t.Helper()
	return findSince(t, b, template, time.Time{}, limit)
}

// findSince is find that leaves out days and months that ended before an instant, unless they have
// a tally.
func findSince(t *testing.T, b backend, template *route.Template, since time.Time, limit int) map[string]bool {
	t.Helper()
	walks := []func(from string) (rollup.Page, error){
		func(from string) (rollup.Page, error) { return b.RollUps(t.Context(), template, from, limit) },
	}
	for _, r := range template.Routes {
		if template.FoundByHomes() {
			break // their documents are found by the first walk
		}
		walks = append(walks, func(from string) (rollup.Page, error) { return b.Missing(t.Context(), r, since, from, limit) })
	}

	got := make(map[string]bool)
	for n, page := range walks {
		pages := 0
		for from, more := "", true; more; pages++ {
			if pages > 1000 {
				t.Fatalf("walk %d, %d at a time: no end after %d pages, at %q", n, limit, pages, from)
			}
			p, err := page(from)
			if err != nil || len(p.Found) > limit || p.Reads < 1 {
				t.Fatalf("walk %d from %q: %d found for %d reads, %d at a time: %v", n, from, len(p.Found), p.Reads, limit, err)
			}
			from, more = p.Next, p.Next != ""
			if limit == 2 && len(p.Found) > 1 { // a walk may go on behind any counter that it found
				p.Found, from, more = p.Found[:1], p.Found[0].Next, true
			}
			for _, f := range p.Found {
				path, has := f.Counter.RollUp, !f.RollUp.Tally.AsOf.IsZero()
				if n == 0 && !has && !template.FoundByHomes() {
					continue // a document that Tally never wrote
				}
				if _, again := got[path]; again || !template.FoundByHomes() && has != (n == 0) {
					t.Errorf("walk %d, %d at a time: %s is found again, or wrongly; its roll-up is %+v", n, limit, path, f.RollUp)
				}
				got[path] = has
			}
		}
	}
	return got
}

// testFind finds each counter once, in pages of any size: those with a roll-up, those with shards
// by either route, and those with both.
func testFind(t *testing.T, b backend, l layout) {
	spell := func(pattern string) string { return l.at(pattern, "{x}", "{y}") }
	routes, err := route.Parse(fmt.Sprintf("%s/{s} -> %s : count; %s/{s} -> %[2]s : count() as n", spell(l.first), spell(l.template), spell(l.second)))
	if err != nil {
		t.Fatal(err)
	}

	tally := map[string]any{"tally": rolledUp(value.Int(1), 1, someTime).Tally.Encode()}
	one := map[string]any{"count": 1}
	ids := []string{"__id7__", "__id-3__", "__id11__", "A", "a", "a b", "a!", "a-b", "aa", "b", "größe", "z", "三", "四"}
	want := make(map[string]bool) // whether the counter has a roll-up
	for i, x := range ids {
		y := ids[(i*5+3)%len(ids)]
		put := func(has bool, pattern, below string, fields map[string]any) {
			if has {
				b.Put(t, l.at(pattern, x, y)+below, fields)
			}
		}
		rollUp, first, second := i%2 == 0, i%3 == 0, i%5 < 2 || i%4 == 3
		put(rollUp, l.template, "", tally)
		put(!rollUp && i%4 == 1, l.template, "", one) // a document that Tally never wrote
		for n := range 3 {
			put(first, l.first, fmt.Sprint("/", n), one)
			put(second, l.second, fmt.Sprint("/", n), one)
		}
		put(true, l.first, "/below/s/0", one) // of the same collection groups
		put(true, l.second, "/below/r/0", one)
		if rollUp || first || second {
			want[l.at(l.template, x, y)] = rollUp
		}
	}

	for _, limit := range []int{1, 2, 5, 1000} {
		if d := cmp.Diff(want, find(t, b, routes[0].Template, limit)); d != "" {
			t.Errorf("%d at a time (-want +got):\n%s", limit, d)
		}
	}
}

func testLongWalks(t *testing.T, b backend) {
	var shards, rollUps []string
	for i := range 35 { // three whole pages and a part of one
		shards = append(shards, fmt.Sprintf("many/%02d/shards", i))
		rollUps = append(rollUps, fmt.Sprintf("rollups/%02d", i))
		b.Put(t, shards[i]+"/0", map[string]any{"count": 1})
		b.Put(t, rollUps[i], map[string]any{"count": 1})
	}
	gotShards, gotRollUps := walk(t, b, mustRoute(t, "many/{c}/shards/{s} -> rollups/{c} : count"), 10)
	if d := cmp.Diff(shards, gotShards); d != "" {
		t.Errorf("counters (-want +got):\n%s", d)
	}
	if d := cmp.Diff(rollUps, gotRollUps); d != "" {
		t.Errorf("roll-ups (-want +got):\n%s", d)
	}
}

func testRollUpsReads(t *testing.T, b backend) {
	for _, r := range []*route.Template{likes.Template, mustRoute(t, "shards/{s} -> rollups/likes : count").Template} {
		for _, test := range []struct {
			fields map[string]any
			want   rollup.RollUp
		}{
			{map[string]any{"count": 7, "tally": rolledUp(value.Int(7), 2, someTime).Tally.Encode()}, rolledUp(value.Int(7), 2, someTime)},
			{map[string]any{"title": "x", "tally": "never"}, rollup.RollUp{Values: map[string]value.Value{}}},
		} {
			test.want.UpdateTime = b.Put(t, likes.RollUp, test.fields)
			p, err := b.RollUps(t.Context(), r, "", 10)
			if err != nil || len(p.Found) != 1 || p.Next != "" {
				t.Fatalf("%s: found %+v, %v; want one", r, p, err)
			}
			if d := diff(test.want, p.Found[0].RollUp); d != "" {
				t.Errorf("%s (-want +got):\n%s", r, d)
			}
		}
	}
}

func testRemove(t *testing.T, b backend) {
	two := counter("c/{c}/s/{s} -> r/{c} : likes, views", "c/x/s")
	for _, test := range []struct{ fields, want map[string]any }{
		{map[string]any{"likes": 0, "views": 0, "tally": map[string]any{"as_of": someTime}}, nil},
		{map[string]any{"tally": map[string]any{}}, nil},
		{map[string]any{"old": 7, "tally": map[string]any{"former": []any{"old"}}}, nil},
		{map[string]any{"likes": 0, "tally": map[string]any{"num_shards": 0}, "title": "kept", "count": 1}, map[string]any{"title": "kept", "count": int64(1)}},
	} {
		b.Put(t, two.RollUp, test.fields)
		if err := b.Remove(t.Context(), two, look(t, b, two).rollUp); err != nil {
			t.Fatalf("%v: %v", test.fields, err)
		}
		if d := cmp.Diff(test.want, b.Get(t, two.RollUp)); d != "" {
			t.Errorf("document of %v (-want +got):\n%s", test.fields, d)
		}
	}

	app := counter("posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing", "posts/7/likes")
	b.Put(t, app.RollUp, map[string]any{"likes": 1, "hearts": 2, "tally": map[string]any{"former": []any{"hearts"}}})
	if err := b.Remove(t.Context(), app, look(t, b, app).rollUp); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]any{}, b.Get(t, app.RollUp)); d != "" {
		t.Errorf("the app's own document (-want +got):\n%s", d)
	}
}

func testRemoveRefused(t *testing.T, b backend) {
	for _, fields := range []map[string]any{{"count": 1}, {"count": 1, "title": "x"}} {
		old := rollup.RollUp{UpdateTime: b.Put(t, likes.RollUp, fields)}
		b.Delete(t, likes.RollUp)
		if err := b.Remove(t.Context(), likes, old); !errors.Is(err, rollup.ErrConflict) {
			t.Errorf("removed since it was read: got %v, want ErrConflict", err)
		}
		b.Put(t, likes.RollUp, fields)
		if err := b.Remove(t.Context(), likes, old); !errors.Is(err, rollup.ErrConflict) {
			t.Errorf("written since it was read: got %v, want ErrConflict", err)
		}
		if b.Get(t, likes.RollUp)["count"] != int64(1) {
			t.Errorf("a refused removal left %v", b.Get(t, likes.RollUp))
		}
	}
}

func testCursor(t *testing.T, b backend) {
	before := b.Put(t, "before/it", map[string]any{"x": 1})
	load := func() (rollup.Cursor, error) {
		c, err := b.LoadCursor(t.Context(), rollup.Keeping)
		if c.ReadTime.Before(before) {
			t.Errorf("loaded as of %v, before %v", c.ReadTime, before)
		}
		c.ReadTime = time.Time{}
		return c, err
	}
	c, err := load()
	if d := cmp.Diff(rollup.Cursor{}, c); d != "" || err != nil {
		t.Errorf("an empty database's: %v (-want +got):\n%s", err, d)
	}
	first := rollup.Cursor{Routes: "a\nb"}
	first.UpdateTime, err = b.SaveCursor(t.Context(), rollup.Keeping, first)
	if err != nil {
		t.Fatal(err)
	}
	c, err = load()
	if d := cmp.Diff(first, c); d != "" || err != nil { // what is empty comes back so
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
	second := rollup.Cursor{
		Routes:  route.Default,
		Places:  []rollup.Place{{From: "counters/größe 三\x00/shards"}, {Done: true, Began: someTime.Add(time.Minute)}, {Failed: true, Reads: 1, Last: 2}},
		Tick:    someTime,
		RollUps: rollup.Lap{Began: someTime, Ended: true}, Shards: rollup.Lap{Hurried: true, Remake: true},
		Revision: "tally-on-schedule-00007-abc", Database: "projects/p/databases/d", Queue: "projects/p/locations/l/queues/q", Moved: someTime, New: someTime, Noted: "note-x",
		Complete: someTime.Add(time.Hour), Cycle: 90 * time.Second,
		Changed: []string{"rollups/a", "rollups/größe 三\n\x00"},
		Quiet:   []string{"rollups/b"}, UpdateTime: first.UpdateTime,
	}
	second.UpdateTime, err = b.SaveCursor(t.Context(), rollup.Keeping, second)
	if err != nil {
		t.Fatal(err)
	}
	before = second.UpdateTime
	for _, stale := range []time.Time{first.UpdateTime, {}} {
		c := rollup.Cursor{UpdateTime: stale}
		if _, err := b.SaveCursor(t.Context(), rollup.Keeping, c); !errors.Is(err, rollup.ErrConflict) {
			t.Errorf("saving on what was there before: got %v, want ErrConflict", err)
		}
	}
	if other, err := b.LoadCursor(t.Context(), rollup.Auditing); err != nil || other.Routes != "" {
		t.Errorf("another's: %+v, %v", other, err)
	}
	c, err = load()
	if d := cmp.Diff(second, c); d != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
}

// Notes are found in the order of their IDs, and among nothing else that Tally keeps there. Each is
// written and deleted on the precondition that it is as it was read.
func testNotes(t *testing.T, b backend) {
	if _, err := b.SaveCursor(t.Context(), rollup.Auditing, rollup.Cursor{Routes: "x"}); err != nil {
		t.Fatal(err)
	}
	if n, err := b.LoadNote(t.Context(), "note-all"); err != nil || !n.UpdateTime.IsZero() {
		t.Errorf("no note: %+v, %v", n, err)
	}

	want := []rollup.Note{
		{ID: "note-all"},
		{ID: "note-counters", Counters: map[string]time.Time{"rollups/größe 三": someTime, "rollups/b": someTime.Add(time.Microsecond)}},
		{ID: "note-unkept-0f", Counters: map[string]time.Time{"rollups/c": someTime}},
	}
	for i, n := range want {
		if err := b.SaveNote(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		if err := b.SaveNote(t.Context(), n); !errors.Is(err, rollup.ErrConflict) {
			t.Errorf("%s: saved over what is there: %v, want ErrConflict", n.ID, err)
		}
		loaded, err := b.LoadNote(t.Context(), n.ID)
		if err != nil || loaded.UpdateTime.IsZero() {
			t.Errorf("%s: %+v, %v", n.ID, loaded, err)
		}
		want[i].UpdateTime = loaded.UpdateTime
	}

	for _, test := range []struct {
		after string
		limit int
		want  []rollup.Note
	}{
		{"", 10, want}, {"", 2, want[:2]}, {"note-all", 10, want[1:]}, {"note-unkept-0f", 10, nil},
	} {
		got, err := b.Notes(t.Context(), test.after, test.limit)
		if d := cmp.Diff(test.want, got); d != "" || err != nil {
			t.Errorf("after %q: %v (-want +got):\n%s", test.after, err, d)
		}
	}

	renewed := want[1]
	renewed.Counters = map[string]time.Time{"rollups/b": someTime}
	if err := b.SaveNote(t.Context(), renewed); err != nil {
		t.Error(err)
	}
	if err := b.DeleteNote(t.Context(), want[1]); !errors.Is(err, rollup.ErrConflict) {
		t.Errorf("deleted since it was written: %v, want ErrConflict", err)
	}
	if err := b.DeleteNote(t.Context(), want[0]); err != nil {
		t.Error(err)
	}
	got, err := b.Notes(t.Context(), "", 10)
	if err != nil || len(got) != 2 || len(got[0].Counters) != 1 {
		t.Errorf("left are %+v, %v", got, err)
	}
}
