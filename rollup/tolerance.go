package rollup

import (
	"math"

	"github.com/firestore-tally/tally/internal/value"
)

// sumTolerance is how far apart two double totals may be to count as the same, relative to their
// magnitude. Adding 1,000 doubles in another order moves the sum by about 1,000 rounding steps of
// 1e-16 each.
const sumTolerance = 1e-12

// sameTotal reports whether a and b, two totals of the same documents, agree: doubles within the
// tolerance, all else exactly. The magnitude is the total of the numbers without their signs, or 0
// if it is not known: then the greater of the two stands for it, which is less where numbers cancel
// out.
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
