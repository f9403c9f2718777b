package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/appfolder"
	"github.com/firestore-tally/tally/internal/config"
	"github.com/firestore-tally/tally/internal/firestorestore"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/shards"
	"github.com/spf13/cobra"
	"golang.org/x/oauth2/google"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A target is the database that a command works on, and the routes of its counters.
type target struct {
	// What the command says of itself.
	makes   bool        // the counter need not exist
	endless bool        // no timeout unless the flag says one
	adds    bool        // it only adds, which is safe on assumed routes too
	reads   func() bool // as it was called, it changes nothing; nil: it does
	dial    []grpc.DialOption
	role    string // what the account needs

	// What its flags say.
	settings settingsFile
	project  string
	database string
	routes   string
	total    string        // name of the total, for commands that need one
	timeout  time.Duration // 0: none
	json     bool
	yes      bool // do not ask

	in        io.Reader
	out, logs io.Writer
	text      io.Writer   // out, or logs if out gets JSON
	patience  *time.Timer // nil: without end
	progress  *progress   // nil: nothing that takes long has begun
	kept      string      // what is true if that is stopped, and how to go on

	at        endpoints
	folder    *appfolder.Folder
	client    *firestore.Client
	store     *firestorestore.Store // the engine's own view of the database
	config    config.Config         // of the functions
	from      string                // where its routes are from
	forbidden error                 // why nothing may be changed by the routes; nil: it may
}

// Roles of Identity and Access Management.
const (
	viewer = "roles/datastore.viewer"
	user   = "roles/datastore.user"
)

// command makes c a command on the target, which run is called with once it is open.
func (t *target) command(c *cobra.Command, role string, run func(ctx context.Context, args []string) error) *cobra.Command {
	f := c.Flags()
	t.settings.define(f)
	f.StringVar(&t.project, "project", "", "project id (default $GOOGLE_CLOUD_PROJECT, else .firebaserc's, else that of the credentials, or demo-tally on an emulator)")
	f.StringVar(&t.database, "database", "", "database id (default: the first of tally.yaml, else (default))")
	f.StringVar(&t.routes, "routes", "", "routes, separated by semicolons (default: those of the functions that run, else of tally.yaml)")
	f.BoolVar(&t.json, "json", false, "print JSON")
	f.DurationVar(&t.timeout, "timeout", time.Minute, "give up after so long without progress; 0: never")
	if t.endless {
		t.timeout, f.Lookup("timeout").DefValue = 0, "never"
	}
	t.role = role
	c.Long = strings.TrimSpace(c.Long + "\n\nOn a project the credentials need the role " + role + ".")
	c.RunE = func(c *cobra.Command, args []string) error {
		t.in, t.out, t.logs, t.at = c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr(), endpointsOf(c.Context())
		if t.text = t.out; t.json {
			t.text = t.logs
		}
		if t.timeout < 0 {
			return fmt.Errorf("--timeout %v: want 0 or more", t.timeout)
		}
		ctx, stop := t.patient(c.Context())
		defer stop()
		if err := t.open(ctx); err != nil {
			return t.explain(err)
		}
		defer t.store.Close()
		if role == user && (t.reads == nil || !t.reads()) && t.forbidden != nil {
			return t.forbidden
		}
		err := run(ctx, args)
		t.stop()
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
			if t.progress != nil {
				err = errors.Join(err, fmt.Errorf("%v. %s", t.progress, t.kept))
			}
		}
		return t.told(t.explain(err))
	}
	return c
}

// asks gives the command the flag --yes.
func (t *target) asks(c *cobra.Command, usage string) {
	c.Flags().BoolVar(&t.yes, "yes", false, usage)
}

// patient returns a context that ends after the timeout, unless report, which begins it anew, is
// called until then.
func (t *target) patient(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	if t.timeout > 0 {
		t.patience = time.AfterFunc(t.timeout, func() {
			cancel(fmt.Errorf("no progress for %v; --timeout gives it longer", t.timeout))
		})
	}
	return ctx, func() { cancel(nil) }
}

// begin says what the command does from now on, which may take long: its unit, how many there are
// if that is known, and what is true if it is stopped.
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

func (t *target) stop() { t.progress.stop() }

// confirm asks whether to go on, unless --yes says so. The user may take time.
func (t *target) confirm(ctx context.Context, format string, args ...any) error {
	if t.patience != nil {
		t.patience.Stop()
		defer t.patience.Reset(t.timeout)
	}
	return confirm(ctx, t.in, t.logs, t.yes, fmt.Sprintf(format, escaped(args)...))
}

// open finds out on which project, with which routes and on which database the command works, and
// opens it.
func (t *target) open(ctx context.Context) (err error) {
	if t.folder, err = t.settings.here(t.logs); err != nil {
		return err
	}
	var from string
	if t.project, from, err = projectOf(t.project, t.folder); err != nil {
		return err
	}
	t.dial = append(t.dial, t.at.dial...)
	host := os.Getenv(firestorestore.EmulatorHost)
	switch {
	case host != "":
		if err := checkEmulator(ctx, host); err != nil { // the SDK would try for ever
			return cmp.Or(context.Cause(ctx), fmt.Errorf("%s=%s: %w", firestorestore.EmulatorHost, host, err))
		}
		t.project = cmp.Or(t.project, "demo-tally")
	case t.project == "":
		credentials, err := google.FindDefaultCredentials(ctx)
		if err != nil {
			return fmt.Errorf("%w: %w", errDial, err)
		}
		if t.project = credentials.ProjectID; t.project == "" {
			return errNoProject
		}
	case from == ".firebaserc":
		fmt.Fprintf(t.logs, "tally: project %s, the default of .firebaserc\n", t.project)
	}
	if err := t.configure(ctx); err != nil {
		return err
	}
	address := cmp.Or(host, t.at.firestore)
	logger := slog.New(slog.NewTextHandler(t.logs, nil))
	if t.store, err = firestorestore.Open(ctx, address, t.project, t.database, logger, t.dial...); err != nil {
		return fmt.Errorf("%w: %w", errDial, err)
	}
	t.client = t.store.Client()
	return nil
}

// errDial is about a client that could not be opened.
var errDial = errors.New("cannot reach Firestore")

// explain adds the remedy to an error that has one.
func (t *target) explain(err error) error {
	remedy := ""
	switch code := status.Code(err); {
	case err == nil, errors.Is(err, context.Canceled):
		return err
	case code == codes.PermissionDenied:
		remedy = fmt.Sprintf("the account needs the role %s: gcloud projects add-iam-policy-binding %s --member=user:YOU --role=%s", t.role, t.project, t.role)
	case code == codes.NotFound && strings.Contains(err.Error(), "database"):
		remedy = fmt.Sprintf("gcloud firestore databases list --project=%s tells which databases there are, and --database names one", t.project)
	case code == codes.Unauthenticated || errors.Is(err, errDial) && os.Getenv(firestorestore.EmulatorHost) == "": // nothing is sent before there are credentials
		remedy = "gcloud auth application-default login provides credentials; FIRESTORE_EMULATOR_HOST=127.0.0.1:8080 chooses an emulator instead"
	case errors.Is(err, shards.ErrNumShards):
		remedy = "tally resize changes it"
	case errors.Is(err, shards.ErrInDoubt):
		remedy = "an increment with --once can be repeated safely"
	default:
		return err
	}
	return errors.Join(err, errors.New(remedy))
}

// told returns an error that says what err says, in lines of which none is from an id, and with
// paths as the user knows them.
func (t *target) told(err error) error {
	if err == nil {
		return nil
	}
	text := strings.ReplaceAll(strings.TrimPrefix(said(err), "shards: "), ": shards: ", ": ")
	return errors.New(strings.ReplaceAll(text, fmt.Sprintf("projects/%s/databases/%s/documents/", t.project, t.database), ""))
}

// Cells are text whose tabs and newlines are not to be escaped.
type cells string

// print prints the object if JSON is wanted, else the text: lines of cells, which tabs separate. A
// progress is taken away first: it is on the same terminal.
func (t *target) print(object any, format string, args ...any) error {
	t.stop()
	if t.json {
		return json.NewEncoder(t.out).Encode(object)
	}
	_, err := io.WriteString(t.out, table(fmt.Sprintf(format+"\n", escaped(args)...)))
	return err
}

// counterCommand makes c a command on the counter that its first argument names.
func (t *target) counterCommand(c *cobra.Command, role string, run func(ctx context.Context, c counter, args []string) error) *cobra.Command {
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
		return run(ctx, c, t.shards(c, r, total.Field, shards.DefaultNumShards), args)
	})
}
