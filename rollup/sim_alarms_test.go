package rollup_test

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

// A simulatedAlarm is an alarm of the queue. Its name is kept for an hour after it was done.
type simulatedAlarm struct {
	made   time.Time // by the database's clock
	done   time.Time // zero: it stands
	unkept time.Time // when it was done because its counter was unkept; zero: it was not
	purged bool      // somebody deleted it before it was done
}

// tombstone is for how long the name of an alarm that is done cannot be used again.
const tombstone = time.Hour

// drawSlowly draws whether the routes say a cadence for which events cannot be held, and returns
// the option.
func (s *simulation) drawSlowly() string {
	slow := s.chanceOf(0.3, "cadence of the routes", 1500*time.Millisecond, 2*time.Minute)
	takes := s.chanceOf(0.2, "a sum takes", time.Second, longestSum*4/5)
	if s.every {
		return ""
	}

	s.takes = takes
	if slow == 0 {
		return ""
	}
	s.slowly = slow
	return " : cadence " + slow.String()
}

// longestSum is how long an instance waits for a sum.
const longestSum = 45 * time.Second

// hasAlarms reports whether the instances make alarms.
func (s *simulation) hasAlarms() bool { return s.slowly > 0 || s.takes > 0 || s.windowed }

// takeLong has a sum take as long as those of the run do, up to a quarter less or more.
func (c *call) takeLong(ctx context.Context) error {
	if c.takes == 0 {
		return nil
	}
	name := c.name + " takes"
	return c.stall(ctx, "long", c.takes*3/4+c.chanceOf(0.9, name, time.Millisecond, c.takes/2))
}

// longestFreeze is for how long a process may be frozen while it makes an alarm. Cloud Run ends one
// that takes longer, and a window's alarm may ring only days later.
const longestFreeze = 5 * time.Minute

// Create makes an alarm, as the queue does. The process may be frozen until long after the answer
// has come, and until the alarm has rung.
func (i *instance) Create(ctx context.Context, a rollup.Alarm) error {
	i.mu.Lock()
	a = i.salt(a)
	i.mu.Unlock()
	name := fmt.Sprintf("%s makes the %s", i.name, i.nameOf(a, 0))
	frozen := i.chanceOf(0.1*i.weather.slow, name+", frozen for", time.Second, 3*time.Minute)
	more := i.chanceOf(0.3*i.weather.slow, name+", frozen after it rings for", 10*time.Millisecond, 5*time.Second)
	if until := a.At.Sub(i.store.Now()) + more; more > 0 && until < longestFreeze {
		frozen = max(time.Millisecond, until)
	}
	i.mu.Lock()
	goesWell := i.calm || i.calls["alarms of "+a.RollUp] > maxFaults
	i.mu.Unlock()
	if frozen > 0 && !goesWell {
		if i.ctx.Err() == nil { // a process that has crashed sends nothing
			i.stand(a, name)
		}
		time.Sleep(frozen + jitter(name))
		return context.Cause(i.ctx)
	}

	err := i.change(ctx, route.Counter{RollUp: "alarms of " + a.RollUp}, "alarm", func(_ context.Context, name string) error {
		i.stand(a, name)
		return nil
	})
	i.mu.Lock()
	defer i.mu.Unlock()
	i.alarmsFailed = i.alarmsFailed || err != nil
	return err
}

// stand has an alarm stand, unless one of its name does, or was done a while ago.
func (i *instance) stand(a rollup.Alarm, name string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := i.store.Now()

	if i.exists(a, now) {
		i.tell("%s: the alarm for %s exists", name, i.clock(a.At))
		return
	}

	i.tell("%s: the alarm for %s stands", name, i.clock(a.At))
	i.alarms[a] = &simulatedAlarm{made: now}
	i.actors.Go(func() { i.ringAlarm(a, 1) })
	if i.chance(i.weather.duplicate, name+" rings twice", upTo(1)) == 1 {
		i.actors.Go(func() { i.ringAlarm(a, 2) })
	}
}

// exists reports whether an alarm has a name that cannot be used now.
func (i *instance) exists(a rollup.Alarm, now time.Time) bool {
	is, named := i.alarms[a]
	return named && (is.done.IsZero() || now.Sub(is.done) < tombstone)
}

// nameOf tells alarms apart in choices.
func (s *simulation) nameOf(a rollup.Alarm, copy int) string {
	name := fmt.Sprintf("alarm of %s at %s by %s.%d", a.RollUp, s.clock(a.At), a.Routes, copy)
	if a.Last {
		name += ", the last"
	}
	if a.Missing > 0 {
		name += fmt.Sprintf(", missing %d", a.Missing)
	}
	if a.Salt != "" {
		name += ", of an audit " + a.Salt
	}
	return name
}

// ringAlarm has an alarm ring until it is done. Its clock differs from the database's by up to a
// second, and somebody may run it by hand.
func (s *simulation) ringAlarm(a rollup.Alarm, copy int) {
	name := s.nameOf(a, copy)
	at := a.At.Add(-s.chanceOf(0.3*s.weather.slow, name+" early", time.Millisecond, 900*time.Millisecond)).
		Add(s.chanceOf(0.9, name+" delay", time.Millisecond, 200*time.Millisecond)).
		Add(s.chanceOf(s.weather.late, name+" late", 100*time.Millisecond, 2*time.Hour))
	if byHand := s.chance(0.1*s.weather.late, name+" is run by hand", upTo(99)); byHand > 0 {
		at = s.store.Now().Add(a.At.Sub(s.store.Now()) * time.Duration(byHand) / 100)
	}
	s.mu.Lock()
	is := s.alarms[a]
	s.mu.Unlock()
	s.sleepUntil(at, name)

	for attempt := 1; ; attempt++ {
		s.mu.Lock()
		purged := is.purged
		s.mu.Unlock()
		if purged {
			return
		}

		faulty := 1.0
		switch {
		case attempt > 1000:
			s.mu.Lock()
			defer s.mu.Unlock()
			s.breach("%s is not done after %d times", name, attempt-1)
			return
		case attempt > maxAttempts:
			faulty = 0
		}

		done := s.ringOnce(a, fmt.Sprintf("%s.%d", name, attempt), faulty)
		if done {
			return
		}
		time.Sleep(10*time.Second + jitter(name+fmt.Sprint(attempt)))
	}
}

// suspend has all machines suspended for a while. Their clocks stand still, and those of the
// database and of the queue go on.
func (s *simulation) suspend(lasts time.Duration) {
	time.Sleep(s.chanceOf(1, "suspended after", time.Millisecond, 2*time.Minute) + jitter("suspended"))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store.Suspended(lasts)
	s.suspended = lasts
	s.tell("all machines were suspended for %v", lasts)
	close(s.resumed)
}

// purge has somebody delete all alarms. Their names cannot be used again for a while.
func (s *simulation) purge() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.purged = s.store.Now()
	for a, is := range s.alarms {
		if !is.done.IsZero() {
			continue
		}
		is.purged, is.done = true, s.purged
		for _, c := range s.counters {
			c.purged = c.purged || c.RollUp == a.RollUp
		}
	}
	s.tell("all alarms are purged")
}

// stoodStill returns for how long the clocks of the machines have stood still.
func (s *simulation) stoodStill() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.suspended
}

// sleepUntil waits until a time of the database.
func (s *simulation) sleepUntil(at time.Time, name string) {
	timer := time.NewTimer(max(0, at.Sub(s.store.Now())) + jitter(name)) // copies of one that is late do not come together
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.resumed:
		time.Sleep(at.Sub(s.store.Now()) + jitter(name))
	}
}

// ringOnce has an alarm ring at an instance, and reports whether the queue heard that it is done.
func (s *simulation) ringOnce(a rollup.Alarm, name string, faulty float64) bool {
	s.mu.Lock()
	to := s.instances[s.chance(faulty, name+" instance", upTo(100))%int64(len(s.instances))]
	s.mu.Unlock()
	if wait := time.Until(to.ready); wait > 0 && !sleepUntil(to.ctx, to.ready.Add(jitter(name+" arrival"))) {
		return false
	}

	limit := cmp.Or(s.chanceOf(s.weather.cut*faulty, name+" is cut after", time.Millisecond, time.Minute), time.Minute)
	lost := s.chance(s.weather.lostAck*faulty, name+" answer is lost", upTo(1)) == 1
	s.crashSometime(to, name, faulty)

	s.mu.Lock()
	s.tell("%s rings at %s", name, to.name)
	since := s.store.Now()
	s.mu.Unlock()
	ctx, cancel := context.WithTimeoutCause(to.ctx, limit+jitter(name+" cut"), errCut)
	defer cancel()
	ending, err := to.coalescer.HandleAlarm(ctx, a, to.routes)

	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case to.ctx.Err() != nil:
		return false
	case err != nil:
		s.tell("%s fails: %v", name, err)
		return false
	}

	why, ok := s.alarmDone(a, to, since, ending)
	if !ok {
		s.breach("%s returned nil, but %s", name, why)
	}
	s.tell("%s returns nil: %s", name, why)
	if lost {
		s.tell("the answer to %s is lost", name)
		return false
	}
	if is := s.alarms[a]; is.done.IsZero() {
		is.done = s.store.Now()
	}
	return true
}

// alarmDone reports whether an alarm that has rung since then, and for which an instance returned
// nil, is done, and why.
func (s *simulation) alarmDone(a rollup.Alarm, at *instance, since time.Time, ending rollup.Ending) (why string, ok bool) {
	counter, _ := at.routes.Counter(a.RollUp)
	c := s.counter(counter)
	own := counter.Template.Hash()

	if a.Routes != own && !a.Last && !at.alarmless {
		again := rollup.Alarm{RollUp: a.RollUp, Routes: a.Routes, At: a.At.Add(10 * time.Minute), Last: true}
		if s.alarms[again] == nil {
			return "it does not ring again for the routes that made it", false
		}
	}
	if ending.Unkept {
		s.alarms[a].unkept = s.store.Now()
		return "unkept", s.lately(c, since)
	}
	if !c.covered[own].Before(a.At) {
		return "covered", true
	}
	if c.forgedTally {
		return "a client says that it is covered", true
	}
	for other := range s.alarms {
		if other.RollUp == a.RollUp && other.Routes == own && other.At.After(a.At) {
			return "a later alarm stands for it", true
		}
	}
	return "no roll-up of " + a.RollUp + " is as of its time, and no later alarm stands", false
}

// standsFor reports whether an alarm of the counter by the instance's routes stands for a delivery,
// or has rung after the delivery came.
func (s *simulation) standsFor(d *simulatedDelivery, c *simulatedCounter) bool {
	for a := range s.alarms {
		if a.RollUp == c.RollUp && a.Routes == d.to.hash(c) && a.At.After(d.since) {
			return true
		}
	}
	return false
}

// rangMeanwhile reports whether a delivery that is older than an alarm of its counter may have been
// taken for one that came before the alarm, because the clocks of all machines had stood still.
func (s *simulation) rangMeanwhile(d *simulatedDelivery, c *simulatedCounter) bool {
	if s.suspended == 0 {
		return false
	}
	for a := range s.alarms {
		if a.RollUp == c.RollUp && a.Routes == d.to.hash(c) && a.At.After(d.commit) && !a.At.After(d.since) {
			return true
		}
	}
	return false
}

// coveredElsewhere reports whether an alarm of the counter rang by other routes, which are the last
// ones, and is covered there.
func (s *simulation) coveredElsewhere(d *simulatedDelivery, c *simulatedCounter) bool {
	last := s.template(c).Hash()
	return s.hasAlarms() && d.to.hash(c) != last && !c.covered[last].Before(d.since.Truncate(time.Microsecond))
}

// rangUnkept reports whether an alarm that may have stood for a delivery was done because its
// counter was unkept.
func (s *simulation) rangUnkept(d *simulatedDelivery, c *simulatedCounter) bool {
	for a, is := range s.alarms {
		if a.RollUp == c.RollUp && !is.unkept.IsZero() && a.At.After(d.since) {
			return true
		}
	}
	return false
}
