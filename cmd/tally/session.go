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
	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/tool/appfolder"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/firestore-tally/tally/shards"
	"github.com/spf13/cobra"
	"golang.org/x/oauth2/google"
	"google.golang.org/grpc"
)

// A databaseCommand is a command that works on a database.
type databaseCommand struct {
	access  access        // what it does there, unless a flag asks for more; its help names the role
	called  func() access // what this call does, where flags decide that; nil: access
	asks    string        // usage of its flag --yes; empty: the command asks nothing
	endless bool          // there is no timeout unless --timeout sets one
	dial    []grpc.DialOption
	run     func(ctx context.Context, s *session, args []string) error
}

// databaseFlags are the values of the flags that every databaseCommand has.
type databaseFlags struct {
	settings settingsFile
	project  string
	database string
	routes   string
	timeout  time.Duration // 0: none
	json     bool
	yes      bool
}

// define gives c the flags, and has it run d.
func (d databaseCommand) define(c *cobra.Command) *cobra.Command {
	var flags databaseFlags
	f := c.Flags()
	flags.settings.define(f)
	f.StringVar(&flags.project, "project", "", "project id, or alias of .firebaserc (default $GOOGLE_CLOUD_PROJECT, else the Firebase CLI's, else that of the credentials, or demo-tally on an emulator)")
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

// A session is one run of a databaseCommand, with what it works on.
type session struct {
	*dialog
	needs    access
	project  string
	decision                       // by which routes, on which database
	store    *firestorestore.Store // the engine's own view of the database
	client   *firestore.Client
}

// open finds out the project, the routes and the database that the command works on, and opens the
// database.
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

// chooseProject returns the id of the project. If nothing names one, it is demo-tally on an
// emulator, and otherwise the credentials' project. On a real project it says what was taken unless
// the flag names its id, and asks before a change if the Firebase CLI takes another.
func (s *session) chooseProject(ctx context.Context, flag string, folder *appfolder.Folder) (string, error) {
	chosen, err := chooseProject(flag, folder)
	if err != nil {
		return "", err
	}

	host := os.Getenv(firestorestore.EmulatorHost)
	if host != "" {
		err := checkEmulator(ctx, host) // the SDK would try forever
		if err != nil {
			return chosen.ID, cmp.Or(context.Cause(ctx), fmt.Errorf("%s=%s: %w", firestorestore.EmulatorHost, host, err))
		}
		return cmp.Or(chosen.ID, "demo-tally"), nil
	}

	if chosen.ID == "" {
		id, err := credentialsProject(ctx)
		chosen.Project = appfolder.Project{ID: id, From: "the credentials"}
		if err != nil {
			return "", err
		}
	}
	if chosen.ID != flag {
		chosen.say(s.logs)
	}
	if s.needs > reads {
		err = s.patiently(func() error { return chosen.confirm(ctx, s.in, s.logs, s.yes) })
	}
	return chosen.ID, err
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

// counter returns the counter that an argument names. The counter need not exist.
func (s *session) counter(arg string) (counter, error) {
	c, err := counterOf(s.config.Routes, arg)
	if s.assumed && errors.Is(err, errNoRoute) {
		err = fmt.Errorf("%w; tally.yaml names others", err)
	}
	return c, err
}

// existing returns the counter that an argument names. It is an error if the counter does not
// exist.
func (s *session) existing(ctx context.Context, arg string) (counter, error) {
	c, err := s.counter(arg)
	if err != nil {
		return counter{}, err
	}
	c.frozen, err = exists(ctx, s.client, c)
	return c, err
}

// existingSource returns the counter that an argument names, and the source whose shards the
// command changes. It is an error if the counter does not exist, or the argument names several
// sources.
func (s *session) existingSource(ctx context.Context, arg string) (counter, *route.Route, error) {
	c, err := s.existing(ctx, arg)
	if err != nil {
		return counter{}, nil, err
	}
	r, err := c.source()
	return c, r, err
}

// existingTotal returns the counter that an argument names, and its total of that name. It is an
// error if either does not exist.
func (s *session) existingTotal(ctx context.Context, arg, name string) (counter, *shards.Counter, error) {
	c, err := s.existing(ctx, arg)
	if err != nil {
		return counter{}, nil, err
	}
	total, err := s.total(c, name)
	return c, total, err
}

// shards returns package shards' view of a source of the counter. A document above the source says
// how many shards there are. If there is no such document, there are n.
func (s *session) shards(c counter, r *route.Route, field document.Field, n int, opts ...shards.Option) *shards.Counter {
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

// total returns package shards' view of a total of the counter: the one that has the name, or if
// the name is empty, the only one.
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
