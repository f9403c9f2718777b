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
	"github.com/firestore-tally/tally/internal/tool/local"
	"github.com/firestore-tally/tally/internal/tool/local/eventrelay"
	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
	"google.golang.org/protobuf/proto"
)

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

type saleCommit struct {
	event string
	shops []string
	at    time.Time
}

type seenShop struct{ asOf, at time.Time }

// folders are where each way keeps its totals.
var folders = map[string]string{tally: "shops", deltas: "delta_shops"}

func newMarket(b *testing.B, shops int) *market {
	w := &market{
		b: b, project: emulatortest.Project(b), shops: shops, busy: make([]sync.Mutex, 1000),
		relays: make(map[string]*eventrelay.Relay), orders: make(map[int]sold), seen: make(map[string][]seenShop),
	}
	w.client = emulatortest.ClientDatabase(b, w.project, firestore.DefaultDatabaseID)
	routes.Store(w.project, local.OrdersRoute)
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
				asOf := document.DecodeTally(change.Doc.Data()[document.TallyField]).AsOf
				w.seen[change.Doc.Ref.ID] = append(w.seen[change.Doc.Ref.ID], seenShop{asOf, time.Now()})
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
	commit := saleCommit{event: id, shops: []string{next.shop}, at: result.UpdateTime}
	var old *firestoredata.Document
	if existed {
		old = before.document(doc.Path)
		commit.shops = append(commit.shops, before.shop)
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
	type totals struct{ orders, revenue, largest int64 }
	want := make(map[string]totals)
	for _, o := range w.orders {
		t := want[o.shop]
		t.orders++
		t.largest = max(t.largest, o.amount)
		if o.status == "paid" {
			t.revenue += o.amount
		}
		want[o.shop] = t
	}
	docs, err := w.client.Collection(folders[way]).Documents(w.b.Context()).GetAll()
	if err != nil {
		w.b.Fatal(err)
	}
	for _, doc := range docs {
		fields := doc.Data()
		var got totals
		got.orders, _ = fields["orders"].(int64)
		got.revenue, _ = fields["revenue"].(int64)
		got.largest, _ = fields["largest"].(int64)
		is := want[doc.Ref.ID]
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
		for _, shop := range c.shops {
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
