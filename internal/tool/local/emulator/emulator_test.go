//go:build unix

package emulator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/test/needs"
	"github.com/firestore-tally/tally/internal/tool/local/freeport"
)

// These tests run the real emulator of the machine, and fail if there is none. Where they need
// another machine, they put shell scripts in the place of its programs.

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		childMain()
	}
	os.Exit(m.Run())
}

// needJava skips a test that starts Java under -short. Where no emulator can start it ends them
// all.
func needJava(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs the Firestore emulator, which -short goes without")
	}
	if java, jar := find(); java != nil || jar != nil {
		fmt.Fprintln(os.Stderr, needs.Missing(t.Context(), Find))
		os.Exit(1)
	}
}

var find = sync.OnceValues(func() (java, jar error) { return Find(context.Background()) })

// start starts an emulator that the test's end stops.
func start(t *testing.T, o Options) *Emulator {
	t.Helper()
	needJava(t)
	e, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Stop() }) // how it ended is for the test itself to judge
	return e
}

// hold returns a port that no other program gets until the test ends.
func hold(t *testing.T) int {
	t.Helper()
	port, release, err := freeport.Hold(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return port
}

func TestStartAndStop(t *testing.T) {
	needJava(t)
	t.Parallel()
	port := hold(t)
	ctx, cancel := context.WithCancel(t.Context())
	e, err := Start(ctx, Options{Port: port})
	if err != nil {
		t.Fatal(err)
	}
	cancel() // which ends a start, not an emulator that was started
	if got, want := e.Addr(), fmt.Sprintf("127.0.0.1:%d", port); got != want {
		t.Errorf("Addr() = %s, want %s", got, want)
	}
	if err := Check(t.Context(), e.Addr()); err != nil {
		t.Error(err)
	}
	_, err = Start(t.Context(), Options{Port: port})
	wantError(t, err, fmt.Sprintf("port %d is in use", port), "choose another port")
	select {
	case <-e.Done():
		t.Error("done while it runs")
	default:
	}
	java := program(t, e.process)
	if err := syscall.Kill(java, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	paused, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := Check(paused, e.Addr()); err != ErrBusy {
		t.Errorf("a paused emulator: %v, want %v", err, ErrBusy)
	}
	if err := e.Stop(); err != nil {
		t.Errorf("Stop of a paused emulator: %v", err)
	}
	<-e.Done()
	waitGone(t, java)
	if err := e.Stop(); err != nil {
		t.Errorf("Stop again: %v", err)
	}
	if err := Check(t.Context(), e.Addr()); err != ErrAbsent {
		t.Errorf("after Stop: %v, want %v", err, ErrAbsent)
	}
}

func TestMissingRules(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // no Java can be started: the file is missed before that
	path := filepath.Join(t.TempDir(), "none.rules")
	_, err := Start(t.Context(), Options{Rules: path})
	wantError(t, err, path)
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error is not os.ErrNotExist: %v", err)
	}
}

func TestBrokenRules(t *testing.T) {
	needJava(t)
	t.Parallel()
	path := writeFile(t, "broken.rules", "rules_version = '2';\nservice cloud.firestore {\n  match / allow\n}\n")
	_, err := Start(t.Context(), Options{Rules: path})
	wantError(t, err, "emulator: the security rules do not compile:\n"+path+":3:")
	if strings.Contains(err.Error(), "its last output") {
		t.Errorf("more than the mistake: %v", err)
	}

	_, err = Start(t.Context(), Options{Rules: path, RulesName: "firestore.rules"})
	wantError(t, err, "emulator: the security rules do not compile:\nfirestore.rules:3:")
}

// The emulator warns of what rules may have, too. Only what they may not have is told.
func TestMistakeAmongWarnings(t *testing.T) {
	e := start(t, Options{})
	const text = `rules_version = '2';
service cloud.firestore {
  match /databases/{database}/documents {
    function unused(a) { return missing(request, other); }
    function twice(a) { return a; }
    function twice(a) { return a; }
    match /open/{id} { allow read: if exists(); }
  }
}
`
	err := SetRules(t.Context(), e.Addr(), "warnings", DefaultDatabase, text)
	mistake, ok := errors.AsType[*RulesError](err)
	if !ok {
		t.Fatalf("got %v, want a RulesError", err)
	}
	want := "the security rules do not compile:\nmy.rules:6:14: Function twice is already defined."
	if got := mistake.In("my.rules").Error(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// One emulator with rules posts events.
func TestRulesAndEvents(t *testing.T) {
	t.Parallel()
	paths := make(chan string, 100)
	sink := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		paths <- r.URL.Path
	}))
	defer sink.Close()
	path := writeFile(t, "firestore.rules", `rules_version = '2';
service cloud.firestore {
  match /databases/{database}/documents {
    match /open/{id} { allow read, write; }
  }
}
`)
	e := start(t, Options{Rules: path, Functions: sink.Listener.Addr().String()})
	for _, c := range []struct {
		path, token string
		want        int
	}{{"open/1", "", http.StatusOK}, {"closed/1", "", http.StatusForbidden}, {"closed/1", "owner", http.StatusOK}} {
		if got := request(t, e, http.MethodPatch, "demo-rules", c.path, c.token); got != c.want {
			t.Errorf("write to %s as %q: %d, want %d", c.path, c.token, got, c.want)
		}
	}

	const project = "demo-events"
	register := func(name, pattern string) {
		t.Helper()
		if err := RegisterTrigger(t.Context(), e.Addr(), Trigger{Project: project, Name: name, Pattern: pattern}); err != nil {
			t.Fatal(err)
		}
	}
	// next writes two documents and returns the triggers that fired: events come in the order of
	// writes, so when that of the last write is here, all of the first are.
	next := func(path string) (fired []string) {
		t.Helper()
		for _, p := range []string{path, "fence/1"} {
			if got := request(t, e, http.MethodPatch, project, p, "owner"); got != http.StatusOK {
				t.Fatalf("write %s: %d", p, got)
			}
		}
		for {
			select {
			case p := <-paths:
				name := strings.TrimPrefix(p, "/functions/projects/"+project+"/triggers/")
				if name == "fence" {
					return fired
				}
				fired = append(fired, name)
			case <-time.After(time.Minute):
				t.Fatal("no event")
			}
		}
	}
	register("fence", "fence/{id}")
	register("shards", "counters/{counter}/shards/{shard}")
	if got := next("counters/a/shards/0"); len(got) != 1 || got[0] != "shards" {
		t.Errorf("write of a shard fired %q", got)
	}
	register("shards", "elsewhere/{id}")
	if got := next("counters/a/shards/0"); len(got) != 0 {
		t.Errorf("after the trigger was replaced, write of a shard fired %q", got)
	}
	register("shards", "counters/{counter/shards/{shard}")
	if got := request(t, e, http.MethodPatch, project, "other/1", "owner"); got != http.StatusInternalServerError {
		t.Errorf("write with a malformed trigger: %d; RegisterTrigger says that it is refused", got)
	}
}

func TestAdminErrors(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, `{"error":{"code":400,"message":"not today"}}`, http.StatusBadRequest)
	}))
	addr := server.Listener.Addr().String()
	wantError(t, SetRules(t.Context(), addr, "demo-a", DefaultDatabase, ""), "demo-a", "not today")
	wantError(t, RegisterTrigger(t.Context(), addr, Trigger{Project: "demo-a", Name: "n"}), "demo-a", "trigger n", "not today")
	server.Close()
	wantError(t, SetRules(t.Context(), addr, "demo-a", DefaultDatabase, ""), "demo-a", addr)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := SetRules(ctx, addr, "demo-a", DefaultDatabase, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("SetRules with a canceled context: %v", err)
	}
}

func TestExitBeforeReady(t *testing.T) {
	for _, c := range []struct {
		name, script string
		want         []string
	}{
		{"unknown", `echo something odd; exit 3`, []string{"ended before it was ready: exit status 3", "something odd"}},
		{"silent", `exit 0`, []string{"exit status 0"}},
		{"rules", `echo 'Error compiling rules: L1'; exit 1`, []string{"emulator: the rules file does not compile", "L1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			fakeJava(t, 17, c.script)
			_, err := Start(t.Context(), Options{})
			wantError(t, err, c.want...)
		})
	}
}

func TestPortTakenAtTheLastMoment(t *testing.T) {
	starts := filepath.Join(t.TempDir(), "starts")
	fakeJava(t, 21, `echo x >>`+starts+`; echo 'java.net.BindException: Address already in use' >&2; exit 1`)
	for _, test := range []struct{ port, starts int }{{0, portAttempts}, {hold(t), portAttempts + 1}} {
		_, err := Start(t.Context(), Options{Port: test.port})
		wantError(t, err, "is in use: stop what listens there", "BindException")
		if data, err := os.ReadFile(starts); err != nil || bytes.Count(data, []byte("\n")) != test.starts {
			t.Errorf("port %d: %d starts so far, want %d (%v)", test.port, bytes.Count(data, []byte("\n")), test.starts, err)
		}
	}
}

// Another emulator takes the port after it was seen to be free, and is not taken for the one that
// was started.
func TestPortTakenByAnotherEmulator(t *testing.T) {
	needJava(t)
	port := hold(t)
	starting := fifo(t)
	fakeJava(t, 21, `echo >`+starting+`; read -r taken <`+starting+`; sleep 1; echo 'java.net.BindException: Address already in use' >&2; exit 1`)
	another := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "Ok") }))
	defer another.Close()
	go func() {
		readLine(t, starting)
		l, err := net.Listen("tcp", freeport.HostPort(port))
		if err != nil {
			t.Error(err)
			return
		}
		another.Listener.Close()
		another.Listener = l
		another.Start()
		if err := os.WriteFile(starting, []byte("taken\n"), 0); err != nil {
			t.Error(err)
		}
	}()
	_, err := Start(t.Context(), Options{Port: port})
	wantError(t, err, fmt.Sprintf("emulator: port %d is in use", port))
}

// A program that listens but is no emulator, or a start that takes too long, leaves Start waiting;
// here ctx ends it.
func TestStartCancelled(t *testing.T) {
	pidFile, started := filepath.Join(t.TempDir(), "pid"), fifo(t)
	fakeJava(t, 21, `echo $$ >`+pidFile+`; echo waiting; echo >`+started+`; exec sleep 1000`)
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("the test says so")
	go func() {
		readLine(t, started)
		cancel(reason)
	}()
	_, err := Start(ctx, Options{})
	wantError(t, err, "not started", "waiting")
	if !errors.Is(err, reason) {
		t.Errorf("error does not wrap the cause: %v", err)
	}
	waitGone(t, readPid(t, pidFile))
}

func TestLongOutput(t *testing.T) {
	fakeJava(t, 21, `exec 2>&1; i=0; while [ $i -lt 3000 ]; do echo "line $i of many"; i=$((i+1)); done; exit 4`)
	_, err := Start(t.Context(), Options{})
	wantError(t, err, "exit status 4", "line 2999 of many")
	if len(err.Error()) > tailSize+200 {
		t.Errorf("error of %d bytes", len(err.Error()))
	}
}

// fifo returns the path of a named pipe: who writes to it waits for a reader, and a reader for it.
func fifo(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// readLine waits for somebody who writes to a fifo.
func readLine(t *testing.T, path string) {
	t.Helper()
	if _, err := os.ReadFile(path); err != nil {
		t.Error(err)
	}
}

// wantError fails the test unless err holds all of the substrings.
func wantError(t *testing.T, err error, substrings ...string) {
	t.Helper()
	if err == nil {
		t.Error("no error")
		return
	}
	for _, s := range substrings {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("error lacks %q:\n%v", s, err)
		}
	}
}

// request makes a request for one document, over the REST interface, and returns the status.
func request(t *testing.T, e *Emulator, method, project, path, token string) int {
	t.Helper()
	url := "http://" + e.Addr() + "/v1/projects/" + project + "/databases/(default)/documents/" + path
	var body io.Reader
	if method == http.MethodPatch {
		// Each write a different one: Firestore emits no event for a write that changes nothing.
		body = strings.NewReader(fmt.Sprintf(`{"fields":{"at":{"integerValue":"%d"}}}`, time.Now().UnixNano()))
	}
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

func writeFile(t *testing.T, name, content string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
