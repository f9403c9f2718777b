package dashboard

import (
	"context"
	"fmt"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/cloud/billing"
	"github.com/googleapis/gax-go/v2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A noter is called with the changes of the documents that a query finds, in no order. The first
// call has every document that the query finds.
type noter func(changes []firestore.DocumentChange, first bool)

// A feed follows what a query finds.
type feed struct {
	database Database
	name     string // for errors
	query    firestore.Query
	interval time.Duration // between two polls of an emulator
	note     noter         // is called with the board's mutex locked

	// Under the board's mutex:
	began time.Time // by the local clock; zero: note was not called yet
	err   error     // why the feed is interrupted; nil: it is not
}

// The pause before a feed begins again after Firestore refused it. A person has to fix the reason
// of a refusal, such as a missing permission, so the pause grows.
const (
	firstPause   = 2 * time.Second
	longestPause = 30 * time.Second
)

// How long an emulator is left alone between two polls. A poll of 500 documents takes 15 to 60 ms.
const (
	pollRollUps = time.Second
	pollShards  = 300 * time.Millisecond
)

// follow keeps up with a feed, and counts what that costs, until ctx ends. If Firestore refuses,
// follow reports that once and begins again after a pause.
func (b *Board) follow(ctx context.Context, f *feed) {
	pause := firstPause
	for {
		began, err := b.followOnce(ctx, f)
		if ctx.Err() != nil {
			return
		}
		if began {
			pause = firstPause
		}

		b.interrupted(f, err)
		stopped := gax.Sleep(ctx, pause)
		if stopped != nil {
			return
		}
		pause = min(2*pause, longestPause)
	}
}

// followOnce keeps up with a feed until Firestore refuses or ctx ends. began reports whether the
// first documents came before that.
//
// It polls an emulator. Google's emulator sends a listener every document of the query again for
// each change, and clients' writes wait meanwhile (14 s, with 500 active counters). It listens to a
// real Firestore, because a poll costs a read for each document and a listener for each change.
func (b *Board) followOnce(ctx context.Context, f *feed) (began bool, err error) {
	note := func(changes []firestore.DocumentChange, first bool) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.bill(changes, first)
		if first {
			began, f.began = true, time.Now()
		}
		f.err = nil
		f.note(changes, first)
	}

	if b.options.Emulator != "" {
		err = poll(ctx, f.query, f.interval, note)
	} else {
		err = listen(ctx, f.query, note)
	}
	return began, err
}

// interrupted notes why a feed is interrupted, and reports it unless that was known already.
func (b *Board) interrupted(f *feed, err error) {
	if f.err != nil { // read without the mutex: only this goroutine changes it
		return
	}
	err = b.options.Report(fmt.Errorf("%s: %w", f.name, err))

	b.mu.Lock()
	defer b.mu.Unlock()
	f.err = err
}

// bill counts what Firestore bills for the changes that a listener gets: a read for each document
// that is new or changed, and one for a query that finds nothing
// (https://cloud.google.com/firestore/pricing). When the SDK opens a listener's stream again by
// itself, Firestore may send and bill unchanged documents. No change reports these documents, so
// they are not counted. For Enterprise, documents are taken to have 4 KiB at most.
func (b *Board) bill(changes []firestore.DocumentChange, first bool) {
	var used billing.Usage
	for _, change := range changes {
		if change.Kind != firestore.DocumentRemoved {
			used.Counts.Reads++
		}
	}

	n := used.Counts.Reads
	used.Units = billing.Updates(n, 0)
	if first {
		used.Counts.Reads = max(1, n)
		used.Units = billing.Scan(n, billing.SumEntry).Add(billing.PointReads(n, 0))
	}
	b.used = b.used.Add(used)
}

// listen notes what a listener gets until Firestore ends it.
func listen(ctx context.Context, q firestore.Query, note noter) error {
	snapshots := q.Snapshots(ctx)
	defer snapshots.Stop()

	snapshot, err := snapshots.Next()
	if err != nil {
		return err
	}
	note(snapshot.Changes, true)

	for {
		snapshot, err := snapshots.Next()
		if err != nil {
			return err
		}
		note(snapshot.Changes, false)
	}
}

// pollShare bounds how much of an emulator's time polls take, however many documents there are.
// After each poll the emulator is left alone for so many times as long as the poll took.
const pollShare = 4

// poll asks again and again, and notes what a listener would get, until Firestore refuses. Like the
// SDK's listeners, it goes on after errors that pass. The [line] notes those.
func poll(ctx context.Context, q firestore.Query, interval time.Duration, note noter) error {
	var known documents
	for {
		began := time.Now()
		found, err := q.Documents(ctx).GetAll()
		switch {
		case err == nil:
			changes, first := difference(known, found), known == nil
			if first || len(changes) > 0 {
				note(changes, first)
			}
			known = byPath(found)
		case !passes(err):
			return err
		}

		err = gax.Sleep(ctx, max(interval, pollShare*time.Since(began)))
		if err != nil {
			return err
		}
	}
}

// documents are those that the last poll found, by path; nil: no poll has succeeded.
type documents map[string]*firestore.DocumentSnapshot

func byPath(found []*firestore.DocumentSnapshot) documents {
	all := make(documents, len(found))
	for _, doc := range found {
		all[doc.Ref.Path] = doc
	}
	return all
}

// difference returns the changes from the documents known, which it empties, to those found.
func difference(known documents, found []*firestore.DocumentSnapshot) []firestore.DocumentChange {
	var changes []firestore.DocumentChange
	for _, doc := range found {
		before := known[doc.Ref.Path]
		if before == nil || !before.UpdateTime.Equal(doc.UpdateTime) {
			changes = append(changes, firestore.DocumentChange{Kind: firestore.DocumentModified, Doc: doc})
		}
		delete(known, doc.Ref.Path)
	}

	for _, doc := range known { // what was not found again
		changes = append(changes, firestore.DocumentChange{Kind: firestore.DocumentRemoved, Doc: doc})
	}
	return changes
}

// passes reports whether the SDK's listeners try again by themselves after an error.
func passes(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Internal,
		codes.ResourceExhausted, codes.Unauthenticated, codes.Unknown:
		return true
	}
	return false
}
