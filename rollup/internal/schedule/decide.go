package schedule

import (
	"slices"
	"time"

	"github.com/firestore-tally/tally/rollup/internal/roll"
)

// An action is what an audit or a tick does with a counter after a look.
type action int

const (
	actionLeave  action = iota // nothing: it agrees, or others have brought it up to date
	actionSkip                 // nothing, and it is not counted: the app's own document is gone
	actionRemove               // remove the roll-up, which has been at zeros without shards for over an hour
	actionWait                 // it differs: look again after the grace
	actionRepair               // it differs: write the roll-up
	actionTell                 // it differs: report that, and change nothing
)

// A difference says why a roll-up did not agree with its shards.
type difference int

const (
	differenceRecent    difference = iota // a change whose event may be on its way
	differenceMissing                     // there was no roll-up
	differenceOrphaned                    // it was not zeros, and there were no shards
	differenceRerouted                    // it was made by other routes
	differenceOutdated                    // its totals are right, and it also holds totals of earlier routes, or its labels are not
	differenceUntold                      // an event came that did not tell which counter its document had left
	differenceLapsed                      // changes came while the counter was unkept
	differenceLate                        // documents had left a window, and no alarm had it rolled up
	differenceUnmarked                    // its totals are right, and it does not say whether its owner is missing
	differenceSooner                      // its totals are right, and a document leaves a window before its alarm rings
	differenceUnwritten                   // no roll-up wrote the totals that differ
	differenceDrift                       // no event of a change came in time
)

// A comparison holds what an audit knows of a counter in addition to its look, and what it may do
// with the counter.
type comparison struct {
	o      *AuditOptions
	grace  bool // a difference is left to the event that may be on its way
	remake bool // alarms that stood may be gone: see AuditOptions.Purged

	// These are the read time and the as_of of the first look. A roll-up whose as_of is from or
	// later covers all that the audit must see to.
	from time.Time
	asOf time.Time

	graceOver bool // it differed, and the grace is over
	untold    bool // it may differ by a change that no event announced for this counter
	unkept    bool // it may differ by changes that came while the counter was unkept
	deferred  bool // it may differ by changes for which an alarm stands
	leaving   leaving

	paced      bool // it is left, because its pace allows a roll-up only later
	contention roll.Contention
}

// needsSum reports whether the shards must be summed, because the look alone does not show that the
// roll-up covers all that the audit must see to. On the first look they must.
func (c *comparison) needsSum(l *roll.Look) bool {
	return c.from.IsZero() || l.CoveredUntil().Before(c.from)
}

// remember notes the first look of the comparison. Later looks change nothing.
func (c *comparison) remember(l *roll.Look) {
	if c.from.IsZero() {
		c.from, c.asOf = l.ReadTime, l.AsOf
	}
}

// decide decides what to do once the shards are summed.
func (c *comparison) decide(l *roll.Look) action {
	repair := actionRepair
	if c.o.DryRun {
		repair = actionTell
	}

	switch {
	case l.Mislabeled() && (l.Agrees() || ownerIsGone(l)): // also before it is removed, or the label would stay
		return repair
	case (l.Agrees() && removable(l) || ownerIsGone(l)) && !c.o.DryRun:
		return actionRemove
	case c.leaving == leftLate && !(l.Rerouted() && c.o.KeepRerouted):
		return repair
	case c.leaving == leftLately:
		return actionLeave
	case l.Agrees() && c.o.Prune && len(l.RollUp.Tally.Former) > 0:
		return repair
	case l.Agrees() && unmarked(l) && !c.o.DryRun:
		return repair
	case l.Agrees() && c.leaving != leftSooner:
		return actionLeave
	case l.Rerouted() && c.o.KeepRerouted || replaces(l) && c.o.KeepUnwritten:
		return actionTell
	case c.grace && !c.graceOver && !l.AsOf.IsZero() && !l.Rerouted():
		return actionWait
	default:
		return repair
	}
}

// agreesAsFound reports whether the roll-up can be left as the walk read it. It can if it agrees
// with its shards and nothing else remains to do. Another instance may have written it since the
// walk read it, but only after it had summed the shards.
func (c *comparison) agreesAsFound(l *roll.Look) bool {
	return !l.AsOf.After(l.ReadTime) && c.decide(l) == actionLeave
}

// difference says of what kind a difference is. It is called once the grace is over, or if there is
// no grace. A difference is drift only if the roll-up was not written since the first look. If it
// was, it can lack only changes that came after that look.
func (c *comparison) difference(l *roll.Look) difference {
	lasted := c.graceOver && l.AsOf.Equal(c.asOf)

	switch {
	case l.Rerouted():
		return differenceRerouted
	case c.leaving == leftLate:
		return differenceLate
	case c.leaving == leftSooner && l.Agrees():
		return differenceSooner
	case l.Agrees() && unmarked(l):
		return differenceUnmarked
	case l.Agrees():
		return differenceOutdated
	case l.AsOf.IsZero() && len(l.RollUp.Unwritten()) > 0 || !l.AsOf.IsZero() && onlyUncovered(l):
		return differenceUnwritten
	case l.Totals.Empty():
		return differenceOrphaned
	case l.AsOf.IsZero():
		return differenceMissing
	case c.deferred || !lasted:
		return differenceRecent
	case c.leaving == leftSooner:
		return differenceLate
	case c.untold:
		return differenceUntold
	case c.unkept:
		return differenceLapsed
	default:
		return differenceDrift
	}
}

// staleAfter bounds the age of a roll-up whose totals are right, in multiples of its route's
// "every". An older one is written again, for two reasons. A client learns that its own change is
// covered, even if another client's has undone it. And a schedule that has stopped can be told from
// one that finds nothing to do.
const staleAfter = 10

// decideScheduled decides what a tick does with a counter of a route that says "every". The counter
// is summed.
func decideScheduled(l *roll.Look) action {
	switch {
	case !l.Agrees():
		return actionRepair
	case removable(l):
		return actionRemove
	case !l.Totals.Empty() && l.ReadTime.Sub(l.AsOf) >= staleAfter*l.Counter.Template.Every:
		return actionRepair
	default:
		return actionLeave
	}
}

// removeAfter is how long a roll-up must have been at zeros to be removed. By then no write can be
// on its way from the time before the document existed; see maxWriteAge.
const removeAfter = time.Hour

// removable reports whether a roll-up that agrees with its shards has been at zeros without shards
// for so long that it may be removed.
func removable(l *roll.Look) bool {
	keeps := len(l.RollUp.Tally.Before) > 0 // docs/design/rules.md#nothing-is-lost
	return !l.Counter.Template.Existing && !keeps && l.Totals.Empty() && !l.AsOf.IsZero() && l.ReadTime.Sub(l.AsOf) > removeAfter
}

// unmarked reports whether the roll-up lacks the time since when its owner has been missing, or has
// a wrong one.
func unmarked(l *roll.Look) bool { return !l.OwnerlessSince().Equal(l.RollUp.Tally.OwnerlessSince) }

// ownerIsGone reports whether the roll-up's owner has been missing for so long that the roll-up may
// be removed. By then no write can be on its way from the time before the document existed, as for
// removable.
func ownerIsGone(l *roll.Look) bool {
	keeps := len(l.RollUp.Tally.Before) > 0 // docs/design/rules.md#nothing-is-lost
	return l.Ownerless && !keeps && !unmarked(l) && !l.Rerouted() && l.ReadTime.Sub(l.OwnerlessSince()) > removeAfter
}

// onlyUncovered reports whether all that differs are totals that the roll-up does not speak for. No
// event was lost then.
func onlyUncovered(l *roll.Look) bool {
	uncovered := l.Uncovered()
	covered := func(name string) bool { return !slices.Contains(uncovered, name) }
	return len(uncovered) > 0 && l.RollUp.Tally.NumShards == l.Totals.NumShards() && !slices.ContainsFunc(l.Differing(), covered)
}

// replaces reports whether the look's roll-up would replace a value that no roll-up wrote.
func replaces(l *roll.Look) bool {
	for name, v := range l.RollUp.Values {
		if !v.IsNull() && !l.RollUp.Tally.Wrote(name) {
			return true
		}
	}
	return false
}
