// Package local runs all that Tally needs on one machine: Google's Firestore emulator, the
// functions in processes of their own, the events between them, the schedule, and a load of
// increments. tally dev and tally demo share it.
//
// From the bottom up:
//
//   - A [Process] (process.go) is one functions process. It runs [Serve], and ends with its parent.
//   - A [Stack] (stack.go) is the emulator, the relay of its events and the processes. If somebody
//     else runs the emulator, it posts no events, and listeners make them (events.go).
//   - A [Counter] (counter.go) is incremented and listened to. It remembers what it sees.
//   - A [Load] (load.go) increments counters on a stack and says whether the roll-ups are exact.
package local

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/billing"
	"github.com/firestore-tally/tally/internal/config"
	"github.com/firestore-tally/tally/internal/firestorestore"
	"github.com/firestore-tally/tally/internal/local/emulator"
	"github.com/firestore-tally/tally/internal/local/eventrelay"
	"github.com/firestore-tally/tally/internal/local/framework"
)

const loopback = "127.0.0.1"

// Options say what to run.
type Options struct {
	Environment map[string]string        // of the functions processes
	Config      config.Config            // what it says; EmulatorHost: an emulator that somebody else runs
	Command     func(port int) *exec.Cmd // a functions process, which calls Serve with the port

	Processes     int
	FunctionsPort int    // of the first process; the others follow. 0: any for each
	FirestorePort int    // 0: any
	Rules         string // path of their file; "": RulesText goes into one
	RulesText     string
	Fetch         func(context.Context) (jar string, err error)
	Faults        eventrelay.Faults

	Log func(line []byte)                // gets each line that a functions process logs
	Say func(format string, args ...any) // gets what else happens; both may be called in parallel
}

// A Stack is everything that Tally needs, running on this machine.
type Stack struct {
	Options
	Addr     string              // of the emulator
	Emulator *emulator.Emulator  // nil if it is somebody else's
	Clients  []*firestore.Client // one for each database of Config, in its order; past the rules
	Relay    *eventrelay.Relay

	// RelayAddr is where the relay takes the emulator's events. It answers for as long as the stack
	// runs.
	RelayAddr string

	dir     string   // temporary
	closers []func() // in the order of starting
	lasting int      // how many of them end what every configuration uses

	triggers map[string]emulator.Trigger // that the emulator has, by name

	mu        sync.Mutex
	processes []*Process
}

// Start starts a stack. The caller stops it. An error has stopped what was started.
func Start(ctx context.Context, o Options) (_ *Stack, err error) {
	s := &Stack{Options: o}
	defer func() {
		if err != nil {
			s.Stop()
		}
	}()
	if s.dir, err = os.MkdirTemp("", "tally-"); err != nil {
		return nil, err
	}
	s.onStop(func() { _ = os.RemoveAll(s.dir) })
	s.Relay = eventrelay.New(eventrelay.Options{
		Faults: o.Faults, Timeout: o.Config.AckDeadline(),
	})
	s.onStop(s.Relay.Close)
	l, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: s.Relay, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	go func() { _ = server.Serve(l) }() // until Close
	s.onStop(func() { _ = server.Close() })
	s.RelayAddr = l.Addr().String()
	if s.Addr = o.Config.EmulatorHost; s.Addr == "" {
		if s.Rules == "" {
			s.Rules = filepath.Join(s.dir, "firestore.rules")
			if err := os.WriteFile(s.Rules, []byte(s.RulesText), 0o600); err != nil {
				return nil, err
			}
		}
		s.Emulator, err = emulator.Start(ctx, emulator.Options{
			Port: s.FirestorePort, Rules: s.Rules, Functions: s.RelayAddr, Fetch: s.Fetch,
		})
		if err != nil {
			return nil, err
		}
		s.onStop(func() { _ = s.Emulator.Stop() })
		s.Addr = s.Emulator.Addr()
	}
	s.lasting = len(s.closers)
	return s, s.begin(ctx)
}

// begin starts what depends on the configuration: clients, functions and events.
func (s *Stack) begin(ctx context.Context) error {
	s.Clients = nil
	for _, database := range s.Config.Databases {
		client, err := firestorestore.Dial(ctx, s.Addr, s.Config.Project, database)
		if err != nil {
			return err
		}
		s.onStop(func() { _ = client.Close() })
		s.Clients = append(s.Clients, client)
	}

	s.mu.Lock()
	s.processes = make([]*Process, s.Processes)
	s.mu.Unlock()
	for n := range s.Processes {
		if err := s.Restart(ctx, n); err != nil {
			return err
		}
		s.onStop(func() { s.Process(n).Kill() })
	}
	if s.Emulator == nil {
		return s.listenForEvents(ctx)
	}
	return s.registerTriggers(ctx)
}

// Reconfigure ends the functions and starts them with another configuration, of the same project.
// The emulator with its documents stays, and so do the events that wait; of writes meanwhile,
// listeners may make none, and an audit finds them. Nothing else may use the stack until it
// returns. After an error the stack is of no use, and is stopped.
func (s *Stack) Reconfigure(ctx context.Context, environment map[string]string, config config.Config) error {
	s.stop(s.lasting)
	config.EmulatorHost = s.Config.EmulatorHost
	s.Environment, s.Config = environment, config
	return s.begin(ctx)
}

// onStop has f called when the stack stops.
func (s *Stack) onStop(f func()) { s.closers = append(s.closers, f) }

// Stop ends whatever was started, in reverse order.
func (s *Stack) Stop() { s.stop(0) }

// stop ends what was started after the first n.
func (s *Stack) stop(n int) {
	for _, f := range slices.Backward(s.closers[n:]) {
		f()
	}
	s.closers = s.closers[:n]
}

// WhileUp returns a context that ends with ctx, and when the emulator that the stack started ends
// by itself, with a cause that says how it did.
func (s *Stack) WhileUp(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if s.Emulator != nil {
		go func() {
			select {
			case <-s.Emulator.Done():
				cancel(fmt.Errorf("the Firestore emulator ended by itself: %w", s.Emulator.Stop()))
			case <-ctx.Done():
			}
		}()
	}
	return ctx, func() { cancel(nil) }
}

// Process returns the n-th functions process.
func (s *Stack) Process(n int) *Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.processes[n]
}

// Restart starts the n-th functions process, in place of one that has ended.
func (s *Stack) Restart(ctx context.Context, n int) error {
	port := s.FunctionsPort
	if port != 0 {
		port += n
	}
	output := framework.NewListener()
	cmd := s.Command(port)
	usage := filepath.Join(s.dir, "usage-"+rand.Text()) // of this process; a process that got no request has none
	for name, value := range s.Environment {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	// With the last two a process would serve one function only, and flush its logs with empty
	// lines.
	cmd.Env = append(cmd.Env, firestorestore.EmulatorHost+"="+s.Addr, "TALLY_USAGE_FILE="+usage, "FUNCTION_TARGET=", "K_SERVICE=")
	cmd.Stdout, cmd.Stderr = output, &lineWriter{line: s.Log}
	p, err := StartProcess(ctx, cmd, output.Port())
	if err != nil {
		return fmt.Errorf("functions process %d: %w", n+1, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.processes[n] = p
	var targets []string
	for _, p := range s.processes {
		if p != nil { // else it is still to be started
			targets = append(targets, p.URL("RollUpOnWrite"))
		}
	}
	s.Relay.SetTargets(targets)
	return nil
}

// Billed returns the operations that all the functions processes were billed for, those that have
// ended too.
func (s *Stack) Billed() (billing.Counts, error) {
	files, err := filepath.Glob(filepath.Join(s.dir, "usage-*"))
	if err != nil {
		return billing.Counts{}, err
	}
	var sum billing.Counts
	for _, file := range files {
		c, err := billing.ReadFile(file)
		if err != nil {
			return billing.Counts{}, err
		}
		sum = sum.Add(c)
	}
	return sum, nil
}

// restartPause keeps a functions process that cannot live from being started without end.
const restartPause = time.Second

// Keep starts a functions process again whenever it ends by itself, and calls RollUpOnSchedule as
// Cloud Scheduler would, until ctx ends: at once, too, if now says so, or a route "every". Then it
// ends the processes: one that is called would log that the call was cut off.
func (s *Stack) Keep(ctx context.Context, every time.Duration, now bool) {
	var keepers, calls sync.WaitGroup
	for n := range s.Processes {
		keepers.Go(func() { s.keep(ctx, n) })
	}
	calls.Go(func() { s.callAgain(ctx, every, now) })

	keepers.Wait()
	for n := range s.Processes {
		s.Process(n).Kill()
	}
	calls.Wait()
}

// callAgain calls RollUpOnSchedule again and again until ctx ends. A call ends by itself, or with
// its process.
func (s *Stack) callAgain(ctx context.Context, every time.Duration, now bool) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for due := now || len(s.Config.Routes.Scheduled()) > 0; ; due = true {
		if due {
			if err := s.Process(0).callSchedule(context.WithoutCancel(ctx)); err != nil && ctx.Err() == nil {
				s.Say("RollUpOnSchedule failed: %v", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// keep starts the n-th functions process again whenever it ends by itself.
func (s *Stack) keep(ctx context.Context, n int) {
	for {
		p := s.Process(n)
		select {
		case <-ctx.Done():
			return
		case <-p.Ended:
		}
		s.Say("functions process at port %d ended (%v); starting another", p.Port, p.reason)
		if Sleep(ctx, restartPause) != nil {
			return
		}
		if err := s.Restart(ctx, n); err != nil {
			s.Say("%v", err)
		}
	}
}

// Sleep waits for d, or until ctx ends, whose cause it then returns.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
