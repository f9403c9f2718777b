package firestorestore

import (
	"path"
	"strings"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/rollup/route"
)

// A lane is a way to find the counters of a route one after another. A place in it is a text, and
// "" is its beginning.
type lane interface {
	// query returns a query for the documents from a place on.
	query(from string) firestore.Query

	// counter returns the counter of a document that the query from a place found. It reports false
	// if the document belongs to none. It also returns the place to go on from. That is behind all
	// documents of the counter. If there is no counter, it is behind the document, and behind all
	// others that belong to no counter for the same reason. It is "" if nothing can follow.
	counter(doc *firestore.DocumentSnapshot, from string) (c route.Counter, ok bool, behind string)

	// end returns the place to go on from if the query from a place found nothing. It is "" if
	// nothing can follow.
	end(from string) string
}

// lane returns the lane of a route. If it is by days or months, those that ended before since are
// left out.
func (s *Store) lane(r *route.Route, since time.Time) lane {
	if r.Time() != "" {
		return newByTime(s, r, since)
	}
	pattern := r.Pattern()
	collection := pattern[:len(pattern)-1]
	if lastCapture(collection) < 0 {
		return single{s, r}
	}
	return byPath{s, r}
}

// single is the lane of a route with one collection, and so with one counter.
type single struct {
	store *Store
	route *route.Route
}

func (l single) query(string) firestore.Query {
	pattern := l.route.Pattern()
	return l.store.client.Collection(pattern[:len(pattern)-1].String()).Select()
}

func (l single) end(string) string { return "" }

func (l single) counter(doc *firestore.DocumentSnapshot, _ string) (c route.Counter, ok bool, behind string) {
	c, ok = l.route.Counter(path.Dir(Path(doc.Ref)))
	return c, ok, ""
}

// byPath is the lane of a route with many collections. Its places are paths.
type byPath struct {
	store *Store
	route *route.Route
}

func (l byPath) query(from string) firestore.Query {
	return l.store.group(l.route.Pattern(), from).Select()
}

func (l byPath) end(string) string { return "" }

func (l byPath) counter(doc *firestore.DocumentSnapshot, _ string) (c route.Counter, ok bool, place string) {
	shard, pattern := Path(doc.Ref), l.route.Pattern()
	c, ok = l.route.Counter(path.Dir(shard))
	if !ok {
		return c, false, next(pattern, shard)
	}
	return c, true, placeAfter(pattern[:len(pattern)-1], strings.Split(shard, "/"))
}
