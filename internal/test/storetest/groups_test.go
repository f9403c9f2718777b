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

// testGroups finds each group once, by a field or by another, next to counters of a plain route and
// roll-ups alone, in pages of any size.
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

func (s storing) Missing(ctx context.Context, r *route.Route, from string, limit int) (rollup.Page, error) {
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
	return s.AuditStore.Missing(ctx, r, from, limit)
}
