package doctor

import (
	"context"
	"slices"
	"strings"

	"github.com/firestore-tally/tally/deploy"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup"
)

// A RuleCase is a request of a user's client that rules should allow or refuse. Rules are code, so
// cases are samples: that these are refused does not prove that no other is allowed.
type RuleCase struct {
	Check  string         // name of the check that it is of
	Says   string         // the request in words, such as "update rollups/{counter}"
	Path   string         // below the database's root
	Method string         // get, create, update or delete, as rules call them
	Before map[string]any // the document's fields; nil: it does not exist
	After  map[string]any // what is written
	Allow  bool
}

// someID replaces the captures of a path. Nothing of that name needs to exist.
const someID = "tally-doctor"

// ruleCases returns the cases that matter to the routes.
func ruleCases(routes rollup.Routes) []RuleCase {
	var cases []RuleCase
	// add adds a case for each of the methods, on a document or a part of it, to become another.
	add := func(check, part string, at rollup.Path, document, other map[string]any, allow bool, methods ...string) {
		where, path := spell(at)
		for _, method := range methods {
			c := RuleCase{Check: check, Says: method + " " + part + where, Path: path, Method: method, Allow: allow}
			if method != "create" {
				c.Before = document
			}
			if method == "create" || method == "update" {
				c.After = other
			}
			cases = append(cases, c)
		}
	}
	seen := make(map[string]bool)
	for _, r := range routes {
		if t := r.Template; r == t.Routes[0] {
			rollUp, other := rollUpOf(t, 1), rollUpOf(t, 2)
			if t.Existing { // what else clients do with it is the app's to say
				add(rulesRollUps, "the totals of ", t.Segments(), rollUp, other, false, "create", "update")
			} else {
				add(rulesRollUps, "", t.Segments(), rollUp, other, false, "create", "update", "delete")
				add(rulesReadable, "", t.Segments(), rollUp, nil, true, "get")
			}
		}
		pattern := r.Pattern()
		if !r.Counts() { // documents that are counted come and go
			shard := make(map[string]any)
			for _, f := range r.Fields() {
				shard[f] = 1
			}
			add(rulesShards, "", pattern, shard, nil, false, "delete")
		}
		if parent := pattern[:len(pattern)-2]; len(parent) > 0 {
			token := slices.Concat(parent, rollup.Path{{Name: document.TokensCollection}, {Name: "token", Capture: true}})
			if !seen[token.String()] { // routes may share a counter
				seen[token.String()] = true
				add(rulesOwn, "", token, map[string]any{"amount": 1}, map[string]any{"amount": 2}, false, "get", "create", "update", "delete")
			}
		}
	}
	cursor := rollup.Path{{Name: document.AuditCollection}, {Name: "cursor"}}
	add(rulesOwn, "", cursor, map[string]any{"path": 1}, map[string]any{"path": 2}, false, "get", "create", "update", "delete")
	return cases
}

// rollUpOf returns a roll-up document in which all numbers are n.
func rollUpOf(t *rollup.Template, n int) map[string]any {
	doc := map[string]any{document.TallyField: map[string]any{"num_shards": n}}
	for _, name := range t.Totals() {
		doc[name] = n
	}
	return doc
}

// spell returns the path as a route spells it, and with ids in the captures' place.
func spell(segments rollup.Path) (where, path string) {
	var ids []string
	for i, s := range segments {
		switch {
		case !s.Capture:
			ids = append(ids, s.Name)
		case i == len(segments)-1:
			ids = append(ids, "0") // a shard's id is a number, and rules may mind
		default:
			ids = append(ids, someID)
		}
	}
	return segments.String(), strings.Join(ids, "/")
}

// tryRules judges the results of the cases that are of the check at work.
func (e *examination) tryRules(ctx context.Context) {
	mend := []deploy.Command{{Args: []string{"firebase", "deploy", "--only=firestore:rules", "--project=" + e.Have.Project}}}
	for _, d := range e.described.Databases {
		what := "the rules of database " + d.ID
		cases := slices.DeleteFunc(ruleCases(e.config.Routes), func(c RuleCase) bool { return c.Check != e.finding.Name })
		results, err := e.try(ctx, d.ID, cases)
		if deploy.NotFound(err) {
			if e.finding.Name == rulesReadable { // all else is refused without rules
				e.wrong(mend, "database %s has no rules: all is refused. Take the rules of firestore.rules, then deploy them", d.ID)
			}
			continue
		}
		if err != nil {
			e.unknown(deploy.ReadError(deploy.RulesAPI, e.Have.Project, what, err))
			continue
		}
		var failed, unsure []string
		for i, result := range results {
			switch c := cases[i]; {
			case len(result.FunctionCalls) > 0: // for other documents, which a trial has none of
				unsure = append(unsure, c.Says)
			case result.State != "SUCCESS":
				failed = append(failed, c.Says)
			}
		}
		if len(failed) > 0 {
			verb := "allow"
			if e.finding.Name == rulesReadable {
				verb = "refuse"
			}
			e.wrong(mend, "the rules of database %s %s: %s. Take the rules of firestore.rules into the project's own, then deploy those", d.ID, verb, strings.Join(failed, "; "))
		}
		if len(unsure) > 0 {
			e.unknown(&deploy.Unread{What: what, Why: "other documents decide, and a trial has none: " + strings.Join(unsure, "; ")})
		}
	}
}
