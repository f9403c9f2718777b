package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/appfolder"
	"github.com/firestore-tally/tally/internal/config"
	"github.com/firestore-tally/tally/internal/deploy"
	"github.com/spf13/cobra"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
)

// endpoints are where Google's APIs are, if not at their own addresses: options of their clients,
// and the address of Firestore, with options of its connections.
type endpoints struct {
	apis      []option.ClientOption
	firestore string
	dial      []grpc.DialOption
}

// endpointsKey is the key of a command's endpoints in its context, which only tests set.
type endpointsKey struct{}

// endpointsOf returns where Google's APIs are for a command.
func endpointsOf(ctx context.Context) endpoints {
	at, _ := ctx.Value(endpointsKey{}).(endpoints)
	return at
}

// signIn returns the options with which Google's clients sign in.
func (at endpoints) signIn(ctx context.Context) ([]option.ClientOption, error) {
	o, err := deploy.SignIn(ctx)
	if at.apis != nil {
		o = at.apis
	}
	return o, err
}

// A deployment is what deploy and undeploy have in common.
type deployment struct {
	settings    settingsFile
	project     string
	dryRun, yes bool
	verbose     bool

	folder    *appfolder.Folder
	newer     string // version of the functions that older ones would replace; empty: they are not
	in        io.Reader
	out, logs io.Writer
	tools     deploy.Tools
	have      *deploy.State
}

func (d *deployment) command(c *cobra.Command, run func(ctx context.Context) error) *cobra.Command {
	f := c.Flags()
	d.settings.define(f)
	f.StringVar(&d.project, "project", "", "project id (default $GOOGLE_CLOUD_PROJECT, else .firebaserc's)")
	f.BoolVar(&d.dryRun, "dry-run", false, "print the commands, and change nothing")
	f.BoolVarP(&d.yes, "yes", "y", false, "do not ask")
	f.BoolVarP(&d.verbose, "verbose", "v", false, "show all steps, with their commands")
	c.RunE = func(c *cobra.Command, _ []string) error {
		d.in, d.out, d.logs = c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr()
		var err error
		if d.folder, d.project, err = realProject(d.settings, d.project, d.logs); err != nil {
			return err
		}
		d.tools = deploy.Tools{Project: d.project, Progress: d.logs}
		return run(c.Context())
	}
	return c
}

// read reads the project, signed in as gcloud is.
func (d *deployment) read(ctx context.Context) error {
	if err := d.tools.Check(ctx); err != nil {
		return err
	}
	o, err := endpointsOf(ctx).signIn(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(d.logs, "reading what there is in %s\n", d.project)
	d.have, err = deploy.Read(ctx, d.project, o...)
	return err
}

// do does the plan, if the user agrees. opening is what the user should know before the steps, and
// nothing says that there are none.
func (d *deployment) do(ctx context.Context, plan deploy.Plan, opening, nothing string) error {
	if d.dryRun {
		d.script(plan, opening, nothing)
		return nil
	}
	if len(plan.Steps) == 0 {
		fmt.Fprint(d.out, nothing+"\n"+plan.Noted())
		return nil
	}

	if opening != "" {
		opening += "\n"
	}
	fmt.Fprintf(d.out, "In project %s:\n\n%s%s%s\n", d.project, opening, plan.Shown(d.verbose), plan.Noted())
	if err := d.agree(ctx); err != nil {
		return err
	}
	return d.tools.Run(ctx, plan)
}

// agree asks whether to go on. What replaces newer functions is asked even if the user said --yes: a
// script with an old tally would take back what somebody else deployed.
func (d *deployment) agree(ctx context.Context) error {
	if d.newer == "" {
		return confirm(ctx, d.in, d.logs, d.yes, "Go on?")
	}
	err := confirm(ctx, d.in, d.logs, false, "Go back from "+d.newer+"?")
	if errors.Is(err, errUnconfirmed) {
		return fmt.Errorf("nothing was changed; the functions of %s are newer, and --yes does not answer for them", d.newer)
	}
	return err
}

// locationID is what the id of a location looks like: that of a multi-region, or of a region, a
// continent or country with a direction and a number. Nobody keeps a list here, as Google adds to it.
var locationID = regexp.MustCompile(`^([a-z]{3,4}\d+|(africa|asia|australia|europe|me|us|northamerica|southamerica)-(north|south|east|west|central|northeast|northwest|southeast|southwest)\d+)$`)

// script prints the plan as a script, with the opening as comments.
func (d *deployment) script(plan deploy.Plan, opening, nothing string) {
	if len(plan.Steps) == 0 {
		fmt.Fprintln(d.out, "# "+nothing)
	} else if opening != "" {
		fmt.Fprintf(d.out, "# In project %s:\n#\n", d.project)
		for line := range strings.Lines(opening) {
			fmt.Fprint(d.out, "# ", line)
		}
		fmt.Fprintln(d.out)
	}
	fmt.Fprint(d.out, plan.Script(d.tools.Dir))
}

func deployCommand() *cobra.Command {
	var d deployment
	var source, location string
	var rules, prune, wait, isNew, terraform bool
	c := newCommand("deploy")
	f := c.Flags()
	f.StringVar(&source, "source", "", "folder of Tally's source, which the functions are built from (default: this tally's own)")
	f.BoolVar(&rules, "rules", false, "replace the project's rules by those that the app's firebase.json names, which hold Tally's")
	f.BoolVar(&prune, "prune", false, "take away routes and databases that are not named any more, and what is in other regions")
	f.BoolVar(&wait, "wait", false, "wait until new indexes are ready, and go on, which may take hours; --dry-run prints that, too")
	f.BoolVar(&isNew, "new", false, "with --dry-run or --terraform: as for a project in which there is nothing; needs no credentials")
	f.StringVar(&location, "location", "", "with --new: where its databases will be, for ever")
	f.BoolVar(&terraform, "terraform", false, "print a Terraform configuration, and change nothing")
	return d.command(c, func(ctx context.Context) error {
		if isNew && !d.dryRun && !terraform {
			return errors.New("--new is for --dry-run and --terraform; tally deploy sees by itself what is new")
		}
		if isNew && location == "" {
			return errors.New("--new needs --location: where the databases will be, for ever. These are the places:\n  gcloud firestore locations list")
		}
		if isNew && !locationID.MatchString(location) {
			return fmt.Errorf("--location %q: want one such as nam5 or europe-west1; gcloud firestore locations list lists them", location)
		}
		upload, err := uploadFrom(ctx, source)
		if err != nil {
			return err
		}

		var creation deploy.Plan
		if isNew {
			ids := cmp.Or(d.folder.Variables()["TALLY_DATABASES"], firestore.DefaultDatabaseID)
			d.have, creation = deploy.NewProject(d.project, strings.Split(ids, ","), location)
		} else if err := d.read(ctx); err != nil {
			return err
		}
		environment := d.have.Wanted(d.folder)
		config, err := config.Load(environment)
		if err != nil {
			return fmt.Errorf("configuration: %w", d.folder.Explain(err, environment))
		}
		databases, err := d.have.Locate(config.Databases)
		if err != nil {
			return err
		}

		options := d.have.Options(d.folder, environment, config, databases)
		options.Version = upload.Version
		have := d.have
		if terraform {
			have = deploy.TerraformState(d.project)
		}
		described, err := deploy.Describe(options, have, upload.Hash)
		if err != nil {
			return err
		}
		if terraform {
			folder, err := upload.Folder()
			if err != nil {
				return err
			}
			text, notes, err := described.Terraform(folder)
			fmt.Fprintf(d.logs, "The functions' source: %s\n", upload)
			for _, note := range notes {
				fmt.Fprintln(d.logs, note)
			}
			if err == nil {
				_, err = d.out.Write(text)
			}
			return err
		}
		if !isNew {
			d.have.ReadFor(ctx, described)
		}
		plan, err := described.Deploy(d.have, prune, wait || d.dryRun)
		if err != nil {
			return err
		}
		plan.Prepend(creation)
		if rules && len(plan.Awaited) == 0 {
			if err := plan.PlanRules(described, d.folder); err != nil {
				return err
			}
		}

		uploaded := ""
		if plan.Uploads() {
			uploaded, d.newer = upload.String(), upload.Replaces(d.have)
			if d.tools.Dir, err = upload.Folder(); err != nil {
				return err
			}
		}
		if d.newer != "" {
			plan.Notes = append(plan.Notes, fmt.Sprintf("the deployed functions are of %s, which is newer than %s", d.newer, upload.Version))
		}
		nothing := "Everything is as it is to be."
		if len(plan.Awaited) > 0 {
			nothing = "All that can be done now is done."
		}
		if err := d.do(ctx, plan, described.Opening(plan, uploaded, rules), nothing); err != nil {
			return err
		}
		return d.awaiting(ctx, described, plan)
	})
}

// awaiting tells how far the indexes are that a plan has to wait for, and what to do next.
func (d *deployment) awaiting(ctx context.Context, described *deploy.Description, plan deploy.Plan) error {
	if len(plan.Awaited) == 0 {
		return nil
	}
	if err := d.have.ReadIndexes(ctx, described.Databases); err != nil {
		return err
	}

	awaited := described.Awaited(d.have)
	if len(awaited) == 0 {
		return errors.New("the indexes are ready now: run tally deploy again, and it goes on")
	}
	return fmt.Errorf("the routes are not deployed yet. Run tally deploy again when these indexes are ready, or with --wait, which waits for them:\n  %s",
		strings.Join(awaited, "\n  "))
}

func undeployCommand() *cobra.Command {
	var d deployment
	c := newCommand("undeploy")
	return d.command(c, func(ctx context.Context) error {
		if err := d.read(ctx); err != nil {
			return err
		}
		plan, err := deploy.Undeploy(d.have)
		if err != nil {
			return err
		}
		return d.do(ctx, plan, "", "There is nothing that tally deploy made.")
	})
}
