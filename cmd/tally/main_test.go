//go:build unix

package main

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/firestore-tally/tally/cmd/tally/session"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/internal/tool/local/freeport"
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

func (m withEmulator) Run() int {
	return emulatortest.Run(m.M)
}

// freePorts returns the first of n ports in a row that no other program gets until the test ends.
func freePorts(t *testing.T, n int) int {
	t.Helper()
	for {
		first, release, err := freeport.Hold(0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(release)
		port := first + 1
		for ; err == nil && port < first+n; port++ {
			if _, release, err = freeport.Hold(port); err == nil {
				t.Cleanup(release)
			}
		}
		if err == nil { // else another one is behind the first
			return first
		}
	}
}

// A process is a tally that runs.
type process struct {
	*exec.Cmd
	stdout, stderr bytes.Buffer
}

func tally(t *testing.T, args ...string) *process {
	t.Helper()
	emulatortest.Need(t)
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), emulatortest.Eventually())
	t.Cleanup(cancel)
	c := &process{Cmd: exec.CommandContext(ctx, executable, args...)}
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = 10 * time.Second
	c.Dir = filepath.Join("..", "..") // where firestore.rules is
	c.Env = append(slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "FIRESTORE_EMULATOR_HOST=") || strings.HasPrefix(variable, "TALLY_")
	}), asTally+"=1")
	temporary := t.TempDir()
	c.Env = append(c.Env, "TMPDIR="+temporary)
	t.Cleanup(func() {
		if c.Process != nil && c.ProcessState == nil { // the test failed before it ended the command
			cancel()
			_ = c.Wait()
		}
		left, err := os.ReadDir(temporary)
		if killed := c.ProcessState != nil && !c.ProcessState.Exited(); err != nil || len(left) > 0 && !killed {
			t.Errorf("left behind: %v, %v", left, err)
		}
	})
	c.Stdout, c.Stderr = &c.stdout, &c.stderr
	return c
}

// emulators returns the folder of this machine that keeps emulators, and archives of their classes.
func emulators(t *testing.T) string {
	t.Helper()
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	return cmp.Or(os.Getenv("FIREBASE_EMULATORS_PATH"), filepath.Join(home, ".cache", "firebase", "emulators"))
}

// wantNoListeners waits until nothing listens at the ports any more.
func wantNoListeners(t *testing.T, ports ...int) {
	t.Helper()
	poll := time.NewTicker(10 * time.Millisecond) // the processes are not this one's children, so nothing tells when they end
	defer poll.Stop()
	deadline := time.After(emulatortest.Eventually())
	for _, n := range ports {
		for err := check(port{"port", n, 1}); err != nil; err = check(port{"port", n, 1}) {
			select {
			case <-poll.C:
			case <-deadline:
				t.Fatalf("a process was left behind: %v", err)
			}
		}
	}
}

// follow starts the command and returns when it says that it runs.
func (c *process) follow(t *testing.T) *follower {
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
func (c *process) followErrors(t *testing.T) *follower {
	t.Helper()
	c.Stderr = nil
	out, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	return c.start(t, out)
}

func (c *process) start(t *testing.T, out io.Reader) *follower {
	t.Helper()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return &follower{t: t, command: c, out: out}
}

// A follower reads what a command prints.
type follower struct {
	t       *testing.T
	command *process
	out     io.Reader
	read    strings.Builder
}

// await reads until the text was printed.
func (f *follower) await(text string) {
	f.t.Helper()
	f.awaitCount(text, 1)
}

// awaitCount reads until the text was printed n times.
func (f *follower) awaitCount(text string, n int) {
	f.t.Helper()
	chunk := make([]byte, 4096)
	for strings.Count(f.read.String(), text) < n {
		read, err := f.out.Read(chunk)
		f.read.Write(chunk[:read])
		if err != nil {
			_ = f.command.Wait()
			f.t.Fatalf("%q was not printed %d times: %v\n%s\n%s", text, n, err, &f.read, &f.command.stderr)
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

// What a user can get wrong, and what the error says.
func TestMistakes(t *testing.T) {
	another := httptest.NewServer(http.NotFoundHandler())
	defer another.Close()
	busyHost := another.Listener.Addr().String()
	busy := strconv.Itoa(another.Listener.Addr().(*net.TCPAddr).Port)
	ports := freePorts(t, 3)
	free, functions := strconv.Itoa(ports), strconv.Itoa(ports+1)
	nothing := t.TempDir()
	t.Chdir("../..") // where firestore.rules is
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
		{"a port too high", []string{"demo", "--functions-port", "65535"}, nil, []string{"--functions-port 65535: want a port up to 65534"}},
		{"a port too low", []string{"demo", "--firestore-port", "-1"}, nil, []string{"--firestore-port -1: want a port up to 65535, or 0 for any"}},
		{"a function's port too low", []string{"demo", "--functions-port", "-1"}, nil, []string{"--functions-port -1", "or 0 for any"}},
		{"one port for two", []string{"demo", "--firestore-port", strconv.Itoa(ports + 2), "--functions-port", free, "--instances", "3"}, nil, []string{"port " + strconv.Itoa(ports+2) + " is in use; choose another with --firestore-port"}},
		{"a chance", []string{"demo", "--lost-acks", "1"}, nil, []string{"--lost-acks 1: want a chance"}},
		{"no instances", []string{"demo", "--instances", "0"}, nil, []string{"--instances 0: want at least 1"}},
		{"schedule", []string{"dev", "--every", "0s"}, nil, []string{"--every 0s: want more than 0"}},
		{"project id", []string{"dev", "--project", "My Project"}, nil, []string{`"My Project" is not a project id`, "lowercase"}},
		{"route", []string{"dev"}, []string{"TALLY_ROUTES=counters/{c}/shards/{s} -> rollups/{s} : count"}, []string{"TALLY_ROUTES: {s} is the document's own ID", "-> rollups/{s} : count\n", " ^\n"}},
		{"a cadence of more than a day", []string{"demo"}, []string{"TALLY_CADENCE=25h"}, []string{"TALLY_CADENCE=25h0m0s: want at most 24h0m0s"}},
		{"Firestore's port", []string{"dev", "--firestore-port", busy, "--functions-port", functions}, nil, []string{busy, "in use", "--firestore-port"}},
		{"a function's port", []string{"dev", "--firestore-port", free, "--functions-port", busy}, nil, []string{"port " + busy + " is in use", "--functions-port"}},
		{"no rules", []string{"dev", "--firestore-port", free, "--functions-port", functions, "--rules", "no.rules"}, nil, []string{"no.rules", "--rules"}},
		{"rules without end", []string{"dev", "--firestore-port", free, "--functions-port", functions, "--rules", "/dev/zero"}, nil, []string{"--rules: rules: /dev/zero: is not a regular file: name one"}},
		{"rules of a folder", []string{"demo", "--firestore-port", free, "--functions-port", functions, "--rules", nothing}, nil, []string{"is not a regular file: name one"}},
		{"no emulator", []string{"dev", "--firestore-port", free, "--functions-port", functions}, []string{"FIRESTORE_EMULATOR_BINARY_PATH=" + nothing + "/none.jar"}, []string{"none.jar"}},
		{"another emulator that is not there", []string{"demo", "--functions-port", functions}, []string{"FIRESTORE_EMULATOR_HOST=127.0.0.1:" + free},
			[]string{"FIRESTORE_EMULATOR_HOST=127.0.0.1:" + free + ": no Firestore emulator answers there; tally dev starts one there, or name the one that runs"}},
		{"another program's port", []string{"demo", "--functions-port", functions}, []string{"FIRESTORE_EMULATOR_HOST=" + busyHost}, []string{"no Firestore emulator answers there"}},
		{"an emulator without a port", []string{"dev", "--functions-port", functions}, []string{"FIRESTORE_EMULATOR_HOST=localhost"}, []string{"FIRESTORE_EMULATOR_HOST=localhost", "host:port"}},
		{"an emulator's URL", []string{"dev", "--functions-port", functions}, []string{"FIRESTORE_EMULATOR_HOST=http://127.0.0.1:8080"}, []string{"host:port"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("FIRESTORE_EMULATOR_HOST", "")
			for _, variable := range test.env {
				name, value, _ := strings.Cut(variable, "=")
				t.Setenv(name, value)
			}
			var stdout, stderr bytes.Buffer
			if status := run(t.Context(), test.args, &stdout, &stderr); status != 1 {
				t.Errorf("ended with status %d, want 1", status)
			}
			for _, want := range test.want {
				if !strings.Contains(stderr.String(), want) {
					t.Errorf("got %q, want also %q", &stderr, want)
				}
			}
			if stdout.Len() > 0 {
				t.Errorf("standard output %q, standard error %q", &stdout, &stderr)
			}
		})
	}
}

// heardOnce is closed by the first write.
type heardOnce struct {
	text string
	done chan struct{}
}

func (h *heardOnce) Write(text []byte) (int, error) {
	h.text = string(text)
	close(h.done)
	return len(text), nil
}

// A program that takes connections and never answers is named within seconds, long before an
// emulator would be given up.
func TestSilentProgram(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	heard := heardOnce{done: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-heard.done
		cancel()
	}()

	err = session.CheckEmulator(ctx, silent.Addr().String(), &heard)
	want := "tally: a program listens at " + silent.Addr().String() + ", and has not answered for 3s: "
	if err == nil || !strings.HasPrefix(heard.text, want) {
		t.Errorf("got %v and %q, want %q", err, heard.text, want)
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
	const want = "the program that listens there is too busy to answer; try again when it has less to do"
	if err := session.CheckEmulator(ctx, busy.Addr().String(), io.Discard); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
