//go:build unix

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/cloud/app"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

// On a stand-in for a database of the Enterprise edition, likes, karma, orders by shop and day,
// members who leave a window, and counters of the schedule are exact. No query scans, and the
// indexes are listed once.
func TestEnterprise(t *testing.T) {
	t.Parallel()
	const routes = `posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing;
		posts/{post} by author -> users/{author} : sum(likes) as karma : existing;
		orders/{order} by shop, day(at) -> shops/{shop}/days/{day} : count() as orders, sum(amount) where paid == true as revenue : within shops/{shop};
		rooms/{room}/members/{user} -> rooms/{room} : count() as members, count() where seen > now - 1m as online : existing;
		counters/{counter}/shards/{shard} -> rollups/{counter} : count : every 1s`
	parsed, err := route.Parse(routes)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, options{routes: routes, queued: true})
	database := emulatortest.NewEnterprise(parsed.Indexes(route.Enterprise))
	environ := append(w.environ(routes, w.addr), w.alarms...)
	environ = append(environ, "TALLY_EDITION=enterprise", "TALLY_SCHEDULE_PERIOD=3s")
	functions := app.New(func() []string { return environ }, io.Discard, database.DialOptions()...)
	server := httptest.NewServer(http.HandlerFunc(functions.OnWrite))
	t.Cleanup(server.Close)
	w.relay.SetTargets([]string{server.URL})
	w.queue.SetTargets([]string{server.URL})

	put := func(path string, fields map[string]any) {
		t.Helper()
		if _, err := w.client.Doc(path).Set(w.ctx, fields, firestore.MergeAll); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"users/ann", "users/bob", "shops/a", "shops/b", "rooms/x"} {
		put(path, map[string]any{"name": path})
	}
	for n, author := range []string{"ann", "bob", "ann"} {
		put(fmt.Sprint("posts/", n), map[string]any{"author": author})
	}
	began := time.Now()
	for n := range 12 {
		put(fmt.Sprintf("posts/%d/likes/u%d", n%3, n), map[string]any{"at": began})
		put(fmt.Sprint("orders/", n), map[string]any{
			"shop": []string{"a", "b"}[n%2], "at": time.Date(2026, 11, 28+n%3, 12, 0, 0, 0, time.UTC), "amount": n, "paid": n%4 < 2,
		})
		put(fmt.Sprint("counters/c/shards/", n%4), map[string]any{"count": firestore.Increment(n)})
	}
	for n := range 3 { // the first two leave soon
		put(fmt.Sprint("rooms/x/members/", n), map[string]any{"seen": began.Add([]time.Duration{-50, -45, 3000}[n] * time.Second)})
	}
	if _, err := w.client.Doc("posts/0/likes/u0").Delete(w.ctx); err != nil {
		t.Fatal(err)
	}

	want := map[string]map[string]any{
		"posts/0":                 {"likes": int64(3)},
		"posts/1":                 {"likes": int64(4)},
		"posts/2":                 {"likes": int64(4)},
		"users/ann":               {"karma": int64(7)},
		"users/bob":               {"karma": int64(4)},
		"shops/a/days/2026-11-28": {"orders": int64(2), "revenue": int64(0)},
		"shops/a/days/2026-11-29": {"orders": int64(2), "revenue": int64(4)},
		"shops/a/days/2026-11-30": {"orders": int64(2), "revenue": int64(8)},
		"shops/b/days/2026-11-28": {"orders": int64(2), "revenue": int64(9)},
		"shops/b/days/2026-11-29": {"orders": int64(2), "revenue": int64(1)},
		"shops/b/days/2026-11-30": {"orders": int64(2), "revenue": int64(5)},
		"rooms/x":                 {"members": int64(3), "online": int64(1)},
	}
	await := func() {
		t.Helper()
		deadline := time.Now().Add(2 * time.Minute)
		for path, totals := range want {
			for {
				doc, err := w.client.Doc(path).Get(w.ctx)
				got := make(map[string]any)
				for name := range totals {
					if doc != nil && doc.Exists() {
						got[name] = doc.Data()[name]
					}
				}
				if reflect.DeepEqual(got, totals) {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("%s holds %v, want %v; %v", path, got, totals, err)
				}
				w.pass(cadence)
			}
		}
	}
	await()

	answer := httptest.NewRecorder()
	functions.OnSchedule(answer, httptest.NewRequestWithContext(w.ctx, http.MethodPost, "/", nil))
	var report struct{ Databases map[string]rollup.Report }
	if err := json.Unmarshal(answer.Body.Bytes(), &report); err != nil {
		t.Fatal(err)
	}
	audit := report.Databases[firestore.DefaultDatabaseID]
	if answer.Code != http.StatusOK || !audit.Complete || audit.Drift+audit.RolledUp+audit.Failed > 0 {
		t.Errorf("the schedule answered %d: %s", answer.Code, answer.Body)
	}
	want["rollups/c"] = map[string]any{"count": int64(66)}
	await()

	if scans := database.Scans(); len(scans) > 0 {
		t.Errorf("scanned for want of %v", scans)
	}
	if lists := database.Lists(); lists != 1 {
		t.Errorf("the indexes were listed %d times, want once", lists)
	}
}
