package taskqueue

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"regexp"
	"strings"
	"time"

	"cloud.google.com/go/cloudtasks/apiv2/cloudtaskspb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// serveCreate serves the method that makes a task:
// https://docs.cloud.google.com/tasks/docs/reference/rest/v2/projects.locations.queues.tasks/create
func (q *Queue) serveCreate(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		refuse(w, status.Errorf(codes.InvalidArgument, "reading the request: %v", err))
		return
	}

	parent := strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/v2/"), "/tasks")
	t, err := parse(parent, body)
	if err != nil {
		refuse(w, err)
		return
	}

	lost := q.lossOf(t.GetName())
	if lost == theRequest {
		panic(http.ErrAbortHandler)
	}
	err = q.create(t)
	if lost == theAnswer {
		panic(http.ErrAbortHandler)
	}

	if err != nil {
		refuse(w, err)
		return
	}
	text, _ := protojson.Marshal(t.Task) // it was JSON before
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // the caller may be gone
}

// serveState serves the method that tells a queue's state:
// https://docs.cloud.google.com/tasks/docs/reference/rest/v2/projects.locations.queues/get
func serveState(w http.ResponseWriter, r *http.Request) {
	queue := &cloudtaskspb.Queue{Name: strings.TrimPrefix(r.URL.Path, "/v2/"), State: cloudtaskspb.Queue_RUNNING}
	text, _ := protojson.Marshal(queue) // both fields are text
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // the caller may be gone
}

// taskID matches what a task may be called:
// https://docs.cloud.google.com/tasks/docs/reference/rest/v2/projects.locations.queues.tasks#Task
var taskID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,500}$`)

// parse returns the task in the body of a request that makes a task in a queue.
func parse(parent string, body []byte) (*task, error) {
	request := new(cloudtaskspb.CreateTaskRequest)
	err := protojson.Unmarshal(body, request)
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "the request: %v", err)
	}

	t := &task{Task: request.GetTask()}
	if t.GetHttpRequest().GetUrl() == "" {
		return nil, status.Error(codes.InvalidArgument, "the task has no httpRequest.url, and tasks for App Engine are not taken here")
	}
	if t.GetName() == "" {
		t.Name = parent + "/tasks/" + rand.Text()
	}
	id, ofQueue := strings.CutPrefix(t.GetName(), parent+"/tasks/")
	if !ofQueue || !taskID.MatchString(id) {
		return nil, status.Errorf(codes.InvalidArgument, "the task's name is %q; want %s/tasks/ and at most 500 letters, digits, hyphens and underscores", t.GetName(), parent)
	}

	now := time.Now()
	if t.GetScheduleTime() == nil {
		t.ScheduleTime = timestamppb.New(now)
	}
	if ahead := t.GetScheduleTime().AsTime().Sub(now); ahead > reach {
		return nil, status.Errorf(codes.InvalidArgument, "the task's time is %v ahead; want at most %v", ahead, reach)
	}
	return t, nil
}

// httpStatus is how Google's APIs send the codes that errors have here:
// https://docs.cloud.google.com/apis/design/errors#handling_errors
var httpStatus = map[codes.Code]int{
	codes.InvalidArgument: http.StatusBadRequest,
	codes.AlreadyExists:   http.StatusConflict,
	codes.Unavailable:     http.StatusServiceUnavailable,
}

// name is how Google's APIs write these codes.
var name = map[codes.Code]string{
	codes.InvalidArgument: "INVALID_ARGUMENT",
	codes.AlreadyExists:   "ALREADY_EXISTS",
	codes.Unavailable:     "UNAVAILABLE",
}

// refuse answers with an error, as Google's APIs do.
func refuse(w http.ResponseWriter, err error) {
	code := status.Code(err)
	text, _ := json.Marshal(map[string]any{"error": map[string]any{
		"code": httpStatus[code], "message": status.Convert(err).Message(), "status": name[code],
	}})
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(httpStatus[code])
	_, _ = w.Write(text)
}

// A loss is what is lost of a request that makes a task.
type loss int

const (
	nothing loss = iota
	theRequest
	theAnswer
)

// lossOf returns what the faults lose of the next request that makes a task of a name. Half of what
// gets no answer made its task.
func (q *Queue) lossOf(name string) loss {
	if q.faults.LostAcks == 0 {
		return nothing
	}

	q.mu.Lock()
	defer q.mu.Unlock()
	q.tries[name]++
	h := fnv.New64a()
	fmt.Fprintf(h, "create\x00%s\x00%d", name, q.tries[name])
	draw := mathrand.New(mathrand.NewPCG(q.faults.Seed, h.Sum64())).Float64()

	switch {
	case draw < q.faults.LostAcks/2:
		q.stats.LostCreates++
		return theRequest
	case draw < q.faults.LostAcks:
		q.stats.LostCreates++
		return theAnswer
	default:
		return nothing
	}
}
