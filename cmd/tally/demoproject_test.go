//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	root "github.com/firestore-tally/tally"
	"github.com/firestore-tally/tally/cmd/tally/command"
	"github.com/firestore-tally/tally/cmd/tally/settings"
	"github.com/firestore-tally/tally/internal/cloud/config"
	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/internal/tool/load"
	"github.com/firestore-tally/tally/internal/tool/local"
	"github.com/firestore-tally/tally/internal/tool/terminal"
	"github.com/firestore-tally/tally/internal/tool/trial"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A deployedDemo is a project with functions at work: Google has their deployment, and this machine
// runs them on an emulator.
type deployedDemo struct {
	cloud
	stack *local.Stack
	apps  map[string]time.Time // the app's own documents, and those that are made of them, and when each was written last

	mu    sync.Mutex
	lines []json.RawMessage // that the functions have logged, as Cloud Logging keeps them
}

// newDeployedDemo deploys the functions of two routes, and runs them. The app has counters of its
// own.
func newDeployedDemo(t *testing.T) *deployedDemo {
	t.Helper()
	emulatortest.Need(t)
	c := newCloud(t)
	c.settings("routes: |\n  counters/{counter}/shards/{shard} -> rollups/{counter} : count\n  posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing\n")
	c.want(0, "deploy", "--yes")

	d := &deployedDemo{cloud: c}
	d.Entries = d.entries
	d.start()
	d.write(t)
	d.apps = d.documents(t)
	return d
}

// write writes the app's own documents, and waits for the roll-ups of them.
func (d *deployedDemo) write(t *testing.T) {
	t.Helper()
	for _, doc := range []struct {
		path, rollUp, total string
		fields              map[string]any
	}{
		{"counters/visitors", "", "", map[string]any{"num_shards": 2}},
		{"counters/visitors/shards/0", "rollups/visitors", "count", map[string]any{"count": 5}},
		{"posts/first", "", "", map[string]any{"title": "First"}},
		{"posts/first/likes/ann", "posts/first", "likes", map[string]any{}},
	} {
		client := d.stack.Clients[0]
		set := func(ctx context.Context) (time.Time, error) {
			written, err := client.Doc(doc.path).Set(ctx, doc.fields)
			if err != nil {
				return time.Time{}, err
			}
			return written.UpdateTime, nil
		}
		if doc.rollUp == "" {
			if _, err := set(t.Context()); err != nil {
				t.Fatal(err)
			}
			continue
		}

		var c load.Counter
		if err := c.Listen(t.Context(), func(error) {}, client, doc.rollUp, doc.total); err != nil {
			t.Fatal(err)
		}
		if err := c.Add(t.Context(), set); err != nil {
			t.Fatal(err)
		}
		if err := c.Await(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// forget deletes the roll-ups that the functions made of events that came after the demo. The audit
// would, an hour later.
func (d *deployedDemo) forget(t *testing.T) {
	t.Helper()
	for path := range d.documents(t) {
		if !strings.HasPrefix(path, "rollups/tally-demo-") {
			continue
		}
		if _, err := d.stack.Clients[0].Doc(path).Delete(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// start runs what is deployed.
func (d *deployedDemo) start() {
	t := d.t
	environment := d.described().Variables()
	configured, err := config.Load(environment)
	if err != nil {
		t.Fatal(err)
	}
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(asTally, "1")
	d.stack, err = local.Start(t.Context(), local.Options{
		Environment: environment, Config: configured, Processes: 1, RulesText: root.Rules,
		Command: func(port int) *exec.Cmd {
			cmd := exec.Command(executable, "functions", "--port", strconv.Itoa(port))
			cmd.Env = os.Environ() // has asTally
			return cmd
		},
		Log: d.log, Say: t.Logf,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.stack.Stop)
	t.Setenv(firestorestore.EmulatorHost, "")
}

// log keeps a line of the functions.
func (d *deployedDemo) log(line []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Appendf(nil, `{"jsonPayload": %s}`, line))
}

// entries returns the lines that a filter finds.
func (d *deployedDemo) entries(filter string) (found []json.RawMessage) {
	_, message, _ := strings.Cut(filter, "jsonPayload.message=")
	message, _, _ = strings.Cut(message, " AND ")
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, line := range d.lines {
		if bytes.Contains(line, []byte(`"message":`+message)) {
			found = append(found, line)
		}
	}
	return found
}

// documents returns all documents, and when each was written last, once the functions are done with
// all events.
func (d *deployedDemo) documents(t *testing.T) map[string]time.Time {
	t.Helper()
	if err := d.stack.Relay.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	found := make(map[string]time.Time)
	for _, collection := range []string{"counters", "shards", "rollups", "posts", "likes"} {
		docs, err := d.stack.Clients[0].CollectionGroup(collection).Documents(t.Context()).GetAll()
		if err != nil {
			t.Fatal(err)
		}
		for _, doc := range docs {
			found[firestorestore.Path(doc.Ref)] = doc.UpdateTime
		}
	}
	return found
}

// A demoResult is what tally demo --project printed, and how it ended.
type demoResult struct {
	status    int
	out, logs string
}

// report returns the JSON that it printed.
func (r demoResult) report(t *testing.T) (report trial.Report) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.out), &report); err != nil {
		t.Fatalf("no report, %v:\n%s%s", err, r.logs, r.out)
	}
	return report
}

// demo runs a demo on the project. Apart from the faults, Firestore answers as it does in
// production.
func (d *deployedDemo) demo(ctx context.Context, f faults, args ...string) demoResult {
	var stdout, stderr bytes.Buffer
	ctx = settings.WithEndpoints(ctx, settings.Endpoints{APIs: d.REST(), Firestore: d.stack.Addr, Dial: f.dial()})
	status := run(ctx, append([]string{"demo", "--project=my-project"}, args...), &stdout, &stderr)
	return demoResult{status, stdout.String(), stderr.String()}
}

// clean fails unless all documents are as before the demo: it left nothing, and touched nothing
// else.
func (d *deployedDemo) clean(t *testing.T) {
	t.Helper()
	if diff := cmp.Diff(d.apps, d.documents(t)); diff != "" {
		t.Errorf("documents (-before the demo, +after):\n%s", diff)
	}
}

// faults change what Firestore answers to a demo.
type faults struct {
	commit func(commit *firestorepb.CommitRequest, apply func() error) error // instead of a commit; nil: apply
	send   func(request any) error                                           // before the request of a stream, which it may change; nil: nothing
}

// dial returns the options of a connection that has the faults.
func (f faults) dial() []grpc.DialOption {
	unary := func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, o ...grpc.CallOption) error {
		apply := func() error { return invoke(ctx, method, request, reply, conn, o...) }
		commit, ok := request.(*firestorepb.CommitRequest)
		if ok && f.commit != nil {
			return f.commit(commit, apply)
		}
		return apply()
	}
	stream := func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, o ...grpc.CallOption) (grpc.ClientStream, error) {
		s, err := open(ctx, desc, conn, method, o...)
		return &faultyStream{s, f}, err
	}
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(unary), grpc.WithChainStreamInterceptor(stream)}
}

type faultyStream struct {
	grpc.ClientStream
	faults
}

func (s *faultyStream) SendMsg(request any) error {
	if s.send != nil {
		if err := s.send(request); err != nil {
			return err
		}
	}
	return s.ClientStream.SendMsg(request)
}

// writesTo reports whether a commit writes a document whose path has the part, and deletes none.
func writesTo(commit *firestorepb.CommitRequest, part string) bool {
	return slices.ContainsFunc(commit.Writes, func(w *firestorepb.Write) bool {
		name := w.GetUpdate().GetName() + w.GetTransform().GetDocument() // one of them
		return name != "" && strings.Contains(name, part)
	})
}

func deletes(commit *firestorepb.CommitRequest) bool {
	return slices.ContainsFunc(commit.Writes, func(w *firestorepb.Write) bool { return w.GetDelete() != "" })
}

var errDenied = status.Error(codes.PermissionDenied, "Missing or insufficient permissions.")

// between stands between the relay and the functions. It gives each request to serve, with what
// sends the request on and returns the status of the answer. The function that between returns ends
// that, once all events are acknowledged.
func (d *deployedDemo) between(t *testing.T, serve func(w http.ResponseWriter, r *http.Request, send func() int)) (end func()) {
	t.Helper()
	functions := d.stack.Process(0).URL("RollUpOnWrite")
	forward := func(r *http.Request, body []byte) int {
		request, err := http.NewRequest(http.MethodPost, functions+"?"+r.URL.RawQuery, bytes.NewReader(body))
		if err != nil {
			t.Error(err)
			return http.StatusInternalServerError
		}
		request.Header = r.Header
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return http.StatusBadGateway
		}
		defer response.Body.Close()
		return response.StatusCode
	}

	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		serve(w, r, func() int { return forward(r, body) })
	}))
	d.stack.Relay.SetTargets([]string{proxy.URL})
	return func() {
		d.stack.Relay.SetTargets([]string{functions})
		d.forget(t)
		proxy.Close()
	}
}

// relayed gives an event that cannot be sent as headers, because an id in it ends in a space, to
// push, with what sends the last event again that came for the id without the space. The function
// that relayed returns ends that.
func (d *deployedDemo) relayed(t *testing.T, push func(w http.ResponseWriter, again func() int)) (end func()) {
	t.Helper()
	var again atomic.Pointer[func() int]
	return d.between(t, func(w http.ResponseWriter, r *http.Request, send func() int) {
		switch {
		case r.Header.Get("Content-Type") == "application/json":
			push(w, *again.Load())
			return
		case strings.Contains(r.Header.Get("Ce-Document"), "-space/"):
			again.Store(&send)
		}
		w.WriteHeader(send())
	})
}

// The demo on a project is exact, and leaves nothing behind, however it ends. So are the questions
// of the first hour.
func TestDemoOnProject(t *testing.T) {
	d := newDeployedDemo(t)
	for _, test := range []struct {
		name string
		run  func(*deployedDemo, *testing.T)
	}{
		{"exact", (*deployedDemo).exact},
		{"a trigger that is too new", (*deployedDemo).tooNew},
		{"asks first", (*deployedDemo).asksFirst},
		{"answers", (*deployedDemo).answers},
		{"answers that are no", (*deployedDemo).answersNo},
		{"answers of Enterprise", (*deployedDemo).answersOfEnterprise},
		{"increments in doubt", (*deployedDemo).doubts},
		{"the first increment in doubt", (*deployedDemo).doubtsFirst},
		{"interrupted while it writes", (*deployedDemo).interruptedWriting},
		{"Firestore takes no write", (*deployedDemo).takesNothing},
		{"the account may not write", (*deployedDemo).mayNotWrite},
		{"the deletion fails", (*deployedDemo).failsToDelete},
		{"the functions are silent", (*deployedDemo).silent},
	} {
		t.Run(test.name, func(t *testing.T) {
			restore := d.Snapshot()
			test.run(d, t)
			restore()
			d.clean(t)
		})
	}
}

func (d *deployedDemo) exact(t *testing.T) {
	r := d.demo(t.Context(), faults{}, "--yes", "--rate=100", "--increments=40")
	if r.status != 0 || strings.Count(r.out, "exact\n") != 2 {
		t.Errorf("status %d:\n%s%s", r.status, r.logs, r.out)
	}
	for _, want := range []string{
		`(?m)^counters/tally-demo-[a-z0-9]{8}|rollups/tally-demo-[a-z0-9]{8} +count +21 +21  exact$`,
		`(?m)^posts/tally-demo-[a-z0-9]{8} +likes +21 +21  exact$`,
	} {
		if !regexp.MustCompile(want).MatchString(r.out) {
			t.Errorf("there is no %s in\n%s", want, r.out)
		}
	}
}

// A trigger that was made just now delivers nothing of what was written before it works. So the
// demo writes again.
func (d *deployedDemo) tooNew(t *testing.T) {
	var came sync.Map // collections of which an event came
	defer d.between(t, func(w http.ResponseWriter, r *http.Request, send func() int) {
		_, working := came.LoadOrStore(path.Dir(r.Header.Get("Ce-Document")), true)
		if working {
			w.WriteHeader(send())
		}
	})()

	r := d.demo(t.Context(), faults{}, "--yes", "--json", "--rate=100", "--increments=4", "--timeout=50s")
	report := r.report(t)
	if len(report.Parts) != 2 || !report.Exact || report.Error != "" {
		t.Fatalf("status %d:\n%s%s", r.status, r.logs, r.out)
	}
	for _, p := range report.Parts {
		if p.Written < 4 {
			t.Errorf("%+v, want two first writes and two more", p)
		}
	}
}

// Without --yes it says where it would write, and asks. There is no answer.
func (d *deployedDemo) asksFirst(t *testing.T) {
	never := func(commit *firestorepb.CommitRequest, _ func() error) error {
		t.Errorf("%v is written", commit)
		return errDenied
	}
	r := d.demo(t.Context(), faults{commit: never})
	if r.status != 1 || !strings.Contains(r.logs, "Go on? [y/N]") || !strings.Contains(r.logs, terminal.ErrUnconfirmed.Error()) || r.out != "" {
		t.Errorf("status %d:\n%s%s", r.status, r.logs, r.out)
	}
	for _, want := range []string{"In project my-project, database (default) in nam5", "counters/tally-demo-", "posts/tally-demo-", "150 writes, 5 a second",
		"Triggers of the app's own on these collections see the documents, too.", "right after a deployment for up to ten minutes more", "1,000 writes cost a few cents."} {
		if !strings.Contains(r.logs, want) {
			t.Errorf("it does not say %s:\n%s", want, r.logs)
		}
	}
}

// An increment whose answer is lost may be in the total or not.
func (d *deployedDemo) doubts(t *testing.T) {
	var increments atomic.Int64
	f := faults{commit: func(commit *firestorepb.CommitRequest, apply func() error) error {
		err := apply()
		if writesTo(commit, "/shards/") && increments.Add(1) == 2 {
			return status.Error(codes.Unavailable, "the answer is lost")
		}
		return err
	}}

	r := d.demo(t.Context(), f, "--yes", "--json", "--rate=100", "--increments=4", "--timeout=60s")
	report := r.report(t)
	if r.status != 0 || len(report.Parts) != 2 || !report.Exact {
		t.Fatalf("status %d:\n%s%s", r.status, r.logs, r.out)
	}
	if counter := report.Parts[0]; counter.Written != 2 || counter.InDoubt != 1 || counter.RolledUp != 3 {
		t.Errorf("counter %+v, want one of three increments in doubt", counter)
	}
}

// Without a write that was acknowledged there is nothing to wait for.
func (d *deployedDemo) doubtsFirst(t *testing.T) {
	f := faults{commit: func(commit *firestorepb.CommitRequest, apply func() error) error {
		if writesTo(commit, "/shards/") {
			_ = apply()
			return status.Error(codes.Internal, "the answer is lost")
		}
		return apply()
	}}
	r := d.demo(t.Context(), f, "--yes")
	if r.status != 1 || !strings.Contains(r.logs, "it is unknown whether the first increment of counters/tally-demo-") {
		t.Errorf("status %d: %s%s", r.status, r.logs, r.out)
	}
}

// Ctrl-C in the middle of the load.
func (d *deployedDemo) interruptedWriting(t *testing.T) {
	ctx, interrupt := context.WithCancelCause(t.Context())
	var commits atomic.Int64
	f := faults{commit: func(_ *firestorepb.CommitRequest, apply func() error) error {
		if commits.Add(1) == 20 {
			interrupt(fmt.Errorf("interrupted"))
		}
		return apply()
	}}
	r := d.demo(ctx, f, "--yes", "--json", "--rate=1000", "--increments=100000")
	if report := r.report(t); r.status != interrupted || report.Error != "interrupted" || len(report.Left) > 0 {
		t.Errorf("status %d: %s%s", r.status, r.logs, r.out)
	}
}

func (d *deployedDemo) takesNothing(t *testing.T) {
	f := faults{commit: func(commit *firestorepb.CommitRequest, apply func() error) error {
		if writesTo(commit, "tally-demo-") {
			return status.Error(codes.Unavailable, "it never succeeds")
		}
		return apply()
	}}
	r := d.demo(t.Context(), f, "--yes", "--timeout=2s")
	if r.status != 1 || !strings.Contains(r.logs, "no write succeeded within 200ms") || strings.Contains(r.logs, "--once") || r.out != "" {
		t.Errorf("status %d: %s%s", r.status, r.logs, r.out)
	}
}

func (d *deployedDemo) mayNotWrite(t *testing.T) {
	f := faults{commit: func(*firestorepb.CommitRequest, func() error) error { return errDenied }}
	r := d.demo(t.Context(), f, "--yes", "--json")
	const role = "the account needs the role roles/datastore.user"
	if report := r.report(t); r.status != 1 || !strings.Contains(report.Error, role) || !strings.Contains(r.logs, role) || len(report.Left) > 0 {
		t.Errorf("status %d: %s%s", r.status, r.logs, r.out)
	}
}

// If the deletion fails, the result is told all the same, and what deletes the rest.
func (d *deployedDemo) failsToDelete(t *testing.T) {
	f := faults{commit: func(commit *firestorepb.CommitRequest, apply func() error) error {
		if deletes(commit) {
			return errDenied
		}
		return apply()
	}}
	r := d.demo(t.Context(), f, "--yes", "--rate=100", "--increments=4")
	commands := regexp.MustCompile(`firebase firestore:delete --recursive --force [^\n]* '?((?:counters|rollups|posts)/tally-demo-[a-z0-9-]* ?)'?\n`).FindAllStringSubmatch(r.logs, -1)
	if r.status != 1 || strings.Count(r.out, "exact\n") != 2 || len(commands) < 3 {
		t.Errorf("status %d, %d commands:\n%s%s", r.status, len(commands), r.logs, r.out)
	}

	// The commands name all that is left.
	client := d.stack.Clients[0]
	for path := range d.documents(t) {
		below := func(command []string) bool { return path == command[1] || strings.HasPrefix(path, command[1]+"/") }
		if slices.ContainsFunc(commands, below) {
			if _, err := client.Doc(path).Delete(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
	d.forget(t)
}

// Functions that do not answer are told, with the command that tells more.
func (d *deployedDemo) silent(t *testing.T) {
	functions := d.stack.Process(0).URL("RollUpOnWrite")
	d.stack.Relay.SetTargets(nil)
	r := d.demo(t.Context(), faults{}, "--yes", "--timeout=20s")
	d.stack.Relay.SetTargets([]string{functions})
	d.forget(t)
	if r.status != 1 || !strings.Contains(r.logs, trial.ErrSilent.Error()+" within 21s") || !strings.Contains(r.logs, "tally doctor --project=my-project") {
		t.Errorf("status %d: %s%s", r.status, r.logs, r.out)
	}
}

// The help of demo explains each key of the report.
func TestDemoReportKeys(t *testing.T) {
	page, err := command.Pages.ReadFile("help/demo.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "With --project")
	for _, of := range []any{trial.Report{}, trial.PartResult{}} {
		for _, field := range reflect.VisibleFields(reflect.TypeOf(of)) {
			key, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if !regexp.MustCompile(`\b` + key + `\b`).MatchString(text) {
				t.Errorf("it does not explain %s", key)
			}
		}
	}
}

// Flags of the other demo are refused, and what cannot be tried.
func TestDemoFlags(t *testing.T) {
	t.Setenv(firestorestore.EmulatorHost, "")
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--yes"}, "--yes: only with --project"},
		{[]string{"--timeout=5s"}, "--timeout: only with --project"},
		{[]string{"--project=my-project", "--kill"}, "--kill: not with --project"},
		{[]string{"--project=my-project", "--num-shards=auto"}, "--num-shards auto: not with --project"},
		{[]string{"--project=my-project", "--timeout=0"}, "--timeout 0s: want more than 0"},
		{[]string{"--project=my-project", "--rate=0"}, "--rate 0: want more than 0"},
		{[]string{"--project=My_Project"}, `"My_Project" is not a project id`},
	} {
		var out bytes.Buffer
		status := run(t.Context(), append([]string{"demo"}, test.args...), &out, &out)
		if status != 1 || !strings.Contains(out.String(), test.want) {
			t.Errorf("%s: status %d, want %s: %s", test.args, status, test.want, &out)
		}
	}

	t.Setenv(firestorestore.EmulatorHost, "127.0.0.1:1")
	var out bytes.Buffer
	status := run(t.Context(), []string{"demo", "--project=my-project"}, &out, &out)
	if status != 1 || !strings.Contains(out.String(), "FIRESTORE_EMULATOR_HOST=127.0.0.1:1: --project is not for an emulator") {
		t.Errorf("on an emulator: status %d: %s", status, &out)
	}
}

// A demo needs credentials, and functions that the user may read.
func TestDemoOnUnreadableProject(t *testing.T) {
	t.Setenv(firestorestore.EmulatorHost, "")
	c := newCloud(t)
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere")
	c.signedOut = true
	if printed := c.want(1, "demo", "--project=my-project"); !strings.Contains(printed, "gcloud auth application-default login") {
		t.Error(printed)
	}

	c.signedOut = false
	if printed := c.want(1, "demo", "--project=my-project"); !strings.Contains(printed, "no functions are deployed in project my-project; this deploys them:\n  tally deploy --project=my-project") {
		t.Error(printed)
	}
	c.Enable("cloudfunctions.googleapis.com")
	c.Fail("cloudfunctions.googleapis.com", "ListFunctions", status.Error(codes.PermissionDenied, "The caller does not have permission"), -1)
	if printed := c.want(1, "demo", "--project=my-project"); !strings.Contains(printed, "--role=roles/cloudfunctions.viewer") {
		t.Error(printed)
	}
}
