package rollup_test

import "strings"

// A mutation is a change of the engine that breaks one of its rules. The test named must fail on
// it: TestMutations.
type mutation struct {
	rule     string // of rules_test.go
	name     string
	file     string // in this folder
	old, new string // old is there once
	test     string // of this package, or of the file's if that has tests; with a folder, of that; may name a subtest
}

// testName returns the name of the mutation's test, with that of its subtest.
func (m *mutation) testName() string { return m.test[strings.Index(m.test, "Test"):] }

// Each mutation begins with the rule that it breaks, by its name in rules_test.go, which says what
// goes wrong then.
var mutations = []mutation{
	{"fence", "equal totals are acknowledged without a write", "internal/events/prober.go",
		`err = c.roller.Write(ctx, l, p, &s.contention)
	if err != nil {`,
		`if !l.Agrees() {
		err = c.roller.Write(ctx, l, p, &s.contention)
	}
	if err != nil {`, "TestSimulation"},
	{"covered-from", "the covered-from time is moved by later looks", "internal/events/observe.go",
		`		if g.coveredFrom.IsZero() {
`,
		`		{
`, "TestCoveredFromDoesNotMove"},
	{"each-done", "a second copy of an anchor is absorbed", "internal/events/event.go",
		`if first := c.deliveries[e.ID]; first != nil {`,
		`if first := c.deliveries[e.ID]; first != nil && len(concerns) == 0 {`, "TestSimulation"},
	{"each-done", "copies are answered for each counter apart", "internal/events/event.go",
		`	if first := c.deliveries[e.ID]; first != nil {
		c.mu.Unlock()
		return c.join(ctx, first)
	}

	var ending Ending
	var held []entry
	for _, concern := range concerns {
`,
		`	var ending Ending
	var held []entry
	for _, concern := range concerns {
		if s := c.counters[concern.RollUp]; s != nil {
			var joined *generation
			for _, g := range append(s.closed[:len(s.closed):len(s.closed)], s.open) {
				if g != nil && g.anchor == e.ID {
					joined = g
				}
			}
			if joined != nil {
				held = append(held, entry{s, joined})
				continue
			}
		}
`, "TestCopyStandsForNothing"},
	{"each-done", "a copy whose time is up ends what it joined", "internal/events/event.go",
		`	case <-ctx.Done():
		return Ending{Held: true}, fmt.Errorf(`,
		`	case <-ctx.Done():
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, s := range c.counters {
			for len(s.closed) > 0 {
				s.fail(s.closed[0], context.Cause(ctx))
			}
		}
		return Ending{Held: true}, fmt.Errorf(`, "TestCopyFailsAlone"},
	{"each-done", "an event is acknowledged when one of its counters is done", "internal/events/event.go",
		`	for _, h := range held {
`,
		`	for i, h := range held {
		if i > 0 {
			c.mu.Lock()
			h.state.fail(h.generation, nil)
			c.mu.Unlock()
			continue
		}
`, "TestEventOfTwoCounters"},
	{"each-done", "an event ends at once when one of its counters fails it", "internal/events/event.go",
		`		failed = errors.Join(failed, h.generation.err)
`,
		`		failed = errors.Join(failed, h.generation.err)
		if failed != nil {
			break
		}
`, "TestEventFailsOnceAllHaveEnded"},
	{"each-done", "an event does not fail with one of its counters", "internal/events/event.go",
		`		failed = errors.Join(failed, h.generation.err)
`,
		`		failed = h.generation.err
`, "TestEventFailsWithOneCounter"},
	{"each-done", "one unkept counter ends the event for the others", "internal/events/event.go",
		`		ending.Unkept = ending.Unkept || h.generation.unkept
`,
		`		if h.generation.unkept {
			return Ending{Held: true, Unkept: true}, nil
		}
`, "TestUnkeptForOneOfTwo"},
	{"each-done", "a counter that a document leaves is not concerned", "route/concern.go",
		`if was {`,
		`if was && is {`, "route/TestRoutesOfOnePattern"},
	{"each-done", "a counter that a document comes to is not concerned", "route/concern.go",
		`if holds != held {`,
		`if false {`, "route/TestRoutesOfOnePattern"},
	{"each-done", "one key alone is read of a large document", "route/concern.go",
		`				fields = append(fields, k.Field)
			}
		}
	}
	return fields
}

// Times`,
		`				fields = []document.Field{k.Field}
			}
		}
	}
	return fields
}

// Times`, "route/TestRoutesOfOnePattern"},
	{"unchanged-everywhere", "a document that comes to a group changes nothing", "route/concern.go",
		`concern(after, !r.sees(w, true))`,
		`concern(after, true)`, "route/TestRoutesOfOnePattern"},
	{"unchanged-everywhere", "a document that leaves a group changes nothing", "route/concern.go",
		`concern(before, !r.sees(w, false))`,
		`concern(before, true)`, "route/TestRoutesOfOnePattern"},
	{"unchanged-everywhere", "a document that a total saw before changes nothing", "route/concern.go",
		`!r.sees(w, true) && !r.sees(w, false)`,
		`!r.sees(w, true)`, "route/TestUnseen"},
	{"unchanged-everywhere", "a document that a total sees now changes nothing", "route/concern.go",
		`!r.sees(w, true) && !r.sees(w, false)`,
		`!r.sees(w, false)`, "route/TestUnseen"},
	{"unchanged-everywhere", "a document that no total sees is a change", "route/concern.go",
		`same || !r.sees(w, true) && !r.sees(w, false)`,
		`same`, "route/TestUnseen"},
	{"unchanged-everywhere", "what an event does not tell is unseen", "route/concern.go",
		`!w.Known() || slices.ContainsFunc(r.Totals`,
		`slices.ContainsFunc(r.Totals`, "route/TestUnseen"},
	{"unchanged-everywhere", "what an event hides meets no condition", "route/concern.go",
		`hidden || c.IsWindow()`,
		`hidden && false || c.IsWindow()`, "route/TestUnseen"},
	{"unchanged-everywhere", "no time is in a window", "route/concern.go",
		`c.IsWindow() && isTime || `,
		`isTime && false || `, "route/TestUnseen"},
	{"unchanged-everywhere", "a document without the field is seen", "route/concern.go",
		`return t.Field == "" || w.Has(t.Field, after)`,
		`return true`, "route/TestUnseen"},
	{"unchanged-everywhere", "events know no booleans", "../internal/cloud/trigger/trigger.go",
		`		return kind.BooleanValue, true
`,
		`		return kind.BooleanValue && false, true
`, "../internal/cloud/trigger/TestValue"},
	{"unchanged-everywhere", "a null hides nothing", "../internal/cloud/trigger/trigger.go",
		`			return document.Hidden{}, true
`,
		`			return nil, true
`, "../internal/cloud/trigger/TestValue"},
	{"unchanged-young", "a deletion is as old as the document", "internal/events/event.go",
		`	return e.latestTime()
}`,
		`	return e.UpdateTime
}`, "TestUnchangedByADeletion"},
	{"unchanged-everywhere", "a condition's field changes nothing", "route/concern.go",
		`slices.ContainsFunc(r.reads, w.Changed)`,
		`slices.ContainsFunc(r.Fields(), w.Changed)`, "route/TestRoutesOfOnePattern"},
	{"bounds", "a day is what the clocks show", "route/zone.go",
		`!z.first(next.day).After(t)`,
		`false`, "route/TestPeriodsByTheClocks"},
	{"bounds", "a day begins at midnight, also where the clocks are moved over it", "route/zone.go",
		`if at.Before(t) {`,
		`if false {`, "route/TestPeriodsByTheClocks"},
	{"bounds", "a week is in the year of its Monday", "route/zone.go",
		`year, week := p.day.ISOWeek()`,
		`year, week := p.day.Year(), 0
		_, week = p.day.ISOWeek()`, "route/TestIDsOfWebClient"},
	{"bounds", "a week begins on Sunday", "route/zone.go",
		`int(day.Weekday()) + 6`,
		`int(day.Weekday())`, "route/TestPeriodsByTheClocks"},
	{"bounds", "a day that begins before the first year has documents", "route/zone.go",
		` && !start.Before(firstInstant)`,
		``, "route/TestIDsOfNoKey"},
	{"bounds", "a day that ends behind the last year has documents", "route/zone.go",
		` && !end.After(pastInstants)`,
		``, "route/TestIDsOfNoKey"},
	{"bounds", "an id that no key gives names a counter", "route/template.go",
		` && t.named(path)`,
		``, "route/TestIDsOfNoKey"},
	{"bounds", "a double that is no integer names a counter", "route/key.go",
		`n, ok := canonical(held).(int64)`,
		`f, _ := canonical(held).(float64)
		n, ok := canonical(held).(int64)
		n, ok = n+int64(f), ok || f != 0`, "route/TestKeys"},
	{"bounds", "a reference to another collection names a counter", "route/key.go",
		`return id, above == strings.Join(path, "/")`,
		`return id, above != ""`, "route/TestKeys"},
	{"bounds", "the hash knows nothing of a zone's data", "route/key.go",
		`k.zone, k.zone.digest)`,
		`k.zone, "")`, "route/TestZonesData"},
	{"unchanged-everywhere", "a time that is null in its event is none", "../internal/cloud/app/event.go",
		`change.Known() && !hidesTime(change, source)`,
		`change.Known()`, "../internal/cloud/app/TestHiddenTime"},
	{"captures", "routes of one template may differ in their zones", "route/routes.go",
		`case !slices.Equal(r.spaces(), other.spaces()):`,
		`case false:`, "route/TestRefusedRoutes"},
	{"homes", "a document without totals is found by none of its sources", "../internal/test/memstore/memstore.go",
		`		p.Reads++
		return s.has(r, f.Counter)`,
		`		p.Reads++
		return false && s.has(r, f.Counter)`, "../internal/test/storetest/TestMemory"},
	{"homes", "each document without totals is found, also without sources", "../internal/cloud/firestorestore/audit.go",
		`		bare = filter(bare, func(i int) bool { return !has[i] })`,
		`		bare = filter(bare, func(i int) bool { return !has[i] && i < 0 })`, "../internal/test/storetest/TestFirestore/homes_with_totals_that_no_roll-up_wrote"},
	{"homes", "an audit leaves documents without totals alone", "internal/schedule/walk.go",
		`if !t.FoundByHomes() {`,
		`if true {`, "TestAuditOfHomes"},
	{"within", "a day is created without its shop", "internal/roll/look.go",
		`	return l.Ownerless && l.RollUp.Tally.AsOf.IsZero()`,
		`	return false && l.RollUp.Tally.AsOf.IsZero()`, "TestDaysComeAndGo"},
	{"within", "a day whose shop is missing does not go on", "internal/roll/look.go",
		`	return l.Ownerless && l.RollUp.Tally.AsOf.IsZero()`,
		`	return l.Ownerless`, "TestOwnerIsGone"},
	{"within", "a day is removed as soon as its shop is missing", "internal/schedule/decide.go",
		`!l.Rerouted() && l.ReadTime.Sub(l.OwnerlessSince()) > removeAfter`,
		`!l.Rerouted()`, "TestOwnerIsGone"},
	{"within", "a day whose shop came back and went is removed at once", "internal/roll/look.go",
		`	if !l.Ownerless {
		return time.Time{}
	}`,
		`	if !l.Ownerless {
		return l.RollUp.Tally.OwnerlessSince
	}`, "TestOwnerIsGone"},
	{"within", "each roll-up begins the hour again", "internal/roll/look.go",
		`since.IsZero() || since.After(l.ReadTime)`,
		`true || since.After(l.ReadTime)`, "TestOwnerIsGone"},
	{"within", "a client says when the hour is over", "internal/roll/look.go",
		`since.IsZero() || since.After(l.ReadTime)`,
		`since.IsZero()`, "TestOwnerlessInTheFuture"},
	{"within", "a day that holds orders is not removed", "internal/schedule/decide.go",
		`(l.Agrees() && removable(l) || ownerIsGone(l)) && !c.o.DryRun`,
		`l.Agrees() && removable(l) && !c.o.DryRun`, "TestOwnerIsGone"},
	{"within", "a quiet day does not say that its shop is missing", "internal/schedule/decide.go",
		`	case l.Agrees() && unmarked(l) && !c.o.DryRun:
		return repair
`, ``, "TestOwnerIsGone"},
	{"within", "a walk hides that a shop is missing", "internal/schedule/compare.go",
		`		Ownerless: f.Ownerless,
`, ``, "TestOwnerIsGone"},
	{"within", "a look of Firestore hides that a shop is missing", "../internal/cloud/firestorestore/store.go",
		`		if answer.GetMissing() == owner {`,
		`		if false {`, "../internal/test/storetest/TestFirestore/owners"},
	{"within", "a walk of Firestore hides that a shop is missing", "../internal/cloud/firestorestore/audit.go",
		`			f.Ownerless = !doc.Exists()`,
		`			f.Ownerless = false`, "../internal/test/storetest/TestFirestore/owners"},
	{"within", "a source makes up shops", "route/judge.go",
		`if !s.Capture || r.timeAt(len(owner)+i) {`,
		`if true || !s.Capture || r.timeAt(len(owner)+i) {`, "route/TestRefusedRoutes"},
	{"within", "Tally creates and removes the owners itself", "route/conflict.go",
		`		if r.Template.owner > 0 && !other.Template.Existing && Overlap(r.owner(), other.template) {`,
		`		if false {`, "route/TestRefusedRoutes"},
	{"labels", "no roll-up has labels", "internal/roll/publish.go",
		`		Labels: l.writtenLabels(),
`, ``, "TestLabels"},
	{"labels", "Firestore writes no labels", "../internal/cloud/firestorestore/store.go",
		`	for name, id := range r.Labels {
		fields[name] = id
	}
`, ``, "../internal/test/storetest/TestFirestore/labels"},
	{"labels", "Firestore reads no labels", "../internal/cloud/firestorestore/store.go",
		`	return append(append(t.Totals(), document.TallyField), t.Labels()...)`,
		`	return append(t.Totals(), document.TallyField)`, "../internal/test/storetest/TestFirestore/labels"},
	{"labels", "a label that is wrong or missing stays", "internal/schedule/decide.go",
		`	case l.Mislabeled() && (l.Agrees() || ownerIsGone(l)): // also before it is removed, or the label would stay
		return repair
`, ``, "TestLabels"},
	{"labels", "a day with a wrong label is removed, and the label stays", "internal/schedule/decide.go",
		`	case l.Mislabeled() && (l.Agrees() || ownerIsGone(l)): // also`,
		`	case l.Mislabeled() && l.Agrees() && !removable(l): // also`, "TestSimulation"},
	{"labels", "a missing label is as good as one", "internal/roll/label.go",
		`		if l.RollUp.Labels[name] != id {`,
		`		if l.RollUp.Labels[name] != "" && l.RollUp.Labels[name] != id {`, "TestLabels"},
	{"labels", "any text is a label", "internal/roll/label.go",
		`		if l.RollUp.Labels[name] != id {`,
		`		if l.RollUp.Labels[name] == "" && id != "" {`, "TestLabels"},
	{"labels", "a document that Tally never wrote lacks labels", "internal/roll/label.go",
		`	if l.AsOf.IsZero() {
		return false
	}
	for name, id`,
		`	for name, id`, "TestUnlabeled"},
	{"labels", "the hash has the names of captures", "route/template.go",
		`	slices.Sort(sources)
`,
		`	sources = append(sources, t.Labels()...)
	slices.Sort(sources)
`, "route/TestZonesData"},
	{"labels", "a removed day of Firestore keeps its labels", "../internal/cloud/firestorestore/audit.go",
		`		if others[name] == id { // any other text is the app's`,
		`		if false && others[name] == id { // any other text is the app's`, "../internal/test/storetest/TestFirestore/labels"},
	{"labels", "a removed day of Firestore takes another text with it", "../internal/cloud/firestorestore/audit.go",
		`		if others[name] == id { // any other text is the app's`,
		`		if id != "" {`, "../internal/test/storetest/TestFirestore/labels"},
	{"labels", "a list is written over", "internal/roll/label.go",
		`		case !value.IsNothing(fields[name]):`,
		`		case false:`, "TestForeignLabels"},
	{"labels", "a label that is left out is missing", "internal/roll/label.go",
		`		delete(labels, name)`,
		`		delete(labels, name+".")`, "TestForeignLabels"},
	{"labels", "a lock writes over what is the app's", "internal/roll/rollup.go",
		`		left := held.isForeign(name)`,
		`		left := held.isForeign(name + ".")`, "TestForeignLabels"},
	{"labels", "a label may be called tally", "route/judge.go",
		`	if capture.Name == document.TallyField {`,
		`	if false {`, "route/TestRefusedRoutes"},
	{"labels", "a label may have a dot", "route/judge.go",
		`	if i := strings.LastIndex(capture.Name, "."); i >= 0 {`,
		`	if i := -1; i >= 0 {`, "route/TestRefusedRoutes"},
	{"labels", "a label may have a name that no total has", "route/judge.go",
		`return text.checkName(at, capture.Name)`,
		`return nil`, "route/TestRefusedRoutes"},
	{"labels", "a total may be called as a label", "route/conflict.go",
		`				if slices.Contains(t.Labels(), total.Name) {`,
		`				if false {`, "route/TestRefusedRoutes"},
	{"labels", "two routes may give a label two names", "route/routes.go",
		`		case r.Template.Within && !slices.Equal(r.template, other.template):`,
		`		case false:`, "route/TestRefusedRoutes"},
	{"no-loop", "a circular route may read a label", "route/levels.go",
		`	names := r.Template.Labels()
`,
		`	var names []string
`, "route/TestRefusedRoutes"},
	{"cycle", "each cycle compares old days", "internal/schedule/cycle.go",
		`	if !t.Timed() || !c.skipsOld(l) {`,
		`	if true || !t.Timed() || !c.skipsOld(l) {`, "TestOldDays"},
	{"cycle", "a note about all leaves old days alone", "internal/schedule/cycle.go",
		`return !c.o.FromFirst && !c.o.DryRun && !c.isHurried(l)`,
		`return !c.o.FromFirst && !c.o.DryRun`, "TestOldDays"},
	{"cycle", "old days are never compared", "internal/schedule/cycle.go",
		`		if int64(h.Sum32()%oldLaps) == l.Number%oldLaps {`,
		`		if false && int64(h.Sum32()%oldLaps) == l.Number%oldLaps {`, "TestOldDays"},
	{"cycle", "young days are left alone", "internal/schedule/cycle.go",
		`			return time.Time{}
		}
		return l.Began.Add(-oldAfter)`,
		`			return time.Time{}
		}
		return l.Began`, "TestOldDays"},
	{"cycle", "the day that holds the instant is left out", "../internal/cloud/firestorestore/audit.go",
		`	return c.Template.TimeID(at), nil`,
		`	return c.Template.TimeID(at.AddDate(0, 0, 1)), nil`, "../internal/test/storetest/TestFirestore/recent_roll-ups"},
	{"cycle", "old days of a missing shop are left out", "../internal/cloud/firestorestore/audit.go",
		`		if err != nil || !docs[0].Exists() {
			return "", err`,
		`		if err != nil || docs == nil {
			return "", err`, "../internal/test/storetest/TestFirestore/recent_roll-ups"},
	{"cycle", "old days are found in each collection", "../internal/cloud/firestorestore/audit.go",
		`	if id < first {`,
		`	if false {`, "../internal/test/storetest/TestFirestore/recent_roll-ups"},
	{"cycle", "the days of the next shop are left out with those of this one", "../internal/cloud/firestorestore/audit.go",
		`	end := collection + "\x00/" + firstID`,
		`	end := "shops\x00/" + firstID`, "../internal/test/storetest/TestFirestore/recent_roll-ups"},
	{"cycle", "each walk of the orders begins with the first day", "internal/schedule/cycle.go",
		`	if r.Time() == "" || !c.skipsOld(l) || l.Number%oldLaps == 0 {`,
		`	if true || r.Time() == "" || l.Number%oldLaps == 0 {`, "TestOldDays"},
	{"cycle", "a walk since a day leaves out a day that is not over", "../internal/cloud/firestorestore/bytime.go",
		`		l.start, _, _ = r.Period(since)`,
		`		_, l.start, _ = r.Period(since)`, "../internal/test/storetest/TestFirestore/RollUps_and_Missing_of_days"},
	{"unchanged-everywhere", "what is unchanged by one route is unchanged by all", "route/concern.go",
		`c.Unchanged && add.Unchanged`,
		`c.Unchanged || add.Unchanged`, "route/TestRoutesOfOnePattern"},
	{"unchanged-everywhere", "the first condition alone tells what is unchanged", "route/judge.go",
		`for _, c := range t.Where {`,
		`for _, c := range t.Where[:min(1, len(t.Where))] {`, "route/TestRoutesOfOnePattern"},
	{"unchanged-everywhere", "the first total alone tells what is unchanged", "route/judge.go",
		`for _, t := range r.Totals {`,
		`for _, t := range r.Totals[:1] {`, "route/TestRoutesOfOnePattern"},
	{"unchanged-everywhere", "the fields that are summed tell nothing of what is unchanged", "route/judge.go",
		`fields := r.Fields()`,
		`var fields []document.Field`, "route/TestRoutesOfOnePattern"},
	{"removal", "a counter without shards is not written", "internal/events/prober.go",
		`err = c.roller.Write(ctx, l, p, &s.contention)
	if err != nil {`,
		`if l.Totals.NumShards() > 0 {
		err = c.roller.Write(ctx, l, p, &s.contention)
	}
	if err != nil {`, "TestSimulation"},
	{"sixty-seconds", "a late write is sent", "internal/roll/publish.go",
		`if left <= 0 {`,
		`if left = time.Hour; left <= 0 {`, "TestWriteIsNotSentLate"},
	{"proves-nothing", "an unknown outcome is taken for success", "internal/events/prober.go",
		`err = c.roller.Write(ctx, l, p, &s.contention)
	if err != nil {`,
		`err = c.roller.Write(ctx, l, p, &s.contention)
	if errors.Is(err, roll.ErrConflict) {`, "TestSimulation"},
	{"proves-nothing", "a refusal is taken for success", "internal/events/prober.go",
		`err = c.roller.Write(ctx, l, p, &s.contention)
	if err != nil {`,
		`err = c.roller.Write(ctx, l, p, &s.contention)
	if err != nil && !errors.Is(err, roll.ErrConflict) {`, "TestSimulation"},
	{"proves-nothing", "a refused write is forced", "internal/roll/publish.go",
		`	if locks {
		return r.store.WriteLocked(`,
		`	if v, err := r.store.View(ctx, l.Counter); err == nil {
		written.UpdateTime = v.RollUp().UpdateTime
	}
	if locks {
		return r.store.WriteLocked(`, "TestSimulation"},
	{"covered-from", "an event is acknowledged because the roll-up is newer than its commit", "internal/events/observe.go",
		`g.coveredFrom = l.ReadTime`,
		`g.coveredFrom = l.AsOf`, "TestDeferred"},
	{"first-read", "the roll-up is not read in the transaction of the sum", "../internal/cloud/firestorestore/sum.go",
		`begins := len(v.transaction) == 0`,
		`begins := true`, "TestCalls"},
	{"first-read", "shards are summed in a transaction that locks them", "../internal/cloud/firestorestore/store.go",
		`Mode: &firestorepb.TransactionOptions_ReadOnly_{ReadOnly: new(firestorepb.TransactionOptions_ReadOnly)},`,
		`Mode: &firestorepb.TransactionOptions_ReadWrite_{ReadWrite: new(firestorepb.TransactionOptions_ReadWrite)},`, "TestClientsAreNotBlocked"},
	{"only-finite", "a sum of 0 hides malformed shards", "../internal/cloud/firestorestore/sum.go",
		`	if !a.sum.Finite() || a.sum.Float64() == 0 || a.average.Float64() == 0 {
		return false
	}`,
		`	if a.sum.Float64() == 0 {
		return true
	}
	if !a.sum.Finite() {
		return false
	}`, "TestMalformedAtConstantCost"},
	{"only-finite", "NaN is published", "../internal/cloud/firestorestore/sum.go",
		`if err != nil || a.count == 0 || a.allFinite() {`,
		`if err != nil || a.count == 0 || a.allFinite() || !a.sum.Finite() {`, "../internal/test/storetest/TestFirestore/Sum/NaN/aggregate"},
	{"only-finite", "text is not counted", "../internal/cloud/firestorestore/sum.go",
		`if err != nil || a.count == 0 || a.allFinite() {`,
		`if err != nil || a.count == 0 || a.sum.Finite() {`, "../internal/test/storetest/TestFirestore/Sum/text/aggregate"},
	{"only-finite", "one malformed shard has every shard read", "../internal/cloud/firestorestore/sum.go",
		`	if r.Documents {`,
		`	if p, err := v.aggregate(ctx, r); r.Documents || err == nil && p.Malformed > 0 {`, "TestMalformedAtConstantCost"},
	{"only-finite", "all malformed shards are read", "../internal/cloud/firestorestore/sum.go",
		`ordered.StartAt(math.Inf(1)).Limit(most)`,
		`ordered.StartAt(math.Inf(1))`, "TestMalformedAtConstantCost"},
	{"only-finite", "all documents of a range are read", "../internal/cloud/firestorestore/sum.go",
		`selected.Limit(maxLooked)`,
		`selected`, "TestMalformedInARange"},
	{"only-finite", "many malformed shards are named", "internal/roll/look.go",
		`l.Snapshot.Malformed(ctx, maxNamed)`,
		`l.Snapshot.Malformed(ctx, maxNamed+1)`, "TestMalformedShardsAreNamedOnceInAWhile"},
	{"logged-once", "malformed shards are named with each sum", "internal/roll/look.go",
		`first := r.Options.Logged.First("malformed", l.Counter.RollUp, nil)`,
		`first := true`, "TestMalformedShardsAreNamedOnceInAWhile"},
	{"logged-once", "an unkept counter is logged by each look", "internal/roll/roller.go",
		`first := r.Options.Logged.First(message, c.RollUp, err)`,
		`first := true`, "TestUnkeptForAnHour"},
	{"logged-once", "a lasting fault is logged once for all", "internal/roll/logged.go",
		`now.Sub(l.lines[0].at) >= logAgain {`,
		`now.Sub(l.lines[0].at) < 0 {`, "TestMalformedShardsAreNamedOnceInAWhile"},
	{"logged-once", "the ten minutes of all counters end together", "internal/roll/logged.go",
		`now.Sub(l.lines[0].at) >= logAgain {`,
		`now.Sub(l.lines[0].at) >= logAgain {
		clear(l.known)`, "TestCountersAreLoggedApart"},
	{"logged-once", "each tick logs a lasting fault again", "../internal/cloud/app/schedule.go",
		`	o.Logged, o.Alarms = d.logged, d.alarms
`,
		`	o.Alarms = d.alarms
`, "TestLastingFaultsAreLoggedOnce"},
	{"logged-once", "another cause is not logged", "internal/roll/logged.go",
		`[3]string{kind, rollUp, l.cause(err)}`,
		`[3]string{kind, rollUp, l.cause(nil)}`, "TestCausesAreLoggedApart"},
	{"logged-once", "each failure is logged", "internal/events/failed.go",
		`first := c.options.Logged.First("failed", s.counter.RollUp, err)`,
		`first := true`, "TestRefusalIsLoggedOnceInAWhile"},
	{"logged-once", "an alarm that cannot be done is logged whenever it rings", "../internal/cloud/app/alarm.go",
		`		if !again {
`,
		`		if !again || true {
`, "TestAlarmNotDoneIsLoggedOnce"},
	{"logged-once", "each event of a trigger without a route is logged", "../internal/cloud/app/event.go",
		`		parts[i] = "*" // a document's id
`,
		``, "../internal/cloud/app/TestDroppedEventsAreLoggedOnceInAWhile"},
	{"logged-once", "a trigger without a route hides other dropped events", "../internal/cloud/app/event.go",
		`	return strings.Join(parts, "/")
}

// logDropped`,
		`	return parts[0]
}

// logDropped`, "../internal/cloud/app/TestDroppedEventsAreLoggedOnceInAWhile"},
	{"logged-once", "each event that is not acknowledged is logged", "../internal/cloud/app/event.go",
		`	if first {
		logger.WarnContext(ctx, message)`,
		`	if first || true {
		logger.WarnContext(ctx, message)`, "../internal/cloud/app/TestFailedEventsAreLoggedOnceInAWhile"},
	{"logged-once", "a counter that fails hides others that do", "../internal/cloud/app/event.go",
		`s.logged.First(message, d.change.Database+"/"+c.RollUp, d.err)`,
		`s.logged.First(message, d.change.Database+c.RollUp[:0], d.err)`, "../internal/cloud/app/TestFailedEventsAreLoggedOnceInAWhile"},
	{"logged-once", "a database that fails hides others that do", "../internal/cloud/app/event.go",
		`s.logged.First(message, d.change.Database+"/"+c.RollUp, d.err)`,
		`s.logged.First(message, c.RollUp, d.err)`, "../internal/cloud/app/TestFailedEventsAreLoggedOnceInAWhile"},
	{"logged-once", "each document that a route leaves out is logged", "../internal/cloud/app/omission.go",
		`			if s.logged.First(message+": "+why.About, change.Database+": "+text, nil) {
`,
		`			if text != "" {
`, "../internal/cloud/app/TestOmissionsAreLogged"},
	{"logged-once", "a document that is in no window is logged like one in no group", "../internal/cloud/app/omission.go",
		`string(why.Kind), r.String()`,
		`"a document belongs to no counter", r.String()`, "TestOmissionsAreLogged"},
	{"logged-once", "junk keeps other counters from being logged", "internal/roll/logged.go",
		`	if len(l.lines) == maxLogged {
`,
		`	if len(l.lines) == maxLogged {
		return false
`, "TestJunkSilencesNoOne"},
	{"same-answer", "however many shards are read for want of an index", "../internal/cloud/firestorestore/sum.go",
		`if len(shards) > rollup.MaxUnindexed {`,
		`if len(shards) > rollup.MaxUnindexed+1 {`, "TestMissingIndexOfManyShards"},
	{"same-answer", "documents are read for a count, which needs no index", "../internal/cloud/firestorestore/sum.go",
		` && len(indexes) > 0 {`,
		` {`, "TestNoIndexOfCount"},
	{"indexed-or-not-run", "a query is sent without its index", "../internal/cloud/firestorestore/enterprise.go",
		`if x.all || slices.ContainsFunc(x.ready, query.servedBy) {`,
		`if true {`, "TestListOfIndexes"},
	{"indexed-or-not-run", "the indexes are listed once", "../internal/cloud/firestorestore/enterprise.go",
		` && now.Sub(x.listed) < listEvery {`,
		` {`, "TestListOfIndexes"},
	{"indexed-or-not-run", "an old list counts forever", "../internal/cloud/firestorestore/enterprise.go",
		` && now.Sub(x.listed) < listLasts:`,
		`:`, "TestListOfIndexes"},
	{"indexed-or-not-run", "an index that is being built counts", "../internal/cloud/firestorestore/enterprise.go",
		`ok && has.State == adminpb.Index_READY {`,
		`ok {`, "TestWhichIndexServes"},
	{"indexed-or-not-run", "the index of a collection serves its group", "../internal/cloud/firestorestore/enterprise.go",
		` || x.Group != n.group {`,
		` {`, "TestWhichIndexServes"},
	{"indexed-or-not-run", "a walk is sent without its index", "../internal/cloud/firestorestore/enterprise.go",
		`len(n.equal)+len(n.along) > 0 }`,
		`len(n.equal) > 0 }`, "TestWalksWithoutIndexes"},
	{"indexed-or-not-run", "events of a counter without its index are delivered again and again", "../internal/cloud/firestorestore/store.go",
		`if _, is := errors.AsType[*unservedQuery](err); is {`,
		`if false {`, "TestListOfIndexes"},
	{"indexed-or-not-run", "a sum counts documents without its field", "../internal/cloud/firestorestore/sum.go",
		`	case f.path != "" && (!f.equal || f.names):`,
		`	case f.path != "" && f.names:`, "../internal/test/storetest/TestFirestore"},
	{"indexed-or-not-run", "a write in a lock asks for none", "../internal/cloud/firestorestore/locked.go",
		`if s.edition == route.Enterprise {`,
		`if false {`, "../internal/test/storetest/TestContendedOnEnterprise"},
	{"calls-end", "a look does not end with its context", "../internal/cloud/firestorestore/store.go",
		`s.beginReadOnly(ctx, v)`,
		`s.beginReadOnly(context.WithoutCancel(ctx), v)`, "TestDeadConnection"},
	{"calls-end", "a sum does not end with its context", "../internal/cloud/firestorestore/sum.go",
		`return v.sumField(ctx, f)`,
		`return v.sumField(context.WithoutCancel(ctx), f)`, "TestDeadConnection"},
	{"calls-end", "a dead connection swallows calls for longer than an event is held", "../internal/cloud/firestorestore/client.go",
		`Timeout: unacknowledged}`,
		`Timeout: 20 * time.Second}`, "TestDeadConnectionIsNoticedInTime"},
	{"calls-end", "a look has no time-out", "internal/events/prober.go",
		`looking, cancel := context.WithTimeout(ctx, c.options.Timeout)`,
		`looking, cancel := context.WithCancel(ctx)`, "TestStoreThatNeverAnswersIsLeft"},
	{"calls-end", "a write has no time-out", "internal/roll/publish.go",
		`context.WithTimeout(ctx, min(left, r.Options.Timeout))`,
		`context.WithTimeout(ctx, left)`, "TestWriteThatNeverAnswersIsLeft"},
	{"calls-end", "an audit's look has no time-out", "internal/schedule/compare.go",
		`looking, cancel := context.WithTimeout(ctx, a.Options.Timeout)`,
		`looking, cancel := context.WithCancel(ctx)`, "TestCallsThatHang"},
	{"calls-end", "a walk's page has no time-out", "internal/schedule/walk.go",
		`ctx, cancel := context.WithTimeout(ctx, within)`,
		`ctx, cancel := context.WithCancel(ctx)`, "TestCallsThatHang"},
	{"calls-end", "a cursor is saved without a time-out", "internal/schedule/audit.go",
		`	ctx, cancel := context.WithTimeout(ctx, a.Options.Timeout)
	defer cancel()
	at, err :=`,
		`	at, err :=`, "TestCallsThatHang"},
	{"calls-end", "a tick's look has no time-out", "internal/schedule/keep.go",
		`looking, cancel := context.WithTimeout(ctx, k.Options.Timeout)`,
		`looking, cancel := context.WithCancel(ctx)`, "TestCallsThatHang"},
	{"calls-end", "an audit's first sum has no time-out", "internal/schedule/compare.go",
		`	ctx, cancel := context.WithTimeout(ctx, a.Options.Timeout)`,
		`	ctx, cancel := context.WithCancel(ctx)`, "TestCallsThatHang"},
	{"calls-end", "an audit's cursor is loaded without a time-out", "internal/schedule/audit.go",
		`loading, cancel := context.WithTimeout(ctx, a.Options.Timeout)`,
		`loading, cancel := context.WithCancel(ctx)`, "TestCallsThatHang"},
	{"calls-end", "a tick's cursor is loaded without a time-out", "internal/schedule/memory.go",
		`loading, cancel := context.WithTimeout(ctx, k.Options.Timeout)`,
		`loading, cancel := context.WithCancel(ctx)`, "TestCallsThatHang"},
	{"calls-end", "a tick's cursor is saved without a time-out", "internal/schedule/memory.go",
		`saving, cancel := context.WithTimeout(ctx, k.Options.Timeout)`,
		`saving, cancel := context.WithCancel(ctx)`, "TestCallsThatHang"},
	{"calls-end", "a note is read without a time-out", "internal/schedule/note.go",
		`	ctx, cancel := context.WithTimeout(ctx, a.Options.Timeout)
	defer cancel()
	at, err`,
		`	at, err`, "TestNoteThatHangs"},
	{"calls-end", "the notes are read without a time-out", "internal/schedule/note.go",
		`	ctx, cancel := context.WithTimeout(ctx, a.Options.Timeout)
	defer cancel()

	notes, err`,
		`	notes, err`, "TestCallsThatHang"},
	{"server-times", "as_of is finer than Firestore's times", "../internal/cloud/firestorestore/store.go",
		`answer.ReadTime.AsTime().Truncate(time.Microsecond)`,
		`answer.ReadTime.AsTime()`, "TestReadTimeIsTruncated"},
	{"captures", "a template need not use every capture", "route/judge.go",
		`if s.Capture && !slices.Contains(used, s.String()) {`,
		`if s.Capture && false {`, "route/TestRefusedRoutes"},
	{"captures", "a template may use the shard's capture", "route/judge.go",
		`if s.Segment == last.Segment {`,
		`if s.Segment == last.Segment && false {`, "route/TestRefusedRoutes"},
	{"captures", "a pattern may capture a collection's name", "route/judge.go",
		`		if i%2 == 0 {
			return nil, text.mistake(s.at, "captured collection in the pattern`,
		`		if i < 0 {
			return nil, text.mistake(s.at, "captured collection in the pattern`, "route/TestRefusedRoutes"},
	{"captures", "a template may capture a collection's name", "route/judge.go",
		`		if i%2 == 0 {
			return nil, text.mistake(s.at, "captured collection in the template`,
		`		if i < 0 {
			return nil, text.mistake(s.at, "captured collection in the template`, "route/TestRefusedRoutes"},
	{"apart", "two routes may share a roll-up", "route/conflict.go",
		` && Overlap(r.template, other.template) {`,
		` && false {`, "route/TestRefusedRoutes"},
	{"apart", "two routes may share a shard", "route/conflict.go",
		`if Overlap(r.pattern, other.pattern) {`,
		`if false {`, "route/TestRefusedRoutes"},
	{"apart", "a capture meets captures only", "route/across.go",
		`return s.Capture || t.Capture || s.Name == t.Name`,
		`return s.Capture && t.Capture || s == t`, "route/TestRefusedRoutes"},
	{"apart", "a pattern may lie within any other", "route/across.go",
		`other.Across() && other.pattern.Contains(r.pattern)`,
		`other.pattern.Contains(r.pattern)`, "route/TestRefusedRoutes"},
	{"apart", "a pattern that lies within another has a trigger of its own", "route/across.go",
		`if !slices.ContainsFunc(live, isShared) && !`,
		`if !(slices.ContainsFunc(live, isShared) && false) && !`, "route/TestTriggering"},
	{"across", "its documents are at one depth", "route/across.go",
		`if deep < 0 || more < 0 || more%2 != 0 {`,
		`if true {`, "TestSimulation"},
	{"across", "a path may have a collection where a document is", "route/across.go",
		` || more%2 != 0 {`,
		` {`, "route/TestAcross"},
	{"across", "two patterns of any depth overlap only in short paths", "route/across.go",
		`		n = len(a) + len(b)`,
		`		n = max(len(a), len(b))`, "route/TestDeepPatterns"},
	{"across", "documents directly in the collection count by queries alone", "route/across.go",
		`if pattern[at-1].Name == last[0].Name {`,
		`if false {`, "route/TestRefusedRoutes"},
	{"across", "documents count below each parent of a pattern's middle", "route/across.go",
		`if len(below)+len(last) < len(pattern) {`,
		`if false {`, "route/TestRefusedRoutes"},
	{"across", "a capture of the template may stand behind the one that is left out", "route/across.go",
		`if keys == nil || slices.ContainsFunc(n.pattern[at:], isUsed) {`,
		`if keys == nil || slices.ContainsFunc(n.pattern[at:], isUsed) && false {`, "route/TestRefusedRoutes"},
	{"across", "a route without keys may leave out a capture", "route/across.go",
		`if keys == nil || slices`,
		`if slices`, "route/TestRefusedRoutes"},
	{"across", "days across parents", "route/across.go",
		`		if k.Function.OfTime() {`,
		`		if k.Function.OfTime() && false {`, "route/TestRefusedRoutes"},
	{"across", "maxima across parents", "route/across.go",
		`if !r.Across() || !t.Aggregate.best() {`,
		`if true {`, "route/TestRefusedRoutes"},
	{"across", "ranges and windows across parents", "route/across.go",
		`if !r.Across() || !c.Operator.Range() {`,
		`if true {`, "route/TestRefusedRoutes"},
	{"across", "queries are of one collection", "../internal/cloud/firestorestore/sum.go",
		`	if across {
		return anywhereBelow`,
		`	if across && false {
		return anywhereBelow`, "../internal/test/storetest/TestFirestore/totals/across_parents"},
	{"across", "queries are of the whole group", "../internal/cloud/firestorestore/sum.go",
		`client.Doc(below+"\x00/"+firstID))`,
		`client.Doc("\U0010FFFF/"+firstID))`, "../internal/test/storetest/TestFirestore/totals/across_parents"},
	{"across", "sums are in no order", "../internal/cloud/firestorestore/sum.go",
		`	case f.path != "" && (!f.equal || f.names):`,
		`	case f.path != "" && !f.equal && !f.names:`, "../internal/test/storetest/TestFirestore/totals/across_parents"},
	{"across", "sums of a key are in no order", "../internal/cloud/firestorestore/sum.go",
		`	case f.path != "" && (!f.equal || f.names):`,
		`	case f.path != "" && !f.equal:`, "../internal/test/storetest/TestFirestore/totals/across_parents,_by_two_keys_below_a_capture"},
	{"across", "queries need no index of the group", "route/indexes.go",
		`append(fields, along...), Group: r.Across()}}`,
		`append(fields, along...)}}`, "route/TestIndexesAcross"},
	{"across", "Firestore merges indexes of the group", "route/indexes.go",
		`if along == nil && !r.Across() {`,
		`if along == nil {`, "route/TestIndexesAcross"},
	{"no-loop", "two routes whose roll-ups are in either's sources make no circle", "route/levels.go",
		` && r.pattern.Same(other.pattern)`,
		``, "route/TestRefusedRoutes"},
	{"no-loop", "a roll-up among its own sources may come and go", "route/levels.go",
		`if !r.Template.Existing {`,
		`if false {`, "route/TestRefusedRoutes"},
	{"no-loop", "a route may read what its own roll-ups write", "route/levels.go",
		`return w.feeds(r) && (`,
		`return w != r && w.feeds(r) && (`, "route/TestRefusedRoutes"},
	{"no-loop", "a route may read what another's roll-ups write there", "route/levels.go",
		`return w.feeds(r) && (`,
		`return w == r && (`, "route/TestRefusedRoutes"},
	{"no-loop", "a route's key may be a total", "route/levels.go",
		`for _, f := range r.Reads() {`,
		`for _, f := range r.reads {`, "route/TestRefusedRoutes"},
	{"no-loop", "a route may read tally", "route/levels.go",
		` || f.Within(document.TallyField)`,
		``, "route/TestRefusedRoutes"},
	{"circle-silent", "an old event of a circle has its roll-up written", "internal/events/event.go",
		`(concern.Circular || c.isFresh(commit))`,
		`c.isFresh(commit)`, "TestCirclesFallSilent"},
	{"circle-silent", "events do not say that they are of a circle", "route/concern.go",
		`circular := r.Circular()`,
		`circular := false`, "route/TestCircularRoutes"},
	{"circle-silent", "an event without its documents is as any other", "internal/events/event.go",
		`if concern.Untold || `,
		`if `, "TestCircleWithoutDocuments"},
	{"circle-silent", "an event without its documents is not noted", "internal/events/event.go",
		`	if !slices.ContainsFunc(concerns, isUntold) { // nearly always`,
		`	if slices.ContainsFunc(concerns, isUntold) || true {`, "TestCircleWithoutDocuments"},
	{"circle-silent", "an event is done although it could not be noted", "internal/events/event.go",
		`	err := c.noteUntold(ctx, concerns)
	if err != nil {`,
		`	err := c.noteUntold(ctx, concerns)
	if false && err != nil {`, "TestCircleNotNoted"},
	{"circle-silent", "what such an event leaves is drift", "internal/schedule/note.go",
		`r.By != nil || r.Circular()`,
		`r.By != nil`, "TestCircleWithoutDocuments"},
	{"circle-silent", "a null in a roll-up's event may hide a time", "../internal/cloud/trigger/trigger.go",
		`return c.isNull(f) && !c.isRollUp()`,
		`return c.isNull(f)`, "../internal/cloud/trigger/TestNullMayHaveChanged"},
	{"circle-silent", "no cycle follows a change of routes", "internal/schedule/cycle.go",
		`		c.cursor.New = c.cursor.ReadTime
`,
		``, "TestAnchorOfRoutesBeforeTheCircle"},
	{"no-loop", "a circle of several routes is not found", "route/levels.go",
		`				reached = append(reached, next)
`,
		``, "route/TestRefusedRoutes"},
	{"apart", "a roll-up may be above a source, and come and go", "route/conflict.go",
		`if r.Template.Existing {`,
		`if true {`, "route/TestRefusedRoutes"},
	{"apart", "a total may have the name of a counter's own field", "route/conflict.go",
		`if slices.Contains(document.CounterFields, t.Name) {`,
		`if false {`, "route/TestRefusedRoutes"},
	{"apart", "two totals of a roll-up may have one name", "route/conflict.go",
		`if other := seen[total.Name]; other != nil {`,
		`if other := seen[total.Name]; false {`, "route/TestRefusedRoutes"},
	{"apart", "two totals of a route may have one name", "route/judge.go",
		`if seen[t.Name] {`,
		`if false {`, "route/TestRefusedRoutes"},
	{"tokens", "a name is read as a word of routes", "route/read.go",
		`case t.Kind == Word && slices.Contains(reserved, t.Text):`,
		`case false:`, "route/TestRefusedRoutes"},
	{"tokens", "a name that is a word of routes is written bare", "route/lex.go",
		`bare(name) == len(name) && !slices.Contains(reserved, name) {`,
		`bare(name) == len(name) {`, "route/TestSpelling"},
	{"tokens", "an indented line begins a route", "route/lex.go",
		`if indent <= l.indent {`,
		`if true {`, "route/TestLines"},
	{"bounded", "however many routes are taken", "route/routes.go",
		`if len(routes) > maxRoutes {`,
		`if false {`, "route/TestBounds"},
	{"bounded", "routes of any length are read", "route/routes.go",
		`if len(text) > maxText {`,
		`if false {`, "route/TestBounds"},
	{"bounded", "however many problems are told", "route/conflict.go",
		`maxProblems = 10`,
		`maxProblems = 1000`, "route/TestBounds"},
	{"captures", "routes of one template may differ in every", "route/routes.go",
		`case r.Template.Every != other.Template.Every:`,
		`case false:`, "route/TestRefusedRoutes"},
	{"captures", "routes of one template may differ in cadence", "route/routes.go",
		`case r.Template.Cadence != other.Template.Cadence:`,
		`case false:`, "route/TestRefusedRoutes"},
	{"captures", "routes of one template may differ in existing", "route/routes.go",
		`case r.Template.Existing != other.Template.Existing:`,
		`case false:`, "route/TestRefusedRoutes"},
	{"hash-of-all", "the hash knows nothing of the other routes", "route/template.go",
		`for _, r := range t.Routes {`,
		`for _, r := range t.Routes[:1] {`, "route/TestTemplate"},
	{"hash-of-all", "the hash depends on the order of routes", "route/template.go",
		`	slices.Sort(sources)
`,
		``, "route/TestTemplate"},
	{"hash-of-all", "the hash knows nothing of the group", "route/template.go",
		`r.identity(), total.identity()`,
		`"", total.identity()`, "route/TestHash"},
	{"hash-of-all", "the hash knows nothing of conditions", "route/total.go",
		`join(t.Where, " and "), t.Name)`,
		`"", t.Name)`, "route/TestHash"},
	{"hash-of-all", "the hash knows nothing of aggregates", "route/total.go",
		`t.Aggregate, t.Field, join`,
		`"", t.Field, join`, "route/TestHash"},
	{"hash-of-all", "the hash knows nothing of fields", "route/total.go",
		`t.Aggregate, t.Field, join`,
		`t.Aggregate, "", join`, "route/TestHash"},
	{"hash-of-all", "the hash knows nothing of names", "route/total.go",
		`join(t.Where, " and "), t.Name)`,
		`join(t.Where, " and "), "")`, "route/TestHash"},

	{"same-answer", "a bound counts the values that equal it", "route/condition.go",
		`return order > 0`,
		`return order >= 0`, "../internal/test/storetest/TestMemory"},
	{"same-answer", "a condition sees a value of another kind", "route/condition.go",
		`ok = xOK && yOK && !y.IsNull() && x.IsNumber() == y.IsNumber() && !isNaN(x) && !isNaN(y)`,
		`ok = xOK && yOK && !y.IsNull() && !isNaN(x) && !isNaN(y)`, "../internal/test/storetest/TestMemory"},
	{"same-answer", "NaN is a number like any other", "route/condition.go",
		`func isNaN(v value.Value) bool { return math.IsNaN(v.Float64()) }`,
		`func isNaN(value.Value) bool { return math.IsNaN(0) }`, "../internal/test/storetest/TestMemory"},
	{"same-answer", "a list is met by its first value alone", "route/condition.go",
		`return slices.ContainsFunc(list, func(`,
		`return slices.ContainsFunc(list[:1], func(`, "../internal/test/storetest/TestMemory"},
	{"same-answer", "a query asks for what equals the bound", "../internal/cloud/firestorestore/sum.go",
		`string(c.Operator), operand)`,
		`"==", operand)`, "../internal/test/storetest/TestFirestore/comparisons"},
	{"same-answer", "the field of a range is left out", "route/indexes.go",
		`if ranged != "" && ranged != q.Field {`,
		`if ranged == "none" && ranged != q.Field {`, "../internal/test/storetest/TestStoresAgree"},
	{"same-answer", "a count with a range needs no index", "route/indexes.go",
		`if ranged != "" && ranged != q.Field {`,
		`if ranged != "" && ranged != q.Field && q.Field != "" {`, "../internal/test/storetest/TestStoresAgree"},
	{"same-answer", "a list is a range", "route/indexes.go",
		`if !c.Operator.Range() {`,
		`if c.Operator == Equal {`, "../internal/test/storetest/TestStoresAgree"},
	{"same-answer", "the best value is found along the range", "route/indexes.go",
		`		slices.Reverse(along)
`,
		``, "../internal/test/storetest/TestStoresAgree"},
	{"same-answer", "a second query goes along another index", "../internal/cloud/firestorestore/sum.go",
		`	f = f.orderedBy()
`,
		``, "TestIndexes"},

	{"missing-covers", "a missing document covers nothing", "internal/events/observe.go",
		`		s.release(l.ReadTime, l.ReadTime)
		s.failures, s.unkept, s.refused = 0, pause{}, false`,
		`		s.failures, s.unkept, s.refused = 0, pause{}, false`, "TestMissingDocument"},
	{"missing-covers", "an app that sets its document has it rolled up at each change", "internal/roll/pace.go",
		`case l.AsOf.IsZero() && l.Counter.Template.Existing:`,
		`case false:`, "TestAppSetsItsDocument"},
	{"removal", "a missing document is created", "internal/events/observe.go",
		`if l.Missing() { //`,
		`if false { //`, "TestMissingDocument"},
	{"missing-covers", "a missing document is looked at for each event", "internal/events/observe.go",
		`return plan{wait: s.step}, nil`,
		`return plan{}, nil`, "TestMissingDocument"},
	{"missing-covers", "a missing document covers what came after the look", "internal/events/observe.go",
		`		s.release(l.ReadTime, l.ReadTime)
		s.failures, s.unkept, s.refused = 0, pause{}, false`,
		`		s.release(l.ReadTime.Add(time.Hour), l.ReadTime)
		if s.open != nil {
			close(s.open.done)
			s.open = nil
		}
		s.failures, s.refused = 0, false`, "TestMissingDocumentCoversWhatCameBefore"},
	{"removal", "an audit looks at missing documents", "internal/schedule/audit.go",
		`gone := d.walk >= 0 && d.Template.Existing && !d.RollUp.Exists()`,
		`gone := false`, "TestAuditOfExisting"},
	{"removal", "an audit creates the app's documents", "internal/schedule/compare.go",
		`	if l.Missing() {
		return actionSkip, l, nil
	}
`,
		``, "TestAuditOfExisting"},
	{"removal", "the app's documents are removed", "internal/schedule/decide.go",
		`return !l.Counter.Template.Existing && `,
		`return `, "TestAuditOfExisting"},
	{"removal", "a tick creates the app's documents", "internal/schedule/keep.go",
		`if v.Missing() {`,
		`if false {`, "TestKeepOfExisting"},
	{"missing-covers", "a tick looks at a missing document as often as at one that exists", "internal/schedule/keep.go",
		`	e.delayMissing(&v)
`,
		``, "TestKeepOfMissingDocument"},
	{"first-read", "only the first route is summed", "../internal/test/memstore/memstore.go",
		`for i, r := range v.counter.Template.Routes {`,
		`for i, r := range v.counter.Template.Routes[:1] {`, "TestRoutesOfOneTemplate"},
	{"first-read", "Firestore sums only the first route", "../internal/cloud/firestorestore/sum.go",
		`for i, r := range routes {`,
		`for i, r := range routes[:1] {`, "../internal/test/storetest/TestFirestore/Sum_of_several_routes"},
	{"first-read", "each of Firestore's sums has an instant of its own", "../internal/cloud/firestorestore/sum.go",
		`req.ConsistencySelector = &firestorepb.RunAggregationQueryRequest_Transaction{Transaction: v.transaction}
`,
		`req.ConsistencySelector = nil
`, "../internal/test/storetest/TestFirestore/View_is_a_snapshot"},

	{"unchanged-young", "an event that changes nothing is acknowledged however old", "internal/events/coalescer.go",
		`.Sub(commit) < freshFor`,
		`.Sub(commit) < time.Hour`, "TestUnchangedCostsNothing"},
	{"unchanged-young", "an event that changes nothing is acknowledged at any age", "internal/events/coalescer.go",
		`.Sub(commit) < freshFor`,
		`.Sub(commit) < 1000*time.Hour`, "TestSimulation"},
	{"unchanged-young", "an event that changes nothing is acknowledged before any look", "internal/events/coalescer.go",
		`return !now.IsZero() && `,
		`return now.IsZero() || `, "TestUnchangedCostsNothing"},
	{"unchanged-young", "the server's time stands still between looks", "internal/events/coalescer.go",
		`now.Sub(commit)`,
		`c.newest.Sub(commit)`, "TestUnchangedCostsNothing"},
	{"unchanged-young", "the local clock says how old an event is", "internal/events/coalescer.go",
		`now.Sub(commit)`,
		`time.Since(commit)`, "TestUnchangedCostsNothing"},
	{"unchanged-young", "the server's time counts from the look's answer", "internal/events/observe.go",
		`c.newest, c.sent = l.ReadTime, l.Began`,
		`c.newest, c.sent = l.ReadTime, l.Received`, "TestUnchangedDuringLooks"},
	{"unchanged-young", "an event that changes nothing absorbs", "internal/events/event.go",
		`weak:         concern.Unchanged,`,
		``, "TestUnchangedIsNoAnchor"},
	{"unchanged-young", "an event that changes nothing absorbs an older one", "internal/events/event.go",
		` && !commit.Before(g.commit)`,
		``, "TestUnchangedIsNoAnchor"},
	{"no-loop", "Tally's own documents may be shards", "route/conflict.go",
		`if Overlap(path, r.pattern) {`,
		`if false {`, "route/TestRefusedRoutes"},
	{"no-loop", "a roll-up may be where Tally keeps its own", "route/conflict.go",
		`if Overlap(path, r.template) {`,
		`if false {`, "route/TestRefusedRoutes"},

	{"events-as-live", "an event of a scheduled route waits for D", "internal/events/turn.go",
		`due := c.pace(s, l).Due(l)
	turns`,
		`due := max(c.pace(s, l).Due(l), l.AsOf.Add(l.Counter.Template.Every).Sub(l.ReadTime))
	turns`, "TestEventsOfScheduledRoute"},
	{"renew", "as_of of unchanged totals stays", "internal/schedule/decide.go",
		`case !l.Totals.Empty() && l.ReadTime`,
		`case false && l.ReadTime`, "TestKeepRenewsAsOf"},
	{"renew", "as_of of unchanged totals is renewed with each tick", "internal/schedule/decide.go",
		`>= staleAfter*`,
		`>= 1*`, "TestKeepLeavesUnchangedTotals"},
	{"renew", "as_of of zeros without sources is renewed", "internal/schedule/decide.go",
		`case !l.Totals.Empty() && l.ReadTime`,
		`case l.ReadTime`, "TestKeepWithoutSources"},
	{"both-walks", "a tick does not visit roll-ups whose sources are gone", "internal/schedule/memory.go",
		`range byRollUps {`,
		`range byRollUps[:0] {`, "TestKeepWithoutSources"},
	{"both-walks", "a tick does not visit counters without a roll-up", "internal/schedule/memory.go",
		`range byShards {`,
		`range byShards[:0] {`, "TestKeepGoesRound"},
	{"tick-place", "a tick goes round once", "internal/schedule/keep.go",
		`	if !k.o.Until.IsZero() {
		k.push(e)
	}`,
		``, "TestKeepGoesRound"},
	{"tick-place", "a tick tries a counter once", "internal/schedule/keep.go",
		`if k.o.Until.IsZero() && e.failures >= maxTries {`,
		`if k.o.Until.IsZero() {`, "TestKeepGoesOnAfterFailures"},
	{"tick-place", "a tick ends with the first page that fails", "internal/schedule/keep.go",
		`for ctx.Err() == nil && !k.over() {`,
		`for ctx.Err() == nil && !k.over() && len(k.problems) == 0 {`, "TestKeepGoesOnAfterAPage"},
	{"removal", "a tick removes a roll-up whatever was written meanwhile", "internal/schedule/keep.go",
		`	case actionRemove:
		v.err =`,
		`	case actionRemove:
		if w, err := k.store.View(looking, e.Counter); err == nil {
			v.RollUp = w.RollUp()
		}
		v.err =`, "TestKeepRemovesWhatItSaw"},
	{"events-as-live", "a tick keeps live routes too", "internal/schedule/keep.go",
		`routes = routes.Scheduled()`,
		`_ = routes.Scheduled()`, "TestKeepGoesOnAfterAPage"},

	// A tick with more work than time or reads is fair.
	{"tick-place", "a tick has no memory of what had changed", "internal/schedule/memory.go",
		`k.remember(k.cursor.Changed, classChanged)`,
		``, "TestKeepBeginsWithWhatChanged"},
	{"tick-place", "a tick has no memory of what had not changed", "internal/schedule/memory.go",
		`k.remember(k.cursor.Quiet, classUnchanged)`,
		``, "TestQuietCounterAmongForeign"},
	{"tick-place", "a tick begins with what the last one had visited, although others wait", "internal/schedule/memory.go",
		`	if waits {
`,
		`	if false {
`, "TestKeepGoesOnWhereItStopped"},
	{"tick-place", "an unkept counter stays among what has changed", "internal/schedule/keep.go",
		`		e.class = classUnchanged
		return
`,
		`		return
`, "TestUnkeptIsNotAmongTheChanged"},
	{"tick-place", "those that changed and are due last have room first", "internal/schedule/memory.go",
		`cmp.Or(a.due.Compare(b.due),`,
		`cmp.Or(b.due.Compare(a.due),`, "TestKeepsCursorHasRoomForSome"},
	{"tick-place", "the walk of the shards begins where that of the roll-ups stopped", "internal/schedule/memory.go",
		`k.cursor.Places[len(byRollUps)+i]`,
		`k.cursor.Places[i]`, "TestNewCountersAreFoundWhereItStopped"},
	{"tick-place", "a tick begins with the first counters", "internal/schedule/memory.go",
		`places = append(places, w.place)`,
		`places = append(places, Place{Began: w.place.Began})`, "TestKeepGoesOnWhereItStopped"},
	{"tick-place", "a tick goes on behind what it has found", "internal/schedule/find.go",
		`for len(w.steps) > 0 && w.steps[0].waits == nil {`,
		`for len(w.steps) > 0 {`, "TestKeepGoesOnWhereItStopped"},
	{"tick-place", "a tick visits the oldest of a page first", "internal/schedule/find.go",
		`due: k.began}`,
		`due: tally.AsOf}`, "TestKeepGoesOnWhereItStopped"},
	{"tick-place", "a page does not know when a short tick ends", "internal/schedule/keep.go",
		`return context.WithDeadline(ctx, k.o.Until.Add(1)) // what is due at the end is begun`,
		`return context.WithCancel(ctx)`, "TestShortCallsFindAllCounters"},
	{"tick-place", "a page makes queries until the tick ends", "../internal/cloud/firestorestore/audit.go",
		`deadline.Sub(now)/2)`,
		`deadline.Sub(now))`, "../internal/cloud/firestorestore/TestPageEnd"},
	{"tick-place", "a tick does not come round to what lies before its place", "internal/schedule/find.go",
		`if w.wrapped || w.startedFrom == "" {`,
		`if true {`, "TestKeepGoesOnWhereItStopped"},
	{"shares", "new counters take turns as those that changed", "internal/schedule/fair.go",
		`[...]class{classChanged, classWithout, classChanged, classUnchanged, classChanged}`,
		`[...]class{classWithout, classChanged, classUnchanged}`, "TestSharesOfVisits"},
	{"shares", "one class goes before the others", "internal/schedule/fair.go",
		`l.turn = turn + 1`,
		`l.turn = 0`, "TestSharesOfVisits"},
	{"shares", "what is unchanged stays among what has changed", "internal/schedule/keep.go",
		`		return classUnchanged
	}
}`,
		`		return before
	}
}`, "TestClassOfChangedCounters"},
	{"shares", "a renewal is a change", "internal/schedule/keep.go",
		`case v.action == actionRepair && !(rolledUp && v.Agrees()):`,
		`case v.action == actionRepair:`, "TestClassOfChangedCounters"},
	{"shares", "a first roll-up is no change", "internal/schedule/keep.go",
		`case v.action == actionRepair && !(rolledUp && v.Agrees()):`,
		`case v.action == actionRepair && rolledUp && !v.Agrees():`, "TestClassOfChangedCounters"},
	{"shares", "what is not due is unchanged", "internal/schedule/keep.go",
		`case v.action == actionSkip && before != classWithout:`,
		`case false:`, "TestChangedAndNotDue"},
	{"shares", "visits that hang take every slot", "internal/schedule/fair.go",
		`free -= max(0, l.slots/spare-busy)`,
		`free -= 0 * busy`, "TestHangingVisitsLeaveSlots"},
	{"tick-place", "what fails is tried without a pause", "internal/schedule/keep.go",
		`k.PauseAfter(e.failures, e.Template.Every)`,
		`k.PauseAfter(1, e.Template.Every)`, "TestKeepOfWhatAlwaysFails"},
	{"tick-place", "what fails stays among what has changed", "internal/schedule/keep.go",
		`if e.failures >= maxTries && e.class == classChanged {`,
		`if false {`, "TestKeepOfWhatAlwaysFails"},
	{"tick-place", "failures are never over", "internal/schedule/keep.go",
		`	e.failures = 0
`,
		``, "TestKeepForgetsFailures"},
	{"shares", "a tick's reads have no bound", "internal/schedule/fair.go",
		`return a.most == 0 || a.reads() < a.mayUse(now)`,
		`return true`, "TestKeepSpreadsItsReads"},
	{"shares", "a tick uses its reads at once", "internal/schedule/fair.go",
		`int64(float64(a.most-atOnce)*min(passed, 1))`,
		`int64(float64(a.most-atOnce)*(1-0*passed))`, "TestKeepSpreadsItsReads"},
	{"shares", "finding counters takes all reads", "internal/schedule/fair.go",
		`a.mayRead(now) && float64(f.reads) < f.share*float64(a.mayUse(now))`,
		`a.mayRead(now)`, "TestFindingIsCharged"},
	{"shares", "finding documents that are no counters costs nothing", "internal/schedule/find.go",
		`f.reads += max(1, page.Reads)`,
		`f.reads += int64(len(page.Found))`, "TestFindingIsCharged"},
	{"shares", "a page of roll-ups does not say what it was billed", "../internal/cloud/firestorestore/audit.go",
		`page := rollup.Page{Reads: int64(max(1, len(docs)))}`,
		`page := rollup.Page{Reads: 1}`, "TestBilledWalks"},
	{"shares", "a page of counters does not say what their roll-ups were billed", "../internal/cloud/firestorestore/audit.go",
		`		page.Reads++
		page.ReadTime`,
		`		page.ReadTime`, "TestBilledWalks"},
	{"shares", "a tick that waits for reads to find more ends", "internal/schedule/find.go",
		`at = roll.Sooner(at, now.Add(k.readsWait()))`,
		``, "TestTickWaitsToFindMore"},
	{"shares", "a tick that waits to find more ends", "internal/schedule/keep.go",
		`at = roll.Sooner(at, more)`,
		`_ = more`, "TestTickWaitsToFindMore"},
	{"shares", "a call without an end has no bound on its reads", "internal/schedule/keep.go",
		`return k.o.MaxReads > 0 && k.o.Reads() >= k.o.MaxReads`,
		`return false`, "TestKeepEndsWithItsReads"},
	{"calls-end", "a page outlives its tick", "internal/schedule/keep.go",
		`	finding, cancel := k.untilEnd(ctx)
	defer k.work.Wait()
	defer cancel() // a page that is being found is not waited for`,
		`	finding, cancel := context.WithCancel(ctx)
	defer k.work.Wait()
	_ = cancel`, "TestFindingEndsWithTheTick"},
	{"found-in-turn", "counters are found again in each tick", "internal/schedule/find.go",
		`	if w.began.IsZero() || k.o.Until.IsZero() {`,
		`	if true {`, "TestFindsAtThePaceOfD"},
	{"found-in-turn", "a walk that begins too soon finds what is not due yet", "internal/schedule/find.go",
		`return w.began.Add(every + min(every/10, longestVisited))`,
		`return w.began.Add(every - min(every/10, longestVisited))`, "TestFindsAtThePaceOfD"},
	{"found-in-turn", "a walk comes back before it finds anything due", "internal/schedule/find.go",
		`every + min(every/10, longestVisited)`,
		`every`, "TestWalkComesBackOnceItsCountersAreDue"},
	{"found-in-turn", "a walk that has come to its end begins again at once", "internal/schedule/find.go",
		`w.wrapped, w.from, w.due = true, "", k.restartTime(w)`,
		`w.wrapped, w.from = true, ""`, "TestRoundBeginsWhenItIsDue"},
	{"found-in-turn", "a walk goes on beyond where it began", "internal/schedule/find.go",
		`w.wrapped && path == w.first`,
		`w.wrapped && path == "none"`, "TestKeepComesRound"},
	{"found-in-turn", "a tick visits what it remembers before that is due", "internal/schedule/memory.go",
		`if !k.o.Until.IsZero() && w.due.After(k.o.Until) {`,
		`if false {`, "TestFindsAtThePaceOfD"},
	{"found-in-turn", "a walk that began in the future waits for that", "internal/schedule/find.go",
		` && !place.Began.After(k.loadReadTime)`,
		``, "TestWalkBeganInTheFuture"},
	{"found-in-turn", "each call begins with the first template", "internal/schedule/memory.go",
		`f.turn = int(k.Options.Random() * float64(len(f.walks)))`,
		`_ = f`, "TestEachRouteIsFound"},
	{"shares", "a page takes all reads of a call", "internal/schedule/fair.go",
		`min(walkPage, a.most/8)`,
		`walkPage`, "TestEachRouteIsFound"},
	{"greatest-age", "the report names no route that was not found", "internal/schedule/kept.go",
		`if !w.over && !lately {`,
		`if !w.over && !lately && false {`, "TestEachRouteIsFound"},
	{"found-in-turn", "one template's walk goes before the others", "internal/schedule/find.go",
		`		f.turn++
`,
		``, "TestTemplatesTakeTurns"},
	{"server-times", "a tick takes an as_of in the future for young", "internal/schedule/find.go",
		`if due > 0 && !tally.AsOf.After(read) {`,
		`if due > 0 {`, "TestKeepOfFutureAsOf"},
	{"bounded", "a tick finds any number of counters", "internal/schedule/find.go",
		` || f.found >= f.most {`,
		` {`, "TestKeepFindsNoMore"},
	{"bounded", "a tick does not count what it finds", "internal/schedule/find.go",
		`	f.found++
`,
		``, "TestKeepFindsNoMore"},
	{"shares", "the classes have more slots than there are", "internal/schedule/fair.go",
		`		n += busy
`,
		`		n = max(n, busy)
`, "TestClassesShareTheSlots"},
	{"missing-covers", "a tick looks for a missing document more often than its route says", "internal/schedule/keep.go",
		`max(longestMissing, every))`,
		`longestMissing)`, "TestKeepOfMissingSeldom"},
	{"greatest-age", "a quiet counter is as old as its as_of", "internal/schedule/kept.go",
		`		e.rightAt = v.ReadTime
`,
		`		e.rightAt = v.AsOf
`, "TestAgeOfAQuietCounter"},
	{"tick-place", "a page that fails ends its walk", "internal/schedule/find.go",
		`		k.restart(w) // the next call tries again
`,
		`		w.over = true
`, "TestKeepComesRound"},
	{"tick-place", "what fails together is tried again together", "internal/roll/roller.go",
		`(0.5 + r.Options.Random()/2)`,
		`(0.75 + 0*r.Options.Random())`, "TestPauseAfterAFailureIsDrawn"},
	{"bounded", "however many counters are found before they are visited", "internal/schedule/find.go",
		`f.waiting >= walkPage ||`,
		``, "TestKeepBeginsNoCounterLate"},
	{"greatest-age", "remembered zeros without sources are old once they are found", "internal/schedule/find.go",
		`!e.visited && tally.NumShards > 0`,
		`!e.visited`, "TestAgeOfARememberedCounterAtZero"},
	{"greatest-age", "zeros without sources are old", "internal/schedule/find.go",
		`	if tally.NumShards > 0 {
		e.rightAt`,
		`	if true {
		e.rightAt`, "TestGreatestAgeOfWhatIsLeft"},
	{"greatest-age", "the greatest age is not measured by every", "internal/schedule/kept.go",
		`late := age.Seconds() / e.Template.Every.Seconds()`,
		`late := age.Seconds()`, "TestGreatestAge"},
	{"greatest-age", "what is left has no age", "internal/schedule/kept.go",
		`			k.noteAge(e, e.rightAt, k.newest.Add(now.Sub(k.newestReceived)))
`,
		``, "TestGreatestAgeOfWhatIsLeft"},
	{"greatest-age", "the log says nothing of what is late", "internal/schedule/kept.go",
		`if k.greatestLateness > lateAfter || len(k.report.Unfound) > 0 {`,
		`if false {`, "TestGreatestAge"},
	{"tick-place", "a tick's cursor is saved without news", "internal/schedule/memory.go",
		`if k.unsaved || !news || ctx.Err() != nil {`,
		`if k.unsaved || !news && false || ctx.Err() != nil {`, "TestKeepsCursor"},
	{"tick-place", "a tick saves over another's cursor", "internal/schedule/memory.go",
		`		k.unsaved = true
	case err != nil:`,
		`	case err != nil:`, "TestKeepsCursor"},
	{"tick-place", "a tick without a cursor keeps nothing", "internal/schedule/keep.go",
		`	k.visitAll(ctx)
	done()`,
		`	if len(k.problems) == 0 {
		k.visitAll(ctx)
	}
	done()`, "TestKeepsCursor"},
	{"bounded", "a tick's cursor grows without bound", "internal/schedule/memory.go",
		`size > maxPaths {`,
		`false {`, "TestKeepsCursorHasRoomForSome"},
	{"bounded", "what was logged is remembered without bound", "internal/roll/logged.go",
		`if len(l.lines) == maxLogged {`,
		`if false {`, "TestJunkSilencesNoOne"},
	{"lapsed", "the log of a tick's unkept counter says nothing", "internal/schedule/keep.go",
		`		k.LogUnkept(ctx, e.Counter, "", v.err)
`,
		``, "TestKeepOfUnkept"},

	{"pace", "a burst is not used", "internal/roll/pace.go",
		`return Pace{r.Step(l.Counter.Template), max(r.Options.Burst, 1)}`,
		`return Pace{r.Step(l.Counter.Template), 1}`, "TestPace"},
	{"pace", "one roll-up more than the burst", "internal/roll/pace.go",
		`return min(used.Sub(now)-time.Duration(p.burst-1)*p.Cadence,`,
		`return min(used.Sub(now)-time.Duration(p.burst)*p.Cadence,`, "TestPace"},
	{"pace", "what roll-ups used up is not added up", "internal/roll/pace.go",
		`return used.Add(p.Cadence)`,
		`return l.ReadTime.Add(p.Cadence)`, "TestPace"},
	{"credit", "an instance that finds credit uses it at once", "internal/events/turn.go",
		`return c.backOff(s) - l.ReadTime.Sub(l.AsOf)`,
		`return due`, "TestPace"},
	{"credit", "the writer does not go first, in a crowd", "internal/events/turn.go",
		`case l.AsOf.Equal(s.own) && !c.followsAlarms(s, l):`,
		`case false:`, "TestCrowd"},
	{"credit", "the writer does not go first", "internal/events/turn.go",
		`case l.AsOf.Equal(s.own) && !c.followsAlarms(s, l):`,
		`case false:`, "TestCredit"},
	{"credit", "one's own roll-up is forgotten with the counter", "internal/events/forget.go",
		`time.AfterFunc(time.Until(s.rememberedUntil()), func() {`,
		`s.ownUntil = time.Time{}
	time.AfterFunc(0, func() {`, "TestCredit"},
	{"cursor", "a walk that is cut keeps its place", "internal/schedule/cycle.go",
		`places[i] = Place{Last: p.Last}`,
		`places[i] = Place{From: p.From, Last: p.Last}`, "TestNoteAboutAll"},
	{"cursor", "the last of several differences that wait keeps the place", "internal/schedule/audit.go",
		`range slices.Backward(a.waiting) {`,
		`range slices.All(a.waiting) {`, "TestWaitingDifferencesOfSeveralPages"},
	{"cursor", "what waits on one walk is looked for on another", "internal/schedule/audit.go",
		`c.Places[d.walk] = d.before`,
		`c.Places[0] = d.before`, "TestWaitingDifferenceKeepsItsPlace"},
	{"cursor", "a page that failed counts as failed forever", "internal/schedule/cycle.go",
		`		places[i].Failed = false
`,
		``, "internal/schedule/TestCursorGoesOn"},
	{"audit-bounds", "an audit whose reads are used up by finding counters compares none", "internal/schedule/audit.go",
		`		if i > 0 && (a.timeIsUp(ctx) || a.readsUsedUp()) { // one at least: finding them may have used up the reads
			return i
`,
		`		if a.timeIsUp(ctx) || a.readsUsedUp() {
			return max(i, 1)
`, "TestAuditWithFewReads"},
	{"former", "former totals outlive their roll-up", "../internal/test/memstore/memstore.go",
		`slices.Concat(c.Template.Totals(), r.Tally.Former, []string{document.TallyField})`,
		`slices.Concat(c.Template.Totals(), []string{document.TallyField})`, "TestRemovalTakesFormerTotals"},
	{"former", "former totals outlive their roll-up in Firestore", "../internal/cloud/firestorestore/audit.go",
		`slices.Concat(c.Template.Totals(), r.Tally.Former, []string{document.TallyField})`,
		`slices.Concat(c.Template.Totals(), []string{document.TallyField})`, "../internal/test/storetest/TestFirestore/Remove"},
	{"former", "what an audit prunes stays in Firestore", "../internal/cloud/firestorestore/store.go",
		`range r.Gone {`,
		`range r.Gone[:0] {`, "../internal/test/storetest/TestFirestore/Write_replaces_what_was_read"},
	{"credit", "the back-off is drawn again with each look", "internal/events/observe.go",
		`if !l.AsOf.Equal(s.seen) {`,
		`if s.draw = c.options.Random(); !l.AsOf.Equal(s.seen) {`, "TestBackOffIsDrawnOnce"},
	{"credit", "nothing is drawn for the roll-up that refused a write", "internal/events/observe.go",
		`s.seen, s.draw, s.failures, s.unkept = l.AsOf, c.options.Random(), 0, pause{}`,
		`s.seen, s.failures, s.unkept = l.AsOf, 0, pause{}`, "TestRefusedByAnotherRollUp"},
	{"contended", "a write that the app refused is sent again at once", "internal/events/observe.go",
		`} else if s.refused {`,
		`} else if s.refused && false {`, "TestRefusedByTheApp"},
	{"pace", "what another pace used up is given back", "internal/roll/pace.go",
		`used.After(l.ReadTime.Add(max(furthestAhead, time.Duration(p.burst)*p.Cadence)))`,
		`used.After(l.ReadTime.Add(min(furthestAhead, time.Duration(p.burst)*p.Cadence)))`, "TestMixedPaces"},
	{"pace", "what another pace used up is waited for", "internal/roll/pace.go",
		`return min(used.Sub(now)-time.Duration(p.burst-1)*p.Cadence, asOf.Sub(now)+p.Cadence)`,
		`_ = asOf
	return used.Sub(now) - time.Duration(p.burst-1)*p.Cadence`, "TestPacedUntil"},
	{"pace", "the writer waits for what another pace used up", "internal/roll/pace.go",
		`return p.wait(p.next(l), l.ReadTime, l.ReadTime)`,
		`return p.next(l).Sub(l.ReadTime) - time.Duration(p.burst-1)*p.Cadence`, "TestMixedPaces"},
	{"pace", "a missing paced_until is full credit", "internal/roll/pace.go",
		`return l.AsOf.Add(p.Cadence)
	}
	return used`,
		`return l.AsOf
	}
	return used`, "TestPacedUntil"},

	{"other-routes", "another revision's as_of covers", "internal/roll/look.go",
		`if l.Rerouted() {
		return time.Time{}`,
		`if l.Rerouted() && false {
		return time.Time{}`, "TestRevisionsCoverTheirOwn"},
	{"turns", "all instances of a revision go at once", "internal/events/turn.go",
		`wait += c.lateBackOff(s, s.draw)`,
		`wait += 0 * c.lateBackOff(s, s.draw)`, "TestRevisionsTakeTurns"},
	{"turns", "the instances of a revision spread evenly", "internal/events/turn.go",
		`late := math.Log1p(steepness*draw) / math.Log1p(steepness)`,
		`late := draw * math.Log1p(steepness) / math.Log1p(steepness)`, "TestRevisionsTakeTurns"},
	{"turns", "no revision lets another go first", "internal/events/turn.go",
		`wait += time.Duration(max(ahead, 0)) * c.turnTakes(s)`,
		`wait += 0`, "TestTurns"},
	{"turns", "the revision that wrote goes first again", "internal/events/turn.go",
		`isNew := ahead < 0`,
		`isNew := ahead < 0
	ahead = (ahead + 1) % len(turns)`, "TestRevisionsTakeTurns"},
	{"turns", "no instance looks before its own turn", "internal/events/turn.go",
		`if ahead > 0 && wait+c.turnTakes(s) > 0 {`,
		`if ahead < -1 {`, "TestRevisionsTakeTurns"},
	{"turns", "a new revision waits like others", "internal/events/turn.go",
		`if isNew && (s.draw < 0.25 || s.waitTime(l) > s.step) {`,
		`if false {`, "TestTurns"},
	{"turns", "a new revision never goes as a whole", "internal/events/turn.go",
		` || s.waitTime(l) > s.step) {`,
		`) {`, "TestTurns"},
	{"turns", "a new revision goes as a whole at once", "internal/events/turn.go",
		`if isNew && (s.draw < 0.25 || s.waitTime(l) > s.step) {`,
		`if isNew {`, "TestTurns"},
	{"turns", "those whose turn it is do not leave a new revision time", "internal/events/turn.go",
		`wait := free + s.step/20`,
		`wait := free`, "TestTurns"},
	{"turns", "a revision that is gone keeps its turn", "internal/roll/turns.go",
		`return age < 0 || age > TurnCadences*r.Cadence(l)`,
		`return age < 0`, "TestTurns"},
	{"turns", "a turn from the future counts", "internal/roll/turns.go",
		`return age < 0 || age > TurnCadences*r.Cadence(l)`,
		`return age > TurnCadences*r.Cadence(l)`, "TestTurns"},
	{"turns", "a revision's last writer is forgotten after a cadence", "internal/events/observe.go",
		`l.Received.Add(roll.TurnCadences * own)`,
		`l.Received.Add(own)`, "TestWriterOfARevisionGoesFirst"},
	{"turns", "turns are not written", "internal/roll/publish.go",
		`Turns:      r.NextTurns(l),`,
		`Turns:      nil,`, "TestRevisionsTakeTurns"},
	{"other-routes", "totals that agree are left to another revision", "internal/roll/agree.go",
		`if l.AsOf.IsZero() || l.Rerouted() || l.RollUp.Tally.NumShards`,
		`if l.AsOf.IsZero() || l.RollUp.Tally.NumShards`, "TestRerouted"},
	{"other-routes", "another revision's roll-up is drift", "internal/schedule/decide.go",
		`case l.Rerouted():
		return differenceRerouted`,
		`case l.Rerouted():
		return differenceDrift`, "TestRevisionIsGone"},
	{"former", "what another revision kept is not named", "internal/roll/publish.go",
		`Former:     former(l.RollUp.Tally, l.Counter.Template.Totals()),`,
		`Former:     nil,`, "TestRevisionIsGone"},
	{"former", "what earlier routes kept is named once only", "internal/roll/publish.go",
		`range slices.Concat(old.Totals, old.Former) {`,
		`range old.Totals {`, "TestFormerTotalStays"},

	{"claim", "slow sums are not claimed", "internal/events/prober.go",
		`if p.sums && (l.Long || c.worthClaim(&l)) {`,
		`if p.sums && l.Long {`, "TestSlowSums"},
	{"claim", "every sum is claimed", "internal/events/claim.go",
		`return reads >= claimReads && (billed || c.lastSumTook(l) >= c.roller.Step(l.Counter.Template)/10)`,
		`return true || billed`, "TestClaims"},
	{"claim", "cheap sums are claimed", "internal/events/claim.go",
		`return reads >= claimReads && `,
		`return `, "TestClaims"},
	{"claim", "quick sums that bill much are not claimed", "internal/events/claim.go",
		`(billed || c.lastSumTook(l)`,
		`(false && billed || c.lastSumTook(l)`, "TestLargeCounters"},
	{"claim", "a claim is not written", "internal/events/claim.go",
		`err = c.store.Claim(ctx, l.Counter, seen)`,
		`err = nil`, "TestSlowSums"},
	{"claim", "who cannot read a claim waits", "internal/events/claim.go",
		`summing without", "counter", l.Counter.RollUp, "event_id", l.EventID, "error", err)
		return 0, false
	}

	age`,
		`summing without", "counter", l.Counter.RollUp, "event_id", l.EventID, "error", err)
		return 0, true
	}

	age`, "TestClaims"},
	{"claim", "a claim holds forever", "internal/events/claim.go",
		`return min(c.lastSumTook(l)*3/2, c.options.Timeout)`,
		`return time.Hour`, "TestClaims"},
	{"claim", "a claim holds although its roll-up is written", "internal/events/claim.go",
		`seen.Over.Equal(l.AsOf) && `,
		``, "TestClaims"},
	{"claim", "one's own claim is waited for", "internal/events/claim.go",
		`seen.By != c.name && `,
		`(seen.By != c.name || true) && `, "TestOwnClaim"},
	{"claim", "a claim is waited for without bound", "internal/events/long.go",
		`return min(l.RollUp.Tally.Took, c.options.Timeout)`,
		`return l.RollUp.Tally.Took`, "TestClaims"},
	{"claim", "a refused claim sums all the same", "internal/events/claim.go",
		`	if errors.Is(err, roll.ErrConflict) {
`,
		`	if errors.Is(err, errEarly) {
`, "TestClaims"},
	{"claim", "how long a sum took is not kept", "internal/roll/publish.go",
		`Took:       l.Took,`,
		``, "TestTookIsKept"},
	{"claim", "Firestore's precondition of a claim is dropped", "../internal/cloud/firestorestore/store.go",
		`claim.Encode(c.RollUp), claim.UpdateTime)`,
		`claim.Encode(c.RollUp), time.Time{})`, "../internal/test/storetest/TestFirestore/Claim"},
	{"claim", "a claim is not read in the snapshot", "../internal/cloud/firestorestore/sum.go",
		`		ConsistencySelector: &firestorepb.BatchGetDocumentsRequest_Transaction{Transaction: v.transaction},
`,
		``, "../internal/test/storetest/TestFirestore/Claim"},
	{"no-loop", "claims may be shards", "route/conflict.go",
		`	{{Name: document.ClaimsCollection}, {Name: "id", Capture: true}},
`,
		``, "route/TestRefusedRoutes"},

	{"pace", "a burst of 0 allows nothing at once", "internal/roll/pace.go",
		`return Pace{r.Step(l.Counter.Template), max(r.Options.Burst, 1)}`,
		`return Pace{r.Step(l.Counter.Template), r.Options.Burst}`, "TestPacedUntil"},
	{"pace", "a tick paces by the slower of two", "internal/roll/pace.go",
		`return Pace{every, 1}`,
		`return Pace{max(every, r.Options.Cadence), 1}`, "TestTickPacesByItsRoute"},
	{"unchanged-young", "a slow look's answer tells the server's time", "internal/events/observe.go",
		`if l.ReadTime.After(c.newest) {`,
		`if true {`, "TestUnchangedDuringOverlappingLooks"},
	{"pauses", "a counter is forgotten during a look", "internal/events/forget.go",
		`if !s.probing && !s.long.summing`,
		`if !s.long.summing`, "TestCounterIsRememberedDuringALook"},
	{"pauses", "a younger roll-up is forgotten with an older", "internal/events/forget.go",
		` && !time.Now().Before(s.rememberedUntil()) {`,
		` {`, "TestYoungerRollUpIsRemembered"},
	{"pauses", "a counter is forgotten that is known again", "internal/events/forget.go",
		`!s.long.summing && c.counters[s.counter.RollUp] == s && `,
		`!s.long.summing && `, "TestForgottenCounterIsKnownAgain"},
	{"pauses", "a missing document does not end a row of failures", "internal/events/observe.go",
		`s.failures, s.unkept, s.refused = 0, pause{}, false`,
		`s.unkept = pause{}`, "TestFailuresStartOver"},
	{"pauses", "a good look does not end a row of failures", "internal/events/observe.go",
		`	if !p.sums && p.deferTo.IsZero() {
		s.failures = 0
	}
`,
		``, "TestFailuresStartOver"},
	{"pauses", "another's roll-up does not end a row of failures", "internal/events/observe.go",
		`s.seen, s.draw, s.failures, s.unkept = l.AsOf, c.options.Random(), 0, pause{}`,
		`s.seen, s.draw, s.unkept = l.AsOf, c.options.Random(), pause{}`, "TestFailuresStartOver"},
	{"pauses", "one's own roll-up does not end a row of failures", "internal/events/observe.go",
		`s.failures, s.unkept, s.handedOn, s.long.rest = 0, pause{}, pause{}, pause{}`,
		`s.unkept, s.handedOn, s.long.rest = pause{}, pause{}, pause{}`, "TestFailuresStartOver"},

	{"belt", "a snapshot from before the change covers", "internal/events/observe.go",
		`if g.latestUpdate.After(l.ReadTime) {`,
		`if false && g.latestUpdate.After(l.ReadTime) {`, "TestSnapshotFromBeforeTheChange"},
	{"belt", "a snapshot from before the change covers, under noise", "internal/events/observe.go",
		`if g.latestUpdate.After(l.ReadTime) {`,
		`if false && g.latestUpdate.After(l.ReadTime) {`, "TestSnapshotsOfTheGroup"},
	{"belt", "the belt looks at the anchor's time only", "internal/events/event.go",
		`if e.UpdateTime.After(g.latestUpdate) {`,
		`if false {`, "TestSnapshotFromBeforeTheChange"},
	{"belt", "the belt looks at the last event's time only", "internal/events/event.go",
		`if e.UpdateTime.After(g.latestUpdate) {`,
		`if e.UpdateTime != g.latestUpdate {`, "TestSnapshotFromBeforeTheChange"},
	{"belt", "a snapshot from before the change is no error", "internal/events/failed.go",
		`level = slog.LevelError`,
		`level = slog.LevelWarn`, "TestSnapshotFromBeforeTheChange"},

	{"hold-limit", "an instance has the platform's slots", "internal/events/coalescer.go",
		`const Concurrency = 1000`,
		`const Concurrency = 80`, "TestSlots"},
	{"anchor-held", "generations close one after the other while looks fail", "internal/events/prober.go",
		`if s.open != nil && (s.failures == 0 || len(s.closed) == 0) {`,
		`if s.open != nil {`, "TestBackOffOfTheSubscription"},
	{"anchor-held", "an event that fails is acknowledged", "internal/events/generation.go",
		`g.err = err
	close(g.done)`,
		`g.err = nil
	close(g.done)`, "TestBackOffOfTheSubscription"},

	{"covered-from", "another instance's roll-up releases nothing", "internal/events/observe.go",
		`	s.release(l.CoveredUntil(), alarmsCoveredUntil(l))
`,
		``, "TestEndings"},
	{"covered-from", "one's own roll-up releases nothing", "internal/events/observe.go",
		`	s.release(l.ReadTime, coveredOnceWritten(l))
	s.own`,
		`	s.own`, "TestLoneEventIsRolledUpAtOnce"},
	{"server-times", "as_of in the future is taken at its word", "internal/roll/look.go",
		`case asOf.After(l.ReadTime):`,
		`case false:`, "TestInvalidAsOfIsOverwritten"},
	{"covered-from", "the look begins before its generation closes", "internal/events/observe.go",
		`for _, g := range s.closed {
		if g.latestUpdate`,
		`if s.open != nil {
		s.closed = append(s.closed, s.open)
		s.open = nil
	}
	for _, g := range s.closed {
		if g.latestUpdate`, "TestSimulation"},
	{"covered-from", "events are absorbed into a closed generation", "internal/events/event.go",
		`if g := s.open; g != nil {`,
		`if s.open == nil && len(s.closed) > 0 {
		return nil, nil
	}
	if g := s.open; g != nil {`, "TestEventDuringLookWaitsForTheNext"},
	{"covered-from", "a roll-up older than the covered-from time releases", "internal/events/generation.go",
		`|| g.coveredFrom.After(by) {`,
		`|| g.coveredFrom.After(by.Add(time.Second)) {`, "TestSimulation"},
	{"anchor-held", "an anchor that fails leaves its generation open", "internal/events/event.go",
		`			h.state.fail(h.generation, h.state.uncovered(ctx))
`,
		`			failed = h.state.uncovered(ctx)
`, "TestDeadlineOfOpenGeneration"},
	{"anchor-held", "a failed look releases", "internal/events/prober.go",
		`			next = c.handleFailure(oldest.values, s, oldest.anchor, err)
`,
		`			next = c.handleFailure(oldest.values, s, oldest.anchor, err)
			c.mu.Lock()
			s.release(time.Now().AddDate(1, 0, 0), time.Time{})
			c.mu.Unlock()
`, "TestSimulation"},
	{"precondition", "the precondition is dropped", "../internal/test/memstore/memstore.go",
		`	if !d.updateTime.Equal(r.UpdateTime) {`,
		`	if false {`, "TestSimulation"},
	{"server-times", "the local clock tells what is due", "internal/roll/pace.go",
		`return p.wait(p.usedUntil(l), l.AsOf, l.ReadTime)`,
		`return p.wait(p.usedUntil(l), l.AsOf, l.Received)`, "TestSimulation"},
	{"server-times", "the local clock tells what lies in the future", "internal/roll/look.go",
		`case asOf.After(l.ReadTime):`,
		`case asOf.After(l.Received):`, "TestSimulation"},
	{"server-times", "as_of is the local clock's", "internal/roll/publish.go",
		`AsOf:       l.ReadTime,`,
		`AsOf:       l.Received.Truncate(time.Microsecond),`, "TestSimulation"},
	{"pace", "a roll-up is written before its time", "internal/events/turn.go",
		`plan{sums: wait <= 0, wait: wait}`,
		`plan{sums: true, wait: wait}`, "TestSimulation"},
	{"pace", "no leading edge", "internal/events/prober.go",
		`	for {
		oldest := c.closeOpen(s)
`,
		`	time.Sleep(c.options.Cadence)
	for {
		oldest := c.closeOpen(s)
`, "TestLoneEventIsRolledUpAtOnce"},
	{"credit", "exact wake-ups", "internal/events/turn.go",
		`return step/10 + time.Duration(s.draw*`,
		`return 0 * time.Duration(s.draw*`, "TestCrowd"},
	{"pauses", "an alarm that was made does not end a row of failures", "internal/events/alarm.go",
		`	defer c.mu.Unlock()
	s.failures = 0
	ahead`,
		`	defer c.mu.Unlock()
	ahead`, "TestAlarmEndsARowOfFailures"},
	{"pauses", "a failing store is asked without a pause", "internal/events/failed.go",
		`time.Now().Add(c.roller.PauseAfter(s.failures-1, s.step))`,
		`time.Now().Add(time.Millisecond)`, "TestPausesBetweenFailures"},
	{"anchor-held", "events are held without end while Firestore fails", "internal/events/prober.go",
		`if s.open != nil && (s.failures == 0 || len(s.closed) == 0) {`,
		`if s.open != nil {`, "TestFewEventsAreHeldWhileLooksFail"},
	{"pauses", "a counter is not forgotten", "internal/events/forget.go",
		`delete(c.counters, s.counter.RollUp)`,
		``, "TestSimulation"},
	{"covered-from", "an event is said to be covered as of its look, not as of the roll-up", "internal/events/generation.go",
		`g.asOf = asOf`,
		`g.asOf = g.coveredFrom`, "TestEndings"},
	{"hold-limit", "a look ends with the request of its anchor", "internal/events/event.go",
		`values:       context.WithoutCancel(ctx)`,
		`values:       ctx`, "TestWorkHasTheAnchorsValues"},
	{"precondition", "Firestore's precondition is dropped", "../internal/cloud/firestorestore/store.go",
		`, firestore.LastUpdateTime(updateTime))`,
		`)`, "../internal/test/storetest/TestFirestore/Write_is_refused"},
	{"precondition", "Firestore's precondition that there is no document is dropped", "../internal/cloud/firestorestore/store.go",
		`doc.Create(ctx, fields)`,
		`doc.Set(ctx, fields)`, "../internal/test/storetest/TestFirestore/Write_is_refused"},
	{"proves-nothing", "a refusal that proves nothing is an error like others", "../internal/cloud/firestorestore/store.go",
		`codes.NotFound, codes.Aborted:`,
		`codes.NotFound:`, "TestWriteErrors"},

	{"pace", "an audit writes over a young roll-up", "internal/schedule/compare.go",
		`if p.Due(&l) <= 0 {`,
		`if true {`, "TestAuditKeepsToTheCadence"},
	{"pace", "an audit and a tick pace scheduled routes by the cadence", "internal/roll/pace.go",
		`if every > 0 {`,
		`if false {`, "TestAuditOfScheduledRoute"},
	{"pace", "a tick paces by the cadence", "internal/roll/pace.go",
		`return Pace{every, 1}`,
		`return r.LivePace(l)`, "TestKeepsOverlap"},
	{"pace", "a tick paces with a burst", "internal/roll/pace.go",
		`return Pace{every, 1}`,
		`return Pace{every, 2}`, "TestKeepsOverlap"},
	{"grace", "an audit waits for events of scheduled routes", "internal/schedule/audit.go",
		`a.o.Grace > 0 && !f.Template.Scheduled()`,
		`a.o.Grace > 0`, "TestAuditOfScheduledRoute"},
	{"differs", "an audit tries a counter forever", "internal/schedule/compare.go",
		`if try == maxTries {`,
		`if false {`, "TestAuditGoesOnAfterFailures"},
	{"differs", "a command waits for a counter that is due in an hour", "internal/schedule/compare.go",
		`		return longestWait
`,
		`		return 100 * longestWait * 3600
`, "TestAuditLeavesLongCadencesAlone"},
	{"differs", "an audit does not say what its pace kept it from", "internal/schedule/report.go",
		`			f.report.Paced++
`,
		``, "TestAuditLeavesLongCadencesAlone"},
	{"differs", "an audit leaves what differs", "internal/schedule/decide.go",
		`	case l.Agrees() && c.leaving != leftSooner:
		return actionLeave`,
		`	case true:
		return actionLeave`, "TestSimulation"},
	{"tolerance", "an integer and a double within the tolerance agree", "internal/roll/agree.go",
		`if !a.IsDouble() || !b.IsDouble() || !a.Finite()`,
		`if !a.Finite()`, "internal/roll/TestSameTotal"},
	{"unkept", "an event of an unkept counter fails", "internal/events/failed.go",
		`	if errors.Is(err, roll.ErrUnkept) {`,
		`	if false {`, "TestUnkept"},
	{"unkept", "whatever waiting may fix is unkept, too", "internal/events/failed.go",
		`	if errors.Is(err, roll.ErrUnkept) {`,
		`	if !errors.Is(err, roll.ErrConflict) && !errors.Is(err, errEarly) {`, "TestSimulation"},
	{"unkept-paced", "an unkept counter is looked at for each event", "internal/events/event.go",
		`	if !s.unkept.over(latest) {`,
		`	if false {`, "TestUnkeptForAnHour"},
	{"unkept-paced", "a suspended machine goes on pausing", "internal/events/pause.go",
		` || !server.Before(p.serverUntil)`,
		``, "TestUnkeptWhileSuspended"},
	{"unkept", "what is open when a counter turns out unkept waits for its pause", "internal/events/generation.go",
		`		s.closed = append(s.closed, s.open)
		s.open = nil
	}
	for _, g := range s.closed {
		g.unkept = true`,
		`	}
	for _, g := range s.closed {
		g.unkept = true`, "TestUnkeptEndsWhatIsOpen"},
	{"unkept-paced", "the pauses of an unkept counter do not grow", "internal/events/pause.go",
		`min(max(2*p.step, first), longest)`,
		`min(first, longest)`, "TestUnkeptForAnHour"},
	{"unkept-paced", "the pauses of an unkept counter grow without end", "internal/events/pause.go",
		`min(max(2*p.step, first), longest)`,
		`max(2*p.step, first, min(first, longest))`, "TestUnkeptForAnHour"},
	{"unkept-paced", "a counter that is kept again pauses as long as before", "internal/events/observe.go",
		`s.seen, s.draw, s.failures, s.unkept = l.AsOf, c.options.Random(), 0, pause{}`,
		`s.seen, s.draw, s.failures = l.AsOf, c.options.Random(), 0`, "TestUnkeptElsewhereKept"},
	{"lapsed", "an unkept counter is a failure of the audit", "internal/schedule/audit.go",
		`	case errors.Is(err, roll.ErrUnkept):`,
		`	case false:`, "TestAuditOfUnkept"},
	{"lapsed", "an audit tries an unkept counter again and again", "internal/schedule/compare.go",
		`		if errors.Is(err, roll.ErrUnkept) { // another try would end alike`,
		`		if false {`, "TestAuditOfUnkept"},
	{"unkept", "an expired transaction makes a counter unkept", "../internal/cloud/firestorestore/store.go",
		`		if strings.HasPrefix(said, beginning) {`,
		`		if said == beginning {`, "TestExpiredTransaction"},
	{"unkept", "a transaction that is not known makes a counter unkept", "../internal/cloud/firestorestore/store.go",
		`range expiredMessages {`,
		`range expiredMessages[:1] {`, "TestExpiredTransaction"},
	{"unkept", "a document is taken for an expired transaction because of its path", "../internal/cloud/firestorestore/store.go",
		`strings.HasPrefix(said, beginning)`,
		`strings.Contains(strings.ToLower(said), strings.ToLower(beginning))`, "TestExpiredTransaction"},
	{"unkept", "what is wrapped around an error counts as Firestore's word", "../internal/cloud/firestorestore/store.go",
		`said := message(err)`,
		`said := err.Error()`, "TestLockedErrors"},
	{"unkept", "whatever is wrong with a lock makes a counter unkept", "../internal/cloud/firestorestore/locked.go",
		`	held, err := s.rollUpIn(ctx, transaction, c)
	if err != nil {
		return`,
		`	held, err := s.rollUpIn(ctx, transaction, c)
	if err != nil {
		err = unkept(err)
		return`, "TestLockedErrors"},
	{"unkept", "whatever is refused for a group makes a counter unkept", "../internal/cloud/firestorestore/sum.go",
		`if r.By != nil && needsIndex(err) {`,
		`if r.By != nil && err != nil {`, "TestExemptGroup"},
	{"unkept", "a group whose field has no index fails its events", "../internal/cloud/firestorestore/sum.go",
		`if r.By != nil && needsIndex(err) {`,
		`if false {`, "TestExemptGroup"},
	{"alarm-covers", "an alarm that rings too early ends in a pause", "internal/events/ring.go",
		`!s.unkept.over(a.At) && !c.serverNow().Before(a.At)`,
		`!s.unkept.over(a.At)`, "TestAlarmOfAPausingCounter"},
	{"unkept", "a document that is full fails a locked write's events", "../internal/cloud/firestorestore/locked.go",
		`return unkept(outcome(err, "writing", c.RollUp))`,
		`return outcome(err, "writing", c.RollUp)`, "TestFullDocument"},
	{"unkept", "every refused write makes its counter unkept", "../internal/cloud/firestorestore/store.go",
		`	if status.Code(err) != codes.InvalidArgument {`,
		`	if err == nil {`, "TestWriteErrors"},
	{"tolerance", "doubles agree exactly or not at all", "internal/roll/agree.go",
		`<= sumTolerance*magnitude`,
		`<= 0*magnitude`, "internal/roll/TestSameTotal"},
	{"tolerance", "numbers beyond the largest double are held to no tolerance", "../internal/cloud/firestorestore/sum.go",
		`min(2*a.sum.Float64()-added.sum, math.MaxFloat64)`,
		`2*a.sum.Float64() - added.sum`, "../internal/test/storetest/TestFirestore/Magnitude_beyond_the_largest_double"},
	{"tolerance", "numbers that cancel out are held to the tolerance of their sum", "internal/schedule/compare.go",
		`	err = a.LoadMagnitudes(looking, &l)
`,
		``, "TestDoublesThatCancelOut"},
	{"tolerance", "what is negative has no magnitude", "../internal/cloud/firestorestore/sum.go",
		`2*a.sum.Float64()-added.sum`,
		`a.sum.Float64()`, "../internal/test/storetest/TestFirestore/Magnitude"},
	{"both-walks", "an audit finds counters by their shards only", "internal/schedule/audit.go",
		`	a.walkAll(ctx, byRollUps, &a.cursor.RollUps, 0, rollUpsShare)
`,
		``, "TestAuditOfAll"},
	{"both-walks", "an audit finds counters by their roll-ups only", "internal/schedule/audit.go",
		`	a.walkAll(ctx, byShards, &a.cursor.Shards, len(byRollUps), 1)
`,
		``, "TestAuditOfAll"},
	{"both-walks", "a counter without a roll-up is taken for one that has it", "../internal/cloud/firestorestore/audit.go",
		`return !f.RollUp.Tally.AsOf.IsZero() })`,
		`return f.RollUp.Exists() })`, "../internal/test/storetest/TestFirestore/RollUps_and_Missing"},
	{"both-walks", "foreign roll-ups end the walk of the roll-ups", "../internal/cloud/firestorestore/audit.go",
		`if len(docs) < limit {
		page.Next = ""`,
		`if len(page.Found) < limit {
		page.Next = ""`, "../internal/test/storetest/TestFirestore/RollUps_and_Missing"},
	{"both-walks", "foreign shards end the walk of the shards", "../internal/cloud/firestorestore/audit.go",
		`	if len(page.Found) == 0 {
		return page, nil`,
		`	if len(page.Found) == 0 {
		page.Next = ""
		return page, nil`, "../internal/test/storetest/TestFirestore/find"},
	{"both-walks", "a foreign document hides the shards next to it", "../internal/cloud/firestorestore/audit.go",
		`if i < len(ids) && ids[i] > s.Name && !isNumeric(ids, i) {`,
		`if i < len(ids) {`, "../internal/test/storetest/TestFirestore/RollUps_and_Missing"},
	{"both-walks", "counters that have a roll-up are found by their shards, too", "../internal/cloud/firestorestore/audit.go",
		`return !f.RollUp.Tally.AsOf.IsZero() })`,
		`return false })`, "../internal/test/storetest/TestFirestore/find"},
	{"both-walks", "a counter with two sources is found twice", "../internal/cloud/firestorestore/audit.go",
		`has[i] = len(docs) > 0`,
		`has[i] = len(docs) < 0`, "../internal/test/storetest/TestFirestore/find"},
	{"both-walks", "a counter with two sources is not found", "../internal/cloud/firestorestore/audit.go",
		`range routes[:slices.Index(routes, route)] {`,
		`range routes {`, "../internal/test/storetest/TestFirestore/RollUps_and_Missing"},
	{"audit-bounds", "the walks of the roll-ups use up the audit's reads", "internal/schedule/audit.go",
		`&a.cursor.RollUps, 0, rollUpsShare)`,
		`&a.cursor.RollUps, 0, 1)`, "TestAuditSharesItsReads"},
	{"audit-bounds", "the walks of the roll-ups use up the audit's time", "internal/schedule/audit.go",
		`return time.Since(a.began) >= time.Duration(a.share*float64(a.lastStart.Sub(a.began)))`,
		`return !time.Now().Before(a.lastStart)`, "TestAuditSharesItsTime"},
	{"audit-bounds", "with few reads the shards are never walked", "internal/schedule/audit.go",
		`(pages == 0 || !a.readsUsedUp())`,
		`!a.readsUsedUp()`, "TestAuditWithFewReads"},
	{"audit-bounds", "the walks of the roll-ups wait for those of the shards", "internal/schedule/audit.go",
		`	a.beginLap(&a.cursor.RollUps, rollUps)
	a.beginLap(&a.cursor.Shards, shards)
`,
		`	a.beginLap(&a.cursor.RollUps, a.cursor.Places)
	a.beginLap(&a.cursor.Shards, a.cursor.Places)
`, "TestAuditSharesItsReads"},
	{"server-times", "the read time of a page of roll-ups is not truncated", "../internal/cloud/firestorestore/audit.go",
		`page.ReadTime = doc.ReadTime.Truncate(time.Microsecond)`,
		`page.ReadTime = doc.ReadTime`, "TestReadTimeIsTruncated"},
	{"server-times", "the read time of a page of counters without a roll-up is not truncated", "../internal/cloud/firestorestore/audit.go",
		`page.ReadTime = answer.ReadTime.AsTime().Truncate(time.Microsecond)`,
		`page.ReadTime = answer.ReadTime.AsTime()`, "TestReadTimeIsTruncated"},
	{"both-walks", "slow pages take all of their caller's time", "../internal/cloud/firestorestore/audit.go",
		` || time.Now().After(until) {`,
		` || until.IsZero() {`, "TestSlowPages"},
	{"cursor", "an audit saves at every page once it has saved", "internal/schedule/audit.go",
		`	a.saved = time.Now()
`,
		``, "TestAuditSavesNowAndThen"},
	{"differs", "an audit takes a roll-up that other routes made as it was found", "internal/schedule/decide.go",
		`return !l.AsOf.After(l.ReadTime) && c.decide(l) == actionLeave`,
		`return !l.AsOf.After(l.ReadTime)`, "TestAuditRepairsEveryDifference"},
	{"differs", "an audit takes an as_of in the future as it was found", "internal/schedule/decide.go",
		`return !l.AsOf.After(l.ReadTime) && c.decide(l) == actionLeave`,
		`return c.decide(l) == actionLeave`, "TestAuditRepairsEveryDifference"},
	{"differs", "a difference that the pace keeps is none", "internal/schedule/compare.go",
		`return actionTell, l, 0, err`,
		`return actionLeave, l, 0, err`, "TestAuditLeavesLongCadencesAlone"},
	{"only-finite", "one malformed shard is none", "internal/schedule/report.go",
		`if l.Totals.Malformed > 0 {
		f.report`,
		`if l.Totals.Malformed > 1 {
		f.report`, "TestAuditCountsMalformedShards"},
	{"bounded", "an audit remembers any number of differences", "internal/schedule/audit.go",
		`if a.numWaiting() > maxWaiting {`,
		`if false {`, "TestAuditRemembersSomeDifferences"},
	{"cursor", "a cut audit passes what it had begun", "internal/schedule/audit.go",
		`		return false // what was begun may not be done
`,
		``, "TestCutAuditIsNotComplete"},
	{"cursor", "an audit from the first moves the cursor", "internal/schedule/audit.go",
		`a.o.DryRun || a.o.FromFirst || a.overlapped`,
		`a.o.DryRun || a.overlapped`, "TestAuditFromTheFirst"},
	{"cursor", "an overlapped audit saves", "internal/schedule/audit.go",
		`a.o.FromFirst || a.overlapped || ctx.Err() != nil {`,
		`a.o.FromFirst || ctx.Err() != nil {`, "TestOverlappedAuditStops"},
	{"cursor", "a cut audit saves", "internal/schedule/audit.go",
		`a.o.FromFirst || a.overlapped || ctx.Err() != nil {`,
		`a.o.FromFirst || a.overlapped {`, "TestAuditEndsWithItsContext"},
	{"cursor", "an overlapped audit goes on", "internal/schedule/audit.go",
		`	if ctx.Err() != nil || a.overlapped {
		return true`,
		`	if ctx.Err() != nil {
		return true`, "TestOverlappedAuditStops"},
	{"cursor", "a cut doubt counts as done", "internal/schedule/audit.go",
		`if ctx.Err() == nil { // else it is not done with`,
		`if true { // else it is not done with`, "TestCutDoubtIsNotDone"},
	{"cursor", "after a change of routes no cursor is saved", "internal/schedule/cursor.go",
		`			UpdateTime: c.UpdateTime,
`,
		``, "TestAuditOfOtherRoutes"},
	{"cursor", "a missing cursor tells no time", "../internal/cloud/firestorestore/cursor.go",
		`rollup.Cursor{ReadTime: doc.ReadTime}, nil`,
		`rollup.Cursor{}, nil`, "../internal/cloud/firestorestore/TestCursorOfNothing"},
	{"cursor", "a cursor without paths has one", "../internal/cloud/firestorestore/cursor.go",
		`	if len(s.Quiet) > 0 {
`,
		`	if true {
`, "../internal/cloud/firestorestore/TestCursorOfNothing"},
	{"cursor", "somebody else's cursor stops the audit", "../internal/cloud/firestorestore/cursor.go",
		`		d = cursorDocument{}
`,
		`		return rollup.Cursor{}, err
`, "TestForeignCursor"},
	{"removal", "a roll-up of zeros is removed within its hour", "internal/schedule/decide.go",
		`l.ReadTime.Sub(l.AsOf) > removeAfter`,
		`l.ReadTime.Sub(l.AsOf) > removeAfter/2`, "TestOrphaned"},
	{"removal", "a counter at zero is removed", "internal/schedule/decide.go",
		`l.Totals.Empty() && !l.AsOf.IsZero() && l.ReadTime`,
		`l.Totals.Values["count"].Float64() == 0 && !l.AsOf.IsZero() && l.ReadTime`, "TestAuditKeepsCountersAtZero"},
	{"removal", "documents that meet no condition are none", "route/totals.go",
		`t.NumShards() == 0 && !t.Some`,
		`t.NumShards() == 0`, "TestAuditOfFilteredTotals"},
	{"removal", "documents that meet no condition are none if another route has none", "route/totals.go",
		`all.Some || part.Some`,
		`part.Some`, "TestAuditOfFilteredAndNone"},
	{"renew", "as_of is not renewed while no document meets a condition", "internal/schedule/decide.go",
		`case !l.Totals.Empty() && l.ReadTime`,
		`case l.Totals.NumShards() > 0 && l.ReadTime`, "TestKeepOfFilteredTotals"},
	{"untold", "what a large document has left is drift", "internal/schedule/audit.go",
		`		d.comparison.untold = a.untold(ctx, d.Counter, l.AsOf)
`,
		``, "TestUntold"},
	{"untold", "large events are not noted", "../internal/cloud/app/event.go",
		`		err = database.notes.Untold(reading, source)
`,
		``, "TestLargeEventsAreNoted"},
	{"untold", "a document that was created has left a counter", "../internal/cloud/app/event.go",
		`if !change.Known() && (created.IsZero() || !created.Equal(`,
		`if !change.Known() && (true || !created.Equal(`, "TestLargeEventsAreNoted"},
	{"untold", "what a large document has left is drift in a dry run", "internal/schedule/audit.go",
		`err == nil && (did == actionRepair || did == actionTell)`,
		`err == nil && did == actionRepair`, "TestUntoldInADryRun"},
	{"untold", "a note stands for the moment only", "internal/schedule/note.go",
		`since.Add(-note.Every)`,
		`since`, "TestUntold"},
	{"untold", "one large document's event hides drift forever", "internal/schedule/note.go",
		`since.Add(-note.Every)`,
		`time.Time{}`, "TestUntold"},
	{"untold", "each large document's event is noted", "internal/note/note.go",
		`sent.Sub(last) < Every`,
		`sent.Before(last)`, "TestUntoldAllTheTime"},
	{"untold", "a note that failed counts", "internal/note/note.go",
		`	if errors.Is(err, roll.ErrConflict) {
		return nil
	}
	return err`,
		`	return nil`, "TestUntoldFails"},
	{"untold", "a note that cannot be read hides drift", "internal/schedule/note.go",
		`		return false
	}
	return at.After(after)`,
		`		return true
	}
	return at.After(after)`, "TestUntoldUnread"},
	{"untold", "nothing is noted behind a route without keys", "route/concern.go",
		`		if r.By != nil {
			templates =`,
		`		if r.By == nil {
			return nil
		} else {
			templates =`, "TestUntoldOfSeveralRoutes"},
	{"untold", "one route alone is noted", "internal/note/note.go",
		`		err := n.write(ctx, untoldID(t))
`,
		`		return n.write(ctx, untoldID(t))
		var err error
`, "TestUntoldOfSeveralRoutes"},
	{"removal", "a roll-up is removed whatever was written meanwhile", "internal/schedule/compare.go",
		`		return did, l, 0, a.Remove(looking, &l)`,
		`		if v, err := a.store.View(looking, c); err == nil {
			l.RollUp = v.RollUp()
		}
		return did, l, 0, a.Remove(looking, &l)`, "TestRemovalHasItsPrecondition"},
	{"removal", "a removal takes the app's fields along", "../internal/test/memstore/memstore.go",
		`if len(fields) > 0 || c.Template.Existing {`,
		`if false {`, "TestRemovalKeepsTheAppsFields"},
	{"removal", "a removal takes the app's fields along in Firestore", "../internal/cloud/firestorestore/audit.go",
		`if len(others)+len(r.Tally.Before) > 0 || c.Template.Existing {`,
		`if c.Template.Existing {`, "../internal/test/storetest/TestFirestore/Remove"},
	{"removal", "a removal takes the app's own document along in Firestore", "../internal/cloud/firestorestore/audit.go",
		`if len(others)+len(r.Tally.Before) > 0 || c.Template.Existing {`,
		`if len(others) > 0 {`, "../internal/test/storetest/TestFirestore/Remove"},
	{"removal", "Firestore removes a roll-up whatever was written meanwhile", "../internal/cloud/firestorestore/audit.go",
		`unchanged := firestore.LastUpdateTime(r.UpdateTime)`,
		`unchanged := firestore.Exists`, "../internal/test/storetest/TestFirestore/Remove_is_refused"},
	{"grace", "a difference is repaired before its grace is over", "internal/schedule/decide.go",
		`case c.grace && !c.graceOver && !l.AsOf.IsZero() && !l.Rerouted():`,
		`case false:`, "TestDrift"},
	{"grace", "a made-up time of the last sum hides drift", "internal/roll/publish.go",
		`return min(r.Tally.Took, maxWriteAge)`,
		`return r.Tally.Took`, "TestDriftBehindATimeThatIsMadeUp"},
	{"grace", "the grace is shorter than a redelivery takes", "internal/schedule/options.go",
		`cadence + 2*holdLimit + redelivery`,
		`cadence + 2*holdLimit + redelivery - 5*time.Second`, "TestGrace"},
	{"other-routes", "a roll-up of other routes ends a comparison", "internal/schedule/decide.go",
		`return c.from.IsZero() || l.CoveredUntil().Before(c.from)`,
		`return c.from.IsZero() || l.AsOf.Before(c.from)`, "internal/schedule/TestNeedsSum"},
	{"grace", "a difference that a roll-up has covered is drift", "internal/schedule/decide.go",
		`return c.from.IsZero() || l.CoveredUntil().Before(c.from)`,
		`return c.from.IsZero() || l.CoveredUntil().Before(l.ReadTime)`, "TestBusyCounterDoesNotDrift"},
	{"grace", "a difference is drift although another wrote the roll-up", "internal/schedule/decide.go",
		`lasted := c.graceOver && l.AsOf.Equal(c.asOf)`,
		`lasted := c.graceOver`, "TestNoDriftAfterAnothersRollUp"},
	{"other-routes", "a roll-up of other routes is drift", "internal/schedule/decide.go",
		`	case l.Rerouted():
		return differenceRerouted
`,
		``, "TestRerouted"},
	{"other-routes", "roll-ups of other routes are not left alone", "internal/schedule/decide.go",
		`case l.Rerouted() && c.o.KeepRerouted || `,
		`case `, "TestRerouted"},
	{"cursor", "the cursor passes what waits for its grace", "internal/schedule/audit.go",
		`c.Places[d.walk] = d.before`,
		`_ = d`, "TestKilledAudits"},
	{"cursor", "the cursor is kept although the routes are others", "internal/schedule/cursor.go",
		`c.Routes != routes.String() || len(c.Places)`,
		`len(c.Places)`, "TestCursorHoldsOnItsRoutes"},
	{"cursor", "the cursor may hold other places than there are routes", "internal/schedule/cursor.go",
		`	if c.Routes != routes.String() || len(c.Places) != places(routes) {`,
		`	if c.Places = c.Places[:min(len(c.Places), places(routes))]; c.Routes != routes.String() || len(c.Places) != places(routes) {`, "TestCursorHoldsOnItsRoutes"},
	{"cursor", "a route that is done does not wait for the others", "internal/schedule/cycle.go",
		`first || cuts || due && !left`,
		`first || cuts || due && (!left || true)`, "TestTemplatesShareACall"},
	{"cursor", "a page that fails keeps the others from starting over", "internal/schedule/audit.go",
		`		place.Failed = true
`,
		``, "TestFailedPageHoldsUpNoOne"},
	{"cursor", "a page that fails ends its route", "internal/schedule/audit.go",
		`		place.Failed = true
`,
		`		*place = Place{Done: true}
`, "TestFailedPageKeepsItsPlace"},
	{"cursor", "an audit is complete although a page failed", "internal/schedule/cursor.go",
		`	return !slices.ContainsFunc(places, func(p Place) bool { return !p.Done })`,
		`	return !slices.ContainsFunc(places, func(p Place) bool { return !p.Done && !p.Failed })`, "TestFailedPageKeepsItsPlace"},
	{"cursor", "a cycle is from tick to tick", "internal/schedule/cursor.go",
		`c.Cycle = at.Sub(c.Complete)`,
		`c.Cycle = at.Sub(c.Tick)`, "TestCycle"},
	{"cursor", "an audit is complete when the walks of the roll-ups are", "internal/schedule/audit.go",
		`a.report.Complete = a.cursor.RollUps.Ended && a.cursor.Shards.Ended`,
		`a.report.Complete = a.cursor.RollUps.Ended`, "TestAuditSharesItsReads"},
	{"cursor", "an audit is complete only if all walks end in one", "internal/schedule/audit.go",
		`a.cursor.RollUps.Ended = a.cursor.RollUps.Ended || complete(rollUps)`,
		`a.cursor.RollUps.Ended = complete(rollUps)`, "TestAuditSharesItsReads"},
	{"cycle", "a cycle begins at each call", "internal/schedule/cycle.go",
		`	return passed >= c.takes, false
`,
		`	return true, false
`, "TestCallBetweenCycles"},
	{"cycle", "a cycle's reads are not spread", "internal/schedule/cycle.go",
		`return passed >= c.takes || float64(p.Reads)`,
		`return true || float64(p.Reads)`, "TestAtRest"},
	{"cycle", "a walk is not ended within its cycle", "internal/schedule/cycle.go",
		`	passed := c.cursor.ReadTime.Sub(l.Began) + c.o.Every
`,
		`	passed := c.cursor.ReadTime.Sub(l.Began) / 2
`, "TestAtRest"},
	{"cycle", "the reads of the last cycle are forgotten", "internal/schedule/cycle.go",
		`		reads += p.Last
`,
		`		reads += 0 * p.Last
`, "TestAtRest"},
	{"cycle", "a call that has nothing to do saves its cursor", "internal/schedule/audit.go",
		`	if !a.changed || a.o.DryRun`,
		`	if a.o.DryRun`, "TestCallBetweenCycles"},
	{"cycle", "a call that has nothing to do ends a cycle", "internal/schedule/audit.go",
		` || complete(rollUps) && !a.wasComplete[0]
	a.cursor.Shards.Ended = a.cursor.Shards.Ended || complete(shards) && !a.wasComplete[1]`,
		` || complete(rollUps)
	a.cursor.Shards.Ended = a.cursor.Shards.Ended || complete(shards)`, "TestCallBetweenCycles"},
	{"cycle", "a dry run waits for its cycle", "internal/schedule/cycle.go",
		`	if c.o.Cycle == nil || c.o.DryRun {`,
		`	if c.o.Cycle == nil {`, "TestDryRunBetweenCycles"},
	{"cycle", "an emulator's calls are spread", "../internal/cloud/config/budget.go",
		`	case c.EmulatorHost != "":
		return 0
`,
		``, "../internal/cloud/config/TestTakes"},
	{"cycle", "a cycle takes a day at most only by TALLY_AUDIT", "../internal/cloud/config/budget.go",
		`return min(max(affordable, shortestAuto), longestAuto)`,
		`return max(affordable, shortestAuto)`, "../internal/cloud/config/TestTakes"},
	{"audit-bounds", "a walk goes on until its end", "internal/schedule/cycle.go",
		`if !ok || done < behind {`,
		`if !ok || done < behind && false {`, "TestTemplatesShareACall"},
	{"new", "nothing is new", "internal/schedule/cycle.go",
		`		c.cursor.New = c.cursor.ReadTime
		c.changed = true
`,
		``, "TestNewIsAuditedAtOnce"},
	{"new", "a revision is never new", "internal/schedule/cycle.go",
		` && last.Revision == o.Revision`,
		``, "TestNewIsAuditedAtOnce"},
	{"new", "a database is never new", "internal/schedule/cycle.go",
		` && last.Database == o.Database`,
		``, "TestNewIsAuditedAtOnce"},
	{"new", "a new revision has one cycle", "internal/schedule/cycle.go",
		`newFor = 10 * time.Minute`,
		`newFor = 0`, "TestNewTriggerStartsAfterACycle"},
	{"new", "the cycle that begins after ten minutes is spread", "internal/schedule/cycle.go",
		`c.takes == 0 || l.Hurried || c.cursor.isNew(l)`,
		`c.takes == 0 || c.cursor.isNew(l)`, "TestNewTriggerStartsLate"},
	{"new", "another queue is no purge", "internal/schedule/cycle.go",
		`o.Purged = roll.Later(o.Purged, c.cursor.Moved)`,
		``, "TestQueueMoved"},
	{"new", "another queue is a purge for good", "internal/schedule/cycle.go",
		`		c.cursor.Moved = c.cursor.ReadTime
`,
		`		c.cursor.Moved = c.cursor.ReadTime.Add(24 * time.Hour)
`, "TestQueueMoved"},
	{"new", "each revision starts over", "internal/schedule/cycle.go",
		`		c.cursor.New = c.cursor.ReadTime
`,
		`		c.cursor.New, c.cursor.Places = c.cursor.ReadTime, make([]Place, len(c.cursor.Places))
`, "TestManyRevisions"},
	{"note-all", "a note is not read", "internal/schedule/note.go",
		`			a.noted = roll.Later(a.noted, n.UpdateTime)
`,
		``, "TestNoteAboutAll"},
	{"note-all", "a repair by a command takes no note away", "internal/schedule/note.go",
		`	if a.o.DryRun {
		return`,
		`	if a.o.FromFirst || a.o.DryRun {
		return`, "TestRepairTakesNotesAway"},
	{"note-all", "a repair by a command that leaves a counter takes all notes away", "internal/schedule/note.go",
		`if !done || a.o.FromFirst && leaves {`,
		`if !done || false && leaves {`, "TestRepairTakesNotesAway"},
	{"note-all", "each note begins a cycle", "internal/schedule/cycle.go",
		`noted && passed >= max(leastNoted, c.takes/2)`,
		`noted`, "internal/schedule/TestNoteWaits"},
	{"note-all", "a note begins a cycle every hour", "internal/schedule/cycle.go",
		`max(leastNoted, c.takes/2)`,
		`leastNoted`, "internal/schedule/TestNoteWaits"},
	{"note-all", "a note's cycle waits for the one under way", "internal/schedule/cycle.go",
		`cuts := due && hurried && !c.isHurried(l)`,
		`cuts := false`, "TestNoteAboutAll"},
	{"note-all", "notes all the time keep a long walk from its end", "internal/schedule/cycle.go",
		`cuts := due && hurried && !c.isHurried(l)`,
		`cuts := due && hurried`, "TestNotesDuringALongCycle"},
	{"note-all", "a note is deleted when its cycle begins", "internal/schedule/note.go",
		`done := complete(a.cursor.Places) && n.UpdateTime`,
		`done := n.UpdateTime`, "TestNoteStaysUntilTheEnd"},
	{"note-all", "a note stands for no event after it", "internal/schedule/note.go",
		`n.UpdateTime.Before(before.Add(-note.Every))`,
		`n.UpdateTime.Before(before)`, "TestNoteStandsForAMinute"},
	{"note-all", "an event without a route is dropped without a note", "../internal/cloud/app/event.go",
		`		d.err = s.noteDropped(ctx, d)
`,
		``, "../internal/cloud/app/TestDroppedIsNoted"},
	{"note-all", "the counters that a note names are not looked at", "internal/schedule/audit.go",
		`	a.examineNoted(ctx)
`,
		``, "TestNamedCounters"},
	{"note-all", "a note stays", "internal/schedule/audit.go",
		`	a.settleNotes(ctx)
`,
		``, "TestNamedCounters"},
	{"note-all", "a counter that failed is done with", "internal/note/note.go",
		`if !left[path] && counters[path].Equal(at) {`,
		`if counters[path].Equal(at) {`, "TestNamedCountersStay"},
	{"note-all", "a counter that was noted again is done with", "internal/note/note.go",
		`if !left[path] && counters[path].Equal(at) {`,
		`if !left[path] && !at.IsZero() {`, "TestNamedCountersStay"},
	{"note-all", "a note names any number of counters", "internal/note/note.go",
		`full = !named && len(counters) >= Most`,
		`full = named && false`, "TestManyNamedCounters"},
	{"note-all", "a counter that a full note does not name is forgotten", "internal/note/note.go",
		`	if err == nil && full {
		err = n.All(ctx)
	}
`,
		``, "TestManyNamedCounters"},
	{"lapsed", "unkept counters beyond the first hundred are not tried", "internal/schedule/note.go",
		`	a.notes = append(a.notes, more...)
`,
		``, "TestManyUnkept"},
	{"lapsed", "the same unkept counters are tried each time", "internal/schedule/note.go",
		`after := max(a.cursor.Noted, notes[len(notes)-1].ID)`,
		`after := notes[len(notes)-1].ID`, "TestManyUnkept"},
	{"lapsed", "the note of an unkept counter is deleted while an instance pauses", "internal/schedule/note.go",
		`if left[path] || !n.UpdateTime.Before(a.cursor.ReadTime.Add(-note.LongestUnkept)) {`,
		`if left[path] {`, "TestUnkeptNoteOfAPause"},
	{"lapsed", "the note of a counter that is still unkept is deleted", "internal/schedule/note.go",
		`if left[path] || !n.UpdateTime`,
		`if path == "" || !n.UpdateTime`, "TestManyUnkept"},
	{"missing-covers", "a look that finds a document missing makes no alarm", "internal/events/prober.go",
		`		c.awaitDocument(ctx, s, &l)
`,
		``, "TestDocumentIsCreatedLater"},
	{"missing-covers", "alarms of a missing document never end", "internal/events/missing.go",
		`next := g.missing + 1`,
		`next := min(g.missing+1, len(missingAfter))`, "TestDocumentIsCreatedLater"},
	{"missing-covers", "each alarm that waits has one more made", "internal/events/missing.go",
		`return slices.Compact(numbers)`,
		`return numbers`, "TestManyAlarmsAwaitADocument"},
	{"missing-covers", "each event makes an alarm of a missing document", "internal/events/missing.go",
		`roll.OnGrid(s.counter.RollUp, after/2, l.ReadTime.Add(after))`,
		`l.ReadTime.Add(after)`, "TestMissingAgain"},
	{"missing-covers", "an alarm that rings early makes the next one", "internal/events/missing.go",
		`if !g.coveredFrom.After(l.ReadTime) && next <= len(missingAfter) {`,
		`if next <= len(missingAfter) {`, "TestDocumentIsCreatedLater"},
	{"missing-covers", "an alarm that was refused is not tried again", "internal/events/missing.go",
		`c.createTwice(ctx, s, a)`,
		`c.roller.CreateAlarm(ctx, a)`, "TestQueueRefusesWhileDocumentIsMissing"},
	{"missing-covers", "a document without an alarm is not noted", "internal/events/missing.go",
		`			c.noteMissingAlarm(ctx, l)
`,
		``, "TestQueueRefusesWhileDocumentIsMissing"},
	{"note-all", "a noted counter whose document is missing is done with", "internal/schedule/note.go",
		`d.left = time.Since(at) < note.MissingFor`,
		`_ = at`, "TestQueueRefusesWhileDocumentIsMissing"},
	{"note-all", "a noted counter whose document is missing stays for good", "internal/schedule/note.go",
		`d.left = time.Since(at) < note.MissingFor`,
		`d.left = !at.IsZero()`, "TestQueueRefusesWhileDocumentIsMissing"},
	{"new", "a purge begins no cycle", "internal/schedule/cycle.go",
		` || c.o.Purged.After(l.Began) || c.o.Stopped`,
		` || c.o.Stopped`, "TestPurged"},
	{"new", "a queue that does not run begins no cycle", "internal/schedule/cycle.go",
		` || c.o.Purged.After(l.Began) || c.o.Stopped`,
		` || c.o.Purged.After(l.Began)`, "TestPurged"},
	{"new", "each cycle makes all alarms again", "internal/schedule/cycle.go",
		`Remake:  c.o.Purged.After(l.Began)`,
		`Remake:  !c.o.Purged.IsZero()`, "TestPurgedOnce"},
	{"new", "the first cycle trusts alarms that were purged", "internal/schedule/cycle.go",
		`Remake:  c.o.Purged.After(l.Began)`,
		`Remake:  !first && c.o.Purged.After(l.Began)`, "TestPurgedBeforeTheFirstCycle"},
	{"new", "an audit trusts alarms that were purged", "internal/schedule/compare.go",
		`	l.AlarmGone = k.remake
`,
		``, "TestPurged"},
	{"new", "an alarm that was purged is not made again if its counter is not due", "internal/schedule/compare.go",
		`		err = a.CreateDueAlarm(looking, &l, p)
`,
		``, "TestPurged"},
	{"note-all", "a roll-up without its alarm is not noted", "internal/events/chain.go",
		`	err := c.notes.Counter(noting, l.Counter)
`,
		`	err := noting.Err()
`, "TestWindowWithoutAnAlarm"},
	{"cursor", "an audit goes on although another is at work", "internal/schedule/audit.go",
		`	case errors.Is(err, roll.ErrConflict):
		a.overlapped = true
`,
		`	case errors.Is(err, roll.ErrConflict):
`, "TestAuditsOverlap"},
	{"audit-bounds", "an audit's reads have no bound", "internal/schedule/audit.go",
		`return a.o.MaxReads > 0 && float64(a.o.Reads()) >= a.share*float64(a.o.MaxReads)`,
		`return false`, "TestAuditReadsNoMore"},
	{"audit-bounds", "an audit's time has no bound", "internal/schedule/audit.go",
		`return time.Since(a.began) >= time.Duration(a.share*float64(a.lastStart.Sub(a.began)))`,
		`return false`, "TestAuditStopsInTime"},
	{"audit-bounds", "a grace that is longer because of long sums ends too late", "internal/schedule/audit.go",
		` && a.canWait(f.RollUp)`,
		``, "TestAuditHasNoTimeForALongSumsGrace"},
	{"audit-bounds", "counters whose sums time out are tried when the time is over", "internal/schedule/compare.go",
		`	if a.o.Until.IsZero() {
		return ctx`,
		`	if true {
		return ctx`, "TestAuditOfHangingSumsStopsInTime"},
	{"differs", "a dry run repairs", "internal/schedule/decide.go",
		`if c.o.DryRun {`,
		`if false {`, "TestDryRun"},
	{"former", "any write takes former totals away", "internal/roll/publish.go",
		`if r.Prune {`,
		`if true {`, "TestPrune"},
	{"former", "an audit takes no former totals away", "internal/roll/publish.go",
		`if r.Prune {`,
		`if false {`, "TestPrune"},
	{"differs", "a dry run removes", "internal/schedule/decide.go",
		`case (l.Agrees() && removable(l) || ownerIsGone(l)) && !c.o.DryRun:`,
		`case l.Agrees() && removable(l) || ownerIsGone(l):`, "TestDryRun"},
	{"differs", "a dry run takes former totals away", "internal/schedule/decide.go",
		`len(l.RollUp.Tally.Former) > 0:
		return repair`,
		`len(l.RollUp.Tally.Former) > 0:
		return actionRepair`, "TestPrune"},
	{"differs", "a dry run saves its cursor", "internal/schedule/audit.go",
		`!a.changed || a.o.DryRun || a.o.FromFirst`,
		`!a.changed || a.o.FromFirst`, "TestDryRun"},

	{"both-walks", "the place behind an id of 1,500 bytes is longer than Firestore allows", "../internal/cloud/firestorestore/audit.go",
		` || len(ids[i]) == document.LongestID {`,
		` {`, "TestPlaceBehindAnID"},
	{"both-walks", "the place behind a text is longer than Firestore allows", "../internal/cloud/firestorestore/bytime.go",
		`if len(text) < route.LongestGroup {`,
		`if len(text) <= route.LongestGroup {`, "TestPlaceBehindAText"},
	{"both-walks", "numeric ids are taken for others", "../internal/cloud/firestorestore/audit.go",
		`strings.HasPrefix(ids[i], "__id") || `,
		``, "TestPlaceBehindAnID"},
	{"both-walks", "a numeric id comes behind the pattern's own", "../internal/cloud/firestorestore/audit.go",
		` && !isNumeric(ids, i)`,
		``, "../internal/cloud/firestorestore/TestPlaces"},
	{"both-walks", "a counter is found again by its other shards", "../internal/cloud/firestorestore/audit.go",
		`strings.Join(ids[:i+2], "/") + "\x00/" + firstID`,
		`strings.Join(ids, "/")`, "TestPlaceBehindAnID"},
	{"both-walks", "a page queries until it is full", "../internal/cloud/firestorestore/audit.go",
		` && page.Reads < int64(2*limit) {`,
		` {`, "TestForeignCollections"},
	{"both-walks", "a page that ends early ends the walk", "../internal/cloud/firestorestore/audit.go",
		`	return page, nil
}

// Missing implements`,
		`	if len(page.Found) < limit {
		page.Next = ""
	}
	return page, nil
}

// Missing implements`, "TestForeignCollections"},

	{"hold-limit", "the app sets no hold limit", "../internal/cloud/app/database.go",
		`Hold:        s.config.HoldLimit,`,
		``, "TestHoldLimit"},
	{"calls-end", "a call may take as long as an event is held", "../internal/cloud/app/database.go",
		`Timeout:     s.config.HoldLimit / 2`,
		`Timeout:     s.config.HoldLimit`, "TestEventOutlivesOneCall"},
	{"unchanged-young", "what an event changes is not passed on", "route/concern.go",
		`concern(before, same || `,
		`concern(before, same && false || `, "../internal/cloud/app/TestEditsCostNothing"},
	{"unchanged-young", "no field that is summed is looked for in events", "route/concern.go",
		`w.Updated() && !slices.ContainsFunc(r.reads, w.Changed)`,
		`w.Updated()`, "../internal/cloud/app/TestEditsCostNothing"},
	{"permanent", "the app serves any project", "../internal/cloud/app/event.go",
		`if change.Project != s.config.Project || `,
		`if `, "TestUnserved"},
	{"permanent", "the app serves any database", "../internal/cloud/app/event.go",
		`!slices.Contains(s.config.Databases, change.Database) {`,
		`false {`, "TestUnserved"},
	{"differs", "a dry run writes", "../internal/cloud/app/schedule.go",
		`o.DryRun = t.report.DryRun`,
		`o.DryRun = false`, "TestDryRun"},
	{"differs", "a dry run that is asked for in other words writes", "../internal/cloud/app/app.go",
		`	if err != nil {
		http.Error(w, fmt.Sprintf("dry_run=%q: `,
		`	if err != nil && text == "" {
		http.Error(w, fmt.Sprintf("dry_run=%q: `, "TestScheduleWantsDryRunToBeABoolean"},
	{"databases-apart", "a database that is long in opening keeps the others from it", "../internal/cloud/app/database.go",
		`s.opening.DoChan(id, func`,
		`s.opening.DoChan("any", func`, "TestSlowOpen"},
	{"databases-apart", "a database that fails stops the rest", "../internal/cloud/app/schedule.go",
		`error { return t.audit(ctx, d, r, until) })`,
		`error { return t.audit(ctx, d, r, until) })
		if len(t.report.Errors) > 0 {
			break
		}`, "TestFirstDatabaseFails"},
	{"permanent", "a malformed event is delivered again", "../internal/cloud/app/outcome.go",
		`errors.Is(err, trigger.ErrMalformed), `,
		``, "TestMalformedEvent"},
	{"permanent", "an event without a route is delivered again", "../internal/cloud/app/outcome.go",
		`errors.Is(err, errNoRoute), `,
		``, "TestClassify"},
	{"permanent", "an event of another database is delivered again", "../internal/cloud/app/outcome.go",
		`, errors.Is(err, errUnserved):`,
		`:`, "TestUnserved"},
	{"permanent", "whatever fails is acknowledged", "../internal/cloud/app/outcome.go",
		`		return failed
`,
		`		return dropped
`, "TestClassify"},
	{"permanent", "an alarm of another project is one of this", "../internal/cloud/app/alarm.go",
		`resource != s.resourceName(id) || `,
		``, "../internal/cloud/app/TestAlarmRefused"},
	{"permanent", "an event of JSON is refused as an alarm", "../internal/cloud/app/alarm.go",
		`r.Header.Get("Ce-Specversion") == "" && `,
		``, "../internal/cloud/app/TestMalformedEvent"},
	{"permanent", "an event whose decoding panics is acknowledged", "../internal/cloud/app/app.go",
		`	limitBodyTime(w, r, s.config.HoldLimit)
`,
		`	limitBodyTime(w, r, s.config.HoldLimit)
	defer func() { _ = http.NewResponseController(w).Flush() }()
`, "TestPanicIsNotAnswered"},
	{"permanent", "a dropped event is no error", "../internal/cloud/app/event.go",
		`logger.ErrorContext(ctx, message, "unlogged"`,
		`logger.WarnContext(ctx, message, "unlogged"`, "TestUnserved"},
	{"unchanged-everywhere", "two nulls are equal", "../internal/cloud/trigger/trigger.go",
		`	return c.MayHideTime(f) || !proto.Equal(now, before)`,
		`	return !proto.Equal(now, before)`, "../internal/cloud/trigger/TestNullMayHaveChanged"},
	{"pushed-raw", "a raw push is no event", "../internal/cloud/trigger/request.go",
		`version == "" && fromEventarc(r)`,
		`false`, "../internal/cloud/app/TestOddEvents"},
	{"pushed-raw", "an attribute of a push ends at a space", "../internal/cloud/trigger/request.go",
		`return attributes[name]`,
		`var word string
		_, _ = fmt.Sscan(attributes[name], &word)
		return word`, "../internal/cloud/trigger/TestPushedAttributes"},
	{"pushed-raw", "the data of a push is not read", "../internal/cloud/trigger/request.go",
		`push.Message.Data
`,
		`nil
`, "../internal/cloud/trigger/TestFromRequest"},
	{"pushed-raw", "a push that cannot be read is refused", "../internal/cloud/trigger/request.go",
		`Errorf("%w: its version is %q, not %s", ErrMalformed,`,
		`Errorf("%w: its version is %q, not %s", ErrNoEvent,`, "../internal/cloud/trigger/TestFromRequest"},
	{"retries-on", "a trigger with a single attempt passes", "../internal/tool/deploy/triggers.go",
		`if canonical(attempts) != "" {`,
		`if false {`, "../internal/tool/deploy/TestRetriesOn"},
	{"order-of-deploy", "the functions change before the triggers of old routes are gone", "../internal/tool/deploy/order.go",
		`	d.addDropped(&p, surplus)
	p.Steps = append(p.Steps, lacks[n:]...)
`,
		`	p.Steps = append(p.Steps, lacks[n:]...)
	d.addDropped(&p, surplus)
`, "../internal/tool/deploy/TestOrder"},
	{"order-of-deploy", "nothing waits for the last events of old routes", "../internal/tool/deploy/order.go",
		`return sleep(ctx, redelivery)`,
		`return sleep(ctx, 0)`, "../internal/tool/deploy/TestOrder"},
	{"order-of-deploy", "triggers of new routes come before the functions know them", "../internal/tool/deploy/order.go",
		`func (p *Plan) add(s *Step) { p.Steps = append(p.Steps, s) }`,
		`func (p *Plan) add(s *Step) { p.Steps = slices.Insert(p.Steps, 0, s) }`, "../internal/tool/deploy/TestOrder"},
	{"order-of-deploy", "nothing is audited after a deployment", "../internal/tool/deploy/order.go",
		`if touched && !paused {`,
		`if touched && !paused && len(p.Steps) == 0 {`, "../internal/tool/deploy/TestOrder"},
	{"order-of-deploy", "functions that stay have no note about new triggers", "../internal/tool/deploy/order.go",
		`if onlyTriggers {`,
		`if onlyTriggers && false {`, "../internal/tool/deploy/TestRetriesOn"},
	{"unindexed-tally", "the field tally is indexed", "../internal/tool/deploy/fields.go",
		`		add(FieldConfig{CollectionGroup: template.CollectionID(), Path: document.TallyField})
`,
		`		_ = template
`, "../internal/tool/deploy/TestFields"},
	{"audit-bounds", "a tick's audit knows no end", "../internal/cloud/app/schedule.go",
		`o.Until = until`,
		`_ = until`, "TestTickEndsInTime"},
	{"audit-bounds", "a tick reads without bound", "../internal/cloud/app/schedule.go",
		`o.MaxReads, o.Reads = t.config.AuditReads, func`,
		`o.MaxReads, o.Reads = 0, func`, "../e2e/apps/TestScheduleStopsAtItsReads"},
	{"shares", "a tick keeps counters by the bound of audits", "../internal/cloud/app/schedule.go",
		`MaxReads:    t.config.KeepReads,`,
		`MaxReads:    t.config.AuditReads,`, "TestReadsOfATick"},
	{"pace", "an audit paces live routes without their burst", "../internal/cloud/config/budget.go",
		`Burst: c.Burst, `,
		``, "../internal/cloud/config/TestAuditOptions"},

	{"sent-twice", "a commit of Set that was not answered has another token when it is sent again", "../shards/once.go",
		`errors.Join(tx.Create(token, fields), `,
		`errors.Join(tx.Create(token.Parent.NewDoc(), fields), `, "TestSetSentLate"},
	{"grows-by-itself", "the number of shards is told before they are there", "../shards/resize.go",
		`	err = c.createShards(ctx, has, n, nil)
	if err != nil {
		return err
	}
`,
		`	defer func() { _ = c.createShards(ctx, has, n, nil) }()
`, "TestResizeUpCutShort"},
	{"grows-by-itself", "a raise tells the number of shards without creating them", "../internal/cloud/firestorestore/growth.go",
		`range r.Shards {`,
		`range r.Shards[:0] {`, "../internal/test/storetest/TestFirestore/Raise"},
	{"grows-by-itself", "a raise overwrites the number that was written meanwhile", "../internal/cloud/firestorestore/growth.go",
		`tx.Update(s.client.Doc(r.Counter), update, firestore.LastUpdateTime(r.UpdateTime))`,
		`tx.Update(s.client.Doc(r.Counter), update)`, "../internal/test/storetest/TestFirestore/Raise_is_refused"},
	{"grows-by-itself", "a raise overwrites a shard that is there", "../internal/cloud/firestorestore/growth.go",
		`tx.Set(s.client.Doc(shard.Path), fields, firestore.MergeAll)`,
		`tx.Set(s.client.Doc(shard.Path), fields)`, "../internal/test/storetest/TestFirestore/Raise"},
	{"grows-by-itself", "an event waits for a look however long", "../internal/cloud/growth/growth.go",
		`ctx, cancel := context.WithTimeout(ctx, timeout)`,
		`ctx, cancel := context.WithCancel(ctx)`, "../internal/cloud/app/TestGrowthFails"},
	{"grows-by-itself", "one shard that somebody floods is enough", "../internal/cloud/growth/growth.go",
		`return 2*number > len(ages)`,
		`return number > 0`, "../internal/cloud/app/TestGrowsNotByJunk"},
	{"grows-by-itself", "one shard that somebody floods is enough if there are few", "../internal/cloud/growth/growth.go",
		`	if n < sampled { // a look`,
		`	if false { // a look`, "TestFloodOfOneShard"},
	{"grows-by-itself", "one look is enough", "../internal/cloud/growth/growth.go",
		`if w.hot < looks {`,
		`if w.hot < 1 {`, "TestRunning"},
	{"grows-by-itself", "a shard that is seldom written is looked at", "../internal/cloud/growth/growth.go",
		`if since > seldom {`,
		`if false && since > seldom {`, "TestWritten"},
	{"grows-by-itself", "three looks need not be running", "../internal/cloud/growth/growth.go",
		`	case !mostlyYoung(look.Ages):
		w.hot, w.ages = 0, nil
`,
		`	case !mostlyYoung(look.Ages):
`, "../internal/cloud/growth/TestRunning"},
	{"grows-by-itself", "a shard that was written long ago does not count against a run", "../internal/cloud/growth/growth.go",
		`	if since > seldom {
		w.hot, w.ages = 0, nil
`,
		`	if since > seldom {
`, "../internal/cloud/growth/TestRunningEndsWithoutALook"},
	{"grows-by-itself", "looks of long ago count", "../internal/cloud/growth/growth.go",
		`	w.ages = w.ages[max(0, len(w.ages)-looks*sampled):]
`,
		``, "../internal/cloud/growth/TestRaiseRefused"},
	{"grows-by-itself", "a shard has a number below zero", "../internal/cloud/growth/growth.go",
		`err == nil && number >= 0 && `,
		`err == nil && `, "../internal/cloud/growth/TestWritten"},
	{"grows-by-itself", "a new shard has its counter looked at", "../internal/cloud/app/event.go",
		`!d.ending.Held || d.err != nil || !d.updated`,
		`!d.ending.Held || d.err != nil`, "../internal/cloud/app/TestNewShardsAreNotLookedAt"},
	{"grows-by-itself", "a number that somebody gave is raised", "../internal/cloud/growth/growth.go",
		`fields[document.AutoShardsField] != true || `,
		``, "TestWritten"},
	{"grows-by-itself", "resize leaves the number to be raised", "../shards/resize.go",
		`fields[document.AutoShardsField] = firestore.Delete`,
		`_ = document.AutoShardsField`, "TestResize"},
	{"fold-once", "a fold overwrites the shard that came meanwhile", "../internal/tool/migration/fold.go",
		`return tx.Set(shard, increments, firestore.MergeAll)`,
		`return tx.Set(shard, increments)`, "TestFoldRaces"},
	{"fold-once", "a fold takes a shard that has grown since it was read", "../internal/tool/migration/fold.go",
		`tx.Delete(surplus.Ref, firestore.LastUpdateTime(surplus.UpdateTime))`,
		`tx.Delete(surplus.Ref)`, "TestFoldRaces"},
	{"fold-once", "a document that holds more than numbers is folded", "../internal/tool/migration/fold.go",
		`if !holds.whole {`,
		`if false && !holds.whole {`, "TestFold"},
	{"configured-first", "a revision that cannot read its configuration takes the traffic", "../functions.go",
		`err := service.Configure()`,
		`var err error`, "../TestMisconfigured"},
	{"configured-first", "a cadence that needs alarms is taken without a queue", "../internal/cloud/app/app.go",
		`return nil, c.CheckAlarms()`,
		`return nil, nil`, "TestCadenceNeedsAQueue"},
	{"reports", "a late roll-up is not warned of", "../internal/cloud/app/lag.go",
		`if lag > s.config.Grace() {`,
		`if lag > 2*s.config.Grace() {`, "TestLateRollUp"},
	{"reports", "an event without a time is late", "../internal/cloud/app/lag.go",
		` || d.change.Committed.IsZero() {`,
		` {`, "TestEventWithoutATime"},
	{"reports", "each lag is logged", "../internal/cloud/app/lag.go",
		`last != 0 && now`,
		`false && now`, "TestSampledLag"},
	{"reports", "an unkept counter's event has a lag", "../internal/cloud/app/lag.go",
		`d.outcome != covered ||`,
		`!d.ending.Held ||`, "TestLagOfUnkept"},
	{"reports", "the price of a first call is known", "../internal/cloud/app/schedule.go",
		`	if r.Since > 0 {
`,
		`	if r.Cycle >= 0 {
`, "TestPrice"},
	{"each-done", "an event without a counter opens its database", "../internal/cloud/app/event.go",
		`if err != nil || len(d.concerns) == 0 {`,
		`if err != nil {`, "../internal/cloud/app/TestNoGroup"},
	{"memory", "however many large events are read at once", "../internal/cloud/app/body.go",
		`	if b.alone {
		return nil
	}
`,
		`	if b.alone || n > 0 {
		return nil
	}
`, "TestLargeEventsWait"},
	{"memory", "large events wait for each other", "../internal/cloud/app/body.go",
		`semaphore.NewWeighted(1)`,
		`semaphore.NewWeighted(0)`, "TestLargeEventsWait"},
	{"memory", "a held event keeps its body", "../internal/cloud/app/event.go",
		`	event.Data = nil
`,
		``, "TestHeldEventsKeepNoBodies"},
	{"memory", "a held event keeps its documents", "../internal/cloud/app/event.go",
		`	d.change = d.change.WithoutDocuments()
`,
		``, "TestHeldEventsKeepNoBodies"},
	{"memory", "an event waits for memory however long", "../internal/cloud/app/body.go",
		`b.memory.alone.Acquire(b.ctx, 1)`,
		`b.memory.alone.Acquire(context.WithoutCancel(b.ctx), 1)`, "TestLargeEventIsNotHeldForever"},
	{"memory", "a body counts before it comes", "../internal/cloud/app/body.go",
		`	n, err := b.ReadCloser.Read(p[:min(len(p), chunk)])
`,
		`	_ = b.count(maxDecoding - b.taken)
	n, err := b.ReadCloser.Read(p[:min(len(p), chunk)])
`, "TestBodyThatNeverComes"},
	{"memory", "a body may come however late", "../internal/cloud/app/body.go",
		`connection.SetReadDeadline(time.Now().Add(within))`,
		`connection.SetReadDeadline(time.Now().Add(100 * within))`, "TestBodyThatNeverComes"},
	{"memory", "a connection is not read on", "../internal/cloud/app/body.go",
		`		_ = b.connection.SetReadDeadline(time.Time{})
`,
		``, "TestBodyThatNeverComes"},
	{"bounded", "a line of the log is as long as a request", "../internal/cloud/app/log.go",
		`	if len(text) <= maxValue {
`,
		`	if len(text) >= 0 {
`, "TestLongValuesAreCut"},
	{"bounded", "a path may be as long as a request", "../internal/cloud/trigger/trigger.go",
		`	if len(path) > document.LongestPath {
`,
		`	if len(path) < 0 {
`, "../internal/cloud/trigger/TestDecodeGarbage"},
	{"bounded", "the body of an alarm has no bound", "../internal/cloud/alarm/alarm.go",
		`io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))`,
		`io.ReadAll(r.Body)`, "../internal/cloud/alarm/TestFromRequest"},
	{"bounded", "an alarm's path may be as long as a request", "../internal/cloud/alarm/alarm.go",
		` && len(f.RollUp) <= document.LongestPath`,
		``, "../internal/cloud/alarm/TestDecodeRefuses"},
	{"contended", "no write locks the document", "internal/roll/contention.go",
		`contended := c.refused >= maxRefused && c.asOf.Equal(l.AsOf)`,
		`contended := false`, "TestAppWritesAllTheTime"},
	{"contended", "the first refusal is followed by a lock", "internal/roll/contention.go",
		`c.refused >= maxRefused`,
		`c.refused >= 1`, "TestLocksAfterRefusals"},
	{"contended", "refusals by other roll-ups count", "internal/roll/contention.go",
		`		c.asOf, c.refused = l.AsOf, 1
`,
		`		c.asOf, c.refused = l.AsOf, c.refused+1
`, "TestAnothersRollUpsAreNoContention"},
	{"contended", "refusals of an older roll-up count", "internal/roll/contention.go",
		`&& c.asOf.Equal(l.AsOf)
	return`,
		`
	return`, "TestAnothersRollUpsAreNoContention"},
	{"contended", "a lock forgets that there is contention", "internal/roll/contention.go",
		`maxRefused-1`,
		`0`, "TestLocksAfterRefusals"},
	{"contended", "a lock follows another at once", "internal/roll/contention.go",
		` && time.Since(c.locked) >= every`,
		``, "TestLocksOnceACadence"},
	{"contended", "half an answer of a lock counts as a document without a tally", "../internal/cloud/firestorestore/locked.go",
		`if err == nil && !read {`,
		`if err == nil && !read && false {`, "TestLockedHalfAnAnswer"},
	{"contended", "a locked write names a field twice", "../internal/cloud/firestorestore/locked.go",
		`if fields[name] == nil {`,
		`if true {`, "TestLockedMask"},
	{"contended", "an audit never locks", "internal/schedule/compare.go",
		`a.Write(ctx, l, p, &k.contention)`,
		`a.Write(ctx, l, p, new(roll.Contention))`, "TestScheduleLocks"},
	{"contended", "a tick never locks", "internal/schedule/keep.go",
		`k.Write(ctx, &v.Look, p, &e.contention)`,
		`k.Write(ctx, &v.Look, p, new(roll.Contention))`, "TestScheduleLocks"},
	{"contended", "an integer that became a double is another tally", "../internal/document/document.go",
		`integer(fields["took"])`,
		`func() int64 { n, _ := fields["took"].(int64); return n }()`, "TestTallyOfDoublesIsTheSame"},
	{"contended", "a lock that is not used stays", "../internal/cloud/firestorestore/locked.go",
		`go s.rollBack(ctx, begun.Transaction)`,
		``, "../internal/test/storetest/TestFirestore/WriteLocked_is_refused"},
	{"contended", "the tally is read outside the transaction", "../internal/cloud/firestorestore/locked.go",
		`		ConsistencySelector: &firestorepb.BatchGetDocumentsRequest_Transaction{Transaction: transaction},
`,
		``, "TestLockedCalls"},
	{"contended", "the write is not of the transaction", "../internal/cloud/firestorestore/locked.go",
		`		Transaction: transaction,
	})
	return unkept(`,
		`	})
	return unkept(`, "TestLockedCalls"},
	{"contended", "a locked write replaces the whole document", "../internal/cloud/firestorestore/locked.go",
		`		UpdateMask:      &firestorepb.DocumentMask{FieldPaths: mask},
`,
		``, "../internal/test/storetest/TestFirestore/WriteLocked"},
	{"precondition", "a locked write compares no tally", "../internal/test/memstore/memstore.go",
		`!held.Exists() || !held.Tally.Equal(seen) || !ok`,
		`!held.Exists() || !ok`, "TestSimulation"},
	{"precondition", "a locked write compares no tally in Firestore", "../internal/cloud/firestorestore/locked.go",
		`if !ok || !held.Tally.Equal(seen) {`,
		`if !ok {`, "../internal/test/storetest/TestFirestore/WriteLocked_is_refused"},
	{"precondition", "a locked write does not compare whether there is a tally", "../internal/cloud/firestorestore/locked.go",
		`if !ok || !held.Tally.Equal(seen) {`,
		`if !ok || !seen.AsOf.IsZero() && !held.Tally.Equal(seen) {`, "../internal/test/storetest/TestFirestore/WriteLocked_is_refused"},
	{"precondition", "a locked write compares no as_of", "../internal/document/document.go",
		`t.AsOf.Equal(other.AsOf) && t.PacedUntil.Equal(other.PacedUntil)`,
		`t.PacedUntil.Equal(other.PacedUntil)`, "../internal/test/storetest/TestMemory"},
	{"removal", "a locked write creates the app's document", "../internal/test/memstore/memstore.go",
		`!held.Exists() || !held.Tally.Equal(seen)`,
		`!held.Tally.Equal(seen)`, "TestSimulation"},
	{"removal", "a locked write creates the app's document in Firestore", "../internal/cloud/firestorestore/locked.go",
		`		CurrentDocument: &firestorepb.Precondition{ConditionType: &firestorepb.Precondition_Exists{Exists: true}},
`,
		``, "../internal/test/storetest/TestFirestore/WriteLocked_is_refused"},
	{"proves-nothing", "a locked write that was refused is taken for success", "internal/roll/publish.go",
		`		return r.store.WriteLocked(ctx, l.Counter, written, l.RollUp.Tally)
`,
		`			err := r.store.WriteLocked(ctx, l.Counter, written, l.RollUp.Tally)
			if err != ErrConflict {
				return err
			}
			return nil
`, "TestSimulation"},
	{"proves-nothing", "a locked write of unknown outcome is taken for success", "internal/roll/publish.go",
		`		return r.store.WriteLocked(ctx, l.Counter, written, l.RollUp.Tally)
`,
		`			err := r.store.WriteLocked(ctx, l.Counter, written, l.RollUp.Tally)
			if err == ErrConflict || err == ErrUnkept {
				return err
			}
			return nil
`, "TestSimulation"},
	{"proves-nothing", "an unknown outcome is taken for success in Firestore", "../internal/cloud/firestorestore/locked.go",
		`return unkept(outcome(err, "writing", c.RollUp))`,
		`err = unkept(outcome(err, "writing", c.RollUp))
	if !errors.Is(err, rollup.ErrConflict) && !errors.Is(err, rollup.ErrUnkept) {
		err = nil
	}
	return err`, "TestLockedErrors"},
	{"proves-nothing", "a locked write that Firestore aborted is an error like others", "../internal/cloud/firestorestore/locked.go",
		`unkept(outcome(err, "writing", c.RollUp))`,
		`unkept(err)`, "TestLockedErrors"},
	{"sixty-seconds", "a snapshot does not age while a machine is suspended", "internal/roll/publish.go",
		`max(monotonic.Sub(l.Began), wall.Sub(l.Began.Round(0)))`,
		`monotonic.Sub(l.Began)`, "internal/roll/TestAgeByEitherClock"},
	{"sixty-seconds", "a late write in a lock is sent", "internal/roll/publish.go",
		`	if left <= 0 {`,
		`	if locks {
		left = time.Hour
	}
	if left <= 0 {`, "TestLockedWriteIsNotSentLate"},
	{"calls-end", "a locked write does not end with its context", "../internal/cloud/firestorestore/locked.go",
		`	begun, err := s.api.BeginTransaction(`,
		`	ctx = context.WithoutCancel(ctx)
	begun, err := s.api.BeginTransaction(`, "../internal/test/storetest/TestFirestore/WriteLocked_is_refused"},
	{"logged-once", "each lock is logged", "internal/roll/roller.go",
		`first := r.Options.Logged.First(message, c.RollUp, err)`,
		`first := true`, "TestAppWritesAllTheTime"},
	{"calls-end", "connections that a network forgot are taken again", "../internal/cloud/alarm/queue.go",
		`		q.client.CloseIdleConnections() // a network that forgot one has most likely forgotten all
`,
		``, "../internal/cloud/alarm/TestDeadConnections"},
	{"calls-end", "a read of the number of shards has no time-out", "../shards/numshards.go",
		`ctx, cancel := context.WithTimeout(ctx, readLimit)`,
		`ctx, cancel := context.WithCancel(ctx)`, "TestNumShardsReadEnds"},
	{"server-times", "the sources' instant is finer than Firestore's times", "../internal/cloud/firestorestore/sum.go",
		`message.ReadTime.AsTime().Truncate(time.Microsecond)`,
		`message.ReadTime.AsTime()`, "TestReadTimeIsTruncated"},
	{"first-read", "a sum goes on without a transaction", "../internal/cloud/firestorestore/sum.go",
		`begins && (v.readTime.IsZero() || len(v.transaction) == 0)`,
		`begins && v.readTime.IsZero()`, "TestHalfAnAnswer"},
	{"tolerance", "an infinite value makes all doubles agree", "../internal/cloud/firestorestore/sum.go",
		`added.where(">", 0).where("<", math.Inf(1))`,
		`added.where(">", 0)`, "../internal/test/storetest/TestFirestore/Magnitude"},
	{"only-finite", "a sum below the least double becomes the greatest", "../internal/cloud/firestorestore/sum.go",
		`math.Copysign(math.MaxFloat64, sum)`,
		`math.MaxFloat64`, "../internal/test/storetest/TestFirestore/Sum/below_the_least_double/aggregate"},
	{"only-finite", "malformed shards of one route only are named", "../internal/cloud/firestorestore/sum.go",
		`v.named = append(v.named, p.named...)`,
		`v.named = p.named`, "../internal/test/storetest/TestFirestore/Sum_of_several_routes"},
	{"only-finite", "malformed shards are not named where an index is missing", "../internal/cloud/firestorestore/sum.go",
		`			"remedy", remedy, "route", r.String(), "error", lacking.error)
	}

	total := r.Total(shards, v.now)
	return part{Totals: total.Totals, named: total.Malformed}, nil`,
		`			"remedy", remedy, "route", r.String(), "error", lacking.error)
	}

	total := r.Total(shards, v.now)
	return part{Totals: total.Totals}, nil`, "TestMissingIndexNamesMalformed"},
	{"only-finite", "what keeps malformed shards from being named is not logged", "internal/roll/look.go",
		`		log = log.With("error", err)
`,
		``, "TestMalformedShardsAreNotNamed"},
	{"anchor-held", "an event that fails takes older generations along", "internal/events/generation.go",
		`slices.Delete(s.closed, closed, closed+1)`,
		`slices.Delete(s.closed, 0, closed+1)`, "TestYoungerGenerationFailsAlone"},
	{"anchor-held", "an event does not say what kept it from being covered", "internal/events/generation.go",
		`	if s.failures > 0 {
		err =`,
		`	if false {
		err =`, "TestYoungerGenerationFailsAlone"},
	{"hold-limit", "a look has the youngest anchor's values", "internal/events/prober.go",
		`return s.closed[0]`,
		`return s.closed[len(s.closed)-1]`, "TestYoungerGenerationFailsAlone"},
	{"each-done", "an event is covered as of its last counter's roll-up", "internal/events/event.go",
		`ending.AsOf = roll.Later(ending.AsOf, h.generation.asOf)`,
		`ending.AsOf = h.generation.asOf`, "TestEndingOfTwoCounters"},
	{"each-done", "a copy whose time is up was not held", "internal/events/event.go",
		`return Ending{Held: true}, fmt.Errorf(`,
		`return Ending{}, fmt.Errorf(`, "TestEndingOfCopy"},
	{"turns", "a new revision's wait begins with its youngest event", "internal/events/turn.go",
		`l.ReadTime.Sub(s.closed[0].coveredFrom)`,
		`l.ReadTime.Sub(s.closed[len(s.closed)-1].coveredFrom)`, "TestTurns"},
	{"turns", "the writer leaves other revisions no time", "internal/events/turn.go",
		`		return p.DueNext(l) + c.turnTakes(s)
`,
		`		return p.DueNext(l)
`, "TestWriterOfARevisionLooksLate"},
	{"turns", "any number of turns counts", "internal/roll/turns.go",
		`if len(turns) > maxTurns {`,
		`if false {`, "TestForgedTurns"},
	{"pace", "more than a minute is never used up", "internal/roll/pace.go",
		`max(furthestAhead, time.Duration(p.burst)*p.Cadence)`,
		`furthestAhead`, "TestLongBurst"},
	{"missing-covers", "the first roll-up of the app's document uses up one cadence more", "internal/roll/pace.go",
		`return l.ReadTime.Add(time.Duration(p.burst-1) * p.Cadence)`,
		`return l.ReadTime.Add(time.Duration(p.burst) * p.Cadence)`, "TestNewDocumentHasNoBurst"},
	{"pauses", "a claim that is waited for does not end the failures", "internal/events/turn.go",
		`	s.failures = 0
`,
		``, "TestClaimEndsFailures"},
	{"lapsed", "an unkept counter is not noted", "internal/events/failed.go",
		`	c.noteUnkept(ctx, s.counter, oldest)
`,
		``, "TestLapsed"},
	{"lapsed", "a note hides drift forever", "internal/schedule/note.go",
		`since.Add(-note.LongestUnkept)`,
		`time.Time{}`, "TestLapsed"},
	{"lapsed", "what is acknowledged in the pause is drift", "internal/schedule/note.go",
		`since.Add(-note.LongestUnkept)`,
		`since`, "TestLapsed"},
	{"lapsed", "a note that cannot be read hides drift", "internal/schedule/note.go",
		`		return false
	}
	return at.After(after)`,
		`		return true
	}
	return at.After(after)`, "TestLapsedNotRead"},
	{"calls-end", "an unkept counter is noted without a time-out", "internal/events/failed.go",
		`	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()

	err := c.notes.Unkept`,
		`	err := c.notes.Unkept`, "TestUnkeptNoteHangs"},

	{"deferred-ahead", "an alarm may ring as soon as the look is done", "internal/events/turn.go",
		`	case due < roll.LeastAhead: //`,
		`	case false: //`, "TestAlarmRingsLater"},
	{"deferred-ahead", "an alarm that could not be made stands", "internal/events/alarm.go",
		`	if err != nil {
		return err
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	s.failures = 0
	ahead :=`,
		`	_ = err
	c.mu.Lock()
	defer c.mu.Unlock()
	s.failures = 0
	ahead :=`, "TestSimulation"},
	{"deferred-ahead", "an alarm stands for what came while it was made", "internal/events/alarm.go",
		`	if s.open != nil && c.knowsAlarm(s, s.open.latestTime) {`,
		`	if s.open != nil {`, "TestSlowAlarm"},
	{"alarm-routes", "an alarm does not say whose routes it is for", "internal/events/alarm.go",
		`roll.AlarmOf(s.counter, at)`,
		`roll.Alarm{RollUp: s.counter.RollUp, At: at}`, "TestSimulation"},
	{"alarm-routes", "an alarm of other routes does not ring again", "internal/events/ring.go",
		`	if again && c.options.Alarms != nil {`,
		`	if false {`, "TestSimulation"},
	{"alarm-routes", "an alarm of other routes is no change", "internal/events/ring.go",
		`	if ok {
		var err error
`,
		`	if ok && counter.Template.Hash() == a.Routes {
		var err error
`, "TestSimulation"},
	{"alarm-routes", "the last alarm is not the last", "internal/events/ring.go",
		`	again := !a.Last && (`,
		`	again := true && (`, "TestAlarmOfOtherRoutes"},
	{"alarm-covers", "any roll-up ends an alarm", "internal/events/ring.go",
		`		coveredFrom: a.At,
`,
		`		coveredFrom: time.Unix(0, 0),
`, "TestSimulation"},
	{"alarm-covers", "an alarm that is not due is done", "internal/events/ring.go",
		`		ending, err = c.holdAlarm(ctx, a, counter)
`,
		`		c.mu.Lock()
		known := c.counters[a.RollUp] != nil && !c.newest.IsZero()
		c.mu.Unlock()
		if known {
			return Ending{}, nil
		}
		ending, err = c.holdAlarm(ctx, a, counter)
`, "TestSimulation"},
	{"alarm-covers", "an earlier alarm stands for one", "internal/events/alarm.go",
		`endCovered(s.alarms, at.Add(-time.Microsecond), deferred)`,
		`endCovered(s.alarms, at.Add(time.Hour), deferred)`, "TestAlarmByHand"},
	{"alarm-covers", "an unkept counter ends alarms that rang early", "internal/events/generation.go",
		`s.alarms = endCovered(s.alarms, now, func(g *generation) { g.unkept = true })`,
		`s.alarms = endCovered(s.alarms, now.Add(time.Hour), func(g *generation) { g.unkept = true })`, "TestAlarmOfUnkeptCounter"},
	{"alarm-reach", "an alarm rings as late as it is due", "internal/roll/alarm.go",
		`	if due.Sub(now) <= furthest {`,
		`	if true {`, "TestAlarmsReachAMonth"},
	{"alarm-reach", "an alarm that is far ahead rings at any time of the day", "internal/roll/alarm.go",
		`	return OnGrid(rollUp, day, now.Add(furthest-day))
`,
		`	_ = rollUp
	return now.Add(furthest)
`, "TestAlarmsReachAMonth"},
	{"alarm-reach", "all alarms that are far ahead ring at midnight", "internal/roll/alarm.go",
		`	return OnGrid(rollUp, day, now.Add(furthest-day))
`,
		`	_ = rollUp
	return now.Add(furthest).Truncate(day)
`, "TestWindowsAlarmsAreSpread"},
	{"alarm-covers", "an alarm that failed is done", "internal/events/ring.go",
		`			return c.handOn(ctx, a, counter, err)
`,
		`			return ending, nil
`, "TestSimulation"},
	{"alarm-covers", "an alarm that failed is always handed on by ten seconds", "internal/events/ring.go",
		`s.handedOn.start(firstHandOn, longestHandOn, c.serverNow())`,
		`s.handedOn.start(firstHandOn, firstHandOn, c.serverNow())`, "TestAlarmIsHandedOn"},
	{"alarm-covers", "an alarm that is handed on stays one of other routes", "internal/events/ring.go",
		`roll.AlarmOf(counter, at))`,
		`roll.Alarm{RollUp: a.RollUp, Routes: a.Routes, At: at})`, "TestAlarmOfOtherRoutesIsHandedOn"},
	{"alarm-covers", "an old alarm is handed on to a time that has passed", "internal/events/ring.go",
		`roll.Later(c.serverNow(), a.At).Truncate`,
		`a.At.Truncate`, "TestOldAlarmIsHandedOn"},
	{"alarm-covers", "the local clock says when an alarm is handed on", "internal/events/ring.go",
		`roll.Later(c.serverNow(), a.At).Truncate`,
		`roll.Later(time.Now(), a.At).Truncate`, "TestOldAlarmIsHandedOn"},
	{"alarm-covers", "an alarm fails with its counter", "internal/events/ring.go",
		`		if err != nil && c.options.Alarms != nil {`,
		`		if false {`, "TestAlarmIsHandedOn"},
	{"known-alarm", "a known alarm stands for events until it rings", "internal/events/alarm.go",
		`	ahead := at.Sub(l.ReadTime) - roll.LeastAhead
`,
		`	ahead := at.Sub(l.ReadTime) + roll.LeastAhead
`, "TestKnownAlarm"},
	{"known-alarm", "an alarm is known while a machine is suspended", "internal/events/generation.go",
		`!monotonic.Before(k.until) || !wall.Before(k.until.Round(0))`,
		`!monotonic.Before(k.until)`, "internal/events/TestKnownUntilEitherClock"},
	{"known-alarm", "what an event tells is not the time", "internal/events/alarm.go",
		`	latest := roll.Later(c.newest, eventTime)
`,
		`	latest := c.newest
`, "TestKnownAlarmOfAClockThatStoodStill"},
	{"known-alarm", "an alarm is known for as long as it stands", "internal/events/alarm.go",
		`l.Began.Add(min(ahead, knownFor))`,
		`l.Began.Add(ahead)`, "TestKnownAlarmIsLookedAtAgain"},
	{"alarm-reach", "a counter waits for alarms that cannot be made", "internal/events/alarm.go",
		`	s.alarmless.start(alarmlessFor, alarmlessFor, c.serverNow())
`,
		``, "TestNoQueue"},
	{"alarm-reach", "one alarm that cannot be made is enough", "internal/events/alarm.go",
		`	time.Sleep(secondTry)
	err = c.roller.CreateAlarm(ctx, a)
	if err == nil {
		return nil
	}
`,
		``, "TestAlarmThatIsMadeAtTheSecondTry"},
	{"alarm-reach", "the second try follows at once", "internal/events/alarm.go",
		`	time.Sleep(secondTry)
`,
		``, "TestWindowOfAnEventThatIsDeferredAtTheSecondTry"},
	{"alarm-reach", "a slow cadence is kept without alarms", "internal/events/turn.go",
		`	if c.defersEvents(s, l) {
		return`,
		`	if true {
		return`, "TestNoQueue"},
	{"alarm-first", "the last writer goes at the time of the alarm", "internal/events/turn.go",
		`	case l.AsOf.Equal(s.own) && !c.followsAlarms(s, l):
`,
		`	case l.AsOf.Equal(s.own):
`, "TestAlarmGoesFirst"},
	{"grace", "what an alarm stands for is drift", "internal/schedule/audit.go",
		`l.ReadTime.Sub(l.AsOf) < a.Cadence(&l)+redelivery+sumDelay(l.RollUp)`,
		`false`, "TestDeferredIsNoDrift"},
	{"grace", "a counter with a slow cadence never drifts", "internal/schedule/audit.go",
		`l.ReadTime.Sub(l.AsOf) < a.Cadence(&l)+redelivery+sumDelay(l.RollUp)`,
		`a.Cadence(&l) > time.Minute`, "TestDeferredIsNoDrift"},
	{"known-alarm", "a newer look is not the time", "internal/events/alarm.go",
		`	latest := roll.Later(c.newest, eventTime)
`,
		`	latest := eventTime
`, "TestKnownAlarmOfAClockThatStoodStill"},
	{"billed", "what sums bill has no bound", "internal/roll/pace.go",
		`	return max(r.RouteCadence(l.Counter.Template), r.billedCadence(l))
`,
		`	return r.RouteCadence(l.Counter.Template)
`, "TestLargeCounters"},
	{"billed", "a large counter has a burst", "internal/roll/pace.go",
		`		p.burst = 1
`,
		``, "TestBilledCadence"},
	{"billed", "a roll-up that counts as none has a cadence", "internal/roll/pace.go",
		`r.Options.ReadsPerSecond <= 0 || l.AsOf.IsZero()`,
		`r.Options.ReadsPerSecond <= 0`, "TestInvalidAsOfHasNoCadence"},
	{"billed", "any num_shards counts", "internal/roll/pace.go",
		`min(seconds, longestBilled.Seconds())`,
		`seconds`, "TestBilledCadence"},
	{"alarm-first", "an event is held until a counter with alarms is due", "internal/events/turn.go",
		`	case c.defersEvents(s, l): // the next`,
		`	case false: // the next`, "TestLargeCounters"},
	{"alarm-first", "an event is held until the next roll-up of a counter with alarms", "internal/events/turn.go",
		`	case c.defersEvents(s, l): // no event`,
		`	case false: // no event`, "TestLargeCounters"},
	{"alarm-first", "the last writer does not go first although no alarm rings", "internal/events/turn.go",
		`	return c.defersEvents(s, l) && (c.roller.Cadence(l) > c.longestHold() || l.Long)
`,
		`	return c.defersEvents(s, l)
`, "TestLargeCounters"},
	{"covered-from", "a long sum covers what no look has seen", "internal/events/generation.go",
		`		if g.coveredFrom.IsZero() || g.coveredFrom.After(by) {`,
		`		if g.coveredFrom.After(by) {`, "TestLongSumCoversNoLaterEvent"},
	{"long-sums", "no sum is long", "internal/events/turn.go",
		`	return c.canMakeAlarms(s, l) && (c.takesLong(l.RollUp.Tally.Took) || time.Now().Before(s.long.until))
`,
		`	return false
`, "TestLongSums"},
	{"long-sums", "what a roll-up says makes no sum long", "internal/events/turn.go",
		`(c.takesLong(l.RollUp.Tally.Took) || time.Now().Before(s.long.until))`,
		`time.Now().Before(s.long.until)`, "TestSumIsCutOff"},
	{"long-sums", "a sum that was cut off is not long", "internal/events/long.go",
		`	s.long.until = time.Now().Add(longKnownFor)
}`,
		`}`, "TestSumIsCutOff"},
	{"long-sums", "a long sum that fails is not known to be long", "internal/events/prober.go",
		`	s.long.until = s.long.rest.until.Add(longKnownFor)
`,
		``, "TestSumIsCutOffForLong"},
	{"long-sums", "a sum that was cut off is long forever", "internal/events/observe.go",
		`		s.long.until = time.Time{} // the roll-up says how long its sum took
`,
		``, "TestSumIsCutOff"},
	{"long-sums", "a sum is long that ends in time", "internal/events/long.go",
		`return took > c.options.Hold/4`,
		`return took > c.options.Hold/5`, "TestSumIsLong"},
	{"long-sums", "a long sum has the time of others", "internal/events/long.go",
		`	return max(c.options.LongTimeout, c.options.Timeout)
`,
		`	return c.options.Timeout
`, "TestLongSums"},
	{"long-sums", "an alarm waits no longer than an event", "internal/events/ring.go",
		`	timer := time.NewTimer(c.longTimeout())
`,
		`	timer := time.NewTimer(0)
`, "TestEventsDuringALongSum"},
	{"long-apart", "events wait for a long sum", "internal/events/turn.go",
		`	if len(s.closed) > 0 {
		grid`,
		`	if s.long.summing {
		return plan{wait: roll.LongestCadence(c.options.Hold)}
	}
	if len(s.closed) > 0 {
		grid`, "TestEventsDuringALongSum"},
	{"long-apart", "an alarm that waits for a long sum makes others", "internal/events/turn.go",
		`	if len(s.closed) > 0 {
		grid`,
		`	if s.hasWaiting() {
		grid`, "TestLongSumMakesNoAlarm"},
	{"long-apart", "events of a long sum that is not due have near alarms", "internal/events/turn.go",
		`	case due > c.longestHold():
`,
		`	case due > c.longestHold() && false:
`, "TestLongSumThatIsNotDue"},
	{"long-apart", "alarms that ring are deferred with events", "internal/events/turn.go",
		`p.deferTo, p.alarmsStay = roundedAhead(l.ReadTime, roll.LeastAhead, grid), true`,
		`p.deferTo = roundedAhead(l.ReadTime, roll.LeastAhead, grid)`, "TestAlarmAndEventTogether"},
	{"long-apart", "a long sum is not claimed", "internal/events/prober.go",
		`	if p.sums && (l.Long || c.worthClaim(&l)) {`,
		`	if p.sums && !l.Long && c.worthClaim(&l) {`, "TestLongSumIsClaimed"},
	{"long-apart", "an alarm waits for another's long sum", "internal/events/turn.go",
		`	if l.Long { // whatever`,
		`	if false { // whatever`, "TestLongSumIsClaimed"},
	{"long-apart", "a claim of a long sum holds as long as others", "internal/events/claim.go",
		`		return min(c.lastSumTook(l)*3/2, c.longTimeout())
`,
		`		return min(c.lastSumTook(l)*3/2, c.options.Timeout)
`, "TestLongSumIsClaimed"},
	{"long-apart", "events look all the time while no alarm can be made", "internal/events/turn.go",
		`		return plan{wait: roll.LongestCadence(c.options.Hold)}
`,
		`		return plan{wait: time.Millisecond}
`, "TestLongSumWithoutAQueue"},
	{"long-sums", "a long sum that failed is tried again at once", "internal/events/prober.go",
		`	s.long.rest.start(firstRest, longestRest, c.serverNow())
`,
		``, "TestLongSumFails"},
	{"long-sums", "events take another time than alarms", "internal/events/turn.go",
		`max(s.long.rest.serverUntil.Sub(l.ReadTime), roll.LeastAhead)`,
		`s.long.rest.step`, "TestLongSumFails"},
	{"long-sums", "each rest is as long as the first", "internal/events/prober.go",
		`s.long.rest.start(firstRest, longestRest, c.serverNow())`,
		`s.long.rest.start(firstRest, firstRest, c.serverNow())`, "TestLongSumFails"},
	{"long-sums", "an alarm for which there is no time stands for events", "internal/events/turn.go",
		`max(s.long.rest.serverUntil.Sub(l.ReadTime), roll.LeastAhead)`,
		`s.long.rest.serverUntil.Sub(l.ReadTime)`, "TestEventsWhileALongSumRests"},
	{"long-sums", "a long sum is refused if the app edits the document", "internal/roll/publish.go",
		`locks || l.Long && l.Counter.Template.Existing && l.RollUp.Exists()`,
		`locks`, "TestLongSumOfADocumentThatTheAppEdits"},
	{"grace", "an alarm waits for no long sum", "internal/schedule/audit.go",
		`+redelivery+sumDelay(l.RollUp)`,
		`+redelivery`, "TestLongSumIsNoDrift"},
	{"grace", "a long sum has the grace of others", "internal/schedule/audit.go",
		`a.o.Grace+sumDelay(d.RollUp)`,
		`a.o.Grace`, "TestLongSumIsNoDrift"},
	{"alarm-routes", "an instance without a queue is done with an alarm of other routes", "internal/events/ring.go",
		`	if now.Before(a.At.Add(lastAfter)) {`,
		`	if false {`, "TestAlarmWithoutAQueue"},
	{"alarm-routes", "an instance without a queue is done with an alarm of no route of its own", "internal/events/ring.go",
		`	if again && c.options.Alarms == nil {`,
		`	if ok && again && c.options.Alarms == nil {`, "TestAlarmWithoutAQueueOrARoute"},
	{"alarm-routes", "an instance that has looked at nothing fails an alarm of no route forever", "internal/events/ring.go",
		`		now = time.Now()
`,
		``, "TestAlarmWithoutAQueueOrARoute"},
	{"alarm-routes", "an instance without a queue fails an alarm of other routes forever", "internal/events/ring.go",
		`	if now.Before(a.At.Add(lastAfter)) {`,
		`	if true {`, "TestAlarmWithoutAQueue"},
	{"window-instant", "a window begins a microsecond early", "route/window.go",
		`		c.Value = instant.Add(-time.Duration(ago)).UTC()
`,
		`		c.Value = instant.Add(-time.Duration(ago) - time.Microsecond).UTC()
`, "TestWindowWithItsBound"},
	{"window-instant", "a window begins a microsecond early, under faults", "route/window.go",
		`		c.Value = instant.Add(-time.Duration(ago)).UTC()
`,
		`		c.Value = instant.Add(-time.Duration(ago) - time.Microsecond).UTC()
`, "TestSimulation"},
	{"window-instant", "a window lacks its bound, under faults", "route/condition.go",
		`	case GreaterThanOrEqual:
		return`,
		`	case GreaterThanOrEqual:
		return order > 0 &&`, "TestSimulation"},
	{"window-instant", "now is when the sum is asked for", "../internal/cloud/firestorestore/sum.go",
		`	return v.SumAsOf(ctx, instant)
`,
		`	_ = instant
	return v.SumAsOf(ctx, time.Now())
`, "TestWindowsBoundIsTheReadTime"},
	{"window-instant", "a document leaves a window that has its bound as soon as another", "route/window.go",
		`	if c.Operator == GreaterThanOrEqual {
`,
		`	if false {
`, "../internal/test/storetest/TestMemory"},
	{"alarm-before", "a roll-up is written without its alarm", "internal/events/prober.go",
		`	c.makeWindowAlarm(ctx, s, l)
`,
		``, "TestSimulation"},
	{"alarm-before", "a long sum is written without its alarm", "internal/events/prober.go",
		`	c.makeWindowAlarm(ctx, s, l)
`,
		`	if !l.Long {
		c.makeWindowAlarm(ctx, s, l)
	}
`, "TestSimulation"},
	{"alarm-before", "an alarm is made once its roll-up is written", "internal/events/prober.go",
		`	c.makeWindowAlarm(ctx, s, l)

	c.mu.Lock()
	p := c.pace(s, l)
	c.mu.Unlock()
	err = c.roller.Write(ctx, l, p, &s.contention)
	if err != nil {
		return 0, err
	}
`,
		`	c.mu.Lock()
	p := c.pace(s, l)
	c.mu.Unlock()
	err = c.roller.Write(ctx, l, p, &s.contention)
	if err != nil {
		return 0, err
	}
	c.makeWindowAlarm(ctx, s, l)
`, "TestWindow"},
	{"alarm-before", "an audit writes a roll-up without its alarm", "internal/schedule/compare.go",
		`	if needed {
		err := a.CreateWindowAlarm`,
		`	if needed && false {
		err := a.CreateWindowAlarm`, "TestAuditOfWindows"},
	{"alarm-before", "the schedule has no queue", "../internal/cloud/app/schedule.go",
		`o.Logged, o.Alarms = d.logged, d.alarms`,
		`o.Logged = d.logged`, "../internal/cloud/app/TestTickMakesAlarms"},
	{"alarm-before", "an alarm that could not be made stands", "internal/events/chain.go",
		`	if err != nil {
		c.noteMissingAlarm(ctx, l)
		return
	}

	l.Rings = next
`,
		`	_ = err
	l.Rings = next
`, "TestSimulation"},
	{"alarm-before", "one alarm that could not be made is enough to do without", "internal/events/chain.go",
		`	err := c.createTwice(ctx, s, roll.AlarmOf(l.Counter, next))
`,
		`	err := c.roller.CreateAlarm(ctx, roll.AlarmOf(l.Counter, next))
`, "TestWindowsAlarmAtTheSecondTry"},
	{"alarm-before", "the second try follows at once", "internal/events/alarm.go",
		`	time.Sleep(secondTry)
`,
		``, "TestWindowsAlarmAtTheSecondTry"},
	{"alarm-before", "an instance that does without alarms tries all the same", "internal/events/chain.go",
		`	if !can {
		c.noteMissingAlarm`,
		`	if !can && false {
		c.noteMissingAlarm`, "TestWindowWithoutAnAlarm"},
	{"alarm-before", "no one is told that alarms cannot be made", "internal/events/chain.go",
		`	c.roller.LogOnce(ctx, slog.LevelWarn, "no alarm could be made; the next event or call of the schedule rolls the counter up", l.Counter, l.EventID, nil)
`,
		``, "TestWindowWithoutAnAlarm"},
	{"alarm-before", "an alarm is done with a roll-up that another has written without one", "internal/events/chain.go",
		`	if !rings.IsZero() && !rings.After(l.AsOf) {
		return time.Time{}
	}
	return l.CoveredUntil()
`,
		`	_ = rings
	return l.CoveredUntil()
`, "TestWindowWithoutAnAlarm"},
	{"alarm-before", "an alarm is done with a roll-up that its instance has written without one", "internal/events/chain.go",
		`	if l.Rings.Equal(l.ReadTime) {
`,
		`	if false {
`, "TestWindowWithoutAnAlarm"},
	{"alarm-relied", "a roll-up relies on an alarm that may have rung", "internal/roll/window.go",
		`		if rings.After(l.ReadTime) && (next.IsZero() || !rings.After(next)) {
`,
		`		if !rings.IsZero() && (next.IsZero() || !rings.After(next)) {
`, "TestSimulation"},
	{"alarm-relied", "a roll-up relies on an alarm that rings too late", "internal/roll/window.go",
		`		if rings.After(l.ReadTime) && (next.IsZero() || !rings.After(next)) {
`,
		`		if rings.After(l.ReadTime) {
`, "TestSimulation"},
	{"alarm-relied", "a roll-up relies on an alarm of other routes", "internal/roll/window.go",
		`	if l.AsOf.IsZero() || l.Rerouted() || l.AlarmGone {
		seen = time.Time{}
`,
		`	if l.AsOf.IsZero() || l.AlarmGone {
		seen = time.Time{}
`, "TestWindowNeedsAnotherAlarm"},
	{"alarm-relied", "each roll-up makes an alarm", "internal/roll/window.go",
		`	needed = !next.IsZero() && l.Rings.IsZero()
`,
		`	needed = !next.IsZero()
`, "TestWindowsAlarmIsKept"},
	{"alarm-relied", "a roll-up that needs no alarm forgets the one that stands", "internal/roll/window.go",
		`(next.IsZero() || !rings.After(next))`,
		`!next.IsZero() && !rings.After(next)`, "TestEmptyWindowKeepsItsAlarm"},
	{"alarm-relied", "an instance forgets the alarm of a write that was refused", "internal/events/chain.go",
		`	s.windowAlarm = next
`,
		``, "TestWindowOfRefusedWrites"},
	{"alarm-relied", "an alarm of an audit has the name of another", "internal/schedule/audit.go",
		`	a.Prune, a.Salted = o.Prune, true
`,
		`	a.Prune = o.Prune
`, "TestAuditOfWindows"},
	{"alarm-relied", "each document leaves by a roll-up of its own", "internal/roll/window.go",
		`max(leaving.Window/windowParts, r.Cadence(l))`,
		`(leaving.Window / windowParts / 1000)`, "TestLikesLeaveTogether"},
	{"alarm-relied", "documents leave more often than their counter is rolled up", "internal/roll/window.go",
		`max(leaving.Window/windowParts, r.Cadence(l))`,
		`(leaving.Window / windowParts)`, "TestLikesLeaveTogether"},
	{"alarm-relied", "an alarm rings as soon as it is made", "internal/roll/window.go",
		`Later(leaving.At, l.ReadTime.Add(LeastAhead))`,
		`leaving.At`, "TestWindowsAlarmIsRounded"},
	{"alarm-relied", "all counters have their alarms at the same time", "internal/roll/alarm.go",
		`	phase := time.Duration(h.Sum64() % uint64(step)).Truncate(time.Microsecond)
`,
		`	phase := time.Duration(0)
`, "TestWindowsAlarmsAreSpread"},
	{"alarm-relied", "the last of several windows has the alarm", "internal/roll/window.go",
		`first = Sooner(first, OnGrid`,
		`first = Later(first, OnGrid`, "TestWindowsAlarmIsRounded"},
	{"alarm-relied", "a document that never leaves has alarms forever", "internal/roll/window.go",
		`		if leaving.At.Sub(l.ReadTime) > longestAhead {
			continue
		}
`,
		``, "TestWindowsAlarmIsRounded"},
	{"alarm-relied", "an alarm rings later than Cloud Tasks reaches", "internal/roll/window.go",
		`	return WithinReach(l.Counter.RollUp, l.ReadTime, first)
`,
		`	return first
`, "TestWindowsAlarmIsRounded"},
	{"left-late", "what has left since is summed as of now", "../internal/cloud/firestorestore/sum.go",
		`	v.now = instant
`,
		`	v.now = v.readTime
`, "../internal/test/storetest/TestFirestore/windows"},
	{"left-late", "what has left a window is drift", "internal/schedule/compare.go",
		`	k.leaving, err = leftSince(looking, &a.Roller, &l)
	if err != nil {
		return asks, l, err
	}
`,
		``, "TestAuditOfWindows"},
	{"left-late", "an audit does not wait for the alarm", "internal/schedule/decide.go",
		`	case c.leaving == leftLately:
		return actionLeave
`,
		``, "TestAuditOfWindows"},
	{"left-late", "what left late is not repaired", "internal/schedule/decide.go",
		`	case c.leaving == leftLate && !(l.Rerouted() && c.o.KeepRerouted):
		return repair
`,
		`	case c.leaving == leftLate:
		return actionLeave
`, "TestAuditOfWindows"},
	{"left-late", "every difference is called late", "internal/schedule/left.go",
		`		if err != nil || !then.Agrees() {
			return leftNone, err
		}
`,
		`		if err != nil {
			return leftNone, err
		}
`, "TestAuditOfWindows"},
	{"left-late", "an alarm that has not come is waited without an end", "internal/schedule/left.go",
		`	return l.AlarmGone || l.ReadTime.Sub(l.RollUp.Tally.Rings) > r.Cadence(l)+redelivery+sumDelay(l.RollUp)
`,
		`	return false
`, "TestAuditOfWindows"},
	{"left-late", "an alarm that comes again is overdue", "internal/schedule/left.go",
		`> r.Cadence(l)+redelivery+sumDelay(l.RollUp)`,
		`> r.Cadence(l)`, "TestAuditOfWindows"},
	{"left-late", "a roll-up that needs an alarm and has none is right", "internal/schedule/left.go",
		`	case rings.IsZero() && agrees: // such`,
		`	case rings.IsZero() && agrees && false: // such`, "TestAuditOfALikeFarAhead"},
	{"left-late", "an audit leaves a roll-up alone whose alarm is lost and whose totals are right", "internal/schedule/left.go",
		`	case rings.IsZero() || overdue(r, l):
`,
		`	case agrees:
		return leftNone, nil
	case rings.IsZero() || overdue(r, l):
`, "TestAuditOfWindows"},
	{"left-late", "an audit trusts an alarm that rings too late", "internal/schedule/left.go",
		`	case ringsTooLate(r, &then):
		return leftSooner, nil
`,
		``, "TestSimulation"},
	{"left-late", "a like that leaves sooner is late at once", "internal/schedule/left.go",
		`	case ringsTooLate(r, &then):
		return leftSooner, nil
`,
		`	case ringsTooLate(r, &then):
		return leftLate, nil
`, "TestAuditOfASoonerLeaving"},
	{"left-late", "an alarm that is rounded rings too late", "internal/schedule/left.go",
		`then.RollUp.Tally.Rings.Sub(next) > r.Cadence(then)+redelivery`,
		`then.RollUp.Tally.Rings.Sub(next) > -r.Options.Cadence`, "TestAuditOfWindows"},
	{"left-late", "an alarm that rings too late is left alone while the totals are right", "internal/schedule/decide.go",
		`	case l.Agrees() && c.leaving != leftSooner:
`,
		`	case l.Agrees():
`, "TestAuditOfASoonerLeaving"},
	{"left-late", "a like that has left before its alarm rings is drift", "internal/schedule/decide.go",
		`	case c.leaving == leftSooner:
		return differenceLate
`,
		``, "TestAuditOfASoonerLeaving"},
	{"left-late", "a document that was dated far ahead is late", "internal/schedule/left.go",
		`	case rings.IsZero() && agrees: // such as a document that was dated far ahead, and has come nearer
		return leftSooner, nil
`,
		`	case rings.IsZero() && agrees: // such as a document that was dated far ahead, and has come nearer
		return leftLate, nil
`, "TestAuditOfALikeFarAhead"},
	{"foreign-kind", "what no total can be is written over", "internal/roll/rollup.go",
		`	if value.IsNothing(field) {
		return false
	}
`,
		`	if true {
		return false
	}
`, "TestForeignKind"},
	{"foreign-kind", "nothing is the app's", "internal/roll/rollup.go",
		`if value.IsNothing(field) {`,
		`if field == nil {`, "TestNothingIsWrittenOver"},
	{"foreign-kind", "a time is a number", "internal/roll/rollup.go",
		`	_, isNumber := value.Number(field)
	return !isNumber
`,
		`	_, isValue := value.Of(field)
	return !isValue
`, "TestForeignKind"},
	{"foreign-kind", "a number is a time", "internal/roll/rollup.go",
		`		_, isTime := field.(time.Time)
		return !isTime
`,
		`		_, isValue := value.Of(field)
		return !isValue
`, "TestForeignKind"},
	{"foreign-kind", "a roll-up's total that somebody writes a list over is the app's", "internal/roll/rollup.go",
		`if isForeign(field, t.OfTimes(name)) && !r.Tally.Wrote(name) {`,
		`if isForeign(field, t.OfTimes(name)) {`, "TestTotalOfAnotherKindIsWrittenOver"},
	{"foreign-kind", "a total that is left out is named", "internal/roll/publish.go",
		`	return slices.DeleteFunc(names, l.RollUp.isForeign), values
`,
		`	return names, values
`, "TestForeignKind"},
	{"foreign-kind", "a total that is left out differs", "internal/roll/agree.go",
		`		if l.RollUp.isForeign(name) {
			continue
		}
`,
		``, "TestForeignKind"},
	{"foreign-kind", "a lock writes over what is the app's", "internal/roll/rollup.go",
		`		if held.isForeign(name) {
			return r, false
		}
`,
		``, "TestForeignKindInALock"},
	{"foreign-kind", "a lock of Firestore writes over what is the app's", "../internal/cloud/firestorestore/locked.go",
		`if !ok || !held.Tally.Equal(seen) {`,
		`if (ok || !ok) && !held.Tally.Equal(seen) {`, "../internal/test/storetest/TestFirestore/foreign_kinds"},
	{"foreign-kind", "no word of it", "internal/roll/look.go",
		`if err == nil && len(l.RollUp.Foreign) > 0 {`,
		`if false {`, "TestForeignKind"},
	{"foreign-kind", "each event tells it", "internal/roll/roller.go",
		`	first := r.Options.Logged.First(message, c.RollUp, err)
	if !first {`,
		`	if false {`, "TestForeignKind"},
	{"foreign-kind", "a field that was cleared is drift", "internal/schedule/decide.go",
		` || !l.AsOf.IsZero() && onlyUncovered(l):`,
		`:`, "TestForeignKind"},
	{"foreign-kind", "an audit does not count it", "internal/schedule/report.go",
		`if len(l.RollUp.Foreign) > 0 && !counted {`,
		`if counted && false {`, "TestForeignKind"},
	{"nobodys-number", "a total without sources is the app's", "internal/roll/agree.go",
		`		return len(l.RollUp.Unwritten()) == 0
	}
	if l.AsOf`,
		`		return true
	}
	if l.AsOf`, "TestForgedTotals"},
	{"nobodys-number", "a zero without sources differs", "internal/roll/rollup.go",
		`if !v.IsNull() && !v.IsZero() && !r.Tally.Wrote(name) {`,
		`if !v.IsNull() && !r.Tally.Wrote(name) {`, "TestZerosAgree"},
	{"nobodys-number", "a tally without a time is believed", "../internal/document/document.go",
		`return !t.AsOf.IsZero() && t.names(name)`,
		`return t.names(name)`, "../internal/document/TestTally"},
	{"nobodys-number", "the walk of the roll-ups passes over it", "internal/schedule/store.go",
		`if !f.RollUp.Tally.AsOf.IsZero() || len(f.RollUp.Unwritten()) > 0 {
		return false
	}
	p.LeaveOut(f)`,
		`if !f.RollUp.Tally.AsOf.IsZero() {
		return false
	}
	p.LeaveOut(f)`, "TestForgedTotals"},
	{"nobodys-number", "two walks find it", "internal/schedule/walk.go",
		`			page.Found = slices.DeleteFunc(page.Found, func(f FoundCounter) bool { return len(f.RollUp.Unwritten()) > 0 })
`,
		``, "TestUnwrittenIsCounted"},
	{"nobodys-number", "the walk of homes passes over it", "../internal/test/memstore/memstore.go",
		`	if !f.RollUp.Tally.AsOf.IsZero() || len(f.RollUp.Unwritten()) > 0 {
		return false
	}
	has :=`,
		`	if !f.RollUp.Tally.AsOf.IsZero() {
		return false
	}
	has :=`, "../internal/test/storetest/TestMemory"},
	{"nobodys-number", "Firestore's walk of homes passes over it", "../internal/cloud/firestorestore/audit.go",
		`return part[i].RollUp.Tally.AsOf.IsZero() && len(part[i].RollUp.Unwritten()) == 0 })`,
		`return part[i].RollUp.Tally.AsOf.IsZero() })`, "../internal/test/storetest/TestFirestore/homes_with_totals_that_no_roll-up_wrote"},
	{"nobodys-number", "a day of a missing shop stays", "internal/roll/look.go",
		`l.RollUp.Tally.AsOf.IsZero() && len(l.RollUp.Unwritten()) == 0`,
		`l.RollUp.Tally.AsOf.IsZero()`, "TestForgedDayOfMissingShop"},
	{"nobodys-number", "a document with a tally concerns itself", "route/concern.go",
		`if kind == "a timestamp" || !t.isHeld(holds) {`,
		`if kind == "" && false || !t.isHeld(holds) {`, "route/TestOwn"},
	{"nobodys-number", "a document with zeros concerns itself", "route/concern.go",
		`return isNumber && !n.IsZero()`,
		`return isNumber && (true || n.IsZero())`, "route/TestOwn"},
	{"nobodys-number", "an event does not concern its own counter", "../internal/cloud/app/event.go",
		`return source.Own(source.Concerned(change), change.Holds), told, nil`,
		`return source.Concerned(change), told, nil`, "../internal/cloud/app/TestForgedHomeConcernsItself"},
	{"nobodys-number", "a command repairs by any routes", "internal/schedule/decide.go",
		` || replaces(l) && c.o.KeepUnwritten:`,
		`:`, "TestUnwrittenIsCounted"},
	{"nothing-is-lost", "what is replaced is gone", "internal/roll/rollup.go",
		`			before[name] = v
		}
	}

	r.Tally.Before = nil`,
		`		}
	}

	r.Tally.Before = nil`, "TestBefore"},
	{"nothing-is-lost", "the next roll-up forgets it", "internal/roll/rollup.go",
		`		if r.listsTotal(name) {
			before[name] = v
		}
`,
		`		if r.listsTotal(name) && false {
			before[name] = v
		}
`, "TestBefore"},
	{"nothing-is-lost", "the routes' names alone are kept", "internal/roll/rollup.go",
		` || slices.Contains(r.Tally.Former, name)
`,
		`
`, "TestBefore"},
	{"nothing-is-lost", "a roll-up's own total is kept, too", "internal/roll/rollup.go",
		`if there && v.SaysSomething() && !noted && !held.Tally.Wrote(name) {`,
		`if there && v.SaysSomething() && !noted {`, "TestBefore"},
	{"nothing-is-lost", "what says nothing is kept", "../internal/document/document.go",
		`!ok || !held.SaysSomething() || !t.names(name)`,
		`!ok || !t.names(name)`, "../internal/document/TestTally"},
	{"nothing-is-lost", "a client makes up names", "../internal/document/document.go",
		`!ok || !held.SaysSomething() || !t.names(name)`,
		`!ok || !held.SaysSomething()`, "../internal/document/TestTally"},
	{"nothing-is-lost", "a number that became a double is another tally", "../internal/document/document.go",
		`maps.EqualFunc(t.Before, other.Before, value.Equal)`,
		`maps.Equal(t.Before, other.Before)`, "../internal/document/TestTallyEqual"},
	{"nothing-is-lost", "a lock of Firestore keeps nothing", "../internal/cloud/firestorestore/locked.go",
		`	r, ok := r.WrittenOver(held)`,
		`	_, ok := r.WrittenOver(held)`, "../internal/test/storetest/TestFirestore/before"},
	{"nothing-is-lost", "zeros take it along", "internal/schedule/decide.go",
		`return !l.Counter.Template.Existing && !keeps && l.Totals.Empty()`,
		`return !l.Counter.Template.Existing && (keeps || !keeps) && l.Totals.Empty()`, "TestBeforeIsNotRemoved"},
	{"nothing-is-lost", "a missing shop takes it along", "internal/schedule/decide.go",
		`return l.Ownerless && !keeps && !unmarked(l)`,
		`return l.Ownerless && (keeps || !keeps) && !unmarked(l)`, "TestForgedDayOfMissingShop"},
	{"nothing-is-lost", "pruning takes it away", "internal/roll/rollup.go",
		`		if there {
			values[name] = before
		} else {`,
		`		if there && false {
			values[name] = before
		} else {`, "TestBefore"},
	{"nothing-is-lost", "a removal of Firestore does not put it back", "../internal/cloud/firestorestore/audit.go",
		`	before, there := r.Tally.Before[field]
	if there {`,
		`	before, there := r.Tally.Before[field]
	if there && false {`, "../internal/test/storetest/TestFirestore/before"},
	{"cycle", "a call that comes a little sooner begins no lap", "internal/schedule/cycle.go",
		`passed := c.cursor.ReadTime.Sub(l.Began) + c.o.Every/2`,
		`passed := c.cursor.ReadTime.Sub(l.Began)`, "internal/schedule/TestCallALittleSooner"},
	{"cursor", "a note has a failed walk begin again", "internal/schedule/cycle.go",
		`if begins && !p.Failed && (p.Done || cuts) {`,
		`if begins && (p.Done || cuts) {`, "internal/schedule/TestNoteLeavesFailedWalks"},
	{"new", "the cursor of another version is not new", "internal/schedule/cycle.go",
		`o.Database && len(last.Places) == places(c.routes)`,
		`o.Database`, "internal/schedule/TestCursorOfAnotherVersion"},
	{"note-all", "a note that others write is tried forever", "internal/note/note.go",
		`if !errors.Is(err, roll.ErrConflict) || try == noteTries {`,
		`if !errors.Is(err, roll.ErrConflict) {`, "internal/note/TestNoteIsGivenUp"},
	{"note-all", "a note that names counters makes a lap due", "internal/schedule/note.go",
		`		if len(n.Counters) == 0 {
			a.noted =`,
		`		if true {
			a.noted =`, "internal/schedule/TestNoteOfNamesMakesNoLap"},
	{"note-all", "a repair that leaves counters to other routes takes the note away", "internal/schedule/note.go",
		`a.report.Failed+a.report.Unkept+a.report.Differing > 0`,
		`a.report.Failed+a.report.Unkept > 0`, "TestRepairTakesNotesAway"},
	{"circle-silent", "all counters of an event without documents are noted", "internal/events/event.go",
		`		if !concern.Untold {
			continue
		}
`,
		``, "TestOnlyUntoldIsNoted"},
	{"logged-once", "an audit logs no unkept counter", "internal/schedule/audit.go",
		`		a.LogUnkept(ctx, d.Counter, "", err)
`,
		``, "TestAuditOfUnkept"},
	{"long-sums", "a long sum begins for an alarm that rang early", "internal/events/turn.go",
		`return !g.coveredFrom.After(now) })`,
		`return true || !g.coveredFrom.After(now) })`, "internal/events/TestAlarmThatRangEarly"},
	{"bounds", "a time whose day has no end is in a day", "route/key.go",
		`return p.id(), ok
	default:`,
		`return p.id(), true || ok
	default:`, "route/TestValuesOfNoKey"},
	{"bounds", "a reference is asked for that no query compares with", "route/key.go",
		`document.Reference(ref)}}, len(ref) <= longestReference`,
		`document.Reference(ref)}}, true`, "route/TestValuesOfNoKey"},
	{"tick-place", "a page of homes makes queries until the tick ends", "../internal/cloud/firestorestore/audit.go",
		`if n > 0 && time.Now().After(until) {`,
		`if n > 1000 {`, "TestPageOfHomesEnds"},
}
