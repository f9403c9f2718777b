// Package session runs a command on a database: it reads the flags that all such commands have,
// opens the database, and shows results, progress and errors.
//
//   - dialog.go shows results, progress and questions.
//   - routes.go decides by which routes a command works, and whether it may change anything.
//   - devnote.go is how tally dev tells commands by which routes its functions work.
//   - remedies.go says what to do about an error.
package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/cmd/tally/counter"
	"github.com/firestore-tally/tally/cmd/tally/settings"
	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/reason"
	"github.com/firestore-tally/tally/internal/tool/appfolder"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/firestore-tally/tally/shards"
	"github.com/spf13/cobra"
	"golang.org/x/oauth2/google"
	"google.golang.org/api/iterator"
	"google.golang.org/grpc"
)

// A Command is a command that works on a database.
type Command struct {
	Writes  bool   // it changes something there, unless a flag asks for that; its help names the role
	Dry     *bool  // a flag that keeps this call from changing anything; nil: there is none
	Asks    string // usage of its flag --yes; empty: the command asks nothing
	Endless bool   // there is no timeout unless --timeout sets one
	Dial    []grpc.DialOption
	Run     func(ctx context.Context, s *Session, args []string) error
}

// databaseFlags are the values of the flags that every Command has.
type databaseFlags struct {
	settings settings.File
	project  string
	database string
	routes   string
	timeout  time.Duration // 0: none
	json     bool
	yes      bool
}

// Define gives c the flags, and has it run d.
func (d Command) Define(c *cobra.Command) *cobra.Command {
	var flags databaseFlags
	f := c.Flags()
	flags.settings.Define(f)
	f.StringVar(&flags.project, "project", "", "project id, or alias of .firebaserc (default $GOOGLE_CLOUD_PROJECT, else the Firebase CLI's, else that of the credentials, or demo-tally on an emulator)")
	f.StringVar(&flags.database, "database", "", "database id (default: the first of tally.yaml, else the only one of firebase.json, else (default))")
	f.StringVar(&flags.routes, "routes", "", "routes, separated by semicolons (default: those of the functions that run, else of tally.yaml)")
	f.BoolVar(&flags.json, "json", false, "print JSON")
	f.DurationVar(&flags.timeout, "timeout", time.Minute, "give up after so long without progress; 0: never")
	if d.Endless {
		flags.timeout, f.Lookup("timeout").DefValue = 0, "never"
	}
	if d.Asks != "" {
		f.BoolVar(&flags.yes, "yes", false, d.Asks)
	}

	c.Long = strings.TrimSpace(c.Long + "\n\nOn a project the credentials need the role " + role(d.Writes) + ".")
	c.RunE = func(c *cobra.Command, args []string) error { return d.execute(c, flags, args) }
	return c
}

// execute opens what the flags name, and runs the command on it.
func (d Command) execute(c *cobra.Command, flags databaseFlags, args []string) error {
	if flags.timeout < 0 {
		return fmt.Errorf("--timeout %v: want 0 or more", flags.timeout)
	}
	talk := newDialog(c, flags)
	ctx, stop := talk.withPatience(c.Context())
	defer stop()

	s := &Session{dialog: talk, Writes: d.Writes && (d.Dry == nil || !*d.Dry)}
	if err := s.open(ctx, flags, d.Dial); err != nil {
		return s.explain(err)
	}
	defer s.Store.Close()
	if s.Writes && s.Refusal != nil {
		return s.Refusal
	}

	err := d.Run(ctx, s, args)
	s.Stop()
	return s.WithRemedy(s.wrapEnd(ctx, err))
}

// role returns the role of Identity and Access Management that a command needs.
func role(writes bool) string {
	if writes {
		return "roles/datastore.user"
	}
	return "roles/datastore.viewer"
}

// A Session is one run of a [Command], with what it works on.
type Session struct {
	*dialog
	Writes   bool // it changes something
	Project  string
	Emulated bool                  // the project is on an emulator
	Folder   *appfolder.Folder     // the app's
	Stated   route.Routes          // that a flag, a variable or tally.yaml names
	Decision                       // by which routes, on which database
	Store    *firestorestore.Store // the engine's own view of the database
	Client   *firestore.Client
}

// open finds out the project, the routes and the database that the command works on, and opens the
// database.
func (s *Session) open(ctx context.Context, flags databaseFlags, dial []grpc.DialOption) error {
	folder, err := flags.settings.Here(s.Logs)
	if err != nil {
		return err
	}
	s.Project, err = s.chooseProject(ctx, flags.project, folder)
	if err != nil {
		return err
	}

	stated, err := statedBy(flags.routes, folder, s.Project)
	if err != nil {
		return err
	}
	runs, err := askFunctions(ctx, s.Project, folder)
	if err != nil {
		return err
	}
	s.Folder, s.Stated = folder, stated.config.Routes
	s.Decision = decide(stated, runs, flags.database)
	if s.notice != "" {
		fmt.Fprintln(s.Logs, s.notice)
	}

	at := settings.EndpointsOf(ctx)
	s.Emulated = os.Getenv(firestorestore.EmulatorHost) != ""
	address := cmp.Or(os.Getenv(firestorestore.EmulatorHost), at.Firestore)
	s.Store, err = firestorestore.OpenEdition(ctx, s.Config.Edition, address, s.Project, s.Database, s.Logger(false), slices.Concat(dial, at.Dial)...)
	if err != nil {
		return fmt.Errorf("%w: %w", errDial, err)
	}
	s.Client = s.Store.Client()
	if address != "" { // an emulator has no edition
		return nil
	}
	return s.Store.CheckEdition(ctx)
}

// chooseProject returns the id of the project. If nothing names one, it is demo-tally on an
// emulator, and otherwise the credentials' project. On a real project it says what was taken unless
// the flag names its id, and asks before a change if the Firebase CLI takes another.
func (s *Session) chooseProject(ctx context.Context, flag string, folder *appfolder.Folder) (string, error) {
	chosen, err := settings.ChooseProject(flag, folder)
	if err != nil {
		return "", err
	}

	host := os.Getenv(firestorestore.EmulatorHost)
	if host != "" {
		err := CheckEmulator(ctx, host, s.Logs) // the SDK would try forever
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
		chosen.Say(s.Logs)
	}
	if s.Writes {
		err = s.awaitUser(func() error { return chosen.Confirm(ctx, s.in, s.Logs, s.Yes) })
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
		return "", settings.ErrNoProject
	}
	return credentials.ProjectID, nil
}

// Counter returns the counter that an argument names. The counter need not exist.
func (s *Session) Counter(arg string) (counter.Counter, error) {
	c, err := counter.Of(s.Config.Routes, arg)
	if s.Assumed && errors.Is(err, counter.ErrNoRoute) {
		err = fmt.Errorf("%w; tally.yaml names others", err)
	}
	return c, err
}

// Existing returns the counter that an argument names. It is an error if the counter does not
// exist.
func (s *Session) Existing(ctx context.Context, arg string) (counter.Counter, error) {
	c, err := s.Counter(arg)
	if err != nil {
		return counter.Counter{}, err
	}
	c.Frozen, err = Exists(ctx, s.Client, c)
	return c, err
}

// ExistingSource returns the counter that an argument names, and the source whose shards the
// command changes. It is an error if the counter does not exist, or the argument names several
// sources.
func (s *Session) ExistingSource(ctx context.Context, arg string) (counter.Counter, *route.Route, error) {
	c, err := s.Existing(ctx, arg)
	if err != nil {
		return counter.Counter{}, nil, err
	}
	r, err := c.Source()
	return c, r, err
}

// ExistingTotal returns the counter that an argument names, and its total of that name. It is an
// error if either does not exist.
func (s *Session) ExistingTotal(ctx context.Context, arg, name string) (counter.Counter, *shards.Counter, error) {
	c, err := s.Existing(ctx, arg)
	if err != nil {
		return counter.Counter{}, nil, err
	}
	total, err := s.Total(c, name)
	return c, total, err
}

// Shards returns package shards' view of a source of the counter. A document above the source says
// how many shards there are. If there is no such document, there are n.
func (s *Session) Shards(c counter.Counter, r *route.Route, field document.Field, n int, opts ...shards.Option) *shards.Counter {
	collection := r.Shards(c.Counter)
	doc := counter.Above(collection)
	opts = append([]shards.Option{shards.Collection(collection), shards.Field(strings.Join(field.Names(), ".")), shards.Progress(s.Report)}, opts...)
	if doc == "" {
		doc, opts = c.RollUp, append(opts, shards.NumShards(n))
	}
	return shards.New(s.Client, doc, opts...)
}

// TotalFlag gives the command the flag that names a total.
func TotalFlag(c *cobra.Command) *string {
	return c.Flags().String("total", "", "name of the total in the roll-up, where the counter has several")
}

// Total returns package shards' view of a total of the counter: the one that has the name, or if
// the name is empty, the only one.
func (s *Session) Total(c counter.Counter, name string) (*shards.Counter, error) {
	r, total, err := c.Total(name)
	if err != nil {
		return nil, err
	}
	return s.Shards(c, r, total.Field, shards.DefaultNumShards), nil
}

// WithRemedy returns the error as the user reads it: with its remedy.
func (s *Session) WithRemedy(err error) error { return simplify(s.explain(err), s.Project, s.Database) }

// explain adds the remedy to an error that has one.
func (s *Session) explain(err error) error { return Explain(err, s.Project, s.Writes) }

// Exists reports whether the counter's document says that the counter is frozen. It returns
// ErrUnknown if the counter does not exist: it has no document above its sources, no shard and no
// roll-up.
func Exists(ctx context.Context, client *firestore.Client, c counter.Counter) (frozen bool, err error) {
	found, err := client.GetAll(ctx, []*firestore.DocumentRef{client.Doc(c.Path), client.Doc(c.RollUp)})
	if err != nil {
		return false, err
	}
	doc, rollUp := found[0], found[1]
	if doc.Exists() || rollUp.Exists() {
		return doc.Data()[document.FrozenField] == true, nil
	}

	for _, r := range c.Sources {
		if _, some := r.Where(c.Counter); !some {
			continue
		}
		shard, err := Documents(client, c, r).Select().Limit(1).Documents(ctx).GetAll()
		if err != nil || len(shard) > 0 {
			return false, err
		}
	}
	return false, unknownCounter(ctx, client, c)
}

// Documents returns the query for a counter's documents of a source.
func Documents(client *firestore.Client, c counter.Counter, r *route.Route) firestore.Query {
	query, _ := firestorestore.Documents(client, r, c.Counter)
	return query
}

// ErrUnknown is what exists returns for a counter that does not exist.
var ErrUnknown = errors.New("no such counter")

// suggestFrom is how many counters are looked through for one with a similar name.
const suggestFrom = 1000

// unknownCounter returns the error for a counter that does not exist. The error names a counter
// with a similar name, if there is one.
func unknownCounter(ctx context.Context, client *firestore.Client, c counter.Counter) error {
	if c.Template.Timed() {
		return fmt.Errorf("%w: %s; no document belongs to it", ErrUnknown, c.Path)
	}

	doc := client.Doc(c.Path)
	var others []*firestore.DocumentRef
	_, err := iterator.NewPager(doc.Parent.DocumentRefs(ctx), suggestFrom, "").NextPage(&others)
	if err != nil && !errors.Is(err, iterator.Done) {
		return err
	}

	nearest, distance := "", max(2, len(doc.ID)/3)+1
	for _, other := range others {
		if d := reason.Distance(strings.ToLower(doc.ID), strings.ToLower(other.ID)); d < distance {
			nearest, distance = other.ID, d
		}
	}

	if nearest != "" {
		return fmt.Errorf("%w: %s; did you mean %s?", ErrUnknown, c.Path, strings.TrimSuffix(c.Path, doc.ID)+nearest)
	}
	if _, err := c.Source(); err != nil { // tally create would refuse it, too
		return fmt.Errorf("%w: %s; tally ls lists all counters", ErrUnknown, c.Path)
	}
	return fmt.Errorf("%w: %s; tally create makes it, tally ls lists all counters", ErrUnknown, c.Path)
}
