package rollup_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/firestore-tally/tally/rollup"
)

// The sums themselves are tested by storetest, on every store.
func TestSum(t *testing.T) {
	var s rollup.Sum
	if got := s.Total(); got != rollup.Int(0) {
		t.Errorf("the sum of nothing is %v, want 0", got)
	}
	for _, n := range []rollup.Number{rollup.Int(math.MaxInt64), rollup.Int(math.MaxInt64), rollup.Int(-math.MaxInt64)} {
		s.Add(n)
	}
	if got := s.Total(); got != rollup.Int(math.MaxInt64) {
		t.Errorf("got %v, want the largest integer: only the total must fit", got)
	}
	for _, f := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if s.Add(rollup.Double(f)) {
			t.Errorf("%v was added", f)
		}
	}
	if got := s.Total(); got != rollup.Int(math.MaxInt64) {
		t.Errorf("got %v: a refused number changed the sum", got)
	}
	s.Add(rollup.Double(0.5))
	if got := s.Total(); got != rollup.Double(math.MaxInt64+0.5) {
		t.Errorf("got %v, want a double", got)
	}
}

func TestNumberString(t *testing.T) {
	for want, n := range map[string]rollup.Number{
		"0": {}, "-9223372036854775808": rollup.Int(math.MinInt64), "0.5": rollup.Double(0.5), "3": rollup.Double(3), "NaN": rollup.Double(math.NaN()),
	} {
		if got := n.String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestExtremeSums(t *testing.T) {
	const most = math.MaxFloat64
	for _, test := range []struct {
		add  []rollup.Number
		want float64
	}{
		{[]rollup.Number{rollup.Double(-most), rollup.Double(-most)}, -most},
		{[]rollup.Number{rollup.Double(most), rollup.Double(most), rollup.Double(-most)}, most},
		{[]rollup.Number{rollup.Double(-most), rollup.Double(-most), rollup.Double(most), rollup.Int(1)}, -most},
		{[]rollup.Number{rollup.Double(most), rollup.Int(math.MaxInt64)}, most},
	} {
		var s rollup.Sum
		for _, n := range test.add {
			s.Add(n)
		}
		if got := s.Total(); got != rollup.Double(test.want) {
			t.Errorf("%v: got %v", test.add, got)
		}
	}
}

// A sum of doubles is rounded once, so it does not depend on their order.
func TestSumOfDoubles(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		numbers := make([]float64, 20)
		exact := new(big.Rat)
		for i := range numbers {
			numbers[i] = math.Ldexp(random.Float64()-0.5, random.IntN(2000)-1000)
			exact.Add(exact, new(big.Rat).SetFloat64(numbers[i]))
		}
		want, _ := exact.Float64()
		for range 2 {
			var s rollup.Sum
			for _, f := range numbers {
				s.Add(rollup.Double(f))
			}
			if got := s.Total(); got != rollup.Double(want) {
				t.Fatalf("got %v, want %v", got, want)
			}
			slices.Reverse(numbers)
		}
	}
}
