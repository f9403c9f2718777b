package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/firestorestore"
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
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			d.out, d.stack.logs = c.OutOrStdout(), c.ErrOrStderr()
			return d.run(c.Context())
		},
	}
	d.stack.flags(c)
	c.Flags().StringVar(&d.stack.project, "project", "", "project id (default: that of .firebaserc, else demo-tally); the emulator takes any, and touches none")
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

	page      examplePage
	dashboard devDashboard
}

// projectID is what a project id looks like
// (https://cloud.google.com/resource-manager/docs/creating-managing-projects).
var projectID = regexp.MustCompile(`^[a-z][a-z0-9-]{4,28}[a-z0-9]$`)

func (d *dev) run(ctx context.Context) (err error) {
	if d.stack.folder, err = here(); err != nil {
		return err
	}
	d.stack.project = cmp.Or(d.stack.project, d.stack.folder.Project, "demo-tally")
	if !projectID.MatchString(d.stack.project) {
		return fmt.Errorf("--project %q is no project id: want 6 to 30 lower-case letters, digits and hyphens, a letter first and no hyphen last", d.stack.project)
	}
	if d.every <= 0 {
		return fmt.Errorf("--every %v: want more than 0", d.every)
	}
	if d.page.on {
		defer d.page.close()
		if err := d.page.reserve(ctx, d.stack); err != nil {
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
	s, err := startStack(ctx, d.stack)
	defer s.stop()
	if err == nil && d.page.on {
		err = d.page.start(ctx, s)
	}
	if err != nil {
		return ended(ctx, err)
	}
	ctx, cancel := s.whileUp(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	if d.dashboard.on {
		if err := d.dashboard.start(ctx, s, &work, func(err error) { d.print("%v", err) }); err != nil {
			return ended(ctx, err)
		}
	}
	greeted := make(chan struct{})
	d.watch(ctx, s, &work, greeted)
	d.greet(s)
	close(greeted)
	for n := range d.stack.instances {
		work.Go(func() { d.keep(ctx, s, n) })
	}
	work.Go(func() { d.schedule(ctx, s) })
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

// greet says what runs and how to use it.
func (d *dev) greet(s *stack) {
	host, port, _ := net.SplitHostPort(s.addr) // no error: something answers there
	fmt.Fprintf(d.out, "\nTally runs. Stop it with Ctrl-C.\n\n  Firestore   %s, project %s\n", s.addr, d.stack.project)
	for n := range d.stack.instances {
		i := s.instance(n)
		fmt.Fprintf(d.out, "  functions   process %d: %s\n              %s\n", i.cmd.Process.Pid, i.url("RollUpOnWrite"), i.url("RollUpOnSchedule"))
	}
	for _, route := range s.config.Routes {
		fmt.Fprintf(d.out, "  route       %s\n", route)
	}
	fmt.Fprintf(d.out, "  rules       %s\n", s.rules())
	if d.page.on {
		fmt.Fprintf(d.out, "  web page    %s\n", d.page.url())
	}
	if d.dashboard.on {
		fmt.Fprintf(d.out, "  dashboard   %s\n", dashboardURL(d.dashboard.listener))
	}
	fmt.Fprintf(d.out, `
Point an app at it:
  Web         connectFirestoreEmulator(getFirestore(app), '%s', %s)   // initializeApp({ projectId: '%s' })
  servers     export FIRESTORE_EMULATOR_HOST=%s GOOGLE_CLOUD_PROJECT=%[3]s

Add 1 from here:
  %[5]s

`, host, port, d.stack.project, s.addr, addOne(s.addr, d.stack.project, s.config.Databases[0], s.config.Routes[0]))
}

// addOne returns a shell command that adds 1 to a counter of the route, named after its captures.
func addOne(addr, project, database string, route *rollup.Route) string {
	pattern := route.Pattern()
	ids := make([]string, len(pattern))
	for i, segment := range pattern {
		ids[i] = segment.Name
		if segment.Capture {
			ids[i] = "my-" + segment.Name
		}
	}
	ids[len(ids)-1] = "0"
	type object map[string]any
	root := "projects/" + project + "/databases/" + database + "/documents"
	name := root + "/" + strings.Join(ids, "/")
	write := object{"update": object{"name": name}} // a document more
	if field := route.Totals[0].Field; field != "" {
		write = object{"transform": object{"document": name, "fieldTransforms": []object{{"fieldPath": "`" + field + "`", "increment": object{"integerValue": 1}}}}}
	}
	body, err := json.Marshal(object{"writes": []object{write}})
	if err != nil {
		return err.Error() // not reached: strings and integers can be encoded
	}
	quoted := strings.ReplaceAll(string(body), "'", `'\''`)
	return fmt.Sprintf("curl -s -H 'Authorization: Bearer owner' -H 'Content-Type: application/json' \\\n    'http://%s/v1/%s:commit' -d '%s'", addr, root, quoted)
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
		d.print("functions process at port %d ended (%v); starting another", i.port, i.reason)
		if sleep(ctx, restartPause) != nil {
			return
		}
		if err := s.startInstance(ctx, n); err != nil {
			d.print("%v", err)
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
				d.print("RollUpOnSchedule failed: %v", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// watch prints a line for each roll-up that changes, after the greeting. It returns when the listeners have
// started.
func (d *dev) watch(ctx context.Context, s *stack, work *sync.WaitGroup, greeted <-chan struct{}) {
	var starting sync.WaitGroup
	collections := make(map[string]bool)
	for _, t := range s.config.Routes.Templates() {
		template := t.Segments()
		collections[template[len(template)-2].Name] = true
	}
	for n, client := range s.clients {
		var prefix string // tells the databases apart
		if len(s.clients) > 1 {
			prefix = s.config.Databases[n] + ": "
		}
		for collection := range maps.Keys(collections) {
			starting.Add(1)
			work.Go(func() {
				started := sync.OnceFunc(starting.Done)
				defer started()
				snapshots := client.CollectionGroup(collection).Snapshots(ctx)
				defer snapshots.Stop()
				for {
					snapshot, err := snapshots.Next()
					if err != nil {
						if ctx.Err() == nil {
							d.print("%sroll-ups in %s are no longer shown: %v", prefix, collection, err)
						}
						return
					}
					started()
					<-greeted
					for _, change := range snapshot.Changes {
						d.show(s.config.Routes, prefix, change)
					}
				}
			})
		}
	}
	starting.Wait()
}

// show prints one line for a document that is a roll-up.
func (d *dev) show(routes rollup.Routes, prefix string, change firestore.DocumentChange) {
	path := firestorestore.Path(change.Doc.Ref)
	fields := change.Doc.Data()
	value, isRollUp := fields[document.TallyField]
	ours := slices.ContainsFunc(routes.Templates(), func(t *rollup.Template) bool {
		_, ok := t.Counter(path)
		return ok
	})
	switch {
	case !ours || !isRollUp:
	case change.Kind == firestore.DocumentRemoved:
		d.print("%s%s  removed", prefix, path)
	default:
		tally := document.DecodeTally(value)
		var totals strings.Builder
		for _, name := range slices.Sorted(slices.Values(tally.Totals)) {
			fmt.Fprintf(&totals, "  %s %v", name, fields[name])
		}
		d.print("%s%s%s  %d shards  as of %s", prefix, path, &totals, tally.NumShards, tally.AsOf.Local().Format(clock))
	}
}

// clock is how times are shown.
const clock = "15:04:05.000"

// print prints a line with the time.
func (d *dev) print(format string, args ...any) {
	fmt.Fprintf(d.out, "%s  %s\n", time.Now().Format(clock), fmt.Sprintf(format, args...))
}
