package doctor

import (
	"context"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"cloud.google.com/go/firestore/apiv1/admin/adminpb"
	"cloud.google.com/go/iam/apiv1/iampb"
	"cloud.google.com/go/scheduler/apiv1/schedulerpb"
	"github.com/firestore-tally/tally/internal/cloud/config"
	"github.com/firestore-tally/tally/internal/test/googletest"
	"github.com/firestore-tally/tally/internal/tool/appfolder"
	"github.com/firestore-tally/tally/internal/tool/deploy"
	"github.com/firestore-tally/tally/internal/tool/rules"
	"github.com/firestore-tally/tally/rollup/route"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Names of what is in the project.
const (
	project    = "my-project"
	here       = "projects/" + project + "/locations/us-central1/"
	onWriteIs  = here + "functions/" + deploy.OnWriteName
	scheduleIs = here + "functions/" + deploy.OnScheduleName
	serviceIs  = here + "services/" + deploy.OnWriteName
	jobIs      = here + "jobs/" + "tally"
	queueIs    = here + "queues/" + "tally"
	ordersIs   = "projects/" + project + "/databases/orders"
	triggerIs  = "projects/" + project + "/locations/nam5/triggers/tally-counters-shards-78fea5"
)

// options are those of a deployment with a route of each kind, in databases of two places, or in
// more.
func options(t *testing.T, more ...string) deploy.Options {
	t.Helper()
	databases, ids := []deploy.Database{{ID: "(default)", Location: "nam5"}}, "(default)"
	for _, id := range append([]string{"orders"}, more...) {
		databases = append(databases, deploy.Database{ID: id, Location: "europe-west1"})
		ids += "," + id
	}
	env := map[string]string{
		"GOOGLE_CLOUD_PROJECT": project,
		"TALLY_DATABASES":      ids,
		"TALLY_HOLD_LIMIT":     "20s",
		"TALLY_ROUTES": "counters/{counter}/shards/{shard} -> rollups/{counter} : count;" +
			"posts/{post}/hot/{n} -> posts/{post}/sums/hot : likes : documents; pages/{page}/shards/{shard} -> pages/{page}/sums/all : views : every 10s",
	}
	config, err := config.Load(env)
	if err != nil {
		t.Fatal(err)
	}
	return deploy.Options{Region: "us-central1", Databases: databases, Config: config, Env: env, Billing: deploy.ByRequest, MaxInstances: deploy.DefaultMaxInstances}
}

// sound returns Google with a project in which everything is as package deploy describes it, with
// more databases than two.
func sound(t *testing.T, more ...string) *googletest.Google {
	t.Helper()
	ids := strings.Join(more, ",")
	if images[ids] == nil {
		images[ids] = deployed(t, more...).Image()
	}
	g := images[ids].Start(t)
	g.Rules = func(_ string, c googletest.RulesCase) *googletest.RulesResult { return shipped(c) }
	return g
}

// images are what sound deployed, by the further databases: a deployment takes a second.
var images = make(map[string]*googletest.Image)

// deployed deploys to a new project.
func deployed(t *testing.T, more ...string) *googletest.Google {
	t.Helper()
	g := googletest.Start(t, project)
	for _, id := range append([]string{"orders"}, more...) {
		g.Put("projects/"+project+"/databases/"+id, &adminpb.Database{LocationId: "europe-west1",
			Type: adminpb.Database_FIRESTORE_NATIVE, DatabaseEdition: adminpb.Database_STANDARD})
	}
	ctx := t.Context()
	on, err := deploy.Open(ctx, project, g.REST()...)
	if err != nil {
		t.Fatal(err)
	}
	source, err := deploy.NewUpload(fstest.MapFS{"go.mod": {Data: []byte("module github.com/firestore-tally/tally\n")}}, "")
	if err != nil {
		t.Fatal(err)
	}
	d, err := deploy.Describe(on, options(t, more...), source)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) { // waiting takes no time
		plan, err := d.Plan(t.Context(), false)
		if err == nil {
			err = d.Do(t.Context(), plan)
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	googletest.Change(g, jobIs, func(j *schedulerpb.Job) { j.LastAttemptTime = timestamppb.Now() })
	return g
}

// shipped decides a case as firestore.rules does.
func shipped(c googletest.RulesCase) *googletest.RulesResult {
	path := c.Request.Path
	get := c.Request.Method == "get"
	if counter, _, shard := strings.Cut(path, "/shards/"); shard && !get && c.Request.Method != "delete" && c.Request.Auth != nil {
		return &googletest.RulesResult{Allow: true, Gets: counter}
	}
	hot := strings.Contains(path, "/hot/") && !get && c.Request.Method != "delete" && c.Request.Auth != nil
	return &googletest.RulesResult{Allow: hot || get && (strings.Contains(path, "/rollups/") || strings.Contains(path, "/sums/"))}
}

// grant adds to the policy of a resource.
func grant(g *googletest.Google, resource string, b *iampb.Binding) {
	p := g.Policy(resource)
	p.Bindings = append(p.Bindings, b)
	g.SetPolicy(resource, p)
}

// readAt is when every project here is read.
var readAt = time.Now()

// examined reads the project and returns the names of the checks of each verdict but Well, by the
// verdict, and the findings by name.
func examined(ctx context.Context, g *googletest.Google) (map[Verdict]string, map[string]Finding, error) {
	d, err := Read(ctx, project, &appfolder.Folder{}, g.REST()...)
	if err != nil {
		return nil, nil, err
	}
	d.AsOf = readAt
	d.Judge = func(_ context.Context, j rules.Judge, routes route.Routes, _ map[string][]rules.Document) ([]rules.Answer, error) {
		var answers []rules.Answer
		for _, r := range rules.Requests(routes) {
			answers = append(answers, rules.Answer{Request: r, Verdict: rules.Refused, Wrong: j.Text == "open" && r.Kind == rules.Edit})
		}
		return answers, nil
	}
	names, findings := make(map[Verdict]string), make(map[string]Finding)
	for _, f := range d.Examine(ctx, nil) {
		findings[f.Name] = f
		if f.Verdict != Well && (f.Verdict != Idle || f.needs > theFolder) { // the folder is empty
			names[f.Verdict] = strings.TrimPrefix(names[f.Verdict]+" "+f.Name, " ")
		}
	}
	return names, findings, nil
}
