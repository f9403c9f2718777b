package rollup

import (
	"math"

	"github.com/firestore-tally/tally/internal/value"
)

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
