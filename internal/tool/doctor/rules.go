package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/tool/deploy"
	"github.com/firestore-tally/tally/rollup/route"
)

// A RuleCase is a request of a user's client that rules should allow or refuse. Cases are only
// samples, because rules are code. If they refuse the cases, they may still allow other requests.
type RuleCase struct {
	Check  string         // name of the check that makes it
	Says   string         // the request in words, such as "update rollups/{counter}"
	Path   string         // below the database's root
	Method string         // get, create, update or delete, as rules call them
	Before map[string]any // the document's fields; nil: it does not exist
	After  map[string]any // what is written
	Allow  bool

	SignedOut bool   // the user is not signed in
	Counter   string // path of the document that says how many shards there are, which rules may read
	Else      string // format of a note, if it is not wrong that rules fail the case; empty: it is wrong
}

// someID replaces the captures of a path. Nothing of that name needs to exist.
const someID = "tally-doctor"

// ruleCases returns the cases that matter to the routes.
func ruleCases(routes route.Routes) []RuleCase {
	var c ruleList
	for _, r := range routes {
		if r == r.Template.Routes[0] {
			c.rollUps(r.Template)
		}
		if r.Plain() { // other documents are the app's, and clients may delete them
			c.shards(r)
		}
		c.tokens(r)
	}

	c.own(route.Path{{Name: document.AuditCollection}, {Name: "cursor"}}, "path")
	c.own(route.Path{{Name: document.ClaimsCollection}, {Name: "claim", Capture: true}}, "path")
	return c.cases
}

// A ruleList collects cases.
type ruleList struct {
	cases []RuleCase
	owned []string // paths of documents of Tally's own that have their cases
}

// ruled is a document that rules are asked about.
type ruled struct {
	says   string // in words, before the path; may be empty
	at     route.Path
	before map[string]any // its fields
	after  map[string]any // its fields after a write
}

// add adds a case for each of the methods.
func (l *ruleList) add(check string, d ruled, allow bool, methods ...string) {
	where, path := spell(d.at)
	for _, method := range methods {
		c := RuleCase{Check: check, Says: method + " " + d.says + where, Path: path, Method: method, Allow: allow}
		if method != "create" {
			c.Before = d.before
		}
		if method == "create" || method == "update" {
			c.After = d.after
		}
		l.cases = append(l.cases, c)
	}
}

// rollUps adds the cases of a template's roll-ups. No client may write them, and every client may
// read them if they are those of plain counters; an app may close others. If they are the app's own
// documents, only their totals are Tally's: then the app decides what else clients may do, and
// there is no case for it.
func (l *ruleList) rollUps(t *route.Template) {
	d := ruled{at: t.Segments(), before: rollUpOf(t, 1), after: rollUpOf(t, 2)}
	if t.Existing {
		d.says = "the totals of "
		l.add(rulesRollUps, d, false, "create", "update")
		for _, total := range t.Totals() { // rules may refuse some of the fields, and allow one
			one := ruled{says: total + " of ", at: d.at, before: d.before, after: maps.Clone(d.before)}
			one.after[total] = 2
			l.add(rulesRollUps, one, false, "update")
		}
		return
	}

	l.add(rulesRollUps, d, false, "create", "update", "delete")
	isOther := func(r *route.Route) bool { return !r.HasShards() }
	if !slices.ContainsFunc(t.Routes, isOther) {
		l.add(rulesReadable, d, true, "get")
	}
}

// shards adds the cases of a route's shards. Clients may increment them, and may not delete any.
func (l *ruleList) shards(r *route.Route) {
	shard := make(map[string]any)
	for _, f := range r.Fields() {
		shard[f.Names()[0]] = 1
	}

	l.add(rulesShards, ruled{at: r.Pattern(), before: shard}, false, "delete")
	l.cases = append(l.cases, increments(r)...)
}

// tokens adds the cases of the increment tokens next to a route's documents. Several routes may
// have the same tokens, which get their cases once.
func (l *ruleList) tokens(r *route.Route) {
	pattern := r.Pattern()
	parent := pattern[:len(pattern)-2]
	if len(parent) == 0 {
		return
	}

	token := slices.Concat(parent, route.Path{{Name: document.TokensCollection}, {Name: "token", Capture: true}})
	if slices.Contains(l.owned, token.String()) {
		return
	}
	l.owned = append(l.owned, token.String())
	l.own(token, "amount")
}

// own adds the cases of a document that Tally keeps for itself: no client may read or write it.
func (l *ruleList) own(at route.Path, field string) {
	l.add(rulesOwn, ruled{at: at, before: map[string]any{field: 1}, after: map[string]any{field: 2}}, false, "get", "create", "update", "delete")
}

// increments returns the cases of honest increments of a shard: of a new shard and of one that has
// counted already, each by a user who is signed in and by one who is not.
func increments(r *route.Route) (cases []RuleCase) {
	where, path := spell(r.Pattern())
	ids := strings.Split(path, "/")
	counter := strings.Join(ids[:max(0, len(ids)-2)], "/")

	for _, f := range r.Fields() {
		field := f.Names()[0]
		one, before, after := map[string]any{field: 1}, make(map[string]any), make(map[string]any)
		for _, f := range r.Fields() {
			name := f.Names()[0]
			before[name], after[name] = 1, 1
		}
		after[field] = 2

		create := RuleCase{Check: rulesIncrements, Says: "create " + where + " by " + field, Path: path, Method: "create", After: one, Allow: true, Counter: counter}
		update := create
		update.Says, update.Method, update.Before, update.After = "update "+where+" by "+field, "update", before, after

		create.Else = "refuse to create shards: %s. A shard must exist before a client counts in it"
		cases = append(cases, create, update)
		for _, c := range []RuleCase{create, update} {
			c.SignedOut, c.Else = true, "refuse who is not signed in: %s. An app must sign its users in before they count"
			cases = append(cases, c)
		}
	}
	return cases
}

// rollUpOf returns a roll-up document in which all numbers are n.
func rollUpOf(t *route.Template, n int) map[string]any {
	doc := map[string]any{document.TallyField: map[string]any{"num_shards": n}}
	for _, name := range t.Totals() {
		doc[name] = n
	}
	return doc
}

// spell returns the path twice: as a route spells it, and with ids in place of its captures.
func spell(segments route.Path) (where, path string) {
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

// tryRules tries the cases of this check in each database, and judges the results.
func (e *examination) tryRules(ctx context.Context) {
	cases := slices.DeleteFunc(ruleCases(e.config.Routes), func(c RuleCase) bool { return c.Check != e.finding.Name })
	fix := deploy.Command("firebase", "deploy", "--only", "firestore:rules", "--project="+e.Project.ID)

	for _, d := range e.wanted.Databases {
		what := "the rules of database " + d.ID
		results, err := e.try(ctx, d.ID, cases)
		if deploy.NotFound(err) {
			if e.finding.Name == rulesReadable || e.finding.Name == rulesIncrements { // all else is refused without rules
				e.wrong(fix, "database %s has no rules: all is refused. Take the rules of firestore.rules, then deploy them", d.ID)
			}
			continue
		}
		if err != nil {
			e.unknown(e.Project.Unreadable("firebaserules", what, err))
			continue
		}

		failed, harmless, unsure := judge(cases, results)
		if len(failed) > 0 {
			e.wrong(fix, "%s %s: %s. Take the rules of firestore.rules into the project's own, then deploy those", what, doing(e.finding.Name), strings.Join(failed, "; "))
		} else {
			for _, text := range slices.Sorted(maps.Keys(harmless)) {
				e.note("%s "+text, what, strings.Join(harmless[text], "; "))
			}
		}
		if len(unsure) > 0 {
			e.unknown(&deploy.Unread{What: what, Why: "other documents decide, and a trial has none: " + strings.Join(unsure, "; ")})
		}
	}
}

// doing says what the rules do wrong if they fail the check.
func doing(check string) string {
	switch check {
	case rulesReadable:
		return "refuse"
	case rulesIncrements:
		return "refuse who is signed in"
	}
	return "allow"
}

// judge sorts the cases that did not pass for sure. failed are those that the rules fail. harmless
// are those that they fail although nothing is wrong, by their Else. unsure are those for which the
// rules read other documents, which a trial does not have.
func judge(cases []RuleCase, results []trialResult) (failed []string, harmless map[string][]string, unsure []string) {
	harmless = make(map[string][]string)
	for i, result := range results {
		c := &cases[i]
		passed := result.State == "SUCCESS"
		asked := len(result.FunctionCalls) > 0
		switch {
		case asked && passed && c.knows(result.FunctionCalls): // it passed
		case asked && slices.Contains(unsure, c.Says): // noted already, for a request that says the same
		case asked:
			unsure = append(unsure, c.Says)
		case !passed && c.Else != "":
			harmless[c.Else] = append(harmless[c.Else], c.Says)
		case !passed:
			failed = append(failed, c.Says)
		}
	}
	return failed, harmless, unsure
}

// knows reports whether all calls read the counter's document, the only one that the trial has.
func (c *RuleCase) knows(calls []trialCall) bool {
	return c.Counter != "" && !slices.ContainsFunc(calls, func(call trialCall) bool {
		return !strings.Contains(fmt.Sprint(call.Args...), "/documents/"+c.Counter)
	})
}
