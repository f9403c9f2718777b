package route

import (
	"math"
	"testing"
	"time"
)

// A condition sees values of its own kind only, and NaN meets none.
func TestHolds(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)
	for _, test := range []struct {
		operator Operator
		than     any
		met      []any
		unmet    []any
	}{
		{Equal, int64(2), []any{int64(2), 2.0}, []any{"2", true, nil, 2.5, at, math.NaN(), []any{int64(2)}}},
		{Equal, nil, []any{nil}, []any{int64(0), "", false, math.NaN(), map[string]any{}}},
		{GreaterThan, int64(2), []any{int64(3), 2.5, math.Inf(1)}, []any{int64(2), 2.0, "3", at, true, math.NaN(), nil}},
		{GreaterThanOrEqual, 1.5, []any{1.5, int64(2), math.Inf(1)}, []any{int64(1), math.Inf(-1), math.NaN(), "2"}},
		{LessThan, int64(0), []any{int64(-1), -0.5, math.Inf(-1)}, []any{int64(0), 0.0, math.Copysign(0, -1), math.NaN(), false, nil}},
		{LessThanOrEqual, int64(1<<53 + 1), []any{int64(1<<53 + 1), float64(1 << 53)}, []any{float64(1<<53 + 2), math.NaN()}},
		{GreaterThan, "a", []any{"a\x00", "b", "é", "\U0001f600"}, []any{"a", "", "A", int64(9)}},
		{LessThan, "\uffff", []any{"", "z", "é"}, []any{"\U0001f600", "\uffff"}},
		{GreaterThanOrEqual, false, []any{false, true}, []any{int64(1), nil, "true"}},
		{LessThan, true, []any{false}, []any{true, int64(0)}},
		{GreaterThan, at, []any{at.Add(time.Microsecond)}, []any{at, at.Add(-1), at.Unix(), "z"}},
		{LessThanOrEqual, at, []any{at, time.Time{}}, []any{at.Add(time.Microsecond), int64(0)}},
		{In, []any{true, int64(2), at, "x"}, []any{true, 2.0, at, "x"}, []any{false, int64(3), nil, "y", []any{"x"}}},
	} {
		c := Condition{"v", test.operator, test.than}
		for _, v := range test.met {
			if !c.Holds(map[string]any{"v": v}) {
				t.Errorf("%v does not meet %v", v, c)
			}
		}
		for _, v := range test.unmet {
			if c.Holds(map[string]any{"v": v}) {
				t.Errorf("%v meets %v", v, c)
			}
		}
		if c.Holds(map[string]any{"w": int64(2)}) {
			t.Errorf("a document without the field meets %v", c)
		}
	}
}
