package app

import (
	"context"

	"github.com/firestore-tally/tally/internal/cloud/trigger"
	"github.com/firestore-tally/tally/internal/reason"
	"github.com/firestore-tally/tally/rollup/route"
)

// logOmissions logs why the document that changed belongs to no counter of a route, and why it is
// in none of a route's windows. Otherwise such a document would leave no trace, because no total
// has it. tally doctor looks for these lines. Each reason of a route is logged once in a while: an
// app may write such documents on purpose, and very many.
func (s *service) logOmissions(ctx context.Context, change trigger.Change, source route.Source) {
	if change.Deleted() {
		return
	}

	for _, r := range source.Routes() {
		for _, why := range reason.Omissions(r, reason.Document{Path: change.Path(), Holds: change.Holds}) {
			message, text := string(why.Kind), r.String()
			if s.logged.First(message+": "+why.About, change.Database+": "+text, nil) {
				s.logger.InfoContext(ctx, message, "document", change.Path(), "database", change.Database,
					"route", text, "reason", why.About, "why", why.Why)
			}
		}
	}
}
