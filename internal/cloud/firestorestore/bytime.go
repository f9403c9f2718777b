package firestorestore

import (
	"encoding/json"
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup/route"
)

// byTime is the lane of a route by days or months. In each collection it goes along the route's
// other key, if there is one, and from one day to the next. Each costs one read, however many
// documents the day has. Its queries need the index by which a day's documents are found.
type byTime struct {
	store *Store
	route *route.Route
	key   *route.Key // the other one; nil if there is none
	time  document.Field
	start time.Time // of the first day
}

// firstTime is the first timestamp that Firestore has.
var firstTime = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)

func newByTime(s *Store, r *route.Route, since time.Time) byTime {
	l := byTime{store: s, route: r, time: r.Time(), start: firstTime}
	for i, k := range r.By {
		if k.Field != l.time {
			l.key = &r.By[i]
		}
	}
	if !since.IsZero() {
		l.start, _, _ = r.Period(since)
	}
	return l
}

// A timePlace is a place in the lane byTime, which is its JSON.
type timePlace struct {
	From       string     `json:"from,omitempty"`       // look for the next collection from this path on; Collection is then ""
	Collection string     `json:"collection,omitempty"` // go along this collection
	Key        *string    `json:"key,omitempty"`        // from this value of the other key on, as keyText spells it
	At         *time.Time `json:"at,omitempty"`         // from this time on, of the documents with that value
}

func (p timePlace) String() string {
	text, err := json.Marshal(p)
	if err != nil { // texts, and a time that Firestore had
		panic(err)
	}
	return string(text)
}

// place returns the place that a text is. A text that is none is the beginning.
func (l byTime) place(from string) (p timePlace) {
	err := json.Unmarshal([]byte(from), &p)
	if err != nil {
		p = timePlace{}
	}
	collection := l.collection()
	if lastCapture(collection) < 0 {
		p.Collection = collection.String()
	}
	return p
}

// collection is the pattern of the paths of the collections.
func (l byTime) collection() route.Path {
	pattern := l.route.Pattern()
	return pattern[:len(pattern)-1]
}

func (l byTime) query(place string) firestore.Query {
	p := l.place(place)
	if p.Collection == "" {
		return l.store.group(l.route.Pattern(), p.From).Select()
	}

	query := l.store.client.Collection(p.Collection).Query
	along := firestore.FieldPath(l.time.Names())
	at := any(l.start)
	if p.At != nil {
		at = *p.At
	}
	if l.key == nil {
		return query.OrderByPath(along, firestore.Asc).SelectPaths(along).StartAt(at)
	}

	key, from := firestore.FieldPath(l.key.Field.Names()), l.firstKey()
	if p.Key != nil {
		from = l.keyOf(*p.Key)
	}
	if p.At == nil {
		at = nil // sorts before all times, so it begins with the key
	}
	return query.OrderByPath(key, firestore.Asc).OrderByPath(along, firestore.Asc).SelectPaths(key, along).StartAt(from, at)
}

func (l byTime) end(from string) string {
	p := l.place(from)
	if p.Collection == "" || lastCapture(l.collection()) < 0 {
		return ""
	}
	ids := strings.Split(p.Collection+"/"+firstID, "/")
	return timePlace{From: placeAfter(l.collection(), ids)}.String()
}

func (l byTime) counter(doc *firestore.DocumentSnapshot, from string) (c route.Counter, ok bool, behind string) {
	p, docPath := l.place(from), Path(doc.Ref)
	if p.Collection == "" {
		if !l.route.Covers(docPath) {
			return c, false, timePlace{From: next(l.route.Pattern(), docPath)}.String()
		}
		return c, false, timePlace{Collection: path.Dir(docPath)}.String()
	}

	fields := Data(doc)
	there := timePlace{Collection: p.Collection} // the place of the document's key
	if l.key != nil {
		held, _ := l.key.Field.In(fields)
		text, within := l.keyText(held)
		if !within { // and so is all that follows
			return c, false, l.end(from)
		}
		there.Key = &text
		if l.key.Function == route.Reference && len(text) > longestKey || len(text) > route.LongestGroup {
			return c, false, l.afterKey(there)
		}
	}
	hereAlready := l.key == nil || p.Key != nil && *p.Key == *there.Key && p.At != nil

	held, _ := l.time.In(fields)
	at, isTime := held.(time.Time)
	switch {
	case !isTime && hereAlready: // times are over
		return c, false, l.afterKey(there)
	case !isTime || at.Before(l.start):
		there.At = &l.start
		return c, false, there.String()
	}

	_, ends, known := l.route.Period(at)
	c, ok = l.route.Belongs(docPath, func(f document.Field) any { held, _ := f.In(fields); return held })
	if known && !ok { // because of the key
		return c, false, l.afterKey(there)
	}
	if ends.Year() > 9999 {
		return c, ok, l.afterKey(there)
	}
	there.At = &ends
	return c, ok, there.String()
}

// afterKey returns the place behind all documents with the key of a place.
func (l byTime) afterKey(p timePlace) string {
	if p.Key == nil {
		return l.end(p.String())
	}

	var next string
	switch l.key.Function {
	case route.Number:
		next = nextNumber(*p.Key)
	case route.Reference:
		next = afterPath(*p.Key)
	default:
		next = afterText(*p.Key)
	}
	if next == "" {
		return l.end(p.String())
	}
	p.Key, p.At = &next, nil
	return p.String()
}

// firstKey returns what sorts before all values that the key's function takes, and behind those of
// kinds that sort before them.
func (l byTime) firstKey() any {
	switch l.key.Function {
	case route.Number:
		return math.Inf(-1)
	case route.Reference:
		return l.store.client.Doc(l.above() + "/" + firstID)
	default:
		return ""
	}
}

// above returns the path of the collection that holds all documents that the key may refer to, or
// documents above them.
func (l byTime) above() string {
	template := l.route.Template.Segments()
	capture := slices.IndexFunc(template, func(s route.Segment) bool { return s.Capture })
	return template[:capture].String()
}

// keyText returns the text of a value of the key. It reports false for a value that sorts behind
// all that the key's function takes.
func (l byTime) keyText(held any) (string, bool) {
	switch held := held.(type) {
	case string:
		return held, l.key.Function == route.Text
	case document.Reference:
		return string(held), l.key.Function == route.Reference && strings.HasPrefix(string(held), l.above()+"/")
	case int64, float64:
		return numberText(held), l.key.Function == route.Number
	default:
		return "", false
	}
}

// numberText returns the text of an int64 or a float64.
func numberText(n any) string {
	double, is := n.(float64)
	if is {
		return strconv.FormatFloat(double, 'e', -1, 64)
	}
	return fmt.Sprint(n)
}

// numberOf returns the number that a text is.
func numberOf(text string) any {
	n, err := strconv.ParseInt(text, 10, 64)
	if err == nil {
		return n
	}
	double, _ := strconv.ParseFloat(text, 64) // numberText made it
	return double
}

// nextNumber returns the text of the next number that Firestore can hold. It returns "" if there
// is none.
func nextNumber(text string) string {
	const exact = 1 << 53 // from here on there is no double between two integers
	switch n := numberOf(text).(type) {
	case int64:
		if n == math.MaxInt64 {
			return numberText(float64(1 << 63))
		}
		if n <= -exact || n >= exact {
			return numberText(n + 1)
		}
		return numberText(math.Nextafter(float64(n), math.Inf(1)))
	case float64:
		if math.IsInf(n, 1) {
			return ""
		}
		if math.Abs(n) >= exact && n >= math.MinInt64 && n < 1<<63 {
			return numberText(int64(n) + 1)
		}
		return numberText(math.Nextafter(n, math.Inf(1)))
	}
	return ""
}

// keyOf returns the value of the key whose text it is.
func (l byTime) keyOf(text string) any {
	switch l.key.Function {
	case route.Number:
		return numberOf(text)
	case route.Reference:
		return l.store.client.Doc(text)
	default:
		return text
	}
}

// longestKey is the length of the longest path of a reference that a query compares with. The names
// of the project and the database stand before it, and count.
const longestKey = 1300

// afterPath returns the path of a document behind another one and all that lies below that. A path
// that is longer than longestKey stands for all that begin alike up to there. afterPath returns ""
// if there is no such path.
func afterPath(docPath string) string {
	ids := strings.Split(docPath, "/")
	for n := 2; n <= len(ids); n += 2 {
		above, id := strings.Join(ids[:n-1], "/")+"/", ids[n-1]
		if len(above)+len(id) <= longestKey {
			continue
		}
		beginning := id[:max(0, longestKey-len(above))]
		for !utf8.ValidString(beginning) {
			beginning = beginning[:len(beginning)-1]
		}
		next := successor(beginning)
		if next == "" {
			return ""
		}
		return above + next
	}

	if isNumeric(ids, len(ids)-1) { // see placeAfter
		return docPath + "/\x00/" + firstID
	}
	return docPath + "\x00"
}

// afterText returns a place behind a text. No group lies between the two. The place depends on the
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
func afterText(text string) string {
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
