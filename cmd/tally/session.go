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
	"google.golang.org/api/iterator"
	"google.golang.org/grpc"
)

// A databaseCommand is a command that works on a database.
type databaseCommand struct {
	writes  bool   // it changes something there, unless a flag asks for that; its help names the role
	dry     *bool  // a flag that keeps this call from changing anything; nil: there is none
	asks    string // usage of its flag --yes; empty: the command asks nothing
	endless bool   // there is no timeout unless --timeout sets one
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
	f.StringVar(&flags.database, "database", "", "database id (default: the first of tally.yaml, else the only one of firebase.json, else (default))")
	f.StringVar(&flags.routes, "routes", "", "routes, separated by semicolons (default: those of the functions that run, else of tally.yaml)")
	f.BoolVar(&flags.json, "json", false, "print JSON")
	f.DurationVar(&flags.timeout, "timeout", time.Minute, "give up after so long without progress; 0: never")
	if d.endless {
		flags.timeout, f.Lookup("timeout").DefValue = 0, "never"
	}
	if d.asks != "" {
		f.BoolVar(&flags.yes, "yes", false, d.asks)
	}

	c.Long = strings.TrimSpace(c.Long + "\n\nOn a project the credentials need the role " + role(d.writes) + ".")
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

	s := &session{dialog: talk, writes: d.writes && (d.dry == nil || !*d.dry)}
	if err := s.open(ctx, flags, d.dial); err != nil {
		return s.explain(err)
	}
	defer s.store.Close()
	if s.writes && s.refusal != nil {
		return s.refusal
	}

	err := d.run(ctx, s, args)
	s.stop()
	return s.told(s.ended(ctx, err))
}

// role returns the role of Identity and Access Management that a command needs.
func role(writes bool) string {
	if writes {
		return "roles/datastore.user"
	}
	return "roles/datastore.viewer"
}

// A session is one run of a databaseCommand, with what it works on.
type session struct {
	*dialog
	writes   bool // it changes something
	project  string
	emulated bool                  // the project is on an emulator
	folder   *appfolder.Folder     // the app's
	stated   route.Routes          // that a flag, a variable or tally.yaml names
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
	s.folder, s.stated = folder, said.config.Routes
	s.decision = decide(said, runs, flags.database)
	if s.notice != "" {
		fmt.Fprintln(s.logs, s.notice)
	}

	at := endpointsOf(ctx)
	s.emulated = os.Getenv(firestorestore.EmulatorHost) != ""
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
		err := checkEmulator(ctx, host, s.logs) // the SDK would try forever
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
	if s.writes {
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
func (s *session) explain(err error) error { return explain(err, s.project, s.writes) }

// exists reports whether the counter's document says that the counter is frozen. It returns
// errUnknown if the counter does not exist: it has no document above its sources, no shard and no
// roll-up.
func exists(ctx context.Context, client *firestore.Client, c counter) (frozen bool, err error) {
	found, err := client.GetAll(ctx, []*firestore.DocumentRef{client.Doc(c.path), client.Doc(c.RollUp)})
	if err != nil {
		return false, err
	}
	doc, rollUp := found[0], found[1]
	if doc.Exists() || rollUp.Exists() {
		return doc.Data()[document.FrozenField] == true, nil
	}

	for _, r := range c.sources {
		if _, some := r.Where(c.Counter); !some {
			continue
		}
		shard, err := documents(client, c, r).Select().Limit(1).Documents(ctx).GetAll()
		if err != nil || len(shard) > 0 {
			return false, err
		}
	}
	return false, unknownCounter(ctx, client, c)
}

// documents returns the query for a counter's documents of a source.
func documents(client *firestore.Client, c counter, r *route.Route) firestore.Query {
	where, _ := r.Where(c.Counter)
	return firestorestore.Where(client, client.Collection(r.Shards(c.Counter)).Query, where)
}

// errUnknown is what exists returns for a counter that does not exist.
var errUnknown = errors.New("no such counter")

// suggestFrom is how many counters are looked through for one with a similar name.
const suggestFrom = 1000

// unknownCounter returns the error for a counter that does not exist. The error names a counter
// with a similar name, if there is one.
func unknownCounter(ctx context.Context, client *firestore.Client, c counter) error {
	if c.Template.Timed() {
		return fmt.Errorf("%w: %s; no document belongs to it", errUnknown, c.path)
	}

	doc := client.Doc(c.path)
	var others []*firestore.DocumentRef
	_, err := iterator.NewPager(doc.Parent.DocumentRefs(ctx), suggestFrom, "").NextPage(&others)
	if err != nil && !errors.Is(err, iterator.Done) {
		return err
	}

	nearest, distance := "", max(2, len(doc.ID)/3)+1
	for _, other := range others {
		if d := route.Distance(strings.ToLower(doc.ID), strings.ToLower(other.ID)); d < distance {
			nearest, distance = other.ID, d
		}
	}

	if nearest != "" {
		return fmt.Errorf("%w: %s; did you mean %s?", errUnknown, c.path, strings.TrimSuffix(c.path, doc.ID)+nearest)
	}
	if _, err := c.source(); err != nil { // tally create would refuse it, too
		return fmt.Errorf("%w: %s; tally ls lists what there is", errUnknown, c.path)
	}
	return fmt.Errorf("%w: %s; tally create makes it, tally ls lists what there is", errUnknown, c.path)
}
