package config

import (
	"maps"
	"testing"
	"time"

	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
)

func configured(t *testing.T, variables map[string]string) Config {
	t.Helper()
	environment := map[string]string{"GOOGLE_CLOUD_PROJECT": "demo-app"}
	maps.Copy(environment, variables)
	c, err := Load(environment)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTickTime(t *testing.T) {
	const every = route.Default + " : every 1s"
	for _, test := range []struct {
		timeout, routes string
		work, reserve   time.Duration
	}{
		{"", route.Default, 615 * time.Second, 45 * time.Second},
		{"660", route.Default, 615 * time.Second, 45 * time.Second},
		{"660", every, 600 * time.Second, 45 * time.Second},
		{"60", every, 45 * time.Second, 15 * time.Second},
	} {
		c := configured(t, map[string]string{"CLOUD_RUN_TIMEOUT_SECONDS": test.timeout, "TALLY_ROUTES": test.routes})
		if work, reserve := c.TickTime(); work != test.work || reserve != test.reserve {
			t.Errorf("timeout %q, %s: %v and %v, want %v and %v", test.timeout, test.routes, work, reserve, test.work, test.reserve)
		}
	}
}

// An alarm that waits for a sum is answered before the function's time is up.
func TestLongTimeout(t *testing.T) {
	for _, test := range []struct {
		timeout, hold string
		want          time.Duration
	}{
		{"", "8s", 45 * time.Second},
		{"60", "8s", 45 * time.Second},
		{"60", "20s", 35 * time.Second},
		{"30", "8s", 17 * time.Second},
		{"3600", "8s", 45 * time.Second},
	} {
		c := configured(t, map[string]string{"CLOUD_RUN_TIMEOUT_SECONDS": test.timeout, "TALLY_HOLD_LIMIT": test.hold})
		if got := c.LongTimeout(); got != test.want {
			t.Errorf("timeout %q, hold limit %s: %v, want %v", test.timeout, test.hold, got, test.want)
		}
	}
}

func TestAckDeadline(t *testing.T) {
	for limit, want := range map[string]time.Duration{"6s": 30 * time.Second, "8s": 30 * time.Second, "28.5s": 30 * time.Second, "30s": 32 * time.Second, "50s": 52 * time.Second} {
		if got := configured(t, map[string]string{"TALLY_HOLD_LIMIT": limit, "TALLY_CADENCE": "300ms"}).AckDeadline(); got != want {
			t.Errorf("hold limit %s: %v, want %v", limit, got, want)
		}
	}
}

// An audit obeys the same pace as events do. Its calls may take longer than those for which an
// event is held.
func TestAuditOptions(t *testing.T) {
	c := configured(t, map[string]string{"TALLY_CADENCE": "500ms", "TALLY_BURST": "3"})
	want := rollup.AuditOptions{
		Options:     rollup.Options{Cadence: 500 * time.Millisecond, Burst: 3, Timeout: 45 * time.Second},
		Concurrency: 32,
		Grace:       31500 * time.Millisecond,
	}
	if d := cmp.Diff(want, c.AuditOptions(nil)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// A long hold makes a long grace, which no audit waits for.
func TestGraceOfAudits(t *testing.T) {
	for limit, want := range map[string]time.Duration{"8s": 32 * time.Second, "59s": 134 * time.Second, "1h": 0} {
		for _, routes := range []string{route.Default, route.Default + "; pages/{p}/shards/{s} -> totals/{p} : views : every 1s"} {
			// As tally dev has it: only calls of the schedule end with their period.
			c := configured(t, map[string]string{"TALLY_HOLD_LIMIT": limit, "TALLY_ROUTES": routes, "TALLY_SCHEDULE_PERIOD": "1m"})
			if got := c.AuditOptions(nil).Grace; got != want {
				t.Errorf("hold limit %s, %s: %v, want %v", limit, routes, got, want)
			}
		}
	}
}

// By "auto", a month's audits read 3.3 million documents at most while a cycle takes an hour to a
// day. On an emulator each call is a cycle, unless the variable says otherwise.
func TestTakes(t *testing.T) {
	for _, test := range []struct {
		audit, emulator string
		reads           int64
		want            time.Duration
	}{
		{"auto", "", 0, time.Hour},
		{"auto", "", 4_000, time.Hour},
		{"auto", "", 33_000, 432 * time.Minute},
		{"auto", "", 100_000_000, 24 * time.Hour},
		{"auto", "localhost:8080", 33_000, 0},
		{"30m", "localhost:8080", 33_000, 30 * time.Minute},
		{"168h", "", 4_000, 168 * time.Hour},
	} {
		c := configured(t, map[string]string{"TALLY_AUDIT": test.audit, "FIRESTORE_EMULATOR_HOST": test.emulator})
		if got := c.Takes(test.reads); got.Round(time.Second) != test.want {
			t.Errorf("%+v: %v", test, got)
		}
	}
}

// What audits found is told for two of their cycles.
func TestTwoCycles(t *testing.T) {
	for audit, want := range map[string]time.Duration{"auto": 48 * time.Hour, "10m": 24 * time.Hour, "13h": 26 * time.Hour, "168h": 336 * time.Hour} {
		if got := configured(t, map[string]string{"TALLY_AUDIT": audit}).TwoCycles(); got != want {
			t.Errorf("%s: %v, want %v", audit, got, want)
		}
	}
}
