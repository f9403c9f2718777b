package deploy

import (
	"context"
	"net/http"

	"cloud.google.com/go/firestore"
)

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

// Rules returns the text of the security rules that are in force for a database. NotFound
// recognizes the error if there are none.
func (p *Project) Rules(ctx context.Context, database string) (text string, err error) {
	ruleset, err := p.Ruleset(ctx, database)
	if err != nil {
		return "", err
	}
	var answer struct {
		Source struct{ Files []struct{ Content string } }
	}
	err = p.Call(ctx, http.MethodGet, "firebaserules.googleapis.com/v1/"+ruleset, nil, &answer)
	for _, file := range answer.Source.Files {
		text += file.Content
	}
	return text, err
}
