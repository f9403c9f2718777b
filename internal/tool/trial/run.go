package trial

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"sync/atomic"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/tool/load"
	"github.com/firestore-tally/tally/shards"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ErrSilent is the error of a trial whose writes no roll-up came to cover.
var ErrSilent = errors.New("the deployed functions updated nothing")

// A run is a trial at work.
type run struct {
	*Trial
	store  *firestorestore.Store
	client *firestore.Client
	begun  []*part
	made   atomic.Int64 // writes of the load

	// listening lives until the run ends, also after an interrupt: the deletion needs it.
	listening context.Context //nolint:containedctx // a run is one call
	fail      func(error)     // ends the trial, because a listener failed
}

// Run makes the trial, and deletes all that it made: also after an error, and when ctx ends. The
// report tells what was found until then. An error that is ErrSilent means that the functions did
// not answer.
func (t *Trial) Run(ctx context.Context) (Report, error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	listening, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()

	r := &run{Trial: t, listening: listening, fail: fail}
	report := Report{Project: t.Project, Database: t.Database.ID, Location: t.Database.Location, ID: t.ID}

	var err error
	r.store, err = firestorestore.OpenEdition(listening, t.Config.Edition, t.Address, t.Project, t.Database.ID, slog.New(slog.DiscardHandler), t.Dial...)
	if err != nil {
		return report, err
	}
	defer r.store.Close()
	r.client = r.store.Client()

	err = r.try(ctx, &report)
	if ctx.Err() != nil {
		err = context.Cause(ctx) // an interrupted call fails in many ways
	}

	r.Stage("deleting what the demo made")
	left, unclean := r.clean(listening)
	report.Left = left
	return report, errors.Join(err, unclean)
}

// try writes, waits and compares.
func (r *run) try(ctx context.Context, report *Report) error {
	r.Stage("waiting for the first roll-ups")
	for _, p := range r.parts {
		err := r.first(ctx, p)
		if err != nil {
			return err
		}
	}

	r.Stage("writing")
	err := r.load(ctx)
	if err != nil {
		return err
	}

	r.Stage("waiting for the last roll-ups")
	for _, p := range r.parts {
		err := r.awaitCovered(ctx, p, r.limit(p))
		if err != nil {
			return err
		}
	}
	r.compare(report)
	return nil
}

// first begins the part, and waits until a roll-up covers its first writes. The functions may have
// to start for them.
func (r *run) first(ctx context.Context, p *part) error {
	if p.field != "" {
		r.spread(p)
	}

	err := r.begin(ctx, p)
	if err != nil {
		return err
	}
	return r.wakeFunctions(ctx, p, func(ctx context.Context) error {
		err := r.write(ctx, p)
		if err == nil && p.LastCommit().IsZero() {
			return fmt.Errorf("it is unknown whether the first increment of %s was applied; run the demo again", p.collection)
		}
		return err
	})
}

// wakeFunctions makes a write, and waits for a roll-up that covers it. It writes again and again
// meanwhile, because a new trigger may deliver nothing of what was written before it works. The
// error is ErrSilent if no roll-up came within the limit.
func (r *run) wakeFunctions(ctx context.Context, p *part, write func(context.Context) error) error {
	ctx, cancel := silentAfter(ctx, r.limit(p))
	defer cancel()

	for {
		err := write(ctx)
		if err != nil {
			return err
		}

		err = r.awaitCovered(ctx, p, r.retryTime()+r.usualTime(p))
		if !errors.Is(err, ErrSilent) || ctx.Err() != nil {
			return err
		}
	}
}

// spread has the part's writes increment shards.
func (r *run) spread(p *part) {
	p.shards = shards.New(r.client, path.Dir(p.collection), shards.Collection(p.collection), shards.Field(string(p.field)),
		shards.RollUpAt(p.counter.RollUp), shards.NumShards(r.Shards))
}

// begin makes the part's home, if it has one, and listens to its roll-up.
func (r *run) begin(ctx context.Context, p *part) error {
	r.begun = append(r.begun, p)
	if p.home != "" {
		err := r.create(ctx, p.home)
		if err != nil {
			return err
		}
	}

	return p.Listen(r.listening, r.fail, r.client, p.counter.RollUp, p.total)
}

// create creates an empty document, unless it is there: two parts may keep their totals in one.
func (r *run) create(ctx context.Context, path string) error {
	ctx, cancel := r.limited(ctx)
	defer cancel()
	return load.Persist(ctx, func(ctx context.Context) error {
		_, err := r.client.Doc(path).Create(ctx, map[string]any{})
		if err != nil && status.Code(err) != codes.AlreadyExists {
			return fmt.Errorf("writing %s: %w", path, err)
		}
		return nil
	})
}

// load makes the writes at the rate, of each part in turn.
func (r *run) load(ctx context.Context) error {
	return r.WriteAll(ctx, r.Increments, func(ctx context.Context, n int) error {
		err := r.write(ctx, r.parts[n%len(r.parts)])
		if err != nil {
			return err
		}
		r.Progress(int(r.made.Add(1)))
		return nil
	})
}

// write makes a write of the part: an increment by 1 of any shard, or a document more. The id of
// the document is new, so it adds 1 to the total, also if it is sent twice.
func (r *run) write(ctx context.Context, p *part) error {
	ctx, cancel := r.limited(ctx)
	defer cancel()
	if p.shards != nil {
		return p.Add(ctx, func(ctx context.Context) (time.Time, error) { return p.shards.Increment(ctx, 1) })
	}

	path := p.document(p.documents.Add(1))
	return p.Add(ctx, func(ctx context.Context) (time.Time, error) {
		result, err := r.client.Doc(path).Set(ctx, map[string]any{})
		if err != nil {
			return time.Time{}, fmt.Errorf("writing %s: %w", path, err)
		}
		return result.UpdateTime, nil
	})
}

// limited returns a context for one write.
func (r *run) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, r.retryTime(), fmt.Errorf("no write succeeded within %v", r.retryTime()))
}

// awaitCovered waits until a roll-up is seen that covers every acknowledged write of the part. If
// that takes longer than the limit, the error is ErrSilent.
func (r *run) awaitCovered(ctx context.Context, p *part, limit time.Duration) error {
	ctx, cancel := silentAfter(ctx, limit)
	defer cancel()
	return p.Await(ctx)
}

// silentAfter returns a context that ends after a time with ErrSilent as its cause.
func silentAfter(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w within %v", ErrSilent, limit))
}
