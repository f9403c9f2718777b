package rollup_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

// hang keeps a call until its context ends.
func hang(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// A hanging store has the first call of a kind never answer.
type hanging struct {
	rollup.AuditStore
	what  string
	calls *atomic.Int32 // that hung
}

func (s hanging) hangs(ctx context.Context, what string) error {
	if s.what == what && s.calls.Add(1) == 1 {
		return hang(ctx)
	}
	return nil
}

func (s hanging) View(ctx context.Context, c route.Counter) (rollup.Snapshot, error) {
	if err := s.hangs(ctx, "look"); err != nil {
		return nil, err
	}
	v, err := s.AuditStore.View(ctx, c)
	return hangingSum{v, s}, err
}

func (s hanging) Sources(ctx context.Context, c route.Counter) rollup.Snapshot {
	return hangingSum{s.AuditStore.Sources(ctx, c), s}
}

type hangingSum struct {
	rollup.Snapshot
	s hanging
}

func (v hangingSum) Sum(ctx context.Context) (route.Totals, error) {
	if err := v.s.hangs(ctx, "sum"); err != nil {
		return route.Totals{}, err
	}
	return v.Snapshot.Sum(ctx)
}

func (s hanging) Write(ctx context.Context, c route.Counter, r rollup.RollUp) error {
	if err := s.hangs(ctx, "write"); err != nil {
		return err
	}
	return s.AuditStore.Write(ctx, c, r)
}

func (s hanging) RollUps(ctx context.Context, t *route.Template, from string, limit int) (rollup.Page, error) {
	if err := s.hangs(ctx, "page"); err != nil {
		return rollup.Page{}, err
	}
	return s.AuditStore.RollUps(ctx, t, from, limit)
}

func (s hanging) Missing(ctx context.Context, r *route.Route, since time.Time, from string, limit int) (rollup.Page, error) {
	if err := s.hangs(ctx, "page"); err != nil {
		return rollup.Page{}, err
	}
	return s.AuditStore.Missing(ctx, r, since, from, limit)
}

func (s hanging) LoadCursor(ctx context.Context, of rollup.Work) (rollup.Cursor, error) {
	if err := s.hangs(ctx, "load"); err != nil {
		return rollup.Cursor{}, err
	}
	return s.AuditStore.LoadCursor(ctx, of)
}

func (s hanging) Notes(ctx context.Context, after string, limit int) ([]rollup.Note, error) {
	if err := s.hangs(ctx, "notes"); err != nil {
		return nil, err
	}
	return s.AuditStore.Notes(ctx, after, limit)
}

func (s hanging) LoadNote(ctx context.Context, id string) (rollup.Note, error) {
	what := "note"
	if strings.HasPrefix(id, "note-unkept-") {
		what = "unkept note"
	}
	if err := s.hangs(ctx, what); err != nil {
		return rollup.Note{}, err
	}
	return s.AuditStore.LoadNote(ctx, id)
}

func (s hanging) SaveCursor(ctx context.Context, of rollup.Work, c rollup.Cursor) (time.Time, error) {
	if err := s.hangs(ctx, "save"); err != nil {
		return time.Time{}, err
	}
	return s.AuditStore.SaveCursor(ctx, of, c)
}

// A call that never answers costs an audit and a tick one time-out, not more.
func TestCallsThatHang(t *testing.T) {
	for _, what := range []string{"look", "sum", "write", "page", "load", "save", "notes"} {
		for _, who := range []string{"audit", "tick"} {
			if who == "tick" && what == "notes" { // which only audits read
				continue
			}
			t.Run(who+", "+what, func(t *testing.T) {
				inWorld(t, func(w *world, _ *rollup.Coalescer) {
					w.increment(1)
					w.rollUpElsewhere()
					time.Sleep(time.Hour)
					w.increment(1)
					store := hanging{traced{w.store, w}, what, new(atomic.Int32)}
					ctx, cancel := context.WithTimeout(w.t.Context(), time.Hour)
					defer cancel()
					began := time.Now()
					if who == "audit" {
						_, _ = rollup.Audit(ctx, store, likes.Template.Routes, w.auditOptions())
					} else {
						_, _ = rollup.Keep(ctx, store, scheduled.Template.Routes, w.keepOptions(1, time.Time{}))
					}
					if took := time.Since(began); took < hold || took > hold+cadence {
						t.Errorf("it took %v, want the time-out of %v", took, hold)
					}
					if what != "load" {
						if _, err := w.audit(w.auditOptions()); err != nil {
							t.Error(err)
						}
						w.wantTotal(2)
					}
				})
			})
		}
	}
}

// A note that is never read costs an audit one time-out, too.
func TestNoteThatHangs(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.left()
		store := hanging{w.store, "note", new(atomic.Int32)}
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Hour)
		defer cancel()

		o := w.patient()
		began := time.Now()
		report, err := rollup.Audit(ctx, store, byShop, o)
		if took := time.Since(began) - o.Grace; took < hold || took > hold+cadence {
			t.Errorf("it took %v and the grace, want the time-out of %v", took, hold)
		}
		if err != nil || report.Drift != 1 || store.calls.Load() != 1 {
			t.Errorf("%+v, %v after %d calls that hung; want a drift after one", report, err, store.calls.Load())
		}
	})
}
