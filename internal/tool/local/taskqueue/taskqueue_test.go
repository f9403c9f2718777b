package taskqueue

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firestore-tally/tally/internal/tool/local/eventrelay"
	"github.com/google/go-cmp/cmp"
)

const tasks = "projects/app/locations/local/queues/tally/tasks"

// A call is what a target saw.
type call struct {
	Task, Body string
	At         time.Duration // since the calls were made
	Retry      string
}

// calls is an http.RoundTripper that needs no sockets, so that time can be virtual. It answers with
// what answer returns for the nth call, counted from 1.
type calls struct {
	answer func(nth int) int
	start  time.Time

	mu   sync.Mutex
	seen []call
}

func (c *calls) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = append(c.seen, call{r.Header.Get("X-CloudTasks-TaskName"), string(body), time.Since(c.start), r.Header.Get("X-CloudTasks-TaskRetryCount")})
	return &http.Response{StatusCode: c.answer(len(c.seen)), Body: http.NoBody, Request: r}, nil
}

// count returns how many calls there were, also while more are made.
func (c *calls) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.seen)
}

// newQueue returns a queue in virtual time and its calls.
func newQueue(t *testing.T, o eventrelay.Options, answer func(nth int) int) (*Queue, *calls) {
	t.Helper()
	c := &calls{answer: answer, start: time.Now()}
	o.Transport, o.Targets = c, []string{"http://functions/RollUpOnWrite"}
	q := New(o)
	t.Cleanup(q.Close)
	return q, c
}

func ok(int) int { return 200 }

// post sends the JSON of a request that makes a task. Its error says that there was no answer.
func post(q *Queue, path, text string) (code int, answer string, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = errors.New("connection reset")
		}
	}()
	w := httptest.NewRecorder()
	r := httptest.NewRequest("POST", "http://127.0.0.1:9499"+path, strings.NewReader(text))
	r.Header.Set("Content-Type", "application/json")
	q.ServeHTTP(w, r)
	return w.Code, w.Body.String(), nil
}

// create makes a task with a name, after a time, and returns the answer's status code.
func create(t *testing.T, q *Queue, id string, after time.Duration) int {
	t.Helper()
	code, _, err := post(q, "/v2/"+tasks, text(id, time.Now().Add(after)))
	if err != nil {
		t.Fatal(err)
	}
	return code
}

func text(id string, at time.Time) string {
	return fmt.Sprintf(`{"task":{"name":%q,"scheduleTime":%q,"httpRequest":{"url":"https://x","headers":{"Content-Type":"application/json"},"body":"aGk="}}}`,
		tasks+"/"+id, at.UTC().Format(time.RFC3339Nano))
}

func wait(t *testing.T, q *Queue) {
	t.Helper()
	if err := q.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Asked for its state, a queue runs, as Cloud Tasks says it.
func TestState(t *testing.T) {
	q, _ := newQueue(t, eventrelay.Options{}, ok)
	w := httptest.NewRecorder()
	q.ServeHTTP(w, httptest.NewRequest("GET", "http://127.0.0.1:9499/v2/"+strings.TrimSuffix(tasks, "/tasks"), nil))

	var queue struct{ Name, State string }
	err := json.Unmarshal(w.Body.Bytes(), &queue)
	if err != nil || queue.Name != "projects/app/locations/local/queues/tally" || queue.State != "RUNNING" {
		t.Errorf("%d %s: %v", w.Code, w.Body, err)
	}
}

// A task is called at its time, and again until the answer is 2xx.
func TestCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, c := newQueue(t, eventrelay.Options{Initial: time.Second, Max: time.Second}, func(nth int) int { return []int{0: 400, 1: 200, 2: 200}[nth-1] })
		for id, after := range map[string]time.Duration{"late": time.Hour, "soon": 5 * time.Second} {
			if code := create(t, q, id, after); code != 200 {
				t.Fatal(code)
			}
		}
		wait(t, q)

		if len(c.seen) != 3 || c.seen[1].At < 5*time.Second+time.Second/2 || c.seen[1].At > 6*time.Second {
			t.Fatalf("%v", c.seen)
		}
		c.seen[1].At = 0
		want := []call{{"soon", "hi", 5 * time.Second, "0"}, {"soon", "hi", 0, "1"}, {"late", "hi", time.Hour, "0"}}
		if d := cmp.Diff(want, c.seen); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
		if d := cmp.Diff(Stats{Created: 2, Calls: eventrelay.Stats{Events: 2, Deliveries: 3, Redelivered: 1, Acknowledged: 2}}, q.Stats()); d != "" {
			t.Errorf("Stats (-want +got):\n%s", d)
		}
	})
}

// A task whose call never succeeds is deleted 31 days after it was made, however late its call was
// to come, also if there is nothing to call. Its name is free an hour later.
func TestDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const day = 24 * time.Hour
		for name, test := range map[string]struct {
			after   time.Duration
			targets []string
		}{
			"refused":          {0, []string{"http://functions/RollUpOnWrite"}},
			"refused, late":    {30 * day, []string{"http://functions/RollUpOnWrite"}},
			"nothing to call":  {0, nil},
			"nothing and late": {30 * day, nil},
		} {
			q, c := newQueue(t, eventrelay.Options{Initial: time.Hour, Max: time.Hour}, func(int) int { return 500 })
			q.SetTargets(test.targets)
			create(t, q, "a", test.after)
			made := time.Now()

			time.Sleep(31*day - time.Minute)
			if q.Left() != 1 || len(test.targets) > 0 && c.count() < 20 {
				t.Fatalf("%s: after 31 days less a minute %d tasks are left, called %d times", name, q.Left(), c.count())
			}
			wait(t, q)
			if over := time.Since(made) - 31*day; q.Left() != 0 || over > 2*time.Hour {
				t.Errorf("%s: %d tasks are left %v after 31 days", name, q.Left(), over)
			}
			if s := q.Stats().Calls; s.GivenUp != 1 || s.Acknowledged != 0 {
				t.Errorf("%s: %+v", name, s)
			}

			time.Sleep(taken)
			if code := create(t, q, "a", 0); code != http.StatusOK {
				t.Errorf("%s: the name is not free again: %d", name, code)
			}
			q.Close()
		}
	})
}

// A time that has passed is now.
func TestPast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, c := newQueue(t, eventrelay.Options{}, ok)
		create(t, q, "past", -time.Hour)
		if _, _, err := post(q, "/v2/"+tasks, `{"task":{"httpRequest":{"url":"https://x"}}}`); err != nil {
			t.Fatal(err)
		}
		wait(t, q)
		if len(c.seen) != 2 || c.seen[0].At != 0 || c.seen[1].At != 0 {
			t.Errorf("%v", c.seen)
		}
	})
}

// A name is taken until an hour after its task was done.
func TestNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, _ := newQueue(t, eventrelay.Options{}, ok)
		for _, step := range []struct {
			pause time.Duration
			want  int
		}{
			{0, 200},
			{time.Minute, 409},
			{2*time.Hour - time.Minute, 409}, // it has just been called
			{time.Hour - time.Second, 409},
			{time.Second, 200},
		} {
			time.Sleep(step.pause)
			synctest.Wait()
			if got := create(t, q, "a", 2*time.Hour); got != step.want {
				t.Errorf("after another %v: %d, want %d", step.pause, got, step.want)
			}
		}
		if s := q.Stats(); s.Created != 2 || s.Existed != 3 {
			t.Errorf("%+v", s)
		}
	})
}

// A call whose answer is lost comes again, and one that is made twice also after the first is done.
func TestFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faults := eventrelay.Faults{Seed: 1, Duplicates: 0.5, LostAcks: 0.5, Delay: time.Minute}
		q, c := newQueue(t, eventrelay.Options{Faults: faults}, ok)
		unanswered, again := 0, 0
		for n := range 100 {
			task := text(fmt.Sprint(n), time.Now().Add(time.Hour))
			for {
				code, _, err := post(q, "/v2/"+tasks, task)
				if err == nil {
					if code == 409 {
						again++
					}
					break
				}
				unanswered++
			}
		}
		wait(t, q)

		calls := make(map[string]int)
		late := time.Duration(0)
		for _, call := range c.seen {
			calls[call.Task]++
			late = max(late, call.At-time.Hour)
			if call.At < time.Hour {
				t.Errorf("called after %v", call.At)
			}
		}
		s := q.Stats()
		if len(calls) != 100 || s.Created != 100 || s.LostCreates != unanswered || s.Existed < again {
			t.Errorf("%d tasks called, %d creates unanswered, %d repeated: %+v", len(calls), unanswered, again, s)
		}
		// Of lost creates, some made a task and some did not.
		if again == 0 || unanswered <= again || s.Calls.Duplicated == 0 || s.Calls.LostAcks == 0 || late < 30*time.Second {
			t.Errorf("%d unanswered, %d repeated, at most %v late: %+v", unanswered, again, late, s)
		}
	})
}

// What Cloud Tasks refuses is refused, in the words of its API.
func TestRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, _ := newQueue(t, eventrelay.Options{}, ok)
		soon := time.Now().Add(time.Second)
		create(t, q, "taken", 0)
		for name, test := range map[string]struct {
			path, text string
			code       int
			status     string
		}{
			"no JSON":         {tasks, "{", 400, "INVALID_ARGUMENT"},
			"unknown field":   {tasks, strings.Replace(text("a", soon), "body", "boby", 1), 400, "INVALID_ARGUMENT"},
			"no base64":       {tasks, strings.Replace(text("a", soon), "aGk=", "{}", 1), 400, "INVALID_ARGUMENT"},
			"no url":          {tasks, `{"task":{}}`, 400, "INVALID_ARGUMENT"},
			"no task":         {tasks, `{}`, 400, "INVALID_ARGUMENT"},
			"too far ahead":   {tasks, text("a", soon.Add(reach)), 400, "INVALID_ARGUMENT"},
			"a slash":         {tasks, text("a/b", soon), 400, "INVALID_ARGUMENT"},
			"a long name":     {tasks, text(strings.Repeat("a", 501), soon), 400, "INVALID_ARGUMENT"},
			"another queue's": {strings.Replace(tasks, "tally", "other", 1), text("a", soon), 400, "INVALID_ARGUMENT"},
			"a large task":    {tasks, text("a", soon) + strings.Repeat(" ", maxTask), 400, "INVALID_ARGUMENT"},
			"taken":           {tasks, text("taken", soon), 409, "ALREADY_EXISTS"},
		} {
			code, body, err := post(q, "/v2/"+test.path, test.text)
			var answer struct {
				Error struct {
					Code            int
					Message, Status string
				}
			}
			if err == nil {
				err = json.Unmarshal([]byte(body), &answer)
			}
			if err != nil || code != test.code || answer.Error.Code != test.code || answer.Error.Status != test.status || answer.Error.Message == "" {
				t.Errorf("%s: %d %s, %v, want %d %s", name, code, body, err, test.code, test.status)
			}
		}
	})
}

// Close drops what waits. A task that is made afterward would never be called, so it is refused.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, c := newQueue(t, eventrelay.Options{}, ok)
		create(t, q, "a", time.Hour)
		q.Close()
		if code := create(t, q, "b", 0); code != 503 {
			t.Errorf("status %d", code)
		}
		time.Sleep(2 * time.Hour)
		if len(c.seen) != 0 || q.Left() != 1 {
			t.Errorf("%v, %d left", c.seen, q.Left())
		}

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := q.Wait(ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// The call is as Cloud Tasks makes it.
func TestRequest(t *testing.T) {
	made, err := parse("projects/app/locations/local/queues/tally", []byte(text("a", time.Unix(1_700_000_000, 5_000_000))))
	if err != nil {
		t.Fatal(err)
	}
	var wire bytes.Buffer
	for range 2 {
		wire.Reset()
		r, err := made.Request(t.Context(), "http://functions/RollUpOnWrite")
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Write(&wire); err != nil {
			t.Fatal(err)
		}
	}
	want := "POST /RollUpOnWrite HTTP/1.1\r\nHost: functions\r\nUser-Agent: Google-Cloud-Tasks\r\nContent-Length: 2\r\n" +
		"Content-Type: application/json\r\nX-Cloudtasks-Queuename: tally\r\nX-Cloudtasks-Tasketa: 1700000000.005000\r\n" +
		"X-Cloudtasks-Taskname: a\r\nX-Cloudtasks-Taskretrycount: 1\r\n\r\nhi"
	if d := cmp.Diff(want, wire.String()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// The queue takes nothing that a web page can send.
func TestTasksOfWebPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, _ := newQueue(t, eventrelay.Options{}, ok)
		for _, test := range []struct{ host, contentType string }{{"127.0.0.1:9499", "text/plain"}, {"evil.example:9499", "application/json"}} {
			r := httptest.NewRequest(http.MethodPost, "http://"+test.host+"/v2/"+tasks, strings.NewReader(text("page", time.Now())))
			r.Header.Set("Content-Type", test.contentType)
			w := httptest.NewRecorder()
			q.ServeHTTP(w, r)
			if w.Code != http.StatusForbidden {
				t.Errorf("%s, %q: %d, want 403: %s", test.host, test.contentType, w.Code, w.Body)
			}
		}
	})
}
