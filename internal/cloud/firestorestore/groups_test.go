package firestorestore_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/cloud/billing"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

func template(t testing.TB, text string) (*route.Template, route.Routes) {
	t.Helper()
	routes, err := route.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return routes[0].Template, routes
}

// An audit of groups reads two documents a counter: its roll-up and the sum of its documents. A
// document without totals costs one read more, and a group without a document costs nothing.
func TestBilledAuditOfGroups(t *testing.T) {
	t.Parallel()
	const shops, lone, bare = 50, 40, 30
	first, next := auditGroups(t, 500, shops, lone, bare)
	if want := (billing.Counts{Reads: (1+1+2+2)*shops + 2*bare + 5, Writes: shops + 1}); first.Reads > want.Reads || first.Writes > want.Writes {
		t.Errorf("the first audit was billed %+v, want at most %+v", first, want)
	}
	if want := (billing.Counts{Reads: 2*shops + 2*bare + 5, Writes: 1}); next.Reads > want.Reads || next.Writes > want.Writes {
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
		first, next := auditGroups(b, orders, shops, 0, 0)
		b.ReportMetric(float64(first.Reads)/shops, "first-reads/shop")
		b.ReportMetric(float64(next.Reads)/shops, "next-reads/shop")
	}
}

// auditGroups audits orders by their shops twice. Some shops do not exist, and some are bare of
// orders. It returns what each audit was billed, with one write of its cursor.
func auditGroups(t testing.TB, orders, shops, lone, bare int) (first, next billing.Counts) {
	client := dial(t)
	bulkEach(t, client, orders, func(i int) string { return fmt.Sprintf("orders/%d", i) }, func(i int) map[string]any {
		return map[string]any{"shop": fmt.Sprintf("shop %d", i%shops), "amount": i + 1}
	})
	bulkEach(t, client, lone, func(i int) string { return fmt.Sprintf("orders/lone%d", i) }, func(i int) map[string]any {
		return map[string]any{"shop": fmt.Sprintf("lone %d", i), "amount": 1}
	})
	bulkCommit(t, client, shops, func(i int) string { return fmt.Sprintf("shops/shop %d", i) }, map[string]any{"name": "x"})
	bulkCommit(t, client, bare, func(i int) string { return fmt.Sprintf("shops/bare %d", i) }, map[string]any{"name": "x"})

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
