package rollup

import (
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup/route"
)

// Defers reports whether events of the template's counters are deferred until their counter is due.
// If not, they are held until then, and a change shows within seconds.
func (o Options) Defers(t *route.Template) bool {
	r := newRoller(nil, o)
	return !t.Scheduled() && r.cadence(t) > LongestCadence(o.Hold)
}

// Due returns when a counter of the template may next be rolled up for a change, as its roll-up's
// Tally says. If that time has passed, the next change is rolled up at once. Due returns zero
// without a roll-up, or if events are not deferred.
func (o Options) Due(t *route.Template, tally document.Tally) time.Time {
	r := newRoller(nil, o)
	if !o.Defers(t) || tally.AsOf.IsZero() {
		return time.Time{}
	}

	l := look{counter: route.Counter{Template: t}, rollUp: RollUp{Tally: tally}, asOf: tally.AsOf, readTime: tally.AsOf}
	return tally.AsOf.Add(r.livePace(t).due(&l))
}
