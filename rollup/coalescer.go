package rollup

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"slices"
	"sync"
	"time"
)

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
	roller
	pending PendingStore // nil: counters are rolled up here, not marked

	mu       sync.Mutex
	counters map[string]*counterState // by path of the roll-up document
}

// counterState is what one instance knows of a counter for as long as the counter is active, that is
// while its prober runs. The Coalescer's mutex guards it.
type counterState struct {
	counter Counter

	open   *generation   // absorbs events; nil when none does
	anchor uint64        // hash of open's anchor
	closed []*generation // wait to be covered, oldest first

	wake     time.Time // when the prober is to look next, by the local clock; zero: at once
	failures int       // looks and writes that failed in a row
	failure  error     // the last of them
}

// A generation is the events that wait for one snapshot. The first of them, the anchor, is not
// acknowledged until the generation is covered; the others are acknowledged on arrival, because the
// anchor stands for them: if it is never acknowledged, it is delivered again.
type generation struct {
	anchor string          // event id
	values context.Context // the anchor's context without its end, for the looks and the marks that the anchor waits for
	mark   time.Time       // read time of the first look begun after it closed; zero until then
	done   chan struct{}   // closed when covered or failed
	asOf   time.Time       // of the roll-up that covers it; valid after done
	err    error           // valid after done
}

// An Ending says how an event ended.
type Ending struct {
	// Held reports whether the event was held until it was covered or failed. An event that was not
	// held was absorbed: it was acknowledged at once.
	Held bool

	// AsOf is as_of of the roll-up that covers an event that was held. It is zero when a pending mark
	// covers it, and when it failed.
	AsOf time.Time
}

// NewCoalescer returns a Coalescer that rolls up on store.
func NewCoalescer(store Store, o Options) *Coalescer {
	return &Coalescer{roller: newRoller(store, o), counters: make(map[string]*counterState)}
}

// Changed takes an event that says that a shard of c changed. It returns nil when the event may be
// acknowledged: when a snapshot later than its arrival was rolled up, or at once, when an event
// that is not acknowledged yet stands for it. Otherwise it returns an error, at the latest when ctx
// ends or the event was held for Options.Hold, and the event must be delivered again, here or at any
// other instance.
//
// The event's id tells copies of one event apart from other events. The looks, marks and writes that
// an anchor waits for have the values of its context.
func (c *Coalescer) Changed(ctx context.Context, counter Counter, eventID string) (Ending, error) {
	hash := maphash.String(hashSeed, eventID)
	c.mu.Lock()
	s := c.counters[counter.RollUp]
	if s == nil {
		s = &counterState{counter: counter}
		c.counters[counter.RollUp] = s
		go c.probe(s)
	}
	if g := s.anchoredBy(eventID, hash); g != nil {
		c.mu.Unlock()
		return held(g, c.share(ctx, s, g))
	}
	if s.open != nil {
		c.mu.Unlock()
		return Ending{}, nil // absorbed
	}
	g := &generation{anchor: eventID, values: context.WithoutCancel(ctx), done: make(chan struct{})}
	s.open, s.anchor = g, hash
	c.mu.Unlock()
	return held(g, c.anchor(ctx, s, g))
}

// held is the ending of an event that waited for g.
func held(g *generation, err error) (Ending, error) {
	if err != nil {
		return Ending{Held: true}, err
	}
	return Ending{Held: true, AsOf: g.asOf}, nil
}

// limit bounds ctx by Options.Hold. Only an event that is held needs it; a timer for each absorbed one
// would cost more than all else that is done for it.
func (c *Coalescer) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.Hold == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.Hold)
}

// anchor waits for g as its anchor. When ctx ends first it closes g, so that nothing more is
// absorbed, and then fails.
func (c *Coalescer) anchor(ctx context.Context, s *counterState, g *generation) error {
	ctx, cancel := c.limit(ctx)
	defer cancel()
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
	ctx, cancel := c.limit(ctx)
	defer cancel()
	select {
	case <-g.done:
		return g.err
	case <-ctx.Done():
		c.mu.Lock()
		defer c.mu.Unlock()
		return s.uncovered(ctx)
	}
}

// probe looks at the counter's roll-up whenever that is due, and forgets the counter when nothing
// waits for it then. It serves every event of the counter, and outlives their requests.
func (c *Coalescer) probe(s *counterState) {
	for {
		time.Sleep(time.Until(s.wake)) // only the prober sets it
		oldest := c.close(s)
		if oldest == nil {
			return
		}
		if c.pending != nil {
			c.markOnce(oldest.values, s, oldest.anchor)
		} else {
			c.lookOnce(oldest.values, s, oldest.anchor)
		}
	}
}

// close closes the open generation, and returns the one that has waited longest. It returns nil, and
// the counter is forgotten, when no generation is left. After a failure the generations closed before
// are tried again alone, so that few events are held however long the failures last.
func (c *Coalescer) close(s *counterState) (oldest *generation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.open != nil && (s.failures == 0 || len(s.closed) == 0) {
		s.closed = append(s.closed, s.open)
		s.open = nil
	}
	if len(s.closed) == 0 {
		delete(c.counters, s.counter.RollUp)
		return nil
	}
	return s.closed[0]
}

// lookOnce takes one snapshot of the counter, and rolls it up when that is due and an event waits
// for it.
func (c *Coalescer) lookOnce(ctx context.Context, s *counterState, oldest string) {
	l, err := c.look(ctx, s.counter, oldest, func(l *look) bool { return c.observe(s, l) })
	if err == nil && l.summed {
		err = c.write(ctx, s.counter, &l)
	}
	if err != nil {
		c.failed(ctx, s, oldest, err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.failures = 0
	if l.summed {
		s.release(l.readTime)
		s.wake = l.received.Add(c.Cadence) // the writer goes first: no back-off
	}
}

// failed has the counter looked at again. The outcome of what failed proves nothing.
func (c *Coalescer) failed(ctx context.Context, s *counterState, oldest string, err error) {
	level := slog.LevelWarn
	if errors.Is(err, ErrConflict) {
		level = slog.LevelDebug // another instance was faster, as one is in every cadence
	}
	c.Logger.Log(ctx, level, "roll-up failed; looking again", "counter", s.counter.RollUp, "event_id", oldest, "error", err)
	c.mu.Lock()
	defer c.mu.Unlock()
	s.failures++
	s.failure = err
	s.wake = time.Now().Add(c.pause(s.failures))
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
	if left := c.untilDue(l); left > 0 {
		s.wake = s.wake.Add(left + c.backOff())
		return false
	}
	return len(s.closed) > 0
}

// hashSeed is for the hashes of event ids.
var hashSeed = maphash.MakeSeed()

// anchoredBy returns the generation whose anchor is the event, if one is held. The hash spares most
// events to load the open generation and its anchor's id, which with very many counters are not in
// the processor's cache.
func (s *counterState) anchoredBy(eventID string, hash uint64) *generation {
	if s.open != nil && s.anchor == hash && s.open.anchor == eventID {
		return s.open
	}
	for _, g := range s.closed {
		if g.anchor == eventID {
			return g
		}
	}
	return nil
}

// release ends the wait of every closed generation that a roll-up with this as_of covers. All of them
// have their marks.
func (s *counterState) release(asOf time.Time) {
	s.closed = slices.DeleteFunc(s.closed, func(g *generation) bool {
		if g.mark.After(asOf) {
			return false
		}
		g.asOf = asOf
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
