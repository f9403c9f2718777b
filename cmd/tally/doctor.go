package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/firestore-tally/tally/internal/appfolder"
	"github.com/firestore-tally/tally/internal/doctor"
	"github.com/spf13/cobra"
)

// How doctor ends when something is wrong, and when nothing is wrong that it could check.
var (
	errUnsound   = errors.New("something is wrong; the commands above mend it, and tally doctor --explain tells more")
	errUnchecked = errors.New("not all could be checked")
)

func doctorCommand() *cobra.Command {
	var settings settingsFile
	var project string
	var skip []string
	var asJSON, explain bool
	var timeout time.Duration
	c := newCommand("doctor")
	f := c.Flags()
	settings.define(f)
	f.StringVar(&project, "project", "", "project id (default $GOOGLE_CLOUD_PROJECT, else .firebaserc's)")
	f.StringSliceVar(&skip, "skip", nil, "names of checks to leave out")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	f.BoolVar(&explain, "explain", false, "say what each check claims, why, and what mends it, and the permissions that they take; ask no project")
	f.DurationVar(&timeout, "timeout", time.Minute, "how long to try")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if explain {
			return doctor.Explain(c.OutOrStdout())
		}
		if timeout <= 0 {
			return fmt.Errorf("%w: --timeout %v: want more than 0", errUnchecked, timeout)
		}
		ctx, cancel := context.WithTimeout(c.Context(), timeout)
		defer cancel()
		folder, project, err := realProject(settings, project, c.ErrOrStderr())
		if err != nil {
			return fmt.Errorf("%w: %w", errUnchecked, err)
		}
		findings, err := examine(ctx, project, folder, skip)
		if err != nil {
			return fmt.Errorf("%w: %w", errUnchecked, err)
		}
		if asJSON {
			err = doctor.PrintJSON(c.OutOrStdout(), project, findings)
		} else {
			err = doctor.Print(c.OutOrStdout(), findings)
		}
		counts := doctor.Count(findings)
		switch {
		case err != nil:
		case counts[doctor.Wrong] > 0:
			err = errUnsound
		case counts[doctor.Well] < len(findings):
			err = errUnchecked
		}
		return err
	}
	return c
}

// examine reads the project, and makes the checks that are not to be skipped.
func examine(ctx context.Context, project string, folder *appfolder.Folder, skip []string) ([]doctor.Finding, error) {
	for _, name := range skip {
		if !slices.ContainsFunc(doctor.Checks, func(c doctor.Check) bool { return c.Name == name }) {
			return nil, fmt.Errorf("--skip %s: there is no such check; tally doctor --explain tells of all", name)
		}
	}
	o, err := endpointsOf(ctx).signIn(ctx)
	if err != nil {
		return nil, err
	}
	d, err := doctor.Read(ctx, project, folder, o...)
	if err != nil {
		return nil, err
	}
	return d.Examine(ctx, skip), nil
}
