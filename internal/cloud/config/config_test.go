package config

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
)

// Nothing is configured by default but the project, which has no default.
func TestDefaults(t *testing.T) {
	if _, err := Load(nil); err == nil || !strings.Contains(err.Error(), "GOOGLE_CLOUD_PROJECT is not set") {
		t.Errorf("without a project: %v", err)
	}
	t.Setenv("TALLY_CADENCE", "2s") // of this process, which Load must not read
	c, err := Load(map[string]string{"GOOGLE_CLOUD_PROJECT": "p"})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Routes) != 1 || c.Routes[0].String() != route.Default {
		t.Errorf("routes are %v, want %s", c.Routes, route.Default)
	}
	if c.Cadence != time.Second || c.HoldLimit != 8*time.Second || c.LogLevel != slog.LevelInfo || len(c.Databases) != 1 || c.Databases[0] != "(default)" ||
		c.AuditReads != 50_000 || c.Burst != 5 || c.SchedulePeriod != SchedulePeriod {
		t.Errorf("got %+v", c)
	}
}

func TestConfigured(t *testing.T) {
	c, err := Load(map[string]string{
		"TALLY_ROUTES":               "a/{a}/s/{s} -> r/{a} : n; b/{b}/s/{s} -> q/{b} : n",
		"TALLY_CADENCE":              "15s",
		"TALLY_BURST":                "3",
		"TALLY_SCHEDULE_PERIOD":      "1m",
		"TALLY_HOLD_LIMIT":           "50s",
		"TALLY_LOG_LEVEL":            "debug",
		"TALLY_DATABASES":            " (default), europe-1",
		"TALLY_AUDIT_READS_PER_TICK": "7",
		"TALLY_KEEP_READS_PER_TICK":  "8",
		"GOOGLE_CLOUD_PROJECT":       "p",
		"CLOUD_RUN_TIMEOUT_SECONDS":  "60",
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Routes) != 2 || c.Cadence != 15*time.Second || c.HoldLimit != 50*time.Second || c.LogLevel != slog.LevelDebug ||
		strings.Join(c.Databases, " ") != "(default) europe-1" || c.Project != "p" || c.AuditReads != 7 || c.KeepReads != 8 || c.Burst != 3 || c.SchedulePeriod != time.Minute {
		t.Errorf("got %+v", c)
	}
}

func TestConfigProblems(t *testing.T) {
	for _, test := range []struct {
		environment map[string]string
		want        []string // parts of the message
	}{
		{map[string]string{"TALLY_ROUTES": "a -> b : n", "TALLY_CADENCE": "soon", "TALLY_HOLD_LIMIT": "8", "TALLY_LOG_LEVEL": "loud", "CLOUD_RUN_TIMEOUT_SECONDS": "x"},
			[]string{"TALLY_ROUTES: path of a collection: a", "\n  a -> b : n\n", "\n  ^\n", `TALLY_CADENCE="soon"`, `TALLY_HOLD_LIMIT="8"`, `TALLY_LOG_LEVEL="loud"`, `CLOUD_RUN_TIMEOUT_SECONDS="x"`}},
		{map[string]string{"TALLY_LOG_LEVEL": "loud", "TALLY_CADENCE": "-1s", "TALLY_HOLD_LIMIT": "9s", "CLOUD_RUN_TIMEOUT_SECONDS": "9", "TALLY_DATABASES": "x"},
			[]string{"TALLY_LOG_LEVEL=", "TALLY_CADENCE=-1s: want more than 0", "TALLY_HOLD_LIMIT=9s: want less", `"x" is not a database id`}},
		{map[string]string{"TALLY_DATABASES": "(default),, Orders,(default),a--b-,0abc," + strings.Repeat("d", 64) + ",f81d4fae-7dec-11d0-a765-00a0c91e6bf6"},
			[]string{`"" is not`, `"Orders" is not`, "names (default) twice", `"a--b-" is not`, `"0abc" is not`, `dd" is not`, `bf6" is not`}},
		{map[string]string{"TALLY_CADENCE": "25h"}, []string{"TALLY_CADENCE=25h0m0s: want at most 24h0m0s"}},
		{map[string]string{"TALLY_QUEUE": "projects/p/locations/l/queues/tally"}, []string{"TALLY_QUEUE_URL is not set; want the URL of RollUpOnWrite", "TALLY_QUEUE_ACCOUNT is not set; want the service account"}},
		{map[string]string{"TALLY_QUEUE": "projects/p/locations/l/queues/tally", "CLOUD_TASKS_EMULATOR_HOST": "127.0.0.1:9499"}, []string{"TALLY_QUEUE_URL is not set"}},
		{map[string]string{"TALLY_BURST": "0", "TALLY_SCHEDULE_PERIOD": "-1m"}, []string{"TALLY_BURST=0: want at least 1", "TALLY_SCHEDULE_PERIOD=-1m0s: want more than 0"}},
		{map[string]string{"TALLY_READS_PER_SECOND": "-1"}, []string{"TALLY_READS_PER_SECOND=-1: want at least 0"}},
		{map[string]string{"TALLY_CADENCE": "0s", "TALLY_SCHEDULE_PERIOD": "0s", "TALLY_KEEP_READS_PER_TICK": "0"},
			[]string{"TALLY_CADENCE=0s: want more than 0", "TALLY_SCHEDULE_PERIOD=0s: want more than 0", "TALLY_KEEP_READS_PER_TICK=0: want more than 0"}},
		{map[string]string{"TALLY_BURST": "many", "TALLY_SCHEDULE_PERIOD": "10"}, []string{`TALLY_BURST="many"`, `TALLY_SCHEDULE_PERIOD="10"`}},
		{map[string]string{"GOOGLE_CLOUD_PROJECT": ""}, []string{"GOOGLE_CLOUD_PROJECT is not set"}},
		{map[string]string{"TALLY_CADENCE": "-1s", "TALLY_HOLD_LIMIT": "5s"}, []string{"TALLY_CADENCE=-1s: want more than 0", "TALLY_HOLD_LIMIT=5s: want more than 5s"}},
		{map[string]string{"TALLY_AUDIT": "9m"}, []string{`TALLY_AUDIT="9m": want auto, or 10m to 168h`}},
		{map[string]string{"TALLY_AUDIT": "169h"}, []string{`TALLY_AUDIT="169h": want auto`}},
		{map[string]string{"TALLY_AUDIT": "never"}, []string{`TALLY_AUDIT="never": want auto`}},
		{map[string]string{"TALLY_AUDIT_READS_PER_TICK": "0"}, []string{"TALLY_AUDIT_READS_PER_TICK=0: want more than 0"}},
		{map[string]string{"TALLY_KEEP_READS_PER_TICK": "-1"}, []string{"TALLY_KEEP_READS_PER_TICK=-1: want more than 0"}},
		{map[string]string{"TALLY_AUDIT_READS_PER_TICK": "many"}, []string{`TALLY_AUDIT_READS_PER_TICK="many"`}},
		{map[string]string{"CLOUD_RUN_TIMEOUT_SECONDS": "8"}, []string{"TALLY_HOLD_LIMIT=8s: want less than the function's timeout, 8s"}},
	} {
		if _, given := test.environment["GOOGLE_CLOUD_PROJECT"]; !given {
			test.environment["GOOGLE_CLOUD_PROJECT"] = "p"
		}
		_, err := Load(test.environment)
		for _, want := range test.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v: got %v, want also %q", test.environment, err, want)
			}
		}
		if n := len(strings.Split(fmt.Sprint(err), "\n")); n != len(test.want) {
			t.Errorf("%v: got %d problems, want %d: %v", test.environment, n, len(test.want), err)
		}
	}
}

// Without a queue no cadence is longer than events can be held.
func TestCheckAlarms(t *testing.T) {
	environment := map[string]string{
		"GOOGLE_CLOUD_PROJECT": "p",
		"TALLY_CADENCE":        "1001ms",
		"TALLY_ROUTES":         "a/{a}/s/{s} -> r/{a} : n : cadence 10s\nb/{b}/s/{s} -> q/{b} : n\nc/{c}/s/{s} -> o/{c} : n : cadence 1s\nd/{d}/s/{s} -> e/{d} : count() where at > now - 24h as n",
	}
	c, err := Load(environment)
	if err != nil {
		t.Fatal(err)
	}
	const want = `TALLY_CADENCE=1.001s: without a queue (TALLY_QUEUE) want at most 1s, the longest through which TALLY_HOLD_LIMIT=8s can hold an event, (limit - 5s) / 3; ": every 1.001s" needs no queue
TALLY_ROUTES: route "a/{a}/s/{s} -> r/{a} : n : cadence 10s": cadence 10s: without a queue (TALLY_QUEUE) want at most 1s, the longest through which TALLY_HOLD_LIMIT=8s can hold an event, (limit - 5s) / 3; ": every 10s" needs no queue
TALLY_ROUTES: route "d/{d}/s/{s} -> e/{d} : count() where at > now - 24h as n": a total with a window needs a queue (TALLY_QUEUE), whose alarms have it rolled up when a document leaves`
	if d := cmp.Diff(want, fmt.Sprint(c.CheckAlarms())); d != "" {
		t.Errorf("without a queue (-want +got):\n%s", d)
	}

	environment["TALLY_QUEUE"], environment["TALLY_QUEUE_URL"] = "projects/p/locations/l/queues/tally", "https://tally.example"
	environment["TALLY_QUEUE_ACCOUNT"] = "tally@p.iam.gserviceaccount.com"
	if c.Billed() != 0 {
		t.Errorf("without a queue sums may bill %d reads a second", c.Billed())
	}

	c, err = Load(environment)
	enterprise := c
	enterprise.Edition = route.Enterprise
	if enterprise.Billed() != 9 {
		t.Errorf("on Enterprise sums may bill %d reads a second", enterprise.Billed())
	}
	if err != nil || c.CheckAlarms() != nil || c.Billed() != 50 {
		t.Errorf("with a queue: %v, %v", err, c.CheckAlarms())
	}
}
