package rollup_test

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/test/memstore"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

const (
	cadence = time.Second
	hold    = 8 * time.Second
)

// A world is one database, in virtual time, and what one instance does to it.
type world struct {
	t      *testing.T
	store  *memstore.Store
	log    strings.Builder
	logger *slog.Logger // writes to log

	// What the instances called, and what happens in their calls: set before the first event, n
	// counts the calls from 1.
	looks, sums, writes atomic.Int32
	locks               atomic.Int32 // writes that lock the document
	claims              atomic.Int32 // that were read and written
	beforeView          func(n int32) error
	duringView          func(n int32) // the snapshot is open
	aroundWrite         func(n int32, write func() error) error
	beforeSum           func(n int32) error
	sumTakes            time.Duration
	aroundClaim         func(n int32, claim func() error) error
}

// inWorld runs f in a world of its own with a coalescer in it. An hour later every goroutine must
// have ended.
func inWorld(t *testing.T, f func(w *world, c *rollup.Coalescer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, store: new(memstore.Store)}
		f(w, w.instance(0))
		time.Sleep(time.Hour)
	})
}

// instance returns another instance's coalescer, whose calls are counted all the same.
func (w *world) instance(random float64) *rollup.Coalescer {
	return rollup.NewCoalescer(traced{w.store, w}, w.options(random))
}

func (w *world) options(random float64) rollup.Options {
	if w.logger == nil { // one for all instances: they write to one log
		w.logger = slog.New(slog.NewTextHandler(&w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return rollup.Options{Cadence: cadence, Timeout: hold, Logger: w.logger, Random: func() float64 { return random }}
}

// traced is the world's store as the instance under test sees it.
type traced struct {
	*memstore.Store
	w *world
}

func (s traced) View(ctx context.Context, c route.Counter) (rollup.Snapshot, error) {
	n := s.w.looks.Add(1)
	if s.w.beforeView != nil {
		if err := s.w.beforeView(n); err != nil {
			return nil, err
		}
	}
	v, err := s.Store.View(ctx, c)
	if err == nil && s.w.duringView != nil {
		s.w.duringView(n)
	}
	return tracedSnapshot{v, s.w}, err
}

func (s traced) Sources(ctx context.Context, c route.Counter) rollup.Snapshot {
	return tracedSnapshot{s.Store.Sources(ctx, c), s.w}
}

func (s traced) Write(ctx context.Context, c route.Counter, r rollup.RollUp) error {
	n := s.w.writes.Add(1)
	write := func() error { return s.Store.Write(ctx, c, r) }
	if s.w.aroundWrite != nil {
		return s.w.aroundWrite(n, write)
	}
	return write()
}

func (s traced) WriteLocked(ctx context.Context, c route.Counter, r rollup.RollUp, seen document.Tally) error {
	s.w.locks.Add(1)
	n := s.w.writes.Add(1)
	write := func() error { return s.Store.WriteLocked(ctx, c, r, seen) }
	if s.w.aroundWrite != nil {
		return s.w.aroundWrite(n, write)
	}
	return write()
}

type tracedSnapshot struct {
	rollup.Snapshot
	w *world
}

func (v tracedSnapshot) Sum(ctx context.Context) (route.Totals, error) {
	n := v.w.sums.Add(1)
	if v.w.beforeSum != nil {
		if err := v.w.beforeSum(n); err != nil {
			return route.Totals{}, err
		}
	}
	if takes := v.w.sumTakes; takes > 0 && !sleepUntil(ctx, time.Now().Add(takes)) {
		return route.Totals{}, context.Cause(ctx)
	}
	return v.Snapshot.Sum(ctx)
}

func (v tracedSnapshot) Claim(ctx context.Context) (claim rollup.Claim, err error) {
	err = v.w.claim(func() error {
		claim, err = v.Snapshot.Claim(ctx)
		return err
	})
	return claim, err
}

func (s traced) Claim(ctx context.Context, c route.Counter, claim rollup.Claim) error {
	return s.w.claim(func() error { return s.Store.Claim(ctx, c, claim) })
}

// claim has an instance read or write a claim.
func (w *world) claim(do func() error) error {
	n := w.claims.Add(1)
	if w.aroundClaim != nil {
		return w.aroundClaim(n, do)
	}
	return do()
}

// called checks what the instances have called since the last time.
func (w *world) called(looks, sums, writes int32) {
	w.t.Helper()
	if l, s, wr := w.looks.Swap(0), w.sums.Swap(0), w.writes.Swap(0); l != looks || s != sums || wr != writes {
		w.t.Errorf("got %d looks, %d sums, %d writes; want %d, %d, %d", l, s, wr, looks, sums, writes)
	}
}

// reads returns a function that counts the reads of looks and sums from now on.
func (w *world) reads() func() int64 {
	read := func() int64 { return int64(w.looks.Load() + w.sums.Load()) }
	before := read()
	return func() int64 { return read() - before }
}

var likes = mustCounter(route.Default, "counters/likes/shards")

// shardsOf is the path of the collection of shards that the counter's first route sums.
func shardsOf(c route.Counter) string { return c.Template.Routes[0].Shards(c) }

func mustCounter(r, shards string) route.Counter {
	routes, err := route.Parse(r)
	if err != nil {
		panic(err)
	}
	c, ok := routes[0].Belongs(shards+"/0", nil)
	if !ok {
		panic(shards + " is not a collection of shards of " + r)
	}
	return c
}

// increment commits n to a shard of likes.
func (w *world) increment(n int64) time.Time {
	return w.store.Increment(shardsOf(likes)+"/0", "count", n)
}

// rollUp returns likes' total and as_of.
func (w *world) rollUp() (total any, asOf time.Time) {
	fields := w.store.Get(likes.RollUp)
	return fields["count"], document.DecodeTally(fields["tally"]).AsOf
}

// rolledUp returns a roll-up document of likes as it was before it said how it is paced.
func rolledUp(count any, numShards int64, asOf any) map[string]any {
	tally := document.Tally{NumShards: numShards, Routes: likes.Template.Hash(), Totals: []string{"count"}}.Encode()
	tally["as_of"] = asOf
	return map[string]any{"count": count, "tally": tally}
}

func (w *world) wantTotal(want int64) {
	w.t.Helper()
	if got, _ := w.rollUp(); got != want {
		w.t.Errorf("total is %v, want %d", got, want)
	}
}

// rollUpElsewhere is another instance that rolls likes up now.
func (w *world) rollUpElsewhere() {
	w.t.Helper()
	v, err := w.store.View(w.t.Context(), likes)
	if err != nil {
		w.t.Fatal(err)
	}
	totals, err := v.Sum(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	r := rollup.RollUp{Values: totals.Values, UpdateTime: v.RollUp().UpdateTime, Tally: document.Tally{
		AsOf: v.ReadTime(), NumShards: totals.NumShards(), Routes: likes.Template.Hash(), Totals: []string{"count"},
	}}
	if err := w.store.Write(w.t.Context(), likes, r); err != nil {
		w.t.Fatal(err)
	}
}

// A delivery is an event on its way through an instance.
type delivery struct {
	done chan struct{}
	err  error
}

func (w *world) deliver(c *rollup.Coalescer, eventID string) *delivery {
	return w.deliverWithin(hold, c, eventID)
}

func (w *world) deliverWithin(d time.Duration, c *rollup.Coalescer, eventID string) *delivery {
	return w.deliverEvent(d, c, rollup.Event{ID: eventID})
}

func (w *world) deliverEvent(d time.Duration, c *rollup.Coalescer, event rollup.Event) *delivery {
	return w.deliverOf(d, c, likes, event)
}

func (w *world) deliverOf(d time.Duration, c *rollup.Coalescer, counter route.Counter, event rollup.Event) *delivery {
	return w.deliverConcerning(d, c, event, route.Concern{Counter: counter})
}

func (w *world) deliverConcerning(d time.Duration, c *rollup.Coalescer, event rollup.Event, concerns ...route.Concern) *delivery {
	e := &delivery{done: make(chan struct{})}
	go func() {
		ctx, cancel := context.WithTimeout(w.t.Context(), d)
		defer cancel()
		_, e.err = c.HandleEvent(ctx, event, concerns...)
		close(e.done)
	}()
	time.Sleep(time.Nanosecond) // virtual time moves on when every goroutine waits
	return e
}

func (e *delivery) held() bool {
	select {
	case <-e.done:
		return false
	default:
		return true
	}
}

// acknowledged waits for the delivery's end, which must be good.
func (w *world) acknowledged(deliveries ...*delivery) {
	w.t.Helper()
	for i, e := range deliveries {
		<-e.done
		if e.err != nil {
			w.t.Errorf("delivery %d of %d failed: %v", i+1, len(deliveries), e.err)
		}
	}
}
