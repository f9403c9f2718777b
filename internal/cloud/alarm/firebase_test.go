package alarm

import (
	"bufio"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"strings"
	"testing"

	"github.com/firestore-tally/tally/rollup"
	"github.com/google/go-cmp/cmp"
)

var withFirebase = flag.Bool("firebase", false, "also make alarms by the emulator of the Firebase CLI, 250 MB of npm packages")

// The emulator of Cloud Tasks in the Firebase CLI takes the requests and makes the calls. It does
// not heed the time of a task, so its alarms ring at once, and it answers errors as text.
func TestFirebaseEmulator(t *testing.T) {
	if !*withFirebase {
		t.Skip("-firebase runs it, as .ci/nightly does")
	}

	// A call is an alarm that rings.
	type call struct {
		Database      string
		Alarm         rollup.Alarm
		Retry, Task   string
		Media, Method string
	}
	calls := make(chan call, 10)
	functions := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		database, alarm, err := FromRequest(r)
		if err != nil {
			t.Error(err)
		}
		retry := r.Header.Get("X-CloudTasks-TaskRetryCount")
		if retry == "0" { // the first call fails
			w.WriteHeader(http.StatusInternalServerError)
		}
		calls <- call{database, alarm, retry, r.Header.Get("X-CloudTasks-TaskName"), r.Header.Get("Content-Type"), r.Method}
	}))
	defer functions.Close()

	o := options()
	o.Emulator, o.URL = startFirebase(t), functions.URL
	q := open(t, o)
	q.endpoint = strings.Replace(q.endpoint, "/v2/", "/", 1) // which the emulator does without
	makeQueue(t, q)

	if err := q.ForDatabase(app).Create(t.Context(), likes()); err != nil {
		t.Fatal(err)
	}
	task, err := q.task(app, likes())
	if err != nil {
		t.Fatal(err)
	}
	for _, retry := range []string{"0", "1"} {
		want := call{app, likes(), retry, path.Base(task.Name), "application/json", "POST"}
		if d := cmp.Diff(want, <-calls); d != "" {
			t.Errorf("call %s (-want +got):\n%s", retry, d)
		}
	}

	err = q.ForDatabase(app).Create(t.Context(), likes())
	if err == nil || !strings.HasSuffix(err.Error(), "409 Conflict") {
		t.Errorf("the same alarm once more: %v, want 409", err)
	}
}

// startFirebase starts the emulator, and returns its address.
func startFirebase(t *testing.T) string {
	t.Helper()
	const folder = "testdata/firebase"
	install := exec.CommandContext(t.Context(), "npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts")
	install.Dir = folder
	if output, err := install.CombinedOutput(); err != nil {
		t.Fatalf("npm: %v\n%s", err, output)
	}

	emulator := exec.CommandContext(t.Context(), "node", "emulator.mjs")
	emulator.Dir, emulator.Stderr = folder, os.Stderr
	input, err := emulator.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := emulator.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := emulator.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		input.Close() // by which it ends
		_ = emulator.Wait()
	})

	lines := bufio.NewScanner(output)
	for lines.Scan() {
		var port int
		if n, _ := fmt.Sscanf(lines.Text(), "%d", &port); n == 1 {
			return fmt.Sprint("127.0.0.1:", port)
		}
	}
	t.Fatalf("the emulator ended: %v", lines.Err())
	return ""
}

// makeQueue makes the queue, which repeats a call soon.
func makeQueue(t *testing.T, q *Queue) {
	t.Helper()
	r, err := http.Post(strings.TrimSuffix(q.endpoint, "/tasks"), "application/json", strings.NewReader(`{"retryConfig":{"maxAttempts":3,"minBackoffSeconds":0.01}}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	if r.StatusCode != http.StatusOK {
		t.Fatal(r.Status)
	}
}
