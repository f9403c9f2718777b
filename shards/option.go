package shards

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/firestore-tally/tally/internal/document"
)

// An Option tells [New] how a counter differs from the default layout.
type Option func(*options)

// options is what New is told beside the counter's path.
type options struct {
	field      string
	collection string // "": the counter document's subcollection "shards"
	rollUp     string // "": rollups/{id} for counters/{id}, else none
	numShards  int    // 0: the counter document knows
	progress   func(done, total int)
	now        func() time.Time
}

// Field names the field that holds the number, in the shards and in the roll-up
// document; the default is "count". It is the name of a top-level field: a dot is
// part of the name. "tally" is refused, because it has another meaning in a roll-up
// document; and so are "num_shards", "numShards", "once_per_user" and "frozen" if the
// counter document is the roll-up document.
func Field(name string) Option {
	return func(o *options) { o.field = name }
}

// Collection is the path of the collection that holds the shards, for layouts in
// which that is not the counter document's subcollection "shards". All documents of
// the collection are this counter's shards.
func Collection(path string) Option {
	return func(o *options) { o.collection = path }
}

// NumShards says that the app keeps the number of shards, n, in its code. The
// counter document is then neither read nor written, which saves one read per
// [Counter] and minute: worthwhile where counters are many and each is incremented
// rarely. NumShards(0) is the default: the counter document knows.
func NumShards(n int) Option {
	return func(o *options) { o.numShards = n }
}

// RollUpAt is the path of the counter's roll-up document: what Tally's route for
// this counter makes of it. Only "counters/{id}" with its shards in the default
// place needs no RollUpAt; its roll-up is "rollups/{id}".
func RollUpAt(path string) Option {
	return func(o *options) { o.rollUp = path }
}

// Progress has f called when the commits of a method that may need many are through, one call at a
// time: how many shards are done, and out of how many. [Counter.Create] and [Counter.Delete] begin at
// 0, [Counter.Resize] and [Counter.Renumber] with the shards that there are, and then anew with those to
// fold. [Counter.Set] and its kin count the shards that they write or delete.
func Progress(f func(done, total int)) Option {
	return func(o *options) { o.progress = f }
}

// withClock replaces time.Now, for tests.
func withClock(now func() time.Time) Option {
	return func(o *options) { o.now = now }
}

// check reports options that no counter can have.
func (o *options) check() error {
	switch {
	case o.field == "":
		return errors.New("shards: empty field name")
	case !utf8.ValidString(o.field): // see documentAt
		return fmt.Errorf("shards: field %q is not UTF-8", o.field)
	case o.field == document.TallyField:
		return fmt.Errorf("shards: field %q has another meaning in the roll-up document", o.field)
	case o.numShards < 0:
		return fmt.Errorf("shards: number of shards is %d, want at least 1", o.numShards)
	}
	return nil
}
