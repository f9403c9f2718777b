package local

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/cloud/config"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/internal/tool/lag"
	"github.com/firestore-tally/tally/internal/tool/local/emulator"
	"github.com/firestore-tally/tally/internal/tool/local/eventrelay"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/firestore-tally/tally/shards"
	"github.com/google/go-cmp/cmp"
	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
)

func TestMain(m *testing.M) { emulatortest.Main(m, emulator.Options{}) }

// at is a time some milliseconds after others of a test.
func at(ms int) time.Time {
	return time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC).Add(time.Duration(ms) * time.Millisecond)
}

func rollUp(asOf, written, seen int) lag.RollUp {
	return lag.RollUp{RollUp: shards.RollUp{AsOf: at(asOf)}, Written: at(written), Seen: at(seen)}
}

// A roll-up covers what was committed at its as_of, also if it is seen before the acknowledgement.
func TestLags(t *testing.T) {
	h := History{
		Acknowledged: []time.Time{at(200), at(100), at(250), at(900)},
		RollUps:      []lag.RollUp{rollUp(0, 1, 2), rollUp(200, 210, 220), rollUp(800, 810, 850)},
	}
	for _, test := range []struct {
		until int
		want  []time.Duration
	}{
		{1000, []time.Duration{20 * time.Millisecond, 120 * time.Millisecond, 600 * time.Millisecond}}, // nothing covers the last
		{200, []time.Duration{120 * time.Millisecond}},
		{100, nil},
	} {
		if d := cmp.Diff(test.want, h.lags(at(test.until))); d != "" {
			t.Errorf("until %d ms (-want +got):\n%s", test.until, d)
		}
	}
}

func TestMostWithin(t *testing.T) {
	rollUps := []lag.RollUp{rollUp(0, 0, 0), rollUp(0, 999, 0), rollUp(0, 1000, 0), rollUp(0, 1998, 0)}
	if got := mostWithin(time.Second, rollUps); got != 3 {
		t.Errorf("at most %d roll-ups within a second, want 3", got)
	}
}

// Each increment in doubt may be in the total or not.
func TestCompare(t *testing.T) {
	for _, test := range []struct {
		acknowledged, inDoubt int
		wrong                 bool
	}{{0, 0, false}, {1, 0, true}, {1, 5, true}, {0, 7, false}} {
		r := Result{Expected: make(map[string]int64), RolledUp: make(map[string]int64), Wrong: make(map[string]bool)}
		r.compare("c", History{Acknowledged: make([]time.Time, test.acknowledged), InDoubt: test.inDoubt, RollUps: []lag.RollUp{{}}})
		if r.Wrong["c"] != test.wrong || r.Acknowledged != int64(test.acknowledged) || r.InDoubt != int64(test.inDoubt) {
			t.Errorf("%d acknowledged, %d in doubt, 0 rolled up: %+v", test.acknowledged, test.inDoubt, r)
		}
	}
}

// Of a collection group, only what a trigger's pattern matches becomes an event.
func TestDeliverShard(t *testing.T) {
	routes, err := route.Parse("counters/{c}/shards/{s} -> rollups/{c} : count")
	if err != nil {
		t.Fatal(err)
	}
	s := &Stack{Options: Options{Config: config.Config{Routes: routes}}, Relay: eventrelay.New(eventrelay.Options{})}
	defer s.Relay.Close()
	for i, path := range []string{"counters/c/shards/0", "posts/p/shards/0", "shards/0", "counters/c/shards/0/shards/0"} {
		e, err := eventrelay.NewEvent(fmt.Sprint(i), time.Now(), nil, &firestoredata.Document{Name: "projects/p/databases/(default)/documents/" + path})
		if err == nil {
			err = s.deliverShard(e)
		}
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	if n := s.Relay.Stats().Events; n != 1 {
		t.Errorf("%d events, want that of the shard alone", n)
	}
}

// A line of a log may be written in pieces.
func TestLineWriter(t *testing.T) {
	var lines []string
	w := &lineWriter{line: func(line []byte) { lines = append(lines, string(line)) }}
	for _, piece := range []string{"a", "b\nc\n", "", "d", "\ne"} {
		if n, err := w.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Fatal(n, err)
		}
	}
	if d := cmp.Diff([]string{"ab", "c", "d"}, lines); d != "" {
		t.Errorf("lines (-want +got):\n%s", d)
	}
}

// What ends a wait says what was waited for.
func TestCounter(t *testing.T) {
	client := emulatortest.Client(t)
	c, err := NewCounter(t.Context(), func(error) {}, client, "c")
	if err != nil {
		t.Fatal(err)
	}
	late := errors.New("not done in time")
	over, cancel := context.WithCancelCause(t.Context())
	cancel(late)
	wantLate := func(want string) {
		t.Helper()
		if err := c.awaitAll(over); !errors.Is(err, late) || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	wantLate("not done in time: no roll-up rollups/c was seen")
	if err := c.Add(t.Context()); err != nil {
		t.Fatal(err)
	}
	committed := c.History().Acknowledged[0]
	roll := func(asOf time.Time, count int) {
		t.Helper()
		_, err := client.Doc("rollups/c").Set(t.Context(), map[string]any{
			"count": count, "tally": map[string]any{"as_of": asOf, "num_shards": 1, "totals": []string{"count"}, "routes": "r"},
		})
		if err == nil {
			err = c.watch.Await(t.Context(), asOf)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	roll(committed.Add(-time.Second), 0)
	inUTC := func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
	wantLate(fmt.Sprintf("not done in time: rollups/c is as of %s, before %s", inUTC(committed.Add(-time.Second)), inUTC(committed)))
	roll(committed, 1)
	if err := c.awaitAll(over); err != nil {
		t.Error(err)
	}
	h := c.History()
	if len(h.RollUps) != 2 || h.last().Total.String() != "1" || h.last().Seen.IsZero() || h.last().Written.Before(committed) {
		t.Errorf("history %+v", h)
	}
}

// An increment that Firestore refuses is sent again until there is no more time, and then the error
// says why it was refused.
func TestRefusedIncrement(t *testing.T) {
	project := emulatortest.Project(t)
	client := emulatortest.ClientDatabase(t, project, firestore.DefaultDatabaseID)
	c := &Counter{Counter: shards.New(client, "counters/c"), ID: "c", watch: new(lag.Watch)}
	if err := c.CreateOncePerUser(t.Context()); err != nil { // such a counter takes no increments
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, errors.New("not done in time"))
	defer cancel()
	err := c.Add(ctx)
	if err == nil || !strings.Contains(err.Error(), "not done in time: increments of counters/c are refused: ") {
		t.Errorf("got %v", err)
	}
	if h := c.History(); len(h.Acknowledged)+h.InDoubt > 0 {
		t.Errorf("history %+v", h)
	}
}
