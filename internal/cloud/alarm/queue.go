package alarm

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"

	"cloud.google.com/go/auth"
	"cloud.google.com/go/auth/credentials"
	"github.com/firestore-tally/tally/rollup"
)

// EmulatorHost is the variable that names an emulator, as Firebase's CLI sets it.
const EmulatorHost = "CLOUD_TASKS_EMULATOR_HOST"

// Reach is how far ahead an alarm may be: Cloud Tasks takes no later task
// (https://docs.cloud.google.com/tasks/docs/quotas).
const Reach = 30 * 24 * time.Hour

// dispatchDeadline is how long Cloud Tasks waits for the answer of RollUpOnWrite: longer than the
// function's timeout of 60 s, so that an answer always counts. Without it, an instance that dies
// would keep its alarms waiting for ten minutes.
const dispatchDeadline = 75 * time.Second

// callTimeout bounds a call that makes a task. An event waits for it, and perhaps for a second one.
// Google says that a task with a name takes longer to make, and not how long.
const callTimeout = 2500 * time.Millisecond

// maxAnswer is how many bytes of an answer are read: more than a task has.
const maxAnswer = 256 << 10

// Options say which queue calls which function.
type Options struct {
	Queue    string // resource name, such as projects/app/locations/us-central1/queues/tally
	URL      string // of RollUpOnWrite
	Account  string // address of the service account whose token the calls carry; "": no token
	Emulator string // host:port of an emulator instead of Cloud Tasks; "": none
}

// A Queue makes alarms. It may be used by many goroutines at once.
type Queue struct {
	options     Options
	endpoint    string
	client      *http.Client
	credentials *auth.Credentials // nil: an emulator needs none
}

var queueName = regexp.MustCompile(`^projects/[^/]+/locations/[^/]+/queues/[^/]+$`)

// Open returns a queue. It calls nothing: the first alarm fetches a token.
func Open(o Options) (*Queue, error) {
	if !queueName.MatchString(o.Queue) {
		return nil, fmt.Errorf("queue %q: want its resource name, projects/PROJECT/locations/REGION/queues/NAME", o.Queue)
	}

	q := &Queue{options: o, client: &http.Client{Transport: newTransport(), CheckRedirect: noRedirect}}
	if o.Emulator != "" {
		q.endpoint = "http://" + o.Emulator + "/v2/" + o.Queue + "/tasks"
		return q, nil
	}

	found, err := credentials.DetectDefault(&credentials.DetectOptions{Scopes: []string{"https://www.googleapis.com/auth/cloud-platform"}})
	if err != nil {
		return nil, fmt.Errorf("could not find credentials for Cloud Tasks: %w", err)
	}
	q.credentials = found
	q.endpoint = "https://cloudtasks.googleapis.com/v2/" + o.Queue + "/tasks"
	return q, nil
}

// newTransport returns a transport of HTTP/1.1. Over HTTP/2 all calls would share a connection, and
// one that a network has forgotten would take all of them with it.
func newTransport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.Protocols = new(http.Protocols)
	t.Protocols.SetHTTP1(true)
	t.MaxIdleConnsPerHost = t.MaxIdleConns
	return t
}

// noRedirect has a redirect returned as it is. To follow one would turn the POST into a GET, whose
// 200 means nothing.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// ForDatabase returns the alarms of a database, which is named by its resource name:
// projects/app/databases/(default).
func (q *Queue) ForDatabase(database string) rollup.Alarms { return &alarms{q, database} }

type alarms struct {
	queue    *Queue
	database string
}

// Create implements rollup.Alarms, by one call of Cloud Tasks.
func (s *alarms) Create(ctx context.Context, a rollup.Alarm) error {
	ahead := time.Until(a.At)
	if ahead > Reach {
		return fmt.Errorf("it is %v ahead, and Cloud Tasks reaches %v", ahead.Round(time.Second), Reach)
	}
	task, err := s.queue.task(s.database, a)
	if err != nil {
		return err
	}
	request, err := json.Marshal(createTask{task})
	if err != nil {
		return err
	}

	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, fmt.Errorf("no answer within %v", callTimeout))
	defer cancel()
	err = s.queue.post(ctx, request)
	if err == nil {
		return nil
	}
	return fmt.Errorf("could not call Cloud Tasks: %w", cmp.Or(context.Cause(ctx), err))
}

// post sends a request that makes a task. It returns nil if the task was made, or has been before.
func (q *Queue) post(ctx context.Context, request []byte) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, q.endpoint, bytes.NewReader(request))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", contentType)
	err = q.authorize(ctx, r.Header)
	if err != nil {
		return err
	}

	response, err := q.client.Do(r)
	if err != nil {
		q.client.CloseIdleConnections() // a network that forgot one has most likely forgotten all
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return err
	}
	return judge(response, answer)
}

// A State says whether the alarms that were made are still to ring.
type State struct {
	Running bool      // the queue is there, and neither paused nor disabled
	Purged  time.Time // when somebody last deleted all alarms; zero: never
}

// State asks Cloud Tasks for the queue's state. It takes cloudtasks.queues.get.
func (q *Queue) State(ctx context.Context) (State, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, fmt.Errorf("no answer within %v", callTimeout))
	defer cancel()
	state, err := q.state(ctx)
	if err != nil {
		return state, fmt.Errorf("could not read the state of the queue %s: %w", q.options.Queue, cmp.Or(context.Cause(ctx), err))
	}
	return state, nil
}

func (q *Queue) state(ctx context.Context) (State, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(q.endpoint, "/tasks"), nil)
	if err != nil {
		return State{}, err
	}
	err = q.authorize(ctx, r.Header)
	if err != nil {
		return State{}, err
	}

	response, err := q.client.Do(r)
	if err != nil {
		return State{}, err
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return State{}, nil
	default:
		return State{}, errors.New(response.Status)
	}

	var queue struct {
		State     string
		PurgeTime time.Time
	}
	err = json.NewDecoder(io.LimitReader(response.Body, maxAnswer)).Decode(&queue)
	return State{Running: queue.State == "RUNNING", Purged: queue.PurgeTime}, err
}

// authorize sets the headers that say who calls. An emulator takes any caller.
func (q *Queue) authorize(ctx context.Context, header http.Header) error {
	if q.credentials == nil {
		return nil
	}

	token, err := q.credentials.Token(ctx)
	if err != nil {
		return fmt.Errorf("could not get a token: %w", err)
	}
	header.Set("Authorization", "Bearer "+token.Value)

	// Only a developer's credentials name a project that pays for calls. They need it.
	quota, err := q.credentials.QuotaProjectID(ctx)
	if err != nil {
		return fmt.Errorf("could not get the quota project: %w", err)
	}
	if quota != "" {
		header.Set("X-Goog-User-Project", quota)
	}
	return nil
}

// judge returns nil if the answer says that the task stands, or has already rung.
func judge(response *http.Response, answer []byte) error {
	if response.StatusCode == http.StatusOK {
		return nil
	}

	// Status 409 is not enough: it also stands for ABORTED, after which there is no task
	// (https://docs.cloud.google.com/apis/design/errors#handling_errors).
	var problem struct {
		Error struct{ Status, Message string }
	}
	err := json.Unmarshal(answer, &problem)
	if err != nil {
		return errors.New(response.Status)
	}
	if problem.Error.Status == "ALREADY_EXISTS" {
		return nil
	}
	return fmt.Errorf("%s: %s: %s", response.Status, cmp.Or(problem.Error.Status, "no status"), problem.Error.Message)
}

// createTask is the body of a request that makes a task, without the name of the queue, which is in
// the address:
// https://docs.cloud.google.com/tasks/docs/reference/rest/v2/projects.locations.queues.tasks/create
type createTask struct {
	Task task `json:"task"`
}

type task struct {
	Name             string      `json:"name"`
	HTTPRequest      httpRequest `json:"httpRequest"`
	ScheduleTime     string      `json:"scheduleTime"`
	DispatchDeadline string      `json:"dispatchDeadline"`
}

type httpRequest struct {
	URL        string            `json:"url"`
	HTTPMethod string            `json:"httpMethod"`
	Headers    map[string]string `json:"headers"`
	Body       []byte            `json:"body"`
	OIDCToken  *oidcToken        `json:"oidcToken,omitempty"`
}

type oidcToken struct {
	ServiceAccountEmail string `json:"serviceAccountEmail"`
	Audience            string `json:"audience"`
}

// task returns the task of an alarm.
func (q *Queue) task(database string, a rollup.Alarm) (task, error) {
	data, err := Encode(database, a)
	if err != nil {
		return task{}, err
	}
	name, err := q.name(database, a)
	if err != nil {
		return task{}, err
	}

	request := httpRequest{
		URL:        q.options.URL,
		HTTPMethod: http.MethodPost,
		Headers:    map[string]string{"Content-Type": contentType},
		Body:       data,
	}
	if q.options.Account != "" {
		request.OIDCToken = &oidcToken{q.options.Account, q.options.URL}
	}

	return task{
		Name:             name,
		HTTPRequest:      request,
		ScheduleTime:     a.At.UTC().Format(micro),
		DispatchDeadline: fmt.Sprintf("%.0fs", dispatchDeadline.Seconds()),
	}, nil
}

// name returns the name of an alarm's task. It is a hash of all that makes two alarms the same: the
// body of the call, which holds the database, the roll-up, the routes and the time; where the call
// goes; and the salt. So the instances that want one alarm make one task. Names that resemble each
// other would slow the queue down
// (https://docs.cloud.google.com/tasks/docs/reference/rest/v2/projects.locations.queues.tasks/create).
func (q *Queue) name(database string, a rollup.Alarm) (string, error) {
	body, err := Encode(database, a)
	if err != nil {
		return "", err
	}
	same, err := json.Marshal([]string{string(body), q.options.URL, a.Salt})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(same)
	return q.options.Queue + "/tasks/" + hex.EncodeToString(sum[:]), nil
}
