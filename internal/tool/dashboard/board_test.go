package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/cloud/billing"
	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/internal/value"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/googleapis/gax-go/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestMain(m *testing.M) { emulatortest.Main(m) }

const testRoutes = route.Default + `
posts/{post}/counters/{name}/shards/{shard} -> posts/{post}/likes/{name} : likes, views
samples/php/distributedCounters/{shard} -> php_rollups/total : Cnt`

// A world is a board on a database of its own.
type world struct {
	t       *testing.T
	board   *Board
	project string
	client  *firestore.Client // not the board's
	listens bool              // as on a real project
	routes  string
	url     string
	stop    func() // ends the board and waits for its end
	reports func() []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	project := emulatortest.Project(t)
	return &world{t: t, board: New(), project: project, routes: testRoutes, client: emulatortest.ClientDatabase(t, project, firestore.DefaultDatabaseID)}
}

// everyWay runs a test on a board that polls, as of an emulator, and on one that listens.
func everyWay(t *testing.T, test func(*testing.T, *world)) {
	t.Parallel()
	for _, listens := range []bool{false, true} {
		t.Run(fmt.Sprintf("listens=%v", listens), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.listens = listens
			test(t, w)
		})
	}
}

// run runs the board. Its connection has the further dial options.
func (w *world) run(dial ...grpc.DialOption) {
	t := w.t
	t.Helper()
	routes, err := route.Parse(w.routes)
	if err != nil {
		t.Fatal(err)
	}
	client, err := firestorestore.Dial(t.Context(), emulatortest.Addr(t), w.project, firestore.DefaultDatabaseID, append(w.board.DialOptions(), dial...)...)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.url = "http://" + l.Addr().String()
	emulator := emulatortest.Addr(t)
	if w.listens {
		emulator = ""
	}
	var mu sync.Mutex
	var reports []string
	w.reports = func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(reports)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- w.board.Run(ctx, l, Options{
			Project: w.project, Databases: []Database{{ID: "(default)", Client: client}}, Emulator: emulator, Routes: routes, Cadence: time.Second,
			Name: func(c route.Counter) string { return c.RollUp },
			Due:  func(_ *route.Template, tally document.Tally) time.Time { return tally.PacedUntil },
			Functions: func() (Functions, error) {
				return Functions{Used: billing.Usage{Counts: billing.Counts{Reads: 100_000, Writes: 200_000}}, Events: 7, Waiting: 2, Redelivered: 1}, nil
			},
			Report: func(err error) error {
				mu.Lock()
				defer mu.Unlock()
				reports = append(reports, err.Error())
				return fmt.Errorf("%w\nremedy", err)
			},
		})
	}()
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(w.stop)
}

// rollUp writes a roll-up document.
func (w *world) rollUp(path string, asOf time.Time, numShards int, totals map[string]any) {
	w.t.Helper()
	fields := map[string]any{document.TallyField: document.Tally{AsOf: asOf, NumShards: int64(numShards), Totals: slices.Collect(maps.Keys(totals))}.Encode()}
	maps.Copy(fields, totals)
	w.set(path, fields)
}

// set writes a document.
func (w *world) set(path string, fields map[string]any) {
	w.t.Helper()
	w.write(func() error {
		_, err := w.client.Doc(path).Set(w.t.Context(), fields)
		return err
	})
}

// delete deletes a document.
func (w *world) delete(path string) {
	w.t.Helper()
	w.write(func() error {
		_, err := w.client.Doc(path).Delete(w.t.Context())
		return err
	})
}

// write does a write, which may be done twice. Now and then the emulator answers one with UNKNOWN
// and no text, while others write.
func (w *world) write(do func() error) {
	w.t.Helper()
	err := do()
	for tries := 1; status.Code(err) == codes.Unknown && tries < 5; tries++ {
		err = do()
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// await asks as a page does until what it shows is as wanted.
func (w *world) await(open string, wanted func(*state) bool) *state {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), emulatortest.Eventually())
	defer cancel()
	view := view{Sort: "name", Open: open}
	query, err := json.Marshal(view)
	if err != nil {
		w.t.Fatal(err)
	}
	for {
		res, err := http.Get(w.url + "/state?view=" + url.QueryEscape(string(query)))
		if err != nil {
			w.t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || res.StatusCode != http.StatusOK || !strings.HasSuffix(string(text), "</html>\n") {
			w.t.Fatalf("%s, %v: %s", res.Status, err, text)
		}
		s := w.board.show(view, time.Now())
		if wanted(s) {
			return s
		}
		if gax.Sleep(ctx, 20*time.Millisecond) != nil {
			w.t.Fatalf("not as wanted in %v: %+v", emulatortest.Eventually(), s)
		}
	}
}

// has waits until there are so many rows.
func has(rows int) func(*state) bool {
	return func(s *state) bool { return len(s.Rows) == rows }
}

// totals returns the totals of all rows, by label.
// watched returns the reads that Standard bills for the board.
func (s *state) watched() int64 { return s.Watching.(billing.Counts).Reads }

func (s *state) totals() map[string]string {
	totals := make(map[string]string)
	for _, r := range s.Rows {
		totals[strings.Join(r.Label[:], "")] = r.Total.String()
	}
	return totals
}

func TestCounters(t *testing.T) { everyWay(t, testCounters) }

func testCounters(t *testing.T, w *world) {
	at := time.UnixMicro(time.Now().Add(-time.Hour).UnixMicro())
	w.rollUp("rollups/a", at, 3, map[string]any{"count": 5})
	w.rollUp("posts/7/likes/x", at, 1, map[string]any{"likes": 1, "views": int64(1<<53 + 1)})
	w.rollUp("php_rollups/total", at, 1, map[string]any{"Cnt": 1.5})
	w.rollUp("php_rollups/other", at, 1, map[string]any{"Cnt": 2})                // no route's
	w.rollUp("elsewhere/1/rollups/a", at, 1, map[string]any{"count": 2})          // a collection of that name, elsewhere
	w.rollUp("rollups/others", at, 1, map[string]any{"other": 1})                 // no total of the route's
	w.set("rollups/no", map[string]any{"count": 1, "as_of": at, "num_shards": 1}) // no roll-up
	w.run()
	s := w.await("", func(s *state) bool { return s.Ready && s.Functions != nil && len(s.Rows) == 4 })
	want := map[string]string{"rollups/a": "5", "posts/7/likes/x · likes": "1", "posts/7/likes/x · views": "9007199254740993", "php_rollups/total · Cnt": "1.5"}
	if d := cmp.Diff(want, s.totals()); d != "" {
		t.Errorf("totals (-want +got):\n%s", d)
	}
	if d := cmp.Diff(row{Key: rowKey{"(default)", "rollups/a", "count"}, Name: "rollups/a", ID: s.Rows[3].ID, Label: [3]string{"rollups/", "a"}, Total: value.Int(5), AsOf: at.UnixMicro()}, s.Rows[3], cmpopts.IgnoreUnexported(row{}), cmpopts.IgnoreFields(row{}, "Route"), cmpopts.EquateComparable(value.Value{})); d != "" {
		t.Errorf("rollups/a (-want +got):\n%s", d)
	}
	if d := cmp.Diff(&Functions{billing.Usage{Counts: billing.Counts{Reads: 100_000, Writes: 200_000}}, 7, 2, 1}, s.Functions); d != "" {
		t.Errorf("functions (-want +got):\n%s", d)
	}
	// Read are the documents that its queries find, a roll-up or not; php_rollups/other and what is
	// elsewhere are in none.
	if got, want := s.Watching, (billing.Counts{Reads: 5}); got != billing.Bill(want) {
		t.Errorf("watching has cost %+v, want %+v", got, want)
	}
	if age := time.Since(time.UnixMicro(s.Now)).Abs(); age > time.Minute {
		t.Errorf("Firestore's time is off by %v", age)
	}

	// A roll-up that changes is a change of its row, and one that is new a new row that began at 0.
	later := time.Now().Add(time.Hour) // recent, however slow the machine is
	w.rollUp("rollups/a", later, 4, map[string]any{"count": 8})
	w.await("", func(s *state) bool { return s.totals()["rollups/a"] == "8" })
	w.rollUp("rollups/b", later, 1, map[string]any{"count": 30})
	s = w.await("", func(s *state) bool {
		return s.totals()["rollups/b"] == "30" && last(s.Rates) > 3 && last(s.RollUps) > 0
	}) // the first 3 alone are at most 3 a second
	if last(s.Rates) > 33 {
		t.Errorf("33 increments are %v a second", last(s.Rates))
	}

	// What is gone, or no roll-up any more, is gone here.
	w.delete("rollups/a")
	w.delete("posts/7/likes/x")
	if _, err := w.client.Doc("rollups/b").Update(t.Context(), []firestore.Update{{Path: "count", Value: "text"}}); err != nil {
		t.Fatal(err)
	}
	s = w.await("", has(1))
	if d := cmp.Diff(map[string]string{"php_rollups/total · Cnt": "1.5"}, s.totals()); d != "" {
		t.Errorf("totals (-want +got):\n%s", d)
	}
}

// Days and months become more and more. Old ones are not shown until they change.
func TestOldDays(t *testing.T) { everyWay(t, testOldDays) }

func testOldDays(t *testing.T, w *world) {
	w.routes = `visits/{visit} by day(at, "Europe/Berlin") -> days/{day} : count() as visits : within
visits/{visit} by month(at) -> months/{month} : count() as visits : within`
	now := time.Now().UTC()
	day := func(ago int) string { return "days/" + now.AddDate(0, 0, -ago).Format(time.DateOnly) }
	for i, path := range []string{day(1), day(29), day(35), day(4000), "months/" + now.AddDate(0, -12, 0).Format("2006-01"), "months/1999-12"} {
		w.rollUp(path, now, 0, map[string]any{"visits": i + 1})
	}
	w.run()
	w.await("", has(3))

	w.rollUp(day(4000), now.Add(time.Second), 0, map[string]any{"visits": 7})
	s := w.await("", has(4))
	if got := s.totals()[day(4000)+" · visits"]; got != "7" {
		t.Errorf("got %s of a day that changed, want 7: %v", got, s.totals())
	}
}

// The app's own writes of a roll-up document are no roll-ups. Of a total that it does not name any
// more tally says nothing.
func TestKindsOfTotals(t *testing.T) { everyWay(t, testKindsOfTotals) }

// An open counter says when it is due, if that is later.
func TestDue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	now := time.Now().Truncate(time.Microsecond)
	for id, due := range map[string]time.Time{"late": now.Add(90 * time.Minute), "past": now.Add(-time.Hour), "quick": {}} {
		tally := document.Tally{AsOf: now.Add(-2 * time.Hour), NumShards: 1, Totals: []string{"count"}, PacedUntil: due}
		w.set("rollups/"+id, map[string]any{"count": 1, document.TallyField: tally.Encode()})
	}
	w.run()
	for _, row := range w.await("", has(3)).Rows {
		s := w.await(row.ID, func(s *state) bool { return s.Open != nil })
		var page strings.Builder
		if err := pageTemplate.Execute(&page, s); err != nil {
			t.Fatal(err)
		}
		got, want := strings.Contains(page.String(), "due in"), row.Key.RollUp == "rollups/late"
		if got != want || want && !strings.Contains(page.String(), " old, due in 90 min</p>") && !strings.Contains(page.String(), " old, due in 89 min</p>") {
			t.Errorf("%s: due said: %v, want %v", row.Key.RollUp, got, want)
		}
	}
}

// Times and null are totals, too. Only sums and counts have a rate and are added up. An open
// counter shows the documents of its group alone, and what its total would be of them.
func testKindsOfTotals(t *testing.T, w *world) {
	w.routes = `orders/{order} by shop -> shops/{shop} : count() as orders, sum(amount) where status == "paid" as revenue, maximum(amount) as largest, latest(at) as last : existing`
	asOf := time.UnixMicro(time.Now().UnixMicro())
	w.rollUp("shops/a", asOf, 2, map[string]any{"orders": 2, "revenue": 5, "largest": 7.5, "last": asOf})
	w.rollUp("shops/none", asOf, 0, map[string]any{"orders": 0, "revenue": 0, "largest": nil, "last": nil})
	w.set("orders/1", map[string]any{"shop": "a", "amount": 5, "status": "paid", "at": asOf})
	w.set("orders/2", map[string]any{"shop": "a", "amount": 7.5, "status": "open"})
	w.set("orders/3", map[string]any{"shop": "b", "amount": 100, "status": "paid", "at": asOf.Add(time.Hour)})
	w.run()

	s := w.await("", func(s *state) bool { return s.Ready && len(s.Rows) == 8 })
	stamp := value.Timestamp(asOf).String()
	want := map[string]string{
		"shops/a · orders": "2", "shops/a · revenue": "5", "shops/a · largest": "7.5", "shops/a · last": stamp,
		"shops/none · orders": "0", "shops/none · revenue": "0", "shops/none · largest": "null", "shops/none · last": "null",
	}
	if d := cmp.Diff(want, s.totals()); d != "" {
		t.Errorf("totals (-want +got):\n%s", d)
	}
	if s.Counters != 2 || s.Totals != 8 || s.Gone != 0 {
		t.Errorf("%d counters with %d totals, %d gone; want 2 with 8, none gone", s.Counters, s.Totals, s.Gone)
	}

	for _, r := range s.Rows {
		if r.Key.RollUp != "shops/a" {
			continue
		}
		s := w.await(r.ID, func(s *state) bool { return s.Open.Parts != nil })
		var ids []string
		for _, part := range s.Open.Parts {
			ids = append(ids, part.ID)
		}
		if !slices.Equal(ids, []string{"1", "2"}) || *s.Open.Sum != r.Total {
			t.Errorf("%s: got the documents %v with the total %v, want 1 and 2 with %v", r.Key.Total, ids, s.Open.Sum, r.Total)
		}
		if adds := r.Key.Total == "orders" || r.Key.Total == "revenue"; r.Adds() != adds {
			t.Errorf("%s adds up: %v", r.Key.Total, r.Adds())
		}
		counts := map[string][]*value.Value{
			"orders": {new(value.Int(1)), new(value.Int(1))}, "revenue": {new(value.Int(5)), nil},
			"largest": {new(value.Int(5)), new(value.Double(7.5))}, "last": {new(value.Timestamp(asOf)), nil},
		}[r.Key.Total]
		for i, part := range s.Open.Parts {
			if d := cmp.Diff(counts[i], part.Count, cmpopts.EquateComparable(value.Value{})); d != "" {
				t.Errorf("%s of order %s (-want +got):\n%s", r.Key.Total, part.ID, d)
			}
		}
	}
}

func TestAppsDocument(t *testing.T) { everyWay(t, testAppsDocument) }

func testAppsDocument(t *testing.T, w *world) {
	w.run()
	reads := w.await("", func(s *state) bool { return s.Ready }).watched()
	w.board.mu.Lock()
	w.board.model.window = emulatortest.Eventually() // longer than this test
	w.board.mu.Unlock()
	const path = "posts/7/likes/x"
	update := func(updates ...firestore.Update) {
		t.Helper()
		if _, err := w.client.Doc(path).Update(t.Context(), updates); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	w.rollUp(path, began, 1, map[string]any{"likes": 1, "views": 2})
	w.await("", has(2))
	update(firestore.Update{Path: "title", Value: "x"})
	w.await("", func(s *state) bool { return s.watched() == reads+2 })
	w.rollUp(path, began.Add(time.Second), 1, map[string]any{"likes": 5, "views": 2})
	w.await("", func(s *state) bool { return s.totals()["posts/7/likes/x · likes"] == "5" })
	w.board.mu.Lock()
	rollUps := len(w.board.model.rollUps)
	w.board.mu.Unlock()
	if rollUps != 2 {
		t.Errorf("%d roll-ups counted, want 2", rollUps)
	}
	update(firestore.Update{Path: "tally.totals", Value: []string{"views"}}, firestore.Update{Path: "tally.former", Value: []string{"likes"}})
	s := w.await("", has(1))
	if d := cmp.Diff(map[string]string{"posts/7/likes/x · views": "2"}, s.totals()); d != "" {
		t.Errorf("totals (-want +got):\n%s", d)
	}
}

func TestShards(t *testing.T) { everyWay(t, testShards) }

func testShards(t *testing.T, w *world) {
	w.rollUp("rollups/a", time.Now(), 3, map[string]any{"count": 5})
	write := func(id string, count any) { w.set("counters/a/shards/"+id, map[string]any{"count": count}) }
	write("10", 1)
	write("9", 4)
	write("x", "text")
	w.run()
	s := w.await("", func(s *state) bool { return s.Ready && has(1)(s) }) // each query has cost its first read
	id, reads := s.Rows[0].ID, s.watched()
	s = w.await(id, func(s *state) bool { return s.Open.Parts != nil })
	want := []shard{{ID: "9", Count: new(value.Int(4))}, {ID: "10", Count: new(value.Int(1))}, {ID: "x"}}
	if d := cmp.Diff(want, s.Open.Parts, cmpopts.IgnoreUnexported(shard{}), cmpopts.EquateComparable(value.Value{})); d != "" {
		t.Errorf("shards (-want +got):\n%s", d)
	}
	if *s.Open.Sum != value.Int(5) || len(s.Open.samples) != 1 || s.Open.samples[0].total != value.Int(5) {
		t.Errorf("got %+v, want a sum of 5 and one roll-up, of 5", s.Open)
	}
	if got := s.watched() - reads; got != 3 {
		t.Errorf("looking at 3 shards has cost %d reads", got)
	}
	write("9", 6)
	s = w.await(id, func(s *state) bool { return *s.Open.Sum == value.Int(7) })
	if part := s.Open.Parts[0]; part.ID != "9" || part.Writes <= 0 || part.Writes > 1 {
		t.Errorf("a write to shard 9 shows as %+v", s.Open.Parts)
	}
	if s := w.await("none", has(1)); s.Open != nil {
		t.Errorf("a row that is not there is %+v", s.Open)
	}
}

// No one pays for shards that no one looks at, and a counter that several pages have open is
// followed once.
func TestLooksEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.rollUp("rollups/a", time.Now(), 1, map[string]any{"count": 1})
	w.run()
	id := w.await("", has(1)).Rows[0].ID
	w.await(id, func(s *state) bool { return s.Open.Parts != nil })
	w.board.mu.Lock()
	defer w.board.mu.Unlock()
	looks := slices.Collect(maps.Values(w.board.looks))
	if len(looks) != 1 {
		t.Fatalf("%d looks at one counter", len(looks))
	}
	ended := false
	end := looks[0].end
	looks[0].end = func() { ended = true; end() }
	asked := looks[0].asked
	for _, r := range w.board.model.rows {
		if w.board.lookAt(r, asked.Add(absence)) != looks[0] {
			t.Error("another look at the same shards")
		}
	}
	w.board.forget(asked.Add(2 * absence))
	if ended || len(w.board.looks) != 1 {
		t.Error("the look ended while somebody looked")
	}
	w.board.forget(asked.Add(2*absence + time.Second))
	if !ended || len(w.board.looks) != 0 {
		t.Errorf("%d looks are left though no one looks", len(w.board.looks))
	}
}
