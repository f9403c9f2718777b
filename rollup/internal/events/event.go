package events

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/firestore-tally/tally/rollup/internal/roll"
	"github.com/firestore-tally/tally/rollup/route"
)

// An Event says that a source document changed.
type Event struct {
	ID string // tells copies of one event apart from other events

	// UpdateTime is the latest update time that the event's documents carry; zero: unknown. A
	// snapshot before it covers nothing.
	UpdateTime time.Time

	// Time is when the event says that it happened; zero: unknown. An instance whose own clock
	// stood still learns from it how late it is.
	Time time.Time
}

// latestTime returns the latest time that the event carries.
func (e *Event) latestTime() time.Time { return roll.Later(e.UpdateTime, e.Time) }

// commit returns when the write was committed; zero: unknown. The documents of a deletion tell when
// the document was written before, so the event's own time counts, too.
func (e *Event) commit() time.Time {
	if e.UpdateTime.IsZero() {
		return time.Time{}
	}
	return e.latestTime()
}

// An entry is a counter for which an event is held, and the generation that it waits for there.
type entry struct {
	state      *counterState
	generation *generation
}

// HandleEvent takes an event, and the counters to which the changed document belongs. It returns
// nil if the event may be acknowledged, because each counter is done with it. A counter is done
// with an event
//
//   - when a snapshot later than the event's arrival was rolled up, or found the app's own document
//     missing;
//   - when an alarm stands for it, which rings later than the event came;
//   - when the counter turns out to be unkept;
//   - at once, if an event that is not acknowledged yet or an alarm that this instance knows of
//     stands for it, if it changes no total and is young or the counter circular, or if the counter
//     pauses because it is unkept;
//   - once a note for audits names the counter, if that is circular and the event came without its
//     documents.
//
// If a counter fails the event, HandleEvent waits until the others have ended, too, and returns an
// error. Then the event must be delivered again, to this or any other instance. A counter fails the
// event when ctx ends, or when the event was held for Options.Hold.
//
// Copies of one event are answered together. If a copy comes while another is held here, it joins
// that one and gets the same answer. If the copy's own time is up first, it fails alone.
//
// The looks and writes that an anchor waits for have the values of the anchor's context.
func (c *Coalescer) HandleEvent(ctx context.Context, e Event, concerns ...route.Concern) (Ending, error) {
	err := c.noteUntold(ctx, concerns)
	if err != nil {
		return Ending{}, err
	}

	c.mu.Lock()
	if first := c.deliveries[e.ID]; first != nil {
		c.mu.Unlock()
		return c.join(ctx, first)
	}

	var ending Ending
	var held []entry
	for _, concern := range concerns {
		s, g := c.enter(ctx, &e, concern, &ending)
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

// enter brings an event to a counter. If the event becomes the anchor of a generation, enter
// returns the generation, and the event must be held for it. If the counter is done with the event,
// enter returns nil. The mutex is held.
func (c *Coalescer) enter(ctx context.Context, e *Event, concern route.Concern, ending *Ending) (*counterState, *generation) {
	latest, commit := e.latestTime(), e.commit()
	if concern.Untold || concern.Unchanged && (concern.Circular || c.isFresh(commit)) {
		return nil, nil
	}

	s := c.state(concern.Counter)
	if !s.unkept.over(latest) {
		ending.Unkept = true
		return nil, nil
	}

	if g := s.open; g != nil {
		if c.options.Alarms != nil {
			g.latestTime = roll.Later(g.latestTime, latest)
		}
		if e.UpdateTime.After(g.latestUpdate) {
			g.latestUpdate = e.UpdateTime
		}

		if !g.weak || concern.Unchanged && !commit.Before(g.commit) {
			return nil, nil // absorbed
		}
		// A change does not rely on an event that changed nothing: it becomes the anchor.
		g.anchor, g.weak, g.commit = e.ID, concern.Unchanged, commit
		g.values = context.WithoutCancel(ctx)
		return s, g
	}

	if c.knowsAlarm(s, latest) {
		ending.Deferred = true
		return nil, nil
	}

	g := &generation{
		anchor:       e.ID,
		weak:         concern.Unchanged,
		commit:       commit,
		values:       context.WithoutCancel(ctx),
		latestUpdate: e.UpdateTime,
		latestTime:   latest,
		done:         make(chan struct{}),
	}
	s.open = g

	c.startProbing(s)
	return s, g
}

// noteUntold notes the circular counters about which an event came without its documents. Such an
// event may be of a roll-up, so another roll-up must not follow, or of a change.
func (c *Coalescer) noteUntold(ctx context.Context, concerns []route.Concern) error {
	isUntold := func(concern route.Concern) bool { return concern.Untold }
	if !slices.ContainsFunc(concerns, isUntold) { // nearly always
		return nil
	}

	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	for _, concern := range concerns {
		if !concern.Untold {
			continue
		}
		err := c.notes.UntoldCounter(ctx, concern.Counter)
		if err != nil {
			return fmt.Errorf("rollup: noting that an event came without its documents: %w", err)
		}
	}
	return nil
}

// wait waits until all generations that an event is held for have ended. If ctx or Options.Hold
// ends before that, wait first closes the generations that are left, so that they absorb nothing
// more, and then fails. The ending it is given is about the counters that were done with the event
// at once. wait adds the others.
//
// Only a held event has a timer. One for each absorbed event would cost more than all else.
func (c *Coalescer) wait(ctx context.Context, held []entry, ending Ending) (Ending, error) {
	ctx, cancel := c.withHoldLimit(ctx)
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
		ending.Deferred = ending.Deferred || h.generation.deferred
		ending.AsOf = roll.Later(ending.AsOf, h.generation.asOf)
		failed = errors.Join(failed, h.generation.err)
	}

	if failed != nil {
		ending.AsOf = time.Time{}
	}
	return ending, failed
}

// join waits for the copy of an event that came first.
func (c *Coalescer) join(ctx context.Context, first *delivery) (Ending, error) {
	ctx, cancel := c.withHoldLimit(ctx)
	defer cancel()

	select {
	case <-first.done:
		return first.ending, first.err
	case <-ctx.Done():
		return Ending{Held: true}, fmt.Errorf("rollup: a copy of the event that came before is not done: %w", context.Cause(ctx))
	}
}
