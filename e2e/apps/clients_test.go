package apps

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"

	"cloud.google.com/go/firestore"
	"github.com/GoogleCloudPlatform/functions-framework-go/functions"
	"github.com/firestore-tally/tally/docs/test/likes"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/internal/tool/local/eventrelay"
	"github.com/google/go-cmp/cmp"
)

// docs/clients.md names, for each sample, the route that is tested with it.
func TestClientsPageRoutes(t *testing.T) {
	var got, want []string
	for _, row := range regexp.MustCompile("(?m)^\\| \\[(.+)\\]\\(#.+\\) \\| `([^`]+)` \\|").FindAllStringSubmatch(page(t, "docs/clients.md"), -1) {
		got = append(got, row[1]+": "+row[2])
	}
	for _, l := range layouts {
		want = append(want, l.sample+": "+l.route)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("routes of docs/clients.md (-tested +page):\n%s", diff)
	}
}

// The Go snippet of docs/clients.md is package likes, byte by byte, and it counts.
func TestClientsPageGo(t *testing.T) {
	t.Parallel()
	blocks := regexp.MustCompile("(?ms)^```go\n(.*?)^```").FindAllStringSubmatch(page(t, "docs/clients.md"), -1)
	if len(blocks) != 1 {
		t.Fatalf("docs/clients.md has %d Go blocks, want 1", len(blocks))
	}
	if diff := cmp.Diff(page(t, "docs/test/likes/likes.go"), blocks[0][1]); diff != "" {
		t.Errorf("Go in docs/clients.md (-docs/test/likes/likes.go +page):\n%s", diff)
	}

	if !strings.Contains(page(t, "docs/clients.md"), "`"+likesRoute+"`") {
		t.Errorf("docs/clients.md has no route %s", likesRoute)
	}
	w := newDatabase(t, emulatortest.Project(t), "(default)", snippets, eventrelay.Faults{}, defaultPattern, "posts/{post}/likes/{user}")
	counter := likes.Counter(w.client)
	const increments = 7
	for range increments {
		committed, err := likes.Increment(t.Context(), counter)
		if err != nil {
			t.Fatal(err)
		}
		w.awaitAsOf(t.Context(), "rollups/visits", committed)
	}
	sum, err := likes.Exact(t.Context(), counter)
	if got, _ := sum.Int64(); err != nil || got != increments {
		t.Errorf("Exact: %v, %v, want %d", sum, err, increments)
	}
	choices := []struct {
		uid string
		yes bool
	}{{"ann", true}, {"bob", true}, {"bob", true}, {"ann", false}, {"cid", true}}
	w.set("posts/p", map[string]any{"title": "hello"})
	for _, user := range choices {
		w.written(likes.Like(t.Context(), w.client, "p", user.uid, user.yes))
	}
	w.wantRollUp("posts/p", map[string]any{"title": "hello", "likes": int64(2), "num_shards": int64(2)})

	w.wantShown(w.client.Doc("rollups/visits"), "Count", increments)
	w.wantShown(w.client.Doc("posts/p"), "likes", 2)
}

const (
	snippets   = "Snippets"
	likesRoute = "posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing"
)

// registerSnippets registers a function with the routes of the Go snippet.
func registerSnippets() {
	routes := "TALLY_ROUTES=" + defaultPattern + " -> rollups/{counter} : Count; " + likesRoute
	functions.HTTP(snippets, newProcesses(routes, "TALLY_CADENCE=200ms").OnWrite)
}

// wantShown waits until the snippet shows the total.
func (w *database) wantShown(doc *firestore.DocumentRef, field string, want int64) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), emulatortest.Eventually())
	defer cancel()
	var last int64
	err := likes.Watch(ctx, doc, field, func(total int64) {
		last = total
		if total == want {
			cancel()
		}
	})
	if last != want {
		w.t.Errorf("%s of %s is shown as %d at last, want %d: %v", field, doc.Path, last, want, err)
	}
}

func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
