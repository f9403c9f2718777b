package deploy

import (
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
	Indexes         []Object `json:"indexes"`       // of its own: always empty where Tally needs one
	Indexed         bool     `json:"-"`             // queries need the field's index in ascending order
	Descending      bool     `json:"-"`             // queries also need the one in descending order
}

// Fields returns the fields that need an index of their own, and those that must have none.
// Firestore gives each field one by default.
//
// Times must have none: they only grow, no query asks for them, and their index would limit a
// collection group to about 500 writes a second
// (https://firebase.google.com/docs/firestore/solutions/shard-timestamp). These are the times at
// which tokens of IncrementOnce expire, and the times in the field that Tally adds to roll-ups. The
// fields of a route that reads documents must have none either, because their indexes limit how
// often it is written. A field needs its index if a query uses it.
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
			fields = append(fields, f)
			return
		}
		fields[i].Indexed = fields[i].Indexed || f.Indexed // of another route whose collections have the same name
		fields[i].Descending = fields[i].Descending || f.Descending
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
		add(FieldConfig{CollectionGroup: x.Collection, Path: string(f.Field), Indexed: true, Descending: f.Descending})
	}
	return fields
}

// orders returns the orders that the field's own indexes must have; nil if it must have none.
func (f FieldConfig) orders() []string {
	switch {
	case f.Descending:
		return []string{Ascending, Descending}
	case f.Indexed:
		return []string{Ascending}
	}
	return nil
}

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

// lacksOrders compares how a field is indexed: it may have more indexes than it needs.
func (r *Resource) lacksOrders() []Difference {
	indexes, _ := asObject(r.have["indexConfig"])["indexes"].([]any)
	var has []string
	for _, x := range indexes {
		fields, _ := asObject(x)["fields"].([]any)
		for _, f := range fields {
			if asObject(x).Get("queryScope") == CollectionScope {
				has = append(has, asObject(f).Get("order"))
			}
		}
	}

	lacks := slices.DeleteFunc(slices.Clone(r.Orders), func(order string) bool { return slices.Contains(has, order) })
	if len(lacks) == 0 {
		return nil
	}
	return []Difference{difference([]string{"indexConfig"}, "without "+strings.Join(lacks, ", "), "the database's default")}
}
