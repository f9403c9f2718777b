package rollup

import "time"

// An action is what an audit or a tick does with a counter after a look.
type action int

const (
	leave  action = iota // it agrees, or others have brought it up to date
	skip                 // nobody need see to it: the app's own document is gone
	sum                  // the look does not tell yet
	remove               // it has been at zeros without shards for over an hour
	wait                 // it differs; look again after the grace
	repair
	tell // it differs and is left so
)

// A difference is why a roll-up was not as its shards said.
type difference int

const (
	recent   difference = iota // a change whose event was on its way
	missing                    // there was no roll-up
	orphaned                   // it was not zeros, and there were no shards
	rerouted                   // it was made by other routes
	outdated                   // it holds totals of earlier routes beside
	untold                     // an event came that did not tell which counter its document had left
	drift                      // no event of a change came in time
)

// A comparison is what an audit knows of a counter beside the look.
type comparison struct {
	grace        bool // a difference is left to the event that may be on its way
	dryRun       bool
	keepRerouted bool // roll-ups of other routes are left alone
	prune        bool // former totals are taken away

	// The first look's times: as_of that is from or later covers all that the audit is to see to.
	from time.Time
	asOf time.Time

	graceOver bool // it differed a grace ago
	untold    bool // perhaps by a change that no event told of this counter
}

// before decides what can be decided without a sum.
func (c *comparison) before(l *look) action {
	if l.missing() {
		return skip
	}
	if c.from.IsZero() {
		c.from, c.asOf = l.readTime, l.asOf
	} else if !l.covers().Before(c.from) {
		return leave
	}
	return sum
}

// after decides once the shards are summed.
func (c *comparison) after(l *look) action {
	mend := repair
	if c.dryRun {
		mend = tell
	}
	switch {
	case l.agrees() && l.removable() && !c.dryRun:
		return remove
	case l.agrees() && c.prune && len(l.rollUp.Tally.Former) > 0:
		return mend
	case l.agrees():
		return leave
	case l.rerouted() && c.keepRerouted:
		return tell
	case c.grace && !c.graceOver && !l.asOf.IsZero() && !l.rerouted():
		return wait
	default:
		return mend
	}
}

// right decides whether the roll-up, as the walk found it, can be left as it is: it says what the
// shards add up to, and there is nothing else to do. A roll-up that was written since then was
// written by somebody who had summed the shards.
func (c *comparison) right(l *look) bool {
	return !l.asOf.After(l.readTime) && c.after(l) == leave
}

// difference says what a difference is, after the grace and without one. It is drift only if nobody
// has written the roll-up since the first look: what another wrote meanwhile may lack only a change
// that came after that look.
func (c *comparison) difference(l *look) difference {
	switch {
	case l.rerouted():
		return rerouted
	case l.agrees():
		return outdated
	case l.totals.Empty():
		return orphaned
	case l.asOf.IsZero():
		return missing
	case c.graceOver && l.asOf.Equal(c.asOf) && c.untold:
		return untold
	case c.graceOver && l.asOf.Equal(c.asOf):
		return drift
	default:
		return recent
	}
}

// staleAfter is how many times "every" a roll-up's as_of may be old although its totals are right.
// A client's own change is covered by then, even if another's has undone it; and a schedule that
// has stopped is told from one that finds nothing to do.
const staleAfter = 10

// keep decides what a tick does with a counter of a route that says "every", which it has summed.
func keep(l *look) action {
	switch {
	case !l.agrees():
		return repair
	case l.removable():
		return remove
	case !l.totals.Empty() && l.readTime.Sub(l.asOf) >= staleAfter*l.counter.Template.Every:
		return repair
	default:
		return leave
	}
}

// removeAfter is how long a roll-up has been at zeros when it is removed. No write may be on its
// way then that was meant for the document while it did not exist; see maxWriteAge.
const removeAfter = time.Hour

// removable reports whether a roll-up that agrees with its shards has been at zeros without shards
// for so long that it may be removed.
func (l *look) removable() bool {
	return !l.counter.Template.Existing && l.totals.Empty() && !l.asOf.IsZero() && l.readTime.Sub(l.asOf) > removeAfter
}
