package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/firestore-tally/tally/internal/tool/deploy"
	"github.com/firestore-tally/tally/internal/tool/rules"
	"github.com/firestore-tally/tally/rollup/route"
	"google.golang.org/protobuf/encoding/protojson"
)

// A RuleCase is a request of a user's client that rules should allow or refuse. Cases are only
// samples, because rules are code. If they refuse the cases, they may still allow other requests.
type RuleCase struct {
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

// ruleCases returns the cases of a check. Those of rulesJudged need no other document and no user,
// so that there is an answer also where no emulator judges the rules.
func ruleCases(check string, routes route.Routes) (cases []RuleCase) {
	for _, r := range rules.Requests(routes) {
		c := RuleCase{Path: r.Path(), Method: r.Method, Says: r.Method + " " + r.Where(), SignedOut: true}
		c.Before, c.After = r.Data()
		isSample := r.Kind == rules.RollUp || r.Kind == rules.Shard || r.Kind == rules.Own && r.Method == rules.Get
		if check == rulesJudged && isSample {
			cases = append(cases, c)
		}
		if check != rulesIncrements || r.Kind != rules.Increment {
			continue
		}

		c.Allow, c.SignedOut = true, r.SignedOut
		c.Counter, c.Says = above(c.Path), c.Says+" by "+slices.Collect(maps.Keys(c.After))[0]
		switch {
		case r.SignedOut:
			c.Else = "refuse who is not signed in: %s. An app must sign its users in before they count"
		case r.Method == "create":
			c.Else = "refuse to create shards: %s. A shard must exist before a client counts in it"
		}
		if c.Before != nil {
			c.After = merged(c.Before, c.After)
		}
		cases = append(cases, c)
	}
	return cases
}

// merged returns the fields of a document after a change.
func merged(before, change map[string]any) map[string]any {
	after := maps.Clone(before)
	maps.Copy(after, change)
	return after
}

// above returns the path of the document above another.
func above(document string) string { return path.Dir(path.Dir(document)) }

// tryRules tries the cases of this check in each database, and judges the results.
func (e *examination) tryRules(ctx context.Context) {
	cases := ruleCases(e.finding.Name, e.config.Routes)
	fix := deploy.Command("firebase", "deploy", "--only", "firestore:rules", "--project="+e.Project.ID)

	for _, d := range e.wanted.Databases {
		what := "the rules of database " + d.ID
		results, err := e.try(ctx, d.ID, cases)
		if deploy.NotFound(err) {
			e.wrong(fix, "database %s has no rules: all is refused. Take the rules of firestore.rules, then deploy them", d.ID)
			continue
		}
		if err != nil {
			e.unknown(e.Project.Unreadable("firebaserules", what, err))
			continue
		}

		failed, harmless, unsure := sorted(cases, results)
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

// judgeRules judges the rules that are in force in each database, on one of the app's documents for
// each template whose totals such documents hold. It also tries what needs no document.
func (e *examination) judgeRules(ctx context.Context) {
	e.tryRules(ctx)
	for _, d := range e.wanted.Databases {
		what := "the rules of database " + d.ID
		text, err := e.Project.Rules(ctx, d.ID)
		if deploy.NotFound(err) {
			continue // it is said already
		}
		if err != nil {
			e.unknown(e.Project.Unreadable("firebaserules", what, err))
			continue
		}
		e.judge(ctx, what, rules.Judge{Database: d.ID, Text: text}, e.config.Routes, e.documents(ctx, d.ID))
	}
}

// documents returns one document of the app's for each template whose totals such documents hold.
// Where there is none that can be read, the judge makes one up.
func (e *examination) documents(ctx context.Context, database string) map[string][]rules.Document {
	all := make(map[string][]rules.Document)
	for _, t := range e.config.Routes.Templates() {
		if !t.Existing {
			continue
		}
		segments := t.Segments()
		from := []object{{"collectionId": segments[len(segments)-2].Name, "allDescendants": true}}
		parent := "projects/" + e.Project.ID + "/databases/" + database + "/documents"
		var answer []struct{ Document json.RawMessage }
		err := e.Project.Call(ctx, http.MethodPost, "firestore.googleapis.com/v1/"+parent+":runQuery", object{"structuredQuery": object{"from": from, "limit": 1}}, &answer)
		if err != nil || len(answer) == 0 || answer[0].Document == nil {
			continue
		}

		doc := new(firestorepb.Document)
		err = protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(answer[0].Document, doc)
		_, at, _ := strings.Cut(doc.GetName(), "/documents/")
		_, holds := t.Counter(at)
		if err == nil && holds {
			all[t.String()] = []rules.Document{{Path: at, Fields: doc.Fields}}
		}
	}
	return all
}

// doing says what the rules do wrong if they fail the check.
func doing(check string) string {
	if check == rulesIncrements {
		return "refuse who is signed in"
	}
	return "allow"
}

// sorted sorts the cases that did not pass for sure. failed are those that the rules fail. harmless
// are those that they fail although nothing is wrong, by their Else. unsure are those for which the
// rules read other documents, which a trial does not have.
func sorted(cases []RuleCase, results []trialResult) (failed []string, harmless map[string][]string, unsure []string) {
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
