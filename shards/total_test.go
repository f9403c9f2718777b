package shards

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/internal/value"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestTotal(t *testing.T) {
	tests := []struct {
		value   any
		integer int64
		ok      bool
		double  float64
		text    string
	}{
		{int64(0), 0, true, 0, "0"},
		{int64(-42), -42, true, -42, "-42"},
		{int64(1<<53 + 1), 1<<53 + 1, true, 1 << 53, "9007199254740993"},
		{int64(math.MaxInt64), math.MaxInt64, true, 1 << 63, "9223372036854775807"},
		{int64(math.MinInt64), math.MinInt64, true, -1 << 63, "-9223372036854775808"},
		{0.0, 0, false, 0, "0"},
		{2.0, 0, false, 2, "2"},
		{0.1, 0, false, 0.1, "0.1"},
		{1.5e300, 0, false, 1.5e300, "1.5e+300"},
		{math.Inf(-1), 0, false, math.Inf(-1), "-Inf"},
		{time.Date(2026, 5, 1, 9, 30, 0, 123456000, time.UTC), 0, false, 0, "2026-05-01T09:30:00.123456Z"},
		{nil, 0, false, 0, "null"},
	}
	for _, tt := range tests {
		total, ok := value.Of(tt.value)
		if !ok {
			t.Errorf("%v is not a total", tt.value)
		}
		if n, ok := total.Int64(); n != tt.integer || ok != tt.ok {
			t.Errorf("(%v).Int64() = %d, %v; want %d, %v", tt.value, n, ok, tt.integer, tt.ok)
		}
		if f := total.Float64(); f != tt.double {
			t.Errorf("(%v).Float64() = %v, want %v", tt.value, f, tt.double)
		}
		if s := total.String(); s != tt.text {
			t.Errorf("(%v).String() = %q, want %q", tt.value, s, tt.text)
		}
	}
	if total, ok := value.Number(int64(0)); !ok || total != (Total{}) {
		t.Errorf("the zero Total is not the integer 0")
	}
}

func TestGet(t *testing.T) {
	tests := []struct {
		name   string
		counts []any // one shard each; nil: a shard without the field
		want   any
	}{
		{"no shards", nil, int64(0)},
		{"integers", []any{1, 2, -4}, int64(-1)},
		{"integers beyond 2^53", []any{1 << 53, 1, 1 << 53}, int64(1<<54 + 1)},
		{"up to the largest integer", []any{math.MaxInt64 - 1, 1}, int64(math.MaxInt64)},
		{"beyond the largest integer", []any{math.MaxInt64, math.MaxInt64}, float64(1 << 64)},
		{"a double among integers", []any{1, 0.5, 2}, 3.5},
		{"shards that do not count", []any{nil, "7", true, 3}, int64(3)},
		{"only shards that do not count", []any{nil, "7"}, int64(0)},
		{"an infinite shard", []any{1, math.Inf(1)}, math.Inf(1)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := New(emulatortest.Client(t), "counters/c")
			setShards(t, c, tt.counts)
			wantTotal(t, c, tt.want)
		})
	}
}

func setShards(t *testing.T, c *Counter, counts []any) {
	t.Helper()
	for i, count := range counts {
		data := map[string]any{"other": 100}
		if count != nil {
			data["count"] = count
		}
		if _, err := c.shard(int64(i)).Set(t.Context(), data); err != nil {
			t.Fatal(err)
		}
	}
}

// TestGetNaN: one malformed shard is enough.
func TestGetNaN(t *testing.T) {
	c := New(emulatortest.Client(t), "counters/c")
	setShards(t, c, []any{1, math.NaN()})
	total, err := c.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := total.Int64(); ok || !math.IsNaN(total.Float64()) {
		t.Errorf("Get = %v, want NaN", total)
	}
}

func TestGetCosts(t *testing.T) {
	w, client := newWire(t)
	c := New(client, "counters/c")
	if err := c.Create(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	reads := w.sent("BatchGetDocuments")
	wantTotal(t, c, int64(0))
	if w.sent("RunAggregationQuery") != 1 || w.sent("RunQuery") != 0 || w.sent("BatchGetDocuments") != reads {
		t.Errorf("requests: %v, want one aggregation and no read for Get", w.calls)
	}
}

func TestGetFails(t *testing.T) {
	w, client := newWire(t)
	w.before = func(method string, _ int) error { return status.Error(codes.FailedPrecondition, "no index") }
	_, err := New(client, "counters/c").Get(t.Context())
	if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "counters/c/shards") {
		t.Errorf("error %v, want FailedPrecondition for counters/c/shards", err)
	}
}
