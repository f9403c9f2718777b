package storetest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/firestore-tally/tally/internal/value"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
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

// testGroups finds each document of the app's own that has a tally, or sources by a field, by
// another or by its path, once, in pages of any size. It finds none without them, and none that
// does not exist.
func testGroups(t *testing.T, b backend) {
	routes, err := route.Parse(`
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
		switch i % 4 {
		case 0:
			order(map[string]any{"seller": map[string]any{"id": id}, "buyer": n})
			order(map[string]any{"seller": map[string]any{"id": id}, "buyer": "unknown"})
		case 1:
			order(map[string]any{"buyer": id})
		case 2:
			order(map[string]any{"buyer": id + "!", "seller.id": id})
		}
		if i%5 != 4 {
			b.Put(t, "users/"+id, map[string]any{"name": "x"})
			if i%4 < 2 {
				want["users/"+id] = false
			}
		}
	}
	for i, id := range []string{"a", "aa", "largest", "\U0010FFFF", longest, longest + "y", strings.Repeat("\U0010FFFF", 375), "__id7__", "__id-3__", "~~"} {
		b.Put(t, "users/"+id, tally)
		b.Put(t, fmt.Sprintf("orders/o%d/users/%s", i, id), tally) // of the same collection group
		want["users/"+id] = true
	}
	for i, id := range []string{"a", "rated", "__id8__", longest + "z", longest, "gone"} {
		b.Put(t, "users/"+id+"/ratings/0", map[string]any{"stars": 5})
		if i > 0 && id != "gone" && !want["users/"+id] {
			b.Put(t, "users/"+id, map[string]any{"name": "x"})
			want["users/"+id] = false
		}
	}
	b.Put(t, "users/plain", map[string]any{"name": "x"})
	b.Put(t, "users/"+longest+"p", map[string]any{"name": "x"}) // too long for a query
	b.Put(t, "users/__id9__", map[string]any{"name": "x"})
	for _, junk := range groupValues[false] {
		order(map[string]any{"seller": map[string]any{"id": junk}, "buyer": junk})
		order(map[string]any{"seller": junk})
	}
	order(map[string]any{"seller.id": "flat"})

	b.AuditStore = storing{b.AuditStore, t}
	for _, limit := range []int{1, 2, 7, 1000} {
		if d := cmp.Diff(want, find(t, b, routes[0].Template, limit)); d != "" {
			t.Errorf("%d at a time (-want +got):\n%s", limit, d)
		}
	}
}

// A storing store stores each place that a walk goes on from, and goes on from what it loads.
type storing struct {
	rollup.AuditStore
	t *testing.T
}

func (s storing) RollUps(ctx context.Context, template *route.Template, from string, limit int) (rollup.Page, error) {
	c, err := s.LoadCursor(ctx, rollup.Auditing)
	if err != nil {
		return rollup.Page{}, err
	}
	c.Places = []rollup.Place{{From: from}}
	if _, err := s.SaveCursor(ctx, rollup.Auditing, c); err != nil {
		return rollup.Page{}, err
	}
	c, err = s.LoadCursor(ctx, rollup.Auditing)
	if err != nil || c.Places[0].From != from {
		s.t.Errorf("the place %q is stored as %+v: %v", from, c.Places, err)
	}
	return s.AuditStore.RollUps(ctx, template, from, limit)
}
