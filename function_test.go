package tally

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/cloud/app"
	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/internal/tool/local/emulator"
	"github.com/firestore-tally/tally/internal/tool/local/eventrelay"
	"github.com/firestore-tally/tally/internal/tool/local/framework"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The registered functions, end to end: Google's emulator makes the events, the relay delivers them
// as Eventarc does, and the functions framework serves both functions over HTTP. Package e2e tests
// all other cases.

// project is the one that both functions serve in this process.
var project = "demo-" + strings.ToLower(rand.Text()[:20])

var server string // the address of the functions framework

// onlyStarts is a variable of the processes of TestMisconfigured, which end once they have started.
const onlyStarts = "TALLY_TEST_ONLY_STARTS"

func TestMain(m *testing.M) {
	if os.Getenv(onlyStarts) != "" {
		return
	}

	service = app.New(func() []string {
		return []string{"GOOGLE_CLOUD_PROJECT=" + project, "TALLY_CADENCE=200ms", "TALLY_DATABASES=(default),other", firestorestore.EmulatorHost + "=" + os.Getenv(firestorestore.EmulatorHost)}
	}, os.Stderr)
	port := make(chan int)
	go func() { log.Fatal(framework.Serve(0, func(p int) { port <- p })) }()
	server = fmt.Sprintf("http://127.0.0.1:%d/", <-port)
	emulatortest.Main(m)
}

// increment adds amounts to the shards of a counter, one each, and returns when the last was
// committed.
func increment(t *testing.T, client *firestore.Client, counter string, amounts ...int) time.Time {
	t.Helper()
	var last time.Time
	for i, amount := range amounts {
		shard := client.Doc(fmt.Sprintf("counters/%s/shards/%d", counter, i))
		result, err := shard.Set(t.Context(), map[string]any{"count": firestore.Increment(amount)}, firestore.MergeAll)
		if err != nil {
			t.Fatal(err)
		}
		last = result.UpdateTime
	}
	return last
}

// wantRollUp waits until the roll-up covers the commit, and compares its total.
func wantRollUp(t *testing.T, client *firestore.Client, counter string, committed time.Time, want int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), emulatortest.Eventually())
	defer cancel()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for ; ; <-again.C {
		doc, err := client.Doc("rollups/" + counter).Get(ctx)
		if err != nil && status.Code(err) != codes.NotFound {
			t.Fatalf("no roll-up of %s covers the commit of %v: %v", counter, committed, err)
		}
		fields := doc.Data()
		tally := document.DecodeTally(fields[document.TallyField])
		if err != nil || tally.AsOf.Before(committed) {
			continue
		}
		if fields["count"] != want {
			t.Errorf("%s: count %v as of %v, want %d", counter, fields["count"], tally.AsOf, want)
		}
		return
	}
}

func TestRollUpOnWrite(t *testing.T) {
	client := emulatortest.ClientDatabase(t, project, firestore.DefaultDatabaseID)
	relay := eventrelay.New(eventrelay.Options{Targets: []string{server + "RollUpOnWrite"}})
	defer relay.Close()
	emulatortest.Handle(t, project, relay)
	trigger := emulator.Trigger{Project: project, Name: "written", Pattern: "counters/{counter}/shards/{shard}"}
	if err := emulator.RegisterTrigger(t.Context(), emulatortest.Addr(t), trigger); err != nil {
		t.Fatal(err)
	}
	wantRollUp(t, client, "likes", increment(t, client, "likes", 3, 4), 7)
	wantRollUp(t, client, "likes", increment(t, client, "likes", -2), 5)

	res, err := http.Post(server+"RollUpOnWrite", "application/json", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusBadRequest {
		t.Errorf("a request that is no CloudEvent: status %s, want 400", res.Status)
	}
}

func TestRollUpOnSchedule(t *testing.T) {
	const database = "other" // no trigger, so no event
	client := emulatortest.ClientDatabase(t, project, database)
	for _, path := range []string{"counters/visits/shards/0", "counters/visits/shards/1", "rollups/visits"} { // with -count
		if _, err := client.Doc(path).Delete(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	committed := increment(t, client, "visits", 2, 3)
	for _, want := range []map[string]float64{{"missing": 1, "rolled_up": 1}, {"unchanged": 1}} {
		res, err := http.Post(server+"RollUpOnSchedule", "", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		var report struct{ Databases map[string]map[string]any }
		if err := json.NewDecoder(res.Body).Decode(&report); err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("status %s: %v", res.Status, err)
		}
		got := make(map[string]float64)
		for field := range want {
			got[field], _ = report.Databases[database][field].(float64)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("report %v (-want +got):\n%s", report, diff)
		}
	}
	wantRollUp(t, client, "visits", committed, 5)
}

// A function's process on Cloud Run whose configuration cannot be read ends at its start, and says
// why. The command tally, which imports the functions, may run in any service.
func TestMisconfigured(t *testing.T) {
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, service, target, routes string
		status                        int
	}{
		{"Cloud Run, and routes that are wrong", "tally-on-write", "RollUpOnWrite", "counters", 1},
		{"Cloud Run", "tally-on-write", "RollUpOnWrite", "", 0},
		{"another place, where the first request says it", "", "RollUpOnWrite", "counters", 0},
		{"tally in a service of somebody's own", "ci-runner", "", "counters", 0},
	} {
		c := exec.CommandContext(t.Context(), executable)
		c.Env = append(os.Environ(), onlyStarts+"=1", "K_SERVICE="+test.service, "FUNCTION_TARGET="+test.target,
			"TALLY_ROUTES="+test.routes, "GOOGLE_CLOUD_PROJECT="+project)
		out, err := c.CombinedOutput()
		if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		if got := c.ProcessState.ExitCode(); got != test.status {
			t.Errorf("%s: status %d, want %d\n%s", test.name, got, test.status, out)
		}
		if says := strings.Contains(string(out), `"message":"misconfigured"`); says != (test.status != 0) {
			t.Errorf("%s: it says that it is misconfigured: %v\n%s", test.name, says, out)
		}
	}
}
