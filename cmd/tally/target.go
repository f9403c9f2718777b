package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/agext/levenshtein"
	"github.com/firestore-tally/tally/internal/firestorestore"
	"github.com/firestore-tally/tally/shards"
	"github.com/spf13/cobra"
	"google.golang.org/api/iterator"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A target is the database that a command works on, and how counters are laid out in it.
type target struct {
	project  string
	database string
	field    string
	rollUp   string // template
	shardsIn string
	endless  bool          // no timeout unless the flag says one
	byRoutes bool          // routes say how counters are laid out, not flags
	timeout  time.Duration // 0: none
	json     bool

	out, logs io.Writer
	dial      []grpc.DialOption
	client    *firestore.Client
	role      string // what the account needs
}

// Roles of Identity and Access Management.
const (
	viewer = "roles/datastore.viewer"
	user   = "roles/datastore.user"
)

// command makes c a command on the target, which run is called with once it is open.
func (t *target) command(c *cobra.Command, role string, run func(ctx context.Context, args []string) error) *cobra.Command {
	timeout := time.Minute
	if t.endless {
		timeout = 0
	}
	f := c.Flags()
	f.StringVar(&t.project, "project", "", "project id (default $GOOGLE_CLOUD_PROJECT, else that of the credentials, or demo-tally on an emulator)")
	f.StringVar(&t.database, "database", firestore.DefaultDatabaseID, "database id")
	if !t.byRoutes {
		f.StringVar(&t.field, "field", "count", "field that holds the number")
		f.StringVar(&t.rollUp, "rollup", "", "path of the roll-up; {counter} stands for the counter's id (default rollups/{counter}, for counters/{counter})")
	}
	f.BoolVar(&t.json, "json", false, "print JSON")
	f.DurationVar(&t.timeout, "timeout", timeout, "how long to try; 0: without end")
	c.Long = strings.TrimSpace(c.Long + "\n\nWorks on the emulator that FIRESTORE_EMULATOR_HOST names, else on a real project with application default credentials, which need the role " + role + ".")
	t.role = role
	c.RunE = func(c *cobra.Command, args []string) error {
		t.out, t.logs = c.OutOrStdout(), c.ErrOrStderr()
		if t.timeout < 0 {
			return fmt.Errorf("--timeout %v: want 0 or more; 0 is without end", t.timeout)
		}
		ctx := c.Context()
		if t.timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, t.timeout)
			defer cancel()
		}
		if err := t.open(ctx); err != nil {
			return t.explain(err)
		}
		defer t.client.Close()
		return t.explain(run(ctx, args))
	}
	return c
}

func (t *target) open(ctx context.Context) error {
	host := os.Getenv(firestorestore.EmulatorHost)
	t.project = cmp.Or(t.project, os.Getenv("GOOGLE_CLOUD_PROJECT"))
	switch {
	case host != "":
		t.project = cmp.Or(t.project, "demo-tally")
		err := checkEmulator(ctx, host) // the SDK would try for ever
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return fmt.Errorf("%s=%s: %w, as tally dev does, or unset the variable", firestorestore.EmulatorHost, host, err)
		}
	case t.project == "":
		t.project = firestore.DetectProjectID
	}
	var err error
	if t.client, err = firestorestore.Dial(ctx, host, t.project, t.database, t.dial...); err != nil {
		return err
	}
	t.project = strings.Split(t.client.Doc("a/b").Path, "/")[1] // projects/{project}/databases/...
	return nil
}

// explain adds the remedy to an error that has one.
func (t *target) explain(err error) error {
	remedy := ""
	switch code := status.Code(err); {
	case err == nil:
	case errors.Is(err, context.Canceled):
	case errors.Is(err, context.DeadlineExceeded) || code == codes.DeadlineExceeded:
		remedy = fmt.Sprintf("no end after %v; --timeout gives it longer", t.timeout)
	case code == codes.PermissionDenied:
		remedy = fmt.Sprintf("the account needs the role %s: gcloud projects add-iam-policy-binding %s --member=user:YOU --role=%s", t.role, t.project, t.role)
	case code == codes.NotFound && strings.Contains(err.Error(), "database"):
		remedy = fmt.Sprintf("gcloud firestore databases list --project=%s tells which databases there are, and --database names one", t.project)
	case t.project == firestore.DetectProjectID && strings.Contains(err.Error(), "detect projectID"):
		remedy = "name the project by --project or GOOGLE_CLOUD_PROJECT"
	case code == codes.Unauthenticated || t.client == nil && os.Getenv(firestorestore.EmulatorHost) == "": // nothing is sent before there are credentials
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

// print prints the object if JSON is wanted, else the text.
func (t *target) print(object any, format string, args ...any) error {
	if t.json {
		return json.NewEncoder(t.out).Encode(object)
	}
	w := tabwriter.NewWriter(t.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, format+"\n", args...)
	return w.Flush()
}

// A counter is the counter that an argument names.
type counter struct {
	*shards.Counter
	path   string // such as "counters/likes"
	rollUp string // "": unknown
}

// counter returns the counter of an argument: a path, or the id of a document in counters.
func (t *target) counter(arg string, opts ...shards.Option) counter {
	c := counter{path: arg}
	if !strings.Contains(arg, "/") {
		c.path = defaultCollection + "/" + arg
	}
	c.rollUp = t.rollUpOf(c.path)
	opts = append(opts, shards.Field(t.field), shards.RollUpAt(c.rollUp), shards.Collection(t.shardsIn))
	c.Counter = shards.New(t.client, c.path, opts...)
	return c
}

// defaultCollection is the collection of counters that need not be named.
const defaultCollection = "counters"

// rollUpOf returns the path of a counter's roll-up, "" if it is not known.
func (t *target) rollUpOf(path string) string {
	collection, id := path[:max(0, strings.LastIndex(path, "/"))], path[strings.LastIndex(path, "/")+1:]
	template := t.rollUp
	if template == "" && collection == defaultCollection && t.shardsIn == "" {
		template = "rollups/{counter}"
	}
	return strings.ReplaceAll(template, "{counter}", id)
}

// known returns the counter of an argument, and an error if it does not exist: if there is no
// counter document, no shard and no roll-up.
func (t *target) known(ctx context.Context, arg string) (counter, error) {
	c := t.counter(arg)
	doc := t.client.Doc(c.path)
	if doc == nil {
		return c, fmt.Errorf("%q is not the path of a counter; want one like counters/likes, or an id of counters", c.path)
	}
	docs := []*firestore.DocumentRef{doc}
	if r := t.client.Doc(c.rollUp); r != nil {
		docs = append(docs, r)
	}
	found, err := t.client.GetAll(ctx, docs)
	if err != nil {
		return c, err
	}
	for _, d := range found {
		if d.Exists() {
			return c, nil
		}
	}
	in := doc.Collection("shards")
	if t.shardsIn != "" {
		if in = t.client.Collection(t.shardsIn); in == nil {
			return c, fmt.Errorf("--shards-in %q is not the path of a collection", t.shardsIn)
		}
	}
	shard, err := in.Select().Limit(1).Documents(ctx).GetAll()
	if err != nil || len(shard) > 0 {
		return c, err
	}
	return c, t.unknown(ctx, doc)
}

// errUnknown is what known returns for a counter that does not exist.
var errUnknown = errors.New("no such counter")

// suggestFrom is how many counters are looked through for one with a similar name.
const suggestFrom = 1000

// unknown returns the error for a counter that does not exist.
func (t *target) unknown(ctx context.Context, doc *firestore.DocumentRef) error {
	nearest, distance := "", max(2, len(doc.ID)/3)+1
	ids := doc.Parent.DocumentRefs(ctx)
	for range suggestFrom {
		other, err := ids.Next()
		if err == iterator.Done {
			break
		}
		if err != nil {
			return err
		}
		if d := levenshtein.Distance(strings.ToLower(doc.ID), strings.ToLower(other.ID), nil); d < distance {
			nearest, distance = other.ID, d
		}
	}
	path := firestorestore.Path(doc)
	if nearest != "" {
		return fmt.Errorf("%w: %s; did you mean %s?", errUnknown, path, strings.TrimSuffix(path, doc.ID)+nearest)
	}
	return fmt.Errorf("%w: %s; tally create makes it, tally ls lists what there is", errUnknown, path)
}

// number is a total in JSON: a number, or text if JSON has no such number.
func number(t shards.Total) any {
	if f := t.Float64(); math.IsNaN(f) || math.IsInf(f, 0) {
		return t.String()
	}
	return json.Number(t.String())
}

// A rollUp is a roll-up in JSON.
type rollUp struct {
	Total     any       `json:"total"`
	NumShards int       `json:"num_shards"`
	AsOf      time.Time `json:"as_of"`
	AgeMS     float64   `json:"age_ms"` // when it was read
}

func rollUpJSON(r shards.RollUp) *rollUp {
	return &rollUp{number(r.Total), r.NumShards, r.AsOf, float64(r.ReadTime.Sub(r.AsOf).Microseconds()) / 1000}
}

func rollUpText(r shards.RollUp) string {
	note := ""
	if r.NumShards == 0 {
		note = ": no counter"
	}
	return fmt.Sprintf("%v\t%d shards%s\tas of %s\t%v old", r.Total, r.NumShards, note, r.AsOf.Format(time.RFC3339Nano), r.ReadTime.Sub(r.AsOf).Round(time.Millisecond))
}
