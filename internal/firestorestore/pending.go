package firestorestore

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/rollup"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// pending is the collection of pending marks. Routes that could name a document of it are refused.
const pending = "rollup_pending"

// A markDocument is a pending mark. Its id is a hash of Shards, so that ids are not in sequence. A
// field that is missing reads as empty: without Queued no drain finds the mark, without Shards no
// route matches it.
type markDocument struct {
	Shards string `firestore:"shards"`

	// Nonce is new in every marking: a write that changes nothing would keep the update time, which is
	// the mark's version.
	Nonce string `firestore:"nonce"`

	// Queued is one of queues prefixes, chosen by the id, and the time of the marking by the
	// instance's clock. It serves no more than the order; a mark that is ahead of the drain's clock
	// waits for the next drain.
	Queued string `firestore:"queued"`
}

// queues divide the index of the marks' times. Firestore sustains about 500 writes a second to a
// collection whose indexed field takes sequential values
// (https://firebase.google.com/docs/firestore/best-practices#hotspots), so they allow 4,000 marks a
// second.
const queues = 8

// marksPage is how many marks of one queue are read at once.
const marksPage = 100

// queued returns Queued of the n-th queue's mark of a time. It sorts as the times do.
func queued(n int, t time.Time) string {
	return fmt.Sprintf("%d %s", n, t.UTC().Format("2006-01-02T15:04:05.000000Z"))
}

// Mark implements rollup.PendingStore.
func (s *Store) Mark(ctx context.Context, c rollup.Counter) error {
	doc, queue := s.mark(c)
	_, err := doc.Set(ctx, markDocument{Shards: c.Shards, Nonce: rand.Text(), Queued: queued(queue, s.now())})
	if err != nil {
		return fmt.Errorf("firestore: marking %s: %w", c.RollUp, err)
	}
	return nil
}

// mark returns where c's mark is, and its queue.
func (s *Store) mark(c rollup.Counter) (doc *firestore.DocumentRef, queue int) {
	sum := sha256.Sum256([]byte(c.Shards))
	return s.client.Collection(pending).Doc(base64.RawURLEncoding.EncodeToString(sum[:])), int(sum[0]) % queues
}

// Marked implements rollup.PendingStore.
func (s *Store) Marked(ctx context.Context, c rollup.Counter) (bool, error) {
	doc, _ := s.mark(c)
	_, err := doc.Get(ctx)
	switch status.Code(err) {
	case codes.OK:
		return true, nil
	case codes.NotFound:
		return false, nil
	}
	return false, fmt.Errorf("firestore: reading the mark of %s: %w", c.Shards, err)
}

// Marks implements rollup.PendingStore. It bills one read for each mark, and one for each queue that
// holds none.
func (s *Store) Marks(ctx context.Context, f func(rollup.Mark) error) error {
	var next []firestore.Query
	for n := range queues {
		next = append(next, s.client.Collection(pending).OrderBy("queued", firestore.Asc).
			Where("queued", ">=", queued(n, time.Time{})).Where("queued", "<=", queued(n, s.now())).Limit(marksPage))
	}
	for len(next) > 0 {
		pages := make([][]*firestore.DocumentSnapshot, len(next))
		reads, reading := errgroup.WithContext(ctx)
		for n, query := range next {
			reads.Go(func() (err error) {
				pages[n], err = query.Documents(reading).GetAll()
				return err
			})
		}
		if err := reads.Wait(); err != nil {
			return fmt.Errorf("firestore: reading %s: %w", pending, err)
		}
		var further []firestore.Query
		for n, page := range pages {
			if len(page) == marksPage {
				further = append(further, next[n].StartAfter(page[len(page)-1]))
			}
		}
		next = further
		marks := slices.Concat(pages...)
		slices.SortFunc(marks, func(a, b *firestore.DocumentSnapshot) int { return a.UpdateTime.Compare(b.UpdateTime) })
		for _, doc := range marks {
			m := rollup.Mark{ID: doc.Ref.ID, Version: doc.UpdateTime}
			m.Shards, _ = doc.Data()["shards"].(string)
			if err := f(m); err != nil {
				return err
			}
		}
	}
	return nil
}

// Unmark implements rollup.PendingStore.
func (s *Store) Unmark(ctx context.Context, m rollup.Mark) error {
	_, err := s.client.Collection(pending).Doc(m.ID).Delete(ctx, firestore.LastUpdateTime(m.Version))
	return outcome(err, "removing the mark of", m.Shards)
}
