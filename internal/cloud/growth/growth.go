// Package growth raises the number of a counter's shards while they are written too often.
//
// Firestore sustains about one write a second to one document, so a counter with n shards takes
// about n increments a second. A counter whose document says auto_shards: true gets more shards
// when it needs them:
//
//	counters/visitors            num_shards: 10   auto_shards: true
//	counters/visitors/shards/0   count: 17        written 30 ms ago
//	counters/visitors/shards/1   count: 20        written 8 ms ago
//
// How often are the shards written? One instance cannot tell from its events, because each of many
// instances sees only some. But the shards can: if one is written r times a second, its last write
// is younger than ln 2 / r in half of all cases. So a [Grower] looks at ten shards, at most every
// 20 seconds. If most of them were written less than 0.35 s before, which is about two writes a
// second, and so for three looks running, it creates so many more that each is written about once
// in two seconds. One shard that somebody floods is one of ten, and changes nothing. A counter with
// fewer shards first gets ten.
//
// An event says when its shard was written before. If that was long ago, the Grower does not even
// look. So a counter that is seldom written costs no reads.
//
// No roll-up depends on any of this. A look that fails, or a raise that is refused, is made up for
// by the next one. Nothing lowers the number: a surplus shard costs next to nothing.
package growth

import (
	"context"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup/route"
)

const (
	// lookEvery is the shortest time between two looks of an instance at one counter.
	lookEvery = 20 * time.Second

	// sampled is how many shards a look reads. So few keep the price of looking below that of
	// rolling up, and so many that chance raises no number: see TestChance.
	sampled = 10

	// young is the age of a shard's last write below which the shard counts as written too often. A
	// shard that is written twice a second is as young in half of all looks.
	young = 350 * time.Millisecond

	// seldom is how long before a write its shard was written before, if no look is needed. A shard
	// that is written twice a second is written within that time in six of seven cases.
	seldom = time.Second

	// looks is for how many looks running most shards have to be young.
	looks = 3

	// aim is how often each shard should be written a second. It is half of what Firestore sustains,
	// because looks are inexact, and because shards are picked at random.
	aim = 0.5

	// settling is how long after a raise no one looks. Clients learn the number of shards once a
	// minute.
	settling = 2 * time.Minute

	// forgetting is how long an instance remembers that a counter does not grow.
	forgetting = 10 * time.Minute

	// most is the largest number of shards to which a counter grows. They take 640 increments a
	// second, and a sum costs one read. Where a route reads each document, mostRead bounds what a
	// roll-up bills.
	most     = 640
	mostRead = 100

	// writes is how many writes a raise makes at most. Firestore's SDKs document a limit of 500 for
	// a batch.
	writes = 500

	// timeout bounds a look and the raise that follows. An event waits for them.
	timeout = 2 * time.Second

	// atOnce is how many looks an instance makes at once. A look that would be one more is left out.
	atOnce = 4

	// watched is how many counters an instance remembers. At that number it forgets them all.
	watched = 10_000
)

// A Store is a database whose counters grow. Paths are below its root.
type Store interface {
	// Look reads the fields document.CounterFields of a counter's document, and when some shards were
	// last written.
	Look(ctx context.Context, counter string, shards []string) (Look, error)

	// Raise makes all writes of r in one commit, or none. It returns an error if the counter's
	// document has another update time than r says.
	Raise(ctx context.Context, r Raise) error
}

// A Look is what Store.Look read.
type Look struct {
	Counter    map[string]any // fields of the counter's document; nil: there is none
	UpdateTime time.Time      // of the counter's document

	// Ages are how long before it was read each shard was last written. A shard that does not exist
	// has the age Never.
	Ages []time.Duration
}

// Never is the age of a shard that does not exist.
const Never = time.Duration(math.MaxInt64)

// A Raise has a counter's document tell a new number of shards, and creates these.
type Raise struct {
	Counter    string         // path of the counter's document
	UpdateTime time.Time      // that the document must still have
	Fields     map[string]any // which the document gets
	Shards     []Shard        // which are new
}

// A Shard is a new one. If it exists all the same, it keeps the numbers that it holds.
type Shard struct {
	Path   string
	Fields []string // each of which is 0
}

// A Grower raises the numbers of shards of one database. It may be used by many goroutines at once.
type Grower struct {
	store  Store
	routes route.Routes
	logger *slog.Logger
	slots  chan struct{} // holds one value for each look that is under way

	mu      sync.Mutex
	watches map[string]*watch // by path of the shards' collection
}

// A watch is what a Grower knows of one collection of shards.
type watch struct {
	next time.Time       // when to look again, at the earliest
	n    int64           // number of shards; 0: unknown
	hot  int             // looks running in which most shards were young
	ages []time.Duration // that these looks have seen
}

// New returns a Grower for the counters of the routes.
func New(store Store, routes route.Routes, logger *slog.Logger) *Grower {
	return &Grower{
		store:   store,
		routes:  routes,
		logger:  logger,
		slots:   make(chan struct{}, atOnce),
		watches: make(map[string]*watch),
	}
}

// HandleWrite is called when a document was written that existed before. since is how long after
// the write before that was, or 0 if that is unknown. If the document is a shard, and it is time to
// look at its counter, Written looks, and raises the number of shards if that is needed. It returns
// when that is done or has failed, after 2 s at most.
func (g *Grower) HandleWrite(ctx context.Context, path string, since time.Duration) {
	c, ok := counterOf(g.routes, path)
	if !ok {
		return
	}
	select {
	case g.slots <- struct{}{}:
		defer func() { <-g.slots }()
	default:
		return
	}

	w, shards, due := g.nextLook(c, since)
	if !due {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	look, err := g.store.Look(ctx, c.document, shards)
	if err != nil {
		g.logger.DebugContext(ctx, "could not look at shards", "document", c.document, "error", err)
		return
	}
	was, n := g.judge(w, c, look)
	if n == 0 {
		return
	}

	err = g.store.Raise(ctx, c.raise(look, was, n))
	if err != nil { // the counter's document was written meanwhile, perhaps its roll-up; the next look tries again
		g.logger.DebugContext(ctx, "could not raise the number of shards", "document", c.document, "error", err)
		return
	}
	g.setNumShards(w, n)
	g.logger.InfoContext(ctx, "number of shards raised", "document", c.document, "was", was, "num_shards", n)
}

// nextLook reports whether to look at a counter now, and returns which of its shards to look at.
// While the number of shards is unknown, that is none.
func (g *Grower) nextLook(c counter, since time.Duration) (w *watch, shards []string, due bool) {
	g.mu.Lock()
	defer g.mu.Unlock()

	w = g.watches[c.shards]
	if w == nil {
		if len(g.watches) >= watched {
			clear(g.watches)
		}
		w = new(watch)
		g.watches[c.shards] = w
	}

	now := time.Now()
	if now.Before(w.next) {
		return nil, nil, false
	}
	w.next = now.Add(lookEvery)
	if since > seldom {
		w.hot, w.ages = 0, nil
		return nil, nil, false
	}

	random := rand.Perm(int(w.n))
	for _, n := range random[:min(sampled, len(random))] {
		shards = append(shards, c.shard(int64(n)))
	}
	return w, shards, true
}

// judge notes what a look has seen. It returns how many shards the counter has, and how many it
// needs. It needs 0 if the number is not to be raised now.
func (g *Grower) judge(w *watch, c counter, look Look) (has, needs int64) {
	g.mu.Lock()
	defer g.mu.Unlock()

	n, grows := numShards(look.Counter)
	switch {
	case !grows || n >= c.most:
		*w = watch{next: time.Now().Add(forgetting)}
		return n, 0
	case w.n == 0:
		*w = watch{n: n}
		return n, 0
	case w.n != n: // another instance has raised it
		*w = watch{n: n, next: time.Now().Add(settling)}
		return n, 0
	case !mostlyYoung(look.Ages):
		w.hot, w.ages = 0, nil
		return n, 0
	}

	w.hot++
	w.ages = append(w.ages, look.Ages...)
	w.ages = w.ages[max(0, len(w.ages)-looks*sampled):]
	if w.hot < looks {
		return n, 0
	}
	if n < sampled { // a look at so few says little: one client may have written most of them
		return n, sampled
	}
	return n, min(needed(n, w.ages), c.most, n+c.perCommit())
}

// setNumShards notes that a counter has n shards from now on.
func (g *Grower) setNumShards(w *watch, n int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	*w = watch{n: n, next: time.Now().Add(settling)}
}

// mostlyYoung reports whether most shards are young.
func mostlyYoung(ages []time.Duration) bool {
	number := 0
	for _, age := range ages {
		if age < young {
			number++
		}
	}
	return 2*number > len(ages)
}

// needed returns how many shards a counter needs, if it has n and they have these ages.
func needed(n int64, ages []time.Duration) int64 {
	sorted := slices.Sorted(slices.Values(ages))
	median := max(sorted[len(sorted)/2], time.Millisecond)
	rate := math.Ln2 / median.Seconds() // of one shard
	return int64(math.Ceil(float64(n) * rate / aim))
}

// numShards returns how many shards a counter has, by the fields of its document. It reports
// whether the number is to grow. A document that tells no number means the one that clients assume.
func numShards(fields map[string]any) (n int64, grows bool) {
	if fields[document.AutoShardsField] != true || fields[document.FrozenField] == true {
		return 0, false
	}

	value, field := document.NumShards(fields)
	if field == "" {
		return document.DefaultNumShards, true
	}
	n, isInteger := value.(int64)
	return n, isInteger && n > 0
}

// A counter is one whose shards may grow.
type counter struct {
	document string       // path of its own document
	shards   string       // path of the collection of the shards
	all      []collection // all collections of shards below the document: it tells one number for all of them
	most     int64        // to which the number may grow
}

// A collection of shards.
type collection struct {
	path   string
	fields []string // which its shards hold
}

// counterOf returns the counter of which the document at path is a numbered shard.
func counterOf(routes route.Routes, path string) (counter, bool) {
	shards, id := split(path)
	number, err := strconv.ParseInt(id, 10, 64)
	numbered := err == nil && number >= 0 && strconv.FormatInt(number, 10) == id
	of, _ := split(shards)
	if !numbered || of == "" {
		return counter{}, false
	}

	c := counter{document: of, shards: shards, most: most}
	serves := false
	for _, r := range routes {
		pattern := r.Pattern()
		below := of + "/" + pattern.CollectionID()
		_, ok := r.Counter(below)
		if !ok || !r.HasShards() {
			continue
		}

		serves = serves || below == shards
		if r.Documents {
			c.most = mostRead
		}
		c.add(below, r)
	}
	return c, serves
}

// add adds the collection at path, whose shards the route sums.
func (c *counter) add(path string, r *route.Route) {
	i := slices.IndexFunc(c.all, func(of collection) bool { return of.path == path })
	if i < 0 {
		i, c.all = len(c.all), append(c.all, collection{path: path})
	}

	of := &c.all[i]
	for _, field := range r.Fields() {
		name := field.Names()[0] // a field of shards is at the top level
		if !slices.Contains(of.fields, name) {
			of.fields = append(of.fields, name)
		}
	}
}

// split returns what stands before and after the last slash of a path.
func split(path string) (before, last string) {
	i := strings.LastIndexByte(path, '/')
	return path[:max(0, i)], path[i+1:]
}

// shard returns the path of the shard of that number.
func (c counter) shard(n int64) string { return c.shards + "/" + strconv.FormatInt(n, 10) }

// perCommit returns by how many shards one commit can raise the number.
func (c counter) perCommit() int64 { return int64((writes - 1) / len(c.all)) }

// raise returns the raise from was to n shards.
func (c counter) raise(look Look, was, n int64) Raise {
	r := Raise{Counter: c.document, UpdateTime: look.UpdateTime, Fields: document.NumShardsFields(look.Counter, n)}
	for _, of := range c.all {
		for number := was; number < n; number++ {
			r.Shards = append(r.Shards, Shard{of.path + "/" + strconv.FormatInt(number, 10), of.fields})
		}
	}
	return r
}
