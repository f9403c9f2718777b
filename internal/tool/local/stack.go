// Package local runs Tally on one machine, in place of Google's cloud, for tally dev, tally demo
// and tests.
//
// In the cloud, Firestore tells Eventarc of each write, Eventarc sends events to the functions,
// Cloud Tasks makes the calls that they put off, and Cloud Scheduler calls one of them. On one
// machine each of these has a stand-in:
//
//	internal/tool/local/emulator     Google's own Firestore emulator, for Firestore
//	internal/tool/local/eventrelay   delivers the emulator's events, for Eventarc
//	internal/tool/local/taskqueue    makes calls at their time, for Cloud Tasks
//	internal/tool/local/framework    serves the functions in a process, for Cloud Run
//	internal/tool/local/freeport     the ports of all these servers
//	internal/tool/local              runs them together, and calls the schedule
//
// This package, from the bottom up:
//
//   - A [Process] (process.go) is one functions process. It runs [Serve], and ends with its parent.
//   - A [Stack] (stack.go) runs the emulator, the relay of its events, the queue and the processes.
//     It may keep the documents in a folder from one run to the next (data.go). An emulator that
//     somebody else runs posts no events to the relay, so the stack makes them from what listeners
//     see (events.go).
//   - A [Load] (load.go) increments counters on a stack and says whether their roll-ups are exact.
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
	"github.com/firestore-tally/tally/internal/cloud/alarm"
	"github.com/firestore-tally/tally/internal/cloud/billing"
	"github.com/firestore-tally/tally/internal/cloud/config"
	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/tool/local/emulator"
	"github.com/firestore-tally/tally/internal/tool/local/eventrelay"
	"github.com/firestore-tally/tally/internal/tool/local/framework"
	"github.com/firestore-tally/tally/internal/tool/local/freeport"
	"github.com/firestore-tally/tally/internal/tool/local/taskqueue"
	"github.com/googleapis/gax-go/v2"
)

// Options say what to run.
type Options struct {
	Environment map[string]string // of the functions processes
	Config      config.Config     // as Environment says it; EmulatorHost names an emulator that somebody else runs

	// Command returns the command of a functions process, which calls Serve with the port.
	Command func(port int) *exec.Cmd

	Processes     int
	FunctionsPort int    // of the first process; the others have the ports after it. 0: each has any
	FirestorePort int    // 0: any
	Rules         string // what errors call the security rules, such as the path of their file
	RulesText     string
	Downloads     *emulator.Downloads  // as in emulator.Options
	OtherProject  func(project string) // as in emulator.Options
	Faults        eventrelay.Faults

	// Data is the absolute path of a folder that keeps the documents of the emulator that the stack
	// starts, from one run to the next. "": they are forgotten.
	Data string

	// Written, unless nil, is called with each document that is written, in the databases of Config.
	// It must not block, and calls may overlap. On an emulator that somebody else runs, it is called
	// only with documents of live routes.
	Written func(database, path string)

	// Log is called with each line that a functions process logs, and Say with a message about
	// anything else that happens. Calls may overlap.
	Log func(line []byte)
	Say func(format string, args ...any)
}

// A Stack is everything that Tally needs, running on this machine.
type Stack struct {
	Options
	Addr     string              // of the emulator
	Emulator *emulator.Emulator  // nil if it is somebody else's
	Clients  []*firestore.Client // one for each database of Config, in its order; past the rules
	Relay    *eventrelay.Relay
	Imported bool // the emulator began with documents from the folder Data

	Queue *taskqueue.Queue

	// RelayAddr is where the relay takes the emulator's events, and QueueAddr where the queue takes
	// tasks. They answer for as long as the stack runs.
	RelayAddr, QueueAddr string

	dir     string   // temporary
	closers []func() // each ends something that was started, in the order of starting
	lasting int      // how many of the closers, the first ones, a change of configuration does not call

	mu        sync.Mutex
	processes []*Process
}

// Start starts a stack. The caller stops it. If Start returns an error, it has stopped what it had
// started.
func Start(ctx context.Context, o Options) (*Stack, error) {
	s := &Stack{Options: o}
	err := s.start(ctx)
	if err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// start starts the relay, the queue and the emulator, which every configuration uses, and then
// everything else.
func (s *Stack) start(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "tally-")
	if err != nil {
		return err
	}
	s.dir = dir
	s.onStop(func() { _ = os.RemoveAll(dir) })

	err = s.startDeliveries()
	if err != nil {
		return err
	}

	s.Addr = s.Config.EmulatorHost
	if s.Addr == "" {
		err := s.startEmulator(ctx)
		if err != nil {
			return err
		}
	}

	s.lasting = len(s.closers)
	return s.begin(ctx)
}

// startDeliveries starts the relay and the queue.
func (s *Stack) startDeliveries() (err error) {
	s.Relay = eventrelay.New(eventrelay.Options{Faults: s.Faults, Timeout: s.Config.AckDeadline(), Wants: s.wantsEvent})
	s.onStop(s.Relay.Close)
	s.RelayAddr, err = s.serve(s.Relay)
	if err != nil {
		return err
	}

	s.Queue = taskqueue.New(eventrelay.Options{Faults: s.Faults, Timeout: config.OnWriteTimeout})
	s.onStop(s.Queue.Close)
	s.QueueAddr, err = s.serve(s.Queue)
	return err
}

// serve serves a handler at an address of this machine until the stack stops.
func (s *Stack) serve(handler http.Handler) (addr string, err error) {
	l, err := net.Listen("tcp", freeport.HostPort(0))
	if err != nil {
		return "", err
	}

	server := &http.Server{Handler: handler, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	go func() { _ = server.Serve(l) }() // until Close
	s.onStop(func() { _ = server.Close() })
	return l.Addr().String(), nil
}

// QueueVariables returns the variables of the functions that name the queue of a stack. The stack
// itself adds where that queue is served.
func QueueVariables(project string) map[string]string {
	return map[string]string{
		"TALLY_QUEUE":         "projects/" + project + "/locations/local/queues/tally",
		"TALLY_QUEUE_URL":     "http://" + freeport.Loopback + "/RollUpOnWrite", // the stack knows the ports
		"TALLY_QUEUE_ACCOUNT": "tally-trigger@" + project + ".iam.gserviceaccount.com",
	}
}

// startEmulator starts an emulator that posts its events to the relay.
func (s *Stack) startEmulator(ctx context.Context) error {
	rules := filepath.Join(s.dir, "firestore.rules") // the app's own may have a form that only the Firebase CLI takes
	err := os.WriteFile(rules, []byte(s.RulesText), 0o600)
	if err != nil {
		return err
	}

	e, err := emulator.Start(ctx, emulator.Options{
		Port: s.FirestorePort, Rules: rules, RulesName: s.Rules, Functions: s.RelayAddr, Downloads: s.Downloads,
		Project: s.Config.Project, OtherProject: s.OtherProject, Edition: s.Config.Edition.String(),
	})
	if err != nil {
		return err
	}
	s.onStop(func() { _ = e.Stop() })

	s.Emulator, s.Addr = e, e.Addr()
	if s.Data == "" {
		return nil
	}
	return s.importData(ctx)
}

// begin starts what depends on the configuration: clients, functions processes and events.
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
		err := s.Restart(ctx, n)
		if err != nil {
			return err
		}
		s.onStop(func() { s.Process(n).Kill() })
	}

	var err error
	if s.Emulator == nil {
		err = s.listenForEvents(ctx)
	} else {
		err = s.registerTriggers(ctx)
	}
	if err != nil {
		return err
	}
	s.tryWrites(ctx)
	return nil
}

// Reconfigure ends the functions processes and starts them with another configuration, of the same
// project. The emulator keeps its documents, and the relay its undelivered events. If somebody else
// runs the emulator, writes during the change may make no event; an audit finds them. Nothing else
// may use the stack until Reconfigure returns. After an error the stack is of no use, and the
// caller stops it.
func (s *Stack) Reconfigure(ctx context.Context, environment map[string]string, config config.Config) error {
	s.stop(s.lasting)

	config.EmulatorHost = s.Config.EmulatorHost
	s.mu.Lock() // the emulator goes on to post events
	s.Environment, s.Config = environment, config
	s.mu.Unlock()
	return s.begin(ctx)
}

// SetRules puts other security rules in force, for the databases of the configuration. If they do
// not compile, the former ones stay, and the error is an emulator.RulesError.
func (s *Stack) SetRules(ctx context.Context, text string) error {
	for _, database := range s.Config.Databases {
		err := emulator.SetRules(ctx, s.Addr, s.Config.Project, database, text)
		if err != nil {
			return err
		}
	}
	return nil
}

// onStop has f called when the stack stops. The last f is called first.
func (s *Stack) onStop(f func()) { s.closers = append(s.closers, f) }

// Stop ends whatever was started, in reverse order.
func (s *Stack) Stop() { s.stop(0) }

// stop ends what was started, in reverse order, except for the first n.
func (s *Stack) stop(n int) {
	for _, f := range slices.Backward(s.closers[n:]) {
		f()
	}
	s.closers = s.closers[:n]
}

// WhileUp returns a context that ends with ctx. It also ends when the emulator that the stack
// started ends by itself. Its cause then says how that happened.
func (s *Stack) WhileUp(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := func() { cancel(nil) }
	if s.Emulator == nil {
		return ctx, stop
	}

	go func() {
		select {
		case <-s.Emulator.Done():
			cancel(fmt.Errorf("the Firestore emulator ended by itself: %w", s.Emulator.Stop()))
		case <-ctx.Done():
		}
	}()
	return ctx, stop
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
	cmd.Env = append(cmd.Env, s.environment()...)
	cmd.Stdout, cmd.Stderr = output, &lineWriter{line: s.Log}
	p, err := StartProcess(ctx, cmd, output.Port())
	if err != nil {
		return fmt.Errorf("functions process %d: %w", n+1, err)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	s.processes[n] = p
	targets := s.targets()
	s.Relay.SetTargets(targets)
	s.Queue.SetTargets(targets)
	return nil
}

// environment returns the variables of a new functions process, in addition to its parent's.
func (s *Stack) environment() []string {
	var variables []string
	for name, value := range s.Environment {
		variables = append(variables, name+"="+value)
	}

	usage := filepath.Join(s.dir, "usage-"+rand.Text()) // of this process alone; see Used
	variables = append(variables, firestorestore.EmulatorHost+"="+s.Addr, alarm.EmulatorHost+"="+s.QueueAddr, "TALLY_USAGE_FILE="+usage)

	// With these two set, a process would serve one function only, and flush its logs with empty
	// lines.
	return append(variables, "FUNCTION_TARGET=", "K_SERVICE=")
}

// targets returns where RollUpOnWrite is served now. The caller holds the mutex.
func (s *Stack) targets() []string {
	var targets []string
	for _, p := range s.processes {
		if p != nil { // nil: it is still to be started
			targets = append(targets, p.URL("RollUpOnWrite"))
		}
	}
	return targets
}

// Used returns what all functions processes have used of Firestore, also those that have ended. A
// process that got no request has no file.
func (s *Stack) Used() (billing.Usage, error) {
	files, err := filepath.Glob(filepath.Join(s.dir, "usage-*"))
	if err != nil {
		return billing.Usage{}, err
	}

	var sum billing.Usage
	for _, file := range files {
		u, err := billing.ReadFile(file)
		if err != nil {
			return billing.Usage{}, err
		}
		sum = sum.Add(u)
	}
	return sum, nil
}

// restartPause is the time before a functions process that has ended is started again. A process
// that cannot live is started again and again; the pause keeps that from taking all of the machine.
const restartPause = time.Second

// Keep keeps the functions going until ctx ends. It starts a functions process again whenever one
// ends by itself. It calls RollUpOnSchedule again and again, as Cloud Scheduler would. The first
// call comes at once if now is true or a route says "every", else after the first pause.
//
// When ctx has ended, Keep ends the processes before it waits for the last call. So no process logs
// that its caller went away.
func (s *Stack) Keep(ctx context.Context, every time.Duration, now bool) {
	var keepers, calls sync.WaitGroup
	for n := range s.Processes {
		keepers.Go(func() { s.keep(ctx, n) })
	}
	calls.Go(func() { s.keepCalling(ctx, every, now) })

	keepers.Wait()
	for n := range s.Processes {
		s.Process(n).Kill()
	}
	calls.Wait()
}

// keepCalling calls RollUpOnSchedule again and again until ctx ends.
func (s *Stack) keepCalling(ctx context.Context, every time.Duration, now bool) {
	tick := time.NewTicker(every)
	defer tick.Stop()

	if now || len(s.Config.Routes.Scheduled()) > 0 {
		s.call(ctx)
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.call(ctx)
		}
	}
}

// call calls RollUpOnSchedule. The call ends by itself, or with its process, but not with ctx.
func (s *Stack) call(ctx context.Context) {
	err := s.Process(0).callSchedule(context.WithoutCancel(ctx))
	if err != nil && ctx.Err() == nil {
		s.Say("RollUpOnSchedule failed: %v", err)
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
		err := gax.Sleep(ctx, restartPause)
		if err != nil {
			return
		}
		err = s.Restart(ctx, n)
		if err != nil {
			s.Say("%v", err)
		}
	}
}
