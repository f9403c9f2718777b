package firestorestore

import (
	"context"
	"time"

	"github.com/firestore-tally/tally/rollup"
)

// CountersUntil is Counters that makes no further query after a time.
func (s *Store) CountersUntil(ctx context.Context, route *rollup.Route, from string, limit int, until time.Time) (rollup.Page, error) {
	return s.counters(ctx, route, from, limit, until)
}
