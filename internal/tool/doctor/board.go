package doctor

import (
	"slices"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/tool/deploy"
	"github.com/firestore-tally/tally/rollup/route"
)

// Boards returns the indexes for boards, as elements of firestore.indexes.json. There is one for
// each total that a board may go by: the best roll-ups of one week or month, whatever documents
// they lie below. The routes themselves need none of them. There are none for days, because the
// roll-ups of one day all change at once, and none for a collection id that another template has,
// too: such a board would hold its roll-ups.
func Boards(routes route.Routes) []string {
	var all []string
	for _, t := range routes.Templates() {
		label, has := boardOf(t)
		if !has || sharesCollections(t, routes) {
			continue
		}
		for _, total := range t.Totals() {
			if t.OfTimes(total) {
				continue
			}
			fields := []route.IndexField{{Field: document.FieldOf(label)}, {Field: document.FieldOf(total), Descending: true}}
			x := route.Index{Collection: t.Segments().CollectionID(), Fields: fields, Group: true}
			all = append(all, element(IndexConfig{CollectionGroup: x.Collection, QueryScope: deploy.GroupScope, Fields: deploy.IndexFields(x)}))
		}
	}
	return all
}

// boardOf returns the label by which the roll-ups of one week or month are found. It reports false
// if there is none, or if there is one roll-up of each week.
func boardOf(t *route.Template) (label string, has bool) {
	for _, k := range t.Routes[0].By {
		isLong := k.Function == route.Week || k.Function == route.Month
		if isLong && len(t.Labels()) > 1 {
			label, has = k.Name, true
		}
	}
	return label, has
}

// sharesCollections reports whether another template's roll-ups are in collections of the same id.
func sharesCollections(t *route.Template, routes route.Routes) bool {
	return slices.ContainsFunc(routes.Templates(), func(other *route.Template) bool {
		return other != t && other.Segments().CollectionID() == t.Segments().CollectionID()
	})
}
