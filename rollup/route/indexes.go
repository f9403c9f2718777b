package route

import (
	"cmp"
	"slices"

	"github.com/firestore-tally/tally/internal/document"
)

// An Index is one of Firestore's indexes. It is defined for all collections with one id.
type Index struct {
	Collection string // the id
	Fields     []IndexField

	// Group says that one index holds the documents of all these collections, for queries of the
	// collection group. Firestore calls that the scope COLLECTION_GROUP. Otherwise each collection has
	// its own, for queries of one collection, which is the scope COLLECTION.
	Group bool
}

// An IndexField is a field of an index, with the order of its values there.
type IndexField struct {
	Field      document.Field
	Descending bool
}

// String returns the index as people read it, such as "orders (shop ASC, amount DESC)".
// One of a collection group begins with these words.
func (x Index) String() string {
	of := x.Collection
	if x.Group {
		of = "collection group " + of
	}
	return of + " (" + join(x.Fields, ", ") + ")"
}

// String returns the field and its order, such as "amount DESC".
func (f IndexField) String() string {
	if f.Descending {
		return string(f.Field) + " DESC"
	}
	return string(f.Field) + " ASC"
}

// Compare orders indexes by their collections, then by their fields. Those of collection groups
// come last.
func (x Index) Compare(other Index) int {
	return cmp.Or(
		cmp.Compare(x.Collection, other.Collection),
		slices.CompareFunc(x.Fields, other.Fields, func(a, b IndexField) int { return cmp.Compare(a.String(), b.String()) }),
		cmp.Compare(rank(x.Group), rank(other.Group)),
	)
}

// sorted returns indexes in the order of Compare, each once.
func sorted(all []Index) []Index {
	slices.SortFunc(all, Index.Compare)
	return slices.CompactFunc(all, func(a, b Index) bool { return a.Compare(b) == 0 })
}

// Indexes returns the indexes that the routes' queries need and that an edition of Firestore does
// not create by itself, each once and in one order. On Standard these are composite indexes. On
// Enterprise some have one field only.
//
// The first fields are tested for equality, by conditions and the group, and come in the order of
// their names. For these fields, the order of the values makes no difference. Then comes the field
// of a range, and then the one whose values a query adds up. A query for the best value goes
// through the values in their order, so that field comes before the one of the range.
func (rs Routes) Indexes(on Edition) []Index {
	if on == Enterprise {
		return rs.ofEnterprise()
	}
	return slices.DeleteFunc(rs.indexes(), func(x Index) bool { return len(x.Fields) == 1 })
}

// FieldIndexes returns the indexes of one field that the routes' queries need on Standard, each
// once and in one order. Firestore makes them by itself, unless the field is exempt from indexing;
// but it makes none of a group.
func (rs Routes) FieldIndexes() []Index {
	return slices.DeleteFunc(rs.indexes(), func(x Index) bool { return len(x.Fields) > 1 })
}

// indexes returns all indexes that the routes' queries need.
func (rs Routes) indexes() []Index {
	var all []Index
	for _, r := range rs {
		if r.Documents { // its documents are read by the index of names
			continue
		}

		if r.By != nil { // audits look whether a counter has documents
			all = append(all, r.KeyIndexes()...)
		}
		for _, q := range r.queries {
			all = append(all, r.IndexesOf(q)...)
		}
		for _, w := range r.windows {
			all = append(all, r.IndexesOfWindow(w)...)
		}
	}

	return sorted(all)
}

// IndexesOf returns the indexes that a query of the route needs on Standard. The keys of a counter
// are equal to its ids. If the query only tests fields of one collection for equality, Firestore
// merges the indexes of the single fields. Otherwise one index has all fields. The queries that
// tell malformed values from others go along the same index.
func (r *Route) IndexesOf(q Query) []Index {
	collection, keys := r.pattern.CollectionID(), r.equalKeys()
	equal, along := q.equal(keys), q.along()
	if along == nil && !r.Across() {
		var single []Index
		for _, f := range equal {
			single = append(single, Index{Collection: collection, Fields: []IndexField{{Field: f}}})
		}
		return single
	}

	var fields []IndexField
	for _, f := range equal {
		if f != q.Field {
			fields = append(fields, IndexField{Field: f})
		}
	}
	return []Index{{Collection: collection, Fields: append(fields, along...), Group: r.Across()}}
}

// IsAutomatic reports whether Firestore makes the index by itself on Standard, unless its field is
// exempt from indexing.
func (x Index) IsAutomatic() bool { return len(x.Fields) == 1 && !x.Group }

// equalKeys returns the fields of the keys that a counter's documents have equal.
func (r *Route) equalKeys() (equal []document.Field) {
	for _, k := range r.By {
		if !k.Function.OfTime() {
			equal = append(equal, k.Field)
		}
	}
	return equal
}

// IndexesOfWindow returns the indexes by which the first document in a window is found. They are
// those of a count of the documents in it.
func (r *Route) IndexesOfWindow(w Window) []Index { return r.IndexesOf(Query{Where: w.Where}) }

// KeyIndexes returns the indexes by which the documents of a counter are found. The route must have
// keys.
func (r *Route) KeyIndexes() []Index { return r.IndexesOf(Query{time: r.Time()}) }

// Remedy says what to do when one of the indexes is missing. The indexes are the ones that one of
// the route's queries needs.
func (r *Route) Remedy(indexes []Index) string {
	remedy := "create the index " + join(indexes, " and ")
	if r.Plain() {
		remedy += ", or add \": documents\" to the route to have each document read, which costs one read a document"
	}
	return remedy
}

// IsEqual reports whether a query of the route tests a field for equality.
func (r *Route) IsEqual(q Query, field document.Field) bool {
	return slices.Contains(q.equal(r.equalKeys()), field)
}

// equal returns the fields that the query tests for equality, sorted: the keys, and those of
// conditions.
func (q Query) equal(keys []document.Field) []document.Field {
	equal := slices.Clone(keys)
	for _, c := range q.Where {
		if !c.Operator.Range() {
			equal = append(equal, c.Field)
		}
	}
	slices.Sort(equal)
	return slices.Compact(equal)
}

// along returns the fields along whose order the query goes through an index: that of a range, and
// the one that is aggregated. It returns none if documents are counted that have fields equal.
func (q Query) along() []IndexField {
	var along []IndexField
	ranged := q.Ranged()
	if ranged != "" && ranged != q.Field {
		along = append(along, IndexField{ranged, q.Best.Descending()})
	}
	if q.Field != "" {
		along = append(along, IndexField{q.Field, q.Best.Descending()})
	}
	if q.Best != "" {
		slices.Reverse(along)
	}
	return along
}
