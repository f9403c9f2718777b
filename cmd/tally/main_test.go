//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/emulator"
	"github.com/firestore-tally/tally/internal/emulator/emulatortest"
	"github.com/google/go-cmp/cmp"
)

// asTally makes the test binary the command itself, which runs its functions processes by running
// its own executable.
const asTally = "TALLY_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asTally) != "" {
		main()
	}
	emulatortest.Main(m, emulator.Options{})
}

// eventually bounds the waits; the machine may be slow.
const eventually = 90 * time.Second

// freePorts returns n ports in a row that are free now.
func freePorts(t *testing.T, n int) int {
	t.Helper()
next:
	for range 20 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		first := l.Addr().(*net.TCPAddr).Port
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		for port := first; port < first+n; port++ {
			if port > 65535 || checkPort(port) != nil {
				continue next
			}
		}
		return first
	}
	t.Fatalf("no %d free ports in a row", n)
	return 0
}

// command is a tally process.
type command struct {
	*exec.Cmd
	stdout, stderr bytes.Buffer
}

func tally(t *testing.T, args ...string) *command {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), eventually)
	t.Cleanup(cancel)
	c := &command{Cmd: exec.CommandContext(ctx, os.Args[0], args...)}
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = 10 * time.Second
	c.Dir = filepath.Join("..", "..") // where firestore.rules is
	c.Env = append(slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "FIRESTORE_EMULATOR_HOST=") || strings.HasPrefix(variable, "TALLY_")
	}), asTally+"=1")
	temporary := t.TempDir()
	c.Env = append(c.Env, "TMPDIR="+temporary)
	t.Cleanup(func() {
		left, err := os.ReadDir(temporary)
		if killed := c.ProcessState != nil && !c.ProcessState.Exited(); err != nil || len(left) > 0 && !killed {
			t.Errorf("left behind: %v, %v", left, err)
		}
	})
	c.Stdout, c.Stderr = &c.stdout, &c.stderr
	return c
}

func TestDemo(t *testing.T) {
	ports := freePorts(t, 3)
	c := tally(t, "demo", "--json", "--kill", "--lost-acks", "0.2", "--counters", "2", "--shards", "4", "--increments", "300", "--rate", "150",
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
	if number("events") < 300 || number("redelivered") < 20 || number("rollup_writes") < 4 || number("reads") < 2*number("rollup_writes") ||
		number("seconds") <= 0 || number("writes_per_counter_per_second_max") < 1 || number("writes_per_counter_per_second_max") > 2 {
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
	wantNoListeners(t, ports, 3)
}

// wantNoListeners waits until nothing listens at the ports any more.
func wantNoListeners(t *testing.T, first, n int) {
	t.Helper()
	poll := time.NewTicker(10 * time.Millisecond) // the processes are not this one's children, so nothing tells when they end
	defer poll.Stop()
	deadline := time.After(eventually)
	for port := first; port < first+n; {
		err := checkPort(port)
		if err == nil {
			port++
			continue
		}
		select {
		case <-poll.C:
		case <-deadline:
			t.Fatalf("a process was left behind: %v", err)
		}
	}
}

// With an emulator that somebody else started, the events come from listeners.
func TestDemoOnAnotherEmulator(t *testing.T) {
	c := tally(t, "demo", "--counters", "1", "--shards", "3", "--increments", "60", "--rate", "100", "--instances", "1", "--duplicates", "0.5",
		"--functions-port", strconv.Itoa(freePorts(t, 1)))
	c.Env = append(c.Env, "FIRESTORE_EMULATOR_HOST="+emulatortest.Addr())
	if err := c.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &c.stderr)
	}
	for _, want := range []string{"demo-1   60          60  exact", "60 of 60 acknowledged", "lag", "billed", "roll-ups"} {
		if !strings.Contains(c.stdout.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, &c.stdout)
		}
	}
	if strings.Contains(c.stdout.String(), "redelivered 0 times") {
		t.Errorf("no event came twice:\n%s", &c.stdout)
	}
}

// startDev starts tally dev and returns when it says that it runs, with what it prints from then
// on.
func startDev(t *testing.T, ports int, args ...string) (*command, *follower) {
	t.Helper()
	c := devAt(t, ports, args...)
	return c, c.follow(t)
}

func devAt(t *testing.T, ports int, args ...string) *command {
	t.Helper()
	c := tally(t, append([]string{"dev", "--firestore-port", strconv.Itoa(ports), "--functions-port", strconv.Itoa(ports + 1), "--instances", "2"}, args...)...)
	c.Env = append(c.Env, "TALLY_LOG_LEVEL=INFO")
	return c
}

// follow starts the command and returns when it says that it runs.
func (c *command) follow(t *testing.T) *follower {
	t.Helper()
	c.Stdout = nil
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	f := &follower{t: t, command: c, out: out}
	f.await("Tally runs")
	return f
}

// A follower reads what a command prints.
type follower struct {
	t       *testing.T
	command *command
	out     io.Reader
	read    strings.Builder
}

// await reads until the text was printed.
func (f *follower) await(text string) {
	f.t.Helper()
	chunk := make([]byte, 4096)
	for !strings.Contains(f.read.String(), text) {
		n, err := f.out.Read(chunk)
		f.read.Write(chunk[:n])
		if err != nil {
			_ = f.command.Wait()
			f.t.Fatalf("%q was not printed: %v\n%s\n%s", text, err, &f.read, &f.command.stderr)
		}
	}
}

// increment adds 1 to a counter over REST, as any app can.
func increment(t *testing.T, port int, project, counter string) {
	t.Helper()
	database := "projects/" + project + "/databases/(default)"
	body := fmt.Sprintf(`{"writes": [{"transform": {"document": "%s/documents/counters/%s/shards/0",
		"fieldTransforms": [{"fieldPath": "count", "increment": {"integerValue": 1}}]}}]}`, database, counter)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, fmt.Sprintf("http://127.0.0.1:%d/v1/%s/documents:commit", port, database), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Authorization": {"Bearer owner"}, "Content-Type": {"application/json"}}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		answer, _ := io.ReadAll(res.Body)
		t.Fatalf("%s: %s", res.Status, answer)
	}
}

func TestDev(t *testing.T) {
	ports := freePorts(t, 3)
	c, out := startDev(t, ports, "--every", "100ms")
	for _, want := range []string{fmt.Sprintf("127.0.0.1:%d, project demo-tally", ports), fmt.Sprintf("http://127.0.0.1:%d/RollUpOnWrite", ports+2), "connectFirestoreEmulator", "FIRESTORE_EMULATOR_HOST"} {
		out.await(want)
	}
	increment(t, ports, "demo-tally", "likes")
	out.await("rollups/likes  count 1  1 shards  as of ")
	increment(t, ports, "demo-tally", "likes")
	out.await("rollups/likes  count 2  1 shards  as of ")

	// A functions process that dies is replaced.
	var pid int
	_, line, _ := strings.Cut(out.read.String(), "  functions   process ")
	if _, err := fmt.Sscanf(line, "%d", &pid); err != nil {
		t.Fatalf("no process id in %q: %v", line, err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	out.await("starting another")
	increment(t, ports, "demo-tally", "likes")
	out.await("rollups/likes  count 3  1 shards  as of ")

	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("Ctrl-C ended it with %v\n%s", err, &c.stderr)
	}
	if !strings.Contains(c.stderr.String(), `"message":"swept"`) {
		t.Errorf("RollUpOnSchedule was not called: %s", &c.stderr)
	}
	wantNoListeners(t, ports, 3)
}

// However tally dies, its children die with it.
func TestDevIsKilled(t *testing.T) {
	ports := freePorts(t, 3)
	c, _ := startDev(t, ports)
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // killed
	wantNoListeners(t, ports, 3)
}

// Nor may it outlive "go run", which is its parent and does not pass on what kills it.
func TestDevsParentIsKilled(t *testing.T) {
	ports := freePorts(t, 3)
	c := devAt(t, ports)
	c.Path, c.Args = "/bin/sh", append([]string{"sh", "-c", `"$0" "$@" & wait`}, c.Args...)
	c.follow(t)
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // killed; returns when tally, which writes to the same pipe, has ended too
	wantNoListeners(t, ports, 3)
}

// What a user can get wrong, and what the error says.
func TestMistakes(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	busyHost := taken.Addr().String()
	busy := strconv.Itoa(taken.Addr().(*net.TCPAddr).Port)
	ports := freePorts(t, 3)
	free, functions := strconv.Itoa(ports), strconv.Itoa(ports+1)
	nothing := t.TempDir()
	for _, test := range []struct {
		name string
		args []string
		env  []string
		want []string
	}{
		{"unknown command", []string{"deomo"}, nil, []string{`unknown command "deomo"`, "demo"}},
		{"unknown flag", []string{"demo", "--couners", "3"}, nil, []string{"unknown flag: --couners", "tally demo --help"}},
		{"flag's type", []string{"demo", "--shards", "many"}, nil, []string{`"many"`, "--shards", "tally demo --help"}},
		{"an argument", []string{"dev", "now"}, nil, []string{`"now"`}},
		{"no counters", []string{"demo", "--counters", "0"}, nil, []string{"--counters 0: want at least 1"}},
		{"no rate", []string{"demo", "--rate", "0"}, nil, []string{"--rate 0: want more than 0"}},
		{"a chance", []string{"demo", "--lost-acks", "1"}, nil, []string{"--lost-acks 1: want a chance"}},
		{"no instances", []string{"demo", "--instances", "0"}, nil, []string{"--instances 0: want at least 1"}},
		{"schedule", []string{"dev", "--every", "0s"}, nil, []string{"--every 0s: want more than 0"}},
		{"project id", []string{"dev", "--project", "My Project"}, nil, []string{`--project "My Project" is no project id`, "lower-case"}},
		{"route", []string{"dev"}, []string{"TALLY_ROUTES=counters/{c}/shards/{s} -> rollups/{s} : count"}, []string{"TALLY_ROUTES=", "uses the shard's capture {s}"}},
		{"cadence", []string{"dev"}, []string{"TALLY_CADENCE=1m"}, []string{"TALLY_CADENCE=1m0s: want at most 1s"}},
		{"Firestore's port", []string{"dev", "--firestore-port", busy, "--functions-port", functions}, nil, []string{busy, "in use", "--firestore-port"}},
		{"a function's port", []string{"dev", "--firestore-port", free, "--functions-port", busy}, nil, []string{"port " + busy + " is in use", "--functions-port"}},
		{"no rules", []string{"dev", "--firestore-port", free, "--functions-port", functions, "--rules", "no.rules"}, nil, []string{"no.rules", "--rules"}},
		{"no Java", []string{"dev", "--firestore-port", free, "--functions-port", functions}, []string{"PATH=" + nothing, "JAVA_HOME="}, []string{"Java", "install"}},
		{"no emulator", []string{"dev", "--firestore-port", free, "--functions-port", functions}, []string{"FIRESTORE_EMULATOR_BINARY_PATH=" + nothing + "/none.jar"}, []string{"none.jar"}},
		{"another emulator that is not there", []string{"demo", "--functions-port", functions}, []string{"FIRESTORE_EMULATOR_HOST=127.0.0.1:" + free},
			[]string{"FIRESTORE_EMULATOR_HOST=127.0.0.1:" + free, "no Firestore emulator answers there", "unset"}},
		{"another program's port", []string{"demo", "--functions-port", functions}, []string{"FIRESTORE_EMULATOR_HOST=" + busyHost}, []string{"no Firestore emulator answers there"}},
		{"an emulator without a port", []string{"dev", "--functions-port", functions}, []string{"FIRESTORE_EMULATOR_HOST=localhost"}, []string{"FIRESTORE_EMULATOR_HOST=localhost", "host:port"}},
		{"an emulator's URL", []string{"dev", "--functions-port", functions}, []string{"FIRESTORE_EMULATOR_HOST=http://127.0.0.1:8080"}, []string{"host:port"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := tally(t, test.args...)
			c.Env = append(c.Env, test.env...)
			err := c.Run()
			if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 1 {
				t.Errorf("ended with %v, want exit status 1", err)
			}
			for _, want := range test.want {
				if !strings.Contains(c.stderr.String(), want) {
					t.Errorf("got %q, want also %q", &c.stderr, want)
				}
			}
			if c.stdout.Len() > 0 || strings.Contains(c.stderr.String(), "goroutine") {
				t.Errorf("standard output %q, standard error %q", &c.stdout, &c.stderr)
			}
		})
	}
}
