package deploy

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/firestore-tally/tally/internal/appfolder"
	"github.com/firestore-tally/tally/rollup"
)

// CheckRules checks that the rules name the collections of shards and roll-ups of each route: that
// Tally's block was merged into them. Without it clients can do nothing with counters, or with
// rules that are open to all, anything.
func CheckRules(a appfolder.Database, routes rollup.Routes) error {
	rules, err := appfolder.ReadRules(a.Rules)
	if err != nil {
		return err
	}
	var problems []error
	for _, r := range routes {
		for _, s := range slices.Concat(r.Pattern(), r.Template.Segments()) {
			if !s.Capture && !strings.Contains(rules, "/"+s.Name+"/") {
				problems = append(problems, fmt.Errorf("%s has no match for /%s/, of the route %s: merge the block of Tally's firestore.rules into it first", a.Rules, s.Name, r))
			}
		}
	}
	return errors.Join(problems...)
}

// MissingFields returns those of the fields that the app's indexes file does not have, as lines of
// it; none if there is no file. The app's next "firebase deploy --only firestore:indexes" offers to
// delete what its file does not have, or does so with --force.
func MissingFields(a appfolder.Database, fields []FieldConfig) (lines []string, err error) {
	if a.Indexes == "" {
		return nil, nil
	}
	data, err := appfolder.ReadJSON(a.Indexes)
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

// PlanRules adds the command that replaces the project's rules by those of the app's firebase.json,
// and says what its indexes file lacks.
func (p *Plan) PlanRules(d *Description, f *appfolder.Folder) error {
	if f.Firebase == "" {
		return errors.New("there is no firebase.json here or above; go to the app's folder, or leave --rules out")
	}
	for _, database := range d.Databases {
		a, err := f.Database(database.ID)
		if err == nil && a.Rules == "" {
			err = fmt.Errorf("%s names no firestore.rules for database %s; add them to it, or leave --rules out", f.Firebase, database.ID)
		}
		if err != nil {
			return err
		}
		missing, err := MissingFields(a, Exempt(d.Config.Routes))
		if err := errors.Join(err, CheckRules(a, d.Config.Routes)); err != nil {
			return err
		}
		if len(missing) > 0 {
			p.note("add to fieldOverrides of %s, or the next firebase deploy of indexes wants to delete them:\n%s", a.Indexes, strings.Join(missing, ",\n"))
		}
	}
	p.add(nil, "replace the rules of "+d.Project+" by those that "+f.Firebase+" names", Command{Args: []string{"firebase", "deploy", "--only=firestore:rules",
		"--project=" + d.Project, "--config=" + f.Firebase, "--non-interactive"}})
	return nil
}
