package trial

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup"
)

// traces are the documents that a trial may have made, by their paths. Each is noted before it is
// written. They may be used by many goroutines.
type traces struct {
	mu      sync.Mutex
	sources []string
	rollUps []string // that the functions make
	known   map[string]bool
}

// source notes a document that the trial writes.
func (t *traces) source(path string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.isNew(path) {
		t.sources = append(t.sources, path)
	}
}

// ofCounter notes the roll-ups that the routes make of a part's documents.
func (t *traces) ofCounter(routes rollup.Routes, p *part) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range routes {
		c, ok := r.Counter(p.collection)
		if ok && !c.Template.Existing && t.isNew(c.RollUp) {
			t.rollUps = append(t.rollUps, c.RollUp)
		}
	}
}

// isNew reports whether a path is noted for the first time. The lock is held.
func (t *traces) isNew(path string) bool {
	if t.known == nil {
		t.known = make(map[string]bool)
	}
	was := t.known[path]
	t.known[path] = true
	return !was
}

// paths returns what was noted.
func (t *traces) paths() (sources, rollUps []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.sources), slices.Clone(t.rollUps)
}

// Bounds of what comes after a trial, also after one that was interrupted.
const (
	cleanWithin  = time.Minute
	settleWithin = 20 * time.Second
	settleEvery  = 500 * time.Millisecond
	atOnce       = 400 // documents of a commit, or of a read
)

// clean deletes all that the trial made. It deletes the roll-ups last, once the functions have
// rolled up that their documents are gone: the events of that would make them anew. It returns the
// paths of what may be left, and why.
func (r *run) clean(ctx context.Context) (left []string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, cleanWithin, fmt.Errorf("not deleted within %v", cleanWithin))
	defer cancel()
	sources, rollUps := r.traces.paths()
	all := slices.Concat(sources, rollUps)
	if len(all) == 0 {
		return nil, nil
	}

	deleted, err := r.delete(ctx, sources)
	if err == nil {
		err = r.settle(ctx, rollUps, deleted)
	}
	if err == nil {
		_, err = r.delete(ctx, rollUps)
	}

	left, unread := r.existing(ctx, all)
	return left, errors.Join(err, unread)
}

// delete deletes documents, which need not exist, and returns when the last was.
func (r *run) delete(ctx context.Context, paths []string) (committed time.Time, err error) {
	for chunk := range slices.Chunk(documents(r.client, paths), atOnce) {
		var commit firestore.CommitResponse
		err := r.client.RunTransaction(ctx, func(_ context.Context, tx *firestore.Transaction) error {
			for _, doc := range chunk {
				if err := tx.Delete(doc); err != nil {
					return err
				}
			}
			return nil
		}, firestore.WithCommitResponseTo(&commit))
		if err != nil {
			return committed, fmt.Errorf("deleting %s: %w", counted(len(chunk), "document"), err)
		}
		committed = commit.CommitTime()
	}
	return committed, nil
}

// settle waits until the roll-ups cover a time, but not long: the functions may not run.
func (r *run) settle(ctx context.Context, rollUps []string, deleted time.Time) error {
	bounded, cancel := context.WithTimeout(ctx, min(settleWithin, r.Timeout))
	defer cancel()
	for len(rollUps) > 0 {
		docs, err := r.client.GetAll(bounded, documents(r.client, rollUps))
		if bounded.Err() != nil && ctx.Err() == nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading roll-ups: %w", err)
		}

		behind := func(doc *firestore.DocumentSnapshot) bool {
			return document.DecodeTally(doc.Data()[document.TallyField]).AsOf.Before(deleted)
		}
		if !slices.ContainsFunc(docs, behind) {
			return nil
		}
		_ = sleep(bounded, settleEvery) // the next read tells
	}
	return nil
}

// existing returns which of the documents exist. If nobody knows, they may.
func (r *run) existing(ctx context.Context, paths []string) (there []string, err error) {
	for chunk := range slices.Chunk(paths, atOnce) {
		docs, err := r.client.GetAll(ctx, documents(r.client, chunk))
		if err != nil {
			return paths, fmt.Errorf("reading what is left: %w", err)
		}
		for i, doc := range docs {
			if doc.Exists() {
				there = append(there, chunk[i])
			}
		}
	}
	return there, nil
}
