package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/firestore-tally/tally/internal/cloud/billing"
	"github.com/firestore-tally/tally/internal/cloud/config"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// A dry run changes nothing, whatever there is to do.
func TestDryRun(t *testing.T) {
	w := newWorld(t, "TALLY_ROUTES=counters/{c}/shards/{s} -> rollups/{c} : count; hot/{c}/shards/{s} -> hot_rollups/{c} : count : every 1s", "TALLY_SCHEDULE_PERIOD=10s")
	s := w.stores["(default)"]
	w.run(func() {
		old := document.Tally{AsOf: time.Now().Add(-2 * time.Hour), Routes: "other", Totals: []string{"count"}}
		s.Put("counters/c/shards/0", map[string]any{"count": int64(3)})
		s.Put("hot/h/shards/0", map[string]any{"count": int64(4)})
		s.Put("rollups/lone", map[string]any{"count": int64(7), document.TallyField: old.Encode()})
		report, status, _ := w.tick("?dry_run=true")
		if got := report.Databases["(default)"]; status != 200 || got.Differing != 3 || got.Counters != 3 || got.Every != nil || !report.DryRun {
			w.t.Errorf("status %d: %+v, want 3 that differ", status, got)
		}
		if len(s.wrote) != 0 || s.saved != 0 {
			w.t.Errorf("it wrote %v and %d cursors", s.wrote, s.saved)
		}
		report, status, _ = w.tick("")
		if got := report.Databases["(default)"]; status != 200 || got.RolledUp != 2 || got.Every == nil || got.Every.RolledUp != 1 || s.saved == 0 {
			w.t.Errorf("status %d: %+v, %+v; want 2 and 1 rolled up, and the cursor", status, got, got.Every)
		}
	})
}

// A tick that rolls up a counter with a window makes the alarm that it needs.
func TestTickMakesAlarms(t *testing.T) {
	made, variables := newQueue(t)
	w := newWorld(t, append(variables, "TALLY_ROUTES=posts/{p}/visits/{v} -> lately/{p} : count() where at > now - 24h as visits")...)
	s := w.stores["(default)"]
	s.Put("posts/a/visits/1", map[string]any{"at": time.Now().UTC().Truncate(time.Microsecond)})
	report, status, _ := w.tick("")
	if got := report.Databases["(default)"]; status != 200 || got.RolledUp != 1 {
		t.Errorf("status %d: %+v; the log:\n%s", status, got, &w.log)
	}

	rings := document.DecodeTally(s.Get("lately/a")["tally"]).Rings
	if len(made()) != 1 || rings.IsZero() || !strings.Contains(made()[0], `"rollUp":"lately/a"`) {
		t.Errorf("made %v, and the roll-up says %v", made(), rings)
	}
}

// A database that fails, in whatever way, keeps the tick from no other.
func TestFirstDatabaseFails(t *testing.T) {
	broken := errors.New("broken")
	for name, fail := range map[string]func(*world, *service){
		"does not open": func(w *world, s *service) {
			open := s.open
			s.open = func(ctx context.Context, id string) (documentStore, error) {
				if id == "(default)" {
					return nil, broken
				}
				return open(ctx, id)
			}
		},
		"does not list": func(w *world, _ *service) { w.stores["(default)"].lister = broken },
		"does not look": func(w *world, _ *service) {
			w.stores["(default)"].view = func(context.Context, route.Counter, int) error { return broken }
		},
	} {
		w := newWorld(t, "TALLY_DATABASES=(default),other",
			"TALLY_ROUTES=counters/{c}/shards/{s} -> rollups/{c} : count; hot/{c}/shards/{s} -> hot_rollups/{c} : count : every 1s", "TALLY_SCHEDULE_PERIOD=2s")
		s, _ := w.setup()
		fail(w, s)
		w.run(func() {
			for _, s := range w.stores {
				s.Put("counters/c/shards/0", map[string]any{"count": int64(3)})
				s.Put("hot/h/shards/0", map[string]any{"count": int64(4)})
			}
			report, status, _ := w.tick("")
			if status != http.StatusInternalServerError || len(report.Errors) == 0 || !strings.Contains(strings.Join(report.Errors, ""), "database (default)") {
				w.t.Errorf("%s: status %d, errors %q; want 500, and the database named", name, status, report.Errors)
			}
			w.stores["other"].wantCount("rollups/c", 3)
			w.stores["other"].wantCount("hot_rollups/h", 4)
			if got := report.Databases["other"]; got.RolledUp != 1 || got.Every == nil || got.Every.RolledUp != 1 || !got.Complete {
				w.t.Errorf("%s: %+v, want the other database audited and kept", name, got)
			}
			if got := report.Databases["(default)"]; got.Complete && name != "does not look" {
				w.t.Errorf("%s: called complete: %+v", name, got)
			}
		})
		if len(w.log.lines(`"severity":"ERROR"`, `"database":"(default)"`)) == 0 || len(w.log.lines(`"severity":"ERROR"`, `"database":"other"`)) != 0 {
			t.Errorf("%s: the log:\n%s", name, &w.log)
		}
	}
}

// What lasts until someone fixes it is logged at most once in ten minutes for each counter,
// whichever work of the process meets it: events, audits, or ticks that keep routes. Each report
// counts it.
func TestLastingFaultsAreLoggedOnce(t *testing.T) {
	w := newWorld(t, "TALLY_SCHEDULE_PERIOD=1m", "FIRESTORE_EMULATOR_HOST=localhost:1", // where each tick is a cycle
		"TALLY_ROUTES=counters/{c}/shards/{s} -> rollups/{c} : count; hot/{c}/shards/{s} -> hot_rollups/{c} : count : every 10s")
	s := w.stores["(default)"]
	s.write = func(_ context.Context, n int) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if strings.HasSuffix(s.wrote[n-1].counter, "/full") {
			return fmt.Errorf("%w: the document has 1 MiB", rollup.ErrUnkept)
		}
		return nil
	}

	w.run(func() {
		for _, collection := range []string{"counters", "hot"} {
			s.Put(collection+"/full/shards/0", map[string]any{"count": int64(1)})
			s.Put(collection+"/text/shards/0", map[string]any{"count": "x"})
		}
		w.deliver(event(w.t, "full", project, "(default)", "counters/full/shards/0"))
		w.deliver(event(w.t, "text", project, "(default)", "counters/text/shards/0"))

		for began := time.Now(); time.Since(began) < 55*time.Minute; time.Sleep(time.Minute - time.Since(began)%time.Minute) {
			report, status, _ := w.tick("")
			got := report.Databases["(default)"]
			if status != 200 || got.Unkept != 1 || got.Malformed != 1 || got.Every.Unkept != 1 || got.Every.Malformed != 1 {
				w.t.Fatalf("after %v: status %d: %+v, %+v; want each counted", time.Since(began), status, got, got.Every)
			}
		}
	})

	for _, want := range [][]string{
		{"counter unkept", `"rollups/full"`}, {"counter unkept", `"hot_rollups/full"`},
		{"left out of the sum", `"rollups/text"`}, {"left out of the sum", `"hot_rollups/text"`},
	} {
		// The tick after ten minutes comes a little before or after their end.
		if lines := w.log.lines(want...); len(lines) < 5 || len(lines) > 6 {
			t.Errorf("%v: %d lines in 55 minutes, want 5 or 6", want, len(lines))
		}
	}
}

// slow has each look of a counter take that long.
func (s *store) slow(prefix string, d time.Duration) {
	s.view = func(ctx context.Context, c route.Counter, _ int) error {
		if !strings.HasPrefix(c.RollUp, prefix) {
			return nil
		}
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// A tick begins nothing more when three quarters of the function's timeout are over, so that its
// cursor is saved and its report sent before the function is ended. Its databases share the time.
func TestTickEndsInTime(t *testing.T) {
	w := newWorld(t, "CLOUD_RUN_TIMEOUT_SECONDS=40", "TALLY_DATABASES=(default),other")
	w.run(func() {
		const counters = 1200 // which take 38 s in each database
		for _, s := range w.stores {
			s.slow("", time.Second)
			for i := range counters {
				s.Put(fmt.Sprintf("counters/%04d/shards/0", i), map[string]any{"count": int64(1)})
			}
		}
		report, status, after := w.tick("")
		if status != 200 || after < 29*time.Second || after > 32*time.Second {
			w.t.Errorf("status %d after %v, want 200 after three quarters of 40 s", status, after)
		}
		for id, r := range report.Databases {
			if r.Complete || r.Counters < 10*config.AuditConcurrency || r.Counters > 16*config.AuditConcurrency || w.stores[id].saved == 0 {
				w.t.Errorf("%s: %+v, want half of the time's counters", id, r)
			}
		}
	})
}

// Routes that say "every" are kept until the next tick is due, next to the audit, which ends then
// too.
func TestEveryNextToAudit(t *testing.T) {
	w := newWorld(t, "CLOUD_RUN_TIMEOUT_SECONDS=540", "TALLY_SCHEDULE_PERIOD=40s",
		"TALLY_ROUTES=counters/{c}/shards/{s} -> rollups/{c} : count; hot/{c}/shards/{s} -> hot_rollups/{c} : count : every 1s; warm/{c}/shards/{s} -> warm_rollups/{c} : count : every 10s")
	s := w.stores["(default)"]
	w.run(func() {
		const counters = 2000 // whose audit takes more than a minute
		s.slow("rollups/", time.Second)
		for i := range counters {
			s.Put(fmt.Sprintf("counters/%04d/shards/0", i), map[string]any{"count": int64(1)})
		}
		s.Put("hot/h/shards/0", map[string]any{"count": int64(0)})
		s.Put("warm/w/shards/0", map[string]any{"count": int64(0)})
		began := time.Now()
		load, stop := context.WithCancel(w.t.Context())
		var clients sync.WaitGroup
		clients.Go(func() {
			for load.Err() == nil {
				s.Increment("hot/h/shards/0", "count", 1)
				s.Increment("warm/w/shards/0", "count", 1)
				time.Sleep(100 * time.Millisecond)
			}
		})
		report, status, after := w.tick("")
		stop()
		clients.Wait()
		if status != 200 || after < 38*time.Second || after > 42*time.Second {
			w.t.Errorf("status %d after %v, want 200 when the next tick is due", status, after)
		}
		got := report.Databases["(default)"]
		if n := len(calls(s.wrote, "hot_rollups/h")); n < 38 || n > 41 {
			w.t.Errorf("the counter of every 1s was rolled up %d times in 40 s", n)
		}
		if n := len(calls(s.wrote, "warm_rollups/w")); n < 4 || n > 5 {
			w.t.Errorf("the counter of every 10s was rolled up %d times in 40 s", n)
		}
		if got.Every == nil || got.Every.Counters != 2 || got.Every.RolledUp != len(calls(s.wrote, "hot_rollups/h"))+len(calls(s.wrote, "warm_rollups/w")) {
			w.t.Errorf("reported %+v", got.Every)
		}
		var last time.Duration
		for _, l := range s.looks {
			if strings.HasPrefix(l.counter, "rollups/") {
				last = max(last, l.at.Sub(began))
			}
		}
		if last < 36*time.Second || last > 41*time.Second || got.Complete || got.Counters < 30*config.AuditConcurrency {
			w.t.Errorf("the audit's last look began after %v, and it compared %d counters; want it at work for 40 s", last, got.Counters)
		}
	})
}

// A period that is longer than the function's timeout ends with that.
func TestEveryEndsWithTheFunction(t *testing.T) {
	w := newWorld(t, "CLOUD_RUN_TIMEOUT_SECONDS=40", "TALLY_ROUTES=hot/{c}/shards/{s} -> hot_rollups/{c} : count : every 1s")
	w.run(func() {
		w.stores["(default)"].Put("hot/h/shards/0", map[string]any{"count": int64(0)})
		if _, status, after := w.tick(""); status != 200 || after < 28*time.Second || after > 31*time.Second {
			w.t.Errorf("status %d after %v, want 200 after three quarters of 40 s", status, after)
		}
	})
}

// A difference is left to the event that may be on its way: one cadence, two holds and 15 s.
func TestTickLeavesAGrace(t *testing.T) {
	w := newWorld(t, "CLOUD_RUN_TIMEOUT_SECONDS=540")
	s := w.stores["(default)"]
	w.run(func() {
		s.Put("counters/c/shards/0", map[string]any{"count": int64(3)})
		w.tick("")
		s.Increment("counters/c/shards/0", "count", 1) // no event comes
		report, _, after := w.tick("")
		if got := report.Databases["(default)"]; got.Drift != 1 || got.RolledUp != 1 || after.Round(time.Second) != 32*time.Second {
			w.t.Errorf("%+v after %v, want one drift after 32 s", got, after)
		}
		s.wantCount("rollups/c", 4)
	})
}

// No event waits for a tick's calls, so they may take up to 45 s, but not more than a quarter of
// the function's timeout, which is what is left when the tick begins nothing more.
func TestTicksLooksMayTakeLong(t *testing.T) {
	for _, test := range []struct {
		timeout string
		limit   time.Duration
	}{{"540", 45 * time.Second}, {"80", 20 * time.Second}, {"0", 45 * time.Second}} {
		w := newWorld(t, "CLOUD_RUN_TIMEOUT_SECONDS="+test.timeout, "TALLY_SCHEDULE_PERIOD=100s",
			"TALLY_ROUTES=counters/{c}/shards/{s} -> rollups/{c} : count; hot/{c}/shards/{s} -> hot_rollups/{c} : count : every 1s")
		s := w.stores["(default)"]
		w.run(func() {
			s.Put("counters/c/shards/0", map[string]any{"count": int64(3)})
			s.Put("hot/h/shards/0", map[string]any{"count": int64(4)})
			s.slow("", test.limit-time.Millisecond)
			if report, status, _ := w.tick(""); status != 200 {
				w.t.Errorf("timeout %s: status %d, %q; want a look of almost %v to be in time", test.timeout, status, report.Errors, test.limit)
			}
			s.wantCount("rollups/c", 3)
			s.wantCount("hot_rollups/h", 4)
			// The first look of each counter hangs. The second says how long that was waited for.
			s.looks = nil
			s.Increment("counters/c/shards/0", "count", 1)
			s.view = func(ctx context.Context, _ route.Counter, n int) error {
				if n <= 2 {
					return hang(ctx)
				}
				return nil
			}
			_, _, _ = w.tick("")
			for _, counter := range []string{"rollups/c", "hot_rollups/h"} {
				looks := calls(s.looks, counter)
				if len(looks) < 2 || looks[1].at.Sub(looks[0].at).Round(time.Second) != test.limit {
					w.t.Errorf("timeout %s: looks at %s: %v, want the second %v after the first", test.timeout, counter, looks, test.limit)
				}
			}
		})
	}
}

// The report has the keys that docs/config.md lists.
func TestReportIsDocumented(t *testing.T) {
	w := newWorld(t, "TALLY_ROUTES=hot/{c}/shards/{s} -> hot_rollups/{c} : count : every 1s", "TALLY_SCHEDULE_PERIOD=1ms")
	var answer httptest.ResponseRecorder
	w.run(func() {
		answer = *httptest.NewRecorder()
		w.OnSchedule(&answer, httptest.NewRequest(http.MethodPost, "/", nil))
	})
	var report struct {
		Databases map[string]map[string]any `json:"databases"`
	}
	if err := json.Unmarshal(answer.Body.Bytes(), &report); err != nil {
		t.Fatal(err)
	}
	got := slices.Sorted(maps.Keys(report.Databases["(default)"]))
	if d := cmp.Diff(documentedKeys(t), got); d != "" {
		t.Errorf("docs/config.md (-documented +reported):\n%s", d)
	}
}

// documentedKeys returns, sorted, the keys of a database's report that docs/config.md lists. Errors
// are there only if there are any.
func documentedKeys(t *testing.T) (keys []string) {
	t.Helper()
	page, err := os.ReadFile("../../../docs/config.md")
	if err != nil {
		t.Fatal(err)
	}
	_, audit, ok := strings.Cut(string(page), "\n## Audit\n")
	if !ok {
		t.Fatal("docs/config.md has no section on the audit")
	}
	for line := range strings.Lines(audit) {
		if cells := strings.Split(line, "|"); len(cells) == 4 && strings.HasPrefix(cells[1], " `") {
			for key := range strings.SplitSeq(cells[1], ",") {
				key = strings.Trim(key, " `")
				if optional := key == "errors" || key == "unkept_counters"; !optional {
					keys = append(keys, key)
				}
			}
		}
	}
	slices.Sort(keys)
	return keys
}

// CheckGrace says what the tick does: the first of its databases has the least time.
func TestCheckGrace(t *testing.T) {
	for limit, reports := range map[string]bool{"8s": true, "10s": false} {
		var ids []string
		for i := range 9 {
			ids = append(ids, fmt.Sprintf("data-%d", i))
		}
		w := newWorld(t, "TALLY_HOLD_LIMIT="+limit, "TALLY_DATABASES="+strings.Join(ids, ","))
		service, err := w.setup()
		if err != nil {
			t.Fatal(err)
		}
		if err := service.config.CheckGrace(); reports != (err == nil) || err != nil && !strings.Contains(err.Error(), "9 databases share the 10m15s") {
			t.Errorf("hold limit %s: %v", limit, err)
		}
		w.run(func() {
			s := w.stores[ids[0]]
			s.Put("counters/c/shards/0", map[string]any{"count": int64(3)})
			w.tick("")
			s.Increment("counters/c/shards/0", "count", 1) // no event comes
			report, _, _ := w.tick("")
			if got := report.Databases[ids[0]]; got.RolledUp != 1 || (got.Drift == 1) != reports {
				w.t.Errorf("hold limit %s: %+v, want drift: %t", limit, got, reports)
			}
		})
	}
}

// Each of a tick's two kinds of work has its own bound of reads.
func TestReadsOfATick(t *testing.T) {
	w := newWorld(t, "TALLY_KEEP_READS_PER_TICK=70000", "TALLY_AUDIT_READS_PER_TICK=4000")
	s, err := w.setup()
	if err != nil {
		t.Fatal(err)
	}
	d, err := s.database(t.Context(), "(default)")
	if err != nil {
		t.Fatal(err)
	}
	o := s.newTick(time.Now(), false).keepOptions(billing.Context(t.Context(), billing.NewMeter(nil)), d)
	if o.MaxReads != 70000 || o.Reads() != 0 {
		t.Errorf("keeping may read %d and has read %d, want 70000 and 0", o.MaxReads, o.Reads())
	}
}

// The tick's price is that of both kinds of its work.
func TestTickBillsBothKinds(t *testing.T) {
	w := newWorld(t, "TALLY_ROUTES=counters/{c}/shards/{s} -> rollups/{c} : count; hot/{c}/shards/{s} -> hot_rollups/{c} : count : every 1s", "TALLY_SCHEDULE_PERIOD=2s")
	s := w.stores["(default)"]
	bill := billedLooks(t)
	s.view = func(ctx context.Context, _ route.Counter, _ int) error { return bill(ctx) }
	w.run(func() {
		s.Put("counters/c/shards/0", map[string]any{"count": int64(3)})
		s.Put("hot/h/shards/0", map[string]any{"count": int64(4)})
		report, _, _ := w.tick("")
		audited, kept := len(calls(s.looks, "rollups/c")), len(calls(s.looks, "hot_rollups/h"))
		if got := report.Databases["(default)"].Billed.Reads; audited == 0 || kept == 0 || got != int64(audited+kept) {
			w.t.Errorf("billed %d reads for %d looks of the audit and %d of keeping", got, audited, kept)
		}
	})
}

// billedLooks returns a function that adds one read to the meter of its context, as a call of
// Firestore's would. No call leaves the process.
func billedLooks(t *testing.T) func(context.Context) error {
	t.Helper()
	answer := func(context.Context, string, any, any, *grpc.ClientConn, grpc.UnaryInvoker, ...grpc.CallOption) error {
		return nil
	}
	options := append(billing.NewMeter(nil).DialOptions(), grpc.WithChainUnaryInterceptor(answer), grpc.WithTransportCredentials(insecure.NewCredentials()))
	conn, err := grpc.NewClient("passthrough:nowhere", options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return func(ctx context.Context) error {
		return conn.Invoke(ctx, firestorepb.Firestore_ListDocuments_FullMethodName, new(firestorepb.ListDocumentsRequest), new(firestorepb.ListDocumentsResponse))
	}
}

// A tick asks the queue for its state. After a purge, the alarms of windows are made again. A queue
// that does not answer does not count as a failure.
func TestPurgedQueue(t *testing.T) {
	var purged atomic.Value
	purged.Store("")
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			asked++
			_, _ = w.Write([]byte(purged.Load().(string)))
			return
		}
		_, _ = w.Write([]byte("{}"))
	}))
	t.Cleanup(server.Close)
	w := newWorld(t, "TALLY_QUEUE=projects/"+project+"/locations/local/queues/tally", "TALLY_QUEUE_URL=http://functions/",
		"CLOUD_TASKS_EMULATOR_HOST="+strings.TrimPrefix(server.URL, "http://"),
		"TALLY_ROUTES=posts/{post}/visits/{v} -> lately/{post} : count() where at > now - 24h as lately")
	s := w.stores["(default)"]
	s.Put("posts/a/visits/1", map[string]any{"at": time.Now().Truncate(time.Microsecond)})

	if _, status, _ := w.tick(""); status != 200 || asked != 1 {
		t.Errorf("status %d, asked %d times; want 200 and once, whatever the queue says", status, asked)
	}
	if got := s.Get("lately/a")["lately"]; got != int64(1) { // a tick has alarms, or it could not write this
		t.Errorf("the counter holds %v", got)
	}
	if _, status, _ := w.tick("?dry_run=true"); status != 200 || asked != 1 {
		t.Errorf("a dry run: status %d, asked %d times", status, asked)
	}
	purged.Store(`{"state": "RUNNING", "purgeTime": "` + time.Now().Add(time.Minute).UTC().Format(time.RFC3339) + `"}`)
	report, status, _ := w.tick("")
	if got := report.Databases["(default)"]; status != 200 || got.Late != 1 {
		t.Errorf("after a purge: status %d, %+v; want the alarm made again", status, got)
	}
}
