package rollup_test

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/value"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

// drawWindows draws whether a run has documents that leave windows, and returns their route.
func (s *simulation) drawWindows(rollUp, name, options string) string {
	if !s.windowed {
		return ""
	}
	return "\ncounters/{counter}/visits/{user} -> " + rollUp + " : count() as visits, count() where at > now - 1m as " + name +
		", sum(amount) where on == true and at >= now - 150s as recent" + options
}

// A visit is a document that leaves windows.
type visit struct {
	at     time.Time
	on     bool
	amount int64
}

// commitVisit creates a document that leaves windows, changes it, or deletes it. Its time lies in
// the past, or in the future.
func (s *simulation) commitVisit(c *simulatedCounter, name string, n int, user, amount int64, deletes bool) (at time.Time, same bool) {
	path := fmt.Sprint(c.Template.Routes[len(c.Template.Routes)-1].Shards(c.Counter), "/", user)
	v := visit{at: s.store.Now(), on: s.chance(0.5, name+" is on", upTo(1)) == 1, amount: amount}
	switch s.chance(0.6, name+" has another time", upTo(10)) {
	case 0:
	case 1:
		v.at = v.at.Add(s.chanceOf(1, name+" is ahead by", time.Second, 10*time.Minute))
	case 2:
		v.at = v.at.Add(s.chanceOf(0.1, name+" is far ahead by", 20*24*time.Hour, 60*24*time.Hour))
	case 3:
		v.at = time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC)
	default:
		v.at = v.at.Add(-s.chanceOf(1, name+" is as old as", time.Millisecond, 4*time.Minute))
	}
	v.at = v.at.Truncate(time.Microsecond).UTC()
	edits := s.chance(0.2, name+" edits", upTo(1)) == 1

	s.mu.Lock()
	defer s.mu.Unlock()
	s.outcome.events++
	before, was := c.visits[user]
	if was && edits {
		v = before
	}
	if deletes {
		at = s.store.Delete(path)
		delete(c.visits, user)
	} else {
		at = s.store.Put(path, map[string]any{"at": v.at, "on": v.on, "amount": v.amount, "edit": int64(n)})
		c.visits[user] = v
	}
	same = was && !deletes && before == v
	s.tell("%s, deleted %v, of %s, on %v, amount %d: event %d", path, deletes, s.clock(v.at), v.on, v.amount, n)
	s.committed(c, at)
	return at, same
}

// moveBack perhaps dates a visit far ahead, and moves its time back when everything is quiet. The
// event of that is lost, so the visit leaves long before the alarm rings that stands. Or somebody
// deletes that alarm.
func (s *simulation) moveBack() {
	if !s.windowed || s.orders != nil || s.levels || s.chance(0.3, "a time is moved back", upTo(1)) == 0 {
		return
	}

	c := s.counters[0]
	path := fmt.Sprint(c.Template.Routes[len(c.Template.Routes)-1].Shards(c.Counter), "/moved")
	put := func(n int, at time.Time) *message {
		s.mu.Lock()
		defer s.mu.Unlock()
		v := visit{at: at.Truncate(time.Microsecond).UTC(), on: true, amount: 1}
		commit := s.store.Put(path, map[string]any{"at": v.at, "on": v.on, "amount": v.amount})
		c.visits[movedVisit] = v
		s.tell("%s, of %s: event %d", path, s.clock(v.at), n)
		s.outcome.events++
		s.committed(c, commit)
		return &message{n: n, about: []affected{{simulatedCounter: c}}, commit: commit}
	}
	s.send(put(maxWrites+1, s.store.Now().Add(s.chanceOf(1, "the time is ahead by", 24*time.Hour, 20*24*time.Hour))), 1)
	time.Sleep(latestAlarm) // the event may be deferred
	if s.chance(0.3, "the queue is purged instead", upTo(1)) == 1 {
		s.purge()
		return
	}
	s.lose(put(maxWrites+2, s.store.Now().Add(s.chanceOf(1, "the time is moved back to", 10*time.Minute, 10*time.Hour))))
}

// movedVisit is the visit of moveBack.
const movedVisit = -1

// The visits of visitOnBound are one document of each counter, and their events have numbers of
// their own.
const (
	boundVisit  = -2
	boundEvents = 1000
)

// visitOnBound perhaps creates a visit just before a look. Its time is the bound that a window has
// in the look's snapshot, to the microsecond.
func (s *simulation) visitOnBound(counter route.Counter, name string) {
	if !s.windowed || s.orders != nil || s.levels {
		return
	}
	window := []time.Duration{0, time.Minute, 150 * time.Second}[s.chance(0.03, name+" is on a bound", upTo(2))]
	s.mu.Lock()
	defer s.mu.Unlock()
	if window == 0 || s.calm {
		return
	}

	c := s.counter(counter)
	path := fmt.Sprint(c.Template.Routes[len(c.Template.Routes)-1].Shards(c.Counter), "/", boundVisit)
	next := s.store.Put("other/document", nil).Add(time.Microsecond) // when the visit is committed, and looked at
	v := visit{at: next.Add(-window).UTC(), on: true, amount: 1}
	commit := s.store.Put(path, map[string]any{"at": v.at, "on": v.on, "amount": v.amount})
	c.visits[boundVisit] = v
	s.bounds++
	m := &message{n: boundEvents + s.bounds, about: []affected{{simulatedCounter: c}}, commit: commit}
	s.tell("%s, of %s: event %d", path, s.clock(v.at), m.n)
	s.outcome.events++
	s.committed(c, commit)
	s.actors.Go(func() { s.send(m, 1) })
}

// visitTotals returns what a roll-up is to hold of the visits by a route.
func (t truth) visitTotals(r *route.Route, now time.Time) map[string]value.Value {
	var fresh, recent int64
	for _, v := range t.visits {
		if v.at.After(now.Add(-time.Minute)) {
			fresh++
		}
		if v.on && !v.at.Before(now.Add(-150*time.Second)) {
			recent += v.amount
		}
	}
	return map[string]value.Value{"visits": value.Int(int64(len(t.visits))), r.Totals[1].Name: value.Int(fresh), "recent": value.Int(recent)}
}

// leaves returns when the first visit leaves a window; zero if none does within two years.
func (t truth) leaves(now time.Time) time.Time {
	var first time.Time
	for _, v := range t.visits {
		var leaves []time.Time
		if v.at.After(now.Add(-time.Minute)) {
			leaves = append(leaves, v.at.Add(time.Minute))
		}
		if v.on && !v.at.Before(now.Add(-150*time.Second)) {
			leaves = append(leaves, v.at.Add(150*time.Second+time.Microsecond))
		}
		for _, at := range leaves {
			if at.Sub(now) < 2*365*24*time.Hour && (first.IsZero() || at.Before(first)) {
				first = at
			}
		}
	}
	return first
}

// latestAlarm is how late an alarm may ring here, and be handed on.
const latestAlarm = 3 * time.Hour

// checkLeaves checks that what leaves after an audit leaves in time, whatever was lost before it.
func (s *simulation) checkLeaves() {
	if !s.windowed {
		return
	}
	for range maxWrites {
		last := s.leavesAfter(s.store.Now())
		if last.IsZero() {
			return
		}
		for next := s.leavesAfter(last); !next.IsZero() && next.Sub(last) <= latestAlarm; next = s.leavesAfter(last) {
			last = next
		}

		time.Sleep(last.Add(latestAlarm).Sub(s.store.Now()))
		for _, c := range s.counters {
			if !s.nothing(c) && !s.exact(c) {
				s.breach("%v after documents have left, %s holds %v, the shards %v", latestAlarm, c.RollUp, s.store.Get(c.RollUp), s.totals(c))
				return
			}
		}
	}
}

// leavesAfter returns when the next visit of any counter leaves a window; zero if none does.
func (s *simulation) leavesAfter(t time.Time) (first time.Time) {
	for _, c := range s.counters {
		leaves := c.at(s.store.Now()).leaves(t)
		if first.IsZero() || !leaves.IsZero() && leaves.Before(first) {
			first = leaves
		}
	}
	return first
}

// checkChain checks that a roll-up that is being written has its alarm. The mutex is held.
func (s *simulation) checkChain(c *simulatedCounter, counter route.Counter, tally document.Tally, name string) {
	if !s.windowed {
		return
	}
	leaves := c.at(tally.AsOf).leaves(tally.AsOf)
	switch {
	case leaves.IsZero():
		return
	case tally.Rings.IsZero():
		s.breach("%s: %s is written without an alarm, and a visit leaves at %s", name, c.RollUp, s.clock(leaves))
		return
	case !tally.Rings.After(tally.AsOf):
		if !s.alarmsFailed {
			s.breach("%s: %s is written without an alarm, and each could be made", name, c.RollUp)
		}
		return
	}

	grid := max(s.slowly, 150*time.Second/1440)
	for _, i := range s.all {
		grid = max(grid, i.cadence)
	}
	latest := leaves
	if earliest := tally.AsOf.Add(3 * time.Second); latest.Before(earliest) {
		latest = earliest
	}
	if tally.Rings.After(latest.Add(grid)) {
		s.breach("%s: %s has an alarm for %s, and a visit leaves at %s", name, c.RollUp, s.clock(tally.Rings), s.clock(leaves))
	}
	for a := range s.alarms {
		if a.RollUp == c.RollUp && a.Routes == counter.Template.Hash() && a.At.Equal(tally.Rings) {
			return
		}
	}
	s.breach("%s: %s says that an alarm rings at %s, and none was made", name, c.RollUp, s.clock(tally.Rings))
}

// chainEnded reports whether a counter's chain of alarms may have ended, so that the audit begins
// another: the counter was unkept, its document came or was overwritten, its routes are not the
// last ones, or alarms could not be made.
func (s *simulation) chainEnded(c *simulatedCounter) bool {
	if !s.windowed {
		return false
	}
	tally := document.DecodeTally(s.store.Get(c.RollUp)[document.TallyField])
	without := !tally.Rings.IsZero() && !tally.Rings.After(tally.AsOf)
	return !c.unkept.from.IsZero() || s.existing && tally.AsOf.IsZero() || tally.Routes != s.template(c).Hash() || without || c.cameAgain
}

// salt gives an alarm's salt a number, because a random one could not be replayed. The mutex is
// held.
func (s *simulation) salt(a rollup.Alarm) rollup.Alarm {
	if a.Salt == "" {
		return a
	}
	a.Salt = ""
	s.salts[a]++
	n := s.salts[a]
	a.Salt = fmt.Sprint(n)
	return a
}

// visitsOf returns a counter's visits. The mutex is held.
func visitsOf(c *simulatedCounter) []visit { return slices.Collect(maps.Values(c.visits)) }
