package doctor

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/artifactregistry/apiv1/artifactregistrypb"
	"cloud.google.com/go/eventarc/apiv1/eventarcpb"
	"cloud.google.com/go/firestore/apiv1/admin/adminpb"
	"cloud.google.com/go/functions/apiv2/functionspb"
	iamadminpb "cloud.google.com/go/iam/admin/apiv1/adminpb"
	"cloud.google.com/go/iam/apiv1/iampb"
	"cloud.google.com/go/logging/apiv2/loggingpb"
	"cloud.google.com/go/monitoring/apiv3/v2/monitoringpb"
	"cloud.google.com/go/monitoring/dashboard/apiv1/dashboardpb"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/scheduler/apiv1/schedulerpb"
	"github.com/firestore-tally/tally/internal/cloud/config"
	"github.com/firestore-tally/tally/internal/test/googletest"
	"github.com/firestore-tally/tally/internal/tool/appfolder"
	"github.com/firestore-tally/tally/internal/tool/deploy"
	"google.golang.org/genproto/googleapis/type/expr"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
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
	return deploy.Options{Project: project, Databases: databases, Config: config, Env: env, Billing: deploy.ByRequest, MaxInstances: deploy.DefaultMaxInstances}
}

// sound returns Google with a project in which everything is as package deploy describes it, with
// more databases than two.
func sound(t *testing.T, more ...string) *googletest.Google {
	t.Helper()
	g := googletest.Start(t, project)
	for _, id := range append([]string{"orders"}, more...) {
		g.Put("projects/"+project+"/databases/"+id, &adminpb.Database{LocationId: "europe-west1",
			Type: adminpb.Database_FIRESTORE_NATIVE, DatabaseEdition: adminpb.Database_STANDARD})
	}
	nothing, _ := deploy.NewProject(project, nil, "")
	nothing.Number = googletest.Number
	d, err := deploy.Describe(options(t, more...), nothing, "")
	if err != nil {
		t.Fatal(err)
	}
	g.Enable(d.APIs...)
	for _, r := range d.Resources {
		put(t, g, r)
	}
	googletest.Change(g, jobIs, func(j *schedulerpb.Job) { j.LastAttemptTime = timestamppb.Now() })
	for _, of := range d.Grants {
		grant(g, of.Name, &iampb.Binding{Role: of.Role, Members: []string{of.Member}, Condition: condition(of.Condition)})
	}
	g.Rules = func(_ string, c googletest.RulesCase) *googletest.RulesResult { return shipped(c) }
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

// put puts a resource as its settings want it.
func put(t *testing.T, g *googletest.Google, r deploy.Resource) {
	t.Helper()
	all := make(map[string]any)
	for _, s := range r.Settings() {
		if s.Path == "" || s.Want == "" {
			continue
		}
		in, path := all, strings.Split(s.Path, ".")
		for _, step := range path[:len(path)-1] {
			if in[step] == nil {
				in[step] = make(map[string]any)
			}
			in = in[step].(map[string]any)
		}
		var value any = s.Want
		if s.Want == "true" && path[0] != "labels" {
			value = true
		}
		in[path[len(path)-1]] = value
	}
	switch r.Kind() {
	case deploy.Account:
		g.Put(r.Name(), message(t, new(iamadminpb.ServiceAccount), all))
	case deploy.Repository:
		g.Put(r.Name(), message(t, new(artifactregistrypb.Repository), all))
	case deploy.Cleanup: // of a repository that is there already
		delete(all, "cleanupPolicyDryRun") // which is false
		repository := g.Get(r.Name())
		proto.Merge(repository, message(t, new(artifactregistrypb.Repository), all))
		g.Put(r.Name(), repository)
	case deploy.Field:
		if all["summable"] == nil { // else it is as by default
			g.Put(r.Name(), &adminpb.Field{IndexConfig: new(adminpb.Field_IndexConfig)})
		}
	case deploy.TTL:
		googletest.Change(g, r.Name(), func(f *adminpb.Field) {
			f.TtlConfig = &adminpb.Field_TtlConfig{State: adminpb.Field_TtlConfig_ACTIVE}
		})
	case deploy.Metric:
		g.Put("projects/"+project+"/metrics/"+r.Name(), message(t, new(loggingpb.LogMetric), all))
	case deploy.Exclusion:
		all["name"] = r.Name()
		googletest.Change(g, "projects/"+project+"/sinks/_Default", func(s *loggingpb.LogSink) {
			s.Exclusions = append(s.Exclusions, message(t, new(loggingpb.LogExclusion), all).(*loggingpb.LogExclusion))
		})
	case deploy.Alert:
		g.Put("projects/"+project+"/alertPolicies/"+r.Name(), message(t, new(monitoringpb.AlertPolicy), content(r)))
	case deploy.Dashboard:
		g.Put("projects/"+project+"/dashboards/"+r.Name(), message(t, new(dashboardpb.Dashboard), content(r)))
	case deploy.Function:
		g.Put(r.Name(), message(t, new(functionspb.Function), all))
	case deploy.Trigger:
		var filters []any
		for attribute, value := range all["eventFilters"].(map[string]any) {
			filters = append(filters, map[string]any{"attribute": attribute, "value": value})
		}
		all["eventFilters"] = filters
		g.Put(r.Name(), message(t, new(eventarcpb.Trigger), all))
	case deploy.Subscription: // which comes with its trigger
		trigger := g.Get(strings.TrimPrefix(r.Name(), deploy.Placeholder)).(*eventarcpb.Trigger)
		name := trigger.GetTransport().GetPubsub().GetSubscription()
		s := g.Get(name).(*pubsubpb.Subscription)
		s.ExpirationPolicy = new(pubsubpb.ExpirationPolicy) // never
		proto.Merge(s, message(t, new(pubsubpb.Subscription), all))
		g.Put(name, s)
	case deploy.Job:
		target := all["httpTarget"].(map[string]any)
		uri := g.Get(scheduleIs).(*functionspb.Function).GetServiceConfig().GetUri()
		target["uri"], target["oidcToken"].(map[string]any)["audience"] = uri+"/", uri // as Cloud Scheduler keeps addresses
		g.Put(r.Name(), message(t, new(schedulerpb.Job), all))
	}
}

// content returns all of a resource of which one argument says all.
func content(r deploy.Resource) deploy.Object {
	return r.(interface{ Content() deploy.Object }).Content()
}

// message returns the message that the JSON has.
func message(t *testing.T, m proto.Message, content any) proto.Message {
	t.Helper()
	data, err := json.Marshal(content)
	if err == nil {
		err = protojson.Unmarshal(data, m)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// grant adds to the policy of a resource.
func grant(g *googletest.Google, resource string, b *iampb.Binding) {
	p := g.Policy(resource)
	p.Bindings = append(p.Bindings, b)
	g.SetPolicy(resource, p)
}

func condition(expression string) *expr.Expr {
	if expression == "" {
		return nil
	}
	return &expr.Expr{Title: "tally", Expression: expression}
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
	names, findings := make(map[Verdict]string), make(map[string]Finding)
	for _, f := range d.Examine(ctx, nil) {
		findings[f.Name] = f
		if f.Verdict != Well {
			names[f.Verdict] = strings.TrimPrefix(names[f.Verdict]+" "+f.Name, " ")
		}
	}
	return names, findings, nil
}
