package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/cmd/tally/command"
	"github.com/firestore-tally/tally/cmd/tally/court"
	"github.com/firestore-tally/tally/cmd/tally/session"
	"github.com/firestore-tally/tally/cmd/tally/settings"
	"github.com/firestore-tally/tally/internal/cloud/alarm"
	"github.com/firestore-tally/tally/internal/cloud/config"
	"github.com/firestore-tally/tally/internal/tool/appfolder"
	"github.com/firestore-tally/tally/internal/tool/local"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/spf13/cobra"
)

func devCommand() *cobra.Command {
	d := dev{leave: func() {}}
	c := command.New("dev")
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
	f.Lookup("firestore-port").Usage = "port of the Firestore emulator, which tally dev joins if one already serves there (default: that of firebase.json, else 8080); 0: any that is free; no effect with FIRESTORE_EMULATOR_HOST set"
	f.StringVar(&d.project, "project", "", "project id, or alias of .firebaserc (default $GOOGLE_CLOUD_PROJECT, else the Firebase CLI's, else demo-tally); the emulator takes any id, and touches no project")
	f.StringVar(&d.stack.Data, "data", "", "folder that keeps all documents: what it has is imported at the start, and Ctrl-C exports into it (default: Ctrl-C forgets them)")
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
	stack     stackFlags
	project   string
	file      string         // tally.yaml; "": there is none
	ports     map[string]int // that it names
	leave     func()         // makes place for another tally dev; see takePlace
	auth      string         // URL of the emulator of Authentication; it need not run
	every     time.Duration
	dashboard page
	out, logs io.Writer
	hints     hints

	// The settings of a changed tally.yaml, which serveAgain takes. Before a change they are empty.
	environment map[string]string
	config      config.Config
	former      route.Routes // those before the change

	wrongRules appRules // changed rules that do not compile; zero: there are none
	mistake    error    // of these rules

	// What the files said at the last look. A file that an editor is writing says something else at
	// the next one.
	lastRules       appRules
	lastEnvironment map[string]string
}

// run runs Tally until ctx ends, and starts it again whenever the settings in tally.yaml change.
func (d *dev) run(ctx context.Context) error {
	folder, err := d.stack.settings.Here(d.logs)
	if err != nil {
		return err
	}
	if err := d.read(folder); err != nil {
		return err
	}
	variables := map[string]string{"TALLY_SCHEDULE_PERIOD": d.every.String()}
	defer func() { d.leave() }()
	d.stack.chosen, d.stack.logs, d.stack.lines.out = d.takePlace, d.logs, d.logs         // until the greeting
	if err := d.stack.configure(ctx, folder, d.project, "DEBUG", variables); err != nil { // roll-ups are DEBUG
		return err
	}
	defer d.dashboard.close()
	if err := d.dashboard.open(); err != nil {
		return err
	}
	if err := d.openData(); err != nil {
		return err
	}

	defer d.stack.lines.close()
	d.stack.Downloads, d.stack.Say = court.Downloads(d.logs), d.stack.lines.print
	d.stack.OtherProject = d.otherProject
	d.hints.say, d.hints.written = d.stack.lines.printEscaped, make(chan writtenDocument, maxWritten)
	c := &court.Court{Downloads: d.stack.Downloads}
	defer c.Close()
	d.hints.court = c.Open
	d.hints.setRules(d.stack.rules)
	d.stack.Written = d.hints.noteWritten
	fmt.Fprintln(d.logs, d.stack.startText())
	s, err := local.Start(ctx, d.stack.Options)
	if err != nil {
		return err
	}
	defer s.Stop()
	if s.Emulator != nil {
		c.Addr = s.Addr
	}
	ctx, cancel := s.WhileUp(ctx)

	// A new listener would hear of former requests again, so there is one for all settings.
	var refusals sync.WaitGroup
	refusals.Go(func() { d.reportRefusals(ctx, s) })
	defer refusals.Wait()
	defer cancel()

	err = d.serve(ctx, s, false)
	for err == nil { // the settings have changed
		err = d.serveAgain(ctx, s)
	}
	return err
}

// read takes what the app's folder says.
func (d *dev) read(folder *appfolder.Folder) error {
	d.file, d.ports = folder.File, folder.Settings.Dev
	if err := d.usePorts(); err != nil {
		return err
	}
	chosen, err := settings.ChooseProject(d.project, folder)
	if err != nil {
		return err
	}
	d.project = cmp.Or(chosen.ID, "demo-tally")

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

// usePorts takes the ports of tally.yaml that no flag names.
func (d *dev) usePorts() error {
	flags := d.stack.flags
	for key, number := range d.ports {
		flag := strings.ReplaceAll(key, "_", "-")
		if flags.Changed(flag) {
			continue
		}
		err := flags.Set(flag, strconv.Itoa(number))
		if err != nil {
			return fmt.Errorf("dev.%s: %w", key, err)
		}
	}
	return nil
}

// openData makes the folder that keeps the documents, if one is named.
func (d *dev) openData() (err error) {
	if d.stack.Data == "" {
		return nil
	}
	if host := d.stack.Config.EmulatorHost; host != "" {
		return fmt.Errorf("--data works only for an emulator that tally dev starts, and one already runs at %s. Stop it, or start it with --import and --export-on-exit", host)
	}

	d.stack.Data, err = filepath.Abs(d.stack.Data)
	if err == nil {
		err = os.MkdirAll(d.stack.Data, 0o700)
	}
	if err != nil {
		err = fmt.Errorf("--data: %w", err)
	}
	return err
}

// otherProject reports a request for a project other than the one that runs. The emulator serves
// every project, but no functions count the documents of the others.
func (d *dev) otherProject(project string) {
	if project == session.DevProject {
		return
	}
	d.stack.lines.printEscaped("a request names the project %s, but the counters are those of %s: set projectId: %q in your app, or start tally dev --project %[1]s",
		project, d.project, d.project)
}

// serveAgain gives the stack the settings of the changed tally.yaml, and serves with them.
func (d *dev) serveAgain(ctx context.Context, s *local.Stack) error {
	d.stack.lines.setRoutes(d.config.Routes)
	d.reportRemovedTotals(s.Config.Routes, d.config.Routes)
	for _, text := range renamedTotals(s.Config.Routes, d.config.Routes) {
		d.stack.lines.printEscaped("%s", text)
	}
	d.former = s.Config.Routes
	if err := s.Reconfigure(ctx, d.environment, d.config); err != nil {
		return err
	}
	if err := d.dashboard.reopen(); err != nil {
		return err
	}
	return d.serve(ctx, s, true)
}

// reportRemovedTotals tells which totals no route keeps any more.
func (d *dev) reportRemovedTotals(former, routes route.Routes) {
	var left []string
	for _, template := range former.Templates() {
		same := func(t *route.Template) bool { return t.Segments().String() == template.Segments().String() }
		if !slices.ContainsFunc(routes.Templates(), same) {
			left = append(left, template.Segments().String())
		}
	}
	if left == nil {
		return
	}

	why := ""
	if d.environment["TALLY_ROUTES"] == "" {
		why = appfolder.FileName + " names no routes, so the default one runs; "
	}
	d.stack.lines.printEscaped("%sno route updates the totals in %s any more; they keep their last values", why, strings.Join(left, ", "))
}

// serve runs the dashboard, the schedule and the hints of a stack. It returns nil when tally.yaml
// changes, and an error when ctx ends. again says that the stack ran before, with other settings.
func (d *dev) serve(ctx context.Context, s *local.Stack, again bool) error {
	if err := session.NoteDev(ctx, s.Addr, d.project, devVariables(s)); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()

	if again {
		d.stack.lines.print("%s changed: the functions run again with its settings, all documents stay, and an audit brings the totals up to date", appfolder.FileName)
	} else {
		d.stack.lines.redirect(d.out, d.greeting(s))
		d.reportDecisions()
	}

	if d.dashboard.on {
		work.Go(func() { d.runDashboard(ctx, s) })
	}
	audited := !again && !s.Imported // imports make no events, so they need an audit
	work.Go(func() { s.Keep(ctx, d.every, !audited) })
	d.startHints(ctx, s, &work)
	return d.awaitChange(ctx, s)
}

// reportDecisions tells what the app's security rules leave to the user. An app sees only that such
// a request is refused.
func (d *dev) reportDecisions() {
	left := strings.TrimSuffix(decisions(d.stack.rules.name(), d.stack.rules.text), "\n")
	if left != "" {
		d.stack.lines.print("%s", left)
	}
}

// devVariables returns what tally dev notes on the emulator: the variables of its functions, where
// its queue takes alarms, and where to ask whether it runs.
func devVariables(s *local.Stack) map[string]string {
	variables := map[string]string{session.AliveAt: s.RelayAddr, alarm.EmulatorHost: s.QueueAddr}
	for name, value := range s.Environment {
		if strings.HasPrefix(name, "TALLY_") {
			variables[name] = value
		}
	}
	return variables
}

// runDashboard serves the dashboard until ctx ends.
func (d *dev) runDashboard(ctx context.Context, s *local.Stack) {
	err := showDashboard(ctx, &d.dashboard, s)
	if err != nil && ctx.Err() == nil {
		d.stack.lines.print("%v", err)
	}
}

// startHints begins to say what a newcomer gets wrong, as work that goes on until ctx ends.
func (d *dev) startHints(ctx context.Context, s *local.Stack, work *sync.WaitGroup) {
	h := &d.hints
	h.routes, h.addr, h.project = s.Config.Routes, s.Addr, d.project
	h.reportIndexes(s.Config.Edition)
	h.reportCircles()
	h.checkRules()
	clients := make(map[string]*firestore.Client)
	for i, client := range s.Clients {
		database := s.Config.Databases[i]
		clients[database] = client
		work.Go(func() { h.reportDroppedRoutes(ctx, servedDatabase{database, client}, d.former) })
	}
	work.Go(func() { h.inspectWritten(ctx, clients) })
}

// reportRefusals tells what the security rules refuse, until ctx ends. An emulator that somebody
// else runs does not say that.
func (d *dev) reportRefusals(ctx context.Context, s *local.Stack) {
	if s.Emulator == nil {
		return
	}
	err := s.Emulator.Refusals(ctx, d.hints.reportRefusal)
	if err != nil && ctx.Err() == nil {
		d.hints.say("refused requests are no longer shown: %v", err)
	}
}
