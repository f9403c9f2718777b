package rollup_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

// errFull is what a document without room for its totals answers.
var errFull = fmt.Errorf("%w: the document has 1 MiB", rollup.ErrUnkept)

// refuse has every write refused for good until fixed is called.
func (w *world) refuse() (fixed func()) {
	broken := true
	w.aroundWrite = func(_ int32, write func() error) error {
		if broken {
			return errFull
		}
		return write()
	}
	return func() { broken = false }
}

// end delivers an event, and returns how it ended.
func (w *world) end(c *rollup.Coalescer, eventID string) (rollup.Ending, error) {
	ctx, cancel := context.WithTimeout(w.t.Context(), hold)
	defer cancel()
	return c.HandleEvent(ctx, rollup.Event{ID: eventID}, route.Concern{Counter: likes})
}

// Waiting cannot fix an unkept counter, so its event is acknowledged, and says so.
func TestUnkept(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		fixed := w.refuse()
		w.increment(1)
		ending, err := w.end(c, "e")
		if err != nil || !ending.Held || !ending.Unkept || !ending.AsOf.IsZero() {
			t.Errorf("ended %+v, %v", ending, err)
		}
		if n := strings.Count(w.log.String(), "counter unkept"); n != 1 || !strings.Contains(w.log.String(), "1 MiB") {
			t.Errorf("logged %d times:\n%s", n, &w.log)
		}

		fixed()
		time.Sleep(cadence)
		w.increment(1)
		w.acknowledged(w.deliver(c, "f"))
		w.wantTotal(2)
	})
}

// A counter that is unkept for an hour, changed all the time: no event fails or is held for long,
// the pauses grow to a minute, and the log tells it once in ten minutes.
func TestUnkeptForAnHour(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		fixed := w.refuse()
		began := time.Now()
		for n := 0; time.Since(began) < time.Hour; n++ {
			w.increment(1)
			sent := time.Now()
			ending, err := w.end(c, fmt.Sprint("e", n))
			if err != nil || !ending.Unkept {
				t.Fatalf("after %v: ended %+v, %v", time.Since(began), ending, err)
			}
			if held := time.Since(sent); held > 0 {
				t.Fatalf("after %v: held for %v", time.Since(began), held)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n := w.looks.Load(); n < 60 || n > 70 {
			t.Errorf("%d looks in an hour, want one a minute, and a few as the pauses grow", n)
		}
		if n := strings.Count(w.log.String(), "counter unkept"); n != 6 {
			t.Errorf("logged %d times in an hour, want 6", n)
		}

		fixed()
		time.Sleep(time.Minute)
		w.increment(1)
		w.acknowledged(w.deliver(c, "last"))
		w.wantTotal(w.store.Get(shardsOf(likes) + "/0")["count"].(int64))

		// The pauses start over.
		w.refuse()
		time.Sleep(cadence)
		w.acknowledged(w.deliver(c, "unkept again"))
		time.Sleep(cadence)
		w.looks.Store(0)
		w.acknowledged(w.deliver(c, "a cadence later"))
		if n := w.looks.Load(); n != 1 {
			t.Errorf("%d looks a cadence later, want 1", n)
		}
	})
}

// An event that comes while the look is out that finds the counter unkept is done with, too, like
// the events that come in the pause. Another look for it would find the same.
func TestUnkeptEndsWhatIsOpen(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		w.refuse()
		var late *delivery
		w.duringView = func(int32) {
			w.duringView = nil
			late = w.deliver(c, "late")
		}
		w.acknowledged(w.deliver(c, "early"))
		w.acknowledged(late)
		w.called(1, 1, 1)
	})
}

// A counter that another instance rolls up is not unkept any more: the pauses start over.
func TestUnkeptElsewhereKept(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		fixed := w.refuse()
		for pause := cadence; pause < time.Minute; pause *= 2 {
			w.acknowledged(w.deliver(c, fmt.Sprint("e", pause)))
			time.Sleep(pause)
		}
		fixed()
		w.increment(1)
		w.rollUpElsewhere()

		w.refuse()
		time.Sleep(cadence)
		w.acknowledged(w.deliver(c, "unkept again"))
		time.Sleep(cadence)
		w.looks.Store(0)
		w.acknowledged(w.deliver(c, "a cadence later"))
		if n := w.looks.Load(); n != 1 {
			t.Errorf("%d looks a cadence later, want 1", n)
		}
	})
}

// A machine is suspended while a counter pauses, and its clock stands still. Meanwhile somebody
// fixes the counter. An event whose own times are later than the pause is not acknowledged by it.
func TestUnkeptWhileSuspended(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		fixed := w.refuse()
		w.acknowledged(w.deliver(c, "unkept"))

		w.store.Suspended(time.Minute)
		fixed()
		committed := w.increment(1)
		w.acknowledged(w.deliverEvent(hold, c, rollup.Event{ID: "fixed", UpdateTime: committed}))
		w.wantTotal(1)
	})
}

// A sum that Firestore can never answer makes a counter unkept as well. An error that waiting may
// fix does not.
func TestUnkeptSum(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		c := rollup.NewCoalescer(unsummed{traced{w.store, w}, errFull}, w.options(0))
		ending, err := w.end(c, "e")
		if err != nil || !ending.Unkept {
			t.Errorf("ended %+v, %v", ending, err)
		}
		c = rollup.NewCoalescer(unsummed{traced{w.store, w}, errors.New("unavailable")}, w.options(0))
		if e := w.deliver(c, "f"); !e.held() {
			t.Error("an error that waiting may fix ended the event")
		}
	})
}

// unsummed is a store whose sums fail.
type unsummed struct {
	traced
	err error
}

func (s unsummed) View(ctx context.Context, c route.Counter) (rollup.Snapshot, error) {
	v, err := s.traced.View(ctx, c)
	return failingSum{v, s.err}, err
}

// An unkept counter does not make an audit fail. The audit counts it separately and tries it again
// the next time. The other counters are audited as ever.
func TestAuditOfUnkept(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		fixed := w.refuse()
		w.increment(1)
		for range 2 {
			report, err := rollup.Audit(w.t.Context(), traced{w.store, w}, likes.Template.Routes, w.auditOptions())
			named := len(report.UnkeptCounters) == 1 && strings.Contains(report.UnkeptCounters[0], "rollups/likes: ") && strings.Contains(report.UnkeptCounters[0], "1 MiB")
			if err != nil || report.Unkept != 1 || report.Counters != 0 || !report.Complete || !named {
				t.Errorf("%+v, %v", report, err)
			}
		}
		if n := w.writes.Load(); n != 2 {
			t.Errorf("%d writes in two audits, want one each", n)
		}
		if n := strings.Count(w.log.String(), "counter unkept; no retry can help"); n == 0 {
			t.Errorf("logged %s", &w.log)
		}

		fixed()
		report, err := rollup.Audit(w.t.Context(), traced{w.store, w}, likes.Template.Routes, w.auditOptions())
		if err != nil || report.RolledUp != 1 || report.Unkept != 0 {
			t.Errorf("fixed: %+v, %v", report, err)
		}
		w.wantTotal(1)
	})
}

// Nor is it one of a tick, which visits it once.
func TestKeepOfUnkept(t *testing.T) {
	inWorld(t, func(w *world, _ *rollup.Coalescer) {
		w.refuse()
		w.store.Increment(shardsOf(scheduled)+"/0", "count", 1)
		report, err := w.keep(traced{w.store, w}, time.Now().Add(5*time.Minute), nil)
		if err != nil || report.Unkept != 1 || report.Failed != 0 || len(report.UnkeptCounters) != 1 {
			t.Errorf("%+v, %v", report, err)
		}
		if !strings.Contains(w.log.String(), "counter unkept") {
			t.Errorf("logged:\n%s", &w.log)
		}
		w.called(1, 1, 1)
	})
}

// A counter that was unkept has acknowledged events that no roll-up covers. Once it is fixed, an
// audit repairs it, and does not call that drift. If it has been rolled up since, what it lacks is
// drift as ever.
func TestLapsed(t *testing.T) {
	for _, test := range []struct {
		name   string
		unkept bool          // when the event came
		rolled time.Duration // after the unkept event another instance rolled it up; 0: none did
		fails  bool          // the note
		lapsed int
	}{
		{"fixed", true, 0, false, 1},
		{"never unkept", false, 0, false, 0},
		{"within a pause of the note", true, 59 * time.Second, false, 1},
		{"long after the note", true, 61 * time.Second, false, 0},
		{"not noted", true, 0, true, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, func(w *world, _ *rollup.Coalescer) {
				o := w.options(0)
				store := &savings{AuditStore: traced{w.store, w}}
				c := rollup.NewCoalescer(store, o)
				w.increment(1)
				w.acknowledged(w.deliver(c, "kept"))
				time.Sleep(10 * time.Minute)

				fixed := func() {}
				if test.unkept {
					fixed = w.refuse()
				}
				if test.fails {
					store.err = errors.New("unavailable")
				}
				w.increment(1)
				if test.unkept {
					w.acknowledged(w.deliver(c, "unkept"))
				}
				fixed()
				if test.rolled > 0 {
					time.Sleep(test.rolled)
					w.rollUpElsewhere()
					w.increment(1) // and no event announces it
				}
				time.Sleep(10 * time.Minute)

				report, err := rollup.Audit(w.t.Context(), w.store, likes.Template.Routes, w.patient())
				if err != nil || report.RolledUp != 1 || report.Lapsed != test.lapsed || report.Drift != 1-test.lapsed {
					t.Errorf("%+v: %v; want %d lapsed, and else drift", report, err, test.lapsed)
				}
				if told := strings.Contains(w.log.String(), "lapsed: "); told != (test.lapsed == 1) {
					t.Errorf("logged:\n%s", &w.log)
				}
				if told := strings.Contains(w.log.String(), "was not noted"); told != test.fails {
					t.Errorf("logged:\n%s", &w.log)
				}
			})
		})
	}
}

// unkeptNote is the ID of the note that likes are unkept.
var unkeptNote = "note-unkept-" + document.IDOf(likes.RollUp)

// A note that cannot be read hides no drift.
func TestLapsedNotRead(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		w.increment(1)
		w.acknowledged(w.deliver(c, "e"))
		time.Sleep(time.Minute)
		w.increment(1)
		store := unread{w.store, unkeptNote}
		report, err := rollup.Audit(w.t.Context(), store, likes.Template.Routes, w.patient())
		if err != nil || report.Drift != 1 || !strings.Contains(w.log.String(), "a note was not read") {
			t.Errorf("%+v: %v\n%s", report, err, &w.log)
		}
	})
}

// A note that is never answered costs one time-out: the event of an unkept counter ends all the
// same, and so does an audit.
func TestUnkeptNoteHangs(t *testing.T) {
	inWorld(t, func(w *world, c *rollup.Coalescer) {
		w.increment(1)
		w.acknowledged(w.deliver(c, "kept"))
		time.Sleep(time.Minute)

		w.increment(1)
		fixed := w.refuse()
		o := w.options(0)
		o.Timeout = hold / 2
		c = rollup.NewCoalescer(hanging{traced{w.store, w}, "unkept note", new(atomic.Int32)}, o)
		began := time.Now()
		ending, err := w.end(c, "unkept")
		if took := time.Since(began); err != nil || !ending.Unkept || took != hold/2 {
			t.Errorf("ended %+v, %v after %v, want it unkept after %v", ending, err, took, hold/2)
		}
		fixed()

		ctx, cancel := context.WithTimeout(w.t.Context(), time.Hour)
		defer cancel()
		audit := w.patient()
		audit.Timeout = hold / 2
		began = time.Now()
		report, err := rollup.Audit(ctx, hanging{w.store, "unkept note", new(atomic.Int32)}, likes.Template.Routes, audit)
		if took := time.Since(began); err != nil || report.Drift != 1 || took != audit.Grace+hold/2 {
			t.Errorf("%+v, %v after %v, want drift after the grace and %v", report, err, took, hold/2)
		}
	})
}
