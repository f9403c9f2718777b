package deploy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/tool/appfolder"
	"github.com/firestore-tally/tally/rollup/route"
)

// CheckRules checks that Tally's block was merged into the app's rules: that they name the
// collections of shards and roll-ups of each route. Without the block clients can do nothing with
// counters; if the rules are open to all, clients can do anything with them. The error names each
// missing collection once.
func CheckRules(a appfolder.Database, routes route.Routes) error {
	rules, err := appfolder.ReadRules(a.Rules)
	if err != nil {
		return err
	}

	var problems []error
	checked := make(map[string]bool) // collections: several routes may have the same
	for _, r := range routes {
		for _, s := range slices.Concat(r.Pattern(), r.Template.Segments()) {
			if s.Capture || checked[s.Name] {
				continue
			}
			checked[s.Name] = true

			if !strings.Contains(rules, "/"+s.Name+"/") {
				problems = append(problems, fmt.Errorf("%s has no match for /%s/, of the route %s: merge the block of Tally's firestore.rules into it first", a.Rules, s.Name, r))
			}
		}
	}
	return errors.Join(problems...)
}

// checkFiles checks the rules that the app's firebase.json names for a database, and returns their
// file, and what the indexes file that it names lacks.
func checkFiles(f *appfolder.Folder, database string, routes route.Routes) (rules string, lacks []string, err error) {
	a, err := f.Database(database)
	if err != nil {
		return "", nil, err
	}
	if a.Rules == "" {
		return "", nil, fmt.Errorf("%s names no firestore.rules for database %s; add them to it, or leave --rules out", f.Firebase, database)
	}
	if err := CheckRules(a, routes); err != nil {
		return "", nil, err
	}

	if a.Indexes == "" {
		return a.Rules, nil, nil
	}
	lacks, err = CheckIndexesFile(a.Indexes, routes)
	return a.Rules, lacks, err
}

// databaseRules are the rules that are to be in force for a database.
type databaseRules struct{ database, file, text string }

// PlanRules adds the step that replaces the project's rules by those of the app's firebase.json, if
// those are others.
func (p *Plan) PlanRules(ctx context.Context, d *Description, have *State, f *appfolder.Folder) error {
	if f.Firebase == "" {
		return errors.New("there is no firebase.json here or above; go to the app's folder, or leave --rules out")
	}

	var all []databaseRules
	for _, database := range d.Databases {
		file, lacks, err := checkFiles(f, database.ID, d.Config.Routes)
		if err != nil {
			return err
		}
		p.Notes = append(p.Notes, lacks...)

		text, err := appfolder.ReadRules(file)
		if err != nil {
			return err
		}
		now, err := have.Rules(ctx, database.ID)
		if err != nil && !have.absent(err) {
			return have.ReadError(RulesAPI, "the security rules", err)
		}
		if now != text {
			all = append(all, databaseRules{database.ID, file, text})
		}
	}

	if len(all) > 0 {
		p.add(Step{Does: Replace, Title: "replace the rules of " + d.Project + " by those that " + f.Firebase + " names", rules: all})
	}
	return nil
}

// replaceRules makes a ruleset for each database, and releases it:
// https://firebase.google.com/docs/reference/rules/rest
func (s *State) replaceRules(ctx context.Context, all []databaseRules) error {
	for _, r := range all {
		files := []any{Object{"name": filepath.Base(r.file), "content": r.text}}
		var ruleset Object
		err := s.Call(ctx, RulesAPI, http.MethodPost, "v1/projects/"+s.Project+"/rulesets", toJSON(Object{"source": Object{"files": files}}), &ruleset)
		if err != nil {
			return fmt.Errorf("%s: %w", r.file, err)
		}

		release := Object{"name": s.release(r.database), "rulesetName": ruleset.name()}
		err = s.Call(ctx, RulesAPI, http.MethodPatch, "v1/"+s.release(r.database), toJSON(Object{"release": release}), new(Object))
		if NotFound(err) {
			err = s.Call(ctx, RulesAPI, http.MethodPost, "v1/projects/"+s.Project+"/releases", toJSON(release), new(Object))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// release returns the name under which the rules of a database are in force.
func (s *State) release(database string) string {
	name := "projects/" + s.Project + "/releases/cloud.firestore"
	if database != firestore.DefaultDatabaseID {
		name += "/" + database
	}
	return name
}

// Ruleset returns the name of the security rules that are in force for a database. NotFound
// recognizes the error if there are none.
func (s *State) Ruleset(ctx context.Context, database string) (name string, err error) {
	var release struct{ RulesetName string }
	err = s.Call(ctx, RulesAPI, http.MethodGet, "v1/"+s.release(database), "", &release)
	return release.RulesetName, err
}

// Rules returns the text of the security rules that are in force for a database, all files of it.
// NotFound recognizes the error if there are none.
func (s *State) Rules(ctx context.Context, database string) (text string, err error) {
	name, err := s.Ruleset(ctx, database)
	if err != nil {
		return "", err
	}

	var ruleset struct {
		Source struct {
			Files []struct{ Content string }
		}
	}
	err = s.Call(ctx, RulesAPI, http.MethodGet, "v1/"+name, "", &ruleset)
	if err != nil {
		return "", err
	}

	var files []string
	for _, file := range ruleset.Source.Files {
		files = append(files, file.Content)
	}
	return strings.Join(files, "\n"), nil
}
