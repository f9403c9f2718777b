package rollup_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

// trending is a counter that documents leave.
var trending = mustCounter("posts/{post}/likes/{user} -> posts/{post} : count() as likes, count() where at > now - 1m as trending : existing", "posts/a/likes")

// visit has a user like the post at a time.
func (w *world) visit(user string, at time.Time) {
	w.store.Put("posts/a/likes/"+user, map[string]any{"at": at.Truncate(time.Microsecond).UTC()})
}

// post returns what the post's document holds.
func (w *world) post() (likes, trending any, tally document.Tally) {
	fields := w.store.Get("posts/a")
	return fields["likes"], fields["trending"], document.DecodeTally(fields["tally"])
}

func (w *world) wantTrending(likes, trending int64) document.Tally {
	w.t.Helper()
	all, recent, tally := w.post()
	if all != likes || recent != trending {
		w.t.Errorf("the post has %v likes, %v of them lately; want %d and %d", all, recent, likes, trending)
	}
	return tally
}

// inWindowWorld runs f in a world with a post that has one like, which is rolled up.
func inWindowWorld(t *testing.T, f func(w *world, c *rollup.Coalescer, a *alarmed)) {
	t.Helper()
	inAlarmedWorld(t, func(w *world, c *rollup.Coalescer, a *alarmed) {
		w.store.Put("posts/a", nil)
		w.visit("u", w.store.Now())
		if _, err := w.happens(c, "u", trending); err != nil {
			t.Fatal(err)
		}
		w.wantTrending(1, 1)
		f(w, c, a)
	})
}

// ringsTheLast has an instance take the alarm that was made last, at its time.
func (w *world) ringsTheLast(c *rollup.Coalescer, a *alarmed) {
	w.t.Helper()
	alarm := a.last()
	w.until(alarm.At)
	if ending, err := c.HandleAlarm(w.t.Context(), alarm, trending.Template.Routes); err != nil || ending.AsOf.Before(alarm.At) {
		w.t.Errorf("%+v, %v", ending, err)
	}
}

// An alarm stands before a like is rolled up. It rings shortly after the like has left the window,
// and no further alarm follows.
func TestWindow(t *testing.T) {
	inAlarmedWorld(t, func(w *world, c *rollup.Coalescer, a *alarmed) {
		w.store.Put("posts/a", nil)
		at := w.store.Now().Truncate(time.Microsecond)
		w.visit("u", at)
		w.aroundWrite = func(n int32, write func() error) error {
			if len(a.made) != 1 {
				t.Errorf("write %d after %d alarms", n, len(a.made))
			}
			return write()
		}
		if _, err := w.happens(c, "u", trending); err != nil {
			t.Fatal(err)
		}
		alarm, tally := a.last(), w.wantTrending(1, 1)
		if after := alarm.At.Sub(at); after < time.Minute || after > time.Minute+cadence || !tally.Rings.Equal(alarm.At) {
			t.Errorf("the alarm rings %v after the like, and the roll-up says %v", after, tally.Rings)
		}
		if want := (rollup.Alarm{RollUp: "posts/a", Routes: trending.Template.Hash(), At: alarm.At}); alarm != want {
			t.Errorf("the alarm is %+v, want %+v", alarm, want)
		}

		w.ringsTheLast(c, a)
		if tally := w.wantTrending(1, 0); !tally.Rings.IsZero() || len(a.made) != 1 {
			t.Errorf("nothing is in the window, the roll-up says %v, and %d alarms were made", tally.Rings, len(a.made))
		}
	})
}

// Later roll-ups rely on the alarm that stands, until it rings.
func TestWindowsAlarmIsKept(t *testing.T) {
	inWindowWorld(t, func(w *world, c *rollup.Coalescer, a *alarmed) {
		first := a.last().At
		for n := range 50 {
			time.Sleep(time.Second)
			w.visit(fmt.Sprint(n), w.store.Now())
			if _, err := w.happens(c, fmt.Sprint(n), trending); err != nil {
				t.Fatal(err)
			}
			if _, _, tally := w.post(); !tally.Rings.Equal(first) {
				t.Errorf("the alarm rings at %v, want %v", tally.Rings, first)
			}
		}
		w.store.Delete("posts/a/likes/u")
		if _, err := w.happens(c, "deleted", trending); err != nil {
			t.Fatal(err)
		}
		if _, _, tally := w.post(); !tally.Rings.Equal(first) || len(a.made) != 1 {
			t.Errorf("after a deletion: %v, %d alarms", tally.Rings, len(a.made))
		}

		w.ringsTheLast(c, a)
		tally := w.wantTrending(50, 50)
		if !tally.Rings.After(first) || !a.last().At.Equal(tally.Rings) || len(a.made) != 2 {
			t.Errorf("the next alarm rings at %v, the roll-up says %v, %d alarms", a.last().At, tally.Rings, len(a.made))
		}
	})
}

// The alarm of a window that is empty rings all the same. If another like comes before that, no
// further alarm is needed.
func TestEmptyWindowKeepsItsAlarm(t *testing.T) {
	inWindowWorld(t, func(w *world, c *rollup.Coalescer, a *alarmed) {
		first := a.last().At
		time.Sleep(2 * time.Second)
		w.store.Delete("posts/a/likes/u")
		for _, id := range []string{"deleted", "v"} {
			if _, err := w.happens(c, id, trending); err != nil {
				t.Fatal(err)
			}
			if _, _, tally := w.post(); !tally.Rings.Equal(first) || len(a.made) != 1 {
				t.Errorf("%s: the alarm rings at %v, want %v; %d alarms", id, tally.Rings, first, len(a.made))
			}
			w.visit("v", w.store.Now())
			time.Sleep(2 * time.Second)
		}
	})
}

// A like that leaves sooner has an alarm of its own, and so has a like of a counter whose alarm has
// rung, or is of other routes.
func TestWindowNeedsAnotherAlarm(t *testing.T) {
	for name, prepare := range map[string]func(w *world, a *alarmed){
		"sooner": func(w *world, _ *alarmed) { w.visit("v", w.store.Now().Add(-30*time.Second)) },
		"rung": func(w *world, a *alarmed) {
			w.until(a.last().At)
			w.visit("v", w.store.Now())
		},
		"other routes": func(w *world, _ *alarmed) {
			fields := w.store.Get("posts/a")
			fields["tally"].(map[string]any)["routes"] = "others"
			w.store.Put("posts/a", fields)
			time.Sleep(2 * time.Minute) // so that this instance remembers nothing
			w.visit("v", w.store.Now())
			fields["tally"].(map[string]any)["rings"] = w.store.Now().Add(10 * time.Second)
			w.store.Put("posts/a", fields)
		},
		"overwritten": func(w *world, _ *alarmed) {
			time.Sleep(2 * time.Minute)
			w.store.Put("posts/a", nil)
			w.visit("v", w.store.Now())
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWindowWorld(t, func(w *world, c *rollup.Coalescer, a *alarmed) {
				prepare(w, a)
				if _, err := w.happens(c, "v", trending); err != nil {
					t.Fatal(err)
				}
				if _, _, tally := w.post(); len(a.made) != 2 || !a.last().At.Equal(tally.Rings) || !tally.Rings.After(tally.AsOf) {
					t.Errorf("%d alarms, the last at %v, the roll-up says %v", len(a.made), a.last().At, tally.Rings)
				}
			})
		})
	}
}

// A write that is refused needs no further alarm: this instance knows that one stands.
func TestWindowOfRefusedWrites(t *testing.T) {
	inAlarmedWorld(t, func(w *world, c *rollup.Coalescer, a *alarmed) {
		w.store.Put("posts/a", nil)
		w.visit("u", w.store.Now())
		w.aroundWrite = func(n int32, write func() error) error {
			if n < 3 {
				w.store.Put("posts/a", map[string]any{"title": int64(n)})
			}
			return write()
		}
		if _, err := w.happens(c, "u", trending); err != nil {
			t.Fatal(err)
		}
		w.wantTrending(1, 1)
		if len(a.made) != 1 {
			t.Errorf("%d alarms", len(a.made))
		}
	})
}

// If two alarms in a row cannot be made, the roll-up is written without. It says so, it ends no
// alarm, and the next roll-up makes one as soon as there is a queue.
func TestWindowWithoutAnAlarm(t *testing.T) {
	inWindowWorld(t, func(w *world, c *rollup.Coalescer, a *alarmed) {
		alarm := a.last()
		a.make = func(context.Context, int) error { return errors.New("no queue") }
		w.until(alarm.At.Add(-5 * time.Second))
		w.visit("v", w.store.Now())
		w.until(alarm.At)
		ending, err := c.HandleAlarm(w.t.Context(), alarm, trending.Template.Routes)
		if err == nil {
			t.Errorf("an alarm is done with a roll-up that has none: %+v", ending)
		}
		tally := w.wantTrending(2, 1)
		if !tally.Rings.Equal(tally.AsOf) {
			t.Errorf("the roll-up of %v says that an alarm rings at %v", tally.AsOf, tally.Rings)
		}
		note, err := w.store.LoadNote(w.t.Context(), "note-counters")
		if _, named := note.Counters[trending.RollUp]; err != nil || !named {
			t.Errorf("%v: the note for the next audit names %v", err, note.Counters)
		}

		w.visit("w", w.store.Now())
		began, asked := time.Now(), len(a.made)
		if ending, err := w.happens(c, "w", trending); err != nil || ending.AsOf.IsZero() {
			t.Errorf("an event without a queue: %+v, %v", ending, err)
		}
		if took := time.Since(began); took > 2*time.Second || len(a.made) != asked {
			t.Errorf("it took %v, and %d alarms were tried", took, len(a.made)-asked)
		}
		w.wantTrending(3, 2)
		if !strings.Contains(w.log.String(), "no alarm could be made; the next event") {
			t.Errorf("logged:\n%s", &w.log)
		}

		a.make = nil
		time.Sleep(2 * time.Minute)
		if ending, err := c.HandleAlarm(w.t.Context(), alarm, trending.Template.Routes); err != nil || ending.AsOf.Before(alarm.At) {
			t.Errorf("the alarm rings again: %+v, %v", ending, err)
		}
		if tally := w.wantTrending(3, 0); !tally.Rings.IsZero() {
			t.Errorf("nothing is in the window, and the roll-up says %v", tally.Rings)
		}
	})
}

// refuses has the queue refuse for a moment, from now on.
func (a *alarmed) refuses(moment time.Duration) {
	until := time.Now().Add(moment)
	a.make = func(context.Context, int) error {
		time.Sleep(10 * time.Millisecond)
		if time.Now().Before(until) {
			return errors.New("unavailable")
		}
		return nil
	}
}

// An alarm that a queue refuses is tried again before anything is written, when the queue may have
// had its moment.
func TestWindowsAlarmAtTheSecondTry(t *testing.T) {
	inAlarmedWorld(t, func(w *world, c *rollup.Coalescer, a *alarmed) {
		w.store.Put("posts/a", nil)
		w.visit("u", w.store.Now())
		a.refuses(50 * time.Millisecond)
		began := time.Now()
		if _, err := w.happens(c, "u", trending); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("the event was held for %v", took)
		}
		if tally := w.wantTrending(1, 1); len(a.made) != 2 || !tally.Rings.Equal(a.last().At) {
			t.Errorf("%d alarms were tried, the roll-up says %v", len(a.made), tally.Rings)
		}
		w.called(1, 1, 1)
	})
}

// A counter whose cadence is long and that has a window keeps its alarm, too, if the queue refuses
// for a moment the alarm to which an event is deferred.
func TestWindowOfAnEventThatIsDeferredAtTheSecondTry(t *testing.T) {
	inAlarmedWorld(t, func(w *world, c *rollup.Coalescer, a *alarmed) {
		counter := mustCounter("posts/{post}/likes/{user} -> posts/{post} : count() as likes, count() where at > now - 1m as trending : existing : cadence 10s", "posts/a/likes")
		w.store.Put("posts/a", nil)
		for n, user := range []string{"u", "v"} {
			if n == 1 {
				a.refuses(50 * time.Millisecond)
			}
			w.visit(user, w.store.Now())
			ending, err := w.happens(c, user, counter)
			if err != nil || ending.Deferred != (n == 1) {
				t.Errorf("event %d: %+v, %v", n, ending, err)
			}
		}
		if tally := w.wantTrending(1, 1); !tally.Rings.After(tally.AsOf) {
			t.Errorf("the roll-up of %v says that an alarm rings at %v", tally.AsOf, tally.Rings)
		}
	})
}

// The first of several windows has the alarm. Its time is rounded up by a part of its own window,
// and lies at least 3 s ahead.
func TestWindowsAlarmIsRounded(t *testing.T) {
	for name, test := range map[string]struct {
		totals string
		age    time.Duration // of the like
		least  time.Duration // from the roll-up to the alarm
		most   time.Duration
	}{
		"a minute":           {"count() where at > now - 1m as a", 20 * time.Second, 40 * time.Second, 41 * time.Second},
		"a day":              {"count() where at > now - 24h as a", time.Hour, 23 * time.Hour, 23*time.Hour + time.Minute},
		"several":            {"count() where at > now - 24h as a, count() where at > now - 1m as b", 0, time.Minute, 61 * time.Second},
		"the second":         {"count() where at > now - 24h as a, count() where at > now - 1m as b", 2 * time.Hour, 22 * time.Hour, 22*time.Hour + time.Minute},
		"soon":               {"count() where at > now - 1m as a", 59 * time.Second, 3 * time.Second, 4 * time.Second},
		"a slow cadence":     {"count() where at > now - 1m as a : cadence 30s", 0, time.Minute, 90 * time.Second},
		"a year":             {"count() where at > now - 400d as a", time.Hour, 28 * 24 * time.Hour, 29 * 24 * time.Hour},
		"soon, of a year":    {"count() where at > now - 400d as a", 399 * 24 * time.Hour, 24 * time.Hour, 31 * time.Hour},
		"ahead":              {"count() where at > now - 1m as a", -time.Hour, 61 * time.Minute, 61*time.Minute + time.Second},
		"beyond all windows": {"count() where at > now - 1m as a", -1000 * 24 * time.Hour, 0, 0},
		"too old":            {"count() where at > now - 1m as a", time.Minute, 0, 0},
		"just left":          {"count() where at > now - 1m as a", 61 * time.Second, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inAlarmedWorld(t, func(w *world, c *rollup.Coalescer, a *alarmed) {
				counter := mustCounter("posts/{post}/likes/{user} -> posts/{post} : "+test.totals+" : existing", "posts/a/likes")
				w.store.Put("posts/a", nil)
				w.visit("u", w.store.Now().Add(-test.age))
				if _, err := w.happens(c, "u", counter); err != nil {
					t.Fatal(err)
				}
				_, _, tally := w.post()
				if test.most == 0 {
					if len(a.made) > 0 || !tally.Rings.IsZero() {
						t.Errorf("made %v, the roll-up says %v", a.made, tally.Rings)
					}
					return
				}
				ahead := tally.Rings.Sub(tally.AsOf)
				if ahead < test.least-time.Second || ahead > test.most || !a.last().At.Equal(tally.Rings) {
					t.Errorf("the alarm rings %v after the roll-up, want %v to %v", ahead, test.least, test.most)
				}
			})
		})
	}
}

// Counters have alarms at times of their own, also if their documents leave later than an alarm can
// reach.
func TestWindowsAlarmsAreSpread(t *testing.T) {
	for _, window := range []string{"24h", "45d", "400d"} {
		inAlarmedWorld(t, func(w *world, c *rollup.Coalescer, a *alarmed) {
			at := w.store.Now()
			seconds := make(map[time.Duration]int)
			for n := range 100 {
				post := fmt.Sprint("posts/", n)
				counter := mustCounter("posts/{post}/likes/{user} -> posts/{post} : count() where at > now - "+window+" as lately : existing", post+"/likes")
				w.store.Put(post, nil)
				w.store.Put(post+"/likes/u", map[string]any{"at": at.UTC()})
				if _, err := w.happens(c, post, counter); err != nil {
					t.Fatal(err)
				}
				seconds[a.last().At.Sub(at).Truncate(time.Second)]++
			}
			for second, n := range seconds {
				if n > 10 {
					t.Errorf("%s: %d of 100 alarms ring in the second %v", window, n, second)
				}
			}
		})
	}
}

// A window that begins with its bound holds a like for a microsecond longer.
func TestWindowWithItsBound(t *testing.T) {
	for operator, want := range map[string]int64{">": 0, ">=": 1} {
		inAlarmedWorld(t, func(w *world, c *rollup.Coalescer, _ *alarmed) {
			counter := mustCounter("posts/{post}/likes/{user} -> posts/{post} : count() where at "+operator+" now - 1m as trending : existing", "posts/a/likes")
			w.store.Put("posts/a", nil)
			w.duringView = func(int32) {}
			w.beforeView = func(int32) error {
				w.visit("u", w.store.Now().Add(-time.Minute))
				w.store.Put("posts/a/likes/u", map[string]any{"at": w.store.Put("x/y", nil).Add(time.Microsecond - time.Minute).UTC()})
				return nil
			}
			if _, err := w.happens(c, "u", counter); err != nil {
				t.Fatal(err)
			}
			_, got, tally := w.post()
			v, _ := document.FieldOf("at").In(w.store.Get("posts/a/likes/u"))
			if at := v.(time.Time); !at.Add(time.Minute).Equal(tally.AsOf) {
				t.Fatalf("the like is of %v before the roll-up, want a minute", tally.AsOf.Sub(at))
			}
			if got != want {
				t.Errorf("%s: %v likes, want %d", operator, got, want)
			}
		})
	}
}

// A counter whose document is missing or that is unkept ends its alarm. The next event begins
// another chain.
func TestChainBeginsAnew(t *testing.T) {
	inWindowWorld(t, func(w *world, c *rollup.Coalescer, a *alarmed) {
		w.store.Delete("posts/a")
		alarm := a.last()
		w.until(alarm.At)
		if ending, err := c.HandleAlarm(w.t.Context(), alarm, trending.Template.Routes); err != nil || ending.Deferred {
			t.Errorf("a missing document: %+v, %v", ending, err)
		}

		w.store.Put("posts/a", nil)
		w.visit("v", w.store.Now())
		if _, err := w.happens(c, "v", trending); err != nil {
			t.Error(err)
		}
		w.ringsTheLast(c, a)
		w.wantTrending(2, 0)
	})
}

// auditWindows audits the post, and returns the report. The audit makes its alarms with a.
func (w *world) auditWindows(a *alarmed, change func(o *rollup.AuditOptions)) rollup.Report {
	w.t.Helper()
	o := rollup.AuditOptions{Options: w.options(0), Concurrency: 1, Grace: rollup.Grace(cadence, hold)}
	o.Alarms = a
	if change != nil {
		change(&o)
	}
	r, err := rollup.Audit(w.t.Context(), traced{w.store, w}, route.Routes(trending.Template.Routes), o)
	if err != nil {
		w.t.Errorf("the audit: %v", err)
	}
	return r
}

// An audit leaves a like that has just left to its alarm. If no alarm rings, it rolls the counter
// up, and does not call that drift. What events should have told is drift.
func TestAuditOfWindows(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(w *world, a *alarmed)
		change  func(o *rollup.AuditOptions)
		want    rollup.Report
		likes   int64
		lately  int64
		alarms  int // that the audit makes
	}{
		"right":                 {func(*world, *alarmed) {}, nil, rollup.Report{Unchanged: 1}, 1, 1, 0},
		"has just left":         {func(w *world, a *alarmed) { w.until(a.last().At.Add(time.Second)) }, nil, rollup.Report{Unchanged: 1}, 1, 1, 0},
		"its alarm comes again": {func(w *world, a *alarmed) { w.until(a.last().At.Add(14 * time.Second)) }, nil, rollup.Report{Unchanged: 1}, 1, 1, 0},
		"left late":             {func(w *world, a *alarmed) { w.until(a.last().At.Add(time.Minute)) }, nil, rollup.Report{RolledUp: 1, Late: 1}, 1, 0, 0},
		"left late, a dry run": {func(w *world, a *alarmed) { w.until(a.last().At.Add(time.Minute)) },
			func(o *rollup.AuditOptions) { o.DryRun = true }, rollup.Report{Differing: 1, Late: 1}, 1, 1, 0},
		"left late, and others are left": {func(w *world, a *alarmed) {
			w.until(a.last().At.Add(-time.Second))
			w.visit("v", w.store.Now())
			if _, err := w.happens(w.alarmedInstance(a, 0), "v", trending); err != nil {
				w.t.Fatal(err)
			}
			w.until(a.last().At.Add(30 * time.Second))
		}, nil, rollup.Report{RolledUp: 1, Late: 1}, 2, 1, 1},
		"the alarm is lost, and the totals are right": {func(w *world, a *alarmed) {
			w.until(a.last().At.Add(-time.Second))
			w.visit("v", w.store.Now())
			w.store.Delete("posts/a/likes/u")
			if _, err := w.happens(w.alarmedInstance(a, 0), "v", trending); err != nil {
				w.t.Fatal(err)
			}
			w.until(a.last().At.Add(30 * time.Second))
		}, nil, rollup.Report{RolledUp: 1, Late: 1}, 1, 1, 1},
		"written without an alarm": {func(w *world, _ *alarmed) {
			fields := w.store.Get("posts/a")
			tally := fields["tally"].(map[string]any)
			tally["rings"] = tally["as_of"]
			w.store.Put("posts/a", fields)
			time.Sleep(30 * time.Second)
		}, nil, rollup.Report{RolledUp: 1, Late: 1}, 1, 1, 1},
		"never had an alarm": {func(w *world, _ *alarmed) {
			fields := w.store.Get("posts/a")
			delete(fields["tally"].(map[string]any), "rings")
			w.store.Put("posts/a", fields)
			time.Sleep(2 * time.Second)
		}, nil, rollup.Report{RolledUp: 1}, 1, 1, 1},
		"an event is on its way": {func(w *world, _ *alarmed) {
			w.visit("v", w.store.Now())
			go func() {
				time.Sleep(2 * time.Second)
				_, _ = w.happens(w.alarmedInstance(new(alarmed), 0), "v", trending)
			}()
		}, nil, rollup.Report{Unchanged: 1}, 2, 2, 0},
		"drift": {func(w *world, a *alarmed) {
			w.visit("v", w.store.Now())
			w.until(a.last().At.Add(-5 * time.Second))
			w.visit("w", w.store.Now())
		}, nil, rollup.Report{RolledUp: 1, Drift: 1}, 3, 1, 1},
		"the pace does not matter": {func(w *world, a *alarmed) { w.until(a.last().At.Add(time.Minute)) },
			func(o *rollup.AuditOptions) { o.Prune = true }, rollup.Report{RolledUp: 1, Late: 1}, 1, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inWindowWorld(t, func(w *world, _ *rollup.Coalescer, a *alarmed) {
				test.prepare(w, a)
				byAudit := new(alarmed)
				got := w.auditWindows(byAudit, test.change)
				want := test.want
				if got.RolledUp != want.RolledUp || got.Unchanged != want.Unchanged || got.Differing != want.Differing || got.Late != want.Late || got.Drift != want.Drift {
					t.Errorf("got %+v", got)
				}
				tally := w.wantTrending(test.likes, test.lately)
				if len(byAudit.made) != test.alarms {
					t.Fatalf("it made %d alarms, want %d", len(byAudit.made), test.alarms)
				}
				if test.alarms > 0 && (byAudit.last().Salt == "" || !byAudit.last().At.Equal(tally.Rings)) {
					t.Errorf("it made %+v, the roll-up says %v", byAudit.last(), tally.Rings)
				}
			})
		})
	}
}

// An audit without a queue fails rather than write a roll-up without its alarm.
func TestAuditOfWindowsWithoutAQueue(t *testing.T) {
	inWindowWorld(t, func(w *world, _ *rollup.Coalescer, a *alarmed) {
		w.until(a.last().At.Add(time.Minute))
		w.visit("v", w.store.Now())
		o := rollup.AuditOptions{Options: w.options(0), Concurrency: 1}
		r, err := rollup.Audit(w.t.Context(), traced{w.store, w}, route.Routes(trending.Template.Routes), o)
		if err == nil || r.Failed != 1 || !strings.Contains(strings.Join(r.Errors, ""), "needs alarms, and there is no queue") {
			t.Errorf("%+v, %v", r, err)
		}
		w.wantTrending(1, 1)
	})
}

// Likes that leave within a 1,440th of their window leave by one roll-up, and so do those that
// leave within the cadence.
func TestLikesLeaveTogether(t *testing.T) {
	for name, test := range map[string]struct {
		totals string
		apart  time.Duration
		most   int // roll-ups by which 30 likes leave
	}{
		"a day":          {"count() where at > now - 24h as a", time.Second, 2},
		"a slow cadence": {"count() where at > now - 1m as a : cadence 30s", time.Second, 2},
	} {
		t.Run(name, func(t *testing.T) {
			inAlarmedWorld(t, func(w *world, c *rollup.Coalescer, a *alarmed) {
				totals, cadence, _ := strings.Cut(test.totals, " : ")
				counter := mustCounter("posts/{post}/likes/{user} -> posts/{post} : "+totals+" : existing : "+cmp.Or(cadence, "cadence 1s"), "posts/a/likes")
				w.store.Put("posts/a", nil)
				for n := range 30 {
					w.visit(fmt.Sprint(n), w.store.Now().Add(time.Duration(n)*test.apart))
				}
				if _, err := w.happens(c, "u", counter); err != nil {
					t.Fatal(err)
				}

				rollUps := 0
				for rollUps <= test.most {
					_, _, tally := w.post()
					if tally.Rings.IsZero() {
						break
					}
					w.until(tally.Rings)
					alarm := rollup.Alarm{RollUp: "posts/a", Routes: counter.Template.Hash(), At: tally.Rings}
					if _, err := c.HandleAlarm(w.t.Context(), alarm, counter.Template.Routes); err != nil {
						t.Fatal(err)
					}
					rollUps++
				}
				if fields := w.store.Get("posts/a"); rollUps > test.most || fields["a"] != int64(0) {
					t.Errorf("they left by %d roll-ups, want at most %d; %v are left", rollUps, test.most, fields["a"])
				}
			})
		})
	}
}
