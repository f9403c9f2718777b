package apps

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/cloud/app"
	"github.com/firestore-tally/tally/internal/cloud/billing"
	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestSchedule(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	project := emulatortest.Project(t)
	client, other := emulatortest.ClientDatabase(t, project, "(default)"), emulatortest.ClientDatabase(t, project, "other")
	w := &database{t: t, client: client}
	const counters = 40
	writer := client.BulkWriter(ctx)
	for i := range counters {
		if _, err := writer.Set(client.Doc(fmt.Sprintf("counters/%03d/shards/0", i)), map[string]any{"count": i}); err != nil {
			t.Fatal(err)
		}
	}
	writer.End()
	w.set("posts/p/counters/c/shards/0", map[string]any{"likes": 1})
	(&database{t: t, client: other}).set("counters/c/shards/0", map[string]any{"count": 7})

	type audit struct {
		rollup.Report
		Billed        billing.Counts
		CycleSeconds  *float64 `json:"cycle_seconds"`
		DollarsPerDay *float64 `json:"dollars_per_day"`
	}
	type report struct {
		Databases map[string]audit
		Errors    []string
	}
	var took time.Duration // by the last tick
	tick := func(query string) map[string]audit {
		t.Helper()
		began := time.Now()
		defer func() { took = time.Since(began) }()
		res, err := http.Post(at(scheduled, project)+query, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		var r report
		if err := json.NewDecoder(res.Body).Decode(&r); err != nil || res.StatusCode != http.StatusOK {
			t.Errorf("status %s: %+v, %v", res.Status, r, err)
		}
		return r.Databases
	}
	const end = "at the beginning"
	want := func(query string, first, second rollup.Report) (audit, audit) {
		t.Helper()
		got := tick(query)
		for database, want := range map[string]rollup.Report{"(default)": first, "other": second} {
			want.Complete, want.Cursor = true, end
			if d := cmp.Diff(want, got[database].Report); d != "" {
				t.Errorf("%s: database %s (-want +got):\n%s", query, database, d)
			}
		}
		return got["(default)"], got["other"]
	}
	// billed checks what a tick billed for a database: besides the roll-ups it writes the cursor, at
	// its end and after every five seconds, which only a busy machine needs.
	billed := func(got billing.Counts, reads, rollUps int64) {
		t.Helper()
		mostWrites := rollUps + 1 + int64(took/(5*time.Second))
		if got.Reads != reads || got.Writes <= rollUps || got.Writes > mostWrites || got.Deletes != 0 {
			t.Errorf("billed %+v in %v, want %d reads and at most %d writes", got, took, reads, mostWrites)
		}
	}
	none := func(path string) {
		t.Helper()
		if doc, err := client.Doc(path).Get(ctx); status.Code(err) != codes.NotFound {
			t.Errorf("%s: %v, %v; want no such document", path, doc.Data(), err)
		}
	}

	want("&dry_run=true", rollup.Report{Counters: counters + 1, Differing: counters + 1, Missing: counters + 1}, rollup.Report{Counters: 1, Differing: 1, Missing: 1})
	none("rollups/007")
	none("rollup_audit/cursor")

	first, second := want("", rollup.Report{Counters: counters + 1, RolledUp: counters + 1, Missing: counters + 1}, rollup.Report{Counters: 1, RolledUp: 1, Missing: 1})
	for i := range counters {
		w.wantRollUp(fmt.Sprintf("rollups/%03d", i), count(int64(i), 1))
	}
	w.wantRollUp("posts/p/rollups/c", map[string]any{"likes": int64(1), "views": int64(0), "num_shards": int64(1)})
	(&database{t: t, client: other}).wantRollUp("rollups/c", count(int64(7), 1))
	// the cursor and the notes; two walks that find no roll-up; the counter, the end behind it,
	// twice; its roll-up, again with the sum
	billed(second.Billed, 2+2+3+1+2, 1)
	if first.CycleSeconds != nil || first.DollarsPerDay != nil {
		t.Errorf("the first call says how often it is called: %+v", first)
	}

	drift := func() []string { return logs.lines(`"severity":"ERROR"`, "drift: ", `"counter":"rollups/007"`) }
	before := len(drift())                                     // with -count, the log also has the lines of the test's last run
	w.set("counters/007/shards/1", map[string]any{"count": 1}) // no event comes
	old := tallyOf(t, routes, "rollups/lone", time.Now().Add(-24*time.Hour))
	w.set("rollups/lone", map[string]any{"count": 9, document.TallyField: old})
	w.set("rollups/gone", map[string]any{"count": 0, document.TallyField: old})
	w.set("rollups/app", map[string]any{"count": 0, document.TallyField: old, "title": "x"})
	w.set("counters/008/shards/1", map[string]any{"count": "x"})
	first, second = want("",
		rollup.Report{Counters: counters + 4, RolledUp: 3, Unchanged: counters - 1, Removed: 2, Drift: 2, Orphaned: 1, Malformed: 1},
		rollup.Report{Counters: 1, Unchanged: 1})
	w.wantRollUp("rollups/007", count(int64(8), 2))
	w.wantRollUp("rollups/008", count(int64(8), 2))
	w.wantRollUp("rollups/lone", count(int64(0), 0))
	none("rollups/gone")
	app, err := client.Doc("rollups/app").Get(ctx)
	if err != nil || !cmp.Equal(app.Data(), map[string]any{"title": "x"}) {
		t.Errorf("rollups/app: %v, %v", app.Data(), err)
	}
	// the cursor and the notes; its roll-up found, and its sum; its shards, its roll-up, and the end
	// behind them; no roll-up of the other route, and no shards
	billed(second.Billed, 2+2+3+2, 0)
	for _, a := range []audit{first, second} {
		if a.CycleSeconds == nil || *a.CycleSeconds <= 0 || a.DollarsPerDay == nil || *a.DollarsPerDay <= 0 {
			t.Errorf("how long a cycle takes and what it costs is unknown: %+v", a)
		}
	}
	if lines := drift(); len(lines) != before+1 {
		t.Errorf("drift logged: %v", lines[before:])
	}
}

// A tick stops when it was billed for as many reads as it may be, and the next goes on from there.
func TestScheduleStopsAtItsReads(t *testing.T) {
	t.Parallel()
	project := emulatortest.Project(t)
	const reads, page, all = 200, 100, 120
	w := &database{t: t, client: emulatortest.ClientDatabase(t, project, "(default)")}
	for i := range all {
		w.set(fmt.Sprintf("counters/%03d/shards/0", i), map[string]any{"count": i})
	}
	a := newProcesses(fmt.Sprint("TALLY_AUDIT_READS_PER_TICK=", reads)).of(project)
	rolledUp, ticks := 0, 0
	for complete := false; !complete; ticks++ {
		answer := httptest.NewRecorder()
		a.OnSchedule(answer, httptest.NewRequest(http.MethodPost, "/", nil))
		var report struct {
			Databases map[string]struct {
				rollup.Report
				Billed billing.Counts
			}
		}
		if err := json.Unmarshal(answer.Body.Bytes(), &report); err != nil || answer.Code != http.StatusOK {
			t.Fatalf("status %d: %s: %v", answer.Code, answer.Body, err)
		}
		got := report.Databases["(default)"]
		if got.Billed.Reads > reads+page+32*5 || ticks > all { // the counters of a page, and those that were in work
			t.Fatalf("tick %d was billed %d reads, want hardly more than %d", ticks, got.Billed.Reads, reads)
		}
		rolledUp, complete = rolledUp+got.RolledUp, got.Complete
	}
	if rolledUp != all || ticks < 3 {
		t.Errorf("%d counters were rolled up in %d ticks, want %d in several", rolledUp, ticks, all)
	}
}

// The report's bill is for both kinds of work: of routes that say "every", and of the others.
func TestScheduleBillsAll(t *testing.T) {
	t.Parallel()
	project := emulatortest.Project(t)
	const each = 10
	w := &database{t: t, client: emulatortest.ClientDatabase(t, project, "(default)")}
	for i := range each {
		w.set(fmt.Sprintf("counters/%d/shards/0", i), map[string]any{"count": i})
		w.set(fmt.Sprintf("daily/%d/shards/0", i), map[string]any{"count": i})
	}
	a := newProcesses("TALLY_ROUTES=" + route.Default + "; daily/{c}/shards/{s} -> daily_rollups/{c} : count : every 24h").of(project)

	answer := httptest.NewRecorder()
	a.OnSchedule(answer, httptest.NewRequest(http.MethodPost, "/", nil))
	var report struct{ Databases map[string]tickReport }
	err := json.Unmarshal(answer.Body.Bytes(), &report)
	if err != nil || answer.Code != http.StatusOK {
		t.Fatalf("status %d: %s: %v", answer.Code, answer.Body, err)
	}
	got := report.Databases["(default)"]
	if got.RolledUp != each || got.Every.RolledUp != each || got.Billed.Writes < 2*each {
		t.Errorf("%d and %d rolled up, and %+v billed; want %d each, and a write for each", got.RolledUp, got.Every.RolledUp, got.Billed, each)
	}
}

// Two calls at once, of which Cloud Scheduler makes no secret.
func TestScheduleOverlaps(t *testing.T) {
	t.Parallel()
	project := emulatortest.Project(t)
	a := app.New(func() []string {
		return []string{"GOOGLE_CLOUD_PROJECT=" + project, firestorestore.EmulatorHost + "=" + emulatortest.Addr(t), "TALLY_AUDIT_READS_PER_TICK=200"}
	}, &logs)
	w := &database{t: t, client: emulatortest.ClientDatabase(t, project, "(default)")}
	const counters = 60
	for i := range counters {
		w.set(fmt.Sprintf("counters/%02d/shards/0", i), map[string]any{"count": i})
	}
	for range 4 { // 200 reads are not enough for all
		var calls sync.WaitGroup
		for range 3 {
			calls.Go(func() {
				answer := httptest.NewRecorder()
				a.OnSchedule(answer, httptest.NewRequest(http.MethodPost, "/", nil))
				if answer.Code != http.StatusOK {
					t.Errorf("status %d: %s", answer.Code, answer.Body)
				}
			})
		}
		calls.Wait()
	}
	for i := range counters {
		w.wantRollUp(fmt.Sprintf("rollups/%02d", i), count(int64(i), 1))
	}
}
