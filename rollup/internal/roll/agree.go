package roll

import (
	"context"
	"math"
	"slices"

	"github.com/firestore-tally/tally/internal/value"
)

// Agrees reports whether the roll-up says what the shards add up to, by the same routes. A document
// that Tally never wrote agrees if there are no shards, and if it holds no total that somebody else
// made up. It is the app's then. Totals whose fields hold the app's own values are left out.
func (l *Look) Agrees() bool {
	if l.Totals.Empty() && l.RollUp.Tally.AsOf.IsZero() {
		return len(l.RollUp.Unwritten()) == 0
	}
	if l.AsOf.IsZero() || l.Rerouted() || l.RollUp.Tally.NumShards != l.Totals.NumShards() {
		return false
	}
	covers := len(l.RollUp.Tally.Totals) == 0 || len(l.Uncovered()) == 0
	return covers && len(l.Differing()) == 0
}

// Differing returns the names of the totals that the roll-up lacks, or that have another value
// there.
func (l *Look) Differing() []string {
	var names []string
	for name, total := range l.Totals.Values {
		if l.RollUp.isForeign(name) {
			continue
		}
		seen, ok := l.RollUp.Values[name]
		if !ok || !sameTotal(seen, total, l.magnitudes[name]) {
			names = append(names, name)
		}
	}
	return names
}

// sumTolerance is how far apart two totals that are doubles may be to count as the same, relative
// to their magnitude. If 1,000 doubles are added in another order, the sum may differ by about
// 1,000 rounding steps of 1e-16 each.
const sumTolerance = 1e-12

// sameTotal reports whether two totals of the same documents agree. Doubles must agree within the
// tolerance, and all else exactly. The magnitude is what the total would be if all numbers were
// positive. If it is 0, it is not known, and the greater of the two totals stands for it. That
// value is too small if numbers cancel out.
func sameTotal(a, b value.Value, magnitude float64) bool {
	if a == b {
		return true
	}
	if !a.IsDouble() || !b.IsDouble() || !a.Finite() || !b.Finite() {
		return false
	}
	magnitude = max(magnitude, math.Abs(a.Float64()), math.Abs(b.Float64()))
	return math.Abs(a.Float64()-b.Float64()) <= sumTolerance*magnitude
}

// Uncovered returns the names of the totals that the roll-up does not speak for, and whose fields
// hold nothing of the app's: a value there was cleared, or a client made up the tally.
func (l *Look) Uncovered() []string {
	return slices.DeleteFunc(l.Counter.Template.Totals(), func(name string) bool {
		return l.RollUp.Tally.Covers(name) || l.RollUp.isForeign(name)
	})
}

// LoadMagnitudes asks for the magnitudes of totals that seem to differ from the roll-up's. Doubles
// that cancel out can leave a sum that is smaller than its rounding errors, so it may differ each
// time it is computed. LoadMagnitudes asks only if nothing but totals of doubles differs.
func (r *Roller) LoadMagnitudes(ctx context.Context, l *Look) (err error) {
	otherwise := l.Rerouted() || l.RollUp.Tally.NumShards != l.Totals.NumShards()
	if otherwise || l.AsOf.IsZero() {
		return nil
	}

	var names []string
	for name, sum := range l.Totals.Values {
		seen := l.RollUp.Values[name]
		if l.RollUp.isForeign(name) || sameTotal(seen, sum, 0) {
			continue
		}
		if !seen.IsDouble() || !sum.IsDouble() {
			return nil
		}
		names = append(names, name)
	}

	l.magnitudes = make(map[string]float64)
	for _, name := range names {
		l.magnitudes[name], err = l.Snapshot.Magnitude(ctx, name)
		if err != nil {
			return err
		}
	}
	return nil
}
