package apps

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/GoogleCloudPlatform/functions-framework-go/functions"
	"github.com/firestore-tally/tally/internal/cloud/billing"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/rollup"
	"golang.org/x/time/rate"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Routes that say "every" have no trigger. The schedule keeps them.

// everyPeriod is the period of the schedule here: as short as a route of every 10s lets it be.
const everyPeriod = 12 * time.Second

const everyRoutes = `
	hot/{c}/shards/{s} -> hot_rollups/{c} : count : every 1s
	warm/{c}/shards/{s} -> warm_rollups/{c} : count : every 10s`

const everyTick = "EveryTick"

func registerEvery() {
	functions.HTTP(everyTick, newProcesses("TALLY_ROUTES="+everyRoutes, "TALLY_SCHEDULE_PERIOD="+everyPeriod.String()).OnSchedule)
}

// A tickReport is what RollUpOnSchedule answers of a database.
type tickReport struct {
	rollup.Report
	Every  *rollup.KeepReport
	Billed billing.Counts
}

// tick calls a schedule and returns its report of the default database.
func tick(ctx context.Context, function, project, query string) (tickReport, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, at(function, project)+query, nil)
	if err != nil {
		return tickReport{}, err
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return tickReport{}, err
	}
	defer res.Body.Close()
	var report struct {
		Databases map[string]tickReport
		Errors    []string
	}
	if err := json.NewDecoder(res.Body).Decode(&report); err != nil {
		return tickReport{}, err
	}
	got := report.Databases["(default)"]
	if res.StatusCode != http.StatusOK {
		return tickReport{}, fmt.Errorf("status %s: %q, audited %+v, kept %+v", res.Status, report.Errors, got.Report, got.Every)
	}
	return got, nil
}

// tally returns what a roll-up says; zero if there is none.
func (w *database) tally(path string) (count int64, tally document.Tally) {
	w.t.Helper()
	doc, err := w.client.Doc(path).Get(w.t.Context())
	if err != nil && status.Code(err) != codes.NotFound {
		w.t.Fatal(err)
	}
	count, _ = doc.Data()["count"].(int64)
	return count, document.DecodeTally(doc.Data()[document.TallyField])
}

// awaitAsOf waits until a roll-up is as of t or later.
func (w *database) awaitAsOf(ctx context.Context, path string, t time.Time) document.Tally {
	w.t.Helper()
	again := time.NewTicker(askAgain)
	defer again.Stop()
	for ; ; <-again.C {
		if _, tally := w.tally(path); !tally.AsOf.IsZero() && !tally.AsOf.Before(t) {
			return tally
		}
		if ctx.Err() != nil {
			w.t.Fatalf("%s is not as of %v or later: %v", path, t, context.Cause(ctx))
		}
	}
}

// load increments a counter for that long, and counts the increments.
func (w *database) load(ctx context.Context, counter string, shards int, perSecond rate.Limit, during time.Duration, increments *atomic.Int64) {
	w.t.Helper()
	limiter := rate.NewLimiter(perSecond, 1)
	var clients sync.WaitGroup
	var mu sync.Mutex
	began := time.Now()
	for range 16 {
		clients.Go(func() {
			for time.Since(began) < during && limiter.Wait(ctx) == nil {
				shard := w.client.Doc(fmt.Sprintf("%s/shards/%d", counter, rand.IntN(shards)))
				result, err := shard.Set(ctx, map[string]any{"count": firestore.Increment(1)}, firestore.MergeAll)
				if err != nil {
					w.t.Error(err)
					return
				}
				increments.Add(1)
				mu.Lock()
				if result.UpdateTime.After(w.last) {
					w.last = result.UpdateTime
				}
				mu.Unlock()
			}
		})
	}
	clients.Wait()
	w.t.Logf("%s: %.0f increments/s", counter, float64(increments.Load())/time.Since(began).Seconds())
}

// TestEvery keeps counters by one tick: one with 300 increments a second, rolled up every second,
// and one every ten; one of which a client adds 1 and another takes 1 away; one whose shards are
// deleted. Then ticks overlap, and one is cut off.
func TestEvery(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	project := emulatortest.Project(t)
	w := &database{t: t, client: emulatortest.ClientDatabase(t, project, "(default)")}
	const shards, perSecond, during = 10, 300, 4 * time.Second
	var hot, warm atomic.Int64 // increments
	for i := range shards {
		w.set(fmt.Sprintf("hot/c/shards/%d", i), map[string]any{"count": 0})
		w.set(fmt.Sprintf("warm/c/shards/%d", i), map[string]any{"count": 0})
	}
	w.set("hot/level/shards/0", map[string]any{"count": 5})
	w.set("hot/level/shards/1", map[string]any{"count": 5})
	w.set("hot/gone/shards/0", map[string]any{"count": 9})
	// Roll-ups of a tick that is cut off: its caller goes away when the first of them is there. On a
	// busy machine that may be another tick than the first.
	cut, cutOff := context.WithCancel(ctx)
	var ticks sync.WaitGroup
	ticks.Go(func() {
		for cut.Err() == nil {
			began := time.Now()
			_, err := tick(cut, everyTick, project, "")
			if took := time.Since(began); cut.Err() == nil && took < everyPeriod {
				t.Errorf("the tick ended after %v, before it was cut off: %v", took, err)
				cancel() // nothing else makes ticks, which the rest waits for
			}
		}
	})
	w.awaitAsOf(ctx, "hot_rollups/level", time.Unix(0, 1))
	w.awaitAsOf(ctx, "hot_rollups/gone", time.Unix(0, 1))
	cutOff()
	ticks.Wait()

	level := func(shard, amount int) {
		w.written(w.client.Doc(fmt.Sprintf("hot/level/shards/%d", shard)).Set(ctx, map[string]any{"count": firestore.Increment(amount)}, firestore.MergeAll))
	}
	level(0, 1)
	level(1, -1)
	leveled := w.last
	w.delete("hot/gone/shards/0")
	deleted := w.last

	// One tick is enough, except on a busy machine.
	keeping, kept := context.WithCancel(ctx)
	var reports []tickReport
	ticks.Go(func() {
		for len(reports) == 0 || keeping.Err() == nil {
			report, err := tick(ctx, everyTick, project, "")
			if err != nil {
				t.Error(err)
				cancel() // nothing else makes ticks, which the rest waits for
				return
			}
			reports = append(reports, report)
		}
	})
	w.load(ctx, "hot/c", shards, perSecond, during, &hot)
	w.awaitAsOf(ctx, "hot_rollups/c", w.last)
	if got, _ := w.tally("hot_rollups/c"); got != hot.Load() {
		t.Errorf("every 1s: %d, want %d", got, hot.Load())
	}
	w.load(ctx, "warm/c", shards, perSecond, during, &warm)
	w.awaitAsOf(ctx, "warm_rollups/c", w.last)
	w.awaitAsOf(ctx, "hot_rollups/level", leveled)
	w.awaitAsOf(ctx, "hot_rollups/gone", deleted)
	kept()
	ticks.Wait()
	if got, _ := w.tally("warm_rollups/c"); got != warm.Load() {
		t.Errorf("every 10s: %d, want %d", got, warm.Load())
	}
	if got, _ := w.tally("hot_rollups/level"); got != 10 {
		t.Errorf("a +1 and a -1: %d, want 10", got)
	}
	if got, tally := w.tally("hot_rollups/gone"); got != 0 || tally.NumShards != 0 {
		t.Errorf("sources deleted: %d of %d shards, want zeros", got, tally.NumShards)
	}

	// hot/c at most once a second and warm/c once in ten; level and gone once each; the cursor.
	const mostWrites = int64(everyPeriod/time.Second) + 1 + 2 + 2 + 1 + 3
	rolledUp := 0
	for _, report := range reports {
		if report.Billed.Writes > mostWrites {
			t.Errorf("the tick was billed %+v, want at most %d writes", report.Billed, mostWrites)
		}
		// A busy machine may have no time for some.
		e := report.Every
		if e == nil || e.Counters > 4 || e.Failed != 0 || int64(e.RolledUp) > report.Billed.Writes {
			t.Fatalf("the tick reported %+v and was billed %+v", e, report.Billed)
		}
		rolledUp += e.RolledUp
		t.Logf("a tick of %v was billed %+v, $%.2f a day at that pace", everyPeriod, report.Billed, report.Billed.Cost()*86400/everyPeriod.Seconds())
	}
	if rolledUp < 2 {
		t.Errorf("the ticks reported %d roll-ups, want at least those of hot/c and warm/c", rolledUp)
	}
	t.Logf("%d increments; no event", hot.Load()+warm.Load())

	// Ticks that overlap do not exceed the pace, nor disturb each other.
	_, before := w.tally("hot_rollups/c")
	overlapping, enough := context.WithCancel(ctx)
	for range 3 {
		ticks.Go(func() {
			for overlapping.Err() == nil {
				_, err := tick(ctx, everyTick, project, "")
				if err != nil && isExcused(err.Error()) {
					continue
				}
				if err != nil {
					t.Error(err)
					cancel() // nothing else makes ticks, which the rest waits for
					return
				}
			}
		})
	}
	seen := []time.Time{before.AsOf}
	for range 5 {
		w.written(w.client.Doc("hot/c/shards/0").Set(ctx, map[string]any{"count": firestore.Increment(1)}, firestore.MergeAll))
		hot.Add(1)
		seen = append(seen, w.awaitAsOf(ctx, "hot_rollups/c", w.last).AsOf)
	}
	enough()
	for i, asOf := range slices.Compact(seen)[1:] {
		if apart := asOf.Sub(slices.Compact(seen)[i]); apart < time.Second {
			t.Errorf("overlapping ticks rolled up %v apart", apart)
		}
	}
	if got, _ := w.tally("hot_rollups/c"); got != hot.Load() {
		t.Errorf("overlapping ticks: %d, want %d", got, hot.Load())
	}
	ticks.Wait()
	dry, err := tick(ctx, everyTick, project, "&dry_run=true")
	if err != nil || dry.Differing != 0 || dry.Counters != 4 {
		t.Errorf("in the end %d of %d counters differ: %v", dry.Differing, dry.Counters, err)
	}
}

// isExcused reports whether a tick's error is no fault of the tick. A busy machine may give it too
// little time for a call of Firestore, or just too little to try again after another tick or a
// function of the other routes wrote the same roll-up. The next call goes on.
func isExcused(text string) bool {
	return slices.ContainsFunc([]string{context.DeadlineExceeded.Error(), codes.DeadlineExceeded.String(), rollup.ErrConflict.Error()}, func(reason string) bool {
		return strings.Contains(text, reason)
	})
}
