package bench

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/cloud/trigger"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/internal/tool/local/eventrelay"
	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
	"google.golang.org/protobuf/proto"
)

// ordersRoute is Tally's route for the orders.
const ordersRoute = `orders/{order} by shop -> shops/{shop} : count() as orders, sum(amount) where status == "paid" as revenue, maximum(amount) as largest : existing`

// deltas is the way in which apps keep totals by hand: each event adds to the totals, or takes
// away, what its document was before and is now.
const deltas = "Deltas"

// BenchmarkOrders creates 300 orders in one collection, and changes them 900 times at 30 a second:
// they move between 20 shops, are paid or not, and change their amounts. Tally and deltas keep each
// shop's number of orders, revenue and largest amount from the same writes, at the same time. 5 %
// of the events come twice, as Eventarc's may.
//
//	reads/1000, writes/1000  billed to the function, per 1,000 writes of orders
//	p50-ms, p99-ms           from a write's commit until the totals hold it: Tally's as a listener sees
//	                         them, and the deltas' totals once the function's transaction is committed
//	wrong-shops              shops of which a total is wrong at the end
//	orders-off, revenue-off  by how much the totals are off then, of all shops together
//	largest-off              shops whose largest amount is wrong then
//
// Each version of Tally's totals that a listener sees must be what the orders add up to at its
// as_of.
func BenchmarkOrders(b *testing.B) {
	for range b.N {
		benchmarkOrders(b)
	}
}

func benchmarkOrders(b *testing.B) {
	const shops, orders, changes, perSecond = 20, 300, 900, 30
	warmUp(b)
	w := newMarket(b, shops)
	before := map[string]int64{}
	for _, way := range []string{tally, deltas} {
		counts := meters[way].Counts()
		before[way+" reads"], before[way+" writes"] = counts.Reads, counts.Writes
	}

	random := rand.New(rand.NewPCG(1, 2))
	began := time.Now()
	for n := range orders + changes {
		time.Sleep(time.Until(began.Add(time.Duration(n) * time.Second / perSecond)))
		w.change(n, n < orders, random)
	}
	w.writing.Wait()
	w.settle()

	for _, way := range []string{tally, deltas} {
		counts := meters[way].Counts()
		off := w.compare(way)
		lags := w.lags(way)
		report := func(value float64, unit string) { b.ReportMetric(value, way+"-"+unit) }
		report(float64(counts.Reads-before[way+" reads"])*1000/(orders+changes), "reads/1000")
		report(float64(counts.Writes-before[way+" writes"])*1000/(orders+changes), "writes/1000")
		report(percentile(lags, 50), "p50-ms")
		report(percentile(lags, 99), "p99-ms")
		report(float64(off.shops), "wrong-shops")
		report(float64(off.orders), "orders-off")
		report(float64(off.revenue), "revenue-off")
		report(float64(off.largest), "largest-off")
		if way == tally && off != (offBy{}) {
			b.Errorf("Tally's totals are off: %+v", off)
		}
	}
	w.checkVersions()
	b.ReportMetric(0, "ns/op")
}

// A market is shops and their orders, and the functions that keep the shops' totals.
type market struct {
	b       *testing.B
	project string
	client  *firestore.Client
	shops   int
	relays  map[string]*eventrelay.Relay // by way
	writing sync.WaitGroup
	busy    []sync.Mutex // by order: writes of one follow each other

	mu        sync.Mutex
	orders    map[int]sold
	committed []saleCommit
	seen      map[string][]seenShop // Tally's, by shop
}

// A sold is what an order's document holds.
type sold struct {
	shop   string
	status string
	amount int64
}

// in returns the order, if it is in a shop.
func (o sold) in(shop string) totals {
	if o.shop != shop {
		return totals{}
	}
	t := totals{orders: 1, largest: o.amount}
	if o.status == "paid" {
		t.revenue = o.amount
	}
	return t
}

// A totals holds what a shop's orders add up to.
type totals struct{ orders, revenue, largest int64 }

// with returns the totals of both.
func (t totals) with(more totals) totals {
	return totals{t.orders + more.orders, t.revenue + more.revenue, max(t.largest, more.largest)}
}

// totalsIn returns the totals in a shop's document. A shop without orders has a largest that is
// null, which reads as 0.
func totalsIn(fields map[string]any) (t totals) {
	t.orders, _ = fields["orders"].(int64)
	t.revenue, _ = fields["revenue"].(int64)
	t.largest, _ = fields["largest"].(int64)
	return t
}

// A saleCommit is a write of an order. Those of one order are in the order of their times.
type saleCommit struct {
	event         string
	order         int
	before, after sold
	at, answered  time.Time
}

type seenShop struct {
	asOf, at time.Time
	totals   totals
}

// folders are where each way keeps its totals.
var folders = map[string]string{tally: "shops", deltas: "delta_shops"}

func newMarket(b *testing.B, shops int) *market {
	w := &market{
		b: b, project: emulatortest.Project(b), shops: shops, busy: make([]sync.Mutex, 1000),
		relays: make(map[string]*eventrelay.Relay), orders: make(map[int]sold), seen: make(map[string][]seenShop),
	}
	w.client = emulatortest.ClientDatabase(b, w.project, firestore.DefaultDatabaseID)
	routes.Store(w.project, ordersRoute)
	for way, folder := range folders {
		w.relays[way] = eventrelay.New(eventrelay.Options{
			Targets: []string{serve() + "/" + way + "?project=" + w.project},
			Faults:  eventrelay.Faults{Seed: 1, Duplicates: 0.05},
		})
		b.Cleanup(w.relays[way].Close)
		for n := range shops {
			if _, err := w.client.Collection(folder).Doc(shopName(n)).Set(b.Context(), map[string]any{"name": "shop"}); err != nil {
				b.Fatal(err)
			}
		}
	}
	w.listen()
	return w
}

func shopName(n int) string { return fmt.Sprint("shop-", n) }

// listen notes what Tally's totals cover.
func (w *market) listen() {
	snapshots := w.client.Collection(folders[tally]).Snapshots(w.b.Context())
	w.b.Cleanup(snapshots.Stop)
	if _, err := snapshots.Next(); err != nil {
		w.b.Fatal(err)
	}
	go func() {
		for {
			snapshot, err := snapshots.Next()
			if err != nil {
				return // the benchmark is over
			}
			w.mu.Lock()
			for _, change := range snapshot.Changes {
				fields := change.Doc.Data()
				asOf := document.DecodeTally(fields[document.TallyField]).AsOf
				w.seen[change.Doc.Ref.ID] = append(w.seen[change.Doc.Ref.ID], seenShop{asOf, time.Now(), totalsIn(fields)})
			}
			w.mu.Unlock()
		}
	}()
}

// change creates the n-th order, or changes one, while other changes may be in flight.
func (w *market) change(n int, create bool, random *rand.Rand) {
	order := n
	if !create {
		order = random.IntN(len(w.busy) * 3 / 10)
	}
	next := sold{shop: shopName(random.IntN(w.shops)), status: "open", amount: 1 + random.Int64N(500)}
	kind := random.IntN(3)
	w.writing.Go(func() {
		w.busy[order].Lock()
		defer w.busy[order].Unlock()
		w.mu.Lock()
		before, existed := w.orders[order]
		w.mu.Unlock()
		if existed {
			next = before.changed(kind, next)
		}
		w.write(n, order, before, next, existed)
	})
}

// changed returns an order with another shop, status or amount.
func (o sold) changed(kind int, next sold) sold {
	switch kind {
	case 0:
		o.shop = next.shop
	case 1:
		o.status = map[string]string{"open": "paid", "paid": "open"}[o.status]
	default:
		o.amount = next.amount
	}
	return o
}

// write writes an order and has its event delivered, to both ways.
func (w *market) write(n, order int, before, next sold, existed bool) {
	doc := w.client.Collection("orders").Doc(fmt.Sprint(order))
	result, err := doc.Set(w.b.Context(), map[string]any{"shop": next.shop, "status": next.status, "amount": next.amount})
	if err != nil {
		w.b.Error(err)
		return
	}
	id := fmt.Sprintf("%s-%d", w.project, n)
	commit := saleCommit{id, order, before, next, result.UpdateTime, time.Now()}
	var old *firestoredata.Document
	if existed {
		old = before.document(doc.Path)
	}
	w.mu.Lock()
	w.orders[order] = next
	w.committed = append(w.committed, commit)
	w.mu.Unlock()

	e, err := eventrelay.NewEvent(id, result.UpdateTime, old, next.document(doc.Path))
	for _, relay := range w.relays {
		if err == nil {
			err = relay.Deliver(e)
		}
	}
	if err != nil {
		w.b.Error(err)
	}
}

func (o sold) document(name string) *firestoredata.Document {
	text := func(s string) *firestoredata.Value {
		return &firestoredata.Value{ValueType: &firestoredata.Value_StringValue{StringValue: s}}
	}
	return &firestoredata.Document{Name: name, Fields: map[string]*firestoredata.Value{
		"shop": text(o.shop), "status": text(o.status),
		"amount": {ValueType: &firestoredata.Value_IntegerValue{IntegerValue: o.amount}},
	}}
}

// settle waits until every event is acknowledged, but at most 60 s.
func (w *market) settle() {
	ctx, cancel := context.WithTimeout(w.b.Context(), time.Minute)
	defer cancel()
	for way, relay := range w.relays {
		if err := relay.Wait(ctx); err != nil {
			w.b.Errorf("%s: %v", way, err)
		}
	}
	time.Sleep(time.Second) // for the listener's last snapshot
}

// An offBy is by how much a way's totals are off.
type offBy struct {
	shops, largest  int
	orders, revenue int64
}

// compare compares a way's totals with the orders.
func (w *market) compare(way string) (off offBy) {
	want := make(map[string]totals)
	for _, o := range w.orders {
		want[o.shop] = want[o.shop].with(o.in(o.shop))
	}
	docs, err := w.client.Collection(folders[way]).Documents(w.b.Context()).GetAll()
	if err != nil {
		w.b.Fatal(err)
	}
	for _, doc := range docs {
		got, is := totalsIn(doc.Data()), want[doc.Ref.ID]
		if got != is {
			off.shops++
		}
		if got.largest != is.largest {
			off.largest++
		}
		off.orders += max(got.orders-is.orders, is.orders-got.orders)
		off.revenue += max(got.revenue-is.revenue, is.revenue-got.revenue)
	}
	return off
}

// checkVersions compares each version of Tally's totals that was seen with the orders at its as_of.
func (w *market) checkVersions() {
	w.mu.Lock()
	defer w.mu.Unlock()
	checked := 0
	for shop, versions := range w.seen {
		for _, v := range versions {
			possible := w.possible(shop, v.asOf)
			if !v.totals.right(possible) {
				w.b.Errorf("%s as of %v: %+v, and its orders add up to %+v", shop, v.asOf, v.totals, possible[0])
			}
			checked++
		}
	}
	w.b.Logf("%d versions of Tally's totals were compared", checked)
}

// possible returns what a shop's orders may have added up to at an instant: first by the times of
// their commits, then without some that were not answered yet. The emulator gives a commit its time
// before it applies it, so a snapshot in between lacks it. Firestore's snapshots do not.
func (w *market) possible(shop string, instant time.Time) []totals {
	last := make(map[int]saleCommit) // of each order
	for _, c := range w.committed {
		if !c.at.After(instant) {
			last[c.order] = c
		}
	}

	all := []totals{{}}
	for _, c := range last {
		now, before := c.after.in(shop), c.before.in(shop)
		var without []totals
		for i, t := range all {
			if now != before && c.answered.After(instant) {
				without = append(without, t.with(before))
			}
			all[i] = t.with(now)
		}
		all = append(all, without...)
	}
	return all
}

// right reports whether each of the totals is one of those that are possible. They need not be of
// one: each total has a query of its own, and the emulator may apply a commit in between.
func (t totals) right(possible []totals) bool {
	return slices.ContainsFunc(possible, func(p totals) bool { return p.orders == t.orders }) &&
		slices.ContainsFunc(possible, func(p totals) bool { return p.revenue == t.revenue }) &&
		slices.ContainsFunc(possible, func(p totals) bool { return p.largest == t.largest })
}

// lags returns, sorted, how long after its commit each write was in all totals that it changes.
func (w *market) lags(way string) []time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	var lags []time.Duration
	for _, c := range w.committed {
		if way == deltas {
			if at, ok := adder.added.Load(c.event); ok {
				lags = append(lags, at.(time.Time).Sub(c.at))
			}
			continue
		}
		var last time.Time
		for _, shop := range []string{c.before.shop, c.after.shop} { // a new order was in no shop before
			n := slices.IndexFunc(w.seen[shop], func(s seenShop) bool { return !s.asOf.Before(c.at) })
			if n >= 0 && w.seen[shop][n].at.After(last) {
				last = w.seen[shop][n].at
			}
		}
		if !last.IsZero() {
			lags = append(lags, last.Sub(c.at))
		}
	}
	slices.Sort(lags)
	return lags
}

// adder is the function that keeps totals by deltas.
var adder = new(adding)

type adding struct {
	summer          // its clients
	added  sync.Map // when each event was added first, by id
}

func (a *adding) onWrite(w http.ResponseWriter, r *http.Request) {
	e, err := trigger.FromRequest(r)
	if err == nil {
		err = a.add(r.Context(), e, r.URL.Query().Get("project"))
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// soldAs returns what an order's document held; the zero sold if there was none.
func soldAs(d *firestoredata.Document) sold {
	f := d.GetFields()
	return sold{f["shop"].GetStringValue(), f["status"].GetStringValue(), f["amount"].GetIntegerValue()}
}

// add adds what an event makes of the totals, in one transaction, which reads nothing: so no two
// wait for each other's reads.
func (a *adding) add(ctx context.Context, e trigger.Event, project string) error {
	client, err := a.client(ctx, project, deltas)
	if err != nil {
		return err
	}
	var data firestoredata.DocumentEventData
	if err := proto.Unmarshal(e.Data, &data); err != nil {
		return err
	}
	before, after := soldAs(data.GetOldValue()), soldAs(data.GetValue())
	by := map[string]map[string]int64{}
	for sign, o := range map[int64]sold{-1: before, 1: after} {
		if o.shop == "" {
			continue
		}
		if by[o.shop] == nil {
			by[o.shop] = map[string]int64{}
		}
		by[o.shop]["orders"] += sign
		if o.status == "paid" {
			by[o.shop]["revenue"] += sign * o.amount
		}
	}

	err = client.RunTransaction(ctx, func(_ context.Context, tx *firestore.Transaction) error {
		for _, id := range slices.Sorted(maps.Keys(by)) { // in one order, or two moves would wait for each other
			updates := []firestore.Update{
				{Path: "orders", Value: firestore.Increment(by[id]["orders"])},
				{Path: "revenue", Value: firestore.Increment(by[id]["revenue"])},
			}
			if id == after.shop { // nothing takes it back
				updates = append(updates, firestore.Update{Path: "largest", Value: firestore.FieldTransformMaximum(after.amount)})
			}
			if err := tx.Update(client.Collection(folders[deltas]).Doc(id), updates); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		a.added.LoadOrStore(e.ID, time.Now())
	}
	return err
}
