package deploy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup"
)

// Index is the kind of composite indexes. Firestore names them, so they are told apart by what they
// index. Tally deploys them before all else, because a query without its index fails. It deletes only
// those whose build failed: queries of the app's own may use the others.
var Index = &Kind{Noun: "index", many: "the indexes", terraform: "google_firestore_index",
	api: firestoreAPI, version: "v1", key: indexKey,
	group: "firestore indexes composite", create: "create", remove: "delete"}

// Orders of the values of an index's field, as Firestore names them.
const (
	ascending  = "ASCENDING"
	descending = "DESCENDING"
)

// States of an index
// (https://cloud.google.com/firestore/docs/reference/rest/v1/projects.databases.collectionGroups.indexes#state).
const (
	indexReady    = "READY"
	indexBuilding = "CREATING"
	indexBroken   = "NEEDS_REPAIR" // it never becomes ready
)

// indexName returns what tells an index of a collection group, whose name is given, from all others.
// The order of all but its last field matters to no query of Tally's, which has them equal.
func indexName(group string, fields []rollup.IndexField) string {
	var equal []string
	last := len(fields) - 1
	for _, f := range fields[:last] {
		equal = append(equal, string(f.Field))
	}
	slices.Sort(equal)
	return group + "/indexes/" + strings.Join(append(equal, fields[last].String()), ", ")
}

// indexKey returns the indexName of an index that Firestore has; "" if it serves no query of Tally's.
func indexKey(o Object) string {
	served := o.Get("queryScope") == collectionScope &&
		slices.Contains([]string{"", "ANY_API"}, o.Get("apiScope")) && slices.Contains([]string{"", "SPARSE_ALL"}, o.Get("density"))
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

// indexFields returns the fields of an index as Firestore and firestore.indexes.json have them,
// without __name__ at the end. It reports false if the index has less than two fields, something
// other than orders, or an order of __name__ that is not that of the field before it.
func indexFields(data []any) (fields []rollup.IndexField, ok bool) {
	for _, d := range data {
		f, _ := d.(map[string]any)
		field := Object(f)
		order := cmp.Or(field.Get("order"), field.Get("mode")) // as some files call it
		if order != ascending && order != descending {
			return nil, false
		}
		fields = append(fields, rollup.IndexField{Field: document.Field(field.Get("fieldPath")), Descending: order == descending})
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

// indexes adds the indexes of each database.
func (d *Description) indexes() {
	for _, database := range d.Databases {
		for _, x := range d.Config.Routes.Indexes() {
			group := "projects/" + d.Project + "/databases/" + database.ID + "/collectionGroups/" + x.Collection
			settings := []Setting{{Arg: "--collection-group=" + x.Collection}, {Arg: "--query-scope=collection"}}
			for _, f := range x.Fields {
				pairs := []string{"field-path=" + string(f.Field), "order=" + strings.ToLower(orderOf(f))}
				settings = append(settings, Setting{Arg: "--field-config=" + dict(pairs)})
			}
			settings = append(settings, Setting{Arg: "--async"}) // all are built at once
			d.add(Resource{Kind: Index, Name: indexName(group, x.Fields), Settings: settings, index: x})
		}
	}
}

// orderOf returns the order of a field as Firestore names it.
func orderOf(f rollup.IndexField) string {
	if f.Descending {
		return descending
	}
	return ascending
}

// indexExists returns the command that prints something if there is the index.
func indexExists(project string, r *Resource) Command {
	filter := []string{"queryScope=" + collectionScope, fmt.Sprintf("name~%q", "/collectionGroups/"+r.index.Collection+"/indexes/")}
	for i, f := range r.index.Fields {
		filter = append(filter, fmt.Sprintf("fields[%d].fieldPath=%q", i, f.Field), fmt.Sprintf("fields[%d].order=%s", i, orderOf(f)))
	}
	return Index.Command(project, "list", r.Name, "--filter="+strings.Join(filter, " AND "))
}

// An unready is an index that cannot serve a query yet.
type unready struct {
	*Resource
	have Object // nil: there is none
}

// String says in words how far the index is.
func (u unready) String() string {
	switch {
	case u.have == nil:
		return u.label() + ": not there"
	case u.have.Get("state") == indexBroken:
		return u.label() + ": its build failed"
	}
	return u.label() + ": being built" + u.have.Get("progress")
}

// unready returns the indexes that cannot serve a query yet.
func (d *Description) unready(have *State) []unready {
	var all []unready
	for i := range d.Resources {
		r := &d.Resources[i]
		if r.Kind != Index {
			continue
		}
		if o := have.Find(Index, r.Name); o.Get("state") != indexReady {
			all = append(all, unready{r, o})
		}
	}
	return all
}

// Awaited returns the indexes, in words, without which the routes cannot be deployed yet. Those of
// routes that the functions serve already hold nothing up.
func (d *Description) Awaited(have *State) []string {
	served := served(have)
	var all []string
	for _, u := range d.unready(have) {
		if !slices.Contains(served, u.Name) {
			all = append(all, u.String())
		}
	}
	return all
}

// Building returns the indexes, in words, that are being built.
func (d *Description) Building(have *State) []string {
	var all []string
	for _, u := range d.unready(have) {
		if u.have.Get("state") == indexBuilding {
			all = append(all, u.String())
		}
	}
	return all
}

// served returns the names of the indexes that the deployed functions' routes need.
func served(have *State) []string {
	env := have.Env()
	routes, err := rollup.ParseRoutes(env["TALLY_ROUTES"])
	if err != nil {
		return nil
	}

	var names []string
	for id := range strings.SplitSeq(cmp.Or(env["TALLY_DATABASES"], firestore.DefaultDatabaseID), ",") {
		for _, x := range routes.Indexes() {
			names = append(names, indexName("projects/"+have.Project+"/databases/"+id+"/collectionGroups/"+x.Collection, x.Fields))
		}
	}
	return names
}

// hold has the plan begin with the APIs and the indexes. While indexes are awaited, it ends there,
// so that the functions keep the routes that they serve; or, with wait, it goes on when they are
// ready.
func (p *Plan) hold(d *Description, have *State, wait bool) {
	var begin, rest []Step
	for _, s := range p.Steps {
		if s.Of == API || s.Of == Index {
			begin = append(begin, s)
		} else {
			rest = append(rest, s)
		}
	}

	awaited := d.Awaited(have)
	switch {
	case len(awaited) == 0:
		for _, text := range d.Building(have) {
			p.note("index %s. Until it is ready, totals that need it read up to 1,000 documents one by one, and stand still above that", text)
		}

	case wait:
		for _, database := range d.Databases {
			begin = append(begin, Step{
				Does:  See,
				Of:    Index,
				Title: "see that the indexes of " + database.ID + " are ready",
				Wait:  &readiness{d, database, have},
			})
		}

	default:
		rest, p.Notes, p.Awaited = nil, nil, awaited
		p.note("the functions keep the routes that they serve until the new indexes are ready; --wait waits for them, and goes on")
	}
	p.Steps = append(begin, rest...)
}

// ReadIndexes reads the indexes of the databases anew, and how far those are that are being built.
func (s *State) ReadIndexes(ctx context.Context, databases []Database) error {
	s.mu.Lock()
	delete(s.have, Index)
	delete(s.Unread, Index)
	s.mu.Unlock()

	for _, database := range databases {
		parent := "v1/projects/" + s.Project + "/databases/" + database.ID
		found, err := s.List(ctx, firestoreAPI, parent+"/collectionGroups/-/indexes")
		building := func(o Object) bool { return o.Get("state") == indexBuilding }
		if err == nil && slices.ContainsFunc(found, building) {
			s.progress(ctx, parent, found)
		}
		s.add(Index, err, found...)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if u := s.Unread[Index]; u != nil {
		return u
	}
	return nil
}

// progress adds to indexes that are being built, in words, how far they are. Without the permission
// to read that they stay as they are.
func (s *State) progress(ctx context.Context, database string, indexes []Object) {
	operations, err := s.List(ctx, firestoreAPI, database+"/operations")
	if err != nil {
		return
	}
	for _, operation := range operations {
		done, doneErr := strconv.ParseFloat(cmp.Or(operation.Get("metadata.progressDocuments.completedWork"), "0"), 64)
		all, allErr := strconv.ParseFloat(operation.Get("metadata.progressDocuments.estimatedWork"), 64)
		if errors.Join(doneErr, allErr) != nil || all <= 0 || operation.Get("done") == "true" {
			continue
		}
		for _, o := range indexes {
			if o.name() == operation.Get("metadata.index") {
				o["progress"] = fmt.Sprintf(", %.0f %% of about %.0f documents", min(100*done/all, 100), all)
			}
		}
	}
}

// indexLabel returns an index that Firestore has as people read it.
func indexLabel(o Object) string {
	data, _ := o["fields"].([]any)
	fields, _ := indexFields(data)
	x := rollup.Index{Collection: segment(o.name(), "collectionGroups"), Fields: fields}
	return x.String() + " in " + segment(o.name(), "databases")
}
