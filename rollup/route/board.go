package route

import (
	"slices"

	"github.com/firestore-tally/tally/internal/document"
)

// Boards returns the indexes for boards, one for each total that a board may go by: the best
// roll-ups of one week or month, whatever documents they lie below. The routes themselves need none
// of them. There are none for days, because the roll-ups of one day all change at once, and none
// for a collection id that another template has, too: such a board would hold its roll-ups.
func (rs Routes) Boards() []Index {
	var all []Index
	for _, t := range rs.Templates() {
		label, has := t.boardOf()
		if !has || rs.shares(t) {
			continue
		}
		for _, total := range t.names {
			if !t.OfTimes(total) {
				fields := []IndexField{fieldNamed(label), fieldNamed(total)}
				fields[1].Descending = true
				all = append(all, Index{Collection: t.segments.CollectionID(), Fields: fields, Group: true})
			}
		}
	}
	return all
}

// boardOf returns the label by which the roll-ups of one week or month are found. It reports false
// if there is none, or if there is one roll-up of each week.
func (t *Template) boardOf() (label string, has bool) {
	labels := t.Labels()
	for _, k := range t.Routes[0].By {
		isLong := k.Function == Week || k.Function == Month
		if isLong && len(labels) > 1 {
			label, has = t.segments[k.at].Name, true
		}
	}
	return label, has
}

// shares reports whether another template's roll-ups are in collections of the same id.
func (rs Routes) shares(t *Template) bool {
	return slices.ContainsFunc(rs.Templates(), func(other *Template) bool {
		return other != t && other.segments.CollectionID() == t.segments.CollectionID()
	})
}

// fieldNamed returns a top-level field of an index.
func fieldNamed(name string) IndexField { return IndexField{Field: document.FieldOf(name)} }
