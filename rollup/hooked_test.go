package rollup_test

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
)

// by is how a walk finds counters.
type by int

const (
	byRollUp by = iota
	byShards    // those without a roll-up
)

// A hooked store has calls fail, or notes them.
type hooked struct {
	rollup.AuditStore
	view func(context.Context, route.Counter) error        // before a look
	page func(by by, t *route.Template, from string) error // before a page
	load func() error                                      // before the cursor is loaded
	save func(rollup.Cursor) error                         // before it is saved
}

func (s hooked) View(ctx context.Context, c route.Counter) (rollup.Snapshot, error) {
	if s.view != nil {
		if err := s.view(ctx, c); err != nil {
			return nil, err
		}
	}
	return s.AuditStore.View(ctx, c)
}

func (s hooked) RollUps(ctx context.Context, t *route.Template, from string, limit int) (rollup.Page, error) {
	if s.page != nil {
		if err := s.page(byRollUp, t, from); err != nil {
			return rollup.Page{}, err
		}
	}
	return s.AuditStore.RollUps(ctx, t, from, limit)
}

func (s hooked) Missing(ctx context.Context, r *route.Route, since time.Time, from string, limit int) (rollup.Page, error) {
	if s.page != nil {
		if err := s.page(byShards, r.Template, from); err != nil {
			return rollup.Page{}, err
		}
	}
	return s.AuditStore.Missing(ctx, r, since, from, limit)
}

func (s hooked) LoadCursor(ctx context.Context, of rollup.Work) (rollup.Cursor, error) {
	if s.load != nil {
		if err := s.load(); err != nil {
			return rollup.Cursor{}, err
		}
	}
	return s.AuditStore.LoadCursor(ctx, of)
}

func (s hooked) SaveCursor(ctx context.Context, of rollup.Work, c rollup.Cursor) (time.Time, error) {
	if s.save != nil {
		if err := s.save(c); err != nil {
			return time.Time{}, err
		}
	}
	return s.AuditStore.SaveCursor(ctx, of, c)
}

// attempts are the writes of roll-ups that went well, by counter.
type attempts struct {
	mu    sync.Mutex
	asOfs map[string][]time.Time
	order []string // roll-ups, in the order of their writes
}

// A notedStore notes the writes of roll-ups.
type notedStore struct {
	rollup.AuditStore
	*attempts
}

// of returns a store that notes its writes.
func (a *attempts) of(s rollup.AuditStore) rollup.AuditStore { return notedStore{s, a} }

func (s notedStore) Write(ctx context.Context, c route.Counter, r rollup.RollUp) error {
	return s.note(c, r, s.AuditStore.Write(ctx, c, r))
}

func (s notedStore) WriteLocked(ctx context.Context, c route.Counter, r rollup.RollUp, seen document.Tally) error {
	return s.note(c, r, s.AuditStore.WriteLocked(ctx, c, r, seen))
}

// note notes a write unless it failed with the error, which it returns.
func (a *attempts) note(c route.Counter, r rollup.RollUp, err error) error {
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asOfs == nil {
		a.asOfs = make(map[string][]time.Time)
	}
	a.asOfs[c.RollUp] = append(a.asOfs[c.RollUp], r.Tally.AsOf)
	a.order = append(a.order, c.RollUp)
	return nil
}

// gaps are the times between a counter's roll-ups.
func (a *attempts) gaps(rollUp string) []time.Duration {
	asOfs := slices.SortedFunc(slices.Values(a.asOfs[rollUp]), time.Time.Compare)
	var gaps []time.Duration
	for i := range len(asOfs) - 1 {
		gaps = append(gaps, asOfs[i+1].Sub(asOfs[i]).Round(time.Millisecond))
	}
	return gaps
}

// keep is a tick that keeps scheduled until a time.
func (w *world) keep(store rollup.AuditStore, until time.Time, wrote *attempts) (rollup.KeepReport, error) {
	if wrote != nil {
		store = wrote.of(store)
	}
	return rollup.Keep(w.t.Context(), store, scheduled.Template.Routes, w.keepOptions(4, until))
}

func (w *world) keepOptions(concurrency int, until time.Time) rollup.KeepOptions {
	return rollup.KeepOptions{Options: w.options(0), Concurrency: concurrency, Until: until}
}

// wantKeep wants a tick to end well and to count this.
func (w *world) wantKeep(until time.Time, want rollup.KeepReport) {
	w.t.Helper()
	got, err := w.keep(traced{w.store, w}, until, nil)
	if d := cmp.Diff(want, ageless(got)); d != "" || err != nil {
		w.t.Errorf("%v: report (-want +got):\n%s", err, d)
	}
}

// ageless returns the report without how old the roll-ups were.
func ageless(r rollup.KeepReport) rollup.KeepReport {
	r.GreatestAge, r.Oldest = 0, ""
	return r
}
