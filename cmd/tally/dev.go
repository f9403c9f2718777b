package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/emulator"
	"github.com/firestore-tally/tally/rollup"
	"github.com/spf13/cobra"
)

func devCommand() *cobra.Command {
	var d dev
	c := &cobra.Command{
		Use:   "dev",
		Short: "Run Firestore, the functions, events and the schedule on this machine until Ctrl-C",
		Long: `Run everything on this machine until Ctrl-C: Google's Firestore emulator with the security rules, functions processes, the events between
them, the schedule, and a page that shows all counters live. With FIRESTORE_EMULATOR_HOST set, that emulator is used instead; security rules and port are then its own.

The functions take their configuration from tally.yaml, in this folder or one above it, and from variables of the environment, which win: docs/config.md. The project is that
of .firebaserc, the security rules are those of firebase.json; without these files, demo-tally and Tally's own.`,
		Example: `  tally dev
  tally dev --web
  TALLY_ROUTES='posts/{post}/shards/{shard} -> rollups/{post} : likes, views' tally dev --instances 1`,
		RunE: func(c *cobra.Command, _ []string) error {
			d.out, d.stack.logs = c.OutOrStdout(), c.ErrOrStderr()
			return d.run(c.Context())
		},
	}
	d.stack.flags(c)
	c.Flags().StringVar(&d.stack.project, "project", "", "project id (default $GOOGLE_CLOUD_PROJECT, else .firebaserc's, else demo-tally); the emulator takes any, and touches none")
	d.page.flags(c)
	d.dashboard.flags(c)
	c.Flags().DurationVar(&d.every, "every", time.Minute, "time between two calls of RollUpOnSchedule, which keeps the routes that say \"every\" from one to the next")
	return c
}

// A dev is one run of the dev command.
type dev struct {
	stack stackOptions
	every time.Duration
	out   io.Writer

	lines *lines
	hints hints

	page      examplePage
	dashboard devDashboard
}

func (d *dev) run(ctx context.Context) (err error) {
	if d.stack.folder, err = here(); err != nil {
		return err
	}
	if d.stack.project, _, err = projectOf(d.stack.project, d.stack.folder); err != nil {
		return err
	}
	d.stack.project = cmp.Or(d.stack.project, "demo-tally")
	if d.every <= 0 {
		return fmt.Errorf("--every %v: want more than 0", d.every)
	}
	if d.page.on {
		defer d.page.close()
		if err := d.page.reserve(d.stack); err != nil {
			return ended(ctx, err)
		}
	}
	if d.stack.billed = d.dashboard.on; d.dashboard.on {
		defer d.dashboard.close()
		if err := d.dashboard.reserve(); err != nil {
			return err
		}
	}
	d.stack.variables = []string{"TALLY_SCHEDULE_PERIOD=" + d.every.String()}
	d.lines = new(lines)
	d.hints.say, d.hints.often = d.lines.print, func(more, text string) { d.lines.often(time.Now(), more, text) }
	defer d.lines.close()
	d.stack.logLevel, d.stack.lines = "DEBUG", d.lines // roll-ups are logged at DEBUG
	s, err := startStack(ctx, d.stack)
	defer s.stop()
	if err == nil && d.page.on {
		err = d.page.start(ctx, s)
	}
	if err != nil {
		d.lines.open(d.stack.logs, "")
		return ended(ctx, err)
	}
	ctx, cancel := s.whileUp(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	if d.dashboard.on {
		if err := d.dashboard.start(ctx, s, &work, func(err error) { d.lines.print("%v", err) }); err != nil {
			return ended(ctx, err)
		}
	}
	d.lines.open(d.out, d.greeting(s))
	for n := range d.stack.instances {
		work.Go(func() { d.keep(ctx, s, n) })
	}
	work.Go(func() { d.schedule(ctx, s) })
	for _, client := range s.clients {
		work.Go(func() { d.hints.lookAround(ctx, client, s.config.Routes) })
	}
	if s.started != nil {
		work.Go(func() {
			err := s.started.Refusals(ctx, func(r emulator.Refusal) { d.hints.refused(filepath.Base(s.options.rules), r) })
			if err != nil && ctx.Err() == nil {
				d.lines.print("refused requests are no longer shown: %v", err)
			}
		})
	}
	<-ctx.Done()
	if err := context.Cause(ctx); errors.Is(err, errEmulator) {
		return err
	}
	return nil
}

// ended returns nil instead of an error that only says that the user stopped the command.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// greeting says what runs and how to use it.
func (d *dev) greeting(s *stack) string {
	host, port, _ := net.SplitHostPort(s.addr) // no error: something answers there
	var b strings.Builder
	fmt.Fprintf(&b, "\nTally runs. Stop it with Ctrl-C.\n\n  Firestore   %s, project %s\n", s.addr, d.stack.project)
	for n := range d.stack.instances {
		i := s.instance(n)
		fmt.Fprintf(&b, "  functions   process %d: %s\n              %s\n", i.cmd.Process.Pid, i.url("RollUpOnWrite"), i.url("RollUpOnSchedule"))
	}
	for _, route := range s.config.Routes {
		fmt.Fprintf(&b, "  route       %s\n", route)
	}
	fmt.Fprintf(&b, "  rules       %s\n", s.rules())
	if d.page.on {
		fmt.Fprintf(&b, "  web page    %s\n", d.page.url())
	}
	if d.dashboard.on {
		fmt.Fprintf(&b, "  dashboard   %s\n", dashboardURL(d.dashboard.listener))
	}
	database := ""
	if id := s.config.Databases[0]; id != firestore.DefaultDatabaseID {
		database = ", '" + id + "'"
	}
	fmt.Fprintf(&b, `
Point an app at it:
  Web         const db = getFirestore(initializeApp({ projectId: '%s' })%s);
              connectFirestoreEmulator(db, '%s', %s, { mockUserToken: { sub: 'ann' } }); // ann is signed in
  servers     export FIRESTORE_EMULATOR_HOST=%s GOOGLE_CLOUD_PROJECT=%[1]s

To sign users in yourself, run firebase emulators:start --only auth --project %[1]s, leave mockUserToken out, add apiKey: 'any' to
initializeApp, and call connectAuthEmulator(getAuth(), 'http://127.0.0.1:9099').

`, d.stack.project, database, host, port, s.addr)
	if command := addOne(s.config.Routes, s.config.Databases[0]); command != "" {
		fmt.Fprintf(&b, "Add 1 from here:\n  export FIRESTORE_EMULATOR_HOST=%s GOOGLE_CLOUD_PROJECT=%s\n  %s\n\n", s.addr, d.stack.project, command)
	}
	return b.String()
}

// addOne returns a shell command that adds 1 to a counter of the first route whose totals are all sums,
// named after its captures; "" if there is none.
func addOne(routes rollup.Routes, database string) string {
	i := slices.IndexFunc(routes, func(r *rollup.Route) bool { return !r.Counts() })
	if i < 0 {
		return ""
	}
	route := routes[i]
	pattern := route.Pattern()
	ids := make([]string, len(pattern)-1)
	for i, segment := range pattern[:len(ids)] {
		ids[i] = segment.Name
		if segment.Capture {
			ids[i] = "my-" + segment.Name
		}
	}
	counter := strings.Join(ids, "/")
	if len(routes) == 1 {
		counter = cmp.Or(above(counter), counter)
	}
	args := shellQuoted(counter)
	if database != firestore.DefaultDatabaseID {
		args += " --database " + database
	}
	total := ""
	if len(route.Totals) > 1 {
		total = " --total " + shellQuoted(route.Totals[0].Name)
	}
	return fmt.Sprintf("%s create %s &&\n  %[1]s increment %[2]s%s", thisCommand(), args, total)
}

// thisCommand is how a user who started this process starts tally.
func thisCommand() string {
	executable, err := os.Executable()
	if err != nil || fromGoRun(executable) {
		return "go run ./cmd/tally"
	}
	if found, err := exec.LookPath("tally"); err == nil {
		onPath, err := os.Stat(found)
		this, thisErr := os.Stat(executable)
		if err == nil && thisErr == nil && os.SameFile(onPath, this) {
			return "tally"
		}
	}
	return shellQuoted(executable)
}

var plainWord = regexp.MustCompile(`^[\w/.-]+$`)

// shellQuoted returns the text as one word of a shell command.
func shellQuoted(text string) string {
	if plainWord.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// restartPause keeps a functions process that cannot live from being started without end.
const restartPause = time.Second

// keep starts the n-th functions process again whenever it ends by itself.
func (d *dev) keep(ctx context.Context, s *stack, n int) {
	for {
		i := s.instance(n)
		select {
		case <-ctx.Done():
			return
		case <-i.ended:
		}
		d.lines.print("functions process at port %d ended (%v); starting another", i.port, i.reason)
		if sleep(ctx, restartPause) != nil {
			return
		}
		if err := s.startInstance(ctx, n); err != nil {
			d.lines.print("%v", err)
		}
	}
}

// schedule is Cloud Scheduler. Routes that say "every" need not wait for the first tick.
func (d *dev) schedule(ctx context.Context, s *stack) {
	tick := time.NewTicker(d.every)
	defer tick.Stop()
	for due := len(s.config.Routes.Scheduled()) > 0; ; due = true {
		if due {
			if err := s.instance(0).callSchedule(ctx); err != nil && ctx.Err() == nil {
				d.lines.print("RollUpOnSchedule failed: %v", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
