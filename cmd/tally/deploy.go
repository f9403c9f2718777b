package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/cmd/tally/command"
	"github.com/firestore-tally/tally/cmd/tally/settings"
	"github.com/firestore-tally/tally/internal/cloud/config"
	"github.com/firestore-tally/tally/internal/tool/appfolder"
	"github.com/firestore-tally/tally/internal/tool/deploy"
	"github.com/firestore-tally/tally/internal/tool/terminal"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A deployment is what deploy and undeploy have in common.
type deployment struct {
	settings          settings.File
	project           string
	chosen            settings.Project
	dryRun, yes, json bool

	folder *appfolder.Folder
	in     io.Reader
	out    io.Writer
	logs   io.Writer
	on     *deploy.Project
	homes  []home // of new totals
}

func (d *deployment) command(c *cobra.Command, run func(ctx context.Context) error) *cobra.Command {
	f := c.Flags()
	d.settings.Define(f)
	f.StringVar(&d.project, "project", "", settings.ProjectUsage)
	f.BoolVar(&d.dryRun, "dry-run", false, "print each step, and change nothing")
	f.BoolVar(&d.json, "json", false, "with --dry-run: print JSON")
	f.BoolVarP(&d.yes, "yes", "y", false, "do not ask")
	c.RunE = func(c *cobra.Command, _ []string) error {
		d.in, d.out, d.logs = c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr()
		if d.json && !d.dryRun {
			return errors.New("--json prints what --dry-run lists")
		}

		var err error
		d.folder, d.chosen, err = settings.RealProject(d.settings, d.project, d.logs)
		if err != nil {
			return err
		}
		d.project = d.chosen.ID
		return run(c.Context())
	}
	return c
}

// read reads what is deployed in the project.
func (d *deployment) read(ctx context.Context) error {
	o, err := settings.EndpointsOf(ctx).SignIn(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(d.logs, "reading project %s\n", d.project)
	d.on, err = deploy.Open(ctx, d.project, o...)
	if err != nil {
		return err
	}
	d.on.Progress = d.logs
	return nil
}

// execute does the plan, if the user agrees. opening tells what the user should know besides the
// steps. nothing is printed if there are no steps.
func (d *deployment) execute(ctx context.Context, plan deploy.Plan, opening, nothing string) error {
	if d.json {
		plan.Steps = append([]*deploy.Step{}, plan.Steps...) // a list even if it is empty
		e := json.NewEncoder(d.out)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		return e.Encode(struct {
			deploy.Plan
			Homes []home `json:"homes,omitempty"`
		}{plan, d.homes})
	}
	if len(plan.Steps) == 0 {
		fmt.Fprint(d.out, nothing+"\n"+plan.NotesText())
		return nil
	}

	if opening != "" {
		opening = "\n" + opening
	}
	fmt.Fprintf(d.out, "In project %s:\n\n%s%s%s\n", d.project, plan.StepsText(d.dryRun), opening, plan.NotesText())
	if d.dryRun {
		return nil
	}
	if err := d.chosen.Confirm(ctx, d.in, d.logs, d.yes); err != nil {
		return err
	}
	if err := terminal.Confirm(ctx, d.in, d.logs, d.yes, "Go on?"); err != nil {
		return err
	}
	return d.on.Do(ctx, plan)
}

// locationID matches the id of a location: of a multi-region such as nam5, or of a region, which is
// a continent or country with a direction and a number. There is no list, because Google adds
// locations.
var locationID = regexp.MustCompile(`^([a-z]{3,4}\d+|(africa|asia|australia|europe|me|us|northamerica|southamerica)-(north|south|east|west|central|northeast|northwest|southeast|southwest)\d+)$`)

// deployFlags are those that only deploy has.
type deployFlags struct {
	location              string
	prune, wait           bool
	isNew, printsManifest bool
}

// define defines the flags.
func (f *deployFlags) define(flags *pflag.FlagSet) {
	flags.BoolVar(&f.prune, "prune", false, "remove routes and databases that tally.yaml no longer names, resources in other regions, and monitoring that it does not ask for")
	flags.BoolVar(&f.wait, "wait", false, "wait until new indexes are ready, which may take hours, and then continue; --dry-run lists that, too")
	flags.BoolVar(&f.isNew, "new", false, "with --dry-run or --manifest: assume an empty project; needs no credentials")
	flags.StringVar(&f.location, "location", "", "with --new: where its databases will be, forever")
	flags.BoolVar(&f.printsManifest, "manifest", false, "print all resources as their APIs have them, in YAML, each setting with its reason, and change nothing")
}

// check returns what is wrong with the flags of a new project.
func (f *deployFlags) check(dryRun bool) error {
	if !f.isNew {
		return nil
	}
	if !dryRun && !f.printsManifest {
		return errors.New("--new is for --dry-run and --manifest; tally deploy sees by itself what is new")
	}

	const places = "https://cloud.google.com/firestore/docs/locations"
	if f.location == "" {
		return errors.New("--new needs --location: where the databases will be, forever. These are the places:\n  " + places)
	}
	if !locationID.MatchString(f.location) {
		return fmt.Errorf("--location %q: want one such as nam5 or europe-west1, of %s", f.location, places)
	}
	return nil
}

func deployCommand() *cobra.Command {
	var d deployment
	var flags deployFlags
	c := command.New("deploy")
	flags.define(c.Flags())
	return d.command(c, func(ctx context.Context) error { return d.deploy(ctx, flags) })
}

// deploy deploys what the folder says, or prints how.
func (d *deployment) deploy(ctx context.Context, flags deployFlags) error {
	if err := flags.check(d.dryRun); err != nil {
		return err
	}
	wanted, err := d.want(ctx, flags)
	if err != nil {
		return err
	}
	if flags.printsManifest {
		text, err := wanted.Manifest()
		fmt.Fprint(d.out, text)
		return err
	}

	wanted.Prune = flags.prune
	plan, err := wanted.Plan(ctx, flags.wait || d.dryRun)
	if err != nil {
		return err
	}
	if flags.isNew {
		plan.Notes = append(plan.Notes, wanted.CreateFirst())
	}

	if len(plan.Awaited) == 0 && !flags.isNew {
		if err := d.readHomes(ctx, wanted, &plan); err != nil {
			return err
		}
	}

	nothing := "Nothing to do: the project matches tally.yaml."
	if len(plan.Awaited) > 0 {
		nothing = "Index builds have started. Run tally deploy again when they finish."
	}
	problem := d.homesError()
	if problem != nil {
		d.dryRun = true // it says what the documents hold, and changes nothing
	}
	if err := d.execute(ctx, plan, wanted.Opening(plan)+d.homesText(), nothing); err != nil {
		return err
	}
	if problem != nil {
		return problem
	}
	if len(plan.Awaited) > 0 {
		return fmt.Errorf("the routes are not deployed yet. Run tally deploy again when these indexes are ready, or with --wait:\n  %s", strings.Join(plan.Awaited, "\n  "))
	}
	return nil
}

// want returns what the project should have, by the folder and what is deployed.
func (d *deployment) want(ctx context.Context, flags deployFlags) (*deploy.Deployment, error) {
	upload, err := programOf(ctx).upload()
	if err != nil {
		return nil, err
	}
	_, err = d.folder.DatabaseIDs()
	if err != nil {
		return nil, err
	}
	if flags.isNew {
		ids := strings.Split(cmp.Or(d.folder.Variables()["TALLY_DATABASES"], firestore.DefaultDatabaseID), ",")
		for _, id := range ids {
			database, err := d.folder.Database(id)
			if err != nil {
				return nil, err
			}
			if why := database.Unserved(); why != "" {
				return nil, errors.New(why)
			}
		}
		d.on = deploy.NewProject(d.project, ids, flags.location)
	} else if err := d.read(ctx); err != nil {
		return nil, err
	}

	variables := d.on.Wanted(d.folder)
	config, err := config.Load(variables)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", d.folder.Explain(err, variables))
	}
	return deploy.Want(d.on, d.folder, config, upload)
}

func undeployCommand() *cobra.Command {
	var d deployment
	c := command.New("undeploy")
	return d.command(c, func(ctx context.Context) error {
		if err := d.read(ctx); err != nil {
			return err
		}
		plan, err := d.on.Undeploy(ctx)
		if err != nil {
			return err
		}
		return d.execute(ctx, plan, "", "Nothing here was made by tally deploy.")
	})
}
