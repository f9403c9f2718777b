package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/firestore-tally/tally/deploy"
	"github.com/firestore-tally/tally/internal/app"
	"github.com/firestore-tally/tally/rollup"
	"github.com/spf13/cobra"
)

// A deployment is what deploy and undeploy have in common.
type deployment struct {
	project, source string
	dryRun, yes     bool

	in        io.Reader
	out, logs io.Writer
	tools     deploy.Tools
	have      *deploy.State
	files     *deploy.Monitoring
}

func (d *deployment) command(c *cobra.Command, run func(ctx context.Context) error) *cobra.Command {
	f := c.Flags()
	f.StringVar(&d.project, "project", "", "project id (default $GOOGLE_CLOUD_PROJECT)")
	f.StringVar(&d.source, "source", ".", "clone of Tally")
	f.BoolVar(&d.dryRun, "dry-run", false, "print the commands, and change nothing")
	f.BoolVarP(&d.yes, "yes", "y", false, "do not ask")
	c.Args = cobra.NoArgs
	c.RunE = func(c *cobra.Command, _ []string) error {
		d.in, d.out, d.logs = c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr()
		if d.project == "" {
			d.project = os.Getenv("GOOGLE_CLOUD_PROJECT")
		}
		if d.project == "" {
			return errors.New("name the project by --project or GOOGLE_CLOUD_PROJECT; gcloud projects list lists yours")
		}
		return run(c.Context())
	}
	return c
}

// ask reads the clone and the state of the project.
func (d *deployment) ask(ctx context.Context) error {
	var err error
	if d.files, err = deploy.ReadMonitoring(os.DirFS(d.source)); err != nil {
		return err
	}
	d.tools = deploy.Tools{Dir: d.source, Progress: d.logs}
	fmt.Fprintf(d.logs, "asking gcloud about %s\n", d.project)
	d.have, err = d.tools.Ask(ctx, d.project)
	return err
}

// do does the plan, if the user agrees.
func (d *deployment) do(ctx context.Context, plan deploy.Plan, nothing string) error {
	if d.dryRun {
		dir, err := filepath.Abs(d.source)
		if err != nil {
			return err
		}
		fmt.Fprint(d.out, plan.Script(dir))
		return nil
	}
	if len(plan.Steps) == 0 {
		fmt.Fprint(d.out, nothing+"\n"+plan.Summary())
		return nil
	}
	fmt.Fprintf(d.out, "In project %s:\n\n%s\n", d.project, plan.Summary())
	if !d.yes {
		fmt.Fprint(d.out, "Go on? [y/N] ")
		answer, err := bufio.NewReader(d.in).ReadString('\n')
		if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
			if err != nil {
				return errors.New("nobody answered, so nothing was changed; --yes goes on without being asked")
			}
			return errors.New("nothing was changed")
		}
	}
	return d.tools.Run(ctx, plan)
}

func deployCommand() *cobra.Command {
	var d deployment
	var o struct {
		region, routes, databases, cadence, alertEmail, firebase string
		env                                                      []string
		prune                                                    bool
	}
	c := &cobra.Command{
		Use:   "deploy",
		Short: "Bring the functions to a project, or bring them up to date",
		Long: `Bring Tally's functions, their service accounts, triggers, schedule and alerts to a project, or bring them up to date. It runs your own gcloud: it asks what there
is, shows what it would do, and does it when you agree. Running it again changes nothing, or goes on after a failure, or updates. Run it in a clone of Tally,
whose functions it deploys.

What you do not name stays as it is deployed; at first it is the layout of Firebase's documentation in the database (default). The variables TALLY_ROUTES,
TALLY_CADENCE and so on of docs/config.md are taken from --env or from this shell.

The rules of the project stay as they are, unless --firebase names an app's firebase.json, whose rules hold Tally's. docs/deploy.md tells what is created and
why, and which roles you need.`,
		Example: `  tally deploy --project my-project --dry-run
  tally deploy --project my-project
  tally deploy --project my-project --alert-email me@example.com
  tally deploy --project my-project --databases '(default),orders'
  tally deploy --project my-project --routes 'pages/{page}/shards/{shard} -> page_totals/{page} : views : every 10s'
  tally deploy --project my-project --routes 'posts/{post}/counters/{name}/shards/{shard} -> posts/{post}/rollups/{name} : likes, views'
  tally deploy --project my-project --firebase ../my-app/firebase.json`,
	}
	f := c.Flags()
	f.StringVar(&o.region, "region", "", "region of the functions (default that of each database)")
	f.StringVar(&o.routes, "routes", "", "routes, separated by semicolons (default $TALLY_ROUTES, else as deployed, else "+rollup.DefaultRoute+")")
	f.StringVar(&o.databases, "databases", "", "database ids, separated by commas (default $TALLY_DATABASES, else as deployed, else (default))")
	f.StringVar(&o.cadence, "cadence", "", "how often a counter is rolled up while it changes (default $TALLY_CADENCE, else as deployed, else 1s)")
	f.StringArrayVar(&o.env, "env", nil, "a further variable of the functions, `NAME=VALUE`; may be repeated")
	f.StringVar(&o.alertEmail, "alert-email", "", "address that alerts are mailed to")
	f.StringVar(&o.firebase, "firebase", "", "an app's `firebase.json`: replace the project's rules by those that it names")
	f.BoolVar(&o.prune, "prune", false, "delete functions of routes, databases and regions that are not named any more")
	return d.command(c, func(ctx context.Context) error {
		source, err := deploy.SourceHash(d.source)
		if err != nil {
			return err
		}
		if err := d.ask(ctx); err != nil {
			return err
		}
		named := make(map[string]string)
		for _, pair := range o.env {
			name, value, ok := strings.Cut(pair, "=")
			if !ok || name == "" {
				return fmt.Errorf("--env %q: want NAME=VALUE", pair)
			}
			named[name] = value
		}
		for name, value := range map[string]string{"TALLY_ROUTES": o.routes, "TALLY_DATABASES": o.databases, "TALLY_CADENCE": o.cadence} {
			if value != "" {
				named[name] = value
			}
		}
		options, err := d.options(named, o.region)
		if err != nil {
			return err
		}
		settings, err := deploy.New(options)
		if err != nil {
			return err
		}
		if err := d.tools.AskFor(ctx, &settings, d.have); err != nil {
			return err
		}
		plan, err := deploy.PlanDeploy(&settings, d.have, d.files, source, o.alertEmail, o.prune)
		if err != nil {
			return err
		}
		if o.firebase != "" {
			file, err := filepath.Abs(o.firebase)
			if err != nil {
				return err
			}
			apps, err := deploy.ReadApp(file, options.Databases)
			if err == nil {
				err = plan.PlanRules(&settings, apps, options.Routes)
			}
			if err != nil {
				return err
			}
		}
		return d.do(ctx, plan, "Everything is as it is to be.")
	})
}

// flags are those for variables that have one of their own.
var flags = map[string]string{"TALLY_ROUTES": "--routes", "TALLY_DATABASES": "--databases", "TALLY_CADENCE": "--cadence"}

// options returns what is named by flags, else by this shell, else what is deployed, else the
// defaults.
func (d *deployment) options(named map[string]string, region string) (deploy.Options, error) {
	environment, disputed := d.have.Deployed()
	for _, name := range deploy.Variables() {
		if value, ok := os.LookupEnv(name); ok {
			environment[name] = value
			delete(disputed, name)
		}
	}
	for name, value := range named {
		environment[name] = value
		delete(disputed, name)
	}
	if len(disputed) > 0 {
		problem := "the functions have different variables, as after a deploy that did not get to its end; name what all are to have:"
		for _, name := range slices.Sorted(maps.Keys(disputed)) {
			problem += "\n  " + cmp.Or(flags[name], "--env "+name+"=") + ": " + disputed[name]
		}
		return deploy.Options{}, errors.New(problem)
	}
	environment["GOOGLE_CLOUD_PROJECT"] = d.project
	config, err := app.LoadConfig(environment)
	if err != nil {
		return deploy.Options{}, fmt.Errorf("configuration: %w", err)
	}
	databases, err := d.have.Locate(d.project, config.Databases)
	if err != nil {
		return deploy.Options{}, err
	}
	if region == "" {
		if region, err = d.have.DeployedIn(); err != nil {
			return deploy.Options{}, err
		}
	}
	return deploy.Options{Project: d.project, Region: region, Databases: databases, Routes: config.Routes, Cadence: config.Cadence, Burst: config.Burst,
		HoldLimit: config.HoldLimit, AuditReads: config.AuditReads, LogLevel: config.LogLevel.String(), Env: environment}, nil
}

func undeployCommand() *cobra.Command {
	var d deployment
	c := &cobra.Command{
		Use:   "undeploy",
		Short: "Take away what tally deploy brought to a project",
		Long: `Take away what tally deploy brought to a project, and nothing else: the functions, their triggers, schedule, service accounts and alerts. Counters, shards, roll-ups,
rules, indexes, the time to live of increment tokens, databases and enabled APIs stay. From then on roll-ups stay as they are, while apps go on incrementing shards;
tally deploy brings them up to date again.`,
		Example: `  tally undeploy --project my-project --dry-run
  tally undeploy --project my-project`,
	}
	return d.command(c, func(ctx context.Context) error {
		if err := d.ask(ctx); err != nil {
			return err
		}
		return d.do(ctx, deploy.PlanUndeploy(d.project, d.have, d.files), "There is nothing that tally deploy made.")
	})
}
