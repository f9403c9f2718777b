package local

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/firestore-tally/tally/internal/local/framework"
)

// Serve serves the registered functions at a port, or at any that is free if port is 0, and tells
// the parent which. It is what a functions process runs. The process ends when its standard input
// does. That happens when its parent ends, however it ends.
func Serve(port int) error {
	// A Ctrl-C may reach every process of the terminal. The parent decides when this one ends.
	signal.Ignore(os.Interrupt, syscall.SIGHUP)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	return framework.Serve(port, framework.Tell)
}

// A Process is a functions process.
type Process struct {
	Port  int
	Pid   int
	Ended <-chan struct{} // closed when the process has ended

	cmd    *exec.Cmd
	reason error // why it ended; valid once it has
}

// readyWithin bounds the wait for a functions process. It takes a fraction of a second, or several
// seconds on a busy machine. A process that cannot serve ends at once.
const readyWithin = 2 * time.Minute

// StartProcess starts cmd, a functions process, and returns when its port comes from told. The
// caller ends the process by Kill; the context bounds only the start.
func StartProcess(ctx context.Context, cmd *exec.Cmd, told <-chan int) (*Process, error) {
	if _, err := cmd.StdinPipe(); err != nil { // the process ends when this does, with its parent
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	p := &Process{Pid: cmd.Process.Pid, Ended: ended, cmd: cmd}
	go func() {
		p.reason = cmd.Wait()
		close(ended)
	}()
	ctx, cancel := context.WithTimeoutCause(ctx, readyWithin, fmt.Errorf("not ready after %v", readyWithin))
	defer cancel()
	select {
	case p.Port = <-told:
		return p, nil
	case <-ended:
		return nil, fmt.Errorf("ended at once: %w", p.reason)
	case <-ctx.Done():
		p.Kill()
		return nil, context.Cause(ctx)
	}
}

// URL returns the address of one of the functions.
func (p *Process) URL(function string) string {
	return "http://" + net.JoinHostPort(loopback, strconv.Itoa(p.Port)) + "/" + function
}

// Kill ends the process as kill -9 does, and waits for its end.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended already
	<-p.Ended
}

func (p *Process) callSchedule(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL("RollUpOnSchedule"), nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	report, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", res.Status, report)
	}
	return err
}

// A lineWriter calls itself with each line that is written to it.
type lineWriter struct {
	begun []byte // a line that is not whole yet
	line  func([]byte)
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.begun = append(w.begun, p...)
	for {
		line, rest, whole := bytes.Cut(w.begun, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		w.line(line)
		w.begun = rest
	}
}
