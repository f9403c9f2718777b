package deploy

import (
	"context"
	"net/http"
	"net/url"
	"path"
	"slices"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup/route"
)

// Field is the kind of single fields, as far as their own indexes are concerned. Every field is
// there, with the database's default.
var Field Kind = &common{noun: "indexes of", all: "the databases and their fields",
	from: firestoreAPI, api: "v1", group: "firestore indexes fields"}

// TTL is the kind of fields by which Firestore deletes documents.
var TTL Kind = &common{noun: "time to live by", from: firestoreAPI, api: "v1", group: "firestore fields ttls"}

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

// A field is one whose values must, or must not, have an index of their own.
type field struct{ wanted }

// A timeToLive is a field that holds the time at which Firestore deletes the document.
type timeToLive struct{ wanted }

// fields adds the fields of each database. Each is one command, which changes no other field.
func (d *Description) fields() {
	for _, database := range d.Databases {
		for _, f := range Fields(d.Config.Routes) {
			d.field(database, f)
		}
	}
}

// field adds how a field is indexed, and its time to live.
func (d *Description) field(database Database, f FieldConfig) {
	name := "projects/" + d.Project + "/databases/" + database.ID + "/collectionGroups/" + f.CollectionGroup + "/fields/" + f.Path
	group := Setting{Arg: "--collection-group=" + f.CollectionGroup, Always: true}
	in := Setting{Arg: "--database=" + database.ID, Always: true}

	// https://cloud.google.com/firestore/docs/query-data/index-overview#indexing_exemptions
	indexes := Setting{Path: "indexed", Want: "false", Arg: "--disable-indexes"}
	if f.Indexed {
		indexes = Setting{Path: "summable", Want: "true", Arg: "--clear-exemption"}
	}
	if f.Descending {
		indexes.Path = "sortable"
	}
	// Where there are many documents it takes hours, and nothing here waits for it.
	begun := Setting{Arg: "--async", Always: true}
	d.add(&field{d.want(Field, name, group, in, indexes, begun)})

	if f.TTL {
		// https://cloud.google.com/firestore/docs/ttl
		expires := Setting{Path: "expires", Want: "true", Arg: "--enable-ttl"}
		d.add(&timeToLive{d.want(TTL, name, group, in, expires, begun)})
	}
}

func (f *field) label() string { return fieldLabel(f.name) }

func (f *timeToLive) label() string { return fieldLabel(f.name) }

// fieldLabel returns the field of the name, such as "rollups.tally in (default)".
func fieldLabel(name string) string {
	return segment(name, "collectionGroups") + "." + path.Base(name) + " in " + segment(name, "databases")
}

// absent returns a field as Firestore indexes it by default.
func (f *field) absent() Object { return Object{"indexed": true, "summable": true, "sortable": true} }

func (f *timeToLive) absent() Object { return Object{} }

// terraform adds the field if it must have no index. By default it has one.
func (f *field) terraform(t *terraform) {
	if settingsOf(f)["indexed"] != nil {
		t.field(f.name)["index_config"] = block{} // no index
	}
}

func (f *timeToLive) terraform(t *terraform) { t.field(f.name)["ttl_config"] = block{} }

// field returns the block of a field. It adds the block if there is none yet. The provider has one
// block for a field's indexes and its time to live.
func (t *terraform) field(name string) block {
	group, id := segment(name, "collectionGroups"), path.Base(name)
	address := hashed(group+"-"+id, name)

	field := t.resources[fieldType][address]
	if field == nil {
		field = block{"database": segment(name, "databases"), "collection": literal(group), "field": literal(id)}
	}
	t.add(fieldType, address, field)
	return field
}

// A fieldState is how Firestore has a field.
type fieldState struct {
	IndexConfig struct {
		UsesAncestorConfig bool
		AncestorField      string
		Indexes            []struct {
			QueryScope string
			Fields     []struct{ Order string }
		}
	}
	TTLConfig *struct{ State string } // nil: it expires nothing
}

// field reads how a field is indexed, and whether Firestore deletes documents by it. A field
// without settings of its own may name an ancestor, which is the default of the database. Then
// field reads the ancestor. An index or a policy that is being made counts as made.
func (s *State) field(ctx context.Context, name string) {
	get := func(name string) (f fieldState, err error) {
		escaped := (&url.URL{Path: name}).EscapedPath()
		return f, s.Call(ctx, firestoreAPI, http.MethodGet, "v1/"+escaped, "", &f)
	}

	f, err := get(name)
	config := f.IndexConfig
	if err == nil && config.UsesAncestorConfig && len(config.Indexes) == 0 && config.AncestorField != "" {
		var inherited fieldState
		inherited, err = get(config.AncestorField)
		config = inherited.IndexConfig
	}
	if err != nil {
		s.add(Field, err)
		return
	}

	has := make(map[string]bool) // orders
	for _, index := range config.Indexes {
		for _, f := range index.Fields {
			has[f.Order] = has[f.Order] || index.QueryScope == collectionScope
		}
	}

	expires := f.TTLConfig != nil && f.TTLConfig.State != "NEEDS_REPAIR"
	s.add(Field, nil, Object{
		"name": name, "indexed": len(config.Indexes) > 0,
		"summable": has[ascending], "sortable": has[ascending] && has[descending],
	})
	s.add(TTL, nil, Object{"name": name, "expires": expires})
}
