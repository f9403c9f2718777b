//go:build mutations

package rollup_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// A mutation is a change of the engine that breaks one of its rules. The test named must fail on it.
type mutation struct {
	name     string
	file     string // in this folder
	old, new string // old is there once
	test     string // of this package; of the file's when that is the store on Firestore, the app or shards; with "../" of the root's
}

// The first mutations soften the rules that design documents mark: each closes a hole through which
// an acknowledged increment was lost, or a budget broken.
var mutations = []mutation{
	{"equal totals are acknowledged without a write", "coalescer.go",
		`if err := c.write(ctx, &l, p); err != nil {`,
		`if l.agrees() {
	} else if err := c.write(ctx, &l, p); err != nil {`, "TestSimulation"},
	{"the covered-from time is moved by later looks", "coalescer.go",
		`		if g.from.IsZero() {
`,
		`		{
`, "TestCoveredFromDoesNotMove"},
	{"a second copy of an anchor is absorbed", "coalescer.go",
		`if g := s.anchoredBy(e.ID, hash); g != nil {`,
		`if g := s.anchoredBy(e.ID, hash); g != nil && s.open == nil {`, "TestSimulation"},
	{"a counter without shards is not written", "coalescer.go",
		`if err := c.write(ctx, &l, p); err != nil {`,
		`if l.totals.NumShards() == 0 {
	} else if err := c.write(ctx, &l, p); err != nil {`, "TestSimulation"},
	{"a late write is sent", "rollup.go",
		`if left <= 0 {`,
		`if left = time.Hour; left <= 0 {`, "TestWriteIsNotSentLate"},
	{"an unknown outcome is taken for success", "coalescer.go",
		`if err := c.write(ctx, &l, p); err != nil {`,
		`if err := c.write(ctx, &l, p); errors.Is(err, ErrConflict) {`, "TestSimulation"},
	{"a refusal is taken for success", "coalescer.go",
		`if err := c.write(ctx, &l, p); err != nil {`,
		`if err := c.write(ctx, &l, p); err != nil && !errors.Is(err, ErrConflict) {`, "TestSimulation"},
	{"a refused write is forced", "rollup.go",
		`	return r.store.Write(ctx, l.counter, written)`,
		`	if v, err := r.store.View(ctx, l.counter); err == nil {
		written.UpdateTime = v.RollUp().UpdateTime
	}
	return r.store.Write(ctx, l.counter, written)`, "TestSimulation"},
	{"an event is acknowledged because the roll-up is newer than its commit", "coalescer.go",
		`g.from = l.readTime`,
		`g.from = l.asOf`, "TestSimulation"},
	{"the roll-up is not read in the transaction of the sum", "../internal/firestorestore/sum.go",
		`		ConsistencySelector: &firestorepb.RunAggregationQueryRequest_Transaction{Transaction: v.transaction},
`,
		``, "TestCalls"},
	{"shards are summed in a transaction that locks them", "../internal/firestorestore/store.go",
		`Mode: &firestorepb.TransactionOptions_ReadOnly_{ReadOnly: new(firestorepb.TransactionOptions_ReadOnly)},`,
		`Mode: &firestorepb.TransactionOptions_ReadWrite_{ReadWrite: new(firestorepb.TransactionOptions_ReadWrite)},`, "TestClientsAreNotBlocked"},
	{"a sum of 0 hides malformed shards", "../internal/firestorestore/sum.go",
		`	if !a.averaged || !a.sum.Finite() || a.sum.Float() == 0 || a.average.Float() == 0 {
		return false
	}`,
		`	if a.sum.Float() == 0 {
		return true
	}
	if !a.averaged || !a.sum.Finite() {
		return false
	}`, "TestMalformedAtConstantCost"},
	{"NaN is published", "../internal/firestorestore/sum.go",
		`if err != nil || a.count == 0 || a.allFinite() {`,
		`if err != nil || a.count == 0 || a.allFinite() || !a.sum.Finite() {`, "TestStore"},
	{"text is not counted", "../internal/firestorestore/sum.go",
		`if err != nil || a.count == 0 || a.allFinite() {`,
		`if err != nil || a.count == 0 || a.sum.Finite() {`, "TestStore"},
	{"one malformed shard has every shard read", "../internal/firestorestore/sum.go",
		`	if r.Documents {`,
		`	if p, err := v.aggregate(ctx, r, collection); r.Documents || err == nil && p.Malformed > 0 {`, "TestMalformedAtConstantCost"},
	{"all malformed shards are read", "../internal/firestorestore/sum.go",
		`end.Limit(most-len(named))`,
		`end`, "TestMalformedAtConstantCost"},
	{"malformed shards are named with each sum", "rollup.go",
		`known := n.counters[rollUp]`,
		`known := false`, "TestMalformedShardsAreNamedOnceInAWhile"},
	{"malformed shards are named once for all", "rollup.go",
		` || time.Since(n.since) >= namedEvery {`,
		` {`, "TestMalformedShardsAreNamedOnceInAWhile"},
	{"many malformed shards are named", "rollup.go",
		`maxNamed   = 5 `,
		`maxNamed   = 6 `, "TestMalformedShardsAreNamedOnceInAWhile"},
	{"however many shards are read for want of an index", "../internal/firestorestore/sum.go",
		`const maxUnindexed = 1000`,
		`const maxUnindexed = 1001`, "TestMissingIndexOfManyShards"},
	{"a look does not end with its context", "../internal/firestorestore/store.go",
		`s.begin(ctx, v)`,
		`s.begin(context.WithoutCancel(ctx), v)`, "TestDeadConnection"},
	{"a sum does not end with its context", "../internal/firestorestore/sum.go",
		`v.sumField(all, collection, t.Field)`,
		`v.sumField(context.WithoutCancel(all), collection, t.Field)`, "TestDeadConnection"},
	{"a look has no time-out", "coalescer.go",
		`looking, cancel := context.WithTimeout(ctx, c.Timeout)`,
		`looking, cancel := context.WithCancel(ctx)`, "TestStoreThatNeverAnswersIsLeft"},
	{"a write has no time-out", "rollup.go",
		`context.WithTimeout(ctx, min(left, r.Timeout))`,
		`context.WithTimeout(ctx, left)`, "TestWriteThatNeverAnswersIsLeft"},
	{"an audit's look has no time-out", "audit.go",
		`looking, cancel := context.WithTimeout(ctx, a.Timeout)`,
		`looking, cancel := context.WithCancel(ctx)`, "TestCallsThatHang"},
	{"a walk's page has no time-out", "cursor.go",
		`ctx, cancel := context.WithTimeout(ctx, r.Timeout)`,
		`ctx, cancel := context.WithCancel(ctx)`, "TestCallsThatHang"},
	{"a cursor is saved without a time-out", "audit.go",
		`	ctx, cancel := context.WithTimeout(ctx, a.Timeout)
	defer cancel()
	at, err :=`,
		`	at, err :=`, "TestCallsThatHang"},
	{"a tick's look has no time-out", "keep.go",
		`looking, cancel := context.WithTimeout(ctx, k.Timeout)`,
		`looking, cancel := context.WithCancel(ctx)`, "TestCallsThatHang"},
	{"as_of is finer than Firestore's times", "../internal/firestorestore/store.go",
		`answer.ReadTime.AsTime().Truncate(time.Microsecond)`,
		`answer.ReadTime.AsTime()`, "TestReadTimeIsTruncated"},
	{"a template need not use every capture", "parse.go",
		`if !slices.Contains(template, Segment{Name: name, Capture: true}) {`,
		`if false {`, "TestRefusedRoutes"},
	{"a template may use the shard's capture", "parse.go",
		`if s.Capture && s.Name == last.Name {`,
		`if false {`, "TestRefusedRoutes"},
	{"a pattern may capture a collection's name", "parse.go",
		`		if i%2 == 0 {
			return fmt.Errorf("the source pattern captures`,
		`		if i < 0 {
			return fmt.Errorf("the source pattern captures`, "TestRefusedRoutes"},
	{"a template may capture a collection's name", "parse.go",
		`if s.Capture && i%2 == 0 {`,
		`if s.Capture && i < 0 {`, "TestRefusedRoutes"},
	{"two routes may share a roll-up", "conflict.go",
		` && overlap(r.template, other.template) {`,
		` && false {`, "TestRefusedRoutes"},
	{"two routes may share a shard", "conflict.go",
		`if overlap(r.pattern, other.pattern) {`,
		`if false {`, "TestRefusedRoutes"},
	{"a capture meets captures only", "conflict.go",
		`return s.Capture || t.Capture || s.Name == t.Name`,
		`return s.Capture && t.Capture || s == t`, "TestRefusedRoutes"},
	{"a roll-up may be a shard", "conflict.go",
		`if overlap(r.template, other.pattern) {`,
		`if false {`, "TestRefusedRoutes"},
	{"a roll-up may be above a source, and come and go", "conflict.go",
		`if !r.Template.Existing && overlap(`,
		`if false && overlap(`, "TestRefusedRoutes"},
	{"a total may have the name of a counter's own field", "conflict.go",
		`if slices.Contains(counterFields, t.Name) {`,
		`if false {`, "TestRefusedRoutes"},
	{"two totals of a roll-up may have one name", "conflict.go",
		`} else if other != nil {`,
		`} else if false {`, "TestRefusedRoutes"},
	{"routes of one template may differ in every", "parse.go",
		`case r.Template.Every != other.Template.Every:`,
		`case false:`, "TestRefusedRoutes"},
	{"routes of one template may differ in existing", "parse.go",
		`case r.Template.Existing != other.Template.Existing:`,
		`case false:`, "TestRefusedRoutes"},
	{"the hash knows nothing of the other routes", "template.go",
		`for _, r := range t.Routes {`,
		`for _, r := range t.Routes[:1] {`, "TestTemplate"},
	{"the hash depends on the order of routes", "template.go",
		`	slices.Sort(sources)
`,
		``, "TestTemplate"},

	{"a missing document covers nothing", "coalescer.go",
		`		s.release(l.readTime)
		s.failures, s.refused = 0, false`,
		`		s.failures, s.refused = 0, false`, "TestMissingDocument"},
	{"an app that sets its document has it rolled up at each change", "pace.go",
		`case l.asOf.IsZero() && l.counter.Template.Existing:`,
		`case false:`, "TestAppSetsItsDocument"},
	{"a missing document is created", "coalescer.go",
		`if l.missing() { //`,
		`if false { //`, "TestMissingDocument"},
	{"a missing document is looked at for each event", "coalescer.go",
		`s.wake = l.received.Add(c.Cadence)`,
		`s.wake = l.received`, "TestMissingDocument"},
	{"a missing document covers what came after the look", "coalescer.go",
		`		s.release(l.readTime)
		s.failures, s.refused = 0, false`,
		`		s.release(l.readTime.Add(time.Hour))
		if s.open != nil {
			close(s.open.done)
			s.open = nil
		}
		s.failures, s.refused = 0, false`, "TestMissingDocumentCoversWhatCameBefore"},
	{"an audit creates the app's documents", "decide.go",
		`	if l.missing() {
		return skip
	}
`,
		``, "TestAuditOfExisting"},
	{"the app's documents are removed", "decide.go",
		`return !l.counter.Template.Existing && `,
		`return `, "TestAuditOfExisting"},
	{"a tick creates the app's documents", "keep.go",
		`if l.missing() {`,
		`if false {`, "TestKeepOfExisting"},
	{"a counter with two sources is found twice", "decide.go",
		`case c.foundBefore(l):`,
		`case false:`, "TestAuditOfExisting"},
	{"only the first route is summed", "../internal/memstore/memstore.go",
		`for i, r := range v.template.Routes {`,
		`for i, r := range v.template.Routes[:1] {`, "TestRoutesOfOneTemplate"},

	{"an event that changes nothing is acknowledged however old", "coalescer.go",
		`.Sub(commit) < freshFor`,
		`.Sub(commit) < time.Hour`, "TestUnchangedCostsNothing"},
	{"an event that changes nothing is acknowledged before any look", "coalescer.go",
		`return !c.newest.IsZero() && `,
		`return c.newest.IsZero() || `, "TestUnchangedCostsNothing"},
	{"the server's time stands still between looks", "coalescer.go",
		`c.newest.Add(time.Since(c.sent)).Sub(commit)`,
		`c.newest.Sub(commit)`, "TestUnchangedCostsNothing"},
	{"the local clock says how old an event is", "coalescer.go",
		`c.newest.Add(time.Since(c.sent)).Sub(commit)`,
		`time.Since(commit)`, "TestUnchangedCostsNothing"},
	{"the server's time counts from the look's answer", "coalescer.go",
		`c.newest, c.sent = l.readTime, l.began`,
		`c.newest, c.sent = l.readTime, l.received`, "TestUnchangedBesideLooks"},
	{"an event that changes nothing absorbs", "coalescer.go",
		`weak: e.Unchanged,`,
		``, "TestUnchangedIsNoAnchor"},
	{"an event that changes nothing absorbs an older one", "coalescer.go",
		` && !e.UpdateTime.Before(g.commit)`,
		``, "TestUnchangedIsNoAnchor"},
	{"Tally's own documents may be shards", "conflict.go",
		`if overlap(own, r.pattern) {`,
		`if false {`, "TestRefusedRoutes"},
	{"a roll-up may be where Tally keeps its own", "conflict.go",
		`if overlap(own, r.template) {`,
		`if false {`, "TestRefusedRoutes"},

	{"an event of a scheduled route waits for D", "coalescer.go",
		`due := c.pace().due(l)`,
		`due := pace{max(c.Cadence, l.counter.Template.Every), 1}.due(l)`, "TestEventsOfScheduledRoute"},
	{"as_of of unchanged totals stays", "decide.go",
		`case l.totals.NumShards() > 0 && l.readTime`,
		`case false && l.readTime`, "TestKeepRenewsAsOf"},
	{"as_of of unchanged totals is renewed with each tick", "decide.go",
		`const staleAfter = 10`,
		`const staleAfter = 1`, "TestKeepLeavesUnchangedTotals"},
	{"as_of of zeros without sources is renewed", "decide.go",
		`case l.totals.NumShards() > 0 && l.readTime`,
		`case l.readTime`, "TestKeepWithoutSources"},
	{"a tick does not visit roll-ups whose sources are gone", "keep.go",
		`!ok && (w.route != nil || !f`,
		`!ok && (w.route != nil || false && !f`, "TestKeepWithoutSources"},
	{"a tick does not visit counters without a roll-up", "keep.go",
		`!ok && (w.route != nil || !f`,
		`!ok && (!f`, "TestKeepGoesRound"},
	{"a tick does not begin with the oldest", "keep.go",
		`cmp.Or(asOf[a].Compare(asOf[b]), cmp.Compare(a.RollUp, b.RollUp))`,
		`cmp.Compare(a.RollUp, b.RollUp)`, "TestKeepGoesRound"},
	{"a tick goes round once", "keep.go",
		`over := next.After(k.until)`,
		`over := true`, "TestKeepGoesRound"},
	{"a tick goes round past its time", "keep.go",
		`over := next.After(k.until)`,
		`over := next.After(k.until.Add(time.Minute))`, "TestKeepGoesRound"},
	{"a tick tries a counter once", "keep.go",
		`failures >= maxTries`,
		`failures >= 1`, "TestKeepGoesOnAfterFailures"},
	{"a tick ends with the first page that fails", "keep.go",
		`	k.report.Counters = len(found)
`,
		`	if k.report.Counters = len(found); problems != nil {
		return k.report, errors.Join(problems...)
	}
`, "TestKeepGoesOnAfterAPage"},
	{"a tick removes a roll-up whatever was written meanwhile", "keep.go",
		`	case remove:
`,
		`	case remove:
		if v, err := k.store.View(looking, c); err == nil {
			l.rollUp = v.RollUp()
		}
`, "TestKeepRemovesWhatItSaw"},
	{"a tick keeps live routes too", "keep.go",
		`k.list(ctx, routes.Scheduled())`,
		`k.list(ctx, routes)`, "TestKeepGoesOnAfterAPage"},

	{"a burst is not used", "pace.go",
		`return pace{o.Cadence, max(o.Burst, 1)}`,
		`return pace{o.Cadence, 1}`, "TestPace"},
	{"one roll-up more than the burst", "pace.go",
		`return min(used.Sub(now)-time.Duration(p.burst-1)*p.cadence,`,
		`return min(used.Sub(now)-time.Duration(p.burst)*p.cadence,`, "TestPace"},
	{"what roll-ups used up is not added up", "pace.go",
		`return used.Add(p.cadence)`,
		`return l.readTime.Add(p.cadence)`, "TestPace"},
	{"whoever finds credit uses it at once", "coalescer.go",
		`return s.backOff - l.readTime.Sub(l.asOf)`,
		`return due`, "TestPace"},
	{"the writer does not go first, in a crowd", "coalescer.go",
		`case l.asOf.IsZero() || l.rerouted() || l.asOf.Equal(s.own):`,
		`case l.asOf.IsZero() || l.rerouted():`, "TestCrowd"},
	{"the writer does not go first", "coalescer.go",
		`case l.asOf.IsZero() || l.rerouted() || l.asOf.Equal(s.own):`,
		`case l.asOf.IsZero() || l.rerouted():`, "TestCredit"},
	{"one's own roll-up is forgotten with the counter", "coalescer.go",
		`time.AfterFunc(time.Until(s.ownUntil), func() {`,
		`s.ownUntil = time.Time{}
	time.AfterFunc(0, func() {`, "TestCredit"},
	{"a tick begins counters after its time", "keep.go",
		`if !until.IsZero() && time.Now().After(until) {`,
		`if false {`, "TestKeepBeginsNoCounterLate"},
	{"what waits on one walk is looked for on another", "audit.go",
		`c.Places[d.walk] = d.before`,
		`c.Places[0] = d.before`, "TestWaitingDifferenceKeepsItsPlace"},
	{"a page that failed counts as failed for ever", "cursor.go",
		`		c.Places[i].Failed = false
`,
		``, "TestCursorGoesOn"},
	{"an audit whose reads are used up by finding counters compares none", "audit.go",
		`if i > 0 && a.over(ctx) {`,
		`if a.over(ctx) {`, "TestAuditWithFewReads"},
	{"former totals outlive their roll-up", "../internal/memstore/memstore.go",
		`slices.Concat(c.Template.Totals(), r.Tally.Former, []string{document.TallyField})`,
		`slices.Concat(c.Template.Totals(), []string{document.TallyField})`, "TestRemovalTakesFormerTotals"},
	{"the back-off is drawn anew with each look", "coalescer.go",
		`if !l.asOf.Equal(s.seen) {`,
		`if s.backOff = c.backOff(); !l.asOf.Equal(s.seen) {`, "TestBackOffIsDrawnOnce"},
	{"nothing is drawn for the roll-up that refused a write", "coalescer.go",
		`s.seen, s.backOff, s.failures = l.asOf, c.backOff(), 0`,
		`s.seen, s.failures = l.asOf, 0`, "TestRefusedByAnotherRollUp"},
	{"a write that the app refused is sent again at once", "coalescer.go",
		`} else if s.refused {`,
		`} else if s.refused && false {`, "TestRefusedByTheApp"},
	{"what another pace used up is given back", "pace.go",
		`used.After(l.readTime.Add(max(furthestAhead, time.Duration(p.burst)*p.cadence)))`,
		`used.After(l.readTime.Add(min(furthestAhead, time.Duration(p.burst)*p.cadence)))`, "TestMixedPaces"},
	{"what another pace used up is waited for", "pace.go",
		`return min(used.Sub(now)-time.Duration(p.burst-1)*p.cadence, asOf.Sub(now)+p.cadence)`,
		`_ = asOf
	return used.Sub(now) - time.Duration(p.burst-1)*p.cadence`, "TestPacedUntil"},
	{"the writer waits for what another pace used up", "coalescer.go",
		`s.wake = l.received.Add(p.dueNext(&l))`,
		`s.wake = l.received.Add(p.next(&l).Sub(l.readTime) - time.Duration(p.burst-1)*p.cadence)`, "TestMixedPaces"},
	{"a missing paced_until is full credit", "pace.go",
		`return l.asOf.Add(p.cadence)
	}
	return used`,
		`return l.asOf
	}
	return used`, "TestPacedUntil"},

	{"another revision's as_of covers", "rollup.go",
		`if l.rerouted() {
		return time.Time{}`,
		`if l.rerouted() && false {
		return time.Time{}`, "TestRevisionsCoverTheirOwn"},
	{"another revision's roll-up gives it precedence", "coalescer.go",
		`case l.asOf.IsZero() || l.rerouted() || l.asOf.Equal(s.own):`,
		`case l.asOf.IsZero() || l.asOf.Equal(s.own):`, "TestRevisionsTakeTurns"},
	{"who rolled up over another revision goes first again", "coalescer.go",
		`if l.rerouted() {
		s.wake = s.wake`,
		`if l.rerouted() && false {
		s.wake = s.wake`, "TestRevisionsTakeTurns"},
	{"totals that agree are left to another revision", "rollup.go",
		`if l.asOf.IsZero() || l.rerouted() || l.rollUp.Tally.NumShards`,
		`if l.asOf.IsZero() || l.rollUp.Tally.NumShards`, "TestRevisionIsGone"},
	{"another revision's roll-up is drift", "decide.go",
		`case l.rerouted():
		return rerouted`,
		`case l.rerouted():
		return drift`, "TestRevisionIsGone"},
	{"what another revision kept is not named", "rollup.go",
		`Former: former(l.rollUp.Tally, names),`,
		`Former: nil,`, "TestRevisionIsGone"},
	{"what earlier routes kept is named once only", "rollup.go",
		`range slices.Concat(old.Totals, old.Former) {`,
		`range old.Totals {`, "TestFormerTotalStays"},

	{"a snapshot from before the change covers", "coalescer.go",
		`if g.from.IsZero() && g.latest.After(l.readTime) {`,
		`if false && g.latest.After(l.readTime) {`, "TestSnapshotFromBeforeTheChange"},
	{"a snapshot from before the change covers, under noise", "coalescer.go",
		`if g.from.IsZero() && g.latest.After(l.readTime) {`,
		`if false && g.latest.After(l.readTime) {`, "TestSnapshotsOfTheGroup"},
	{"the belt looks at the anchor's time only", "coalescer.go",
		`if e.UpdateTime.After(g.latest) {`,
		`if false {`, "TestSnapshotFromBeforeTheChange"},
	{"the belt looks at the last event's time only", "coalescer.go",
		`if e.UpdateTime.After(g.latest) {`,
		`if e.UpdateTime != g.latest {`, "TestSnapshotFromBeforeTheChange"},
	{"a snapshot from before the change is no error", "coalescer.go",
		`level = slog.LevelError`,
		`level = slog.LevelWarn`, "TestSnapshotFromBeforeTheChange"},

	{"an instance has the platform's slots", "coalescer.go",
		`const Concurrency = 1000`,
		`const Concurrency = 80`, "TestSlots"},
	{"generations close one after the other while looks fail", "coalescer.go",
		`if s.open != nil && (s.failures == 0 || len(s.closed) == 0) {`,
		`if s.open != nil {`, "TestBackOffOfTheSubscription"},
	{"an event that fails is acknowledged", "coalescer.go",
		`g.err = err
	close(g.done)`,
		`g.err = nil
	close(g.done)`, "TestBackOffOfTheSubscription"},

	{"another instance's roll-up releases nothing", "coalescer.go",
		`	s.release(l.covers())
`,
		``, "TestEndings"},
	{"one's own roll-up releases nothing", "coalescer.go",
		`	s.release(l.readTime)
	s.wake`,
		`	s.wake`, "TestLoneEventIsRolledUpAtOnce"},
	{"as_of in the future is taken at its word", "rollup.go",
		`case asOf.After(l.readTime):`,
		`case false:`, "TestInvalidAsOfIsOverwritten"},
	{"the look begins before its generation closes", "coalescer.go",
		`for _, g := range s.closed {
		if g.from.IsZero() && g.latest`,
		`if s.open != nil {
		s.closed = append(s.closed, s.open)
		s.open = nil
	}
	for _, g := range s.closed {
		if g.from.IsZero() && g.latest`, "TestSimulation"},
	{"events are absorbed into a closed generation", "coalescer.go",
		`if g := s.open; g != nil {`,
		`if s.open == nil && len(s.closed) > 0 {
		c.mu.Unlock()
		return Ending{}, nil
	}
	if g := s.open; g != nil {`, "TestSimulation"},
	{"a roll-up older than the covered-from time releases", "coalescer.go",
		`if g.from.After(asOf) {`,
		`if g.from.After(asOf.Add(time.Second)) {`, "TestSimulation"},
	{"an anchor that fails leaves its generation open", "coalescer.go",
		`if !anchor {`,
		`if true {`, "TestSimulation"},
	{"a failed look releases", "coalescer.go",
		`			c.failed(oldest.values, s, oldest.anchor, err)
`,
		`			c.failed(oldest.values, s, oldest.anchor, err)
			c.mu.Lock()
			s.release(time.Now().AddDate(1, 0, 0))
			c.mu.Unlock()
`, "TestSimulation"},
	{"the precondition is dropped", "../internal/memstore/memstore.go",
		`	if !d.updateTime.Equal(r.UpdateTime) {`,
		`	if false {`, "TestSimulation"},
	{"the local clock tells what is due", "pace.go",
		`return p.wait(p.usedUntil(l), l.asOf, l.readTime)`,
		`return p.wait(p.usedUntil(l), l.asOf, l.received)`, "TestSimulation"},
	{"the local clock tells what lies in the future", "rollup.go",
		`case asOf.After(l.readTime):`,
		`case asOf.After(l.received):`, "TestSimulation"},
	{"as_of is the local clock's", "rollup.go",
		`AsOf: l.readTime, NumShards`,
		`AsOf: l.received.Truncate(time.Microsecond), NumShards`, "TestSimulation"},
	{"a roll-up is written before its time", "coalescer.go",
		`if wait > 0 || len(s.closed) == 0 {`,
		`if len(s.closed) == 0 {`, "TestSimulation"},
	{"no leading edge", "coalescer.go",
		`s = &counterState{counter: counter}`,
		`s = &counterState{counter: counter, wake: time.Now().Add(c.Cadence)}`, "TestLoneEventIsRolledUpAtOnce"},
	{"exact wake-ups", "coalescer.go",
		`return c.Cadence/10 + time.Duration(c.Random()*float64(spread))`,
		`return time.Duration(0 * spread)`, "TestCrowd"},
	{"a failing store is asked without a pause", "coalescer.go",
		`s.wake = s.wake.Add(c.pause(s.failures - 1))`,
		`s.wake = s.wake.Add(time.Millisecond)`, "TestPausesBetweenFailures"},
	{"events are held without end while Firestore fails", "coalescer.go",
		`if s.open != nil && (s.failures == 0 || len(s.closed) == 0) {`,
		`if s.open != nil {`, "TestFewEventsAreHeldWhileLooksFail"},
	{"a counter is not forgotten", "coalescer.go",
		`delete(c.counters, s.counter.RollUp)`,
		``, "TestSimulation"},
	{"an event is said to be covered as of its look, not as of the roll-up", "coalescer.go",
		`g.asOf = asOf`,
		`g.asOf = g.from`, "TestEndings"},
	{"a look ends with the request of its anchor", "coalescer.go",
		`values: context.WithoutCancel(ctx)`,
		`values: ctx`, "TestWorkHasTheAnchorsValues"},
	{"Firestore's precondition is dropped", "../internal/firestorestore/store.go",
		`, firestore.LastUpdateTime(updateTime))`,
		`)`, "TestStore"},
	{"a refusal that proves nothing is an error like others", "../internal/firestorestore/store.go",
		`codes.NotFound, codes.Aborted:`,
		`codes.NotFound:`, "TestWriteErrors"},

	{"an audit writes over a young roll-up", "audit.go",
		`case p.due(&l) <= 0:`,
		`case true:`, "TestAuditKeepsToTheCadence"},
	{"an audit and a tick pace scheduled routes by the cadence", "pace.go",
		`if t.Scheduled() {`,
		`if false {`, "TestAuditOfScheduledRoute"},
	{"a tick paces by the cadence", "pace.go",
		`return pace{t.Every, 1}`,
		`return o.pace()`, "TestKeepsOverlap"},
	{"a tick paces with a burst", "pace.go",
		`return pace{t.Every, 1}`,
		`return pace{t.Every, 2}`, "TestKeepsOverlap"},
	{"an audit waits for events of scheduled routes", "audit.go",
		`a.o.Grace > 0 && !f.Template.Scheduled()`,
		`a.o.Grace > 0`, "TestAuditOfScheduledRoute"},
	{"an audit tries a counter for ever", "audit.go",
		`if try == maxTries || ctx.Err() != nil {`,
		`if ctx.Err() != nil {`, "TestAuditGoesOnAfterFailures"},
	{"an audit leaves what differs", "decide.go",
		`	case l.agrees():
		return leave`,
		`	case true:
		return leave`, "TestSimulation"},
	{"an integer and a double within the tolerance agree", "number.go",
		`	if !a.isDouble || !b.isDouble || !a.Finite() || !b.Finite() {
		return false
	}
	return math.Abs(a.double-b.double) <= sumTolerance*max(math.Abs(a.double), math.Abs(b.double))`,
		`	if !a.Finite() || !b.Finite() {
		return false
	}
	return math.Abs(a.Float()-b.Float()) <= sumTolerance*max(math.Abs(a.Float()), math.Abs(b.Float()))`, "TestSameTotal"},
	{"doubles agree exactly or not at all", "number.go",
		`const sumTolerance = 1e-12`,
		`const sumTolerance = 0`, "TestSameTotal"},
	{"an audit finds counters by their shards only", "audit.go",
		`if route == nil && f.RollUp.Tally.AsOf.IsZero() {`,
		`if route == nil {`, "TestOrphaned"},
	{"an audit finds counters by their roll-ups only", "decide.go",
		`if c.found != nil && !l.asOf.IsZero() {`,
		`if c.found != nil {`, "TestSimulation"},
	{"a roll-up of zeros is removed within its hour", "decide.go",
		`l.readTime.Sub(l.asOf) > removeAfter`,
		`l.readTime.Sub(l.asOf) > removeAfter/2`, "TestOrphaned"},
	{"a counter at zero is removed", "decide.go",
		`l.totals.NumShards() == 0 && !l.asOf.IsZero() && l.read`,
		`l.totals.Sums["count"] == Int(0) && !l.asOf.IsZero() && l.read`, "TestAuditKeepsCountersAtZero"},
	{"a roll-up is removed whatever was written meanwhile", "audit.go",
		`		err = a.remove(looking, a.store, &l)`,
		`		if v, err := a.store.View(looking, c); err == nil {
			l.rollUp = v.RollUp()
		}
		err = a.remove(looking, a.store, &l)`, "TestRemovalHasItsPrecondition"},
	{"a removal takes the app's fields along", "../internal/memstore/memstore.go",
		`if len(fields) > 0 {`,
		`if false {`, "TestRemovalKeepsTheAppsFields"},
	{"a difference is repaired before its grace is over", "decide.go",
		`case c.grace && !c.graceOver && !l.asOf.IsZero() && !l.rerouted():`,
		`case false:`, "TestDrift"},
	{"the grace is shorter than a redelivery takes", "audit.go",
		`const redelivery = 15 * time.Second`,
		`const redelivery = 10 * time.Second`, "TestGrace"},
	{"a roll-up of other routes ends a comparison", "decide.go",
		`} else if !l.covers().Before(c.from) {`,
		`} else if !l.asOf.Before(c.from) {`, "TestCompareBeforeTheSum"},
	{"a difference that a roll-up has covered is drift", "decide.go",
		`} else if !l.covers().Before(c.from) {`,
		`} else if !l.covers().Before(l.readTime) {`, "TestBusyCounterDoesNotDrift"},
	{"a difference is drift although another wrote the roll-up", "decide.go",
		`case c.graceOver && l.asOf.Equal(c.asOf):`,
		`case c.graceOver:`, "TestNoDriftAfterAnothersRollUp"},
	{"a roll-up of other routes is drift", "decide.go",
		`	case l.rerouted():
		return rerouted
`,
		``, "TestRerouted"},
	{"roll-ups of other routes are not left alone", "decide.go",
		`case l.rerouted() && c.keepRerouted:`,
		`case false:`, "TestRerouted"},
	{"the cursor passes what waits for its grace", "audit.go",
		`c.Places[d.walk] = d.before`,
		`_ = d`, "TestKilledAudits"},
	{"the cursor is kept although the routes are others", "cursor.go",
		`c.Routes != routes.String() || len`,
		`len`, "TestCursorHoldsOnItsRoutes"},
	{"the cursor may hold other places than there are routes", "cursor.go",
		`len(c.Places) != n`,
		`len(c.Places) < n`, "TestCursorHoldsOnItsRoutes"},
	{"a page that fails ends its route", "audit.go",
		`			place.Failed = true
`,
		`			*place = Place{Done: true}
`, "TestFailedPageKeepsItsPlace"},
	{"a page that fails keeps the others from beginning anew", "audit.go",
		`			place.Failed = true
`,
		``, "TestFailedPageKeepsItsPlace"},
	{"a route that is done does not wait for the others", "cursor.go",
		`if !left && p.Done {`,
		`if _ = left; p.Done {`, "TestRoutesTakeTurns"},
	{"an audit is complete although a page failed", "cursor.go",
		`	return !slices.ContainsFunc(c.Places, func(p Place) bool { return !p.Done })`,
		`	return !slices.ContainsFunc(c.Places, func(p Place) bool { return !p.Done && !p.Failed })`, "TestFailedPageKeepsItsPlace"},
	{"a cycle is from tick to tick", "cursor.go",
		`c.Cycle = at.Sub(c.Complete)`,
		`c.Cycle = at.Sub(c.Tick)`, "TestCycle"},
	{"an audit goes on although another is at work", "audit.go",
		`	case errors.Is(err, ErrConflict):
		a.report.Overlapped = true
`,
		`	case errors.Is(err, ErrConflict):
`, "TestAuditsOverlap"},
	{"an audit's reads have no bound", "audit.go",
		`a.o.MaxReads > 0 && a.o.Reads() >= a.o.MaxReads`,
		`false`, "TestAuditReadsNoMore"},
	{"an audit's time has no bound", "audit.go",
		`!a.enough.IsZero() && !time.Now().Before(a.enough)`,
		`false`, "TestAuditStopsInTime"},
	{"a dry run repairs", "decide.go",
		`if c.dryRun {`,
		`if false {`, "TestDryRun"},
	{"any write takes former totals away", "rollup.go",
		`if r.prune {`,
		`if true {`, "TestPrune"},
	{"an audit takes no former totals away", "rollup.go",
		`if r.prune {`,
		`if false {`, "TestPrune"},
	{"a dry run removes", "decide.go",
		`case l.agrees() && l.removable() && !c.dryRun:`,
		`case l.agrees() && l.removable():`, "TestDryRun"},

	{"the place behind an id of 1,500 bytes is longer than Firestore allows", "../internal/firestorestore/audit.go",
		`if len(id) < longest {`,
		`if true {`, "TestPlaceBehindAnID"},
	{"the place behind an id grows with its last character", "../internal/firestorestore/audit.go",
		` && len(id)+utf8.RuneLen(last) <= longest {`,
		` {`, "TestPlaceBehindAnID"},
	{"the place behind the last character is no character", "../internal/firestorestore/audit.go",
		`if last++; last == 0xD800 {`,
		`if last++; false {`, "TestStore"},
	{"numeric ids are taken for others", "../internal/firestorestore/audit.go",
		`if number, ok := strings.CutPrefix(id, "__id"); ok {`,
		`if number, ok := strings.CutPrefix(id, "__id"); ok && false {`, "TestStore"},
	{"a page queries until it is full", "../internal/firestorestore/audit.go",
		` && queries < 2*limit; queries++`,
		`; queries++`, "TestForeignCollections"},
	{"a page that ends early ends the walk", "../internal/firestorestore/audit.go",
		`	return page, nil
}

// cursorPath`,
		`	if len(page.Found) < limit {
		page.Next = ""
	}
	return page, nil
}

// cursorPath`, "TestForeignCollections"},

	{"the app sets no hold limit", "../internal/app/app.go",
		`Hold: s.config.HoldLimit, `,
		``, "TestHoldLimit"},
	{"a call may take as long as an event is held", "../internal/app/app.go",
		`Timeout: s.config.HoldLimit / 2`,
		`Timeout: s.config.HoldLimit`, "TestEventOutlivesOneCall"},
	{"what an event changes is not passed on", "../internal/app/app.go",
		`, Unchanged: change.Unchanged})`,
		`})`, "TestEditsCostNothing"},
	{"no field that is summed is looked for in events", "../internal/app/app.go",
		`return route.Fields()`,
		`return route.Fields()[:0]`, "TestEditsCostNothing"},
	{"the app serves any project", "../internal/app/app.go",
		`if change.Project != s.config.Project || `,
		`if `, "TestUnserved"},
	{"a dry run writes", "../internal/app/schedule.go",
		`o.DryRun = t.dryRun`,
		`o.DryRun = false`, "TestDryRun"},
	{"a database that fails stops the rest", "../internal/app/schedule.go",
		`error { return t.audit(ctx, d, r, until) })`,
		`error { return t.audit(ctx, d, r, until) })
		if len(t.problems) > 0 {
			break
		}`, "TestFirstDatabaseFails"},
	{"a tick's audit knows no end", "../internal/app/schedule.go",
		`o.Until = until`,
		`_ = until`, "TestTickEndsInTime"},
	{"a tick reads without bound", "../internal/app/schedule.go",
		`o.MaxReads, o.Reads = t.config.AuditReads, func`,
		`o.MaxReads, o.Reads = 0, func`, "../TestScheduleStopsAtItsReads"},

	{"the token goes though its commit was not answered", "../shards/set.go",
		`case err == nil && once.answered:`,
		`case err == nil:`, "TestSetSentLate"},
	{"the number of shards is told before they are there", "../shards/resize.go",
		`if err := c.createShards(ctx, has, n); err != nil {
			return err
		}
		if _, err := c.doc.Set(ctx, redeclared(docs[0], n), firestore.MergeAll); err != nil {
			return fmt.Errorf("shards: resize %s: %w", c.doc.Path, err)
		}`,
		`if _, err := c.doc.Set(ctx, redeclared(docs[0], n), firestore.MergeAll); err != nil {
			return fmt.Errorf("shards: resize %s: %w", c.doc.Path, err)
		}
		if err := c.createShards(ctx, has, n); err != nil {
			return err
		}`, "TestResizeUpCutShort"},
	{"a fold overwrites the shard that came meanwhile", "../shards/resize.go",
		`return tx.Create(kept, increments)`,
		`return tx.Set(kept, increments)`, "TestResizeRaces"},
}

// TestMutations shows that the tests notice when a rule is broken. A mutation that no test notices is
// a missing test. It builds the tests once for each mutation, which takes a minute or two:
//
//	go test -tags=mutations -run=TestMutations ./rollup
func TestMutations(t *testing.T) {
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			slots <- struct{}{}
			defer func() { <-slots }()
			if out, err := m.run(t); err == nil {
				t.Errorf("survived %s", m.test)
			} else if !strings.Contains(string(out), "--- FAIL: "+strings.TrimPrefix(m.test, "../")) {
				t.Errorf("%s did not fail, but:\n%s", m.test, out)
			}
		})
	}
}

// run tests the mutated engine.
func (m *mutation) run(t *testing.T) ([]byte, error) {
	source, err := os.ReadFile(m.file)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(source), m.old); n != 1 {
		t.Fatalf("%s holds %d times, want once:\n%s", m.file, n, m.old)
	}
	original, err := filepath.Abs(m.file)
	if err != nil {
		t.Fatal(err)
	}
	mutated := filepath.Join(t.TempDir(), "mutated.go")
	if err := os.WriteFile(mutated, []byte(strings.Replace(string(source), m.old, m.new, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {original: mutated}})
	if err != nil {
		t.Fatal(err)
	}
	overlayFile := filepath.Join(t.TempDir(), "overlay.json")
	if err := os.WriteFile(overlayFile, overlay, 0o644); err != nil {
		t.Fatal(err)
	}
	test, root := strings.CutPrefix(m.test, "../")
	args := []string{"test", "-overlay=" + overlayFile, "-vet=off", "-ldflags=-s -w", "-failfast", "-timeout=2m", "-run=^" + test + "$"}
	switch dir := filepath.Dir(m.file); {
	case root:
		args = append(args, "..")
	case slices.Contains([]string{"firestorestore", "app", "shards"}, filepath.Base(dir)):
		args = append(args, "./"+dir)
	default:
		args = append(args, ".", "-sim.shrink=0")
	}
	return exec.CommandContext(t.Context(), "go", args...).CombinedOutput()
}
