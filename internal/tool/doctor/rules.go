package doctor

import (
	"context"
	"encoding/json"
	"fmt"
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

// someID is the id of a user and of a project. Nothing of that name needs to exist.
const someID = "tally-doctor"

// samples returns the requests that Google tries for a check. Rules are code: if they answer these
// well, they may still allow others. Those of rulesJudged need no other document and no user, so
// that there is an answer also where no emulator judges the rules.
func samples(check string, routes route.Routes) (all []rules.Request) {
	for _, r := range rules.Requests(routes) {
		isTallys := r.Kind == rules.RollUp || r.Kind == rules.Shard || r.Kind == rules.Own && r.Method == rules.Get
		switch {
		case check == rulesIncrements && r.Kind == rules.Increment:
			all = append(all, r)
		case check == rulesJudged && isTallys:
			r.SignedOut = true
			all = append(all, r)
		}
	}
	return all
}

// sampleText returns a sample in words, such as "update counters/{counter}/shards/{shard} by
// count".
func sampleText(r rules.Request) string {
	text := r.Method + " " + r.Where()
	if r.Kind == rules.Increment {
		text += " by " + r.Field()
	}
	return text
}

// counter returns the path of the document that says how many shards there are, which rules may
// read of an increment; "" for other samples.
func counter(r rules.Request) string {
	if r.Kind != rules.Increment {
		return ""
	}
	return path.Dir(path.Dir(r.Path()))
}

// tryRules tries the samples of this check in each database, and judges the results.
func (e *examination) tryRules(ctx context.Context) {
	cases := samples(e.finding.Name, e.config.Routes)
	fix := deploy.Command("firebase", "deploy", "--only", "firestore:rules", "--project="+e.Project.ID)

	for _, d := range e.wanted.Databases {
		what := "the rules of database " + d.ID
		results, err := e.try(ctx, d.ID, cases)
		if deploy.NotFound(err) {
			e.wrong(fix, "database %s has no rules, so Firestore refuses all clients. Take the rules of firestore.rules, then deploy them", d.ID)
			continue
		}
		if err != nil {
			e.unknown(e.Project.Unreadable("firebaserules", what, err))
			continue
		}

		failed, signedOut, missing, unsure := sorted(cases, results)
		allow := "allow"
		if e.finding.Name == rulesIncrements {
			allow = "refuse who is signed in"
		}
		switch {
		case len(failed) > 0:
			e.wrong(fix, "%s %s: %s. Merge firestore.rules into the project's own rules, then deploy them", what, allow, strings.Join(failed, "; "))
		case len(signedOut) > 0:
			e.note("%s refuse clients that are not signed in: %s. An app must sign its users in before they count", what, strings.Join(signedOut, "; "))
		}
		if len(failed) == 0 && len(missing) > 0 {
			e.note("%s refuse to create shards: %s. A shard must exist before a client counts in it", what, strings.Join(missing, "; "))
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
		from := []object{{"collectionId": segments.CollectionID(), "allDescendants": true}}
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

// sorted sorts the samples that did not pass for sure. The rules fail those in failed. They also
// fail those in signedOut and missing, where nothing need be wrong: increments by who is not
// signed in, and of a shard that is not there. For unsure they read other documents, which a trial
// does not have.
func sorted(cases []rules.Request, results []trialResult) (failed, signedOut, missing, unsure []string) {
	for i, result := range results {
		r := cases[i]
		passed := result.State == "SUCCESS"
		asked := len(result.FunctionCalls) > 0
		switch {
		case asked && passed && readsOnlyCounter(r, result.FunctionCalls): // it passed
		case asked && slices.Contains(unsure, sampleText(r)): // noted already, for a request that says the same
		case asked:
			unsure = append(unsure, sampleText(r))
		case passed:
		case r.Kind == rules.Increment && r.SignedOut:
			signedOut = append(signedOut, sampleText(r))
		case r.Harmless():
			missing = append(missing, sampleText(r))
		default:
			failed = append(failed, sampleText(r))
		}
	}
	return failed, signedOut, missing, unsure
}

// readsOnlyCounter reports whether all calls read the counter's document, the only one that the
// trial has.
func readsOnlyCounter(r rules.Request, calls []trialCall) bool {
	return counter(r) != "" && !slices.ContainsFunc(calls, func(call trialCall) bool {
		return !strings.Contains(fmt.Sprint(call.Args...), "/documents/"+counter(r))
	})
}
