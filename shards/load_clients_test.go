package shards_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/firestore-tally/tally/shards"
	"google.golang.org/grpc"
)

// A load is clients that increment counters/c, and the engine that rolls it up. Each
// operation on a counter is run in the middle of one.
type load struct {
	t         *testing.T
	client    *firestore.Client
	counter   *shards.Counter
	coalescer *rollup.Coalescer
	route     route.Counter
	events    sync.WaitGroup // not acknowledged yet
	clients   sync.WaitGroup
	stop      chan struct{} // closed: clients and watchers end
	writes    atomic.Int64

	mu         sync.Mutex
	grown      sync.Cond // increments or failed changed
	loaded     bool      // there are clients
	failed     bool      // one of them
	increments []increment
	snapshots  []snapshot // of the watcher
	order      int        // of the last acknowledgement or the last snapshot's beginning
}

// An increment is one that was acknowledged.
type increment struct {
	amount int64
	at     time.Time // of its commit
	order  int       // of its acknowledgement
}

// A snapshot is a total that the watcher read.
type snapshot struct {
	total int64
	at    time.Time // at which Firestore read it
	order int       // of its beginning
}

// next returns the place of something that happens now in the order of acknowledgements and of
// snapshots' beginnings.
func (l *load) next() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.order++
	return l.order
}

const (
	clients = 6
	warm    = 50 // increments before an operation begins, and after it
)

func newLoad(t *testing.T, dial ...grpc.DialOption) *load {
	t.Helper()
	project, logger := emulatortest.Project(t), slog.New(slog.DiscardHandler)
	client, err := firestorestore.Dial(t.Context(), emulatortest.Addr(t), project, firestore.DefaultDatabaseID, dial...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	store, err := firestorestore.Open(t.Context(), emulatortest.Addr(t), project, firestore.DefaultDatabaseID, logger)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	routes, err := route.Parse(route.Default)
	if err != nil {
		t.Fatal(err)
	}
	c, ok := routes[0].Belongs("counters/c/shards/0", nil)
	if !ok {
		t.Fatal("no counter")
	}
	l := &load{
		t: t, client: client, counter: shards.New(client, "counters/c"), route: c,
		coalescer: rollup.NewCoalescer(store, rollup.Options{Cadence: 100 * time.Millisecond, Timeout: time.Minute, Logger: logger}),
		stop:      make(chan struct{}),
	}
	l.grown.L = &l.mu
	return l
}

// event tells the engine that a shard changed, again and again until it acknowledges that.
func (l *load) event() {
	id := fmt.Sprint(l.writes.Add(1))
	l.events.Go(func() {
		for {
			_, err := l.coalescer.HandleEvent(context.Background(), rollup.Event{ID: id}, route.Concern{Counter: l.route})
			if err == nil {
				return
			}
			l.t.Logf("event %s is delivered again: %v", id, err)
		}
	})
}

// increment has clients increment until the load stops, each by add.
func (l *load) increment(add func(ctx context.Context, client, n int) (int64, time.Time, error)) {
	l.loaded = true
	for client := range clients {
		l.clients.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-l.stop:
					return
				default:
				}
				amount, at, err := add(l.t.Context(), client, n)
				if err == nil {
					l.event()
				} else {
					l.t.Errorf("increment: %v", err)
				}
				order := l.next()
				l.mu.Lock()
				l.increments = append(l.increments, increment{amount, at, order})
				l.failed = l.failed || err != nil
				l.grown.Broadcast()
				l.mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
}

// plainly increments by different amounts, and each second client with an outdated number
// of shards.
func (l *load) plainly(old int) func(context.Context, int, int) (int64, time.Time, error) {
	outdated := shards.New(l.client, "counters/c", shards.NumShards(old))
	return func(ctx context.Context, client, n int) (int64, time.Time, error) {
		c := l.counter
		if client%2 == 0 {
			c = outdated
		}
		amount := int64(client*n%7 - 2)
		at, err := c.Increment(ctx, amount)
		return amount, at, err
	}
}

// watch takes snapshots of all shards until the load stops.
func (l *load) watch() {
	none := shards.FieldOf(l.client.Doc("watch/constant"), "zero")
	if _, err := l.client.Doc("watch/constant").Set(l.t.Context(), map[string]any{"zero": 0}); err != nil {
		l.t.Fatal(err)
	}
	l.clients.Go(func() {
		for {
			select {
			case <-l.stop:
				return
			default:
			}
			order := l.next()
			v, err := l.counter.Verify(l.t.Context(), none)
			if err != nil {
				l.t.Errorf("snapshot: %v", err)
				return
			}
			total, ok := v.Counter.Int64()
			if !ok {
				l.t.Errorf("total %v is not an integer", v.Counter)
			}
			l.mu.Lock()
			l.snapshots = append(l.snapshots, snapshot{total, v.AsOf, order})
			l.mu.Unlock()
		}
	})
}

// during runs an operation in the middle of the load, then stops that.
func (l *load) during(operation func(ctx context.Context) error) {
	l.t.Helper()
	l.warmUp()
	err := operation(l.t.Context())
	l.event() // of the operation's last write
	l.warmUp()
	close(l.stop)
	l.clients.Wait()
	if err != nil {
		l.t.Fatal(err)
	}
}

// warmUp waits until the clients have incremented some more.
func (l *load) warmUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for enough := len(l.increments) + warm; l.loaded && !l.failed && len(l.increments) < enough; {
		l.grown.Wait()
	}
}

// between returns the sum of the increments committed after one time and not after another.
func (l *load) between(after, until time.Time) int64 {
	sum := int64(0)
	for _, i := range l.increments {
		if i.at.After(after) && !i.at.After(until) {
			sum += i.amount
		}
	}
	return sum
}

// want fails the test unless the shards and the roll-up have the total, an integer.
func (l *load) want(total int64) {
	l.t.Helper()
	got, err := l.counter.Get(l.t.Context())
	if n, ok := got.Int64(); n != total || !ok || err != nil {
		l.t.Errorf("total %v, %v; want %d", got, err, total)
	}
	l.events.Wait()
	r, err := l.counter.RollUp(l.t.Context())
	if n, ok := r.Total.Int64(); n != total || !ok || err != nil {
		l.t.Errorf("rolled up %+v, %v; want %d", r, err, total)
	}
	l.t.Logf("%d increments, %d snapshots", len(l.increments), len(l.snapshots))
}

// A base is what a snapshot may show: a total, and all increments that were committed after a time.
type base struct {
	total int64
	after time.Time
}

// wantSnapshots fails the test unless each snapshot shows what one of its bases says.
//
// A snapshot must show each increment that was acknowledged before the snapshot began, and none
// that was committed after its read time. The emulator may leave out an increment that was in
// flight when the snapshot began, although its commit time is not after the read time.
func (l *load) wantSnapshots(bases func(s snapshot) []base) {
	l.t.Helper()
	for _, s := range l.snapshots {
		may := bases(s)
		if !slices.ContainsFunc(may, func(b base) bool { return l.shows(s, b) }) {
			l.t.Errorf("a snapshot at %v shows %d, want %+v", s.at, s.total, may)
		}
	}
	if len(l.snapshots) == 0 {
		l.t.Error("no snapshot was taken")
	}
}

// shows reports whether a snapshot shows what a base says.
func (l *load) shows(s snapshot, b base) bool {
	sums := map[int64]bool{b.total: true} // with each choice of the increments in flight
	for _, i := range l.increments {
		if !i.at.After(b.after) || i.order > s.order && i.at.After(s.at) {
			continue
		}

		with := make(map[int64]bool)
		for sum := range sums {
			with[sum+i.amount] = true
			if i.order > s.order {
				with[sum] = true
			}
		}
		sums = with
	}
	return sums[s.total]
}

var forever = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

func (l *load) create(n int) {
	l.t.Helper()
	if err := l.counter.Create(l.t.Context(), n); err != nil {
		l.t.Fatal(err)
	}
}

// ids returns the shards' ids.
func (l *load) ids() string {
	l.t.Helper()
	docs, err := l.client.Collection("counters/c/shards").Documents(l.t.Context()).GetAll()
	if err != nil {
		l.t.Fatal(err)
	}
	var ids []string
	for _, doc := range docs {
		ids = append(ids, doc.Ref.ID)
	}
	return strings.Join(ids, " ")
}
