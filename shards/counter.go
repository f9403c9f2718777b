package shards

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/document"
)

// A Counter is one distributed counter. Make it with [New]; the zero value is not usable. Any
// number of goroutines may share it. Keep it for as long as the counter is in use: it remembers the
// number of shards, which a new Counter has to read.
type Counter struct {
	options
	client    *firestore.Client
	doc       *firestore.DocumentRef   // may hold num_shards; may not exist
	shards    *firestore.CollectionRef // holds the shards and nothing else
	tokens    *firestore.CollectionRef // holds the tokens of increments
	rollUp    *firestore.DocumentRef   // nil: none is known
	numShards numShardsCache           // not used if fixed is set
	err       error                    // what is wrong with New's arguments; every method returns it
}

// An Option tells [New] how a counter differs from the default layout.
type Option func(*options)

// options are New's arguments other than the client and the counter's path.
type options struct {
	field      string // holds the number, in each shard and in the roll-up
	collection string // "": the counter document's subcollection "shards"
	rollUpAt   string // "": rollups/{id} for counters/{id}, else none
	fixed      int64  // number of shards; 0: the counter document says it
	progress   func(done, total int)
}

// Field names the top-level field that holds the number, in the shards and in the roll-up document.
// The default is "count". A dot is part of the name. The name "tally" is refused, because it has
// another meaning in a roll-up document. If the counter document is the roll-up document, the names
// "num_shards", "numShards", "auto_shards" and "frozen" are refused, too.
func Field(name string) Option {
	return func(o *options) { o.field = name }
}

// Collection is the path of the collection that holds the shards. The default is the counter
// document's subcollection "shards". All documents of the collection are this counter's shards.
func Collection(path string) Option {
	return func(o *options) { o.collection = path }
}

// NumShards says that the app keeps the number of shards, n, in its code. The counter document is
// then neither read nor written, which saves one read per [Counter] and minute where counters are
// many and each is incremented rarely. NumShards(0) is the default: the counter document says the
// number.
func NumShards(n int) Option {
	return func(o *options) { o.fixed = int64(n) }
}

// RollUpAt is the path of the counter's roll-up document, as Tally's route gives it. Only a counter
// at "counters/{id}" whose shards are in the default place needs no RollUpAt. Its roll-up is
// "rollups/{id}".
func RollUpAt(path string) Option {
	return func(o *options) { o.rollUpAt = path }
}

// Progress is for methods that may need many commits. They call f after each commit, one call at a
// time, and say how many shards are done, and out of how many. [Counter.Create] and
// [Counter.Delete] count all shards, and so do [Counter.CreateAuto] and [Counter.Resize] if they
// create some. [Counter.Set], [Counter.SetFloat] and [Counter.Import] count the shards that they
// write or delete.
func Progress(f func(done, total int)) Option {
	return func(o *options) { o.progress = f }
}

// New returns the counter whose document has the given path, such as "counters/visitors" or
// "posts/7/counters/likes". The document need not exist. Options say what differs from the layout
// in the package comment.
//
// New sends nothing. If an argument is wrong, such as a path that is not a document's, every method
// of the Counter returns an error before it sends anything.
func New(client *firestore.Client, counter string, opts ...Option) *Counter {
	c := &Counter{client: client, options: options{field: "count", progress: func(int, int) {}}}
	for _, opt := range opts {
		opt(&c.options)
	}

	c.numShards = numShardsCache{read: c.readNumShards, now: time.Now}
	c.err = c.resolve(counter)
	return c
}

// resolve sets the counter's documents and collections. It returns an error if New's arguments are
// wrong.
func (c *Counter) resolve(counter string) error {
	err := c.check()
	if err != nil {
		return err
	}

	c.doc, err = documentAt(c.client, counter)
	if err != nil {
		return err
	}
	shards := cmp.Or(c.collection, counter+"/shards")
	c.shards = c.client.Collection(shards)
	if c.shards == nil || !utf8.ValidString(shards) {
		return fmt.Errorf("shards: %q is not the path of a collection", shards)
	}
	c.tokens = c.doc.Collection(document.TokensCollection)
	if c.tokens.Path == c.shards.Path {
		return fmt.Errorf("shards: collection %q is for the tokens of IncrementOnce, not for shards", c.collection)
	}

	rollUp := c.rollUpPath(counter)
	if rollUp == "" {
		return nil
	}
	if rollUp == counter && slices.Contains(document.CounterFields, c.field) {
		return fmt.Errorf("shards: field %q has another meaning in the counter document, which is the roll-up document", c.field)
	}
	c.rollUp, err = documentAt(c.client, rollUp)
	return err
}

// check returns an error if one of New's arguments is wrong by itself.
func (c *Counter) check() error {
	switch {
	case c.field == "":
		return errors.New("shards: empty field name")
	case !utf8.ValidString(c.field): // see documentAt
		return fmt.Errorf("shards: field %q is not UTF-8", c.field)
	case c.field == document.TallyField:
		return fmt.Errorf("shards: field %q has another meaning in the roll-up document", c.field)
	case c.fixed < 0:
		return fmt.Errorf("shards: number of shards is %d, want at least 1", c.fixed)
	case c.client == nil:
		return errors.New("shards: nil Firestore client")
	}
	return nil
}

// rollUpPath returns the path of the counter's roll-up document; "" if none is known. Only the
// default route of Tally needs no option to know it.
func (c *Counter) rollUpPath(counter string) string {
	if c.rollUpAt != "" {
		return c.rollUpAt
	}

	id, inCounters := strings.CutPrefix(counter, "counters/")
	isDefault := inCounters && !strings.Contains(id, "/") && c.collection == ""
	if !isDefault {
		return ""
	}
	return "rollups/" + id
}

// documentAt returns the document at path. It refuses a path that is not UTF-8. The SDK cannot
// encode such a path. It would treat the failure as temporary, and retry a read until its context
// ends.
func documentAt(client *firestore.Client, path string) (*firestore.DocumentRef, error) {
	doc := client.Doc(path)
	if doc == nil || !utf8.ValidString(path) {
		return nil, fmt.Errorf("shards: %q is not the path of a document", path)
	}
	return doc, nil
}

// shard returns the shard of the given number.
func (c *Counter) shard(n int64) *firestore.DocumentRef {
	return c.shards.Doc(strconv.FormatInt(n, 10))
}

// failed adds the operation and the counter to err. It returns nil if err is nil.
func (c *Counter) failed(operation string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("shards: %s %s: %w", operation, c.doc.Path, err)
}

// transact runs f in a transaction. The SDK may run f more than once.
func (c *Counter) transact(ctx context.Context, f func(*firestore.Transaction) error, opts ...firestore.TransactionOption) error {
	return c.client.RunTransaction(ctx, func(_ context.Context, tx *firestore.Transaction) error { return f(tx) }, opts...)
}

// shardsPerCommit is the most shards that this package writes in one commit. Firestore's SDKs
// document a limit of 500 writes for a batch. One of those is for the counter document or a token.
// Firestore itself has no such limit any more, but larger commits would gain nothing.
const shardsPerCommit = 499

// inCommits calls commit with at most shardsPerCommit of the writes at a time, in order. The
// progress and the error also count the done writes that need not be made.
func inCommits[T any](c *Counter, done int, writes []T, commit func([]T) error) error {
	total := done + len(writes)
	for chunk := range slices.Chunk(writes, shardsPerCommit) {
		err := commit(chunk)
		if errors.Is(err, ErrNumShards) { // found before the write
			return fmt.Errorf("%d of %d writes are done: %w", done, total, err)
		}
		if err != nil {
			return fmt.Errorf("%d of %d writes are done, the next %d perhaps: %w", done, total, len(chunk), err)
		}
		done += len(chunk)
		c.progress(done, total)
	}
	return nil
}

// An addition is an increment of one shard.
type addition struct {
	shard  *firestore.DocumentRef
	amount Total
}

// add makes the additions in a transaction. Each creates its shard if that is missing.
func (c *Counter) add(tx *firestore.Transaction, additions ...addition) error {
	for _, a := range additions {
		fields := map[string]any{c.field: firestore.Increment(a.amount.Firestore())}
		err := tx.Set(a.shard, fields, firestore.MergeAll)
		if err != nil {
			return err
		}
	}
	return nil
}
