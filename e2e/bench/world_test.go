package bench

import (
	"context"
	"fmt"
	"log"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/GoogleCloudPlatform/functions-framework-go/functions"
	"github.com/firestore-tally/tally/internal/cloud/app"
	"github.com/firestore-tally/tally/internal/cloud/billing"
	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/cloud/trigger"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/internal/tool/local/eventrelay"
	"github.com/firestore-tally/tally/internal/tool/local/framework"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/googleapis/google-cloudevents-go/cloud/firestoredata"
)

// The ways to aggregate, each a function that the functions framework serves.
const (
	tally   = "Tally"
	every   = "Every" // Tally, whose schedule keeps the counter
	obvious = "Obvious"
)

// meters count what each way is billed.
var meters = map[string]*billing.Meter{tally: billing.NewMeter(nil), every: billing.NewMeter(nil), obvious: billing.NewMeter(nil), deltas: billing.NewMeter(nil)}

func TestMain(m *testing.M) {
	functions.HTTP(tally, func(w http.ResponseWriter, r *http.Request) { appOf(r, tally).OnWrite(w, r) })
	functions.HTTP(every, func(w http.ResponseWriter, r *http.Request) { appOf(r, every).OnSchedule(w, r) })
	functions.HTTP(obvious, new(summer).onWrite)
	functions.HTTP(deltas, adder.onWrite)
	emulatortest.Main(m)
}

// apps are Tally's, by project: a process serves one, and each benchmark has one of its own,
// perhaps with routes of its own.
var apps, routes sync.Map

// appOf returns the app of the project that a request names.
func appOf(r *http.Request, way string) *app.App {
	project := r.URL.Query().Get("project")
	if a, ok := apps.Load(project); ok {
		return a.(*app.App)
	}

	environ := func() []string {
		all := append(os.Environ(), "TALLY_LOG_LEVEL=ERROR", "GOOGLE_CLOUD_PROJECT="+project)
		if own, ok := routes.Load(project); ok {
			all = append(all, "TALLY_ROUTES="+own.(string))
		}
		return all
	}
	a, _ := apps.LoadOrStore(project, app.New(environ, os.Stderr, meters[way].DialOptions()...))
	return a.(*app.App)
}

// serve starts the functions framework once and returns its address.
var serve = sync.OnceValue(func() string {
	port := make(chan int)
	go func() { log.Fatal(framework.Serve(0, func(p int) { port <- p })) }()
	return fmt.Sprintf("http://127.0.0.1:%d", <-port)
})

// A summer is the obvious way: each event reads the shards, as
// https://firebase.google.com/docs/firestore/solutions/counters does to show a total, and sets the
// total.
type summer struct {
	mu      sync.Mutex
	clients map[string]*firestore.Client // by project
}

func (s *summer) onWrite(w http.ResponseWriter, r *http.Request) {
	e, err := trigger.FromRequest(r)
	if err == nil {
		var change trigger.Change
		if change, err = trigger.Decode(e); err == nil {
			err = s.sum(r.Context(), change)
		}
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

func (s *summer) sum(ctx context.Context, change trigger.Change) error {
	client, err := s.client(ctx, change.Project, obvious)
	if err != nil {
		return err
	}
	shards := client.Doc(change.Path()).Parent
	documents, err := shards.Documents(ctx).GetAll()
	if err != nil {
		return err
	}
	var total int64
	for _, d := range documents {
		n, _ := d.Data()["count"].(int64)
		total += n
	}
	_, err = client.Collection("rollups").Doc(shards.Parent.ID).Set(ctx, map[string]any{"count": total})
	return err
}

func (s *summer) client(ctx context.Context, project, way string) (*firestore.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.clients[project]; c != nil {
		return c, nil
	}
	c, err := firestorestore.Dial(context.WithoutCancel(ctx), os.Getenv(firestorestore.EmulatorHost), project, firestore.DefaultDatabaseID, meters[way].DialOptions()...)
	if err == nil {
		if s.clients == nil {
			s.clients = make(map[string]*firestore.Client)
		}
		s.clients[project] = c
	}
	return c, err
}

// A world is a database with one counter, its clients, and perhaps a function. It gets an event for
// each increment, or a call as Cloud Scheduler makes it. The events are made from the results of
// the writes, as the emulator's own are few and late.
type world struct {
	b       *testing.B
	project string
	shards  int
	clients []*firestore.Client // each over a connection of its own
	relay   *eventrelay.Relay   // nil: no function gets events

	mu         sync.Mutex
	increments []increment // acknowledged
	refused    int         // increments that were not
	refusal    error       // the last of them
}

type increment struct {
	committed time.Time
	latency   time.Duration // from when it was due until it was acknowledged
}

func newWorld(b *testing.B, function string, shards, clients int) *world {
	w := &world{b: b, project: emulatortest.Project(b), shards: shards}
	for range clients {
		w.clients = append(w.clients, emulatortest.ClientDatabase(b, w.project, firestore.DefaultDatabaseID))
	}
	if function != "" && function != every {
		w.relay = eventrelay.New(eventrelay.Options{Targets: []string{serve() + "/" + function + "?project=" + w.project}})
		b.Cleanup(w.relay.Close)
	}
	// All shards are there from the start, and all connections open.
	for shard := range shards {
		if _, err := w.shard(shard, shard).Set(b.Context(), map[string]any{"count": 0}); err != nil {
			b.Fatal(err)
		}
	}
	for client := range clients {
		if _, err := w.shard(client, 0).Get(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	return w
}

// warmUp lets the emulator, whose code is compiled as it runs, come up to speed, once.
func warmUp(b *testing.B) {
	warm.Do(func() {
		w := newWorld(b, tally, 10, 8)
		w.flatOut(5 * time.Second)
		w.settle()
	})
}

var warm sync.Once

// settle waits until every event is acknowledged, but at most 60 s.
func (w *world) settle() {
	ctx, cancel := context.WithTimeout(w.b.Context(), 60*time.Second)
	defer cancel()
	_ = w.relay.Wait(ctx) // the relay's stats say
}

// keep has the schedule keep the counter, every second, until it is stopped.
func (w *world) keep() (stop func()) {
	routes.Store(w.project, route.Default+" : every 1s")
	ctx, cancel := context.WithCancel(w.b.Context())

	r, err := http.NewRequestWithContext(ctx, http.MethodPost, serve()+"/"+every+"?project="+w.project, nil)
	if err != nil {
		w.b.Fatal(err)
	}

	var call sync.WaitGroup
	call.Go(func() {
		answer, err := http.DefaultClient.Do(r)
		if err == nil {
			answer.Body.Close()
		}
		if ctx.Err() == nil {
			w.b.Errorf("the schedule's call ended by itself: %v", err)
		}
	})
	return func() {
		cancel()
		call.Wait()
	}
}

func (w *world) shard(client, n int) *firestore.DocumentRef {
	return w.clients[client%len(w.clients)].Doc(fmt.Sprintf("counters/c/shards/%d", n))
}

// increment increments a random shard, and has the event delivered.
func (w *world) increment(client int, due time.Time) {
	shard := w.shard(client, rand.IntN(w.shards))
	result, err := shard.Set(w.b.Context(), map[string]any{"count": firestore.Increment(1)}, firestore.MergeAll)
	latency := time.Since(due)
	w.mu.Lock()
	if err != nil {
		w.refused, w.refusal = w.refused+1, err
		w.mu.Unlock()
		return
	}
	w.increments = append(w.increments, increment{result.UpdateTime, latency})
	id := fmt.Sprintf("%s-%d", w.project, len(w.increments))
	w.mu.Unlock()
	if w.relay == nil {
		return
	}
	document := &firestoredata.Document{Name: shard.Path}
	e, err := eventrelay.NewEvent(id, result.UpdateTime, document, document)
	if err == nil {
		err = w.relay.Deliver(e)
	}
	if err != nil {
		w.b.Error(err)
	}
}

// atRate fires increments at that rate for that long, whatever is still in flight, and waits until
// all are acknowledged. Each is due at a random moment of its turn: in step with a schedule, all
// would be late by the same time.
func (w *world) atRate(perSecond int, during time.Duration) {
	var all sync.WaitGroup
	began := time.Now()
	for n := range int(float64(perSecond) * during.Seconds()) {
		turn := float64(n) + rand.Float64()
		due := began.Add(time.Duration(turn * float64(time.Second) / float64(perSecond)))
		time.Sleep(time.Until(due))
		all.Go(func() { w.increment(n, due) })
	}
	all.Wait()
}

// flatOut has each of 32 writers increment, one increment after another, for that long.
func (w *world) flatOut(during time.Duration) {
	var all sync.WaitGroup
	end := time.Now().Add(during)
	for writer := range 32 {
		all.Go(func() {
			for now := time.Now(); now.Before(end); now = time.Now() {
				w.increment(writer, now)
			}
		})
	}
	all.Wait()
}

// A watch notes each total that a listener of the roll-up sees.
type watch struct {
	stop func()

	mu   sync.Mutex
	seen []sighting
}

type sighting struct {
	at    time.Time
	total int64
}

func (w *world) watch() *watch {
	ctx, cancel := context.WithCancel(w.b.Context())
	watch := &watch{}
	var listener sync.WaitGroup
	listening := make(chan struct{})
	listener.Go(func() {
		snapshots := w.clients[0].Doc("rollups/c").Snapshots(ctx)
		defer snapshots.Stop()
		opened := sync.OnceFunc(func() { close(listening) })
		for {
			doc, err := snapshots.Next()
			opened()
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				w.b.Error(err)
				return
			}
			if total, ok := doc.Data()["count"].(int64); ok {
				watch.mu.Lock()
				watch.seen = append(watch.seen, sighting{time.Now(), total})
				watch.mu.Unlock()
			}
		}
	})
	<-listening
	watch.stop = func() {
		cancel()
		listener.Wait()
	}
	return watch
}

// reaches waits until the listener has seen the total, but at most 60 s.
func (watch *watch) reaches(total int64) {
	end := time.Now().Add(60 * time.Second)
	for time.Now().Before(end) {
		watch.mu.Lock()
		seen := len(watch.seen) > 0 && watch.seen[len(watch.seen)-1].total >= total
		watch.mu.Unlock()
		if seen {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// total returns the total in the roll-up document.
func (w *world) total() int64 {
	doc, err := w.clients[0].Doc("rollups/c").Get(w.b.Context())
	if err != nil {
		w.b.Error(err)
		return 0
	}
	total, _ := doc.Data()["count"].(int64)
	return total
}

// lags returns, sorted, how long after its commit each increment was in a total that the listener
// saw: the n-th to be committed is in the first total of at least n. Those that never were are left
// out.
func (w *world) lags(seen []sighting) []time.Duration {
	slices.SortFunc(w.increments, func(a, b increment) int { return a.committed.Compare(b.committed) })
	var lags []time.Duration
	n := 0
	for _, s := range seen {
		for ; n < len(w.increments) && int64(n) < s.total; n++ {
			lags = append(lags, s.at.Sub(w.increments[n].committed))
		}
	}
	slices.Sort(lags)
	return lags
}

// percentile returns a percentile of sorted durations, in milliseconds; of none, 0.
func percentile(sorted []time.Duration, p int) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return float64(sorted[len(sorted)*p/100]) / float64(time.Millisecond)
}
