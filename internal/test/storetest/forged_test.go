package storetest

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/test/memstore"
	"github.com/firestore-tally/tally/internal/value"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

// products are a template with a total of each kind, named kept and kept1 to kept8.
func products(t *testing.T) (routes route.Routes, names []string) {
	var totals []string
	for i, kind := range memstore.TotalKinds {
		name := "kept"
		if i > 0 {
			name = fmt.Sprint("kept", i)
		}
		names, totals = append(names, name), append(totals, kind.Total+" as "+name)
	}
	routes, err := route.Parse("products/{product}/reviews/{review} -> products/{product} : " + strings.Join(totals, ", ") + " : existing")
	if err != nil {
		t.Fatal(err)
	}
	return routes, names
}

// review adds a review of a product.
func review(t *testing.T, b backend, path string, n int) {
	b.Put(t, fmt.Sprint(path, "/reviews/", n), map[string]any{"stars": 3 + n, "at": someTime.Add(time.Duration(n) * time.Hour)})
}

// auditAll audits all counters once, and returns the report.
func auditAll(t *testing.T, s rollup.AuditStore, routes route.Routes) rollup.Report {
	t.Helper()
	o := auditOptions()
	o.Alarms, o.FromFirst = noAlarms{}, true
	report, err := rollup.Audit(t.Context(), s, routes, o)
	if err != nil || !report.Complete {
		t.Fatalf("%+v, %v", report, err)
	}
	return report
}

// noAlarms takes every alarm, and none rings.
type noAlarms struct{}

func (noAlarms) Create(context.Context, rollup.Alarm) error { return nil }

// wantRight checks that a document holds all totals as its sources make them, except some.
func wantRight(t *testing.T, b backend, c route.Counter, left map[string]any) {
	t.Helper()
	snapshot := open(t, b, c)
	right, fields := sumOf(t, snapshot), b.Get(t, c.RollUp)
	for name, want := range right.Values {
		own, isLeft := left[name]
		got, ok := value.Of(fields[name])
		switch {
		case isLeft && !reflect.DeepEqual(snapshot.RollUp().Foreign[name], own):
			t.Errorf("%s: %s is %v, want %v", c.RollUp, name, fields[name], own)
		case !isLeft && (!ok || got != want):
			t.Errorf("%s: %s is %v, want %v", c.RollUp, name, fields[name], want)
		}
		if covers := snapshot.RollUp().Tally.Covers(name); covers == isLeft {
			t.Errorf("%s: the tally covers %s: %v", c.RollUp, name, covers)
		}
	}
}

// testLeftOut has documents hold each of the app's own values in the field of each total, alone and
// in all fields. Those stay, and all other totals are right. Cleared fields have their totals after
// an audit.
func testLeftOut(t *testing.T, b backend) {
	routes, names := products(t)
	lefts := make(map[route.Counter]map[string]any)
	add := func(id string, own map[string]memstore.OwnValue) {
		c, _ := routes[0].Template.Counter("products/" + id)
		fields, left := map[string]any{"title": "x"}, make(map[string]any)
		for name, v := range own {
			fields[name], left[name] = v.Value, v.Kind
		}
		b.Put(t, c.RollUp, fields)
		review(t, b, c.RollUp, 0)
		review(t, b, c.RollUp, 1)
		lefts[c] = left
	}
	numbers, times := memstore.OwnValues(false), memstore.OwnValues(true)
	for n := range numbers {
		everywhere := make(map[string]memstore.OwnValue)
		for i, kind := range memstore.TotalKinds {
			everywhere[names[i]] = numbers[n]
			if kind.OfTimes {
				everywhere[names[i]] = times[n]
			}
			add(fmt.Sprintf("%d-%s", n, names[i]), map[string]memstore.OwnValue{names[i]: everywhere[names[i]]})
		}
		add(fmt.Sprint(n, "-all"), everywhere)
	}

	for round := range 2 {
		report := auditAll(t, b, routes)
		if report.ForeignKind != len(lefts) || report.Unwritten+report.Drift+report.Unkept > 0 || round == 1 && report.RolledUp > 0 {
			t.Errorf("audit %d says %+v, want %d of a foreign kind", round, report, len(lefts))
		}
		for c, left := range lefts {
			wantRight(t, b, c, left)
		}
	}

	for c := range lefts {
		fields := b.Get(t, c.RollUp)
		for name := range lefts[c] {
			delete(fields, name)
		}
		b.Put(t, c.RollUp, fields)
	}
	report := auditAll(t, b, routes)
	if report.RolledUp != len(lefts) || report.ForeignKind+report.Drift > 0 {
		t.Errorf("after the fields were cleared, an audit says %+v", report)
	}
	for c := range lefts {
		wantRight(t, b, c, nil)
	}
}

// testForgedTotals has clients make up all totals, and a tally of whatever parts. After one audit
// all are right, with sources and without.
func testForgedTotals(t *testing.T, b backend) {
	routes, names := products(t)
	var forged []route.Counter
	for name, tally := range memstore.ForgedTallies(routes[0].Template, time.Now().UTC().Truncate(time.Microsecond)) {
		for reviews := range 2 {
			c, _ := routes[0].Template.Counter(fmt.Sprintf("products/%s %d", name, reviews))
			fields := map[string]any{"title": "x"}
			for i, kind := range memstore.TotalKinds {
				fields[names[i]] = 1e6
				if kind.OfTimes {
					fields[names[i]] = someTime.AddDate(100, 0, 0)
				}
			}
			if tally != nil {
				fields[document.TallyField] = tally
			}
			b.Put(t, c.RollUp, fields)
			for n := range reviews {
				review(t, b, c.RollUp, n)
			}
			forged = append(forged, c)
		}
	}

	report := auditAll(t, b, routes)
	if report.RolledUp != len(forged) {
		t.Errorf("the audit says %+v, want %d rolled up", report, len(forged))
	}
	for _, c := range forged {
		wantRight(t, b, c, nil)
	}
	if report := auditAll(t, b, routes); report.RolledUp+report.Differing > 0 {
		t.Errorf("the next audit says %+v", report)
	}
}

// testForgedKarma has a client make up a post's likes, which count in its author's karma.
func testForgedKarma(t *testing.T, b backend) {
	routes, err := route.Parse(`
		likes/{like} by post -> posts/{post} : count() as likes : existing
		posts/{post} by author -> users/{author} : sum(likes) as karma : existing`)
	if err != nil {
		t.Fatal(err)
	}
	b.Put(t, "users/ann", map[string]any{"karma": 3})
	b.Put(t, "posts/forged", map[string]any{"author": "ann", "likes": 1000000})
	b.Put(t, "posts/honest", map[string]any{"author": "ann"})
	b.Put(t, "likes/1", map[string]any{"post": "honest"})

	auditAll(t, b, routes)
	auditAll(t, b, routes) // the event of the repair does as much
	if post, user := b.Get(t, "posts/forged"), b.Get(t, "users/ann"); post["likes"] != int64(0) || user["karma"] != int64(1) {
		t.Errorf("the post holds %v, its author %v", post, user)
	}
}

// crashing is a store whose process dies right after each write.
type crashing struct{ backend }

func (s crashing) Write(ctx context.Context, c route.Counter, r rollup.RollUp) error {
	err := s.backend.Write(ctx, c, r)
	if err != nil {
		return err
	}
	return context.DeadlineExceeded
}

// testBeforeStays has a hundred roll-ups follow the one that replaced a number: by two revisions,
// with crashes between, and after an hour at zero.
func testBeforeStays(t *testing.T, b backend) {
	const text = "counters/{counter}/shards/{shard} -> rollups/{counter} : visits"
	revisions := []route.Counter{counter(text, "counters/a/shards"), counter(text+", likes", "counters/a/shards")}
	want := map[string]value.Value{"visits": value.Int(1234)}
	b.Put(t, "rollups/a", map[string]any{"visits": 1234})
	for n := range 100 {
		c := revisions[n/3%2]
		var s rollup.AuditStore = b
		if n%5 == 4 {
			s = crashing{b}
		}
		b.Put(t, fmt.Sprint(source(c), "/", n%7), map[string]any{"visits": n + 1, "likes": 1})
		o := auditOptions()
		o.FromFirst = true
		o.Cadence = time.Millisecond
		_, _ = rollup.Audit(t.Context(), s, c.Template.Routes, o) // a crash is an error
		if got := open(t, b, c).RollUp().Tally; !maps.Equal(got.Before, want) || !got.Covers("visits") {
			t.Fatalf("after %d roll-ups it holds %+v", n+1, got)
		}
	}

	c := revisions[1]
	for n := range 7 {
		b.Delete(t, fmt.Sprint(source(c), "/", n))
	}
	auditAll(t, b, c.Template.Routes)
	fields := b.Get(t, "rollups/a")
	tally := fields["tally"].(map[string]any)
	tally["as_of"] = tally["as_of"].(time.Time).Add(-2 * time.Hour)
	b.Put(t, "rollups/a", fields)
	report := auditAll(t, b, c.Template.Routes)
	if got := open(t, b, c).RollUp(); report.Removed > 0 || !maps.Equal(got.Tally.Before, want) || got.Values["visits"] != value.Int(0) {
		t.Errorf("after an hour at zero it holds %+v; the audit says %+v", got, report)
	}
}
