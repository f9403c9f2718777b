package app

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/cloud/alarm"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

// newQueue returns the bodies of the alarms that are made at a stand-in for Cloud Tasks, and the
// variables that name it.
func newQueue(t *testing.T) (bodies func() []string, variables []string) {
	var mu sync.Mutex
	var made []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = w.Write([]byte(`{"state":"RUNNING"}`))
			return
		}
		text, _ := io.ReadAll(r.Body)
		var request struct {
			Task struct{ HTTPRequest struct{ Body string } }
		}
		err := json.Unmarshal(text, &request)
		if err != nil {
			t.Error(err)
		}
		body, err := base64.StdEncoding.DecodeString(request.Task.HTTPRequest.Body)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		made = append(made, string(body))
		_, _ = w.Write([]byte("{}"))
	}))
	t.Cleanup(server.Close)

	bodies = func() []string {
		mu.Lock()
		defer mu.Unlock()
		return made
	}
	return bodies, []string{
		"TALLY_QUEUE=projects/" + project + "/locations/local/queues/tally", "TALLY_QUEUE_URL=http://functions/",
		"CLOUD_TASKS_EMULATOR_HOST=" + strings.TrimPrefix(server.URL, "http://"),
	}
}

// ring is the request of an alarm with a body.
func ring(body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "http://functions/", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return r
}

const slowRoute = route.Default + " : cadence 1h"

// An event that comes after a roll-up is deferred, and the alarm that rings has the counter rolled
// up.
func TestAlarm(t *testing.T) {
	made, variables := newQueue(t)
	w := newWorld(t, append(variables, "TALLY_ROUTES="+slowRoute, "TALLY_BURST=1")...)
	s := w.stores["(default)"]

	s.Increment("counters/likes/shards/0", "count", 1)
	for _, id := range []string{"first", "second"} {
		if status, _ := w.deliver(event(t, id, project, "(default)", "counters/likes/shards/0")); status != http.StatusOK {
			t.Fatalf("event %s: answered %d", id, status)
		}
	}
	s.wantCount("rollups/likes", 1)
	if len(made()) != 1 {
		t.Fatalf("alarms made: %v", made())
	}
	database, a, err := alarm.Decode([]byte(made()[0]))
	if ahead := time.Until(a.At); err != nil || database != "projects/"+project+"/databases/(default)" || a.RollUp != "rollups/likes" || ahead < 59*time.Minute || ahead > time.Hour {
		t.Errorf("the alarm is %v of %s, %v", a, database, err)
	}

	// Of a counter without a roll-up: it is due.
	s.Increment("counters/views/shards/0", "count", 7)
	now, err := alarm.Encode(database, rollup.Alarm{RollUp: "rollups/views", Routes: a.Routes, At: time.Now().Add(-time.Second).Truncate(time.Microsecond)})
	if err != nil {
		t.Fatal(err)
	}
	if status, _ := w.deliver(ring(string(now))); status != http.StatusOK {
		t.Errorf("an alarm that rings: answered %d", status)
	}
	s.wantCount("rollups/views", 7)
}

// An alarm that cannot be done rings again and again. That is logged once in ten minutes.
func TestAlarmNotDoneIsLoggedOnce(t *testing.T) {
	_, variables := newQueue(t)
	w := newWorld(t, append(variables, "TALLY_ROUTES="+slowRoute, "CLOUD_TASKS_EMULATOR_HOST=127.0.0.1:1")...)
	body, err := alarm.Encode("projects/"+project+"/databases/(default)",
		rollup.Alarm{RollUp: "rollups/likes", Routes: "0123456789abcdef", At: time.Now().Truncate(time.Microsecond)})
	if err != nil {
		t.Fatal(err)
	}

	for range 3 {
		if status, _ := w.deliver(ring(string(body))); status != http.StatusInternalServerError {
			t.Errorf("answered %d", status)
		}
	}
	if lines := w.log.lines("alarm not done"); len(lines) != 1 || !strings.Contains(lines[0], "could not make an alarm of rollups/likes") {
		t.Errorf("the log: %v", lines)
	}
}

// What is no alarm is refused. An alarm of another database, or of another
// project's database of the same id, is dropped.
func TestAlarmRefused(t *testing.T) {
	_, variables := newQueue(t)
	w := newWorld(t, append(variables, "TALLY_ROUTES="+slowRoute)...)
	of := func(database string) string {
		text, err := alarm.Encode(database, rollup.Alarm{RollUp: "rollups/likes", Routes: "ab", At: time.Now().Truncate(time.Microsecond)})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	good := of("projects/" + project + "/databases/elsewhere")
	for body, want := range map[string]int{
		"":               http.StatusBadRequest,
		"{}":             http.StatusBadRequest,
		`{"message":{}}`: http.StatusBadRequest,
		good:             http.StatusOK,
		good[:10]:        http.StatusBadRequest,
		good + "more":    http.StatusBadRequest,
		of("projects/another-app/databases/(default)"): http.StatusOK,
	} {
		if status, _ := w.deliver(ring(body)); status != want {
			t.Errorf("%s: answered %d, want %d", body, status, want)
		}
	}
	for _, database := range []string{"databases/elsewhere", "another-app/databases/(default)"} {
		if lines := w.log.lines("alarm dropped", database); len(lines) != 1 {
			t.Errorf("%s: the log:\n%s", database, &w.log)
		}
	}
}

// Without a queue the functions do not start with a cadence that needs alarms.
func TestCadenceNeedsAQueue(t *testing.T) {
	var log locked
	err := New(environ("TALLY_ROUTES="+slowRoute), &log).Configure()
	if err == nil || !strings.Contains(err.Error(), "cadence 1h0m0s: without a queue (TALLY_QUEUE) want at most 1s") {
		t.Errorf("got %v", err)
	}
}
