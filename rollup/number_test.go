package rollup_test

import (
	"math"
	"math/rand/v2"
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

// A sum that does not leave the range of doubles is what adding doubles makes it, and one that leaves
// it on the way does not depend on the order.
func TestSumOfDoubles(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		var want float64
		var plain, there, back rollup.Sum
		for range 20 {
			f := (random.Float64() - 0.5) * math.Pow(2, float64(random.IntN(200)-100))
			want += f
			plain.Add(rollup.Double(f))
		}
		if got := plain.Total(); got != rollup.Double(want) {
			t.Fatalf("got %v, want %v", got, want)
		}
		large := make([]float64, 20) // multiples of 2^1000 that few bits hold, so nothing is rounded
		for i := range large {
			large[i] = math.Ldexp(float64(random.IntN(1<<24)-1<<23), 1000)
		}
		for i := range large {
			there.Add(rollup.Double(large[i]))
			back.Add(rollup.Double(large[len(large)-1-i]))
		}
		if there.Total() != back.Total() {
			t.Fatalf("%v forwards, %v backwards: %v", there.Total(), back.Total(), large)
		}
	}
}
