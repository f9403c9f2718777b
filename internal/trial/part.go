package trial

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/lag"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/shards"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A shape is what a trial looks for among the routes.
type shape struct {
	kind  string // what it is called
	fits  func(*rollup.Route) bool
	would string // a route that would let it run
}

// shapes are what a trial works on. Each takes the first route that fits, one with events before one
// that the schedule keeps.
var shapes = []shape{
	{"counter", (*rollup.Route).Plain, rollup.DefaultRoute},
	{"likes", (*rollup.Route).CountsAll, "posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing"},
}

// A Skipped is a shape that no deployed route has.
type Skipped struct {
	Kind  string `json:"kind"`
	Why   string `json:"why"`
	Would string `json:"would"` // a route that would let it run
}

// find returns the first of the routes that has the shape and makes counters of which one can be the
// trial's own. nil: there is none.
func (s shape) find(routes rollup.Routes) *rollup.Route {
	own := func(r *rollup.Route) bool {
		pattern := r.Pattern()
		above := pattern[:len(pattern)-1]
		return r.By == "" && s.fits(r) && slices.ContainsFunc(above, func(s rollup.Segment) bool { return s.Capture })
	}
	for _, candidates := range []rollup.Routes{routes.Live(), routes.Scheduled()} {
		if i := slices.IndexFunc(candidates, own); i >= 0 {
			return candidates[i]
		}
	}
	return nil
}

// A part is one counter of a trial: a route, and documents below an id of the trial's own.
type part struct {
	kind       string
	route      *rollup.Route
	counter    rollup.Counter
	collection string // path of its documents' collection
	total      string // name of the one that is compared
	field      string // that is incremented; "": the documents are counted

	watch *lag.Watch
	first int // writes that came before the load

	mu        sync.Mutex
	committed []time.Time
	inDoubt   int
}

// newPart returns the part of a route whose captures are all the id.
func newPart(kind string, r *rollup.Route, id string) (*part, error) {
	pattern := r.Pattern()
	above := pattern[:len(pattern)-1]
	for i, s := range above {
		if s.Capture {
			above[i] = rollup.Segment{Name: id}
		}
	}

	p := &part{kind: kind, route: r, collection: above.String()}
	var ok bool
	p.counter, ok = r.Counter(p.collection)
	if !ok {
		return nil, fmt.Errorf("trial: the route %s does not take %s", r, p.collection)
	}

	total := r.Totals[0]
	if i := slices.IndexFunc(r.Totals, rollup.Total.All); i >= 0 {
		total = r.Totals[i]
	}
	p.total = total.Name
	if !total.All() {
		p.field = strings.Join(total.Field.Names(), ".")
	}
	return p, nil
}

// limit is how long the part's roll-up may take that covers a write.
func (p *part) limit(timeout time.Duration) time.Duration { return timeout + p.counter.Template.Every }

// written returns how many of its writes were acknowledged, how many are in doubt, and when the last
// was committed.
func (p *part) written() (acknowledged, inDoubt int, last time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.committed) > 0 {
		last = slices.MaxFunc(p.committed, time.Time.Compare)
	}
	return len(p.committed), p.inDoubt, last
}

// covered waits until a roll-up is seen that covers every write of the part, or too long.
func (r *run) covered(ctx context.Context, p *part) error {
	_, _, last := p.written()
	limit := p.limit(r.Timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w within %v", errSilent, limit))
	defer cancel()
	return p.watch.Await(ctx, last)
}

// errSilent is why a trial ends whose writes no roll-up covers.
var errSilent = errors.New("the deployed functions brought nothing up to date")

// begin makes the part's roll-up, if that is the app's own document, and listens to it.
func (r *run) begin(ctx context.Context, p *part) error {
	r.traces.ofCounter(r.Config.Routes, p)
	if p.counter.Template.Existing {
		if _, err := r.set(ctx, p.counter.RollUp, nil); err != nil {
			return err
		}
	}

	var err error
	p.watch, err = lag.Listen(r.listening, r.fail, r.client, p.counter.RollUp, p.total)
	if err == nil {
		r.watches = append(r.watches, p.watch)
	}
	return err
}

// write makes the part's nth write: an increment by 1 of any shard, or one document more.
func (r *run) write(ctx context.Context, p *part, n int) error {
	if p.field == "" {
		return r.put(ctx, p, fmt.Sprintf("tally-demo-%d", n))
	}

	for i := range r.Shards {
		r.traces.source(fmt.Sprintf("%s/%d", p.collection, i))
	}
	counter := shards.New(r.client, above(p.collection), shards.Collection(p.collection), shards.Field(p.field),
		shards.RollUpAt(p.counter.RollUp), shards.NumShards(r.Shards))
	return r.persist(ctx, func() error {
		sent := time.Now()
		committed, err := counter.Increment(ctx, 1)
		if errors.Is(err, shards.ErrInDoubt) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.inDoubt++
			return nil
		}
		if err == nil {
			r.acknowledged(p, sent, committed)
		}
		return err
	})
}

// put writes the document of an id, which is new to the part, so that it adds 1 to the total.
func (r *run) put(ctx context.Context, p *part, id string) error {
	fields := make(map[string]any)
	if p.field != "" {
		fields[p.field] = 1
	}
	return r.persist(ctx, func() error {
		sent := time.Now()
		committed, err := r.set(ctx, p.collection+"/"+id, fields)
		if err == nil {
			r.acknowledged(p, sent, committed)
		}
		return err
	})
}

// set writes a document. To send it twice does no harm.
func (r *run) set(ctx context.Context, path string, fields map[string]any) (committed time.Time, err error) {
	r.traces.source(path)
	if fields == nil {
		fields = make(map[string]any)
	}
	result, err := r.client.Doc(path).Set(ctx, fields)
	if err != nil {
		return time.Time{}, fmt.Errorf("writing %s: %w", path, err)
	}
	return result.UpdateTime, nil
}

// acknowledged notes a write of the part.
func (r *run) acknowledged(p *part, sent, committed time.Time) {
	r.clock.saw(sent, committed, time.Now())
	p.mu.Lock()
	defer p.mu.Unlock()
	p.committed = append(p.committed, committed)
}

// retryPause is the time between a write that failed for a while and the next try.
const retryPause = 200 * time.Millisecond

// persist calls write again while it fails for a reason that may pass, for as long as the timeout.
func (r *run) persist(ctx context.Context, write func() error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, r.Timeout, fmt.Errorf("Firestore took no write within %v", r.Timeout))
	defer cancel()
	for {
		err := write()
		if err == nil || !passing(err) {
			return err
		}
		if ended := sleep(ctx, retryPause); ended != nil {
			return fmt.Errorf("%w: %w", ended, err)
		}
	}
}

// passing reports whether what failed with the error may succeed later.
func passing(err error) bool {
	return slices.Contains([]codes.Code{codes.Aborted, codes.Unavailable, codes.ResourceExhausted, codes.Internal}, status.Code(err))
}

// sleep waits for d, or until ctx ends, whose cause it then returns.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// above returns the path of the document that a collection is in.
func above(collection string) string {
	return collection[:max(0, strings.LastIndexByte(collection, '/'))]
}

// documents returns the references to paths.
func documents(client *firestore.Client, paths []string) []*firestore.DocumentRef {
	refs := make([]*firestore.DocumentRef, len(paths))
	for i, path := range paths {
		refs[i] = client.Doc(path)
	}
	return refs
}
