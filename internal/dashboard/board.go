package dashboard

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/billing"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup"
	"google.golang.org/grpc"
)

// Options say what a [Board] shows.
type Options struct {
	Databases []Database // at least one, all of one project
	Emulator  string     // host:port; "": a real project
	Routes    rollup.Routes
	Cadence   time.Duration // of the functions; rates are means over two of them, and at least ten seconds

	// Functions returns what the functions have done so far. Nil: that is not known here.
	Functions func() (Functions, error)

	// Report is called with each new problem, such as a permission that is missing, also while other
	// calls of it are under way. What it returns, such as the error with its remedy, is shown on the
	// page.
	Report func(error) error
}

// Functions is what functions processes on this machine, and the delivery of their events, have done.
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
	line  line
	looks looks
	reads atomic.Int64 // that this board's listeners are billed

	// Set by Run before anything that uses them begins:
	options Options
	queries []*query

	mu        sync.Mutex
	model     *model
	functions *Functions
	trouble   error // of reading functions
	broken    error // of the line
	streams   int
}

// leastWindow is the least time over which a rate is a mean: long enough that a counter that is rolled up once
// a second has a steady one.
const leastWindow = 10 * time.Second

// New returns a Board that Run can run, once.
func New() *Board {
	b := &Board{}
	b.looks = looks{board: b, open: make(map[lookKey]*look)}
	return b
}

// DialOptions returns the options to open the clients of the databases with. By them the board knows
// Firestore's time, and whether it answers.
func (b *Board) DialOptions() []grpc.DialOption { return b.line.dialOptions() }

// bill counts what Firestore bills for the changes that a listener is told of: a read for each document
// that is new or changed, and one for a query that finds nothing
// (https://cloud.google.com/firestore/pricing). What it sends again after an interruption, though
// unchanged, is not counted.
func (b *Board) bill(changes []firestore.DocumentChange, first bool) {
	var reads int64
	for _, change := range changes {
		if change.Kind != firestore.DocumentRemoved {
			reads++
		}
	}
	if first {
		reads = max(1, reads)
	}
	b.reads.Add(reads)
}

// Run listens to the databases and serves the page at l, which it closes, until ctx ends. Then it
// returns nil, after everything that it started has ended. Problems with Firestore do not end it: it
// tries again.
func (b *Board) Run(ctx context.Context, l net.Listener, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	b.options = o
	b.model = newModel(max(leastWindow, 2*o.Cadence))
	for _, database := range o.Databases {
		b.queries = append(b.queries, queries(database, o.Routes)...)
	}
	for _, q := range b.queries {
		work.Go(func() { b.watch(ctx, q) })
	}
	work.Go(func() { b.keepTime(ctx) })

	served := &sync.WaitGroup{}
	server := &http.Server{
		Handler: b.handler(served), ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		BaseContext: func(net.Listener) context.Context { return ctx }, // so that the streams end with it
	}
	work.Go(func() {
		<-ctx.Done()
		_ = server.Close() // nothing to do about a listener that does not close
	})
	err := server.Serve(l)
	stopped := ctx.Err() != nil
	cancel()
	served.Wait()
	if stopped {
		return nil
	}
	return fmt.Errorf("dashboard: %w", err)
}

// A query is one of those that find all roll-up documents.
type query struct {
	database Database
	name     string
	query    firestore.Query

	// Under the board's mutex:
	ready bool  // the first snapshot has come
	err   error // why it ended; nil: it has not
}

// queries returns the queries that find the roll-ups of all routes in a database, each once: of a
// collection if the route names it, of one document if it names that, else of all collections of a
// name.
func queries(database Database, routes rollup.Routes) []*query {
	found := make(map[string]firestore.Query)
	for _, t := range routes.Templates() {
		template := t.Segments()
		last := len(template) - 1
		captures := slices.ContainsFunc(template[:last], func(s rollup.Segment) bool { return s.Capture })
		if captures {
			found["**/"+template[last-1].Name] = database.Client.CollectionGroup(template[last-1].Name).Query
		}
	}
	for _, t := range routes.Templates() {
		template := t.Segments()
		last := len(template) - 1
		ids := make([]string, len(template))
		for i, s := range template {
			ids[i] = s.Name
		}
		_, covered := found["**/"+ids[last-1]]
		if covered {
			continue
		}
		path := strings.Join(ids[:last], "/")
		collection := database.Client.Collection(path)
		if template[last].Capture {
			found[path] = collection.Query
		} else {
			found[path+"/"+ids[last]] = collection.Where(firestore.DocumentID, "==", collection.Doc(ids[last]))
		}
	}
	var all []*query
	for _, name := range slices.Sorted(maps.Keys(found)) {
		all = append(all, &query{database: database, name: name, query: found[name]})
	}
	return all
}

// watch keeps the model at what the query finds until ctx ends.
func (b *Board) watch(ctx context.Context, q *query) {
	b.follow(ctx, q.query, pollRollUps, func(changes []firestore.DocumentChange, first bool) {
		now := b.line.serverTime(time.Now())
		b.mu.Lock()
		defer b.mu.Unlock()
		b.note(q, changes, first, now)
	}, func(err error) {
		b.mu.Lock()
		again := q.err != nil
		b.mu.Unlock()
		if again {
			return
		}
		err = b.report(fmt.Errorf("roll-ups in %s of database %s: %w", q.name, q.database.ID, err))
		b.mu.Lock()
		q.err = err
		b.mu.Unlock()
	})
}

func (b *Board) report(err error) error {
	if b.options.Report == nil {
		return err
	}
	return b.options.Report(err)
}

// note brings the model up to date with what has changed; first: with all there is.
func (b *Board) note(q *query, changes []firestore.DocumentChange, first bool, now time.Time) {
	if b.model.began == 0 {
		b.model.began = now.UnixMicro()
	}
	q.ready, q.err = true, nil
	seen := make(map[rowKey]bool)
	for _, change := range changes {
		b.noteDocument(q, change, first, now, seen)
	}
	if !first {
		return
	}
	for key, r := range b.model.rows { // those of before the listener was interrupted
		if r.source == q && !seen[key] {
			b.model.remove(key)
		}
	}
}

// noteDocument brings the rows of a document up to date. Of an app's own document only what Tally writes
// is news.
func (b *Board) noteDocument(q *query, change firestore.DocumentChange, first bool, now time.Time, seen map[rowKey]bool) {
	_, path, _ := strings.Cut(change.Doc.Ref.Path, "/documents/")
	fields := change.Doc.Data()
	tally := document.DecodeTally(fields[document.TallyField])
	isRollUp := !tally.AsOf.IsZero() && change.Kind != firestore.DocumentRemoved
	rolledUp := false
	for i, route := range b.options.Routes {
		counter, ok := route.Template.Counter(path)
		if !ok {
			continue
		}
		for _, of := range route.Totals {
			key := rowKey{q.database.ID, path, of.Name}
			total, ok := rollup.NumberOf(fields[of.Name])
			if !ok || !isRollUp || !tally.Covers(of.Name) {
				b.model.remove(key)
				continue
			}
			seen[key] = true
			if b.model.put(key, q, origin{i, route.Shards(counter), of.Field}, sample{tally.AsOf.UnixMicro(), total}, tally.NumShards, first) {
				rolledUp = true
			}
		}
	}
	if rolledUp && !first {
		b.model.rollUps.add(now, 1)
	}
}

// keepTime brings once a second up to date what changes with time.
func (b *Board) keepTime(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		b.second(time.Now())
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (b *Board) second(local time.Time) {
	var functions *Functions
	var trouble error
	if b.options.Functions != nil {
		f, err := b.options.Functions()
		functions, trouble = &f, err
	}
	broken := b.line.broken(local)
	now := b.line.serverTime(local)
	b.mu.Lock()
	begins := broken != nil && b.broken == nil
	if broken == nil || begins {
		b.broken = broken
	}
	b.functions, b.trouble = functions, trouble
	b.model.tick(now)
	b.mu.Unlock()
	if begins {
		broken = b.report(fmt.Errorf("no answer from Firestore, trying again: %w", broken))
		b.mu.Lock()
		b.broken = broken
		b.mu.Unlock()
	}
}
