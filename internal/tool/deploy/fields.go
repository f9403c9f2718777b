package deploy

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup/route"
)

// A FieldConfig is a field of all collections of one id, and how it is indexed, as
// firestore.indexes.json has one that is exempt.
type FieldConfig struct {
	CollectionGroup string   `json:"collectionGroup"`
	Path            string   `json:"fieldPath"`
	TTL             bool     `json:"ttl,omitempty"` // its time is when Firestore deletes the document
	Indexes         []Object `json:"indexes"`       // of its own: empty unless queries need one of the group
	Indexed         bool     `json:"-"`             // queries need the field's index in ascending order
	Descending      bool     `json:"-"`             // queries also need the one in descending order
	Group           bool     `json:"-"`             // queries need one of the collection group, in ascending order
}

// Fields returns the fields that need an index of their own, and those that must have none.
// Firestore gives each field one by default.
//
// Times must have none: they only grow, no query asks for them, and their index would limit a
// collection group to about 500 writes a second
// (https://firebase.google.com/docs/firestore/solutions/shard-timestamp). These are the times at
// which tokens of IncrementOnce expire, and the times in the field that Tally adds to roll-ups. The
// fields of a route that reads documents must have none either, because their indexes limit how
// often it is written. A field needs its index if a query uses it. The queries of a route across
// parents go along one of the collection group, which Firestore makes only if the field's own
// settings say so. These replace the default, so they also have the indexes that Firestore makes by
// default.
//
// Enterprise makes no indexes of fields by itself, and takes settings of a field only for times at
// which documents expire.
func Fields(routes route.Routes, on route.Edition) []FieldConfig {
	fields := []FieldConfig{{CollectionGroup: document.TokensCollection, Path: "expire_at", TTL: true, Indexes: []Object{}}}
	add := func(f FieldConfig) {
		same := func(has FieldConfig) bool { return has.CollectionGroup == f.CollectionGroup && has.Path == f.Path }
		i := slices.IndexFunc(fields, same)
		if i < 0 {
			f.Indexes = []Object{}
			i, fields = len(fields), append(fields, f)
		}
		has := &fields[i] // maybe of another route whose collections have the same name
		has.Indexed = has.Indexed || f.Indexed
		has.Descending = has.Descending || f.Descending
		has.Group = has.Group || f.Group
		if has.Group {
			has.Indexes = byDefaultAndGroup
		}
	}

	if on == route.Enterprise {
		return fields
	}
	for _, t := range routes.Templates() {
		template := t.Segments()
		add(FieldConfig{CollectionGroup: template.CollectionID(), Path: document.TallyField})
	}
	for _, r := range routes {
		pattern := r.Pattern()
		for _, f := range r.Fields() {
			if r.Documents {
				add(FieldConfig{CollectionGroup: pattern.CollectionID(), Path: string(f)})
			}
		}
	}
	for _, x := range routes.FieldIndexes() {
		f := x.Fields[0]
		add(FieldConfig{CollectionGroup: x.Collection, Path: string(f.Field), Indexed: !x.Group, Descending: f.Descending, Group: x.Group})
	}
	return fields
}

// IsNeeded reports whether queries need an index of the field.
func (f FieldConfig) IsNeeded() bool { return f.Indexed || f.Group }

// byDefaultAndGroup are the indexes that Firestore makes of a field by default, and one of the
// collection group, as firestore.indexes.json has them
// (https://firebase.google.com/docs/reference/firestore/indexes).
var byDefaultAndGroup = []Object{
	{"order": Ascending, "queryScope": CollectionScope},
	{"order": Descending, "queryScope": CollectionScope},
	{"arrayConfig": "CONTAINS", "queryScope": CollectionScope},
	{"order": Ascending, "queryScope": GroupScope},
}

// orders returns the orders that the field's own indexes must have; nil if it must have none.
func (f FieldConfig) orders() (all []string) {
	if f.Indexed || f.Descending {
		all = append(all, Ascending)
	}
	if f.Descending {
		all = append(all, Descending)
	}
	if f.Group {
		all = append(all, inGroup)
	}
	return all
}

// inGroup is the order of an index of the collection group.
const inGroup = Ascending + " in the collection group"

// inherit reads how a field is indexed that has no settings of its own. It may name an ancestor,
// which is the default of the database. An index or a policy that is being made counts as made.
func (p *Project) inherit(ctx context.Context, k *Kind, field Object) error {
	config := asObject(field["indexConfig"])
	ancestor := config.Get("ancestorField")
	if config.Get("usesAncestorConfig") != "true" || config["indexes"] != nil || ancestor == "" {
		return nil
	}

	var inherited Object
	err := p.Call(ctx, http.MethodGet, k.address(escaped(ancestor)), nil, &inherited)
	field["indexConfig"] = inherited["indexConfig"]
	return err
}

// lacksOrders compares how a field is indexed: it may have more indexes than it needs. If it lacks
// one of its collection group, it is to have the others that it has now, and that one.
func (r *Resource) lacksOrders() []Difference {
	var has []string
	for _, x := range r.ownIndexes() {
		has = append(has, orderIn(x))
	}
	lacks := slices.DeleteFunc(slices.Clone(r.Orders), func(order string) bool { return slices.Contains(has, order) })
	if len(lacks) == 0 {
		return nil
	}

	become := "the database's default"
	if r.kind.Noun == fieldIndex {
		r.Want = Object{"indexConfig": Object{"indexes": r.withOrders(lacks)}}
		become = strings.Join(lacks, ", ") + ", and those that it has"
	}
	return []Difference{difference([]string{"indexConfig"}, "without "+strings.Join(lacks, ", "), become)}
}

// fieldIndex is the kind of fields that need an index of their collection group.
const fieldIndex = "field index"

// ownIndexes returns a field's own indexes, as it was last looked at.
func (r *Resource) ownIndexes() (all []Object) {
	indexes, _ := asObject(r.have["indexConfig"])["indexes"].([]any)
	for _, x := range indexes {
		all = append(all, asObject(x))
	}
	return all
}

// orderIn returns the order of a field's own index, as orders has it; "" if it is none.
func orderIn(index Object) string {
	order := index.Get("fields.0.order")
	if index.Get("queryScope") == GroupScope && order == Ascending {
		return inGroup
	}
	if index.Get("queryScope") == CollectionScope {
		return order
	}
	return ""
}

// withOrders returns the indexes that a field has and those that it lacks, as a change of its
// settings has them. Inherited ones are of any field.
func (r *Resource) withOrders(lacks []string) (all []any) {
	_, path := cut(r.Name)
	add := func(scope, how, value string) {
		all = append(all, map[string]any{"queryScope": scope, "fields": []any{map[string]any{"fieldPath": path, how: value}}})
	}
	for _, x := range r.ownIndexes() {
		for _, how := range []string{"order", "arrayConfig"} {
			value := x.Get("fields.0." + how)
			if value != "" {
				add(x.Get("queryScope"), how, value)
			}
		}
	}

	for _, order := range lacks {
		if order == inGroup {
			add(GroupScope, "order", Ascending)
		} else {
			add(CollectionScope, "order", order)
		}
	}
	return all
}

// state returns how far an index is, or that of a field's collection group; "" if it is not there.
func (r *Resource) state() string {
	if r.kind.Noun != fieldIndex {
		return r.have.Get("state")
	}
	for _, x := range r.ownIndexes() {
		if orderIn(x) == inGroup {
			return cmp.Or(x.Get("state"), indexReady)
		}
	}
	return ""
}
