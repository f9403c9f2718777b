package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/app"
	"github.com/firestore-tally/tally/internal/appfolder"
	"github.com/firestore-tally/tally/internal/firestorestore"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/shards"
	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A target is the database that a command works on, and the routes of its counters.
type target struct {
	project  string
	database string
	routes   string        // by the flag
	total    string        // name of the total, for commands that need one
	makes    bool          // the counter need not exist
	endless  bool          // no timeout unless the flag says one
	timeout  time.Duration // 0: none
	json     bool

	in        io.Reader
	out, logs io.Writer
	patience  *time.Timer // nil: without end
	progress  *progress   // nil: nothing that takes long has begun
	kept      string      // what is true if that is stopped, and how to go on
	dial      []grpc.DialOption
	client    *firestore.Client
	at        endpoints
	folder    *appfolder.Folder
	config    app.Config  // of the functions
	from      string      // where its routes are from
	explicit  bool        // the routes were named for this command
	differs   error       // how what was named differs from what the functions serve; nil: not
	unread    error       // why nobody knows what the deployed functions serve; nil: somebody does
	adds      bool        // the command only adds, which is safe on assumed routes
	reads     func() bool // the command, as it was called, changes nothing; nil: it does
	role      string      // what the account needs
}

// Roles of Identity and Access Management.
const (
	viewer = "roles/datastore.viewer"
	user   = "roles/datastore.user"
)

// command makes c a command on the target, which run is called with once it is open.
func (t *target) command(c *cobra.Command, role string, run func(ctx context.Context, args []string) error) *cobra.Command {
	f := c.Flags()
	f.StringVar(&t.project, "project", "", "project id (default $GOOGLE_CLOUD_PROJECT, else .firebaserc's, else that of the credentials, or demo-tally on an emulator)")
	f.StringVar(&t.database, "database", "", "database id (default: the first of tally.yaml, else (default))")
	f.StringVar(&t.routes, "routes", "", "routes, separated by semicolons (default: those of the functions that run, else of tally.yaml)")
	f.BoolVar(&t.json, "json", false, "print JSON")
	f.DurationVar(&t.timeout, "timeout", time.Minute, "give up after so long without progress; 0: never")
	if t.endless {
		t.timeout, f.Lookup("timeout").DefValue = 0, "never"
	}
	c.Long = strings.TrimSpace(c.Long + "\n\nWorks on the emulator that FIRESTORE_EMULATOR_HOST names, else on a real project with application default credentials, which need the role " + role + ".")
	t.role = role
	c.RunE = func(c *cobra.Command, args []string) error {
		t.in, t.out, t.logs = c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr()
		t.at = endpointsOf(c.Context())
		var err error
		if t.folder, err = here(); err != nil {
			return err
		}
		if t.timeout < 0 {
			return fmt.Errorf("--timeout %v: want 0 or more", t.timeout)
		}
		ctx, stop := t.patient(c.Context())
		defer stop()
		if err := t.open(ctx); err != nil {
			return t.explain(err)
		}
		defer t.client.Close()
		if role == user && (t.reads == nil || !t.reads()) {
			if err := t.mayChange(); err != nil {
				return err
			}
		}
		err = run(ctx, args)
		t.stop()
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
			if t.progress != nil {
				err = errors.Join(err, fmt.Errorf("%v. %s", t.progress, t.kept))
			}
		}
		return t.explain(t.told(err))
	}
	return c
}

// patient returns a context that ends after the timeout, unless report, which begins it anew, is called
// until then.
func (t *target) patient(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	if t.timeout > 0 {
		t.patience = time.AfterFunc(t.timeout, func() { cancel(fmt.Errorf("no progress for %v; --timeout gives it longer", t.timeout)) })
	}
	return ctx, func() { cancel(nil) }
}

// begin says what the command does from now on, which may take long: its unit, how many there are if that
// is known, and what is true if it is stopped.
func (t *target) begin(what, unit string, total int, kept string) {
	t.stop()
	t.progress, t.kept = newProgress(t.logs, what, unit, total), kept
}

// report says how far what has begun is.
func (t *target) report(done, total int) {
	if t.patience != nil {
		t.patience.Reset(t.timeout)
	}
	if t.progress != nil {
		t.progress.at(done, total)
	}
}

// stop takes the progress bar away.
func (t *target) stop() {
	if t.progress != nil {
		t.progress.stop()
	}
}

// confirm asks whether to go on, unless yes. The user may take time.
func (t *target) confirm(ctx context.Context, yes bool, format string, args ...any) error {
	if t.patience != nil {
		t.patience.Stop()
		defer t.patience.Reset(t.timeout)
	}
	return confirm(ctx, t.in, t.logs, yes, fmt.Sprintf(format, escaped(args)...))
}

// open finds out on which project, with which routes and on which database the command works, and opens a
// client.
func (t *target) open(ctx context.Context) error {
	host := os.Getenv(firestorestore.EmulatorHost)
	id, from, err := projectOf(t.project, t.folder)
	if err != nil {
		return err
	}
	t.project = id
	if host != "" {
		err := checkEmulator(ctx, host) // the SDK would try for ever
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return fmt.Errorf("%s=%s: %w", firestorestore.EmulatorHost, host, err)
		}
		t.project = cmp.Or(t.project, "demo-tally")
	} else if from == ".firebaserc" && id != "" {
		fmt.Fprintf(t.logs, "tally: project %s, the default of .firebaserc\n", id)
	}
	t.dial = append(t.dial, t.at.dial...)
	if t.project == "" {
		if err := t.connect(ctx, firestore.DetectProjectID); err != nil {
			return err
		}
		t.project = strings.Split(t.client.Doc("a/b").Path, "/")[1] // projects/{project}/databases/...
		_ = t.client.Close()
	}
	if err := t.configure(ctx); err != nil {
		return err
	}
	return t.connect(ctx, t.project)
}

// errDial is about a client that could not be opened.
var errDial = errors.New("cannot reach Firestore")

func (t *target) connect(ctx context.Context, project string) (err error) {
	t.client, err = firestorestore.Dial(ctx, cmp.Or(os.Getenv(firestorestore.EmulatorHost), t.at.firestore), project, cmp.Or(t.database, firestore.DefaultDatabaseID), t.dial...)
	if err != nil {
		t.client = nil
		return fmt.Errorf("%w: %w", errDial, err)
	}
	return nil
}

// explain adds the remedy to an error that has one.
func (t *target) explain(err error) error {
	remedy := ""
	switch code := status.Code(err); {
	case err == nil:
	case errors.Is(err, context.Canceled):
	case code == codes.PermissionDenied:
		remedy = fmt.Sprintf("the account needs the role %s: gcloud projects add-iam-policy-binding %s --member=user:YOU --role=%s", t.role, t.project, t.role)
	case code == codes.NotFound && strings.Contains(err.Error(), "database"):
		remedy = fmt.Sprintf("gcloud firestore databases list --project=%s tells which databases there are, and --database names one", t.project)
	case t.project == "" && strings.Contains(err.Error(), "detect projectID"):
		remedy = "name the project by --project or GOOGLE_CLOUD_PROJECT"
	case code == codes.Unauthenticated || errors.Is(err, errDial) && os.Getenv(firestorestore.EmulatorHost) == "": // nothing is sent before there are credentials
		remedy = "gcloud auth application-default login provides credentials; FIRESTORE_EMULATOR_HOST=127.0.0.1:8080 chooses an emulator instead"
	case errors.Is(err, shards.ErrNumShards):
		remedy = "tally resize changes it"
	case errors.Is(err, shards.ErrInDoubt):
		remedy = "an increment with --once can be repeated safely"
	}
	if remedy == "" {
		return err
	}
	return fmt.Errorf("%w\n%s", err, remedy)
}

// told returns an error that says what err says, in lines of which none is from an id, and with paths as
// the user knows them.
func (t *target) told(err error) error {
	if err == nil {
		return nil
	}
	text := strings.ReplaceAll(strings.TrimPrefix(said(err), "shards: "), ": shards: ", ": ")
	return toldError{err, strings.ReplaceAll(text, fmt.Sprintf("projects/%s/databases/%s/documents/", t.project, t.database), "")}
}

type toldError struct {
	error
	text string
}

func (e toldError) Error() string { return e.text }
func (e toldError) Unwrap() error { return e.error }

// Cells are text whose tabs and newlines are not to be escaped.
type cells string

// print prints the object if JSON is wanted, else the text: lines of cells, which tabs
// separate. A bar is taken away first: it is on the same terminal.
func (t *target) print(object any, format string, args ...any) error {
	t.stop()
	if t.json {
		return json.NewEncoder(t.out).Encode(object)
	}
	_, err := io.WriteString(t.out, table(fmt.Sprintf(format+"\n", escaped(args)...)))
	return err
}

// store opens the engine's own view of the database.
func (t *target) store(ctx context.Context, logger *slog.Logger) (*firestorestore.Store, error) {
	return firestorestore.Open(ctx, cmp.Or(os.Getenv(firestorestore.EmulatorHost), t.at.firestore), t.project, t.database, logger, t.dial...)
}

// counterCommand makes c a command on the counter that its first argument names.
func (t *target) counterCommand(c *cobra.Command, role string, run func(ctx context.Context, c counter, args []string) error) *cobra.Command {
	c.Long += counterLong
	if role == user {
		c.Long += changesLong
	}
	return t.command(c, role, func(ctx context.Context, args []string) error {
		c, err := t.named(ctx, args[0])
		if err != nil {
			return err
		}
		return run(ctx, c, args[1:])
	})
}

// named returns the counter of an argument, which must exist unless the command makes it.
func (t *target) named(ctx context.Context, arg string) (counter, error) {
	c, err := t.counter(arg)
	if err == nil && !t.makes {
		err = t.exists(ctx, &c)
	}
	return c, err
}

// sourceCommand makes c a command that changes the shards of one source of a counter.
func (t *target) sourceCommand(c *cobra.Command, run func(ctx context.Context, c counter, r *rollup.Route, args []string) error) *cobra.Command {
	return t.counterCommand(c, user, func(ctx context.Context, c counter, args []string) error {
		r, err := c.source()
		if err != nil {
			return err
		}
		return run(ctx, c, r, args)
	})
}

// totalCommand makes c a command that changes one total of a counter.
func (t *target) totalCommand(c *cobra.Command, run func(ctx context.Context, c counter, s *shards.Counter, args []string) error) *cobra.Command {
	c.Flags().StringVar(&t.total, "total", "", "name of the total in the roll-up, where the counter has several")
	return t.counterCommand(c, user, func(ctx context.Context, c counter, args []string) error {
		r, total, err := c.total(t.total)
		if err != nil {
			return err
		}
		return run(ctx, c, t.shards(c, r, total.Field, shards.DefaultNumShards, shards.Progress(t.report)), args)
	})
}

// number is a total in JSON: a number, or text if JSON has no such number.
func number(total fmt.Stringer) any {
	if text := total.String(); !json.Valid([]byte(text)) {
		return text
	}
	return json.Number(total.String())
}

// A totals is what the totals are, by name.
type totals map[string]rollup.Number

func (t totals) MarshalJSON() ([]byte, error) {
	object := make(map[string]any, len(t))
	for name, sum := range t {
		object[name] = number(sum)
	}
	return json.Marshal(object)
}

// String returns the only total, or all with their names.
func (t totals) String() string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(t)) {
		if len(t) == 1 {
			return t[name].String()
		}
		texts = append(texts, name+" "+t[name].String())
	}
	return cmp.Or(strings.Join(texts, ", "), "none of the routes' totals")
}

// A rollUp is a roll-up in JSON.
type rollUp struct {
	Totals    totals    `json:"totals"`
	NumShards int64     `json:"num_shards"`
	AsOf      time.Time `json:"as_of"`
	AgeMS     float64   `json:"age_ms,omitempty"` // when it was read, if that is known
}

// rollUpOf returns what a roll-up document says of the totals that its as_of speaks for, nil if it is
// no roll-up. The document was read at a time; zero if that is not known.
func rollUpOf(r rollup.RollUp, read time.Time) *rollUp {
	if r.Tally.AsOf.IsZero() {
		return nil
	}
	shown := &rollUp{Totals: make(totals), NumShards: r.Tally.NumShards, AsOf: r.Tally.AsOf}
	for name, sum := range r.Sums {
		if r.Tally.Covers(name) {
			shown.Totals[name] = sum
		}
	}
	if !read.IsZero() {
		shown.AgeMS = float64(read.Sub(r.Tally.AsOf).Microseconds()) / 1000
	}
	return shown
}

// cells returns the roll-up as cells of a table.
func (r *rollUp) cells() cells {
	return cells(fmt.Sprintf("%s\t%d shards\tas of %s\t%v old", shown(r.Totals.String()), r.NumShards, r.AsOf.Format(time.RFC3339Nano),
		time.Duration(r.AgeMS*float64(time.Millisecond)).Round(time.Millisecond)))
}
