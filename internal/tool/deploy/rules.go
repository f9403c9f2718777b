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
