//go:build unix

package e2e

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/internal/tool/local/emulator"
	"github.com/firestore-tally/tally/internal/tool/local/eventrelay"
	"github.com/firestore-tally/tally/internal/tool/local/taskqueue"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/firestore-tally/tally/shards"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	cadence   = 300 * time.Millisecond
	holdLimit = 6 * time.Second         // the shortest but one second for that cadence
	deadline  = holdLimit + time.Second // of one delivery
	clients   = 4                       // at once
	shardsOf  = 5                       // each counter
	pattern   = "counters/{counter}/shards/{shard}"
)

// form returns the short or the long form's value.
func form[T any](inShort, inLong T) T {
	if *long {
		return inLong
	}
	return inShort
}

// A world is a database of its own with counters, a load on them, and functions processes that
// serve its events.
type world struct {
	t         testing.TB
	ctx       context.Context // bounds every wait
	project   string
	client    *firestore.Client
	addr      string // of the emulator
	relay     *eventrelay.Relay
	queue     *taskqueue.Queue // nil: none
	alarms    []string         // variables that name the queue to functions processes; nil: there is none
	counters  []*counter
	processes []*process
	random    *rand.Rand
	started   time.Time

	methods []string // the calls that each roll-up makes

	width  int          // how many counters are incremented at a time
	active atomic.Int64 // the first of them; modulo len(counters)

	events atomic.Int64 // that a test's own writes made; see wrote
}

// options say what a world is like.
type options struct {
	addr     string // of the emulator; empty: the shared one
	routes   string // empty: the default one
	dormant  bool   // no events yet; see trigger
	queued   bool   // a queue makes alarms
	counters int
	width    int            // how many of them are incremented at a time, the load moving on; 0: all
	proxies  []func(*proxy) // one for each functions process
	binary   string         // what the functions processes run; empty: this test binary
	env      []string       // further variables of theirs
	queries  bool           // each roll-up queries for documents, too
}

// newWorld returns a world whose functions processes serve.
func newWorld(t *testing.T, o options) *world {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 15*time.Minute, errors.New("the scenario takes too long"))
	t.Cleanup(cancel)
	project := emulatortest.Project(t)
	w := &world{t: t, ctx: ctx, project: project, addr: o.addr, random: rand.New(rand.NewPCG(*seed, 0)), started: time.Now(), width: cmp.Or(o.width, o.counters)}
	w.methods = slices.Clone(methods)
	if o.queries {
		w.methods = append(w.methods, query)
	}
	if w.addr == "" {
		w.addr = emulatortest.Addr(t)
	}
	conn, err := grpc.NewClient("passthrough:///"+w.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	if w.client, err = firestore.NewClient(ctx, project, option.WithGRPCConn(conn)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.client.Close() })
	w.relay = eventrelay.New(eventrelay.Options{
		Initial: 50 * time.Millisecond, Max: time.Second, Timeout: deadline,
		// Two copies at once would add a remainder of docs/design/proof.md: the process of a second copy
		// of an event that is acknowledged elsewhere may die.
		Faults: eventrelay.Faults{Seed: *seed, LostAcks: 0.1, Delay: 200 * time.Millisecond},
	})
	t.Cleanup(w.relay.Close)
	emulatortest.Handle(t, project, w.relay)
	if !o.dormant {
		w.triggerAll(o.routes)
	}
	if o.queued {
		w.alarms = w.startQueue("local")
		o.env = append(o.env, w.alarms...)
	}
	for _, adjust := range o.proxies {
		w.add(adjust, o.routes, o.binary, o.env...)
	}
	for i := range o.counters {
		w.counters = append(w.counters, w.newCounter(fmt.Sprint("c", i)))
	}
	return w
}

// add adds a functions process behind a proxy of its own, and has events delivered to it too.
func (w *world) add(adjust func(*proxy), routes, binary string, env ...string) *process {
	w.t.Helper()
	proxy := newProxy(w.t, w.addr)
	adjust(proxy)
	p := &process{proxy: proxy, binary: binary, env: append(w.environ(routes, proxy.addr), env...)}
	w.start(p)
	w.t.Cleanup(func() { p.kill() })
	w.processes = append(w.processes, p)
	w.setTargets()
	return p
}

// environ is the environment of a functions process that reaches Firestore at addr.
func (w *world) environ(routes, addr string) []string {
	return []string{
		"FIRESTORE_EMULATOR_HOST=" + addr, "GOOGLE_CLOUD_PROJECT=" + w.project, "TALLY_ROUTES=" + cmp.Or(routes, route.Default),
		"TALLY_CADENCE=" + cadence.String(), "TALLY_HOLD_LIMIT=" + holdLimit.String(), "TALLY_LOG_LEVEL=WARN",
	}
}

// triggerAll has events come of every source of the routes.
func (w *world) triggerAll(routes string) {
	w.t.Helper()
	all, err := route.Parse(cmp.Or(routes, route.Default))
	if err != nil {
		w.t.Fatal(err)
	}
	for i, r := range all {
		var segments []string
		for _, s := range r.Pattern() {
			segment := s.String()
			if s.Deep {
				segment = "{" + s.Name + "=**}"
			}
			segments = append(segments, segment)
		}
		w.trigger(fmt.Sprint("written", i), strings.Join(segments, "/"))
	}
}

// trigger has events come of the documents that a pattern matches, in place of the events that the
// trigger of that name had before.
func (w *world) trigger(name, pattern string) {
	w.t.Helper()
	if err := emulator.RegisterTrigger(w.ctx, w.addr, emulator.Trigger{Project: w.project, Name: name, Pattern: pattern}); err != nil {
		w.t.Fatal(err)
	}
}

// kill ends a process by SIGKILL, and starts another in its place.
func (w *world) kill(p *process) {
	w.t.Helper()
	p.kill()
	w.start(p)
	w.setTargets()
}

// start starts a process in its place.
func (w *world) start(p *process) {
	w.t.Helper()
	p.start(w.ctx, w.t)
}

// setTargets has events delivered to the processes that are there now.
func (w *world) setTargets() {
	var urls []string
	for _, p := range w.processes {
		urls = append(urls, p.url())
	}
	w.relay.SetTargets(urls)
	if w.queue != nil {
		w.queue.SetTargets(urls)
	}
}

// A rollUp is what a roll-up document says.
type rollUp struct {
	asOf             time.Time
	count, numShards int64
}

// An increment is one of a client's.
type increment struct {
	at           time.Time // committed; of one in doubt, when it was sent
	acknowledged time.Time // by the local clock
	amount       int64
}

// A counter is one of a world's, and all that is known about it.
type counter struct {
	*shards.Counter
	id       string
	document string // the roll-up document's name

	mu           sync.Mutex
	acknowledged []increment
	inDoubt      []increment
	seen         []rollUp      // by a snapshot listener
	changed      chan struct{} // closed when something more is seen
}

// newCounter creates a counter and listens to its roll-up until the test ends.
func (w *world) newCounter(id string) *counter {
	w.t.Helper()
	doc := w.client.Doc("rollups/" + id)
	c := &counter{
		Counter: shards.New(w.client, "counters/"+id, shards.NumShards(shardsOf)),
		id:      id, document: doc.Path, changed: make(chan struct{}),
	}
	if err := c.Create(w.ctx, shardsOf); err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.ctx)
	var listener sync.WaitGroup
	listening := make(chan struct{})
	started := sync.OnceFunc(func() { close(listening) })
	listener.Go(func() {
		defer started()
		// A listener to a document that is about to appear may hear for minutes that it is missing. A
		// query's hears of it.
		snapshots := w.client.Collection("rollups").Where(firestore.DocumentID, "==", doc).Snapshots(ctx)
		defer snapshots.Stop()
		for {
			found, err := snapshots.Next()
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				w.t.Errorf("listening to rollups/%s: %v", id, err)
				return
			}
			for _, change := range found.Changes {
				if change.Kind != firestore.DocumentRemoved {
					c.see(change.Doc)
				}
			}
			started()
		}
	})
	<-listening // the emulator tells a listener nothing of a commit that falls into its beginning
	w.t.Cleanup(func() { cancel(); listener.Wait() })
	return c
}

// see notes a roll-up that the listener sees.
func (c *counter) see(d *firestore.DocumentSnapshot) {
	fields := d.Data()
	tally := document.DecodeTally(fields[document.TallyField])
	r := rollUp{asOf: tally.AsOf, numShards: tally.NumShards}
	r.count, _ = fields["count"].(int64)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = append(c.seen, r)
	close(c.changed)
	c.changed = make(chan struct{})
}

// await waits until a roll-up as of t or later is seen.
func (c *counter) await(ctx context.Context, t time.Time) error {
	for {
		c.mu.Lock()
		covered := len(c.seen) > 0 && !c.seen[len(c.seen)-1].asOf.Before(t)
		changed := c.changed
		c.mu.Unlock()
		if covered {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("no roll-up of %s as of %v or later: %w", c.id, t, context.Cause(ctx))
		}
	}
}

// incremented returns the counters that are incremented now.
func (w *world) incremented() []*counter {
	now := make([]*counter, w.width)
	for i := range now {
		now[i] = w.counters[(int(w.active.Load())+i)%len(w.counters)]
	}
	return now
}

// moveOn has the load leave a counter, which it increments once more, and take up the next. Later
// events do not make up for a loss in a counter that is left.
func (w *world) moveOn() {
	w.t.Helper()
	if err := w.incremented()[0].increment(w.ctx, 1); err != nil {
		w.t.Fatal(err)
	}
	w.active.Add(1)
}

// during increments counters for as long as scenario runs and then checks everything.
func (w *world) during(scenario func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	limiter := rate.NewLimiter(form[rate.Limit](20, 40), 1)
	var load errgroup.Group
	for n := range clients {
		random := rand.New(rand.NewPCG(*seed, uint64(n+1)))
		load.Go(func() error {
			for limiter.Wait(ctx) == nil {
				c := w.incremented()[random.IntN(w.width)]
				if err := c.increment(w.ctx, random.Int64N(9)+1); err != nil {
					return err
				}
			}
			return nil
		})
	}
	scenario()
	cancel()
	if err := load.Wait(); err != nil {
		w.t.Fatal(err)
	}
	w.settle()
}

// increment increments the counter once. An increment that Firestore refused for sure is sent
// again.
func (c *counter) increment(ctx context.Context, amount int64) error {
	for {
		sent := time.Now()
		committed, err := c.Increment(ctx, amount)
		c.mu.Lock()
		switch {
		case err == nil:
			c.acknowledged = append(c.acknowledged, increment{committed, time.Now(), amount})
		case errors.Is(err, shards.ErrInDoubt):
			c.inDoubt = append(c.inDoubt, increment{at: sent, amount: amount})
		}
		c.mu.Unlock()
		if err == nil || errors.Is(err, shards.ErrInDoubt) {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// covered waits until every counter that is incremented has a roll-up later than this call.
func (w *world) covered() {
	w.t.Helper()
	now := time.Now() // the emulator's clock is this machine's
	for _, c := range w.incremented() {
		if err := c.await(w.ctx, now); err != nil {
			w.t.Fatal(err)
		}
	}
}

// settle waits until all events are acknowledged and the last increments rolled up, and checks all
// that was seen.
func (w *world) settle() {
	w.t.Helper()
	ctx, cancel := context.WithTimeoutCause(w.ctx, 10*time.Minute, errors.New("an increment is lost, or the machine is much too slow"))
	defer cancel()
	for _, c := range w.counters {
		total, last := w.sum(c)
		if err := c.await(ctx, last); err != nil {
			w.t.Fatal(err)
		}
		if err := w.relay.Wait(ctx); err != nil {
			w.t.Fatal(err)
		}
		c.mu.Lock()
		c.check(w, total)
		c.mu.Unlock()
	}
	w.checkLogs()
	w.t.Logf("%v; events: %+v", time.Since(w.started).Round(time.Second), w.relay.Stats())
}

// checkLogs checks that no functions process has logged what none should.
func (w *world) checkLogs() {
	w.t.Helper()
	for n, p := range w.processes {
		for _, bad := range []string{"DATA RACE", "panic", "goroutine ", `"severity":"ERROR"`} {
			if bytes.Contains(p.logs.bytes(), []byte(bad)) {
				w.t.Errorf("functions process %d logged %q", n, bad)
			}
		}
		if w.t.Failed() {
			w.t.Logf("the last that functions process %d logged:\n%s", n, p.logs.tail())
		}
	}
}

// sum returns the sum of the shards and when the last of them was written.
func (w *world) sum(c *counter) (total int64, last time.Time) {
	w.t.Helper()
	docs, err := w.client.Collection("counters/" + c.id + "/shards").Documents(w.ctx).GetAll()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, d := range docs {
		count, _ := d.Data()["count"].(int64)
		total += count
		if d.UpdateTime.After(last) {
			last = d.UpdateTime
		}
	}
	return total, last
}

// between returns the least and the greatest sum that the counter can have had in a snapshot at t.
// They differ by the increments in doubt, and by those that were committed by then but acknowledged
// later: the emulator gives a commit its time up to some milliseconds before snapshots see it, so
// that, without any functions too, a snapshot under load now and then misses a write that is older
// than its read time. Firestore promises that none does.
func (c *counter) between(t time.Time) (least, greatest int64) {
	for _, i := range c.acknowledged {
		if !i.acknowledged.After(t) { // the emulator's clock is this machine's
			least += i.amount
		}
		if !i.at.After(t) {
			greatest += i.amount
		}
	}
	for _, i := range c.inDoubt {
		if !i.at.After(t) {
			greatest += i.amount
		}
	}
	return least, greatest
}

// check checks everything that is known about the counter, whose shards come to total.
func (c *counter) check(w *world, total int64) {
	w.t.Helper()
	if len(c.inDoubt) > len(c.acknowledged)/4 {
		w.t.Errorf("%s: %d increments acknowledged, %d in doubt", c.id, len(c.acknowledged), len(c.inDoubt))
	}
	if least, greatest := c.between(time.Now()); total < least || total > greatest {
		w.t.Errorf("%s: the shards come to %d, the increments to %d at least and %d at most", c.id, total, least, greatest)
	}
	if last := c.seen[len(c.seen)-1]; last.count != total {
		w.t.Errorf("%s: rolled up %d as of %v, the shards come to %d", c.id, last.count, last.asOf, total)
	}
	var accepted []sent
	refused := 0
	for _, p := range w.processes {
		for _, s := range p.proxy.rollUps() {
			switch {
			case s.document != c.document:
			case s.err == nil:
				accepted = append(accepted, s)
			default:
				refused++
			}
		}
	}
	slices.SortFunc(accepted, func(a, b sent) int { return a.committed.Compare(b.committed) })
	for n, s := range accepted {
		c.checkTrue(w, "accepted", s.rollUp)
		if n > 0 && !s.asOf.After(accepted[n-1].asOf) {
			w.t.Errorf("%s: as_of went back: a roll-up as of %v was accepted at %v, after one as of %v at %v",
				c.id, s.asOf, s.committed, accepted[n-1].asOf, accepted[n-1].committed)
		}
	}
	for n, r := range c.seen {
		c.checkTrue(w, "seen", r)
		if n > 0 && r.asOf.Before(c.seen[n-1].asOf) {
			w.t.Errorf("%s: a listener saw as_of go back from %v to %v", c.id, c.seen[n-1].asOf, r.asOf)
		}
	}
	w.t.Logf("%s: %d increments acknowledged, %d in doubt; roll-ups: %d accepted, %d refused, %d seen",
		c.id, len(c.acknowledged), len(c.inDoubt), len(accepted), refused, len(c.seen))
}

// checkTrue checks that a roll-up is the sum at its as_of.
func (c *counter) checkTrue(w *world, what string, r rollUp) {
	w.t.Helper()
	if least, greatest := c.between(r.asOf); r.count < least || r.count > greatest || r.numShards != shardsOf {
		w.t.Errorf("%s: a roll-up that was %s says %d of %d shards as of %v; the increments until then come to %d at least and %d at most, of %d shards",
			c.id, what, r.count, r.numShards, r.asOf.Format(time.RFC3339Nano), least, greatest, shardsOf)
	}
}
