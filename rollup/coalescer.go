package rollup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/firestore-tally/tally/internal/document"
)

// Concurrency is how many events a process should serve at once: the most that Cloud Run lets an
// instance (https://cloud.google.com/run/docs/about-concurrency). Held events, up to 4 of a
// counter, take a slot and no processor time. With the platform's 80 slots, a thousand counters
// make more instances, each of which reads every counter once more per cadence.
const Concurrency = 1000

// LongestCadence is the longest cadence that an event can be held through when it may be held for
// holdLimit: it may have to wait for two wake-ups of up to 1.35 cadences each, and the store needs
// time of its own. It is zero or negative when there is none.
func LongestCadence(holdLimit time.Duration) time.Duration {
	return (holdLimit - 5*time.Second) / 3
}

// A Coalescer turns the events of one database's shards into roll-ups, by the pace for each
// counter, over all the instances that serve it; see the package documentation. It may be used by
// many goroutines at once.
type Coalescer struct {
	roller

	mu         sync.Mutex
	counters   map[string]*counterState // by path of the roll-up document
	deliveries map[string]*delivery     // that are held, by the event's id

	// The newest snapshot, and when its look was sent, by the local clock: what time it is at the
	// server.
	newest time.Time
	sent   time.Time
}

// An Event says that a source document changed.
type Event struct {
	ID string // tells copies of one event apart from other events

	// UpdateTime is the latest update time that the event's documents carry; zero: unknown. A
	// snapshot before it covers nothing.
	UpdateTime time.Time
}

// freshFor is how long after its commit an event that changes no total is acknowledged at once. An
// older one may be the redelivered anchor of a generation from before a change of routes; a
// redelivery takes 10 s at least.
const freshFor = 5 * time.Second

// An Ending says how an event ended.
type Ending struct {
	// Held reports whether the event was held until it was covered or failed. An event that was not
	// held was absorbed: it was acknowledged at once.
	Held bool

	// AsOf is as_of of the roll-up that covers an event that was held, the latest of its counters'.
	// It is zero when the event failed, or when no counter rolled it up.
	AsOf time.Time

	// Unkept reports whether one of the counters is done with the event although no roll-up covers
	// it: see ErrUnkept. A later audit, or a later event, has it rolled up.
	Unkept bool
}

// NewCoalescer returns a Coalescer that rolls up on store.
func NewCoalescer(store Store, o Options) *Coalescer {
	return &Coalescer{roller: newRoller(store, o), counters: make(map[string]*counterState), deliveries: make(map[string]*delivery)}
}

// A delivery is an event that is held for at least one of its counters. Its copies wait for done.
type delivery struct {
	done   chan struct{} // closed when all of its counters are done with it, or failed
	ending Ending        // valid after done
	err    error         // valid after done
}

// An entry is what one counter made of an event that is held for it.
type entry struct {
	state      *counterState
	generation *generation
}

// Changed takes an event that says that a document of the counters changed. It returns nil when the
// event may be acknowledged, that is when each counter is done with it: when a snapshot later than
// its arrival was rolled up or found the app's own document missing; or at once, when an event that
// is not acknowledged yet stands for it, or when it changes no total; or when the counter is unkept,
// as it was up to a minute ago. It returns an error, once all have ended, if one counter failed; at
// the latest when ctx ends or the event was held for Options.Hold. Then it must be delivered again,
// here or at any other instance.
//
// Copies of one event are answered together: a copy that comes while another is held here joins it
// and gets its answer, or fails alone when its own time is up.
//
// The looks and writes that an anchor waits for have the values of its context.
func (c *Coalescer) Changed(ctx context.Context, e Event, concerns ...Concern) (Ending, error) {
	c.mu.Lock()
	if first := c.deliveries[e.ID]; first != nil {
		c.mu.Unlock()
		return c.join(ctx, first)
	}

	var ending Ending
	var held []entry
	for _, concern := range concerns {
		s, g := c.enter(ctx, e, concern, &ending)
		if g != nil {
			held = append(held, entry{s, g})
		}
	}
	if len(held) == 0 {
		c.mu.Unlock()
		return ending, nil
	}

	d := &delivery{done: make(chan struct{})}
	c.deliveries[e.ID] = d
	c.mu.Unlock()

	d.ending, d.err = c.wait(ctx, held, ending)
	c.mu.Lock()
	delete(c.deliveries, e.ID)
	c.mu.Unlock()
	close(d.done)
	return d.ending, d.err
}

// enter brings an event to a counter. It returns the generation that the event is held for, as its
// anchor; nil if the counter is done with it. The mutex is held.
func (c *Coalescer) enter(ctx context.Context, e Event, concern Concern, ending *Ending) (*counterState, *generation) {
	if concern.Unchanged && c.fresh(e.UpdateTime) {
		return nil, nil
	}

	s := c.counters[concern.RollUp]
	if s == nil {
		s = &counterState{counter: concern.Counter}
		c.counters[concern.RollUp] = s
	}
	if s.unkept > 0 && time.Now().Before(s.unkeptUntil) {
		ending.Unkept = true
		return nil, nil
	}

	if g := s.open; g != nil {
		if e.UpdateTime.After(g.latest) {
			g.latest = e.UpdateTime
		}
		if !g.weak || concern.Unchanged && !e.UpdateTime.Before(g.commit) {
			return nil, nil // absorbed
		}
		g.anchor, g.weak, g.commit = e.ID, concern.Unchanged, e.UpdateTime
		return s, g
	}

	g := &generation{anchor: e.ID, weak: concern.Unchanged, commit: e.UpdateTime, values: context.WithoutCancel(ctx), latest: e.UpdateTime, done: make(chan struct{})}
	s.open = g
	if !s.probing {
		s.probing = true
		go c.probe(s)
	}
	return s, g
}

// fresh reports whether less than freshFor has passed since a commit, by the server's time, which
// is not known before the first look. The mutex is held.
func (c *Coalescer) fresh(commit time.Time) bool {
	return !c.newest.IsZero() && c.newest.Add(time.Since(c.sent)).Sub(commit) < freshFor
}

// wait waits until all generations that an event is held for have ended, as long as ctx lasts and
// for Options.Hold. Only an event that is held needs a timer; one for each absorbed event would cost
// more than all else. When the event's time is up first, it closes the generations that are left, so
// that nothing more is absorbed, and then fails. It completes what the other counters made of the
// event.
func (c *Coalescer) wait(ctx context.Context, held []entry, ending Ending) (Ending, error) {
	ctx, cancel := c.holding(ctx)
	defer cancel()

	ending.Held = true
	var failed error
	for _, h := range held {
		select {
		case <-h.generation.done:
		case <-ctx.Done():
			c.mu.Lock()
			h.state.fail(h.generation, h.state.uncovered(ctx))
			c.mu.Unlock()
		}
		ending.Unkept = ending.Unkept || h.generation.unkept
		ending.AsOf = later(ending.AsOf, h.generation.asOf)
		failed = errors.Join(failed, h.generation.err)
	}
	if failed != nil {
		ending.AsOf = time.Time{}
	}
	return ending, failed
}

// join waits for a copy of an event that came before.
func (c *Coalescer) join(ctx context.Context, first *delivery) (Ending, error) {
	ctx, cancel := c.holding(ctx)
	defer cancel()
	select {
	case <-first.done:
		return first.ending, first.err
	case <-ctx.Done():
		return Ending{Held: true}, fmt.Errorf("rollup: a copy of the event that came before is not done: %w", context.Cause(ctx))
	}
}

// holding returns ctx for an event that is held.
func (c *Coalescer) holding(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.Hold <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.Hold)
}

// probe looks at the counter's roll-up whenever that is due, and ends when nothing waits for it
// then. It serves every event of the counter, and outlives their requests.
func (c *Coalescer) probe(s *counterState) {
	for {
		time.Sleep(time.Until(s.wake)) // only the prober sets it
		oldest := c.close(s)
		if oldest == nil {
			return
		}
		if err := c.rollUp(oldest.values, s, oldest.anchor); err != nil {
			c.failed(oldest.values, s, oldest.anchor, err)
		}
	}
}

// close closes the open generation, and returns the one that has waited longest. It returns nil
// when no generation is left: the prober ends. After a failure the generations closed before are
// tried again alone, so that few events are held however long the failures last.
func (c *Coalescer) close(s *counterState) (oldest *generation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.open != nil && (s.failures == 0 || len(s.closed) == 0) {
		s.closed = append(s.closed, s.open)
		s.open = nil
	}
	if len(s.closed) == 0 {
		s.probing = false
		c.forget(s)
		return nil
	}
	return s.closed[0]
}

// forget drops a counter without a prober when it need not be remembered any more.
func (c *Coalescer) forget(s *counterState) {
	time.AfterFunc(time.Until(s.rememberedUntil()), func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !s.probing && c.counters[s.counter.RollUp] == s && !time.Now().Before(s.rememberedUntil()) {
			delete(c.counters, s.counter.RollUp)
		}
	})
}

// rollUp takes one snapshot of the counter, and rolls it up when it is this instance's turn and an
// event waits for it.
func (c *Coalescer) rollUp(ctx context.Context, s *counterState, oldest string) error {
	looking, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	l, err := c.look(looking, s.counter, oldest)
	if err != nil {
		return err
	}

	wanted, err := c.observe(s, &l)
	if err != nil || !wanted {
		return err
	}
	if c.slow(&l) && !c.claim(looking, s, &l) {
		return nil
	}

	if err := c.sum(looking, &l); err != nil {
		return err
	}
	p := c.pace()
	if err := c.write(ctx, &l, p); err != nil {
		return err
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	s.failures, s.unkept = 0, 0
	s.release(l.readTime)
	s.own = l.readTime

	s.wake, s.ownUntil = l.received.Add(p.dueNext(&l)), l.received.Add(c.Cadence)
	if len(c.nextTurns(&l)) > 0 {
		s.wake, s.ownUntil = s.wake.Add(c.turnTakes()), l.received.Add(turnsKept*c.Cadence)
	}
	return nil
}

// errEarly says that a look's snapshot is from before the commit of a change whose event is here. Such
// a look covers nothing.
var errEarly = errors.New("rollup: Firestore answered with a snapshot from before the change")

// failed plans another look at the counter. The call that failed may have had its effect or not.
func (c *Coalescer) failed(ctx context.Context, s *counterState, oldest string, err error) {
	if errors.Is(err, ErrUnkept) {
		c.tellUnkept(ctx, s.counter, oldest, err)
		c.mu.Lock()
		defer c.mu.Unlock()
		s.failures, s.refused = 0, false
		s.unkeep(c.Cadence)
		return
	}

	level := slog.LevelWarn
	switch {
	case errors.Is(err, ErrConflict):
		level = slog.LevelDebug // another instance was faster, as one is in every cadence
	case errors.Is(err, errEarly):
		level = slog.LevelError
	}
	c.Logger.Log(ctx, level, "roll-up failed; looking again", "counter", s.counter.RollUp, "event_id", oldest, "error", err)

	c.mu.Lock()
	defer c.mu.Unlock()
	s.failures++
	s.failure = err
	s.wake = time.Now()
	s.refused = errors.Is(err, ErrConflict)
	if !s.refused {
		s.wake = s.wake.Add(c.pause(s.failures - 1)) // most often the first is followed by a success
	}
}

// observe draws the conclusions from the roll-up document that a look has read. It gives the
// generations that closed before the look began their covered-from time, unless they have one. It
// releases the generations that the roll-up covers, and plans the next look. It reports whether to
// sum now.
func (c *Coalescer) observe(s *counterState, l *look) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.readTime.After(c.newest) {
		c.newest, c.sent = l.readTime, l.began
	}

	for _, g := range s.closed {
		if g.latest.After(l.readTime) {
			return false, fmt.Errorf("%w: it is of %v, the change of %v", errEarly, l.readTime, g.latest)
		}
	}
	for _, g := range s.closed {
		if g.from.IsZero() {
			g.from = l.readTime
		}
	}

	s.release(l.covers())
	if l.missing() { // what comes is covered as by a roll-up, and paced likewise: deleting a post deletes its likes
		s.release(l.readTime)
		s.failures, s.unkept, s.refused = 0, 0, false
		s.wake = l.received.Add(c.Cadence)
		return false, nil
	}

	if !l.asOf.Equal(s.seen) {
		s.seen, s.draw, s.failures, s.unkept = l.asOf, c.Random(), 0, 0
	} else if s.refused { // by nobody of Tally's: the app writes the document too
		s.refused = false
		s.wake = l.received.Add(c.pause(s.failures))
		return false, nil
	}
	s.refused = false

	wait := c.turn(s, l)
	s.wake = l.received.Add(wait)
	if wait > 0 || len(s.closed) == 0 {
		s.failures = 0
		return false, nil
	}
	return true, nil
}

// turn returns how long after the look's answer it is this instance's turn to roll the counter up;
// not positive: now. The instance that wrote the roll-up goes first, so that of many one writes
// again and again and the others find its roll-up done.
func (c *Coalescer) turn(s *counterState, l *look) time.Duration {
	due := c.pace().due(l)
	turns := c.turns(l)
	switch {
	case len(turns) == 0:
		return due
	case len(turns) > 1 || l.rerouted():
		return c.turnAmong(s, l, turns, due)
	case l.asOf.Equal(s.own):
		return due
	case due > 0:
		return due + c.backOff(s.draw)
	default: // there is credit, which all instances see
		return c.backOff(s.draw) - l.readTime.Sub(l.asOf)
	}
}

// turnAmong is turn where several revisions are at work, as after a change of routes. The revision
// whose roll-up is the oldest goes first, and of it the instance that wrote that. Each other has
// its turn when those before it have had the time for theirs.
//
// Nobody knows of a revision that has no roll-up yet. So a quarter of its instances try before
// anybody else, and a cadence later all.
func (c *Coalescer) turnAmong(s *counterState, l *look, turns []document.Turn, due time.Duration) time.Duration {
	free := max(due, -l.readTime.Sub(l.asOf)) // since when it may be rolled up, which all instances see
	ahead := slices.IndexFunc(turns, func(t document.Turn) bool { return t.Routes == l.counter.Template.Hash() })
	isNew := ahead < 0
	if isNew && (s.draw < 0.25 || s.waited(l) > c.Cadence) {
		return free
	}

	wait := free + c.Cadence/20
	if ahead > 0 && wait+c.turnTakes() > 0 {
		return wait + c.turnTakes() // to see who has gone
	}
	wait += time.Duration(max(ahead, 0)) * c.turnTakes()
	if isNew || !turns[ahead].AsOf.Equal(s.own) {
		wait += c.lateBackOff(s.draw)
	}
	return wait
}

// turnTakes is how long the others leave a revision to begin.
func (c *Coalescer) turnTakes() time.Duration { return c.lateBackOff(1) }

// backOff is how much longer everybody waits but the writer of the roll-up, by a uniform number in
// [0, 1).
func (c *Coalescer) backOff(draw float64) time.Duration {
	return c.Cadence/10 + time.Duration(draw*float64(min(c.Cadence/4, time.Second)))
}

// lateBackOff is backOff where the instance that wrote last often has no event when its turn comes.
// Few instances wait a short time and most a long one, so that the first is mostly alone however
// many they are.
func (c *Coalescer) lateBackOff(draw float64) time.Duration {
	const steepness = 50 // least refused writes with some 20 to 100 instances
	spread := min(c.Cadence*3/4, 3*time.Second)
	late := math.Log1p(steepness*draw) / math.Log1p(steepness)
	return c.Cadence/10 + time.Duration(late*float64(spread))
}

// firstPause is how long the first pause takes, less up to a half of it at random. Each further one
// is twice as long, up to the cadence.
const firstPause = 50 * time.Millisecond

// pause is how long the n-th pause in a row takes; the 0th takes no time.
func (r *roller) pause(n int) time.Duration {
	if n <= 0 {
		return 0
	}
	delay := min(firstPause<<min(n-1, 10), r.Cadence)
	return time.Duration((0.5 + r.Random()/2) * float64(delay))
}
