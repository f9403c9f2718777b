package local

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// An ordering knows what each shop's orders added up to at any instant: that is what roll-ups are
// compared with.
func TestOrdersAtAnInstant(t *testing.T) {
	second := func(n int) time.Time { return time.Unix(int64(n), 0) }
	r := &ordering{
		Orders: Orders{Shops: 3, Orders: 2},
		versions: [][]version{
			{
				{order{shop: 0, amount: 10}, second(1), second(1)},
				{order{shop: 0, amount: 10, paid: true}, second(3), second(3)},
				{order{shop: 1, amount: 10, paid: true}, second(5), second(5)},
				{order{shop: 1, gone: true}, second(7), second(7)},
			},
			{{order{shop: 0, amount: 4, paid: true}, second(2), second(2)}},
		},
	}

	for _, test := range []struct {
		at   int
		want [3]ShopTotals
	}{
		{0, [3]ShopTotals{}},
		{1, [3]ShopTotals{{1, 0, 10}}},
		{2, [3]ShopTotals{{2, 4, 10}}},
		{4, [3]ShopTotals{{2, 14, 10}}},
		{5, [3]ShopTotals{{1, 4, 4}, {1, 10, 10}}},
		{8, [3]ShopTotals{{1, 4, 4}}},
	} {
		var got [3]ShopTotals
		for shop := range got {
			got[shop] = r.at(shop, second(test.at))[0]
		}
		if d := cmp.Diff(test.want, got); d != "" {
			t.Errorf("at %d s (-want +got):\n%s", test.at, d)
		}
	}

	if got, want := r.lastWrites(), []time.Time{second(5), second(7), {}}; !slices.Equal(got, want) {
		t.Errorf("the last writes were at %v, want %v", got, want)
	}
}

// A snapshot may lack what was not answered yet: in each total, in both shops. It lacks nothing
// that was answered, and has nothing that was not committed.
func TestOrdersNotAnswered(t *testing.T) {
	second := func(n int) time.Time { return time.Unix(int64(n), 0) }
	r := &ordering{
		Orders: Orders{Shops: 2, Orders: 2},
		versions: [][]version{
			{
				{order{shop: 0, amount: 10, paid: true}, second(1), second(2)},
				{order{shop: 1, amount: 10, paid: true}, second(4), second(8)},
			},
			{{order{shop: 0, amount: 4, paid: true}, second(5), second(7)}},
		},
	}

	for _, test := range []struct {
		at, shop int
		totals   ShopTotals
		want     bool
	}{
		{3, 0, ShopTotals{1, 10, 10}, true},
		{3, 0, ShopTotals{}, false},          // lacks what was answered
		{3, 1, ShopTotals{1, 10, 10}, false}, // has what was not committed
		{6, 0, ShopTotals{1, 4, 4}, true},    // with both
		{6, 0, ShopTotals{2, 14, 10}, true},  // without the move
		{6, 0, ShopTotals{1, 10, 10}, true},  // without either
		{6, 0, ShopTotals{0, 0, 0}, true},    // without the new order
		{6, 0, ShopTotals{1, 14, 4}, true},   // its queries may differ in that
		{6, 0, ShopTotals{3, 14, 10}, false},
		{6, 1, ShopTotals{}, true},
		{6, 1, ShopTotals{1, 10, 10}, true},
		{7, 0, ShopTotals{1, 4, 4}, true},
		{7, 0, ShopTotals{1, 10, 10}, false}, // the same, in revenue
		{7, 0, ShopTotals{0, 0, 0}, false},   // lacks the new order, which was answered
		{8, 1, ShopTotals{}, false},
	} {
		if got := test.totals.right(r.at(test.shop, second(test.at))); got != test.want {
			t.Errorf("%+v of shop %d at %d s: got %v, want %v", test.totals, test.shop, test.at, got, test.want)
		}
	}
}

// A write that moves an order is covered once both shops' totals are.
func TestOrdersLags(t *testing.T) {
	second := func(n int) time.Time { return time.Unix(int64(n), 0) }
	r := &ordering{
		Orders:   Orders{Shops: 2, Orders: 1},
		versions: [][]version{{{order{shop: 0, amount: 1}, second(1), second(1)}, {order{shop: 1, amount: 1}, second(2), second(2)}}},
	}
	lags := r.lags([]sighting{
		{shop: 0, asOf: second(1), seen: second(3)},
		{shop: 1, asOf: second(2), seen: second(4)},
		{shop: 0, asOf: second(4), seen: second(9)},
	})
	if want := []time.Duration{2 * time.Second, 7 * time.Second}; !slices.Equal(lags, want) {
		t.Errorf("got %v, want %v", lags, want)
	}
}

// What is in doubt is not judged.
func TestOrdersInDoubt(t *testing.T) {
	now := time.Now()
	r := &ordering{doubts: []interval{{now, now.Add(time.Second)}}}
	for after, want := range map[time.Duration]bool{-1: false, 0: true, time.Second: true, time.Second + 1: false} {
		if got := r.doubted(now.Add(after)); got != want {
			t.Errorf("%v after: got %v", after, got)
		}
	}
}

// Every kind of write that fails says why.
func TestOrdersThatAreRefused(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := &ordering{client: emulatortest.ClientDatabase(t, emulatortest.Project(t), firestore.DefaultDatabaseID)}
	for _, o := range []order{{amount: 1}, {gone: true}} {
		if _, err := r.send(ctx, r.client.Doc("orders/1"), o); !errors.Is(err, context.Canceled) && status.Code(err) != codes.Canceled {
			t.Errorf("%+v: got %v", o, err)
		}
	}
}
