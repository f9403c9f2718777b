package rollup

import (
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup/route"
)

// Due returns when a counter of the template may next be rolled up for a change, as its roll-up's
// Tally says. If that time has passed, the next change is rolled up at once. Due returns zero
// without a roll-up, or if events of the counter are held until it is due, and not deferred: then a
// change shows within seconds.
func (o Options) Due(t *route.Template, tally document.Tally) time.Time {
	if t.Scheduled() || tally.AsOf.IsZero() {
		return time.Time{}
	}

	r := newRoller(nil, o)
	l := look{counter: route.Counter{Template: t}, rollUp: RollUp{Tally: tally}, asOf: tally.AsOf, readTime: tally.AsOf}
	if r.cadence(&l) <= LongestCadence(o.Hold) {
		return time.Time{}
	}
	return tally.AsOf.Add(r.livePace(&l).due(&l))
}
