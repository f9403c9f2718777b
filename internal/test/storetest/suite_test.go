package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/cloud/growth"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/value"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
)

// A backend is a store together with the means to write and read documents without it, as apps do.
// Paths are below the database's root.
type backend struct {
	rollup.AuditStore
	growth.Store
	Put    func(t *testing.T, path string, fields map[string]any) time.Time // sets the whole document; returns the commit time
	Delete func(t *testing.T, path string)
	Get    func(t *testing.T, path string) map[string]any // nil: no such document
}

// run runs the suite, and its random tests with that many seeds. Each call of open returns an empty
// database.
func run(t *testing.T, seeds uint64, open func(t *testing.T) backend) {
	for _, test := range []struct {
		name string
		f    func(*testing.T, backend)
	}{
		{"View of nothing", testViewOfNothing},
		{"View reads a roll-up", testViewReadsRollUp},
		{"View begins no later than it reads", testReadTime},
		{"View ends with its context", testViewEnds},
		{"View is a snapshot", testSnapshot},
		{"View sees what was committed before", testViewSeesCommits},
		{"View does not block writes", testViewDoesNotBlock},
		{"Sum of several routes", testSeveralRoutes},
		{"comparisons", testComparisons},
		{"windows", testWindows},
		{"windows of nothing", testNoWindows},
		{"Magnitude", testMagnitude},
		{"Magnitude beyond the largest double", testLargestMagnitude},
		{"Magnitude of documents", testNoMagnitude},
		{"Magnitude of several totals", testMagnitudes},
		{"Write creates", testWriteCreates},
		{"Write replaces what was read", testWriteReplaces},
		{"Write is refused", testWriteRefused},
		{"Write by many at once", testWriteByMany},
		{"WriteLocked", testWriteLocked},
		{"WriteLocked is refused", testLockedRefused},
		{"WriteLocked by many at once", testLockedByMany},
		{"foreign kinds", testForeignKinds},
		{"before", testBefore},
		{"homes with totals that no roll-up wrote", testUnwrittenHomes},
		{"own values are left out", testLeftOut},
		{"forged totals", testForgedTotals},
		{"forged karma", testForgedKarma},
		{"before stays", testBeforeStays},
		{"Claim", testClaim},
		{"RollUps and Missing", testWalks},
		{"RollUps and Missing of many", testLongWalks},
		{"RollUps of groups", testGroups},
		{"RollUps and Missing of days", testDays},
		{"owners", testOwners},
		{"labels", testLabels},
		{"recent roll-ups", testRecent},
		{"a counter among foreign documents", testAmongForeign},
		{"RollUps reads what it finds", testRollUpsReads},
		{"Remove", testRemove},
		{"Remove is refused", testRemoveRefused},
		{"cursor", testCursor},
		{"notes", testNotes},
		{"ids", testIDs},
		{"Look", testLook},
		{"Raise", testRaise},
		{"Raise is refused", testRaiseRefused},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.f(t, open(t))
		})
	}
	for _, c := range totalledCounters {
		t.Run("totals/"+c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, open(t))
		})
	}
	for name, l := range layouts {
		t.Run("find/"+name, func(t *testing.T) {
			t.Parallel()
			testFind(t, open(t), l)
		})
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("foreign documents anywhere/", seed), func(t *testing.T) {
			t.Parallel()
			testForeign(t, open(t), seed)
		})
	}
	for _, test := range sums {
		for read, option := range reads {
			t.Run(fmt.Sprintf("Sum/%s/%s", test.name, read), func(t *testing.T) {
				t.Parallel()
				test.run(t, open(t), option)
			})
		}
	}
}

// reads are the ways to read shards, as options of a route.
var reads = map[string]string{"aggregate": "", "documents": " : documents"}

var likes = counter("counters/{counter}/shards/{shard} -> rollups/{counter} : count", "counters/likes/shards")

// counter returns the counter of the route whose shards are at path.
func counter(mustRoute, path string) route.Counter {
	routes, err := route.Parse(mustRoute)
	if err != nil {
		panic(err)
	}
	c, ok := routes[0].Belongs(path+"/0", nil)
	if !ok {
		panic(fmt.Sprintf("%s does not cover %s", mustRoute, path))
	}
	return c
}

// source is the path of the collection that the counter's first route sums.
func source(c route.Counter) string { return c.Template.Routes[0].Shards(c) }

// view is what one View told.
type view struct {
	readTime  time.Time
	rollUp    rollup.RollUp
	totals    route.Totals
	malformed []string
}

func look(t *testing.T, b backend, c route.Counter) view {
	t.Helper()
	s := open(t, b, c)
	v := view{readTime: s.ReadTime(), rollUp: s.RollUp(), totals: sumOf(t, s)}
	var err error
	if v.malformed, err = s.Malformed(t.Context(), 1000); err != nil {
		t.Fatalf("Malformed(%s): %v", c.RollUp, err)
	}
	return v
}

func open(t *testing.T, b backend, c route.Counter) rollup.Snapshot {
	t.Helper()
	s, err := b.View(t.Context(), c)
	if err != nil {
		t.Fatalf("View(%s): %v", c.RollUp, err)
	}
	return s
}

func sumOf(t *testing.T, s rollup.Snapshot) route.Totals {
	t.Helper()
	totals, err := s.Sum(t.Context())
	if err != nil {
		t.Fatalf("Sum: %v", err)
	}
	return totals
}

func write(t *testing.T, b backend, c route.Counter, r rollup.RollUp) {
	t.Helper()
	if err := b.Write(t.Context(), c, r); err != nil {
		t.Fatalf("Write(%s): %v", c.RollUp, err)
	}
}

func totals(n value.Value, shards int64) route.Totals {
	return route.Totals{Values: map[string]value.Value{"count": n}, Shards: []int64{shards}}
}

// rolledUp returns a roll-up of a counter with one total.
func rolledUp(n value.Value, shards int64, asOf time.Time) rollup.RollUp {
	return rollup.RollUp{Values: only(n), Tally: document.Tally{
		AsOf: asOf, NumShards: shards, PacedUntil: asOf.Add(time.Second), Routes: likes.Template.Hash(), Totals: []string{"count"},
	}}
}

// diff compares, with numbers by type and value.
func diff(want, got any) string {
	return cmp.Diff(want, got, cmp.AllowUnexported(value.Value{}))
}

var someTime = time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)

func testViewOfNothing(t *testing.T, b backend) {
	before := b.Put(t, "other/document", map[string]any{"count": 1})
	v := look(t, b, likes)
	if v.rollUp.Exists() {
		t.Errorf("got roll-up %+v, want none", v.rollUp)
	}
	if d := diff(totals(value.Int(0), 0), v.totals); d != "" {
		t.Errorf("totals (-want +got):\n%s", d)
	}
	if v.readTime.Before(before) {
		t.Errorf("read time %v is before the commit at %v", v.readTime, before)
	}
	if !v.readTime.Equal(v.readTime.Truncate(time.Microsecond)) {
		t.Errorf("read time %v is not in microseconds", v.readTime)
	}
}

func testViewReadsRollUp(t *testing.T, b backend) {
	two := counter("c/{c}/s/{s} -> r/{c} : likes, views", "c/x/s")
	tally := document.Tally{AsOf: someTime, NumShards: 7, PacedUntil: someTime.Add(time.Second), Routes: "5f0c", Totals: []string{"likes", "views"}, Former: []string{"count"},
		Took: 15 * time.Millisecond, Turns: []document.Turn{{Routes: "0f5c", AsOf: someTime}}}
	for _, test := range []struct {
		name   string
		fields map[string]any
		want   rollup.RollUp
	}{
		{"whole", map[string]any{"likes": int64(1) << 60, "views": 0.5, "tally": tally.Encode(), "title": "x"},
			rollup.RollUp{Values: map[string]value.Value{"likes": value.Int(1 << 60), "views": value.Double(0.5)}, Tally: tally}},
		{"empty", map[string]any{}, rollup.RollUp{Values: map[string]value.Value{}}},
		{"a time and null", map[string]any{"likes": someTime, "views": nil, "tally": tally.Encode()},
			rollup.RollUp{Values: map[string]value.Value{"likes": value.Timestamp(someTime), "views": value.Null}, Tally: tally}},
		{"other types", map[string]any{"likes": "1", "views": true, "tally": "7"},
			rollup.RollUp{Values: map[string]value.Value{}, Foreign: map[string]string{"likes": "a string", "views": "a boolean"}}},
		{"a tally of other types", map[string]any{"tally": map[string]any{"as_of": someTime.String(), "num_shards": 2.5, "totals": []any{true}}}, rollup.RollUp{Values: map[string]value.Value{}}},
	} {
		test.want.UpdateTime = b.Put(t, two.RollUp, test.fields)
		got := look(t, b, two).rollUp
		if d := diff(test.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, d)
		}
	}
}

// testReadTime takes a snapshot's time between what was committed before it and after it.
func testReadTime(t *testing.T, b backend) {
	before := b.Put(t, source(likes)+"/0", map[string]any{"count": 1})
	s := open(t, b, likes)
	after := b.Put(t, source(likes)+"/0", map[string]any{"count": 2})
	if read := s.ReadTime(); read.Before(before) || !after.After(read) {
		t.Errorf("the read time %v is not between the commits at %v and %v", read, before, after)
	}
}

func testViewEnds(t *testing.T, b backend) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.View(ctx, likes); err == nil {
		t.Error("View on an ended context succeeded")
	}
	if err := b.Write(ctx, likes, rollup.RollUp{}); err == nil {
		t.Error("Write on an ended context succeeded")
	}
	if _, err := open(t, b, likes).Sum(ctx); err == nil {
		t.Error("Sum on an ended context succeeded")
	}
}

func testSnapshot(t *testing.T, b backend) {
	for read, option := range reads {
		c := counter(route.Default+", other"+option, "counters/"+read+"/shards")
		b.Put(t, source(c)+"/0", map[string]any{"count": 1, "other": 1})
		s := open(t, b, c)
		committed := b.Put(t, source(c)+"/0", map[string]any{"count": 100, "other": "x"})
		b.Put(t, source(c)+"/1", map[string]any{"count": 1000, "other": 1000})
		if !committed.After(s.ReadTime()) {
			t.Errorf("%s: a write after the snapshot's begin was committed at %v, not after its read time %v", read, committed, s.ReadTime())
		}
		want := route.Totals{Values: map[string]value.Value{"count": value.Int(1), "other": value.Int(1)}, Shards: []int64{1}}
		if d := diff(want, sumOf(t, s)); d != "" {
			t.Errorf("%s: the snapshot moved (-want +got):\n%s", read, d)
		}
	}
}

func testViewSeesCommits(t *testing.T, b backend) {
	for i := range 20 {
		committed := b.Put(t, source(likes)+"/0", map[string]any{"count": i})
		v := look(t, b, likes)
		if v.readTime.Before(committed) {
			t.Fatalf("read time %v is before the commit at %v", v.readTime, committed)
		}
		if d := diff(totals(value.Int(int64(i)), 1), v.totals); d != "" {
			t.Fatalf("after commit %d (-want +got):\n%s", i, d)
		}
	}
}

// testViewDoesNotBlock writes shards and the roll-up while a snapshot is open that has read them.
func testViewDoesNotBlock(t *testing.T, b backend) {
	b.Put(t, source(likes)+"/0", map[string]any{"count": 1})
	write(t, b, likes, rolledUp(value.Int(1), 1, someTime))
	s := open(t, b, likes)
	sumOf(t, s)
	// The transaction is not ended: a transaction that held locks would keep each of these waiting.
	b.Put(t, source(likes)+"/0", map[string]any{"count": 2})
	b.Delete(t, source(likes)+"/0")
	r := rolledUp(value.Int(2), 1, someTime)
	r.UpdateTime = s.RollUp().UpdateTime
	write(t, b, likes, r)
}

func testClaim(t *testing.T, b backend) {
	read := func(s rollup.Snapshot) rollup.Claim {
		t.Helper()
		claim, err := s.Claim(t.Context())
		if err != nil {
			t.Fatalf("reading the claim: %v", err)
		}
		return claim
	}
	over := someTime.Add(123456 * time.Microsecond)
	before := open(t, b, likes)
	if got := read(before); got != (rollup.Claim{}) {
		t.Errorf("the claim is %+v, want none", got)
	}

	claim := rollup.Claim{Claim: document.Claim{By: "A", Over: over}}
	if err := b.Claim(t.Context(), likes, claim); err != nil {
		t.Fatal(err)
	}
	if got := read(before); got != (rollup.Claim{}) {
		t.Errorf("the claim is %+v in a snapshot from before it", got)
	}
	after := open(t, b, likes)
	first := read(after)
	if first.By != "A" || !first.Over.Equal(over) || first.UpdateTime.After(after.ReadTime()) || !first.UpdateTime.After(before.ReadTime()) {
		t.Errorf("the claim is %+v in a snapshot of %v", first, after.ReadTime())
	}
	if got := read(open(t, b, counter("counters/{counter}/shards/{shard} -> rollups/{counter} : count", "counters/other/shards"))); got != (rollup.Claim{}) {
		t.Errorf("another counter's claim is %+v", got)
	}

	for _, seen := range []time.Time{{}, first.UpdateTime.Add(-time.Second)} {
		claim = rollup.Claim{Claim: document.Claim{By: "B", Over: over}, UpdateTime: seen}
		if err := b.Claim(t.Context(), likes, claim); !errors.Is(err, rollup.ErrConflict) {
			t.Errorf("a claim over one of %v: %v, want ErrConflict", seen, err)
		}
	}
	claim.UpdateTime = first.UpdateTime
	if err := b.Claim(t.Context(), likes, claim); err != nil {
		t.Fatal(err)
	}
	if got := read(open(t, b, likes)); got.By != "B" || !got.UpdateTime.After(first.UpdateTime) {
		t.Errorf("the claim is %+v after it was taken over", got)
	}

	at := b.Put(t, document.ClaimPath(likes.RollUp), map[string]any{"claim": 7})
	if got := read(open(t, b, likes)); got.By != "" || !got.UpdateTime.Equal(at) {
		t.Errorf("a document at %v that is not a claim is read as %+v", at, got)
	}
}

func testWriteCreates(t *testing.T, b backend) {
	r := rolledUp(value.Int(math.MaxInt64), 3, someTime)
	r.Tally.Former = []string{"b", "a"}
	r.Tally.Took = 15*time.Millisecond + 999
	r.Tally.Turns = []document.Turn{{Routes: "0f5c", AsOf: someTime}}
	write(t, b, likes, r)
	want := map[string]any{"count": int64(math.MaxInt64), "tally": map[string]any{
		"as_of": someTime, "num_shards": int64(3), "paced_until": someTime.Add(time.Second), "routes": likes.Template.Hash(), "totals": []any{"count"}, "former": []any{"b", "a"},
		"took": int64(15000), "turns": []any{map[string]any{"routes": "0f5c", "as_of": someTime}},
	}}
	if d := cmp.Diff(want, b.Get(t, likes.RollUp)); d != "" {
		t.Errorf("document (-want +got):\n%s", d)
	}
	if err := b.Write(t.Context(), likes, rollup.RollUp{}); !errors.Is(err, rollup.ErrConflict) {
		t.Errorf("creating it again: got %v, want ErrConflict", err)
	}
}

func testWriteReplaces(t *testing.T, b backend) {
	read := rollup.RollUp{UpdateTime: b.Put(t, likes.RollUp, map[string]any{"count": 1, "tally": map[string]any{"as_of": "never", "other": 1}, "title": "kept"})}
	for i := range 3 {
		r := rolledUp(value.Double(0.5), int64(i), someTime.Add(time.Duration(i)*time.Microsecond))
		r.UpdateTime = read.UpdateTime
		write(t, b, likes, r)
		want := map[string]any{"count": 0.5, "tally": r.Tally.Encode(), "title": "kept"}
		if d := cmp.Diff(want, b.Get(t, likes.RollUp)); d != "" {
			t.Errorf("document (-want +got):\n%s", d)
		}
		read = look(t, b, likes).rollUp
	}
	b.Put(t, likes.RollUp, map[string]any{"count": 1, "a b": 2, "views": 3, "title": "kept"})
	r := rolledUp(value.Int(7), 1, someTime)
	r.UpdateTime, r.Gone = look(t, b, likes).rollUp.UpdateTime, []string{"a b", "views", "unknown", "count", "tally"} // the last two are written all the same
	write(t, b, likes, r)
	if d := cmp.Diff(map[string]any{"count": int64(7), "tally": r.Tally.Encode(), "title": "kept"}, b.Get(t, likes.RollUp)); d != "" {
		t.Errorf("document without former totals (-want +got):\n%s", d)
	}
}

func testWriteRefused(t *testing.T, b backend) {
	created := b.Put(t, likes.RollUp, map[string]any{"count": 1})
	b.Put(t, likes.RollUp, map[string]any{"count": 2})
	gone := b.Put(t, "rollups/gone", map[string]any{"count": 1})
	b.Delete(t, "rollups/gone")
	unlucky := likes
	unlucky.RollUp = "rollups/gone"
	for _, test := range []struct {
		name       string
		counter    route.Counter
		updateTime time.Time
	}{
		{"changed since it was read", likes, created},
		{"created since it was read", likes, time.Time{}},
		{"earlier than ever", likes, created.Add(-time.Second)},
		{"deleted since it was read", unlucky, gone},
	} {
		r := rolledUp(value.Int(9), 9, someTime)
		r.UpdateTime = test.updateTime
		err := b.Write(t.Context(), test.counter, r)
		if !errors.Is(err, rollup.ErrConflict) {
			t.Errorf("%s: got %v, want ErrConflict", test.name, err)
		}
	}
	if got := b.Get(t, likes.RollUp); !maps.Equal(got, map[string]any{"count": int64(2)}) {
		t.Errorf("a refused write left %v", got)
	}
	if got := b.Get(t, unlucky.RollUp); got != nil {
		t.Errorf("a refused write created %v", got)
	}
}

func testWriteByMany(t *testing.T, b backend) {
	for round := range 3 {
		read := look(t, b, likes).rollUp
		var (
			mu   sync.Mutex
			won  int
			many sync.WaitGroup
		)
		for i := range 8 {
			many.Go(func() {
				r := rolledUp(value.Int(int64(i)), 1, someTime.Add(time.Duration(8*round+i)*time.Microsecond))
				r.UpdateTime = read.UpdateTime
				err := b.Write(t.Context(), likes, r)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					won++
				} else if !errors.Is(err, rollup.ErrConflict) {
					t.Errorf("got %v, want nil or ErrConflict", err)
				}
			})
		}
		many.Wait()
		if won != 1 {
			t.Errorf("round %d: %d of 8 writes on one precondition succeeded, want 1", round, won)
		}
	}
}

// testIDs takes a counter with ids of every kind that Firestore allows through a roll-up.
func testIDs(t *testing.T, b backend) {
	var want []string
	for _, id := range []string{
		"a b", "größe", "三", "👍🏽", "a.b", "a:b", "a\\b", "`a`", "a'b\"c", "a%2Fb", "a?b#c&d=e", "{a}", "(a)", "[a]", "a*b", "a,b;c", "->", "~!@$^+|<>",
		"\u00a0", "\u202e", "a\nb\tc", "_", "__a", "1", "00", "-0", "1e3", "٣", "...", strings.Repeat("x", 1499), strings.Repeat("x", 1500), strings.Repeat("x", 1499) + "y",
		// numeric ids, which Firestore orders by their numbers
		"__id7__", "__id-3__", "__id8__", "__id10__", "__id-9223372036854775808__", "__id9223372036854775807__",
		// of 1,500 bytes: nothing longer follows them, and no character the last one
		strings.Repeat("x", 1496) + "\U0010FFFF", strings.Repeat("x", 1495) + "y", strings.Repeat("x", 1497) + "\uD7FF", strings.Repeat("x", 1497) + "\uE000",
		strings.Repeat("\U0010FFFF", 375),
	} {
		c := counter(route.Default, "counters/"+id+"/shards")
		b.Put(t, source(c)+"/"+id, map[string]any{"count": 1})
		v := look(t, b, c)
		if d := diff(totals(value.Int(1), 1), v.totals); d != "" {
			t.Errorf("%q (-want +got):\n%s", id, d)
		}
		write(t, b, c, rolledUp(value.Int(1), 1, v.readTime))
		want = append(want, id)
		if got := look(t, b, c).rollUp; diff(v.totals.Values, got.Values) != "" || !got.Tally.AsOf.Equal(v.readTime) {
			t.Errorf("%q: roll-up %+v, want %+v as of %v", id, got, v.totals, v.readTime)
		}
	}
	var wantShards, wantRollUps []string
	for _, id := range want {
		wantShards, wantRollUps = append(wantShards, "counters/"+id+"/shards"), append(wantRollUps, "rollups/"+id)
	}
	slices.Sort(wantShards)
	slices.Sort(wantRollUps)
	missing := mustRoute(t, "counters/{counter}/shards/{shard} -> none/{counter} : count")
	for _, limit := range []int{1, 3} {
		_, rollUps := walk(t, b, likes.Template.Routes[0], limit)
		shards, _ := walk(t, b, missing, limit)
		if d := cmp.Diff(wantShards, shards); d != "" {
			t.Errorf("counters found, %d at a time (-want +got):\n%s", limit, d)
		}
		if d := cmp.Diff(wantRollUps, rollUps); d != "" {
			t.Errorf("roll-ups found, %d at a time (-want +got):\n%s", limit, d)
		}
	}
}
