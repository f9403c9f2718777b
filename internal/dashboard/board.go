package dashboard

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/billing"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/value"
	"github.com/firestore-tally/tally/rollup"
)

// Options say what a [Board] shows.
type Options struct {
	Project   string
	Databases []Database // at least one, all of the project
	Emulator  string     // host:port; "": a real project
	Routes    rollup.Routes
	Cadence   time.Duration // of the functions; rates are means over two of them, and at least ten seconds

	// Functions returns what the functions have done so far. It is called for each page shown. Calls
	// may overlap. Nil: that is not known here.
	Functions func() (Functions, error)

	// Report is called with each new problem, such as a permission that is missing. The page shows
	// the error that it returns, such as one with a remedy. Calls may overlap.
	Report func(error) error
}

// Functions is what functions processes on this machine, and the delivery of their events, have
// done.
type Functions struct {
	Billed      billing.Counts
	Events      int // accepted for delivery
	Waiting     int // of them, not yet acknowledged
	Redelivered int // further deliveries
}

// A Database is one that a [Board] shows.
type Database struct {
	ID     string
	Client *firestore.Client // opened with the board's DialOptions
}

// A Board keeps what it knows of all counters and serves it.
type Board struct {
	line line

	// Set by Run before anything that uses them begins:
	options Options
	queries []*feed                  // that find all roll-ups
	begin   func(*feed) (end func()) // follows a feed until its end is called, or Run's context ends

	mu     sync.Mutex
	model  *model
	looks  map[string]*look // by the path of the shards' collection, and the group
	reads  int64            // that this board is billed
	broken error            // of the line
}

// leastWindow is the least time over which a rate is a mean: long enough that a counter that is
// rolled up once a second has a steady one.
const leastWindow = 10 * time.Second

// New returns a Board that Run can run, once.
func New() *Board {
	return &Board{looks: make(map[string]*look)}
}

// Run follows the databases and serves the page at l, which it closes, until ctx ends. Then it
// returns nil, after everything that it started has ended. Problems with Firestore do not end it:
// it tries again.
func (b *Board) Run(ctx context.Context, l net.Listener, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer func() {
		b.mu.Lock() // whoever holds it may still begin a feed
		defer b.mu.Unlock()
		cancel()
	}()
	b.options = o
	b.begin = func(f *feed) func() {
		ctx, end := context.WithCancel(ctx)
		if ctx.Err() == nil {
			work.Go(func() { b.follow(ctx, f) })
		}
		return end
	}
	b.model = newModel(max(leastWindow, 2*o.Cadence), len(o.Databases) > 1)
	for _, database := range o.Databases {
		b.queries = append(b.queries, b.findRollUps(database)...)
	}
	for _, q := range b.queries {
		b.begin(q)
	}
	work.Go(func() { b.keepTime(ctx) })

	server := &http.Server{
		Handler: b.handler(), ReadHeaderTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	work.Go(func() {
		<-ctx.Done()
		_ = server.Close() // nothing to do about a listener that does not close
	})
	err := server.Serve(l)
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("dashboard: %w", err)
}

// findRollUps returns the queries that find the roll-ups of all routes in a database, each once: of
// a collection if the route names it, of one document if it names that, else of all collections of
// a name.
func (b *Board) findRollUps(database Database) []*feed {
	templates := b.options.Routes.Templates()
	found := make(map[string]firestore.Query)
	for _, t := range templates {
		if in := path.Dir(t.String()); strings.Contains(in, "{") {
			found["**/"+path.Base(in)] = database.Client.CollectionGroup(path.Base(in)).Query
		}
	}
	for _, t := range templates {
		in, id := path.Dir(t.String()), path.Base(t.String())
		collection := database.Client.Collection(in)
		if _, covered := found["**/"+path.Base(in)]; covered {
			continue
		}
		if strings.HasPrefix(id, "{") {
			found[in] = collection.Query
		} else {
			found[t.String()] = collection.Where(firestore.DocumentID, "==", collection.Doc(id))
		}
	}
	var all []*feed
	for _, name := range slices.Sorted(maps.Keys(found)) {
		q := &feed{
			database: database,
			name:     fmt.Sprintf("roll-ups in %s of database %s", name, database.ID),
			query:    found[name], interval: pollRollUps,
		}
		q.note = func(changes []firestore.DocumentChange, first bool) { b.note(q, changes, first) }
		all = append(all, q)
	}
	return all
}

// note brings the model up to date with what has changed; first: with all there is.
func (b *Board) note(q *feed, changes []firestore.DocumentChange, first bool) {
	now := b.line.serverTime(time.Now())
	if b.model.began == 0 {
		b.model.began = now.UnixMicro()
	}
	seen := make(map[rowKey]bool)
	for _, change := range changes {
		b.noteDocument(q, change, first, now, seen)
	}
	if first { // rows from before the feed was interrupted may be of documents that are gone
		maps.DeleteFunc(b.model.rows, func(key rowKey, r *row) bool { return r.source == q && !seen[key] })
	}
}

// noteDocument brings the rows of a document up to date. Of an app's own document only what Tally
// writes is news.
func (b *Board) noteDocument(q *feed, change firestore.DocumentChange, first bool, now time.Time, seen map[rowKey]bool) {
	_, rollUp, _ := strings.Cut(change.Doc.Ref.Path, "/documents/")
	fields := change.Doc.Data()
	tally := document.DecodeTally(fields[document.TallyField])
	isRollUp := !tally.AsOf.IsZero() && change.Kind != firestore.DocumentRemoved
	rolledUp := false
	for _, route := range b.options.Routes {
		counter, ok := route.Template.Counter(rollUp)
		if !ok {
			continue
		}
		for _, of := range route.Totals {
			key := rowKey{q.database.ID, rollUp, of.Name}
			held, there := fields[of.Name]
			total, ok := value.Of(held)
			if !there || !ok || !isRollUp || !tally.Covers(of.Name) {
				delete(b.model.rows, key)
				continue
			}
			seen[key] = true
			r := row{Key: key, source: q, Route: route, shards: route.Shards(counter), where: route.Where(counter), total: of, known: first}
			if b.model.put(r, sample{tally.AsOf.UnixMicro(), total}, tally.NumShards) {
				rolledUp = true
			}
		}
	}
	if rolledUp && !first {
		b.model.rollUps = append(b.model.rollUps, now)
	}
}

// keepTime brings once a second up to date what changes with time.
func (b *Board) keepTime(ctx context.Context) {
	for ok := true; ok; ok = rest(ctx, time.Second) {
		now := time.Now()
		broken := b.line.broken(now)
		if broken != nil && b.broken == nil { // only this goroutine changes it
			broken = b.options.Report(fmt.Errorf("no answer from Firestore, trying again: %w", broken))
		} else if broken != nil {
			broken = b.broken
		}
		b.mu.Lock()
		b.broken = broken
		b.model.tick(b.line.serverTime(now))
		b.forget(now)
		b.mu.Unlock()
	}
}
