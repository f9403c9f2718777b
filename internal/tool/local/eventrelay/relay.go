// Package eventrelay delivers the Firestore emulator's document events to functions processes the
// way Eventarc does.
//
// In the cloud, Firestore hands an event for each write that matches a trigger's pattern to
// Eventarc, and Pub/Sub pushes it to the function, again and again, until the answer is 2xx. An
// event may arrive twice, late, in no order, and again although it was answered 2xx, if that answer
// was lost.
//
// The emulator posts such an event once, in a form that a functions framework cannot read. A
// [Relay] stands between the two:
//
//	emulator ──POST──▶ Relay.ServeHTTP ─┐ repair                  ┌─▶ http://…:8081/RollUpOnWrite
//	                                    ├─▶ queue ─▶ deliver, ────┼─▶ http://…:8082/RollUpOnWrite
//	Listen or a test ─▶ Relay.Deliver ──┘     retry until a 2xx   └─▶ …
//
// An [Event] is a CloudEvent; [Event.Request] says how it goes over HTTP. It comes from a request
// of the emulator, from [Listen] (for an emulator that somebody else started and that posts nothing
// here), or from [NewEvent]. testdata/README.md says what the emulator sends, and how that differs
// from Eventarc. [Faults] makes copies, delays and lost answers happen.
//
// A Relay also sends any other [Message] in this way, such as a call that was put off.
package eventrelay

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/firestore-tally/tally/internal/tool/local/freeport"
)

// ErrClosed says that the Relay was closed before it could deliver.
var ErrClosed = errors.New("eventrelay: closed")

// maxInFlight is the most deliveries under way to one target at once. It is the highest request
// concurrency of a Cloud Run instance. Other deliveries wait, within their timeout.
const maxInFlight = 1000

// maxPosted is the most bytes of an event that the emulator posts: in base64, a document before and
// after the write. One has at most 1 MiB as Firestore counts, and four times as much as it is sent.
const maxPosted = 12 << 20

// A Message is what a [Relay] delivers. An [Event] is one.
type Message interface {
	// ID is what the message's faults depend on.
	ID() string

	// Request returns the request of one delivery to a target.
	Request(ctx context.Context, target string) (*http.Request, error)
}

// Options configures a [Relay].
type Options struct {
	// Targets are the URLs that events are posted to, in turn: functions-framework servers such as
	// http://127.0.0.1:8081/RollUpOnWrite. While there is none, every delivery fails. SetTargets
	// changes them.
	Targets []string

	// Initial and Max bound the wait before a redelivery, which doubles from Initial (default
	// 100 ms) to Max (default 5 s). Eventarc waits 10 to 600 s and gives up after 24 h; a Relay
	// does not give an event up.
	Initial, Max time.Duration

	// Timeout is how long one delivery may take. Then it is cut off, counts as failed and is made
	// again. Default 10 s, which is Pub/Sub's acknowledgement deadline.
	Timeout time.Duration

	// Wants, unless nil, reports whether the Relay takes an event that the emulator posts. The others
	// are dropped. It must not block, and calls may overlap.
	Wants func(Event) bool

	// Faults makes deliveries go wrong. Default: none does.
	Faults Faults

	// Transport makes the deliveries. Default: one that goes past any proxy.
	Transport http.RoundTripper
}

// A Relay accepts events and delivers each to its targets, again and again until one of them
// answers 2xx. Its methods may be called concurrently.
//
// Events wait in memory, each copy with a goroutine of its own. A Relay must be closed when it is
// no longer needed.
type Relay struct {
	options Options
	client  *http.Client
	posts   http.Handler

	// start runs f in a goroutine that running counts, with a context that cancel ends.
	start   func(f func(context.Context))
	running sync.WaitGroup
	cancel  context.CancelFunc

	mu      sync.Mutex
	closed  bool
	targets []string
	turn    int           // counts up; modulo len(targets), the next target
	copies  int           // started and not ended
	idle    chan struct{} // closed while copies is 0
	stats   Stats
}

// Stats counts what a [Relay] has done. If the Relay is idle and Close dropped nothing, then
// Acknowledged + GivenUp = Events, and Deliveries = Events + Duplicated + Redelivered.
type Stats struct {
	Events       int // accepted
	Duplicated   int // events of which there is a second copy
	Deliveries   int // begun, of any copy; those that found no target too
	Redelivered  int // deliveries of a copy after its first
	LostAcks     int // 2xx answers lost on purpose
	Acknowledged int // events that were answered 2xx
	GivenUp      int // messages whose time was over first
}

// New returns a running Relay.
func New(o Options) *Relay {
	o.Initial = cmp.Or(o.Initial, 100*time.Millisecond)
	o.Max = cmp.Or(o.Max, 5*time.Second)
	o.Timeout = cmp.Or(o.Timeout, 10*time.Second)
	if o.Transport == nil {
		o.Transport = &http.Transport{MaxConnsPerHost: maxInFlight, MaxIdleConnsPerHost: maxInFlight}
	}

	ctx, cancel := context.WithCancel(context.Background())
	r := &Relay{
		options: o,
		client:  &http.Client{Transport: o.Transport},
		cancel:  cancel,
		targets: slices.Clone(o.Targets),
		idle:    make(chan struct{}),
	}
	r.start = func(f func(context.Context)) {
		r.running.Go(func() { f(ctx) })
	}
	r.posts = freeport.Guard(http.HandlerFunc(r.serve), contentType, maxPosted)
	close(r.idle) // there is no copy yet
	return r
}

// ServeHTTP accepts one event from the emulator, repairs it and answers 202 without waiting for its
// delivery. It answers 400 to a request that is no document event, 503 once the Relay is closed,
// and 403 to what a web page can send ([freeport.Guard]).
func (r *Relay) ServeHTTP(w http.ResponseWriter, req *http.Request) { r.posts.ServeHTTP(w, req) }

// serve does the work of ServeHTTP.
func (r *Relay) serve(w http.ResponseWriter, req *http.Request) {
	err := r.accept(req)
	switch {
	case errors.Is(err, ErrClosed):
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

// accept accepts the event in a request of the emulator.
func (r *Relay) accept(req *http.Request) error {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return err
	}
	e, err := repair(req.Header, body)
	if err != nil {
		return err
	}
	if r.options.Wants != nil && !r.options.Wants(e) {
		return nil
	}
	return r.Deliver(e)
}

// Deliver accepts an event and returns without waiting for its delivery. Each call is an event of
// its own, also if the id was seen before. It returns ErrClosed after Close.
func (r *Relay) Deliver(e Event) error {
	return r.Send(e, time.Time{}, func() {})
}

// Send is Deliver for any message. No delivery is made again after the time until; if that is
// zero, nothing but a 2xx answer ends them. When a delivery is first answered 2xx, or the time is
// over, the Relay calls ended, which may not use the Relay.
func (r *Relay) Send(message Message, until time.Time, ended func()) error {
	m := &acceptedMessage{Message: message, until: until, end: ended, ended: make(chan struct{})}
	n := r.options.Faults.copies(m.ID())

	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return ErrClosed
	}

	if r.copies == 0 {
		r.idle = make(chan struct{})
	}
	r.copies += n
	r.stats.Events++
	r.stats.Duplicated += n - 1

	for c := range n {
		r.start(func(ctx context.Context) { r.deliver(ctx, m, c) })
	}
	return nil
}

// SetTargets replaces the targets, for deliveries that begin from now on.
func (r *Relay) SetTargets(targets []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.targets = slices.Clone(targets)
}

// Wait returns when the Relay is idle: every accepted event is acknowledged or given up, and no
// copy of any event is still to come. It returns ErrClosed if Close dropped an event, and the
// context's error if that ends first.
func (r *Relay) Wait(ctx context.Context) error {
	r.mu.Lock()
	idle := r.idle
	r.mu.Unlock()

	select {
	case <-idle:
	case <-ctx.Done():
		return ctx.Err()
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed && r.stats.Acknowledged+r.stats.GivenUp < r.stats.Events {
		return ErrClosed
	}
	return nil
}

// Stats returns the counts as they are now.
func (r *Relay) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stats
}

// Close drops the events that are not yet acknowledged, cuts off the deliveries under way and
// returns when every goroutine of the Relay has ended.
func (r *Relay) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()

	r.cancel()
	r.running.Wait()
	r.client.CloseIdleConnections()
}
