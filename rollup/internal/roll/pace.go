package roll

import (
	"cmp"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup/route"
)

// A Pace says when a counter may be rolled up, by the generic cell rate algorithm (GCRA). Each
// roll-up uses up one cadence of time. The roll-up document says in paced_until up to when time is
// used up. The next roll-up may be written if that is at most burst-1 cadences ahead of the
// snapshot.
//
// A cadence after the last roll-up, another one may always be written. If all instances have the
// same pace, that follows from the above. If some have another pace, they may have used up more
// time; wait allows the roll-up all the same.
//
// All times are Firestore's, so wrong local clocks do no harm.
type Pace struct {
	Cadence time.Duration
	burst   int
}

// RouteCadence returns the cadence that the template's routes say.
func (r *Roller) RouteCadence(t *route.Template) time.Duration {
	return cmp.Or(t.Cadence, r.Options.Cadence)
}

// longestBilled bounds the cadence that follows from what sums bill. Somebody who may write the
// document could make any number of num_shards.
const longestBilled = time.Hour

// billedCadence returns how long the reads of one sum take at Options.ReadsPerSecond.
func (r *Roller) billedCadence(l *Look) time.Duration {
	if r.Options.ReadsPerSecond <= 0 || l.AsOf.IsZero() {
		return 0
	}
	seconds := l.Counter.Template.Reads(l.RollUp.Tally.NumShards) / float64(r.Options.ReadsPerSecond)
	return time.Duration(min(seconds, longestBilled.Seconds()) * float64(time.Second)).Truncate(time.Microsecond)
}

// Cadence returns the counter's own cadence: what its routes say, or longer if its sums would bill
// too much.
func (r *Roller) Cadence(l *Look) time.Duration {
	return max(r.RouteCadence(l.Counter.Template), r.billedCadence(l))
}

// Step returns the unit of the pauses and back-offs by which instances keep out of each other's
// way. It is the cadence of the routes, or the longest that can be held if that is shorter. So a
// slow cadence makes no one wait longer for a call that failed.
func (r *Roller) Step(t *route.Template) time.Duration {
	own, longest := r.RouteCadence(t), LongestCadence(r.Options.Hold)
	if longest <= 0 {
		return own
	}
	return min(own, longest)
}

// LivePace returns the pace of what events roll up. A counter whose sums bill too much for the
// cadence of its routes has no burst.
func (r *Roller) LivePace(l *Look) Pace {
	p := Pace{r.Cadence(l), max(r.Options.Burst, 1)}
	if p.Cadence > r.RouteCadence(l.Counter.Template) {
		p.burst = 1
	}
	return p
}

// HeldPace returns the pace of what events roll up that are held until their counter is due.
func (r *Roller) HeldPace(l *Look) Pace {
	return Pace{r.Step(l.Counter.Template), max(r.Options.Burst, 1)}
}

// SchedulePace returns the pace of what audits and the schedule roll up.
func (r *Roller) SchedulePace(l *Look) Pace {
	every := l.Counter.Template.Every
	if every > 0 {
		return Pace{every, 1}
	}
	return r.LivePace(l)
}

// A paced_until is believed if it is no further ahead than furthestAhead. Instances with another
// pace may have written it.
const furthestAhead = time.Minute

// usedUntil returns up to when the roll-ups written so far have used up time. If paced_until is
// missing, or later than any pace makes it, only the last roll-up counts.
//
// A counter without a roll-up has full credit. If its document is the app's own, it has credit for
// one roll-up only: an app that overwrites the document takes tally away each time.
func (p Pace) usedUntil(l *Look) time.Time {
	switch {
	case l.AsOf.IsZero() && l.Counter.Template.Existing:
		return l.ReadTime.Add(time.Duration(p.burst-1) * p.Cadence)
	case l.AsOf.IsZero():
		return time.Time{}
	}
	used := l.RollUp.Tally.PacedUntil
	if used.IsZero() || used.After(l.ReadTime.Add(max(furthestAhead, time.Duration(p.burst)*p.Cadence))) {
		return l.AsOf.Add(p.Cadence)
	}
	return used
}

// Due returns how long after the look's answer the counter may be rolled up. If that is not
// positive, it may be rolled up now.
func (p Pace) Due(l *Look) time.Duration {
	if l.AsOf.IsZero() {
		return 0
	}
	return p.wait(p.usedUntil(l), l.AsOf, l.ReadTime)
}

// DueNext returns how long after the look's answer the next roll-up may be written, if the look's
// is written now.
func (p Pace) DueNext(l *Look) time.Duration { return p.wait(p.next(l), l.ReadTime, l.ReadTime) }

// wait returns how long after now a roll-up may be written. Time is used up until used, and the
// last roll-up has the as_of asOf.
func (p Pace) wait(used, asOf, now time.Time) time.Duration {
	return min(used.Sub(now)-time.Duration(p.burst-1)*p.Cadence, asOf.Sub(now)+p.Cadence)
}

// next returns the paced_until of the roll-up that is about to be written after the look.
func (p Pace) next(l *Look) time.Time {
	used := p.usedUntil(l)
	if used.Before(l.ReadTime) {
		used = l.ReadTime
	}
	return used.Add(p.Cadence)
}

// Due returns when a counter of the template may next be rolled up for a change, as its roll-up's
// Tally says. If that time has passed, the next change is rolled up at once. Due returns zero
// without a roll-up, or if events of the counter are held until it is due, and not deferred: then a
// change shows within seconds.
func (o Options) Due(t *route.Template, tally document.Tally) time.Time {
	if t.Scheduled() || tally.AsOf.IsZero() {
		return time.Time{}
	}

	r := New(nil, o)
	l := Look{Counter: route.Counter{Template: t}, RollUp: RollUp{Tally: tally}, AsOf: tally.AsOf, ReadTime: tally.AsOf}
	if r.Cadence(&l) <= LongestCadence(o.Hold) {
		return time.Time{}
	}
	return tally.AsOf.Add(r.LivePace(&l).Due(&l))
}

// LongestCadence returns the longest cadence that is possible with a hold limit. An event may have
// to wait for two wake-ups of up to 1.35 cadences each, and the store needs time of its own. The
// result is zero or negative if the hold limit is too short for any cadence.
func LongestCadence(holdLimit time.Duration) time.Duration {
	return (holdLimit - 5*time.Second) / 3
}
