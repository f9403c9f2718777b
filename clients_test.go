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
	"github.com/firestore-tally/tally/shards"
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
		go func() {
			err := likes.Create(ctx, counter)
			for range increments {
				if err == nil {
					err = likes.Increment(ctx, counter)
				}
			}
			if err != nil {
				t.Error(err)
				cancel()
			}
		}()
		var total shards.Total
		err := likes.Watch(ctx, counter, func(now shards.Total) {
			total = now
			if n, _ := now.Int64(); n == increments {
				cancel()
			}
		})
		if got, _ := total.Int64(); got != increments {
			t.Errorf("the snippet shows %v at last, want %d: %v", total, increments, err)
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
