package route

import (
	"errors"
	"slices"

	"github.com/firestore-tally/tally/internal/document"
)

// An Edition is an edition of Firestore. It is the property of a database. The zero value is
// Standard.
type Edition string

// The editions. Tally has run on Standard only.
const (
	Standard   Edition = ""
	Enterprise Edition = "enterprise"
)

// String returns the name of the edition, as firebase.json and tally.yaml have it.
func (e Edition) String() string {
	if e == Standard {
		return "standard"
	}
	return string(e)
}

// UnmarshalText reads the name of an edition.
func (e *Edition) UnmarshalText(text []byte) error {
	switch string(text) {
	case "", Standard.String():
		*e = Standard
	case Enterprise.String():
		*e = Enterprise
	default:
		return errors.New("want standard or enterprise")
	}
	return nil
}

// DocumentName is the field of an index that holds the names of the documents.
const DocumentName document.Field = "__name__"

// ofEnterprise returns the indexes that Enterprise needs for the routes' queries. Enterprise makes
// no index by itself, merges none, and runs a query without its index by reading all documents. So
// each query has an index of its own, also one of a single field, and the walks have indexes of
// names.
func (rs Routes) ofEnterprise() []Index {
	all := []Index{{Collection: document.AuditCollection, Fields: []IndexField{{Field: DocumentName}}}} // for notes
	for _, r := range rs {
		all = append(all, r.walked()...)
		if r.Documents { // all documents of a collection are read, in no order
			continue
		}

		if r.By != nil {
			all = append(all, r.composite(Query{time: r.Time()})...)
		}
		for _, q := range r.queries {
			all = append(all, r.composite(q)...)
		}
		for _, w := range r.windows {
			all = append(all, r.composite(Query{Where: w.Where})...)
		}
	}
	for _, t := range rs.Templates() {
		if hasCapture(t.segments) {
			all = append(all, namesOf(t.segments))
		}
	}
	return sorted(all)
}

// walked returns the indexes by which counters, and references to other databases, are found along
// the route's documents.
func (r *Route) walked() (all []Index) {
	refers := false
	for _, k := range r.By {
		if k.Function == Reference {
			refers = true
			all = append(all, Index{Collection: r.pattern.CollectionID(), Fields: []IndexField{{Field: k.Field}}, Group: r.Across()})
		}
	}
	inMany := hasCapture(r.pattern[:len(r.pattern)-1]) && !r.Across()
	if inMany && (refers || !r.Template.FoundByHomes()) {
		all = append(all, namesOf(r.pattern))
	}
	return all
}

func hasCapture(path Path) bool {
	return slices.ContainsFunc(path, func(s Segment) bool { return s.Capture })
}

// namesOf returns the index of the names in all collections that are called as that of a path.
func namesOf(path Path) Index {
	return Index{Collection: path.CollectionID(), Group: true, Fields: []IndexField{{Field: DocumentName}}}
}

// composite returns the one index that a query of the route needs on Enterprise. There is none if
// the query counts all documents of a collection, which reads no more than their names.
func (r *Route) composite(q Query) []Index {
	equal := q.equal(r.equalKeys())
	var fields []IndexField
	for _, f := range equal {
		fields = append(fields, IndexField{Field: f})
	}
	for _, f := range q.along() {
		if !slices.Contains(equal, f.Field) {
			fields = append(fields, f)
		}
	}
	if fields == nil {
		return nil
	}
	return []Index{{Collection: r.pattern.CollectionID(), Fields: fields, Group: r.Across()}}
}
