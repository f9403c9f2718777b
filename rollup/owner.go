package rollup

import "time"

// A route that says "within" has Tally create the roll-ups of days and months, each while the
// counter's owner exists, such as the shop whose orders a day counts: docs/design/rules.md#within.

// ownerlessSince returns since when the roll-up that is about to be written has no owner, as far as
// looks have seen; zero: it has one, or needs none. An owner that came back and went between two
// roll-ups counts as missing all the time.
func (l *look) ownerlessSince() time.Time {
	if !l.ownerless {
		return time.Time{}
	}
	since := l.rollUp.Tally.OwnerlessSince
	if since.IsZero() || since.After(l.readTime) {
		return l.readTime
	}
	return since
}
