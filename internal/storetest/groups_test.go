package storetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/firestore-tally/tally/internal/value"
	"github.com/firestore-tally/tally/rollup"
	"github.com/google/go-cmp/cmp"
)

// groupValues are what a field By may hold, by whether it is a group.
var groupValues = map[bool][]any{
	true: {"a", "a b", "a!", "A", "größe", "三", "👍🏽", "a.b", "a%2Fb", "_", "__", "__a", "a__", "...", "\x00", "a\x00", "a\nb", "~", "0", "1", "\u00a0", "\uffff", "\U0010FFFF", "x", "y", "zz",
		longest, longest[:1498], longest[:1498] + "w", longest[:1498] + "y", strings.Repeat("y", 1497) + "é", strings.Repeat("z", 1496) + "\uFFFF", strings.Repeat("z", 1496) + "三",
		strings.Repeat("\U0010FFFF", 374), strings.Repeat("\U0010FFFF", 374) + "abc", strings.Repeat("\U0010FFFF", 374) + "\uFFFF"},
	false: {"", ".", "..", "__x__", "____", "__id7__", "a/b", "/", "a/", "/a", "b/" + longest, strings.Repeat("s", 1498) + "/", strings.Repeat("s", 1499) + "/", longest + "x", longest + "xx", longest + "y", longest + "\U0010FFFF",
		strings.Repeat("y", 1498) + "é", strings.Repeat("y", 1499) + "é", strings.Repeat("z", 1496) + "\U0010FFFF", strings.Repeat("w", 3000), longest[:1497] + "\uD7FF", strings.Repeat("v", 1496) + "\uD7FFv",
		strings.Repeat("\U0010FFFF", 375), strings.Repeat("\U0010FFFF", 500),
		nil, true, int64(7), 7.5, someTime, []any{"a"}, []byte("zzz"), map[string]any{"a": "a"}},
}

// testGroups finds each group once, by a field or by another, beside counters of a plain route and
// roll-ups alone, in pages of any size, and goes on from a stored place.
func testGroups(t *testing.T, b backend) {
	routes, err := rollup.ParseRoutes(`
		orders/{order} by seller.id -> users/{seller.id} : count() as sold : existing
		orders/{order} by buyer -> users/{buyer} : count() as bought : existing
		users/{user}/ratings/{rater} -> users/{user} : count() as ratings : existing`)
	if err != nil {
		t.Fatal(err)
	}

	tally := map[string]any{"tally": rolledUp(value.Int(1), 1, someTime).Tally.Encode()}
	want := make(map[string]bool) // whether the counter has a roll-up
	n := 0
	order := func(fields map[string]any) {
		n++
		b.Put(t, fmt.Sprintf("orders/%d", n), fields)
	}
	for i, group := range groupValues[true] {
		id := group.(string)
		if i%3 != 1 {
			order(map[string]any{"seller": map[string]any{"id": id}, "buyer": n})
			order(map[string]any{"seller": map[string]any{"id": id}, "buyer": groupValues[true][(i+7)%len(groupValues[true])]})
			want["users/"+groupValues[true][(i+7)%len(groupValues[true])].(string)] = false
		} else {
			order(map[string]any{"buyer": id})
		}
		want["users/"+id] = false
	}
	for i, id := range []string{"a", "aa", "largest", "\U0010FFFF", longest, longest + "y", strings.Repeat("\U0010FFFF", 375), "__id7__", "__id-3__", "~~"} {
		b.Put(t, "users/"+id, tally)
		b.Put(t, fmt.Sprintf("orders/o%d/users/%s", i, id), tally) // of the same collection group
		want["users/"+id] = true
	}
	for _, id := range []string{"a", "rated", "__id8__", longest + "z", longest} {
		b.Put(t, "users/"+id+"/ratings/0", map[string]any{"stars": 5})
		rolledUp := want["users/"+id]
		want["users/"+id] = rolledUp // found, too, if it has no roll-up
	}
	b.Put(t, "users/plain", map[string]any{"name": "x"})
	for _, junk := range groupValues[false] {
		order(map[string]any{"seller": map[string]any{"id": junk}, "buyer": junk})
		order(map[string]any{"seller": junk})
	}
	order(map[string]any{"seller.id": "flat"})

	var cursor rollup.Cursor
	for _, limit := range []int{1, 2, 7, 1000} {
		got := make(map[string]bool)
		pages := 0
		for from, more := "", true; more; pages++ {
			if pages > 1000 {
				t.Fatalf("%d at a time: no end after %d pages, at %q", limit, pages, from)
			}
			p, err := b.All(t.Context(), routes[0].Template, from, limit)
			if err != nil || len(p.Found) > 4*limit+3 {
				t.Fatalf("from %q: %d found at a time: %v", from, len(p.Found), err)
			}
			from, more = p.Next, p.Next != ""
			if limit == 2 && len(p.Found) > 1 { // a walk may go on behind any of those found
				p.Found, from, more = p.Found[:1], p.Found[0].Next, true
			}
			for _, f := range p.Found {
				path := f.Counter.RollUp
				if _, again := got[path]; again {
					t.Errorf("%d at a time: %q is found twice", limit, path)
				}
				got[path] = !f.RollUp.Tally.AsOf.IsZero()
			}

			cursor.Places = []rollup.Place{{From: from}}
			if cursor.UpdateTime, err = b.SaveCursor(t.Context(), rollup.Auditing, cursor); err != nil {
				t.Fatal(err)
			}
			if cursor, err = b.LoadCursor(t.Context(), rollup.Auditing); err != nil || cursor.Places[0].From != from {
				t.Fatalf("the place %q is stored as %q: %v", from, cursor.Places[0].From, err)
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%d at a time (-want +got):\n%s", limit, d)
		}
	}
}
