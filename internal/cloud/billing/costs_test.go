package billing_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
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

const day = 24 * 60 * 60 // seconds

var location = flag.String("location", "", "print the tables of costs for a database in this location, such as eur3")

// A load is increments of one counter, all day long.
type load struct {
	location   string  // of the database
	increments float64 // a second
	shards     float64
	instances  float64 // of a function that serves them
}

// loads returns the loads of the tables: one write a second to a shard, with some room; one
// instance to some 5,000 events/s.
func loads(location string) []load {
	return []load{{location, 1, 10, 1}, {location, 100, 200, 1}, {location, 10_000, 20_000, 2}}
}

// What an instance costs that is busy all day: of RollUpOnWrite and RollUpOnSchedule, as tally
// deploy sets them, and of other functions. Billed by instance, it costs as much when it is not
// busy.
const (
	onWriteInstance    = day * billing.OnWriteSecond
	onScheduleInstance = day * billing.OnScheduleSecond
	byInstance         = day * billing.OnWriteSecondByInstance
	otherInstance      = day * (billing.VCPUSecond + billing.GiBSecond/4)
)

// operations is what so many reads, writes and deletes a second cost in a day.
func (l load) operations(reads, writes, deletes float64) float64 {
	perDay := func(n float64) int64 { return int64(math.Round(n * day)) }
	return billing.Counts{Reads: perDay(reads), Writes: perDay(writes), Deletes: perDay(deletes)}.CostIn(l.location)
}

// events is what it costs a day to bring the increments to a function.
func (l load) events() float64 { return l.increments * day * (billing.Request + billing.Event) }

// logEntry is the price of Cloud Logging for Cloud Run's entry about a request, at $0.50 per GiB
// (https://cloud.google.com/stackdriver/pricing). The size of such an entry was not measured. The
// size here is of an entry that was composed from the documented fields.
const logEntry = 1350 * 0.50 / (1 << 30)

// logged is what it costs a day to bring them and to keep Cloud Run's entry about each request.
func (l load) logged() float64 { return l.events() + l.increments*day*logEntry }

// eventsByInstance is what it costs a day to bring them to instances that are billed for all of
// their time.
func (l load) eventsByInstance() float64 { return l.increments * day * billing.Event }

// sum is how many reads an aggregation of the shards bills.
func (l load) sum() float64 { return math.Ceil(l.shards / 1000) }

// A way keeps a total of the counter. Its costs are US dollars a day; "no" if the way does not work
// at that load.
type way struct {
	name       string
	operations func(load) (dollars float64, ok bool)
	events     func(load) float64 // US dollars a day; nil: it needs none
	busy       func(load) float64 // instances, all day
	instance   float64            // US dollars a day of one that is busy
	updates    func(load) float64 // of the total a second, as a listener sees them; nil: as the way before
}

// A pattern is what the engine does at a load, with a burst of 5, when increments come at random,
// independently of each other. TestEngine has the engine do it.
type pattern struct {
	rollUps float64 // a second
	busy    float64 // share of the time that an instance is busy: while an event is held, rounded up
	looks   float64 // a second
	alarms  float64 // made a second
}

// engine is the pattern of the default cadence, 1 s.
func (l load) engine() pattern {
	switch l.increments {
	case 0.00001, 0.001, 0.01, 0.1: // each lone change is rolled up
		return pattern{rollUps: l.increments, busy: l.increments / 10, looks: l.increments}
	case 1:
		return pattern{rollUps: 0.913, busy: 0.175, looks: 0.913}
	case 100:
		return pattern{rollUps: 1, busy: 1, looks: 1}
	}
	return pattern{rollUps: 1, busy: 1, looks: 1} // one roll-up a cadence, and always an event that is held
}

// slowEngine is the pattern of a cadence of 10 s, by which most events are deferred.
func (l load) slowEngine() pattern {
	switch l.increments {
	case 0.00001, 0.001, 0.01: // there is always credit
		return l.engine()
	case 0.1:
		return pattern{rollUps: 0.09, busy: 0.025, looks: 0.113, alarms: 0.0122}
	case 1:
		return pattern{rollUps: 0.1, busy: 0.31, looks: 0.3, alarms: 0.1}
	case 100:
		return pattern{rollUps: 0.1, busy: 1, looks: 0.3, alarms: 0.1}
	}
	return pattern{rollUps: 0.1, busy: 1, looks: 0.2 + 0.1*l.instances, alarms: 0.1 * l.instances}
}

// What a roll-up costs whose sum is claimed, because it takes long and bills 5 reads or more. go
// test ./rollup -run SlowSums measures it.
const (
	claimedSums   = 1.05 // some are made twice
	claimedReads  = 2.5  // of an instance: its looks and the claims that it reads
	claimedWrites = 2    // the roll-up and the claim
)

func live(l load) (dollars float64, ok bool) {
	e := l.engine()
	if l.sum() >= 5 { // as so many shards take long
		return l.operations(e.rollUps*(claimedSums*l.sum()+l.instances*claimedReads), e.rollUps*claimedWrites, 0), true
	}
	return l.operations(e.rollUps*(1+l.sum())+l.instances-1, e.rollUps, 0), true
}

// liveBusy is how many instances are busy, all day.
func liveBusy(l load) float64 { return l.instances * l.engine().busy }

var ways = []way{
	{
		name:       "Tally, live",
		operations: live,
		events:     load.events,
		busy:       liveBusy,
		instance:   onWriteInstance,
		updates:    func(l load) float64 { return l.engine().rollUps },
	},
	{
		name:       "Tally, live, billed by instance",
		operations: live,
		events:     load.eventsByInstance,
		busy:       func(l load) float64 { return l.instances },
		instance:   byInstance,
	},
	{
		// Each instance asks for the alarm; the first makes it.
		name: "Tally, `cadence 10s`",
		operations: func(l load) (float64, bool) {
			e := l.slowEngine()
			if l.sum() >= 5 {
				return l.operations(e.rollUps*claimedSums*l.sum()+e.looks+e.rollUps*l.instances*claimedReads, e.rollUps*claimedWrites, 0), true
			}
			return l.operations(e.rollUps*l.sum()+e.looks, e.rollUps, 0), true
		},
		events: func(l load) float64 {
			e := l.slowEngine()
			return l.events() + day*(e.alarms*billing.Task+e.rollUps*(billing.Task+billing.Request))
		},
		busy:     func(l load) float64 { return l.instances * l.slowEngine().busy },
		instance: onWriteInstance,
		updates:  func(l load) float64 { return l.slowEngine().rollUps },
	},
	{
		// The schedule's function is busy all day; its calls and its job are cents.
		name: "Tally, `every 1s`",
		operations: func(l load) (float64, bool) {
			changed := 1 - math.Exp(-l.increments) // share of the seconds in which something did
			return l.operations(1+l.sum(), changed, 0), true
		},
		busy:     func(load) float64 { return 1 },
		instance: onScheduleInstance,
		updates:  func(l load) float64 { return 1 - math.Exp(-l.increments) },
	},
	{
		// The function waits for the next minute, and is billed for it.
		name: "Tally, `every 1m`",
		operations: func(l load) (float64, bool) {
			return l.operations((1+l.sum())/60, 1.0/60, 0), true
		},
		busy:     func(load) float64 { return 1 },
		instance: onScheduleInstance,
		updates:  func(load) float64 { return 1.0 / 60 },
	},
	{
		name: "own trigger that sums the shards",
		operations: func(l load) (float64, bool) {
			// Its total takes about one write a second:
			// https://firebase.google.com/docs/firestore/best-practices.
			return l.operations(l.increments*l.shards, l.increments, 0), l.increments <= 1
		},
		events:   load.logged,
		busy:     func(l load) float64 { return min(l.instances, l.increments*billing.RoundedUp) },
		instance: otherInstance,
		updates:  func(l load) float64 { return l.increments },
	},
	{
		name: "firestore-counter extension",
		operations: func(l load) (float64, bool) {
			// Measured on the emulator, version 0.2.15, one counter; at 300/s of 100 clients it
			// collapsed.
			switch {
			case l.increments <= 10:
				return l.operations(5*l.increments, 2*l.increments, l.increments), true
			case l.increments <= 100:
				return l.operations(3.9*l.increments, 1.2*l.increments, l.increments), true
			}
			return 0, false
		},
		events:   load.events,
		busy:     func(l load) float64 { return l.instances }, // an event holds a listener open for a minute
		instance: otherInstance,
		updates:  func(l load) float64 { return min(l.increments, 43) },
	},
	{
		name:       "no function: readers sum the shards",
		operations: func(load) (float64, bool) { return 0, true },
		updates:    func(l load) float64 { return l.increments },
	},
}

// The engine does what load.engine says.
func TestEngine(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}

	routes, err := route.Parse(route.Default)
	if err != nil {
		t.Fatal(err)
	}
	likes, ok := routes[0].Belongs("counters/likes/shards/0", nil)
	if !ok {
		t.Fatal("no counter")
	}
	for _, test := range []struct {
		load    load
		cadence time.Duration
		want    pattern
	}{
		{loads("us-central1")[0], time.Second, loads("us-central1")[0].engine()},
		{loads("us-central1")[1], time.Second, loads("us-central1")[1].engine()},
		{load{increments: 0.1}, 10 * time.Second, load{increments: 0.1}.slowEngine()},
		{loads("us-central1")[0], 10 * time.Second, loads("us-central1")[0].slowEngine()},
		{loads("us-central1")[1], 10 * time.Second, loads("us-central1")[1].slowEngine()},
	} {
		l := test.load
		t.Run(fmt.Sprint(l.increments, " ", test.cadence), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &counting{Store: new(memstore.Store)}
				alarms := &ringing{made: make(map[rollup.Alarm]bool)}
				c := rollup.NewCoalescer(store, rollup.Options{Cadence: test.cadence, Burst: 5, Timeout: 4 * time.Second, Hold: 8 * time.Second, Alarms: alarms, Logger: slog.New(slog.DiscardHandler)})
				random := rand.New(rand.NewPCG(1, 2))
				var mu sync.Mutex
				var held int
				var since, busy time.Duration // of the instance
				start := time.Now()
				change := func(by int) {
					mu.Lock()
					defer mu.Unlock()
					if held == 0 {
						since = time.Since(start)
					}
					if held += by; held == 0 {
						spell := time.Since(start) - since
						const unit = time.Duration(billing.RoundedUp * float64(time.Second))
						busy += max(unit, (spell+unit-1)/unit*unit)
					}
				}
				var wg sync.WaitGroup
				alarms.ring = func(a rollup.Alarm) {
					change(1)
					defer change(-1)
					if _, err := c.HandleAlarm(t.Context(), a, routes); err != nil {
						t.Error(err)
					}
				}
				for i := range int(max(20_000, 5000*l.increments)) { // so many that the first burst does not count
					time.Sleep(time.Duration(random.ExpFloat64() / l.increments * float64(time.Second)))
					wg.Go(func() {
						change(1)
						defer change(-1)
						if _, err := c.HandleEvent(t.Context(), rollup.Event{ID: fmt.Sprint(i)}, route.Concern{Counter: likes}); err != nil {
							t.Error(err)
						}
					})
				}
				wg.Wait()
				took := time.Since(start)
				time.Sleep(time.Minute) // for the coalescer to end
				synctest.Wait()         // and for the last alarm's goroutine, which writes busy
				for _, c := range []struct {
					what      string
					got, want float64
				}{
					{"roll-ups a second", float64(store.writes.Load()) / took.Seconds(), test.want.rollUps},
					{"looks a second", float64(store.looks.Load()) / took.Seconds(), test.want.looks},
					{"alarms a second", float64(alarms.count()) / took.Seconds(), test.want.alarms},
					{"share of the time that an instance is busy", min(1, busy.Seconds()/took.Seconds()), test.want.busy},
				} {
					if math.Abs(c.got-c.want) > 0.05*c.want {
						t.Errorf("%s: %.4f, want %.4f", c.what, c.got, c.want)
					}
				}
			})
		})
	}
}

// A ringing queue has its alarms ring at their times.
type ringing struct {
	ring func(rollup.Alarm)

	mu   sync.Mutex
	made map[rollup.Alarm]bool
}

func (r *ringing) Create(_ context.Context, a rollup.Alarm) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.made[a] {
		r.made[a] = true
		time.AfterFunc(time.Until(a.At), func() { r.ring(a) })
	}
	return nil
}

func (r *ringing) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.made)
}

// counting counts the looks and the roll-ups.
type counting struct {
	*memstore.Store
	looks, writes atomic.Int64
}

// View takes as long as the three calls of a roll-up take a function near its database.
func (s *counting) View(ctx context.Context, c route.Counter) (rollup.Snapshot, error) {
	s.looks.Add(1)
	time.Sleep(50 * time.Millisecond)
	return s.Store.View(ctx, c)
}

func (s *counting) Write(ctx context.Context, c route.Counter, r rollup.RollUp) error {
	s.writes.Add(1)
	return s.Store.Write(ctx, c, r)
}

// The tables of docs/performance.md are what the prices and the ways give.
func TestCosts(t *testing.T) {
	if *location != "" {
		fmt.Printf("In %s:\n\n%s\n%s\n", *location, keeping(*location), watching(*location))
	}
	page, err := os.ReadFile("../../../docs/performance.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{keeping("us-central1"), watching("us-central1")} {
		if !strings.Contains(string(page), "\n\n"+table+"\n") {
			t.Errorf("docs/performance.md does not hold this table:\n%s", table)
		}
	}
}

// keeping returns the table of what it costs to keep a total in a database of the location.
func keeping(location string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| one counter in %s, a day | 1 increment/s | 100/s | 10,000/s |\n| --- | --- | --- | --- |\n", location)
	row := func(name string, cost func(load) string) {
		fmt.Fprintf(&b, "| %s |", name)
		for _, l := range loads(location) {
			fmt.Fprintf(&b, " %s |", cost(l))
		}
		b.WriteString("\n")
	}
	row("the increments themselves", func(l load) string { return dollars(l.operations(0, l.increments, 0)) })
	row("their reads by the security rules", func(l load) string { return dollars(l.operations(l.increments, 0, 0)) })
	for _, w := range ways {
		row(w.name, func(l load) string {
			switch _, ok := w.operations(l); {
			case w.busy == nil:
				return "nothing"
			case !ok:
				return "does not keep up"
			}
			return dollars(w.total(l))
		})
	}
	return b.String()
}

func (w way) eventsOf(l load) float64 {
	if w.events == nil {
		return 0
	}
	return w.events(l)
}

// total is what the way costs a day.
func (w way) total(l load) float64 {
	o, _ := w.operations(l)
	return o + w.eventsOf(l) + w.busy(l)*w.instance
}

// At each load the cheapest way with a total that is a second old at most is one of Tally's.
func TestTallyIsTheCheapest(t *testing.T) {
	for _, l := range append(loads("us-central1"), loads("nam5")...) {
		tally, other := math.Inf(1), math.Inf(1)
		for _, w := range ways {
			if _, ok := w.operations(l); !ok || w.busy == nil || w.name == "Tally, `every 1m`" || w.name == "Tally, `cadence 10s`" {
				continue
			}
			if strings.HasPrefix(w.name, "Tally") {
				tally = min(tally, w.total(l))
			} else {
				other = min(other, w.total(l))
			}
		}
		if tally > other {
			t.Errorf("at %v increments/s in %s Tally costs %s, another way %s", l.increments, l.location, dollars(tally), dollars(other))
		}
	}
}

// watching returns the table of what a listener costs.
func watching(location string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| one listener in %s, a day | 1 increment/s | 100/s | 10,000/s |\n| --- | --- | --- | --- |\n", location)
	for _, w := range ways {
		if w.updates == nil {
			continue
		}
		fmt.Fprintf(&b, "| %s |", w.name)
		for _, l := range loads(location) {
			if _, ok := w.operations(l); !ok {
				b.WriteString(" |")
				continue
			}
			fmt.Fprintf(&b, " %s |", dollars(l.operations(w.updates(l), 0, 0)))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// visits is how many counters a second the schedule's function can visit: some 150 that say "every
// 1s" (docs/performance.md).
const visits = 150

// choosing returns the table of what many posts cost, by the cadence of their route. The increments
// a second are those of all posts together, which have up to 1,000 documents each. What instances
// cost is not in it.
func choosing() string {
	var b strings.Builder
	b.WriteString("| posts | changes a second, of all | live | `cadence 10s` | `every 10s` |\n| --- | --- | --- | --- | --- |\n")
	for _, posts := range []float64{1, 100, 10_000} {
		for _, all := range []float64{0.1, 10, 100} {
			one := load{increments: all / posts}
			quick, slow := one.engine(), one.slowEngine()
			live := one.operations(2*quick.rollUps, quick.rollUps, 0) + one.events()
			cadence := one.operations(slow.looks+slow.rollUps, slow.rollUps, 0) + one.events() + day*slow.alarms*(2*billing.Task+billing.Request)
			every := one.operations(2.0/10, (1-math.Exp(-10*one.increments))/10, 0)
			scheduled := dollars(posts * every)
			if posts/10 > visits {
				scheduled = "does not keep up"
			}
			fmt.Fprintf(&b, "| %s | %v | %s | %s | %s |\n", whole(posts), all, dollars(posts*live), dollars(posts*cadence), scheduled)
		}
	}
	return b.String()
}

// The table of docs/routes.md is what the prices and the patterns give.
func TestChoosing(t *testing.T) {
	page, err := os.ReadFile("../../../docs/routes.md")
	if err != nil {
		t.Fatal(err)
	}
	if table := choosing(); !strings.Contains(string(page), "\n\n"+table+"\n") {
		t.Errorf("docs/routes.md does not hold this table:\n%s", table)
	}
}

// dollars writes an amount with two digits that count, or as whole dollars.
func dollars(d float64) string {
	switch {
	case d == 0:
		return "$0"
	case d < 0.1:
		return fmt.Sprintf("$%.4f", d)
	case d < 100:
		return fmt.Sprintf("$%.2f", d)
	}
	return "$" + whole(d)
}

// whole writes a number without its fraction.
func whole(n float64) string {
	text := fmt.Sprintf("%.0f", n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
