package rollup_test

import (
	"context"
	"fmt"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

// A fault is what befalls a call of an instance's store.
type fault int64

const (
	none          fault = iota
	errorBefore         // it fails and has no effect
	errorAfter          // it has its effect, and the answer is lost
	crashBefore         // the instance crashes before it has an effect
	crashAfter          // and after it
	hangs               // no effect, and no answer until the caller gives up
	outlasts            // as hangs, and the call ends some time after that
	conflict            // refused though nothing was in the way, as Firestore may abort
	conflictAfter       // done, and done again by the SDK, which then was refused
	landsLate           // it fails, and has its effect later
	crashLate           // the instance crashes, and it has its effect later
	faults
)

// A call is one call of an instance's store: a request on its way there and an answer on its way
// back.
type call struct {
	*instance
	name   string
	mayErr bool
	fault  fault
}

// begin begins the instance's next call for a roll-up. The last fault that may befall it is worst.
func (i *instance) begin(what string, counter route.Counter, worst fault) *call {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.calls[counter.RollUp]++
	n := i.calls[counter.RollUp]
	c := &call{instance: i, name: fmt.Sprintf("%s %s %d %s", i.name, counter.RollUp, n, what), mayErr: n <= maxFaults && !i.calm}
	if c.mayErr {
		c.fault = min(fault(i.chance(i.weather.fail, c.name+" fault", upTo(int64(worst)))), worst)
	}
	return c
}

// there is the request's way to the database.
func (c *call) there(ctx context.Context) error {
	if err := c.stall(ctx, "before", 5*time.Millisecond); err != nil {
		return err
	}
	switch c.fault {
	case errorBefore:
		return errStore
	case crashBefore:
		c.crash()
		return errCrashed
	case hangs, outlasts:
		<-ctx.Done()
		if c.fault == outlasts {
			time.Sleep(c.chanceOf(1, c.name+" outlasts", time.Second, time.Minute) + jitter(c.name+" outlasts"))
		}
		return context.Cause(ctx)
	case conflict:
		return rollup.ErrConflict
	}
	return nil
}

// back is the answer's way back.
func (c *call) back(ctx context.Context) error {
	if c.fault == crashAfter {
		c.crash()
	}
	if err := c.stall(ctx, "after", 5*time.Millisecond); err != nil {
		return err
	}
	switch c.fault {
	case errorAfter:
		return errStore
	case conflictAfter:
		return rollup.ErrConflict
	}
	return nil
}

// stall waits for the network, or longer.
func (c *call) stall(ctx context.Context, where string, usual time.Duration) error {
	d := usual + jitter(c.name+where)
	if c.mayErr {
		d += c.chanceOf(c.weather.slow, c.name+" slow "+where, time.Millisecond, 90*time.Second)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.ctx.Done():
	}
	return context.Cause(c.ctx)
}

func (i *instance) View(ctx context.Context, c route.Counter) (rollup.Snapshot, error) {
	call := i.begin("view", c, outlasts)
	if err := call.there(ctx); err != nil {
		return nil, err
	}
	i.visitOnBound(c, call.name)
	v, err := i.store.View(ctx, c)
	if err != nil {
		return nil, err
	}
	i.mu.Lock()
	i.looks++
	i.tell("%s looks at %s: as of %s", i.name, c.RollUp, i.clock(v.RollUp().Tally.AsOf))
	if i.existing && !v.RollUp().Exists() || v.Ownerless() && v.RollUp().Tally.AsOf.IsZero() {
		i.counter(c).cover(c.Template.Hash(), v.ReadTime())
	}
	i.mu.Unlock()
	return simulatedSnapshot{v, i, c}, call.back(ctx)
}

// Sources is at another instant than the roll-up that was found before.
func (i *instance) Sources(ctx context.Context, c route.Counter) rollup.Snapshot {
	return &simulatedSources{Snapshot: nil, i: i, c: c}
}

// simulatedSources are opened by their sum.
type simulatedSources struct {
	rollup.Snapshot
	i *instance
	c route.Counter
}

func (v *simulatedSources) Sum(ctx context.Context) (totals route.Totals, err error) {
	call := v.i.begin("sum of sources", v.c, outlasts)
	if v.i.slow {
		if err := call.stall(ctx, "slowly", v.i.chanceOf(0.9, call.name+" takes", 50*time.Millisecond, 3*time.Second)); err != nil {
			return totals, err
		}
	}
	if err := call.takeLong(ctx); err != nil {
		return totals, err
	}
	if err := call.there(ctx); err != nil {
		return totals, err
	}
	v.Snapshot = v.i.store.Sources(ctx, v.c)
	if totals, err = v.Snapshot.Sum(ctx); err != nil {
		return totals, err
	}
	return totals, call.back(ctx)
}

type simulatedSnapshot struct {
	rollup.Snapshot
	i *instance
	c route.Counter
}

func (v simulatedSnapshot) Sum(ctx context.Context) (totals route.Totals, err error) {
	call := v.i.begin("sum", v.c, outlasts)
	if v.i.slow {
		if err := call.stall(ctx, "slowly", v.i.chanceOf(0.9, call.name+" takes", 50*time.Millisecond, 3*time.Second)); err != nil {
			return totals, err
		}
	}
	if err := call.takeLong(ctx); err != nil {
		return totals, err
	}
	if err := call.there(ctx); err != nil {
		return totals, err
	}
	if v.i.unsummed(v.c) {
		return totals, rollup.ErrUnkept
	}
	if totals, err = v.Snapshot.Sum(ctx); err != nil {
		return totals, err
	}
	return totals, call.back(ctx)
}

func (v simulatedSnapshot) SumAsOf(ctx context.Context, instant time.Time) (totals route.Totals, err error) {
	call := v.i.begin("sum as of before", v.c, outlasts)
	if err := call.there(ctx); err != nil {
		return totals, err
	}
	if totals, err = v.Snapshot.SumAsOf(ctx, instant); err != nil {
		return totals, err
	}
	return totals, call.back(ctx)
}

func (v simulatedSnapshot) Claim(ctx context.Context) (claim rollup.Claim, err error) {
	call := v.i.begin("claim", v.c, outlasts)
	if err := call.there(ctx); err != nil {
		return claim, err
	}
	if claim, err = v.Snapshot.Claim(ctx); err != nil {
		return claim, err
	}
	return claim, call.back(ctx)
}

func (i *instance) Claim(ctx context.Context, c route.Counter, claim rollup.Claim) error {
	return i.change(ctx, c, "claims", func(ctx context.Context, name string) error {
		err := i.store.Claim(ctx, c, claim)
		i.mu.Lock()
		defer i.mu.Unlock()
		i.tell("%s: %v", name, err)
		return err
	})
}

func (i *instance) Write(ctx context.Context, c route.Counter, r rollup.RollUp) error {
	if age := i.store.Now().Sub(r.Tally.AsOf); age > time.Minute+i.stoodStill() {
		i.mu.Lock()
		i.breach("%s sent a write %v after its snapshot", i.name, age)
		i.mu.Unlock()
	}
	return i.change(ctx, c, "write", func(ctx context.Context, name string) error {
		return i.commit(c, r, name, func() error { return i.store.Write(ctx, c, r) })
	})
}

func (i *instance) WriteLocked(ctx context.Context, c route.Counter, r rollup.RollUp, seen document.Tally) error {
	if age := i.store.Now().Sub(r.Tally.AsOf); age > time.Minute+i.stoodStill() {
		i.mu.Lock()
		i.breach("%s sent a locked write %v after its snapshot", i.name, age)
		i.mu.Unlock()
	}
	return i.change(ctx, c, "locked write", func(ctx context.Context, name string) error {
		if i.existing && i.chance(0.1, name+" meets a deletion", upTo(1)) == 1 {
			i.mu.Lock()
			i.appDeletes(i.counter(c))
			i.mu.Unlock()
		}
		err := i.commit(c, r, name, func() error { return i.store.WriteLocked(ctx, c, r, seen) })
		if err == nil {
			i.mu.Lock()
			i.outcome.locked++
			i.mu.Unlock()
		}
		return err
	})
}

func (i *instance) Remove(ctx context.Context, c route.Counter, r rollup.RollUp) error {
	return i.change(ctx, c, "removal", func(ctx context.Context, name string) error { return i.remove(ctx, c, r, name) })
}

// change is a call that changes a roll-up document.
func (i *instance) change(ctx context.Context, c route.Counter, what string, do func(ctx context.Context, name string) error) error {
	call := i.begin(what, c, faults-1)
	if i.ctx.Err() != nil { // it has crashed: it sends nothing more, though what it has sent may still land
		return context.Cause(i.ctx)
	}

	if call.fault == landsLate || call.fault == crashLate {
		i.actors.Go(func() {
			time.Sleep(i.chanceOf(1, call.name+" lands after", time.Millisecond, 50*time.Second) + jitter(call.name+" lands"))
			_ = do(context.Background(), call.name+", late")
		})
		if call.fault == crashLate {
			i.crash()
			return errCrashed
		}
		return errStore
	}
	if err := call.there(ctx); err != nil {
		return err
	}
	if err := do(ctx, call.name); err != nil {
		return err
	}
	return call.back(ctx)
}

// walks are no counter's: a walk's pages and the cursors. Those of different kinds are called
// at once.
func walks(what string) route.Counter { return route.Counter{RollUp: "walks, " + what} }

func (i *instance) page(ctx context.Context, what string, page func() (rollup.Page, error)) (p rollup.Page, err error) {
	call := i.begin(what, walks(what), outlasts)
	if err := call.there(ctx); err != nil {
		return p, err
	}
	if p, err = page(); err != nil {
		return p, err
	}
	return p, call.back(ctx)
}

func (i *instance) Missing(ctx context.Context, r *route.Route, since time.Time, from string, limit int) (rollup.Page, error) {
	return i.page(ctx, "page of shards", func() (rollup.Page, error) { return i.store.Missing(ctx, r, since, from, limit) })
}

func (i *instance) Recent(ctx context.Context, t *route.Template, since func(string) time.Time, from string, limit int) (rollup.Page, error) {
	return i.page(ctx, "page of recent roll-ups", func() (rollup.Page, error) { return i.store.Recent(ctx, t, since, from, limit) })
}

func (i *instance) RollUps(ctx context.Context, t *route.Template, from string, limit int) (rollup.Page, error) {
	return i.page(ctx, "page of roll-ups", func() (rollup.Page, error) { return i.store.RollUps(ctx, t, from, limit) })
}

func (i *instance) LoadCursor(ctx context.Context, of rollup.Work) (c rollup.Cursor, err error) {
	_, err = i.page(ctx, "load", func() (p rollup.Page, err error) {
		c, err = i.store.LoadCursor(ctx, of)
		return p, err
	})
	return c, err
}

func (i *instance) SaveCursor(ctx context.Context, of rollup.Work, c rollup.Cursor) (time.Time, error) {
	saved := make(chan time.Time, 1) // perhaps after the call has failed
	err := i.change(ctx, walks("save"), "save", func(ctx context.Context, _ string) error {
		at, err := i.store.SaveCursor(ctx, of, c)
		saved <- at
		return err
	})
	if err != nil {
		return time.Time{}, err
	}
	return <-saved, nil
}

// The calls for notes have the notes' IDs in their names, because coalescers make them for several
// counters at once.

func (i *instance) LoadNote(ctx context.Context, id string) (n rollup.Note, err error) {
	_, err = i.page(ctx, "load "+id, func() (p rollup.Page, err error) {
		n, err = i.store.LoadNote(ctx, id)
		return p, err
	})
	return n, err
}

func (i *instance) Notes(ctx context.Context, after string, limit int) (all []rollup.Note, err error) {
	_, err = i.page(ctx, "notes", func() (p rollup.Page, err error) {
		all, err = i.store.Notes(ctx, after, limit)
		return p, err
	})
	return all, err
}

func (i *instance) SaveNote(ctx context.Context, n rollup.Note) error {
	return i.change(ctx, walks("save "+n.ID), "save", func(ctx context.Context, _ string) error { return i.store.SaveNote(ctx, n) })
}

func (i *instance) DeleteNote(ctx context.Context, n rollup.Note) error {
	return i.change(ctx, walks("delete "+n.ID), "save", func(ctx context.Context, _ string) error { return i.store.DeleteNote(ctx, n) })
}
