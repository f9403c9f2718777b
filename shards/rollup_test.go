package shards

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/internal/value"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestRollUp(t *testing.T) {
	asOf := time.Date(2026, 5, 1, 9, 30, 0, 123456000, time.UTC)
	tests := []struct {
		name    string
		doc     map[string]any
		counter string
		opts    []Option
		at      string
		want    RollUp
	}{
		{"default", map[string]any{"count": 42, "tally": tallyOf(asOf, 3, "count")},
			"counters/visitors", nil, "rollups/visitors", RollUp{Total: value.Int(42), NumShards: 3, AsOf: asOf}},
		{"beyond 2^53", map[string]any{"count": 1<<53 + 1, "tally": tallyOf(asOf, 3, "count")},
			"counters/visitors", nil, "rollups/visitors", RollUp{Total: value.Int(1<<53 + 1), NumShards: 3, AsOf: asOf}},
		{"a double", map[string]any{"count": 0.5, "tally": tallyOf(asOf, 3, "count")},
			"counters/visitors", nil, "rollups/visitors", RollUp{Total: value.Double(0.5), NumShards: 3, AsOf: asOf}},
		{"no counter now", map[string]any{"count": 0, "tally": tallyOf(asOf, 0, "count")},
			"counters/visitors", nil, "rollups/visitors", RollUp{Total: Total{}, NumShards: 0, AsOf: asOf}},
		{"one of several totals", map[string]any{"likes": 1, "views": 2, "tally": tallyOf(asOf, 3, "likes", "views")},
			"counters/visitors", []Option{Field("views")}, "rollups/visitors", RollUp{Total: value.Int(2), NumShards: 3, AsOf: asOf}},
		{"totals of these names", map[string]any{"as_of": 7, "num_shards": "x", "tally": tallyOf(asOf, 3, "as_of")},
			"counters/visitors", []Option{Field("as_of")}, "rollups/visitors", RollUp{Total: value.Int(7), NumShards: 3, AsOf: asOf}},
		{"a document of the app's", map[string]any{"title": "x", "likes": 7, "tally": tallyOf(asOf, 1, "likes")},
			"posts/p/counters/likes", []Option{Field("likes"), RollUpAt("posts/p")}, "posts/p", RollUp{Total: value.Int(7), NumShards: 1, AsOf: asOf}},
		{"a timestamp", map[string]any{"last_comment": asOf.Add(-time.Hour), "tally": tallyOf(asOf, 3, "last_comment")},
			"posts/p", []Option{Field("last_comment"), RollUpAt("posts/p")}, "posts/p", RollUp{Total: value.Timestamp(asOf.Add(-time.Hour)), NumShards: 3, AsOf: asOf}},
		{"the maximum of nothing", map[string]any{"largest": nil, "tally": tallyOf(asOf, 3, "largest")},
			"shops/s", []Option{Field("largest"), RollUpAt("shops/s")}, "shops/s", RollUp{Total: value.Null, NumShards: 3, AsOf: asOf}},
		{"Unicode", map[string]any{"数.": 7, "tally": tallyOf(asOf, 1, "数.")},
			"counters/café ☕", []Option{Field("数.")}, "rollups/café ☕", RollUp{Total: value.Int(7), NumShards: 1, AsOf: asOf}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			client := emulatortest.Client(t)
			set(t, client, map[string]map[string]any{tt.at: tt.doc})
			got, err := New(client, tt.counter, tt.opts...).RollUp(t.Context())
			if got.ReadTime.IsZero() {
				t.Error("no read time")
			}
			got.ReadTime = time.Time{}
			if err != nil || got != tt.want {
				t.Errorf("RollUp = %+v, %v; want %+v", got, err, tt.want)
			}
		})
	}
}

// tallyOf is the map of a roll-up with these totals, as Tally's functions write it.
func tallyOf(asOf time.Time, numShards int64, totals ...string) map[string]any {
	return document.Tally{AsOf: asOf, NumShards: numShards, PacedUntil: asOf, Routes: "5f0c", Totals: totals}.Encode()
}

// with returns fields with another one, or without it if value is nil.
func with(fields map[string]any, name string, value any) map[string]any {
	if fields[name] = value; value == nil {
		delete(fields, name)
	}
	return fields
}

// TestRollUpCoversNothing: nothing is said of a total of which tally.as_of says nothing, whatever
// the document holds.
func TestRollUpCoversNothing(t *testing.T) {
	tally := func() map[string]any { return tallyOf(time.Now(), 3, "count") }
	tests := []struct {
		name  string
		doc   map[string]any
		want  string
		empty bool // ErrNoRollUp
	}{
		{"no tally", map[string]any{"count": 42}, `rollups/c has no field "tally"`, true},
		{"the first edition's", map[string]any{"count": 42, "num_shards": 3, "as_of": time.Now()}, `rollups/c has no field "tally"`, true},
		{"a tally that is text", map[string]any{"count": 42, "tally": "x"}, `rollups/c holds the totals [], not "count"`, false},
		{"other totals", map[string]any{"count": 42, "tally": tallyOf(time.Now(), 3, "likes", "views")}, `rollups/c holds the totals ["likes" "views"], not "count"`, false},
		{"a former total", map[string]any{"count": 42, "tally": with(tallyOf(time.Now(), 3, "likes"), "former", []any{"count"})}, `rollups/c holds the totals ["likes"], not "count"`, false},
		{"no totals", map[string]any{"count": 42, "tally": with(tally(), "totals", nil)}, `rollups/c holds the totals [], not "count"`, false},
		{"no as_of", map[string]any{"count": 42, "tally": with(tally(), "as_of", nil)}, "rollups/c: as_of of its tally is not a timestamp", false},
		{"an as_of that is text", map[string]any{"count": 42, "tally": with(tally(), "as_of", "2026-05-01")}, "rollups/c: as_of of its tally is not a timestamp", false},
		{"no total", map[string]any{"tally": tally()}, `rollups/c has no field "count"`, false},
		{"a total that is text", map[string]any{"count": "42", "tally": tally()}, `rollups/c: field "count" is "42", want a number, a timestamp or null`, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			client := emulatortest.Client(t)
			set(t, client, map[string]map[string]any{"rollups/c": tt.doc})
			got, err := New(client, "counters/c").RollUp(t.Context())
			if err == nil || errors.Is(err, ErrNoRollUp) != tt.empty || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one that says %q; ErrNoRollUp %v", err, tt.want, tt.empty)
			}
			if got != (RollUp{}) {
				t.Errorf("RollUp = %+v with an error", got)
			}
		})
	}
}

// TestRollUpIsNoCounter: the number of documents counted is not the number of shards to write to,
// also where the roll-up document is the counter's own.
func TestRollUpIsNoCounter(t *testing.T) {
	client := emulatortest.Client(t)
	set(t, client, map[string]map[string]any{"counters/c": {"count": 7, "tally": tallyOf(time.Now(), 3, "count")}})
	c := New(client, "counters/c", RollUpAt("counters/c"))
	if n, err := c.spread(t.Context()); n != DefaultNumShards || err != nil {
		t.Errorf("increments spread over %d, %v; want %d", n, err, DefaultNumShards)
	}
	if err := c.Create(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	if r, err := c.RollUp(t.Context()); err != nil || r.NumShards != 3 || read(t, client, "counters/c")["num_shards"] != int64(2) {
		t.Errorf("%+v, %v, counter document %v; want 3 documents counted, and 2 shards", r, err, read(t, client, "counters/c"))
	}
}

func TestRollUpMissing(t *testing.T) {
	w, client := newWire(t)
	if _, err := New(client, "counters/c").RollUp(t.Context()); !errors.Is(err, ErrNoRollUp) || !strings.Contains(err.Error(), "rollups/c") {
		t.Errorf("error %v, want ErrNoRollUp for rollups/c", err)
	}
	if _, err := New(client, "posts/p/counters/likes").RollUp(t.Context()); err == nil || errors.Is(err, ErrNoRollUp) || !strings.Contains(err.Error(), "RollUpAt") {
		t.Errorf("error %v, want one that says to use RollUpAt", err)
	}
	w.before = func(string, int) error { return status.Error(codes.PermissionDenied, "injected") }
	if _, err := New(client, "counters/c").RollUp(t.Context()); status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "rollups/c") {
		t.Errorf("error %v, want PermissionDenied for rollups/c", err)
	}
}

// RollUpAfter passes over versions that are too old or are none. If no other comes, it says why.
func TestFirstAfter(t *testing.T) {
	asOf := time.Date(2026, 5, 1, 9, 30, 0, 123456000, time.UTC)
	old, right := RollUp{AsOf: asOf.Add(-time.Microsecond)}, RollUp{AsOf: asOf}
	type version struct {
		rollUp RollUp
		err    error
	}
	none, ended := version{err: ErrNoRollUp}, version{err: context.Canceled}
	for name, test := range map[string]struct {
		versions []version
		want     error // nil: right
		says     string
	}{
		"at once":           {[]version{{right, nil}}, nil, ""},
		"after an old one":  {[]version{{old, nil}, {right, nil}}, nil, ""},
		"after none":        {[]version{none, {right, nil}}, nil, ""},
		"only an old one":   {[]version{{old, nil}, ended}, context.Canceled, "is as of 2026-05-01 09:30:00.123455"},
		"none":              {[]version{none, ended}, context.Canceled, "no roll-up"},
		"an unknown layout": {[]version{none}, ErrNoRollUp, ""},
	} {
		versions := func(yield func(RollUp, error) bool) {
			for _, v := range test.versions {
				if !yield(v.rollUp, v.err) {
					return
				}
			}
		}
		got, err := firstAfter(versions, asOf)
		switch {
		case !errors.Is(err, test.want):
			t.Errorf("%s: %v, want %v", name, err, test.want)
		case err != nil && !strings.Contains(err.Error(), test.says):
			t.Errorf("%s: %v, want it to say %q", name, err, test.says)
		case err == nil && got != right:
			t.Errorf("%s: %+v, want %+v", name, got, right)
		}
	}
}

func TestRollUpAfter(t *testing.T) {
	t.Parallel()
	client := emulatortest.Client(t)
	c := New(client, "counters/c")
	committed, err := c.Increment(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}

	set(t, client, map[string]map[string]any{"rollups/c": {"count": 1, "tally": tallyOf(committed, 1, "count")}})
	r, err := c.RollUpAfter(t.Context(), committed)
	if err != nil || r.Total != value.Int(1) || !r.AsOf.Equal(committed) {
		t.Errorf("%+v, %v; want 1 as of %v", r, err, committed)
	}
}
