package dashboard

import (
	"context"
	"fmt"
	"time"

	"cloud.google.com/go/firestore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A noter takes the changes of what a query finds: first all there is, then what changed, in no
// order.
type noter func(changes []firestore.DocumentChange, first bool)

// A feed tells what a query finds.
type feed struct {
	database Database
	name     string // for errors
	query    firestore.Query
	interval time.Duration // between two polls of an emulator
	note     noter         // is called with the board's mutex locked

	// Under the board's mutex:
	began time.Time // by the local clock; zero: nothing was told yet
	err   error     // why it was interrupted; nil: it goes on
}

// The pause before a feed begins again after Firestore refused: a refusal, such as a missing
// permission, takes a person to mend.
const (
	firstPause   = 2 * time.Second
	longestPause = 30 * time.Second
)

// How long an emulator is left alone between two polls. One of 500 documents takes it 15 to 60 ms.
const (
	pollRollUps = time.Second
	pollShards  = 300 * time.Millisecond
)

// follow keeps up with a feed, and counts what it bills, until ctx ends. If Firestore refuses,
// follow reports that once and begins again after a pause.
//
// It polls an emulator: Google's sends a listener every document of the query again for each
// change, and clients' writes wait meanwhile (14 s, with 500 active counters). It listens to a real
// Firestore, which bills a poll for each document and a listener for each change.
func (b *Board) follow(ctx context.Context, f *feed) {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		note := func(changes []firestore.DocumentChange, first bool) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.bill(changes, first)
			if first {
				pause, f.began = firstPause, time.Now()
			}
			f.err = nil
			f.note(changes, first)
		}
		var err error
		if b.options.Emulator != "" {
			err = poll(ctx, f.query, f.interval, note)
		} else {
			err = listen(ctx, f.query, note)
		}
		if ctx.Err() != nil {
			return
		}
		if f.err == nil { // only this goroutine changes it
			err = b.options.Report(fmt.Errorf("%s: %w", f.name, err))
			b.mu.Lock()
			f.err = err
			b.mu.Unlock()
		}
		if !rest(ctx, pause) {
			return
		}
	}
}

// bill counts what Firestore bills for changes that a listener is told of: a read for each document
// that is new or changed, and one for a query that finds nothing
// (https://cloud.google.com/firestore/pricing). It does not count documents that Firestore sends
// again, unchanged, after an interruption.
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
	b.reads += reads
}

// rest waits, and reports whether ctx goes on.
func rest(ctx context.Context, pause time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(pause):
		return true
	}
}

// listen notes what a listener is told until Firestore ends it.
func listen(ctx context.Context, q firestore.Query, note noter) error {
	snapshots := q.Snapshots(ctx)
	defer snapshots.Stop()
	for first := true; ; first = false {
		snapshot, err := snapshots.Next()
		if err != nil {
			return err
		}
		note(snapshot.Changes, first)
	}
}

// pollShare bounds how much of an emulator's time polls take, however many documents there are:
// after each poll the emulator is left alone for so many times as long as the poll took.
const pollShare = 4

// poll asks again and again, and notes what a listener would be told, until Firestore refuses. As
// the SDK does for a listener, it goes on after errors that pass, which the [line] notes.
func poll(ctx context.Context, q firestore.Query, interval time.Duration, note noter) error {
	var known map[string]*firestore.DocumentSnapshot // by path; nil: no poll has succeeded
	for {
		began := time.Now()
		docs, err := q.Documents(ctx).GetAll()
		if err == nil {
			if changes := difference(known, docs); len(changes) > 0 || known == nil {
				note(changes, known == nil)
			}
			known = make(map[string]*firestore.DocumentSnapshot, len(docs))
			for _, doc := range docs {
				known[doc.Ref.Path] = doc
			}
		} else if !passes(err) {
			return err
		}
		if !rest(ctx, max(interval, pollShare*time.Since(began))) {
			return ctx.Err()
		}
	}
}

// difference returns the changes from the documents known, which it uses up, to those found.
func difference(known map[string]*firestore.DocumentSnapshot, found []*firestore.DocumentSnapshot) []firestore.DocumentChange {
	var changes []firestore.DocumentChange
	for _, doc := range found {
		if before := known[doc.Ref.Path]; before == nil || !before.UpdateTime.Equal(doc.UpdateTime) {
			changes = append(changes, firestore.DocumentChange{Kind: firestore.DocumentModified, Doc: doc})
		}
		delete(known, doc.Ref.Path)
	}
	for _, doc := range known {
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
