package doctor

import (
	"bytes"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/admin/adminpb"
	"cloud.google.com/go/functions/apiv2/functionspb"
	"cloud.google.com/go/scheduler/apiv1/schedulerpb"
	"github.com/google/go-cmp/cmp"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

var update = flag.Bool("update", false, "write testdata")

// What deploy sets is what doctor wants.
func TestSound(t *testing.T) {
	c := newCloud(t, options(t))
	findings := c.read(t)
	for _, f := range findings {
		if f.Verdict != Well {
			t.Errorf("%s is %s: %v %s", f.Name, f.Verdict, f.Problems, f.Why)
		}
	}
	if got, want := len(findings), len(Checks); got != want {
		t.Errorf("%d findings, want %d", got, want)
	}
	if got, want := c.pages.Load(), int64(len(c.functions)+2); got != want {
		t.Errorf("%d pages were asked for, want %d: one for each function, and one of jobs in each location", got, want)
	}
}

// broken are sound deployments with one thing wrong, and the one check that finds it. What it says, and
// the remedy, is in testdata/broken.txt.
var broken = []struct {
	name   string
	check  string
	break_ func(*cloud)
}{
	{"no function", "deployed", func(c *cloud) { c.functions = nil }},
	{"no RollUpOnSchedule", "deployed", func(c *cloud) { c.functions = c.functions[:len(c.functions)-1] }},
	{"no RollUpOnWrite", "deployed", func(c *cloud) { c.functions = c.functions[len(c.functions)-1:] }},
	{"a second RollUpOnSchedule", "deployed", func(c *cloud) {
		f := proto.Clone(c.schedule()).(*functionspb.Function)
		f.Name = strings.Replace(f.Name, "tally-on-schedule", "old-schedule", 1)
		c.functions = slices.Insert(c.functions, 0, f)
	}},
	{"a failed deployment", "active", func(c *cloud) {
		c.write().State = functionspb.Function_FAILED
		c.write().StateMessages = []*functionspb.StateMessage{{Message: "Build failed: no go.mod"}}
	}},
	{"an older revision", "active", func(c *cloud) { c.schedule().ServiceConfig.AllTrafficOnLatestRevision = false }},
	{"1st generation", "active", func(c *cloud) { c.write().Environment = functionspb.Environment_GEN_1 }},
	{"another entry point", "entry-point", func(c *cloud) { c.write().BuildConfig.EntryPoint = "HelloWorld" }},
	{"no configuration is valid", "configuration", func(c *cloud) {
		for _, f := range c.functions {
			f.ServiceConfig.EnvironmentVariables = map[string]string{"GOOGLE_CLOUD_PROJECT": project, "TALLY_ROUTES": "counters"}
		}
	}},
	{"a cadence that no event is held for", "configuration", func(c *cloud) { c.write().ServiceConfig.EnvironmentVariables["TALLY_CADENCE"] = "30s" }},
	{"routes that overlap", "configuration", func(c *cloud) {
		c.write().ServiceConfig.EnvironmentVariables["TALLY_ROUTES"] += "; a/{b}/shards/{c} -> a/{b}/sums/x : n; counters/x/shards/{c} -> x/x : n"
	}},
	{"an emulator", "configuration", func(c *cloud) {
		c.write().ServiceConfig.EnvironmentVariables["FIRESTORE_EMULATOR_HOST"] = "127.0.0.1:8080"
	}},
	{"no project", "configuration", func(c *cloud) { delete(c.write().ServiceConfig.EnvironmentVariables, "GOOGLE_CLOUD_PROJECT") }},
	{"another project", "configuration", func(c *cloud) { c.schedule().ServiceConfig.EnvironmentVariables["GOOGLE_CLOUD_PROJECT"] = "shop-8" }},
	{"other routes", "same-configuration", func(c *cloud) {
		c.write().ServiceConfig.EnvironmentVariables["TALLY_ROUTES"] = "counters/{counter}/shards/{shard} -> rollups/{counter} : count"
	}},
	{"another cadence", "same-configuration", func(c *cloud) { c.write().ServiceConfig.EnvironmentVariables["TALLY_CADENCE"] = "500ms" }},
	{"a route without a trigger", "triggers", func(c *cloud) { c.functions = slices.Delete(c.functions, 1, 2) }},
	{"a trigger twice", "triggers", func(c *cloud) {
		f := proto.Clone(c.write()).(*functionspb.Function)
		f.Name += "-copy"
		c.functions = slices.Insert(c.functions, 1, f)
	}},
	{"a trigger of no route", "triggers", func(c *cloud) {
		f := proto.Clone(c.write()).(*functionspb.Function)
		f.Name += "-old"
		f.EventTrigger.EventFilters[1].Value = "likes/{a}/shards/{b}"
		c.functions = slices.Insert(c.functions, 1, f)
	}},
	{"a trigger of a route that the schedule keeps", "triggers", func(c *cloud) {
		f := proto.Clone(c.write()).(*functionspb.Function)
		f.Name += "-old"
		f.EventTrigger.EventFilters[1].Value = "pages/{a}/shards/{b}"
		c.functions = slices.Insert(c.functions, 1, f)
	}},
	{"a trigger of everything", "triggers", func(c *cloud) { c.write().EventTrigger.EventFilters[1].Value = "{document=**}" }},
	{"a trigger of creations only", "event-type", func(c *cloud) { c.write().EventTrigger.EventType = "google.cloud.firestore.document.v1.created" }},
	{"a trigger elsewhere", "trigger-location", func(c *cloud) { c.write().EventTrigger.TriggerRegion = "us-central1" }},
	{"a database that is not audited", "databases", func(c *cloud) {
		c.schedule().ServiceConfig.EnvironmentVariables["TALLY_DATABASES"] = "(default)"
	}},
	{"events of a database that is not named", "databases", func(c *cloud) {
		for _, f := range c.functions[3:6] {
			f.ServiceConfig.EnvironmentVariables["TALLY_DATABASES"] = "(default)"
		}
	}},
	{"a database that is gone", "databases", func(c *cloud) {
		delete(c.databases, "projects/"+project+"/databases/orders")
		c.functions = slices.Delete(c.functions, 3, 6)
	}},
	{"a database in Datastore mode", "databases", func(c *cloud) {
		c.databases["projects/"+project+"/databases/orders"].Type = adminpb.Database_DATASTORE_MODE
	}},
	{"no retry", "retry", func(c *cloud) {
		c.write().EventTrigger.RetryPolicy = functionspb.EventTrigger_RETRY_POLICY_DO_NOT_RETRY
	}},
	{"a timeout of the hold limit", "timeout", func(c *cloud) { c.write().ServiceConfig.TimeoutSeconds = 8 }},
	{"a hold limit beyond the acknowledgement deadline", "ack-deadline", func(c *cloud) {
		for _, f := range c.functions {
			f.ServiceConfig.EnvironmentVariables["TALLY_HOLD_LIMIT"] = "20s"
		}
		for name := range c.deadlines {
			c.deadlines[name] = 60
		}
		c.deadlines["eventarc-"+nameOf(c.write())] = 10
	}},
	{"one event at a time", "concurrency", func(c *cloud) { c.write().ServiceConfig.MaxInstanceRequestConcurrency = 1 }},
	{"part of a CPU", "concurrency", func(c *cloud) { c.write().ServiceConfig.AvailableCpu = "583m" }},
	{"an audit of a minute", "audit-timeout", func(c *cloud) { c.schedule().ServiceConfig.TimeoutSeconds = 60 }},
	{"a call that ends before the next", "audit-timeout", func(c *cloud) { c.schedule().ServiceConfig.TimeoutSeconds = 540 }},
	{"no job", "schedule", func(c *cloud) { c.jobs = nil }},
	{"a job that calls elsewhere", "schedule", func(c *cloud) { c.jobs[0].GetHttpTarget().Uri = "https://example.com/" }},
	{"a dry run", "schedule", func(c *cloud) { c.jobs[0].GetHttpTarget().Uri += "?dry_run=true" }},
	{"a job that deletes", "schedule", func(c *cloud) { c.jobs[0].GetHttpTarget().HttpMethod = schedulerpb.HttpMethod_DELETE }},
	{"two jobs", "schedule", func(c *cloud) {
		j := proto.Clone(c.jobs[0]).(*schedulerpb.Job)
		j.Name = "projects/" + project + "/locations/asia-east1/jobs/yesterday"
		c.jobs = append(c.jobs, j)
	}},
	{"a paused job", "schedule-enabled", func(c *cloud) { c.jobs[0].State = schedulerpb.Job_PAUSED }},
	{"no token", "schedule-identity", func(c *cloud) { c.jobs[0].GetHttpTarget().AuthorizationHeader = nil }},
	{"a token for another", "schedule-identity", func(c *cloud) { c.jobs[0].GetHttpTarget().GetOidcToken().Audience = "https://example.com" }},
	{"an account that may not call", "schedule-invoker", func(c *cloud) { c.policies[c.schedule().ServiceConfig.Service] = nil }},
	{"calls too far apart", "period", func(c *cloud) { c.jobs[0].Schedule = "*/30 * * * *" }},
	{"calls with another period's variable", "period", func(c *cloud) {
		c.schedule().ServiceConfig.EnvironmentVariables["TALLY_SCHEDULE_PERIOD"] = "5m"
	}},
	{"a job that gives up", "attempt-deadline", func(c *cloud) { c.jobs[0].AttemptDeadline = durationpb.New(3 * time.Minute) }},
	{"a function that takes longer than a job may wait", "attempt-deadline", func(c *cloud) {
		c.schedule().ServiceConfig.TimeoutSeconds = 3600
		c.jobs[0].AttemptDeadline = durationpb.New(30 * time.Minute)
	}},
	{"no call yet", "last-tick", func(c *cloud) { c.jobs[0].LastAttemptTime = nil }},
	{"a call that failed", "last-tick", func(c *cloud) {
		c.jobs[0].Status = &rpcstatus.Status{Code: int32(codes.Internal), Message: "URL_ERROR"}
	}},
	{"an old call", "last-tick", func(c *cloud) { c.jobs[0].LastAttemptTime = timestamppb.New(c.now.Add(-24 * time.Hour)) }},
	{"a function for everybody", "private", func(c *cloud) {
		c.policies[c.schedule().ServiceConfig.Service]["roles/run.invoker"] = append(c.policies[c.schedule().ServiceConfig.Service]["roles/run.invoker"], "allUsers")
	}},
	{"events that may not arrive", "trigger-account", func(c *cloud) { delete(c.policies["projects/"+project], "roles/eventarc.eventReceiver") }},
	{"events that may not call", "trigger-account", func(c *cloud) { c.policies[c.write().ServiceConfig.Service] = nil }},
	{"functions that may not read", "functions-account", func(c *cloud) { delete(c.policies["projects/"+project], "roles/datastore.user") }},
	{"rules that let clients write roll-ups", rulesRollUps, func(c *cloud) {
		c.allows["cloud.firestore"] = func(t test) bool {
			return readsOfRollUps(t) || strings.Contains(t.Request.Path, "/rollups/") && t.Request.Auth != nil
		}
	}},
	{"no rules", rulesReadable, func(c *cloud) { delete(c.allows, "cloud.firestore/orders") }},
	{"rules that hide roll-ups", rulesReadable, func(c *cloud) { c.allows["cloud.firestore"] = func(test) bool { return false } }},
	{"rules that let clients delete shards", rulesShards, func(c *cloud) {
		c.allows["cloud.firestore"] = func(t test) bool {
			return readsOfRollUps(t) || t.Request.Method == "delete" && strings.HasSuffix(t.Request.Path, "/shards/0")
		}
	}},
	{"rules that show the audit's cursor", rulesOwn, func(c *cloud) {
		c.allows["cloud.firestore"] = func(t test) bool {
			return readsOfRollUps(t) || t.Request.Method == "get" && strings.Contains(t.Request.Path, "rollup_audit")
		}
	}},
	{"a summed field without an index", "indexes", func(c *cloud) {
		c.fields["projects/"+project+"/databases/(default)/collectionGroups/shards/fields/count"] = &adminpb.Field{IndexConfig: &adminpb.Field_IndexConfig{}}
	}},
	{"a hot field with an index", "exemptions", func(c *cloud) {
		delete(c.fields, "projects/"+project+"/databases/(default)/collectionGroups/hot/fields/likes")
	}},
	{"roll-ups with an index of tally", "exemptions", func(c *cloud) {
		delete(c.fields, "projects/"+project+"/databases/orders/collectionGroups/sums/fields/tally")
	}},
	{"tokens for ever", "ttl", func(c *cloud) {
		c.fields["projects/"+project+"/databases/(default)/collectionGroups/increment_tokens/fields/expire_at"].TtlConfig = nil
	}},
}

func nameOf(f *functionspb.Function) string { return f.Name[strings.LastIndex(f.Name, "/")+1:] }

func TestBroken(t *testing.T) {
	var got strings.Builder
	found := make(map[string]bool)
	for _, test := range broken {
		t.Run(test.name, func(t *testing.T) {
			c := newCloud(t, options(t))
			test.break_(c)
			var failed []string
			got.WriteString("== " + test.name + "\n")
			for _, f := range c.read(t) {
				switch f.Verdict {
				case Wrong:
					failed = append(failed, f.Name)
					found[f.Name] = true
					var b bytes.Buffer
					if err := Print(&b, []Finding{f}); err != nil {
						t.Fatal(err)
					}
					text, _, _ := strings.Cut(b.String(), "\n\n")
					got.WriteString(text + "\n\n")
					for _, p := range f.Problems {
						if len(p.Remedy) == 0 {
							t.Errorf("%q has no remedy", p.Text)
						}
					}
				case Unknown:
					t.Errorf("%s is unknown: %v", f.Name, f.Problems)
				}
			}
			if diff := cmp.Diff([]string{test.check}, failed); diff != "" {
				t.Errorf("what is wrong (-want +got):\n%s", diff)
			}
		})
	}
	for _, c := range Checks {
		if !found[c.Name] {
			t.Errorf("nothing was broken that %s finds", c.Name)
		}
	}
	golden(t, "testdata/broken.txt", got.String())
}

// golden compares with a file that -update writes.
func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}
