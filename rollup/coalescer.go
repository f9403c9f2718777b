package rollup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Options configure a Coalescer and a Sweep.
type Options struct {
	// Cadence is the least time between two roll-ups of one counter, measured by Firestore's clock.
	// It keeps the roll-up document within the rate of writes that Firestore sustains on one
	// document, about one a second.
	Cadence time.Duration

	// Timeout bounds each call of the Store, so that no prober outlives a store that never answers.
	Timeout time.Duration

	Logger *slog.Logger

	// Random returns a uniform number in [0, 1), to spread the wake-ups of many instances. It must
	// be safe for concurrent use. Nil means math/rand/v2.
	Random func() float64
}

// LongestCadence is the longest cadence that an event can be held through when it may be held for
// holdLimit: it may have to wait for two wake-ups of up to 1.35 cadences each, and the store needs
// time of its own. It is zero or negative when no cadence can be held.
func LongestCadence(holdLimit time.Duration) time.Duration {
	return (holdLimit - 5*time.Second) / 3
}

// A Coalescer turns the events of one database's shards into roll-ups: at most about one a cadence
// for each counter, over all the instances that serve it. See the package documentation for how. It
// may be used by many goroutines at once.
type Coalescer struct {
	roller roller
	random func() float64

	mu       sync.Mutex
	counters map[string]*counterState // by path of the roll-up document
}

// counterState is what one instance knows of a counter for as long as the counter is active. The
// Coalescer's mutex guards it.
type counterState struct {
	counter Counter

	open    *generation   // absorbs events; nil when none does
	closed  []*generation // wait to be covered, oldest first
	probing bool          // a prober runs

	wake     time.Time // when the prober is to look next, by the local clock; zero: at once
	own      time.Time // as_of of this instance's last write
	failures int       // looks and writes that failed in a row
	failure  error     // the last of them
	forget   *time.Timer
}

// A generation is the events that wait for one snapshot. The first of them, the anchor, is not
// acknowledged until the generation is covered; the others are acknowledged on arrival, because the
// anchor stands for them: if it is never acknowledged, it is delivered again.
type generation struct {
	anchor string        // event id
	mark   time.Time     // read time of the first look begun after it closed; zero until then
	done   chan struct{} // closed when covered or failed
	err    error         // valid after done
}

// NewCoalescer returns a Coalescer that rolls up on store.
func NewCoalescer(store Store, o Options) *Coalescer {
	random := o.Random
	if random == nil {
		random = rand.Float64
	}
	return &Coalescer{
		roller:   roller{store: store, cadence: o.Cadence, timeout: o.Timeout, logger: o.Logger},
		random:   random,
		counters: make(map[string]*counterState),
	}
}

// Changed takes an event that says that a shard of c changed. It returns nil when the event may be
// acknowledged: when a snapshot later than its arrival was rolled up, or at once, when an event
// that is not acknowledged yet stands for it. Otherwise it returns an error, at the latest when ctx
// ends, and the event must be delivered again, here or at any other instance.
//
// The event's id tells copies of one event apart from other events.
func (c *Coalescer) Changed(ctx context.Context, counter Counter, eventID string) error {
	c.mu.Lock()
	s := c.counters[counter.RollUp]
	if s == nil {
		s = &counterState{counter: counter}
		c.counters[counter.RollUp] = s
	}
	if g := s.anchoredBy(eventID); g != nil {
		c.mu.Unlock()
		return c.share(ctx, s, g)
	}
	if s.open != nil {
		c.mu.Unlock()
		return nil // absorbed
	}
	g := &generation{anchor: eventID, done: make(chan struct{})}
	s.open = g
	if !s.probing {
		s.probing = true
		if s.forget != nil {
			s.forget.Stop()
		}
		// The prober serves every generation of the counter, not only this event's, so it must not
		// end with this event.
		go c.probe(context.WithoutCancel(ctx), s)
	}
	c.mu.Unlock()
	return c.anchor(ctx, s, g)
}

// anchor waits for g as its anchor. When ctx ends first it closes g, so that nothing more is
// absorbed, and then fails.
func (c *Coalescer) anchor(ctx context.Context, s *counterState, g *generation) error {
	select {
	case <-g.done:
	case <-ctx.Done():
		c.mu.Lock()
		s.fail(g, s.uncovered(ctx))
		c.mu.Unlock()
		<-g.done
	}
	return g.err
}

// share waits for g as a second copy of its anchor.
func (c *Coalescer) share(ctx context.Context, s *counterState, g *generation) error {
	select {
	case <-g.done:
		return g.err
	case <-ctx.Done():
		c.mu.Lock()
		defer c.mu.Unlock()
		return s.uncovered(ctx)
	}
}

// probe looks at the counter's roll-up, when due, until no generation is left.
func (c *Coalescer) probe(ctx context.Context, s *counterState) {
	for c.sleep(s) {
		c.look(ctx, s)
	}
}

// sleep waits until the next look is due and closes the open generation. It reports false, and the
// prober has ended, when no generation is left.
func (c *Coalescer) sleep(s *counterState) bool {
	for {
		c.mu.Lock()
		if s.open == nil && len(s.closed) == 0 {
			c.rest(s)
			c.mu.Unlock()
			return false
		}
		wait := time.Until(s.wake)
		if wait <= 0 {
			if s.open != nil {
				s.closed = append(s.closed, s.open)
				s.open = nil
			}
			c.mu.Unlock()
			return true
		}
		c.mu.Unlock()
		time.Sleep(wait)
	}
}

// rest ends the prober. The counter is forgotten one cadence after it was due, unless an event
// comes.
func (c *Coalescer) rest(s *counterState) {
	s.probing = false
	forget := func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !s.probing && c.counters[s.counter.RollUp] == s {
			delete(c.counters, s.counter.RollUp)
		}
	}
	s.forget = time.AfterFunc(time.Until(s.wake)+c.roller.cadence, forget)
}

// look takes one snapshot of the counter, and rolls it up when that is due and an event waits for
// it.
func (c *Coalescer) look(ctx context.Context, s *counterState) {
	l := look{began: time.Now()}
	err := c.roller.look(ctx, s.counter, &l, func() bool { return c.observe(s, &l) })
	if err == nil && l.summed {
		c.mu.Lock()
		s.own = l.readTime
		c.mu.Unlock()
		err = c.roller.write(ctx, s.counter, &l)
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err != nil:
		c.retry(ctx, s, err)
	case l.summed:
		s.failures = 0
		s.release(l.readTime)
		s.wake = l.received.Add(c.roller.cadence)
	default:
		s.failures = 0
	}
}

// observe draws the conclusions from the roll-up document that a look has read: it marks the
// generations that closed before the look began, releases those that the roll-up covers, and plans
// the next look. It reports whether to sum now.
func (c *Coalescer) observe(s *counterState, l *look) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, g := range s.closed {
		if g.mark.IsZero() {
			g.mark = l.readTime
		}
	}
	s.release(l.asOf)
	s.wake = l.received
	if left := c.roller.untilDue(l); left > 0 {
		s.wake = s.wake.Add(left)
		if !l.asOf.Equal(s.own) {
			s.wake = s.wake.Add(c.backOff())
		}
		return false
	}
	return len(s.closed) > 0
}

// backOff is how much longer than the cadence an instance waits when the roll-up last seen was not
// its own: the writer goes first, so that of many instances one writes again and again and the
// others find its roll-up done.
func (c *Coalescer) backOff() time.Duration {
	cadence := c.roller.cadence
	spread := min(cadence/4, time.Second)
	return cadence/10 + time.Duration(c.random()*float64(spread))
}

// firstRetry is how long the second look in a row that fails is delayed; the delay then doubles up
// to the cadence. The first is repeated at once: most often another instance was faster, and a look
// tells.
const firstRetry = 50 * time.Millisecond

// retry plans the look after a failed one, whose outcome proves nothing.
func (c *Coalescer) retry(ctx context.Context, s *counterState, err error) {
	s.failures++
	s.failure = err
	s.wake = time.Now()
	if s.failures > 1 {
		delay := min(firstRetry<<min(s.failures-2, 10), c.roller.cadence)
		s.wake = s.wake.Add(time.Duration((0.5 + c.random()/2) * float64(delay)))
	}
	level := slog.LevelWarn
	if errors.Is(err, ErrConflict) {
		level = slog.LevelDebug // another instance was faster, as one is in every cadence
	}
	var waiting string
	if len(s.closed) > 0 {
		waiting = s.closed[0].anchor
	}
	c.roller.logger.Log(ctx, level, "roll-up failed; looking again", "counter", s.counter.RollUp, "event_id", waiting, "error", err)
}

// anchoredBy returns the generation whose anchor is the event, if one is held.
func (s *counterState) anchoredBy(eventID string) *generation {
	if s.open != nil && s.open.anchor == eventID {
		return s.open
	}
	for _, g := range s.closed {
		if g.anchor == eventID {
			return g
		}
	}
	return nil
}

// release ends the wait of every closed generation that a roll-up with this as_of covers.
func (s *counterState) release(asOf time.Time) {
	s.closed = slices.DeleteFunc(s.closed, func(g *generation) bool {
		if g.mark.IsZero() || g.mark.After(asOf) {
			return false
		}
		close(g.done)
		return true
	})
}

// fail ends g with err, unless it has ended already.
func (s *counterState) fail(g *generation, err error) {
	switch i := slices.Index(s.closed, g); {
	case s.open == g:
		s.open = nil
	case i >= 0:
		s.closed = slices.Delete(s.closed, i, i+1)
	default:
		return
	}
	g.err = err
	close(g.done)
}

// uncovered is the error of an event whose context ended before a roll-up covered it.
func (s *counterState) uncovered(ctx context.Context) error {
	err := context.Cause(ctx)
	if s.failures > 0 {
		err = fmt.Errorf("%w; the last attempt: %w", err, s.failure)
	}
	return fmt.Errorf("rollup: no roll-up of %s covered the event in time: %w", s.counter.RollUp, err)
}

// A look is one attempt at a roll-up: one snapshot and what was read in it.
type look struct {
	began    time.Time // local; not later than the snapshot's instant
	received time.Time // local; when the roll-up document's state became known here
	readTime time.Time // the snapshot's instant
	asOf     time.Time // the roll-up's, zero when it counts as none
	rollUp   RollUp
	summed   bool
	totals   Totals
}

// maxWriteAge is the greatest age of a snapshot that a write may publish. A roll-up document
// without shards is removed an hour after it went to zeros; a write that waited longer than that
// could bring an old sum back on the precondition that no document exists.
const maxWriteAge = 60 * time.Second

// A roller looks at counters and writes roll-ups.
type roller struct {
	store   Store
	cadence time.Duration
	timeout time.Duration
	logger  *slog.Logger
}

// look opens a snapshot, fills l from it, and sums the shards in the same snapshot if observe,
// called once the roll-up is known, says so.
func (r *roller) look(ctx context.Context, c Counter, l *look, observe func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	return r.store.View(ctx, c, func(snapshot Snapshot) error {
		l.received = time.Now()
		l.readTime = snapshot.ReadTime()
		l.rollUp = snapshot.RollUp()
		l.asOf = r.validAsOf(ctx, c, l)
		if !observe() {
			return nil
		}
		totals, malformed, err := snapshot.Sum(ctx)
		if err != nil {
			return err
		}
		for _, m := range malformed {
			r.logger.WarnContext(ctx, "shard left out of the sum", "counter", c.RollUp, "shard", m.Shard, "field", m.Field, "reason", m.Reason)
		}
		l.summed, l.totals = true, totals
		return nil
	})
}

// validAsOf returns the roll-up's as_of, or zero when it counts as none: when it is missing, of
// another type, or later than the snapshot, which no roll-up can be. Such a document is
// overwritten.
func (r *roller) validAsOf(ctx context.Context, c Counter, l *look) time.Time {
	asOf := l.rollUp.AsOf
	switch {
	case !l.rollUp.Exists():
		return time.Time{}
	case asOf.IsZero():
		r.logger.WarnContext(ctx, "roll-up document has no timestamp as_of; it counts as not rolled up", "counter", c.RollUp)
	case asOf.After(l.readTime):
		r.logger.WarnContext(ctx, "roll-up document's as_of lies in the future; it counts as not rolled up",
			"counter", c.RollUp, "as_of", asOf, "read_time", l.readTime)
		return time.Time{}
	}
	return asOf
}

// untilDue is how long, from the receipt of the look's answer, until the counter may be rolled up
// again; not positive: now. Only Firestore's times are compared.
func (r *roller) untilDue(l *look) time.Duration {
	if l.asOf.IsZero() {
		return 0
	}
	return r.cadence - l.readTime.Sub(l.asOf)
}

// write publishes what the look summed.
func (r *roller) write(ctx context.Context, c Counter, l *look) error {
	left := maxWriteAge - time.Since(l.began)
	if left <= 0 {
		return fmt.Errorf("rollup: the snapshot is older than %v; not written", maxWriteAge)
	}
	ctx, cancel := context.WithTimeout(ctx, min(left, r.timeout))
	defer cancel()
	return r.store.Write(ctx, c, RollUp{Totals: l.totals, AsOf: l.readTime, UpdateTime: l.rollUp.UpdateTime})
}
