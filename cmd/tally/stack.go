package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/caarlos0/env/v11"
	root "github.com/firestore-tally/tally"
	"github.com/firestore-tally/tally/internal/app"
	"github.com/firestore-tally/tally/internal/appfolder"
	"github.com/firestore-tally/tally/internal/billing"
	"github.com/firestore-tally/tally/internal/emulator"
	"github.com/firestore-tally/tally/internal/eventrelay"
	"github.com/firestore-tally/tally/internal/firestorestore"
	"github.com/spf13/cobra"
)

// stackOptions say what to run.
type stackOptions struct {
	project       string
	firestorePort int
	functionsPort int // of the first instance; the others follow. 0: any for each
	instances     int
	rules         string
	faults        eventrelay.Faults
	folder        *appfolder.Folder
	variables     []string // of the functions' environment, beside this process's own
	billed        bool     // count what the functions are billed for
	logLevel      string   // of the functions, unless TALLY_LOG_LEVEL says another
	lines         *lines   // where the functions log to
	logs          io.Writer
}

// flags defines the flags that dev and demo share.
func (o *stackOptions) flags(c *cobra.Command) {
	f := c.Flags()
	f.IntVar(&o.firestorePort, "firestore-port", 8080, "port of the Firestore emulator; 0: any that is free; no effect with FIRESTORE_EMULATOR_HOST set")
	f.IntVar(&o.functionsPort, "functions-port", 8081, "port of the first functions process; the others follow; 0: any that are free")
	f.IntVar(&o.instances, "instances", 2, "functions processes")
	f.StringVar(&o.rules, "rules", "", "file of security rules (default: that of firebase.json, else those of Tally); no effect with FIRESTORE_EMULATOR_HOST set")
}

const highestPort = 65535

// check checks what can be checked before anything is started. The port of another emulator than
// its own does not matter.
func (o *stackOptions) check(another bool) error {
	if o.instances < 1 {
		return fmt.Errorf("--instances %d: want at least 1", o.instances)
	}
	if last := o.instancePort(o.instances - 1); o.functionsPort < 0 || last > highestPort {
		return fmt.Errorf("--functions-port %d: the ports %d to %d of %d processes: want ports up to %d, or 0 for any that are free", o.functionsPort, o.functionsPort, last, o.instances, highestPort)
	}
	if another {
		return nil
	}
	if o.firestorePort < 0 || o.firestorePort > highestPort {
		return fmt.Errorf("--firestore-port %d: want a port up to %d, or 0 for any that is free", o.firestorePort, highestPort)
	}
	if err := o.checkInstances(o.firestorePort); err != nil {
		return fmt.Errorf("--firestore-port %w; choose others with --functions-port", err)
	}
	return nil
}

// instancePort returns the port of the n-th functions process, 0 if any does.
func (o *stackOptions) instancePort(n int) int {
	if o.functionsPort == 0 {
		return 0
	}
	return o.functionsPort + n
}

// checkInstances returns an error if the port is that of a functions process.
func (o *stackOptions) checkInstances(port int) error {
	if last := o.instancePort(o.instances - 1); port != 0 && o.functionsPort <= port && port <= last {
		return fmt.Errorf("%d is one of the functions' ports, %d to %d", port, o.functionsPort, last)
	}
	return nil
}

// A stack is everything that Tally needs, running on this machine.
type stack struct {
	options stackOptions
	config  app.Config
	addr    string              // of the emulator
	started *emulator.Emulator  // nil when the emulator is somebody else's
	clients []*firestore.Client // one for each database of config, in its order; past the rules
	relay   *eventrelay.Relay
	dir     string   // temporary
	closers []func() // in order of starting

	mu        sync.Mutex
	instances []*instance
	usage     []string // files of all instances that were ever started
}

// startStack starts a stack. The caller stops it, also after an error.
func startStack(ctx context.Context, o stackOptions) (*stack, error) {
	if o.lines.all = os.Getenv("TALLY_LOG_LEVEL") != ""; !o.lines.all {
		o.variables = append(o.variables, "TALLY_LOG_LEVEL="+o.logLevel)
	}
	for name, value := range named(o.folder) {
		if name != "TALLY_TELEMETRY" || os.Getenv(name) != "" { // the file's is of what is deployed
			o.variables = slices.Insert(o.variables, 0, name+"="+value) // what o says wins
		}
	}
	o.variables = append(o.variables, "GOOGLE_CLOUD_PROJECT="+o.project)
	s := &stack{options: o}
	variables := env.ToMap(append(os.Environ(), o.variables...))
	var err error
	if s.config, err = app.LoadConfig(variables); err != nil {
		return s, fmt.Errorf("configuration: %w", err)
	}
	if err := o.check(s.config.EmulatorHost != ""); err != nil {
		return s, err
	}
	if s.dir, err = os.MkdirTemp("", "tally-"); err != nil {
		return s, err
	}
	s.onStop(func() { _ = os.RemoveAll(s.dir) })
	for n := range o.instances {
		if err := checkPort(o.instancePort(n)); err != nil {
			return s, fmt.Errorf("functions: %w, by another tally dev perhaps; choose others with --functions-port", err)
		}
	}
	s.relay = eventrelay.New(eventrelay.Options{Faults: o.faults, Timeout: deliveryTimeout(s.config), Logger: slog.New(slog.DiscardHandler)})
	s.onStop(s.relay.Close)
	if err := s.startFirestore(ctx); err != nil {
		return s, err
	}
	for n := range o.instances {
		if err := s.startInstance(ctx, n); err != nil {
			return s, err
		}
	}
	maps.DeleteFunc(variables, func(name, _ string) bool { return !strings.HasPrefix(name, "TALLY_") })
	forget, err := noteDev(ctx, s.addr, o.project, variables)
	if err != nil {
		return s, err
	}
	s.onStop(forget)
	return s, s.startEvents(ctx)
}

// deliveryTimeout is how long the relay waits for an answer: as long as Pub/Sub does by default, and
// longer than an event is held.
func deliveryTimeout(c app.Config) time.Duration {
	return max(10*time.Second, c.HoldLimit+2*time.Second)
}

// onStop has f called when the stack stops.
func (s *stack) onStop(f func()) { s.closers = append(s.closers, f) }

// stop ends whatever was started, in reverse order.
func (s *stack) stop() {
	for _, f := range slices.Backward(s.closers) {
		f()
	}
}

// errEmulator is the cause of a context that ended because the emulator did.
var errEmulator = errors.New("the Firestore emulator ended by itself")

// whileUp returns a context that ends with ctx, and when the emulator that the stack started ends
// by itself, with a cause that says how it did.
func (s *stack) whileUp(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if s.started != nil {
		go func() {
			select {
			case <-s.started.Done():
				cancel(fmt.Errorf("%w: %w", errEmulator, s.started.Stop()))
			case <-ctx.Done():
			}
		}()
	}
	return ctx, func() { cancel(nil) }
}

// startFirestore starts the emulator, or takes the one that the environment names, and opens a
// client.
func (s *stack) startFirestore(ctx context.Context) error {
	if s.addr = s.config.EmulatorHost; s.addr != "" {
		if err := checkEmulator(ctx, s.addr); err != nil {
			return fmt.Errorf("%s=%s: %w; without the variable, an emulator is started", firestorestore.EmulatorHost, s.addr, err)
		}
		if other, err := devVariables(ctx, s.addr, s.options.project); err != nil || other != nil {
			return cmp.Or(err, fmt.Errorf("another tally dev runs on %s for project %s", s.addr, s.options.project))
		}
	} else {
		if err := checkPort(s.options.firestorePort); err != nil {
			return fmt.Errorf("firestore: %w; choose another with --firestore-port", err)
		}
		if err := s.chooseRules(); err != nil {
			return err
		}
		// The emulator posts its events to the relay.
		l, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
		if err != nil {
			return err
		}
		server := &http.Server{Handler: s.relay, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
		go func() { _ = server.Serve(l) }() // until Close
		s.onStop(func() { _ = server.Close() })
		s.started, err = emulator.Start(ctx, emulator.Options{
			Port: s.options.firestorePort, Rules: s.options.rules, Functions: l.Addr().String(), Fetch: fetchEmulator(s.options.logs),
		})
		if err != nil {
			return err
		}
		s.onStop(func() { _ = s.started.Stop() })
		s.addr = s.started.Addr()
	}
	for _, database := range s.config.Databases {
		client, err := firestorestore.Dial(ctx, s.addr, s.options.project, database)
		if err != nil {
			return err
		}
		s.onStop(func() { _ = client.Close() })
		s.clients = append(s.clients, client)
	}
	return nil
}

// builtIn is the name of the file of Tally's own rules.
const builtIn = "firestore.rules"

// chooseRules chooses the security rules: those of the flag, those of the app, or Tally's.
func (s *stack) chooseRules() error {
	o := &s.options
	from := "--rules"
	if o.rules == "" {
		d, err := o.folder.Database(s.config.Databases[0])
		if err != nil {
			return err
		}
		o.rules, from = d.Rules, o.folder.Firebase
	}
	if o.rules == "" {
		o.rules = filepath.Join(s.dir, builtIn)
		return os.WriteFile(o.rules, []byte(root.Rules), 0o600)
	}
	if _, err := os.Stat(o.rules); err != nil {
		return fmt.Errorf("%s: rules: %w", from, err)
	}
	return nil
}

// rules says which security rules there are.
func (s *stack) rules() string {
	switch rules := s.options.rules; {
	case s.started == nil:
		return "those of the emulator"
	case filepath.Dir(rules) == s.dir:
		return "Tally's own, built in; firebase.json or --rules name an app's"
	default:
		return rules
	}
}

// checkEmulator returns an error, which ends in a remedy, unless an emulator answers at addr, the value
// of FIRESTORE_EMULATOR_HOST. The remedy is never to unset that: the next command would go to a real
// project.
func checkEmulator(ctx context.Context, addr string) error {
	if host, port, err := net.SplitHostPort(addr); err != nil || host == "" || port == "" {
		return errors.New("is not of the form host:port; set it to one such as 127.0.0.1:8080")
	}
	switch err := emulator.Check(ctx, addr); err {
	case nil:
		return nil
	case emulator.ErrBusy:
		return fmt.Errorf("%w; try again when it has less to do", err)
	default:
		return fmt.Errorf("%w; start it, as tally dev does, or name the one that runs", err)
	}
}

// startInstance starts the n-th functions process, in place of one that has ended.
func (s *stack) startInstance(ctx context.Context, n int) error {
	variables := append(slices.Clone(s.options.variables), firestorestore.EmulatorHost+"="+s.addr)
	if s.options.billed {
		s.mu.Lock()
		usage := filepath.Join(s.dir, fmt.Sprintf("usage-%d", len(s.usage)))
		s.usage = append(s.usage, usage)
		s.mu.Unlock()
		variables = append(variables, "TALLY_USAGE_FILE="+usage)
	}
	i, err := startInstance(ctx, s.options.instancePort(n), variables, s.options.lines.of())
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n < len(s.instances) {
		s.instances[n] = i
	} else {
		s.instances = append(s.instances, i)
		s.onStop(func() { s.instance(n).stop() })
	}
	var targets []string
	for _, i := range s.instances {
		targets = append(targets, i.url("RollUpOnWrite"))
	}
	s.relay.SetTargets(targets)
	return nil
}

// instance returns the n-th functions process.
func (s *stack) instance(n int) *instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.instances[n]
}

// startEvents has each write of a shard of a live route become an event at the relay.
func (s *stack) startEvents(ctx context.Context) error {
	if s.started == nil {
		return s.listenForEvents(ctx)
	}
	for n, route := range s.config.Routes.Live() {
		var pattern []string
		for _, segment := range route.Pattern() {
			pattern = append(pattern, segment.String())
		}
		for d, database := range s.config.Databases {
			err := emulator.RegisterTrigger(ctx, s.addr, emulator.Trigger{
				Project: s.options.project, Database: database, Name: fmt.Sprintf("tally-%d-%d", d, n), Pattern: strings.Join(pattern, "/"),
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// listenForEvents makes the events from snapshot listeners, because somebody else's emulator posts
// them elsewhere.
func (s *stack) listenForEvents(ctx context.Context) error {
	collections := make(map[string]bool)
	for _, route := range s.config.Routes.Live() {
		pattern := route.Pattern()
		collections[pattern[len(pattern)-2].Name] = true
	}
	ctx, cancel := context.WithCancel(ctx)
	var listeners, starting sync.WaitGroup
	s.onStop(func() {
		cancel()
		listeners.Wait()
	})
	for _, client := range s.clients {
		for collection := range maps.Keys(collections) {
			starting.Add(1)
			listeners.Go(func() {
				started := sync.OnceFunc(starting.Done)
				defer started()
				err := eventrelay.Listen(ctx, client, collection, started, s.deliverShard)
				if ctx.Err() == nil {
					fmt.Fprintf(s.options.logs, "tally: no more events: %v\n", err)
				}
			})
		}
	}
	starting.Wait()
	return ctx.Err()
}

// deliverShard hands an event of a collection group to the relay if it is a shard's, as a trigger's
// pattern would.
func (s *stack) deliverShard(e eventrelay.Event) error {
	if _, _, ok := s.config.Routes.Live().Match(e.Header.Get("Ce-Document")); !ok {
		return nil
	}
	return s.relay.Deliver(e)
}

// billed returns the operations that all the functions processes were billed for, those that have
// ended too.
func (s *stack) billed() (billing.Counts, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var sum billing.Counts
	for _, file := range s.usage {
		c, err := billing.ReadFile(file)
		if err != nil && !errors.Is(err, os.ErrNotExist) { // a process that got no request has no file
			return billing.Counts{}, err
		}
		sum = sum.Add(c)
	}
	return sum, nil
}
