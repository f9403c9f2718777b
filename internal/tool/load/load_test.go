package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/shards"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestMain(m *testing.M) { emulatortest.Main(m) }

func TestLagOf(t *testing.T) {
	var lags []time.Duration
	for i := range 100 {
		lags = append(lags, time.Duration(100-i)*time.Millisecond)
	}
	if got, want := LagOf(lags), (Lag{50, 99, 100}); got != want {
		t.Errorf("of 1 to 100 ms: %v, want %v", got, want)
	}
	if got := LagOf(nil); got != (Lag{}) {
		t.Errorf("of nothing: %v, want 0", got)
	}
}

// A roll-up covers what was committed at its as_of, also if it is seen before the acknowledgement.
func TestLags(t *testing.T) {
	at := func(ms int64) time.Time { return time.UnixMilli(ms) }
	var writes []Write
	for _, ms := range []int64{200, 100, 201, 900} { // nothing covers the last
		writes = append(writes, Write{Committed: at(ms)})
	}
	var seen []RollUp
	for _, ms := range []int64{0, 200, 800} {
		seen = append(seen, RollUp{RollUp: shards.RollUp{AsOf: at(ms)}, Seen: at(ms + 20)})
	}

	got := Lags(writes, seen, 5*time.Millisecond)
	want := []time.Duration{25 * time.Millisecond, 125 * time.Millisecond, 624 * time.Millisecond}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Each write in doubt may be in the total or not. It is not made again.
func TestTotal(t *testing.T) {
	for _, test := range []struct {
		acknowledged, inDoubt int
		exact                 bool
	}{{0, 0, true}, {1, 0, false}, {1, 5, false}, {0, 7, true}} {
		var c Counter // its total is 0
		for n := range test.acknowledged + test.inDoubt {
			err := c.Add(t.Context(), func(context.Context) (time.Time, error) {
				if n < test.acknowledged {
					return time.Now(), nil
				}
				return time.Time{}, fmt.Errorf("%w: the answer is lost", shards.ErrInDoubt)
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		writes, inDoubt := c.Writes()
		if _, exact := c.Total(); exact != test.exact || len(writes) != test.acknowledged || inDoubt != test.inDoubt {
			t.Errorf("%+v: %d writes, %d in doubt, exact: %v", test, len(writes), inDoubt, exact)
		}
	}
}

// A write is made again while it fails for a reason that may pass, until there is no more time.
func TestPersist(t *testing.T) {
	late := errors.New("not done in time")
	for _, test := range []struct {
		code   codes.Code
		writes int
		want   string
	}{
		{codes.Unavailable, 5, "not done in time: rpc error: code = Unavailable desc = it fails"},
		{codes.PermissionDenied, 1, "rpc error: code = PermissionDenied desc = it fails"},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeoutCause(t.Context(), 900*time.Millisecond, late)
			defer cancel()
			writes := 0
			err := Persist(ctx, func(context.Context) error {
				writes++
				return status.Error(test.code, "it fails")
			})
			if err == nil || err.Error() != test.want || writes != test.writes {
				t.Errorf("%d writes, then %v; want %d, then %s", writes, err, test.writes, test.want)
			}
		})
	}
}

// The clients make each write once, at the rate. The first error ends the load.
func TestWriteAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Load{Clients: 2, Rate: 10}
		began := time.Now()
		var made atomic.Int64
		write := func(context.Context, int) error { made.Add(1); return nil }
		if err := l.WriteAll(t.Context(), 11, write); err != nil || made.Load() != 11 || time.Since(began) != time.Second {
			t.Errorf("%d writes in %v: %v", made.Load(), time.Since(began), err)
		}

		failed := errors.New("it fails")
		refuse := func(_ context.Context, n int) error {
			if n == 3 {
				return failed
			}
			return write(t.Context(), n)
		}
		if err := l.WriteAll(t.Context(), 1000, refuse); !errors.Is(err, failed) || made.Load() > 20 {
			t.Errorf("%d writes: %v", made.Load(), err)
		}
	})
}

// What ends a wait says what was waited for.
func TestAwait(t *testing.T) {
	client := emulatortest.Client(t)
	var c Counter
	if err := c.Listen(t.Context(), func(error) {}, client, "rollups/c", "count"); err != nil {
		t.Fatal(err)
	}
	late := errors.New("not done in time")
	over, cancel := context.WithCancelCause(t.Context())
	cancel(late)
	wantLate := func(want string) {
		t.Helper()
		if err := c.Await(over); !errors.Is(err, late) || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	wantLate("not done in time: no roll-up rollups/c was seen")

	committed := time.Now().Truncate(time.Microsecond)
	if err := c.Add(t.Context(), func(context.Context) (time.Time, error) { return committed, nil }); err != nil {
		t.Fatal(err)
	}
	roll := func(asOf time.Time, count int) {
		t.Helper()
		_, changed := c.Last()
		_, err := client.Doc("rollups/c").Set(t.Context(), map[string]any{
			"count": count, "tally": map[string]any{"as_of": asOf, "num_shards": 1, "totals": []string{"count"}, "routes": "r"},
		})
		if err != nil {
			t.Fatal(err)
		}
		<-changed
	}
	before := committed.Add(-time.Second)
	roll(before, 0)
	wantLate(fmt.Sprintf("not done in time: rollups/c is as of %s, before %s", inUTC(before), inUTC(committed)))
	roll(committed, 1)
	if err := c.Await(over); err != nil {
		t.Error(err)
	}

	var totals []string
	for _, r := range c.Seen() {
		totals = append(totals, r.Total.String())
		if r.Seen.IsZero() || r.Written.IsZero() {
			t.Errorf("%+v: want its times", r)
		}
	}
	if d := cmp.Diff([]string{"0", "1"}, totals); d != "" {
		t.Errorf("totals (-want +got):\n%s", d)
	}
}
