package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/cloud/config"
	"github.com/firestore-tally/tally/internal/tool/appfolder"
	"github.com/firestore-tally/tally/internal/tool/deploy"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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
	if at.apis != nil {
		return at.apis, nil
	}
	return deploy.SignIn(ctx)
}

// A deployment is what deploy and undeploy have in common.
type deployment struct {
	settings    settingsFile
	project     string
	chosen      chosenProject
	dryRun, yes bool
	verbose     bool
	json        bool

	folder    *appfolder.Folder
	newer     string // version of the functions that older ones would replace; empty: they are not
	in        io.Reader
	out, logs io.Writer
	account   string // who is signed in; empty: no one, or it is not known
	have      *deploy.State
	run       deploy.Run
}

func (d *deployment) command(c *cobra.Command, run func(ctx context.Context) error) *cobra.Command {
	f := c.Flags()
	d.settings.define(f)
	f.StringVar(&d.project, "project", "", projectUsage)
	f.BoolVar(&d.dryRun, "dry-run", false, "print each change, and why, and change nothing")
	f.BoolVar(&d.json, "json", false, "with --dry-run: print JSON")
	f.BoolVarP(&d.yes, "yes", "y", false, "do not ask")
	f.BoolVarP(&d.verbose, "verbose", "v", false, "show all steps, and why")
	c.RunE = func(c *cobra.Command, _ []string) error {
		d.in, d.out, d.logs = c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr()
		if d.json && !d.dryRun {
			return errors.New("--json prints what --dry-run lists")
		}

		var err error
		d.folder, d.chosen, err = realProject(d.settings, d.project, d.logs)
		if err != nil {
			return err
		}
		d.project = d.chosen.ID
		return run(c.Context())
	}
	return c
}

// read reads the project.
func (d *deployment) read(ctx context.Context) error {
	o, err := endpointsOf(ctx).signIn(ctx)
	if err != nil {
		return err
	}

	fmt.Fprintf(d.logs, "reading what there is in %s\n", d.project)
	d.have, err = deploy.Read(ctx, d.project, o...)
	if err != nil {
		return err
	}
	d.account = d.have.Account(ctx)
	d.run.State, d.run.Progress = d.have, d.logs
	return nil
}

// do does the plan, if the user agrees. opening tells what the user should know before the steps.
// nothing is printed if there are no steps.
func (d *deployment) do(ctx context.Context, plan deploy.Plan, opening, nothing string) error {
	if d.json {
		e := json.NewEncoder(d.out)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		return e.Encode(plan)
	}
	if len(plan.Steps) == 0 {
		fmt.Fprint(d.out, nothing+"\n"+plan.Noted())
		return nil
	}

	if opening != "" {
		opening += "\n"
	}
	fmt.Fprintf(d.out, "In project %s:\n\n%s%s%s\n", d.project, opening, plan.Shown(d.verbose || d.dryRun), plan.Noted())
	if d.dryRun {
		return nil
	}
	if err := d.agree(ctx); err != nil {
		return err
	}
	return d.run.Do(ctx, plan)
}

// agree asks whether to go on. If the plan replaces newer functions, it asks even with --yes.
// Otherwise a script with an old tally would take back what somebody else deployed.
func (d *deployment) agree(ctx context.Context) error {
	err := d.chosen.confirm(ctx, d.in, d.logs, d.yes)
	if err != nil {
		return err
	}

	if d.newer == "" {
		return confirm(ctx, d.in, d.logs, d.yes, "Go on?")
	}
	err = confirm(ctx, d.in, d.logs, false, "Go back from "+d.newer+"?")
	if errors.Is(err, errUnconfirmed) {
		return fmt.Errorf("nothing was changed; the functions of %s are newer, and --yes does not answer for them", d.newer)
	}
	return err
}

// locationID matches the id of a location: of a multi-region such as nam5, or of a region, which is
// a continent or country with a direction and a number. There is no list, because Google adds
// locations.
var locationID = regexp.MustCompile(`^([a-z]{3,4}\d+|(africa|asia|australia|europe|me|us|northamerica|southamerica)-(north|south|east|west|central|northeast|northwest|southeast|southwest)\d+)$`)

// deployFlags are those that only deploy has.
type deployFlags struct {
	source, location   string
	rules, prune, wait bool
	isNew, manifest    bool
	record             string // file
}

// define defines the flags.
func (f *deployFlags) define(flags *pflag.FlagSet) {
	flags.StringVar(&f.source, "source", "", "folder of Tally's source, which the functions are built from (default: this tally's own)")
	flags.BoolVar(&f.rules, "rules", false, "replace the project's rules by those that the app's firebase.json names, which hold Tally's")
	flags.BoolVar(&f.prune, "prune", false, "take away routes and databases that are not named any more, and what is in other regions")
	flags.BoolVar(&f.wait, "wait", false, "wait until new indexes are ready, and go on, which may take hours; --dry-run lists that, too")
	flags.BoolVar(&f.isNew, "new", false, "with --dry-run or --manifest: as for a project in which there is nothing; needs no credentials")
	flags.StringVar(&f.location, "location", "", "with --new: where its databases will be, forever")
	flags.StringVar(&f.record, "record", "", "with --dry-run: a file to be written, with what the project's APIs answered; without secrets and documents")
	flags.BoolVar(&f.manifest, "manifest", false, "print all resources as their APIs have them, in YAML, and change nothing")
}

// check returns what is wrong with the flags of a recording, or of a new project.
func (f *deployFlags) check(dryRun bool) error {
	if f.record != "" && (!dryRun || f.isNew) {
		return errors.New("--record keeps what a project answers to --dry-run; with --new it is not asked")
	}
	if !f.isNew {
		return nil
	}

	if !dryRun && !f.manifest {
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
	c := newCommand("deploy")
	flags.define(c.Flags())
	return d.command(c, func(ctx context.Context) error { return d.deploy(ctx, flags) })
}

// deploy deploys what the folder says, or prints how.
func (d *deployment) deploy(ctx context.Context, flags deployFlags) error {
	if err := flags.check(d.dryRun); err != nil {
		return err
	}
	upload, err := uploadFrom(ctx, flags.source)
	if err != nil {
		return err
	}

	if flags.isNew {
		ids := cmp.Or(d.folder.Variables()["TALLY_DATABASES"], firestore.DefaultDatabaseID)
		d.have = deploy.NewProject(d.project, strings.Split(ids, ","), flags.location)
	} else {
		err = d.read(ctx)
		if flags.record != "" && d.have != nil {
			defer d.record(context.WithoutCancel(ctx), flags.record)
		}
	}
	if err != nil {
		return err
	}

	described, err := d.want(upload)
	if err != nil {
		return err
	}
	if flags.manifest {
		text, err := described.Manifest()
		fmt.Fprint(d.out, text)
		return err
	}

	if !flags.isNew {
		d.have.ReadFor(ctx, described)
	}
	plan, err := d.plan(ctx, described, flags)
	if err != nil {
		return err
	}
	d.run.Description, d.run.Upload = described, upload
	source := d.prepareUpload(&plan, upload)

	nothing := "Everything is as it is to be."
	if len(plan.Awaited) > 0 {
		nothing = "All that can be done now is done."
	}
	if err := d.do(ctx, plan, described.Opening(plan, d.account, source, flags.rules), nothing); err != nil {
		return err
	}
	return d.awaiting(ctx, described, plan)
}

// record writes what the project's APIs have answered to a file.
func (d *deployment) record(ctx context.Context, file string) {
	text, err := d.have.Recording(ctx)
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		fmt.Fprintf(d.logs, "nothing is recorded: %v\n", err)
		return
	}
	fmt.Fprintf(d.logs, "%s has what the project answered. Read it before you pass it on.\n", file)
}

// want returns the description of what is to be deployed, by the folder and the project's state.
func (d *deployment) want(upload *deploy.Upload) (*deploy.Description, error) {
	variables := d.have.Wanted(d.folder)
	config, err := config.Load(variables)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", d.folder.Explain(err, variables))
	}
	return deploy.Want(d.folder, d.have, config, upload)
}

// plan returns the steps that are to be done.
func (d *deployment) plan(ctx context.Context, described *deploy.Description, flags deployFlags) (deploy.Plan, error) {
	plan, err := described.Deploy(d.have, flags.prune, flags.wait || d.dryRun)
	if err != nil {
		return plan, err
	}
	if flags.isNew {
		plan.Notes = append(plan.Notes, "the databases are to be there first, in a location that they keep forever")
	}
	if flags.rules && len(plan.Awaited) == 0 {
		err = plan.PlanRules(ctx, described, d.have, d.folder)
	}
	return plan, err
}

// prepareUpload returns in words which source the plan uploads; "" if it uploads none. If that
// would replace a newer one, the plan gets a note that says so.
func (d *deployment) prepareUpload(plan *deploy.Plan, upload *deploy.Upload) (source string) {
	if !plan.Uploads() {
		return ""
	}

	d.newer = upload.Replaces(d.have)
	if d.newer != "" {
		plan.Notes = append(plan.Notes, fmt.Sprintf("the deployed functions are of %s, which is newer than %s", d.newer, upload.Version))
	}
	return upload.String()
}

// awaiting returns an error if the plan has to wait for indexes. The error tells how far they are,
// and what to do next.
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
