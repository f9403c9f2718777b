package telemetry

import (
	"context"
	"errors"

	"github.com/firestore-tally/tally/rollup"
)

// A Store is all that the engine wants of a database.
type Store interface {
	rollup.AuditStore
	rollup.PendingStore
}

// Store returns a store that records the calls of s: their spans, for events, and their failures, by
// the class of the error. Of the audit's calls it records those of roll-ups and marks, not the
// queries that find counters. Off, it returns s.
func (t *Telemetry) Store(s Store, class func(error) string) Store {
	if t == nil {
		return s
	}
	return &store{Store: s, telemetry: t, class: class}
}

type store struct {
	Store
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

func (s *store) View(ctx context.Context, c rollup.Counter, f func(rollup.Snapshot) error) error {
	var within error // f's, such as a sum's, which is counted already
	err := s.call(ctx, "look", func(ctx context.Context) error {
		err := s.Store.View(ctx, c, func(v rollup.Snapshot) error {
			within = f(snapshot{v, s, ctx})
			return within
		})
		if within != nil {
			return nil
		}
		return err
	})
	if within != nil {
		return within
	}
	return err
}

func (s *store) Write(ctx context.Context, c rollup.Counter, r rollup.RollUp) error {
	return s.call(ctx, "write", func(ctx context.Context) error { return s.Store.Write(ctx, c, r) })
}

func (s *store) Mark(ctx context.Context, c rollup.Counter) error {
	err := s.call(ctx, "mark", func(ctx context.Context) error { return s.Store.Mark(ctx, c) })
	if err == nil {
		s.telemetry.marks.Add(ctx, 1)
	}
	return err
}

func (s *store) Unmark(ctx context.Context, m rollup.Mark) error {
	return s.call(ctx, "unmark", func(ctx context.Context) error { return s.Store.Unmark(ctx, m) })
}

func (s *store) Remove(ctx context.Context, c rollup.Counter, r rollup.RollUp) error {
	return s.call(ctx, "remove", func(ctx context.Context) error { return s.Store.Remove(ctx, c, r) })
}

// A snapshot is valid only inside the call of View whose context it keeps, for the span of its sum to
// be a child of the look's.
type snapshot struct {
	rollup.Snapshot
	store *store
	look  context.Context
}

func (v snapshot) Sum(ctx context.Context) (totals rollup.Totals, malformed []rollup.Malformed, err error) {
	_, span := v.store.telemetry.startCall(v.look, "sum")
	totals, malformed, err = v.Snapshot.Sum(ctx)
	span.End(err)
	if err != nil {
		v.store.telemetry.failed(ctx, "sum", v.store.class(err))
	}
	return totals, malformed, err
}
