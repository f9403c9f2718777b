package deploy

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"

	"cloud.google.com/go/firestore/apiv1/admin/adminpb"
	"cloud.google.com/go/iam/apiv1/iampb"
	"cloud.google.com/go/monitoring/apiv3/v2/monitoringpb"
	"github.com/firestore-tally/tally/internal/cloud/config"
	"github.com/firestore-tally/tally/internal/test/googletest"
)

// A testProject is one of googletest's, and what should be there.
type testProject struct {
	*testing.T
	google  *googletest.Google
	options Options
}

// newProject returns a project with routes of all kinds in databases of two places, before a
// deployment.
func newProject(t *testing.T) *testProject {
	t.Helper()
	g := googletest.Start(t, "my-project")
	g.Put("projects/my-project/databases/orders", &adminpb.Database{LocationId: "europe-west1", Type: adminpb.Database_FIRESTORE_NATIVE,
		DatabaseEdition: adminpb.Database_STANDARD})
	o := options(t, `counters/{counter}/shards/{shard} -> rollups/{counter} : count;
		posts/{post}/hot/{n} -> posts/{post}/sums/hot : views : documents;
		pages/{page}/shards/{shard} -> pages/{page}/sums/all : views : every 10s;
		shops/{shop}/ratings/{user} -> shops/{shop} : maximum(stars) as best, sum(stars) where approved == true as stars : existing`)
	o.Alerts = []string{"me@example.com"}
	return &testProject{T: t, google: g, options: o}
}

// oneCounter returns a project with one counter, in one database, and no alerts.
func oneCounter(t *testing.T) *testProject {
	t.Helper()
	o := options(t, likes)
	o.Databases = o.Databases[:1]
	return &testProject{T: t, google: googletest.Start(t, "my-project"), options: o}
}

const likes = "counters/{counter}/shards/{shard} -> rollups/{counter} : count"

// replies is a circular route: a roll-up is a document of the same collection.
const replies = "comments/{comment} by parent -> comments/{parent} : count() as replies : existing"

// options are those of a project with the routes, in databases of two places.
func options(t *testing.T, routes string) Options {
	t.Helper()
	c, err := config.Load(map[string]string{"GOOGLE_CLOUD_PROJECT": "p", "TALLY_ROUTES": routes, "TALLY_DATABASES": "(default),orders"})
	if err != nil {
		t.Fatal(err)
	}
	return Options{Region: "us-central1", Databases: []Database{{"(default)", "nam5"}, {"orders", "europe-west1"}}, Config: c, Billing: ByRequest, MaxInstances: DefaultMaxInstances}
}

// described returns the deployment for the options in a project in which there is nothing.
func described(t *testing.T, o Options) *Deployment {
	t.Helper()
	d, err := Describe(NewProject("p", nil, ""), o, nil)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// source is what the functions are built from, as the fixtures have it.
var source = fstest.MapFS{
	"go.mod":       {Data: []byte("module github.com/firestore-tally/tally\n\ngo 1.26.0\n")},
	"functions.go": {Data: []byte("package tally\n")},
}

// read reads the project, and describes what should be there.
func (d *testProject) read() *Deployment {
	d.Helper()
	ctx := d.Context()
	p, err := Open(ctx, "my-project", d.google.REST()...)
	if err != nil {
		d.Fatal(err)
	}
	upload, err := NewUpload(source, "")
	if err != nil {
		d.Fatal(err)
	}
	described, err := Describe(p, d.options, upload)
	if err != nil {
		d.Fatal(err)
	}
	return described
}

// in returns the project of another test, such as one in a bubble.
func (d *testProject) in(t *testing.T) *testProject {
	return &testProject{T: t, google: d.google, options: d.options}
}

// deploy does what is left to do, and returns what it said. Waiting takes no time.
func (d *testProject) deploy() string {
	d.Helper()
	said, err := d.tryDeploy(nil)
	if err != nil {
		d.Fatalf("%v\n%s", err, said)
	}
	return said
}

// tryDeploy is deploy, which may fail. before may change what it works with, and return another
// context.
func (d *testProject) tryDeploy(before func(context.Context, *Deployment) context.Context) (said string, err error) {
	d.Helper()
	synctest.Test(d.T, func(t *testing.T) {
		wanted := d.in(t).read()
		var progress strings.Builder
		wanted.Progress = &progress
		ctx := t.Context()
		if before != nil {
			ctx = before(ctx, wanted)
		}
		plan, planned := wanted.Plan(ctx, true)
		err = planned
		if err == nil {
			err = wanted.Do(ctx, plan)
		}
		said = progress.String()
	})
	return said, err
}

// undeploy takes everything away.
func (d *testProject) undeploy() {
	d.Helper()
	synctest.Test(d.T, func(t *testing.T) {
		wanted := d.in(t).read()
		plan, err := wanted.Undeploy(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := wanted.Do(t.Context(), plan); err != nil {
			t.Fatal(err)
		}
	})
}

// A faulty transport does what a test says before or after a request.
type faulty struct {
	http.RoundTripper
	after func(*http.Request, *http.Response) error
}

func (f *faulty) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := f.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if lost := f.after(r, response); lost != nil {
		response.Body.Close()
		return nil, lost
	}
	return response, nil
}

// with has a deployment's calls go through after.
func with(after func(*http.Request, *http.Response) error) func(context.Context, *Deployment) context.Context {
	return func(ctx context.Context, d *Deployment) context.Context {
		d.client.Transport = &faulty{d.client.Transport, after}
		return ctx
	}
}

// An answering transport answers some requests itself.
type answering struct {
	http.RoundTripper
	answer func(*http.Request) *http.Response
}

func (a *answering) RoundTrip(r *http.Request) (*http.Response, error) {
	if response := a.answer(r); response != nil {
		return response, nil
	}
	return a.RoundTripper.RoundTrip(r)
}

// refused is how an API refuses a request.
func refused(r *http.Request, code int, state, text string) *http.Response {
	return answered(r, code, Object{"error": Object{"code": code, "status": state, "message": text}})
}

// answered is how an API answers a request.
func answered(r *http.Request, code int, body Object) *http.Response {
	return &http.Response{StatusCode: code, Status: http.StatusText(code), Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(toJSON(body))), Request: r}
}

// inBubble runs a test in virtual time.
func inBubble(t *testing.T, run func(context.Context)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { run(t.Context()) })
}

var ownerBinding = &iampb.Binding{Role: "roles/owner", Members: []string{"user:them@example.com"}}

func isOwner(b *iampb.Binding) bool { return b.Role == "roles/owner" }

// alert returns the name that the project has given to one of Tally's alerts.
func (d *testProject) alert(label string) string {
	d.Helper()
	for _, name := range d.google.Names("alertPolicies") {
		policy, _ := d.google.Get(name).(*monitoringpb.AlertPolicy)
		if policy.GetUserLabels()["tally"] == label {
			return name
		}
	}
	d.Fatalf("there is no alert %s", label)
	return ""
}
