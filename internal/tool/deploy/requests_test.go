package deploy

import (
	"context"
	"encoding/json"
	"io"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"

	"cloud.google.com/go/firestore/apiv1/admin/adminpb"
	"cloud.google.com/go/monitoring/apiv3/v2/monitoringpb"
	"cloud.google.com/go/run/apiv2/runpb"
	"github.com/firestore-tally/tally/internal/test/googletest"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

// A testProject is one of googletest's, and what is to be there.
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
	o.Project, o.AlertEmail = "my-project", "me@example.com"
	return &testProject{t, g, o}
}

// source is what the functions are built from, as the fixtures have it.
var source = fstest.MapFS{
	"go.mod":        {Data: []byte("module github.com/firestore-tally/tally\n\ngo 1.26.0\n")},
	"functions.go":  {Data: []byte("package tally\n")},
	".gcloudignore": {Data: []byte("**\n!.\n!/go.mod\n!/*.go\n")},
}

// read reads the project, and describes what is to be there.
func (d *testProject) read() (*State, *Description) {
	d.Helper()
	ctx := d.Context()
	have, err := Read(ctx, d.options.Project, d.google.REST()...)
	if err != nil {
		d.Fatal(err)
	}
	upload, err := OwnUpload(source, "")
	if err != nil {
		d.Fatal(err)
	}
	described, err := Describe(d.options, have, upload.Hash)
	if err != nil {
		d.Fatal(err)
	}
	have.ReadFor(ctx, described)
	return have, described
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

// tryDeploy is deploy, which may fail. before changes what it works with.
func (d *testProject) tryDeploy(before func(context.Context, *Run)) (said string, err error) {
	d.Helper()
	return d.tryDeployIn(func(ctx context.Context) context.Context { return ctx }, before)
}

// tryDeployIn is tryDeploy in a context.
func (d *testProject) tryDeployIn(in func(context.Context) context.Context, before func(context.Context, *Run)) (said string, err error) {
	d.Helper()
	synctest.Test(d.T, func(t *testing.T) {
		inner := &testProject{t, d.google, d.options}
		have, described := inner.read()
		plan, planErr := described.Deploy(have, false, true)
		if planErr != nil {
			err = planErr
			return
		}
		upload, _ := OwnUpload(source, "")
		var progress strings.Builder
		r := &Run{State: have, Description: described, Upload: upload, Progress: &progress}
		ctx := in(t.Context())
		if before != nil {
			before(ctx, r)
		}
		err = r.Do(ctx, plan)
		said = progress.String()
	})
	return said, err
}

// undeploy takes everything away.
func (d *testProject) undeploy() {
	d.Helper()
	synctest.Test(d.T, func(t *testing.T) {
		have, _ := (&testProject{t, d.google, d.options}).read()
		plan, err := Undeploy(have)
		if err != nil {
			t.Fatal(err)
		}
		if err := (&Run{State: have, Progress: io.Discard}).Do(t.Context(), plan); err != nil {
			t.Fatal(err)
		}
	})
}

// sent is a request in the form of testdata/gcloud.txtar.
func sent(r googletest.Request) (line, body string) {
	query, _ := url.ParseQuery(r.Query)
	query.Del("$alt")
	line = r.Verb + " " + r.At
	if len(query) > 0 {
		line += "?" + query.Encode()
	}
	if r.Body != nil {
		text, err := json.MarshalIndent(r.Body, "", "  ")
		if err != nil {
			return line, err.Error()
		}
		body = strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(text)) + "\n"
	} else if len(r.Raw) > 0 {
		body = "(" + r.Header.Get("Content-Type") + ")\n"
	}
	return line, body
}

var (
	serverIDs = regexp.MustCompile(`(-sub-|alertPolicies/|dashboards/|notificationChannels/|indexes/|"etag": ")[0-9]+`)
	times     = regexp.MustCompile(`"(createTime|updateTime)": "[^"]*"`)
	tokens    = regexp.MustCompile(`"etag": "[^"]*"`)
)

// anonymousIDs replaces what the server makes up.
func anonymousIDs(text string) string {
	return tokens.ReplaceAllString(times.ReplaceAllString(serverIDs.ReplaceAllString(text, "${1}ID"), `"$1": "TIME"`), `"etag": "ETAG"`)
}

// What the loop sends equals what gcloud sent for each kind and verb, or what a file "ours" of
// testdata/gcloud.txtar has, which names the reason for the difference.
func TestRequestsAreGclouds(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/gcloud.txtar")
	if err != nil {
		t.Fatal(err)
	}

	d := newProject(t)
	d.deploy()
	change := func(name string, at string, value any) { d.google.Set(name, strings.Split(at, "."), value) }
	const here = "projects/my-project/locations/us-central1/"
	change(here+"queues/tally", "retryConfig.minBackoff", "11s")
	change("projects/my-project/serviceAccounts/tally-trigger@my-project.iam.gserviceaccount.com", "displayName", "x")
	d.google.Put("projects/my-project/databases/(default)/collectionGroups/shards/fields/count", &adminpb.Field{IndexConfig: new(adminpb.Field_IndexConfig)})
	for _, field := range []string{"timeoutSeconds", "maxInstanceCount", "minInstanceCount"} {
		change(here+"functions/tally-on-write", "serviceConfig."+field, 7)
	}
	for _, field := range []string{"runtime", "entryPoint", "serviceAccount", "dockerRepository"} {
		change(here+"functions/tally-on-write", "buildConfig."+field, "x")
	}
	for field, value := range map[string]any{"serviceAccountEmail": "x", "ingressSettings": "ALLOW_ALL", "allTrafficOnLatestRevision": false} {
		change(here+"functions/tally-on-write", "serviceConfig."+field, value)
	}
	change(here+"functions/tally-on-write", "serviceConfig.environmentVariables.TALLY_BURST", "7")
	change("projects/my-project/locations/nam5/triggers/tally-counters-shards-78fea5", "serviceAccount", "x@example.com")
	change("projects/my-project/locations/nam5/triggers/tally-counters-shards-78fea5", "eventDataContentType", "application/json")
	change("projects/my-project/locations/nam5/triggers/tally-counters-shards-78fea5", "destination.cloudRun", map[string]any{"service": "x", "region": "y"})
	for field, value := range map[string]any{
		"schedule": "* * * * *", "timeZone": "x", "attemptDeadline": "1s", "retryConfig": map[string]any{"retryCount": 9}, "httpTarget": map[string]any{"uri": "https://example.com"},
	} {
		change(here+"jobs/tally", field, value)
	}
	change("projects/my-project/metrics/tally_drift", "filter", "x")
	for _, name := range d.google.Names("alertPolicies") {
		change(name, "conditions", []any{map[string]any{"displayName": "x"}})
		change(name, "documentation", map[string]any{"content": "x"})
	}
	change(d.google.Names("dashboards")[0], "mosaicLayout.columns", 12)
	for _, name := range d.google.Names("subscriptions")[:1] {
		change(name, "ackDeadlineSeconds", 10)
	}
	d.deploy()

	d.options.Billing, d.options.RequestLogs = ByInstance, AllRequests
	googletest.Change(d.google, here+"services/tally-on-write", func(s *runpb.Service) { s.Template.Revision = "tally-on-write-00001-abc" })
	d.deploy()
	googletest.Change(d.google, d.google.Names("indexes")[0], func(x *adminpb.Index) { x.State = adminpb.Index_NEEDS_REPAIR })
	d.deploy()
	d.undeploy()
	requests := d.google.Requests()

	if *update {
		defer func() {
			if err := os.WriteFile("testdata/gcloud.txtar", txtar.Format(archive), 0o600); err != nil {
				t.Error(err)
			}
		}()
	}
	for i, f := range archive.Files {
		name, isGclouds := strings.CutPrefix(f.Name, "gcloud ")
		if !isGclouds {
			continue
		}
		want := string(f.Data)
		if i+1 < len(archive.Files) && strings.HasPrefix(archive.Files[i+1].Name, "ours") {
			if !strings.Contains(archive.Files[i+1].Name, ": ") {
				t.Errorf("%s: no reason", archive.Files[i+1].Name)
			}
			want = string(archive.Files[i+1].Data)
			if strings.HasPrefix(want, "none") {
				continue
			}
		}

		if *update && want != string(f.Data) {
			line, _, _ := strings.Cut(want, "\n")
			want = asSent(requests, line)
			archive.Files[i+1].Data = []byte(want)
		}
		line, body, _ := strings.Cut(want, "\n")
		at, query, _ := strings.Cut(line, "?")
		var all []string
		found := slices.ContainsFunc(requests, func(r googletest.Request) bool {
			gotLine, gotBody := sent(r)
			gotAt, gotQuery, _ := strings.Cut(gotLine, "?")
			if anonymousIDs(gotAt) != anonymousIDs(at) {
				return false
			}
			all = append(all, anonymousIDs(gotQuery+"\n"+gotBody))
			return anonymousIDs(gotQuery) == anonymousIDs(query) && anonymousIDs(gotBody) == anonymousIDs(body)
		})
		switch {
		case found:
		case len(all) == 0:
			t.Errorf("%s: nothing was sent to %s", name, at)
		default:
			t.Errorf("%s (-want +the nearest):\n%s", name, cmp.Diff(anonymousIDs(query+"\n"+body), nearest(all, anonymousIDs(body))))
		}
	}
}

// asSent returns the longest request that was sent for a line, which may be one without its query.
func asSent(requests []googletest.Request, line string) string {
	best := ""
	for _, r := range requests {
		gotLine, gotBody := sent(r)
		gotAt, _, _ := strings.Cut(gotLine, "?")
		at, _, _ := strings.Cut(line, "?")
		if text := gotLine + "\n" + gotBody; anonymousIDs(gotAt) == anonymousIDs(at) && len(text) > len(best) {
			best = text
		}
	}
	return best
}

// nearest returns the text that has the most lines of another.
func nearest(all []string, want string) string {
	best, most := "", -1
	for _, text := range all {
		n := 0
		for line := range strings.Lines(text) {
			if strings.Contains(want, line) {
				n++
			}
		}
		if n-strings.Count(text, "\n")/2 > most || best == "" {
			best, most = text, n-strings.Count(text, "\n")/2
		}
	}
	return best
}

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
