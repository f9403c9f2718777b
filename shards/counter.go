package shards

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/document"
)

// A Counter is one distributed counter. Make it with [New]; the zero value is not
// usable.
//
// Any number of goroutines may share a Counter. Keep it for as long as the counter
// is in use: it remembers the number of shards, which a new Counter has to read.
type Counter struct {
	client    *firestore.Client
	doc       *firestore.DocumentRef   // may hold num_shards; may not exist
	shards    *firestore.CollectionRef // holds the shards and nothing else
	tokens    *firestore.CollectionRef // holds the tokens of increments
	rollUp    *firestore.DocumentRef   // nil: none is known
	field     string                   // holds the number, in each shard and in the roll-up
	fixed     int64                    // number of shards, as the app's code gives it; 0: ask numShards
	numShards numShardsCache
	progress  func(done, total int)
	err       error // what is wrong with New's arguments; every method returns it
}

// New returns the counter whose document has the given path, such as
// "counters/visitors" or "posts/7/counters/likes". The document need not exist.
// Without options, the counter's shards are the documents of its subcollection
// "shards", each keeps its part of the count in the field "count", and the roll-up
// of "counters/visitors" is "rollups/visitors".
//
// New sends nothing. Arguments that no counter can have (a path that is not a
// document's, say) are reported by every method of the Counter, before anything is
// sent.
func New(client *firestore.Client, counter string, opts ...Option) *Counter {
	c, err := newCounter(client, counter, opts)
	if err != nil {
		return &Counter{err: err}
	}
	return c
}

func newCounter(client *firestore.Client, counter string, opts []Option) (*Counter, error) {
	o := options{field: "count", progress: func(int, int) {}, now: time.Now}
	for _, opt := range opts {
		opt(&o)
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	if client == nil {
		return nil, errors.New("shards: nil Firestore client")
	}

	c := &Counter{client: client, field: o.field, fixed: int64(o.numShards), progress: o.progress}
	c.numShards = numShardsCache{read: c.readNumShards, now: o.now}
	var err error
	if c.doc, err = documentAt(client, counter); err != nil {
		return nil, err
	}
	if c.shards, err = collectionAt(client, cmp.Or(o.collection, counter+"/shards")); err != nil {
		return nil, err
	}
	if c.tokens = c.doc.Collection(document.TokensCollection); c.tokens.Path == c.shards.Path {
		return nil, fmt.Errorf("shards: collection %q is for the tokens of IncrementOnce, not for shards", o.collection)
	}
	if path := cmp.Or(o.rollUp, defaultRollUp(counter, o.collection)); path != "" {
		if c.rollUp, err = documentAt(client, path); err != nil {
			return nil, err
		}
		if path == counter && slices.Contains(ownFields, o.field) {
			return nil, fmt.Errorf("shards: field %q has another meaning in the counter document, which is the roll-up document", o.field)
		}
	}
	return c, nil
}

// defaultRollUp is where Tally's default route rolls the counter up, or "" if that
// route does not serve it.
func defaultRollUp(counter, collection string) string {
	id, ok := strings.CutPrefix(counter, "counters/")
	if !ok || strings.Contains(id, "/") || collection != "" {
		return ""
	}
	return "rollups/" + id
}

// documentAt returns the document at path. It refuses what is not UTF-8, because the SDK
// takes the failure to encode that for a passing one: a read would hang until its
// context ends.
func documentAt(client *firestore.Client, path string) (*firestore.DocumentRef, error) {
	if doc := client.Doc(path); doc != nil && utf8.ValidString(path) {
		return doc, nil
	}
	return nil, fmt.Errorf("shards: %q is not the path of a document", path)
}

// collectionAt returns the collection at path.
func collectionAt(client *firestore.Client, path string) (*firestore.CollectionRef, error) {
	if coll := client.Collection(path); coll != nil && utf8.ValidString(path) {
		return coll, nil
	}
	return nil, fmt.Errorf("shards: %q is not the path of a collection", path)
}
