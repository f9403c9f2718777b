package app

import (
	"context"
	"sync"
	"time"

	"github.com/firestore-tally/tally/internal/cloud/trigger"
	"github.com/firestore-tally/tally/rollup/route"
)

// omissionEvery is how often an instance logs a reason why documents are left out of totals of a
// route. An app may do so on purpose, and write very many such documents.
const omissionEvery = time.Hour

// An omissionLog remembers when each reason was logged with each message. There are few reasons
// for each route, so it stays small. Its zero value is ready. It may be used by many goroutines at
// once.
type omissionLog struct {
	mu   sync.Mutex
	last map[omissionKey]time.Time
}

type omissionKey struct {
	message string
	route   *route.Route
	reason  string
}

// due reports whether the reason may be logged now. If so, it is due again omissionEvery later.
func (l *omissionLog) due(message string, o route.Omission, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := omissionKey{message, o.Route, o.Reason}
	last, logged := l.last[key]
	if logged && now.Sub(last) < omissionEvery {
		return false
	}

	if l.last == nil {
		l.last = make(map[omissionKey]time.Time)
	}
	l.last[key] = now
	return true
}

// tellOmissions logs why the document that changed belongs to no counter of a route, and why it is
// in none of a route's windows, if that is due. Otherwise such a document would leave no trace,
// because no total has it. tally doctor looks for these lines.
func (s *service) tellOmissions(ctx context.Context, change trigger.Change, source route.Source) {
	if change.Deleted() {
		return
	}

	s.tellEach(ctx, "a document belongs to no counter", change, source.Ungrouped(change.Holds))
	s.tellEach(ctx, "a document is in no window", change, source.Timeless(change.Holds))
}

// tellEach logs the omissions that are due.
func (s *service) tellEach(ctx context.Context, message string, change trigger.Change, omissions []route.Omission) {
	for _, o := range omissions {
		if s.omissions.due(message, o, time.Now()) {
			s.logger.InfoContext(ctx, message, "document", change.Path(), "database", change.Database,
				"route", o.Route.String(), "reason", o.Reason, "why", o.Why)
		}
	}
}
