package trial

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firestore-tally/tally/internal/cloud/config"
	"github.com/firestore-tally/tally/internal/tool/deploy"
	"github.com/firestore-tally/tally/internal/tool/load"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/firestore-tally/tally/shards"
	"github.com/google/go-cmp/cmp"
)

const (
	likes    = "posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing"
	defaults = "counters/{counter}/shards/{shard} -> rollups/{counter} : count"
)

// of returns a deployment with the routes, of which nothing was read.
func of(t *testing.T, routes ...string) *Deployment {
	t.Helper()
	parsed, err := route.Parse(strings.Join(routes, ";"))
	if err != nil {
		t.Fatal(err)
	}
	return &Deployment{Project: "my-project", Database: deploy.Database{ID: "(default)", Location: "nam5"},
		Config: config.Config{Routes: parsed}}
}

// A trial takes the first route of each kind that lets it have a counter of its own, one with
// events before one that the schedule keeps.
func TestParts(t *testing.T) {
	for _, test := range []struct {
		routes  []string
		parts   []string // roll-up, total, collection; ID stands for the trial's id
		skipped []string
		problem string // a part of the error
	}{
		{[]string{defaults, likes}, []string{"rollups/ID count counters/ID/shards", "posts/ID likes posts/ID/likes"}, nil, ""},
		{[]string{defaults}, []string{"rollups/ID count counters/ID/shards"}, []string{"likes"}, ""},
		{[]string{likes}, []string{"posts/ID likes posts/ID/likes"}, []string{"counter"}, ""},
		{
			[]string{"pages/{page}/shards/{shard} -> page_totals/{page} : views : every 10s", defaults},
			[]string{"rollups/ID count counters/ID/shards"}, []string{"likes"}, "",
		},
		{
			[]string{"pages/{page}/shards/{shard} -> page_totals/{page} : views : every 10s"},
			[]string{"page_totals/ID views pages/ID/shards"}, []string{"likes"}, "",
		},
		{
			[]string{"users/{u}/posts/{p}/likes/{x} -> users/{u}/posts/{p} : sum(stars) as stars, count() as likes : existing"},
			[]string{"users/ID/posts/ID likes users/ID/posts/ID/likes"}, []string{"counter"}, "",
		},
		{
			[]string{"orders/{order} by shop -> shops/{shop} : count() as orders : existing", "shards/{n} -> totals/all : count"},
			nil, nil, "such as\n  " + defaults + "\n  " + likes,
		},
	} {
		made, err := New(of(t, test.routes...), Options{})
		if test.problem != "" {
			if err == nil || !strings.Contains(err.Error(), test.problem) {
				t.Errorf("%s: %v, want an error with %q", test.routes, err, test.problem)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", test.routes, err)
			continue
		}

		var parts, skipped []string
		for _, p := range made.parts {
			parts = append(parts, strings.ReplaceAll(fmt.Sprint(p.counter.RollUp, " ", p.total, " ", p.collection), made.ID, "ID"))
		}
		for _, s := range made.skipped {
			skipped = append(skipped, s.kind)
		}
		if d := cmp.Diff(test.parts, parts); d != "" {
			t.Errorf("%s: parts (-want +got):\n%s", test.routes, d)
		}
		if d := cmp.Diff(test.skipped, skipped); d != "" {
			t.Errorf("%s: skipped (-want +got):\n%s", test.routes, d)
		}
	}
}

// No two trials have the same id, and no user's own id is that long.
func TestIDs(t *testing.T) {
	ids := make(map[string]bool)
	for range 100 {
		made, err := New(of(t, defaults), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if ids[made.ID] || !strings.HasPrefix(made.ID, "tally-demo-") || len(made.ID) < len("tally-demo-")+8 {
			t.Fatalf("id %q after %v", made.ID, ids)
		}
		ids[made.ID] = true
	}
}

// What is said before the question.
func TestString(t *testing.T) {
	made, err := New(of(t, defaults), Options{Load: load.Load{Increments: 150, Rate: 5}, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	want := `In project my-project, database (default) in nam5, the demo
  writes documents of counters/ID/shards, and listens to count of rollups/ID
  skips likes: no deployed route is like ` + likes + `
Triggers of the app's own on these collections see the documents, too.
It makes 150 writes, 5 a second, and waits for their roll-ups, right after a deployment for up to ten minutes more. 1,000 writes cost a few cents.
The demo deletes all that it made.
`
	if d := cmp.Diff(want, strings.ReplaceAll(made.String(), made.ID, "ID")); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// What is left is deleted by a command for each of the trial's ids, whatever is below.
func TestDelete(t *testing.T) {
	made := &Trial{Deployment: of(t, defaults), ID: "tally-demo-x"}
	commands := made.Delete([]string{"counters/tally-demo-x/shards/0", "counters/tally-demo-x/shards/1", "rollups/tally-demo-x",
		"counters/tally-demo-x-space /shards/0 ", "users/tally-demo-x/posts/tally-demo-x/likes/tally-demo-3"})
	want := []string{
		"firebase firestore:delete --recursive --force --project=my-project --database='(default)' counters/tally-demo-x",
		"firebase firestore:delete --recursive --force --project=my-project --database='(default)' rollups/tally-demo-x",
		"firebase firestore:delete --recursive --force --project=my-project --database='(default)' 'counters/tally-demo-x-space '",
		"firebase firestore:delete --recursive --force --project=my-project --database='(default)' users/tally-demo-x",
	}
	if d := cmp.Diff(want, commands); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// The traces are each document once, and the roll-ups of all routes that have a part's documents.
func TestTraces(t *testing.T) {
	d := of(t, likes, "posts/{p}/likes/{x} -> like_stats/{p} : count() as all", defaults)
	made, err := New(d, Options{Shards: 2})
	if err != nil {
		t.Fatal(err)
	}
	r := &run{Trial: made, begun: slices.Concat(made.parts, made.parts)}
	r.begun[0].shards = new(shards.Counter)
	r.begun[1].documents.Store(2)
	want := []string{
		"counters/ID/shards/0", "counters/ID/shards/1", "posts/ID", "posts/ID/likes/tally-demo-1", "posts/ID/likes/tally-demo-2",
		"rollups/ID", "like_stats/ID",
	}
	got := strings.Join(slices.Concat(r.written(), rollUpsOf(d.Config.Routes, r.begun)), "\n")
	if d := cmp.Diff(want, strings.Split(strings.ReplaceAll(got, made.ID, "ID"), "\n")); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// The first roll-up is waited for as long as the limit is. Meanwhile the demo writes again and
// again.
func TestRouse(t *testing.T) {
	d := of(t, defaults)
	d.Config.Cadence = time.Second
	made, err := New(d, Options{Timeout: 10 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		began, writes := time.Now(), 0
		err := (&run{Trial: made}).wakeFunctions(t.Context(), made.parts[0], func(context.Context) error {
			writes++
			return nil
		})
		if waited := time.Since(began); waited != 10*time.Minute+time.Second || !errors.Is(err, ErrSilent) {
			t.Errorf("it waited for %v: %v", waited, err)
		}
		if writes != 10 {
			t.Errorf("it wrote %d times, want 10", writes)
		}
	})
}
