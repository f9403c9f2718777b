package rollup

import (
	"cmp"
	"time"

	"github.com/firestore-tally/tally/rollup/route"
)

// A pace says when a counter may be rolled up, by the generic cell rate algorithm (GCRA). Each
// roll-up uses up one cadence of time. The roll-up document says in paced_until up to when time is
// used up. The next roll-up may be written if that is at most burst-1 cadences ahead of the
// snapshot.
//
// A cadence after the last roll-up, another one may always be written. If all instances have the
// same pace, that follows from the above. If some have another pace, they may have used up more
// time; wait allows the roll-up all the same.
//
// All times are Firestore's, so wrong local clocks do no harm.
type pace struct {
	cadence time.Duration
	burst   int
}

// cadence returns the cadence of the template's counters.
func (r *roller) cadence(t *route.Template) time.Duration {
	return cmp.Or(t.Cadence, r.options.Cadence)
}

// step returns the unit of the pauses and back-offs by which instances keep out of each other's
// way. It is the cadence, or the longest that can be held if that is shorter. So a slow cadence
// makes nobody wait longer for a call that failed.
func (r *roller) step(t *route.Template) time.Duration {
	own, longest := r.cadence(t), LongestCadence(r.options.Hold)
	if longest <= 0 {
		return own
	}
	return min(own, longest)
}

// livePace returns the pace of what events roll up.
func (r *roller) livePace(t *route.Template) pace {
	return pace{r.cadence(t), max(r.options.Burst, 1)}
}

// paceOf returns the pace of what audits and the schedule roll up.
func (r *roller) paceOf(t *route.Template) pace {
	if t.Scheduled() {
		return pace{t.Every, 1}
	}
	return r.livePace(t)
}

// A paced_until is believed if it is no further ahead than furthestAhead. Instances with another
// pace may have written it.
const furthestAhead = time.Minute

// usedUntil returns up to when the roll-ups written so far have used up time. If paced_until is
// missing, or later than any pace makes it, only the last roll-up counts.
//
// A counter without a roll-up has full credit. If its document is the app's own, it has credit for
// one roll-up only: an app that sets the document anew takes tally away each time.
func (p pace) usedUntil(l *look) time.Time {
	switch {
	case l.asOf.IsZero() && l.counter.Template.Existing:
		return l.readTime.Add(time.Duration(p.burst-1) * p.cadence)
	case l.asOf.IsZero():
		return time.Time{}
	}
	used := l.rollUp.Tally.PacedUntil
	if used.IsZero() || used.After(l.readTime.Add(max(furthestAhead, time.Duration(p.burst)*p.cadence))) {
		return l.asOf.Add(p.cadence)
	}
	return used
}

// due returns how long after the look's answer the counter may be rolled up. If that is not
// positive, it may be rolled up now.
func (p pace) due(l *look) time.Duration {
	if l.asOf.IsZero() {
		return 0
	}
	return p.wait(p.usedUntil(l), l.asOf, l.readTime)
}

// dueNext returns how long after the look's answer the next roll-up may be written, if the look's
// is written now.
func (p pace) dueNext(l *look) time.Duration { return p.wait(p.next(l), l.readTime, l.readTime) }

// wait returns how long after now a roll-up may be written. Time is used up until used, and the
// last roll-up has the as_of asOf.
func (p pace) wait(used, asOf, now time.Time) time.Duration {
	return min(used.Sub(now)-time.Duration(p.burst-1)*p.cadence, asOf.Sub(now)+p.cadence)
}

// next returns the paced_until of the roll-up that is about to be written after the look.
func (p pace) next(l *look) time.Time {
	used := p.usedUntil(l)
	if used.Before(l.readTime) {
		used = l.readTime
	}
	return used.Add(p.cadence)
}
