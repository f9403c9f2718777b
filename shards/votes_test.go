package shards

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestCreateOncePerUser(t *testing.T) {
	once := map[string]any{"once_per_user": true}
	for _, tt := range []struct {
		name  string
		has   map[string]any // the counter document
		shard string         // that exists, with what it holds
		holds int
		opts  []Option
		want  map[string]any // the counter document; nil: refused
	}{
		{name: "new", want: once},
		{name: "again", has: once, want: once},
		{name: "again, with votes", has: once, shard: "ann", holds: 1, want: once},
		{name: "a document of the app's", has: map[string]any{"title": "x"}, want: map[string]any{"title": "x", "once_per_user": true}},
		{name: "a counter that has no shards", has: map[string]any{"num_shards": 3, "once_per_user": false}, want: map[string]any{"num_shards": int64(3), "once_per_user": true}},
		{name: "a counter that has counted", has: map[string]any{"num_shards": 3}, shard: "2", holds: 500},
		{name: "a counter that has counted, without a document", shard: "2", holds: 500},
		{name: "a counter with a shard of 0", has: map[string]any{"num_shards": 3}, shard: "0"},
		{name: "no counter document", opts: []Option{NumShards(3)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			client := emulatortest.Client(t)
			if tt.shard != "" {
				set(t, client, map[string]map[string]any{"counters/c/shards/" + tt.shard: {"count": tt.holds}})
			}
			if tt.has != nil {
				set(t, client, map[string]map[string]any{"counters/c": tt.has})
			}
			before, shards := read(t, client, "counters/c"), list(t, client, "counters/c/shards")
			err := New(client, "counters/c", tt.opts...).CreateOncePerUser(t.Context())
			want := tt.want
			if want == nil {
				if want = before; !errors.Is(err, ErrNotOncePerUser) {
					t.Errorf("error %v, want ErrNotOncePerUser", err)
				}
			} else if err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(want, read(t, client, "counters/c")); diff != "" {
				t.Errorf("counter document (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(shards, list(t, client, "counters/c/shards")); diff != "" {
				t.Errorf("shards (-before +after):\n%s", diff)
			}
		})
	}
}

// TestVotes: nothing that adds or folds touches votes, and each says what to do instead.
func TestVotes(t *testing.T) {
	client := emulatortest.Client(t)
	c := New(client, "counters/c")
	if err := c.CreateOncePerUser(t.Context()); err != nil {
		t.Fatal(err)
	}
	set(t, client, map[string]map[string]any{
		"counters/c/shards/ann": {"count": 1}, "counters/c/shards/bob": {"count": 0}, "counters/c/shards/7": {"count": 1},
		"pages/p": {"visits": 40},
	})
	before := list(t, client, "counters/c/shards")
	for name, call := range map[string]func(context.Context) error{
		"Create":         func(ctx context.Context) error { return c.Create(ctx, 3) },
		"Increment":      func(ctx context.Context) error { _, err := c.Increment(ctx, 1); return err },
		"IncrementFloat": func(ctx context.Context) error { _, err := c.IncrementFloat(ctx, 0.5); return err },
		"IncrementOnce":  func(ctx context.Context) error { _, _, err := c.IncrementOnce(ctx, "t", 1); return err },
		"Carry":          func(ctx context.Context) error { _, err := c.Carry(ctx, client.Doc("pages/p"), "visits"); return err },
		"Set":            func(ctx context.Context) error { _, err := c.Set(ctx, 2); return err },
		"SetFloat":       func(ctx context.Context) error { _, err := c.SetFloat(ctx, 0.5); return err },
		"Import": func(ctx context.Context) error {
			_, err := c.Import(ctx, CountOf(client.Collection("pages").Query))
			return err
		},
		"Import of 0": func(ctx context.Context) error {
			_, err := c.Import(ctx, CountOf(client.Collection("none").Query))
			return err
		},
		"Resize":     func(ctx context.Context) error { return c.Resize(ctx, 1) },
		"CreateAuto": func(ctx context.Context) error { return c.CreateAuto(ctx) },
	} {
		if err := call(t.Context()); !errors.Is(err, ErrOncePerUser) || !strings.Contains(err.Error(), "/counters/c is the vote of the user whose id it has; set the shard to 0 or 1") {
			t.Errorf("%s: error %v, want ErrOncePerUser and the remedy", name, err)
		}
	}
	if diff := cmp.Diff(before, list(t, client, "counters/c/shards")); diff != "" {
		t.Errorf("shards (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]any{"once_per_user": true}, read(t, client, "counters/c")); diff != "" {
		t.Errorf("counter document (-want +got):\n%s", diff)
	}
	if tokens := list(t, client, "counters/c/increment_tokens"); len(tokens) > 0 {
		t.Errorf("tokens: %v", tokens)
	}
	wantTotal(t, c, int64(2))
	if v, err := c.Verify(t.Context(), FieldOf(client.Doc("pages/p"), "visits")); err != nil || v.Equal() {
		t.Errorf("Verify = %+v, %v, want a difference", v, err)
	}
}

// TestSetVotes: setting a counter of votes to 0 deletes them, however many, and whatever they hold.
func TestSetVotes(t *testing.T) {
	t.Parallel()
	for name, empty := range map[string]func(*Counter, context.Context) (Replacement, error){
		"Set":      func(c *Counter, ctx context.Context) (Replacement, error) { return c.Set(ctx, 0) },
		"SetFloat": func(c *Counter, ctx context.Context) (Replacement, error) { return c.SetFloat(ctx, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, client := newWire(t)
			c := New(client, "counters/c")
			if err := c.CreateOncePerUser(t.Context()); err != nil {
				t.Fatal(err)
			}
			votes := map[string]map[string]any{"counters/c/shards/odd": {"count": "1"}}
			for i := range shardsPerCommit {
				votes[fmt.Sprintf("counters/c/shards/user%d", i)] = map[string]any{"count": i % 2}
			}
			set(t, client, votes)
			commits := 0
			w.before = func(method string, _ int) error {
				if method == "Commit" {
					if commits++; commits == 3 { // the first ends the snapshot
						return status.Error(codes.PermissionDenied, "injected")
					}
				}
				return nil
			}
			_, err := empty(c, t.Context())
			if want := fmt.Sprintf("%d of %d writes are done", shardsPerCommit, shardsPerCommit+1); status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want PermissionDenied and %q", err, want)
			}
			left := list(t, client, "counters/c/shards")
			if len(left) != 1 {
				t.Errorf("%d votes are left, want 1", len(left))
			}
			r, err := empty(c, t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if r.Now.Float64() != 0 || r.AsOf.IsZero() {
				t.Errorf("%+v", r)
			}
			if left := list(t, client, "counters/c/shards"); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
			if diff := cmp.Diff(map[string]any{"once_per_user": true}, read(t, client, "counters/c")); diff != "" {
				t.Errorf("counter document (-want +got):\n%s", diff)
			}
			set(t, client, map[string]map[string]any{"counters/c/shards/ann": {"count": 1}})
			if r, err := empty(c, t.Context()); err != nil || r.Was.Float64() != 1 {
				t.Errorf("%+v, %v, want that it was 1", r, err)
			}
		})
	}
}

// TestDeleteVotes: a call that is cut short leaves no counter whose votes all may read, and none
// that takes votes.
func TestDeleteVotes(t *testing.T) {
	w, client := newWire(t)
	c := New(client, "counters/c")
	if err := c.CreateOncePerUser(t.Context()); err != nil {
		t.Fatal(err)
	}
	votes := map[string]map[string]any{}
	for i := range shardsPerCommit + 1 {
		votes[fmt.Sprintf("counters/c/shards/user%d", i)] = map[string]any{"count": 1}
	}
	set(t, client, votes)
	commits := 0
	w.before = func(method string, _ int) error {
		if method == "Commit" {
			if commits++; commits == 3 {
				return status.Error(codes.PermissionDenied, "injected")
			}
		}
		return nil
	}
	if _, _, err := c.Delete(t.Context()); status.Code(err) != codes.PermissionDenied || read(t, client, "counters/c") == nil {
		t.Fatalf("error %v, want PermissionDenied while the counter document is there", err)
	}
	want := map[string]any{"once_per_user": true, "frozen": true}
	if diff := cmp.Diff(want, read(t, client, "counters/c")); diff != "" {
		t.Errorf("counter document of the votes that are left (-want +got):\n%s", diff)
	}
	wantTotal(t, c, int64(1))
	if _, _, err := c.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := list(t, client, "counters/c/shards"); len(left) > 0 || read(t, client, "counters/c") != nil {
		t.Errorf("left: %v", left)
	}
}
