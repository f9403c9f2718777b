package reason_test

import (
	"strings"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/reason"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
)

// Each way in which totals do not have a document has a reason of its own.
func TestOf(t *testing.T) {
	const orders = "orders/{order} by shop -> shops/{shop} : amount as revenue, maximum(amount) as largest, count() where status in [\"paid\", \"sent\"] as sold : existing"
	const likes = "posts/{post}/likes/{user} -> posts/{post} : count() as likes, count() where at > now - 24h as trending : existing"
	const karma = "posts/{post} by author -> users/{author} : likes as karma, count() where hidden == false and draft == null as shown : existing"
	const seats = "rooms/{room}/shards/{s} -> room_totals/{room} : seats.taken as taken"
	const halls = "halls/{hall}/shards/{s} -> hall_totals/{hall} : taken"
	routes, err := route.Parse(halls + "\n" + orders + "\n" + likes + "\n" + karma + "\n" + seats)
	if err != nil {
		t.Fatal(err)
	}

	good := map[string]any{"shop": "7", "amount": int64(5), "status": "paid"}
	with := func(name string, value any) map[string]any {
		fields := map[string]any{name: value}
		for other, held := range good {
			if other != name {
				fields[other] = held
			}
		}
		return fields
	}
	for _, test := range []struct {
		name, path string
		fields     map[string]any
		want       []string
	}{
		{"all is well", "orders/1", good, nil},
		{"all is well, with a time that is not set yet", "posts/1/likes/ann", map[string]any{"at": nil}, nil},
		{"a total that comes later", "posts/1", map[string]any{"author": "ann", "hidden": false, "draft": nil}, nil},
		{"no such collection", "users/ann", map[string]any{}, nil},
		{"looks like a shard", "pages/7/shards/0", map[string]any{"n": int64(1)},
			[]string{"no route covers pages/7/shards/0, which looks like a shard; to sum it, add the route pages/{page}/shards/{shard} -> page_totals/{page} : n"}},
		{"null key", "orders/1", with("shop", nil), []string{"orders/1 belongs to no counter of " + orders + ": its shop is null, not a string"}},
		{"number for a text", "orders/1", with("shop", int64(7)), []string{"orders/1 belongs to no counter of " + orders + ": its shop is a number, not a string: group by number(shop)"}},
		{"misspelled key", "orders/1", map[string]any{"shopp": "7", "amount": 0.5, "status": "sent"}, []string{"orders/1 belongs to no counter of " + orders + ": it has no field shop; did you mean shopp?"}},
		{"boolean key", "orders/1", with("shop", true), []string{"orders/1 belongs to no counter of " + orders + ": its shop is a boolean, not a string: no key takes a boolean; count() where shop == true is how many documents have it"}},
		{"condition of another kind", "orders/1", with("status", int64(1)), []string{`orders/1: its status is a number, and status in ["paid", "sent"] compares it with a string: sold does not have it`}},
		{"condition unmet", "orders/1", with("status", "open"), []string{`orders/1: its status is "open", and sold takes only documents where status in ["paid", "sent"]`}},
		{"condition unmet by null", "orders/1", with("status", nil), []string{`orders/1: its status is null, and sold takes only documents where status in ["paid", "sent"]`}},
		{"null is asked for", "posts/1", map[string]any{"author": "ann", "hidden": true, "draft": "x"}, []string{
			"posts/1: its draft is \"x\", and shown takes only documents where draft == null",
			"posts/1: its hidden is true, and shown takes only documents where hidden == false",
		}},
		{"no number", "orders/1", with("amount", "5"), []string{"orders/1: amount is a string, and sum(amount) sees only finite numbers", "orders/1: amount is a string, and maximum(amount) sees only numbers"}},
		{"misspelled field", "orders/1", map[string]any{"shop": "7", "amout": int64(5), "status": "paid"}, []string{"orders/1: it has no field amount; did you mean amout?"}},
		{"no time", "posts/1/likes/ann", map[string]any{"at": "noon"}, []string{"posts/1/likes/ann is in no window of " + likes + ": its at is a string, not a timestamp"}},
		{"path through an array", "rooms/1/shards/0", map[string]any{"seats": []any{map[string]any{"taken": int64(5)}}},
			[]string{"rooms/1/shards/0: its seats is an array, and no path leads through one, so it has no seats.taken, which the route sums: " + seats}},
		{"path through a time", "rooms/1/shards/0", map[string]any{"seats": time.Unix(0, 0)},
			[]string{"rooms/1/shards/0: its seats is a timestamp, not a map, so it has no seats.taken, which the route sums: " + seats}},
		{"shard of other numbers", "halls/1/shards/0", map[string]any{"free": int64(5)},
			[]string{"halls/1/shards/0 has free, not taken; to sum it, the route is halls/{hall}/shards/{s} -> hall_totals/{hall} : free"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var said []string
			for _, r := range reason.Of(routes, reason.DocumentOf(test.path, test.fields)) {
				said = append(said, r.Text(test.path))
			}
			if d := cmp.Diff(test.want, said); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// An event of a document that a key leaves out costs little more than one of a document in a group.
func TestOmissionsAllocate(t *testing.T) {
	routes, err := route.Parse("orders/{order} by shop, day(at) -> shops/{shop}/days/{day} : count() as orders : existing")
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string]any{"shop": []any{"a"}, "at": time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)}
	d := reason.DocumentOf("orders/1", fields)
	n := testing.AllocsPerRun(100, func() {
		for _, why := range reason.Omissions(routes[0], d) {
			_ = string(why.Kind) + why.About + routes[0].String()
		}
	})
	if n > 12 {
		t.Errorf("%v allocations", n)
	}
}

// A document whose roll-up would have too long a path is told.
func TestRollUpTooLong(t *testing.T) {
	routes, err := route.Parse("a/{a}/b/{b}/c/{c}/d/{d} by x, y -> a/{a}/b/{b}/c/{c}/x/{x}/y/{y} : count() as n : existing")
	if err != nil {
		t.Fatal(err)
	}
	for length, want := range map[int]int{1000: 0, 1400: 1} {
		id := strings.Repeat("i", length)
		d := reason.DocumentOf(strings.Join([]string{"a", id, "b", id, "c", id, "d", "1"}, "/"), map[string]any{"x": id, "y": id})
		if got := reason.Omissions(routes[0], d); len(got) != want || want > 0 && got[0].About != "too long" {
			t.Errorf("ids of %d bytes: %+v", length, got)
		}
	}
}
