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
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/firestore-tally/tally/internal/cloud/config"
	"github.com/firestore-tally/tally/internal/tool/appfolder"
	"github.com/firestore-tally/tally/internal/tool/local"
	"github.com/googleapis/gax-go/v2"
	"github.com/spf13/cobra"
)

func devCommand() *cobra.Command {
	var d dev
	c := newCommand("dev")
	c.RunE = func(c *cobra.Command, _ []string) error {
		d.out, d.logs = c.OutOrStdout(), c.ErrOrStderr()
		err := d.run(c.Context())
		if c.Context().Err() != nil {
			return nil // the user stopped it
		}
		return err
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

// authPort is the port of the Firebase CLI's emulator of Authentication, unless firebase.json says
// another.
const authPort = 9099

// A dev is one run of the dev command.
type dev struct {
	stack              stackFlags
	project            string
	file               string // tally.yaml; "": there is none
	auth               string // URL of the emulator of Authentication; it need not run
	every              time.Duration
	example, dashboard page
	out, logs          io.Writer
	hints              hints

	// The settings of a changed tally.yaml, which serveAnew takes. Before a change they are empty.
	environment map[string]string
	config      config.Config
}

// run runs Tally until ctx ends, and anew whenever tally.yaml says other settings.
func (d *dev) run(ctx context.Context) error {
	folder, err := d.stack.settings.here(d.logs)
	if err != nil {
		return err
	}
	if err := d.read(folder); err != nil {
		return err
	}
	defer d.closePages()
	if err := d.openPages((*page).open); err != nil {
		return err
	}
	variables := map[string]string{"TALLY_SCHEDULE_PERIOD": d.every.String()}
	if err := d.stack.configure(ctx, folder, d.project, "DEBUG", variables); err != nil { // roll-ups are DEBUG
		return err
	}
	if err := d.checkAlone(ctx); err != nil {
		return err
	}

	d.stack.lines.out = d.logs // until the greeting
	defer d.stack.lines.close()
	d.stack.Fetch, d.stack.Say = fetchEmulator(d.logs), d.stack.lines.print
	d.stack.OtherProject = d.otherProject
	s, err := local.Start(ctx, d.stack.Options)
	if err != nil {
		return err
	}
	defer s.Stop()
	ctx, cancel := s.WhileUp(ctx)
	defer cancel()

	err = d.serve(ctx, s, false)
	for err == nil { // the settings have changed
		err = d.serveAnew(ctx, s)
	}
	return err
}

// read takes what the app's folder says.
func (d *dev) read(folder *appfolder.Folder) error {
	d.file = folder.File
	project, _, err := projectOf(d.project, folder)
	if err != nil {
		return err
	}
	d.project = cmp.Or(project, "demo-tally")

	auth, err := folder.Emulator("auth")
	if err != nil {
		return err
	}
	d.auth = "http://" + net.JoinHostPort(auth.Host, strconv.Itoa(cmp.Or(auth.Port, authPort)))

	if d.every <= 0 {
		return fmt.Errorf("--every %v: want more than 0", d.every)
	}
	return nil
}

// openPages calls open for each page that is wanted.
func (d *dev) openPages(open func(*page) error) error {
	for _, p := range []*page{&d.example, &d.dashboard} {
		if !p.on {
			continue
		}
		if err := open(p); err != nil {
			return err
		}
	}
	return nil
}

func (d *dev) closePages() {
	d.example.close()
	d.dashboard.close()
}

// checkAlone returns an error if another tally dev serves the project on an emulator that somebody
// else runs.
func (d *dev) checkAlone(ctx context.Context) error {
	host := d.stack.Config.EmulatorHost
	if host == "" {
		return nil
	}
	other, err := devVariables(ctx, host, d.project)
	if err == nil && other != nil {
		err = fmt.Errorf("another tally dev runs on %s for project %s: stop it, or name another project by --project", host, d.project)
	}
	return err
}

// otherProject tells of a request that names another project than the one that runs. The emulator
// serves each project, and nothing counts the documents of another one.
func (d *dev) otherProject(project string) {
	if project == devProject {
		return
	}
	d.stack.lines.print("%s", shown(fmt.Sprintf("a request names the project %s, and the counters are those of %s: have your app say projectId: %q, or start tally dev --project %[1]s",
		project, d.project, d.project)))
}

// serveAnew gives the stack the settings of the changed tally.yaml, and serves with them.
func (d *dev) serveAnew(ctx context.Context, s *local.Stack) error {
	d.stack.lines.follow(d.config.Routes)
	if err := s.Reconfigure(ctx, d.environment, d.config); err != nil {
		return err
	}
	if err := d.openPages((*page).reopen); err != nil {
		return err
	}
	return d.serve(ctx, s, true)
}

// serve runs the pages, the schedule and the hints of a stack. It returns nil when tally.yaml
// changes, and an error when ctx ends. again says that the stack ran before, with other settings.
func (d *dev) serve(ctx context.Context, s *local.Stack, again bool) error {
	if err := noteDev(ctx, s.Addr, d.project, noted(s)); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()

	if d.example.on {
		server, err := serveExample(ctx, &d.example, s)
		if err != nil {
			return fmt.Errorf("--web: %w", err)
		}
		defer server.Close()
	}
	if again {
		d.stack.lines.print("%s changed: the functions run anew with its settings, all documents stay, and an audit brings the totals up to date", appfolder.FileName)
	} else {
		d.stack.lines.turnTo(d.out, d.greeting(s))
	}

	if d.dashboard.on {
		work.Go(func() { d.runDashboard(ctx, s) })
	}
	work.Go(func() { s.Keep(ctx, d.every, again) })
	d.hint(ctx, s, &work)
	return d.awaitChange(ctx, s)
}

// noted returns what tally dev notes on the emulator: the variables of its functions, and where to
// ask whether it runs.
func noted(s *local.Stack) map[string]string {
	variables := map[string]string{aliveAt: s.RelayAddr}
	for name, value := range s.Environment {
		if strings.HasPrefix(name, "TALLY_") {
			variables[name] = value
		}
	}
	return variables
}

// serveExample serves the example page until the server is closed.
func serveExample(ctx context.Context, p *page, s *local.Stack) (*http.Server, error) {
	handler, err := examplePage(ctx, s)
	if err != nil {
		return nil, err
	}
	quiet := slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute, ErrorLog: quiet}
	go func() { _ = server.Serve(p.listener) }() // until Close
	return server, nil
}

// runDashboard serves the dashboard until ctx ends.
func (d *dev) runDashboard(ctx context.Context, s *local.Stack) {
	err := showDashboard(ctx, &d.dashboard, s)
	if err != nil && ctx.Err() == nil {
		d.stack.lines.print("%v", err)
	}
}

// hint begins to say what a newcomer gets wrong, as work that goes on until ctx ends.
func (d *dev) hint(ctx context.Context, s *local.Stack, work *sync.WaitGroup) {
	h := &d.hints
	h.routes, h.say = s.Config.Routes, d.stack.lines.print
	h.file, h.rules = filepath.Base(s.Rules), strings.Split(s.RulesText, "\n")
	h.indexes()
	for _, client := range s.Clients {
		work.Go(func() { h.lookAround(ctx, client) })
	}

	if s.Emulator == nil { // that of somebody else tells no refusals
		return
	}
	work.Go(func() {
		err := s.Emulator.Refusals(ctx, h.refused)
		if err != nil && ctx.Err() == nil {
			h.say("refused requests are no longer shown: %v", err)
		}
	})
}

// lookAtSettings is how often tally.yaml is looked at. It is short, and read in a millisecond.
const lookAtSettings = time.Second / 2

// awaitChange waits until tally.yaml has other settings than those that run. It notes them, and
// returns nil. If ctx ends before, it returns the cause. If a file cannot be taken, it says why
// once.
func (d *dev) awaitChange(ctx context.Context, s *local.Stack) error {
	told := ""
	for {
		stopped := gax.Sleep(ctx, lookAtSettings)
		if stopped != nil {
			return context.Cause(ctx)
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

// look reads tally.yaml. If its settings are not those that run, it notes them. A file that went
// away changes nothing, because an editor may be writing it.
func (d *dev) look(s *local.Stack) (changed bool, err error) {
	folder, err := d.stack.settings.here(io.Discard)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	wentAway := d.file != "" && folder.File != d.file
	if wentAway {
		return false, nil
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
