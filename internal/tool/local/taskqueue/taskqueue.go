// Package taskqueue stands in for Cloud Tasks, Google's queue of calls at a later time, as far as
// Tally uses it.
//
// A [Queue] takes the request of Google's REST API that makes a task, holds the task until its
// time, and then has an [eventrelay.Relay] make the task's call, until the answer is 2xx. Asked for
// its state, it runs, and was never purged:
//
//	alarm.Queue ──POST …/tasks──▶ Queue.ServeHTTP ──hold until its time──▶ Relay ──▶ http://…/RollUpOnWrite
//
// As in Google's, a name that was used is taken, also for an hour after its task is done, and a
// task whose call never succeeds is deleted after 31 days. Calls come late, twice, and again after
// a lost answer, if [eventrelay.Faults] say so. Then creates lose their answers, too: the task may
// stand or not.
//
// It differs from Google's: calls go to the queue's targets, and not to the address in the task;
// they carry no token; a failed call is repeated after the times of the Relay, and not after 10 s
// to 1 h; there is no bound of calls a second; and all queues of all projects are one.
package taskqueue

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/firestore-tally/tally/internal/tool/local/eventrelay"
	"github.com/firestore-tally/tally/internal/tool/local/freeport"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// These are limits of Cloud Tasks: https://docs.cloud.google.com/tasks/docs/quotas
const (
	taken    = time.Hour           // how long a name is, after its task is done
	reach    = 30 * 24 * time.Hour // how far ahead a task may be
	lifetime = 31 * 24 * time.Hour // how long a task is, unless it is done
	maxTask  = 1 << 20             // bytes of a task
)

// A Queue takes tasks and makes their calls. Its methods may be called concurrently. A Queue must
// be closed when it is no longer needed.
type Queue struct {
	faults eventrelay.Faults
	relay  *eventrelay.Relay
	api    http.Handler

	mu      sync.Mutex
	closed  bool
	waiting map[string]*time.Timer // tasks that have not been called, by name
	used    map[string]bool        // all names that are taken
	tries   map[string]int         // creates so far, by name, if some of them are lost
	done    []doneTask             // in the order of their end
	left    int                    // tasks that are neither done nor deleted
	idle    chan struct{}          // closed while left is 0
	stats   Stats
}

// A doneTask is the name of a task, and when the task was done.
type doneTask struct {
	name string
	at   time.Time
}

// Stats counts what a [Queue] has done.
type Stats struct {
	Created     int // tasks
	Existed     int // creates that were refused because the name is taken
	LostCreates int // creates that got no answer on purpose, whether they made a task or not
	Calls       eventrelay.Stats
}

// New returns a running Queue. The options are those of the Relay that makes the calls.
func New(o eventrelay.Options) *Queue {
	q := &Queue{
		faults:  o.Faults,
		relay:   eventrelay.New(o),
		waiting: make(map[string]*time.Timer),
		used:    make(map[string]bool),
		tries:   make(map[string]int),
		idle:    make(chan struct{}),
	}
	close(q.idle)

	api := http.NewServeMux()
	api.HandleFunc("POST /v2/projects/{project}/locations/{location}/queues/{queue}/tasks", q.serveCreate)
	api.HandleFunc("GET /v2/projects/{project}/locations/{location}/queues/{queue}", serveState)
	q.api = freeport.Guard(api, "application/json", maxTask)
	return q
}

// ServeHTTP serves the API to programs of this machine, in JSON.
func (q *Queue) ServeHTTP(w http.ResponseWriter, r *http.Request) { q.api.ServeHTTP(w, r) }

// SetTargets replaces the addresses that are called, in turn, for calls that begin from now on.
func (q *Queue) SetTargets(targets []string) { q.relay.SetTargets(targets) }

// Wait returns when the Queue is idle: every task is done or deleted, and no copy of any call is
// still to come. It returns the context's error if that ends first.
func (q *Queue) Wait(ctx context.Context) error {
	for {
		q.mu.Lock()
		idle := q.idle
		q.mu.Unlock()
		select {
		case <-idle:
		case <-ctx.Done():
			return ctx.Err()
		}

		err := q.relay.Wait(ctx)
		if err != nil {
			return err
		}
		if q.Left() == 0 { // a late copy may have made another task
			return nil
		}
	}
}

// Left returns how many tasks are neither done nor deleted.
func (q *Queue) Left() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.left
}

// Stats returns the counts as they are now.
func (q *Queue) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.stats
	s.Calls = q.relay.Stats()
	return s
}

// Close drops all tasks, cuts off the calls under way and returns when every goroutine of the Queue
// has ended.
func (q *Queue) Close() {
	q.mu.Lock()
	q.closed = true
	for _, timer := range q.waiting {
		timer.Stop()
	}
	q.mu.Unlock()
	q.relay.Close()
}

// create takes a task. It returns an error if its name is taken.
func (q *Queue) create(t *task) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return status.Error(codes.Unavailable, "the queue is closed")
	}

	q.forget()
	if q.used[t.GetName()] {
		q.stats.Existed++
		return status.Errorf(codes.AlreadyExists, "a task with the name %s exists, or existed too recently", t.GetName())
	}

	if q.left == 0 {
		q.idle = make(chan struct{})
	}
	q.left++
	q.stats.Created++
	q.used[t.GetName()] = true
	deleted := time.Now().Add(lifetime)
	q.waiting[t.GetName()] = time.AfterFunc(time.Until(t.GetScheduleTime().AsTime()), func() { q.call(t, deleted) })
	return nil
}

// call has the Relay make a task's call, again and again until the task is deleted.
func (q *Queue) call(t *task, deleted time.Time) {
	q.mu.Lock()
	delete(q.waiting, t.GetName())
	q.mu.Unlock()

	_ = q.relay.Send(t, deleted, func() { q.end(t) }) // unless it is closed
}

// end notes that a task is done or deleted.
func (q *Queue) end(t *task) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.done = append(q.done, doneTask{t.GetName(), time.Now()})
	q.left--
	if q.left == 0 {
		close(q.idle)
	}
}

// forget makes the names free that have been taken for long enough. The caller holds the mutex.
func (q *Queue) forget() {
	for len(q.done) > 0 && time.Since(q.done[0].at) >= taken {
		delete(q.used, q.done[0].name)
		q.done = q.done[1:]
	}
}
