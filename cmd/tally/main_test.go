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
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/emulator"
	"github.com/firestore-tally/tally/internal/emulator/emulatortest"
	"github.com/firestore-tally/tally/internal/framework"
	"github.com/firestore-tally/tally/internal/freeport"
	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
)

// asTally makes the test binary the command itself, which runs its functions processes by running
// its own executable.
const asTally = "TALLY_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asTally) != "" {
		main()
	}
	testscript.Main(withEmulator{m}, map[string]func(){"tally": mainOfTests})
}

type withEmulator struct{ *testing.M }

func (m withEmulator) Run() int { return emulatortest.Run(m.M, emulator.Options{}) }

// eventually bounds the waits; the machine may be slow.
const eventually = 3 * time.Minute

// freePorts returns the first of n ports in a row that nobody else gets until the test ends.
func freePorts(t *testing.T, n int) int {
	t.Helper()
	first, release, err := freeport.Hold(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return first
}

// command is a tally process.
type command struct {
	*exec.Cmd
	stdout, stderr bytes.Buffer
}

func tally(t *testing.T, args ...string) *command {
	t.Helper()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), eventually)
	t.Cleanup(cancel)
	c := &command{Cmd: exec.CommandContext(ctx, executable, args...)}
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
	t.Parallel() // it waits more than it works
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
	t.Parallel() // it waits more than it works
	c := tally(t, "demo", "--counters", "1", "--num-shards", "30", "--increments", "60", "--rate", "100", "--instances", "1", "--duplicates", "0.5",
		"--functions-port", strconv.Itoa(freePorts(t, 1)))
	c.Env = append(c.Env, "FIRESTORE_EMULATOR_HOST="+emulatortest.Addr())
	if err := c.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &c.stderr)
	}
	// On a machine that stands still for two seconds, the emulator gives up a lock, and the increment that
	// waited for it is in doubt.
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

// startDev starts tally dev and returns when it says that it runs, with what it prints from then
// on.
func startDev(t *testing.T, ports int, args ...string) (*command, *follower) {
	t.Helper()
	c := devAt(t, ports, args...)
	return c, c.follow(t)
}

func devAt(t *testing.T, ports int, args ...string) *command {
	t.Helper()
	return tally(t, append([]string{"dev", "--firestore-port", strconv.Itoa(ports), "--functions-port", strconv.Itoa(ports + 1), "--instances", "2"}, args...)...)
}

// follow starts the command and returns when it says that it runs.
func (c *command) follow(t *testing.T) *follower {
	t.Helper()
	c.Stdout = nil
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	f := c.start(t, out)
	f.await("Tally runs")
	return f
}

// followErrors starts the command, and follows its standard error.
func (c *command) followErrors(t *testing.T) *follower {
	t.Helper()
	c.Stderr = nil
	out, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	return c.start(t, out)
}

func (c *command) start(t *testing.T, out io.Reader) *follower {
	t.Helper()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return &follower{t: t, command: c, out: out}
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

// awaitExit reads what is still printed, and waits until the command has ended with the status.
func (f *follower) awaitExit(status int) {
	f.t.Helper()
	rest, _ := io.ReadAll(f.out) // ends with the command
	f.read.Write(rest)
	err := f.command.Wait()
	if got := f.command.ProcessState.ExitCode(); got != status {
		f.t.Errorf("ended with %v, want exit status %d\n%s\n%s", err, status, &f.read, &f.command.stderr)
	}
}

// increment adds 1 to a counter over REST, as any app can.
func increment(t *testing.T, port int, project, database, counter string) {
	t.Helper()
	database = "projects/" + project + "/databases/" + database
	commit(t, fmt.Sprintf("http://127.0.0.1:%d/v1/%s/documents:commit", port, database), fmt.Sprintf(`{"writes": [{"transform": {"document": "%s/documents/counters/%s/shards/0",
		"fieldTransforms": [{"fieldPath": "count", "increment": {"integerValue": 1}}]}}]}`, database, counter))
}

func commit(t *testing.T, address, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(body))
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
	c := devAt(t, ports, "--every", "100ms")
	c.Env = append(c.Env, "TALLY_LOG_LEVEL=DEBUG") // by the user: then all lines are shown
	out := c.follow(t)
	for _, want := range []string{fmt.Sprintf("127.0.0.1:%d, project demo-tally", ports), fmt.Sprintf("http://127.0.0.1:%d/RollUpOnWrite", ports+2), "connectFirestoreEmulator", "FIRESTORE_EMULATOR_HOST"} {
		out.await(want)
	}
	increment(t, ports, "demo-tally", "(default)", "likes")
	out.await("rollups/likes  count 1  1 shards  as of ")
	increment(t, ports, "demo-tally", "(default)", "likes")
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
	increment(t, ports, "demo-tally", "(default)", "likes")
	out.await("rollups/likes  count 3  1 shards  as of ")

	out.await("INFO  audited  report map[")
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	out.awaitExit(0)
	if c.stderr.Len() > 0 {
		t.Errorf("standard error: %s", &c.stderr)
	}
	wantNoListeners(t, ports, 3)
}

// A route that says "every" has no events: the schedule rolls it up.
func TestDevKeepsScheduledRoutes(t *testing.T) {
	const project = "demo-every"
	ports := freePorts(t, 3)
	c := devAt(t, ports, "--every", "2s", "--project", project, "--dashboard-port", "0")
	c.Env = append(c.Env, "TALLY_ROUTES=counters/{counter}/shards/{shard} -> rollups/{counter} : count : every 1s")
	out := c.follow(t)
	out.await("Add 1 from here")
	for n := 1; n <= 2; n++ {
		increment(t, ports, project, "(default)", "likes")
		out.await(fmt.Sprintf("rollups/likes  count %d  1 shards  as of ", n))
	}
	// A message a second tells how many events there were until then, and the first may be of before.
	read := out.readDashboard(func(read string) bool { return strings.Count(read, `"events":`) > 4 })
	if all := strings.Count(read, `"events":`); strings.Count(read, `"events":0,`) != all {
		t.Errorf("there were events: %s", read)
	}
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	out.awaitExit(0)
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
	c := devAt(t, ports, "--every", "1h") // it prints nothing by itself, so no broken pipe ends it
	c.Path, c.Args = "/bin/sh", append([]string{"sh", "-c", `"$0" "$@" & wait`}, c.Args...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.follow(t)
	t.Cleanup(func() { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }) // fails when nothing is left
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // killed
	wantNoListeners(t, ports, 3)
}

// recordedJava returns the environment in which each start of Java leaves its process id in the file, a
// line each.
func recordedJava(t *testing.T, file string) []string {
	t.Helper()
	java, err := exec.LookPath(filepath.Join(os.Getenv("JAVA_HOME"), "bin", "java"))
	if err != nil {
		java, err = exec.LookPath("java")
	}
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	if err := os.Mkdir(filepath.Join(home, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\necho $$ >>'%s'\nexec '%s' \"$@\"\n", file, java)
	if err := os.WriteFile(filepath.Join(home, "bin", "java"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return []string{"JAVA_HOME=" + home}
}

// killRecorded kills the process whose id is last in the file.
func killRecorded(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pids := strings.Fields(string(text))
	pid, err := strconv.Atoi(pids[len(pids)-1])
	if err == nil {
		err = syscall.Kill(pid, syscall.SIGKILL)
	}
	if err != nil {
		t.Fatal(err)
	}
}

const emulatorEnded = "tally: the Firestore emulator ended by itself: exit status "

// An emulator that ends ends what runs on it, which says so.
func TestDevsEmulatorEnds(t *testing.T) {
	ports, pid := freePorts(t, 3), filepath.Join(t.TempDir(), "pid")
	c := devAt(t, ports)
	c.Env = append(c.Env, recordedJava(t, pid)...)
	out := c.follow(t)
	killRecorded(t, pid)
	out.awaitExit(1)
	if !strings.Contains(c.stderr.String(), emulatorEnded) {
		t.Errorf("it did not say %q: %s", emulatorEnded, &c.stderr)
	}
	wantNoListeners(t, ports, 3)
}

// slowDemo starts a demo and returns in the middle of its load, which would go on for minutes.
func slowDemo(t *testing.T, ports int, env ...string) *follower {
	t.Helper()
	c := tally(t, "demo", "--kill", "--counters", "1", "--num-shards", "1", "--increments", "5", "--rate", "0.005", "--instances", "1",
		"--firestore-port", strconv.Itoa(ports), "--functions-port", strconv.Itoa(ports+1))
	c.Env = append(c.Env, env...)
	out := c.followErrors(t)
	out.await("killed functions process")
	return out
}

func TestDemosEmulatorEnds(t *testing.T) {
	t.Parallel() // it waits more than it works
	ports, pid := freePorts(t, 2), filepath.Join(t.TempDir(), "pid")
	out := slowDemo(t, ports, recordedJava(t, pid)...)
	killRecorded(t, pid)
	out.awaitExit(1)
	if !strings.Contains(out.read.String(), emulatorEnded) {
		t.Errorf("it did not say %q: %s", emulatorEnded, &out.read)
	}
	wantNoListeners(t, ports, 2)
}

func TestDemoIsInterrupted(t *testing.T) {
	t.Parallel() // it waits more than it works
	ports := freePorts(t, 2)
	out := slowDemo(t, ports)
	if err := out.command.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	out.awaitExit(interrupted)
	if !strings.Contains(out.read.String(), "tally: interrupt") {
		t.Errorf("it did not say why it ended: %s", &out.read)
	}
	wantNoListeners(t, ports, 2)
}

// A Ctrl-C while the emulator starts reaches every process of the terminal's. It ends all of them, and is
// no error.
func TestInterruptedAtStart(t *testing.T) {
	for _, test := range []struct {
		command string
		starts  int // of Java: the first asks for its version, the second is the emulator
		status  int
		stderr  string
	}{{"dev", 1, 0, ""}, {"dev", 2, 0, ""}, {"demo", 1, interrupted, "tally: interrupt signal received\n"}, {"demo", 2, interrupted, "tally: interrupt signal received\n"}} {
		t.Run(fmt.Sprintf("%s, Java's start %d", test.command, test.starts), func(t *testing.T) {
			ports, pids := freePorts(t, 3), filepath.Join(t.TempDir(), "pids")
			c := tally(t, test.command, "--firestore-port", strconv.Itoa(ports), "--functions-port", strconv.Itoa(ports+1))
			c.Env = append(c.Env, recordedJava(t, pids)...)
			c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			poll := time.NewTicker(time.Millisecond) // nothing tells when another process has written to a file
			defer poll.Stop()
			for deadline := time.After(eventually); ; {
				if text, err := os.ReadFile(pids); err == nil && len(strings.Fields(string(text))) == test.starts {
					break
				}
				select {
				case <-poll.C:
				case <-deadline:
					t.Fatalf("no start of Java: %s", &c.stderr)
				}
			}
			if err := syscall.Kill(-c.Process.Pid, syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			_ = c.Wait() // the status says how
			if status := c.ProcessState.ExitCode(); status != test.status || c.stderr.String() != test.stderr || c.stdout.Len() > 0 {
				t.Errorf("status %d, standard error %q, standard output %q; want %d, %q and nothing", status, &c.stderr, &c.stdout, test.status, test.stderr)
			}
			wantNoListeners(t, ports, 3)
		})
	}
}

// A Ctrl-C reaches every process of the terminal's, and a functions process leaves its end to its
// parent.
func TestFunctionsIgnoreInterrupt(t *testing.T) {
	c := tally(t, "functions")
	life, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output := framework.NewListener(&c.stdout)
	c.Stdout = output
	out := c.followErrors(t)
	i := &instance{ended: make(chan struct{})}
	if err := i.awaitReady(t.Context(), output.Port()); err != nil { // it ignores signals by then
		t.Fatal(err)
	}
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGHUP} {
		if err := c.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
	}
	res, err := http.Get(i.url("Nothing"))
	if err != nil {
		t.Fatalf("a signal ended it: %v", err)
	}
	res.Body.Close()
	if err := life.Close(); err != nil {
		t.Fatal(err)
	}
	out.awaitExit(0)
}

// Each route and each database has its trigger, and its roll-ups are shown.
func TestDevRoutesAndDatabases(t *testing.T) {
	ports := freePorts(t, 3)
	c := devAt(t, ports, "--every", "1h")
	c.Env = append(c.Env, "TALLY_DATABASES=(default),other", "TALLY_ROUTES=posts/{post}/shards/{shard} -> rollups/{post} : likes; counters/{c}/shards/{s} -> totals/{c} : count")
	out := c.follow(t)
	out.await("Add 1 from here")
	out.await("increment ")
	out.await("\n\n")
	increment(t, ports, "demo-tally", "(default)", "c")
	out.await("  totals/c  count 1  1 shards  as of ")
	increment(t, ports, "demo-tally", "other", "c")
	out.await("  other: totals/c  count 1  1 shards  as of ")
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	out.awaitExit(0)
}

// tally dev says once what a newcomer gets wrong: a field that is not the route's, and a client that the
// rules refuse.
func TestDevHints(t *testing.T) {
	ports := freePorts(t, 3)
	c, out := startDev(t, ports, "--dashboard=false")
	out.await("Add 1 from here")
	const root = "projects/demo-tally/databases/(default)/documents"
	address := fmt.Sprintf("http://127.0.0.1:%d/v1/%s:commit", ports, root)
	add := func(path, field string) string {
		return fmt.Sprintf(`{"writes": [{"transform": {"document": "%s/%s", "fieldTransforms": [{"fieldPath": "%s", "increment": {"integerValue": 1}}]}}]}`, root, path, field)
	}
	for range 2 {
		commit(t, address, add("counters/likes/shards/3", "Count"))
		out.await("counters/likes/shards/3 has Count, not count; to sum it, the route is counters/{counter}/shards/{shard} -> rollups/{counter} : Count\n")
		for _, path := range []string{"counters/likes/shards/4", "posts/7/shards/0"} {
			res, err := http.Post(address, "application/json", strings.NewReader(add(path, "count")))
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.StatusCode != http.StatusForbidden {
				t.Errorf("%s: %s, want it refused", path, res.Status)
			}
		}
		out.await("refused: create or update of counters/likes/shards/4 (count) by nobody signed in; firestore.rules line 25: allow create, update: if mayWrite() && ")
		out.await("refused: create or update of posts/7/shards/0 (count) by nobody signed in; no rule of firestore.rules allows it\n")
	}
	increment(t, ports, "demo-tally", "(default)", "last")
	out.await("rollups/last  count 1")
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	out.awaitExit(0)
	for _, once := range []string{" has Count", "refused: create or update of counters", "refused: create or update of posts"} {
		if n := strings.Count(out.read.String(), once); n != 1 {
			t.Errorf("%q was said %d times:\n%s", once, n, &out.read)
		}
	}
}

// What a user can get wrong, and what the error says.
func TestMistakes(t *testing.T) {
	another := httptest.NewServer(http.NotFoundHandler())
	defer another.Close()
	busyHost := another.Listener.Addr().String()
	busy := strconv.Itoa(another.Listener.Addr().(*net.TCPAddr).Port)
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
		{"an argument", []string{"dev", "now"}, nil, []string{`"now"`}},
		{"no counters", []string{"demo", "--counters", "0"}, nil, []string{"--counters 0: want at least 1"}},
		{"no rate", []string{"demo", "--rate", "0"}, nil, []string{"--rate 0: want more than 0"}},
		{"a tiny rate", []string{"demo", "--rate", "1e-9"}, nil, []string{"--rate 1e-09", "a day"}},
		{"nothing to kill in", []string{"demo", "--kill", "--increments", "16"}, nil, []string{"--kill", "15 of 16 increments are lone"}},
		{"a port too high", []string{"demo", "--functions-port", "65535"}, nil, []string{"--functions-port 65535", "65536"}},
		{"a port too low", []string{"demo", "--firestore-port", "-1"}, nil, []string{"--firestore-port -1: want a port up to 65535, or 0 for any"}},
		{"a function's port too low", []string{"demo", "--functions-port", "-1"}, nil, []string{"--functions-port -1", "or 0 for any"}},
		{"one port for two", []string{"demo", "--firestore-port", "8082", "--functions-port", "8080", "--instances", "3"}, nil, []string{"--firestore-port 8082", "8080 to 8082"}},
		{"a chance", []string{"demo", "--lost-acks", "1"}, nil, []string{"--lost-acks 1: want a chance"}},
		{"no instances", []string{"demo", "--instances", "0"}, nil, []string{"--instances 0: want at least 1"}},
		{"schedule", []string{"dev", "--every", "0s"}, nil, []string{"--every 0s: want more than 0"}},
		{"project id", []string{"dev", "--project", "My Project"}, nil, []string{`"My Project" is no project id`, "lower-case"}},
		{"route", []string{"dev"}, []string{"TALLY_ROUTES=counters/{c}/shards/{s} -> rollups/{s} : count"}, []string{"TALLY_ROUTES=", "uses the last capture {s}"}},
		{"a cadence that cannot be held", []string{"demo"}, []string{"TALLY_CADENCE=1m"}, []string{"TALLY_CADENCE=1m0s: want at most 1s", ": every 1m0s"}},
		{"Firestore's port", []string{"dev", "--firestore-port", busy, "--functions-port", functions}, nil, []string{busy, "in use", "--firestore-port"}},
		{"a function's port", []string{"dev", "--firestore-port", free, "--functions-port", busy}, nil, []string{"port " + busy + " is in use", "--functions-port"}},
		{"no rules", []string{"dev", "--firestore-port", free, "--functions-port", functions, "--rules", "no.rules"}, nil, []string{"no.rules", "--rules"}},
		{"no Java", []string{"dev", "--firestore-port", free, "--functions-port", functions}, []string{"PATH=" + nothing, "JAVA_HOME="}, []string{"Java", "install"}},
		{"no emulator", []string{"dev", "--firestore-port", free, "--functions-port", functions}, []string{"FIRESTORE_EMULATOR_BINARY_PATH=" + nothing + "/none.jar"}, []string{"none.jar"}},
		{"another emulator that is not there", []string{"demo", "--functions-port", functions}, []string{"FIRESTORE_EMULATOR_HOST=127.0.0.1:" + free},
			[]string{"FIRESTORE_EMULATOR_HOST=127.0.0.1:" + free + ": no Firestore emulator answers there; start it, as tally dev does, or name the one that runs"}},
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

// An emulator that is busy is not called absent.
func TestBusyEmulator(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0") // it takes connections, and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	const want = "what listens there is too busy to answer; try again when it has less to do"
	if err := checkEmulator(ctx, busy.Addr().String()); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
