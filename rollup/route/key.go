package route

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/firestore-tally/tally/internal/document"
)

// A Key is a field of a document that says, alone or with another one, to which counter the
// document belongs. What a Function makes of its value stands in the template in the place of a
// capture. It depends on nothing but the document.
type Key struct {
	Function Function
	Field    document.Field
	Name     string // of the capture

	zone *zone // of days, weeks and months
	at   int   // the index of the capture in the template
}

// A Function makes the id in a counter's path of a field's value. Its text is the one that routes
// have.
type Function string

// The functions. A document whose field has another value belongs to no counter.
const (
	Text      Function = ""       // a text that can be a document's id, and no longer than LongestGroup
	Reference Function = "ref"    // a reference to the document, or the one above, whose id it is
	Number    Function = "number" // an integer, or a double that equals one
	Day       Function = "day"    // a timestamp
	Week      Function = "week"   // a timestamp; weeks begin on Monday, as in ISO 8601
	Month     Function = "month"  // a timestamp
)

// keyFunctions are the functions that routes name.
var keyFunctions = []Function{Reference, Number, Day, Week, Month}

// OfTime reports whether the ids are those of days, weeks or months.
func (f Function) OfTime() bool { return f == Day || f == Week || f == Month }

// Wants says of which kind a field's values must be, in value.KindOf's words.
func (f Function) Wants() string {
	switch f {
	case Reference:
		return "a reference"
	case Number:
		return "a number"
	case Day, Week, Month:
		return "a timestamp"
	default:
		return "a string"
	}
}

// LongestGroup is the length of the longest group, in bytes. A document's id may have 1,500 bytes,
// but a query cannot compare with a string that long. The document's event would fail for a day.
const LongestGroup = 1499

// longestReference is the length of the longest path of a document that a reference may name. A
// query cannot compare with one that has more than 1,499 bytes. The names of a project and a
// database stand before the path, with at most 125 bytes.
const longestReference = 1300

// id returns the id that the function makes of a field's value, which is as [Change] has it. path
// is the counter's path up to the id. Only references need it.
func (k Key) id(held any, path []string) (string, bool) {
	switch k.Function {
	case Reference:
		ref, ok := held.(document.Reference)
		if !ok || len(ref) > longestReference {
			return "", false
		}
		above, id := cutLast(string(ref))
		return id, above == strings.Join(path, "/")
	case Number:
		n, ok := canonical(held).(int64)
		return strconv.FormatInt(n, 10), ok
	case Day, Week, Month:
		t, ok := held.(time.Time)
		if !ok {
			return "", false
		}
		p := periodOf(k.Function, k.zone, t)
		_, _, ok = p.bounds()
		return p.id(), ok
	default:
		text, _ := held.(string)
		return text, isGroup(text)
	}
}

// isGroup reports whether a text is a valid document id that a query can compare with.
func isGroup(text string) bool { return len(text) <= LongestGroup && document.CheckID(text) == nil }

// cutLast cuts the path of a document at the id.
func cutLast(path string) (above, id string) {
	i := strings.LastIndexByte(path, '/')
	return path[:max(i, 0)], path[i+1:]
}

// conditions returns the conditions that a document meets if the function makes of its field the
// id with which a path ends. It reports false if no value gives that id.
func (k Key) conditions(path []string) ([]Condition, bool) {
	id := path[len(path)-1]
	switch k.Function {
	case Reference:
		ref := strings.Join(path, "/")
		return []Condition{{k.Field, Equal, document.Reference(ref)}}, len(ref) <= longestReference
	case Number:
		n, err := strconv.ParseInt(id, 10, 64)
		return []Condition{{k.Field, Equal, n}}, err == nil && strconv.FormatInt(n, 10) == id
	case Day, Week, Month:
		p, named := periodNamed(k.Function, k.zone, id)
		if !named {
			return nil, false
		}
		start, end, some := p.bounds()
		return []Condition{{k.Field, GreaterThanOrEqual, start}, before(k.Field, end)}, some
	default:
		return []Condition{{k.Field, Equal, id}}, isGroup(id)
	}
}

// example returns an id such as the function gives; "" if texts of all kinds are ids.
func (k Key) example() string {
	switch k.Function {
	case Number:
		return "42"
	case Day:
		return "2026-11-27"
	case Week:
		return "2026-W48"
	case Month:
		return "2026-11"
	default:
		return ""
	}
}

// before returns the condition that the time in a field is earlier than another. Firestore keeps
// microseconds, and has no timestamp behind the year 9999.
func before(field document.Field, end time.Time) Condition {
	if end.Equal(pastInstants) {
		return Condition{field, LessThanOrEqual, end.Add(-time.Microsecond)}
	}
	return Condition{field, LessThan, end}
}

// KeyOf returns the key that a function makes of a field, with the name that it has by itself.
func KeyOf(f Function, field document.Field) Key {
	k := Key{Function: f, Field: field}
	k.Name = k.names()[0]
	return k
}

// String returns the key as a route spells it.
func (k Key) String() string {
	if slices.Contains(k.names(), k.Name) {
		return k.unnamed()
	}
	return k.unnamed() + " as " + Quote(k.Name)
}

// unnamed returns the key as a route spells it, without a name of its own.
func (k Key) unnamed() string {
	field := quoteField(k.Field)
	if k.Function == Text {
		return field
	}
	if k.zone == nil || k.zone == utc {
		return fmt.Sprintf("%s(%s)", k.Function, field)
	}
	return fmt.Sprintf("%s(%s, %s)", k.Function, field, quoteValue(k.zone.String()))
}

// names returns the names that a key without "as" may have in the template: a function of time has
// its own, and a field in a map its last name or its whole path.
func (k Key) names() []string {
	if k.Function.OfTime() {
		return []string{string(k.Function)}
	}
	names := k.Field.Names()
	return []string{names[len(names)-1], strings.Join(names, ".")}
}

// identity returns a text that differs between keys that give documents other ids.
func (k Key) identity() string {
	switch {
	case k.Function == Text:
		return strconv.Quote(string(k.Field))
	case k.Function.OfTime():
		return fmt.Sprintf("%s(%q, %q %s)", k.Function, k.Field, k.zone, k.zone.digest)
	default:
		return fmt.Sprintf("%s(%q)", k.Function, k.Field)
	}
}

// space returns which ids a key gives, for comparison with other routes of the template: texts and
// references give any.
func (k Key) space() string {
	switch k.Function {
	case Text, Reference:
		return ""
	case Number:
		return string(k.Function)
	default:
		return fmt.Sprintf("%s in %s", k.Function, k.zone)
	}
}

// spaces returns the spaces of the template's segments. That of a capture of the pattern is that of
// a text.
func (r *Route) spaces() []string {
	all := make([]string, len(r.template))
	for _, k := range r.By {
		all[k.at] = k.space()
	}
	return all
}

// Time returns the field of the key that is a day, a week or a month. It is "" if there is none.
func (r *Route) Time() document.Field {
	i := r.timeKey()
	if i < 0 {
		return ""
	}
	return r.By[i].Field
}

// timeKey returns the index of the key that is a day, a week or a month; -1 if there is none.
func (r *Route) timeKey() int {
	return slices.IndexFunc(r.By, func(k Key) bool { return k.Function.OfTime() })
}

// Period returns when the day, week or month of the route's keys begins and ends that holds an
// instant. It reports false if no counter can be of it, because it is not wholly within the years
// that Firestore has. The route must have such a key.
func (r *Route) Period(t time.Time) (start, end time.Time, ok bool) {
	k := r.By[r.timeKey()]
	return periodOf(k.Function, k.zone, t).bounds()
}

// CutTime cuts a path that the template may give at the id that says the day, week or month. above
// is the path of the collection that the id is in. It reports false for other paths, and without
// such a key.
func (t *Template) CutTime(path string) (above, id string, ok bool) {
	_, ok = t.segments.translate(path, t.segments)
	i := t.Routes[0].timeKey()
	if !ok || i < 0 {
		return "", "", false
	}
	ids := strings.Split(path, "/")
	at := t.Routes[0].By[i].at
	return strings.Join(ids[:at], "/"), ids[at], true
}

// TimeID returns the id of the day, week or month that holds an instant. The template must be
// Timed.
func (t *Template) TimeID(at time.Time) string {
	r := t.Routes[0]
	k := r.By[r.timeKey()]
	return periodOf(k.Function, k.zone, at).id()
}

// isKey reports whether the field is one of the keys.
func (r *Route) isKey(f document.Field) bool {
	return slices.ContainsFunc(r.By, func(k Key) bool { return k.Field == f })
}

// fill fills in the ids of a counter's path, which are as many as the template has segments. It
// returns how many of the keys give one; the first that gives none ends it. The other arguments are
// as for counter.
func (r *Route) fill(ids, path []string, held []any) (given int) {
	r.template.fill(ids, r.pattern, path)
	for i, k := range r.By { // in the order of the template
		id, ok := k.id(held[i], ids[:k.at])
		if !ok {
			return i
		}
		ids[k.at] = id
	}
	return len(r.By)
}

// counter returns the counter of a document that the route covers. path has the ids of the
// document's path, and held the values of the keys' fields as [Change] has them. It reports false
// if the document belongs to no counter.
func (r *Route) counter(path []string, held []any) (Counter, bool) {
	ids := make([]string, len(r.template))
	if r.fill(ids, path, held) < len(r.By) {
		return Counter{}, false
	}
	rollUp := strings.Join(ids, "/")
	return Counter{Template: r.Template, RollUp: rollUp}, r.By == nil || len(rollUp) <= document.LongestPath
}

// identity returns a text that differs between routes whose keys give documents other counters. The
// keys stand in the order of the template.
func (r *Route) identity() string {
	if r.By == nil {
		return `""`
	}
	all := make([]string, len(r.By))
	for i, k := range r.By {
		all[i] = k.identity()
	}
	return strings.Join(all, ", ")
}

// maxKeys is how many keys a route may have. Captures of the pattern do not count.
const maxKeys = 2

// timeAt reports whether a day, a week or a month is the id at an index of the template.
func (r *Route) timeAt(i int) bool {
	return slices.ContainsFunc(r.By, func(k Key) bool { return k.at == i && k.Function.OfTime() })
}
