package deploy

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/firestore-tally/tally/rollup"
)

// An App is what an app's firebase.json says of a database.
type App struct {
	Database string
	Rules    string // path of its rules
	Indexes  string // path of its indexes; "" if it has none
}

// readApp reads an app's firebase.json and returns what it says of each of the databases.
func readApp(file string, databases []Database) ([]App, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var config struct{ Firestore json.RawMessage }
	err = json.Unmarshal(data, &config)
	entries := make([]App, 1) // one, for the default database, or a list
	if config.Firestore != nil && json.Unmarshal(config.Firestore, &entries) != nil {
		err = json.Unmarshal(config.Firestore, &entries[0])
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var apps []App
	for _, d := range databases {
		i := slices.IndexFunc(entries, func(a App) bool { return cmp.Or(a.Database, "(default)") == d.ID })
		if i < 0 || entries[i].Rules == "" {
			return nil, fmt.Errorf("%s names no firestore.rules for database %s; add them to it, or leave --firebase out", file, d.ID)
		}
		a := entries[i]
		a.Rules = filepath.Join(filepath.Dir(file), a.Rules)
		if a.Indexes != "" {
			a.Indexes = filepath.Join(filepath.Dir(file), a.Indexes)
		}
		apps = append(apps, a)
	}
	return apps, nil
}

// checkRules checks that the rules name the collections of shards and roll-ups of each route: that
// Tally's block was merged into them. Without it clients can do nothing with counters, or with rules
// that are open to all, anything.
func (a App) checkRules(routes rollup.Routes) error {
	data, err := os.ReadFile(a.Rules)
	if err != nil {
		return err
	}
	var problems []error
	for _, r := range routes {
		for _, s := range slices.Concat(r.Pattern(), r.Template.Segments()) {
			if !s.Capture && !strings.Contains(string(data), "/"+s.Name+"/") {
				problems = append(problems, fmt.Errorf("%s has no match for /%s/, of the route %s: merge the block of Tally's firestore.rules into it first", a.Rules, s.Name, r))
			}
		}
	}
	return errors.Join(problems...)
}

// missingFields returns those of the fields that the app's indexes file does not have, as lines of it; none
// if there is no file. The app's next "firebase deploy --only firestore:indexes" offers to delete what its
// file does not have, or does so with --force.
func (a App) missingFields(fields []FieldConfig) (lines []string, err error) {
	if a.Indexes == "" {
		return nil, nil
	}
	data, err := os.ReadFile(a.Indexes)
	var indexes struct{ FieldOverrides []FieldConfig }
	if err == nil {
		err = json.Unmarshal(data, &indexes)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a.Indexes, err)
	}
	for _, f := range fields {
		if !slices.ContainsFunc(indexes.FieldOverrides, func(has FieldConfig) bool { return has.CollectionGroup == f.CollectionGroup && has.Path == f.Path }) {
			line, err := json.Marshal(f)
			if err != nil {
				return nil, err
			}
			lines = append(lines, "  "+string(line))
		}
	}
	return lines, nil
}

// PlanRules adds the command that replaces the project's rules by those of the app's firebase.json, and
// says what its indexes file lacks.
func (p *Plan) PlanRules(d *Description, file string) error {
	apps, err := readApp(file, d.Databases)
	if err != nil {
		return err
	}
	for _, a := range apps {
		missing, err := a.missingFields(Exempt(d.Routes))
		if err := errors.Join(err, a.checkRules(d.Routes)); err != nil {
			return err
		}
		if len(missing) > 0 {
			p.note("add to fieldOverrides of %s, or the next firebase deploy of indexes wants to delete them:\n%s", a.Indexes, strings.Join(missing, ",\n"))
		}
	}
	p.add(nil, "replace the rules of "+d.Project+" by those that "+file+" names", Command{Args: []string{"firebase", "deploy", "--only=firestore:rules",
		"--project=" + d.Project, "--config=" + file, "--non-interactive"}})
	return nil
}
