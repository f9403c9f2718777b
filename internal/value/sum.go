package value

import (
	"math"
	"math/big"
)

// A Sum adds numbers as Firestore's SUM aggregation does. The total is an integer, or a double if
// it does not fit 64 bits or if any number was a double. Unlike SUM, it refuses NaN and infinite
// numbers, and a total beyond the largest double becomes the largest double, because a roll-up must
// not hold NaN or infinity. The zero Sum is the integer 0.
type Sum struct {
	total     big.Float // exact
	anyDouble bool
}

// exactBits is a precision, in bits, with which every sum of doubles and integers is exact. Doubles
// span 2,098 bits. The other bits are for the carries of many numbers.
const exactBits = 2200

// Add adds v and reports true, or reports false and adds nothing when v is not a finite number.
func (s *Sum) Add(v Value) bool {
	if !v.Finite() {
		return false
	}

	next := big.NewFloat(v.double)
	if v.kind == integer {
		next = new(big.Float).SetInt64(v.integer)
	}
	s.anyDouble = s.anyDouble || v.kind == double
	s.total.SetPrec(exactBits).Add(&s.total, next)
	return true
}

// Total returns the sum so far.
func (s *Sum) Total() Value {
	i, accuracy := s.total.Int64()
	if !s.anyDouble && accuracy == big.Exact {
		return Int(i)
	}

	total, _ := s.total.Float64()
	return Double(max(-math.MaxFloat64, min(math.MaxFloat64, total)))
}

// Plus returns the sum of two numbers. It is an integer if both are integers and the sum fits 64
// bits. Otherwise it is a double, which may be infinite.
func Plus(a, b Value) Value {
	if a.kind == integer && b.kind == integer {
		sum := a.integer + b.integer
		if (sum > a.integer) == (b.integer > 0) {
			return Int(sum)
		}
	}
	return Double(a.Float64() + b.Float64())
}

// Negative returns the number with the other sign. For the smallest integer it returns a double,
// because no integer is its negative.
func Negative(n Value) Value {
	if i, ok := n.Int64(); ok && i != math.MinInt64 {
		return Int(-i)
	}
	return Double(-n.Float64())
}
