package shards

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/internal/value"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Each step sets the field and carries it.
func TestCarry(t *testing.T) {
	t.Parallel()
	const nothing = 0
	for _, tt := range []struct {
		name   string
		shards []any // before
		steps  []any // values of the field
		added  []any
		want   any // the counter's total
	}{
		{"once", []any{3}, []any{10}, []any{int64(10)}, int64(13)},
		{"twice", []any{3}, []any{10, 10}, []any{int64(10), int64(nothing)}, int64(13)},
		{"what it grew by", nil, []any{10, 12, 11}, []any{int64(10), int64(2), int64(-1)}, int64(11)},
		{"nothing there", []any{3}, []any{0}, []any{int64(nothing)}, int64(3)},
		{"negative", []any{3}, []any{-10}, []any{int64(-10)}, int64(-7)},
		{"doubles", []any{3}, []any{0.5, 2.5}, []any{0.5, 2.0}, 5.5},
		{"an integer that became a double", nil, []any{1, 1.5}, []any{int64(1), 0.5}, 1.5},
		{"beyond 2^53", []any{1}, []any{1<<53 + 1, 1<<53 + 3}, []any{int64(1<<53 + 1), int64(2)}, int64(1<<53 + 4)},
		{"the largest", nil, []any{maxTotal}, []any{int64(maxTotal)}, int64(maxTotal)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			client := emulatortest.Client(t)
			c := New(client, "counters/c", NumShards(3))
			setShards(t, c, tt.shards)
			for i, v := range tt.steps {
				set(t, client, map[string]map[string]any{"pages/p": {"visits": v}})
				carried, err := c.Carry(t.Context(), client.Doc("pages/p"), "visits")
				if err != nil {
					t.Fatal(err)
				}
				amount, _ := client.Doc("pages/p").Get(t.Context())
				if carried.Amount.Firestore() != amount.Data()["visits"] || carried.Added.Firestore() != tt.added[i] {
					t.Errorf("Carry of %v = %v, added %v; want %v added", v, describe(carried.Amount), describe(carried.Added), tt.added[i])
				}
			}
			wantTotal(t, c, tt.want)
		})
	}
}

// Fields, sources and counters are carried apart.
func TestCarryApart(t *testing.T) {
	client := emulatortest.Client(t)
	set(t, client, map[string]map[string]any{"pages/p": {"visits": 1, "likes": 10}, "pages/q": {"visits": 100}})
	visits, likes := New(client, "counters/c", NumShards(2)), New(client, "counters/c", NumShards(2), Field("likes"))
	for range 2 {
		for _, carry := range []struct {
			to   *Counter
			from string
			of   string
		}{{visits, "pages/p", "visits"}, {visits, "pages/q", "visits"}, {visits, "pages/p", "likes"}, {likes, "pages/p", "likes"}} {
			if _, err := carry.to.Carry(t.Context(), client.Doc(carry.from), carry.of); err != nil {
				t.Fatal(err)
			}
		}
	}
	wantTotal(t, visits, int64(111))
	wantTotal(t, likes, int64(10))
	for id, note := range list(t, client, "counters/c/increment_tokens") {
		if _, ok := note["expire_at"]; ok {
			t.Errorf("%s expires: %v", id, note)
		}
	}
}

// A carried amount goes with the total that is replaced or deleted. Only the amount by which the
// field has changed by since counts on top, until the note is deleted.
func TestCarryAfter(t *testing.T) {
	for _, tt := range []struct {
		name string
		then func(c *Counter) error
		want int64 // the total
	}{
		{"Set", func(c *Counter) error { _, err := c.Set(t.Context(), 100); return err }, 100},
		{"Set to 0", func(c *Counter) error { _, err := c.Set(t.Context(), 0); return err }, 0},
		{"Import", func(c *Counter) error {
			_, err := c.Import(t.Context(), FieldOf(c.client.Doc("pages/p"), "visits"))
			return err
		}, 10},
		{"Delete", func(c *Counter) error { _, _, err := c.Delete(t.Context()); return err }, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			client := emulatortest.Client(t)
			c := New(client, "counters/c", NumShards(3))
			carry := func(visits int, added int64) {
				t.Helper()
				set(t, client, map[string]map[string]any{"pages/p": {"visits": visits}})
				carried, err := c.Carry(t.Context(), client.Doc("pages/p"), "visits")
				if err != nil || carried.Added != (value.Int(added)) {
					t.Errorf("Carry of %d added %v, %v; want %d", visits, carried.Added, err, added)
				}
			}
			if _, err := c.Increment(t.Context(), 3); err != nil {
				t.Fatal(err)
			}
			carry(10, 10)
			if err := tt.then(c); err != nil {
				t.Fatal(err)
			}
			carry(10, 0)
			wantTotal(t, c, tt.want)
			carry(12, 2)
			wantTotal(t, c, tt.want+2)
			for id := range list(t, client, "counters/c/increment_tokens") {
				if _, err := client.Doc("counters/c/increment_tokens/" + id).Delete(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			carry(12, 12)
			wantTotal(t, c, tt.want+14)
		})
	}
}

func TestCarryRefuses(t *testing.T) {
	client := emulatortest.Client(t)
	for field, want := range map[string]string{
		"missing":  `has no field "missing"`,
		"text":     `is "7", not a number`,
		"nan":      "out of range",
		"infinite": "out of range",
		"large":    "out of range",
		"smallest": "out of range",
	} {
		set(t, client, map[string]map[string]any{"pages/p": {"text": "7", "nan": math.NaN(), "infinite": math.Inf(1), "large": maxTotal + 1, "smallest": math.MinInt64}})
		c := New(client, "counters/c", NumShards(3))
		if _, err := c.Carry(t.Context(), client.Doc("pages/p"), field); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Carry of %s: %v, want an error that says %q", field, err, want)
		}
	}
	if shards, notes := list(t, client, "counters/c/shards"), list(t, client, "counters/c/increment_tokens"); len(shards)+len(notes) > 0 {
		t.Errorf("written: %v, %v", shards, notes)
	}
	if _, err := New(client, "counters").Carry(t.Context(), client.Doc("pages/p"), "large"); err == nil {
		t.Error("no error for a counter with wrong arguments")
	}
}

// A note that cannot be read says nothing of what was carried: nothing is carried again until it is
// fixed or deleted.
func TestCarryWithBrokenNote(t *testing.T) {
	client := emulatortest.Client(t)
	page := client.Doc("pages/p")
	set(t, client, map[string]map[string]any{"pages/p": {"visits": 10}})
	c := New(client, "counters/c", NumShards(3))
	if _, err := c.Carry(t.Context(), page, "visits"); err != nil {
		t.Fatal(err)
	}

	note := c.CarriedNote(page, "visits")
	for _, broken := range []map[string]any{{"amount": "10"}, {}} {
		if _, err := note.Set(t.Context(), broken); err != nil {
			t.Fatal(err)
		}
		_, err := c.Carry(t.Context(), page, "visits")
		if err == nil || !strings.Contains(err.Error(), note.Path) {
			t.Errorf("Carry with the note %v: %v, want an error that names it", broken, err)
		}
	}
	wantTotal(t, c, int64(10))
}

// Whatever becomes of a commit, the amount is added once.
func TestCarryFaults(t *testing.T) {
	t.Parallel()
	for _, code := range []codes.Code{codes.Unavailable, codes.Internal, codes.Aborted, codes.PermissionDenied} {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v, lost %v", code, lost), func(t *testing.T) {
				t.Parallel()
				w, client := newWire(t)
				set(t, client, map[string]map[string]any{"pages/p": {"visits": 10}})
				first := w.sent("Commit") + 1
				w.fail(lost, func(method string, nth int) error {
					if method == "Commit" && nth == first {
						return status.Error(code, "injected")
					}
					return nil
				})
				c := New(client, "counters/c", NumShards(3))
				if _, err := c.Carry(t.Context(), client.Doc("pages/p"), "visits"); (err != nil) != (code == codes.PermissionDenied) {
					t.Errorf("error %v", err)
				}
				for range 2 {
					if _, err := c.Carry(t.Context(), client.Doc("pages/p"), "visits"); err != nil {
						t.Fatal(err)
					}
				}
				wantTotal(t, c, int64(10))
			})
		}
	}
}

// Several carry while the field still grows and clients increment.
func TestCarryConcurrently(t *testing.T) {
	t.Parallel()
	client := emulatortest.Client(t)
	const grown, incremented = 20, 30
	page := client.Doc("pages/p")
	set(t, client, map[string]map[string]any{"pages/p": {"visits": 0}})
	c := New(client, "counters/c", NumShards(3))
	var writers, carriers sync.WaitGroup
	done, finish := context.WithCancel(t.Context())
	writers.Go(func() {
		for range grown {
			if _, err := page.Update(t.Context(), []firestore.Update{{Path: "visits", Value: firestore.Increment(1)}}); err != nil {
				t.Error(err)
			}
		}
	})
	writers.Go(func() {
		for range incremented {
			if _, err := c.Increment(t.Context(), 1); err != nil {
				t.Error(err)
			}
		}
	})
	for range 3 {
		carriers.Go(func() {
			for done.Err() == nil {
				if _, err := c.Carry(t.Context(), page, "visits"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	finish()
	carriers.Wait()
	if _, err := c.Carry(t.Context(), page, "visits"); err != nil {
		t.Fatal(err)
	}
	wantTotal(t, c, int64(grown+incremented))
}
