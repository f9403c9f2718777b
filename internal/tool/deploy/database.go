package deploy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// A Database is a Firestore database.
type Database struct {
	ID       string // such as "(default)"
	Location string // such as "nam5" or "europe-west1"
}

// NewProject returns the state of a project in which there is nothing but databases. Without
// reading a project, its number is not known.
func NewProject(id string, databases []string, location string) *State {
	s := newState(id)
	s.Number = "NUMBER"
	for _, d := range databases {
		s.Databases[d] = Object{"locationId": location, "type": nativeMode}
	}
	return s
}

// databases reads the databases.
func (s *State) databases(ctx context.Context, project string) {
	databases, err := s.List(ctx, firestoreAPI, "v1/"+project+"/databases")
	s.add(Field, err)
	for _, d := range databases {
		s.Databases[path.Base(d.name())] = d
	}
}

const nativeMode = "FIRESTORE_NATIVE" // the type of the databases that Tally serves

// Locate returns the databases with their locations. The error lists those that Tally cannot serve.
func (s *State) Locate(ids []string) ([]Database, error) {
	var found []Database
	var problems []error
	for _, id := range ids {
		problem := s.unservable(id)
		if problem != nil {
			problems = append(problems, problem)
			continue
		}
		found = append(found, Database{ID: id, Location: s.Databases[id].Get("locationId")})
	}
	return found, errors.Join(problems...)
}

// unservable returns why Tally cannot serve the database, nil if it can.
func (s *State) unservable(id string) error {
	d := s.Databases[id]
	switch {
	case d == nil && len(s.Databases) == 0:
		return fmt.Errorf("project %s has no Firestore database; create one, in a location that it keeps forever (https://cloud.google.com/firestore/docs/locations):\n  %s",
			s.Project, createDatabase(s.Project, id, "LOCATION"))

	case d == nil:
		return fmt.Errorf("project %s has no database %s; it has %s", s.Project, id, strings.Join(slices.Sorted(maps.Keys(s.Databases)), ", "))

	case d.Get("type") != nativeMode:
		return fmt.Errorf("database %s is of type %s; Tally's events and rules need Firestore in native mode", id, d.Get("type"))

	case d.Get("databaseEdition") == "ENTERPRISE":
		// https://firebase.google.com/docs/firestore/compare-editions-for-native-mode
		return fmt.Errorf("database %s is of the Enterprise edition, which makes no index by itself: without one a sum scans all shards, and bills them. Tally makes none by hand, and serves the Standard edition", id)
	}
	return nil
}

// createDatabase returns the command that creates a database.
func createDatabase(project, id, location string) string {
	return fmt.Sprintf("gcloud firestore databases create --database='%s' --location=%s --type=firestore-native --project=%s", id, location, project)
}
