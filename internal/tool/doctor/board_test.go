package doctor

import (
	"fmt"
	"testing"

	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
)

// A board goes by the week or the month, and by a total that is a number. Another template of the
// same collection id would be on it.
func TestBoards(t *testing.T) {
	const (
		weeks  = "logs/{log} by user, week(at, \"Asia/Tokyo\") -> users/{user}/weeks/{week} : count() as logs, sum(points) as points, latest(at) as last : within users/{user}"
		months = "logs/{log} by user, month(at) as `a month` -> users/{user}/months/{`a month`} : sum(points) as points : within users/{user}"
	)
	best := func(collection, label, total string) string {
		return fmt.Sprintf(`  {"collectionGroup":%q,"queryScope":"COLLECTION_GROUP","fields":[{"fieldPath":%q,"order":"ASCENDING"},{"fieldPath":%q,"order":"DESCENDING"}]}`, collection, label, total)
	}
	for text, want := range map[string][]string{
		weeks:                 {best("weeks", "week", "logs"), best("weeks", "week", "points")},
		weeks + "\n" + months: {best("weeks", "week", "logs"), best("weeks", "week", "points"), best("months", "`a month`", "points")},
		weeks + "\nlogs/{log} by team, week(at) -> teams/{team}/weeks/{week} : sum(points) as points : within teams/{team}": nil,
		weeks + "\nx/{x}/y/{y} -> x/{x}/weeks/all : count() as n":                                                           nil,
		"logs/{log} by user, day(at) -> users/{user}/days/{day} : sum(points) as points : within users/{user}":              nil,
		"logs/{log} by user, week(at) -> users/{user}/weeks/{week} : sum(points) as points : existing":                      nil,
		"logs/{log} by week(at) -> weeks/{week} : sum(points) as points : within":                                           nil,
	} {
		routes, err := route.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, Boards(routes)); d != "" {
			t.Errorf("%s (-want +got):\n%s", text, d)
		}
	}
}
