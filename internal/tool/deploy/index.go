package deploy

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup/route"
)

// Index is the kind of composite indexes. Firestore gives them their names, so their fields tell
// them apart. Tally deploys them before all else, because a query without its index fails. It
// deletes only indexes whose build failed: queries of the app's own may use the others.
var Index Kind = &indexKind{common{noun: "index", all: "the indexes",
	from: firestoreAPI, api: "v1", group: "firestore indexes composite"}}

type indexKind struct{ common }

// Command implements Kind. A new index has no id: the server makes one up.
func (k *indexKind) Command(project, verb, name string, args ...string) Command {
	id := ""
	if verb == "delete" {
		id = path.Base(name)
	}
	c := k.command(verb, id, "").with("--database=" + segment(name, "databases"))
	return c.in(project).with(args...)
}

// key returns the indexName of an index that Firestore has; "" if it serves no query of Tally's.
func (*indexKind) key(o Object) string {
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

// label returns an index that Firestore has, such as "orders (shop ASC, amount DESC) in (default)".
func (*indexKind) label(o Object) string {
	data, _ := o["fields"].([]any)
	fields, _ := indexFields(data)
	x := route.Index{Collection: segment(o.name(), "collectionGroups"), Fields: fields}
	return x.String() + " in " + segment(o.name(), "databases")
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
		f, _ := d.(map[string]any)
		field := Object(f)
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

// An index is one that a route's queries need in a database.
type index struct {
	wanted
	of route.Index
}

// indexes adds the indexes of each database.
func (d *Description) indexes() {
	for _, database := range d.Databases {
		for _, x := range d.Config.Routes.Indexes() {
			d.index(database, x)
		}
	}
}

// index adds an index.
func (d *Description) index(database Database, x route.Index) {
	settings := []Setting{{Arg: "--collection-group=" + x.Collection}, {Arg: "--query-scope=collection"}}
	for _, f := range x.Fields {
		pairs := []string{"field-path=" + string(f.Field), "order=" + strings.ToLower(orderOf(f))}
		settings = append(settings, Setting{Arg: "--field-config=" + dict(pairs)})
	}
	settings = append(settings, Setting{Arg: "--async"}) // all are built at once

	group := "projects/" + d.Project + "/databases/" + database.ID + "/collectionGroups/" + x.Collection
	d.add(&index{d.want(Index, indexName(group, x.Fields), settings...), x})
}

func (x *index) label() string { return x.of.String() + " in " + segment(x.name, "databases") }

func (x *index) renewal(have Object) []string {
	if have.Get("state") == indexBroken {
		return []string{"its build failed, and it never becomes ready"}
	}
	return nil
}

func (x *index) exists() *Command {
	filter := []string{"queryScope=" + collectionScope, fmt.Sprintf("name~%q", "/collectionGroups/"+x.of.Collection+"/indexes/")}
	for i, f := range x.of.Fields {
		filter = append(filter, fmt.Sprintf("fields[%d].fieldPath=%q", i, f.Field), fmt.Sprintf("fields[%d].order=%s", i, orderOf(f)))
	}

	c := Index.Command(x.project, "list", x.name, "--filter="+strings.Join(filter, " AND "), "--format=value(name)")
	return &c
}

// terraform adds the index. The provider waits until it is ready, which may take hours.
func (x *index) terraform(t *terraform) {
	var fields []block
	for _, f := range x.of.Fields {
		fields = append(fields, block{"field_path": literal(string(f.Field)), "order": orderOf(f)})
	}

	t.add(indexType, hashed(x.of.Collection, x.name), block{
		"database":    segment(x.name, "databases"),
		"collection":  literal(x.of.Collection),
		"query_scope": collectionScope,
		"fields":      fields,
		"timeouts":    block{"create": "24h"},
	})
}
