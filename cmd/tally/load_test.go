package main

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/app"
	"github.com/firestore-tally/tally/internal/eventrelay"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/shards"
	"github.com/google/go-cmp/cmp"
	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
)

// A roll-up that differs from what was acknowledged must end the demo with an error, whatever the format.
func TestInexactDemoFails(t *testing.T) {
	var zero shards.Total
	for _, test := range []struct {
		acknowledged, inDoubt int64
		want                  error
		table                 string // a part of it
	}{
		{0, 0, nil, "c        0           0  exact"},
		{1, 0, errInexact, "c        1           0  WRONG"},
		{1, 5, errInexact, "WRONG"},
		{-1, 0, errInexact, "WRONG"},
		{-1, 1, nil, "exact but for increments in doubt"},
		{0, 7, nil, "7 increments, of which no answer tells"},
	} {
		for _, json := range []bool{false, true} {
			r := result{Expected: make(map[string]int64), RolledUp: make(map[string]int64), Exact: true, wrong: make(map[string]bool)}
			r.compare("good", 0, 0, zero)
			r.compare("c", test.acknowledged, test.inDoubt, zero)
			var out bytes.Buffer
			d := demo{out: &out, json: json}
			if err := d.report(r); !errors.Is(err, test.want) || (err == nil) != r.Exact {
				t.Errorf("%d acknowledged, %d in doubt, 0 rolled up: exact %v, error %v", test.acknowledged, test.inDoubt, r.Exact, err)
			}
			if !json && !strings.Contains(out.String(), test.table) {
				t.Errorf("the table lacks %q:\n%s", test.table, &out)
			}
			if strings.Contains(out.String(), "lone increment") || strings.Contains(out.String(), "quiet_lag_ms") {
				t.Errorf("a lag of lone increments, of which there were none: %s", &out)
			}
		}
	}
}

// The time limit and the relay's must leave room for whatever cadence and hold limit the environment
// sets.
func TestLimits(t *testing.T) {
	d := demo{counters: 20, increments: 2000, rate: 200}
	const cadence = 15 * time.Second
	if got, least := d.limit(cadence), 20*time.Second+20*3*cadence*5/2+10*cadence; got < least {
		t.Errorf("a demo of %+v may take %v, want at least %v", d, got, least)
	}
	for hold, want := range map[time.Duration]time.Duration{6 * time.Second: 10 * time.Second, 8 * time.Second: 10 * time.Second, 50 * time.Second: 52 * time.Second} {
		if got := deliveryTimeout(app.Config{HoldLimit: hold}); got != want {
			t.Errorf("the relay waits %v for an answer when events are held for %v, want %v", got, hold, want)
		}
	}
}

// Of a collection group, only what a trigger's pattern matches becomes an event.
func TestDeliverShard(t *testing.T) {
	routes, err := rollup.ParseRoutes("counters/{c}/shards/{s} -> rollups/{c} : count")
	if err != nil {
		t.Fatal(err)
	}
	s := &stack{config: app.Config{Routes: routes}, relay: eventrelay.New(eventrelay.Options{Logger: slog.New(slog.DiscardHandler)})}
	defer s.relay.Close()
	for i, path := range []string{"counters/c/shards/0", "posts/p/shards/0", "shards/0", "counters/c/shards/0/shards/0"} {
		e, err := eventrelay.NewEvent(fmt.Sprint(i), time.Now(), nil, &firestoredata.Document{Name: "projects/p/databases/(default)/documents/" + path})
		if err == nil {
			err = s.deliverShard(e)
		}
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	if n := s.relay.Stats().Events; n != 1 {
		t.Errorf("%d events, want that of the shard alone", n)
	}
}

func TestPercentile(t *testing.T) {
	var lags []time.Duration
	for i := range 100 {
		lags = append(lags, time.Duration(100-i)*time.Millisecond)
	}
	for p, want := range map[float64]float64{0: 1, 0.5: 50, 0.99: 99, 1: 100} {
		if got := percentile(lags, p); got != want {
			t.Errorf("p%v of 1 to 100 ms is %v, want %v", 100*p, got, want)
		}
	}
	if got := percentile(nil, 0.5); got != 0 {
		t.Errorf("of nothing: %v, want 0", got)
	}
}

func TestWatched(t *testing.T) {
	var w watched
	now := time.Now()
	at := func(ms int) time.Time { return now.Add(time.Duration(ms) * time.Millisecond) }
	w.incremented(at(-3000))
	w.incremented(at(-2000))
	w.incremented(at(-1000))
	w.rolledUp(at(-2000), at(-1900))
	if lags := w.takeLags(); len(lags) != 2 || slices.Max(lags) < 3*time.Second || slices.Min(lags) < 2*time.Second {
		t.Errorf("lags %v, want at least 3 s and 2 s: as_of covers what was committed at it", lags)
	}
	w.rolledUp(at(-500), at(-901))
	w.rolledUp(at(-400), at(-900))
	if lags := w.takeLags(); len(lags) != 1 || lags[0] < time.Second {
		t.Errorf("lags %v, want one of at least 1 s", lags)
	}
	if got := w.mostWithin(time.Second); got != 2 {
		t.Errorf("at most %d roll-ups within a second, want 2", got)
	}
}

// A demo that is not done in time says what it waits for.
func TestMissing(t *testing.T) {
	w := watched{id: "c"}
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	wants := func(want string) {
		t.Helper()
		if _, got := w.missing(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	wants("no roll-up rollups/c was seen")
	w.wasRefused(errors.New("not now"))
	wants("increments of counters/c are refused: not now")
	w.incremented(at.Add(time.Second))
	w.rolledUp(at, at)
	wants("rollups/c is as of 2026-11-21T10:00:00Z and does not cover 1 increments, the first of 2026-11-21T10:00:01Z")
	w.rolledUp(at.Add(time.Second), at)
	wants("")
	if n, _ := w.missing(); n != 1 {
		t.Errorf("%d acknowledged, want 1", n)
	}
}

func TestFunctionsEnvironment(t *testing.T) {
	got := functionsEnvironment([]string{"HOME=/", "FUNCTION_TARGET=RollUpOnWrite", "K_SERVICE=x", "TALLY_CADENCE=1s", "TALLY_USAGE_FILE=x"})
	if d := cmp.Diff([]string{"HOME=/", "TALLY_CADENCE=1s"}, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
