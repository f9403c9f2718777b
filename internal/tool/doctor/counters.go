package doctor

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/firestore-tally/tally/internal/tool/deploy"
)

// mostNamed is how many counters of a collection a problem names.
const mostNamed = 3

// oncePerUser finds counters in which earlier versions of Tally counted one vote for each user.
func (e *examination) oncePerUser(ctx context.Context) {
	for _, d := range e.wanted.Databases {
		for _, collection := range e.counters() {
			paths, err := e.votes(ctx, d.ID, collection)
			if err != nil {
				e.unknown(e.Project.Unreadable("firestore", "the counters of database "+d.ID, err))
				continue
			}
			for _, path := range paths {
				remedy := deploy.Command("tally", "delete", path, "--database="+d.ID, "--project="+e.Project.ID)
				e.wrong(remedy, "%s of database %s says once_per_user: true. Count its votes by documents, as docs/recipes.md#votes-for-what-has-no-document does, and delete it", path, d.ID)
			}
		}
	}
}

// counters returns the collections at the top of a database that hold counters' documents. Only
// there Firestore finds a field's value by an index that it makes by itself.
func (e *examination) counters() []string {
	var collections []string
	for _, r := range e.config.Routes {
		pattern := r.Pattern()
		if r.HasShards() && len(pattern) == 4 && !slices.Contains(collections, pattern[0].Name) {
			collections = append(collections, pattern[0].Name)
		}
	}
	return collections
}

// votes returns the paths of counters of a collection that are once per user, up to mostNamed. It
// costs a read for each, and at least one.
func (e *examination) votes(ctx context.Context, database, collection string) ([]string, error) {
	documents := "projects/" + e.Project.ID + "/databases/" + database + "/documents"
	query := object{
		"from": []object{{"collectionId": collection}},
		"where": object{"fieldFilter": object{
			"field": object{"fieldPath": "once_per_user"}, "op": "EQUAL", "value": object{"booleanValue": true},
		}},
		"select": object{"fields": []object{{"fieldPath": "__name__"}}},
		"limit":  mostNamed,
	}
	var found []struct{ Document struct{ Name string } }
	err := e.Project.Call(ctx, http.MethodPost, "firestore.googleapis.com/v1/"+documents+":runQuery", object{"structuredQuery": query}, &found)
	if err != nil {
		return nil, err
	}

	var paths []string
	for _, f := range found {
		if f.Document.Name != "" { // an answer without a document tells the time of the read
			paths = append(paths, strings.TrimPrefix(f.Document.Name, documents+"/"))
		}
	}
	return paths, nil
}
