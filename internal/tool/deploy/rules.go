package deploy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
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

const rulesAPI = "firebaserules.googleapis.com/v1/"

// release returns the name under which the rules of a database are in force.
func (p *Project) release(database string) string {
	name := "projects/" + p.ID + "/releases/cloud.firestore"
	if database != firestore.DefaultDatabaseID {
		name += "/" + database
	}
	return name
}

// Ruleset returns the name of the security rules that are in force for a database. NotFound
// recognizes the error if there are none.
func (p *Project) Ruleset(ctx context.Context, database string) (name string, err error) {
	var release struct{ RulesetName string }
	err = p.Call(ctx, http.MethodGet, rulesAPI+p.release(database), nil, &release)
	return release.RulesetName, err
}

// Rules returns the text of the security rules that are in force for a database, all files of it.
// NotFound recognizes the error if there are none.
func (p *Project) Rules(ctx context.Context, database string) (text string, err error) {
	name, err := p.Ruleset(ctx, database)
	if err != nil {
		return "", err
	}

	var ruleset struct {
		Source struct {
			Files []struct{ Content string }
		}
	}
	err = p.Call(ctx, http.MethodGet, rulesAPI+name, nil, &ruleset)
	if err != nil {
		return "", err
	}

	var files []string
	for _, file := range ruleset.Source.Files {
		files = append(files, file.Content)
	}
	return strings.Join(files, "\n"), nil
}
