package deploy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/tool/appfolder"
	"github.com/firestore-tally/tally/rollup/route"
)

// CheckRules checks that the app's rules name the collections of shards and roll-ups of each route.
// Without a block clients can do nothing with counters; if the rules are open to all, clients can
// do anything with them. The error names each missing collection once.
func CheckRules(a appfolder.Database, routes route.Routes) error {
	rules, err := appfolder.ReadRules(a.Rules)
	if err != nil {
		return err
	}

	var problems []error
	checked := make(map[string]bool) // collections: several routes may have the same
	for _, r := range routes {
		for _, path := range []route.Path{r.Pattern(), r.Template.Segments()} {
			for i, s := range path {
				if s.Capture || checked[s.Name] {
					continue
				}
				checked[s.Name] = true

				if !strings.Contains(rules, "/"+s.Name+"/") {
					problems = append(problems, fmt.Errorf("%s has no match for /%s/, of the route %s: add a block to it, such as docs/recipes.md has, or if only servers read and write these documents, match /%s { allow read, write: if false; }", a.Rules, s.Name, r, path[:min(i+2, len(path))]))
				}
			}
		}
	}
	return errors.Join(problems...)
}

// Ruleset returns the name of the security rules that are in force for a database. NotFound
// recognizes the error if there are none.
func (p *Project) Ruleset(ctx context.Context, database string) (name string, err error) {
	release := "projects/" + p.ID + "/releases/cloud.firestore"
	if database != firestore.DefaultDatabaseID {
		release += "/" + database
	}
	var answer struct{ RulesetName string }
	err = p.Call(ctx, http.MethodGet, "firebaserules.googleapis.com/v1/"+release, nil, &answer)
	return answer.RulesetName, err
}
