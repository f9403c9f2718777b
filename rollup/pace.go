package rollup

import "time"

// A pace says when a counter may be rolled up, by the generic cell rate algorithm (GCRA). Each
// roll-up uses up one cadence. paced_until in the roll-up document is the time that those written
// so far have used up; a roll-up may be written while that is no more than burst-1 cadences ahead.
// If all use one pace, that is always so a cadence after the last roll-up. So where instances of
// another pace have used up more, one roll-up a cadence is left. All times are Firestore's, so
// other clocks do no harm.
type pace struct {
	cadence time.Duration
	burst   int
}

// livePace returns the pace of what events roll up.
func (r *roller) livePace() pace { return pace{r.options.Cadence, max(r.options.Burst, 1)} }

// paceOf returns the pace of what audits and the schedule roll up.
func (r *roller) paceOf(t *Template) pace {
	if t.Scheduled() {
		return pace{t.Every, 1}
	}
	return r.livePace()
}

// furthestAhead is how far paced_until is taken at its word, for instances of other paces.
const furthestAhead = time.Minute

// usedUntil returns the time that the roll-ups written so far have used up. A paced_until that is
// missing, or later than a pace makes it, counts as one roll-up. No roll-up is full credit; in a
// document of the app's own it is one roll-up and no more, because an app that sets the document
// anew takes tally away each time.
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

// due returns how long after the look's answer the counter may be rolled up; not positive: now.
func (p pace) due(l *look) time.Duration {
	if l.asOf.IsZero() {
		return 0
	}
	return p.wait(p.usedUntil(l), l.asOf, l.readTime)
}

// dueNext returns how long after the look's answer the next roll-up may follow the one that is
// written.
func (p pace) dueNext(l *look) time.Duration { return p.wait(p.next(l), l.readTime, l.readTime) }

func (p pace) wait(used, asOf, now time.Time) time.Duration {
	return min(used.Sub(now)-time.Duration(p.burst-1)*p.cadence, asOf.Sub(now)+p.cadence)
}

// next returns paced_until of the roll-up that the look is about to write.
func (p pace) next(l *look) time.Time {
	used := p.usedUntil(l)
	if used.Before(l.readTime) {
		used = l.readTime
	}
	return used.Add(p.cadence)
}
