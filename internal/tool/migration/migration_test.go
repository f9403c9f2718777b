package migration

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/cloud/billing"
	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/internal/value"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestMain(m *testing.M) { emulatortest.Main(m) }

const routes = `
	pages/{page}/_counter_shards_/{shard} -> page_totals/{page} : visits, likes
	sites/{site}/pages/{page}/_counter_shards_/{shard} -> sites/{site}/page_totals/{page} : visits
	stats/all/_counter_shards_/{shard} -> totals/stats : visits
	counters/{counter}/shards/{shard} -> rollups/{counter} : count`

// A database is one of its own, whose operations are counted.
type database struct {
	t      *testing.T
	client *firestore.Client
	meter  *billing.Meter
	routes route.Routes
}

func newDatabase(t *testing.T) *database {
	t.Helper()
	t.Parallel()
	d := &database{t: t, meter: billing.NewMeter(nil)}
	var err error
	if d.routes, err = route.Parse(routes); err != nil {
		t.Fatal(err)
	}
	if d.client, err = firestorestore.Dial(t.Context(), emulatortest.Addr(t), emulatortest.Project(t), firestore.DefaultDatabaseID, d.meter.DialOptions()...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.client.Close() })
	return d
}

// Of two routes with the same documents, one would be left out.
func TestTwoRoutesOfOneDocument(t *testing.T) {
	twice, err := route.Parse("pages/{page}/_counter_shards_/{shard} -> page_totals/{page} : visits; pages/{p}/_counter_shards_/{s} -> pages/{p} : likes : existing")
	if err != nil {
		t.Fatal(err)
	}
	_, err = Scan(t.Context(), nil, twice, nil)
	if err == nil || !strings.Contains(err.Error(), "name all fields in one route") {
		t.Errorf("the error is %v", err)
	}
}

// A total of a nested field would begin at 0: what the extension has counted in it is not moved.
func TestRouteOfANestedField(t *testing.T) {
	nested, err := route.Parse("pages/{page}/_counter_shards_/{shard} -> page_totals/{page} : visits, sum(today.visits) as today")
	if err != nil {
		t.Fatal(err)
	}
	_, err = Scan(t.Context(), nil, nested, nil)
	if err == nil || !strings.Contains(err.Error(), "today.visits") {
		t.Errorf("the error is %v", err)
	}
}

func (d *database) set(path string, fields map[string]any) {
	d.t.Helper()
	if _, err := d.client.Doc(path).Set(d.t.Context(), fields); err != nil {
		d.t.Fatal(err)
	}
}

func (d *database) scan() *Plan {
	d.t.Helper()
	p, err := Scan(d.t.Context(), d.client, d.routes, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	return p
}

// random is the id of an extension's client's shard.
func random(n int) string { return fmt.Sprintf("%08x-7f3a-4d4e-9c1b-2f6e0a9d5c11", n*0x1234567) }

// partial is a partial sum of the extension.
func partial(data ...map[string]any) map[string]any {
	var updates []any
	for i, fields := range data {
		updates = append(updates, map[string]any{"_id_": fmt.Sprint(i), "_data_": fields})
	}
	return map[string]any{fieldUpdates: updates}
}

// fill writes documents in all states that the extension leaves.
func (d *database) fill() {
	d.set("pages/quiet", map[string]any{"visits": 100, "likes": 7, "title": "all added up, no shards"})
	d.set("pages/busy", map[string]any{"visits": 1000, "likes": 0.5})
	for n := range 12 {
		d.set("pages/busy/_counter_shards_/"+random(n), map[string]any{"visits": n, "likes": 1})
	}
	d.set("pages/busy/_counter_shards_/3", map[string]any{"visits": 5})
	d.set("pages/busy/_counter_shards_/03", map[string]any{"visits": 1}) // no number as clients write it
	d.set("pages/busy/_counter_shards_/10", map[string]any{"visits": 1}) // too high
	d.set("pages/busy/_counter_shards_/\t\t\t\t0", partial(map[string]any{"visits": 30, "likes": 3}, map[string]any{"visits": -10}))
	d.set("pages/new/_counter_shards_/"+random(1), map[string]any{"visits": 2})
	d.set("pages/large", map[string]any{"num_shards": 20})
	d.set("pages/large/_counter_shards_/19", map[string]any{"visits": 2})
	d.set("pages/large/_counter_shards_/20", map[string]any{"visits": 2})
	d.set("pages/other", map[string]any{"title": "no counter"})
	d.set("pages/text", map[string]any{"visits": "many"})
	d.set("sites/s/pages/p", map[string]any{"visits": 40})
	d.set("sites/s/pages/p/_counter_shards_/"+random(2), map[string]any{"visits": 2})
	d.set("users/u/pages/p", map[string]any{"visits": 9}) // of a collection with the same name
	d.set("stats/all", map[string]any{"visits": 50})
	d.set("stats/all/_counter_shards_/"+random(3), map[string]any{"visits": 1})
	d.set("stats/today", map[string]any{"visits": 50}) // not the route's
	d.set("counters/c/shards/0", map[string]any{"count": 1})
}

// found is a plan in short, by path.
func found(p *Plan) map[string]string {
	all := map[string]string{}
	for _, d := range p.Documents {
		text := fmt.Sprintf("%d of %d, %d partial", d.Fold, d.Shards, d.Partials)
		for i := range d.Totals {
			text += fmt.Sprintf("; %s %v to %v", d.Totals[i].Field, d.Totals[i].Left, d.Totals[i].Expected())
		}
		all[d.Path] = text
	}
	return all
}

func TestScanAndRun(t *testing.T) {
	d := newDatabase(t)
	d.fill()
	before := d.meter.Counts()
	p := d.scan()
	want := map[string]string{
		"pages/quiet":     "0 of 0, 0 partial; visits 100 to 100; likes 7 to 7",
		"pages/busy":      "15 of 16, 1 partial; visits 1000 to 1093; likes 0.5 to 15.5",
		"pages/new":       "1 of 1, 0 partial; visits 0 to 2; likes 0 to 0",
		"pages/large":     "1 of 2, 0 partial; visits 0 to 4; likes 0 to 0",
		"sites/s/pages/p": "1 of 1, 0 partial; visits 40 to 42",
		"stats/all":       "1 of 1, 0 partial; visits 50 to 51",
	}
	if diff := cmp.Diff(want, found(p)); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
	if len(p.Uncounted) != 1 || p.Uncounted[0].What != "the field visits of a document is a string, not a number" || p.Uncounted[0].Example != "pages/text" {
		t.Errorf("not counted: %v; want the text alone", p.Uncounted)
	}
	left := map[string]string{}
	for field, n := range p.Left() {
		left[field] = n.String()
	}
	if diff := cmp.Diff(map[string]string{"visits": "1190", "likes": "7.5"}, left); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	after := d.meter.Counts()
	if got := (billing.Counts{Reads: p.Reads}); after.Reads-before.Reads != got.Reads || after.Writes != before.Writes || after.Deletes != before.Deletes {
		t.Errorf("the scan billed %v after %v and says %d reads", after, before, p.Reads)
	}

	if err := p.Run(t.Context(), d.client, 3, nil); err != nil {
		t.Fatal(err)
	}
	billed := d.meter.Counts()
	billed.Reads -= after.Reads
	billed.Writes -= after.Writes
	billed.Deletes -= after.Deletes
	cost := p.Cost()
	cost.Reads -= p.Reads
	if diff := cmp.Diff(cost, billed); diff != "" {
		t.Errorf("billed (-foretold +billed):\n%s", diff)
	}

	second := d.scan()
	want = map[string]string{
		"pages/quiet":     "visits 100; likes 7",
		"pages/busy":      "visits 1093; likes 15.5",
		"pages/new":       "visits 2; likes 0",
		"pages/large":     "visits 4; likes 0",
		"sites/s/pages/p": "visits 42",
		"stats/all":       "visits 51",
	}
	got := map[string]string{}
	for _, d := range second.Documents {
		if !d.Done() {
			t.Errorf("%s is not done: %+v", d.Path, d)
		}
		var all []string
		for i := range d.Totals {
			all = append(all, fmt.Sprintf("%s %v", d.Totals[i].Field, d.Totals[i].shards.Total()))
		}
		got[d.Path] = strings.Join(all, "; ")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the shards hold (-want +got):\n%s", diff)
	}
	if c := p.Compare(second); len(c.Differing) > 0 || c.Exact != 6 || c.Moved > 0 || c.Rewritten > 0 {
		t.Errorf("compared %+v", c)
	}
	before = d.meter.Counts()
	if err := second.Run(t.Context(), d.client, 3, nil); err != nil || d.meter.Counts() != before {
		t.Errorf("run again: %v, billed %v after %v", err, d.meter.Counts(), before)
	}
}

// What no route counts is named, and stays where it is; what routes name in the same shards counts.
func TestUncounted(t *testing.T) {
	d := newDatabase(t)
	shard := func(page string, n int) string { return page + "/_counter_shards_/" + random(n) }
	nested := map[string]any{"visits": 3, "today": map[string]any{"visits": 1, "none": 0, "by": map[string]any{"country": 2.5}}}
	d.set(shard("pages/p", 1), nested)
	d.set(shard("pages/p", 2), map[string]any{"visits": 2, "clicks": 4})
	d.set(shard("pages/p", 3), map[string]any{"visits": 2, "clicks": 5, "shares": 0})
	d.set(shard("pages/p", 4), map[string]any{"visits": math.NaN()})
	d.set(shard("pages/p", 6), map[string]any{"visits": "7"})
	d.set(shard("pages/p", 5), map[string]any{"visits": 1, "client": "web"}) // the extension counts no text either
	d.set("pages/p/_counter_shards_/\t\t\t\t0", partial(map[string]any{"visits": 30, "today": map[string]any{"visits": 1}}))
	d.set("pages/p/_counter_shards_/\t\t\t\t1", map[string]any{fieldUpdates: []any{map[string]any{"_id_": "0"}, map[string]any{"_id_": "1", fieldData: map[string]any{"likes": 4}}}}) // an update without amounts
	d.set("pages/p", map[string]any{"visits": 10, "likes": math.Inf(1)})
	d.set(shard("shops/a/items/b", 1), map[string]any{"sold": 1})
	d.set(shard("shops/b/items/c", 1), map[string]any{"sold": 1, "today": map[string]any{"sold": 3}})

	p := d.scan()
	what := map[string]string{}
	for _, u := range p.Uncounted {
		what[u.What] = fmt.Sprint(u.Shards, " ", u.Amounts)
	}
	want := map[string]string{
		"the field today.visits is nested, and routes name top-level fields":     "2 map[today.visits:2]",
		"the field today.by.country is nested, and routes name top-level fields": "1 map[today.by.country:2.5]",
		"the route of pages/*/_counter_shards_ names no field clicks":            "2 map[clicks:9]",
		"the field visits is NaN or infinite":                                    "1 map[]",
		"the field visits is a string, not a number":                             "1 map[]",
		"the field likes of a document is NaN or infinite":                       "0 map[]",
		"some of visits is in partial sums that do not hold only numbers":        "1 map[visits:30]",
		"some of likes is in partial sums that do not hold only numbers":         "1 map[likes:4]",
		"no route serves shops/*/items/*/_counter_shards_":                       "2 map[sold:2 today.sold:3]",
	}
	if diff := cmp.Diff(want, what); diff != "" {
		t.Errorf("not counted (-want +got):\n%s", diff)
	}
	if err := p.Run(t.Context(), d.client, 1, nil); err != nil {
		t.Error(err)
	}
	second := d.scan()
	if text := found(second)["pages/p"]; !strings.HasPrefix(text, "0 of ") || !strings.HasSuffix(text, "; visits 0 to 18; likes 0 to 0") {
		t.Errorf("found %s", text)
	}
	if diff := cmp.Diff(p.Uncounted, second.Uncounted, cmpopts.IgnoreFields(Uncounted{}, "Shards", "Example"), cmpopts.EquateComparable(value.Value{})); diff != "" {
		t.Errorf("not counted then (-first +second):\n%s", diff)
	}
	if c := p.Compare(second); c.Documents != 3 || c.Exact != 0 || c.LeftOut != 3 {
		t.Errorf("amounts are left out of all three documents: %+v", c)
	}
	if c := p.Compare(second); len(c.Differing) > 0 {
		t.Errorf("compared %+v", c)
	}
}

// Compare tells what an extension does that still runs, and what clients do.
func TestCompare(t *testing.T) {
	for _, test := range []struct {
		name  string
		write func(*database)
		want  Comparison
	}{
		{"nothing", func(*database) {}, Comparison{Documents: 3, Exact: 3}},
		{"clients", func(d *database) {
			d.set("pages/a/_counter_shards_/"+random(8), map[string]any{"visits": 3})
			d.set("pages/b/_counter_shards_/0", map[string]any{"visits": 25})
		}, Comparison{Documents: 3, Exact: 3, Moved: 2, By: map[string]value.Value{"visits": value.Int(8)}, Rewritten: 1}},
		{"the extension adds a shard to its document", func(d *database) {
			d.set("pages/b", map[string]any{"visits": 40})
			d.delete("pages/b/_counter_shards_/0")
		}, Comparison{Documents: 3, Exact: 2, Differing: []Difference{{"pages/b", "visits is 20 more than was carried from it"}}}},
		{"the extension makes a partial sum", func(d *database) {
			d.set("pages/b/_counter_shards_/\t\t\t\t0", partial(map[string]any{"visits": 20}))
			d.delete("pages/b/_counter_shards_/0")
		}, Comparison{Documents: 3, Exact: 2, Differing: []Difference{{"pages/b", "holds 1 partial sums of the extension, whose amounts no roll-up counts"}}}},
		{"the extension runs", func(d *database) { d.set(stateDocument, map[string]any{"timestamp": firestore.ServerTimestamp}) },
			Comparison{Documents: 3, Exact: 3, Differing: []Difference{{stateDocument, "the extension has written it since: it is not uninstalled"}}}},
		{"a shard is lost", func(d *database) { d.delete("pages/b/_counter_shards_/0") },
			Comparison{Documents: 3, Exact: 2, Differing: []Difference{{"pages/b", "visits was 20 in all and is 0"}}}},
		{"a document is gone", func(d *database) { d.delete("pages/c/_counter_shards_/0") },
			Comparison{Documents: 2, Exact: 2, Differing: []Difference{{"pages/c", "visits was 1 in all and is 0"}}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := newDatabase(t)
			d.set(stateDocument, map[string]any{"timestamp": firestore.ServerTimestamp, "workers": 0})
			d.set("pages/a", map[string]any{"visits": 10})
			d.set("pages/b", map[string]any{"visits": 20})
			d.set("pages/b/increment_tokens/other", map[string]any{"amount": 5})
			d.set("pages/c/_counter_shards_/0", map[string]any{"visits": 1})
			d.set("pages/b", map[string]any{"visits": 20, "num_shards": 1}) // so that the shard is known
			p := d.scan()
			if err := p.Run(t.Context(), d.client, 3, nil); err != nil {
				t.Fatal(err)
			}
			p.Idle = 1 // as if the extension had run right before the scan
			test.write(d)
			if test.want.By == nil {
				test.want.By = map[string]value.Value{}
			}
			if diff := cmp.Diff(test.want, p.Compare(d.scan()), cmp.Comparer(func(a, b value.Value) bool { return a == b })); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func (d *database) delete(path string) {
	d.t.Helper()
	if _, err := d.client.Doc(path).Delete(d.t.Context(), firestore.Exists); err != nil {
		d.t.Fatal(err)
	}
}

// Run begins no more documents when ctx ends, or when many fail.
func TestRunStops(t *testing.T) {
	d := newDatabase(t)
	const n = 30
	for i := range n {
		d.set(fmt.Sprintf("pages/%d", i), map[string]any{"visits": 1})
	}
	p := d.scan()
	ctx, cancel := context.WithCancel(t.Context())
	stopped := 0
	err := p.Run(ctx, d.client, 2, func(done int) {
		if stopped = done; done == 5 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || stopped < 5 || stopped > 7 {
		t.Errorf("ran: %v after %d documents", err, stopped)
	}
	for i := range n { // an amount that no shard can take
		d.set(fmt.Sprintf("pages/%d", i), map[string]any{"visits": math.MinInt64})
	}
	err = d.scan().Run(t.Context(), d.client, 1, nil)
	if failed := strings.Count(fmt.Sprint(err), "migration: pages/"); failed != mostFailures {
		t.Errorf("%d documents failed, want %d: %v", failed, mostFailures, err)
	}
}

func TestScanWithoutRoutes(t *testing.T) {
	d := newDatabase(t)
	if _, err := Scan(t.Context(), d.client, d.routes[3:], nil); err == nil || !strings.Contains(err.Error(), "_counter_shards_") {
		t.Errorf("scanned: %v", err)
	}
}

// Where roll-ups are the documents' own fields, these are carried until Tally writes them, and not
// when it did so too early.
func TestInPlace(t *testing.T) {
	d := newDatabase(t)
	var err error
	if d.routes, err = route.Parse("pages/{page}/_counter_shards_/{shard} -> pages/{page} : visits, likes : existing"); err != nil {
		t.Fatal(err)
	}
	d.set("pages/p", map[string]any{"visits": 1000, "likes": 7})
	d.set("pages/p/_counter_shards_/"+random(1), map[string]any{"visits": 3})
	d.set("pages/gone/_counter_shards_/"+random(1), map[string]any{"visits": 3})
	p := d.scan()
	if len(p.Uncounted) != 1 || p.Uncounted[0].Example != "pages/gone" || len(p.Uncounted[0].Amounts) == 0 {
		t.Errorf("not counted: %v, want the document that does not exist", p.Uncounted)
	}
	if err := p.Run(t.Context(), d.client, 1, nil); err != nil {
		t.Fatal(err)
	}
	byTally := map[string]any{"visits": 1003, "likes": 7, document.TallyField: document.Tally{Totals: []string{"visits", "likes"}}.Encode()}
	d.set("pages/p", byTally)
	second := d.scan()
	if c := p.Compare(second); len(second.ToDo()) > 0 || len(c.Differing) > 0 {
		t.Errorf("left %v, compared %+v: what Tally writes is not carried", second.Left(), c)
	}

	d.set("pages/q", byTally)
	if _, err := Scan(t.Context(), d.client, d.routes, nil); err != nil { // a new page
		t.Error(err)
	}
	for _, token := range []string{"visits", "likes"} {
		ref := d.document("pages/p").shards(d.client, token).CarriedNote(d.client.Doc("pages/p"), token)
		d.delete(firestorestore.Path(ref))
	}
	if _, err := Scan(t.Context(), d.client, d.routes, nil); err == nil || !strings.Contains(err.Error(), "already written roll-ups to pages/p") {
		t.Errorf("scanned roll-ups that were made too early: %v", err)
	}
}

func (d *database) document(path string) *Document {
	return &Document{Path: path, numShards: 10}
}

// Many documents are found in many queries.
func TestScanPages(t *testing.T) {
	d := newDatabase(t)
	bulk := d.client.BulkWriter(t.Context())
	const n = pageSize + 10
	for i := range n {
		if _, err := bulk.Set(d.client.Doc(fmt.Sprintf("pages/%d", i)), map[string]any{"visits": 1}); err != nil {
			t.Fatal(err)
		}
		if _, err := bulk.Set(d.client.Doc(fmt.Sprintf("pages/%d/_counter_shards_/%s", i, random(i))), map[string]any{"visits": 1}); err != nil {
			t.Fatal(err)
		}
	}
	bulk.End()
	if p := d.scan(); len(p.ToDo()) != n || p.Left()["visits"] != value.Int(n) {
		t.Errorf("%d documents, left %v", len(p.ToDo()), p.Left())
	}
}
