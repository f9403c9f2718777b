//go:build unix

package e2e

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/freeport"
)

// A process is a functions process, or one after another in the same place, behind its own proxy.
type process struct {
	proxy  *proxy
	binary string // what runs; empty: this test binary
	env    []string
	logs   buffer // of all that were in this place

	port    string
	cmd     *exec.Cmd
	ended   chan struct{} // closed when cmd has ended
	freezes int           // how often it was seen to be frozen
}

// url returns the address of RollUpOnWrite.
func (p *process) url() string {
	return "http://" + net.JoinHostPort(loopback, p.port) + "/RollUpOnWrite"
}

// executable is this test binary.
var executable = func() string {
	path, err := os.Executable()
	if err != nil {
		log.Fatal(err)
	}
	return path
}()

// start starts a process and returns when it serves.
func (p *process) start(ctx context.Context, t testing.TB) {
	t.Helper()
	const attempts = 3 // another may take the port that was free
	var err error
	for range attempts {
		if err = p.startOnce(ctx); err == nil {
			return
		}
	}
	t.Fatalf("functions process: %v\n%s", err, p.logs.tail())
}

func (p *process) startOnce(ctx context.Context) error {
	port, err := freeport.Row(1)
	if err != nil {
		return err
	}
	p.port = strconv.Itoa(port)
	p.cmd = exec.Command(cmp.Or(p.binary, executable))
	p.cmd.Env = append(p.env, asFunctions+"="+p.port, "PORT="+p.port) // and nothing of this process's own
	p.cmd.Stdout, p.cmd.Stderr = &p.logs, &p.logs
	if _, err := p.cmd.StdinPipe(); err != nil { // closed when the process has ended
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	ended, cmd := make(chan struct{}), p.cmd
	p.ended = ended
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		conn, err := net.Dial("tcp", net.JoinHostPort(loopback, p.port))
		if err == nil {
			return conn.Close()
		}
		select {
		case <-poll.C:
		case <-ended:
			return fmt.Errorf("ended at once: %v", cmd.ProcessState)
		case <-ctx.Done():
			p.kill()
			return context.Cause(ctx)
		}
	}
}

// kill ends the process by SIGKILL, a frozen one too.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended already
	<-p.ended
}

// freeze stops the process by SIGSTOP and returns when it has stopped.
func (p *process) freeze(t testing.TB) {
	t.Helper()
	pid := p.cmd.Process.Pid
	signal(t, pid, syscall.SIGSTOP)
	var state syscall.WaitStatus
	_, err := syscall.Wait4(pid, &state, syscall.WUNTRACED, nil)
	for errors.Is(err, syscall.EINTR) {
		_, err = syscall.Wait4(pid, &state, syscall.WUNTRACED, nil)
	}
	if err != nil || !state.Stopped() {
		t.Fatalf("process %d has not stopped: %v, %v", pid, state, err)
	}
	p.freezes++
}

// thaw has a frozen process go on.
func (p *process) thaw(t testing.TB) { signal(t, p.cmd.Process.Pid, syscall.SIGCONT) }

func signal(t testing.TB, pid int, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		t.Fatalf("%v to process %d: %v", s, pid, err)
	}
}

// A buffer may be written and read by many goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// bytes returns what was written so far.
func (b *buffer) bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Clone(b.b.Bytes())
}

// tail returns the end of it.
func (b *buffer) tail() []byte {
	all := b.bytes()
	return all[max(0, len(all)-8<<10):]
}
