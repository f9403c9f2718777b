//go:build unix

package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/admin/adminpb"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	root "github.com/firestore-tally/tally"
	"github.com/firestore-tally/tally/cmd/tally/settings"
	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/internal/test/googletest"
	"github.com/firestore-tally/tally/internal/tool/local/emulator"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/googleapis/gax-go/v2"
	"google.golang.org/api/option"
	htransport "google.golang.org/api/transport/http"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// A maintainer's first hour on a real project, in one command:
//
//	go test ./cmd/tally -run '^TestFirstHour$' -project my-project -answers answers.jsonl -timeout 2h -v
//
// It deploys, runs the demo, asks what no emulator answers, has doctor look, and takes all of it
// away again. The project needs a Firestore database of either edition, should serve nothing else,
// and costs some cents. docs/design/production.md says what each answer settles. Without -project
// the same hour runs on googletest and an emulator.
var (
	hourProject  = flag.String("project", "", "of TestFirstHour: a real project; empty: googletest and an emulator")
	hourDatabase = flag.String("database", firestore.DefaultDatabaseID, "of TestFirstHour: the database of the real project")
	hourAnswers  = flag.String("answers", "answers.jsonl", "of TestFirstHour on a real project: file for all answers, without tokens, documents and secrets")
)

// An hour is a first hour at work.
type hour struct {
	ctx      context.Context
	project  string
	database string
	edition  route.Edition // of the database
	at       settings.Endpoints
	recorded *json.Encoder
	program  program
	client   *http.Client // signs in to Google's APIs
	say      func(format string, args ...any)
	call     func(command string, f func(context.Context)) // calls a command's function
	demo     []string                                      // flags of the demo
	slack    time.Duration                                 // see questioner
}

// in returns a context in which commands work on the hour's project.
func (h *hour) in(ctx context.Context) context.Context {
	return context.WithValue(settings.WithEndpoints(ctx, h.at), programKey{}, h.program)
}

// newHour returns an hour on a database, whose calls of Google's APIs are recorded.
func newHour(t *testing.T, project, database string, at settings.Endpoints, out io.Writer) *hour {
	t.Helper()
	o, err := at.SignIn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	client, _, err := htransport.NewClient(t.Context(), o...)
	if err != nil {
		t.Fatal(err)
	}
	h := &hour{project: project, database: database, recorded: json.NewEncoder(out), program: program{source: echoing(t)}, say: t.Logf, slack: 20 * time.Second}
	h.client = &http.Client{Transport: &recorder{base: client.Transport, out: h.recorded}}
	h.at = at
	h.at.APIs = []option.ClientOption{option.WithHTTPClient(h.client)}
	h.ctx = h.in(t.Context())
	h.call = func(_ string, f func(context.Context)) { f(h.ctx) }

	var found struct {
		Edition string `json:"databaseEdition"`
	}
	if err := h.get("firestore.googleapis.com/v1/projects/"+project+"/databases/"+database, &found); err != nil {
		t.Fatal(err)
	}
	if found.Edition == adminpb.Database_ENTERPRISE.String() {
		h.edition = route.Enterprise
	}
	return h
}

// get reads a resource of Google's.
func (h *hour) get(name string, into any) error {
	response, err := h.client.Get("https://" + name)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", name, response.Status)
	}
	return json.NewDecoder(response.Body).Decode(into)
}

// settings returns the tally.yaml of the hour, with the routes that the demo tries.
func (h *hour) settings() []byte {
	const routes = "routes: |\n  counters/{counter}/shards/{shard} -> rollups/{counter} : count\n  posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing\n"
	return fmt.Appendf(nil, "%sdatabases: ['%s']\nedition: %s\n", routes, h.database, h.edition)
}

// echoSource is a file of package tally.
//
//go:embed testdata/hour/echo.go.txt
var echoSource []byte

// echoing returns the functions' source, with an echo of how requests come.
func echoing(t *testing.T) fstest.MapFS {
	t.Helper()
	source := make(fstest.MapFS)
	err := fs.WalkDir(root.Source, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := root.Source.ReadFile(name)
		source[name] = &fstest.MapFile{Data: text}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}

	const plain, echo = `functions.HTTP("RollUpOnWrite", RollUpOnWrite)`, `functions.HTTP("RollUpOnWrite", echoed(RollUpOnWrite))`
	functions := strings.Replace(string(source["functions.go"].Data), plain, echo, 1)
	if !strings.Contains(functions, echo) {
		t.Fatalf("functions.go does not hold %s", plain)
	}
	source["functions.go"] = &fstest.MapFile{Data: []byte(functions)}
	source["echo.go"] = &fstest.MapFile{Data: echoSource}
	return source
}

// step runs a command, and keeps how it ended.
func (h *hour) step(args ...string) (ok bool) {
	var out bytes.Buffer
	args = append(args, "--project", h.project)
	status := 0
	h.call(args[0], func(ctx context.Context) { status = run(ctx, args, &out, &out) })
	h.say("tally %s: exit status %d\n%s", strings.Join(args, " "), status, &out)
	h.keep(map[string]any{"step": args[0], "exit_status": status})
	return status == 0
}

func (h *hour) keep(v any) {
	if err := h.recorded.Encode(v); err != nil {
		h.say("not recorded: %v", err)
	}
}

// run runs the hour, and returns what did not go as expected. It undeploys whatever happens before.
func (h *hour) run() (failed []string) {
	step := func(args ...string) bool {
		ok := h.step(args...)
		if !ok {
			failed = append(failed, args[0])
		}
		return ok
	}
	defer step("undeploy", "--yes")
	if !step("deploy", "--yes") {
		return failed
	}

	step(append([]string{"demo", "--yes", "--json"}, h.demo...)...)
	for _, a := range h.ask() {
		h.say("%s: %s: %s", a.Asks, a.Answer, a.Seen)
		h.keep(a)
		if a.Answer == "no" {
			failed = append(failed, a.Asks)
		}
	}
	step("doctor", "--json")
	return failed
}

// An answer is a project's to a question that no emulator answers.
type answer struct {
	Asks   string `json:"asks"`
	Answer string `json:"answer"` // "yes" is what Tally expects; "no"; "not looked": it could not be asked
	Seen   string `json:"seen"`
}

// A questioner asks a project with a client of its own, below an id of its own.
type questioner struct {
	*hour
	ctx     context.Context
	id      string
	store   *firestorestore.Store
	client  *firestore.Client // sends any query
	written []string
	patient time.Duration // how long it waits for a roll-up
	slack   time.Duration // it waits for so much longer than ten times what the first took
}

// open opens the database.
func (h *hour) open(ctx context.Context, dial ...grpc.DialOption) (*firestorestore.Store, error) {
	return firestorestore.OpenEdition(ctx, h.edition, h.at.Firestore, h.project, h.database, slog.New(slog.DiscardHandler), append(dial, h.at.Dial...)...)
}

// ask asks all questions, or those that are named, and deletes what it wrote for them.
func (h *hour) ask(named ...string) (all []answer) {
	const most = 10 * time.Minute // new triggers and roles take as long
	ctx, cancel := context.WithTimeout(h.ctx, 4*most)
	defer cancel()
	store, err := h.open(ctx)
	if err != nil {
		return []answer{{"can Firestore be reached?", "not looked", err.Error()}}
	}
	defer store.Close()
	client, err := firestorestore.Dial(ctx, h.at.Firestore, h.project, h.database, h.at.Dial...)
	if err != nil {
		return []answer{{"can Firestore be reached?", "not looked", err.Error()}}
	}
	defer client.Close()
	q := &questioner{hour: h, ctx: ctx, id: fmt.Sprint("tally-hour-", time.Now().Unix()), store: store, client: client, patient: most, slack: h.slack}
	if h.at.Firestore != "" {
		q.patient = emulatortest.Eventually()
	}
	defer q.forget()

	type question struct {
		asks string
		find func() (answer, seen string)
	}
	questions := []question{
		{asksSpace, q.spaces},
		{asksInstant, q.instant},
		{asksOffset, q.offset},
		{"how does an event come?", q.echo},
		{"how late do roll-ups come?", q.lag},
	}
	if h.edition == route.Enterprise {
		questions = append(questions, question{asksLock, q.locks}, question{asksNames, q.names}, question{asksScan, q.scans})
	}
	for _, ask := range questions {
		if len(named) == 0 || slices.Contains(named, ask.asks) {
			found, seen := ask.find()
			all = append(all, answer{ask.asks, found, seen})
		}
	}
	return all
}

// put writes a shard that adds 1, and returns when that was committed.
func (q *questioner) put(path string) (time.Time, error) {
	q.written = append(q.written, path)
	result, err := q.client.Doc(path).Set(q.ctx, map[string]any{"count": 1})
	if err != nil {
		return time.Time{}, err
	}
	return result.UpdateTime, nil
}

// covers waits until the roll-up of a counter covers a time; not for longer than is patient.
func (q *questioner) covers(counter string, at time.Time) bool {
	ctx, cancel := context.WithTimeout(q.ctx, q.patient)
	defer cancel()
	for ctx.Err() == nil {
		doc, err := q.client.Doc("rollups/" + counter).Get(ctx)
		if err == nil && !document.DecodeTally(doc.Data()[document.TallyField]).AsOf.Before(at) {
			return true
		}
		_ = gax.Sleep(ctx, 100*time.Millisecond)
	}
	return false
}

// spaces asks under which id a document arrives whose ids end in a space: no HTTP header can hold
// such an id, so its event comes in another form. An audit makes a roll-up too, but not two in a
// row.
func (q *questioner) spaces() (string, string) {
	trimmed, spaced := q.id+"-space", q.id+"-space "
	at, err := q.put("counters/" + trimmed + "/shards/0")
	began := time.Now()
	if err != nil || !q.covers(trimmed, at) {
		return "not looked", fmt.Sprintf("no roll-up of %q came: %v", trimmed, err)
	}
	q.patient = min(q.patient, q.slack+10*time.Since(began))
	for n := range 2 {
		at, err := q.put(fmt.Sprintf("counters/%s/shards/%d ", spaced, n))
		switch {
		case err != nil:
			return "not looked", err.Error()
		case q.covers(spaced, at):
			continue
		}
		if q.covers(trimmed, at) {
			return "no", fmt.Sprintf("only %q changed", "rollups/"+trimmed)
		}
		return "no", "no roll-up changed"
	}
	return "yes", fmt.Sprintf("%q", "rollups/"+spaced)
}

// instant asks whether a sum has what was written before the first read of its transaction, and
// nothing that was written after that.
func (q *questioner) instant() (string, string) {
	routes, err := route.Parse(route.Default)
	if err != nil {
		return "not looked", err.Error()
	}
	collection := "counters/" + q.id + "/shards"
	counter, _ := routes[0].Counter(collection)
	for n := range 3 {
		snapshot, err := q.store.View(q.ctx, counter)
		if err != nil {
			return "not looked", err.Error()
		}
		if _, err := q.put(fmt.Sprint(collection, "/", n)); err != nil {
			return "not looked", err.Error()
		}
		totals, err := snapshot.Sum(q.ctx)
		if err != nil {
			return "not looked", err.Error()
		}
		if sum, _ := totals.Values["count"].Int64(); sum != int64(n) {
			return "no", fmt.Sprintf("a sum of %d, where %d were written before the read", sum, n)
		}
	}
	return "yes", "that, 3 times"
}

// Questions that have an answer no, the last three only of a database of the Enterprise edition.
const (
	asksSpace   = "does an id that ends in a space arrive as it is?"
	asksInstant = "does a sum see the instant of its transaction's first read?"
	asksOffset  = "do the rules see a query's offset?"

	asksLock  = "does a transaction that asks for a lock have it?"
	asksNames = "does a walk along names use its index?"
	asksScan  = "is a query without its index answered?"
)

// locks asks whether somebody else's write waits while Tally writes a roll-up in a lock. That write
// comes before Tally's transaction commits.
func (q *questioner) locks() (string, string) {
	at, err := q.put("counters/" + q.id + "-lock/shards/0")
	if err != nil || !q.covers(q.id+"-lock", at) {
		return "not looked", fmt.Sprintf("no roll-up came: %v", err)
	}

	var other error
	var waited time.Duration
	write := func() {
		ctx, cancel := context.WithTimeout(q.ctx, min(q.slack, 5*time.Second))
		defer cancel()
		began := time.Now()
		_, other = q.client.Doc("rollups/"+q.id+"-lock").Update(ctx, []firestore.Update{{Path: "other", Value: true}})
		waited = time.Since(began).Round(time.Millisecond)
	}
	store, err := q.open(q.ctx, faults{commit: func(_ *firestorepb.CommitRequest, apply func() error) error {
		write()
		return apply()
	}}.dial()...)
	if err != nil {
		return "not looked", err.Error()
	}
	defer store.Close()
	routes, err := route.Parse(route.Default)
	if err != nil {
		return "not looked", err.Error()
	}
	counter, _ := routes[0].Counter("counters/" + q.id + "-lock/shards")
	snapshot, err := store.View(q.ctx, counter)
	if err != nil {
		return "not looked", err.Error()
	}

	err = store.WriteLocked(q.ctx, counter, snapshot.RollUp(), snapshot.RollUp().Tally)
	seen := fmt.Sprintf("the other write took %v: %v; Tally's: %v", waited, other, err)
	if other == nil || err != nil {
		return "no", seen
	}
	return "yes", seen
}

// names asks by which index a query goes that walks along names, as an audit does.
func (q *questioner) names() (string, string) {
	walk := q.client.CollectionGroup("likes").OrderBy(firestore.DocumentID, firestore.Asc).Limit(1)
	plan, err := q.plan(walk)
	switch {
	case err != nil:
		return "not looked", err.Error()
	case strings.Contains(plan, "TableScan"):
		return "no", plan
	}
	return "yes", plan
}

// plan returns how Firestore runs a query
// (https://docs.cloud.google.com/firestore/native/docs/enterprise-query-explain-reference).
func (q *questioner) plan(query firestore.Query) (string, error) {
	ran := q.client.Pipeline().CreateFromQuery(query).Execute(q.ctx, firestore.WithExplainMode(firestore.ExplainModeAnalyze))
	if _, err := ran.Results().GetAll(); err != nil {
		return "", err
	}
	text, err := ran.ExplainStats().Text()
	if err == nil && text == "" {
		err = errors.New("no plan came")
	}
	return text, err
}

// scans asks whether Firestore answers a query that no index serves. Tally sends none. If Firestore
// refuses it, that rule has no purpose.
func (q *questioner) scans() (string, string) {
	_, err := q.client.Collection("posts").Where(q.id, "==", true).Limit(1).Documents(q.ctx).GetAll()
	if err != nil {
		return "no", err.Error()
	}
	return "yes", "it found nothing"
}

// lag asks how late roll-ups are of changes that come alone: from the answer to a write until a
// read finds the roll-up that covers it.
func (q *questioner) lag() (string, string) {
	const writes = 20
	counter := q.id + "-lag" // of its own: a write that changes nothing has no event
	var lags []time.Duration
	for n := range writes {
		at, err := q.put(fmt.Sprintf("counters/%s/shards/%d", counter, n))
		if err != nil {
			return "not looked", err.Error()
		}
		written := time.Now()
		if !q.covers(counter, at) {
			return "no", fmt.Sprintf("no roll-up came within %v", q.patient)
		}
		lags = append(lags, time.Since(written).Round(time.Millisecond))
	}
	slices.Sort(lags)
	return "yes", fmt.Sprintf("median %v, at most %v, of %d", lags[writes/2], lags[writes-1], writes)
}

// offset asks whether rules that ask for a query's offset refuse a list that has one. It lists as a
// client that is not signed in.
func (q *questioner) offset() (string, string) {
	base := "https://firestore.googleapis.com"
	if q.at.Firestore != "" {
		base = "http://" + q.at.Firestore
	}
	address := base + (&url.URL{Path: path.Join("/v1/projects", q.project, "databases", q.database, "documents:runQuery")}).EscapedPath()
	var statuses []int
	for _, body := range []string{`"limit": 1`, `"limit": 1, "offset": 1`} {
		body = `{"structuredQuery": {"from": [{"collectionId": "rollups"}], ` + body + `}}`
		response, err := http.Post(address, "application/json", strings.NewReader(body))
		if err != nil {
			return "not looked", err.Error()
		}
		response.Body.Close()
		statuses = append(statuses, response.StatusCode)
	}

	seen := fmt.Sprintf("%d without an offset, %d with one", statuses[0], statuses[1])
	switch {
	case statuses[0] != http.StatusOK:
		return "not looked", seen + ": the rules refuse every list, or none are deployed"
	case statuses[1] == http.StatusForbidden:
		return "yes", seen
	}
	return "no", seen + ": rules that do not ask for request.query.offset answer so, too"
}

// echo reads from the functions' log how a request came.
func (q *questioner) echo() (string, string) {
	const filter = `resource.type="cloud_run_revision" AND resource.labels.service_name="tally-on-write" AND jsonPayload.message="request of the first hour"`
	body, err := json.Marshal(map[string]any{"resourceNames": []string{"projects/" + q.project}, "filter": filter, "pageSize": 5})
	if err != nil {
		return "not looked", err.Error()
	}
	response, err := q.hour.client.Post("https://logging.googleapis.com/v2/entries:list", "application/json", bytes.NewReader(body))
	if err != nil {
		return "not looked", err.Error()
	}
	defer response.Body.Close()
	var found struct {
		Entries []struct {
			JSONPayload struct {
				Query   string            `json:"query"`
				Headers map[string]string `json:"headers"`
				Bytes   int64             `json:"bytes"`
			} `json:"jsonPayload"`
		} `json:"entries"`
	}
	err = json.NewDecoder(response.Body).Decode(&found)
	if err != nil || len(found.Entries) == 0 {
		return "not looked", fmt.Sprintf("the log has no such line: %s, %v", response.Status, err)
	}
	text, err := json.Marshal(found.Entries)
	return "yes", fmt.Sprint(string(text), orNothing(err))
}

func orNothing(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// forget deletes what was written, and then the roll-ups. An event that comes later makes an empty
// roll-up again, which an audit deletes.
func (q *questioner) forget() {
	rollUps := make(map[string]bool)
	var deleted time.Time
	for _, name := range q.written {
		result, err := q.client.Doc(name).Delete(q.ctx)
		if err != nil {
			q.say("not deleted: %s: %v", name, err)
			continue
		}
		deleted = result.UpdateTime
		rollUps[strings.Split(name, "/")[1]] = true
	}
	q.patient = min(q.patient, 20*time.Second)
	for counter := range rollUps {
		q.covers(counter, deleted)
		if _, err := q.client.Doc("rollups/" + counter).Delete(q.ctx); err != nil {
			q.say("not deleted: %s: %v", counter, err)
		}
	}
}

// TestFirstHour is the hour: on a real project, if the flag names one.
func TestFirstHour(t *testing.T) {
	if *hourProject == "" {
		firstHourHere(t)
		return
	}
	t.Setenv(firestorestore.EmulatorHost, "")
	out, err := os.OpenFile(abs(t, *hourAnswers), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	h := newHour(t, *hourProject, *hourDatabase, settings.Endpoints{}, out)
	t.Chdir(t.TempDir())
	write(t, "tally.yaml", h.settings())
	if failed := h.run(); len(failed) > 0 {
		t.Errorf("not as expected: %s", strings.Join(failed, ", "))
	}
}

// firstHourHere runs the hour on googletest and an emulator, in which functions of this machine
// roll up.
func firstHourHere(t *testing.T) {
	d := newDeployedDemo(t)
	d.want(0, "undeploy", "--yes")
	d.log([]byte(`{"message":"request of the first hour","query":"","headers":{"Content-Type":"application/protobuf"},"bytes":7}`))
	var recorded bytes.Buffer
	h := newHour(t, "my-project", firestore.DefaultDatabaseID, settings.Endpoints{APIs: d.REST(), Firestore: d.stack.Addr, Judge: content}, &recorded)
	h.demo = []string{"--rate=100", "--increments=20"}
	h.call = func(command string, f func(context.Context)) {
		if command == "demo" { // the emulator knows no virtual time
			f(h.ctx)
			return
		}
		synctest.Test(t, func(t *testing.T) { f(h.in(t.Context())) }) // waiting takes no time
	}
	if failed := h.run(); len(failed) > 0 {
		t.Errorf("not as expected: %s", strings.Join(failed, ", "))
	}

	for _, want := range []string{
		`{"exit_status":0,"step":"deploy"}`, `{"exit_status":0,"step":"demo"}`, `"step":"doctor"}`, `{"exit_status":0,"step":"undeploy"}`,
		`{"asks":"does an id that ends in a space arrive as it is?","answer":"yes"`, `{"asks":"does a sum see the instant of its transaction's first read?","answer":"yes"`,
		`{"asks":"do the rules see a query's offset?","answer":"yes"`, `{"asks":"how does an event come?","answer":"yes"`, `{"asks":"how late do roll-ups come?","answer":"yes"`,
		`"call":"POST cloudfunctions.googleapis.com/v2/projects/my-project/locations/us-central1/functions`,
		`"call":"DELETE cloudfunctions.googleapis.com/v2/projects/my-project/locations/us-central1/functions`,
	} {
		if !strings.Contains(recorded.String(), want) {
			t.Errorf("no line has %s", want)
		}
	}
	if names := d.Names("functions"); len(names) > 0 {
		t.Errorf("%v are left", names)
	}
}

// The questions are answered yes, and what they wrote is deleted.
func (d *deployedDemo) answers(t *testing.T) {
	h := newHour(t, "my-project", firestore.DefaultDatabaseID, settings.Endpoints{APIs: d.REST(), Firestore: d.stack.Addr, Judge: content}, io.Discard)
	for i, a := range h.ask() {
		want := "yes"
		if i == 3 { // the functions here do not echo
			want = "not looked"
		}
		if a.Answer != want {
			t.Errorf("%+v, want %s", a, want)
		}
	}
	d.forgetHour(t)
}

// A database of the Enterprise edition is asked more. Each answer is no where it does something
// else.
func (d *deployedDemo) answersOfEnterprise(t *testing.T) {
	googletest.Change(d.Google, "projects/my-project/databases/(default)", func(d *adminpb.Database) { d.DatabaseEdition = adminpb.Database_ENTERPRISE })
	refused := func(request any) error {
		if query, ok := request.(*firestorepb.RunQueryRequest); ok && query.GetStructuredQuery().GetWhere() != nil {
			return status.Error(codes.FailedPrecondition, "The query requires an index.")
		}
		return nil
	}
	for _, test := range []struct {
		dial []grpc.DialOption
		want map[string][2]string // answers, and how what was seen begins
	}{
		{nil, map[string][2]string{asksLock: {"yes", "the other write took "}, asksNames: {"not looked", "rpc error: code = "}, asksScan: {"yes", "it found nothing"}}},
		{append(withoutLocks(), planned("• SequentialScan")...), map[string][2]string{asksLock: {"no", "the other write took "}, asksNames: {"yes", "• SequentialScan"}}},
		{append(faults{send: refused}.dial(), planned("• TableScan")...), map[string][2]string{asksNames: {"no", "• TableScan"}, asksScan: {"no", "rpc error: code = FailedPrecondition"}}},
	} {
		h := newHour(t, "my-project", firestore.DefaultDatabaseID, settings.Endpoints{APIs: d.REST(), Firestore: d.stack.Addr, Dial: test.dial, Judge: content}, io.Discard)
		if !strings.Contains(string(h.settings()), "\nedition: enterprise\n") {
			t.Errorf("it deploys by\n%s", h.settings())
		}
		answers := h.ask(slices.Collect(maps.Keys(test.want))...)
		if len(answers) != len(test.want) {
			t.Errorf("got %+v, want %v", answers, test.want)
		}
		for _, a := range answers {
			want := test.want[a.Asks]
			if a.Answer != want[0] || !strings.HasPrefix(a.Seen, want[1]) {
				t.Errorf("%+v, want %s", a, want)
			}
		}
	}
	d.forgetHour(t)
}

// withoutLocks has Firestore ignore that a transaction asks for a lock.
func withoutLocks() []grpc.DialOption {
	ignore := func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, o ...grpc.CallOption) error {
		begin, ok := request.(*firestorepb.BeginTransactionRequest)
		if ok && begin.Options.GetReadWrite() != nil {
			begin.Options.GetReadWrite().ConcurrencyMode = firestorepb.TransactionOptions_OPTIMISTIC
		}
		return invoke(ctx, method, request, reply, conn, o...)
	}
	return append([]grpc.DialOption{grpc.WithChainUnaryInterceptor(ignore)}, (&emulatortest.Enterprise{Optimistic: true}).DialOptions()...)
}

// planned has Firestore tell that it runs queries by a plan.
func planned(plan string) []grpc.DialOption {
	return []grpc.DialOption{grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, o ...grpc.CallOption) (grpc.ClientStream, error) {
		s, err := open(ctx, desc, conn, method, o...)
		if err == nil && method == firestorepb.Firestore_ExecutePipeline_FullMethodName {
			s = &plannedStream{s, plan}
		}
		return s, err
	})}
}

type plannedStream struct {
	grpc.ClientStream
	plan string // "": it was told
}

func (s *plannedStream) RecvMsg(message any) error {
	if s.plan == "" {
		return io.EOF
	}
	text, err := anypb.New(wrapperspb.String(s.plan))
	message.(*firestorepb.ExecutePipelineResponse).ExplainStats = &firestorepb.ExplainStats{Data: text}
	s.plan = ""
	return err
}

// Each answer is no where production does something else.
func (d *deployedDemo) answersNo(t *testing.T) {
	softer := strings.Replace(root.Rules, "request.query.offset == 0", "true", 1)
	if err := emulator.SetRules(t.Context(), d.stack.Addr, "my-project", emulator.DefaultDatabase, softer); err != nil {
		t.Fatal(err)
	}
	latest := func(request any) error { // a sum that sees no snapshot
		if query, ok := request.(*firestorepb.RunAggregationQueryRequest); ok {
			query.ConsistencySelector = nil
		}
		return nil
	}
	for name, test := range map[string]struct {
		push func(w http.ResponseWriter, again func() int)
		want string
	}{
		"it never comes": {func(w http.ResponseWriter, _ func() int) { w.WriteHeader(http.StatusBadRequest) }, "no roll-up changed"},
		"for another id": {func(w http.ResponseWriter, again func() int) { w.WriteHeader(again()) }, "only \"rollups/"},
	} {
		end := d.relayed(t, test.push)
		h := newHour(t, "my-project", firestore.DefaultDatabaseID, settings.Endpoints{APIs: d.REST(), Firestore: d.stack.Addr, Dial: faults{send: latest}.dial(), Judge: content}, io.Discard)
		h.slack = 3 * time.Second // no roll-up comes
		got := h.ask(asksSpace, asksInstant, asksOffset)
		end()
		for i, want := range []string{test.want, "a sum of 1, where 0 were written before the read", "200 without an offset, 200 with one"} {
			if got[i].Answer != "no" || !strings.HasPrefix(got[i].Seen, want) {
				t.Errorf("%s: %+v, want no: %s", name, got[i], want)
			}
		}
	}
	d.forgetHour(t)
	if err := emulator.SetRules(t.Context(), d.stack.Addr, "my-project", emulator.DefaultDatabase, root.Rules); err != nil {
		t.Fatal(err)
	}
}

// forgetHour deletes the roll-ups that came after the questions.
func (d *deployedDemo) forgetHour(t *testing.T) {
	for path := range d.documents(t) {
		if strings.HasPrefix(path, "rollups/tally-hour-") {
			if _, err := d.stack.Clients[0].Doc(path).Delete(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
}

// The recorder keeps every answer, and no token, document or secret. The caller gets all of it.
func TestRecorder(t *testing.T) {
	const answer = `{"state": "ACTIVE", "serviceConfig": {"timeoutSeconds": 60, "environmentVariables": {"TALLY_BURST": "5", "MINE": "s3cret"}},
		"httpTarget": {"uri": "https://tally.run.app/?token=s3cret", "headers": {"Authorization": "s3cret"}, "body": "s3cret"},
		"access_token": "s3cret", "labels": {"auth_token": "s3cret"}, "uploadUrl": "https://storage.googleapis.com/x?X-Goog-Signature=s3cret",
		"bindings": [{"role": "roles/owner", "members": ["user:ann.s3cret@example.org", "serviceAccount:tally-build@my-project.iam.gserviceaccount.com"]}],
		"entries": [{"jsonPayload": {"document": "posts/s3cret"}, "textPayload": "s3cret"}], "source": {"files": [{"content": "s3cret"}]}}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.Contains(r.URL.Path, "/documents"):
			fmt.Fprint(w, `{"fields": {"a": {"stringValue": "s3cret"}}}`)
		case strings.HasSuffix(r.URL.Path, "zip"):
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, "PK s3cret")
		default:
			fmt.Fprint(w, answer)
		}
	}))
	defer server.Close()

	var recorded bytes.Buffer
	base := roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.URL.Path == "/broken" {
			return nil, errors.New("dial ann.s3cret@example.org: broken")
		}
		here := r.Clone(r.Context())
		here.URL.Scheme, here.URL.Host = "http", strings.TrimPrefix(server.URL, "http://")
		return http.DefaultTransport.RoundTrip(here)
	})
	client := &http.Client{Transport: &recorder{base: base, out: json.NewEncoder(&recorded)}}
	for _, at := range []string{"cloudfunctions.googleapis.com/v2/x?token=s3cret", "firestore.googleapis.com/v1/projects/p/databases/d/documents/posts/1", "storage.googleapis.com/a.zip?X-Goog-Signature=s3cret", "run.googleapis.com/broken"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+at, strings.NewReader("s3cret"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer s3cret")
		response, err := client.Do(r)
		if strings.HasSuffix(at, "broken") {
			if err == nil {
				t.Error("no error")
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || !strings.Contains(string(body), "s3cret") {
			t.Errorf("the caller gets %q, %v", body, err)
		}
	}

	for _, want := range []string{
		`"call":"GET cloudfunctions.googleapis.com/v2/x","status":200`, `"state":"ACTIVE"`, `"timeoutSeconds":60`, `"TALLY_BURST":"5"`, `"MINE":"hidden"`,
		`"uri":"https://tally.run.app/hidden"`, `"serviceAccount:tally-build@my-project.iam.gserviceaccount.com"`, `"role":"roles/owner"`, `"user:hidden"`,
		`"call":"GET storage.googleapis.com/a.zip","status":403`, `"answer":"dial hidden: broken"`,
	} {
		if !strings.Contains(recorded.String(), want) {
			t.Errorf("it does not keep %s", want)
		}
	}
	if strings.Contains(recorded.String(), "s3cret") || strings.Count(recorded.String(), "\n") != 4 {
		t.Errorf("it records\n%s", &recorded)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// The echo compiles with the functions' source.
func TestEchoBuilds(t *testing.T) {
	source := echoing(t)
	replaced := make(map[string]string)
	for _, name := range []string{"functions.go", "echo.go"} {
		file := filepath.Join(t.TempDir(), name)
		write(t, file, source[name].Data)
		replaced[abs(t, "../../"+name)] = file
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "overlay.json")
	write(t, file, overlay)
	build := exec.CommandContext(t.Context(), "go", "build", "-overlay", file, ".")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
