package firestorestore

import (
	"cmp"
	"path"
	"strings"
	"unicode/utf8"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/rollup/route"
)

// A lane is a way to find the counters of a route one after another. A place in it is a text, and
// "" is its beginning.
type lane interface {
	// query returns a query for the documents from a place on.
	query(from string) firestore.Query

	// counter returns the counter of a document that the query found. It reports false if the
	// document belongs to none. It also returns the place to go on from. That is behind all
	// documents of the counter. If there is no counter, it is behind the document, and behind all
	// others that belong to no counter for the same reason. It is "" if nothing can follow.
	counter(doc *firestore.DocumentSnapshot) (c route.Counter, ok bool, behind string)
}

func (s *Store) lane(r *route.Route) lane {
	pattern := r.Pattern()
	collection := pattern[:len(pattern)-1]
	switch {
	case r.By != "":
		return byValue{s, r}
	case lastCapture(collection) < 0:
		return single{s, r}
	default:
		return byPath{s, r}
	}
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

func (l single) counter(doc *firestore.DocumentSnapshot) (c route.Counter, ok bool, behind string) {
	c, ok = l.route.Counter(path.Dir(Path(doc.Ref)))
	return c, ok, ""
}

// byPath is the lane of a route without a group. Its places are paths.
type byPath struct {
	store *Store
	route *route.Route
}

func (l byPath) query(from string) firestore.Query {
	return l.store.group(l.route.Pattern(), from).Select()
}

func (l byPath) counter(doc *firestore.DocumentSnapshot) (c route.Counter, ok bool, place string) {
	shard, pattern := Path(doc.Ref), l.route.Pattern()
	c, ok = l.route.Counter(path.Dir(shard))
	if !ok {
		return c, false, next(pattern, shard)
	}
	return c, true, behind(pattern[:len(pattern)-1], strings.Split(shard, "/"))
}

// byValue is the lane of a route with a group. It goes from one string of the group's field to the
// next. Each costs one read, however many documents hold the string. Its places are strings. A
// query from a string on finds only strings, and needs only the index of that field. Firestore
// orders strings by their bytes in UTF-8.
type byValue struct {
	store *Store
	route *route.Route
}

func (l byValue) query(from string) firestore.Query {
	by := firestore.FieldPath(l.route.By.Names())
	pattern := l.route.Pattern()
	return l.store.client.Collection(pattern[:len(pattern)-1].String()).
		WherePath(by, ">=", cmp.Or(from, behindText(""))).
		OrderByPath(by, firestore.Asc).
		SelectPaths(by)
}

func (l byValue) counter(doc *firestore.DocumentSnapshot) (c route.Counter, ok bool, behind string) {
	value, _ := l.route.By.In(doc.Data())
	text, _ := value.(string)
	c, ok = l.route.Grouped(text)
	return c, ok, behindText(text)
}

// behindText returns a place behind a text. No group lies between the two. The place depends on the
// text:
//
//   - if the text has a slash, the place is behind all texts that are the same up to the slash,
//     because none of them is a group;
//   - if the text is shorter than the longest group, the place is the text with a zero byte
//     appended;
//   - otherwise the place is behind all texts that begin with the same 1,499 bytes. All of these
//     texts except that one are longer, so they are not groups. If a character begins within those
//     bytes and ends beyond them, it is left out, because shorter characters in its place come
//     before it.
func behindText(text string) string {
	beginning := text[:min(len(text), route.LongestGroup)]
	if slash := strings.IndexByte(beginning, '/'); slash >= 0 {
		return successor(text[:slash+1])
	}
	if len(text) < route.LongestGroup {
		return text + "\x00"
	}

	whole := len(beginning)
	for whole < len(text) && !utf8.RuneStart(text[whole]) {
		whole--
	}
	return successor(text[:whole])
}

// successor returns the least string behind all that begin with prefix. If that is too long for a
// query, it returns a later one, with no group between the two. It returns "" if there is no such
// string.
func successor(prefix string) string {
	for prefix != "" {
		last, size := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-size]
		next := last + 1
		if next == surrogates {
			next = behindSurrogates
		}
		if next <= utf8.MaxRune && len(prefix)+utf8.RuneLen(next) <= route.LongestGroup {
			return prefix + string(next)
		}
	}
	return ""
}

// UTF-8 has no characters from the first of these up to the second.
const (
	surrogates       = 0xD800
	behindSurrogates = 0xE000
)
