//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cloud.google.com/go/functions/apiv2/functionspb"
	"cloud.google.com/go/iam/apiv1/iampb"
	"cloud.google.com/go/monitoring/apiv3/v2/monitoringpb"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/scheduler/apiv1/schedulerpb"
	"github.com/firestore-tally/tally/internal/test/googletest"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// What a project answered is a project of googletest's, for which tally deploy has the same plan.
// The file holds nothing that no one should pass on.
func TestRecord(t *testing.T) {
	c := newCloud(t)
	c.settings("alert_email: someone@example.com") // as each address is recorded
	deploy := []string{"deploy", "--source", leastClone(t)}
	recording := append(deploy, "--dry-run", "--record")
	deployed := append(deploy, "--yes")

	for _, test := range []struct {
		name   string
		before func()
		status int
	}{
		{"a new project", func() {}, 0},
		{"a project that is deployed", func() { c.want(0, deployed...) }, 0},
		{"a project that somebody has changed", func() {
			const here = "projects/my-project/locations/us-central1/"
			googletest.Change(c.Google, here+"functions/tally-on-write", func(f *functionspb.Function) {
				f.ServiceConfig.MaxInstanceCount = 3
				f.ServiceConfig.EnvironmentVariables["MINE"] = "s3cret"
				f.ServiceConfig.EnvironmentVariables["OTEL_EXPORTER_OTLP_HEADERS"] = "s3cret"
			})
			googletest.Change(c.Google, c.Names("subscriptions")[0], func(s *pubsubpb.Subscription) { s.AckDeadlineSeconds = 10 })
			c.Delete("projects/my-project/metrics/tally_drift")

			// What is not Tally's, with secrets.
			c.Put(here+"functions/other", &functionspb.Function{ServiceConfig: &functionspb.ServiceConfig{EnvironmentVariables: map[string]string{"KEY": "s3cret"}}})
			target := &schedulerpb.HttpTarget{Uri: "https://example.com/?token=s3cret", Headers: map[string]string{"Authorization": "s3cret"}, Body: []byte("s3cret")}
			c.Put(here+"jobs/other", &schedulerpb.Job{Target: &schedulerpb.Job_HttpTarget{HttpTarget: target}})
			c.Put("projects/my-project/subscriptions/other", &pubsubpb.Subscription{PushConfig: &pubsubpb.PushConfig{PushEndpoint: "https://example.com/?token=s3cret"}})
			c.Put("projects/my-project/notificationChannels/1", &monitoringpb.NotificationChannel{Type: "webhook", Labels: map[string]string{"url": "https://example.com/s3cret"}})
			p := c.Policy("projects/my-project")
			p.Bindings = append(p.Bindings, &iampb.Binding{Role: "roles/owner", Members: []string{"user:ann.s3cret@example.org", "group:s3cret@example.org"}})
			c.SetPolicy("projects/my-project", p)
		}, 0},
		{"an account that may not read the triggers", func() {
			c.Fail("eventarc.googleapis.com", "ListTriggers", status.Error(codes.PermissionDenied, "The caller does not have permission"), -1)
		}, 1},
		{"an account that may not read the project", func() {
			c.Fail("cloudresourcemanager.googleapis.com", "GetProject", status.Error(codes.PermissionDenied, "The caller does not have permission"), -1)
		}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.before()
			file := filepath.Join(t.TempDir(), "answers.json")
			printed := c.want(test.status, append(recording, file)...)
			text, err := os.ReadFile(file)
			if err != nil || strings.Contains(string(text), "s3cret") || strings.Contains(string(text), "czNjcmV0") { // in base64
				t.Fatalf("%v:\n%s", err, text)
			}

			again := cloud{Google: googletest.Load(t, file), t: t, program: c.program}
			other := filepath.Join(t.TempDir(), "again.json")
			want := strings.ReplaceAll(printed, file, other)
			if d := cmp.Diff(want, again.want(test.status, append(recording, other)...)); d != "" {
				t.Errorf("the plan (-recorded +loaded):\n%s", d)
			}
			second, err := os.ReadFile(other)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(text), string(second)); d != "" {
				t.Errorf("the recording (-of the project +of what was loaded):\n%s", d)
			}
		})
	}

	for _, args := range [][]string{{"--record=x"}, {"--record=x", "--dry-run", "--new", "--location=nam5"}} {
		if printed := c.want(1, append(deploy, args...)...); !strings.Contains(printed, "--record keeps what a project answers to --dry-run") {
			t.Errorf("%s:\n%s", args, printed)
		}
	}
}
