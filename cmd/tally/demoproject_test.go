//go:build unix

package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/eventarc/apiv1/eventarcpb"
	"cloud.google.com/go/firestore/apiv1/admin/adminpb"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	root "github.com/firestore-tally/tally"
	"github.com/firestore-tally/tally/e2e/googletest"
	"github.com/firestore-tally/tally/internal/config"
	"github.com/firestore-tally/tally/internal/firestorestore"
	"github.com/firestore-tally/tally/internal/local"
	"github.com/firestore-tally/tally/internal/local/emulator"
	"github.com/firestore-tally/tally/internal/local/emulator/emulatortest"
)

// The demo on a project is exact, asks its six questions, and leaves nothing behind.
func TestDemoOnProject(t *testing.T) {
	emulatortest.Need(t)
	c := newCloud(t)
	c.settings("routes: |\n  counters/{counter}/shards/{shard} -> rollups/{counter} : count\n  posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing\n")
	c.want(0, "deploy", "--yes")

	_, have := c.described()
	environment := have.Env()
	configured, err := config.Load(environment)
	if err != nil {
		t.Fatal(err)
	}
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(asTally, "1")
	s, err := local.Start(t.Context(), local.Options{
		Environment: environment, Config: configured, Processes: 1, RulesText: root.Rules,
		Command: func(port int) *exec.Cmd {
			cmd := exec.Command(executable, "functions", "--port", strconv.Itoa(port))
			cmd.Env = os.Environ()
			return cmd
		},
		Log: func([]byte) {}, Say: t.Logf,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()

	t.Setenv(firestorestore.EmulatorHost, "")
	demo := func(ctx context.Context, args ...string) (status int, out, logs string) {
		var stdout, stderr bytes.Buffer
		ctx = context.WithValue(ctx, endpointsKey{}, endpoints{apis: c.REST(), firestore: s.Addr})
		status = run(ctx, append([]string{"demo", "--project=my-project", "--yes", "--rate=100"}, args...), &stdout, &stderr)
		for _, collection := range []string{"counters", "shards", "rollups", "posts", "likes"} {
			docs, err := s.Clients[0].CollectionGroup(collection).Documents(t.Context()).GetAll()
			if err != nil || len(docs) > 0 {
				t.Errorf("%s: %d are left, %v", collection, len(docs), err)
			}
		}
		return status, stdout.String(), stderr.String()
	}

	status, out, logs := demo(t.Context(), "--increments=40")
	if status != 0 || strings.Count(out, "  yes  ") != 6 || strings.Count(out, "exact\n") != 2 {
		t.Errorf("status %d:\n%s%s", status, logs, out)
	}

	// Ctrl-C in the middle.
	interrupted, interrupt := context.WithTimeout(t.Context(), 4*time.Second)
	defer interrupt()
	if status, _, logs := demo(interrupted, "--increments=10000"); status != 130 {
		t.Errorf("interrupted: status %d: %s", status, logs)
	}

	// Production says no.
	const field = "projects/my-project/databases/(default)/collectionGroups/rollups/fields/tally"
	c.Put(field, new(adminpb.Field))
	googletest.Change(c.Google, c.Names("triggers")[0], func(t *eventarcpb.Trigger) { t.RetryPolicy = &eventarcpb.Trigger_RetryPolicy{MaxAttempts: 1} })
	googletest.Change(c.Google, c.Names("subscriptions")[0], func(s *pubsubpb.Subscription) { s.AckDeadlineSeconds = 9 })
	softer := strings.Replace(root.Rules, "request.query.offset == 0", "true", 1)
	if err := emulator.SetRules(t.Context(), s.Addr, "my-project", softer); err != nil {
		t.Fatal(err)
	}
	if status, out, logs := demo(t.Context(), "--increments=4"); status != 1 || strings.Count(out, "  no   ") != 4 {
		t.Errorf("status %d, want four times no:\n%s%s", status, logs, out)
	}

	// The functions are silent.
	s.Relay.SetTargets(nil)
	if status, _, logs := demo(t.Context(), "--timeout=1s"); status != 1 || !strings.Contains(logs, "tally doctor --project my-project") {
		t.Errorf("silent: status %d: %s", status, logs)
	}
}
