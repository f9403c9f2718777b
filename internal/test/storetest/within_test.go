package storetest

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/value"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// testDays finds each day of each shop once, in pages of any size, by each kind of key and among
// values that are none. Days that ended before an instant are left out.
func testDays(t *testing.T, b backend) {
	day := func(n int) time.Time { return someTime.AddDate(0, 0, n) }
	name := func(n int) string { return day(n).Format(time.DateOnly) }
	shops := map[string]bool{} // by text, whether it is a key
	for is, values := range groupValues {
		for _, v := range values {
			text, isText := v.(string)
			if isText {
				shops[text] = is
			}
		}
	}

	n := 0
	put := func(collection string, fields map[string]any) {
		n++
		b.Put(t, fmt.Sprintf("%s/%d", collection, n), fields)
	}
	texts, numbers, refs, days, paths := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	order := func(fields map[string]any) { put("orders", fields) }

	for shop, is := range shops {
		on := []int{0, 0, 1, 400}
		isLong := len(shop) > 1000
		if isLong { // the emulator compares each with each in every query
			on = []int{0, 400}
		}
		for _, on := range on {
			order(map[string]any{"shop": shop, "at": day(on)})
			if is {
				texts["shops/"+shop+"/days/"+name(on)] = false
			}
		}
		if isLong {
			continue
		}
		order(map[string]any{"shop": shop, "at": "2026-01-02"})
		order(map[string]any{"shop": shop, "at": 7})
		order(map[string]any{"shop": shop})
	}
	for _, v := range groupValues[false] {
		order(map[string]any{"shop": v, "at": day(0), "user": v, "author": v})
	}
	for _, v := range []any{-3, 0, 7, 7.0, 7.5, -1e300, 1e300, 1<<53 + 1, float64(1 << 53)} {
		order(map[string]any{"user": v, "when": day(0)})
		order(map[string]any{"user": v, "when": day(1)})
	}
	for _, id := range []string{"-3", "0", "7", "9007199254740992", "9007199254740993"} {
		numbers["users/"+id+"/days/"+name(0)], numbers["users/"+id+"/days/"+name(1)] = false, false
	}

	author := strings.Repeat("a", 1200)
	for _, v := range []string{"people/ann", "people/ann/books/1", "people/ben", "people/" + author, "people/" + author + "/books/1", "people/__id7__", "others/ann", "zzz/ann",
		"people/" + strings.Repeat("é", 700), "people/zoe", "people/zoe/" + strings.Repeat("b", 1400) + "/1"} {
		order(map[string]any{"author": document.Reference(v), "at": day(0)})
	}
	for _, id := range []string{"ann", "ben", author, "__id7__", "zoe"} {
		refs["people/"+id+"/days/"+name(0)] = false
	}

	for _, at := range []any{day(0), day(0), day(3), time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 23, 0, 0, 0, time.UTC), 7, "x", nil} {
		put("visits", map[string]any{"at": at})
		put("sites/a/visits", map[string]any{"at": at})
		put("sites/a/visits/1/visits", map[string]any{"at": at})
	}
	put("sites/b/visits", map[string]any{"at": nil})
	put("sites/c/visits", map[string]any{"at": day(0)})
	for _, id := range []string{name(0), name(3), "0001-01-01", "9999-12-31"} {
		days["sales/"+id], paths["sites/a/days/"+id] = false, false
	}
	paths["sites/c/days/"+name(0)] = false

	b.Put(t, "sales/"+name(3), map[string]any{"tally": rolledUp(value.Int(1), 1, someTime).Tally.Encode()})
	b.Put(t, "sales/"+name(7), map[string]any{"title": "x"})
	days["sales/"+name(3)] = true

	for mustRoute, want := range map[string]map[string]bool{
		"orders/{order} by shop, day(at) -> shops/{shop}/days/{day} : count() as n : within shops/{shop}":              texts,
		"orders/{order} by number(user), day(when) -> users/{user}/days/{day} : count() as n : within users/{user}":    numbers,
		"orders/{order} by ref(author), day(at) -> people/{author}/days/{day} : count() as n : within people/{author}": refs,
		"visits/{visit} by day(at) -> sales/{day} : count() as n : within":                                             days,
		"sites/{site}/visits/{visit} by day(at) -> sites/{site}/days/{day} : count() as n : within sites/{site}":       paths,
	} {
		routes, err := route.Parse(mustRoute)
		if err != nil {
			t.Fatal(err)
		}
		for _, limit := range []int{2, 100} {
			if d := cmp.Diff(want, find(t, b, routes[0].Template, limit)); d != "" {
				t.Errorf("%s, %d at a time (-want +got):\n%s", mustRoute, limit, d)
			}
		}

		late := make(map[string]bool)
		for path, has := range want {
			if has || path[strings.LastIndexByte(path, '/')+1:] >= name(1) {
				late[path] = has
			}
		}
		if d := cmp.Diff(late, findSince(t, b, routes[0].Template, day(1), 7)); d != "" {
			t.Errorf("%s since %v (-want +got):\n%s", mustRoute, day(1), d)
		}
	}
}

// testOwners: a snapshot and the walk of the roll-ups say whether the owner exists. A roll-up whose
// owner is missing is removed like any other, and one whose owner exists, too.
func testOwners(t *testing.T, b backend) {
	routes, err := route.Parse("orders/{order} by shop, day(at) -> shops/{shop}/days/{day} : count() as n : within shops/{shop}")
	if err != nil {
		t.Fatal(err)
	}
	template := routes[0].Template
	tally := rolledUp(value.Int(1), 1, someTime).Tally
	tally.OwnerlessSince = someTime
	fields := map[string]any{"tally": tally.Encode()}
	for _, path := range []string{"shops/a/days/2026-01-01", "shops/a/days/2026-01-02", "shops/b/days/2026-01-01", "shops/c/days/2026-01-01"} {
		b.Put(t, path, fields)
	}
	b.Put(t, "shops/a", map[string]any{"n": 7, "tally": "x"})
	b.Put(t, "shops/c", map[string]any{})
	b.Put(t, "shops/d", map[string]any{"name": "x"})

	want := map[string]bool{"shops/a/days/2026-01-01": false, "shops/a/days/2026-01-02": false, "shops/b/days/2026-01-01": true, "shops/c/days/2026-01-01": false}
	page, err := b.RollUps(t.Context(), template, "", 10)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]bool)
	for _, f := range page.Found {
		got[f.Counter.RollUp] = f.Ownerless
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("without an owner, by the walk (-want +got):\n%s", d)
	}
	if page.Reads != 4+3 {
		t.Errorf("the page was billed %d reads, want 4 roll-ups and 3 owners", page.Reads)
	}

	want["shops/d/days/2026-01-01"], want["shops/e/days/2026-01-01"] = false, true
	for path, ownerless := range want {
		c, _ := template.Counter(path)
		s, err := b.View(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if s.Ownerless() != ownerless || s.RollUp().Exists() != (path < "shops/d") || s.RollUp().Exists() && !s.RollUp().Tally.Equal(tally) {
			t.Errorf("%s: ownerless %v, want %v; the roll-up is %+v", path, s.Ownerless(), ownerless, s.RollUp())
		}
		if !s.RollUp().Exists() {
			continue
		}
		if err := b.Remove(t.Context(), c, s.RollUp()); err != nil || b.Get(t, path) != nil {
			t.Errorf("%s removed: %v, it holds %v", path, err, b.Get(t, path))
		}
	}
}

// testLabels: the roll-up of a day has the ids of its path in fields, which are written, read and
// removed with it. What else stands in such a field is the app's.
func testLabels(t *testing.T, b backend) {
	routes, err := route.Parse("orders/{order} by shop as `a shop`, day(at) -> shops/{`a shop`}/days/{day} : count() as n : within shops/{`a shop`}")
	if err != nil {
		t.Fatal(err)
	}
	c, _ := routes[0].Template.Counter("shops/a/days/2026-01-02")
	r := rollup.RollUp{Values: map[string]value.Value{"n": value.Int(1)}, Labels: c.Labels(), Tally: document.Tally{AsOf: someTime, Totals: []string{"n"}}}
	labels := map[string]any{"a shop": "a", "day": "2026-01-02"}
	whole := map[string]any{"n": int64(1), "tally": r.Tally.Encode(), "a shop": "a", "day": "2026-01-02"}

	if err := b.Write(t.Context(), c, r); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(whole, b.Get(t, c.RollUp)); d != "" {
		t.Errorf("written (-want +got):\n%s", d)
	}
	b.Put(t, c.RollUp, map[string]any{"tally": r.Tally.Encode(), "day": "x", "title": "y"})
	if err := b.WriteLocked(t.Context(), c, r, r.Tally); err != nil {
		t.Fatal(err)
	}
	whole["title"] = "y"
	if d := cmp.Diff(whole, b.Get(t, c.RollUp)); d != "" {
		t.Errorf("written in a lock (-want +got):\n%s", d)
	}

	for name, test := range map[string]struct {
		holds, labels map[string]any
		foreign       map[string]string
		left          map[string]any
	}{
		"both":                 {labels, labels, nil, nil},
		"another text":         {map[string]any{"a shop": "b", "day": "2026-01-02"}, map[string]any{"a shop": "b", "day": "2026-01-02"}, nil, map[string]any{"a shop": "b"}},
		"none":                 {nil, nil, nil, nil},
		"what says nothing":    {map[string]any{"a shop": "", "day": nil}, map[string]any{"a shop": ""}, nil, map[string]any{"a shop": "", "day": nil}},
		"what no id can be":    {map[string]any{"a shop": []any{"a"}, "day": 7}, nil, map[string]string{"a shop": "an array", "day": "a number"}, map[string]any{"a shop": []any{"a"}, "day": int64(7)}},
		"a field of the app's": {map[string]any{"a shop": "a", "day": "2026-01-02", "title": "y"}, labels, nil, map[string]any{"title": "y"}},
	} {
		fields := map[string]any{"n": 1, "tally": r.Tally.Encode()}
		maps.Copy(fields, test.holds)
		b.Put(t, c.RollUp, fields)
		got := open(t, b, c).RollUp()
		read := make(map[string]any)
		for name, id := range got.Labels {
			read[name] = id
		}
		if d := cmp.Diff(test.labels, read, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s: labels (-want +got):\n%s", name, d)
		}
		if d := cmp.Diff(test.foreign, got.Foreign, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s: foreign (-want +got):\n%s", name, d)
		}
		page, err := b.RollUps(t.Context(), routes[0].Template, "", 10)
		if err != nil || len(page.Found) != 1 || diff(got, page.Found[0].RollUp) != "" {
			t.Errorf("%s: the walk found %+v, %v; want %+v", name, page.Found, err, got)
		}

		err = b.WriteLocked(t.Context(), c, r, r.Tally)
		if isForeign := test.foreign != nil; errors.Is(err, rollup.ErrConflict) != isForeign {
			t.Errorf("%s: written in a lock: %v", name, err)
		}
		b.Put(t, c.RollUp, fields)
		err = b.Remove(t.Context(), c, open(t, b, c).RollUp())
		if d := cmp.Diff(test.left, b.Get(t, c.RollUp)); err != nil || d != "" {
			t.Errorf("%s: removed: %v (-want +got):\n%s", name, err, d)
		}
	}
}

// testRecent: in each collection of days the walk leaves out those that ended before an instant,
// and reads one of them and the owner at most. None is left out if the owner is missing.
func testRecent(t *testing.T, b backend) {
	routes, err := route.Parse("orders/{order} by shop, day(at) -> shops/{shop}/days/{day} : count() as n : within shops/{shop}\n" +
		"orders/{order} by month(at), shop -> reports/{month}/shops/{shop} : count() as n : existing")
	if err != nil {
		t.Fatal(err)
	}
	tally := map[string]any{"tally": rolledUp(value.Int(1), 1, someTime).Tally.Encode()}
	want := make(map[string]bool)
	put := func(path string, is bool) {
		b.Put(t, path, tally)
		want[path] = is
	}
	const last = 370 // days
	for n := range last {
		id := someTime.AddDate(0, 0, n-last+1).Format(time.DateOnly)
		recent := n >= last-31
		if n%37 == 0 || recent || n > last-34 {
			put("shops/many/days/"+id, recent)
		}
	}
	day := func(ago int) string { return someTime.AddDate(0, 0, -ago).Format(time.DateOnly) }
	for _, shop := range []string{"gone", "old", "whole", "__id7__"} {
		for _, ago := range []int{400, 31, 30, 0} {
			put("shops/"+shop+"/days/"+day(ago), shop == "gone" || shop == "whole" || ago <= 30)
		}
		if shop != "gone" {
			b.Put(t, "shops/"+shop, map[string]any{})
		}
	}
	put("shops/quiet/days/"+day(100), false)
	for _, shop := range []string{"many", "quiet"} {
		b.Put(t, "shops/"+shop, map[string]any{})
	}
	for _, junk := range []string{"shops/old/days/x", "shops/old/days/__id5__", "shops/a/b/c/days/2020-01-01", "shops/old/days/" + day(0) + "/days/" + day(0), "other/a/days/" + day(0)} {
		b.Put(t, junk, tally)
	}
	since := func(collection string) time.Time {
		if collection == "shops/whole/days" {
			return time.Time{}
		}
		return someTime.AddDate(0, 0, -30)
	}

	all := 0
	for _, is := range want {
		if is {
			all++
		}
	}
	for _, limit := range []int{1, 2, 3, 7, 100} {
		got, reads := make(map[string]bool), int64(0)
		for pages, from := 0, "-"; from != ""; pages++ {
			p, err := b.Recent(t.Context(), routes[0].Template, since, strings.TrimPrefix(from, "-"), limit)
			if err != nil || len(p.Found) > max(limit, 2) || pages > 1000 {
				t.Fatalf("%d at a time, from %q: %d found, %v", limit, from, len(p.Found), err)
			}
			for _, f := range p.Found {
				if got[f.Counter.RollUp] || f.Ownerless != strings.HasPrefix(f.Counter.RollUp, "shops/gone/") {
					t.Errorf("%s was found again, or says %v of its shop", f.Counter.RollUp, f.Ownerless)
				}
				got[f.Counter.RollUp] = true
			}
			reads += p.Reads
			from = p.Next
		}
		for path, is := range want {
			if got[path] != is {
				t.Errorf("%d at a time: %s found: %v, want %v", limit, path, got[path], is)
			}
		}
		if limit == 100 && reads > int64(all)+30 {
			t.Errorf("%d reads for %d days", reads, all)
		}
	}

	for path, is := range map[string]bool{"reports/2025-11/shops/a": false, "reports/2025-12/shops/a": true, "reports/2026-01/shops/a": true, "reports/2026-01/shops/b": true} {
		b.Put(t, path, tally)
		p, err := b.Recent(t.Context(), routes[1].Template, since, "", 100)
		found := false
		for _, f := range p.Found {
			found = found || f.Counter.RollUp == path
		}
		if err != nil || found != is {
			t.Errorf("%s found: %v, %v; want %v", path, found, err, is)
		}
	}
}
