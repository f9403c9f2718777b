package growth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
)

// A counter whose shards are written as often as they should is not raised, and one whose shards
// are written too often soon is. Writes come at random times. Package documentation and
// docs/limits.md have these numbers.
func TestChance(t *testing.T) {
	const trials = 400_000
	random := rand.New(rand.NewPCG(1, 2))
	written := func(rate float64) time.Duration { // how long ago
		return time.Duration(random.ExpFloat64() / rate * float64(time.Second))
	}
	for _, test := range []struct {
		increments  float64 // a second, over ten shards
		least, most time.Duration
	}{
		{5, 365 * 24 * time.Hour, math.MaxInt64},
		{7, 100 * 24 * time.Hour, math.MaxInt64},
		{10, 3 * 24 * time.Hour, 40 * 24 * time.Hour},
		{15, time.Hour, 6 * time.Hour},
		{20, 5 * time.Minute, 20 * time.Minute},
		{30, time.Minute, 4 * time.Minute},
		{50, 40 * time.Second, 80 * time.Second},
		{300, 40 * time.Second, time.Minute},
	} {
		counts := 0
		ages := make([]time.Duration, sampled)
		for range trials {
			for i := range ages {
				ages[i] = written(test.increments / sampled)
			}
			if mostlyYoung(ages) && written(test.increments/sampled) <= seldom {
				counts++
			}
		}

		p := float64(counts) / trials
		run := math.Pow(p, looks)
		expected := (1 - run) / (run * (1 - p + 1e-12)) // looks until so many running are hot
		if p == 1 {
			expected = looks
		}
		after := time.Duration(min(expected*lookEvery.Seconds(), 1e9)) * time.Second
		t.Logf("%3.0f/s: %.5f of looks; a raise after %v on average, %.2g a day", test.increments, p, after, 86400/lookEvery.Seconds()/expected)
		if after < test.least || after > test.most {
			t.Errorf("%v increments a second over %d shards: raised after %v on average, want %v to %v", test.increments, sampled, after, test.least, test.most)
		}
	}
}

// The number that is needed is about right.
func TestNeeded(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, rate := range []float64{2.5, 5, 30} {
		var got []float64
		for range 1000 {
			var ages []time.Duration
			for range looks * sampled {
				ages = append(ages, time.Duration(random.ExpFloat64()/rate*float64(time.Second)))
			}
			got = append(got, float64(needed(10, ages)))
		}
		slices.Sort(got)
		want := 10 * rate / aim
		if low, middle, high := got[100], got[500], got[900]; low < 0.6*want || middle < 0.9*want || middle > 1.1*want || high > 1.6*want {
			t.Errorf("10 shards at %v/s each: %v, %v and %v in 10, 50 and 90 of 100 cases; want about %v", rate, low, middle, high, want)
		}
	}
	if n := needed(10, []time.Duration{0, 0, 0}); n < most {
		t.Errorf("at endless rates %d shards", n)
	}
}

// A database is a Store of one counter, whose shards are all of one age.
type database struct {
	counter map[string]any
	age     time.Duration
	look    error
	raise   error
	hangs   bool

	looks  [][]string // shards of each look
	raises []Raise
}

func (d *database) Look(ctx context.Context, counter string, shards []string) (Look, error) {
	d.looks = append(d.looks, shards)
	if d.hangs {
		<-ctx.Done()
		return Look{}, ctx.Err()
	}
	look := Look{Counter: d.counter, UpdateTime: time.Unix(7, 0)}
	for range shards {
		look.Ages = append(look.Ages, d.age)
	}
	return look, d.look
}

func (d *database) Raise(_ context.Context, r Raise) error {
	if d.raise == nil {
		d.raises = append(d.raises, r)
		d.counter = maps.Clone(d.counter)
		if d.counter == nil {
			d.counter = make(map[string]any)
		}
		maps.Copy(d.counter, r.Fields)
	}
	return d.raise
}

const routes = `
	counters/{counter}/shards/{shard} -> rollups/{counter} : count
	posts/{post}/views/{shard} -> posts/{post} : n as views, unique : existing
	posts/{post}/claps/{shard} -> claps/{post} : claps
	posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing
	hot/{id}/shards/{shard} -> hot_totals/{id} : count : documents
	shards/{shard} -> site/totals : count`

// write has a shard written every 100 ms for a time, the last time since before.
func write(t *testing.T, d *database, path string, since, during time.Duration) {
	t.Helper()
	parsed, err := route.Parse(routes)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		g := New(d, parsed, slog.New(slog.DiscardHandler))
		for began := time.Now(); time.Since(began) < during; time.Sleep(100 * time.Millisecond) {
			g.HandleWrite(t.Context(), path, since)
		}
	})
}

func grows(n int64) map[string]any { return map[string]any{"num_shards": n, "auto_shards": true} }

// Three looks raise the number, and the next ones wait.
func TestRaise(t *testing.T) {
	d := &database{counter: grows(10), age: 100 * time.Millisecond}
	write(t, d, "counters/c/shards/3", 0, 41*time.Second)
	if len(d.raises) != 1 || len(d.looks) != 4 || len(d.looks[0]) != 0 {
		t.Fatalf("%d raises after looks at %v; want one after a look at the counter alone and three at shards", len(d.raises), d.looks)
	}
	for _, shards := range d.looks[1:] {
		slices.Sort(shards)
		if len(slices.Compact(shards)) != sampled {
			t.Errorf("a look at %v, want %d shards", shards, sampled)
		}
	}

	r := d.raises[0]
	n := r.Fields["num_shards"].(int64)
	if want := 139; n != int64(want) || len(r.Shards) != want-10 { // ln 2 / 0.1 s is 6.9 writes a second, of each of 10
		t.Errorf("raised to %d with %d new shards, want %d", n, len(r.Shards), want)
	}
	if r.Counter != "counters/c" || !r.UpdateTime.Equal(time.Unix(7, 0)) || len(r.Fields) != 1 {
		t.Errorf("raise %s of %v, %v", r.Counter, r.UpdateTime, r.Fields)
	}
	if d := cmp.Diff(Shard{"counters/c/shards/10", []string{"count"}}, r.Shards[0]); d != "" {
		t.Errorf("the first new shard (-want +got):\n%s", d)
	}

	d = &database{counter: grows(10), age: 100 * time.Millisecond}
	write(t, d, "counters/c/shards/3", 0, 41*time.Second+settling)
	if len(d.looks) != 5 {
		t.Errorf("%d looks, want none for %v after a raise", len(d.looks), settling)
	}
}

// Who looks how often, and what is raised in ten minutes.
func TestWritten(t *testing.T) {
	hour := time.Hour
	for _, test := range []struct {
		name   string
		path   string
		since  time.Duration
		d      database
		looks  int
		raised int64 // the number in the end; 0: not raised
	}{
		{"often", "counters/c/shards/3", 100 * time.Millisecond, database{counter: grows(10), age: 100 * time.Millisecond}, 11, 640},
		{"a shard that was written long ago", "counters/c/shards/3", hour, database{counter: grows(10), age: 100 * time.Millisecond}, 0, 0},
		{"old shards", "counters/c/shards/3", 0, database{counter: grows(10), age: young}, 31, 0},
		{"shards that do not exist", "counters/c/shards/3", 0, database{counter: grows(10), age: Never}, 31, 0},
		{"no counter's document", "counters/c/shards/3", 0, database{age: 0}, 1, 0},
		{"a fixed number", "counters/c/shards/3", 0, database{counter: map[string]any{"num_shards": int64(10)}}, 1, 0},
		{"not true", "counters/c/shards/3", 0, database{counter: map[string]any{"num_shards": int64(10), "auto_shards": "true"}}, 1, 0},
		{"no number", "counters/c/shards/3", 0, database{counter: map[string]any{"auto_shards": true}, age: 100 * time.Millisecond}, 11, 640},
		{"the other spelling", "counters/c/shards/3", 0, database{counter: map[string]any{"auto_shards": true, "numShards": int64(10)}, age: 100 * time.Millisecond}, 11, 0},
		{"a number that is none", "counters/c/shards/3", 0, database{counter: map[string]any{"auto_shards": true, "num_shards": "10"}}, 1, 0},
		{"a number of zero", "counters/c/shards/3", 0, database{counter: grows(0)}, 1, 0},
		{"frozen", "counters/c/shards/3", 0, database{counter: map[string]any{"auto_shards": true, "num_shards": int64(10), "frozen": true}}, 1, 0},
		{"one shard", "counters/c/shards/0", 0, database{counter: grows(1), age: 100 * time.Millisecond}, 13, 640},
		{"enough", "counters/c/shards/0", 0, database{counter: grows(640), age: 0}, 1, 0},
		{"nearly enough", "counters/c/shards/0", 0, database{counter: grows(639), age: 0}, 5, 640},
		{"each document is read", "hot/c/shards/0", 0, database{counter: grows(10), age: 0}, 5, 100},
		{"two kinds of shards", "posts/p/views/3", 0, database{counter: grows(10), age: 0}, 11, 640},
		{"a random id", "counters/c/shards/9f1c", 0, database{counter: grows(10), age: 0}, 0, 0},
		{"another number", "counters/c/shards/07", 0, database{counter: grows(10), age: 0}, 0, 0},
		{"a number below zero", "counters/c/shards/-5", 0, database{counter: grows(10), age: 0}, 0, 0},
		{"the app's own documents", "posts/p/likes/7", 0, database{counter: grows(10), age: 0}, 0, 0},
		{"no route's", "posts/p/comments/7", 0, database{counter: grows(10), age: 0}, 0, 0},
		{"no document above", "shards/7", 0, database{counter: grows(10), age: 0}, 0, 0},
		{"looks that fail", "counters/c/shards/3", 0, database{look: errors.New("no")}, 30, 0},
		{"looks that hang", "counters/c/shards/3", 0, database{hangs: true}, 30, 0},
		{"raises that are refused", "counters/c/shards/3", 0, database{counter: grows(10), age: 0, raise: errors.New("no")}, 31, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			write(t, &test.d, test.path, test.since, 10*time.Minute)
			n, _ := test.d.counter["num_shards"].(int64)
			if len(test.d.raises) == 0 {
				n = 0
			}
			if len(test.d.looks) != test.looks || n != test.raised {
				t.Errorf("%d looks, raised %d times to %d; want %d looks, and %d", len(test.d.looks), len(test.d.raises), n, test.looks, test.raised)
			}
			for _, r := range test.d.raises {
				if len(r.Shards)+1 > writes {
					t.Errorf("%d writes, want %d at most", len(r.Shards)+1, writes)
				}
			}
		})
	}
}

// A raise that was refused is tried again after the next look. It goes by the last three looks, and
// the ages of earlier ones are forgotten.
func TestRaiseRefused(t *testing.T) {
	parsed, err := route.Parse(routes)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		d := &database{counter: grows(10), raise: errors.New("no")}
		g := New(d, parsed, slog.New(slog.DiscardHandler))
		for d.age = 300 * time.Millisecond; len(d.looks) < 10; {
			g.HandleWrite(t.Context(), "counters/c/shards/0", 0)
			time.Sleep(time.Second)
		}
		for d.age = 100 * time.Millisecond; len(d.looks) < 12; {
			g.HandleWrite(t.Context(), "counters/c/shards/0", 0)
			time.Sleep(time.Second)
		}
		d.raise = nil
		for len(d.looks) < 13 {
			g.HandleWrite(t.Context(), "counters/c/shards/0", 0)
			time.Sleep(time.Second)
		}
		if len(d.raises) != 1 || d.counter["num_shards"] != int64(139) {
			t.Errorf("%d raises, to %v; want one to 139", len(d.raises), d.counter["num_shards"])
		}
	})
}

// All kinds of shards below one document get the new ones, because it tells one number for all.
func TestRaiseAll(t *testing.T) {
	d := &database{counter: map[string]any{"numShards": int64(10), "num_shards": int64(10), "auto_shards": true}, age: 300 * time.Millisecond}
	write(t, d, "posts/p/claps/3", 0, 41*time.Second)
	if len(d.raises) != 1 {
		t.Fatalf("%d raises, want one", len(d.raises))
	}
	r := d.raises[0]
	if want := map[string]any{"numShards": int64(47), "num_shards": int64(47)}; !cmp.Equal(want, r.Fields) {
		t.Errorf("fields %v, want %v", r.Fields, want)
	}
	var got []string
	for _, s := range r.Shards {
		got = append(got, fmt.Sprint(strings.TrimPrefix(s.Path, "posts/p/"), s.Fields))
	}
	for _, want := range []string{"views/10[n unique]", "views/46[n unique]", "claps/10[claps]", "claps/46[claps]"} {
		if !slices.Contains(got, want) {
			t.Errorf("new shards %v, want %s", got, want)
		}
	}
	if len(got) != 2*37 {
		t.Errorf("%d new shards, want %d", len(got), 2*37)
	}
}

// After a cool look three hot ones are needed again, and also after somebody else has changed the
// number.
func TestRunning(t *testing.T) {
	for name, between := range map[string]func(*database){
		"cool":    func(d *database) { d.age = time.Hour },
		"changed": func(d *database) { d.counter["num_shards"] = int64(20) },
	} {
		parsed, err := route.Parse(routes)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Test(t, func(t *testing.T) {
			d := &database{counter: grows(10)}
			g := New(d, parsed, slog.New(slog.DiscardHandler))
			look := func() {
				before := len(d.looks)
				for len(d.looks) == before {
					g.HandleWrite(t.Context(), "counters/c/shards/0", 0)
					time.Sleep(time.Second)
				}
			}
			look() // at the counter's document alone
			look()
			look()
			between(d)
			look()
			d.age = 0
			look()
			look()
			if len(d.raises) > 0 {
				t.Errorf("%s: raised after two looks", name)
			}
			look()
			if len(d.raises) != 1 {
				t.Errorf("%s: not raised after three looks", name)
			}
		})
	}
}

// A shard that was written long before, when it is time to look, shows like a cool look that three
// hot ones are needed again.
func TestRunningEndsWithoutALook(t *testing.T) {
	parsed, err := route.Parse(routes)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		d := &database{counter: grows(10)}
		g := New(d, parsed, slog.New(slog.DiscardHandler))
		for _, since := range []time.Duration{0, 0, 0, time.Hour, 0, 0} { // the first look is at the counter's document alone
			g.HandleWrite(t.Context(), "counters/c/shards/0", since)
			time.Sleep(lookEvery)
		}
		if len(d.looks) != 5 || len(d.raises) > 0 {
			t.Errorf("%d looks and %d raises, want 5 and none", len(d.looks), len(d.raises))
		}
		g.HandleWrite(t.Context(), "counters/c/shards/0", 0)
		if len(d.raises) != 1 {
			t.Error("not raised after three looks")
		}
	})
}

// However many counters there are, and however slow Firestore is, looks are few and memory is
// bounded.
func TestBounds(t *testing.T) {
	parsed, err := route.Parse(routes)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		slow := &slowDatabase{}
		g := New(slow, parsed, slog.New(slog.DiscardHandler))
		began := time.Now()
		for n := range 3 * watched {
			go g.HandleWrite(t.Context(), fmt.Sprintf("counters/%d/shards/0", n), 0)
			if n%100 == 0 {
				time.Sleep(10 * time.Millisecond)
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if slow.most > atOnce || len(g.slots) > 0 {
			t.Errorf("%d looks at once, want %d at most; %d are not over", slow.most, atOnce, len(g.slots))
		}
		if most := atOnce * (int(3*time.Second/timeout) + 2); slow.looks > most || time.Since(began) > 2*time.Minute {
			t.Errorf("%d looks, want %d at most", slow.looks, most)
		}

		quick := New(&database{}, parsed, slog.New(slog.DiscardHandler))
		for n := range 2*watched + 1 {
			quick.HandleWrite(t.Context(), fmt.Sprintf("counters/%d/shards/0", n), 0)
		}
		if len(quick.watches) > watched {
			t.Errorf("%d counters are remembered, want %d at most", len(quick.watches), watched)
		}
	})
}

// A slowDatabase answers nothing.
type slowDatabase struct {
	mu               sync.Mutex
	now, most, looks int
}

func (d *slowDatabase) Look(ctx context.Context, _ string, _ []string) (Look, error) {
	d.add(1)
	defer d.add(-1)
	<-ctx.Done()
	return Look{}, ctx.Err()
}

func (d *slowDatabase) Raise(context.Context, Raise) error { return nil }

func (d *slowDatabase) add(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now += n
	d.most = max(d.most, d.now)
	d.looks += max(0, n)
}
