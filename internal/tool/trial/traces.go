package trial

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/googleapis/gax-go/v2"
)

// written returns the paths of the documents that the parts may have written, each once.
func (r *run) written() (paths []string) {
	for _, p := range r.begun {
		if p.home != "" {
			paths = append(paths, p.home)
		}
		if p.shards != nil {
			for shard := range r.Shards {
				paths = append(paths, fmt.Sprintf("%s/%d", p.collection, shard))
			}
		}
		for n := range p.documents.Load() {
			paths = append(paths, p.document(n+1))
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// rollUpsOf returns the paths of the roll-ups that the functions make of the parts' documents, by
// all routes that have these documents. It leaves out the app's own documents.
func rollUpsOf(routes route.Routes, parts []*part) (paths []string) {
	for _, p := range parts {
		for _, r := range routes {
			c, covered := r.Counter(p.collection)
			if covered && !c.Template.Existing && !slices.Contains(paths, c.RollUp) {
				paths = append(paths, c.RollUp)
			}
		}
	}
	return paths
}

// Bounds of what follows a trial, also one that was interrupted.
const (
	cleanWithin  = time.Minute      // in addition to the time until a roll-up is due
	chunkWithin  = 2 * time.Second  // more for each chunk
	settleWithin = 20 * time.Second // in addition to the time until a roll-up is due
	settleEvery  = 500 * time.Millisecond

	atOnce = 400 // documents of a chunk: of a commit, or of a read

	// linger is how long an event may come later than others of the same counter. If an event comes
	// after its roll-up is deleted, the functions create the roll-up again, and find that it is
	// empty only at an audit an hour later.
	linger = 3 * time.Second
)

// clean deletes all that the trial made. It returns the paths of the documents that are left, or,
// if that is unknown, of those documents that may be left, and why.
func (r *run) clean(ctx context.Context) (left []string, err error) {
	written, rollUps := r.written(), rollUpsOf(r.Config.Routes, r.begun)
	limit := cleanWithin + r.Config.Cadence + time.Duration(len(written)/atOnce)*chunkWithin
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not deleted within %v", limit))
	defer cancel()

	undeleted := r.deleteAll(ctx, written, rollUps)
	left, unread := r.existing(ctx, slices.Concat(written, rollUps))
	switch {
	case len(left) == 0:
		return nil, nil
	case undeleted != nil:
		return left, undeleted
	case unread != nil:
		return left, unread
	}
	return left, fmt.Errorf("%s came back after the deletion", numberOf(len(left), "document"))
}

// deleteAll deletes what the trial wrote, and then the roll-ups. It waits in between until the
// functions have rolled up that the documents are gone: their events would make the roll-ups again.
func (r *run) deleteAll(ctx context.Context, written, rollUps []string) error {
	deleted, err := r.delete(ctx, written)
	if err != nil {
		return err
	}

	unsettled := r.settle(ctx, deleted)
	_, err = r.delete(ctx, rollUps)
	return errors.Join(unsettled, err)
}

// delete deletes documents, which need not exist, and returns when the last was deleted.
func (r *run) delete(ctx context.Context, paths []string) (committed time.Time, err error) {
	for chunk := range slices.Chunk(documents(r.client, paths), atOnce) {
		var commit firestore.CommitResponse
		err := r.client.RunTransaction(ctx, func(_ context.Context, tx *firestore.Transaction) error {
			return deleteEach(tx, chunk)
		}, firestore.WithCommitResponseTo(&commit))
		if err != nil {
			return committed, fmt.Errorf("deleting %s: %w", numberOf(len(chunk), "document"), err)
		}
		committed = commit.CommitTime()
	}
	return committed, nil
}

func deleteEach(tx *firestore.Transaction, docs []*firestore.DocumentRef) error {
	for _, doc := range docs {
		err := tx.Delete(doc)
		if err != nil {
			return err
		}
	}
	return nil
}

// settle waits until the roll-ups of all parts that have writes cover a time, but not for long: the
// functions may not run. Then it lingers, for events that come late.
func (r *run) settle(ctx context.Context, deleted time.Time) error {
	unwritten := func(p *part) bool { return !p.hasWrites() }
	rollUps := rollUpsOf(r.Config.Routes, slices.DeleteFunc(slices.Clone(r.begun), unwritten))
	if len(rollUps) == 0 {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, min(settleWithin, r.Timeout)+r.Config.Cadence)
	defer cancel()

	behind := func(doc *firestore.DocumentSnapshot) bool {
		return document.DecodeTally(doc.Data()[document.TallyField]).AsOf.Before(deleted)
	}
	for {
		docs, err := r.client.GetAll(bounded, documents(r.client, rollUps))
		if bounded.Err() != nil && ctx.Err() == nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading roll-ups: %w", err)
		}
		if !slices.ContainsFunc(docs, behind) {
			return gax.Sleep(ctx, linger)
		}
		_ = gax.Sleep(bounded, settleEvery) // the next read tells if that was too long
	}
}

// existing returns which of the documents exist; all of them if that is unknown.
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

// numberOf returns a number with its noun.
func numberOf(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// documents returns the references to paths.
func documents(client *firestore.Client, paths []string) []*firestore.DocumentRef {
	refs := make([]*firestore.DocumentRef, len(paths))
	for i, path := range paths {
		refs[i] = client.Doc(path)
	}
	return refs
}
