package firestorestore

import (
	"context"
	"time"

	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

// PageEnd is pageEnd.
var PageEnd = pageEnd

// CountersUntil is Counters that makes no further query after a time.
func (s *Store) CountersUntil(ctx context.Context, route *route.Route, from string, limit int, until time.Time) (rollup.Page, error) {
	return s.counters(ctx, route, time.Time{}, from, limit, until)
}

// RollUpsUntil is RollUps that makes no further query after a time.
func (s *Store) RollUpsUntil(ctx context.Context, t *route.Template, from string, limit int, until time.Time) (rollup.Page, error) {
	return s.rollUps(ctx, t, from, limit, until)
}

// OpenEnterprise is openEnterprise.
var OpenEnterprise = openEnterprise
