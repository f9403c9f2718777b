package firestorestore_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/internal/value"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
)

const indexedRoutes = `
	orders/{order} by customer.shop -> shops/{customer.shop} : count() as orders, sum(amount) as revenue, sum(amount) where status == "paid" and open == false as paid,
		average(amount) where status == "paid" as mean, maximum(amount) as most, minimum(amount) where note == null as least, latest(at) as last,
		earliest(` + "`first at`" + `) where open == true as first, count() where open == true and status == "paid" as now,
		count() where at >= timestamp("1970-01-01T00:00:05Z") as young, sum(amount) where at > timestamp("1970-01-01T00:00:05Z") and status in ["paid", "sent"] as sold,
		maximum(amount) where at < timestamp("1970-01-01T00:00:15Z") as early, sum(amount) where amount > 1 as large, earliest(at) where at > timestamp("1970-01-01T00:00:05Z") as since,
		count() where status in ["paid", "due"] as known : existing
	shops/{shop}/ratings/{rater} -> shops/{shop} : count() as ratings, average(stars) as rating, maximum(stars) as best, sum(stars) where checked == true as checked,
		count() where stars > 0 as good, average(stars) where stars > 0 as liked, minimum(stars) where at > true as later : existing`

// order returns a document of the routes' first, whose values are not all numbers.
func order(i int) map[string]any {
	values := []any{1.5, -2, 2, "x", -1.5}
	return map[string]any{"customer": map[string]any{"shop": "a"}, "amount": values[i%len(values)], "status": "paid", "open": i%2 == 0, "note": nil, "at": time.Unix(int64(i), 0).UTC()}
}

// The queries of all that a store does need the composite indexes that rollup names, and no others.
func TestIndexes(t *testing.T) {
	t.Parallel()
	_, routes := template(t, indexedRoutes)
	client := dial(t)
	bulkEach(t, client, 20, func(i int) string { return fmt.Sprintf("orders/%d", i) }, order)
	bulkCommit(t, client, 3, func(i int) string { return fmt.Sprintf("shops/a/ratings/%d", i) }, map[string]any{"stars": 0.5, "checked": true})
	bulkCommit(t, client, 1, func(int) string { return "shops/a" }, map[string]any{"name": "x"})

	index := emulatortest.Indexes{Has: func(x route.Index) bool {
		return slices.ContainsFunc(routes.Indexes(route.Standard), func(y route.Index) bool { return x.Compare(y) == 0 })
	}}
	var log bytes.Buffer
	store := openLogging(t, client, slog.New(slog.NewTextHandler(&log, nil)), index.DialOption())
	c, _ := routes[0].Template.Counter("shops/a")
	s := view(t, store, c)
	if totals := sum(t, s); totals.Malformed == 0 || totals.Values["rating"] != value.Double(0.5) {
		t.Errorf("%+v", totals)
	}
	if _, err := s.Malformed(t.Context(), 1000); err != nil { // so many that it makes all its queries
		t.Error(err)
	}
	for _, name := range c.Template.Totals() {
		if _, err := s.Magnitude(t.Context(), name); err != nil {
			t.Error(err)
		}
	}
	o := rollup.AuditOptions{Options: rollup.Options{Cadence: time.Second, Timeout: time.Minute, Logger: slog.New(slog.DiscardHandler)}, Concurrency: 1}
	if report, err := rollup.Audit(t.Context(), store, routes, o); err != nil || report.RolledUp != 1 {
		t.Errorf("%+v, %v", report, err)
	}

	spell := func(indexes []route.Index) (texts []string) {
		for _, x := range indexes {
			texts = append(texts, x.String())
		}
		return texts
	}
	composite, single := index.Needed()
	if d := cmp.Diff(spell(routes.Indexes(route.Standard)), composite); d != "" {
		t.Errorf("composite indexes (-named +needed):\n%s", d)
	}
	if d := cmp.Diff(spell(routes.FieldIndexes()), single); d != "" {
		t.Errorf("indexes of one field (-named +needed):\n%s", d)
	}
	if log.Len() > 0 {
		t.Errorf("logged %s", &log)
	}
}

// Without one of the indexes the counter's documents are read one by one, in the same snapshot, by
// what they have equal. The log says which index it is. Of too many the error says so, and of
// another counter's documents none is read.
func TestEachMissingIndex(t *testing.T) {
	t.Parallel()
	_, routes := template(t, indexedRoutes)
	client := dial(t)
	bulkEach(t, client, 20, func(i int) string { return fmt.Sprintf("orders/%d", i) }, order)
	bulkCommit(t, client, rollup.MaxUnindexed+1, func(i int) string { return fmt.Sprintf("orders/b%d", i) }, map[string]any{"customer": map[string]any{"shop": "b"}, "amount": 1})
	bulkCommit(t, client, rollup.MaxUnindexed+1, func(i int) string { return fmt.Sprintf("shops/b/ratings/%d", i) }, map[string]any{"stars": 1})
	small, _ := routes[0].Template.Counter("shops/a")
	large, _ := routes[0].Template.Counter("shops/b")
	want := sum(t, view(t, open(t, client), small))

	for _, missing := range routes.Indexes(route.Standard) {
		index := emulatortest.Indexes{Has: func(x route.Index) bool { return x.Compare(missing) != 0 }}
		var log bytes.Buffer
		store := openLogging(t, client, slog.New(slog.NewTextHandler(&log, nil)), index.DialOption())
		_, err := view(t, store, large).Sum(t.Context())
		if !errors.Is(err, rollup.ErrUnkept) || !strings.Contains(err.Error(), "create the index "+missing.String()) || log.Len() > 0 {
			t.Errorf("%v: got %v of many documents, logged %s", missing, err, &log)
		}
		for range 2 {
			if d := cmp.Diff(want, sum(t, view(t, store, small)), cmp.AllowUnexported(value.Value{})); d != "" {
				t.Errorf("without %v (-want +got):\n%s", missing, d)
			}
		}
		said := strings.Count(log.String(), "create the index "+strings.ReplaceAll(missing.String(), `"`, `\"`))
		if missing.Collection == "orders" && said != 1 {
			t.Errorf("%v: logged %d times:\n%s", missing, said, &log)
		}
	}
}
