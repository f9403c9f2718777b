package deploy

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/firestore-tally/tally/internal/appfolder"
	"github.com/firestore-tally/tally/internal/config"
)

// Functions returns the functions that tally deploy or Terraform made, the one that was deployed
// last first: its variables are the newest that somebody wanted.
func (s *State) Functions() []Object {
	all := slices.DeleteFunc(slices.Clone(s.have[Function]), func(f Object) bool { return !ours(f) })
	slices.SortStableFunc(all, func(a, b Object) int { return strings.Compare(b.Get("updateTime"), a.Get("updateTime")) })
	return all
}

// Env returns the variables that the functions are deployed with: those of the first that are
// valid; nil if there are no functions.
func (s *State) Env() map[string]string {
	var env map[string]string
	for _, f := range slices.Backward(s.Functions()) {
		if _, err := config.Load(Environment(f)); err == nil || env == nil {
			env = Environment(f)
		}
	}
	return env
}

// Wanted returns the variables that the functions are to have: those of tally.yaml, or, where there
// is none, those that they have.
func (s *State) Wanted(f *appfolder.Folder) map[string]string {
	env := f.Variables()
	if f.File == "" {
		maps.Copy(env, s.Env())
	}
	env["GOOGLE_CLOUD_PROJECT"] = s.Project
	return env
}

// Environment returns a function's variables but for Cloud Functions' own.
func Environment(f Object) map[string]string {
	env := make(map[string]string)
	config, _ := f["serviceConfig"].(map[string]any)
	variables, _ := config["environmentVariables"].(map[string]any)
	for name, value := range variables {
		if name != "LOG_EXECUTION_ID" {
			env[name] = fmt.Sprint(value)
		}
	}
	return env
}

// Region returns the region that the functions are in, "" if there are none.
func (s *State) Region() string {
	for _, f := range s.Functions() {
		return segment(f.name(), "locations")
	}
	return ""
}

// Billing returns how RollUpOnWrite's instances are billed.
func (s *State) Billing() string {
	for _, o := range s.have[Service] {
		if path.Base(o.name()) == OnWriteName && o.Get("template.containers.0.resources.cpuIdle") != "true" {
			return ByInstance
		}
	}
	return ByRequest
}

// MaxInstances returns how many instances RollUpOnWrite may have, 0 if it is not there.
func (s *State) MaxInstances() int {
	for _, f := range s.Functions() {
		if path.Base(f.name()) == OnWriteName {
			n, _ := strconv.Atoi(f.Get("serviceConfig.maxInstanceCount"))
			return n
		}
	}
	return 0
}

const nativeMode = "FIRESTORE_NATIVE" // the type of the databases that Tally serves

// Locate returns the databases with their locations. The error lists those that Tally cannot serve.
func (s *State) Locate(ids []string) ([]Database, error) {
	var found []Database
	var problems []error
	for _, id := range ids {
		d := s.Databases[id]
		switch {
		case d == nil && len(s.Databases) == 0:
			problems = append(problems, fmt.Errorf("project %s has no Firestore database; create one, in a location that it keeps for ever (gcloud firestore locations list names them):\n  %s", s.Project, createDatabase(s.Project, id, "LOCATION")))
		case d == nil:
			problems = append(problems, fmt.Errorf("project %s has no database %s; it has %s", s.Project, id, strings.Join(slices.Sorted(maps.Keys(s.Databases)), ", ")))
		case d.Get("type") != nativeMode:
			problems = append(problems, fmt.Errorf("database %s is of type %s; Tally's events and rules need Firestore in native mode", id, d.Get("type")))
		case d.Get("databaseEdition") == "ENTERPRISE":
			// https://firebase.google.com/docs/firestore/compare-editions-for-native-mode
			problems = append(problems, fmt.Errorf("database %s is of the Enterprise edition, which makes no index by itself: without one a sum scans all shards, and bills them. Tally makes none by hand, and serves the Standard edition", id))
		default:
			found = append(found, Database{ID: id, Location: d.Get("locationId")})
		}
	}
	return found, errors.Join(problems...)
}

func createDatabase(project, id, location string) Command {
	return gcloud("firestore", "databases", "create", "--database="+id, "--location="+location, "--type=firestore-native").in(project)
}
