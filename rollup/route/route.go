package route

import (
	"fmt"
	"slices"
	"strings"

	"github.com/firestore-tally/tally/internal/document"
)

// Default is the layout of Firebase's documentation.
const Default = "counters/{counter}/shards/{shard} -> rollups/{counter} : count"

// A Segment is one part of a document path: a literal id, or a capture, which stands for any one
// id.
type Segment struct {
	Name    string
	Capture bool
}

// String returns the id, or the capture in braces.
func (s Segment) String() string {
	if s.Capture {
		return "{" + s.Name + "}"
	}
	return s.Name
}

// A Path is the path of documents below the database's root, in segments.
type Path []Segment

// String returns the path as Firestore spells it, with captures in braces. A route may also need
// backticks: see quote.
func (p Path) String() string { return join(p, "/") }

// Same reports whether two patterns match the same paths: the names of captures do not count.
func (p Path) Same(other Path) bool {
	same := func(a, b Segment) bool { return a.Capture && b.Capture || a == b }
	return slices.EqualFunc(p, other, same)
}

// quote returns the path as a route spells it.
func (p Path) quote() string {
	quoted := slices.Clone(p)
	for i, s := range p {
		quoted[i].Name = Quote(s.Name)
	}
	return quoted.String()
}

// join returns the Strings of a list's elements, with a separator between them.
func join[T fmt.Stringer](list []T, separator string) string {
	texts := make([]string, len(list))
	for i, element := range list {
		texts[i] = element.String()
	}
	return strings.Join(texts, separator)
}

// translate matches a path, which is below the database's root, with the pattern p. It returns the
// pattern to, in which each capture is replaced by the id that p captured. It returns false if p
// does not match. p must have all captures of to.
func (p Path) translate(path string, to Path) (string, bool) {
	ids := strings.Split(path, "/")
	matches := func(s Segment, id string) bool { return id != "" && (s.Capture || s.Name == id) }
	if !slices.EqualFunc(p, ids, matches) {
		return "", false
	}

	translated := make([]string, len(to))
	for i, s := range to {
		translated[i] = s.Name
		if s.Capture {
			translated[i] = ids[slices.Index(p, s)]
		}
	}
	return strings.Join(translated, "/"), true
}

// A Route says which documents make which totals. It is parsed from
//
//	<source pattern> [by <field>] -> <roll-up template> : <total>[, <total>]… [: <option>]…
//
// such as "posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing". A total is the
// sum of a field f, written f or sum(f), or another Aggregate. count() is how many documents there
// are. "where" and conditions say which documents a total takes, and "as" names it in the roll-up.
// Quote says how names are written. The options may come in any order. They are "documents",
// "existing", and "every" or "cadence" with a duration such as 10s. All routes of one template must
// agree in "existing", "every" and "cadence". A route is immutable.
type Route struct {
	Template *Template // where the roll-ups are; routes with equal templates share it
	Totals   []Total

	// By is the field whose string says to which counter a document belongs. The template has a
	// capture of the same name as the field, and the string stands in its place. If By is "", the
	// document's path says to which counter it belongs.
	By document.Field

	// Documents has every document read, which bills one read each. An aggregation query would bill
	// one for each 1,000. Reading needs no index. The option is for a counter so hot that writing
	// the field's index entries limits it.
	Documents bool

	pattern  Path             // of the path of a source document; the last segment is a capture
	template Path             // of the path of a roll-up, with the captures named as in this route
	fields   []document.Field // all fields that the group, the conditions and the totals name; needed for each event
	queries  []Query
	windows  []Window
}

// String returns the canonical spelling of the route, on one line. Parse turns it back into the
// same route.
func (r *Route) String() string {
	s := r.pattern.quote()
	if r.By != "" {
		s += " by " + quoteField(r.By)
	}
	s += " -> " + r.template.quote() + " : " + join(r.Totals, ", ")
	if r.Documents {
		s += " : documents"
	}
	if r.Template.Existing {
		s += " : existing"
	}
	if r.Template.Scheduled() {
		s += " : every " + r.Template.Every.String()
	}
	if r.Template.Cadence > 0 {
		s += " : cadence " + r.Template.Cadence.String()
	}
	return s
}

// Pattern returns the pattern of the source documents' paths.
func (r *Route) Pattern() Path { return slices.Clone(r.pattern) }

// Fields returns the fields that the route's totals aggregate, each once.
func (r *Route) Fields() []document.Field {
	var fields []document.Field
	for _, t := range r.Totals {
		if t.Field != "" && !slices.Contains(fields, t.Field) {
			fields = append(fields, t.Field)
		}
	}
	return fields
}

// Reads returns the fields that decide in which totals a document counts, and with what: By, the
// fields of the conditions, and Fields. Each comes once. Callers must not change the list.
func (r *Route) Reads() []document.Field { return r.fields }

// Queries returns the queries that answer the route's totals. Callers must not change the list.
func (r *Route) Queries() []Query { return r.queries }

// Plain reports whether the route sums the shards of plain counters: it has no group, and each
// total is the sum of a top-level field of all documents.
func (r *Route) Plain() bool {
	plain := func(t Total) bool { return t.Aggregate == Sum && len(t.Where) == 0 && len(t.Field.Names()) == 1 }
	return r.By == "" && !slices.ContainsFunc(r.Totals, func(t Total) bool { return !plain(t) })
}

// Counts reports whether the route counts documents, all or some of them.
func (r *Route) Counts() bool {
	return slices.ContainsFunc(r.Totals, func(t Total) bool { return t.Aggregate == Count })
}

// Filtered reports whether each total has conditions. Then there may be documents that no total
// sees.
func (r *Route) Filtered() bool {
	return !slices.ContainsFunc(r.Totals, func(t Total) bool { return len(t.Where) == 0 })
}

// CountsAll reports whether the route counts all documents.
func (r *Route) CountsAll() bool { return slices.ContainsFunc(r.Totals, Total.All) }

// Counter returns the counter that the documents of the collection at path (below the database's
// root) belong to, if the route covers them and has no group.
func (r *Route) Counter(path string) (Counter, bool) {
	if r.By != "" {
		return Counter{}, false
	}
	rollUp, ok := r.collection().translate(path, r.template)
	return Counter{Template: r.Template, RollUp: rollUp}, ok
}

// LongestGroup is the length of the longest group, in bytes. A document's id may have 1,500 bytes,
// but a query cannot compare with a string that long. The document's event would fail for a day.
const LongestGroup = 1499

// Grouped returns the counter of the documents whose field By holds a string. It reports false if
// the string is not a valid document id of at most 1,499 bytes. The route must have By.
func (r *Route) Grouped(group string) (Counter, bool) {
	if len(group) > LongestGroup || document.CheckID(group) != nil {
		return Counter{}, false
	}

	ids := make([]string, len(r.template))
	for i, s := range r.template {
		ids[i] = s.Name
		if s.Capture {
			ids[i] = group
		}
	}
	return Counter{Template: r.Template, RollUp: strings.Join(ids, "/")}, true
}

// Group returns the string that c's documents hold in the field By. The counter must be of the
// route's template, and the route must have By.
func (r *Route) Group(c Counter) string {
	capture := slices.IndexFunc(r.template, func(s Segment) bool { return s.Capture })
	return strings.Split(c.RollUp, "/")[capture]
}

// Where returns the conditions that tell c's documents from other counters' documents: the group's
// condition, or none.
func (r *Route) Where(c Counter) []Condition {
	if r.By == "" {
		return nil
	}
	return []Condition{equals(r.By, r.Group(c))}
}

// collection is the pattern of the source documents' collection.
func (r *Route) collection() Path { return r.pattern[:len(r.pattern)-1] }

// Shards returns the path of the collection of c's documents, such as "counters/likes/shards". If
// the route has By, other counters' documents are there, too: see Where. The counter must be of the
// route's template.
func (r *Route) Shards(c Counter) string {
	if r.By != "" {
		return r.collection().String()
	}
	shards, _ := r.template.translate(c.RollUp, r.collection())
	return shards
}

// Covers reports whether the document at path (below the database's root) is a source of the route.
func (r *Route) Covers(path string) bool {
	_, ok := r.pattern.translate(path, nil)
	return ok
}

// counterOf returns the counter to which the document at path belongs by its path alone. It reports
// false if the route does not cover the document, or has a group.
func (r *Route) counterOf(path string) (Counter, bool) {
	if r.By != "" {
		return Counter{}, false
	}
	rollUp, ok := r.pattern.translate(path, r.template)
	return Counter{Template: r.Template, RollUp: rollUp}, ok
}

// Routes are the active routes. If a document can be a source of several routes, they have the same
// pattern. No document can be a roll-up of two templates.
type Routes []*Route

// Live returns the routes that events keep.
func (rs Routes) Live() Routes {
	return slices.DeleteFunc(slices.Clone(rs), func(r *Route) bool { return r.Template.Scheduled() })
}

// Scheduled returns the routes that the schedule keeps.
func (rs Routes) Scheduled() Routes {
	return slices.DeleteFunc(slices.Clone(rs), func(r *Route) bool { return !r.Template.Scheduled() })
}

// Templates returns the templates of the routes, each once.
func (rs Routes) Templates() []*Template {
	var templates []*Template
	for _, r := range rs {
		if !slices.Contains(templates, r.Template) {
			templates = append(templates, r.Template)
		}
	}
	return templates
}

// Counter returns the counter whose roll-up document is at path (below the database's root), if one
// of the routes gives it.
func (rs Routes) Counter(path string) (Counter, bool) {
	for _, r := range rs {
		if c, ok := r.Template.Counter(path); ok {
			return c, true
		}
	}
	return Counter{}, false
}

// String returns the routes as Parse reads them, one to a line.
func (rs Routes) String() string { return join(rs, "\n") }

// Match returns the counter that the source document at path (below the database's root) belongs to
// by its path alone, and the first route that says so, if any does.
func (rs Routes) Match(path string) (Counter, *Route, bool) {
	for _, r := range rs {
		if c, ok := r.counterOf(path); ok {
			return c, r, true
		}
	}
	return Counter{}, nil, false
}

// Covers reports whether the document at path (below the database's root) is a source of one of the
// routes.
func (rs Routes) Covers(path string) bool {
	return slices.ContainsFunc(rs, func(r *Route) bool { return r.Covers(path) })
}
