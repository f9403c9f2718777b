package local

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/tool/lag"
	"github.com/googleapis/gax-go/v2"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
)

// OrdersRoute is the route that an Orders load is for.
const OrdersRoute = `orders/{order} by shop -> shops/{shop} : count() as orders, sum(amount) where status == "paid" as revenue, maximum(amount) as largest : existing`

// An Orders is a load of orders in one collection, at a rate. Clients create orders, move them
// between shops, mark them as paid or open, change their amounts, and delete them. The stack's one
// route is OrdersRoute.
type Orders struct {
	Shops   int
	Orders  int
	Changes int     // beside the creation of each order
	Clients int     // that write at once
	Rate    float64 // writes a second
	Kill    bool    // kill -9 each functions process once, and start another
	Seed    uint64  // of the choices of clients

	Stage    func(name string) // is called when a stage of the load begins
	Progress func(done int)    // is called with the number of writes made; calls may overlap
}

// An OrdersResult says what became of an Orders load. tally demo --help explains its JSON form.
type OrdersResult struct {
	Shops  map[string]ShopTotals `json:"shops"` // at the end, as plain queries count them
	Writes int                   `json:"writes"`

	Exact   bool     `json:"exact"`
	Checked int      `json:"rollups_checked"` // that a listener saw, each against all orders at its as_of
	Wrong   []string `json:"wrong"`           // sentences, one for each total that differs

	Lag         lag.Lag `json:"lag_ms"` // from a write's commit until a listener has seen all totals that it changes
	Events      int     `json:"events"`
	Redelivered int     `json:"redelivered"`
	RollUps     int64   `json:"rollup_writes"`
	Reads       int64   `json:"reads"`
	Seconds     float64 `json:"seconds"`
}

// A ShopTotals holds the totals of a shop's orders.
type ShopTotals struct {
	Orders  int64 `json:"orders"`
	Revenue int64 `json:"revenue"` // of those that are paid
	Largest int64 `json:"largest"` // amount; 0: there is no order
}

// add adds an order.
func (t *ShopTotals) add(o order) {
	t.Orders++
	if o.paid {
		t.Revenue += o.amount
	}
	t.Largest = max(t.Largest, o.amount)
}

// addIn adds an order, if it is in the shop.
func (t *ShopTotals) addIn(shop int, o order) {
	if o.in(shop) {
		t.add(o)
	}
}

// An order holds the fields of an order's document.
type order struct {
	shop   int
	paid   bool
	amount int64
	gone   bool // there is no document
}

// in reports whether the order is in a shop.
func (o order) in(shop int) bool { return o.shop == shop && !o.gone }

func (o order) fields() map[string]any {
	status := "open"
	if o.paid {
		status = "paid"
	}
	return map[string]any{"shop": shopID(o.shop), "status": status, "amount": o.amount}
}

// A version is the state of an order from a commit on.
type version struct {
	order
	committed time.Time
	answered  time.Time // when the client knew, by the local clock, which is the emulator's
}

// An interval is a time in which a write may have been committed. Its answer was lost, so nobody
// knows when.
type interval struct{ from, to time.Time }

// A sighting is a shop's document that the listener saw.
type sighting struct {
	shop   int
	asOf   time.Time
	totals ShopTotals
	seen   time.Time // by the local clock, which is the emulator's
}

// An ordering is an Orders load on a stack.
type ordering struct {
	Orders
	stack    *Stack
	client   *firestore.Client
	versions [][]version // by order; only one client writes to an order
	writes   atomic.Int64

	mu        sync.Mutex
	doubts    []interval
	sightings []sighting
	covered   []time.Time   // by shop: the as_of of its last sighting
	changed   chan struct{} // closed when the listener sees something more
}

// Run creates the shops and orders, changes the orders, and waits until the totals cover all
// writes. It compares each total that was seen with the orders of that instant, and the last totals
// with a recount.
func (o Orders) Run(ctx context.Context, s *Stack) (OrdersResult, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r := &ordering{
		Orders: o, stack: s, client: s.Clients[0],
		versions: make([][]version, o.Orders), covered: make([]time.Time, o.Shops), changed: make(chan struct{}),
	}

	o.Stage("creating shops")
	err := r.open(ctx, stop)
	if err != nil {
		return OrdersResult{}, err
	}

	o.Stage("creating and changing orders")
	began := time.Now()
	err = r.write(ctx)
	if err != nil {
		return OrdersResult{}, fmt.Errorf("%w; %d of %d writes were made", err, r.writes.Load(), o.Orders+o.Changes)
	}

	o.Stage("waiting for the last roll-ups")
	err = r.settle(ctx)
	if err != nil {
		return OrdersResult{}, err
	}

	o.Stage("counting the orders again")
	return r.result(ctx, time.Since(began))
}

func shopID(n int) string { return fmt.Sprintf("shop-%03d", n+1) }

// open creates the shops and listens to them.
func (r *ordering) open(ctx context.Context, fail func(error)) error {
	shops := r.client.Collection("shops")
	for n := range r.Shops {
		_, err := shops.Doc(shopID(n)).Set(ctx, map[string]any{"name": fmt.Sprint("Shop ", n+1)})
		if err != nil {
			return cmp.Or(context.Cause(ctx), err)
		}
	}

	// The emulator does not tell a new listener of a commit that falls into its beginning. So the
	// first snapshot is awaited before anybody writes.
	snapshots := shops.Snapshots(ctx)
	_, err := snapshots.Next()
	if err != nil {
		snapshots.Stop()
		return fmt.Errorf("listening to shops: %w", err)
	}

	go func() {
		defer snapshots.Stop()
		for {
			snapshot, err := snapshots.Next()
			if err != nil {
				fail(fmt.Errorf("listening to shops: %w", err))
				return
			}
			r.see(snapshot)
		}
	}()
	return nil
}

// see notes the shops that the listener sees.
func (r *ordering) see(snapshot *firestore.QuerySnapshot) {
	r.mu.Lock()
	defer r.mu.Unlock()

	for _, change := range snapshot.Changes {
		fields := change.Doc.Data()
		tally := document.DecodeTally(fields[document.TallyField])
		var n int
		_, err := fmt.Sscanf(change.Doc.Ref.ID, "shop-%d", &n)
		if err != nil || tally.AsOf.IsZero() {
			continue
		}

		r.sightings = append(r.sightings, sighting{n - 1, tally.AsOf, totalsIn(fields), time.Now()})
		r.covered[n-1] = tally.AsOf
	}

	close(r.changed)
	r.changed = make(chan struct{})
}

// totalsIn returns the totals in a shop's document. A shop without orders has a largest that is
// null, which reads as 0.
func totalsIn(fields map[string]any) ShopTotals {
	var t ShopTotals
	t.Orders, _ = fields["orders"].(int64)
	t.Revenue, _ = fields["revenue"].(int64)
	t.Largest, _ = fields["largest"].(int64)
	return t
}

// write has the clients create and change orders. Each client has orders of its own.
func (r *ordering) write(ctx context.Context) error {
	limiter := rate.NewLimiter(rate.Limit(r.Rate), 1)
	restart, up := errgroup.WithContext(ctx)
	clients, working := errgroup.WithContext(up)

	// before waits until the turn may be taken, and kills a process if one is due.
	before := func(turn int) error {
		err := limiter.Wait(working)
		if err != nil {
			return cmp.Or(context.Cause(working), err)
		}
		if r.Kill {
			r.killAt(up, restart, turn)
		}
		return nil
	}
	for client := range r.Clients {
		clients.Go(func() error { return r.writeAs(working, client, before) })
	}
	return cmp.Or(clients.Wait(), restart.Wait(), context.Cause(ctx))
}

// writeAs takes the turns of one client: its own number, and each that comes r.Clients later. It
// calls before ahead of each.
func (r *ordering) writeAs(ctx context.Context, client int, before func(turn int) error) error {
	random := rand.New(rand.NewPCG(r.Seed, uint64(client)))
	for turn := client; turn < r.turns(); turn += r.Clients {
		err := before(turn)
		if err != nil {
			return err
		}

		err = r.writeOne(ctx, random, client, turn)
		if err != nil {
			return err
		}
		r.Progress(int(r.writes.Add(1)))
	}
	return nil
}

// turns returns how many turns all clients take together: first those that create an order each,
// then those that change one.
func (r *ordering) turns() int { return r.Orders.Orders + r.Changes }

// killAt kills a functions process if its turn has come. The processes' turns are spread evenly
// over all.
func (r *ordering) killAt(ctx context.Context, restart *errgroup.Group, turn int) {
	for n := range r.stack.Processes {
		if turn == r.turns()*(n+1)/(r.stack.Processes+1) {
			r.stack.kill(ctx, restart, n)
		}
	}
}

// writeOne creates the turn's order, or changes one of the client's.
func (r *ordering) writeOne(ctx context.Context, random *rand.Rand, client, turn int) error {
	if turn < r.Orders.Orders {
		return r.put(ctx, turn, order{shop: random.IntN(r.Shops), paid: random.IntN(2) == 0, amount: 1 + random.Int64N(500)})
	}

	own := (r.Orders.Orders - client + r.Clients - 1) / r.Clients // how many are the client's
	if own <= 0 {
		return nil
	}
	n := client + r.Clients*random.IntN(own)
	last := r.versions[n][len(r.versions[n])-1].order
	return r.put(ctx, n, r.next(last, random))
}

// next returns what an order may become. One that was deleted is created again.
func (r *ordering) next(o order, random *rand.Rand) order {
	kind := random.IntN(10)
	switch {
	case o.gone:
		return order{shop: random.IntN(r.Shops), amount: 1 + random.Int64N(500)}
	case kind < 4:
		o.shop = random.IntN(r.Shops)
	case kind < 7:
		o.paid = !o.paid
	case kind < 9:
		o.amount = 1 + random.Int64N(500)
	default:
		o.gone = true
	}
	return o
}

// put writes an order. A write whose answer is lost is sent again, which changes nothing more. But
// nobody knows when it was committed, so totals of that time cannot be judged.
func (r *ordering) put(ctx context.Context, n int, o order) error {
	doc := r.client.Collection("orders").Doc(fmt.Sprintf("order-%06d", n))
	began := time.Now()
	for {
		committed, err := r.send(ctx, doc, o)
		if err == nil {
			r.versions[n] = append(r.versions[n], version{o, committed, time.Now()})
			return nil
		}

		stopped := gax.Sleep(ctx, retryPause)
		if stopped != nil {
			return fmt.Errorf("%w: writing %s: %w", context.Cause(ctx), doc.ID, err)
		}

		r.mu.Lock()
		r.doubts = append(r.doubts, interval{began, time.Now().Add(time.Second)})
		r.mu.Unlock()
	}
}

// send sends a write, and returns when it was committed. A delete is sent in a transaction, because
// only then its answer has the time.
func (r *ordering) send(ctx context.Context, doc *firestore.DocumentRef, o order) (time.Time, error) {
	if !o.gone {
		result, err := doc.Set(ctx, o.fields())
		if err != nil {
			return time.Time{}, err
		}
		return result.UpdateTime, nil
	}

	var committed firestore.CommitResponse
	remove := func(_ context.Context, tx *firestore.Transaction) error { return tx.Delete(doc) }
	err := r.client.RunTransaction(ctx, remove, firestore.WithCommitResponseTo(&committed))
	if err != nil {
		return time.Time{}, err
	}
	return committed.CommitTime(), nil
}

// settle waits until the totals of every shop cover all writes, and all events are acknowledged.
func (r *ordering) settle(ctx context.Context) error {
	limit := 10*r.stack.Config.Cadence + 2*time.Minute // even on a slow machine
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not done after %v", limit))
	defer cancel()

	err := r.awaitTotals(ctx)
	if err != nil {
		return err
	}
	err = r.stack.Relay.Wait(ctx)
	if err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	return nil
}

// awaitTotals waits until the totals of every shop cover all writes.
func (r *ordering) awaitTotals(ctx context.Context) error {
	last := r.lastWrites()
	for {
		behind, changed := r.behind(last)
		if behind < 0 {
			return nil
		}

		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%w: the totals of %s do not cover the last write of its orders", context.Cause(ctx), shopID(behind))
		}
	}
}

// behind returns a shop whose totals do not cover its last write, -1 if there is none. The channel
// is closed when the listener sees something more.
func (r *ordering) behind(last []time.Time) (shop int, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for n, covered := range r.covered {
		if covered.Before(last[n]) {
			return n, r.changed
		}
	}
	return -1, r.changed
}

// lastWrites returns when each shop's orders changed last; zero if it never had any.
func (r *ordering) lastWrites() []time.Time {
	last := make([]time.Time, r.Shops)
	note := func(shop int, committed time.Time) {
		if committed.After(last[shop]) {
			last[shop] = committed
		}
	}

	for _, versions := range r.versions {
		for i, v := range versions {
			note(v.shop, v.committed)
			if i > 0 { // it may have left another shop
				note(versions[i-1].shop, v.committed)
			}
		}
	}
	return last
}

// at returns what a shop's orders may have added up to at an instant: first by the times of their
// commits, then without some that were not answered yet. The emulator gives a commit its time
// before it applies it. On a busy machine a snapshot in between lacks commits that are up to 90 ms
// older than it, as seen with eight demos at once. Firestore's snapshots do not.
func (r *ordering) at(shop int, instant time.Time) []ShopTotals {
	byCommit := func(v version, t time.Time) int { return v.committed.Compare(t) }

	possible := []ShopTotals{{}}
	for _, versions := range r.versions {
		n, found := slices.BinarySearchFunc(versions, instant, byCommit)
		if !found {
			n-- // the version before
		}
		if n < 0 {
			continue
		}

		now, before := versions[n].order, order{gone: true}
		if n > 0 {
			before = versions[n-1].order
		}

		with := len(possible) // so many have the commit
		if versions[n].answered.After(instant) && (now.in(shop) || before.in(shop)) {
			possible = append(possible, possible...)
		}
		for i := range possible {
			if i < with {
				possible[i].addIn(shop, now)
			} else {
				possible[i].addIn(shop, before)
			}
		}
	}
	return possible
}

// right reports whether each of the totals is one of those that are possible. They need not be of
// one: each total has a query of its own, and the emulator may apply a commit in between.
func (t ShopTotals) right(possible []ShopTotals) bool {
	return slices.ContainsFunc(possible, func(p ShopTotals) bool { return p.Orders == t.Orders }) &&
		slices.ContainsFunc(possible, func(p ShopTotals) bool { return p.Revenue == t.Revenue }) &&
		slices.ContainsFunc(possible, func(p ShopTotals) bool { return p.Largest == t.Largest })
}

// doubted reports whether an instant is in doubt: nobody knows whether some write was committed
// before it or after it.
func (r *ordering) doubted(instant time.Time) bool {
	return slices.ContainsFunc(r.doubts, func(d interval) bool { return !instant.Before(d.from) && !instant.After(d.to) })
}

// result compares all that was seen with the orders.
func (r *ordering) result(ctx context.Context, took time.Duration) (OrdersResult, error) {
	billed, err := r.stack.Billed()
	if err != nil {
		return OrdersResult{}, err
	}

	events := r.stack.Relay.Stats()
	result := OrdersResult{
		Writes: int(r.writes.Load()), Wrong: []string{},
		Events: events.Events, Redelivered: events.Redelivered + events.Duplicated,
		RollUps: billed.Writes, Reads: billed.Reads, Seconds: took.Seconds(),
	}

	r.mu.Lock()
	sightings := slices.Clone(r.sightings)
	r.mu.Unlock()
	result.Lag = lag.Of(r.lags(sightings))
	for _, s := range sightings {
		if r.doubted(s.asOf) {
			continue
		}

		result.Checked++
		possible := r.at(s.shop, s.asOf)
		if !s.totals.right(possible) {
			result.Wrong = append(result.Wrong, fmt.Sprintf("%s as of %s: %+v, and its orders add up to %+v", shopID(s.shop), inUTC(s.asOf), s.totals, possible[0]))
		}
	}

	wrong, err := r.recount(ctx, &result)
	result.Wrong = append(result.Wrong, wrong...)
	result.Exact = len(result.Wrong) == 0
	return result, err
}

// recount compares the shops' documents with their orders, by plain queries. It notes the orders'
// own totals in the result, and returns what differs.
func (r *ordering) recount(ctx context.Context, result *OrdersResult) (wrong []string, err error) {
	result.Shops = make(map[string]ShopTotals)
	orders, err := r.client.Collection("orders").Documents(ctx).GetAll()
	if err != nil {
		return nil, fmt.Errorf("counting the orders: %w", err)
	}
	for _, doc := range orders {
		fields := doc.Data()
		shop, _ := fields["shop"].(string)
		amount, _ := fields["amount"].(int64)
		t := result.Shops[shop]
		t.add(order{paid: fields["status"] == "paid", amount: amount})
		result.Shops[shop] = t
	}

	shops, err := r.client.Collection("shops").Documents(ctx).GetAll()
	if err != nil {
		return nil, fmt.Errorf("reading the shops: %w", err)
	}
	for _, doc := range shops {
		got, want := totalsIn(doc.Data()), result.Shops[doc.Ref.ID]
		if got != want {
			wrong = append(wrong, fmt.Sprintf("%s at the end: %+v, and its orders add up to %+v", doc.Ref.ID, got, want))
		}
		result.Shops[doc.Ref.ID] = want // also if it has no orders
	}
	return wrong, nil
}

// lags returns the lag of each write: how long after its commit all totals that it changes were
// seen to cover it.
func (r *ordering) lags(sightings []sighting) []time.Duration {
	byShop := make([][]sighting, r.Shops)
	for _, s := range sightings {
		byShop[s.shop] = append(byShop[s.shop], s)
	}

	var lags []time.Duration
	for _, versions := range r.versions {
		for i, v := range versions {
			seen := covering(byShop[v.shop], v.committed)
			if i > 0 && versions[i-1].shop != v.shop { // the write changes two shops
				left := covering(byShop[versions[i-1].shop], v.committed)
				seen = later(seen, left)
			}
			if !seen.IsZero() {
				lags = append(lags, seen.Sub(v.committed))
			}
		}
	}
	return lags
}

func inUTC(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// covering returns when the first of a shop's sightings that covers a commit was seen; zero if none
// does.
func covering(sightings []sighting, committed time.Time) time.Time {
	byAsOf := func(s sighting, t time.Time) int { return s.asOf.Compare(t) }
	n, _ := slices.BinarySearchFunc(sightings, committed, byAsOf)
	if n == len(sightings) {
		return time.Time{}
	}
	return sightings[n].seen
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
