package deploy

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup/route"
)

// Tally deploys indexes before all else, because a query without its index fails. Firestore gives
// them their names, so their fields tell them apart. Tally deletes only indexes whose build failed:
// queries of the app's own may use the others.

// IndexKey returns the IndexName of an index that a database of an edition has; "" if it serves no
// query of Tally's.
func IndexKey(o Object, on route.Edition) string {
	served := slices.Contains([]string{CollectionScope, GroupScope}, o.Get("queryScope")) &&
		slices.Contains([]string{"", "ANY_API"}, o.Get("apiScope"))
	isSparse := slices.Contains([]string{"", "SPARSE_ALL"}, o.Get("density"))
	if !served || on == route.Standard && !isSparse {
		return ""
	}

	data, _ := o["fields"].([]any)
	fields, ok := indexFields(data)
	group, _, _ := strings.Cut(o.name(), "/indexes/")
	isTooShort := on == route.Standard && len(fields) < 2
	if !ok || isTooShort {
		return ""
	}
	return IndexName(group, route.Index{Fields: fields, Group: o.Get("queryScope") == GroupScope}, on)
}

// Scopes of indexes: queries of one collection use one, and those of a collection group the other.
const (
	CollectionScope = "COLLECTION"
	GroupScope      = "COLLECTION_GROUP"
)

// ScopeOf returns the scope of an index as Firestore names it.
func ScopeOf(x route.Index) string {
	if x.Group {
		return GroupScope
	}
	return CollectionScope
}

// Orders of the values of an index's field, as Firestore names them.
const (
	Ascending  = "ASCENDING"
	Descending = "DESCENDING"
)

// orderOf returns the order of a field as Firestore names it.
func orderOf(f route.IndexField) string {
	if f.Descending {
		return Descending
	}
	return Ascending
}

// IndexName returns a name for an index of a collection group. Two indexes of Standard have the
// same name if they serve the same queries of Tally's. These ask for equal values of all fields but
// the last, so neither the sequence nor the order of those fields matters. On Enterprise an index
// that differs may have a query scan, so two indexes have the same name if they are the same.
func IndexName(group string, x route.Index, on route.Edition) string {
	var parts []string
	last := len(x.Fields) - 1
	for _, f := range x.Fields[:last] {
		if on == route.Enterprise {
			parts = append(parts, f.String())
		} else {
			parts = append(parts, string(f.Field))
		}
	}
	if on == route.Standard {
		slices.Sort(parts)
	}
	name := group + "/indexes/" + strings.Join(append(parts, x.Fields[last].String()), ", ")
	if x.Group {
		name += " of the group"
	}
	return name
}

// indexFields returns the fields of an index as Firestore and firestore.indexes.json have them,
// without __name__ behind others. It reports false if the index has no field, something other than
// orders, or an order of __name__ that is not that of the field before it.
func indexFields(data []any) (fields []route.IndexField, ok bool) {
	for _, d := range data {
		field := asObject(d)
		order := cmp.Or(field.Get("order"), field.Get("mode")) // as some files call it
		if order != Ascending && order != Descending {
			return nil, false
		}
		fields = append(fields, route.IndexField{Field: document.Field(field.Get("fieldPath")), Descending: order == Descending})
	}

	last := len(fields) - 1
	if last > 0 && fields[last].Field == route.DocumentName {
		if fields[last].Descending != fields[last-1].Descending {
			return nil, false
		}
		fields = fields[:last]
	}
	return fields, len(fields) > 0
}

// An IndexFieldConfig is a field of a composite index, as Firestore and
// firestore.indexes.json have it.
type IndexFieldConfig struct {
	Path  string `json:"fieldPath"`
	Order string `json:"order"`
}

// IndexFields returns the fields of an index as Firestore has them.
func IndexFields(x route.Index) []IndexFieldConfig {
	var all []IndexFieldConfig
	for _, f := range x.Fields {
		all = append(all, IndexFieldConfig{string(f.Field), orderOf(f)})
	}
	return all
}

// indexLabel returns an index that is made so, as people tell it from others, such as "orders (shop
// ASC, amount DESC) in (default)".
func indexLabel(name string, made Object) string {
	data, _ := made["fields"].([]any)
	of, _ := indexFields(data)
	x := route.Index{Collection: segment(name, "collectionGroups"), Fields: of, Group: made.Get("queryScope") == GroupScope}
	return x.String() + " in " + segment(name, "databases")
}

// States of an index
// (https://cloud.google.com/firestore/docs/reference/rest/v1/projects.databases.collectionGroups.indexes#state).
const (
	indexReady    = "READY"
	indexBuilding = "CREATING"
	indexBroken   = "NEEDS_REPAIR" // it never becomes ready
)

// progress says in words how far an index is.
func (r *Resource) progress() string {
	switch r.state() {
	case "":
		return r.Label() + ": not there"
	case indexBroken:
		return r.Label() + ": its build failed"
	}
	return r.Label() + ": being built"
}

// indexes returns the composite indexes, and the fields that need one of their collection group.
func (d *Deployment) indexes() []*Resource {
	return slices.Concat(d.OfKind("index"), d.OfKind(fieldIndex))
}

// unready returns the indexes that could not serve a query when they were last looked at.
func (d *Deployment) unready() []*Resource {
	return slices.DeleteFunc(d.indexes(), func(r *Resource) bool { return r.state() == indexReady })
}

// Building returns, in words, the indexes that were being built when they were last looked at.
func (d *Deployment) Building() (all []string) {
	for _, r := range d.unready() {
		if r.state() == indexBuilding {
			all = append(all, r.progress())
		}
	}
	return all
}

// awaited returns the labels of the indexes that must be ready before the routes can be deployed.
// Those that the functions' present routes need are not among them: these routes run already.
func (d *Deployment) awaited() (all []string) {
	env := d.Variables()
	var served []string
	var edition route.Edition
	err := edition.UnmarshalText([]byte(env["TALLY_EDITION"]))
	if routes, parsed := route.Parse(env["TALLY_ROUTES"]); err == nil && parsed == nil {
		for id := range strings.SplitSeq(cmp.Or(env["TALLY_DATABASES"], firestore.DefaultDatabaseID), ",") {
			groups := "projects/" + d.ID + "/databases/" + id + "/collectionGroups/"
			for _, x := range routes.Indexes(edition) {
				served = append(served, IndexName(groups+x.Collection, x, edition))
			}
			for _, f := range Fields(routes, edition) {
				if f.Group {
					served = append(served, groups+f.CollectionGroup+"/fields/"+f.Path)
				}
			}
		}
	}

	for _, r := range d.unready() {
		if !slices.Contains(served, r.Name) {
			all = append(all, r.Label())
		}
	}
	return all
}

// indexLook is how often a wait looks at the indexes.
const indexLook = 30 * time.Second

// ready waits until the indexes are ready, which may take hours, also if they cannot be read for
// some minutes. It is an error if one cannot become ready.
func (d *Deployment) ready(ctx context.Context) error {
	noticed := ""
	for {
		var waiting strings.Builder
		err := d.lookAtIndexes(ctx)
		switch {
		case err != nil && !isTransient(err):
			return d.Unreadable("firestore", "the indexes", err)
		case err != nil:
			fmt.Fprintf(&waiting, "  could not read the indexes; trying again: %s\n", message(err))
		}
		for _, r := range d.unready() {
			if err == nil && r.state() != indexBuilding {
				return fmt.Errorf("index %s; run tally deploy again to recreate the index", r.progress())
			}
			fmt.Fprintf(&waiting, "  %s\n", r.progress())
		}
		if waiting.Len() == 0 {
			return nil
		}

		if waiting.String() != noticed {
			noticed = waiting.String()
			fmt.Fprint(d.Progress, noticed)
		}
		if err := sleep(ctx, indexLook); err != nil {
			return err
		}
	}
}

// lookAtIndexes reads the indexes once more, each list once.
func (d *Deployment) lookAtIndexes(ctx context.Context) error {
	d.lists = make(map[string][]Object)
	defer func() { d.lists = nil }()
	for _, r := range d.indexes() {
		have, err := d.find(ctx, r.kind, r.Name)
		if err != nil {
			return err
		}
		r.have = have
	}
	return nil
}
