//go:build linux

package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"golang.org/x/sync/errgroup"
)

// BenchmarkSchedule is what the process that is deployed needs for one call of RollUpOnSchedule,
// its start included: processor time, the user's and the system's, and the most memory. The call
// keeps counters of 10 shards for half a minute, each of which is incremented once a second; or it
// audits 2,000 counters of 2 shards that have no roll-up, and then the same that have.
func BenchmarkSchedule(b *testing.B) {
	binary := build(b, "deployed")
	const route = "TALLY_ROUTES=counters/{counter}/shards/{shard} -> rollups/{counter} : count"
	for _, n := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("every=1s/counters=%d", n), func(b *testing.B) {
			c := newCounters(b, n, 10)
			ctx, cancel := context.WithCancel(b.Context())
			var clients errgroup.Group
			for counter := range n {
				clients.Go(func() error { return c.incrementEachSecond(ctx, counter) })
			}
			const seconds = 30
			called := c.call(b, binary, route+" : every 1s", fmt.Sprintf("TALLY_SCHEDULE_PERIOD=%ds", seconds))
			cancel()
			if err := clients.Wait(); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(called.cpu.Seconds()*1000/float64(called.Every.RolledUp), "cpu-ms/roll-up")
			b.ReportMetric(float64(called.Every.RolledUp)/seconds, "roll-ups/s")
		})
	}
	b.Run("audit", func(b *testing.B) {
		const n = 2000
		c := newCounters(b, n, 2)
		for _, rollUps := range []string{"missing", "there"} {
			b.Run(rollUps, func(b *testing.B) {
				called := c.call(b, binary, route)
				if called.Counters != n || !called.Complete {
					b.Fatalf("audited %+v, want all %d", called, n)
				}
				b.ReportMetric(called.cpu.Seconds()*1000/n, "cpu-ms/counter")
			})
		}
	})
}

// counters are a database with counters.
type counters struct {
	project string
	client  *firestore.Client
	shards  int // of each
}

func newCounters(b *testing.B, n, shards int) *counters {
	project := emulatortest.Project(b)
	c := &counters{project, emulatortest.ClientDatabase(b, project, firestore.DefaultDatabaseID), shards}
	writer := c.client.BulkWriter(b.Context())
	for counter := range n {
		for shard := range shards {
			if _, err := writer.Set(c.shard(counter, shard), map[string]any{"count": 1}); err != nil {
				b.Fatal(err)
			}
		}
	}
	writer.End()
	return c
}

func (c *counters) shard(counter, shard int) *firestore.DocumentRef {
	return c.client.Doc(fmt.Sprintf("counters/%d/shards/%d", counter, shard))
}

func (c *counters) incrementEachSecond(ctx context.Context, counter int) error {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-second.C:
		}
		_, err := c.shard(counter, n%c.shards).Update(ctx, []firestore.Update{{Path: "count", Value: firestore.Increment(1)}})
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// A called is a call of RollUpOnSchedule: what it answered of the database, and what its process
// used.
type called struct {
	Counters int
	Complete bool
	Every    struct {
		RolledUp int `json:"rolled_up"`
	}
	cpu time.Duration
}

// call calls RollUpOnSchedule of a process of its own.
func (c *counters) call(b *testing.B, binary string, env ...string) called {
	env = append(env, "FUNCTION_TARGET=RollUpOnSchedule", "CLOUD_RUN_TIMEOUT_SECONDS=660", "GOOGLE_CLOUD_PROJECT="+c.project)
	address, process, stop := start(b.Context(), b, binary, env...)
	defer stop()
	res, err := http.Post(address, "", nil)
	if err != nil {
		b.Fatal(err)
	}
	defer res.Body.Close()
	var answer struct{ Databases map[string]called }
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil || res.StatusCode != http.StatusOK {
		b.Fatalf("status %s: %v", res.Status, err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", process.Process.Pid))
	if err != nil {
		b.Fatal(err)
	}
	_, most, _ := strings.Cut(string(status), "VmHWM:") // the most memory, in kB
	var memory float64
	if _, err := fmt.Sscan(most, &memory); err != nil {
		b.Fatal(err)
	}
	stop()
	used := answer.Databases["(default)"]
	used.cpu = process.ProcessState.UserTime() + process.ProcessState.SystemTime()
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(used.cpu.Seconds(), "cpu-s")
	b.ReportMetric(memory/1024, "MiB")
	return used
}
