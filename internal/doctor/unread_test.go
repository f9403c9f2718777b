package doctor

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/admin/adminpb"
	"cloud.google.com/go/functions/apiv2/functionspb"
	"github.com/firestore-tally/tally/internal/freeport"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func refused(message, reason string) error {
	s := status.New(codes.PermissionDenied, message)
	if reason != "" {
		s, _ = s.WithDetails(&errdetails.ErrorInfo{Reason: reason, Domain: "googleapis.com"})
	}
	return s.Err()
}

// unread are sound deployments of which something cannot be read. What it says is in
// testdata/unread.txt.
var unread = []struct {
	name   string
	checks string // that are unknown
	break_ func(*cloud)
}{
	{"policies of services", "schedule-invoker, private, trigger-account", func(c *cloud) {
		c.failing["run"] = refused("Permission 'run.services.getIamPolicy' denied on resource", "IAM_PERMISSION_DENIED")
	}},
	{"the policy of the project", "trigger-account, functions-account", func(c *cloud) { c.failing["cloudresourcemanager"] = refused("The caller does not have permission", "") }},
	{"jobs", "schedule, schedule-enabled, schedule-identity, schedule-invoker, period, attempt-deadline, last-tick", func(c *cloud) {
		c.failing["cloudscheduler"] = refused("Cloud Scheduler API has not been used in project 1234567 before or it is disabled.", "SERVICE_DISABLED")
	}},
	{"triggers", "ack-deadline", func(c *cloud) { c.failing["eventarc"] = refused("The caller does not have permission", "") }},
	{"subscriptions", "ack-deadline", func(c *cloud) { c.failing["pubsub"] = refused("User not authorized to perform this action.", "") }},
	{"databases", "trigger-location, databases, indexes, exemptions, ttl", func(c *cloud) { c.failing["firestore"] = refused("Missing or insufficient permissions.", "") }},
	{"rules", "rules-rollups, rules-readable, rules-shards, rules-own", func(c *cloud) { c.failing["firebaserules"] = refused("The caller does not have permission", "") }},
	{"credentials without a quota project", "rules-rollups, rules-readable, rules-shards, rules-own", func(c *cloud) {
		c.failing["firebaserules"] = refused("The firebaserules.googleapis.com API requires a quota project, which is not set by default.", "SERVICE_DISABLED")
	}},
	{"a region", "deployed", func(c *cloud) { c.unreachable = []string{"projects/shop-7/locations/asia-east1"} }},
	{"rules that look at other documents", "rules-rollups", func(c *cloud) {
		c.asks = func(t test) bool {
			return t.Request.Method == "update" && strings.Contains(t.Request.Path, "/rollups/") && t.Request.Auth != nil
		}
	}},
	{"a secret", "configuration", func(c *cloud) {
		c.write().ServiceConfig.SecretEnvironmentVariables = []*functionspb.SecretEnvVar{{Key: "TALLY_LOG_LEVEL"}}
	}},
	{"a group", "schedule-invoker", func(c *cloud) {
		c.policies[c.schedule().ServiceConfig.Service] = policy{"roles/run.invoker": {"group:callers@example.com"}}
	}},
	{"a custom role", "functions-account", func(c *cloud) {
		p := c.policies["projects/"+project]
		p["projects/shop-7/roles/writer"] = p["roles/datastore.user"]
		delete(p, "roles/datastore.user")
	}},
	{"a default account", "functions-account", func(c *cloud) { c.write().ServiceConfig.ServiceAccountEmail = "" }},
	{"a schedule in words", "period", func(c *cloud) { c.jobs[0].Schedule = "every 10 minutes" }},
	{"an index that is being built", "indexes", func(c *cloud) {
		i := index("count")
		i.State = adminpb.Index_CREATING
		c.fields["projects/"+project+"/databases/orders/collectionGroups/shards/fields/count"] = &adminpb.Field{IndexConfig: &adminpb.Field_IndexConfig{Indexes: []*adminpb.Index{i}}}
	}},
	{"a TTL policy that is being made", "ttl", func(c *cloud) {
		c.fields["projects/"+project+"/databases/(default)/collectionGroups/increment_tokens/fields/expire_at"].TtlConfig.State = adminpb.Field_TtlConfig_CREATING
	}},
}

func TestUnread(t *testing.T) {
	var said strings.Builder
	for _, test := range unread {
		t.Run(test.name, func(t *testing.T) {
			c := newCloud(t, options(t))
			test.break_(c)
			var names []string
			for _, f := range c.read(t) {
				switch f.Verdict {
				case Unknown:
					names = append(names, f.Name)
					if len(names) == 1 {
						var b bytes.Buffer
						if err := Print(&b, []Finding{f}); err != nil {
							t.Fatal(err)
						}
						text, _, _ := strings.Cut(b.String(), "\n\n")
						said.WriteString("== " + test.name + "\n" + text + "\n\n")
					}
				case Wrong, Idle:
					t.Errorf("%s is %s: %v%s", f.Name, f.Verdict, f.Problems, f.Why)
				}
			}
			if got := strings.Join(names, ", "); got != test.checks {
				t.Errorf("got %s, want %s", got, test.checks)
			}
		})
	}
	golden(t, "testdata/unread.txt", said.String())
}

// Without the functions nothing can be said.
func TestNoFunctions(t *testing.T) {
	for _, test := range []struct {
		name string
		err  error
		want string
	}{
		{"denied", refused("Permission 'cloudfunctions.functions.list' denied on resource (or it may not exist).", "IAM_PERMISSION_DENIED"),
			"the functions could not be read: the account needs cloudfunctions.functions.list: Permission 'cloudfunctions.functions.list' denied on resource (or it may not exist).\n" +
				"gcloud projects add-iam-policy-binding shop-7 --member=user:YOU --role=roles/cloudfunctions.viewer --condition=None"},
		{"disabled", refused("Cloud Functions API has not been used in project 1 before or it is disabled.", "SERVICE_DISABLED"),
			"the functions could not be read: the API cloudfunctions.googleapis.com is not enabled\ngcloud services enable cloudfunctions.googleapis.com --project=shop-7"},
		{"no such project", refused("Permission denied on resource project shop-7.", "CONSUMER_INVALID"),
			"the functions could not be read: there is no project shop-7, or the account may not see it\ngcloud projects list"},
		{"credentials of yesterday", status.Error(codes.Unauthenticated, "Request had invalid authentication credentials."),
			"the functions could not be read: there are no valid credentials: Request had invalid authentication credentials.\ngcloud auth application-default login"},
	} {
		c := newCloud(t, options(t))
		c.failing["cloudfunctions"] = test.err
		_, err := Read(t.Context(), c.serve(t), project)
		if err == nil || err.Error() != test.want {
			t.Errorf("%s:\n got %v\nwant %s", test.name, err, test.want)
		}
	}
}

// A listener that nobody accepts from is a server that does not answer.
func TestSlow(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = Read(ctx, dial(t, silent.Addr().String(), "http://"+silent.Addr().String()), project)
	if want := "the functions could not be read: cloudfunctions.googleapis.com did not answer in time; --timeout gives it longer"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// What answers late is unknown, and what answers is examined.
func TestSlowAPI(t *testing.T) {
	c := newCloud(t, options(t))
	c.waiting = make(chan struct{})
	defer close(c.waiting)
	clients := c.serve(t)
	patiently(t, func(ctx context.Context) error {
		d, err := Read(ctx, clients, project)
		if err != nil {
			return err
		}
		for _, f := range Examine(d, nil) {
			want := Well
			if strings.HasPrefix(f.Name, "rules-") {
				want = Unknown
			}
			if f.Verdict != want {
				return fmt.Errorf("%s is %s, want %s: %v", f.Name, f.Verdict, want, f.Problems)
			} else if want == Unknown && !strings.HasSuffix(f.Problems[0].Text, "firebaserules.googleapis.com did not answer in time; --timeout gives it longer") {
				return fmt.Errorf("%s: got %s", f.Name, f.Problems[0].Text)
			}
		}
		return nil
	})
}

// patiently calls try with more and more time until it succeeds. Try uses all of its time, because it
// asks somebody who never answers; what does answer may take long on a machine with other work to do.
func patiently(t *testing.T, try func(context.Context) error) {
	t.Helper()
	const most = 2 * time.Minute
	for within := time.Second; ; within *= 2 {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		err := try(ctx)
		cancel()
		if err == nil {
			return
		}
		if within > most {
			t.Fatal(err)
		}
	}
}

// Nobody listens.
func TestUnreachable(t *testing.T) {
	port, release, err := freeport.Hold(1)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	gone := fmt.Sprintf("127.0.0.1:%d", port)
	clients := dial(t, gone, "http://"+gone)
	patiently(t, func(ctx context.Context) error {
		_, err := Read(ctx, clients, project)
		if want := "cloudfunctions.googleapis.com cannot be reached"; err == nil || !strings.Contains(err.Error(), want) {
			return fmt.Errorf("got %v, want %s", err, want)
		}
		return nil
	})
}
