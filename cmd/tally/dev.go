package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/appfolder"
	"github.com/firestore-tally/tally/internal/config"
	"github.com/firestore-tally/tally/internal/deploy"
	"github.com/firestore-tally/tally/internal/local"
	"github.com/firestore-tally/tally/rollup"
	"github.com/spf13/cobra"
)

func devCommand() *cobra.Command {
	var d dev
	c := newCommand("dev")
	c.RunE = func(c *cobra.Command, _ []string) error {
		d.out, d.logs = c.OutOrStdout(), c.ErrOrStderr()
		if err := d.run(c.Context()); c.Context().Err() == nil {
			return err
		}
		return nil // the user stopped it
	}
	d.stack.define(c)
	d.stack.joins = true
	f := c.Flags()
	f.Lookup("firestore-port").Usage = "port of the Firestore emulator, which is joined if one serves it (default: that of firebase.json, else 8080); 0: any that is free; no effect with FIRESTORE_EMULATOR_HOST set"
	f.StringVar(&d.project, "project", "", "project id (default $GOOGLE_CLOUD_PROJECT, else .firebaserc's, else demo-tally); the emulator takes any, and touches none")
	f.BoolVar(&d.example.on, "web", false, "serve the example page of the web client")
	d.example.define(c, "web-port", 8090, "the example page")
	f.BoolVar(&d.dashboard.on, "dashboard", true, "serve the live dashboard")
	d.dashboard.define(c, "dashboard-port", dashboardPort, "the dashboard")
	f.DurationVar(&d.every, "every", time.Minute, "time between two calls of RollUpOnSchedule, which keeps the routes that say \"every\" from one to the next")
	return c
}

// authPort is the port at which the Firebase CLI has users signed in, unless firebase.json says
// another.
const authPort = 9099

// A dev is one run of the dev command.
type dev struct {
	stack              stackFlags
	project            string
	file               string // tally.yaml; "": there is none
	auth               string // URL of the emulator that signs users in, whether it runs or not
	every              time.Duration
	example, dashboard page
	out, logs          io.Writer
	hints              hints

	// What a changed tally.yaml says, from then on.
	environment map[string]string
	config      config.Config
}

func (d *dev) run(ctx context.Context) error {
	folder, err := d.stack.settings.here(d.logs)
	if err != nil {
		return err
	}
	d.file = folder.File
	if d.project, _, err = projectOf(d.project, folder); err != nil {
		return err
	}
	d.project = cmp.Or(d.project, "demo-tally")
	auth, err := folder.Emulator("auth")
	if err != nil {
		return err
	}
	d.auth = "http://" + net.JoinHostPort(auth.Host, strconv.Itoa(cmp.Or(auth.Port, authPort)))
	if d.every <= 0 {
		return fmt.Errorf("--every %v: want more than 0", d.every)
	}
	for _, p := range []*page{&d.example, &d.dashboard} {
		if !p.on {
			continue
		}
		if err := p.open(); err != nil {
			return err
		}
		defer p.listener.Close()
	}
	variables := map[string]string{"TALLY_SCHEDULE_PERIOD": d.every.String()}
	if err := d.stack.configure(ctx, folder, d.project, "DEBUG", variables); err != nil { // roll-ups are DEBUG
		return err
	}
	if host := d.stack.Config.EmulatorHost; host != "" {
		if other, err := devVariables(ctx, host, d.project); err != nil || other != nil {
			return cmp.Or(err, fmt.Errorf("another tally dev runs on %s for project %s: stop it, or name another project by --project", host, d.project))
		}
	}
	d.stack.lines.out = d.logs // until the greeting
	defer d.stack.lines.close()
	d.stack.Fetch, d.stack.Say = fetchEmulator(d.logs), d.stack.lines.print
	s, err := local.Start(ctx, d.stack.Options)
	if err != nil {
		return err
	}
	defer s.Stop()
	ctx, cancel := s.WhileUp(ctx)
	defer cancel()
	if err := d.serve(ctx, s, false); err != nil {
		return err
	}
	for {
		d.stack.lines.follow(d.config.Routes)
		if err := s.Reconfigure(ctx, d.environment, d.config); err != nil {
			return err
		}
		for _, p := range []*page{&d.example, &d.dashboard} {
			if !p.on {
				continue
			}
			if err := p.reopen(); err != nil {
				return err
			}
		}
		if err := d.serve(ctx, s, true); err != nil {
			return err
		}
	}
}

// serve runs what belongs to the stack until tally.yaml changes, which is no error, or ctx ends.
// Again: the stack ran before, with other settings.
func (d *dev) serve(ctx context.Context, s *local.Stack, again bool) error {
	lines := &d.stack.lines
	variables := map[string]string{aliveAt: s.RelayAddr}
	for name, value := range s.Environment {
		if strings.HasPrefix(name, "TALLY_") {
			variables[name] = value
		}
	}
	if err := noteDev(ctx, s.Addr, d.project, variables); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	if d.example.on {
		handler, err := examplePage(ctx, s)
		if err != nil {
			return fmt.Errorf("--web: %w", err)
		}
		quiet := slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
		server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute, ErrorLog: quiet}
		defer server.Close()
		go func() { _ = server.Serve(d.example.listener) }() // until Close
	}
	if again {
		lines.print("%s changed: the functions run anew with its settings, all documents stay, and an audit brings the totals up to date", appfolder.FileName)
	} else {
		lines.turnTo(d.out, d.greeting(s))
	}
	if d.dashboard.on {
		work.Go(func() {
			if err := showDashboard(ctx, &d.dashboard, s); err != nil {
				lines.print("%v", err)
			}
		})
	}
	work.Go(func() { s.Keep(ctx, d.every, again) })
	h := &d.hints
	h.routes, h.file, h.rules, h.say = s.Config.Routes, filepath.Base(s.Rules), strings.Split(s.RulesText, "\n"), lines.print
	h.indexes()
	for _, client := range s.Clients {
		work.Go(func() { h.lookAround(ctx, client) })
	}
	if s.Emulator != nil {
		work.Go(func() {
			if err := s.Emulator.Refusals(ctx, h.refused); err != nil && ctx.Err() == nil {
				lines.print("refused requests are no longer shown: %v", err)
			}
		})
	}
	return d.awaitChange(ctx, s)
}

// lookAtSettings is how often tally.yaml is looked at. It is short, and read in a millisecond.
const lookAtSettings = time.Second / 2

// awaitChange returns nil when tally.yaml says other settings than those that run, which it notes;
// else the cause when ctx ends. It says once why a file cannot be taken.
func (d *dev) awaitChange(ctx context.Context, s *local.Stack) error {
	told := ""
	for {
		if err := local.Sleep(ctx, lookAtSettings); err != nil {
			return err
		}

		changed, err := d.look(s)
		if changed {
			return nil
		}
		problem := fmt.Sprint(err)
		if err != nil && problem != told {
			s.Say("%s\nThe functions keep the settings that they have.", problem)
		}
		told = problem
	}
}

// look reads tally.yaml, and notes its settings if they are not those that run. A file that went
// away changes nothing: an editor may be writing it.
func (d *dev) look(s *local.Stack) (changed bool, err error) {
	folder, err := d.stack.settings.here(io.Discard)
	if errors.Is(err, fs.ErrNotExist) || err == nil && d.file != "" && folder.File != d.file {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	environment, config, err := d.stack.functions(folder, d.project)
	if err != nil || maps.Equal(environment, s.Environment) {
		return false, err
	}
	if config.AckDeadline() != s.Config.AckDeadline() {
		return false, errors.New("TALLY_HOLD_LIMIT changed: stop tally dev and start it again, to take that")
	}
	if d.example.on {
		if err := checkExample(config.Routes); err != nil {
			return false, fmt.Errorf("--web: %w", err)
		}
	}

	d.file, d.environment, d.config = folder.File, environment, config
	return true, nil
}

func (d *dev) greeting(s *local.Stack) string {
	host, port, _ := net.SplitHostPort(s.Addr) // no error: something answers there
	var b strings.Builder
	fmt.Fprintf(&b, "\nTally runs. Stop it with Ctrl-C.\n\n  Firestore   %s, project %s\n", s.Addr, d.project)
	if s.Emulator != nil {
		fmt.Fprintf(&b, "  emulator    %s\n", s.Emulator.Program())
	}
	if d.stack.joined != "" {
		fmt.Fprintf(&b, "              joined: %s; it goes on when Tally stops\n", d.stack.joined)
	}
	for n := range s.Processes {
		p := s.Process(n)
		fmt.Fprintf(&b, "  functions   process %d: %s\n              %s\n", p.Pid, p.URL("RollUpOnWrite"), p.URL("RollUpOnSchedule"))
	}
	for _, route := range s.Config.Routes {
		fmt.Fprintf(&b, "  route       %s\n", route)
	}
	fmt.Fprintf(&b, "  rules       %s\n", d.stack.rules)
	if d.file != "" {
		fmt.Fprintf(&b, "  settings    %s\n", d.file)
	}
	if d.example.on {
		fmt.Fprintf(&b, "  web page    %s\n", d.example.url())
	}
	if d.dashboard.on {
		fmt.Fprintf(&b, "  dashboard   %s/\n", d.dashboard.url())
	}
	database := ""
	if id := s.Config.Databases[0]; id != firestore.DefaultDatabaseID {
		database = ", '" + id + "'"
	}
	fmt.Fprintf(&b, `
Point an app at it:
  Web         const db = getFirestore(initializeApp({ projectId: '%s' })%s);
              connectFirestoreEmulator(db, '%s', %s, { mockUserToken: { sub: 'ann' } }); // ann is signed in
  servers     export FIRESTORE_EMULATOR_HOST=%s GOOGLE_CLOUD_PROJECT=%[1]s

To sign users in yourself, run firebase emulators:start --only auth --project %[1]s, leave mockUserToken out, add apiKey: 'any' to
initializeApp, and call connectAuthEmulator(getAuth(), '%[6]s').

`, d.project, database, host, port, s.Addr, d.auth)
	if command := addOne(s.Config.Routes, s.Config.Databases[0]); command != "" {
		fmt.Fprintf(&b, "Add 1 from here:\n  export FIRESTORE_EMULATOR_HOST=%s GOOGLE_CLOUD_PROJECT=%s\n  %s\n\n", s.Addr, d.project, command)
	}
	return b.String()
}

// addOne returns a shell command that adds 1 to a counter of the first route that has shards, named
// after its captures; "" if there is none.
func addOne(routes rollup.Routes, database string) string {
	i := slices.IndexFunc(routes, hasShards)
	if i < 0 {
		return ""
	}
	route := routes[i]
	collection := above(capture.ReplaceAllString(route.Pattern().String(), "my-$1"))
	words := []string{collection}
	if document := above(collection); len(routes) == 1 && document != "" {
		words[0] = document
	}
	if database != firestore.DefaultDatabaseID {
		words = append(words, "--database", database)
	}
	create := deploy.Command{Args: append([]string{os.Args[0], "create"}, words...)}
	increment := deploy.Command{Args: append([]string{os.Args[0], "increment"}, words...)}
	if len(route.Totals) > 1 {
		increment.Args = append(increment.Args, "--total", route.Totals[0].Name)
	}
	return create.String() + " &&\n  " + increment.String()
}

// capture matches a capture of a pattern.
var capture = regexp.MustCompile(`\{([^}]+)\}`)
