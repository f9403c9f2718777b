//go:build unix

package shared

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/test/needs"
	"github.com/firestore-tally/tally/internal/tool/local/emulator"
	"golang.org/x/sys/unix"
)

// need skips the test under -short, and fails it where no emulator can start.
func need(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs the Firestore emulator, which -short goes without")
	}
	if missing := needs.Missing(t.Context(), emulator.Find); missing != "" {
		t.Fatal("\n" + missing)
	}
}

// joins makes a child of this test binary join in a folder, say so, and wait for its end.
const joins = "SHARED_TEST_JOINS"

func TestJoins(t *testing.T) {
	folder := os.Getenv(joins)
	if folder == "" {
		return
	}
	m, err := join(t.Context(), folder, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	os.Stdout.WriteString(m.Addr() + "\n")
	select {}
}

// awaitEnd waits until a process of this machine, no child, has ended.
func awaitEnd(t *testing.T, pid int) {
	t.Helper()
	for syscall.Kill(pid, 0) == nil {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal("the host runs on")
		}
	}
}

// All that join at once get one emulator. It ends when the last member has gone, even one that was
// killed, and leaves no socket behind. The next to join gets another.
func TestJoin(t *testing.T) {
	need(t)
	folder := t.TempDir()

	const linger = time.Second
	var members [4]*Member
	var all sync.WaitGroup
	for i := range members {
		all.Go(func() {
			m, err := join(t.Context(), folder, linger)
			if err != nil {
				t.Error(err)
				return
			}
			members[i] = m
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	first := members[0]
	for _, m := range members {
		if m.Addr() != first.Addr() || m.Host() != first.Host() {
			t.Errorf("hosts %d at %s and %d at %s", first.Host(), first.Addr(), m.Host(), m.Addr())
		}
	}

	// The session, so that no Ctrl-C of the terminal reaches it.
	own, err := unix.Getsid(first.Host())
	if err != nil || own != first.Host() {
		t.Errorf("the host is %d, its session %d (%v)", first.Host(), own, err)
	}

	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestJoins$")
	child.Env = append(os.Environ(), joins+"="+folder)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, len(first.Addr()))
	if _, err := out.Read(said); err != nil || string(said) != first.Addr() {
		t.Errorf("another process got %s, want %s (%v)", said, first.Addr(), err)
	}

	for _, m := range members {
		if err := m.Check(); err != nil {
			t.Error(err)
		}
		if err := m.leave(); err != nil {
			t.Error(err)
		}
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // killed
	awaitEnd(t, first.Host())
	if err := emulator.Check(t.Context(), first.Addr()); err == nil {
		t.Error("the emulator runs on")
	}
	left, err := filepath.Glob(folder + "/tally-tests-*")
	if err != nil || len(left) != 2 || slices.ContainsFunc(left, func(file string) bool { return filepath.Ext(file) == "" }) {
		t.Errorf("left: %v (%v)", left, err)
	}

	again, err := join(t.Context(), folder, linger)
	if err != nil {
		t.Fatal(err)
	}
	if again.Host() == first.Host() {
		t.Error("joined a host that has ended")
	}
	if err := again.leave(); err != nil {
		t.Error(err)
	}
	awaitEnd(t, again.Host())
}

// A host that was killed takes its emulator with it. A member learns of it, and the next one
// starts another.
func TestHostKilled(t *testing.T) {
	need(t)
	folder := t.TempDir()
	m, err := join(t.Context(), folder, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(m.Host(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, m.Host())
	if m.Check() == nil {
		t.Error("a member does not learn that the host was killed")
	}

	again, err := join(t.Context(), folder, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Check(); err != nil {
		t.Error(err)
	}
	if err := again.leave(); err != nil {
		t.Error(err)
	}
	awaitEnd(t, again.Host())
}

// A host whose emulator uses much memory takes no new members. It ends when its last one has
// gone, and leaves the socket to the host that has come after it.
func TestFull(t *testing.T) {
	need(t)
	folder := t.TempDir()
	first, err := join(t.Context(), folder, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	name, err := nameOf(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(folder, name)
	log, err := os.OpenFile(collections(socket, first.Host()), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatalf("Java logs no collections: %v", err)
	}
	collected := func(megabytes int) {
		t.Helper()
		if _, err := fmt.Fprintf(log, "[9.87s][info][gc] GC(6) Pause Young (Allocation Failure) 700M->%dM(989M) 5.4ms\n", megabytes); err != nil {
			t.Fatal(err)
		}
	}

	collected(full)
	second, err := join(t.Context(), folder, time.Second)
	if err != nil || second.Host() != first.Host() {
		t.Fatalf("did not join a host that is not full: %v", err)
	}
	if err := second.leave(); err != nil {
		t.Error(err)
	}
	collected(full + 1)
	other, err := join(t.Context(), folder, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if other.Host() == first.Host() {
		t.Error("joined a full host")
	}
	if err := first.Check(); err != nil {
		t.Errorf("a full host sends its members away: %v", err)
	}

	if err := first.leave(); err != nil {
		t.Error(err)
	}
	awaitEnd(t, first.Host())
	if another, err := dial(socket, answerTimeout); err != nil || another.Host() != other.Host() {
		t.Errorf("after the end of the full one: %v", err)
	} else if err := another.leave(); err != nil {
		t.Error(err)
	}
	if err := other.leave(); err != nil {
		t.Error(err)
	}
	awaitEnd(t, other.Host())
}

// A host that listens and does not answer is not waited for.
func TestStopped(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	stopped, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer stopped.Close()
	if _, err := dial(socket, time.Millisecond); err == nil {
		t.Error("joined a host that does not answer")
	}
}

// A test binary that would start another emulator gets another host.
func TestName(t *testing.T) {
	folder := t.TempDir()
	jar, java := filepath.Join(folder, "a.jar"), filepath.Join(folder, "bin", "java")
	if err := os.Mkdir(filepath.Dir(java), 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(file, content string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write(jar, "")
	write(java, "")
	t.Setenv("FIRESTORE_EMULATOR_BINARY_PATH", jar)
	t.Setenv("JAVA_HOME", folder)
	name := func() string {
		t.Helper()
		name, err := nameOf(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return name
	}

	before := name()
	if again := name(); again != before {
		t.Errorf("%s, then %s", before, again)
	}
	seen := map[string]string{before: "nothing changed"}
	for _, change := range []struct {
		what string
		do   func()
	}{
		{"the jar's time", func() {
			if err := os.Chtimes(jar, time.Time{}, time.Unix(1, 0)); err != nil {
				t.Fatal(err)
			}
		}},
		{"the jar", func() {
			write(jar+"2", "")
			t.Setenv("FIRESTORE_EMULATOR_BINARY_PATH", jar+"2")
		}},
		{"Java", func() {
			write(java+"21", "")
			if err := os.Remove(java); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink("java21", java); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		change.do()
		if other, ok := seen[name()]; ok {
			t.Errorf("%s changed: the name is as when %s", change.what, other)
		}
		seen[name()] = change.what
	}
}
