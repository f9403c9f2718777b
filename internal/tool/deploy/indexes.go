package deploy

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/tool/appfolder"
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

// States of an index
// (https://cloud.google.com/firestore/docs/reference/rest/v1/projects.databases.collectionGroups.indexes#state).
const (
	indexReady    = "READY"
	indexBuilding = "CREATING"
	indexBroken   = "NEEDS_REPAIR" // it never becomes ready
)

// progress says in words how far an index is.
func (r *Resource) progress() string {
	switch {
	case r.have == nil:
		return r.Label() + ": not there"
	case r.have.Get("state") == indexBroken:
		return r.Label() + ": its build failed"
	}
	return r.Label() + ": being built"
}

// unready returns the indexes that could not serve a query when they were last looked at.
func (d *Deployment) unready() []*Resource {
	return slices.DeleteFunc(d.Of("index"), func(r *Resource) bool { return r.have.Get("state") == indexReady })
}

// Building returns, in words, the indexes that were being built when they were last looked at.
func (d *Deployment) Building() (all []string) {
	for _, r := range d.unready() {
		if r.have.Get("state") == indexBuilding {
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
	if routes, err := route.Parse(env["TALLY_ROUTES"]); err == nil {
		for id := range strings.SplitSeq(cmp.Or(env["TALLY_DATABASES"], firestore.DefaultDatabaseID), ",") {
			for _, x := range routes.Indexes() {
				served = append(served, indexName("projects/"+d.ID+"/databases/"+id+"/collectionGroups/"+x.Collection, x.Fields))
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
	said := ""
	for {
		var waiting strings.Builder
		err := d.lookAtIndexes(ctx)
		switch {
		case err != nil && !passing(err):
			return d.Unreadable("firestore", "the indexes", err)
		case err != nil:
			fmt.Fprintf(&waiting, "  could not read the indexes; trying again: %s\n", message(err))
		}
		for _, r := range d.unready() {
			if err == nil && r.have.Get("state") != indexBuilding {
				return fmt.Errorf("index %s; run tally deploy again to recreate the index", r.progress())
			}
			fmt.Fprintf(&waiting, "  %s\n", r.progress())
		}
		if waiting.Len() == 0 {
			return nil
		}

		if waiting.String() != said {
			said = waiting.String()
			fmt.Fprint(d.Progress, said)
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
	for _, r := range d.Of("index") {
		have, err := d.find(ctx, r.kind, r.Name)
		if err != nil {
			return err
		}
		r.have = have
	}
	return nil
}

// An IndexesFile is what an app's firestore.indexes.json needs for Tally, as the Firebase CLI reads
// it (https://firebase.google.com/docs/reference/firestore/indexes).
type IndexesFile struct {
	Indexes        []IndexConfig `json:"indexes"`
	FieldOverrides []FieldConfig `json:"fieldOverrides"`
}

// An IndexConfig is a composite index in firestore.indexes.json.
type IndexConfig struct {
	CollectionGroup string             `json:"collectionGroup"`
	QueryScope      string             `json:"queryScope"`
	Fields          []IndexFieldConfig `json:"fields"`
}

// An IndexFieldConfig is a field of one.
type IndexFieldConfig struct {
	Path  string `json:"fieldPath"`
	Order string `json:"order"`
}

// NewIndexesFile returns what the file needs for the routes.
func NewIndexesFile(routes route.Routes) IndexesFile {
	needs := IndexesFile{Indexes: []IndexConfig{}, FieldOverrides: Exempt(routes)}
	for _, x := range routes.Indexes() {
		config := IndexConfig{CollectionGroup: x.Collection, QueryScope: collectionScope}
		config.Fields = indexFieldsOf(x)
		needs.Indexes = append(needs.Indexes, config)
	}
	return needs
}

// CheckIndexesFile returns what a firestore.indexes.json lacks for the routes, and which of its
// exemptions keep queries from working. Each problem says what to do. It matters because "firebase
// deploy --only firestore:indexes" offers to delete indexes that the file lacks, and with --force
// it deletes them.
func CheckIndexesFile(file string, routes route.Routes) (problems []string, err error) {
	has, err := readIndexesFile(file)
	if err != nil {
		return nil, err
	}

	needs := NewIndexesFile(routes)
	var indexes, fields, exempt, undone []string
	for i, x := range routes.Indexes() {
		name := indexName(x.Collection, x.Fields)
		if !slices.ContainsFunc(has.Indexes, func(o Object) bool { return indexKey(o) == name }) {
			indexes = append(indexes, element(needs.Indexes[i]))
		}
	}

	for _, f := range Fields(routes) {
		override := has.override(f.CollectionGroup, f.Path)
		switch {
		case f.Indexed:
			if override != nil && !f.servedBy(override.Indexes) {
				exempt = append(exempt, f.CollectionGroup+"."+f.Path)
			}
		case override == nil || override.Path == everyField:
			fields = append(fields, element(f))
		case len(override.Indexes) > 0 || f.TTL && override.undoesTTL():
			undone = append(undone, element(f))
		}
	}

	const deletes = ", or the next firebase deploy of indexes wants to delete them:\n"
	if len(indexes) > 0 {
		problems = append(problems, "add to indexes of "+file+deletes+strings.Join(indexes, ",\n"))
	}
	if len(fields) > 0 {
		problems = append(problems, "add to fieldOverrides of "+file+deletes+strings.Join(fields, ",\n"))
	}
	if len(undone) > 0 {
		problems = append(problems, "change in fieldOverrides of "+file+", or the next firebase deploy of indexes undoes what tally deploy made:\n"+strings.Join(undone, ",\n"))
	}
	if len(exempt) > 0 {
		problems = append(problems, fmt.Sprintf("take out of fieldOverrides of %s what exempts %s: queries need the indexes that Firestore makes by itself", file, strings.Join(exempt, ", ")))
	}
	return problems, nil
}

// element returns an element of the file on a line.
func element(of any) string {
	text, err := json.Marshal(of)
	if err != nil {
		panic(err) // not reached: strings and bools
	}
	return "  " + string(text)
}

// An appIndexes is a firestore.indexes.json of an app's.
type appIndexes struct {
	Indexes        []Object        `json:"indexes"`
	FieldOverrides []fieldOverride `json:"fieldOverrides"`
}

// A fieldOverride says how a field is indexed, and by TTL whether Firestore deletes a document at
// the field's time. If it does not say that, the Firebase CLI leaves that as it is.
type fieldOverride struct {
	FieldConfig
	TTL *bool `json:"ttl"`
}

// undoesTTL reports whether the override takes the expiry away.
func (o *fieldOverride) undoesTTL() bool { return o.TTL != nil && !*o.TTL }

// everyField is the path of an override of all fields that have none of their own.
const everyField = "*"

func readIndexesFile(file string) (has appIndexes, err error) {
	err = appfolder.ReadJSON(file, &has)
	if err != nil {
		return has, err
	}

	for _, x := range has.Indexes { // as Firestore has it; an older form says collectionId
		x["name"] = cmp.Or(x.Get("collectionGroup"), x.Get("collectionId")) + "/indexes/"
		x["queryScope"] = cmp.Or(x.Get("queryScope"), collectionScope)
	}
	return has, nil
}

// override returns the override of the file that says how a field is indexed; nil if there is none.
func (has appIndexes) override(group, path string) *fieldOverride {
	for _, path := range []string{path, everyField} {
		for i, f := range has.FieldOverrides {
			if f.CollectionGroup == group && f.Path == path {
				return &has.FieldOverrides[i]
			}
		}
	}
	return nil
}

// servedBy reports whether a field's own indexes are enough for the queries.
func (f FieldConfig) servedBy(indexes []Object) bool {
	has := func(order string) bool {
		return slices.ContainsFunc(indexes, func(x Object) bool {
			return x.Get("order") == order && cmp.Or(x.Get("queryScope"), collectionScope) == collectionScope
		})
	}
	return has(ascending) && (!f.Descending || has(descending))
}
