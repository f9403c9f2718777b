package app

import (
	"context"

	"github.com/firestore-tally/tally/internal/cloud/trigger"
	"github.com/firestore-tally/tally/rollup/route"
)

// tellOmissions logs why the document that changed belongs to no counter of a route, and why it is
// in none of a route's windows. Otherwise such a document would leave no trace, because no total
// has it. tally doctor looks for these lines.
func (s *service) tellOmissions(ctx context.Context, change trigger.Change, source route.Source) {
	if change.Deleted() {
		return
	}

	s.tellEach(ctx, "a document belongs to no counter", change, source.Ungrouped(change.Holds))
	s.tellEach(ctx, "a document is in no window", change, source.Timeless(change.Holds))
}

// tellEach logs each omission, unless one of its route for the same reason was logged lately. An
// app may write such documents on purpose, and very many.
func (s *service) tellEach(ctx context.Context, message string, change trigger.Change, omissions []route.Omission) {
	for _, o := range omissions {
		text := o.Route.String()
		if s.logged.First(message+": "+o.Reason, change.Database+": "+text) {
			s.logger.InfoContext(ctx, message, "document", change.Path(), "database", change.Database,
				"route", text, "reason", o.Reason, "why", o.Why)
		}
	}
}
