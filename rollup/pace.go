package rollup

import (
	"cmp"
	"time"

	"github.com/firestore-tally/tally/internal/document"
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

// routeCadence returns the cadence that the template's routes say.
func (r *roller) routeCadence(t *route.Template) time.Duration {
	return cmp.Or(t.Cadence, r.options.Cadence)
}

// longestBilled bounds the cadence that follows from what sums bill. Somebody who may write the
// document could make any number of num_shards.
const longestBilled = time.Hour

// billedCadence returns how long the reads of one sum take at Options.ReadsPerSecond.
func (r *roller) billedCadence(l *look) time.Duration {
	if r.options.ReadsPerSecond <= 0 || l.asOf.IsZero() {
		return 0
	}
	seconds := l.counter.Template.Reads(l.rollUp.Tally.NumShards) / float64(r.options.ReadsPerSecond)
	return time.Duration(min(seconds, longestBilled.Seconds()) * float64(time.Second)).Truncate(time.Microsecond)
}

// cadence returns the counter's own cadence: what its routes say, or longer if its sums would bill
// too much.
func (r *roller) cadence(l *look) time.Duration {
	return max(r.routeCadence(l.counter.Template), r.billedCadence(l))
}

// step returns the unit of the pauses and back-offs by which instances keep out of each other's
// way. It is the cadence of the routes, or the longest that can be held if that is shorter. So a
// slow cadence makes no one wait longer for a call that failed.
func (r *roller) step(t *route.Template) time.Duration {
	own, longest := r.routeCadence(t), LongestCadence(r.options.Hold)
	if longest <= 0 {
		return own
	}
	return min(own, longest)
}

// livePace returns the pace of what events roll up. A counter whose sums bill too much for the
// cadence of its routes has no burst.
func (r *roller) livePace(l *look) pace {
	p := pace{r.cadence(l), max(r.options.Burst, 1)}
	if p.cadence > r.routeCadence(l.counter.Template) {
		p.burst = 1
	}
	return p
}

// heldPace returns the pace of what events roll up that are held until their counter is due.
func (r *roller) heldPace(l *look) pace {
	return pace{r.step(l.counter.Template), max(r.options.Burst, 1)}
}

// paceOf returns the pace of what audits and the schedule roll up.
func (r *roller) paceOf(l *look) pace {
	every := l.counter.Template.Every
	if every > 0 {
		return pace{every, 1}
	}
	return r.livePace(l)
}

// A paced_until is believed if it is no further ahead than furthestAhead. Instances with another
// pace may have written it.
const furthestAhead = time.Minute

// usedUntil returns up to when the roll-ups written so far have used up time. If paced_until is
// missing, or later than any pace makes it, only the last roll-up counts.
//
// A counter without a roll-up has full credit. If its document is the app's own, it has credit for
// one roll-up only: an app that overwrites the document takes tally away each time.
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

// LongestCadence returns the longest cadence that is possible with a hold limit. An event may have
// to wait for two wake-ups of up to 1.35 cadences each, and the store needs time of its own. The
// result is zero or negative if the hold limit is too short for any cadence.
func LongestCadence(holdLimit time.Duration) time.Duration {
	return (holdLimit - 5*time.Second) / 3
}
