package firestorestore_test

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/cloud/billing"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
)

func template(t testing.TB, text string) (*route.Template, route.Routes) {
	t.Helper()
	routes, err := route.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return routes[0].Template, routes
}

// However many values are not groups, by one field or by two, a page asks a bounded number of
// queries, and the walk comes to its end.
func TestGroupsAmongJunk(t *testing.T) {
	t.Parallel()
	const junk, limit = 300, 20
	client := dial(t)
	bulkEach(t, client, junk, func(i int) string { return fmt.Sprintf("orders/%04d", i) }, func(i int) map[string]any {
		return map[string]any{"seller": fmt.Sprintf("__%04d__", i), "buyer": fmt.Sprintf("__%04d/__", i)}
	})
	slashes := func(i int) map[string]any { return map[string]any{"seller": fmt.Sprintf("b/%04d", i)} }
	bulkEach(t, client, junk, func(i int) string { return fmt.Sprintf("orders/slash%04d", i) }, slashes)
	for i, id := range []string{"_", "__00", "__0150__0", "b", "c"} {
		bulkCommit(t, client, 1, func(int) string { return fmt.Sprintf("orders/group%d", i) }, map[string]any{"seller": id, "buyer": i})
		bulkCommit(t, client, 1, func(int) string { return fmt.Sprintf("orders/bought%d", i) }, map[string]any{"buyer": id + "!"})
	}
	bulkCommit(t, client, 30, func(i int) string { return fmt.Sprintf("users/__%04d", 5*i) }, map[string]any{"name": "x"}) // no roll-ups

	var r recorder
	store := open(t, client, r.dialOptions()...)
	_, routes := template(t, `
		orders/{order} by seller -> users/{seller} : count() as sold : existing
		orders/{order} by buyer -> users/{buyer} : count() as bought : existing`)
	var got []string
	pages, all := 0, 0
	for n, route := range routes {
		for from, more := "", true; more; pages++ {
			p, err := store.Missing(t.Context(), route, from, limit)
			if err != nil || pages > junk {
				t.Fatalf("page %d: %v", pages, err)
			}
			queries := r.take()["RunQuery"]
			if most := (2 + n) * limit; queries > most { // the second route's values are looked for by the first, too
				t.Errorf("a page of %d asked %d queries, want at most %d", limit, queries, most)
			}
			all += queries
			for _, f := range p.Found {
				got = append(got, f.RollUp.Tally.Routes+f.Counter.RollUp)
			}
			from, more = p.Next, p.Next != ""
		}
	}
	want := []string{"users/_", "users/_!", "users/__00", "users/__00!", "users/__0150__0", "users/__0150__0!", "users/b", "users/b!", "users/c", "users/c!"}
	slices.Sort(got)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("found (-want +got):\n%s", d)
	}
	if pages < junk/(2*limit) || all > 10*junk {
		t.Errorf("%d pages of %d queries in all, want more pages and at most %d queries", pages, all, 10*junk)
	}
}

// Values with a slash that begin alike are stepped over by one query, however many they are.
func TestGroupsAmongSlashes(t *testing.T) {
	t.Parallel()
	client := dial(t)
	bulkEach(t, client, 50, func(i int) string { return fmt.Sprintf("orders/%d", i) }, func(i int) map[string]any {
		return map[string]any{"shop": fmt.Sprintf("b/%d", i)}
	})
	bulkCommit(t, client, 50, func(i int) string { return fmt.Sprintf("orders/c%d", i) }, map[string]any{"shop": "c"})

	var r recorder
	store := open(t, client, r.dialOptions()...)
	_, routes := template(t, "orders/{order} by shop -> shops/{shop} : count() as orders : existing")
	page, err := store.Counters(t.Context(), routes[0], "", 10)
	if err != nil || len(page.Found) != 1 || page.Found[0].Counter.RollUp != "shops/c" || page.Next != "" {
		t.Errorf("found %+v, %v; want shops/c", page, err)
	}
	if queries := r.take()["RunQuery"]; queries != 3 { // a slash, the group, the end
		t.Errorf("asked %d queries, want 3", queries)
	}
}

// An audit of groups reads about four documents a counter: its roll-up and the sum of its
// documents, and the first of them, and the roll-up again. A group whose document is missing costs
// the latter two.
func TestBilledAuditOfGroups(t *testing.T) {
	t.Parallel()
	const shops, lone = 50, 5
	first, next := auditGroups(t, 500, shops, lone)
	if want := (billing.Counts{Reads: 5*shops + 2*lone + 5, Writes: shops + 1}); first.Reads > want.Reads || first.Writes > want.Writes {
		t.Errorf("the first audit was billed %+v, want at most %+v", first, want)
	}
	if want := (billing.Counts{Reads: 4*shops + 2*lone + 5, Writes: 1}); next.Reads > want.Reads || next.Writes > want.Writes {
		t.Errorf("the next audit was billed %+v, want at most %+v", next, want)
	}
}

// BenchmarkAuditOfGroups audits orders by their shops, first without roll-ups, then with them. The
// emulator goes through all orders for each query:
//
//	go test ./internal/cloud/firestorestore -run=^$ -bench=AuditOfGroups -benchtime=1x -timeout=1h
func BenchmarkAuditOfGroups(b *testing.B) {
	const orders, shops = 10_000, 500
	for b.Loop() {
		first, next := auditGroups(b, orders, shops, 0)
		b.ReportMetric(float64(first.Reads)/shops, "first-reads/shop")
		b.ReportMetric(float64(next.Reads)/shops, "next-reads/shop")
	}
}

// auditGroups audits orders by their shops twice, and some of shops that do not exist. It returns
// what each audit was billed, with one write of its cursor.
func auditGroups(t testing.TB, orders, shops, lone int) (first, next billing.Counts) {
	client := dial(t)
	bulkEach(t, client, orders, func(i int) string { return fmt.Sprintf("orders/%d", i) }, func(i int) map[string]any {
		return map[string]any{"shop": fmt.Sprintf("shop %d", i%shops), "amount": i + 1}
	})
	bulkEach(t, client, lone, func(i int) string { return fmt.Sprintf("orders/lone%d", i) }, func(i int) map[string]any {
		return map[string]any{"shop": fmt.Sprintf("lone %d", i), "amount": 1}
	})
	bulkCommit(t, client, shops, func(i int) string { return fmt.Sprintf("shops/shop %d", i) }, map[string]any{"name": "x"})

	meter := billing.NewMeter(nil)
	store := open(t, client, meter.DialOptions()...)
	_, routes := template(t, "orders/{order} by shop -> shops/{shop} : sum(amount) as revenue : existing")
	audit := func() (rollup.Report, billing.Counts) {
		before, began := meter.Counts(), time.Now()
		report, err := rollup.Audit(t.Context(), store, routes, rollup.AuditOptions{
			Options:     rollup.Options{Cadence: time.Second, Timeout: time.Minute, Logger: slog.New(slog.DiscardHandler)},
			Concurrency: 8,
		})
		if err != nil || !report.Complete {
			t.Fatalf("%+v, %v", report, err)
		}
		after := meter.Counts()
		saves := int64(time.Since(began) / (5 * time.Second)) // of the cursor, while it works; one more is at the end
		return report, billing.Counts{Reads: after.Reads - before.Reads, Writes: after.Writes - before.Writes - saves}
	}
	report, first := audit()
	if report.RolledUp != shops {
		t.Errorf("the first audit rolled up %d shops, want %d", report.RolledUp, shops)
	}
	report, next = audit()
	if report.Unchanged != shops {
		t.Errorf("the next audit found %d shops unchanged, want %d", report.Unchanged, shops)
	}
	return first, next
}
