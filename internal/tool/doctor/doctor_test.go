package doctor

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/cloudtasks/apiv2/cloudtaskspb"
	"cloud.google.com/go/eventarc/apiv1/eventarcpb"
	"cloud.google.com/go/firestore/apiv1/admin/adminpb"
	"cloud.google.com/go/functions/apiv2/functionspb"
	"cloud.google.com/go/iam/apiv1/iampb"
	"cloud.google.com/go/monitoring/apiv3/v2/monitoringpb"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/scheduler/apiv1/schedulerpb"
	"github.com/firestore-tally/tally/internal/test/googletest"
	"github.com/firestore-tally/tally/internal/tool/appfolder"
	"github.com/firestore-tally/tally/internal/tool/deploy"
	"github.com/google/go-cmp/cmp"
	metricpb "google.golang.org/genproto/googleapis/api/metric"
	"google.golang.org/genproto/googleapis/api/monitoredres"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
)

var update = flag.Bool("update", false, "write testdata")

// What deploy describes is what doctor wants.
func TestSound(t *testing.T) {
	names, findings, err := examined(t.Context(), sound(t))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[Verdict]string{}, names); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if got, want := len(findings), len(Checks); got != want {
		t.Errorf("%d findings, want %d", got, want)
	}
}

// broken are sound deployments with one thing wrong that is no setting, and the checks that find
// it: the first names what it is, which is in testdata/broken.txt, and the others what follows from
// it. With no checks nothing is wrong. Settings are in cmd/tally's tests.
var broken = []struct {
	name   string
	checks string
	break_ func(*googletest.Google)
}{
	{"the billing is off", "payment", func(g *googletest.Google) { g.NoBilling = true }},
	{"retries are off", "as-deployed", changeTrigger(func(t *eventarcpb.Trigger) {
		t.RetryPolicy = &eventarcpb.Trigger_RetryPolicy{MaxAttempts: 1}
	})},
	{"a database was deleted and made again", "as-deployed", func(g *googletest.Google) {
		googletest.Change(g, ordersIs, func(d *adminpb.Database) { d.CreateTime = timestamppb.New(time.Date(2100, 1, 2, 3, 4, 5, 0, time.UTC)) })
	}},
	{"a dead-letter topic", "as-deployed", changeSubscription(func(s *pubsubpb.Subscription) {
		s.DeadLetterPolicy = &pubsubpb.DeadLetterPolicy{DeadLetterTopic: "projects/my-project/topics/dead", MaxDeliveryAttempts: 5}
	})},
	{"a subscription that is gone", "as-deployed", func(g *googletest.Google) { g.Delete(subscription(g)) }},
	{"no instance is free", "deliveries", func(g *googletest.Google) {
		pushed(g, "ack", "200", 40)
		pushed(g, "remote_server_4xx", "429", 58)
		pushed(g, "remote_server_5xx", "500", 2)
	}},
	{"RollUpOnWrite fails", "deliveries", func(g *googletest.Google) {
		pushed(g, "remote_server_5xx", "500", 12)
		pushed(g, "deadline_exceeded", "deadline_exceeded", 1)
	}},
	{"the trigger may not call", "deliveries", func(g *googletest.Google) { pushed(g, "remote_server_4xx", "403", 3) }},
	{"two of some pushes fail", "", func(g *googletest.Google) { pushed(g, "remote_server_5xx", "503", 2) }},
	{"one in a thousand pushes fails", "", func(g *googletest.Google) {
		pushed(g, "ack", "200", 9990)
		pushed(g, "remote_server_5xx", "503", 10)
	}},
	{"pushes of other subscriptions fail", "", func(g *googletest.Google) {
		pushed(g, "remote_server_5xx", "500", 12)
		for _, s := range g.Series {
			s.Resource.Labels["subscription_id"] = "eventarc-nam5-other-sub-1"
		}
	}},
	{"a backlog", "deliveries", func(g *googletest.Google) {
		pushed(g, "ack", "200", 40)
		queue(g, oldest, 2520)
		queue(g, waiting, 310)
	}},
	{"an event that failed once", "", func(g *googletest.Google) {
		queue(g, oldest, 600)
		queue(g, waiting, 1)
	}},
	{"a counter that is once per user", "once-per-user", func(g *googletest.Google) { g.Found = []string{"counters/votes", "other/doc"} }},
	{"no function", "configuration", func(g *googletest.Google) { g.Delete(onWriteIs); g.Delete(scheduleIs) }},
	{"no RollUpOnSchedule", "configuration as-deployed", func(g *googletest.Google) { g.Delete(scheduleIs) }},
	{"a variable of a function", "configuration as-deployed", func(g *googletest.Google) {
		setEnv(g, onWriteIs, "TALLY_HOLD_LIMIT", "5s")
	}},
	{"variables of both", "configuration", func(g *googletest.Google) {
		setEnv(g, onWriteIs, "TALLY_BURST", "many")
		setEnv(g, scheduleIs, "TALLY_BURST", "0")
		setEnv(g, scheduleIs, "TALLY_ROUTES", "counters")
	}},
	{"a hold limit that is the function's timeout", "configuration", func(g *googletest.Google) {
		setEnv(g, onWriteIs, "TALLY_HOLD_LIMIT", "60s")
		setEnv(g, scheduleIs, "TALLY_HOLD_LIMIT", "60s")
	}},
	{"a database that is gone", "databases as-deployed", func(g *googletest.Google) { g.Delete(ordersIs) }},
	{"a database in Datastore mode", "databases as-deployed", func(g *googletest.Google) {
		googletest.Change(g, ordersIs, func(d *adminpb.Database) { d.Type = adminpb.Database_DATASTORE_MODE })
	}},
	{"a database of the Enterprise edition", "databases as-deployed", func(g *googletest.Google) {
		googletest.Change(g, ordersIs, func(d *adminpb.Database) { d.DatabaseEdition = adminpb.Database_ENTERPRISE })
	}},
	{"no database", "databases", func(g *googletest.Google) {
		g.Delete(ordersIs)
		g.Delete("projects/my-project/databases/(default)")
	}},
	{"a function that everybody may call", "as-deployed", func(g *googletest.Google) {
		grant(g, serviceIs, &iampb.Binding{Role: "roles/run.invoker", Members: []string{"allUsers"}})
	}},
	{"Cloud Scheduler's agent has lost its role", "as-deployed", func(g *googletest.Google) {
		p := g.Policy("projects/" + project)
		p.Bindings = slices.DeleteFunc(p.Bindings, func(b *iampb.Binding) bool { return b.Role == "roles/cloudscheduler.serviceAgent" })
		g.SetPolicy("projects/"+project, p)
	}},
	{"log entries about all requests", "as-deployed", func(g *googletest.Google) {
		g.Delete("projects/my-project/exclusions/tally-on-write-requests")
	}},
	{"a second job", "as-deployed", func(g *googletest.Google) {
		j := g.Get(jobIs).(*schedulerpb.Job)
		j.GetHttpTarget().Uri += "?dry_run=true"
		g.Put(here+"jobs/yesterday", j)
	}},
	{"a trigger twice", "as-deployed", func(g *googletest.Google) { copyTrigger(g, "counters/{c}/shards/{s}") }},
	{"a trigger of no route", "as-deployed", func(g *googletest.Google) { copyTrigger(g, "likes/{like}/shards/{shard}") }},
	{"a trigger of a route that the schedule keeps", "as-deployed", func(g *googletest.Google) { copyTrigger(g, "pages/{page}/shards/{shard}") }},
	{"a function in another region", "as-deployed", func(g *googletest.Google) {
		name := "projects/my-project/locations/europe-west1/functions/tally-on-write"
		g.Put(name, g.Get(onWriteIs))
		googletest.Change(g, name, func(f *functionspb.Function) { f.UpdateTime = timestamppb.New(f.UpdateTime.AsTime().Add(-time.Hour)) })
	}},
	{"no queue", "as-deployed", func(g *googletest.Google) { g.Delete(queueIs) }},
	{"a paused queue that gives up", "as-deployed alarms", func(g *googletest.Google) {
		googletest.Change(g, queueIs, func(q *cloudtaskspb.Queue) {
			q.State = cloudtaskspb.Queue_PAUSED
			q.RetryConfig.MaxAttempts = 5
		})
	}},
	{"functions that may make no alarms", "as-deployed", func(g *googletest.Google) { g.SetPolicy(queueIs, nil) }},
	{"alarms that ring late", "alarms", func(g *googletest.Google) {
		measure(g, delays, 95_000)
		g.Series[len(g.Series)-1].Resource.Labels["queue_id"] = "tally"
	}},
	{"alarms in time", "", func(g *googletest.Google) {
		measure(g, delays, 59_000)
		g.Series[len(g.Series)-1].Resource.Labels["queue_id"] = "tally"
	}},
	{"alarms of a former region", "alarms", func(g *googletest.Google) { calls(g, "404", 12) }},
	{"alarms of a deleted service", "alarms", func(g *googletest.Google) { calls(g, "NOT_FOUND", 12) }},
	{"alarms that found nothing long ago", "", func(g *googletest.Google) { calls(g, "404", 0) }},
	{"alarms that fail otherwise", "", func(g *googletest.Google) { calls(g, "500", 12) }},
	{"a paused job", "last-tick", changeJob(func(j *schedulerpb.Job) { j.State = schedulerpb.Job_PAUSED })},
	{"no call yet", "last-tick", changeJob(func(j *schedulerpb.Job) { j.LastAttemptTime = nil })},
	{"a call that failed", "last-tick", changeJob(func(j *schedulerpb.Job) {
		j.LastAttemptTime = timestamppb.New(readAt.Add(-time.Minute))
		j.Status = &status.Status{Code: int32(codes.Internal), Message: "URL_ERROR"}
	})},
	{"an old call", "last-tick", changeJob(func(j *schedulerpb.Job) { j.LastAttemptTime = timestamppb.New(readAt.Add(-24 * time.Hour)) })},
	{"drift", "drift", func(g *googletest.Google) {
		g.Entries = lines(3, "{}", `message="drift: no event of a change came in time"`)
	}},
	{"late roll-ups", "late", func(g *googletest.Google) { g.Entries = lines(7, "{}", `message="rolled up late"`) }},
	{"alarms that did not ring", "late", func(g *googletest.Google) {
		g.Entries = lines(1, "{}", `message="left late: no alarm had the counter rolled up when documents left a window"`)
	}},
	{"an index that is being built", "as-deployed indexes", func(g *googletest.Google) {
		needIndexes(g)
		index(g, "(default)", adminpb.Index_CREATING)
		index(g, "orders", adminpb.Index_READY)
	}},
	{"a list in the field of a group", "as-deployed left-out", listsInGroup},
	{"a disabled queue", "alarms", func(g *googletest.Google) {
		googletest.Change(g, queueIs, func(q *cloudtaskspb.Queue) { q.State = cloudtaskspb.Queue_DISABLED })
	}},
	{"a queue whose zero fields are left out", "", func(g *googletest.Google) {
		googletest.Change(g, queueIs, func(q *cloudtaskspb.Queue) { q.RetryConfig.MaxRetryDuration = nil })
	}},
	{"rules that refuse increments", rulesIncrements, func(g *googletest.Google) {
		g.Rules = func(_ string, c googletest.RulesCase) *googletest.RulesResult {
			return &googletest.RulesResult{Allow: c.Request.Method == "get" && shipped(c).Allow}
		}
	}},
	{"no rules", rulesIncrements + " " + rulesJudged, func(g *googletest.Google) { g.Rules = nil }},
	{"rules that let users write roll-ups", rulesJudged, allow(func(c googletest.RulesCase) bool {
		return strings.Contains(c.Request.Path, "/rollups/")
	})},
	{"rules that let clients delete shards", rulesJudged, allow(func(c googletest.RulesCase) bool {
		return c.Request.Method == "delete" && strings.HasSuffix(c.Request.Path, "/shards/0")
	})},
	{"rules that show the audit's cursor", rulesJudged, allow(func(c googletest.RulesCase) bool {
		return c.Request.Method == "get" && strings.Contains(c.Request.Path, "/rollup_audit/")
	})},
}

// listsInGroup deploys a route with a group, and has the log say that an order has a list in the
// field of its group.
func listsInGroup(g *googletest.Google) {
	needIndexes(g)
	g.Entries = entry(`{"message": "a document belongs to no counter", "reason": "an array", "route": "orders/{order} by shop -> shops/{shop} : latest(at) as last_order : existing",
		"document": "orders/7", "database": "(default)", "why": "its shop is an array, and a document is in one group: …"}`,
		`service_name=("tally-on-write" OR "tally-on-schedule")`, `message="a document belongs to no counter"`, `reason=("an array" OR `)
}

// foreignReferences deploys a route with a reference, and has the log say that one of a comment
// leads to another database.
func foreignReferences(g *googletest.Google) {
	const r = "comments/{comment} by ref(author) -> users/{author} : count() as comments : existing"
	setRoutes(g, r)
	g.Entries = entry(`{"message": "a document belongs to no counter", "reason": "another database", "route": "`+r+`",
		"document": "comments/9", "database": "(default)", "why": "its author refers to a document of another database, …"}`,
		`message="a document belongs to no counter"`, `OR "another database")`)
}

// textsInWindow deploys a route with a window, and has the log say that an order has a text as its
// time.
func textsInWindow(g *googletest.Google) {
	const r = "orders/{order} -> totals/orders : count() where at > now - 24h as lately"
	setRoutes(g, r)
	g.Entries = entry(`{"message": "a document is in no window", "route": "`+r+`", "document": "orders/8", "database": "(default)", "why": "its at is a string, not a timestamp"}`,
		`service_name=("tally-on-write" OR "tally-on-schedule")`, `"a document is in no window"`)
}

// listsInTotals deploys a route, and has the log say that a post has a list in the field of a
// total.
func listsInTotals(g *googletest.Google) {
	setRoutes(g, "posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing")
	g.Entries = entry(`{"message": "totals left out: their fields hold the app's own values", "counter": "posts/7", "database": "(default)", "fields": "likes is an array"}`,
		`"totals left out: their fields hold the app's own values"`)
}

// formerLists is listsInTotals of a route that is gone.
func formerLists(g *googletest.Google) {
	listsInTotals(g)
	setRoutes(g, "orders/{order} -> totals/orders : count() as orders")
}

// lines returns what has the log hold so many entries, which a filter finds that has all the parts.
func lines(n int, payload string, parts ...string) func(filter string) []json.RawMessage {
	one := entry(payload, parts...)
	return func(filter string) []json.RawMessage { return slices.Repeat(one(filter), n) }
}

// entry returns what has the log hold one entry, which a filter finds that has all the parts.
func entry(payload string, parts ...string) func(filter string) []json.RawMessage {
	return func(filter string) []json.RawMessage {
		if slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(filter, part) }) {
			return nil
		}
		return []json.RawMessage{json.RawMessage(`{"jsonPayload": ` + payload + `}`)}
	}
}

func changeTrigger(change func(*eventarcpb.Trigger)) func(*googletest.Google) {
	return func(g *googletest.Google) { googletest.Change(g, triggerIs, change) }
}

// subscription returns the name of that of the counters' trigger.
func subscription(g *googletest.Google) string {
	return g.Get(triggerIs).(*eventarcpb.Trigger).GetTransport().GetPubsub().GetSubscription()
}

func changeSubscription(change func(*pubsubpb.Subscription)) func(*googletest.Google) {
	return func(g *googletest.Google) { googletest.Change(g, subscription(g), change) }
}

// queue has a metric of the subscription of the counters' trigger measured, its newest point first.
func queue(g *googletest.Google, name string, values ...float64) {
	s := &monitoringpb.TimeSeries{
		Metric:   &metricpb.Metric{Type: name},
		Resource: &monitoredres.MonitoredResource{Labels: map[string]string{"subscription_id": path.Base(subscription(g))}},
	}
	for _, v := range values {
		s.Points = append(s.Points, &monitoringpb.Point{Value: &monitoringpb.TypedValue{Value: &monitoringpb.TypedValue_DoubleValue{DoubleValue: v}}})
	}
	g.Series = append(g.Series, s)
}

// pushed has pushes to RollUpOnWrite end in that way.
func pushed(g *googletest.Google, class, code string, n float64) {
	queue(g, pushes, n)
	g.Series[len(g.Series)-1].Metric.Labels = map[string]string{"response_class": class, "response_code": code}
}

func setEnv(g *googletest.Google, function, name, value string) {
	googletest.Change(g, function, func(f *functionspb.Function) { f.ServiceConfig.EnvironmentVariables[name] = value })
}

func changeJob(change func(*schedulerpb.Job)) func(*googletest.Google) {
	return func(g *googletest.Google) { googletest.Change(g, jobIs, change) }
}

// copyTrigger adds a trigger like the one of counters, of other documents.
func copyTrigger(g *googletest.Google, documents string) {
	c := g.Get(triggerIs).(*eventarcpb.Trigger)
	for _, f := range c.EventFilters {
		if f.Attribute == "document" {
			f.Value = documents
		}
	}
	g.Put(triggerIs+"-copy", c)
}

// measure has a metric of RollUpOnWrite measured, once for each series.
func measure(g *googletest.Google, name string, values ...float64) {
	for _, v := range values {
		g.Series = append(g.Series, &monitoringpb.TimeSeries{
			Metric:   &metricpb.Metric{Type: name},
			Resource: &monitoredres.MonitoredResource{Labels: map[string]string{"service_name": deploy.OnWriteName}},
			Points:   []*monitoringpb.Point{{Value: &monitoringpb.TypedValue{Value: &monitoringpb.TypedValue_DoubleValue{DoubleValue: v}}}},
		})
	}
}

// calls measures calls of the queue of another region, by how they were answered.
func calls(g *googletest.Google, code string, n float64) {
	measure(g, attempts, n)
	last := g.Series[len(g.Series)-1]
	last.Metric.Labels = map[string]string{"response_code": code}
	last.Resource.Labels = map[string]string{"queue_id": "tally", "location": "europe-west1"}
}

// allow has the rules allow what they are shipped with, and more.
func allow(more func(googletest.RulesCase) bool) func(*googletest.Google) {
	return func(g *googletest.Google) {
		g.Rules = func(_ string, c googletest.RulesCase) *googletest.RulesResult {
			if more(c) {
				return &googletest.RulesResult{Allow: true}
			}
			return shipped(c)
		}
	}
}

// A document that is left out is told as the log tells it. Without such a line all is well.
func TestLeftOut(t *testing.T) {
	for _, test := range []struct {
		name   string
		break_ func(*googletest.Google)
		want   []string
	}{
		{"a list in a group", listsInGroup, []string{"orders/7 of (default) belongs to no counter of orders/{order} by shop -> shops/{shop} : latest(at) as last_order : existing: its shop is an array, and a document is in one group: …"}},
		{"a text in a window", textsInWindow, []string{"orders/8 of (default) is in no window of orders/{order} -> totals/orders : count() where at > now - 24h as lately: its at is a string, not a timestamp"}},
		{"a reference to another database", foreignReferences, []string{"comments/9 of (default) belongs to no counter of comments/{comment} by ref(author) -> users/{author} : count() as comments : existing: its author refers to a document of another database, …"}},
		{"a list in a total", listsInTotals, []string{"posts/7 of (default) has no such total: likes is an array; clear the field, or give the total another name by \"as\" in its route"}},
		{"a list in a total of a route that is gone", formerLists, nil},
		{"no line", func(g *googletest.Google) { listsInGroup(g); g.Entries = nil }, nil},
	} {
		g := sound(t)
		test.break_(g)
		_, findings, err := examined(t.Context(), g)
		if err != nil {
			t.Fatal(err)
		}

		var problems []string
		for _, p := range findings["left-out"].Problems {
			problems = append(problems, p.Text)
		}
		if d := cmp.Diff(test.want, problems); d != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, d)
		}
	}
}

// A counter whose sums take long is noted as the log tells it. Nothing is wrong with it.
func TestLongSums(t *testing.T) {
	g := sound(t)
	g.Entries = entry(`{"counter": "rollups/likes", "database": "(default)", "took": 12340000000}`,
		`service_name=("tally-on-write" OR "tally-on-schedule")`, `message="sums take long; events are deferred"`)
	_, findings, err := examined(t.Context(), g)
	if err != nil {
		t.Fatal(err)
	}

	late := findings["late"]
	want := []string{"a sum of rollups/likes in (default) took 12.3s. Totals whose sums take long are late by up to two sums: docs/routes.md#cadence"}
	if d := cmp.Diff(want, late.Notes); d != "" || late.Verdict != Well {
		t.Errorf("%s; notes (-want +got):\n%s", late.Verdict, d)
	}
}

// Each check of a project has a case that fails it, and each case fails what it should. All cases
// are of one project, which is sound in between.
func TestBroken(t *testing.T) {
	g := sound(t)
	restore := g.Snapshot()
	var said strings.Builder
	failing := make(map[string]bool)
	for _, test := range broken {
		restore()
		g.Rules, g.Series, g.Entries, g.NoBilling, g.Found = func(_ string, c googletest.RulesCase) *googletest.RulesResult { return shipped(c) }, nil, nil, false, nil
		test.break_(g)
		names, findings, err := examined(t.Context(), g)
		if err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		if got := names[Wrong]; got != test.checks || names[Unknown] != "" {
			t.Errorf("%s: got wrong %s, unknown %s, want wrong %s", test.name, got, names[Unknown], test.checks)
		}
		checkExplained(t, findings)

		for name := range strings.FieldsSeq(test.checks) {
			failing[name] = true
		}
		if test.checks == "" {
			continue
		}
		first := strings.Fields(test.checks)[0]
		var b bytes.Buffer
		if err := Print(&b, []Finding{findings[first]}, true); err != nil {
			t.Fatal(err)
		}
		// The claim and why it matters are in testdata/list.txt.
		_, problems, _ := strings.Cut(b.String(), "\n    ")
		problems, _, _ = strings.Cut(problems, "\n    why: ")
		said.WriteString("== " + test.name + "\n    " + problems + "\n")
	}

	for _, c := range Checks {
		if c.needs > theFolder && !failing[c.Name] { // TestLocal has those of the folder
			t.Errorf("no case fails the check %s", c.Name)
		}
	}
	golden(t, "testdata/broken.txt", said.String())
}

// Nine databases share a call of RollUpOnSchedule, which is too short for their audits to tell
// drift.
func TestDriftThatNobodyTells(t *testing.T) {
	names, findings, err := examined(t.Context(), sound(t, "base-3", "base-4", "base-5", "base-6", "base-7", "base-8", "base-9"))
	if err != nil || names[Wrong] != "drift" {
		t.Fatalf("wrong are %q, %v, want drift", names[Wrong], err)
	}
	if got := findings["drift"].Problems[0].Text; !strings.HasPrefix(got, "audits cannot report drift: 9 databases share") {
		t.Errorf("got %q", got)
	}
}

// The explanation names the commands that fix a deployment of which only the functions are left.
func TestExplained(t *testing.T) {
	g := sound(t)
	for _, of := range []string{"triggers", "jobs", "queues", "serviceAccounts", "metrics", "alertPolicies", "dashboards", "fields", "services"} {
		for _, name := range g.Names(of) {
			if g.SetPolicy(name, nil); of != "services" || strings.HasSuffix(name, "firebaserules.googleapis.com") {
				g.Delete(name)
			}
		}
	}
	g.SetPolicy("projects/"+project, nil)
	names, findings, err := examined(t.Context(), g)
	if want := "as-deployed"; err != nil || names[Wrong] != want {
		t.Errorf("wrong are %s, %v, want %s", names[Wrong], err, want)
	}
	checkExplained(t, findings)
}

// checkExplained checks that the explanation of each check names the commands that fix what it
// found.
func checkExplained(t *testing.T, findings map[string]Finding) {
	t.Helper()
	for _, f := range findings {
		for _, p := range f.Problems {
			if p.Remedy != "" && !slices.ContainsFunc(strings.Split(f.Fixes, "; "), func(fix string) bool {
				group, verbs, _ := strings.Cut(strings.TrimSuffix(fix, ")"), " (")
				return slices.ContainsFunc(strings.Split(verbs, ", "), func(verb string) bool {
					return strings.HasPrefix(p.Remedy, strings.TrimSpace(group+" "+verb))
				})
			}) {
				t.Errorf("the explanation of %s does not name %s", f.Name, p.Remedy)
			}
		}
	}
}

// golden compares with a file that -update writes.
func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-want +got):\n%s", name, d)
	}
}

// What audits find is told for two of their cycles, and the rest for a day.
func TestTwoCycles(t *testing.T) {
	g := sound(t)
	since := make(map[string]time.Duration) // by message
	message, stamp := regexp.MustCompile(`message="([^:"]+)`), regexp.MustCompile(`timestamp>="([^"]+)"`)
	g.Entries = func(filter string) []json.RawMessage {
		of, from := message.FindStringSubmatch(filter), stamp.FindStringSubmatch(filter)
		if of == nil || from == nil {
			return nil
		}
		at, err := time.Parse(time.RFC3339, from[1])
		if err != nil {
			t.Error(err)
		}
		since[of[1]] = readAt.Sub(at).Round(time.Hour)
		return nil
	}
	_, _, err := examined(t.Context(), g)
	if err != nil {
		t.Fatal(err)
	}
	for message, want := range map[string]time.Duration{"drift": 2 * day, "left late": 2 * day, "rolled up late": day, "lag sampled": day} {
		if since[message] != want {
			t.Errorf("lines of %q are read of the last %v, want %v", message, since[message], want)
		}
	}
}

// How long roll-ups took is said by the samples in the log.
func TestLag(t *testing.T) {
	g := sound(t)
	g.Entries = func(filter string) (all []json.RawMessage) {
		if !strings.Contains(filter, `message="lag sampled"`) {
			return nil
		}
		for i := range 100 {
			all = append(all, json.RawMessage(fmt.Sprintf(`{"jsonPayload": {"lag_seconds": %d.5}}`, i)))
		}
		return all
	}
	_, findings, err := examined(t.Context(), g)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"from commit to roll-up it took 49.50s (median) and 98.50s (99th percentile) in 100 samples of the last day"}
	if d := cmp.Diff(want, findings["late"].Notes); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// That the queue was purged is said for a day: its alarms are gone.
func TestPurged(t *testing.T) {
	for ago, want := range map[time.Duration]int{time.Hour: 1, 23 * time.Hour: 1, 25 * time.Hour: 0} {
		g := sound(t)
		googletest.Change(g, queueIs, func(q *cloudtaskspb.Queue) { q.PurgeTime = timestamppb.New(readAt.Add(-ago)) })
		_, findings, err := examined(t.Context(), g)
		if err != nil {
			t.Fatal(err)
		}
		notes := findings["alarms"].Notes
		if len(notes) != want || want > 0 && !strings.HasPrefix(notes[0], "the queue was purged at ") || findings["alarms"].Verdict != Well {
			t.Errorf("%v ago: %v: %q", ago, findings["alarms"].Verdict, notes)
		}
	}
}

// More lines than are read are told as such.
func TestManyLines(t *testing.T) {
	for n, want := range map[int]string{mostCounted - 1: "999 roll-ups came late", mostCounted: "at least 1000 roll-ups came late"} {
		g := sound(t)
		g.Entries = lines(n, "{}", `message="rolled up late"`)
		_, findings, err := examined(t.Context(), g)
		if err != nil {
			t.Fatal(err)
		}
		if problems := findings["late"].Problems; len(problems) == 0 || !strings.HasPrefix(problems[0].Text, want) {
			t.Errorf("got %v, want %q", problems, want)
		}
	}
}

// The log is asked once, however many routes there are.
func TestUnreadableLog(t *testing.T) {
	g := sound(t)
	setRoutes(g, "a/{a} by k -> b/{k} : count() : existing; c/{c} by k -> d/{k} : count() : existing")
	g.Fail("logging.googleapis.com", "ListLogEntries", grpcstatus.Error(codes.PermissionDenied, "no"), -1)
	d, err := Read(t.Context(), project, &appfolder.Folder{}, g.REST()...)
	if err != nil {
		t.Fatal(err)
	}
	g.Requests()
	var f Finding
	(&examination{d, &f}).leftOut(t.Context())
	asked := slices.DeleteFunc(g.Requests(), func(r googletest.Request) bool { return !strings.HasSuffix(r.At, "/entries:list") })
	if len(asked) != 1 || len(f.Problems) != 1 {
		t.Errorf("asked %d times: %v", len(asked), f.Problems)
	}
}
