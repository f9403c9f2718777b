package local

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/firestore-tally/tally/internal/tool/local/framework"
	"github.com/firestore-tally/tally/internal/tool/local/freeport"
)

// Serve is the main function of a functions process. It serves the registered functions at a port,
// or at any that is free if port is 0, and tells the parent which. It ends the process when its
// standard input ends: when the parent has ended, in whatever way.
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
	reason error // why it ended; valid once Ended is closed
}

// readyWithin bounds the wait until a functions process serves. That takes a fraction of a second,
// or several seconds on a busy machine. A process that cannot serve ends at once.
const readyWithin = 2 * time.Minute

// StartProcess starts cmd, a functions process, and returns when the channel told brings its port.
// The caller ends the process by Kill. The context bounds only the start.
func StartProcess(ctx context.Context, cmd *exec.Cmd, told <-chan int) (*Process, error) {
	_, err := cmd.StdinPipe() // stays open as long as this process lives; see Serve
	if err != nil {
		return nil, err
	}
	err = cmd.Start()
	if err != nil {
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
	return "http://" + freeport.HostPort(p.Port) + "/" + function
}

// Kill ends the process as kill -9 does, and waits for its end.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended already
	<-p.Ended
}

// callSchedule calls RollUpOnSchedule. An answer other than 200 is an error with the function's
// report.
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
	if err != nil {
		return err
	}

	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", res.Status, report)
	}
	return nil
}

// A lineWriter calls line with each whole line that is written to it, without the line break.
type lineWriter struct {
	begun []byte // the line that is not whole yet
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
