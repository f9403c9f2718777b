package value_test

import (
	"cmp"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/value"
)

// The sums themselves are tested by storetest, on every store.
func TestSum(t *testing.T) {
	var s value.Sum
	if got := s.Total(); got != value.Int(0) {
		t.Errorf("the sum of nothing is %v, want 0", got)
	}
	for _, n := range []value.Value{value.Int(math.MaxInt64), value.Int(math.MaxInt64), value.Int(-math.MaxInt64)} {
		s.Add(n)
	}
	if got := s.Total(); got != value.Int(math.MaxInt64) {
		t.Errorf("got %v, want the largest integer: only the total must fit", got)
	}
	for _, f := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if s.Add(value.Double(f)) {
			t.Errorf("%v was added", f)
		}
	}
	if got := s.Total(); got != value.Int(math.MaxInt64) {
		t.Errorf("got %v: a refused number changed the sum", got)
	}
	s.Add(value.Double(0.5))
	if got := s.Total(); got != value.Double(math.MaxInt64+0.5) {
		t.Errorf("got %v, want a double", got)
	}
}

func TestString(t *testing.T) {
	for want, n := range map[string]value.Value{
		"0": {}, "-9223372036854775808": value.Int(math.MinInt64), "0.5": value.Double(0.5), "3": value.Double(3), "NaN": value.Double(math.NaN()),
	} {
		if got := n.String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestExtremeSums(t *testing.T) {
	const most = math.MaxFloat64
	for _, test := range []struct {
		add  []value.Value
		want float64
	}{
		{[]value.Value{value.Double(-most), value.Double(-most)}, -most},
		{[]value.Value{value.Double(most), value.Double(most), value.Double(-most)}, most},
		{[]value.Value{value.Double(-most), value.Double(-most), value.Double(most), value.Int(1)}, -most},
		{[]value.Value{value.Double(most), value.Int(math.MaxInt64)}, most},
	} {
		var s value.Sum
		for _, n := range test.add {
			s.Add(n)
		}
		if got := s.Total(); got != value.Double(test.want) {
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
			var s value.Sum
			for _, f := range numbers {
				s.Add(value.Double(f))
			}
			if got := s.Total(); got != value.Double(want) {
				t.Fatalf("got %v, want %v", got, want)
			}
			slices.Reverse(numbers)
		}
	}
}

func TestCompare(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	ascending := [][]value.Value{
		{value.Double(-math.MaxFloat64), value.Int(math.MinInt64), value.Int(0), value.Double(0.5), value.Int(1 << 53), value.Int(1<<53 + 1),
			value.Double(1<<53 + 2), value.Int(math.MaxInt64), value.Double(math.MaxInt64)},
		{value.Timestamp(time.Time{}), value.Timestamp(at), value.Timestamp(at.Add(time.Microsecond))},
	}
	for _, values := range ascending {
		for i, a := range values {
			for j, b := range values {
				if got := value.Compare(a, b); got != cmp.Compare(i, j) {
					t.Errorf("%v and %v: got %d", a, b, got)
				}
			}
		}
	}
	if value.Compare(value.Int(2), value.Double(2)) != 0 {
		t.Error("2 and 2.0 are not equal")
	}
}

func TestOf(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	for _, v := range []any{int64(7), 0.5, at, nil, time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)} {
		got, ok := value.Of(v)
		if !ok || got.Firestore() != v {
			t.Errorf("%v: got %v, %v", v, got.Firestore(), ok)
		}
	}
	for _, v := range []any{"text", true, 7, []any{}, map[string]any{}} {
		if got, ok := value.Of(v); ok {
			t.Errorf("%v: got %v", v, got)
		}
	}
	if got := value.Timestamp(at).String(); got != "2026-01-02T03:04:05.000006Z" {
		t.Errorf("got %s", got)
	}
}

// Each kind of value answers for itself only.
func TestKinds(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	for _, test := range []struct {
		value   value.Value
		integer bool
		time    bool
		null    bool
		double  bool
		number  bool
	}{
		{value: value.Int(7), integer: true, number: true},
		{value: value.Value{}, integer: true, number: true},
		{value: value.Double(7), double: true, number: true},
		{value: value.Timestamp(at), time: true},
		{value: value.Null, null: true},
	} {
		v := test.value
		_, integer := v.Int64()
		got, isTime := v.Time()
		if integer != test.integer || isTime != test.time || v.IsNull() != test.null || v.IsDouble() != test.double || v.IsNumber() != test.number {
			t.Errorf("%v: an integer %v, a time %v, null %v, a double %v, a number %v", v, integer, isTime, v.IsNull(), v.IsDouble(), v.IsNumber())
		}
		if isTime && got != at || !isTime && !got.IsZero() {
			t.Errorf("%v: the time %v", v, got)
		}
	}
}

func TestPlus(t *testing.T) {
	for _, test := range []struct{ a, b, want value.Value }{
		{value.Int(1), value.Int(-3), value.Int(-2)},
		{value.Int(0), value.Int(0), value.Int(0)},
		{value.Int(math.MaxInt64), value.Int(math.MinInt64), value.Int(-1)},
		{value.Int(math.MaxInt64), value.Int(1), value.Double(1 << 63)},
		{value.Int(math.MinInt64), value.Int(-1), value.Double(-1 << 63)},
		{value.Int(1), value.Double(0.5), value.Double(1.5)},
		{value.Double(math.MaxFloat64), value.Double(math.MaxFloat64), value.Double(math.Inf(1))},
	} {
		if got := value.Plus(test.a, test.b); got != test.want {
			t.Errorf("%v + %v: got %v, want %v", test.a, test.b, got, test.want)
		}
		if got := value.Plus(test.b, test.a); got != test.want {
			t.Errorf("%v + %v: got %v, want %v", test.b, test.a, got, test.want)
		}
	}
}

func TestNegative(t *testing.T) {
	for _, test := range []struct{ n, want value.Value }{
		{value.Int(5), value.Int(-5)},
		{value.Int(0), value.Int(0)},
		{value.Int(math.MaxInt64), value.Int(-math.MaxInt64)},
		{value.Int(math.MinInt64), value.Double(1 << 63)},
		{value.Double(-0.5), value.Double(0.5)},
	} {
		if got := value.Negative(test.n); got != test.want {
			t.Errorf("-(%v): got %v, want %v", test.n, got, test.want)
		}
	}
}

func TestKindOf(t *testing.T) {
	for _, test := range []struct {
		value any
		want  string
	}{
		{nil, "null"}, {"x", "a string"}, {true, "a boolean"}, {int64(1), "a number"}, {0.5, "a number"}, {time.Now(), "a timestamp"},
		{map[string]any{}, "a map"}, {[]any{1}, "an array"}, {[]byte("x"), "bytes"}, {struct{}{}, "of another kind"},
	} {
		if got := value.KindOf(test.value); got != test.want {
			t.Errorf("%v: got %s, want %s", test.value, got, test.want)
		}
	}
}
