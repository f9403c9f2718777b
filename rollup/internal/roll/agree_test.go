package roll

import (
	"math"
	"testing"

	"github.com/firestore-tally/tally/internal/value"
)

func TestSameTotal(t *testing.T) {
	for _, test := range []struct {
		a, b value.Value
		want bool
	}{
		{value.Int(3), value.Int(3), true},
		{value.Int(3), value.Int(4), false},
		{value.Int(1 << 53), value.Int(1<<53 + 1), false}, // as doubles they are the same
		{value.Double(0.5), value.Double(0.5), true},
		{value.Double(1e6), value.Double(math.Nextafter(1e6, 2e6)), true},
		{value.Double(1e6), value.Double(1e6 + 1e-4), false},
		{value.Double(-1e6), value.Double(math.Nextafter(-1e6, 0)), true},
		{value.Double(1), value.Double(-1), false},
		{value.Double(0), value.Double(1e-300), false},
		{value.Int(0), value.Double(0), false}, // clients tell integers from doubles
		{value.Int(3), value.Double(3), false},
		{value.Int(1e15), value.Double(1e15 + 1), false},
		{value.Double(math.NaN()), value.Double(math.NaN()), false},
		{value.Double(math.Inf(1)), value.Double(math.MaxFloat64), false},
		{value.Double(math.MaxFloat64), value.Double(-math.MaxFloat64), false},
	} {
		if got := sameTotal(test.a, test.b, 0); got != test.want {
			t.Errorf("sameTotal(%v, %v) = %v", test.a, test.b, got)
		}
		if got := sameTotal(test.b, test.a, 0); got != test.want {
			t.Errorf("sameTotal(%v, %v) = %v", test.b, test.a, got)
		}
	}
}

// Numbers that cancel out leave rounding errors that are large relative to their sum.
func TestSameTotalOfMagnitude(t *testing.T) {
	for _, test := range []struct {
		a, b value.Value
		want bool
	}{
		{value.Double(0.5), value.Double(2.5), true},
		{value.Double(0), value.Double(1e4), true},
		{value.Double(0), value.Double(3e4), false},
		{value.Int(0), value.Int(1), false},
		{value.Int(0), value.Double(0), false},
	} {
		if got := sameTotal(test.a, test.b, 2e16); got != test.want {
			t.Errorf("sameTotal(%v, %v, 2e16) = %v", test.a, test.b, got)
		}
	}
}
