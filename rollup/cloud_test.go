package rollup_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/memstore"
	"github.com/firestore-tally/tally/rollup"
)

// A simulation runs coalescers of many instances against one database, in virtual time, and does to
// them all that a cloud may do. It knows the truth, and notes what breaks the engine's word.
type simulation struct {
	*choices
	weather weather
	cadence time.Duration
	burst   int
	routes  rollup.Routes
	began   time.Time
	store   memstore.Store
	actors  sync.WaitGroup

	mu         sync.Mutex
	counters   []*simulatedCounter
	instances  []*instance // those that take events
	all        []*instance
	deliveries []*simulatedDelivery // that have ended
	held       map[holder][]*simulatedDelivery
	outcome    outcome
	existing   bool // the roll-ups are in documents of the app's own, which come and go
	every      bool // the schedule keeps the counters; their events come all the same, or not at all
	calm       bool // nothing fails any more
	kept       bool // whether to keep the history
	history    []happening
}

// An outcome says what became of a run.
type outcome struct {
	broken   []string // how the engine's word was broken
	events   int
	rollUps  int
	refused  int // writes refused
	crashes  int
	repaired int // counters that only the audit brought up to date
}

func (o *outcome) add(other outcome) {
	o.events += other.events
	o.rollUps += other.rollUps
	o.refused += other.refused
	o.crashes += other.crashes
	o.repaired += other.repaired
}

// A holder is what may stand for an event: the other deliveries of its counter at the same
// instance.
type holder struct {
	*instance
	*simulatedCounter
}

type happening struct {
	at   time.Duration
	what string
}

// weather is how likely each kind of fault is in a run. Most runs have a few kinds only.
type weather struct {
	duplicate, lostAck, abandon, cut, crash, late, drop, fail, slow float64

	writes float64 // how likely is each write that there may be
	span   time.Duration
}

func newWeather(seed uint64) weather {
	r := rand.New(rand.NewPCG(seed, hash("weather")))
	rate := func(most float64) float64 {
		if r.IntN(5) < 3 {
			return 0
		}
		return most * r.Float64()
	}
	return weather{
		duplicate: rate(0.6), lostAck: rate(0.4), abandon: rate(0.2), cut: rate(0.4), crash: rate(0.3), late: rate(0.4),
		drop: rate(0.05), fail: rate(0.5), slow: rate(0.5),
		writes: r.Float64(), span: time.Duration(1 + r.Int64N(int64(30*time.Second))),
	}
}

// A simulatedCounter is a counter and the truth about it.
type simulatedCounter struct {
	rollup.Counter
	shards  map[int64]int64
	likes   map[int64]bool
	truth   []truth     // by commit
	asOf    time.Time   // of its last roll-up
	removed bool        // and that was removed
	covered time.Time   // up to when all changes were rolled up, or found to have no document
	came    time.Time   // commit of the app's own document, the last one; zero: there is none
	commits []time.Time // of its roll-up's writes
	paced   []time.Time // as_of of those since it was created
	lags    []time.Duration
	behind  []time.Time // commits that no roll-up covers yet
}

func (s *simulation) newCounter(id string) *simulatedCounter {
	c, _ := s.routes[0].Counter("counters/" + id + "/shards")
	return &simulatedCounter{Counter: c, shards: make(map[int64]int64), likes: make(map[int64]bool)}
}

// truth is what a counter's shards held from a commit on.
type truth struct {
	commit     time.Time
	sum        int64
	shardCount int64
	likes      int64
}

// documents is how many were counted, of all sources.
func (t truth) documents() int64 { return t.shardCount + t.likes }

// totals returns what the counter's roll-up is to hold then.
func (c *simulatedCounter) totals(is truth) map[string]rollup.Number {
	totals := map[string]rollup.Number{"count": rollup.Int(is.sum)}
	if len(c.Template.Routes) > 1 {
		totals["likes"] = rollup.Int(is.likes)
	}
	return totals
}

// at returns the truth at an instant.
func (c *simulatedCounter) at(t time.Time) truth {
	i, _ := slices.BinarySearchFunc(c.truth, t, func(e truth, t time.Time) int {
		if e.commit.After(t) {
			return 1
		}
		return -1
	})
	if i == 0 {
		return truth{}
	}
	return c.truth[i-1]
}

// A message is one event, with all its copies. One acknowledgement ends it.
type message struct {
	n       int
	counter *simulatedCounter
	commit  time.Time
	same    bool // it changed no total
	acked   bool
	dropped bool // its retries are exhausted
}

// A simulatedDelivery is one delivery of a message to an instance.
type simulatedDelivery struct {
	*message
	name    string
	to      *instance
	arrival time.Time // by the database's clock
	since   time.Time // arrival, or that of the copy held by the same instance, whose outcome it shares
	ended   time.Time // zero: held
	nil     bool      // the engine returned nil, and lived to tell
	acked   bool      // and the platform heard it
}

// An instance is one process with a coalescer. The store that it sees fails, stalls and crashes it.
type instance struct {
	*simulation
	name      string
	coalescer *rollup.Coalescer
	ready     time.Time
	ctx       context.Context
	crashed   context.CancelCauseFunc

	// guarded by the simulation's mutex
	calls map[string]int // by roll-up: what one instance does to several goes on at once
	looks int
}

var (
	errCrashed = errors.New("the instance crashed")
	errStore   = errors.New("unavailable")
	errCut     = errors.New("the platform cut the request")
)

func newSimulation(c *choices) *simulation {
	return &simulation{choices: c, cadence: cadence, burst: 1, routes: likes.Template.Routes, held: make(map[holder][]*simulatedDelivery)}
}

// simulate runs what the choices say. With kept it keeps the history.
func simulate(t *testing.T, c *choices, kept bool) (s *simulation) {
	s = newSimulation(c)
	s.kept = kept
	defer func() {
		if stuck := recover(); stuck != nil { // the bubble's goroutines wait for each other
			s.breach("not everything ends: %v", stuck)
		}
		slices.SortFunc(s.history, func(a, b happening) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.what, b.what)) })
	}()
	synctest.Test(t, func(*testing.T) { s.run() })
	return s
}

const (
	maxWrites   = 50
	maxAttempts = 6  // of a delivery; later ones go well
	maxFaults   = 60 // calls of one instance that may fail; later ones go well
	maxCrashes  = 20
)

func upTo(n int64) func(*rand.Rand) int64 {
	return func(r *rand.Rand) int64 { return 1 + r.Int64N(n) }
}

func (s *simulation) run() {
	if s.drawn {
		s.weather = newWeather(s.seed)
	}
	s.began = time.Now()
	s.cadence = cmp.Or(s.chanceOf(0.2, "cadence", 100*time.Millisecond, 2*time.Second), time.Second)
	s.store.Skew = s.chanceOf(0.3, "clock of the database ahead by", time.Second, 10*time.Hour) - s.chanceOf(0.3, "clock of the database behind by", time.Second, 10*time.Hour)
	if s.chance(0.7, "bursts", upTo(1)) == 1 {
		s.burst = 5
	}
	if s.every = s.chance(0.25, "every", upTo(1)) == 1; s.every {
		s.actors.Go(s.schedule)
	}
	s.layOut()
	for n := range 1 + s.chance(0.5, "further counters", upTo(2)) {
		s.counters = append(s.counters, s.newCounter(string(rune('a'+n))))
	}
	s.startApp()
	for range 1 + s.chance(0.8, "further instances", upTo(5)) {
		s.instances = append(s.instances, s.newInstance())
	}
	for n := range s.chance(0.4, "changes of instances", upTo(3)) {
		s.actors.Go(func() { s.scale(fmt.Sprint("change ", n+1)) })
	}
	for n := range s.chance(0.3, "audits", upTo(3)) {
		s.actors.Go(func() { s.auditSometime(fmt.Sprint("audit ", n+1)) })
	}
	for n := range maxWrites {
		name := fmt.Sprint("write ", n+1)
		amount := s.chance(s.weather.writes, name, func(r *rand.Rand) int64 { return r.Int64N(20) - 5 })
		deletes := s.chance(0.1*s.weather.writes, name+" deletes", upTo(1)) == 1
		if amount != 0 || deletes {
			s.actors.Go(func() { s.write(n+1, amount, deletes) })
		}
	}
	s.actors.Wait()
	time.Sleep(time.Hour) // quiet
	s.check()
}

// write commits one change of a shard and sends its event.
func (s *simulation) write(n int, amount int64, deletes bool) {
	name := fmt.Sprint("write ", n)
	time.Sleep(s.chanceOf(0.9, name+" after", time.Microsecond, max(s.weather.span, time.Millisecond)) + jitter(name))
	c := s.counters[s.chance(0.5, name+" counter", upTo(2))%int64(len(s.counters))]
	m := &message{n: n, counter: c}
	if shard := s.chance(0.7, name+" shard", upTo(3)); len(s.routes) > 1 && s.chance(0.5, name+" is of a like", upTo(1)) == 1 {
		m.commit, m.same = s.commitLike(c, n, shard, deletes)
	} else {
		m.commit = s.commitShard(c, n, shard, amount, deletes)
	}
	if s.every && s.chance(0.5, name+" has no trigger", upTo(1)) == 1 {
		return
	}
	for copy := range 1 + int(s.chance(s.weather.duplicate, fmt.Sprintf("event %d duplicates", n), upTo(2))) {
		s.actors.Go(func() { s.send(m, copy+1) })
	}
}

// commitShard adds to a shard of the counter or deletes it, and returns the commit time.
func (s *simulation) commitShard(c *simulatedCounter, n int, shard, amount int64, deletes bool) (at time.Time) {
	path := fmt.Sprint(shardsOf(c.Counter), "/", shard)
	s.mu.Lock()
	defer s.mu.Unlock()
	if deletes {
		at = s.store.Delete(path)
		delete(c.shards, shard)
		s.tell("%s is deleted: event %d", path, n)
	} else {
		at = s.store.Increment(path, "count", amount)
		c.shards[shard] += amount
		s.tell("%s %+d: event %d", path, amount, n)
	}
	s.committed(c, at)
	return at
}

// committed notes the truth as of a commit. The mutex is held.
func (s *simulation) committed(c *simulatedCounter, at time.Time) {
	t := truth{commit: at, shardCount: int64(len(c.shards)), likes: int64(len(c.likes))}
	for _, held := range c.shards {
		t.sum += held
	}
	c.truth = append(c.truth, t)
	c.behind = append(c.behind, at)
	s.outcome.events++
}

// send delivers a copy of a message until the message is acknowledged. A further copy comes once
// even after that.
func (s *simulation) send(m *message, copy int) {
	for attempt := 1; ; attempt++ {
		name := fmt.Sprintf("event %d.%d.%d", m.n, copy, attempt)
		faulty := 1.0
		switch {
		case attempt > 1000: // far more than there are faults
			s.mu.Lock()
			defer s.mu.Unlock()
			s.breach("event %d is not acknowledged after %d deliveries", m.n, attempt-1)
			return
		case attempt > maxAttempts:
			faulty = 0
		}
		delay := s.chanceOf(0.9*faulty, name+" delay", time.Millisecond, 100*time.Millisecond) +
			s.chanceOf(s.weather.late*faulty, name+" late", 100*time.Millisecond, 5*time.Hour)
		if attempt > 1 {
			delay += 10 * time.Second
		}
		time.Sleep(delay + jitter(name))

		s.mu.Lock()
		if over := m.acked || m.dropped; over && (copy == 1 || attempt > 1) {
			s.mu.Unlock()
			return
		}
		if s.chance(s.weather.drop*faulty, name+" is dropped", upTo(1)) == 1 && attempt > 1 {
			m.dropped = true
			s.tell("event %d is dropped for good", m.n)
			s.mu.Unlock()
			return
		}
		to := s.instances[s.chance(faulty, name+" instance", upTo(100))%int64(len(s.instances))]
		s.mu.Unlock()
		s.deliver(m, name, to, faulty)
	}
}

// deliver delivers a message to an instance and waits for the platform's verdict.
func (s *simulation) deliver(m *message, name string, to *instance, faulty float64) {
	if wait := time.Until(to.ready); wait > 0 && !sleepUntil(to.ctx, to.ready.Add(jitter(name+" arrival"))) {
		return
	}
	limit := cmp.Or(s.chanceOf(s.weather.cut*faulty, name+" is cut after", time.Millisecond, hold), hold)
	abandoned := cmp.Or(s.chanceOf(s.weather.abandon*faulty, name+" is abandoned after", time.Millisecond, 10*time.Second), time.Hour)
	lost := s.chance(s.weather.lostAck*faulty, name+" acknowledgement is lost", upTo(1)) == 1
	if crash := s.chanceOf(s.weather.crash*faulty, name+" crashes its instance after", time.Microsecond, 10*time.Second); crash > 0 {
		s.actors.Go(func() {
			if sleepUntil(to.ctx, time.Now().Add(crash+jitter(name+" crash"))) {
				to.crash()
			}
		})
	}

	s.mu.Lock()
	d := &simulatedDelivery{message: m, name: name, to: to, arrival: s.store.Now()}
	d.since = d.arrival
	held := holder{to, m.counter}
	if i := slices.IndexFunc(s.held[held], func(other *simulatedDelivery) bool { return other.message == m }); i >= 0 {
		d.since = s.held[held][i].since
	}
	s.held[held] = append(s.held[held], d)
	s.tell("%s arrives at %s", name, to.name)
	s.mu.Unlock()
	verdict := make(chan struct{})
	s.actors.Go(func() {
		ctx, cancel := context.WithTimeoutCause(to.ctx, limit+jitter(name+" cut"), errCut)
		defer cancel()
		ending, err := to.coalescer.Changed(ctx, m.counter.Counter, rollup.Event{ID: fmt.Sprint("event ", m.n), UpdateTime: m.commit, Unchanged: m.same})
		s.mu.Lock()
		defer s.mu.Unlock()
		defer close(verdict)
		s.end(d, ending, err)
	})
	gaveUp := time.NewTimer(abandoned + jitter(name+" abandoned"))
	defer gaveUp.Stop()
	select {
	case <-verdict:
	case <-gaveUp.C:
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case d.nil && lost:
		s.tell("the acknowledgement of %s is lost", name)
	case d.nil:
		d.acked, m.acked = true, true
	}
}

// end takes the engine's answer to a delivery. The mutex is held.
func (s *simulation) end(d *simulatedDelivery, ending rollup.Ending, err error) {
	d.ended = s.store.Now()
	held := holder{d.to, d.counter}
	s.held[held] = slices.DeleteFunc(s.held[held], func(other *simulatedDelivery) bool { return other == d })
	s.deliveries = append(s.deliveries, d)
	switch {
	case d.to.ctx.Err() != nil:
		return // nobody is left to tell it
	case err != nil:
		s.tell("%s fails: %v", d.name, err)
		return
	}
	d.nil = true
	if !ending.AsOf.IsZero() && ending.AsOf.Before(d.since) {
		s.breach("%s is said to be covered as of %v, before it came", d.name, ending.AsOf)
	}
	if s.covered(d) {
		s.tell("%s returns nil: covered", d.name)
		return
	}
	for _, other := range s.held[held] {
		if other.message != d.message {
			s.tell("%s returns nil: %s stands for it", d.name, other.name)
			return
		}
	}
	if d.same {
		s.tell("%s returns nil: it changed nothing", d.name)
		return
	}
	s.breach("%s returned nil, but no roll-up covers it and nothing stands for it", d.name)
}

// covered reports whether a roll-up covers all that was committed before the delivery arrived.
func (s *simulation) covered(d *simulatedDelivery) bool {
	return !d.counter.covered.Before(d.since.Truncate(time.Microsecond))
}

// scale adds an instance or takes one away.
func (s *simulation) scale(name string) {
	time.Sleep(s.chanceOf(1, name+" after", time.Millisecond, time.Minute) + jitter(name))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.chance(0.5, name+" removes", upTo(1)) == 1 && len(s.instances) > 1 {
		// It gets no new events, and finishes what it has.
		s.tell("%s is taken away", s.instances[0].name)
		s.instances = s.instances[1:]
		return
	}
	s.instances = append(s.instances, s.newInstance())
}

func (s *simulation) auditSometime(name string) {
	time.Sleep(s.chanceOf(1, name+" after", time.Millisecond, 6*time.Hour) + jitter(name))
	i := s.newHelper(name)
	_, _ = rollup.Audit(i.ctx, i, s.routes, i.auditOptions()) // may fail or crash
}

// newHelper starts an instance that takes no events.
func (s *simulation) newHelper(name string) *instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.start(name)
}

// newInstance starts an instance. The mutex is held, or nothing runs yet.
func (s *simulation) newInstance() *instance {
	return s.start(fmt.Sprint("instance ", len(s.all)+1))
}

func (s *simulation) start(name string) *instance {
	i := &instance{simulation: s, name: name, calls: make(map[string]int)}
	i.ctx, i.crashed = context.WithCancelCause(context.Background())
	i.coalescer = rollup.NewCoalescer(i, i.options())
	i.ready = time.Now().Add(s.chanceOf(0.5*s.weather.slow, i.name+" starts slowly", time.Millisecond, 10*time.Second))
	s.all = append(s.all, i)
	s.tell("%s starts", i.name)
	return i
}

func (i *instance) options() rollup.Options {
	return rollup.Options{Cadence: i.cadence, Burst: i.burst, Timeout: hold / 2, Logger: slog.New(slog.DiscardHandler), Random: i.random}
}

func (i *instance) auditOptions() rollup.AuditOptions {
	return rollup.AuditOptions{Options: i.options(), Concurrency: 2, Grace: rollup.Grace(i.cadence, hold)}
}

// random is drawn by the time, because two counters may ask at one instant in any order.
func (i *instance) random() float64 {
	return float64(i.chance(1, fmt.Sprintf("%s random at %v", i.name, time.Since(i.began)), upTo(999))) / 1000
}

// crash ends the instance where it stands, and starts another in its place.
func (i *instance) crash() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ctx.Err() != nil || i.outcome.crashes >= maxCrashes {
		return
	}
	i.outcome.crashes++
	i.tell("%s crashes", i.name)
	i.crashed(errCrashed)
	if at := slices.Index(i.instances, i); at >= 0 {
		i.instances[at] = i.newInstance()
	}
}

// A fault is what befalls a call of an instance's store.
type fault int64

const (
	none          fault = iota
	errorBefore         // it fails and has no effect
	errorAfter          // it has its effect, and the answer is lost
	crashBefore         // the instance crashes before it has an effect
	crashAfter          // and after it
	hangs               // no effect, and no answer until the caller gives up
	outlasts            // as hangs, and the call ends some time after that
	conflict            // refused though nothing was in the way, as Firestore may abort
	conflictAfter       // done, and done again by the SDK, which then was refused
	landsLate           // it fails, and has its effect later
	crashLate           // the instance crashes, and it has its effect later
	faults
)

// A call is one call of an instance's store: a request on its way there and an answer on its way
// back.
type call struct {
	*instance
	name   string
	mayErr bool
	fault  fault
}

// begin begins the instance's next call for a roll-up. The last fault that may befall it is worst.
func (i *instance) begin(what string, counter rollup.Counter, worst fault) *call {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.calls[counter.RollUp]++
	n := i.calls[counter.RollUp]
	c := &call{instance: i, name: fmt.Sprintf("%s %s %d %s", i.name, counter.RollUp, n, what), mayErr: n <= maxFaults && !i.calm}
	if c.mayErr {
		c.fault = min(fault(i.chance(i.weather.fail, c.name+" fault", upTo(int64(worst)))), worst)
	}
	return c
}

// there is the request's way to the database.
func (c *call) there(ctx context.Context) error {
	if err := c.stall(ctx, "before", 5*time.Millisecond); err != nil {
		return err
	}
	switch c.fault {
	case errorBefore:
		return errStore
	case crashBefore:
		c.crash()
		return errCrashed
	case hangs, outlasts:
		<-ctx.Done()
		if c.fault == outlasts {
			time.Sleep(c.chanceOf(1, c.name+" outlasts", time.Second, time.Minute) + jitter(c.name+" outlasts"))
		}
		return context.Cause(ctx)
	case conflict:
		return rollup.ErrConflict
	}
	return nil
}

// back is the answer's way back.
func (c *call) back(ctx context.Context) error {
	if c.fault == crashAfter {
		c.crash()
	}
	if err := c.stall(ctx, "after", 5*time.Millisecond); err != nil {
		return err
	}
	switch c.fault {
	case errorAfter:
		return errStore
	case conflictAfter:
		return rollup.ErrConflict
	}
	return nil
}

// stall waits for the network, or longer.
func (c *call) stall(ctx context.Context, where string, usual time.Duration) error {
	d := usual + jitter(c.name+where)
	if c.mayErr {
		d += c.chanceOf(c.weather.slow, c.name+" slow "+where, time.Millisecond, 90*time.Second)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.ctx.Done():
	}
	return context.Cause(c.ctx)
}

func (i *instance) View(ctx context.Context, c rollup.Counter) (rollup.Snapshot, error) {
	call := i.begin("view", c, outlasts)
	if err := call.there(ctx); err != nil {
		return nil, err
	}
	v, err := i.store.View(ctx, c)
	if err != nil {
		return nil, err
	}
	i.mu.Lock()
	i.looks++
	i.tell("%s looks at %s: as of %s", i.name, c.RollUp, i.clock(v.RollUp().Tally.AsOf))
	if i.existing && !v.RollUp().Exists() {
		i.counter(c).cover(v.ReadTime())
	}
	i.mu.Unlock()
	return simulatedSnapshot{v, i, c}, call.back(ctx)
}

type simulatedSnapshot struct {
	rollup.Snapshot
	i *instance
	c rollup.Counter
}

func (v simulatedSnapshot) Sum(ctx context.Context) (totals rollup.Totals, err error) {
	call := v.i.begin("sum", v.c, outlasts)
	if err := call.there(ctx); err != nil {
		return totals, err
	}
	if totals, err = v.Snapshot.Sum(ctx); err != nil {
		return totals, err
	}
	return totals, call.back(ctx)
}

func (i *instance) Write(ctx context.Context, c rollup.Counter, r rollup.RollUp) error {
	if age := i.store.Now().Sub(r.Tally.AsOf); age > time.Minute {
		i.mu.Lock()
		i.breach("%s sent a write %v after its snapshot", i.name, age)
		i.mu.Unlock()
	}
	return i.change(ctx, c, "write", func(ctx context.Context, name string) error { return i.commit(ctx, c, r, name) })
}

func (i *instance) Remove(ctx context.Context, c rollup.Counter, r rollup.RollUp) error {
	return i.change(ctx, c, "removal", func(ctx context.Context, name string) error { return i.remove(ctx, c, r, name) })
}

// change is a call that changes a roll-up document.
func (i *instance) change(ctx context.Context, c rollup.Counter, what string, do func(ctx context.Context, name string) error) error {
	call := i.begin(what, c, faults-1)
	if call.fault == landsLate || call.fault == crashLate {
		i.actors.Go(func() {
			time.Sleep(i.chanceOf(1, call.name+" lands after", time.Millisecond, 50*time.Second) + jitter(call.name+" lands"))
			_ = do(context.Background(), call.name+", late")
		})
		if call.fault == crashLate {
			i.crash()
			return errCrashed
		}
		return errStore
	}
	if err := call.there(ctx); err != nil {
		return err
	}
	if err := do(ctx, call.name); err != nil {
		return err
	}
	return call.back(ctx)
}

// A walk's pages and the cursor are nobody's counter.
var walks = rollup.Counter{RollUp: "walks"}

func (i *instance) page(ctx context.Context, what string, page func() (rollup.Page, error)) (p rollup.Page, err error) {
	call := i.begin(what, walks, outlasts)
	if err := call.there(ctx); err != nil {
		return p, err
	}
	if p, err = page(); err != nil {
		return p, err
	}
	return p, call.back(ctx)
}

func (i *instance) Counters(ctx context.Context, route *rollup.Route, from string, limit int) (rollup.Page, error) {
	return i.page(ctx, "page of counters", func() (rollup.Page, error) { return i.store.Counters(ctx, route, from, limit) })
}

func (i *instance) RollUps(ctx context.Context, t *rollup.Template, from string, limit int) (rollup.Page, error) {
	return i.page(ctx, "page of roll-ups", func() (rollup.Page, error) { return i.store.RollUps(ctx, t, from, limit) })
}

func (i *instance) LoadCursor(ctx context.Context) (c rollup.Cursor, err error) {
	_, err = i.page(ctx, "load", func() (p rollup.Page, err error) {
		c, err = i.store.LoadCursor(ctx)
		return p, err
	})
	return c, err
}

func (i *instance) SaveCursor(ctx context.Context, c rollup.Cursor) (time.Time, error) {
	saved := make(chan time.Time, 1) // perhaps after the call has failed
	err := i.change(ctx, walks, "save", func(ctx context.Context, _ string) error {
		at, err := i.store.SaveCursor(ctx, c)
		saved <- at
		return err
	})
	if err != nil {
		return time.Time{}, err
	}
	return <-saved, nil
}

// counter returns the truth about a counter.
func (s *simulation) counter(c rollup.Counter) *simulatedCounter {
	return s.counters[slices.IndexFunc(s.counters, func(sc *simulatedCounter) bool { return sc.RollUp == c.RollUp })]
}

// remove removes a roll-up, and checks that it might be.
func (s *simulation) remove(ctx context.Context, c rollup.Counter, r rollup.RollUp, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	counter := s.counter(c)
	if err := s.store.Remove(ctx, c, r); err != nil {
		s.tell("%s: %v", name, err)
		return err
	}
	s.tell("%s: %s is removed", name, c.RollUp)
	if s.existing {
		s.breach("%s: %s, the app's own, was removed", name, c.RollUp)
	}
	if now := s.store.Now(); r.Tally.NumShards != 0 || now.Sub(counter.asOf) <= time.Hour {
		s.breach("%s: %s was removed %v after it held %d shards", name, c.RollUp, now.Sub(counter.asOf), r.Tally.NumShards)
	}
	counter.removed, counter.paced = true, nil
	return nil
}

// commit applies a write of a roll-up, and checks it against the truth.
func (s *simulation) commit(ctx context.Context, c rollup.Counter, r rollup.RollUp, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	counter := s.counter(c)
	if err := s.store.Write(ctx, c, r); err != nil {
		s.tell("%s: %v", name, err)
		s.outcome.refused++
		return err
	}
	s.outcome.rollUps++
	asOf, shards := r.Tally.AsOf, r.Tally.NumShards
	s.tell("%s: %s holds %v of %d shards as of %s", name, c.RollUp, r.Sums, shards, s.clock(asOf))
	if s.existing && r.UpdateTime.IsZero() {
		s.breach("%s: %s, the app's own, was created", name, c.RollUp)
	}
	if asOf.Before(counter.asOf) {
		s.breach("%s: as_of of %s went back from %s to %s", name, c.RollUp, s.clock(counter.asOf), s.clock(asOf))
	}
	counter.asOf, counter.removed = asOf, false
	counter.cover(asOf)
	if is := counter.at(asOf); !maps.Equal(r.Sums, counter.totals(is)) || shards != is.documents() {
		s.breach("%s: %s holds %v of %d shards as of %s; then it was %v of %d", name, c.RollUp, r.Sums, shards, s.clock(asOf), counter.totals(is), is.documents())
	}
	now := s.store.Now()
	counter.commits, counter.paced = append(counter.commits, now), append(counter.paced, asOf)
	if n, window, ok := tooMany(counter.paced, s.cadence, s.burst); !ok && !s.every { // a route that says every has two paces
		s.breach("%s: %s was rolled up %d times within %v", name, c.RollUp, n, window)
	}
	for len(counter.behind) > 0 && !counter.behind[0].After(asOf) {
		counter.lags = append(counter.lags, now.Sub(counter.behind[0]))
		counter.behind = counter.behind[1:]
	}
	return nil
}

// tooMany checks the pace's promise for the windows that end with the last roll-up: in a window w
// there are at most burst + w/cadence.
func tooMany(asOfs []time.Time, cadence time.Duration, burst int) (n int, window time.Duration, ok bool) {
	last := asOfs[len(asOfs)-1]
	for i := range asOfs {
		n, window = len(asOfs)-i, last.Sub(asOfs[i])
		if n > burst+int(window/cadence) {
			return n, window, false
		}
	}
	return 0, 0, true
}

// check checks the quiet after the run. What the design names as a remainder must be repaired by an
// audit; all else must be exact without.
func (s *simulation) check() {
	if s.every {
		s.calm = true
		s.keepAll()
	}
	for _, i := range s.all {
		if n := i.coalescer.Active(); n != 0 {
			s.breach("%s still remembers %d counters", i.name, n)
		}
	}
	for _, c := range s.counters {
		explained := false
		for _, d := range s.deliveries {
			if d.counter != c || !d.acked || s.covered(d) || d.same {
				continue
			}
			if !s.explained(d) {
				s.breach("%s was acknowledged and no roll-up covers it", d.name)
			}
			explained = true
		}
		for _, d := range s.deliveries {
			explained = explained || d.counter == c && d.dropped
		}
		explained = explained || s.cameLate(c)
		if explained && !s.exact(c) {
			s.outcome.repaired++
			s.tell("an audit repairs %s", c.RollUp)
			continue
		}
		if !s.exact(c) {
			s.breach("%s holds %v, the shards %d", c.RollUp, s.store.Get(c.RollUp), c.at(s.store.Now()).sum)
		}
	}
	s.calm = true
	for range 2 { // from where the last audit stopped, and from the beginning
		i := s.newInstance()
		if report, err := rollup.Audit(i.ctx, i, s.routes, i.auditOptions()); err != nil || !report.Complete {
			s.breach("the last audit: %+v: %v", report, err)
		}
	}
	for _, c := range s.counters {
		if nothing := s.store.Get(c.RollUp) == nil && len(c.shards)+len(c.likes) == 0; !nothing && !s.exact(c) {
			s.breach("after an audit %s holds %v, the shards %d", c.RollUp, s.store.Get(c.RollUp), c.at(s.store.Now()).sum)
		}
	}
}

// exact reports whether a counter's roll-up is the sum of its shards, or was removed and there are
// none.
func (s *simulation) exact(c *simulatedCounter) bool {
	if len(c.truth) == 0 {
		return true
	}
	is := c.at(s.store.Now())
	fields := s.store.Get(c.RollUp)
	if s.existing && c.came.IsZero() {
		return fields == nil
	}
	if c.removed || s.every && fields == nil { // without an event a counter that has no shards is never seen
		return fields == nil && len(c.shards)+len(c.likes) == 0
	}
	if tally := document.DecodeTally(fields["tally"]); s.existing && is.documents() == 0 && tally.AsOf.IsZero() {
		return true // a document that Tally never wrote
	}
	for name, total := range c.totals(is) {
		if fields[name] != total.Value() {
			return false
		}
	}
	return document.DecodeTally(fields["tally"]).NumShards == is.documents()
}

// explained reports whether an acknowledged event that nothing covers is a remainder that the
// design names: what stood for it failed, and was not delivered again, because another copy had
// been acknowledged before or because its retries were exhausted.
func (s *simulation) explained(d *simulatedDelivery) bool {
	for _, stood := range s.deliveries {
		if stood.to != d.to || stood.counter != d.counter || stood.message == d.message || stood.nil ||
			stood.arrival.After(d.arrival) || !stood.ended.After(d.arrival) {
			continue
		}
		explained := stood.message.acked || stood.dropped
		for _, again := range s.deliveries {
			if again.message == stood.message && again.acked && again.since.After(d.arrival) {
				explained = explained && s.explained(again)
			}
		}
		if explained {
			return true
		}
	}
	return false
}

// breach notes that the engine's word was broken. The mutex is held, or nothing runs any more.
func (s *simulation) breach(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	s.outcome.broken = append(s.outcome.broken, text)
	s.tell("BROKEN: %s", text)
}

// tell adds to the history. The mutex is held, or nothing runs beside.
func (s *simulation) tell(format string, args ...any) {
	if s.kept {
		s.history = append(s.history, happening{time.Since(s.began), fmt.Sprintf(format, args...)})
	}
}

// clock returns a time of the database as the history tells it.
func (s *simulation) clock(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.Add(-s.store.Skew).Sub(s.began).String()
}

// story returns the history, a line for each happening.
func (s *simulation) story() string {
	var b strings.Builder
	for _, h := range s.history {
		fmt.Fprintf(&b, "%15v  %s\n", h.at.Truncate(time.Microsecond), h.what)
	}
	return b.String()
}

// sleepUntil waits until t and reports true, or false when ctx ends before.
func sleepUntil(ctx context.Context, t time.Time) bool {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
