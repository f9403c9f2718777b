//go:build mutations

package rollup_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// A mutation is a change of the engine that breaks one of its rules. The test named must fail on it.
type mutation struct {
	name     string
	file     string // in this folder
	old, new string // old is there once
	test     string // of this package, or of the file's when that is the store on Firestore
}

// The first mutations soften the rules that design documents mark: each closes a hole through which
// an acknowledged increment was lost, or a budget broken.
var mutations = []mutation{
	{"equal totals are acknowledged without a write", "coalescer.go",
		`if err == nil && l.summed {`,
		`if err == nil && l.summed && !agrees(&l) {`, "TestSimulation"},
	{"the mark is moved by later looks", "coalescer.go",
		`if g.mark.IsZero() {`,
		`{`, "TestMarkDoesNotMove"},
	{"a second copy of an anchor is absorbed", "coalescer.go",
		`if g := s.anchoredBy(eventID, hash); g != nil {`,
		`if g := s.anchoredBy(eventID, hash); g != nil && s.open == nil {`, "TestSimulation"},
	{"a counter without shards is not written", "coalescer.go",
		`if err == nil && l.summed {`,
		`if err == nil && l.summed && l.totals.NumShards > 0 {`, "TestSimulation"},
	{"a late write is sent", "rollup.go",
		`if left <= 0 {`,
		`if left = time.Hour; left <= 0 {`, "TestWriteIsNotSentLate"},
	{"an unknown outcome is taken for success", "coalescer.go",
		`err = c.write(ctx, s.counter, &l)`,
		`if err = c.write(ctx, s.counter, &l); !errors.Is(err, ErrConflict) {
			err = nil
		}`, "TestSimulation"},
	{"a refusal is taken for success", "coalescer.go",
		`err = c.write(ctx, s.counter, &l)`,
		`if err = c.write(ctx, s.counter, &l); errors.Is(err, ErrConflict) {
			err = nil
		}`, "TestSimulation"},
	{"a refused write is forced", "rollup.go",
		`return r.store.Write(ctx, c, RollUp{Totals: l.totals, AsOf: l.readTime, UpdateTime: l.rollUp.UpdateTime})`,
		`return r.store.View(ctx, c, func(v Snapshot) error {
		return r.store.Write(ctx, c, RollUp{Totals: l.totals, AsOf: l.readTime, UpdateTime: v.RollUp().UpdateTime})
	})`, "TestSimulation"},
	{"an event is acknowledged because the roll-up is newer than its commit", "coalescer.go",
		`g.mark = l.readTime`,
		`g.mark = l.asOf`, "TestSimulation"},

	{"the look begins before its generation closes", "coalescer.go",
		`for _, g := range s.closed {
		if g.mark.IsZero() {`,
		`if s.open != nil {
		s.closed = append(s.closed, s.open)
		s.open = nil
	}
	for _, g := range s.closed {
		if g.mark.IsZero() {`, "TestSimulation"},
	{"events are absorbed into a closed generation", "coalescer.go",
		`if s.open != nil {
		c.mu.Unlock()`,
		`if s.open != nil || len(s.closed) > 0 {
		c.mu.Unlock()`, "TestSimulation"},
	{"a roll-up older than the mark releases", "coalescer.go",
		`if g.mark.After(asOf) {`,
		`if g.mark.After(asOf.Add(time.Second)) {`, "TestSimulation"},
	{"an anchor that fails leaves its generation open", "coalescer.go",
		`s.fail(g, s.uncovered(ctx))
		c.mu.Unlock()
		<-g.done`,
		`c.mu.Unlock()
		return context.Cause(ctx)`, "TestSimulation"},
	{"a failed look releases", "coalescer.go",
		`		c.failed(ctx, s, oldest, err)
`,
		`		c.failed(ctx, s, oldest, err)
		c.mu.Lock()
		s.release(l.readTime)
		c.mu.Unlock()
`, "TestSimulation"},
	{"the precondition is dropped", "../internal/memstore/memstore.go",
		`if !d.updateTime.Equal(r.UpdateTime) {`,
		`if false {`, "TestSimulation"},
	{"the local clock tells what is due", "rollup.go",
		`return r.Cadence - l.readTime.Sub(l.asOf)`,
		`return r.Cadence - l.received.Sub(l.asOf)`, "TestSimulation"},
	{"the local clock tells what lies in the future", "rollup.go",
		`case asOf.After(l.readTime):`,
		`case asOf.After(l.received):`, "TestSimulation"},
	{"as_of is the local clock's", "rollup.go",
		`AsOf: l.readTime,`,
		`AsOf: l.received.Truncate(time.Microsecond),`, "TestSimulation"},
	{"a young roll-up is summed again", "rollup.go",
		`return r.Cadence - l.readTime.Sub(l.asOf)`,
		`return 0`, "TestSimulation"},
	{"no leading edge", "coalescer.go",
		`s = &counterState{counter: counter}`,
		`s = &counterState{counter: counter, wake: time.Now().Add(c.Cadence)}`, "TestLoneEventIsRolledUpAtOnce"},
	{"exact wake-ups", "rollup.go",
		`return r.Cadence/10 + time.Duration(r.Random()*float64(spread))`,
		`return time.Duration(0 * spread)`, "TestCrowd"},
	{"the writer waits like the others", "coalescer.go",
		`s.wake = l.received.Add(c.Cadence) // the writer goes first: no back-off`,
		`s.wake = l.received.Add(c.Cadence + c.backOff())`, "TestWaking"},
	{"a failing store is asked without a pause", "coalescer.go",
		`s.wake = time.Now().Add(c.pause(s.failures))`,
		`s.wake = time.Now().Add(time.Millisecond)`, "TestPausesBetweenFailures"},
	{"events are held without end while Firestore fails", "coalescer.go",
		`if s.open != nil && (s.failures == 0 || len(s.closed) == 0) {`,
		`if s.open != nil {`, "TestFewEventsAreHeldWhileLooksFail"},
	{"a counter is not forgotten", "coalescer.go",
		`delete(c.counters, s.counter.RollUp)`,
		``, "TestSimulation"},
	{"an event is said to be covered as of its mark, not as of the roll-up", "coalescer.go",
		`g.asOf = asOf`,
		`g.asOf = g.mark`, "TestEndings"},
	{"a look ends with the request of its anchor", "coalescer.go",
		`values: context.WithoutCancel(ctx)`,
		`values: ctx`, "TestWorkHasTheAnchorsValues"},
	{"a mark covers events that came while it was written", "pending.go",
		`	s.closed = nil
`,
		`	s.closed = nil
	if s.open != nil {
		close(s.open.done)
		s.open = nil
	}
`, "TestSimulation"},
	{"no mark is left because one is there", "pending.go",
		`if err := c.pending.Mark(limited, s.counter); err != nil {`,
		`there, _ := c.pending.Marked(limited, s.counter)
	if there {
	} else if err := c.pending.Mark(limited, s.counter); err != nil {`, "TestSimulation"},
	{"a mark is taken away whatever its version", "../internal/memstore/pending.go",
		`if !ok || !d.updateTime.Equal(m.Version) {`,
		`if _ = d; !ok {`, "TestSimulation"},
	{"a mark is taken away while its counter waits", "pending.go",
		`err == nil && rolledUp {`,
		`err == nil {`, "TestSimulation"},
	{"a mark is taken away after an unknown outcome", "pending.go",
		`if err = d.write(ctx, c, &l); err == nil {`,
		`if err = d.write(ctx, c, &l); true {`, "TestSimulation"},
	{"a mark is taken away on a comparison", "pending.go",
		`case !l.summed:`,
		`case l.summed && agrees(&l):
			return true, nil
		case !l.summed:`, "TestDrainWritesEqualTotals"},
	{"a mark is written without a nonce", "../internal/firestorestore/pending.go",
		`Nonce: rand.Text(), `,
		`Nonce: rand.Text()[:0], `, "TestMarksOfOneInstant"},
	{"Firestore's precondition is dropped", "../internal/firestorestore/store.go",
		`, firestore.LastUpdateTime(updateTime))`,
		`)`, "TestStore"},
	{"shards are summed in a transaction that locks them", "../internal/firestorestore/store.go",
		`}, firestore.ReadOnly)`,
		`})`, "TestStore"},
	{"an audit writes over a young roll-up", "audit.go",
		`case !a.o.DryRun && a.untilDue(&l) > 0:`,
		`case false:`, "TestAuditKeepsToTheCadence"},
	{"an audit leaves what differs", "audit.go",
		`case agrees(&l):
			if`,
		`case true:
			if`, "TestSimulation"},
	{"an audit finds counters by their shards only", "audit.go",
		`if f.RollUp.AsOf.IsZero() {`,
		`if true {`, "TestReplay"},
	{"an audit finds counters by their roll-ups only", "audit.go",
		`case found == ByShards && !l.summed:`,
		`case found == ByShards:`, "TestSimulation"},
	{"a roll-up of zeros is removed within its hour", "audit.go",
		`l.readTime.Sub(l.asOf) > removeAfter`,
		`l.readTime.Sub(l.asOf) > removeAfter/2`, "TestOrphaned"},
	{"a counter at zero is removed", "audit.go",
		`return l.totals.NumShards == 0 && !l.asOf.IsZero()`,
		`return l.totals.Sums["count"] == Int(0) && !l.asOf.IsZero()`, "TestAuditKeepsCountersAtZero"},
	{"a roll-up is removed whatever was written meanwhile", "audit.go",
		`return a.store.Remove(ctx, c, l.rollUp)`,
		`return a.store.View(ctx, c, func(v Snapshot) error { return a.store.Remove(ctx, c, v.RollUp()) })`, "TestRemovalHasItsPrecondition"},
	{"a removal takes the app's fields along", "../internal/memstore/memstore.go",
		`if len(fields) > 0 {`,
		`if false {`, "TestRemovalKeepsTheAppsFields"},
	{"a young difference is drift", "audit.go",
		`case a.o.Grace > 0 && !graceOver && !l.asOf.IsZero():`,
		`case false:`, "TestDrift"},
	{"a difference that a roll-up has covered is drift", "audit.go",
		`covered = !l.asOf.Before(mark)`,
		`covered = !l.asOf.Before(l.readTime)`, "TestBusyCounterDoesNotDrift"},
	{"the cursor passes what waits for its grace", "audit.go",
		`return a.waiting[0].before`,
		`return a.cursor.Place`, "TestKilledAudits"},
	{"a dry run repairs", "audit.go",
		`if a.o.DryRun {
				return differing`,
		`if false {
				return differing`, "TestDryRun"},
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
			} else if !strings.Contains(string(out), "--- FAIL: "+m.test) {
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
	args := []string{"test", "-overlay=" + overlayFile, "-vet=off", "-ldflags=-s -w", "-failfast", "-timeout=2m", "-run=^" + m.test + "$"}
	if dir := filepath.Dir(m.file); filepath.Base(dir) == "firestorestore" {
		args = append(args, "./"+dir)
	} else {
		args = append(args, ".", "-sim.shrink=0")
	}
	return exec.CommandContext(t.Context(), "go", args...).CombinedOutput()
}
