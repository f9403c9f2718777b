package shards

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/internal/value"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestSet(t *testing.T) {
	integer := func(n int64) Total { return value.Int(n) }
	double := func(f float64) Total { return value.Double(f) }
	tests := []struct {
		name   string
		before []any // one shard each; nil: a shard without the field
		to     Total
		was    Total
		after  []any // as before
	}{
		{"nothing to nothing", nil, integer(0), integer(0), nil},
		{"nothing to a total", nil, integer(5), integer(0), []any{int64(5)}},
		{"to 0", []any{1, -2, 0, nil}, integer(0), integer(-1), []any{int64(0), int64(0), int64(0), nil}},
		{"to a total", []any{1, 2}, integer(42), integer(3), []any{int64(42), int64(0)}},
		{"to the same", []any{1, 2}, integer(3), integer(3), []any{int64(3), int64(0)}},
		{"to a negative one", []any{1, 2}, integer(-42), integer(3), []any{int64(-42), int64(0)}},
		{"beyond 2^53", []any{1<<53 + 1, 1<<53 + 2}, integer(1<<54 + 1), integer(1<<54 + 3), []any{int64(1<<54 + 1), int64(0)}},
		{"from the largest", []any{math.MaxInt64, -1}, integer(-maxTotal), integer(math.MaxInt64 - 1), []any{int64(-maxTotal), int64(0)}},
		{"from more than the largest", []any{math.MaxInt64, 1}, integer(7), double(1 << 63), []any{int64(7), int64(0)}},
		{"doubles to 0", []any{0.5, 1}, integer(0), double(1.5), []any{0.0, int64(0)}},
		{"to a double", []any{1, 1}, double(0.25), integer(2), []any{0.25, int64(0)}},
		{"text is left alone", []any{"7", nil, 3}, integer(1), integer(3), []any{"7", nil, int64(1)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			client := emulatortest.Client(t)
			c := New(client, "counters/c")
			setShards(t, c, tt.before)
			var got Replacement
			var err error
			switch n, ok := tt.to.Int64(); {
			case !ok:
				got, err = c.SetFloat(t.Context(), tt.to.Float64())
			default:
				got, err = c.Set(t.Context(), n)
			}
			if err != nil || got.Was != tt.was || got.Now != tt.to || got.AsOf.IsZero() {
				t.Errorf("got %+v, %v; want was %v, now %v", got, err, tt.was, tt.to)
			}
			after := list(t, client, "counters/c/shards")
			for i, want := range tt.after {
				if got := after[fmt.Sprint(i)]["count"]; got != want {
					t.Errorf("shard %d holds %v, want %v", i, got, want)
				}
			}
			if len(after) != len(tt.after) {
				t.Errorf("%d shards, want %d", len(after), len(tt.after))
			}
			for id, token := range list(t, client, "counters/c/increment_tokens") {
				if _, ok := token["expire_at"].(time.Time); !ok {
					t.Errorf("the token %s does not expire: %v", id, token)
				}
			}
		})
	}
}

func TestSetRefuses(t *testing.T) {
	tests := []struct {
		name  string
		shard any
		set   func(*Counter) (Replacement, error)
		want  string
	}{
		{"too large", 1, func(c *Counter) (Replacement, error) { return c.Set(t.Context(), maxTotal+1) }, "cannot be set to 4611686018427387905"},
		{"too small", 1, func(c *Counter) (Replacement, error) { return c.Set(t.Context(), -maxTotal-1) }, "cannot be set to -4611686018427387905"},
		{"NaN", 1, func(c *Counter) (Replacement, error) { return c.SetFloat(t.Context(), math.NaN()) }, "cannot be set to NaN"},
		{"infinite", 1, func(c *Counter) (Replacement, error) { return c.SetFloat(t.Context(), math.Inf(1)) }, "cannot be set to +Inf"},
		{"a shard that is NaN", math.NaN(), func(c *Counter) (Replacement, error) { return c.Set(t.Context(), 0) }, "shards/0 is NaN"},
		{"a shard that is infinite", math.Inf(-1), func(c *Counter) (Replacement, error) { return c.Set(t.Context(), 0) }, "shards/0 is -Inf"},
		{"the smallest shard", math.MinInt64, func(c *Counter) (Replacement, error) { return c.Set(t.Context(), 0) }, "shards/0 is -9223372036854775808"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, client := newWire(t)
			c := New(client, "counters/c")
			setShards(t, c, []any{tt.shard, 1})
			sent := w.sent("Commit")
			if got, err := tt.set(c); !errors.Is(err, ErrOutOfRange) || !strings.Contains(err.Error(), tt.want) || got != (Replacement{}) {
				t.Errorf("got %+v, %v; want ErrOutOfRange and %q", got, err, tt.want)
			}
			if got := w.sent("Commit"); got != sent {
				t.Errorf("%d commits sent, want none", got-sent)
			}
		})
	}
}

// TestSetFaults: faults do not make the total wrong, not even for a call that succeeds.
func TestSetFaults(t *testing.T) {
	t.Parallel()
	for _, code := range []codes.Code{codes.Unavailable, codes.Internal, codes.Aborted} {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v, lost %v", code, lost), func(t *testing.T) {
				t.Parallel()
				w, client := newWire(t)
				c := New(client, "counters/c")
				setShards(t, c, []any{1, 2})
				set := w.sent("Commit") + 2 // the next ends the snapshot
				fault := func(method string, n int) error {
					if method == "Commit" && n >= set && n < set+2 {
						return status.Error(code, "injected")
					}
					return nil
				}
				w.fail(lost, fault)
				if _, err := c.Set(t.Context(), 10); err != nil {
					t.Error(err)
				}
				wantTotal(t, c, int64(10))
			})
		}
	}
	t.Run("refused", func(t *testing.T) {
		w, client := newWire(t)
		c := New(client, "counters/c")
		setShards(t, c, []any{1, 2})
		set := w.sent("Commit") + 2
		w.before = func(method string, n int) error {
			if method == "Commit" && n >= set {
				return status.Error(codes.PermissionDenied, "injected")
			}
			return nil
		}
		if got, err := c.Set(t.Context(), 10); status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "0 of 3 writes are done") || got != (Replacement{}) {
			t.Errorf("got %v, %v; want PermissionDenied and how far it came", got, err)
		}
	})
}

// TestSetSentLate: a commit that was not answered may arrive when Set has returned. Its token is
// there then, and refuses it.
func TestSetSentLate(t *testing.T) {
	w, client := newWire(t)
	c := New(client, "counters/c")
	setShards(t, c, []any{1, 2})
	var late func() error
	set := w.sent("Commit") + 2 // the next ends the snapshot
	w.late = func(method string, nth int, send func() error) bool {
		switch {
		case method == "Commit" && nth == set:
			late = send
			return true
		case method == "Rollback": // lost, so the transaction is open still
			return true
		}
		return false
	}
	if _, err := c.Set(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	if late == nil {
		t.Fatal("no commit was held back")
	}
	if err := late(); status.Code(err) != codes.AlreadyExists {
		t.Errorf("the late commit: %v, want it refused because its token exists", err)
	}
	wantTotal(t, c, int64(10))
}

func TestImportAndVerify(t *testing.T) {
	t.Parallel()
	client := emulatortest.Client(t)
	c := New(client, "counters/c")
	setShards(t, c, []any{100, 11})
	for _, fan := range []string{"ann", "bo", "cy"} {
		set(t, client, map[string]map[string]any{"posts/7/likes/" + fan: {"stars": len(fan)}})
	}
	set(t, client, map[string]map[string]any{"posts/7": {"likes": 1<<53 + 1, "score": 2.5, "title": "x"}})
	likes := client.Collection("posts/7/likes")
	for _, tt := range []struct {
		name   string
		source Source
		want   Total
	}{
		{"all documents", CountOf(likes.Query), value.Int(3)},
		{"documents of a query", CountOf(likes.Where("stars", ">", 2)), value.Int(1)},
		{"no documents", CountOf(client.Collection("none").Query), Total{}},
		{"an integer", FieldOf(client.Doc("posts/7"), "likes"), value.Int(1<<53 + 1)},
		{"a double", FieldOf(client.Doc("posts/7"), "score"), value.Double(2.5)},
	} {
		was, err := c.Verify(t.Context(), tt.source)
		if err != nil || was.Equal() || was.Source != tt.want || was.AsOf.IsZero() {
			t.Errorf("%s: before: %+v, %v", tt.name, was, err)
		}
		r, err := c.Import(t.Context(), tt.source)
		if err != nil || r.Was != was.Counter || r.Now != tt.want || !r.AsOf.After(was.AsOf) {
			t.Errorf("%s: imported %+v, %v; want %v", tt.name, r, err, tt.want)
		}
		if now, err := c.Verify(t.Context(), tt.source); err != nil || !now.Equal() {
			t.Errorf("%s: after: %+v, %v", tt.name, now, err)
		}
	}
	for _, tt := range []struct {
		source Source
		want   string
	}{
		{FieldOf(client.Doc("posts/8"), "likes"), "there is no document"},
		{FieldOf(client.Doc("posts/7"), "like"), `posts/7 has no field "like"`},
		{FieldOf(client.Doc("posts/7"), "title"), `"x", not a number`},
		{FieldOf(client.Doc("posts"), "likes"), "nil document"},
	} {
		if _, err := c.Import(t.Context(), tt.source); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Import: error %v, want %q", err, tt.want)
		}
		if _, err := c.Verify(t.Context(), tt.source); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Verify: error %v, want %q", err, tt.want)
		}
	}
}

// TestImportChecks: checks see the planned changes, and an error of one leaves everything as it
// was.
func TestImportChecks(t *testing.T) {
	w, client := newWire(t)
	c := New(client, "counters/c")
	setShards(t, c, []any{3, 4})
	none := CountOf(client.Collection("none").Query)
	refused := errors.New("refused")
	var seen []Replacement
	note := func(r Replacement) error { seen = append(seen, r); return nil }
	sent := w.sent("Commit")
	got, err := c.Import(t.Context(), none, note, func(Replacement) error { return refused }, note)
	if !errors.Is(err, refused) || got != (Replacement{}) {
		t.Errorf("got %+v, %v; want the check's error", got, err)
	}
	if len(seen) != 1 || seen[0].Was != (value.Int(7)) || seen[0].Now != (Total{}) || seen[0].AsOf.IsZero() {
		t.Errorf("checks saw %+v, want one replacement of 7 by 0", seen)
	}
	if got := w.sent("Commit") - sent; got != 1 { // which ends the snapshot
		t.Errorf("%d commits sent, want 1", got)
	}
	if total, err := c.Get(t.Context()); err != nil || total != (value.Int(7)) {
		t.Errorf("total %v, %v; want 7", total, err)
	}
	got, err = c.Import(t.Context(), none, note)
	if err != nil || len(seen) != 2 || got != seen[1] {
		t.Errorf("got %+v, %v; want what the check saw, %+v", got, err, seen)
	}
}

func TestVerificationEqual(t *testing.T) {
	for _, tt := range []struct {
		a, b Total
		want bool
	}{
		{value.Int(1), value.Int(1), true},
		{value.Int(1<<53 + 1), value.Int(1 << 53), false},
		{value.Int(2), value.Double(2), true},
		{value.Double(2.5), value.Int(2), false},
		{value.Double(math.NaN()), value.Double(math.NaN()), false},
	} {
		if got := (Verification{Counter: tt.a, Source: tt.b}).Equal(); got != tt.want {
			t.Errorf("%v, %v: Equal = %v", tt.a, tt.b, got)
		}
	}
}

// TestDelete: all shards and the counter document, in as many commits as it takes.
func TestDelete(t *testing.T) {
	t.Parallel()
	w, client := newWire(t)
	c := New(client, "counters/c")
	if err := c.Resize(t.Context(), 2*shardsPerCommit); err != nil {
		t.Fatal(err)
	}
	rollUp := map[string]any{"count": int64(5)}
	others := map[string]map[string]any{"counters/c/shards/eu": {"count": int64(1)}, "rollups/c": rollUp, "counters/c/notes/n": {}, "counters/d": {}}
	set(t, client, others)
	for _, want := range []int{2*shardsPerCommit + 1, 0} { // again is harmless
		if n, declared, err := c.Delete(t.Context()); n != want || declared != (want > 0) || err != nil {
			t.Fatalf("deleted %d shards, declared %t, %v; want %d", n, declared, err, want)
		}
	}
	if w.most > shardsPerCommit {
		t.Errorf("%d writes in a commit", w.most)
	}
	if doc, left := read(t, client, "counters/c"), list(t, client, "counters/c/shards"); doc != nil || len(left) > 0 {
		t.Errorf("left: %v and %d shards", doc, len(left))
	}
	if diff := cmp.Diff(rollUp, read(t, client, "rollups/c")); diff != "" {
		t.Errorf("roll-up (-want +got):\n%s", diff)
	}
	if read(t, client, "counters/c/notes/n") == nil || read(t, client, "counters/d") == nil {
		t.Error("other documents are gone")
	}
	if _, err := c.Increment(t.Context(), 3); err != nil {
		t.Error(err)
	}
	wantTotal(t, c, int64(3))

	w.before = func(method string, _ int) error {
		if method == "Commit" {
			return status.Error(codes.PermissionDenied, "injected")
		}
		return nil
	}
	if _, _, err := c.Delete(t.Context()); status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "0 of 1 writes are done") {
		t.Errorf("error %v, want PermissionDenied and how far it came", err)
	}
}

// TestDeleteDocument: a document of the app's own stays, without what it says about the counter.
func TestDeleteDocument(t *testing.T) {
	client := emulatortest.Client(t)
	for _, tt := range []struct {
		has, want map[string]any
		declared  bool
	}{
		{map[string]any{"num_shards": 3, "numShards": 3, "auto_shards": true, "frozen": true}, nil, true},
		{map[string]any{}, nil, true},
		{map[string]any{"title": "x"}, map[string]any{"title": "x"}, false},
		{map[string]any{"num_shards": 3, "title": "x"}, map[string]any{"title": "x"}, true},
		{map[string]any{"numShards": 3, "count": 7, "tally": map[string]any{}}, map[string]any{"count": int64(7), "tally": map[string]any{}}, true},
	} {
		set(t, client, map[string]map[string]any{"posts/7": tt.has, "posts/7/views/0": {"count": 1}})
		if n, declared, err := New(client, "posts/7", Collection("posts/7/views")).Delete(t.Context()); n != 1 || declared != tt.declared || err != nil {
			t.Errorf("%v: deleted %d shards, declared %t, %v", tt.has, n, declared, err)
		}
		if diff := cmp.Diff(tt.want, read(t, client, "posts/7")); diff != "" || len(list(t, client, "posts/7/views")) > 0 {
			t.Errorf("%v: left (-want +got):\n%s", tt.has, diff)
		}
	}
}

func TestDeleteFixed(t *testing.T) {
	client := emulatortest.Client(t)
	set(t, client, map[string]map[string]any{"samples/php": {"title": "x"}, "samples/php/distributedCounters/0": {"count": 1}})
	if n, declared, err := New(client, "samples/php", Collection("samples/php/distributedCounters"), NumShards(1)).Delete(t.Context()); n != 1 || declared || err != nil {
		t.Fatalf("deleted %d shards, declared %t, %v", n, declared, err)
	}
	if read(t, client, "samples/php") == nil || len(list(t, client, "samples/php/distributedCounters")) > 0 {
		t.Error("want the shards deleted and the document left")
	}
}

func TestRollUps(t *testing.T) {
	client := emulatortest.Client(t)
	c := New(client, "counters/c")
	asOf := time.Date(2026, 5, 1, 9, 30, 0, 123456000, time.UTC)
	steps := []struct {
		then func() error // what to do after the version was seen
		want error        // nil: a roll-up
	}{
		{func() error {
			_, err := client.Doc("rollups/c").Set(t.Context(), map[string]any{"count": 42, "tally": tallyOf(asOf, 3, "count")})
			return err
		}, ErrNoRollUp},
		{func() error {
			_, err := client.Doc("rollups/c").Update(t.Context(), []firestore.Update{{Path: "count", Value: "42"}})
			return err
		}, nil},
		{func() error {
			_, err := client.Doc("rollups/c").Delete(t.Context())
			return err
		}, errMistyped},
		{func() error { return nil }, ErrNoRollUp},
	}
	seen := 0
	for r, err := range c.RollUps(t.Context()) {
		step := steps[seen]
		seen++
		switch {
		case step.want == errMistyped:
			if err == nil || errors.Is(err, ErrNoRollUp) {
				t.Errorf("version %d: %+v, %v; want it refused", seen, r, err)
			}
		case !errors.Is(err, step.want):
			t.Errorf("version %d: %+v, %v; want %v", seen, r, err, step.want)
		case err == nil && (r.Total != value.Int(42) || !r.AsOf.Equal(asOf) || r.NumShards != 3 || r.ReadTime.IsZero()):
			t.Errorf("version %d: %+v", seen, r)
		}
		if err := step.then(); err != nil {
			t.Fatal(err)
		}
		if seen == len(steps) {
			break
		}
	}
	if seen != len(steps) {
		t.Errorf("%d versions seen, want %d", seen, len(steps))
	}
}

var errMistyped = errors.New("a field of another type")
