package roll

import "time"

// A route that says "within" has Tally create the roll-ups of days and months, each while the
// counter's owner exists, such as the shop whose orders a day counts: docs/design/rules.md#within.

// OwnerlessSince returns since when the roll-up that is about to be written has no owner, as far as
// looks have seen; zero: it has one, or needs none. An owner that came back and went between two
// roll-ups counts as missing all the time.
func (l *Look) OwnerlessSince() time.Time {
	if !l.Ownerless {
		return time.Time{}
	}
	since := l.RollUp.Tally.OwnerlessSince
	if since.IsZero() || since.After(l.ReadTime) {
		return l.ReadTime
	}
	return since
}
