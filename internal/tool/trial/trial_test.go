package trial

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/eventarc/apiv1/eventarcpb"
	"cloud.google.com/go/functions/apiv2/functionspb"
	"github.com/firestore-tally/tally/internal/cloud/config"
	"github.com/firestore-tally/tally/internal/test/googletest"
	"github.com/firestore-tally/tally/internal/tool/deploy"
	"github.com/firestore-tally/tally/internal/tool/load"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/timestamppb"
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
		Config: config.Config{Routes: parsed}, on: new(deploy.Project)}
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
		for _, s := range made.Skipped {
			skipped = append(skipped, s.Kind)
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

// What is said before the question: where, how long, at the price of which location.
func TestString(t *testing.T) {
	made, err := New(of(t, defaults), Options{Load: load.Load{Increments: 150, Rate: 5}, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	want := `In project my-project, database (default) in nam5, the demo
  writes documents of counters/ID/shards, and listens to count of rollups/ID
  skips likes: no deployed route is like ` + likes + `
Triggers of the app's own on these collections see the documents, too.
150 writes at 5 a second take about 50s. The demo deletes all that it made.
By list price in nam5 it costs at most $0.0032.
`
	if d := cmp.Diff(want, strings.ReplaceAll(made.String(), made.ID, "ID")); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}

	made.Database.Location = "asia-east1"
	unknown := "\nBy list price in us-central1 it costs at most $0.0023, and up to twice as much in asia-east1.\n"
	if !strings.HasSuffix(made.String(), unknown) {
		t.Errorf("got %s\nwant at the end %s", made, unknown)
	}
}

// The price is an upper bound that grows with the writes, the queries of a roll-up and the
// location.
func TestDollars(t *testing.T) {
	price := func(increments int, location string, routes ...string) float64 {
		d := of(t, routes...)
		d.Database.Location = location
		made, err := New(d, Options{Load: load.Load{Increments: increments, Rate: 5}, Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		return made.Dollars()
	}
	const several = "counters/{counter}/shards/{shard} -> rollups/{counter} : a, b, c, d, e"
	prices := []float64{price(150, "us-central1", defaults), price(150, "nam5", defaults), price(150, "nam5", several), price(1500, "nam5", several)}
	if !slices.IsSorted(prices) || len(slices.Compact(prices)) != 4 || prices[0] <= 0 {
		t.Errorf("prices %v, want ever higher ones", prices)
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

// Each write narrows what is known of Firestore's clock.
func TestAhead(t *testing.T) {
	const ahead = 500
	p := new(part)
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
		for _, write := range []struct{ sent, committed, answered int }{{0, 40, 100}, {200, 210, 300}, {400, 490, 500}} {
			time.Sleep(time.Until(at(write.sent)))
			err := p.Add(t.Context(), func(context.Context) (time.Time, error) {
				time.Sleep(time.Until(at(write.answered)))
				return at(write.committed + ahead), nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	})
	by, doubt := (&run{begun: []*part{p}}).ahead()
	if by != 500*time.Millisecond || doubt != 10*time.Millisecond {
		t.Errorf("ahead by %v ± %v, want 500ms ± 10ms", by, doubt)
	}
}

// The traces are each document once, and the roll-ups of all routes that have a part's documents.
func TestTraces(t *testing.T) {
	d := of(t, likes, "posts/{p}/likes/{x} -> like_stats/{p} : count() as all", defaults)
	made, err := New(d, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var all traces
	for _, p := range slices.Concat(made.parts, made.parts) {
		all.note(p.collection + "/0")
	}
	written, rollUps := all.all(), rollUpsOf(d.Config.Routes, slices.Concat(made.parts, made.parts))
	want := []string{"counters/ID/shards/0", "posts/ID/likes/0", "rollups/ID", "like_stats/ID"}
	got := strings.Split(strings.ReplaceAll(strings.Join(slices.Concat(written, rollUps), "\n"), made.ID, "ID"), "\n")
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// run returns a run of a trial on what Google has.
func runOn(t *testing.T, g *googletest.Google, routes ...string) *run {
	t.Helper()
	d := of(t, routes...)
	on, err := deploy.Open(t.Context(), "my-project", g.REST()...)
	if err != nil {
		t.Fatal(err)
	}
	d.on = on
	if err := d.readTriggers(t.Context()); err != nil {
		t.Fatal(err)
	}
	made, err := New(d, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return &run{Trial: made}
}

// The first roll-up is waited for until ten minutes after the youngest trigger or function was
// made, and as long as any other if all are older. Meanwhile the demo writes again and again.
func TestPatience(t *testing.T) {
	const timeout = time.Minute
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		name              string
		trigger, function time.Duration // how old they are; 0: there is none
		want              time.Duration
		says              string // of the youngest
	}{
		{"all are new", 40 * time.Second, 3 * time.Minute, 9*time.Minute + 20*time.Second, "tally-counters-shards-78fea5 is 40s old. "},
		{"the functions are the youngest", time.Hour, 4 * time.Minute, 6 * time.Minute, "tally-on-write is 4m0s old. "},
		{"almost old", 9*time.Minute + 30*time.Second, time.Hour, timeout, "tally-counters-shards-78fea5 is 9m30s old. "},
		{"old", time.Hour, 10 * time.Minute, timeout, ""},
		{"nothing is known", 0, 0, timeout, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := googletest.Start(t, "my-project")
			g.Enable("eventarc.googleapis.com", "pubsub.googleapis.com", "cloudfunctions.googleapis.com")
			if test.trigger > 0 {
				name := "projects/my-project/locations/nam5/triggers/" + deploy.TriggerName("(default)", of(t, defaults).Config.Routes[0])
				g.Put(name, new(eventarcpb.Trigger))
				googletest.Change(g, name, func(m *eventarcpb.Trigger) {
					m.CreateTime, m.UpdateTime = timestamppb.New(now.Add(-test.trigger)), timestamppb.New(now.Add(-test.trigger))
				})
			}
			if test.function > 0 {
				const name = "projects/my-project/locations/us-central1/functions/tally-on-write"
				g.Put(name, &functionspb.Function{Labels: map[string]string{"tally": "true", "tally-function": "on-write"}})
				googletest.Change(g, name, func(m *functionspb.Function) {
					m.CreateTime, m.UpdateTime = timestamppb.New(now.Add(-time.Hour)), timestamppb.New(now.Add(-test.function))
				})
			}

			r := runOn(t, g, defaults)
			r.Timeout = timeout
			p := r.parts[0]
			if got := r.patience(p, now); got != test.want {
				t.Errorf("it waits for %v, want %v", got, test.want)
			}
			if got := r.waits(now); !strings.HasPrefix(got, test.says) || (got == "") != (test.says == "") {
				t.Errorf("it says %q, want %q", got, test.says)
			}

			synctest.Test(t, func(t *testing.T) {
				began, writes := time.Now(), 0
				write := func(context.Context) error {
					writes++
					time.Sleep(time.Millisecond)
					return nil
				}
				err := r.rouse(t.Context(), p, r.patience(p, now), write)
				if waited := time.Since(began); waited != test.want || !errors.Is(err, ErrSilent) {
					t.Errorf("it waited for %v: %v; want %v", waited, err, test.want)
				}
				if want := int(math.Ceil(test.want.Minutes())); writes != want {
					t.Errorf("it wrote %d times, want %d, once a minute", writes, want)
				}
			})
		})
	}
}
