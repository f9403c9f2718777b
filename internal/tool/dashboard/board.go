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
	"github.com/firestore-tally/tally/internal/cloud/billing"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/value"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/googleapis/gax-go/v2"
)

// Options say what a [Board] shows.
type Options struct {
	Project   string
	Databases []Database // at least one, all of the project
	Edition   route.Edition
	Emulator  string // host:port; "": a real project
	Routes    route.Routes
	Name      func(route.Counter) string // what people call a counter
	Cadence   time.Duration              // of the functions; rates are means over two cadences, at least ten seconds

	// Due returns when a counter of the template that has the Tally may be rolled up next, if its
	// events are deferred until then; otherwise zero.
	Due func(*route.Template, document.Tally) time.Time

	// Functions returns what the functions have done so far. It is called for each page shown.
	// Calls may overlap. Nil: that is not known here.
	Functions func() (Functions, error)

	// Report is called with each new problem, such as a missing permission. It returns the error
	// that the page shows, which may add a remedy. Calls may overlap.
	Report func(error) error
}

// Functions says what functions processes on this machine, and the delivery of their events, have
// done.
type Functions struct {
	Used        billing.Usage
	Events      int // accepted for delivery
	Waiting     int // events that are not yet acknowledged
	Redelivered int // deliveries that repeated one
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
	begin   func(*feed) (end func()) // begins to follow a feed, until end or Run's context ends it

	mu     sync.Mutex
	model  *model
	looks  map[string]*look // by the path of the shards' collection, and the group
	used   billing.Usage    // by this board
	broken error            // why Firestore does not answer; nil: it does
}

// leastWindow is the least time over which a rate is a mean. It is so long that the rate of a
// counter that is rolled up once a second is steady.
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
		b.mu.Lock() // so that no one is beginning a feed
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
	work.Go(func() { b.tickEachSecond(ctx) })

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

// findRollUps returns the feeds that find the roll-ups of all routes in a database.
func (b *Board) findRollUps(database Database) []*feed {
	queries := rollUpQueries(database.Client, b.options.Routes.Templates())
	var all []*feed
	for _, name := range slices.Sorted(maps.Keys(queries)) {
		q := &feed{
			database: database,
			name:     fmt.Sprintf("roll-ups in %s of database %s", name, database.ID),
			query:    queries[name], interval: pollRollUps,
		}
		q.note = func(changes []firestore.DocumentChange, first bool) { b.note(q, changes, first) }
		all = append(all, q)
	}
	return all
}

// rollUpQueries returns the queries that find the roll-ups of templates, each once, by a name for
// people. A template with captures above its document takes a collection group, which is all
// collections of one id. Any other template takes its collection or, without a capture, the one
// document, unless a collection group has them already.
func rollUpQueries(client *firestore.Client, templates []*route.Template) map[string]firestore.Query {
	groupOf := func(t *route.Template) string { return "**/" + path.Base(path.Dir(t.String())) }

	queries := make(map[string]firestore.Query)
	for _, t := range templates {
		in := path.Dir(t.String())
		if strings.Contains(in, "{") {
			queries[groupOf(t)] = client.CollectionGroup(path.Base(in)).Query
		}
	}

	for _, t := range templates {
		_, covered := queries[groupOf(t)]
		if covered {
			continue
		}
		in, id := path.Dir(t.String()), path.Base(t.String())
		collection := client.Collection(in)
		if strings.HasPrefix(id, "{") {
			queries[in] = collection.Query
		} else {
			queries[t.String()] = collection.Where(firestore.DocumentID, "==", collection.Doc(id))
		}
	}
	return queries
}

// note brings the model up to date with the changes of a feed. The first ones are all documents
// that the feed finds.
func (b *Board) note(q *feed, changes []firestore.DocumentChange, first bool) {
	now := b.line.serverTime(time.Now())
	if b.model.began == 0 {
		b.model.began = now.UnixMicro()
	}

	seen := make(map[rowKey]bool)
	for _, change := range changes {
		news := b.noteDocument(q, change, first, seen)
		if news && !first {
			b.model.rollUps = append(b.model.rollUps, now)
		}
	}

	if first { // the feed may have been interrupted, and documents may have gone meanwhile
		maps.DeleteFunc(b.model.rows, func(key rowKey, r *row) bool { return r.source == q && !seen[key] })
	}
}

// noteDocument brings the rows of a document up to date, and adds their keys to seen. It reports
// whether the document was rolled up. A write of an app to its own document is no news.
func (b *Board) noteDocument(q *feed, change firestore.DocumentChange, first bool, seen map[rowKey]bool) (news bool) {
	_, rollUp, _ := strings.Cut(change.Doc.Ref.Path, "/documents/")
	fields := change.Doc.Data()
	tally := document.DecodeTally(fields[document.TallyField])
	isRollUp := !tally.AsOf.IsZero() && change.Kind != firestore.DocumentRemoved

	for _, route := range b.options.Routes {
		counter, ok := route.Template.Counter(rollUp)
		if !ok {
			continue
		}
		if first && isOld(route, counter, b.line.serverTime(time.Now())) {
			continue
		}
		for _, of := range route.Totals {
			key := rowKey{q.database.ID, rollUp, of.Name}
			held, has := fields[of.Name]
			total, isTotal := value.Of(held)
			if !has || !isTotal || !isRollUp || !tally.Covers(of.Name) {
				delete(b.model.rows, key)
				continue
			}

			seen[key] = true
			r := row{
				Key: key, Name: b.options.Name(counter), Route: route, counter: counter, total: of,
				source: q, shards: route.Shards(counter), known: first,
			}
			changed := b.model.put(r, sample{tally.AsOf.UnixMicro(), total}, tally.NumShards)
			news = news || changed

			due := b.options.Due(route.Template, tally)
			if !due.IsZero() {
				b.model.rows[key].Due = due.UnixMicro()
			}
		}
	}
	return news
}

// oldAfter is how many days, weeks or months long one is shown that does not change. All days of
// 1,000 shops and a year would take seconds for each answer to a page.
const oldAfter = 31

// isOld reports whether a counter is of a day, a week or a month that ended long ago.
func isOld(r *route.Route, c route.Counter, now time.Time) bool {
	conditions, _ := r.Where(c)
	var begin, end time.Time
	for _, condition := range conditions {
		at, isTime := condition.Value.(time.Time)
		switch {
		case !isTime || condition.Field != r.Time():
		case condition.Operator == route.LessThan:
			end = at
		default:
			begin = at
		}
	}
	return !end.IsZero() && now.Sub(end) > oldAfter*end.Sub(begin)
}

// tickEachSecond updates once a second what changes with time.
func (b *Board) tickEachSecond(ctx context.Context) {
	for {
		b.tick()

		stopped := gax.Sleep(ctx, time.Second)
		if stopped != nil {
			return
		}
	}
}

// tick updates what changes with time.
func (b *Board) tick() {
	now := time.Now()
	broken := b.line.broken(now)
	if broken != nil {
		broken = b.reported(broken)
	}

	b.mu.Lock()
	defer b.mu.Unlock()
	b.broken = broken
	b.model.tick(b.line.serverTime(now))
	b.forget(now)
}

// reported reports that Firestore does not answer, unless that was reported already. It returns the
// error that the page shows.
func (b *Board) reported(broken error) error {
	if b.broken != nil { // read without the mutex: only tickEachSecond changes it
		return b.broken
	}
	return b.options.Report(fmt.Errorf("no answer from Firestore, trying again: %w", broken))
}
