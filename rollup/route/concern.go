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
	counter Counter // the counter that the document's path determines; zero if the route has groups
}

// Source returns the source document at path (below the database's root). It reports false if no
// route covers it.
func (rs Routes) Source(path string) (Source, bool) {
	s := Source{path: path}
	for _, r := range rs {
		c, ok := r.counterOf(path)
		if r.By != "" {
			ok = r.Covers(path)
		}
		if ok {
			s.covers = append(s.covers, covering{r, c})
		}
	}
	return s, len(s.covers) > 0
}

// Path returns the document's path below the database's root.
func (s Source) Path() string { return s.path }

// Grouped returns the templates of the routes with By that cover the document.
func (s Source) Grouped() []*Template {
	var templates []*Template
	for _, c := range s.covers {
		if c.route.By != "" {
			templates = append(templates, c.route.Template)
		}
	}
	return templates
}

// Groups returns the fields By of the routes that cover the document, each once. Only these fields
// and the document's path determine its counters.
func (s Source) Groups() []document.Field {
	var by []document.Field
	for _, c := range s.covers {
		if c.route.By != "" && !slices.Contains(by, c.route.By) {
			by = append(by, c.route.By)
		}
	}
	return by
}

// Groups returns the Groups of the source document at path (below the database's root); none if no
// route covers it.
func (rs Routes) Groups(path string) []document.Field {
	s, _ := rs.Source(path)
	return s.Groups()
}

// A Concern is one counter that an event is about.
type Concern struct {
	Counter

	// Unchanged says that the event is about an update that leaves every total of the counter as it
	// was. The old and new values in the event show that. The event's UpdateTime must then be the
	// update's commit time. No change relies on such an event: see the package documentation.
	Unchanged bool
}

// A Change says what an event tells about the document that was written.
type Change interface {
	// Updated reports whether the document existed before and after.
	Updated() bool

	// Changed reports whether the field may differ from before. It is called for updates only.
	Changed(f document.Field) bool

	// Texts returns the string that the field held before, and the one that it holds now. It
	// returns "" for a field that is missing or not a string.
	Texts(f document.Field) (before, after string)
}

// Concerned returns the counters that an event is about. These are the counters to which its old or
// its new document belongs. Each comes once, even if several routes lead to it.
func (s Source) Concerned(w Change) []Concern {
	var concerns []Concern
	for _, c := range s.covers {
		unchanged := w.Updated() && !slices.ContainsFunc(c.route.fields, w.Changed)
		if c.route.By == "" {
			concerns = addConcern(concerns, Concern{c.counter, unchanged})
			continue
		}

		before, after := w.Texts(c.route.By)
		for _, group := range []string{before, after} {
			if counter, ok := c.route.Grouped(group); ok {
				concerns = addConcern(concerns, Concern{counter, unchanged})
			}
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
