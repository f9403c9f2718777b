package rollup_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/value"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

// counter returns the truth about a counter.
func (s *simulation) counter(c route.Counter) *simulatedCounter {
	return s.counters[slices.IndexFunc(s.counters, func(sc *simulatedCounter) bool { return sc.RollUp == c.RollUp })]
}

// remove removes a roll-up, and checks that it might be.
func (s *simulation) remove(ctx context.Context, c route.Counter, r rollup.RollUp, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	counter := s.counter(c)
	if err := s.store.Remove(ctx, c, r); err != nil {
		s.tell("%s: %v", name, err)
		return err
	}
	s.tell("%s: %s is removed", name, c.RollUp)
	left := s.store.Get(c.RollUp)
	_, isList := left["shop"].([]any)
	if s.shops != nil && left != nil && (len(left) > 1 || !isList) {
		s.breach("%s: %s was removed, and %v is left", name, c.RollUp, left)
	}
	if s.existing {
		s.breach("%s: %s, the app's own, was removed", name, c.RollUp)
	}
	if s.forsaken(c, r) {
		counter.removed, counter.paced = true, nil
		return nil
	}
	if now := s.store.Now(); r.Tally.NumShards != 0 || now.Sub(counter.asOf) <= time.Hour {
		s.breach("%s: %s was removed %v after it held %d shards", name, c.RollUp, now.Sub(counter.asOf), r.Tally.NumShards)
	}
	if !counter.emptySince(s.store.Now().Add(-time.Minute)) {
		s.breach("%s: %s was removed, and has documents", name, c.RollUp)
	}
	counter.removed, counter.paced = true, nil
	return nil
}

// emptySince reports whether the counter had no documents at any time since t.
func (c *simulatedCounter) emptySince(t time.Time) bool {
	empty := c.at(t).empty()
	for _, is := range c.truth {
		empty = empty || is.commit.After(t) && is.empty()
	}
	return empty
}

// commit applies a write of a roll-up, and checks it against the truth.
func (s *simulation) commit(c route.Counter, r rollup.RollUp, name string, write func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	counter := s.counter(c)
	if counter.unkept.at(s.store.Now()) && counter.unkept.write {
		s.tell("%s: %s is unkept", name, c.RollUp)
		return rollup.ErrUnkept
	}
	creates, lists := s.store.Get(c.RollUp) == nil, s.lists(counter)
	var err error
	s.around(counter, func() { err = write() })
	if err != nil {
		s.tell("%s: %v", name, err)
		s.outcome.refused++
		return err
	}
	s.outcome.rollUps++
	asOf, shards := r.Tally.AsOf, r.Tally.NumShards
	s.tell("%s: %s holds %v of %d shards as of %s", name, c.RollUp, r.Values, shards, s.clock(asOf))
	if s.existing && counter.came.IsZero() {
		s.breach("%s: %s, the app's own, was created", name, c.RollUp)
	}
	s.checkOwner(counter, r, creates, name)
	for label, id := range r.Labels {
		if held := s.store.Get(c.RollUp)[label]; held != id {
			s.breach("%s: %s has %v in %s", name, c.RollUp, held, label)
		}
	}
	if asOf.Before(counter.asOf) {
		s.breach("%s: as_of of %s went back from %s to %s", name, c.RollUp, s.clock(counter.asOf), s.clock(asOf))
	}
	counter.asOf, counter.removed = asOf, false
	counter.cover(c.Template.Hash(), asOf)
	if err := outlived(lists, s.lists(counter)); err != nil {
		s.breach("%s: %s: %v", name, c.RollUp, err)
	}
	if is := counter.at(asOf); !maps.Equal(r.Values, is.written(counter, c.Template, asOf, r)) || shards != is.counted(c.Template) {
		s.breach("%s: %s holds %v of %d shards as of %s; then it was %v of %d", name, c.RollUp, r.Values, shards, s.clock(asOf), is.totals(c.Template, asOf), is.counted(c.Template))
	}
	s.checkChain(counter, c, r.Tally, name)
	now := s.store.Now()
	counter.commits, counter.paced = append(counter.commits, now), append(counter.paced, asOf)
	if n, window, ok := tooMany(counter.paced, s.shortestCadence(), s.longestBurst()); !ok { // the schedule keeps to D, and D to the cadence
		s.breach("%s: %s was rolled up %d times within %v", name, c.RollUp, n, window)
	}
	for len(counter.behind) > 0 && !counter.behind[0].After(asOf) {
		counter.lags = append(counter.lags, now.Sub(counter.behind[0]))
		counter.behind = counter.behind[1:]
	}
	return nil
}

// shortestCadence is that of all instances.
func (s *simulation) shortestCadence() time.Duration {
	shortest := s.cadence
	for _, i := range s.all {
		shortest = min(shortest, i.cadence)
	}

	switch {
	case s.hasAlarms() && (s.alarmsFailed || s.mixed): // then the counters are rolled up as often as events can be held
		return min(shortest, cmp.Or(s.slowly, shortest), rollup.LongestCadence(hold))
	case s.slowly > 0:
		return s.slowly
	default:
		return shortest
	}
}

// longestBurst is how many roll-ups of the shortest cadence fit into what an instance may use up in
// advance.
func (s *simulation) longestBurst() int {
	var longest time.Duration
	for _, i := range s.all {
		longest = max(longest, time.Duration(i.burst)*max(i.cadence, s.slowly))
	}
	shortest := s.shortestCadence()
	return int((longest + shortest - 1) / shortest)
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

// check checks the quiet after the run. The remainders of docs/design/proof.md must be repaired by
// an audit; all else must be exact without.
func (s *simulation) check() {
	if s.every {
		s.calm = true
		s.keepAll()
	}
	for _, i := range s.all {
		for range 60 { // an alarm may have rung lately
			if active(i.coalescer) == 0 {
				break
			}
			time.Sleep(time.Minute)
		}
		if n := active(i.coalescer); n != 0 {
			s.breach("%s still remembers %d counters", i.name, n)
		}
	}
	for _, c := range s.counters {
		explained := false
		for _, d := range s.deliveries {
			if !d.changed(c) || !d.acked || s.covered(d, c) || s.coveredByAnother(d, c) || s.coveredElsewhere(d, c) {
				continue
			}
			if !s.explained(d, c) {
				s.outcome.lost++
				s.breach("%s was acknowledged and no roll-up of %s covers it", d.name, c.RollUp)
			}
			explained = true
		}
		for _, d := range s.deliveries {
			explained = explained || d.isAbout(c) && d.dropped
		}
		explained = explained || c.lost || c.forged || c.purged || s.cameLate(c) || s.byOthers(c) || s.chainEnded(c) || s.unseen(c)
		if explained && !s.exact(c) {
			s.outcome.repaired++
			s.tell("an audit repairs %s", c.RollUp)
			continue
		}
		if !s.exact(c) {
			s.breach("%s holds %v, the shards %v", c.RollUp, s.store.Get(c.RollUp), s.totals(c))
		}
	}
	s.calm = true
	for range 2 { // from where the last audit stopped, and from the beginning
		i := s.newInstance()
		if report, err := rollup.Audit(i.ctx, i, i.routes, i.auditOptions()); err != nil || !report.Complete {
			s.breach("the last audit: %+v: %v", report, err)
		}
		s.settle()
	}
	for _, c := range s.counters {
		if !s.nothing(c) {
			s.checkLabels(c, "after an audit")
		}
		if !s.nothing(c) && !s.exact(c) {
			s.breach("after an audit %s holds %v, the shards %v", c.RollUp, s.store.Get(c.RollUp), s.totals(c))
		}
	}
	s.checkLeaves()
	s.actors.Wait() // alarms that the audits have made ring
	for _, c := range s.counters {
		if !s.nothing(c) && !s.exact(c) {
			s.breach("when the windows are empty %s holds %v, the shards %v", c.RollUp, s.store.Get(c.RollUp), s.totals(c))
		}
	}
	if s.deployed > 0 {
		s.prune()
		s.actors.Wait()
		s.settle()
	}
	time.Sleep(time.Hour) // the instances that took the last alarms forget the counters
}

// prune has an audit take away what earlier revisions kept, and checks that nothing of it is left.
// The audit leaves a counter whose pace it would have to wait for. An hour later, none has to.
func (s *simulation) prune() {
	i := s.newInstance()
	o := i.auditOptions()
	o.Prune, o.FromFirst = true, true
	report, err := rollup.Audit(i.ctx, i, i.routes, o)
	if err == nil && report.Paced > 0 {
		time.Sleep(time.Hour)
		report, err = rollup.Audit(i.ctx, i, i.routes, o)
	}
	if err != nil || !report.Complete || report.Paced > 0 {
		s.breach("the pruning audit: %+v: %v", report, err)
	}
	for _, c := range s.counters {
		kept := append(i.counterOf(c).Template.Totals(), document.TallyField, "edits", "author", "team", "parent", "root", "points", "shown", "text", "shop", "day")
		for field := range s.store.Get(c.RollUp) {
			if !slices.Contains(kept, field) && !c.forged { // it may have been put back
				s.breach("%s holds %s after a pruning", c.RollUp, field)
			}
		}
	}
}

// byOthers reports whether another revision than the last has acknowledged an event of the counter,
// or its audit has pruned a total that the last one keeps. Then the audit after a change of routes
// has the last one cover it.
func (s *simulation) byOthers(c *simulatedCounter) bool {
	template := s.template(c)
	last := template.Hash()

	fields := s.store.Get(c.RollUp)
	if fields != nil && document.DecodeTally(fields["tally"]).Routes != last {
		for _, name := range template.Totals() {
			if _, kept := fields[name]; !kept {
				return true
			}
		}
	}

	return slices.ContainsFunc(s.deliveries, func(d *simulatedDelivery) bool {
		return d.isAbout(c) && d.acked && d.to.hash(c) != last
	})
}

// coveredByAnother reports whether what stood for a delivery failed or was unkept, was delivered
// again to another revision, and is covered there.
func (s *simulation) coveredByAnother(d *simulatedDelivery, c *simulatedCounter) bool {
	for _, stood := range s.deliveries {
		if !stood.stoodFor(d, c) {
			continue
		}
		for _, again := range s.deliveries {
			if again.message == stood.message && again.acked && again.since.After(d.arrival) && (s.covered(again, c) || s.coveredByAnother(again, c)) {
				return true
			}
		}
	}
	return false
}

// stoodFor reports whether a delivery may have been the anchor that another was absorbed for, and
// then was not covered. A copy that joined one before it is no anchor, and what became of that one
// became of it.
func (stood *simulatedDelivery) stoodFor(d *simulatedDelivery, c *simulatedCounter) bool {
	if stood.to != d.to || stood.message == d.message || !stood.isAbout(c) || stood.since.Before(stood.arrival) {
		return false
	}
	if stood.nil && !slices.Contains(stood.unkept, c) {
		return false
	}
	return !stood.arrival.After(d.since) && stood.ended.After(d.since)
}

// nothing reports whether a counter has neither sources nor a roll-up. If its only event found it
// unkept, it never had one.
func (s *simulation) nothing(c *simulatedCounter) bool {
	return s.left(c) == nil && c.at(s.store.Now()).empty()
}

// exact reports whether a counter's roll-up is the sum of its shards, or was removed and there are
// none.
func (s *simulation) exact(c *simulatedCounter) bool {
	if len(c.truth) == 0 {
		return true
	}
	is := c.at(s.store.Now())
	fields := s.left(c)
	s.mu.Lock() // alarms may still ring
	came, removed, lacksShop := c.came, c.removed, s.lacksShop(c)
	s.mu.Unlock()
	if lacksShop && fields == nil { // it never had one, or was removed
		return true
	}
	if s.existing && came.IsZero() {
		return fields == nil
	}
	if removed || s.every && fields == nil { // without an event a counter that has no shards is never seen
		return fields == nil && is.empty()
	}
	if tally := document.DecodeTally(fields["tally"]); s.existing && is.empty() && tally.AsOf.IsZero() {
		return !s.isForged(c) // a document that Tally never wrote
	}
	lists := s.lists(c)
	for name, total := range s.totals(c) {
		if !lists[name] && fields[name] != total.Firestore() {
			return false
		}
	}
	return document.DecodeTally(fields["tally"]).NumShards == is.counted(s.template(c))
}

// unseen reports whether no event of a counter changed a total. Then an audit makes its first
// roll-up, of zeros.
func (s *simulation) unseen(c *simulatedCounter) bool {
	changed := func(d *simulatedDelivery) bool { return d.changed(c) }
	return s.left(c) == nil && c.at(s.store.Now()).counted(s.template(c)) == 0 && !slices.ContainsFunc(s.deliveries, changed)
}

// template is a counter's in the last revision.
func (s *simulation) template(c *simulatedCounter) *route.Template {
	counter, _ := s.revisions[s.latest].Counter(c.RollUp)
	return counter.Template
}

// totals returns what a counter's roll-up is to hold now.
func (s *simulation) totals(c *simulatedCounter) map[string]value.Value {
	now := s.store.Now()
	return c.at(now).totals(s.template(c), now)
}

// explained reports whether an acknowledged event that nothing covers is a remainder of
// docs/design/proof.md: its counter was unkept; or its machine was suspended; or somebody deleted
// an alarm of the counter; or what stood for it failed, and was not delivered again, because
// another copy had been acknowledged before or because its retries were exhausted; or what stood
// for it was itself acknowledged as unkept.
func (s *simulation) explained(d *simulatedDelivery, c *simulatedCounter) bool {
	if slices.Contains(d.unkept, c) || s.rangUnkept(d, c) || s.rangMeanwhile(d, c) || c.purged || c.forgedTally {
		return true
	}
	for _, stood := range s.deliveries {
		if !stood.stoodFor(d, c) {
			continue
		}
		if slices.Contains(stood.unkept, c) { // its instance was done with all that it stood for
			return true
		}
		explained := stood.message.acked || stood.dropped
		for _, again := range s.deliveries {
			if again.message == stood.message && again.acked && again.since.After(d.arrival) {
				explained = explained && s.explained(again, c)
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

// tell adds to the history. The mutex is held, or nothing else runs.
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
