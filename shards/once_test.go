package shards

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestIncrementOnce(t *testing.T) {
	client := emulatortest.Client(t)
	c := New(client, "counters/c", NumShards(3))
	before := time.Now()
	applied, first, err := c.IncrementOnce(t.Context(), "order 7 ☕", 5)
	if !applied || first.IsZero() || err != nil {
		t.Fatalf("IncrementOnce = %v, %v, %v; want it applied", applied, first, err)
	}
	for _, again := range []*Counter{c, New(client, "counters/c")} { // another process, another number of shards
		applied, committed, err := again.IncrementOnce(t.Context(), "order 7 ☕", 5)
		if applied || !committed.Equal(first) || err != nil {
			t.Errorf("IncrementOnce = %v, %v, %v; want false, %v", applied, committed, err, first)
		}
	}
	if applied, _, err := c.IncrementOnce(t.Context(), "order 8", 2); !applied || err != nil {
		t.Errorf("another token: %v, %v", applied, err)
	}
	wantTotal(t, c, int64(7))

	token := read(t, client, "counters/c/increment_tokens/order 7 ☕")
	expires, _ := token["expire_at"].(time.Time)
	if token["field"] != "count" || token["amount"] != int64(5) || len(token) != 3 ||
		expires.Before(before.Add(TokenLife).Truncate(time.Microsecond)) || expires.After(time.Now().Add(TokenLife)) {
		t.Errorf("token document %v", token)
	}

	// A token is spent, also for another increment and after the counter is deleted.
	if applied, _, err := c.IncrementOnce(t.Context(), "order 8", 3); applied || !errors.Is(err, ErrToken) || !strings.Contains(err.Error(), "used for count by 2, not for count by 3") {
		t.Errorf("another amount: %v, %v; want ErrToken", applied, err)
	}
	if applied, _, err := New(client, "counters/c", Field("likes")).IncrementOnce(t.Context(), "order 8", 2); applied || !errors.Is(err, ErrToken) {
		t.Errorf("another field: %v, %v; want ErrToken", applied, err)
	}
	if _, _, err := c.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	if applied, _, err := c.IncrementOnce(t.Context(), "order 8", 2); applied || err != nil {
		t.Errorf("after Delete: %v, %v; want a known token", applied, err)
	}
	wantTotal(t, c, int64(0))
}

func TestIncrementOnceRefuses(t *testing.T) {
	w, client := newWire(t)
	for _, token := range []string{"", ".", "..", "a/b", "__x__", "a\xff", strings.Repeat("x", 1501)} {
		if _, _, err := New(client, "counters/c").IncrementOnce(t.Context(), token, 1); !errors.Is(err, ErrToken) {
			t.Errorf("token %.9q: error %v, want ErrToken", token, err)
		}
	}
	if len(w.calls) > 0 {
		t.Errorf("requests sent: %v, want none", w.calls)
	}
	for _, token := range []string{"...", "__", "___", "_x__", strings.Repeat("x", 1500)} {
		if applied, _, err := New(client, "counters/c").IncrementOnce(t.Context(), token, 1); !applied || err != nil {
			t.Errorf("token %.9q: %v, %v; want it applied", token, applied, err)
		}
	}
}

// TestIncrementOnceFaults injects faults, and calls again after an error as a server would.
func TestIncrementOnceFaults(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		code    codes.Code
		lost    bool // the commit is applied
		commits int  // that are faulty
		applied bool // as the first call says
		fails   bool // the first call does
	}{
		{name: "not sent", code: codes.Unavailable, commits: 1, applied: true},
		{name: "answer lost, sent again", code: codes.Unavailable, lost: true, commits: 1},
		{name: "answer lost, not sent again", code: codes.Internal, lost: true, commits: 1},
		{name: "answer lost in contention", code: codes.Aborted, lost: true, commits: 1},
		{name: "contention", code: codes.Aborted, commits: 2, applied: true},
		{name: "never sent", code: codes.Internal, commits: onceAttempts, fails: true},
		{name: "refused", code: codes.PermissionDenied, commits: 1, fails: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, client := newWire(t)
			fault := func(method string, nth int) error {
				if method == "Commit" && nth <= tt.commits {
					return status.Error(tt.code, "injected")
				}
				return nil
			}
			w.fail(tt.lost, fault)
			c := New(client, "counters/c", NumShards(3))
			applied, _, err := c.IncrementOnce(t.Context(), "token", 5)
			if applied != tt.applied || (err != nil) != tt.fails || tt.fails && status.Code(err) != tt.code {
				t.Errorf("IncrementOnce = %v, %v; want applied %v, error %v", applied, err, tt.applied, tt.fails)
			}
			w.before, w.after = nil, nil
			if _, committed, err := c.IncrementOnce(t.Context(), "token", 5); committed.IsZero() || err != nil {
				t.Errorf("again: %v, %v", committed, err)
			}
			wantTotal(t, c, int64(5))
		})
	}
}
