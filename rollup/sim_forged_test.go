package rollup_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/value"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

// Some clients write totals themselves into the documents that they create, and parts of a tally,
// as careless rules allow. Or an app keeps a list where a total belongs.

// appForges has a client write the app's document over, with totals that it has made up, or with
// lists. The mutex is held.
func (s *simulation) appForges(c *simulatedCounter, name string) {
	how := s.chance(0.5, name+" forges", upTo(4))
	if how == 0 || s.circle {
		s.appCreates(c)
		return
	}

	fields := s.appFields(c)
	totals := s.template(c).Totals()
	for i, total := range totals {
		fields[total] = []any{int64(1_000_000), -0.5, math.NaN()}[(int(how)+i)%3]
	}
	switch how {
	case 2:
		tally := s.forgedTally(c)
		fields[document.TallyField] = tally
		c.forgedTally = true
	case 3:
		tally := s.forgedTally(c)
		field := slices.Sorted(maps.Keys(tally))[int(s.chance(1, name+" forges field", upTo(int64(len(tally)-1))))]
		fields[document.TallyField] = map[string]any{field: tally[field]}
		c.forgedTally = true
	case 4:
		for _, total := range totals[:(len(totals)+1)/2] {
			fields[total] = []any{"ann"}
		}
	}

	c.forged, c.cameAgain = true, true
	s.around(c, func() { c.came = s.store.Put(c.RollUp, fields) })
	s.tell("a client forges %s: %v", c.RollUp, fields)
}

// forgedTally returns a tally that a client has made up. A client that says that an alarm stands
// has the roll-up wait for the audit, so it does not in a run with windows.
func (s *simulation) forgedTally(c *simulatedCounter) map[string]any {
	now := s.store.Now()
	tally := document.Tally{
		AsOf: now.Truncate(time.Microsecond), NumShards: 7, PacedUntil: now.Add(time.Second), Routes: s.template(c).Hash(), Totals: s.template(c).Totals(), Former: []string{"gone"},
		Took: 50 * time.Millisecond, Turns: []document.Turn{{Routes: "0f5c", AsOf: now.Add(-time.Second)}}, OwnerlessSince: now,
		Before: map[string]value.Value{"other": value.Int(8)},
	}
	if !s.windowed {
		tally.Rings = now.Add(time.Hour)
	}
	return tally.Encode()
}

// lists returns the names of the totals in whose fields a document holds a list.
func (s *simulation) lists(c *simulatedCounter) map[string]bool {
	lists := make(map[string]bool)
	for name, v := range s.store.Get(c.RollUp) {
		_, is := v.([]any)
		if is {
			lists[name] = true
		}
	}
	return lists
}

// isForged reports whether the document holds a total that no roll-up wrote.
func (s *simulation) isForged(c *simulatedCounter) bool {
	fields := s.store.Get(c.RollUp)
	for _, name := range s.template(c).Totals() {
		v, ok := value.Number(fields[name])
		if ok && !v.IsZero() {
			return true
		}
	}
	return false
}

// Holds returns the kind of a field after the write, and its value.
func (w written) Holds(f document.Field) (kind string, held any) {
	held, there := f.In(w.after)
	if !there {
		return "", nil
	}
	return value.KindOf(held), held
}

// outlived returns the names of lists that a write has taken away.
func outlived(before, after map[string]bool) error {
	for name := range before {
		if !after[name] {
			return fmt.Errorf("the list in %s is gone", name)
		}
	}
	return nil
}

// written returns what a roll-up must hold that is written. If somebody has forged the document, a
// total is left out whose field held a list at the look, and what is pruned may be put back.
func (t truth) written(c *simulatedCounter, of *route.Template, at time.Time, r rollup.RollUp) map[string]value.Value {
	totals := maps.Clone(t.totals(of, at))
	if !c.forged {
		return totals
	}
	maps.DeleteFunc(totals, func(name string, _ value.Value) bool { return !r.Tally.Covers(name) })
	for name, v := range r.Values {
		if !slices.Contains(of.Totals(), name) {
			totals[name] = v
		}
	}
	return totals
}
