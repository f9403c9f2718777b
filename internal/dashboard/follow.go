package dashboard

import (
	"context"
	"time"

	"cloud.google.com/go/firestore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A noter takes what has changed in what a query finds: first all there is, then the changes, in no
// order.
type noter func(changes []firestore.DocumentChange, first bool)

// The pause before Firestore is asked again after it refused: a refusal, such as a missing permission,
// takes a person to mend.
const (
	firstPause   = 2 * time.Second
	longestPause = 30 * time.Second
)

// How long an emulator is left alone between two polls. One of 500 documents takes it 15 to 60 ms.
const (
	pollRollUps = time.Second
	pollShards  = 300 * time.Millisecond
)

// follow hands what a query finds to note, and bills it, until ctx ends. If Firestore refuses, follow
// tells failed why and begins again after a pause.
//
// It listens. Only an emulator is polled, at the interval: Google's sends every document of the
// query again for each change, and while it does that, clients' writes wait (14 s, with 500 active
// counters). A real Firestore bills a poll for each document, and a listener for each change.
func (b *Board) follow(ctx context.Context, q firestore.Query, interval time.Duration, note noter, failed func(error)) {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		billed := func(changes []firestore.DocumentChange, first bool) {
			b.bill(changes, first)
			note(changes, first)
			if first {
				pause = firstPause
			}
		}
		var err error
		if b.options.Emulator != "" {
			err = poll(ctx, q, interval, billed)
		} else {
			err = listen(ctx, q, billed)
		}
		if ctx.Err() != nil {
			return
		}
		failed(err)
		if !rest(ctx, pause) {
			return
		}
	}
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

// poll asks again and again, and notes what a listener would be told, until Firestore refuses. As the
// SDK does for a listener, it goes on after errors that pass, which the [line] notes.
func poll(ctx context.Context, q firestore.Query, interval time.Duration, note noter) error {
	var known map[string]*firestore.DocumentSnapshot // by path; nil: no poll has succeeded
	for {
		began := time.Now()
		docs, err := q.Documents(ctx).GetAll()
		if err == nil {
			found := make(map[string]*firestore.DocumentSnapshot, len(docs))
			for _, doc := range docs {
				found[doc.Ref.Path] = doc
			}
			if changes := difference(known, found); len(changes) > 0 || known == nil {
				note(changes, known == nil)
			}
			known = found
		} else if !passes(err) {
			return err
		}
		if !rest(ctx, max(interval, pollShare*time.Since(began))) {
			return ctx.Err()
		}
	}
}

// pollShare bounds how much of an emulator's time polls take, however many documents there are: after
// each it is left alone for so many times as long as that took.
const pollShare = 4

// difference returns the changes from the documents known to those found.
func difference(known, found map[string]*firestore.DocumentSnapshot) []firestore.DocumentChange {
	var changes []firestore.DocumentChange
	for path, doc := range found {
		switch before, ok := known[path]; {
		case !ok:
			changes = append(changes, firestore.DocumentChange{Kind: firestore.DocumentAdded, Doc: doc})
		case !before.UpdateTime.Equal(doc.UpdateTime):
			changes = append(changes, firestore.DocumentChange{Kind: firestore.DocumentModified, Doc: doc})
		}
	}
	for path, doc := range known {
		if _, ok := found[path]; !ok {
			changes = append(changes, firestore.DocumentChange{Kind: firestore.DocumentRemoved, Doc: doc})
		}
	}
	return changes
}

// passes reports whether the SDK's listeners try again by themselves after an error.
func passes(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Internal, codes.ResourceExhausted, codes.Unauthenticated, codes.Unknown:
		return true
	}
	return false
}
