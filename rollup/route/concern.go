package route

import (
	"slices"

	"github.com/firestore-tally/tally/internal/document"
)

// A Source is a document that was written, and the routes that cover it.
type Source struct {
	path   string // below the database's root
	covers []covering
}

// A covering is a route that covers a document.
type covering struct {
	route   *Route
	counter Counter  // the counter that the document's path determines; zero if the route has keys
	ids     []string // of the template, as [Route.captured] returns them, if the route has keys
}

// Source returns the source document at path (below the database's root). It reports false if no
// route covers it.
func (rs Routes) Source(path string) (Source, bool) {
	s := Source{path: path}
	for _, r := range rs {
		covers := covering{route: r}
		var ok bool
		if r.By == nil {
			covers.counter, ok = r.counterOf(path)
		} else {
			covers.ids, ok = r.captured(path)
		}
		if ok {
			s.covers = append(s.covers, covers)
		}
	}
	return s, len(s.covers) > 0
}

// Path returns the document's path below the database's root.
func (s Source) Path() string { return s.path }

// Keyed returns the templates of the routes with keys that cover the document.
func (s Source) Keyed() []*Template {
	var templates []*Template
	for _, c := range s.covers {
		if c.route.By != nil {
			templates = append(templates, c.route.Template)
		}
	}
	return templates
}

// Keys returns the fields of the keys of the routes that cover the document, each once. Only these
// fields and the document's path determine its counters.
func (s Source) Keys() []document.Field {
	var fields []document.Field
	for _, c := range s.covers {
		for _, k := range c.route.By {
			if !slices.Contains(fields, k.Field) {
				fields = append(fields, k.Field)
			}
		}
	}
	return fields
}

// Times returns those of Keys that hold the times of days and months.
func (s Source) Times() []document.Field {
	var fields []document.Field
	for _, c := range s.covers {
		if f := c.route.Time(); f != "" && !slices.Contains(fields, f) {
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

	// Unchanged says that the event is about an update that leaves every total of the counter as it
	// was. The old and new values in the event show that. The event's UpdateTime must then be the
	// update's commit time. No change relies on such an event: docs/design/rules.md#unchanged-weak.
	Unchanged bool

	// Circular says that the counter's roll-ups may be documents of the collection that was written.
	// So each of them is an event, too, which is Unchanged: see Route.Circular.
	Circular bool

	// Untold says of a Circular counter that the event came without its documents. It may be about a
	// roll-up, or about a change.
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
	// same database. It returns nil for any other value, and for a field that is missing.
	Held(f document.Field) (before, after any)
}

// Concerned returns the counters that an event is about. These are the counters to which its old or
// its new document belongs. Each comes once, even if several routes lead to it.
func (s Source) Concerned(w Change) []Concern {
	var concerns []Concern
	for _, c := range s.covers {
		unchanged := w.Updated() && !slices.ContainsFunc(c.route.reads, w.Changed)
		circular := c.route.Circular()
		concern := func(of Counter, unchanged bool) {
			concerns = addConcern(concerns, Concern{of, unchanged, circular, circular && !w.Known()})
		}
		if c.route.By == nil {
			concern(c.counter, unchanged)
			continue
		}

		var held, holds [maxKeys]any
		for i, k := range c.route.By {
			held[i], holds[i] = w.Held(k.Field)
		}

		before, was := c.route.keyed(c.ids, held[:])
		after, is := c.route.keyed(c.ids, holds[:])
		stays := was && is && before == after
		if was {
			concern(before, unchanged && stays)
		}
		if is && !stays {
			concern(after, false)
		}
	}
	return concerns
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
