// Package emulator finds, starts and stops Google's own Firestore emulator.
//
// The emulator is a Java program of one jar file. [Start] runs a jar that is on the machine
// already, the Google Cloud CLI's, the Firebase CLI's or one that [Download] fetched, as a child
// process that cannot outlive its parent, however the parent dies (process_unix.go).
// [RegisterTrigger] and [SetRules] are calls that only the emulator has, and no Firestore SDK
// offers. The emulator also tells which requests of clients its rules refused (refusals.go).
//
// An emulator keeps its documents in memory and starts empty. Project ids are separate databases in
// it, so parallel tests share an emulator and take a project each; see package emulatortest.
package emulator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/firestore-tally/tally/internal/local/freeport"
)

const (
	// startTimeout bounds the wait for the first answer. A start takes 0.7 s on two idle cores, and
	// some ten seconds on a busy machine. An emulator that cannot start mostly ends at once.
	startTimeout = 3 * time.Minute

	// pollEvery is how often a starting emulator is asked whether it is ready.
	pollEvery = 20 * time.Millisecond

	// portAttempts is how many free ports Start tries. Where freeport cannot hold one, another
	// program may take it before Java listens on it.
	portAttempts = 3

	// mainClass is the entry point. Not every jar's manifest names it.
	mainClass = "com.google.cloud.datastore.emulator.firestore.CloudFirestore"

	// loopback is the address that emulators listen on: never one that other machines reach.
	loopback = "127.0.0.1"
)

// javaOptions suit an emulator, which lives for seconds or minutes: Java's optimizing compiler and
// its parallel collector would cost more than they save. A start and 30 writes took 4.1 s of CPU
// time with them, and 2.5 s without. English is the language that diagnose reads.
var javaOptions = []string{"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Duser.language=en"}

// Options says which emulator to start. The zero value starts one on a free port, without rules and
// without events.
type Options struct {
	// Port is the TCP port on 127.0.0.1; 0 takes a free one.
	Port int

	// Rules is the path of a security rules file. Without one everybody may do everything.
	Rules string

	// Functions is the host:port to which the emulator posts document events, once a trigger is
	// registered. Empty: events go nowhere.
	Functions string

	// Fetch is called when there is no emulator on the machine, and returns the path of one;
	// [Download] is the usual content. Nil: Start returns an error instead.
	Fetch func(ctx context.Context) (jar string, err error)
}

// An Emulator is a running emulator, from [Start] until it is stopped or ends by itself. Its
// methods may be called from any goroutine.
type Emulator struct {
	addr    string
	feed    string // address of the feed of clients' requests; "": it has none
	process *process
	jar     string // its path
	java    javaRuntime
}

// Start starts an emulator and returns when it answers, which takes about a second and at most
// three minutes, Fetch not counted. The caller stops it. If the caller's process dies first, even
// by SIGKILL, the emulator ends with it (on Unix only, see process_other.go). Cancelling ctx ends
// the start, never an emulator that was returned.
//
// Every error says what to do about it, and holds the last lines that the emulator printed, if it
// printed any.
func Start(ctx context.Context, o Options) (*Emulator, error) {
	var rules []byte
	if o.Rules != "" {
		var err error
		if rules, err = os.ReadFile(o.Rules); err != nil {
			return nil, fmt.Errorf("emulator: rules file: %w", err)
		}
	}
	java, err := findJava(ctx)
	if err != nil {
		return nil, err
	}
	jar, err := findJar(ctx, o.Fetch)
	if err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		e, err := launch(ctx, java, jar, o, string(rules))
		if !errors.Is(err, errPortInUse) || o.Port != 0 || attempt == portAttempts {
			return e, err
		}
	}
}

// Addr returns host and port, as FIRESTORE_EMULATOR_HOST wants them: "127.0.0.1:port".
func (e *Emulator) Addr() string { return e.addr }

// Program says which emulator it is, and which Java runs it, by their paths.
func (e *Emulator) Program() string {
	return fmt.Sprintf("%s, by Java %d of %s", e.jar, e.java.version, e.java.path)
}

// Pid returns the process id of the emulator's guard, which leads a process group with the emulator
// in it, or where there is no guard, that of the emulator.
func (e *Emulator) Pid() int { return e.process.pid }

// Done returns a channel that is closed when the emulator has ended, by Stop or by itself, and its
// output is written.
func (e *Emulator) Done() <-chan struct{} { return e.process.done }

// Stop ends the emulator, with all that it holds, and returns when it is gone. It returns nil if
// the emulator ran until then, or else an error that says how the emulator ended by itself. Calling
// it again changes nothing and returns the same.
func (e *Emulator) Stop() error { return e.process.stop() }

// launch starts Java once and waits until it serves the rules. If it returns an error, it has ended
// the process.
func launch(ctx context.Context, java javaRuntime, jar string, o Options, rules string) (*Emulator, error) {
	port := o.Port
	if port == 0 {
		held, release, err := freeport.Hold(0)
		if err != nil {
			return nil, fmt.Errorf("emulator: %w", err)
		}
		defer release()
		port = held
	}

	addr := net.JoinHostPort(loopback, strconv.Itoa(port))
	args := slices.Concat(javaOptions, []string{"-cp", jar, mainClass, "--host=" + loopback, "--port=" + strconv.Itoa(port)})
	if o.Rules != "" {
		args = append(args, "--rules="+o.Rules)
	}
	if o.Functions != "" {
		args = append(args, "--functions_emulator="+o.Functions)
	}

	p, err := startProcess(java.path, args...)
	if err != nil {
		return nil, fmt.Errorf("emulator: start %s: %w", java.path, err)
	}

	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("no answer from %s within %v", addr, startTimeout))
	defer cancel()
	err = awaitReady(ctx, p, addr)
	if err == nil && o.Rules != "" {
		// By itself the emulator compiles the rules when the first request comes, and refuses all
		// requests if they are wrong. This call compiles them now. It puts them in force for one
		// project, so it names a project that nobody uses.
		err = SetRules(ctx, addr, "demo-tally-check-rules", rules)
		if err != nil {
			err = fmt.Errorf("rules file %s: %w", o.Rules, err)
		}
	}
	if err == nil {
		return &Emulator{addr: addr, feed: feedAddress.FindString(p.output.String()), process: p, jar: jar, java: java}, nil
	}

	exit := p.stop()
	if exit != nil {
		err = fmt.Errorf("%w\nit ended before it was ready: %w", diagnose(p.output.String(), java, jar, port), exit)
	}
	return nil, fmt.Errorf("emulator: %w%s", err, p.output.quote())
}

// awaitReady returns nil when p answers at addr as an emulator does, or an error when p or ctx
// ends.
//
// Another emulator may have taken the port and answer there. So p must have printed that it listens
// at addr, by telling how SDKs are pointed at it.
func awaitReady(ctx context.Context, p *process, addr string) error {
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for {
		select {
		case <-p.done:
			return p.exit
		case <-ctx.Done():
			return fmt.Errorf("not started: %w", context.Cause(ctx))
		case <-poll.C:
			printed := strings.Fields(p.output.String())
			if slices.Contains(printed, "FIRESTORE_EMULATOR_HOST="+addr) && Check(ctx, addr) == nil {
				return nil
			}
		}
	}
}

// errPortInUse is the reason of an end after which Start tries again.
var errPortInUse = errors.New("is in use")

var classVersion = regexp.MustCompile(`class file version (\d+)`)

// diagnose returns the reason why an emulator that printed this ended before it was ready, and the
// remedy, if its output tells them.
func diagnose(output string, java javaRuntime, jar string, port int) error {
	switch {
	case strings.Contains(strings.ToLower(output), "address already in use"):
		return fmt.Errorf("port %d %w: stop what listens there or choose another port", port, errPortInUse)
	case strings.Contains(output, "UnsupportedClassVersionError"):
		needed := supportedJava
		if m := classVersion.FindStringSubmatch(output); m != nil {
			if major, err := strconv.Atoi(m[1]); err == nil {
				needed = javaOf(major)
			}
		}
		return fmt.Errorf("%s needs Java %d, but %s is Java %d: %s",
			jar, needed, java.path, java.version, installJava(needed))
	case strings.Contains(output, "Could not find or load main class"):
		return fmt.Errorf("%s is not a Firestore emulator; remove it, or set "+pathVariable+" to the path of one", jar)
	case strings.Contains(output, "compiling rules"):
		return errors.New("the rules file does not compile: correct it where the output says")
	}
	return errors.New("not started")
}
