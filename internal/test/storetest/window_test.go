package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/value"
	"github.com/firestore-tally/tally/rollup/route"
)

// windowed is a counter of a group, with windows of one field.
const windowed = onShop + `count() as orders, count() where at > now - 1h as last_hour, count() where at >= now - 1h as with_bound,
	sum(amount) where paid == true and at > now - 30d as revenue, average(amount) where at > now - 30d and at < timestamp("2999-01-01T00:00:00Z") as mean,
	latest(at) where at > now - 1h as latest, maximum(amount) where at > now - 1h as largest : existing`

// testWindows holds windows to their bounds, to the microsecond. Whatever is committed after the
// snapshot is in none.
func testWindows(t *testing.T, b backend) {
	c := shopOf(t, windowed)
	docs := make(map[string]map[string]any)
	now := time.Now().UTC().Truncate(time.Microsecond)
	hour, month := now.Add(-time.Hour), now.Add(-30*24*time.Hour)
	for i, at := range []any{
		hour.Add(-time.Microsecond), hour, hour.Add(time.Microsecond), hour.Add(time.Second), month, month.Add(time.Microsecond),
		now.Add(24 * time.Hour), time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC), now.Unix(), now.String(), nil, []any{now},
	} {
		docs[fmt.Sprintf("orders/%02d", i)] = map[string]any{"shop": "a", "at": at, "paid": i%2 == 1, "amount": 1 << i}
	}
	docs["orders/other"] = map[string]any{"shop": "b", "at": hour.Add(time.Microsecond), "paid": true, "amount": 1}
	docs["orders/none"] = map[string]any{"shop": "a", "paid": true, "amount": 1}
	for path, fields := range docs {
		b.Put(t, path, fields)
	}

	s := open(t, b, c)
	b.Put(t, "orders/later", map[string]any{"shop": "a", "at": hour.Add(time.Microsecond), "paid": true, "amount": 1})
	for _, instant := range []time.Time{now, now.Add(-time.Microsecond), now.Add(time.Second), s.ReadTime()} {
		got, err := s.SumAsOf(t.Context(), instant)
		if err != nil {
			t.Fatal(err)
		}
		if d := diff(totalsOf(c, docs, instant), got); d != "" {
			t.Errorf("as of %v (-want +got):\n%s", instant, d)
		}
	}
	if d := diff(totalsOf(c, docs, s.ReadTime()), sumOf(t, s)); d != "" {
		t.Errorf("as of the snapshot (-want +got):\n%s", d)
	}

	got, err := s.SumAsOf(t.Context(), now)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]value.Value{"orders": value.Int(13), "last_hour": value.Int(4), "with_bound": value.Int(5), "revenue": value.Int(2 + 8 + 32 + 128)}
	for name, n := range want {
		if got.Values[name] != n {
			t.Errorf("%s is %v, want %v", name, got.Values[name], n)
		}
	}
	first := func(window time.Duration, at time.Time) route.Leaving { return route.Leaving{Window: window, At: at} }
	wantLeaving := []route.Leaving{
		first(time.Hour, now.Add(time.Microsecond)),
		first(time.Hour, now.Add(time.Microsecond)),
		first(30*24*time.Hour, now.Add(time.Microsecond)),
		first(30*24*time.Hour, now.Add(time.Microsecond)),
	}
	if d := diff(wantLeaving, got.Leaving); d != "" {
		t.Errorf("what leaves first (-want +got):\n%s", d)
	}
}

// shopOf returns the counter of shop a.
func shopOf(t *testing.T, text string) route.Counter {
	t.Helper()
	routes, err := route.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	c, ok := routes[0].Template.Counter("shops/a")
	if !ok {
		t.Fatal("shops/a is not a counter")
	}
	return c
}

// testNoWindows: nothing leaves a window that is empty.
func testNoWindows(t *testing.T, b backend) {
	c := shopOf(t, windowed)
	b.Put(t, "orders/old", map[string]any{"shop": "a", "at": noon.AddDate(-10, 0, 0), "paid": true, "amount": 1})
	got := look(t, b, c).totals
	if got.Leaving != nil || got.Values["last_hour"] != value.Int(0) || got.Values["latest"] != value.Null {
		t.Errorf("got %+v", got)
	}
}
