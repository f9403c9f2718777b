package tally

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/firestore-tally/tally/clients/snippets/likes"
	"github.com/firestore-tally/tally/internal/emulator/emulatortest"
	"github.com/firestore-tally/tally/internal/eventrelay"
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
	if diff := cmp.Diff(page(t, "clients/snippets/likes/likes.go"), blocks[0][1]); diff != "" {
		t.Errorf("Go in docs/clients.md (-clients/snippets/likes/likes.go +page):\n%s", diff)
	}

	for i, l := range layouts {
		if l.sample != "Go" {
			continue
		}
		pattern, _, _ := strings.Cut(l.route, " ->")
		w := newWorld(t, emulatortest.Project(t), "(default)", layoutFunction(i), eventrelay.Faults{}, pattern)
		ctx, cancel := context.WithTimeout(t.Context(), eventually)
		defer cancel()
		counter := likes.Counter(w.client)
		const increments = 7
		for range increments {
			if err := likes.Increment(ctx, counter); err != nil {
				t.Fatal(err)
			}
		}
		w.written(likes.Vote(ctx, w.client, "votes", "ann", true))
		w.written(likes.Vote(ctx, w.client, "votes", "bob", true))
		w.written(likes.Vote(ctx, w.client, "votes", "bob", true))
		w.written(likes.Vote(ctx, w.client, "votes", "ann", false))
		w.wantRollUp("rollups/votes", map[string]any{"Count": int64(1), "num_shards": int64(2)})

		var total int64
		err := likes.Watch(ctx, w.client.Doc("rollups/visits"), "Count", func(now int64) {
			total = now
			if total == increments {
				cancel()
			}
		})
		if total != increments {
			t.Errorf("the snippet shows %d at last, want %d: %v", total, increments, err)
		}
	}
}

func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
