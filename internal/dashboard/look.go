package dashboard

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/rollup"
)

// maxShards is how many shards of a counter are listened to.
const maxShards = 1000

// heatWindow is the time over which the writes to a shard are counted.
const heatWindow = 10 * time.Second

// looks are the counters whose shards are listened to, because somebody looks at them. However many
// look, a counter has one listener.
type looks struct {
	board *Board
	mu    sync.Mutex
	open  map[lookKey]*look
}

type lookKey struct{ database, shards string }

// A look is a counter's shards as a listener tells them.
type look struct {
	lookers int // under the mutex of looks
	cancel  context.CancelFunc
	ended   chan struct{}

	mu     sync.Mutex
	began  time.Time // by the local clock; zero: no snapshot has come
	shards map[string]*shard
	err    error
}

// A shard is what its document says.
type shard struct {
	fields map[string]any
	writes recent
}

// at begins to look at the shards of a row, until the returned function is called.
func (ls *looks) at(ctx context.Context, r *row) (*look, func()) {
	key := lookKey{r.key.database, r.from.shards}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	k, ok := ls.open[key]
	if !ok {
		k = &look{shards: make(map[string]*shard), ended: make(chan struct{})}
		ctx, k.cancel = context.WithCancel(context.WithoutCancel(ctx)) // whoever looks last ends it
		ls.open[key] = k
		go func() {
			defer close(k.ended)
			shards := r.source.database.Client.Collection(r.from.shards)
			ls.board.follow(ctx, shards.OrderBy(firestore.DocumentID, firestore.Asc).Limit(maxShards), pollShards, k.note, k.failed)
		}()
	}
	k.lookers++
	return k, func() {
		ls.mu.Lock()
		k.lookers--
		last := k.lookers == 0
		if last {
			delete(ls.open, key)
		}
		ls.mu.Unlock()
		if last {
			k.cancel()
			<-k.ended
		}
	}
}

func (k *look) failed(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.err = err
}

func (k *look) note(changes []firestore.DocumentChange, first bool) {
	now := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	if first {
		k.began, k.err = now, nil
		clear(k.shards) // what was known before an interruption
	}
	for _, change := range changes {
		id := change.Doc.Ref.ID
		if change.Kind == firestore.DocumentRemoved {
			delete(k.shards, id)
			continue
		}
		s, ok := k.shards[id]
		if !ok {
			s = &shard{writes: newRecent(heatWindow)}
			k.shards[id] = s
		}
		s.fields = change.Doc.Data()
		if !first {
			s.writes.add(now, 1)
		}
	}
}

// A shardState is a shard as the page is told.
type shardState struct {
	ID     string  `json:"id"`
	Count  string  `json:"count"`  // decimal; "": no number
	Writes float64 `json:"writes"` // a second, as far as the listener was told of each
}

// state returns the shards in the order of their numbers, and their sum in decimal; without a field, how many they are. The sum is "" before
// the shards are known, and if they are too many to know them all.
func (k *look) state(field string, now time.Time) (states []shardState, sum string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.began.IsZero() {
		return nil, "", k.err
	}
	var total rollup.Sum
	states = make([]shardState, 0, len(k.shards))
	for id, s := range k.shards {
		state := shardState{ID: id, Writes: s.writes.perSecond(now, now.Sub(k.began))}
		n, ok := rollup.NumberOf(s.fields[field])
		if field == "" {
			n, ok = rollup.Int(1), true
		}
		if ok {
			state.Count = n.String()
			total.Add(n)
		}
		states = append(states, state)
	}
	slices.SortFunc(states, func(a, b shardState) int { return compareIDs(a.ID, b.ID) })
	if len(states) < maxShards {
		sum = total.Total().String()
	}
	return states, sum, k.err
}

// compareIDs orders numbers by value, before all other ids.
func compareIDs(a, b string) int {
	n, noNumberA := strconv.ParseUint(a, 10, 64)
	m, noNumberB := strconv.ParseUint(b, 10, 64)
	switch {
	case noNumberA == nil && noNumberB == nil && n != m:
		return cmp.Compare(n, m)
	case noNumberA == nil && noNumberB != nil:
		return -1
	case noNumberA != nil && noNumberB == nil:
		return 1
	}
	return cmp.Compare(a, b)
}
