package deploy

import (
	"context"
	"net/http"
	"strings"

	"cloud.google.com/go/firestore"
)

// Ruleset returns the name of the security rules that are in force for a database. NotFound tells
// of the error if there are none.
func (s *State) Ruleset(ctx context.Context, database string) (name string, err error) {
	address := "v1/projects/" + s.Project + "/releases/cloud.firestore"
	if database != firestore.DefaultDatabaseID {
		address += "/" + database
	}

	var release struct{ RulesetName string }
	err = s.Call(ctx, RulesAPI, http.MethodGet, address, "", &release)
	return release.RulesetName, err
}

// Rules returns the text of the security rules that are in force for a database, all files of it.
// NotFound tells of the error if there are none.
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
