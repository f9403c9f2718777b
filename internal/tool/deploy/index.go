package deploy

import (
	"cmp"
	"slices"
	"strings"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup/route"
)

// Tally deploys indexes before all else, because a query without its index fails. Firestore gives
// them their names, so their fields tell them apart. Tally deletes only indexes whose build failed:
// queries of the app's own may use the others.

// indexKey returns the indexName of an index that Firestore has; "" if it serves no query of
// Tally's.
func indexKey(o Object) string {
	served := o.Get("queryScope") == collectionScope &&
		slices.Contains([]string{"", "ANY_API"}, o.Get("apiScope")) &&
		slices.Contains([]string{"", "SPARSE_ALL"}, o.Get("density"))
	if !served {
		return ""
	}

	data, _ := o["fields"].([]any)
	fields, ok := indexFields(data)
	group, _, _ := strings.Cut(o.name(), "/indexes/")
	if !ok {
		return ""
	}
	return indexName(group, fields)
}

// collectionScope is the scope of an index that queries of one collection use.
const collectionScope = "COLLECTION"

// Orders of the values of an index's field, as Firestore names them.
const (
	ascending  = "ASCENDING"
	descending = "DESCENDING"
)

// orderOf returns the order of a field as Firestore names it.
func orderOf(f route.IndexField) string {
	if f.Descending {
		return descending
	}
	return ascending
}

// indexName returns a name for an index of a collection group. Two indexes have the same name if
// they serve the same queries of Tally's. These ask for equal values of all fields but the last, so
// neither the sequence nor the order of those fields matters.
func indexName(group string, fields []route.IndexField) string {
	var equal []string
	last := len(fields) - 1
	for _, f := range fields[:last] {
		equal = append(equal, string(f.Field))
	}
	slices.Sort(equal)
	return group + "/indexes/" + strings.Join(append(equal, fields[last].String()), ", ")
}

// indexFields returns the fields of an index as Firestore and firestore.indexes.json have them,
// without __name__ at the end. It reports false if the index has less than two fields, something
// other than orders, or an order of __name__ that is not that of the field before it.
func indexFields(data []any) (fields []route.IndexField, ok bool) {
	for _, d := range data {
		field := asObject(d)
		order := cmp.Or(field.Get("order"), field.Get("mode")) // as some files call it
		if order != ascending && order != descending {
			return nil, false
		}
		fields = append(fields, route.IndexField{Field: document.Field(field.Get("fieldPath")), Descending: order == descending})
	}

	last := len(fields) - 1
	if last > 0 && fields[last].Field == "__name__" {
		if fields[last].Descending != fields[last-1].Descending {
			return nil, false
		}
		fields = fields[:last]
	}
	return fields, len(fields) > 1
}

// indexFieldsOf returns the fields of an index as Firestore has them.
func indexFieldsOf(x route.Index) []IndexFieldConfig {
	var all []IndexFieldConfig
	for _, f := range x.Fields {
		all = append(all, IndexFieldConfig{string(f.Field), orderOf(f)})
	}
	return all
}

// indexLabel returns an index as people tell it from others, such as "orders (shop ASC, amount
// DESC) in (default)".
func indexLabel(name string, fields any) string {
	data, _ := fields.([]any)
	of, _ := indexFields(data)
	x := route.Index{Collection: segment(name, "collectionGroups"), Fields: of}
	return x.String() + " in " + segment(name, "databases")
}
