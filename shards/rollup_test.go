package shards

import (
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/firestore-tally/tally/internal/emulator/emulatortest"
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
		{"default", map[string]any{"count": 42, "num_shards": 3, "as_of": asOf},
			"counters/visitors", nil, "rollups/visitors", RollUp{Total: Total{integer: 42}, NumShards: 3, AsOf: asOf}},
		{"beyond 2^53", map[string]any{"count": 1<<53 + 1, "num_shards": 3, "as_of": asOf},
			"counters/visitors", nil, "rollups/visitors", RollUp{Total: Total{integer: 1<<53 + 1}, NumShards: 3, AsOf: asOf}},
		{"a double", map[string]any{"count": 0.5, "num_shards": 3, "as_of": asOf},
			"counters/visitors", nil, "rollups/visitors", RollUp{Total: Total{double: 0.5, isDouble: true}, NumShards: 3, AsOf: asOf}},
		{"no counter now", map[string]any{"count": 0, "num_shards": 0, "as_of": asOf},
			"counters/visitors", nil, "rollups/visitors", RollUp{Total: Total{}, NumShards: 0, AsOf: asOf}},
		{"one of several fields", map[string]any{"likes": 1, "views": 2, "num_shards": 3, "as_of": asOf},
			"counters/visitors", []Option{Field("views")}, "rollups/visitors", RollUp{Total: Total{integer: 2}, NumShards: 3, AsOf: asOf}},
		{"another route", map[string]any{"count": 7, "num_shards": 1, "as_of": asOf},
			"posts/p/counters/likes", []Option{RollUpAt("posts/p/rollups/likes")}, "posts/p/rollups/likes", RollUp{Total: Total{integer: 7}, NumShards: 1, AsOf: asOf}},
		{"Unicode", map[string]any{"数.": 7, "num_shards": 1, "as_of": asOf},
			"counters/café ☕", []Option{Field("数.")}, "rollups/café ☕", RollUp{Total: Total{integer: 7}, NumShards: 1, AsOf: asOf}},
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

func TestRollUpMalformed(t *testing.T) {
	const absent = "absent" // no field of the document
	tests := []struct {
		name  string
		field string
		value any
		want  string
	}{
		{"no total", "count", absent, `field "count" is <nil>, want a number`},
		{"a total that is text", "count", "42", `field "count" is "42", want a number`},
		{"no num_shards", "num_shards", absent, `field "num_shards" is <nil>, want an integer`},
		{"a num_shards that is a double", "num_shards", 3.5, `field "num_shards" is 3.5, want an integer`},
		{"no as_of", "as_of", absent, `field "as_of" is <nil>, want a timestamp`},
		{"an as_of that is text", "as_of", "2026-05-01", `field "as_of" is "2026-05-01", want a timestamp`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			client := emulatortest.Client(t)
			doc := map[string]any{"count": 42, "num_shards": 3, "as_of": time.Now()}
			doc[tt.field] = tt.value
			if tt.value == absent {
				delete(doc, tt.field)
			}
			set(t, client, map[string]map[string]any{"rollups/c": doc})
			got, err := New(client, "counters/c").RollUp(t.Context())
			if err == nil || errors.Is(err, ErrNoRollUp) || !strings.Contains(err.Error(), "rollups/c: "+tt.want) {
				t.Errorf("error %v, want one that says %q", err, tt.want)
			}
			if got != (RollUp{}) {
				t.Errorf("RollUp = %+v with an error", got)
			}
		})
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
