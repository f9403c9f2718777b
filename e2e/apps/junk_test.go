package apps

import (
	"flag"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/GoogleCloudPlatform/functions-framework-go/functions"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/rollup/route"
)

var junkCounters = flag.Int("junk", 0, "how many counters somebody makes up in TestEveryAmongJunk; 0: it is left out")

const junkTick = "JunkTick"

// junkPeriod is the period of the schedule there.
const junkPeriod = 20 * time.Second

func registerJunk() {
	functions.HTTP(junkTick, newProcesses("TALLY_ROUTES="+route.Default+" : every 1s", "TALLY_SCHEDULE_PERIOD="+junkPeriod.String()).OnSchedule)
}

// TestEveryAmongJunk keeps a counter that is incremented all the time, while somebody who is signed
// in has made up thousands of counters, through the rules that apps deploy, and increments them.
//
//	go test ./e2e/apps -run TestEveryAmongJunk -v -junk=6000
func TestEveryAmongJunk(t *testing.T) {
	if *junkCounters == 0 {
		t.Skip("it needs a quiet machine for a minute, so it runs at night; see -junk. TestTickIsFair of rollup is quick")
	}
	t.Parallel()
	ctx := t.Context()
	project := emulatortest.Project(t)
	client := emulatortest.ClientDatabase(t, project, "(default)")
	setRules(t, project, page(t, "firestore.rules"))
	w := &database{t: t, client: client}
	hot := client.Doc("counters/m/shards/0")
	w.written(hot.Set(ctx, map[string]any{"count": 1}))
	done := make(chan struct{})
	var clients sync.WaitGroup
	clients.Go(func() {
		again := time.NewTicker(200 * time.Millisecond)
		defer again.Stop()
		for {
			select {
			case <-done:
				return
			case <-again.C:
			}
			if _, err := hot.Update(ctx, []firestore.Update{{Path: "count", Value: firestore.Increment(1)}}); err != nil {
				t.Error(err)
				return
			}
		}
	})
	if _, err := tick(ctx, junkTick, project, ""); err != nil { // it is known when the junk comes
		t.Fatal(err)
	}

	documents := "projects/" + project + "/databases/(default)/documents"
	makeUp := func(n int) error {
		path := fmt.Sprintf("%s/counters/%s/shards/0", documents, junkName(n))
		body := `{"writes": [` + incrementBody(path, [2]string{"count", `"integerValue": 1`}) + `]}`
		if code, answer := requestAs(t, project, "mallory", http.MethodPost, documents+":commit", body); code != http.StatusOK {
			return fmt.Errorf("status %d: %s", code, answer)
		}
		return nil
	}
	began := time.Now()
	var writers sync.WaitGroup
	for writer := range 16 {
		writers.Go(func() {
			for n := writer; n < *junkCounters; n += 16 {
				if err := makeUp(n); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
	t.Logf("%d counters were made up in %v", *junkCounters, time.Since(began).Round(time.Second))

	// Earlier ticks have rolled most of them up.
	bulk := client.BulkWriter(ctx)
	old := tallyOf(t, route.Default+" : every 1s", "rollups/m", time.Now().Add(-time.Minute))
	for n := range *junkCounters {
		if n%3 == 0 {
			continue
		}
		if _, err := bulk.Set(client.Doc("rollups/"+junkName(n)), map[string]any{"count": 1, document.TallyField: old}); err != nil {
			t.Fatal(err)
		}
	}
	bulk.End()

	// Some are changed again as time goes on.
	var first, greatest, slowest time.Duration
	began = time.Now()
	clients.Go(func() {
		again := time.NewTicker(200 * time.Millisecond)
		defer again.Stop()
		for n := 0; ; n++ {
			select {
			case <-done:
				return
			case <-again.C:
			}
			asked := time.Now()
			if err := makeUp(n % *junkCounters); err != nil {
				t.Error(err)
				return
			}
			_, tally := w.tally("rollups/m")
			slowest = max(slowest, time.Since(asked)/2)
			switch {
			case tally.AsOf.After(began):
				greatest = max(greatest, time.Since(tally.AsOf)) // the emulator has the same clock
			default:
				first = time.Since(began)
			}
		}
	})
	for range 2 {
		report, err := tick(ctx, junkTick, project, "")
		if err != nil {
			t.Error(err)
		}
		t.Logf("a tick of %v kept %+v, and was billed %+v", junkPeriod, report.Every, report.Billed)
	}
	close(done)
	clients.Wait()

	t.Logf("the counter was rolled up after %v, and its roll-up was at most %v old then; a request took at most %v", first.Round(time.Millisecond), greatest.Round(time.Millisecond), slowest.Round(time.Millisecond))
	// Alone it is 1.2 s old. The machine is busy with the other tests, and a roll-up is some five
	// requests one after the other.
	most := max(15*time.Second, 10*slowest)
	if first > most || greatest > most {
		t.Errorf("the counter was rolled up after %v, and its roll-up was %v old then; want at most %v", first, greatest, most)
	}
}

// junkName is the name of a counter that somebody makes up: half of them come before the other's
// own, half behind.
func junkName(n int) string { return fmt.Sprintf("%s-%05d", []string{"a", "z"}[n%2], n) }
