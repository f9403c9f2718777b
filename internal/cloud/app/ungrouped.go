package app

import (
	"context"
	"sync"
	"time"

	"github.com/firestore-tally/tally/internal/cloud/trigger"
	"github.com/firestore-tally/tally/rollup/route"
)

// ungroupedEvery is how often an instance logs a reason why documents belong to no counter of a
// route. An app may do so on purpose, and write very many such documents.
const ungroupedEvery = time.Hour

// An ungroupedLog remembers when each reason was logged. There are few reasons for each route, so
// it stays small. Its zero value is ready. It may be used by many goroutines at once.
type ungroupedLog struct {
	mu   sync.Mutex
	last map[ungroupedKey]time.Time
}

type ungroupedKey struct {
	route  *route.Route
	reason string
}

// due reports whether the reason may be logged now. If so, it is due again ungroupedEvery later.
func (l *ungroupedLog) due(u route.Ungrouped, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := ungroupedKey{u.Route, u.Reason}
	last, logged := l.last[key]
	if logged && now.Sub(last) < ungroupedEvery {
		return false
	}

	if l.last == nil {
		l.last = make(map[ungroupedKey]time.Time)
	}
	l.last[key] = now
	return true
}

// tellUngrouped logs why the document that changed belongs to no counter of a route, if that is
// due. Otherwise such a document would leave no trace, because no total has it. tally doctor looks
// for these lines.
func (s *service) tellUngrouped(ctx context.Context, change trigger.Change, source route.Source) {
	if change.Deleted() {
		return
	}

	for _, u := range source.Ungrouped(change.Holds) {
		if s.ungrouped.due(u, time.Now()) {
			s.logger.InfoContext(ctx, "a document belongs to no counter", "document", change.Path(), "database", change.Database,
				"route", u.Route.String(), "reason", u.Reason, "why", u.Why)
		}
	}
}
