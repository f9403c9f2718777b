// The simulation runs the engine on many instances under the faults of a cloud, in virtual time,
// and compares it with the truth. All of it is in the files sim_*_test.go:
//
//	sim_test.go                       begins, makes a failing run smaller, and replays histories
//	sim_choices_test.go               what chance decides, from a seed
//	sim_run_test.go                   a run: events, their deliveries, instances that come and go
//	sim_instance_test.go, sim_calls   an instance, and the faults of its calls
//	sim_check_test.go                 what must hold, always and at the end
//	sim_alarms_test.go                alarms: the queue that makes them ring, and what it may do wrong
//	sim_documents, _groups, _days,    what only some runs have: documents of the app's own, groups,
//	_keep, _unkept                    days of shops that come and go,
//	                                  routes that say "every", counters that are unkept
//	sim_crowd_test.go                 a run without faults, held to its budgets
//
// It is no package of its own, because it asks a Coalescer what it remembers, which only tests of
// this package can.

package rollup_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

var (
	simulationSeeds  = flag.Uint64("sim.seeds", 1000, "how many seeds TestSimulation runs; a tenth of them under -short")
	simulationSeed   = flag.Uint64("sim.seed", 1, "the first seed that TestSimulation runs")
	simulationShrink = flag.Int("sim.shrink", 1000, "how many runs to spend on making a failing one smaller")
	simulationCount  = flag.Bool("sim.count", false, "have TestSimulation print how many seeds break the engine's word, and how many acknowledged events they lose, instead of failing")
	simulationUpdate = flag.Bool("sim.update", false, "rewrite the histories in testdata/simulation")
)

// TestSimulation runs the engine under random faults. A seed that breaks its word is made as small
// as may be and printed as a txtar archive. Saved in testdata/simulation, it is replayed by
// TestReplay.
func TestSimulation(t *testing.T) {
	const together = 100
	seeds := *simulationSeeds
	if testing.Short() {
		seeds = max(1, seeds/10)
	}

	var broken, lost atomic.Int64
	if *simulationCount {
		t.Cleanup(func() {
			fmt.Printf("%d seeds: %d break the engine's word, %d acknowledged events are lost\n", seeds, broken.Load(), lost.Load())
		})
	}
	for first := uint64(0); first < seeds; first += together {
		t.Run(fmt.Sprint("from ", *simulationSeed+first), func(t *testing.T) {
			t.Parallel()
			var sum outcome
			for n := range min(together, seeds-first) {
				seed := *simulationSeed + first + n
				c := drawnFrom(seed)
				o := simulate(t, c, false).outcome
				switch {
				case o.broken == nil:
				case *simulationCount:
					broken.Add(1)
					lost.Add(int64(o.lost))
				default:
					c = c.shrink(*simulationShrink, func(c *choices) bool { return simulate(t, c, false).outcome.broken != nil })
					s := simulate(t, c, true)
					t.Fatalf("seed %d: %s\n%s", seed, o.broken[0], txtar.Format(s.archive(fmt.Sprintf("%s\n(seed %d)\n", o.broken[0], seed))))
				}
				sum.add(o)
			}
			t.Logf("%d events, %d roll-ups, %d of them in a lock, %d writes refused, %d crashes, %d counters left to an audit",
				sum.events, sum.rollUps, sum.locked, sum.refused, sum.crashes, sum.repaired)
		})
	}
}

// TestReplay replays the runs in testdata/simulation, and wants their histories to be as told
// there.
func TestReplay(t *testing.T) {
	files, err := filepath.Glob("testdata/simulation/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no histories found: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text := make(map[string]string)
			for _, f := range archive.Files {
				text[f.Name] = string(f.Data)
			}
			c, err := parseChoices(text["choices"])
			if err != nil {
				t.Fatal(err)
			}
			s := simulate(t, c, true)
			for _, broken := range s.outcome.broken {
				t.Error(broken)
			}
			if *simulationUpdate {
				if err := os.WriteFile(file, txtar.Format(s.archive(string(archive.Comment))), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if d := cmp.Diff(strings.Split(text["history"], "\n"), strings.Split(s.story(), "\n")); d != "" {
				t.Errorf("the history is another (-want +got); -sim.update rewrites it:\n%s", d)
			}
		})
	}
}

// archive returns the run's choices and history.
func (s *simulation) archive(comment string) *txtar.Archive {
	return &txtar.Archive{Comment: []byte(comment), Files: []txtar.File{
		{Name: "choices", Data: []byte(s.text())}, {Name: "history", Data: []byte(s.story())},
	}}
}

// What a seed draws and what its choices say are the same run.
func TestReplaysAreTheSame(t *testing.T) {
	for seed := range uint64(20) {
		drawn := drawnFrom(seed)
		first := simulate(t, drawn, true).story()
		made, err := parseChoices(drawn.text())
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(strings.Split(first, "\n"), strings.Split(simulate(t, made, true).story(), "\n")); d != "" {
			t.Errorf("seed %d (-drawn +made):\n%s", seed, d)
		}
	}
}
