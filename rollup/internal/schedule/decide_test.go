package schedule

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/value"
	"github.com/firestore-tally/tally/rollup/internal/roll"
	"github.com/firestore-tally/tally/rollup/route"
)

var (
	looked   = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) // the read time of a test's look
	decideBy = mustRoute("counters/{c}/shards/{s} -> rollups/{c} : count : every 30s")
)

func mustRoute(text string) *route.Route {
	routes, err := route.Parse(text)
	if err != nil {
		panic(err)
	}
	return routes[0]
}

// A state is what a look found.
type state struct {
	age    time.Duration // of the roll-up
	total  value.Value   // of the roll-up
	shards int64         // that the roll-up counted

	sum       value.Value // what the shards add up to now
	numShards int64       // how many there are

	none     bool // no roll-up document
	foreign  bool // the document is the app's; Tally never wrote it
	future   bool // as_of counts as none
	rerouted bool // other routes made the roll-up
	untotal  bool // the roll-up lacks the total
}

// The usual states.
var (
	equal    = state{age: time.Minute, total: value.Int(7), shards: 2, sum: value.Int(7), numShards: 2}
	differs  = state{age: time.Minute, total: value.Int(7), shards: 2, sum: value.Int(8), numShards: 2}
	absent   = state{none: true, sum: value.Int(8), numShards: 2}
	emptied  = state{age: time.Minute, total: value.Int(7), shards: 2}
	atZeros  = state{age: time.Hour + time.Microsecond}
	anothers = state{age: time.Minute, total: value.Int(7), shards: 2, sum: value.Int(7), numShards: 2, rerouted: true}
)

// with returns s changed by f.
func (s state) with(f func(*state)) state {
	f(&s)
	return s
}

func (s state) look() *roll.Look {
	l := &roll.Look{
		Counter: route.Counter{Template: decideBy.Template, RollUp: "rollups/c"}, ReadTime: looked,
		Totals: route.Totals{Values: map[string]value.Value{"count": s.sum}, Shards: []int64{s.numShards}},
	}
	if s.none {
		return l
	}
	l.RollUp.UpdateTime = looked.Add(-s.age)
	if s.foreign {
		return l
	}
	l.RollUp.Values = map[string]value.Value{"count": s.total}
	if s.untotal {
		l.RollUp.Values = nil
	}
	l.AsOf = looked.Add(-s.age)
	l.RollUp.Tally = document.Tally{AsOf: l.AsOf, NumShards: s.shards, Routes: decideBy.Template.Hash(), Totals: []string{"count"}}
	if s.future {
		l.AsOf, l.RollUp.Tally.AsOf = time.Time{}, looked.Add(time.Hour)
	}
	if s.rerouted {
		l.RollUp.Tally.Routes = "others"
	}
	return l
}

func TestAgrees(t *testing.T) {
	for name, test := range map[string]struct {
		state state
		want  bool
	}{
		"equal":                            {equal, true},
		"another total":                    {differs, false},
		"another number of shards":         {equal.with(func(s *state) { s.shards = 3 }), false},
		"another type":                     {equal.with(func(s *state) { s.total = value.Double(7) }), false},
		"no total":                         {equal.with(func(s *state) { s.untotal = true }), false},
		"of other routes":                  {anothers, false},
		"as_of counts as none":             {equal.with(func(s *state) { s.future = true }), false},
		"no roll-up":                       {absent, false},
		"no roll-up, no shards":            {state{none: true}, true},
		"the app's document":               {equal.with(func(s *state) { s.foreign = true }), false},
		"the app's document, no shards":    {state{foreign: true}, true},
		"zeros without shards":             {atZeros, true},
		"not zeros and no shards":          {emptied, false},
		"zeros of other routes, no shards": {atZeros.with(func(s *state) { s.rerouted = true }), false},
		"in the future, no shards":         {state{future: true}, false},
	} {
		if got := test.state.look().Agrees(); got != test.want {
			t.Errorf("%s: agrees %v, want %v", name, got, test.want)
		}
	}
}

// When an audit sums.
func TestNeedsSum(t *testing.T) {
	const never = time.Duration(math.MinInt64)
	for name, test := range map[string]struct {
		first time.Duration // the first look's read time, by this look's as_of; never: this is the first
		state state
		want  bool
	}{
		"first look":                                   {never, differs, true},
		"first look, roll-up of other routes":          {never, anothers, true},
		"first look, no roll-up":                       {never, absent, true},
		"first look, as_of counts as none":             {never, differs.with(func(s *state) { s.future = true }), true},
		"rolled up as of before the first look":        {time.Microsecond, differs, true},
		"rolled up as of the first look":               {0, differs, false},
		"rolled up as of after the first look":         {-time.Microsecond, differs, false},
		"rolled up by other routes after the first":    {-time.Second, anothers, true},
		"rolled up as of nothing after the first look": {0, differs.with(func(s *state) { s.future = true }), true},
		"still no roll-up":                             {0, absent, true},
	} {
		l := test.state.look()
		var k comparison
		if test.first != never {
			k.from = looked.Add(-test.state.age).Add(test.first)
			k.asOf = k.from.Add(-time.Minute)
		}
		if got := k.needsSum(l); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
		before := k
		k.remember(l)
		if test.first == never {
			if !k.from.Equal(looked) || !k.asOf.Equal(l.AsOf) {
				t.Errorf("%s: from %v and as_of %v, want the look's", name, k.from, k.asOf)
			}
		} else if k != before {
			t.Errorf("%s: a later look changed %+v to %+v", name, before, k)
		}
	}
}

// What an audit decides when it has summed.
func TestCompareAfterTheSum(t *testing.T) {
	var (
		atOnce   = comparison{o: &AuditOptions{}}
		patient  = comparison{o: &AuditOptions{}, grace: true}
		over     = comparison{o: &AuditOptions{}, grace: true, graceOver: true}
		dry      = comparison{o: &AuditOptions{DryRun: true}}
		dryFirst = comparison{o: &AuditOptions{DryRun: true}, grace: true}
		dryOver  = comparison{o: &AuditOptions{DryRun: true}, grace: true, graceOver: true}
		keeps    = comparison{o: &AuditOptions{KeepRerouted: true}}
		all      = map[string]comparison{"at once": atOnce, "grace": patient, "after the grace": over, "dry": dry, "dry, grace": dryFirst, "dry, after the grace": dryOver, "keeps": keeps}
	)
	for _, test := range []struct {
		name  string
		state state
		want  map[string]action // by comparison; "" is for those not named
	}{
		{"equal", equal, map[string]action{"": actionLeave}},
		{"equal, old", equal.with(func(s *state) { s.age = 1000 * time.Hour }), map[string]action{"": actionLeave}},
		{"differs", differs, map[string]action{"at once": actionRepair, "grace": actionWait, "after the grace": actionRepair, "dry": actionTell, "dry, grace": actionWait, "dry, after the grace": actionTell, "keeps": actionRepair}},
		{"missing", absent, map[string]action{"": actionRepair, "dry": actionTell, "dry, grace": actionTell, "dry, after the grace": actionTell}},
		{"as_of counts as none", differs.with(func(s *state) { s.future = true }), map[string]action{"": actionRepair, "dry": actionTell, "dry, grace": actionTell, "dry, after the grace": actionTell}},
		{"orphaned", emptied, map[string]action{"": actionRepair, "grace": actionWait, "dry": actionTell, "dry, grace": actionWait, "dry, after the grace": actionTell}},
		{"rerouted", anothers, map[string]action{"": actionRepair, "dry": actionTell, "dry, grace": actionTell, "dry, after the grace": actionTell, "keeps": actionTell}},
		{"removable", atZeros, map[string]action{"": actionRemove, "dry": actionLeave, "dry, grace": actionLeave, "dry, after the grace": actionLeave}},
		{"zeros for an hour", atZeros.with(func(s *state) { s.age = time.Hour }), map[string]action{"": actionLeave}},
		{"a total of zero, with shards", state{age: 2 * time.Hour, shards: 2, numShards: 2}, map[string]action{"": actionLeave}},
		{"zeros of other routes", atZeros.with(func(s *state) { s.rerouted = true }), map[string]action{"": actionRepair, "dry": actionTell, "dry, grace": actionTell, "dry, after the grace": actionTell, "keeps": actionTell}},
		{"the app's document", state{foreign: true}, map[string]action{"": actionLeave}},
	} {
		for name, k := range all {
			want, named := test.want[name]
			if !named {
				want = test.want[""]
			}
			if got := k.decide(test.state.look()); got != want {
				t.Errorf("%s, %s: %v, want %v", test.name, name, got, want)
			}
		}
	}
}

func TestDifference(t *testing.T) {
	for name, test := range map[string]struct {
		state     state
		graceOver bool
		since     bool // somebody wrote the roll-up since the first look
		want      difference
	}{
		"without a grace":                  {differs, false, false, differenceRecent},
		"after the grace":                  {differs, true, false, differenceDrift},
		"written meanwhile, still differs": {differs, true, true, differenceRecent},
		"missing":                          {absent, false, false, differenceMissing},
		"missing after a grace":            {absent, true, false, differenceMissing},
		"as_of counts as none":             {differs.with(func(s *state) { s.future = true }), true, false, differenceMissing},
		"orphaned":                         {emptied, false, false, differenceOrphaned},
		"orphaned after the grace":         {emptied, true, false, differenceOrphaned},
		"rerouted":                         {anothers, false, false, differenceRerouted},
		"rerouted is never drift":          {anothers, true, false, differenceRerouted},
		"rerouted, without shards":         {emptied.with(func(s *state) { s.rerouted = true }), true, false, differenceRerouted},
		"zeros of other routes":            {atZeros.with(func(s *state) { s.rerouted = true }), true, false, differenceRerouted},
	} {
		l := test.state.look()
		k := comparison{grace: true, graceOver: test.graceOver, from: looked.Add(-time.Second), asOf: l.AsOf}
		if test.since {
			k.asOf = l.AsOf.Add(-time.Microsecond)
		}
		if got := k.difference(l); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

// What a tick decides of a counter of a route that says "every 30s".
func TestKeepDecides(t *testing.T) {
	const stale = staleAfter * 30 * time.Second
	for name, test := range map[string]struct {
		state state
		want  action
	}{
		"equal":                        {equal, actionLeave},
		"equal, almost 10 D old":       {equal.with(func(s *state) { s.age = stale - time.Microsecond }), actionLeave},
		"equal, 10 D old":              {equal.with(func(s *state) { s.age = stale }), actionRepair},
		"zero with shards, 10 D old":   {state{age: stale, shards: 2, numShards: 2}, actionRepair},
		"zeros, no shards, 10 D old":   {state{age: stale}, actionLeave},
		"zeros, no shards, for 1 h":    {state{age: time.Hour}, actionLeave},
		"zeros, no shards, for longer": {atZeros, actionRemove},
		"differs":                      {differs, actionRepair},
		"no roll-up":                   {absent, actionRepair},
		"not zeros and no shards":      {emptied, actionRepair},
		"of other routes":              {anothers, actionRepair},
		"zeros of other routes":        {atZeros.with(func(s *state) { s.rerouted = true }), actionRepair},
		"as_of counts as none":         {equal.with(func(s *state) { s.future = true }), actionRepair},
		"no roll-up, no shards":        {state{none: true}, actionLeave},
		"the app's, no shards":         {state{foreign: true}, actionLeave},
		"the app's":                    {equal.with(func(s *state) { s.foreign = true }), actionRepair},
	} {
		if got := decideScheduled(test.state.look()); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

// Walks that are not done go on, even if their page failed. The others start over when no walk is
// left but those.
func TestCursorGoesOn(t *testing.T) {
	for _, test := range [][2][]Place{
		{{{Done: true}, {From: "x", Failed: true}, {From: "y"}}, {{Done: true}, {From: "x"}, {From: "y"}}},
		{{{Done: true, Last: 7}, {From: "x", Failed: true, Reads: 2}, {Done: true}}, {{Last: 7}, {From: "x", Reads: 2}, {}}},
	} {
		places := slices.Clone(test[0])
		(&cycle{o: new(AuditOptions)}).beginLap(&Lap{Began: time.Unix(1, 0)}, places)
		if !slices.Equal(places, test[1]) {
			t.Errorf("%+v goes on at %+v, want %+v", test[0], places, test[1])
		}
	}
}
