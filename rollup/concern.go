package rollup

import (
	"slices"

	"github.com/firestore-tally/tally/internal/document"
)

// A Concern is one counter that an event is about.
type Concern struct {
	Counter

	// Unchanged says that the event tells of an update that leaves every total of the counter as it
	// was, by the event's own old and new values. Its UpdateTime must then be the update's. No
	// change relies on such an event: see the package documentation.
	Unchanged bool
}

// A Written is what an event tells of a document that was written.
type Written interface {
	// Path is the document's, below the database's root.
	Path() string

	// Updated reports whether the document existed before and after.
	Updated() bool

	// Changed reports whether the field may be another than before. It is asked of updates alone.
	Changed(f document.Field) bool

	// Texts returns the strings that the field held before and holds now: "" where there is none.
	Texts(f document.Field) (before, after string)
}

// Concerned returns the counters that an event is about: those to which its old or its new document
// belongs, each once, however many routes lead there. It reports false if no route covers the
// document.
func (rs Routes) Concerned(w Written) (concerns []Concern, covered bool) {
	path := w.Path()
	for _, r := range rs {
		c, byPath := r.counterOf(path)
		if !byPath && (r.By == "" || !r.Covers(path)) {
			continue
		}
		covered = true

		unchanged := w.Updated() && !slices.ContainsFunc(r.fields, w.Changed)
		if byPath {
			concerns = concern(concerns, Concern{c, unchanged})
			continue
		}
		before, after := w.Texts(r.By)
		for _, group := range []string{before, after} {
			if c, ok := r.Grouped(group); ok {
				concerns = concern(concerns, Concern{c, unchanged})
			}
		}
	}
	return concerns, covered
}

// Groups returns the fields By of the routes that cover the document at path: only they tell which
// counters it belongs to, beside its path.
func (rs Routes) Groups(path string) []document.Field {
	var by []document.Field
	for _, r := range rs {
		if r.By != "" && r.Covers(path) {
			by = append(by, r.By)
		}
	}
	return by
}

// concern adds a concern. A counter to which several routes lead is unchanged only by all of them.
func concern(concerns []Concern, add Concern) []Concern {
	for i, c := range concerns {
		if c.Counter == add.Counter {
			concerns[i].Unchanged = c.Unchanged && add.Unchanged
			return concerns
		}
	}
	return append(concerns, add)
}
