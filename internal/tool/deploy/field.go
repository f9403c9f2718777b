package deploy

import (
	"context"
	"net/http"
	"net/url"
	"slices"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup/route"
)

// A FieldConfig is a field of all collections of one id, and how it is indexed, as
// firestore.indexes.json has one that is exempt.
type FieldConfig struct {
	CollectionGroup string `json:"collectionGroup"`
	Path            string `json:"fieldPath"`
	TTL             bool   `json:"ttl,omitempty"` // its time is when Firestore deletes the document
	Indexes         []any  `json:"indexes"`       // always empty: the field has none
	Indexed         bool   `json:"-"`             // queries need the field's index in ascending order
	Descending      bool   `json:"-"`             // queries also need the one in descending order
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
func Fields(routes route.Routes) []FieldConfig {
	fields := []FieldConfig{{CollectionGroup: document.TokensCollection, Path: "expire_at", TTL: true, Indexes: []any{}}}
	add := func(f FieldConfig) {
		same := func(has FieldConfig) bool { return has.CollectionGroup == f.CollectionGroup && has.Path == f.Path }
		i := slices.IndexFunc(fields, same)
		if i < 0 {
			f.Indexes = []any{}
			fields = append(fields, f)
			return
		}
		fields[i].Indexed = fields[i].Indexed || f.Indexed // of another route whose collections have the same name
		fields[i].Descending = fields[i].Descending || f.Descending
	}

	for _, t := range routes.Templates() {
		template := t.Segments()
		add(FieldConfig{CollectionGroup: template[len(template)-2].Name, Path: document.TallyField})
	}
	for _, r := range routes {
		pattern := r.Pattern()
		for _, f := range r.Fields() {
			if r.Documents {
				add(FieldConfig{CollectionGroup: pattern[len(pattern)-2].Name, Path: string(f)})
			}
		}
	}
	for _, x := range routes.FieldIndexes() {
		f := x.Fields[0]
		add(FieldConfig{CollectionGroup: x.Collection, Path: string(f.Field), Indexed: true, Descending: f.Descending})
	}
	return fields
}

// Exempt returns the fields that must have no index.
func Exempt(routes route.Routes) []FieldConfig {
	return slices.DeleteFunc(Fields(routes), func(f FieldConfig) bool { return f.Indexed })
}

// orders returns the orders that the field's own indexes must have; nil if it must have none.
func (f FieldConfig) orders() []string {
	switch {
	case f.Descending:
		return []string{ascending, descending}
	case f.Indexed:
		return []string{ascending}
	}
	return nil
}

// field reads how a field is indexed, and whether Firestore deletes documents by it. A field
// without settings of its own may name an ancestor, which is the default of the database. Then
// field reads the ancestor. An index or a policy that is being made counts as made.
func (s *State) field(ctx context.Context, name string) (Object, error) {
	get := func(name string) (f Object, err error) {
		escaped := (&url.URL{Path: name}).EscapedPath()
		return f, s.Call(ctx, firestoreAPI, http.MethodGet, "v1/"+escaped, "", &f)
	}

	f, err := get(name)
	if err != nil {
		return nil, err
	}

	config := asObject(f["indexConfig"])
	ancestor := config.Get("ancestorField")
	if config.Get("usesAncestorConfig") == "true" && config["indexes"] == nil && ancestor != "" {
		inherited, err := get(ancestor)
		if err != nil {
			return nil, err
		}
		f["indexConfig"] = inherited["indexConfig"]
	}

	if f.Get("ttlConfig.state") == "NEEDS_REPAIR" {
		delete(f, "ttlConfig")
	}
	f["name"] = name
	return f, nil
}

// readField reads a field. One call reads both of its kinds.
func (s *State) readField(ctx context.Context, name string) {
	f, err := s.field(ctx, name)
	if err != nil {
		s.add(Field, err)
		s.add(TTL, err)
		return
	}
	s.add(Field, nil, f)
	s.add(TTL, nil, f)
}
