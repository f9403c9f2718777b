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
	"github.com/firestore-tally/tally/rollup/route"
)

// States of an index
// (https://cloud.google.com/firestore/docs/reference/rest/v1/projects.databases.collectionGroups.indexes#state).
const (
	indexReady    = "READY"
	indexBuilding = "CREATING"
	indexBroken   = "NEEDS_REPAIR" // it never becomes ready
)

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

// unready returns the description's indexes that cannot serve a query yet.
func (d *Description) unready(have *State) []unready {
	var all []unready
	for _, r := range d.of(Index) {
		o := have.Find(Index, r.Name)
		if o.Get("state") != indexReady {
			all = append(all, unready{r, o})
		}
	}
	return all
}

// Awaited returns, in words, the indexes that must be ready before the routes can be deployed.
// Indexes that the functions' present routes need are not among them: these routes run already.
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

// Building returns, in words, the indexes that are being built.
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
	routes, err := route.Parse(env["TALLY_ROUTES"])
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

// hold moves the steps about APIs and indexes to the front of the plan. While indexes are awaited,
// the plan ends there, and the functions keep the routes that they serve. With wait, the plan waits
// until the indexes are ready, and goes on.
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
				wait:  &readiness{d, database, have},
			})
		}

	default:
		rest, p.Notes, p.Awaited = nil, nil, awaited
		p.note("the functions keep the routes that they serve until the new indexes are ready; --wait waits for them, and goes on")
	}
	p.Steps = append(begin, rest...)
}

// ReadIndexes reads the indexes of the databases once more, and the progress of those that are
// being built.
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

// progress adds to each index that is being built, in words, how far the build is. Without the
// permission to read this it adds nothing.
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
