package route

import (
	"slices"
	"strings"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/value"
)

// A Source is a document that was written, and the routes that cover it.
type Source struct {
	path   string   // below the database's root
	ids    []string // of the path
	routes Routes   // that cover it
}

// Source returns the source document at path (below the database's root). It reports false if no
// route covers it.
func (rs Routes) Source(path string) (Source, bool) {
	s := Source{path: path, ids: strings.Split(path, "/")}
	for i, r := range rs {
		switch {
		case !r.pattern.matches(s.ids):
		case s.routes == nil:
			s.routes = rs[i : i+1 : i+1] // most documents have one route, which needs no memory
		default:
			s.routes = append(s.routes, r)
		}
	}
	return s, len(s.routes) > 0
}

// Path returns the document's path below the database's root.
func (s Source) Path() string { return s.path }

// Routes returns the routes that cover the document. Callers must not change the list.
func (s Source) Routes() Routes { return s.routes }

// Keyed returns the templates of the routes with keys that cover the document.
func (s Source) Keyed() []*Template {
	var templates []*Template
	for _, r := range s.routes {
		if r.By != nil {
			templates = append(templates, r.Template)
		}
	}
	return templates
}

// Keys returns the fields of the keys of the routes that cover the document, each once. Only these
// fields and the document's path determine its counters.
func (s Source) Keys() []document.Field {
	var fields []document.Field
	for _, r := range s.routes {
		for _, k := range r.By {
			if !slices.Contains(fields, k.Field) {
				fields = append(fields, k.Field)
			}
		}
	}
	return fields
}

// Times returns those of Keys that hold the times of days, weeks and months.
func (s Source) Times() []document.Field {
	var fields []document.Field
	for _, r := range s.routes {
		if f := r.Time(); f != "" && !slices.Contains(fields, f) {
			fields = append(fields, f)
		}
	}
	return fields
}

// Keys returns the Keys of the source document at path (below the database's root); none if no
// route covers it.
func (rs Routes) Keys(path string) []document.Field {
	s, _ := rs.Source(path)
	return s.Keys()
}

// A Concern is one counter that an event is about.
type Concern struct {
	Counter

	// Unchanged says that the event is about a write that leaves every total of the counter as it
	// was. The old and new values in the event show that. The event must then tell the write's
	// commit time. No change relies on such an event: docs/design/rules.md#unchanged-young.
	Unchanged bool

	// Circular says that the counter's roll-ups may be documents of the collection that was
	// written. So each of them is an event, too, which is Unchanged: see Route.Circular.
	Circular bool

	// Untold says of a Circular counter that the event came without its documents. It may be about
	// a roll-up, or about a change.
	Untold bool
}

// A Change says what an event tells about the document that was written.
type Change interface {
	// Known reports whether the event came with its documents.
	Known() bool

	// Updated reports whether the document existed before and after. It is false if the event came
	// without its documents.
	Updated() bool

	// Changed reports whether the field may differ from before. It is called for updates only.
	Changed(f document.Field) bool

	// Held returns the value that the field held before, and the one that it holds now. A value is
	// a string, an int64, a float64, a time.Time, or a document.Reference if the document is in the
	// same database. It returns nil for any other value, and for a field that is missing. So values
	// can be compared with ==.
	Held(f document.Field) (before, after any)

	// Has reports whether the document had the field before the write, or has it after it.
	Has(f document.Field, after bool) bool

	// Value returns the value that the field held before the write, or holds after it, as the
	// Firestore SDK decodes it if a condition can compare it. It is a document.Hidden if the event
	// may not show it. Value reports false for a field, or a document, that is missing.
	Value(f document.Field, after bool) (v any, ok bool)
}

// sees reports whether one of the route's totals may see a document, as it was before a write or as
// it is after it. A document that none sees changes no total when it comes or goes.
func (r *Route) sees(w Change, after bool) bool {
	return !w.Known() || slices.ContainsFunc(r.Totals, func(t Total) bool { return t.maySee(w, after) })
}

// maySee reports whether the total may see a document, as it was or is: the document meets the
// conditions, and has the field with a value of any kind. A window has any time, whatever the local
// clock says.
func (t Total) maySee(w Change, after bool) bool {
	for _, c := range t.Where {
		v, ok := w.Value(c.Field, after)
		_, isTime := v.(time.Time)
		_, hidden := v.(document.Hidden)
		met := hidden || c.IsWindow() && isTime || c.meets(v)
		if !ok || !met {
			return false
		}
	}

	return t.Field == "" || w.Has(t.Field, after)
}

// Concerned returns the counters that an event is about. These are the counters to which its old or
// its new document belongs. Each comes once, even if several routes lead to it.
func (s Source) Concerned(w Change) []Concern {
	concerns := make([]Concern, 0, len(s.routes))
	for _, r := range s.routes {
		same := w.Updated() && !slices.ContainsFunc(r.reads, w.Changed)
		circular := r.Circular()
		concern := func(of Counter, unchanged bool) {
			concerns = addConcern(concerns, Concern{of, unchanged, circular, circular && !w.Known()})
		}

		var held, holds [maxKeys]any
		for i, k := range r.By {
			held[i], holds[i] = w.Held(k.Field)
		}

		before, was := r.counter(s.ids, held[:])
		after, is := before, was
		if holds != held { // the counter may be the same: the day of another time
			after, is = r.counter(s.ids, holds[:])
		}

		if was && is && before == after {
			concern(before, same || !r.sees(w, true) && !r.sees(w, false))
			continue
		}
		if was {
			concern(before, !r.sees(w, false))
		}
		if is {
			concern(after, !r.sees(w, true))
		}
	}
	return concerns
}

// Own adds the counter of which the document itself is the roll-up, if the document holds totals
// and no tally: somebody made them up, or wrote the document over a roll-up. holds is as for
// [Source.Ungrouped]. A roll-up that Tally writes has a tally, so none causes another.
func (s Source) Own(concerns []Concern, holds func(document.Field) (kind string, held any)) []Concern {
	for _, t := range s.routes[0].homes { // nearly always there is none
		kind, _ := holds(asOfField)
		if kind == "a timestamp" || !t.isHeld(holds) {
			continue
		}
		c, ok := t.Counter(s.path)
		if ok {
			concerns = addConcern(concerns, Concern{Counter: c})
		}
	}
	return concerns
}

// asOfField is in each document that a roll-up wrote.
var asOfField = document.FieldOf(document.TallyField, "as_of")

// isHeld reports whether a document holds one of the totals: a number except 0, or a timestamp.
func (t *Template) isHeld(holds func(document.Field) (kind string, held any)) bool {
	return slices.ContainsFunc(t.names, func(name string) bool {
		_, held := holds(document.FieldOf(name))
		if t.OfTimes(name) {
			_, isTime := held.(time.Time)
			return isTime
		}
		n, isNumber := value.Number(held)
		return isNumber && !n.IsZero()
	})
}

// addConcern adds a concern. If several routes lead to a counter, it is unchanged only if it is so
// by each of them.
func addConcern(concerns []Concern, add Concern) []Concern {
	for i, c := range concerns {
		if c.Counter == add.Counter {
			concerns[i].Unchanged = c.Unchanged && add.Unchanged
			return concerns
		}
	}
	return append(concerns, add)
}
