//go:build unix

package emulator

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// childVariable makes the test binary a program that starts an emulator, prints the process ids of
// emulator and guard, and waits to be killed.
const childVariable = "EMULATOR_TEST_CHILD"

func childMain() {
	e, err := Start(context.Background(), Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	java, err := programOf(e.Pid())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(java, e.Pid())
	select {}
}

func TestParentKilled(t *testing.T) {
	needJava(t)
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command(exe)
	child.Env = append(os.Environ(), childVariable+"=1")
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	kill(t, child.Process.Pid)
	_ = child.Wait() // it was killed
	if err != nil {
		t.Fatalf("child did not start an emulator: %v", err)
	}
	var java, guard int
	if _, err := fmt.Sscan(line, &java, &guard); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	if java == guard || java <= 0 || guard <= 0 {
		t.Fatalf("emulator is process %d, guard %d", java, guard)
	}
	waitGone(t, java)
	waitGone(t, guard)
}

func TestEmulatorKilled(t *testing.T) {
	t.Parallel()
	e := start(t, Options{})
	java := program(t, e.process)
	kill(t, java)
	<-e.Done()
	wantError(t, e.Stop(), "137") // 128 and the signal's number, as a shell reports it
	wantError(t, e.Stop(), "137")
	waitGone(t, java)
	waitGone(t, e.Pid())
}

func TestGuardKilled(t *testing.T) {
	p, err := startProcess(io.Discard, "/bin/sh", "-c", "echo up; exec /bin/sleep 1000")
	if err != nil {
		t.Fatal(err)
	}
	sleep := program(t, p)
	kill(t, p.pid)
	<-p.done
	waitGone(t, sleep)
	wantError(t, p.stop(), "killed")
}

func TestProcessLeavesNothing(t *testing.T) {
	p, err := startProcess(io.Discard, "/bin/sh", "-c", "echo up; exec /bin/sleep 1000")
	if err != nil {
		t.Fatal(err)
	}
	sleep := program(t, p)
	if err := p.stop(); err != nil {
		t.Error(err)
	}
	for _, pid := range []int{p.pid, sleep} {
		// Not even a zombie: each is reaped by its own parent, whatever process 1 does.
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d is left: %v", pid, err)
		}
	}
}

func TestProgramNotExecutable(t *testing.T) {
	p, err := startProcess(io.Discard, writeFile(t, "java", ""))
	if err != nil {
		t.Fatal(err)
	}
	<-p.done
	wantError(t, p.stop(), "exit status 126")
	wantError(t, errors.New(p.output.quote()), "ermission denied")
}

// program waits until a process has started its program, and returns its process id.
func program(t *testing.T, p *process) int {
	t.Helper()
	for t.Context().Err() == nil {
		pid, err := programOf(p.pid)
		switch {
		case err == nil:
			return pid
		case !errors.Is(err, errNoProgram):
			t.Fatal(err)
		}
		select {
		case <-p.done:
			t.Fatalf("no program: %v%s", p.exit, p.output.quote())
		case <-time.After(5 * time.Millisecond):
		}
	}
	return 0
}

var errNoProgram = errors.New("the guard has no program")

// programOf returns the program of a guard: the other process of its group. Without one the error
// is errNoProgram.
func programOf(guard int) (int, error) {
	out, err := exec.Command("/bin/ps", "-A", "-o", "pgid=,pid=").Output()
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(out)) {
		var group, pid int
		if _, err := fmt.Sscan(line, &group, &pid); err == nil && group == guard && pid != guard {
			return pid, nil
		}
	}
	return 0, errNoProgram
}

func kill(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// waitGone waits until a process has ended.
func waitGone(t *testing.T, pid int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) && !isZombie(pid) {
		select {
		case <-poll.C:
		case <-ctx.Done():
			t.Fatalf("process %d is still there", pid)
		}
	}
}

// isZombie reports, on Linux, that a process has ended and is not reaped: some containers have a
// process 1 that never does.
func isZombie(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(state, "Z")
}

func readPid(t *testing.T, path string) int {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}
