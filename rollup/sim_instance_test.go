package rollup_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

func (s *simulation) auditSometime(name string) {
	time.Sleep(s.chanceOf(1, name+" after", time.Millisecond, 6*time.Hour) + jitter(name))
	i := s.newHelper(name)
	o := i.auditOptions()
	o.Prune = s.chance(0.3, name+" prunes", upTo(1)) == 1
	takes := s.chanceOf(0.5, name+" of a cycle of", time.Minute, 24*time.Hour)
	o.Cycle, o.Every, o.Reads = func(int64) time.Duration { return takes }, 10*time.Minute, i.counted
	_, _ = rollup.Audit(i.ctx, i, i.routes, o) // may fail or crash
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
	i := &instance{simulation: s, name: name, cadence: s.cadence, burst: s.burst, routes: s.revisions[s.latest], deployed: s.deployed, calls: make(map[string]int)}
	if s.mixed {
		i.cadence = s.cadence * []time.Duration{2, 1, 4}[s.chance(0.6, name+" has another cadence", upTo(2))] / 2
		i.burst = []int{s.burst, 1, 2, 5}[s.chance(0.6, name+" has another burst", upTo(3))]
	}
	i.ctx, i.crashed = context.WithCancelCause(context.Background())
	i.alarmless = s.mixed && s.takes == 0 && !s.windowed && s.chance(0.3, name+" has no alarms", upTo(1)) == 1
	i.coalescer = rollup.NewCoalescer(i, i.options())
	i.ready = time.Now().Add(s.chanceOf(0.5*s.weather.slow, i.name+" starts slowly", time.Millisecond, 10*time.Second))
	s.all = append(s.all, i)
	s.tell("%s starts", i.name)
	return i
}

// counterOf is the counter as the instance's routes see it.
func (i *instance) counterOf(c *simulatedCounter) route.Counter {
	counter, _ := i.routes.Counter(c.RollUp)
	return counter
}

// hash is that of the instance's routes to a counter.
func (i *instance) hash(c *simulatedCounter) string { return i.counterOf(c).Template.Hash() }

// deploy starts a revision next to the others, and takes those away after a while, as a deployment
// does.
func (s *simulation) deploy(name string) {
	time.Sleep(s.chanceOf(1, name+" after", time.Millisecond, time.Minute) + jitter(name))
	s.mu.Lock()
	s.latest = (s.latest + 1 + int(s.chance(0.3, name+" skips", upTo(1)))) % len(s.revisions)
	s.deployed++
	deployed := s.deployed
	s.tell("%s: revision %d", name, s.latest)
	for range 1 + s.chance(0.5, name+" instances", upTo(3)) {
		s.instances = append(s.instances, s.newInstance())
	}
	s.mu.Unlock()

	time.Sleep(s.chanceOf(0.8, name+" takes", time.Millisecond, 5*time.Minute) + jitter(name+" takes"))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tell("%s is done", name)
	s.instances = slices.DeleteFunc(slices.Clone(s.instances), func(i *instance) bool { return i.deployed < deployed })
}

func (i *instance) options() rollup.Options {
	o := rollup.Options{Cadence: i.cadence, Burst: i.burst, Timeout: hold / 2, Logger: slog.New(slog.DiscardHandler), Random: i.random}
	if i.hasAlarms() {
		o.Hold = hold + jitter(i.name+" holds") // not twice the time-out: then two things would happen at one instant
		o.LongTimeout = longestSum
	}
	if i.hasAlarms() && !i.alarmless {
		o.Alarms = i
	}
	return o
}

func (i *instance) auditOptions() rollup.AuditOptions {
	i.mu.Lock()
	purged := i.purged
	i.mu.Unlock()
	o := rollup.AuditOptions{Options: i.options(), Concurrency: 2, Grace: rollup.Grace(i.cadence, hold), Purged: purged}
	if i.takes > 0 {
		o.Timeout = longestSum
	}
	return o
}

// counted returns how many calls the instance has made for counters.
func (i *instance) counted() (calls int64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, n := range i.calls {
		calls += int64(n)
	}
	return calls
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
