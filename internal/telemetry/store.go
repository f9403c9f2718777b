package telemetry

import (
	"context"
	"errors"

	"github.com/firestore-tally/tally/rollup"
)

// Store returns a store that records the calls of s: their spans, for events, and their failures, by
// the class of the error. Of the audit's calls it records those of roll-ups, not the queries that find
// counters. Off, it returns s.
func (t *Telemetry) Store(s rollup.AuditStore, class func(error) string) rollup.AuditStore {
	if t == nil {
		return s
	}
	return &store{AuditStore: s, telemetry: t, class: class}
}

type store struct {
	rollup.AuditStore
	telemetry *Telemetry
	class     func(error) string
}

// call makes a call that is recorded.
func (s *store) call(ctx context.Context, name string, f func(context.Context) error) error {
	ctx, span := s.telemetry.startCall(ctx, name)
	err := f(ctx)
	span.End(err)
	if err != nil && !errors.Is(err, rollup.ErrConflict) {
		s.telemetry.failed(ctx, name, s.class(err))
	}
	return err
}

func (s *store) View(ctx context.Context, c rollup.Counter) (v rollup.Snapshot, err error) {
	err = s.call(ctx, "look", func(ctx context.Context) (err error) {
		v, err = s.AuditStore.View(ctx, c)
		return err
	})
	return snapshot{v, s}, err
}

func (s *store) Write(ctx context.Context, c rollup.Counter, r rollup.RollUp) error {
	return s.call(ctx, "write", func(ctx context.Context) error { return s.AuditStore.Write(ctx, c, r) })
}

func (s *store) Remove(ctx context.Context, c rollup.Counter, r rollup.RollUp) error {
	return s.call(ctx, "remove", func(ctx context.Context) error { return s.AuditStore.Remove(ctx, c, r) })
}

type snapshot struct {
	rollup.Snapshot
	store *store
}

func (v snapshot) Sum(ctx context.Context) (totals rollup.Totals, err error) {
	err = v.store.call(ctx, "sum", func(ctx context.Context) (err error) {
		totals, err = v.Snapshot.Sum(ctx)
		return err
	})
	return totals, err
}
