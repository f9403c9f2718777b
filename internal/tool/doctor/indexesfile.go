package doctor

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/firestore-tally/tally/internal/tool/appfolder"
	"github.com/firestore-tally/tally/internal/tool/deploy"
	"github.com/firestore-tally/tally/rollup/route"
)

// An IndexesFile is what an app's firestore.indexes.json needs for Tally, as the Firebase CLI reads
// it (https://firebase.google.com/docs/reference/firestore/indexes).
type IndexesFile struct {
	Indexes        []IndexConfig        `json:"indexes"`
	FieldOverrides []deploy.FieldConfig `json:"fieldOverrides"`
}

// An IndexConfig is a composite index in firestore.indexes.json.
type IndexConfig struct {
	CollectionGroup string                    `json:"collectionGroup"`
	QueryScope      string                    `json:"queryScope"`
	Fields          []deploy.IndexFieldConfig `json:"fields"`
}

// NewIndexesFile returns what the file of a database of an edition needs for the routes.
func NewIndexesFile(routes route.Routes, on route.Edition) IndexesFile {
	exempt := slices.DeleteFunc(deploy.Fields(routes, on), func(f deploy.FieldConfig) bool { return f.Indexed && !f.Group })
	needs := IndexesFile{Indexes: []IndexConfig{}, FieldOverrides: exempt}
	for _, x := range routes.Indexes(on) {
		config := IndexConfig{CollectionGroup: x.Collection, QueryScope: deploy.ScopeOf(x)}
		config.Fields = deploy.IndexFields(x)
		needs.Indexes = append(needs.Indexes, config)
	}
	return needs
}

// CheckIndexesFile returns what the firestore.indexes.json of a database of an edition lacks for
// the routes, and which of its exemptions keep queries from working. Each problem says what to do.
// It matters because "firebase deploy --only firestore:indexes" offers to delete indexes that the
// file lacks, and with --force it deletes them.
func CheckIndexesFile(file string, routes route.Routes, on route.Edition) (problems []string, err error) {
	has, err := readIndexesFile(file)
	if err != nil {
		return nil, err
	}

	needs := NewIndexesFile(routes, on)
	var indexes, fields, exempt, undone []string
	for i, x := range routes.Indexes(on) {
		name := deploy.IndexName(x.Collection, x, on)
		if !slices.ContainsFunc(has.Indexes, func(o deploy.Object) bool { return deploy.IndexKey(o, on) == name }) {
			indexes = append(indexes, element(needs.Indexes[i]))
		}
	}

	for _, f := range deploy.Fields(routes, on) {
		override := has.override(f.CollectionGroup, f.Path)
		switch {
		case f.Group && override != nil && override.Path != everyField:
			if !hasIndex(override.Indexes, f) {
				undone = append(undone, element(f))
			}
		case f.Indexed && !f.Group:
			if override != nil && !hasIndex(override.Indexes, f) {
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
	Indexes        []deploy.Object `json:"indexes"`
	FieldOverrides []fieldOverride `json:"fieldOverrides"`
}

// A fieldOverride says how a field is indexed, and by TTL whether Firestore deletes a document at
// the field's time. If it does not say that, the Firebase CLI leaves that as it is.
type fieldOverride struct {
	deploy.FieldConfig
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
		x["queryScope"] = cmp.Or(x.Get("queryScope"), deploy.CollectionScope)
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

// hasIndex reports whether a field's own indexes are enough for the queries.
func hasIndex(indexes []deploy.Object, f deploy.FieldConfig) bool {
	has := func(order, scope string) bool {
		return slices.ContainsFunc(indexes, func(x deploy.Object) bool {
			return x.Get("order") == order && cmp.Or(x.Get("queryScope"), deploy.CollectionScope) == scope
		})
	}
	return (!f.Indexed || has(deploy.Ascending, deploy.CollectionScope)) &&
		(!f.Descending || has(deploy.Descending, deploy.CollectionScope)) &&
		(!f.Group || has(deploy.Ascending, deploy.GroupScope))
}
