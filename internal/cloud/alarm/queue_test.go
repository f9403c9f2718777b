package alarm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/auth"
	"cloud.google.com/go/cloudtasks/apiv2/cloudtaskspb"
	"github.com/firestore-tally/tally/rollup"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

func options() Options {
	return Options{
		Queue:    "projects/app/locations/us-central1/queues/tally",
		URL:      "https://tally-on-write-42.us-central1.run.app",
		Account:  "tally-trigger@app.iam.gserviceaccount.com",
		Emulator: "127.0.0.1:1",
	}
}

func open(t *testing.T, o Options) *Queue {
	t.Helper()
	q, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// serve returns a queue whose calls the handler takes.
func serve(t *testing.T, handler http.HandlerFunc) *Queue {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	o := options()
	o.Emulator = server.Listener.Addr().String()
	return open(t, o)
}

// The request that makes a task is one of Google's protocol buffers.
func TestRequest(t *testing.T) {
	var path, media string
	var sent []byte
	q := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		path, media = r.Method+" "+r.URL.Path, r.Header.Get("Content-Type")
		sent, _ = io.ReadAll(r.Body)
	})
	if err := q.ForDatabase(app).Create(t.Context(), likes()); err != nil {
		t.Fatal(err)
	}

	if want := "POST /v2/projects/app/locations/us-central1/queues/tally/tasks"; path != want || media != "application/json" {
		t.Errorf("%s of %q, want %s", path, media, want)
	}
	got := new(cloudtaskspb.CreateTaskRequest)
	if err := protojson.Unmarshal(sent, got); err != nil { // it refuses unknown fields
		t.Fatalf("%s: %v", sent, err)
	}
	body, err := Encode(app, likes())
	if err != nil {
		t.Fatal(err)
	}
	want := &cloudtaskspb.CreateTaskRequest{Task: &cloudtaskspb.Task{
		Name:             options().Queue + "/tasks/4441368e80f67417d6453f321bcc46925b9c568ff162fa53cacf93ec6aa8e817",
		ScheduleTime:     timestamppb.New(noon),
		DispatchDeadline: durationpb.New(75 * time.Second),
		MessageType: &cloudtaskspb.Task_HttpRequest{HttpRequest: &cloudtaskspb.HttpRequest{
			Url:        "https://tally-on-write-42.us-central1.run.app",
			HttpMethod: cloudtaskspb.HttpMethod_POST,
			Headers:    map[string]string{"Content-Type": "application/json"},
			Body:       body,
			AuthorizationHeader: &cloudtaskspb.HttpRequest_OidcToken{OidcToken: &cloudtaskspb.OidcToken{
				ServiceAccountEmail: "tally-trigger@app.iam.gserviceaccount.com",
				Audience:            "https://tally-on-write-42.us-central1.run.app",
			}},
		}},
	}}
	if d := cmp.Diff(want, got, protocmp.Transform()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// Equal alarms are one task, and others are others.
func TestName(t *testing.T) {
	name := func(o Options, database string, a rollup.Alarm) string {
		t.Helper()
		task, err := open(t, o).task(database, a)
		if err != nil {
			t.Fatal(err)
		}
		return task.Name
	}

	base := name(options(), app, likes())
	// https://docs.cloud.google.com/tasks/docs/reference/rest/v2/projects.locations.queues.tasks#Task
	if !regexp.MustCompile(`^projects/app/locations/us-central1/queues/tally/tasks/[0-9a-f]{64}$`).MatchString(base) {
		t.Errorf("name %q", base)
	}
	same := likes()
	same.At = same.At.In(time.FixedZone("", 3600))
	if got := name(options(), app, same); got != base {
		t.Errorf("in another time zone: %q, want %q", got, base)
	}
	account := options()
	account.Account = ""
	if got := name(account, app, likes()); got != base {
		t.Errorf("of another account: %q, want %q", got, base)
	}

	seen := map[string]string{base: "the base"}
	other := func(what, name string) {
		t.Helper()
		if seen[name] != "" {
			t.Errorf("%s: the task of %s", what, seen[name])
		}
		seen[name] = what
	}
	change := func(f func(a *rollup.Alarm)) rollup.Alarm {
		a := likes()
		f(&a)
		return a
	}
	other("another roll-up", name(options(), app, change(func(a *rollup.Alarm) { a.RollUp = "rollups/views" })))
	other("other routes", name(options(), app, change(func(a *rollup.Alarm) { a.Routes = "2cb6e516cd88dac1" })))
	other("another time", name(options(), app, change(func(a *rollup.Alarm) { a.At = a.At.Add(time.Microsecond) })))
	other("the last one", name(options(), app, change(func(a *rollup.Alarm) { a.Last = true })))
	other("a missing document's", name(options(), app, change(func(a *rollup.Alarm) { a.Missing = 1 })))
	other("salted", name(options(), app, change(func(a *rollup.Alarm) { a.Salt = "x" })))
	other("another database", name(options(), "projects/app/databases/other", likes()))
	o := options()
	o.URL = "https://tally-on-write-42.europe-west1.run.app"
	other("another function", name(o, app, likes()))
	o = options()
	o.Queue = "projects/app/locations/us-central1/queues/other"
	other("another queue", name(o, app, likes()))
}

// Only two answers say that the alarm stands or rang.
func TestAnswers(t *testing.T) {
	answer := func(code int, status, message string) string {
		return fmt.Sprintf(`{"error":{"code":%d,"message":%q,"status":%q}}`, code, message, status)
	}
	for _, test := range []struct {
		status int
		body   string
		want   string // in the error; "": none
	}{
		{200, `{"name":"…"}`, ""},
		{409, answer(409, "ALREADY_EXISTS", "The task cannot be created because a task with this name existed too recently."), ""},
		{409, answer(409, "ABORTED", "Try again."), "409 Conflict: ABORTED: Try again."},
		{409, "", "409 Conflict"},
		{400, answer(400, "FAILED_PRECONDITION", "The queue no longer exists"), "FAILED_PRECONDITION: The queue no longer exists"},
		{403, answer(403, "PERMISSION_DENIED", "lacks iam.serviceAccounts.actAs"), "403 Forbidden: PERMISSION_DENIED: lacks iam.serviceAccounts.actAs"},
		{404, answer(404, "NOT_FOUND", "Requested entity was not found."), "NOT_FOUND"},
		{429, answer(429, "RESOURCE_EXHAUSTED", "Quota exceeded"), "RESOURCE_EXHAUSTED"},
		{302, "", "302 Found"},
		{503, "<html>", "503 Service Unavailable"},
	} {
		q := serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "/elsewhere")
			if r.URL.Path != "/elsewhere" { // which answers 200
				w.WriteHeader(test.status)
			}
			io.WriteString(w, test.body)
		})
		err := q.ForDatabase(app).Create(t.Context(), likes())
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%d %s: %v", test.status, test.body, err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%d %s: %v, want an error with %q", test.status, test.body, err, test.want)
		}
	}
}

// An answer that breaks off is none.
func TestNoAnswer(t *testing.T) {
	q := serve(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	if err := q.ForDatabase(app).Create(t.Context(), likes()); err == nil {
		t.Error("no error")
	}
	q = serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		io.WriteString(w, `{"name":`)
	})
	if err := q.ForDatabase(app).Create(t.Context(), likes()); err == nil {
		t.Error("half an answer: no error")
	}
}

// roundTripper is a network without sockets.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A call that is never answered ends, and so does one whose caller has less time.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := open(t, options())
		q.client.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})

		began := time.Now()
		err := q.ForDatabase(app).Create(t.Context(), likes())
		if took := time.Since(began); took != callTimeout || err == nil || !strings.Contains(err.Error(), "no answer within 2.5s") {
			t.Errorf("after %v: %v", took, err)
		}

		began = time.Now()
		why := errors.New("the event has no time left")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, why)
		defer cancel()
		err = q.ForDatabase(app).Create(ctx, likes())
		if took := time.Since(began); took != time.Second || !errors.Is(err, why) {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

// dying is a network that has forgotten its connections. It counts how often they are closed.
type dying struct {
	roundTripper
	closed int
}

func (d *dying) CloseIdleConnections() { d.closed++ }

// A call that fails has all idle connections closed. Otherwise the alarms that follow would wait on
// connections that died with the first.
func TestDeadConnections(t *testing.T) {
	q := open(t, options())
	d := &dying{roundTripper: func(*http.Request) (*http.Response, error) { return nil, errors.New("connection reset by peer") }}
	q.client.Transport = d
	if err := q.ForDatabase(app).Create(t.Context(), likes()); err == nil || d.closed != 1 {
		t.Errorf("a call that failed: %v, connections closed %d times, want once", err, d.closed)
	}

	d.roundTripper = func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader("")), Request: r}, nil
	}
	if err := q.ForDatabase(app).Create(t.Context(), likes()); err != nil || d.closed != 1 {
		t.Errorf("a call that was answered: %v, connections closed %d times, want no more", err, d.closed)
	}
}

// Cloud Tasks would refuse what is further ahead than its reach.
func TestReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := open(t, options())
		calls := 0
		q.client.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
			calls++
			return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader("")), Request: r}, nil
		})

		alarm := likes()
		alarm.At = time.Now().Add(Reach)
		if err := q.ForDatabase(app).Create(t.Context(), alarm); err != nil || calls != 1 {
			t.Errorf("at the reach: %v, %d calls", err, calls)
		}
		alarm.At = alarm.At.Add(time.Second)
		err := q.ForDatabase(app).Create(t.Context(), alarm)
		if err == nil || !strings.Contains(err.Error(), "it is 720h0m1s ahead, and Cloud Tasks reaches 720h0m0s") || calls != 1 {
			t.Errorf("beyond the reach: %v, %d calls", err, calls)
		}
	})
}

// tokens is a source of tokens.
type tokens func(context.Context) (*auth.Token, error)

func (f tokens) Token(ctx context.Context) (*auth.Token, error) { return f(ctx) }

func TestToken(t *testing.T) {
	var header http.Header
	q := serve(t, func(_ http.ResponseWriter, r *http.Request) { header = r.Header })
	payer := auth.CredentialsPropertyFunc(func(context.Context) (string, error) { return "payer", nil })
	q.credentials = auth.NewCredentials(&auth.CredentialsOptions{
		TokenProvider:          tokens(func(context.Context) (*auth.Token, error) { return &auth.Token{Value: "secret"}, nil }),
		QuotaProjectIDProvider: payer,
	})
	if err := q.ForDatabase(app).Create(t.Context(), likes()); err != nil {
		t.Fatal(err)
	}
	if got, payer := header.Get("Authorization"), header.Get("X-Goog-User-Project"); got != "Bearer secret" || payer != "payer" {
		t.Errorf("authorization %q, quota project %q", got, payer)
	}

	q.credentials = auth.NewCredentials(&auth.CredentialsOptions{
		TokenProvider: tokens(func(context.Context) (*auth.Token, error) { return nil, errors.New("metadata is down") }),
	})
	if err := q.ForDatabase(app).Create(t.Context(), likes()); err == nil || !strings.Contains(err.Error(), "metadata is down") {
		t.Errorf("without a token: %v", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	o := options()
	o.Queue = "tally"
	if _, err := Open(o); err == nil || !strings.Contains(err.Error(), `queue "tally": want its resource name`) {
		t.Error(err)
	}
}

// The queue says whether its alarms are there. One that does not exist has none.
func TestState(t *testing.T) {
	for _, test := range []struct {
		status int
		body   string
		want   State
		fails  bool
	}{
		{200, `{"name": "x", "state": "RUNNING"}`, State{Running: true}, false},
		{200, `{"state": "RUNNING", "purgeTime": "2026-11-27T12:00:00.5Z"}`, State{true, time.Date(2026, 11, 27, 12, 0, 0, 5e8, time.UTC)}, false},
		{200, `{"state": "PAUSED"}`, State{}, false},
		{200, `{"state": "DISABLED"}`, State{}, false},
		{404, `{"error": {"status": "NOT_FOUND"}}`, State{}, false},
		{403, `{"error": {"status": "PERMISSION_DENIED"}}`, State{}, true},
		{200, `<html>`, State{}, true},
	} {
		var asked string
		q := serve(t, func(w http.ResponseWriter, r *http.Request) {
			asked = r.Method + " " + r.URL.Path
			w.WriteHeader(test.status)
			_, _ = io.WriteString(w, test.body)
		})
		got, err := q.State(t.Context())
		if got != test.want || (err != nil) != test.fails || asked != "GET /v2/projects/app/locations/us-central1/queues/tally" {
			t.Errorf("%d %s: %+v, %v; asked %s", test.status, test.body, got, err, asked)
		}
	}
}
