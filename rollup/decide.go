package rollup

import "time"

// An action is what an audit or a tick does with a counter after a look.
type action int

const (
	actionLeave  action = iota // it agrees, or others have brought it up to date
	actionSkip                 // nobody need see to it: the app's own document is gone
	actionSum                  // the look does not tell yet
	actionRemove               // it has been at zeros without shards for over an hour
	actionWait                 // it differs; look again after the grace
	actionRepair
	actionTell // it differs and is left so
)

// A difference is why a roll-up was not as its shards said.
type difference int

const (
	differenceRecent   difference = iota // a change whose event was on its way
	differenceMissing                    // there was no roll-up
	differenceOrphaned                   // it was not zeros, and there were no shards
	differenceRerouted                   // it was made by other routes
	differenceOutdated                   // it holds totals of earlier routes beside
	differenceUntold                     // an event came that did not tell which counter its document had left
	differenceDrift                      // no event of a change came in time
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
		return actionSkip
	}

	if c.from.IsZero() {
		c.from, c.asOf = l.readTime, l.asOf
	} else if !l.covers().Before(c.from) {
		return actionLeave
	}
	return actionSum
}

// after decides once the shards are summed.
func (c *comparison) after(l *look) action {
	mend := actionRepair
	if c.dryRun {
		mend = actionTell
	}

	switch {
	case l.agrees() && l.removable() && !c.dryRun:
		return actionRemove
	case l.agrees() && c.prune && len(l.rollUp.Tally.Former) > 0:
		return mend
	case l.agrees():
		return actionLeave
	case l.rerouted() && c.keepRerouted:
		return actionTell
	case c.grace && !c.graceOver && !l.asOf.IsZero() && !l.rerouted():
		return actionWait
	default:
		return mend
	}
}

// right decides whether the roll-up, as the walk found it, can be left as it is: it says what the
// shards add up to, and there is nothing else to do. A roll-up that was written since then was
// written by somebody who had summed the shards.
func (c *comparison) right(l *look) bool {
	return !l.asOf.After(l.readTime) && c.after(l) == actionLeave
}

// difference says what a difference is, after the grace and without one. It is drift only if nobody
// has written the roll-up since the first look: what another wrote meanwhile may lack only a change
// that came after that look.
func (c *comparison) difference(l *look) difference {
	switch {
	case l.rerouted():
		return differenceRerouted
	case l.agrees():
		return differenceOutdated
	case l.totals.Empty():
		return differenceOrphaned
	case l.asOf.IsZero():
		return differenceMissing
	case c.graceOver && l.asOf.Equal(c.asOf) && c.untold:
		return differenceUntold
	case c.graceOver && l.asOf.Equal(c.asOf):
		return differenceDrift
	default:
		return differenceRecent
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
		return actionRepair
	case l.removable():
		return actionRemove
	case !l.totals.Empty() && l.readTime.Sub(l.asOf) >= staleAfter*l.counter.Template.Every:
		return actionRepair
	default:
		return actionLeave
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

// agrees reports whether the roll-up says what the shards add up to, by the same routes. Without
// shards, a document that Tally never wrote is none of its business.
func (l *look) agrees() bool {
	if l.totals.Empty() && l.rollUp.Tally.AsOf.IsZero() {
		return true
	}
	if l.asOf.IsZero() || l.rerouted() || l.rollUp.Tally.NumShards != l.totals.NumShards() {
		return false
	}
	return len(l.differing()) == 0
}

// differing returns the names of the totals that the roll-up lacks, or that the shards do not give.
func (l *look) differing() []string {
	var names []string
	for name, total := range l.totals.Values {
		seen, ok := l.rollUp.Values[name]
		if !ok || !sameTotal(seen, total, l.magnitudes[name]) {
			names = append(names, name)
		}
	}
	return names
}
