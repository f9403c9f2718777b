package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/firestore-tally/tally/internal/framework"
)

const loopback = "127.0.0.1"

// An instance is one functions process.
type instance struct {
	port   int
	cmd    *exec.Cmd
	life   io.Closer // the process ends when this is closed
	ended  chan struct{}
	reason error // why it ended; valid after ended
}

// startInstance starts a functions process at port, or at any that is free if port is 0, with the
// environment variables, and returns when it serves.
func startInstance(ctx context.Context, port int, variables []string, logs io.Writer) (*instance, error) {
	if err := checkPort(port); err != nil {
		return nil, fmt.Errorf("functions: %w; choose others with --functions-port", err)
	}
	executable, err := os.Executable()
	if err != nil {
		return nil, err
	}
	i := &instance{ended: make(chan struct{})}
	output := framework.NewListener(nil)
	i.cmd = exec.Command(executable, "functions", "--port", strconv.Itoa(port)) // not CommandContext: stop decides when it ends
	i.cmd.Env = append(functionsEnvironment(os.Environ()), variables...)
	i.cmd.Stdout, i.cmd.Stderr = output, logs
	inOwnGroup(i.cmd)
	if i.life, err = i.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := i.cmd.Start(); err != nil {
		return nil, fmt.Errorf("functions: %w", err)
	}
	go func() {
		i.reason = i.cmd.Wait()
		close(i.ended)
	}()
	if err := i.awaitReady(ctx, output.Port()); err != nil {
		i.stop()
		if port != 0 {
			return nil, fmt.Errorf("functions at port %d: %w", port, err)
		}
		return nil, fmt.Errorf("functions: %w", err)
	}
	return i, nil
}

// functionsEnvironment returns environment without what a process on Cloud Run would have and this
// one must not.
func functionsEnvironment(environment []string) []string {
	var kept []string
	for _, variable := range environment {
		switch name, _, _ := strings.Cut(variable, "="); name {
		case "FUNCTION_TARGET", "K_SERVICE": // one function at every path; logs flushed with empty lines
		case "TALLY_USAGE_FILE": // a file for one process only
		default:
			kept = append(kept, variable)
		}
	}
	return kept
}

// readyWithin bounds the wait for a functions process. It takes a fraction of a second, or several
// seconds on a machine that has other work to do. One that cannot serve ends at once.
const readyWithin = 2 * time.Minute

// awaitReady waits until the process tells the port where it serves.
func (i *instance) awaitReady(ctx context.Context, port <-chan int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyWithin, fmt.Errorf("not ready after %v", readyWithin))
	defer cancel()
	select {
	case i.port = <-port:
		return nil
	case <-i.ended:
		return fmt.Errorf("ended at once: %w", i.reason)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// url returns the address of one of the functions.
func (i *instance) url(function string) string {
	return fmt.Sprintf("http://%s:%d/%s", loopback, i.port, function)
}

// stop ends the process and waits for its end.
func (i *instance) stop() {
	_ = i.life.Close()
	select {
	case <-i.ended:
	case <-time.After(5 * time.Second):
		i.kill()
	}
}

// kill ends the process as kill -9 does, and waits for its end.
func (i *instance) kill() {
	_ = i.cmd.Process.Kill() // it may have ended already
	<-i.ended
}

// callSchedule calls RollUpOnSchedule.
func (i *instance) callSchedule(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, i.url("RollUpOnSchedule"), nil)
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

// checkPort reports whether something listens at port.
func checkPort(port int) error {
	l, err := listen(port)
	if err != nil {
		return err
	}
	return l.Close()
}

// listen listens at port.
func listen(port int) (net.Listener, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("port %d is in use", port)
	}
	if err != nil {
		return nil, fmt.Errorf("port %d: %w", port, err)
	}
	return l, nil
}
