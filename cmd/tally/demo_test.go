//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/firestore-tally/tally/internal/tool/local"
	"github.com/google/go-cmp/cmp"
)

// A roll-up that differs from what was acknowledged must end the demo with an error, whatever the
// format.
func TestInexactDemoFails(t *testing.T) {
	for _, test := range []struct {
		result local.Result
		want   error
		table  string // a part of it
	}{
		{local.Result{Exact: true, Expected: map[string]int64{"c": 0}, RolledUp: map[string]int64{"c": 0}}, nil, "c        0           0  exact"},
		{local.Result{Expected: map[string]int64{"c": 1}, Wrong: map[string]bool{"c": true}}, errInexact, "c        1           0  WRONG"},
		{local.Result{Exact: true, Expected: map[string]int64{"c": 1}, RolledUp: map[string]int64{"c": 2}, InDoubt: 7}, nil, "exact except for increments in doubt"},
		{local.Result{Exact: true, InDoubt: 7}, nil, "7 increments, of which no answer tells"},
	} {
		for _, json := range []bool{false, true} {
			var out bytes.Buffer
			d := demo{out: &out, json: json}
			if err := d.report(test.result); !errors.Is(err, test.want) {
				t.Errorf("%+v: error %v, want %v", test.result, err, test.want)
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

func TestDemo(t *testing.T) {
	t.Parallel()
	ports := freePorts(t, 3)
	c := tally(t, "demo", "--json", "--kill", "--lost-acks", "0.2", "--counters", "2", "--num-shards", "40", "--increments", "300", "--rate", "150",
		"--clients", "4", "--firestore-port", strconv.Itoa(ports), "--functions-port", strconv.Itoa(ports+1))
	if err := c.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &c.stderr)
	}
	var got map[string]any
	if err := json.Unmarshal(c.stdout.Bytes(), &got); err != nil || bytes.Count(c.stdout.Bytes(), []byte("\n")) != 1 {
		t.Fatalf("standard output is not one JSON object: %v\n%s", err, &c.stdout)
	}
	want := map[string]any{"demo-1": 150.0, "demo-2": 150.0}
	if d := cmp.Diff(want, got["expected"]); d != "" {
		t.Errorf("expected (-want +got):\n%s", d)
	}
	if d := cmp.Diff(want, got["rolled_up"]); d != "" {
		t.Errorf("rolled_up (-want +got):\n%s", d)
	}
	number := func(name string) float64 { n, _ := got[name].(float64); return n }
	if number("increments") != 300 || number("acknowledged") != 300 || got["exact"] != true {
		t.Errorf("not exact: %s", &c.stdout)
	}
	if number("rollups_seen") < 1 || number("in_doubt") != 0 {
		t.Errorf("implausible: %s", &c.stdout)
	}
	if number("events") < 300 || number("redelivered") < 20 || number("rollup_writes") < 4 || number("reads") < 2*number("rollup_writes") ||
		number("seconds") <= 0 || number("writes_per_counter_per_second_max") < 1 || number("writes_per_counter_per_second_max") > 6 { // 5 may follow each other at once
		t.Errorf("implausible: %s", &c.stdout)
	}
	if !strings.Contains(c.stderr.String(), "killed functions process") {
		t.Errorf("nothing was killed: %s", &c.stderr)
	}
	lag, _ := got["lag_ms"].(map[string]any)
	quiet, _ := got["quiet_lag_ms"].(map[string]any)
	if lag["p50"] == nil || lag["p99"] == nil || lag["max"] == nil || quiet["p50"] == nil || lag["max"].(float64) < lag["p50"].(float64) {
		t.Errorf("lags: %s", &c.stdout)
	}
	wantNoListeners(t, ports, ports+1, ports+2)
}

// With a cadence for which events cannot be held, the demo has a queue that makes alarms.
func TestDemoOfAlarms(t *testing.T) {
	t.Parallel()
	c := tally(t, "demo", "--json", "--kill", "--duplicates", "0.3", "--counters", "1", "--increments", "100", "--rate", "25", "--functions-port", "0")
	c.Env = append(append(c.Env, "TALLY_CADENCE=2s"), onShared(t)...)
	if err := c.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &c.stderr)
	}
	var got local.Result
	if err := json.Unmarshal(c.stdout.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if !got.Exact || got.RolledUp["demo-1"] != 100 || got.Lag.Max < 1000 || got.QuietLag.P50 > got.Lag.P50 {
		t.Errorf("%s", &c.stdout)
	}
}

// With an emulator that somebody else started, the events come from listeners.
func TestDemoOnAnotherEmulator(t *testing.T) {
	t.Parallel()
	c := tally(t, "demo", "--counters=1", "--num-shards=auto", "--increments=60", "--rate=100", "--instances=1", "--duplicates=0.5", "--functions-port=0")
	c.Env = append(append(c.Env, "TALLY_CADENCE=200ms"), onShared(t)...)
	if err := c.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &c.stderr)
	}
	// On a machine that stands still for two seconds, the emulator gives up a lock, and the
	// increment that waited for it is in doubt.
	doubted := 0
	if m := regexp.MustCompile(`in doubt +(\d+) increments`).FindStringSubmatch(c.stdout.String()); m != nil {
		doubted, _ = strconv.Atoi(m[1])
	}
	acknowledged := fmt.Sprint(60 - doubted)
	for _, want := range []string{"demo-1   " + acknowledged, "  exact", acknowledged + " of 60 acknowledged", "of a lone increment", "seen by listeners", "lag", "billed", "roll-ups"} {
		if !strings.Contains(c.stdout.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, &c.stdout)
		}
	}
	if strings.Contains(c.stdout.String(), "redelivered 0 times") {
		t.Errorf("no event came twice:\n%s", &c.stdout)
	}
}

// slowDemo starts a demo and returns in the middle of its load, which would go on for minutes.
func slowDemo(t *testing.T, ports int, env ...string) *follower {
	t.Helper()
	c := tally(t, "demo", "--kill", "--counters", "1", "--num-shards", "1", "--increments", "5", "--rate", "0.005", "--instances", "1",
		"--firestore-port", strconv.Itoa(ports), "--functions-port", strconv.Itoa(ports+1))
	c.Env = append(append(c.Env, "TALLY_CADENCE=100ms"), env...) // counters are soon idle
	out := c.followErrors(t)
	out.await("killed functions process")
	return out
}

func TestDemosEmulatorEnds(t *testing.T) {
	t.Parallel()
	ports, pid := freePorts(t, 2), filepath.Join(t.TempDir(), "pid")
	out := slowDemo(t, ports, recordedJava(t, pid)...)
	killRecorded(t, pid)
	out.awaitExit(1)
	if !strings.Contains(out.read.String(), emulatorEnded) {
		t.Errorf("it did not say %q: %s", emulatorEnded, &out.read)
	}
	wantNoListeners(t, ports, ports+1)
}

func TestDemoIsInterrupted(t *testing.T) {
	t.Parallel()
	ports := freePorts(t, 2)
	out := slowDemo(t, ports, onShared(t)...)
	if err := out.command.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	out.awaitExit(interrupted)
	if !strings.Contains(out.read.String(), "tally: interrupt") {
		t.Errorf("it did not say why it ended: %s", &out.read)
	}
	wantNoListeners(t, ports, ports+1)
}
