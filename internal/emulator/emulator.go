// Package emulator finds, starts and stops Google's own Firestore emulator.
//
// The emulator is a Java program of one jar file. [Start] puts together what it takes to run it:
//
//   - a jar that is on the machine already: the Google Cloud CLI's, the Firebase CLI's or one that [Download] fetched (find.go);
//   - a Java that is new enough for that jar (java.go, jar.go);
//   - a child process that cannot outlive its parent, however the parent dies (process_unix.go);
//   - the wait until the emulator answers, and an error that names the remedy when it does not (this file, diagnose.go).
//
// [Clear] and [RegisterTrigger] are calls that only the emulator has, and no Firestore SDK offers (admin.go). It also tells
// which requests of clients its rules refused (refusals.go).
//
// An emulator keeps its documents in memory and starts empty. Project ids are separate databases in it, so parallel tests
// share an emulator and take a project each; see package emulatortest.
package emulator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/firestore-tally/tally/internal/freeport"
)

const (
	// startTimeout bounds the wait for the first answer. A start takes 0.7 s on two idle cores, and some ten seconds when
	// much other work has them. An emulator that cannot start mostly ends at once, so the bound may be generous.
	startTimeout = 3 * time.Minute

	// pollEvery is how often a starting emulator is asked whether it is ready: seldom enough to cost a start nothing, often
	// enough to add nothing that one notices.
	pollEvery = 20 * time.Millisecond

	// portAttempts is how many free ports Start tries. Where freeport cannot hold one it can be taken before Java listens on
	// it. That happens rarely once, and hardly twice.
	portAttempts = 3
)

// Options says which emulator to start. The zero value starts one on a free port, without rules and without events.
type Options struct {
	// Port is the TCP port on 127.0.0.1; 0 takes a free one.
	Port int

	// Rules is the path of a security rules file. An empty path starts without rules: everybody may do everything.
	Rules string

	// Functions is the host:port to which the emulator posts document events, once a trigger is registered.
	// Empty: events go nowhere.
	Functions string

	// Output receives what the emulator prints. Writes come from one goroutine; an error from Output ends the copying,
	// not the emulator. A writer that blocks will in time block the emulator. Nil keeps only the tail that a failed
	// start reports.
	Output io.Writer

	// Fetch is called when there is no emulator on the machine, and returns the path of one; [Download] is the usual
	// content. Nil: Start returns ErrNotFound instead.
	Fetch func(ctx context.Context) (jar string, err error)
}

// An Emulator is a running emulator, from [Start] until it is stopped or ends by itself.
// Its methods may be called from any goroutine.
type Emulator struct {
	addr    string
	feed    string // address of the feed of clients' requests; "": it has none
	process *process
}

// Start starts an emulator and returns when it answers, which takes about a second and at most three minutes, Fetch not counted.
// The emulator is the caller's to stop; should the caller's process die first, even by SIGKILL, the emulator ends with it
// (on Unix only, see process_other.go).
//
// Start returns [ErrNoJava] or [ErrNotFound] when that is what the machine lacks. Every error says what to do about it,
// and holds the last lines that the emulator printed, if it printed any. Cancelling ctx ends the start, never an emulator
// that was returned.
func Start(ctx context.Context, o Options) (*Emulator, error) {
	rules, err := readRules(o.Rules)
	if err != nil {
		return nil, err
	}
	if o.Functions != "" {
		if _, _, err := net.SplitHostPort(o.Functions); err != nil {
			return nil, fmt.Errorf("emulator: where to post events is not of the form host:port: %w", err)
		}
	}
	// A port in use is told before all that is slow, and again before the start of Java.
	if err := checkPort(o.Port); err != nil {
		return nil, err
	}
	java, err := findJava(ctx)
	if err != nil {
		return nil, err
	}
	jar, err := findJar(ctx, java, o.Fetch)
	if err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		e, err := launch(ctx, java, jar, o, rules)
		if o.Port == 0 && errors.Is(err, errPortInUse) && attempt < portAttempts {
			continue
		}
		return e, err
	}
}

// Addr returns host and port, as FIRESTORE_EMULATOR_HOST wants them: "127.0.0.1:port".
func (e *Emulator) Addr() string { return e.addr }

// Pid returns the process id of the emulator itself, the Java process.
func (e *Emulator) Pid() int { return e.process.pid }

// Done returns a channel that is closed when the emulator has ended, by Stop or by itself, and its output is written.
func (e *Emulator) Done() <-chan struct{} { return e.process.done }

// Stop ends the emulator, with all that it holds, and returns when it is gone. It returns nil if the emulator ran until
// then, or else an error that says how the emulator ended by itself. Calling it again changes nothing and returns the same.
func (e *Emulator) Stop() error { return e.process.stop() }

// launch starts Java once and waits until it serves the rules asked for. What it started and does not return, it has ended.
func launch(ctx context.Context, java javaRuntime, jar jarFile, o Options, rules string) (*Emulator, error) {
	port := o.Port
	if port == 0 {
		held, release, err := freeport.Hold(1)
		if err != nil {
			return nil, fmt.Errorf("emulator: %w", err)
		}
		defer release()
		port = held
	} else if err := checkPort(port); err != nil {
		return nil, err
	}
	addr := net.JoinHostPort(loopback, strconv.Itoa(port))
	// The language is the one that diagnose reads. No flag makes the start worth its price: of the serial collector, the
	// first compiler only, no performance data and no bytecode verification, the best (the compiler) saved 0.1 s of 0.7 s,
	// and it would slow down all that comes after.
	args := append([]string{"-Duser.language=en"}, jar.arguments()...)
	args = append(args, "--host="+loopback, "--port="+strconv.Itoa(port))
	if o.Rules != "" {
		args = append(args, "--rules="+o.Rules)
	}
	if o.Functions != "" {
		args = append(args, "--functions_emulator="+o.Functions)
	}
	p, err := startProcess(o.Output, java.path, args...)
	if err != nil {
		return nil, fmt.Errorf("emulator: start %s: %w", java.path, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("no answer from %s within %v", addr, startTimeout))
	defer cancel()
	err = awaitReady(ctx, p, addr, port)
	if err == nil && o.Rules != "" {
		err = checkRules(ctx, addr, o.Rules, rules)
	}
	if err != nil {
		_ = p.stop() // err is the news; how the process ended is its consequence or already in it
		return nil, err
	}
	return &Emulator{addr: addr, feed: feedAddress.FindString(p.output.String()), process: p}, nil
}

// awaitReady returns nil once p answers at addr as an emulator does, or an error when p ends or ctx does.
//
// An answer does not prove that it is p that answers: another emulator may have taken the port.
func awaitReady(ctx context.Context, p *process, addr string, port int) error {
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for {
		select {
		case <-p.done:
			return exitError(p, port)
		case <-ctx.Done():
			return fmt.Errorf("emulator: not started: %w%s", context.Cause(ctx), p.output.quote())
		case <-poll.C:
			if listens(p.output.String(), addr) && Check(ctx, addr) == nil {
				return nil
			}
		}
	}
}

// listens reports whether an emulator that has printed this listens at addr: then it tells how SDKs are pointed at it.
func listens(printed, addr string) bool {
	for line := range strings.Lines(printed) {
		if strings.HasSuffix(strings.TrimSpace(line), "FIRESTORE_EMULATOR_HOST="+addr) {
			return true
		}
	}
	return false
}

// exitError explains the end of p before it was ready: the reason and its remedy first, if known.
func exitError(p *process, port int) error {
	end := fmt.Sprintf("it ended before it was ready: %v%s", p.exit, p.output.quote())
	if reason := diagnose(p.output.String(), port); reason != nil {
		return fmt.Errorf("emulator: %w\n%s", reason, end)
	}
	return fmt.Errorf("emulator: %s", end)
}

// readRules returns the content of the rules file, "" if there is to be none.
func readRules(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("emulator: rules file: %w", err)
	}
	return string(data), nil
}

// loopback is the address that emulators listen on: never one that other machines reach.
const loopback = "127.0.0.1"

// checkPort returns an error if something listens on the port. Port 0 is any that is free.
func checkPort(port int) error {
	l, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
	if err != nil {
		return fmt.Errorf("emulator: port %d is not free: stop what listens there or choose another port (%w)", port, err)
	}
	return l.Close()
}
