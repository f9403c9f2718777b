package dashboard

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/billing"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/emulator"
	"github.com/firestore-tally/tally/internal/emulator/emulatortest"
	"github.com/firestore-tally/tally/internal/firestorestore"
	"github.com/firestore-tally/tally/rollup"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestMain(m *testing.M) { emulatortest.Main(m, emulator.Options{}) }

const testRoutes = rollup.DefaultRoute + `
	posts/{post}/counters/{name}/shards/{shard} -> posts/{post}/likes/{name} : likes, views
	samples/php/distributedCounters/{shard} -> php_rollups/total : Cnt`

// A world is a board on a database of its own.
type world struct {
	t       *testing.T
	board   *Board
	project string
	client  *firestore.Client // not the board's
	listens bool              // as on a real project
	url     string
	stop    func() // ends the board and waits for its end
	reports func() []string
	leave   context.CancelFunc // closes all streams
	pages   context.Context
}

func newWorld(t *testing.T) *world {
	t.Helper()
	project := emulatortest.Project(t)
	w := &world{t: t, board: New(), project: project, client: emulatortest.ClientDatabase(t, project, firestore.DefaultDatabaseID)}
	w.pages, w.leave = context.WithTimeout(context.Background(), eventually)
	t.Cleanup(w.leave)
	return w
}

// everyWay runs a test on a board that polls, as of an emulator, and on one that listens.
func everyWay(t *testing.T, test func(*testing.T, *world)) {
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
	routes, err := rollup.ParseRoutes(testRoutes)
	if err != nil {
		t.Fatal(err)
	}
	client, err := firestorestore.Dial(t.Context(), emulatortest.Addr(), w.project, firestore.DefaultDatabaseID, append(w.board.DialOptions(), dial...)...)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.url = "http://" + l.Addr().String()
	emulator := emulatortest.Addr()
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
			Databases: []Database{{ID: "(default)", Client: client}}, Emulator: emulator, Routes: routes, Cadence: time.Second,
			Functions: func() (Functions, error) {
				return Functions{Billed: billing.Counts{Reads: 100_000, Writes: 200_000}, Events: 7, Waiting: 2, Redelivered: 1}, nil
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

// write does a write, which may be done twice. Now and then the emulator answers one with UNKNOWN and no
// text, while others write.
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

// events opens a stream. What it returns reads the next message into v.
func (w *world) events(path string) func(v any) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.pages, http.MethodGet, w.url+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = res.Body.Close() })
	if got := res.Header.Get("Content-Type"); got != "text/event-stream" {
		body, _ := io.ReadAll(res.Body)
		w.t.Fatalf("%s: %s, %q\n%s", path, res.Status, got, body)
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 16<<20)
	return func(v any) {
		w.t.Helper()
		for lines.Scan() {
			data, ok := strings.CutPrefix(lines.Text(), "data: ")
			if !ok {
				continue
			}
			if err := json.Unmarshal([]byte(data), v); err != nil {
				w.t.Fatalf("%v in %s", err, data)
			}
			return
		}
		w.t.Fatalf("the stream ended: %v", lines.Err())
	}
}

// eventually bounds the waits; the machine may be slow.
const eventually = 2 * time.Minute

// A page is what a page makes of the messages.
type page struct {
	rows map[int64]rowState
	last message
}

// follow opens the stream of counters. What it returns reads messages until the page is as wanted.
func (w *world) follow() func(wanted func(*page) bool) *page {
	w.t.Helper()
	next := w.events("/counters")
	p := &page{}
	return func(wanted func(*page) bool) *page {
		w.t.Helper()
		for {
			p.last = message{}
			next(&p.last)
			p.apply(&p.last)
			if wanted(p) {
				return p
			}
		}
	}
}

func (p *page) apply(m *message) {
	if m.About != nil {
		p.rows = make(map[int64]rowState)
	}
	for _, r := range m.Rows {
		p.rows[r.ID] = r
	}
	for _, id := range m.Removed {
		delete(p.rows, id)
	}
}

// totals returns the totals of all rows, by counter and field.
func (p *page) totals() map[string]string {
	totals := make(map[string]string)
	for _, r := range p.rows {
		totals[r.Name+" "+r.Field] = r.Total
	}
	return totals
}

func (p *page) has(counter, total string) bool { return p.totals()[counter] == total }

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
	await := w.follow()
	p := await(func(p *page) bool { return p.last.Ready && p.last.Local != nil && len(p.rows) == 4 })
	if d := cmp.Diff(map[string]string{"counters/a count": "5", "posts/7/counters/x likes": "1", "posts/7/counters/x views": "9007199254740993", "samples/php/distributedCounters Cnt": "1.5"}, p.totals()); d != "" {
		t.Errorf("totals (-want +got):\n%s", d)
	}
	for _, r := range p.rows {
		if want := map[string]rowState{
			"count": {r.ID, "(default)", "counters/a", "count", "rollups/a", 0, "5", 0, at.UnixMicro(), 3},
			"Cnt":   {r.ID, "(default)", "samples/php/distributedCounters", "Cnt", "php_rollups/total", 2, "1.5", 0, at.UnixMicro(), 1},
		}[r.Field]; want.ID != 0 && want != r {
			t.Errorf("got %+v, want %+v", r, want)
		}
	}
	if d := cmp.Diff(&functions{bill{billing.Counts{Reads: 100_000, Writes: 200_000}, 0.21}, 7, 2, 1}, p.last.Local); d != "" {
		t.Errorf("functions (-want +got):\n%s", d)
	}
	// Read are the documents that its queries find, a roll-up or not; php_rollups/other and what is elsewhere are in none.
	if got, want := p.last.Watching.Counts, (billing.Counts{Reads: 5}); got != want {
		t.Errorf("watching has cost %+v, want %+v", got, want)
	}
	if age := time.Since(time.UnixMicro(p.last.Now)).Abs(); age > time.Minute {
		t.Errorf("Firestore's time is off by %v", age)
	}

	// A roll-up that changes is a change of its row, and one that is new a new row that began at 0.
	later := time.Now().Add(time.Hour) // recent, however slow the machine is
	w.rollUp("rollups/a", later, 4, map[string]any{"count": 8})
	p = await(func(p *page) bool { return p.has("counters/a count", "8") })
	if p.last.About != nil || len(p.last.Rows) != 1 {
		t.Errorf("a change was sent as more than that: %+v", p.last)
	}
	w.rollUp("rollups/b", later, 1, map[string]any{"count": 30})
	p = await(func(p *page) bool { return p.has("counters/b count", "30") && p.last.Rate > 3 && p.last.RollUps > 0 }) // the first 3 alone are at most 3 a second
	if rate := p.last.Rate; rate > 33 {
		t.Errorf("33 increments are %v a second", rate)
	}

	// What is gone, or no roll-up any more, is gone here.
	w.delete("rollups/a")
	w.delete("posts/7/likes/x")
	if _, err := w.client.Doc("rollups/b").Update(t.Context(), []firestore.Update{{Path: "count", Value: "text"}}); err != nil {
		t.Fatal(err)
	}
	await(func(p *page) bool { return len(p.rows) == 1 })

	// A page that comes now is told what there is.
	p = w.follow()(func(*page) bool { return true })
	if d := cmp.Diff(map[string]string{"samples/php/distributedCounters Cnt": "1.5"}, p.totals()); d != "" {
		t.Errorf("totals (-want +got):\n%s", d)
	}
}

// The app's own writes of a roll-up document are no roll-ups. Of a total that it does not name any more
// tally says nothing.
func TestAppsDocument(t *testing.T) { everyWay(t, testAppsDocument) }

func testAppsDocument(t *testing.T, w *world) {
	w.run()
	await := w.follow()
	reads := await(func(p *page) bool { return p.last.Ready }).last.Watching.Reads
	w.board.mu.Lock()
	w.board.model.rollUps = newRecent(eventually) // longer than this test
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
	await(func(p *page) bool { return len(p.rows) == 2 })
	update(firestore.Update{Path: "title", Value: "x"})
	await(func(p *page) bool { return p.last.Watching.Reads == reads+2 })
	w.rollUp(path, began.Add(time.Second), 1, map[string]any{"likes": 5, "views": 2})
	await(func(p *page) bool { return p.has("posts/7/counters/x likes", "5") })
	w.board.mu.Lock()
	rollUps := 0
	for _, n := range w.board.model.rollUps.seconds {
		rollUps += n
	}
	w.board.mu.Unlock()
	if rollUps != 2 {
		t.Errorf("%d roll-ups counted, want 2", rollUps)
	}
	update(firestore.Update{Path: "tally.totals", Value: []string{"views"}}, firestore.Update{Path: "tally.former", Value: []string{"likes"}})
	p := await(func(p *page) bool { return len(p.rows) == 1 })
	if d := cmp.Diff(map[string]string{"posts/7/counters/x views": "2"}, p.totals()); d != "" {
		t.Errorf("totals (-want +got):\n%s", d)
	}
}

func TestShards(t *testing.T) { everyWay(t, testShards) }

func testShards(t *testing.T, w *world) {
	w.rollUp("rollups/a", time.Now(), 3, map[string]any{"count": 5})
	shard := func(id string, count any) {
		t.Helper()
		if _, err := w.client.Doc("counters/a/shards/"+id).Set(t.Context(), map[string]any{"count": count}); err != nil {
			t.Fatal(err)
		}
	}
	shard("10", 1)
	shard("9", 4)
	shard("x", "text")
	w.run()
	p := w.follow()(func(p *page) bool { return len(p.rows) == 1 })
	var id int64
	for id = range p.rows {
	}
	before := w.board.reads.Load()
	var d detail
	next := w.events(fmt.Sprintf("/counters/%d", id))
	for d.Shards == nil {
		d = detail{}
		next(&d)
	}
	if d := cmp.Diff([]shardState{{"9", "4", 0}, {"10", "1", 0}, {"x", "", 0}}, d.Shards); d != "" {
		t.Errorf("shards (-want +got):\n%s", d)
	}
	if d.Sum != "5" || len(d.History) != 1 || d.History[0][1] != "5" {
		t.Errorf("got %+v, want a sum of 5 and one roll-up, of 5", d)
	}
	if got := w.board.reads.Load() - before; got != 3 {
		t.Errorf("looking at 3 shards has cost %d reads", got)
	}
	shard("9", 6)
	for d.Sum != "7" {
		d = detail{}
		next(&d)
	}
	if s := d.Shards[0]; s.ID != "9" || s.Writes <= 0 || s.Writes > 1 {
		t.Errorf("a write to shard 9 shows as %+v", d.Shards)
	}

	for _, path := range []string{"/counters/0", "/counters/x", "/counters/99999"} {
		res, err := http.Get(w.url + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s, want 404", path, res.Status)
		}
	}
}

// Nobody pays for shards that nobody looks at, and a counter that two look at has one listener.
func TestLooksEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.rollUp("rollups/a", time.Now(), 1, map[string]any{"count": 1})
	w.run()
	w.follow()(func(p *page) bool { return len(p.rows) == 1 })
	r := w.board.row(1)
	first, leaveFirst := w.board.looks.at(t.Context(), r)
	second, leaveSecond := w.board.looks.at(t.Context(), r)
	if first != second {
		t.Error("two listeners to one counter's shards")
	}
	leaveFirst()
	select {
	case <-second.ended:
		t.Error("the listener ended while somebody looked")
	default:
	}
	leaveSecond() // returns when it has ended
	select {
	case <-second.ended:
	default:
		t.Error("the listener goes on though nobody looks")
	}
	if n := len(w.board.looks.open); n != 0 {
		t.Errorf("%d looks are still open", n)
	}
}

// A refusal has Firestore refuse listeners, those that are open too once they are to receive
// something.
type refusal struct {
	mu      sync.Mutex
	on      bool
	refused int
}

func (r *refusal) set(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.on = on
}

func (r *refusal) err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.on {
		return nil
	}
	r.refused++
	return status.Error(codes.PermissionDenied, "Missing or insufficient permissions.")
}

// times returns how often it has refused.
func (r *refusal) times() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refused
}

func (r *refusal) open(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if err := r.err(); err != nil {
		return nil, err
	}
	s, err := open(ctx, desc, conn, method, opts...)
	return &refusedStream{s, r}, err
}

type refusedStream struct {
	grpc.ClientStream
	refusal *refusal
}

func (s *refusedStream) RecvMsg(msg any) error {
	if err := s.ClientStream.RecvMsg(msg); err != nil {
		return err
	}
	return s.refusal.err()
}

// What Firestore refuses is shown with its remedy, said once, and tried again; and what went away
// meanwhile is gone.
func TestRefused(t *testing.T) { everyWay(t, testRefused) }

func testRefused(t *testing.T, w *world) {
	var refusal refusal
	w.rollUp("rollups/a", time.Now(), 1, map[string]any{"count": 1})
	w.run(grpc.WithChainStreamInterceptor(refusal.open))
	await := w.follow()
	await(func(p *page) bool { return p.last.Ready && p.has("counters/a count", "1") })

	refusal.set(true)
	w.rollUp("rollups/b", time.Now(), 1, map[string]any{"count": 2})
	const mine = "roll-ups in rollups of database (default)"
	times := 3
	if !w.listens {
		times = 6 // polls of the other two queries are refused too
	}
	ofMine := func(said []string) []string {
		return slices.DeleteFunc(said, func(s string) bool { return !strings.Contains(s, mine) })
	}
	p := await(func(p *page) bool { return len(ofMine(p.last.Problems)) > 0 && refusal.times() >= times })
	if got := ofMine(p.last.Problems)[0]; !strings.Contains(got, "insufficient permissions") || !strings.HasSuffix(got, "\nremedy") {
		t.Errorf("got problem %q", got)
	}
	if d := cmp.Diff(map[string]string{"counters/a count": "1"}, p.totals()); d != "" {
		t.Errorf("totals while it is refused (-want +got):\n%s", d)
	}
	w.delete("rollups/a")
	refusal.set(false)
	p = await(func(p *page) bool { return len(p.last.Problems) == 0 && p.has("counters/b count", "2") })
	if d := cmp.Diff(map[string]string{"counters/b count": "2"}, p.totals()); d != "" {
		t.Errorf("totals afterwards (-want +got):\n%s", d)
	}
	if got := ofMine(w.reports()); len(got) != 1 {
		t.Errorf("said %q, want it once", got)
	}
}

// Shards that Firestore refuses to tell are asked for again.
func TestRefusedShards(t *testing.T) { everyWay(t, testRefusedShards) }

func testRefusedShards(t *testing.T, w *world) {
	var refusal refusal
	w.rollUp("rollups/a", time.Now(), 1, map[string]any{"count": 1})
	w.run(grpc.WithChainStreamInterceptor(refusal.open))
	p := w.follow()(func(p *page) bool { return len(p.rows) == 1 })
	var id int64
	for id = range p.rows {
	}
	refusal.set(true)
	var d detail
	next := w.events(fmt.Sprintf("/counters/%d", id))
	for d.Problem == "" {
		d = detail{}
		next(&d)
	}
	if _, err := w.client.Doc("counters/a/shards/0").Set(t.Context(), map[string]any{"count": 1}); err != nil {
		t.Fatal(err)
	}
	refusal.set(false)
	for d.Problem != "" || d.Sum != "1" {
		d = detail{}
		next(&d)
	}
}

// An emulator is asked, and not listened to: its listeners keep clients' writes waiting. Only a real
// project bills what is asked again.
func TestPolls(t *testing.T) {
	everyWay(t, func(t *testing.T, w *world) {
		var mu sync.Mutex
		streams := make(map[string]int)
		w.rollUp("rollups/a", time.Now(), 1, map[string]any{"count": 1})
		w.run(grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			mu.Lock()
			defer mu.Unlock()
			streams[path.Base(method)]++
			return open(ctx, desc, conn, method, opts...)
		}))
		await := w.follow()
		p := await(func(p *page) bool { return p.last.Ready })
		var d detail
		for next := w.events("/counters/1"); d.Shards == nil; {
			next(&d)
		}
		reads := p.last.Watching.Reads + 1 // for shards that are not there
		for range 3 {                      // heartbeats
			p = await(func(*page) bool { return true })
		}
		if p.last.Watching.Reads != reads {
			t.Errorf("%d reads are counted though nothing has changed, want %d", p.last.Watching.Reads, reads)
		}
		mu.Lock()
		defer mu.Unlock()
		if w.listens != (streams["Listen"] > 0) || w.listens == (streams["RunQuery"] > 0) {
			t.Errorf("listens: %v, but it called %v", w.listens, streams)
		}
	})
}

// Errors that pass interrupt a poll as little as a listener.
func TestPollGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var failures atomic.Int32
	failures.Store(2)
	w.rollUp("rollups/a", time.Now(), 1, map[string]any{"count": 1})
	w.run(grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		if failures.Add(-1) >= 0 {
			return nil, status.Error(codes.Unknown, "")
		}
		return open(ctx, desc, conn, method, opts...)
	}))
	w.follow()(func(p *page) bool { return p.last.Ready && p.has("counters/a count", "1") })
	if got := w.reports(); len(got) > 0 {
		t.Errorf("said %q", got)
	}
}

func TestForeign(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.run()
	get := func(path, host, site string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if host != "" {
			req.Host = host
		}
		if site != "" {
			req.Header.Set("Sec-Fetch-Site", site)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res
	}
	for _, test := range []struct {
		path, host, site string
		want             int
	}{
		{"/", "", "", http.StatusOK},
		{"/main.js", "localhost:9000", "same-origin", http.StatusOK}, // by a port that was forwarded
		{"/", "[::1]:80", "", http.StatusOK},
		{"/", "LOCALHOST", "cross-site", http.StatusOK}, // a link to it
		{"/", "evil.example", "", http.StatusForbidden},
		{"/", "127.0.0.1.evil.example:80", "", http.StatusForbidden},
		{"/", "10.0.0.1", "", http.StatusForbidden},
		{"/counters", "evil.example:80", "", http.StatusForbidden},
		{"/counters", "", "same-origin", http.StatusOK},
		{"/counters", "", "cross-site", http.StatusForbidden},
		{"/counters", "", "same-site", http.StatusForbidden},
		{"/counters/1", "", "cross-site", http.StatusForbidden},
		{"/nothing", "", "", http.StatusNotFound},
	} {
		res := get(test.path, test.host, test.site)
		if res.StatusCode != test.want {
			t.Errorf("%s at %q from %q: %s, want %d", test.path, test.host, test.site, res.Status, test.want)
		}
		if got := res.Header.Get("Content-Security-Policy"); !strings.HasPrefix(got, "default-src 'none'; script-src 'self';") || strings.Contains(got, "unsafe") {
			t.Errorf("%s: policy %q", test.path, got)
		}
	}
	// Further streams than there may be are refused, until one ends.
	w.board.mu.Lock()
	w.board.streams += maxStreams
	w.board.mu.Unlock()
	if res := get("/counters", "", ""); res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a stream too many: %s", res.Status)
	}
	w.board.mu.Lock()
	w.board.streams -= maxStreams
	w.board.mu.Unlock()
}

func TestRunEnds(t *testing.T) {
	w := newWorld(t)
	w.rollUp("rollups/a", time.Now(), 1, map[string]any{"count": 1})
	w.run()
	w.follow()(func(p *page) bool { return len(p.rows) == 1 })
	var d detail
	w.events("/counters/1")(&d)
	running := func() []string {
		stacks := make([]byte, 4<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		return slices.DeleteFunc(strings.Split(string(stacks), "\n\n"), func(stack string) bool {
			return !strings.Contains(stack, "dashboard.(*Board)") && !strings.Contains(stack, "dashboard.(*look")
		})
	}
	if n := len(running()); n < 6 { // three listeners and one to shards, the clock, two streams
		t.Errorf("%d goroutines before it ended", n)
	}
	w.stop()
	for _, stack := range running() {
		t.Errorf("left behind:\n%s", stack)
	}
}

func TestRunWithoutListener(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := New().Run(t.Context(), l, Options{}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v, want that the listener is closed", err)
	}
}

// at returns microseconds.
func at(second float64) int64 { return int64(second * 1e6) }

func TestRate(t *testing.T) {
	type put struct {
		asOf  float64
		total any
	}
	const began = 1000
	for _, test := range []struct {
		name  string
		known bool
		puts  []put
		now   float64
		want  float64
	}{
		{"one roll-up of before", true, []put{{900, 500}}, 1005, 0},
		{"new, so it was 0", false, []put{{1019, 50}}, 1020, 5},
		{"steady", true, []put{{1000, 0}, {1005, 50}, {1010, 100}, {1015, 150}, {1020, 200}}, 1020, 10},
		{"watched for two seconds", true, []put{{900, 0}, {1001, 10}, {1002, 20}}, 1002, 10},
		{"over", true, []put{{1000, 0}, {1005, 50}}, 1016, 0},
		{"nearly over", true, []put{{1000, 0}, {1005, 50}, {1006, 60}}, 1015.5, 1},
		{"down", true, []put{{1000, 100}, {1019, 80}}, 1020, -2},
		{"beyond 2^53", true, []put{{1000, int64(1 << 60)}, {1019, int64(1<<60 + 10)}}, 1020, 1},
		{"real", true, []put{{1000, 0.5}, {1019, 3.0}}, 1020, 0.25},
		{"no number", true, []put{{1000, 1}, {1019, math.NaN()}}, 1020, 0},
		{"created again, with an older time", true, []put{{1015, 100}, {1014, 1}}, 1020, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := newModel(10 * time.Second)
			m.began = at(began)
			key := rowKey{"d", "r", "f"}
			for _, p := range test.puts {
				value := p.total
				if n, ok := value.(int); ok {
					value = int64(n)
				}
				total, _ := rollup.NumberOf(value)
				m.put(key, nil, origin{}, sample{at(p.asOf), total}, 1, test.known)
			}
			m.tick(time.UnixMicro(at(test.now)))
			if got := m.rows[key].rate; got != test.want || m.rate != test.want {
				t.Errorf("got %v, of all %v, want %v", got, m.rate, test.want)
			}
		})
	}
}

// A page that reads slowly gets the latest state.
func TestSlowPage(t *testing.T) {
	b := New()
	b.model = newModel(10 * time.Second)
	put := func(n, total int) {
		b.model.put(rowKey{"d", fmt.Sprint(n), "f"}, nil, origin{shards: fmt.Sprint(n)}, sample{int64(total + 1), rollup.Int(int64(total))}, 1, true)
	}
	remove := func(n int) { b.model.remove(rowKey{"d", fmt.Sprint(n), "f"}) }
	var sent map[*row]int
	var p page
	read := func() (m *message) {
		m, sent = b.next(sent, time.Now())
		p.apply(m)
		if len(p.rows) != len(b.model.rows) || len(sent) != len(p.rows) {
			t.Errorf("the page has %d rows, and was sent %d, want %d", len(p.rows), len(sent), len(b.model.rows))
		}
		for _, row := range b.model.rows {
			if got, want := p.rows[row.id].Total, row.latest().total.String(); got != want {
				t.Errorf("the page has the total %s, want %s", got, want)
			}
		}
		return m
	}
	const rows = 1000
	for n := range rows {
		put(n, 0)
	}
	if m := read(); m.About == nil || len(m.Rows) != rows {
		t.Errorf("the first message has %d rows", len(m.Rows))
	}
	if m := read(); m.news() {
		t.Errorf("news of nothing: %+v", m)
	}
	for total := range 1000 {
		put(1, total+1)
		put(2, total+1)
	}
	put(rows, 0) // comes, and goes unseen
	remove(rows)
	remove(3)
	put(4, 1)
	remove(4)
	put(4, 2) // another row
	if m := read(); m.About != nil || len(m.Rows) != 3 || len(m.Removed) != 2 {
		t.Errorf("got %d new and changed and %d removed rows, want 3 and 2", len(m.Rows), len(m.Removed))
	}
}

func TestHistoryIsBounded(t *testing.T) {
	m := newModel(10 * time.Second)
	key := rowKey{"d", "r", "f"}
	for i := range 10 * maxSamples {
		m.put(key, nil, origin{}, sample{int64(i), rollup.Int(int64(i))}, 1, true)
	}
	r := m.rows[key]
	if got, want := len(r.samples), maxSamples; got != want || cap(r.samples) > 2*maxSamples {
		t.Errorf("%d samples, in room for %d, want %d", got, cap(r.samples), want)
	}
	if got, want := r.samples[0].asOf, int64(9*maxSamples); got != want || r.latest().asOf != int64(10*maxSamples-1) {
		t.Errorf("samples from %d to %d, want from %d", got, r.latest().asOf, want)
	}
}

func TestServerTime(t *testing.T) {
	local := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	var l line
	if got := l.serverTime(local); !got.Equal(local) {
		t.Errorf("before any answer it is %v, want the local time", got)
	}
	for _, step := range []struct {
		name          string
		offset, after time.Duration // of the server's time in an answer that came after so long
		want          time.Duration // offset after it
	}{
		{"a slow answer", time.Hour - time.Second, 0, time.Hour - time.Second},
		{"a fast one", time.Hour, time.Second, time.Hour},
		{"a slow one again", time.Hour - time.Second, 2 * time.Second, time.Hour},
		{"the local clock was set forward", time.Minute, time.Minute, time.Minute},
		{"and back", time.Hour, time.Minute, time.Hour},
	} {
		now := local.Add(step.after)
		l.tell(now.Add(step.offset), now)
		if got := l.serverTime(local).Sub(local); got != step.want {
			t.Errorf("%s: offset %v, want %v", step.name, got, step.want)
		}
	}
}

func TestBroken(t *testing.T) {
	var l line
	lost := status.Error(codes.Unavailable, "connection refused")
	l.failed(status.Error(codes.Canceled, "closed"))
	l.failed(io.EOF)
	l.failed(status.Error(codes.PermissionDenied, "follow tells this"))
	if err := l.broken(time.Now().Add(time.Hour)); err != nil {
		t.Errorf("a stream that ended is %v", err)
	}
	l.failed(lost)
	if err := l.broken(time.Now()); err != nil {
		t.Errorf("at once it is %v", err)
	}
	if err := l.broken(time.Now().Add(patience)); err != lost {
		t.Errorf("after a while it is %v, want %v", err, lost)
	}
	l.answered()
	if err := l.broken(time.Now().Add(time.Hour)); err != nil {
		t.Errorf("after an answer it is %v", err)
	}
}

func TestRecent(t *testing.T) {
	r := newRecent(10 * time.Second)
	start := time.Unix(1_700_000_000, 0)
	for second := range 30 {
		r.add(start.Add(time.Duration(second)*time.Second), 2)
		r.add(start.Add(time.Duration(second)*time.Second), 1)
	}
	for _, test := range []struct {
		second  int
		watched time.Duration
		want    float64
	}{
		{29, time.Minute, 3},
		{29, 5 * time.Second, 6}, // as if all of them came in five seconds
		{34, time.Minute, 1.5},
		{28, time.Minute, 1.5}, // the clock was set back
		{60, time.Minute, 0},
	} {
		if got := r.perSecond(start.Add(time.Duration(test.second)*time.Second), test.watched); got != test.want {
			t.Errorf("at second %d: %v a second, want %v", test.second, got, test.want)
		}
	}
}

func TestCompareIDs(t *testing.T) {
	got := []string{"b", "10", "9", "a", "010", "0"}
	slices.SortFunc(got, compareIDs)
	if d := cmp.Diff([]string{"0", "9", "010", "10", "a", "b"}, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
