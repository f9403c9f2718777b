// Package emulator finds, starts and stops Google's own Firestore emulator.
//
// The emulator is a Java program in one jar file. It speaks Firestore's protocol, so an SDK uses it
// like the cloud once FIRESTORE_EMULATOR_HOST names its address. It keeps its documents in memory
// and starts empty. It takes any project id, and each has databases of its own. So parallel tests
// share an emulator and take a project each; see package emulatortest. It enforces none of
// Firestore's limits on rates, and asks for no indexes.
//
// [Start] runs a jar that is on the machine already: the Google Cloud CLI's, the Firebase CLI's or
// one that [Downloads] fetched. These also fetch a Java where none runs the jar. The emulator is a
// child process that cannot outlive its parent, however the parent dies (process_unix.go).
//
// Some calls only the emulator has, and no SDK offers them. [RegisterTrigger] has it post an event
// for each write, which in the cloud is Eventarc's part. [SetRules] puts security rules in force.
// [Emulator.Refusals] tells which requests of clients the rules refused.
package emulator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/firestore-tally/tally/internal/tool/local/freeport"
)

const (
	// startTimeout bounds the wait for the first answer. A start takes 0.6 s on two idle cores, and
	// some ten seconds on a busy machine. An emulator that cannot start mostly ends at once.
	startTimeout = 3 * time.Minute

	// pollEvery is how often a starting emulator is asked whether it is ready.
	pollEvery = 20 * time.Millisecond

	// portAttempts is how many free ports Start tries. Where freeport cannot hold one, another
	// program may take it before Java listens on it.
	portAttempts = 3

	// mainClass is the entry point. Not every jar's manifest names it.
	mainClass = "com.google.cloud.datastore.emulator.firestore.CloudFirestore"
)

// javaOptions suit an emulator, which lives for seconds or minutes. Java's optimizing compiler and
// its parallel collector would cost more than they save: a start and 30 writes took 4.1 s of CPU
// time with them, and 2.5 s without. The language is English because diagnose reads messages.
var javaOptions = []string{"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Duser.language=en"}

// Options says which emulator to start. The zero value starts one on a free port, without rules and
// without events.
type Options struct {
	// Port is the TCP port on 127.0.0.1; 0 takes a free one.
	Port int

	// Rules is the path of a security rules file. Without one everybody may do everything. RulesName
	// is what errors call the file. Empty: by its path.
	Rules, RulesName string

	// Functions is the host:port to which the emulator posts document events, once a trigger is
	// registered. Empty: events go nowhere.
	Functions string

	// Edition is the edition of the databases, such as "enterprise". Emulators before version 1.22
	// pass over it. Empty: the emulator's own.
	Edition string

	// Project is the one that requests should name. Empty: any.
	Project string

	// OtherProject, if not nil, is called once with each project that a request names and that is not
	// Project, up to ten of them. Calls do not overlap.
	OtherProject func(project string)

	// Downloads fetches what the machine lacks: an emulator, or a Java that runs it. Nil: Start
	// returns an error instead.
	Downloads *Downloads
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

// Start starts an emulator and returns when it answers. That takes about a second and at most three
// minutes, downloads not counted. The caller stops it. If the caller's process dies first, even by
// SIGKILL, the emulator ends with it (on Unix only, see process_other.go). Canceling ctx ends the
// start, but not an emulator that was returned.
//
// Every error says what to do about it, and holds the last lines that the emulator printed, if it
// printed any.
func Start(ctx context.Context, o Options) (*Emulator, error) {
	rules, err := readRules(o.Rules)
	if err != nil {
		return nil, err
	}
	jar, java, err := programs(ctx, o.Downloads)
	if err != nil {
		return nil, err
	}

	option := classes(ctx, java, jar)
	for attempt := 1; ; attempt++ {
		e, err := launch(ctx, java, option, jar, o, rules)
		anotherPort := errors.Is(err, errPortInUse) && o.Port == 0
		if !anotherPort || attempt == portAttempts {
			return e, err
		}
	}
}

// readRules returns the rules in a file; "" if the path is.
func readRules(path string) (string, error) {
	if path == "" {
		return "", nil
	}

	rules, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("emulator: could not read the rules file: %w", err)
	}
	return string(rules), nil
}

// Addr returns host and port as FIRESTORE_EMULATOR_HOST wants them: "127.0.0.1:port".
func (e *Emulator) Addr() string { return e.addr }

// Program returns the path of the jar, and the version and path of the Java that runs it.
func (e *Emulator) Program() string {
	return fmt.Sprintf("%s, by Java %d of %s", e.jar, e.java.version, e.java.path)
}

// Pid returns the process id of the emulator's guard (process_unix.go), which leads a process group
// with the emulator in it. On systems without a guard it returns that of the emulator.
func (e *Emulator) Pid() int { return e.process.pid }

// Done returns a channel that is closed when the emulator has ended, by Stop or by itself, and its
// output is written.
func (e *Emulator) Done() <-chan struct{} { return e.process.done }

// Stop ends the emulator, with all its documents, and returns when it is gone. It returns nil if
// the emulator ran until then, else an error that says how the emulator ended by itself. Calling it
// again changes nothing and returns the same.
func (e *Emulator) Stop() error { return e.process.stop() }

// launch starts Java once and waits until it serves the rules. If it returns an error, it has ended
// the process.
func launch(ctx context.Context, java javaRuntime, option, jar string, o Options, rules string) (*Emulator, error) {
	port := o.Port
	if port == 0 {
		held, release, err := freeport.Hold(0)
		if err != nil {
			return nil, fmt.Errorf("emulator: %w", err)
		}
		defer release()
		port = held
	}

	hears := io.Discard
	if o.OtherProject != nil {
		hears = &projectWatch{tell: o.OtherProject}
	}
	p, err := startProcess(hears, java.path, arguments(option, jar, port, o)...)
	if err != nil {
		return nil, fmt.Errorf("emulator: start %s: %w", java.path, err)
	}

	addr := freeport.HostPort(port)
	err = prepare(ctx, p, addr, o, rules)
	if err != nil {
		exit := p.stop()
		_, isMistake := errors.AsType[*RulesError](err)
		if isMistake { // the output would only have a trace of the compiler
			return nil, fmt.Errorf("emulator: %w", err)
		}
		if exit != nil {
			err = fmt.Errorf("%w\nit ended before it was ready: %w", diagnose(p.output.String(), jar, port), exit)
		}
		return nil, fmt.Errorf("emulator: %w%s", err, p.output.quote())
	}

	feed := feedAddress.FindString(p.output.String())
	return &Emulator{addr: addr, feed: feed, process: p, jar: jar, java: java}, nil
}

// arguments returns the arguments with which Java runs the jar, with one more option.
func arguments(option, jar string, port int, o Options) []string {
	emulator := []string{"-cp", jar, mainClass, "--host=" + freeport.Loopback, "--port=" + strconv.Itoa(port)}
	if o.Rules != "" {
		emulator = append(emulator, "--rules="+o.Rules)
	}
	if o.Edition != "" {
		emulator = append(emulator, "--database-edition="+o.Edition)
	}
	if o.Functions != "" {
		emulator = append(emulator, "--functions_emulator="+o.Functions)
	}
	if o.Project != "" {
		emulator = append(emulator, "--single_project_mode=true", "--project_id="+o.Project)
	}
	return slices.Concat(javaOptions, []string{option}, emulator)
}

// prepare returns nil when the emulator of process p answers at addr, and its rules compile.
func prepare(ctx context.Context, p *process, addr string, o Options, rules string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("no answer from %s within %v", addr, startTimeout))
	defer cancel()

	err := awaitReady(ctx, p, addr)
	if err != nil || o.Rules == "" {
		return err
	}

	// By itself the emulator compiles the rules when the first request comes. If they are wrong, it
	// refuses all requests. This call compiles them now. It puts them in force for one database only.
	err = SetRules(ctx, addr, RulesProject, DefaultDatabase, rules)
	if err == nil {
		return nil
	}
	name := cmp.Or(o.RulesName, o.Rules)
	wrong, ok := errors.AsType[*RulesError](err)
	if ok {
		return wrong.In(name)
	}
	return fmt.Errorf("rules file %s: %w", name, err)
}

// awaitReady returns nil when p answers at addr as an emulator does, or an error when p or ctx
// ends.
//
// Another emulator may have taken the port and answer there. So p must have printed the variable
// with its address that SDKs need.
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

// errPortInUse says that the emulator's port is taken. If Options leave the port open, Start tries
// another.
var errPortInUse = errors.New("is in use")

// diagnose returns why an emulator ended before it was ready, with the remedy, as far as its output
// tells.
func diagnose(output, jar string, port int) error {
	switch {
	case strings.Contains(strings.ToLower(output), "address already in use"):
		return fmt.Errorf("port %d %w: stop what listens there or choose another port", port, errPortInUse)

	case strings.Contains(output, "Could not find or load main class"):
		return fmt.Errorf("%s is not a Firestore emulator; remove it, or set "+pathVariable+" to the path of one", jar)

	case strings.Contains(output, "compiling rules"):
		return errors.New("the rules file does not compile: correct it where the output says")
	}
	return errors.New("not started")
}
