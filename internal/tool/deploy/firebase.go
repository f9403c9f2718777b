package deploy

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/firestore-tally/tally/internal/tool/appfolder"
	"github.com/firestore-tally/tally/rollup/route"
)

// CheckRules checks that Tally's block was merged into the app's rules: that they name the
// collections of shards and roll-ups of each route. Without the block clients can do nothing with
// counters; if the rules are open to all, clients can do anything with them.
func CheckRules(a appfolder.Database, routes route.Routes) error {
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

// checkFiles checks the rules that the app's firebase.json names for a database, and returns what
// the indexes file that it names lacks.
func checkFiles(f *appfolder.Folder, database string, routes route.Routes) (lacks []string, err error) {
	a, err := f.Database(database)
	if err != nil {
		return nil, err
	}
	if a.Rules == "" {
		return nil, fmt.Errorf("%s names no firestore.rules for database %s; add them to it, or leave --rules out", f.Firebase, database)
	}
	if err := CheckRules(a, routes); err != nil {
		return nil, err
	}

	if a.Indexes == "" {
		return nil, nil
	}
	return CheckIndexesFile(a.Indexes, routes)
}

// PlanRules adds the command that replaces the project's rules by those of the app's firebase.json,
// and says what its indexes file lacks.
func (p *Plan) PlanRules(d *Description, f *appfolder.Folder) error {
	if f.Firebase == "" {
		return errors.New("there is no firebase.json here or above; go to the app's folder, or leave --rules out")
	}

	for _, database := range d.Databases {
		lacks, err := checkFiles(f, database.ID, d.Config.Routes)
		if err != nil {
			return err
		}
		p.Notes = append(p.Notes, lacks...)
	}

	p.add(Step{
		Does:  Replace,
		Title: "replace the rules of " + d.Project + " by those that " + f.Firebase + " names",
		Command: Command{Args: []string{"firebase", "deploy", "--only=firestore:rules",
			"--project=" + d.Project, "--config=" + f.Firebase, "--non-interactive"}},
	})
	return nil
}
