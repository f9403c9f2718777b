package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/firestore-tally/tally/cmd/tally/command"
	"github.com/firestore-tally/tally/cmd/tally/court"
	"github.com/firestore-tally/tally/cmd/tally/settings"
	"github.com/firestore-tally/tally/internal/tool/doctor"
	"github.com/spf13/cobra"
)

// How doctor ends when something is wrong, with commands that fix it and without, and when it found
// nothing wrong but could not check all.
var (
	errFixable   = errors.New("something is wrong; the commands above fix it, and tally doctor --list says more")
	errUnsound   = errors.New("something is wrong; tally doctor --list says more")
	errUnchecked = errors.New("not all could be checked")
)

func doctorCommand() *cobra.Command {
	var d doctorFlags
	c := command.New("doctor")
	d.define(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		if d.list {
			return doctor.List(c.OutOrStdout())
		}
		return d.run(c)
	}
	return c
}

// doctorFlags are the flags of the doctor command.
type doctorFlags struct {
	settings settings.File
	project  string
	skip     []string
	files    bool
	json     bool
	verbose  bool
	list     bool
	timeout  time.Duration
}

func (d *doctorFlags) define(c *cobra.Command) {
	f := c.Flags()
	d.settings.Define(f)
	f.StringVar(&d.project, "project", "", settings.ProjectUsage)
	f.StringSliceVar(&d.skip, "skip", nil, "names of checks to leave out")
	f.BoolVar(&d.files, "files", false, "check only the files of the app's folder, such as in a CI job; ask no project")
	f.BoolVar(&d.json, "json", false, "print JSON")
	f.BoolVar(&d.verbose, "verbose", false, "also print the checks that are OK")
	f.BoolVar(&d.list, "list", false, "say what each check claims, why, and what fixes it, and the permissions that they take; ask no project")
	f.DurationVar(&d.timeout, "timeout", time.Minute, "how long to try")
}

// run makes the checks and prints what they found. It is an error if something is wrong or could
// not be checked.
func (d *doctorFlags) run(c *cobra.Command) error {
	if d.timeout <= 0 {
		return fmt.Errorf("%w: --timeout %v: want more than 0", errUnchecked, d.timeout)
	}
	ctx, cancel := context.WithTimeout(c.Context(), d.timeout)
	defer cancel()

	findings, project, err := d.examine(ctx, c.ErrOrStderr())
	if err != nil {
		return fmt.Errorf("%w: %w", errUnchecked, err)
	}

	if d.json {
		err = doctor.PrintJSON(c.OutOrStdout(), project, findings)
	} else {
		err = doctor.Print(c.OutOrStdout(), findings, d.verbose)
	}
	if err != nil {
		return err
	}

	counts := doctor.Count(findings)
	switch {
	case counts[doctor.Wrong] > 0 && doctor.Fixable(findings):
		return errFixable
	case counts[doctor.Wrong] > 0:
		return errUnsound
	case doctor.Sound(findings):
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%w within %v; --timeout gives it longer", errUnchecked, d.timeout)
	}
	return errUnchecked
}

// examine makes the checks that are not to be skipped: of the app's folder, and of the project that
// the flag names, as far as that can be read. The error is about the command's own flags.
func (d *doctorFlags) examine(ctx context.Context, logs io.Writer) (findings []doctor.Finding, project string, err error) {
	skip := d.skip
	for _, name := range skip {
		if !slices.ContainsFunc(doctor.Checks, func(c doctor.Check) bool { return c.Name == name }) {
			return nil, "", fmt.Errorf("--skip: unknown check %q; see tally doctor --list", name)
		}
	}

	if d.files {
		skip = append(slices.Clone(skip), doctor.OfProjects()...)
	}

	read, project, err := d.read(ctx, logs)
	if err != nil {
		return nil, "", err
	}
	c := &court.Court{Downloads: court.Downloads(logs)}
	defer c.Close()
	read.Judge = c.Judge
	if at := settings.EndpointsOf(ctx); at.Judge != nil {
		read.Judge = at.Judge
	}
	return read.Examine(ctx, skip), project, nil
}

// read reads the app's folder, and its project, as far as that can be read.
func (d *doctorFlags) read(ctx context.Context, logs io.Writer) (read *doctor.Deployment, project string, err error) {
	folder, err := d.settings.Here(logs)
	if err != nil {
		return doctor.Local(nil, err, errors.New("its settings cannot be read until tally.yaml is fixed")), "", nil
	}

	chosen, err := settings.ChooseProject(d.project, folder)
	if err == nil && chosen.ID == "" {
		err = settings.ErrNoProject
	}
	if err != nil || d.files {
		return doctor.Local(folder, nil, err), "", nil
	}
	chosen.Say(logs)
	project = chosen.ID

	o, err := settings.EndpointsOf(ctx).SignIn(ctx)
	if err != nil {
		return doctor.Local(folder, nil, err), project, nil
	}
	own, err := programOf(ctx).upload()
	if err != nil {
		return nil, "", err
	}
	read, err = doctor.Read(ctx, project, folder, o...)
	if err != nil {
		read = doctor.Local(folder, nil, err)
	}
	read.Own = own
	return read, project, nil
}
