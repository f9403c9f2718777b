package billing_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firestore-tally/tally/internal/cloud/billing"
	"github.com/firestore-tally/tally/internal/test/memstore"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

var daysTable = flag.Bool("days.table", false, "print the table of totals by days")

const (
	salesInOne  = "sales/{sale} by shop -> shops/{shop} : sum(amount) as revenue : existing"
	salesByDays = `
sales/{sale} by shop, day(at) -> shops/{shop}/days/{day} : sum(amount) as revenue : existing
shops/{shop}/days/{day} -> shops/{shop} : sum(revenue) as revenue : existing`

	daysOfShop = 1000
	today      = "shops/s/days/2026-11-27"
)

// The table of docs/performance.md on a shop's sales, in one total and by days, is what the engine
// does in virtual time.
func TestDays(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	page, err := os.ReadFile("../../../docs/performance.md")
	if err != nil {
		t.Fatal(err)
	}

	for _, documents := range []int64{1e5, 1e7} {
		for _, rate := range []float64{0.1, 10, 100} {
			name := fmt.Sprintf("| %s | %v |", whole(float64(documents)), rate)
			t.Run(name, func(t *testing.T) {
				inOne := shopOf(t, salesInOne, documents, rate)
				byDays := shopOf(t, salesByDays, documents, rate)
				if *daysTable {
					fmt.Printf("%s %s | %s | %s | %s |\n", name, dollars(inOne.dollars), seconds(inOne.lag), dollars(byDays.dollars), seconds(byDays.lag))
				}
				if byDays.lag > 3*time.Second {
					t.Errorf("the total by days is %v late", byDays.lag)
				}

				row := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` \$([\d.]+) \| ([\d.]+) s \| \$([\d.]+) \| ([\d.]+) s \|$`).FindStringSubmatch(string(page))
				if row == nil {
					t.Fatalf("docs/performance.md has no row %s", name)
				}
				for i, got := range []float64{inOne.dollars, inOne.lag.Seconds(), byDays.dollars, byDays.lag.Seconds()} {
					said, err := strconv.ParseFloat(row[i+1], 64)
					if err != nil || math.Abs(got-said) > 0.1*said+0.1 {
						t.Errorf("%.3f, and docs/performance.md says %v in column %d: %v", got, said, i+3, err)
					}
				}
			})
		}
	}
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// What keeping a shop's total takes: US dollars a day, and the lag of half of the changes.
type kept struct {
	dollars float64
	lag     time.Duration
}

// shopOf has the sales of a day change at a rate, next to those of all days before.
func shopOf(t *testing.T, text string, documents int64, rate float64) (k kept) {
	synctest.Test(t, func(t *testing.T) {
		routes, err := route.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		s := &shop{levels: &levels{T: t, routes: routes}, documents: documents}
		s.Store = &s.levels.store
		for _, path := range []string{"shops/s", today} {
			s.Store.Put(path, nil)
		}
		alarms := &ringing{made: make(map[rollup.Alarm]bool)}
		s.coalescer = rollup.NewCoalescer(s, rollup.Options{Cadence: time.Second, Burst: 5, ReadsPerSecond: 50, Timeout: 4 * time.Second, LongTimeout: 45 * time.Second, Hold: 8 * time.Second, Alarms: alarms, Logger: slog.New(slog.DiscardHandler)})
		alarms.ring = func(a rollup.Alarm) {
			if _, err := s.coalescer.HandleAlarm(t.Context(), a, routes); err != nil {
				t.Error(err)
			}
		}

		cadence := max(time.Second, time.Duration(float64(documents)/1000/50*float64(time.Second)))
		// At 100 sales a second, three of the longest cadences and then ten tell as much as more do.
		s.sells(min(60_000, int(10*cadence.Seconds()*rate)+20), rate) // until the engine knows how large it is
		before, events, made := s.billed(), s.events.Load(), alarms.count()
		start := time.Now()
		s.sells(min(200_000, int(max(1000, 20*cadence.Seconds())*max(rate, 0.5))), rate)
		took := time.Since(start).Seconds()

		after := s.billed()
		each := load{increments: float64(s.events.Load()-events) / took}
		tasks := float64(alarms.count()-made) / took
		k.dollars = each.operations(float64(after.Reads-before.Reads)/took, float64(after.Writes-before.Writes)/took, 0) + each.events() + day*tasks*(2*billing.Task+billing.Request)
		time.Sleep(3*cadence + time.Minute)
		s.working.Wait()
		synctest.Wait()
		if got := s.Store.Get("shops/s")["revenue"]; got != int64(s.sold) {
			t.Errorf("the total is %v of %d", got, s.sold)
		}
		k.lag = s.lag(start)
	})
	return k
}

// A shop whose sales bring 1 more with each change, and what Firestore bills for its total.
type shop struct {
	*levels
	*memstore.Store
	documents     int64
	reads, writes atomic.Int64

	mu    sync.Mutex
	sold  int
	times []time.Time     // of the changes
	lags  []time.Duration // of those that show
}

// sells changes the sales of today so many times.
func (s *shop) sells(times int, rate float64) {
	random := rand.New(rand.NewPCG(1, uint64(times)))
	at := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	sale := func(amount int) map[string]any {
		return map[string]any{"shop": "s", "at": at, "amount": int64(amount)}
	}
	for range times {
		time.Sleep(time.Duration(random.ExpFloat64() / rate * float64(time.Second)))
		s.mu.Lock()
		s.sold++
		n := s.sold
		s.times = append(s.times, time.Now())
		s.mu.Unlock()
		s.tell("sales/x", sale(n-1), sale(n), s.Store.Put("sales/x", sale(n)))
	}
}

func (s *shop) billed() billing.Counts {
	return billing.Counts{Reads: s.reads.Load(), Writes: s.writes.Load()}
}

// lag is the lag of half of the changes since then.
func (s *shop) lag(since time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := len(s.times) - len(slices.DeleteFunc(slices.Clone(s.times), func(t time.Time) bool { return t.Before(since) }))
	lags := slices.Sorted(slices.Values(s.lags[first:]))
	return lags[len(lags)/2]
}

// View is billed a read.
func (s *shop) View(ctx context.Context, c route.Counter) (rollup.Snapshot, error) {
	s.reads.Add(1)
	time.Sleep(50 * time.Millisecond)
	v, err := s.Store.View(ctx, c)
	return shopSnapshot{v, s, c}, err
}

// Write is billed a write, and is a change for the level above.
func (s *shop) Write(ctx context.Context, c route.Counter, r rollup.RollUp) error {
	before := s.Store.Get(c.RollUp)
	err := s.Store.Write(ctx, c, r)
	if err != nil {
		return err
	}

	s.writes.Add(1)
	after := s.Store.Get(c.RollUp)
	s.tell(c.RollUp, before, after, s.Store.Now())
	if total, ok := after["revenue"].(int64); ok && c.RollUp == "shops/s" {
		s.mu.Lock()
		defer s.mu.Unlock()
		for n := len(s.lags); n < int(total); n++ {
			s.lags = append(s.lags, time.Since(s.times[n]))
		}
	}
	return nil
}

type shopSnapshot struct {
	rollup.Snapshot
	s *shop
	c route.Counter
}

// Sum is billed for as many documents as the shop says.
func (v shopSnapshot) Sum(ctx context.Context) (route.Totals, error) {
	totals, err := v.Snapshot.Sum(ctx)
	documents := v.s.documents
	switch {
	case strings.HasPrefix(v.c.RollUp, "shops/s/days/"):
		documents /= daysOfShop
	case len(v.s.routes) > 1:
		documents = daysOfShop
	}
	v.s.reads.Add(int64(math.Ceil(v.c.Template.Reads(documents))))
	totals.Shards = []int64{documents}
	return totals, err
}
