package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/appfolder"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/firestorestore"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/shards"
	"github.com/spf13/cobra"
	"golang.org/x/oauth2/google"
	"google.golang.org/grpc"
)

// A databaseCommand is a command that works on a database.
type databaseCommand struct {
	access  access        // what it does there, as its help says
	called  func() access // what it does as it was called, where that depends on its flags; nil: access
	asks    string        // usage of its flag --yes; empty: it asks nothing
	endless bool          // it has no timeout unless the flag says one
	dial    []grpc.DialOption
	run     func(ctx context.Context, s *session, args []string) error
}

// databaseFlags are what the flags say that all these commands have.
type databaseFlags struct {
	settings settingsFile
	project  string
	database string
	routes   string
	timeout  time.Duration // 0: none
	json     bool
	yes      bool
}

// define gives c the flags, and makes it the command.
func (d databaseCommand) define(c *cobra.Command) *cobra.Command {
	var flags databaseFlags
	f := c.Flags()
	flags.settings.define(f)
	f.StringVar(&flags.project, "project", "", "project id (default $GOOGLE_CLOUD_PROJECT, else .firebaserc's, else that of the credentials, or demo-tally on an emulator)")
	f.StringVar(&flags.database, "database", "", "database id (default: the first of tally.yaml, else (default))")
	f.StringVar(&flags.routes, "routes", "", "routes, separated by semicolons (default: those of the functions that run, else of tally.yaml)")
	f.BoolVar(&flags.json, "json", false, "print JSON")
	f.DurationVar(&flags.timeout, "timeout", time.Minute, "give up after so long without progress; 0: never")
	if d.endless {
		flags.timeout, f.Lookup("timeout").DefValue = 0, "never"
	}
	if d.asks != "" {
		f.BoolVar(&flags.yes, "yes", false, d.asks)
	}

	c.Long = strings.TrimSpace(c.Long + "\n\nOn a project the credentials need the role " + d.access.role() + ".")
	c.RunE = func(c *cobra.Command, args []string) error { return d.execute(c, flags, args) }
	return c
}

// execute opens what the flags name, and runs the command on it.
func (d databaseCommand) execute(c *cobra.Command, flags databaseFlags, args []string) error {
	if flags.timeout < 0 {
		return fmt.Errorf("--timeout %v: want 0 or more", flags.timeout)
	}
	talk := newDialog(c, flags)
	ctx, stop := talk.patient(c.Context())
	defer stop()

	needs := d.access
	if d.called != nil {
		needs = d.called()
	}
	s := &session{dialog: talk, needs: needs}
	if err := s.open(ctx, flags, d.dial); err != nil {
		return s.explain(err)
	}
	defer s.store.Close()
	if err := s.allows(needs); err != nil {
		return err
	}

	err := d.run(ctx, s, args)
	s.stop()
	return s.told(s.ended(ctx, err))
}

// A session is what a command works with while it works on a database.
type session struct {
	*dialog
	needs    access
	project  string
	decision                       // by which routes, on which database
	store    *firestorestore.Store // the engine's own view of the database
	client   *firestore.Client
}

// open finds out on which project, by which routes and on which database the command works, and
// opens that.
func (s *session) open(ctx context.Context, flags databaseFlags, dial []grpc.DialOption) error {
	folder, err := flags.settings.here(s.logs)
	if err != nil {
		return err
	}
	s.project, err = s.chooseProject(ctx, flags.project, folder)
	if err != nil {
		return err
	}

	said, err := statedBy(flags.routes, folder, s.project)
	if err != nil {
		return err
	}
	runs, err := askFunctions(ctx, s.project, folder)
	if err != nil {
		return err
	}
	s.decision = decide(said, runs, flags.database)
	if s.notice != "" {
		fmt.Fprintln(s.logs, s.notice)
	}

	at := endpointsOf(ctx)
	address := cmp.Or(os.Getenv(firestorestore.EmulatorHost), at.firestore)
	logger := slog.New(slog.NewTextHandler(s.logs, nil))
	s.store, err = firestorestore.Open(ctx, address, s.project, s.database, logger, slices.Concat(dial, at.dial)...)
	if err != nil {
		return fmt.Errorf("%w: %w", errDial, err)
	}
	s.client = s.store.Client()
	return nil
}

// chooseProject returns the id of the project: that of the flag, of the environment or of
// .firebaserc, else that of the credentials, or demo-tally on an emulator.
func (s *session) chooseProject(ctx context.Context, flag string, folder *appfolder.Folder) (string, error) {
	project, from, err := projectOf(flag, folder)
	if err != nil {
		return "", err
	}

	host := os.Getenv(firestorestore.EmulatorHost)
	if host != "" {
		err := checkEmulator(ctx, host) // the SDK would try for ever
		if err != nil {
			return project, cmp.Or(context.Cause(ctx), fmt.Errorf("%s=%s: %w", firestorestore.EmulatorHost, host, err))
		}
		return cmp.Or(project, "demo-tally"), nil
	}

	if project == "" {
		return credentialsProject(ctx)
	}
	if from == ".firebaserc" {
		fmt.Fprintf(s.logs, "tally: project %s, the default of .firebaserc\n", project)
	}
	return project, nil
}

// credentialsProject returns the project of the credentials.
func credentialsProject(ctx context.Context) (string, error) {
	credentials, err := google.FindDefaultCredentials(ctx)
	if err != nil {
		return "", fmt.Errorf("%w: %w", errDial, err)
	}
	if credentials.ProjectID == "" {
		return "", errNoProject
	}
	return credentials.ProjectID, nil
}

// counter returns the counter of an argument, whether there is one or not.
func (s *session) counter(arg string) (counter, error) {
	c, err := counterOf(s.config.Routes, arg)
	if s.assumed && errors.Is(err, errNoRoute) {
		err = fmt.Errorf("%w; tally.yaml names others", err)
	}
	return c, err
}

// existing returns the counter of an argument, and an error unless there is one.
func (s *session) existing(ctx context.Context, arg string) (counter, error) {
	c, err := s.counter(arg)
	if err != nil {
		return counter{}, err
	}
	c.frozen, err = exists(ctx, s.client, c)
	return c, err
}

// existingSource returns the counter of an argument that names one of its sources, too, whose
// shards the command changes.
func (s *session) existingSource(ctx context.Context, arg string) (counter, *rollup.Route, error) {
	c, err := s.existing(ctx, arg)
	if err != nil {
		return counter{}, nil, err
	}
	r, err := c.source()
	return c, r, err
}

// existingTotal returns the counter of an argument, and the total of it that has the name.
func (s *session) existingTotal(ctx context.Context, arg, name string) (counter, *shards.Counter, error) {
	c, err := s.existing(ctx, arg)
	if err != nil {
		return counter{}, nil, err
	}
	total, err := s.total(c, name)
	return c, total, err
}

// shards returns a source of the counter as package shards has it. A source that no document is
// above has no place for its number of shards, which is n then.
func (s *session) shards(c counter, r *rollup.Route, field document.Field, n int, opts ...shards.Option) *shards.Counter {
	collection := r.Shards(c.Counter)
	doc := above(collection)
	opts = append([]shards.Option{shards.Collection(collection), shards.Field(strings.Join(field.Names(), ".")), shards.Progress(s.report)}, opts...)
	if doc == "" {
		doc, opts = c.RollUp, append(opts, shards.NumShards(n))
	}
	return shards.New(s.client, doc, opts...)
}

// totalFlag gives the command the flag that names a total.
func totalFlag(c *cobra.Command) *string {
	return c.Flags().String("total", "", "name of the total in the roll-up, where the counter has several")
}

// total returns the one total of the counter that has the name, or its only one if that is empty,
// as package shards has it.
func (s *session) total(c counter, name string) (*shards.Counter, error) {
	r, total, err := c.total(name)
	if err != nil {
		return nil, err
	}
	return s.shards(c, r, total.Field, shards.DefaultNumShards), nil
}

// told returns the error as the user reads it: with its remedy.
func (s *session) told(err error) error { return inUsersWords(s.explain(err), s.project, s.database) }

// explain adds the remedy to an error that has one.
func (s *session) explain(err error) error { return explain(err, s.project, s.needs) }
