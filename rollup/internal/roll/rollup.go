package roll

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/value"
	"github.com/firestore-tally/tally/rollup/route"
)

// A RollUp is a roll-up document.
type RollUp struct {
	Values map[string]value.Value // the totals by name, without totals that the document lacks, or that are not a number, a timestamp or null
	Tally  document.Tally

	// Labels are the ids of the document's path that it has in fields: see route.Counter.Labels. A
	// read has the texts that stand in these fields.
	Labels map[string]string

	// Foreign says of which kind a value of the app's is that stands in the field of a total, such
	// as "an array", by the total's name. Values lacks these totals. It also has what stands in the
	// field of a label, and is no text. It is nil if there are none, and in what is written.
	Foreign map[string]string

	Gone []string // names of totals that a write takes away; nil after a read

	// UpdateTime is when the document was last written, as Firestore says; zero when it does not
	// exist. It is the precondition of the write that replaces what was read.
	UpdateTime time.Time
}

// RollUpOf returns the roll-up that a document with the fields holds. The fields are as the
// Firestore SDK decodes them.
func RollUpOf(t *route.Template, fields map[string]any, updateTime time.Time) RollUp {
	r := RollUp{
		Values:     make(map[string]value.Value),
		Tally:      document.DecodeTally(fields[document.TallyField]),
		UpdateTime: updateTime,
	}
	for _, name := range t.Totals() {
		field, there := fields[name]
		if !there {
			continue
		}
		if isForeign(field, t.OfTimes(name)) && !r.Tally.Wrote(name) {
			r.addForeign(name, value.KindOf(field))
			continue
		}
		v, ok := value.Of(field)
		if ok {
			r.Values[name] = v
		}
	}
	r.readLabels(t, fields)
	return r
}

// Exists reports whether the document existed when it was read.
func (r RollUp) Exists() bool { return !r.UpdateTime.IsZero() }

// A document of the app's may hold something in the field of a total that no roll-up wrote. If no
// such total can be of its kind, it is the app's, and the total is left out:
// docs/design/rules.md#foreign-kind. A number is replaced by what the documents add up to
// (docs/design/rules.md#nobodys-number), and kept in Tally.Before
// (docs/design/rules.md#nothing-is-lost).

// isForeign reports whether a total, which may be one of times, cannot be of the value's kind. What
// says nothing is of no kind.
func isForeign(field any, ofTimes bool) bool {
	if value.IsNothing(field) {
		return false
	}
	if ofTimes {
		_, isTime := field.(time.Time)
		return !isTime
	}
	_, isNumber := value.Number(field)
	return !isNumber
}

// addForeign notes that the field of a total holds a value of the app's.
func (r *RollUp) addForeign(name, kind string) {
	if r.Foreign == nil {
		r.Foreign = make(map[string]string)
	}
	r.Foreign[name] = kind
}

// isForeign reports whether the field of the total holds a value of the app's.
func (r RollUp) isForeign(name string) bool {
	_, is := r.Foreign[name]
	return is
}

// ForeignExample says where a value of the app's stands, such as "posts/a: likes is an array"; ""
// if there is none. path is that of the document.
func (r RollUp) ForeignExample(path string) string {
	for _, name := range slices.Sorted(maps.Keys(r.Foreign)) {
		return fmt.Sprintf("%s: %s is %s", path, name, r.Foreign[name])
	}
	return ""
}

// Unwritten returns the names of the totals whose numbers or timestamps no roll-up wrote, sorted.
// Zeros are not among them: apps write them into new documents, and they agree with a counter that
// has no documents.
func (r RollUp) Unwritten() []string {
	var names []string
	for name, v := range r.Values {
		if !v.IsNull() && !v.IsZero() && !r.Tally.Wrote(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// UnwrittenExample says what stands where no roll-up wrote, such as "posts/b: likes is 1234"; "" if
// nothing does. path is that of the document.
func (r RollUp) UnwrittenExample(path string) string {
	for _, name := range r.Unwritten() {
		return fmt.Sprintf("%s: %s is %v", path, name, r.Values[name])
	}
	return ""
}

// WrittenOver returns r as it is written over what its document holds: with Tally.Before, which
// keeps what the document's own has, and what r is the first to replace. It reports false if r
// would replace a value of the app's that is of another kind.
func (r RollUp) WrittenOver(held RollUp) (over RollUp, ok bool) {
	before := make(map[string]value.Value)
	for name, v := range held.Tally.Before {
		if r.listsTotal(name) {
			before[name] = v
		}
	}

	for name := range r.Labels {
		left := held.isForeign(name)
		if left {
			return r, false
		}
	}
	for name := range r.Values {
		if held.isForeign(name) {
			return r, false
		}
		v, there := held.Values[name]
		_, noted := before[name]
		if there && v.SaysSomething() && !noted && !held.Tally.Wrote(name) {
			before[name] = v
		}
	}

	r.Tally.Before = nil
	if len(before) > 0 {
		r.Tally.Before = before
	}
	return r, true
}

// listsTotal reports whether the name stays in the tally that r writes.
func (r RollUp) listsTotal(name string) bool {
	return slices.Contains(r.Tally.Totals, name) || slices.Contains(r.Tally.Former, name)
}

// prune has r take the former totals away. What stood in their fields before the first roll-up is
// put back.
func (r *RollUp) prune(held document.Tally) {
	gone, values := r.Tally.Former, maps.Clone(r.Values)
	r.Gone, r.Tally.Former = nil, nil
	for _, name := range gone {
		before, there := held.Before[name]
		if there {
			values[name] = before
		} else {
			r.Gone = append(r.Gone, name)
		}
	}
	r.Values = values
}
