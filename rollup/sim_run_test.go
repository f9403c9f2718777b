package rollup_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/test/memstore"
	"github.com/firestore-tally/tally/internal/value"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

// A simulation runs coalescers of many instances against one database, in virtual time, and does to
// them all that a cloud may do. It knows the truth, and notes what breaks the engine's word.
type simulation struct {
	*choices
	t       *testing.T
	weather weather
	cadence time.Duration
	burst   int
	mixed   bool         // instances have other cadences and bursts, too
	routes  route.Routes // of the first revision; all have the same sources and roll-ups
	began   time.Time
	store   memstore.Store
	actors  actors

	mu           sync.Mutex
	revisions    []route.Routes
	latest       int // of them
	deployed     int // how many deployments there were
	counters     []*simulatedCounter
	instances    []*instance // those that take events
	all          []*instance
	deliveries   []*simulatedDelivery // that have ended
	held         map[holder][]*simulatedDelivery
	outcome      outcome
	levels       bool          // there are totals of totals
	circle       bool          // they are among their own sources
	late         time.Duration // how late events of roll-ups come at least, in a run with a circle
	told         int           // events of roll-ups, in a run with levels
	passing      int           // those that are not acknowledged yet
	existing     bool          // the roll-ups are in documents of the app's own, which come and go
	slow         bool          // sums take long
	liked        bool          // there are likes, too
	conditional  bool          // they are counted by a condition
	slowly       time.Duration // the cadence of the routes, for which events cannot be held; 0: they say none
	takes        time.Duration // how long a sum takes, for which events cannot be held; 0: as any call
	windowed     bool          // documents leave windows
	bounds       int           // visits of visitOnBound
	salts        map[rollup.Alarm]int
	alarmsFailed bool // one could not be made
	alarms       map[rollup.Alarm]*simulatedAlarm
	suspended    time.Duration             // for how long all machines were
	resumed      chan struct{}             // closed after that
	purged       time.Time                 // when somebody deleted all alarms; zero: never
	every        bool                      // the schedule keeps the counters; their events come all the same, or not at all
	orders       map[string]map[string]any // the documents of groups, by path; nil in a run without groups
	across       bool                      // these are below several parents
	shops        map[string][]presence     // whether the shops exist, by path; nil in a run without days
	days         dayPair                   // of the orders, in a run with days
	calm         bool                      // nothing fails any more
	kept         bool                      // whether to keep the history
	history      []happening
}

// An outcome says what became of a run.
type outcome struct {
	broken   []string // how the engine's word was broken
	events   int
	rollUps  int
	refused  int // writes refused
	locked   int // roll-ups written in a lock
	crashes  int
	repaired int // counters that only the audit brought up to date
	lost     int // events that were acknowledged, and that nothing covers although it should
}

func (o *outcome) add(other outcome) {
	o.events += other.events
	o.rollUps += other.rollUps
	o.refused += other.refused
	o.locked += other.locked
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
	duplicate, lostAck, abandon, cut, crash, late, drop, fail, slow, malformed, lost float64

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
		malformed: rate(1),
		lost:      rate(0.2),
	}
}

// A simulatedCounter is a counter and the truth about it.
type simulatedCounter struct {
	route.Counter
	shards      map[int64]int64
	likes       map[int64]bool // and whether they meet the condition, if there is one
	visits      map[int64]visit
	truth       []truth              // by commit
	asOf        time.Time            // of its last roll-up
	removed     bool                 // and that was removed
	covered     map[string]time.Time // up to when all changes were rolled up by a revision, or found to have no document
	came        time.Time            // commit of the app's own document, the last one; zero: there is none
	cameAgain   bool                 // it was created after others, or overwritten
	writes      int                  // to its document by anybody, in a run with levels
	commits     []time.Time          // of its roll-up's writes
	paced       []time.Time          // as_of of those since it was created
	lags        []time.Duration
	unkept      unkeptTime
	lost        bool        // an event of a change was lost
	forged      bool        // a client made up its totals, which wait for an audit
	forgedTally bool        // and parts of its tally, so that events may count as covered
	purged      bool        // somebody deleted an alarm of it; what that stood for waits for an audit
	behind      []time.Time // commits that no roll-up covers yet
}

func (s *simulation) newCounter(id string) *simulatedCounter {
	return s.counterAt(s.collection() + "/" + id)
}

// counterAt returns the counter of a roll-up.
func (s *simulation) counterAt(rollUp string) *simulatedCounter {
	c, ok := s.routes.Counter(rollUp)
	if !ok {
		panic(rollUp + " is no roll-up")
	}
	return &simulatedCounter{Counter: c, shards: make(map[int64]int64), likes: make(map[int64]bool), visits: make(map[int64]visit), covered: make(map[string]time.Time)}
}

// truth is what a counter's shards held from a commit on.
type truth struct {
	commit     time.Time
	sum        int64
	shardCount int64
	likes      int64
	unseen     bool // there are documents that meet no condition
	groups     map[document.Field]groupTruth
	visits     []visit
	summed     *route.Totals // in a run with levels
}

// counted is how many documents were counted, of all sources of a template.
func (t truth) counted(template *route.Template) int64 {
	if t.summed != nil {
		return t.summed.NumShards()
	}
	n := t.shardCount + t.likes + int64(len(t.visits))
	for _, r := range template.Routes {
		n += t.groups[byOf(r)].counted(r)
	}
	return n
}

// empty reports whether there were no documents.
func (t truth) empty() bool {
	if t.summed != nil {
		return t.summed.Empty()
	}
	there := func(g groupTruth) bool { return g.documents > 0 }
	return t.shardCount+t.likes+int64(len(t.visits)) == 0 && !t.unseen && !slices.ContainsFunc(slices.Collect(maps.Values(t.groups)), there)
}

// totals returns what a roll-up by a revision's routes is to hold then, as of a time.
func (t truth) totals(template *route.Template, now time.Time) map[string]value.Value {
	if t.summed != nil {
		return t.summed.Values
	}
	totals := make(map[string]value.Value)
	for _, r := range template.Routes {
		if r.By != nil {
			maps.Copy(totals, t.groups[byOf(r)].totals(r))
			continue
		}
		if len(r.Windows()) > 0 {
			maps.Copy(totals, t.visitTotals(r, now))
			continue
		}
		n := t.sum
		if r.Counts() {
			n = t.likes
		}
		totals[r.Totals[0].Name] = value.Int(n)
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
	about   []affected // the counters that its old or its new document belongs to
	written *written   // what it says about a document with groups; nil of others
	untold  bool       // it came without that
	commit  time.Time
	acked   bool
	dropped bool // its retries are exhausted
}

// An affected counter is one that an event is about.
type affected struct {
	*simulatedCounter
	same  bool // the event changed none of its totals
	noted bool // the event came without its documents, so that there are notes
}

// isAbout reports whether an event is about a counter.
func (m *message) isAbout(c *simulatedCounter) bool {
	return slices.ContainsFunc(m.about, func(a affected) bool { return a.simulatedCounter == c })
}

// changed reports whether an event is about a counter and may have changed a total of it.
func (m *message) changed(c *simulatedCounter) bool {
	return slices.Contains(m.about, affected{simulatedCounter: c})
}

// concerns returns the counters that an event is about as an instance sees them.
func (m *message) concerns(to *instance) []route.Concern {
	if m.written != nil {
		source, covered := to.routes.Source(m.written.path)
		if !covered {
			return nil
		}
		if m.untold {
			return source.Concerned(untold{*m.written, to.store.Get(m.written.path)})
		}
		return source.Own(source.Concerned(m.written), m.written.Holds)
	}
	var concerns []route.Concern
	for _, a := range m.about {
		concerns = append(concerns, route.Concern{Counter: to.counterOf(a.simulatedCounter), Unchanged: a.same})
	}
	return concerns
}

// A simulatedDelivery is one delivery of a message to an instance.
type simulatedDelivery struct {
	*message
	name    string
	to      *instance
	arrival time.Time           // by the database's clock
	since   time.Time           // arrival, or that of the copy held by the same instance, whose outcome it shares
	ended   time.Time           // zero: held
	nil     bool                // the engine returned nil, and lived to tell
	unkept  []*simulatedCounter // that could not be rolled up, and so were done with it
	acked   bool                // and the platform heard it
}

// An instance is one process with a coalescer. The store that it sees fails, stalls and crashes it.
type instance struct {
	*simulation
	name      string
	cadence   time.Duration
	burst     int
	alarmless bool // it has no queue
	routes    route.Routes
	deployed  int // by which deployment
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
	routes := likes.Template.Routes
	return &simulation{choices: c, cadence: cadence, burst: 1, routes: routes, revisions: []route.Routes{routes}, alarms: make(map[rollup.Alarm]*simulatedAlarm), salts: make(map[rollup.Alarm]int), held: make(map[holder][]*simulatedDelivery)}
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
	synctest.Test(t, func(t *testing.T) {
		s.t = t
		s.run()
	})
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
	s.resumed = make(chan struct{})
	s.cadence = cmp.Or(s.chanceOf(0.2, "cadence", 100*time.Millisecond, 2*time.Second), time.Second)
	s.store.Skew = s.chanceOf(0.3, "clock of the database ahead by", time.Second, 10*time.Hour) - s.chanceOf(0.3, "clock of the database behind by", time.Second, 10*time.Hour)
	if s.chance(0.7, "bursts", upTo(1)) == 1 {
		s.burst = 5
	}
	if s.every = s.chance(0.25, "every", upTo(1)) == 1; s.every {
		s.actors.Go(s.schedule)
	}
	s.slow = s.chance(0.15, "slow sums", upTo(1)) == 1
	s.mixed = s.chance(0.15, "other paces", upTo(1)) == 1
	s.layOut()
	if lasts := s.chanceOf(0.3, "suspended for", time.Second, 3*time.Minute); lasts > 0 && s.hasAlarms() {
		s.actors.Go(func() { s.suspend(lasts) })
	}
	if s.chance(0.2, "purged", upTo(1)) == 1 && s.hasAlarms() {
		s.actors.Go(func() {
			time.Sleep(s.chanceOf(1, "purged after", time.Millisecond, 6*time.Hour) + jitter("purged"))
			s.purge()
		})
	}
	for n := range s.chance(0.25, "deployments", upTo(2)) {
		s.actors.Go(func() { s.deploy(fmt.Sprint("deployment ", n+1)) })
	}
	for n := range 1 + s.chance(0.5, "further counters", upTo(2)) {
		if s.shops != nil {
			break
		}
		s.counters = append(s.counters, s.newCounter(string(rune('a'+n))))
	}
	s.addGroups()
	s.addLevels()
	s.startApp()
	s.startShops()
	s.startDefacing()
	for _, c := range s.counters {
		s.startUnkept(c)
	}
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
	s.moveBack()
	s.settle()
	s.check()
}

// write commits one change of a shard and sends its event.
func (s *simulation) write(n int, amount int64, deletes bool) {
	name := fmt.Sprint("write ", n)
	time.Sleep(s.chanceOf(0.9, name+" after", time.Microsecond, max(s.weather.span, time.Millisecond)) + jitter(name))
	c := s.counters[s.chance(0.5, name+" counter", upTo(2))%int64(len(s.counters))]
	m := &message{n: n, about: []affected{{simulatedCounter: c}}}
	shard := s.chance(0.7, name+" shard", upTo(3))
	malformed := s.chance(0.3*s.weather.malformed, name+" is malformed", upTo(2))
	switch {
	case s.circle:
		if !s.commitOnComment(m, name, amount, deletes) {
			return
		}
	case s.levels:
		if !s.commitOnPost(m, name, shard, deletes) {
			return
		}
	case s.orders != nil:
		s.commitOrder(m, name, amount, deletes, malformed)
	case s.windowed && s.chance(0.6, name+" is of a visit", upTo(1)) == 1:
		m.commit, m.about[0].same = s.commitVisit(c, name, n, shard, amount, deletes)
	case s.liked && s.chance(0.5, name+" is of a like", upTo(1)) == 1:
		on := s.conditional && s.chance(0.5, name+" is off", upTo(1)) == 0
		m.commit, m.about[0].same = s.commitLike(c, n, shard, deletes, on)
	default:
		if s.slow {
			shard = s.chance(0.9, name+" shard of many", upTo(9))
		}
		m.commit = s.commitShard(c, n, shard, amount, deletes, malformed)
	}
	if s.every && s.chance(0.5, name+" has no trigger", upTo(1)) == 1 {
		return
	}
	if s.chance(s.weather.lost, fmt.Sprintf("event %d is lost", n), upTo(1)) == 1 {
		s.lose(m)
		return
	}
	for copy := range 1 + int(s.chance(s.weather.duplicate, fmt.Sprintf("event %d duplicates", n), upTo(2))) {
		s.actors.Go(func() { s.send(m, copy+1) })
	}
}

// lose has an event never come.
func (s *simulation) lose(m *message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tell("event %d is lost", m.n)
	for _, a := range m.about {
		a.lost = true
	}
}

// commitShard adds to a shard of the counter, deletes it or makes it malformed, and returns the
// commit time.
func (s *simulation) commitShard(c *simulatedCounter, n int, shard, amount int64, deletes bool, malformed int64) (at time.Time) {
	path := fmt.Sprint(shardsOf(c.Counter), "/", shard)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.outcome.events++
	switch {
	case deletes:
		at = s.store.Delete(path)
		delete(c.shards, shard)
		s.tell("%s is deleted: event %d", path, n)
	case malformed > 0:
		value := []any{"text", math.NaN()}[malformed-1]
		at = s.store.Put(path, map[string]any{"count": value})
		c.shards[shard] = 0
		s.tell("%s is %v: event %d", path, value, n)
	default:
		at = s.store.Increment(path, "count", amount)
		c.shards[shard] += amount
		s.tell("%s %+d: event %d", path, amount, n)
	}
	s.committed(c, at)
	return at
}

// committed notes the truth as of a commit. The mutex is held.
func (s *simulation) committed(c *simulatedCounter, at time.Time) {
	t := truth{commit: at, shardCount: int64(len(c.shards)), groups: s.groupsOf(c.Counter), visits: visitsOf(c)}
	if s.levels {
		t.summed = s.summed(c.Counter)
	}
	for _, held := range c.shards {
		t.sum += held
	}
	for _, counts := range c.likes {
		if counts {
			t.likes++
		}
		t.unseen = t.unseen || !counts
	}
	c.truth = append(c.truth, t)
	c.behind = append(c.behind, at)
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

// crashSometime perhaps crashes an instance, some time after a message or an alarm has come to it.
func (s *simulation) crashSometime(to *instance, name string, faulty float64) {
	crash := s.chanceOf(s.weather.crash*faulty, name+" crashes its instance after", time.Microsecond, 10*time.Second)
	if crash == 0 {
		return
	}
	s.actors.Go(func() {
		if sleepUntil(to.ctx, time.Now().Add(crash+jitter(name+" crash"))) {
			to.crash()
		}
	})
}

// deliver delivers a message to an instance and waits for the platform's verdict.
func (s *simulation) deliver(m *message, name string, to *instance, faulty float64) {
	if wait := time.Until(to.ready); wait > 0 && !sleepUntil(to.ctx, to.ready.Add(jitter(name+" arrival"))) {
		return
	}
	limit := cmp.Or(s.chanceOf(s.weather.cut*faulty, name+" is cut after", time.Millisecond, hold), hold)
	abandoned := cmp.Or(s.chanceOf(s.weather.abandon*faulty, name+" is abandoned after", time.Millisecond, 10*time.Second), time.Hour)
	lost := s.chance(s.weather.lostAck*faulty, name+" acknowledgement is lost", upTo(1)) == 1
	s.crashSometime(to, name, faulty)

	s.mu.Lock()
	d := &simulatedDelivery{message: m, name: name, to: to, arrival: s.store.Now()}
	d.since = d.arrival
	for _, a := range m.about {
		held := holder{to, a.simulatedCounter}
		if i := slices.IndexFunc(s.held[held], func(other *simulatedDelivery) bool { return other.message == m }); i >= 0 {
			d.since = s.held[held][i].since
		}
		s.held[held] = append(s.held[held], d)
	}
	s.tell("%s arrives at %s", name, to.name)
	s.mu.Unlock()
	verdict := make(chan struct{})
	s.actors.Go(func() {
		ctx, cancel := context.WithTimeoutCause(to.ctx, limit+jitter(name+" cut"), errCut)
		defer cancel()
		ending, err := to.coalescer.HandleEvent(ctx, rollup.Event{ID: fmt.Sprint("event ", m.n), UpdateTime: m.commit, Time: m.commit}, m.concerns(to)...)
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
	for _, a := range d.about {
		held := holder{d.to, a.simulatedCounter}
		s.held[held] = slices.DeleteFunc(s.held[held], func(other *simulatedDelivery) bool { return other == d })
	}
	s.deliveries = append(s.deliveries, d)
	switch {
	case d.to.ctx.Err() != nil:
		return // no one is left to tell it
	case err != nil:
		s.tell("%s fails: %v", d.name, err)
		return
	}

	d.nil = true
	if !ending.AsOf.IsZero() && ending.AsOf.Before(d.since) {
		s.breach("%s is said to be covered as of %v, before it came", d.name, ending.AsOf)
	}
	if ending.Unkept {
		for _, a := range d.about {
			if s.lately(a.simulatedCounter, d.since) {
				d.unkept = append(d.unkept, a.simulatedCounter)
			}
		}
		if d.unkept == nil {
			s.breach("%s is said to be unkept, but its counters were not", d.name)
		}
	}
	if len(d.about) == 0 {
		s.tell("%s returns nil: it is about no counter", d.name)
	}
	for _, a := range d.about {
		why, ok := s.done(d, a)
		if !ok {
			s.breach("%s returned nil, but %s", d.name, why)
			continue
		}
		if s.orders != nil {
			why = "for " + a.RollUp + ", " + why
		}
		s.tell("%s returns nil: %s", d.name, why)
	}
}

// done reports whether a counter is done with a delivery that returned nil, and why.
func (s *simulation) done(d *simulatedDelivery, a affected) (why string, ok bool) {
	if a.noted {
		return "there are notes", true
	}
	if slices.Contains(d.unkept, a.simulatedCounter) {
		return "unkept", true
	}
	if s.covered(d, a.simulatedCounter) {
		return "covered", true
	}
	if s.standsFor(d, a.simulatedCounter) { // first, so that events which one alarm ends say the same in any order
		return "an alarm stands for it", true
	}
	for _, other := range s.held[holder{d.to, a.simulatedCounter}] {
		if other.message != d.message {
			return other.name + " stands for it", true
		}
	}
	for _, stood := range s.deliveries { // while the delivery was held for other counters
		if stood.stoodFor(d, a.simulatedCounter) {
			return stood.name + " stood for it", true
		}
	}
	if s.rangMeanwhile(d, a.simulatedCounter) {
		return "an alarm stood for it, by clocks that stood still", true
	}
	if a.forgedTally {
		return "a client says that it is covered", true
	}
	young := d.since.Sub(d.commit) < oldest
	if a.same && (young || s.circle || s.suspended > 0) {
		return "it changed nothing", true
	}
	return "no roll-up of " + a.RollUp + " covers it and nothing stands for it", false
}

// oldest is how old an event that changes nothing may be to be acknowledged at once. A redelivery
// comes later. In a circle it may be of any age, and a suspended machine takes it for younger.
const oldest = 5 * time.Second

// covered reports whether a counter's roll-up by the instance's routes covers all that was
// committed before the delivery arrived.
func (s *simulation) covered(d *simulatedDelivery, c *simulatedCounter) bool {
	return !c.covered[d.to.hash(c)].Before(d.since.Truncate(time.Microsecond))
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

// Actors are goroutines of a simulation. Unlike a sync.WaitGroup, others may be added while
// somebody waits.
type actors struct {
	mu      sync.Mutex
	running int
	none    *sync.Cond // nil: no one waits
}

// Go runs f in a goroutine.
func (a *actors) Go(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running++
	go func() {
		f()
		a.mu.Lock()
		defer a.mu.Unlock()
		a.running--
		if a.none != nil {
			a.none.Broadcast()
		}
	}()
}

// Wait waits until none runs.
func (a *actors) Wait() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.none = sync.NewCond(&a.mu)
	for a.running > 0 {
		a.none.Wait()
	}
}
