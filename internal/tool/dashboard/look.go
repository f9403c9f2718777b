package dashboard

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/value"
	"github.com/firestore-tally/tally/rollup/route"
)

// maxShards is how many shards of a counter are followed.
const maxShards = 1000

// heatWindow is the time over which the writes to a shard are counted.
const heatWindow = 10 * time.Second

// A look follows the shards of a counter that a page has open. However many pages have it open, a
// counter has one look.
type look struct {
	feed
	end    func()
	asked  time.Time         // when a page asked for it last
	below  string            // the path of the collection that the ids are below
	shards map[string]*shard // by id
}

// A shard is a document of a counter, as it was last seen.
type shard struct {
	rank   []byte
	fields map[string]any
	recent recent // writes

	// What the page shows:
	ID     string
	Count  *value.Value // its value that the total counts; nil: the total does not count it
	Writes float64      // a second, of those that the feed noticed
}

// lookAt returns the look at the shards of a row, and begins it if there is none. It ends when
// no page has asked for it for a while. The caller holds the board's mutex.
func (b *Board) lookAt(r *row, now time.Time) *look {
	query, _ := firestorestore.Documents(r.source.database.Client, r.Route, r.counter)
	if timed := r.Route.Time(); timed != "" {
		query = query.OrderByPath(timed.Names(), firestore.Asc)
	}
	query = query.OrderBy(firestore.DocumentID, firestore.Asc).Limit(maxShards)

	below, _, across := r.Route.Group(r.counter)
	if !across {
		below = r.shards
	}
	key := r.source.database.ID + "/" + r.shards
	where, _ := r.Route.Where(r.counter)
	for _, c := range where {
		key += " " + c.String()
	}

	k, exists := b.looks[key]
	if !exists {
		k = &look{below: below, shards: make(map[string]*shard)}
		k.feed = feed{
			name: fmt.Sprintf("shards in %q", r.shards), interval: pollShards,
			query: query,
			note:  func(changes []firestore.DocumentChange, first bool) { b.noteShards(k, changes, first) },
		}
		b.looks[key] = k
		k.end = b.begin(&k.feed)
	}
	k.asked = now
	return k
}

// absence is how long a look goes on that no page asks for.
const absence = 10 * time.Second

// forget ends the looks that no page has asked for in a while.
func (b *Board) forget(local time.Time) {
	maps.DeleteFunc(b.looks, func(_ string, k *look) bool {
		over := local.Sub(k.asked) > absence
		if over {
			k.end()
		}
		return over
	})
}

// noteShards brings a look up to date. The first changes are all shards that there are.
func (b *Board) noteShards(k *look, changes []firestore.DocumentChange, first bool) {
	if first {
		clear(k.shards) // those from before an interruption
	}

	for _, change := range changes {
		id := strings.TrimPrefix(firestorestore.Path(change.Doc.Ref), k.below+"/")
		if change.Kind == firestore.DocumentRemoved {
			delete(k.shards, id)
			continue
		}

		s, known := k.shards[id]
		if !known {
			s = &shard{ID: id, rank: b.model.rank(id)}
			k.shards[id] = s
		}
		s.fields = change.Doc.Data()
		if !first {
			s.recent = append(s.recent, time.Now())
		}
	}
}

// state returns the shards in the order of their ids, and the total of a row that they add up to.
// The total is nil before the shards are known, and if there are too many to follow them all.
func (k *look) state(r *row, now time.Time) (states []shard, total *value.Value) {
	if k.began.IsZero() {
		return nil, nil
	}

	states = make([]shard, 0, len(k.shards))
	var documents []route.Shard
	for id, s := range k.shards {
		state := *s
		state.Writes = s.recent.perSecond(now, heatWindow, now.Sub(k.began))
		state.Count = seen(r.total, s.fields, now)
		states = append(states, state)
		documents = append(documents, route.Shard{Path: k.below + "/" + id, Fields: s.fields})
	}
	slices.SortFunc(states, func(a, b shard) int { return bytes.Compare(a.rank, b.rank) })

	if len(states) < maxShards {
		total = new(r.Route.Total(documents, now).Values[r.total.Name])
	}
	return states, total
}

// seen returns the value of a document that a total counts now; nil if the total does not count the
// document.
func seen(total route.Total, fields map[string]any, now time.Time) *value.Value {
	if !route.HoldAll(route.At(total.Where, now), fields) {
		return nil
	}
	if total.Aggregate == route.Count {
		return new(value.Int(1))
	}

	field, ok := total.Field.In(fields)
	v, is := value.Of(field)
	_, isTime := v.Time()
	if !ok || !is || v.IsNull() || isTime != total.Aggregate.OfTimes() {
		return nil
	}
	return &v
}
