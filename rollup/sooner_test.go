package rollup_test

import (
	"strings"
	"testing"
	"time"

	"github.com/firestore-tally/tally/rollup"
)

// A like's time is moved back, and the event is lost. The like leaves sooner than the alarm rings
// that stands. An audit that comes before makes the alarm, and the likes leave in time. An audit
// that comes after repairs the totals.
func TestAuditOfASoonerLeaving(t *testing.T) {
	ahead := func(w *world, by time.Duration) {
		w.visit("u", w.store.Now().Add(by-time.Minute))
	}
	for name, test := range map[string]struct {
		prepare func(w *world, a *alarmed)
		change  func(o *rollup.AuditOptions)
		want    rollup.Report
		lately  int64 // after the audit
		alarms  int   // that the audit makes
		logs    string
	}{
		"it has not left": {func(w *world, _ *alarmed) { ahead(w, 10*time.Minute) },
			nil, rollup.Report{RolledUp: 1}, 1, 1, "sooner: a document leaves before the alarm rings"},
		"it has left": {func(w *world, _ *alarmed) {
			ahead(w, time.Second)
			time.Sleep(time.Minute)
		}, nil, rollup.Report{RolledUp: 1, Late: 1}, 0, 0, "left late"},
		"its event is on its way": {func(w *world, a *alarmed) {
			ahead(w, 10*time.Minute)
			go func() {
				time.Sleep(2 * time.Second)
				_, _ = w.happens(w.alarmedInstance(a, 0), "moved", trending)
			}()
		}, nil, rollup.Report{Unchanged: 1}, 1, 0, ""},
		"the audit has no time for the grace": {func(w *world, _ *alarmed) { ahead(w, 10*time.Minute) },
			func(o *rollup.AuditOptions) { o.Grace = 0 }, rollup.Report{RolledUp: 1}, 1, 1, "sooner"},
		"a dry run": {func(w *world, _ *alarmed) { ahead(w, 10*time.Minute) },
			func(o *rollup.AuditOptions) { o.DryRun = true }, rollup.Report{Differing: 1}, 1, 0, "sooner"},
		"it leaves as soon as the alarm is rounded": {func(w *world, _ *alarmed) {
			ahead(w, 20*time.Hour-2*time.Second)
		}, nil, rollup.Report{Unchanged: 1}, 1, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inAlarmedWorld(t, func(w *world, c *rollup.Coalescer, a *alarmed) {
				w.store.Put("posts/a", nil)
				ahead(w, 20*time.Hour)
				_, err := w.happens(c, "u", trending)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)

				test.prepare(w, a)
				byAudit := new(alarmed)
				got, want := w.auditWindows(byAudit, test.change), test.want
				if got.RolledUp != want.RolledUp || got.Unchanged != want.Unchanged || got.Differing != want.Differing || got.Late != want.Late || got.Drift != want.Drift {
					t.Errorf("got %+v", got)
				}
				tally := w.wantTrending(1, test.lately)
				if len(byAudit.made) != test.alarms {
					t.Fatalf("the audit made %d alarms, want %d", len(byAudit.made), test.alarms)
				}
				if test.alarms > 0 && !byAudit.last().At.Equal(tally.Rings) {
					t.Errorf("the alarm rings at %v, the roll-up says %v", byAudit.last().At, tally.Rings)
				}
				if !strings.Contains(w.log.String(), test.logs) || test.logs == "" && strings.Contains(w.log.String(), "sooner") {
					t.Errorf("logged:\n%s", &w.log)
				}
			})
		})
	}
}

// A like that is dated years ahead has no alarm. When it has come nearer, an audit makes one, and
// does not call the counter late.
func TestAuditOfALikeFarAhead(t *testing.T) {
	inAlarmedWorld(t, func(w *world, c *rollup.Coalescer, a *alarmed) {
		const day = 24 * time.Hour
		w.store.Put("posts/a", nil)
		w.visit("u", w.store.Now().Add(900*day))
		_, err := w.happens(c, "u", trending)
		if err != nil {
			t.Fatal(err)
		}

		time.Sleep(day)
		r := w.auditWindows(a, nil)
		if r.Unchanged != 1 || r.Late != 0 || len(a.made) != 0 {
			t.Errorf("899 days ahead: %+v, %d alarms", r, len(a.made))
		}

		time.Sleep(120 * day)
		r = w.auditWindows(a, nil)
		if r.RolledUp != 1 || r.Late != 0 || r.Drift != 0 || len(a.made) != 1 {
			t.Errorf("779 days ahead: %+v, %d alarms", r, len(a.made))
		}
	})
}
