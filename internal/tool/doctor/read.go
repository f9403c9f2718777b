package doctor

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/firestore-tally/tally/internal/cloud/config"
	"github.com/firestore-tally/tally/internal/tool/appfolder"
	"github.com/firestore-tally/tally/internal/tool/deploy"
	"github.com/firestore-tally/tally/internal/tool/rules"
	"google.golang.org/api/option"
)

// Read reads what is deployed in the project of an app, until ctx is done. The options are those of
// Google's clients. It is an error if not even the functions can be read. Findings tell what else
// could not.
func Read(ctx context.Context, project string, f *appfolder.Folder, o ...option.ClientOption) (*Deployment, error) {
	on, err := deploy.Open(ctx, project, o...)
	if err != nil {
		return nil, err
	}
	d := &Deployment{AsOf: time.Now(), Project: on, folder: f}
	d.describe(f)
	if d.wanted != nil {
		d.lacks, d.surplus, d.problems = d.wanted.Differences(ctx)
	}
	return d, nil
}

// Local returns what can be examined without the project: the app's folder. f is nil if something
// in the folder could not be read; unfit says why. unread says why the project was not read.
func Local(f *appfolder.Folder, unfit, unread error) *Deployment {
	return &Deployment{AsOf: time.Now(), folder: f, unfit: unfit, unread: unread}
}

// describe describes the deployment as tally deploy would make it. The functions' variables come
// from tally.yaml, or without one from the functions that are deployed.
func (d *Deployment) describe(f *appfolder.Folder) {
	env := d.Project.Variables()
	if len(env) > 0 {
		env = d.Project.Wanted(f)
	}
	d.config, d.invalid = config.Load(env)
	if d.invalid != nil {
		return
	}

	// Databases that Tally cannot serve are left out, so that the others can be checked.
	var databases []deploy.Database
	databases, d.noDatabase = d.Project.Locate(d.config.Databases, d.config.Edition)
	if len(databases) == 0 {
		return
	}
	served := d.config
	served.Databases = nil
	for _, database := range databases {
		served.Databases = append(served.Databases, database.ID)
	}
	d.wanted, d.invalid = deploy.Want(d.Project, f, served, nil)
}

// A trialResult is what the Firebase Rules API says of a case.
type trialResult struct {
	State         string
	FunctionCalls []trialCall // for other documents
}

// A trialCall is a call that rules made for another document.
type trialCall struct {
	Function string
	Args     []any
}

// try has the Firebase Rules API try the rules of a database on the cases, and returns the result
// of each. If no rules are deployed, it returns an error for which deploy.NotFound is true.
func (d *Deployment) try(ctx context.Context, database string, cases []rules.Request) ([]trialResult, error) {
	ruleset, err := d.Project.Ruleset(ctx, database)
	if err != nil || len(cases) == 0 {
		return nil, err
	}

	var trials []object
	for _, c := range cases {
		trials = append(trials, trial(c, database, d.AsOf))
	}
	var answer struct{ TestResults []trialResult }
	suite := object{"testSuite": object{"testCases": trials}}
	err = d.Project.Call(ctx, http.MethodPost, "firebaserules.googleapis.com/v1/"+ruleset+":test", suite, &answer)
	if err == nil && len(answer.TestResults) != len(cases) {
		err = fmt.Errorf("%d cases were tried, and %d results came", len(cases), len(answer.TestResults))
	}
	return answer.TestResults, err
}

type object = map[string]any

// trial returns the case as the Firebase Rules API takes it
// (https://firebase.google.com/docs/reference/rules/rest/v1/projects/test#testcase).
func trial(r rules.Request, database string, now time.Time) object {
	request := object{
		"method": r.Method, "path": "/databases/" + database + "/documents/" + r.Path(), "time": now.UTC().Format(time.RFC3339Nano),
	}
	if !r.SignedOut {
		request["auth"] = object{"uid": someID, "token": object{"sub": someID}}
	}
	before, after := r.Data()
	if after != nil {
		request["resource"] = object{"data": after}
	}

	trial := object{"request": request, "expectation": "DENY", "pathEncoding": "PLAIN"}
	if r.Allow {
		trial["expectation"] = "ALLOW"
	}
	if before != nil {
		trial["resource"] = object{"data": before}
	}
	if counter(r) != "" {
		whatever := []object{{"anyValue": object{}}}
		trial["functionMocks"] = []object{
			{"function": "exists", "args": whatever, "result": object{"value": true}},
			{"function": "get", "args": whatever, "result": object{"value": object{"data": declared}}},
		}
	}
	return trial
}

// declared are the fields of a counter's document, as rules get it.
var declared = object{"num_shards": 10}
