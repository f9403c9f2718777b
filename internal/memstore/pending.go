package memstore

import (
	"context"
	"slices"
	"strings"

	"github.com/firestore-tally/tally/rollup"
)

const pending = "rollup_pending"

// Mark implements rollup.PendingStore.
func (s *Store) Mark(ctx context.Context, c rollup.Counter) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.Put(markPath(c), map[string]any{"shards": c.Shards})
	return nil
}

func markPath(c rollup.Counter) string {
	return pending + "/" + strings.ReplaceAll(c.Shards, "/", "|")
}

// Marked implements rollup.PendingStore.
func (s *Store) Marked(ctx context.Context, c rollup.Counter) (bool, error) {
	return s.Get(markPath(c)) != nil, ctx.Err()
}

// Marks implements rollup.PendingStore.
func (s *Store) Marks(ctx context.Context, f func(rollup.Mark) error) error {
	s.mu.Lock()
	var marks []rollup.Mark
	for id, d := range s.collections[pending] {
		m := rollup.Mark{ID: id, Version: d.updateTime}
		m.Shards, _ = d.fields["shards"].(string)
		marks = append(marks, m)
	}
	s.mu.Unlock()
	slices.SortFunc(marks, func(a, b rollup.Mark) int { return a.Version.Compare(b.Version) })
	for _, m := range marks {
		if err := f(m); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// Unmark implements rollup.PendingStore.
func (s *Store) Unmark(ctx context.Context, m rollup.Mark) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d, ok := s.collections[pending][m.ID]
	if !ok || !d.updateTime.Equal(m.Version) {
		return rollup.ErrConflict
	}
	delete(s.collections[pending], m.ID)
	return nil
}
