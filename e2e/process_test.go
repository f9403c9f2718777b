//go:build unix

package e2e

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/tool/local/framework"
	"github.com/firestore-tally/tally/internal/tool/local/freeport"
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
	return "http://" + net.JoinHostPort(freeport.Loopback, p.port) + "/RollUpOnWrite"
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
	if err := p.startOnce(ctx); err != nil {
		t.Fatalf("functions process: %v\n%s", err, p.logs.tail())
	}
}

func (p *process) startOnce(ctx context.Context) error {
	output := framework.NewListener()
	p.cmd = exec.Command(cmp.Or(p.binary, executable))
	p.cmd.Env = append(p.env, asFunctions+"=1") // and nothing of this process's own
	p.cmd.Stdout, p.cmd.Stderr = io.MultiWriter(output, &p.logs), &p.logs
	told := output.Port()
	if p.binary != "" { // it does not report its address, but no one else can listen where it is told to
		port, release, err := freeport.Hold(0)
		if err != nil {
			return err
		}
		defer release()
		p.cmd.Env = append(p.cmd.Env, "PORT="+strconv.Itoa(port))
		told = listening(ctx, port)
	}
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
	select {
	case port := <-told:
		p.port = strconv.Itoa(port)
		return nil
	case <-ended:
		return fmt.Errorf("ended at once: %v", cmd.ProcessState)
	case <-ctx.Done():
		p.kill()
		return context.Cause(ctx)
	}
}

// listening sends the port when somebody listens there.
func listening(ctx context.Context, port int) <-chan int {
	told := make(chan int, 1)
	go func() {
		poll := time.NewTicker(10 * time.Millisecond)
		defer poll.Stop()
		for {
			if conn, err := net.Dial("tcp", freeport.HostPort(port)); err == nil {
				_ = conn.Close()
				told <- port
				return
			}
			select {
			case <-poll.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return told
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
