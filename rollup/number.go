package rollup

import (
	"math"
	"math/big"
	"strconv"
)

// A Number is a Firestore number: a 64-bit integer or a double. Its zero value is the integer 0.
type Number struct {
	integer  int64
	double   float64
	isDouble bool
}

// Int returns the integer i as a Number.
func Int(i int64) Number { return Number{integer: i} }

// Double returns the double f as a Number.
func Double(f float64) Number { return Number{double: f, isDouble: true} }

// NumberOf returns v as a Number. It reports false when v, a field's value as the Firestore SDK
// decodes it, is neither an int64 nor a float64.
func NumberOf(v any) (Number, bool) {
	switch v := v.(type) {
	case int64:
		return Int(v), true
	case float64:
		return Double(v), true
	}
	return Number{}, false
}

// Value returns n as an int64 or a float64, the types that the Firestore SDK takes.
func (n Number) Value() any {
	if n.isDouble {
		return n.double
	}
	return n.integer
}

// Float returns n as a double, rounded where it is an integer beyond 2^53.
func (n Number) Float() float64 {
	if n.isDouble {
		return n.double
	}
	return float64(n.integer)
}

// Finite reports whether n is neither NaN nor infinite.
func (n Number) Finite() bool {
	return !math.IsNaN(n.double) && !math.IsInf(n.double, 0)
}

// String returns n in decimal.
func (n Number) String() string {
	if n.isDouble {
		return strconv.FormatFloat(n.double, 'g', -1, 64)
	}
	return strconv.FormatInt(n.integer, 10)
}

// MarshalText returns n in decimal: in JSON logs a string, which holds all digits.
func (n Number) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// sumTolerance is how far apart two double totals may be to count as the same, relative to their
// magnitude. Adding 1,000 doubles in another order moves the sum by about 1,000 rounding steps of
// 1e-16 each.
const sumTolerance = 1e-12

// sameTotal reports whether a and b, two sums over the same shards, agree: integers exactly, doubles
// within the tolerance. The magnitude is the sum of the numbers without their signs, or 0 if it is
// not known: then the greater of the two sums stands for it, which is less where numbers cancel out.
func sameTotal(a, b Number, magnitude float64) bool {
	if a == b {
		return true
	}
	if !a.isDouble || !b.isDouble || !a.Finite() || !b.Finite() {
		return false
	}
	magnitude = max(magnitude, math.Abs(a.double), math.Abs(b.double))
	return math.Abs(a.double-b.double) <= sumTolerance*magnitude
}

// A Sum adds numbers as Firestore's SUM aggregation does: to an integer, or to a double when the
// total does not fit 64 bits or when any number was a double. But it refuses NaN and infinite
// numbers, and a total beyond the largest double stays at that, because a roll-up must hold
// neither. The zero value is the integer 0.
type Sum struct {
	total     big.Float // exact
	anyDouble bool
}

// exact is a precision, in bits, in which any sum of doubles and integers is exact: doubles span
// 2,098 bits, and the rest is for how many there are.
const exact = 2200

// Add adds n and reports true, or reports false and adds nothing when n is NaN or infinite.
func (s *Sum) Add(n Number) bool {
	if !n.Finite() {
		return false
	}
	next := big.NewFloat(n.double)
	if !n.isDouble {
		next = new(big.Float).SetInt64(n.integer)
	}
	s.anyDouble = s.anyDouble || n.isDouble
	s.total.SetPrec(exact).Add(&s.total, next)
	return true
}

// Total returns the sum so far.
func (s *Sum) Total() Number {
	if i, accuracy := s.total.Int64(); !s.anyDouble && accuracy == big.Exact {
		return Int(i)
	}
	total, _ := s.total.Float64()
	return Double(max(-math.MaxFloat64, min(math.MaxFloat64, total)))
}
