package shards

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/document"
	"golang.org/x/sync/singleflight"
)

// DefaultNumShards is over how many shards increments spread if neither [NumShards] nor the counter
// document says a number. At Firestore's one sustained write per second and document, 10 shards
// carry about 10 increments per second.
const DefaultNumShards = document.DefaultNumShards

// numShardsLife is how long a Counter uses the number of shards that it has read. An outdated
// number does no harm, but a hot counter gets the relief of more shards later. One minute bounds
// that delay. It costs 1,440 reads a day for a Counter that is always in use.
const numShardsLife = time.Minute

// numShardsIn returns the number of shards that a counter document says. It returns 0 if the
// document says none or does not exist.
func numShardsIn(doc *firestore.DocumentSnapshot) (int64, error) {
	value, field := document.NumShards(doc.Data())
	if field == "" {
		return 0, nil
	}
	n, ok := value.(int64)
	if !ok || n < 1 {
		return 0, fmt.Errorf("field %s of %s is %#v, want an integer of at least 1", field, doc.Ref.Path, value)
	}
	return n, nil
}

// NumShards returns over how many shards increments spread. It learns that as [Counter.Increment]
// does: it reads the counter document, at most once a minute, or nothing with the option
// [NumShards].
func (c *Counter) NumShards(ctx context.Context) (int, error) {
	n, err := c.spread(ctx)
	return int(n), err
}

// spread returns over how many shards increments go.
func (c *Counter) spread(ctx context.Context) (int64, error) {
	if c.err != nil || c.fixed != 0 {
		return c.fixed, c.err
	}
	n, err := c.numShards.get(ctx)
	if err != nil {
		err = fmt.Errorf("shards: read the number of shards: %w", err)
	}
	return n, err
}

// readNumShards reads the number of shards from the counter document.
func (c *Counter) readNumShards(ctx context.Context) (int64, error) {
	docs, err := c.client.GetAll(ctx, []*firestore.DocumentRef{c.doc})
	if err != nil {
		return 0, fmt.Errorf("%s: %w", c.doc.Path, err)
	}
	n, err := numShardsIn(docs[0])
	if err != nil {
		return 0, err
	}
	return cmp.Or(n, DefaultNumShards), nil
}

// A numShardsCache remembers a counter's number of shards. If it is asked and does not know the
// number, it reads it, once for all who ask at that time. It remembers the number for
// numShardsLife. It does not remember a failed read.
type numShardsCache struct {
	read    func(context.Context) (int64, error)
	now     func() time.Time
	reading singleflight.Group

	mu    sync.Mutex
	n     int64     // valid until the time in the field until
	until time.Time // zero: nothing was read yet
}

// readLimit bounds a read. A read is for all who wait for it, so it does not end with the context
// of the first of them.
const readLimit = 10 * time.Second

// set replaces the number by one that was right at the time at. A read that is under way may still
// put an older number in its place, for numShardsLife at most.
func (s *numShardsCache) set(n int64, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n, s.until = n, at.Add(numShardsLife)
}

// known returns the number. It reports false if none is kept, or if that is too old.
func (s *numShardsCache) known() (n int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n, s.now().Before(s.until)
}

// get returns the number, and reads it if it is not known.
func (s *numShardsCache) get(ctx context.Context) (int64, error) {
	n, ok := s.known()
	if ok {
		return n, nil
	}

	answer := s.reading.DoChan("", func() (any, error) { return s.readForAll(context.WithoutCancel(ctx)) })
	select {
	case a := <-answer:
		return a.Val.(int64), a.Err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// readForAll reads the number and keeps it.
func (s *numShardsCache) readForAll(ctx context.Context) (int64, error) {
	// Another read may have ended since the caller asked.
	known, ok := s.known()
	if ok {
		return known, nil
	}

	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()

	began := s.now()
	n, err := s.read(ctx)
	if err != nil {
		return 0, err
	}
	s.set(n, began)
	return n, nil
}
