package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/firestore-tally/tally/internal/doctor"
	"github.com/spf13/cobra"
)

// How doctor ends when something is wrong, and when nothing is wrong that it could check.
var (
	errUnsound   = errors.New("something is wrong; the commands above mend it, and tally doctor --explain tells more")
	errUnchecked = withStatus{errors.New("some checks could not be made"), unchecked}
)

// unchecked is the exit status of tally doctor when it could not check all, and nothing was wrong.
const unchecked = 2

func doctorCommand() *cobra.Command {
	var project string
	var skip []string
	var asJSON, explain bool
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check what is deployed in a project",
		Long: `Compare what is deployed in a project with what tally deploy would set, by tally.yaml or else by the
functions' variables, and check how it goes and what clients may. It changes nothing. Each ✗ comes with the
command that mends it; ? is what could not be read. The exit status is 0 if all is well, 1 if something is
wrong, and 2 if nothing is wrong but not all could be checked. It signs in as gcloud is, or where there is no
gcloud or GOOGLE_APPLICATION_CREDENTIALS is set, by application default credentials.`,
		Example: `  tally doctor --project my-project
  tally doctor --project my-project --json | jq -r '.checks[].problems[]?.remedy[]?'
  tally doctor --explain`,
	}
	f := c.Flags()
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
			return withStatus{fmt.Errorf("--timeout %v: want more than 0", timeout), unchecked}
		}
		ctx, cancel := context.WithTimeout(c.Context(), timeout)
		defer cancel()
		findings, project, err := examine(ctx, project, skip)
		if err != nil {
			return withStatus{err, unchecked}
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

// examine reads the project that the flag names, and makes the checks that are not to be skipped.
func examine(ctx context.Context, flag string, skip []string) (findings []doctor.Finding, project string, err error) {
	folder, project, err := realProject(flag)
	if err != nil {
		return nil, "", err
	}
	var names []string
	for _, c := range doctor.Checks {
		names = append(names, c.Name)
	}
	if i := slices.IndexFunc(skip, func(name string) bool { return !slices.Contains(names, name) }); i >= 0 {
		return nil, "", fmt.Errorf("--skip %s: there is no such check; there are %s", skip[i], strings.Join(names, ", "))
	}
	at, err := endpointsOf(ctx).signIn(ctx, project)
	if err != nil {
		return nil, "", err
	}
	d, err := doctor.Read(ctx, project, folder, at.apis, at.rules)
	if err != nil {
		return nil, "", err
	}
	return d.Examine(ctx, skip), project, nil
}

// withStatus is an error with an exit status of its own.
type withStatus struct {
	error
	status int
}

func (e withStatus) Unwrap() error { return e.error }
