package deploy

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/firestore-tally/tally/internal/tool/appfolder"
	"github.com/firestore-tally/tally/rollup/route"
)

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
	var indexes, fields, exempt []string
	for i, x := range routes.Indexes() {
		name := indexName(x.Collection, x.Fields)
		if !slices.ContainsFunc(has.Indexes, func(o Object) bool { return indexKey(o) == name }) {
			indexes = append(indexes, element(needs.Indexes[i]))
		}
	}

	for _, f := range Fields(routes) {
		override := has.override(f.CollectionGroup, f.Path)
		if f.Indexed && override != nil && !f.servedBy(override.Indexes) {
			exempt = append(exempt, f.CollectionGroup+"."+f.Path)
		}
		if !f.Indexed && (override == nil || override.Path == everyField) {
			fields = append(fields, element(f))
		}
	}

	const deletes = ", or the next firebase deploy of indexes wants to delete them:\n"
	if len(indexes) > 0 {
		problems = append(problems, "add to indexes of "+file+deletes+strings.Join(indexes, ",\n"))
	}
	if len(fields) > 0 {
		problems = append(problems, "add to fieldOverrides of "+file+deletes+strings.Join(fields, ",\n"))
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

// A fieldOverride says how a field is indexed by itself.
type fieldOverride struct {
	CollectionGroup string   `json:"collectionGroup"`
	Path            string   `json:"fieldPath"`
	Indexes         []Object `json:"indexes"`
}

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
