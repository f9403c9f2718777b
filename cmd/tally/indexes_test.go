package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// What tally indexes prints lacks nothing; a file without it is told, with what to do.
func TestIndexesCommand(t *testing.T) {
	t.Chdir(t.TempDir())
	const routes = "orders/{order} by shop -> shops/{shop} : sum(amount) as revenue : existing"
	call := func(args ...string) (string, int) {
		var out bytes.Buffer
		status := run(t.Context(), args, &out, &out)
		return out.String(), status
	}
	save := func(name, text string) {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	save("tally.yaml", "routes: '"+routes+"'\n")

	printed, status := call("indexes")
	want := `{
  "indexes": [
    {
      "collectionGroup": "orders",
      "queryScope": "COLLECTION",
      "fields": [
        {
          "fieldPath": "shop",
          "order": "ASCENDING"
        },
        {
          "fieldPath": "amount",
          "order": "ASCENDING"
        }
      ]
    }
  ],
  "fieldOverrides": [
    {
      "collectionGroup": "increment_tokens",
      "fieldPath": "expire_at",
      "ttl": true,
      "indexes": []
    },
    {
      "collectionGroup": "shops",
      "fieldPath": "tally",
      "indexes": []
    }
  ]
}
`
	if printed != want || status != 0 {
		t.Errorf("indexes: exit status %d\n%s", status, printed)
	}
	save("mine.json", printed)
	if said, status := call("indexes", "--check", "mine.json"); said != "mine.json has all that the routes need\n" || status != 0 {
		t.Errorf("of what was printed: exit status %d\n%s", status, said)
	}

	const board = `  {"collectionGroup":"weeks","queryScope":"COLLECTION_GROUP","fields":[{"fieldPath":"week","order":"ASCENDING"},{"fieldPath":"points","order":"DESCENDING"}]}` + "\n{\n"
	if said, status := call("indexes", "--routes", "laps/{lap} by racer, week(at) -> racers/{racer}/weeks/{week} : sum(points) as points : within racers/{racer}"); !strings.Contains(said, board) || status != 0 {
		t.Errorf("of weeks: exit status %d\n%s", status, said)
	}

	save("bare.json", `{"indexes": [], "fieldOverrides": []}`)
	for _, part := range []string{"tally: add to indexes of bare.json, or", "add to fieldOverrides of bare.json, or"} {
		if said, status := call("indexes", "--check", "bare.json"); !strings.Contains(said, part) || status != 1 {
			t.Errorf("of a bare file: exit status %d\n%s\nwant %s", status, said, part)
		}
	}
	for _, args := range [][]string{{"--check", "none.json"}, {"--routes", "orders"}, {"--config", "mine.json"}} {
		if said, status := call(append([]string{"indexes"}, args...)...); status != 1 || !strings.HasPrefix(said, "tally: ") {
			t.Errorf("indexes %s: exit status %d\n%s", strings.Join(args, " "), status, said)
		}
	}
}
