package rollup

import (
	"fmt"
	"slices"
	"strings"
)

// DefaultRoute is the layout of Firebase's documentation.
const DefaultRoute = "counters/{counter}/shards/{shard} -> rollups/{counter} : count"

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

// String returns the path as Firestore has it, with captures in braces. A route may spell it with
// backticks.
func (p Path) String() string { return join(p, "/") }

// quote returns the path as a route spells it.
func (p Path) quote() string {
	quoted := slices.Clone(p)
	for i, s := range p {
		quoted[i].Name = Quote(s.Name)
	}
	return quoted.String()
}

// join returns the elements of a list, spelt, with a separator between them.
func join[T fmt.Stringer](list []T, separator string) string {
	spelt := make([]string, len(list))
	for i, element := range list {
		spelt[i] = element.String()
	}
	return strings.Join(spelt, separator)
}

// translate returns the path that the pattern to gives with what p captures in path, which is below
// the database's root. It returns false if p does not match. All captures of to must be p's.
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
//	<source pattern> -> <roll-up template> : <total>[, <total>]… [: <option>]…
//
// such as "posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing". A total is the
// sum of a top-level field f, spelt f or sum(f), or count(), how many documents there are; "as" names
// it in the roll-up, and must for sum(f). Names are spelt as Quote does. The options, in any order,
// are "documents", and for all routes of one template alike "existing" and "every" with a duration
// such as 10s. A route is immutable.
type Route struct {
	Template *Template // of the roll-ups; routes whose templates are equal share it
	Totals   []Total

	// Documents has every document read, one billed read each, where an aggregation query bills one
	// for each 1,000. It needs no index: it is for a counter so hot that writing the field's index
	// entries is its limit.
	Documents bool

	pattern  Path     // of a source document; the last segment is a capture
	template Path     // with this route's names of the captures, which are the pattern's but for the last
	fields   []string // of the totals; each event asks for them
}

// A Total is one number that a route keeps.
type Total struct {
	Field string // whose numbers are summed; "": the documents are counted
	Name  string // of the field in the roll-up
}

// String returns the total as a route spells it.
func (t Total) String() string {
	if t == (Total{Name: countName}) {
		return countAll
	}
	if t.Field == "" {
		return countAll + " as " + Quote(t.Name)
	}
	if t.Field == t.Name {
		return Quote(t.Field)
	}
	return Quote(t.Field) + " as " + Quote(t.Name)
}

// countAll is the total that is how many documents there are, and countName its name when the route
// gives none.
const (
	countAll  = "count()"
	countName = "count"
)

// String returns the one canonical spelling of the route, on one line. ParseRoutes reads it as the
// same route.
func (r *Route) String() string {
	s := r.pattern.quote() + " -> " + r.template.quote() + " : " + join(r.Totals, ", ")
	if r.Documents {
		s += " : documents"
	}
	if r.Template.Existing {
		s += " : existing"
	}
	if r.Template.Scheduled() {
		s += " : every " + r.Template.Every.String()
	}
	return s
}

// Pattern returns the pattern of the source documents' paths.
func (r *Route) Pattern() Path { return slices.Clone(r.pattern) }

// Fields returns the fields that the route sums, each once. Callers must not change them.
func (r *Route) Fields() []string { return r.fields }

// Counts reports whether the route has count().
func (r *Route) Counts() bool {
	return slices.ContainsFunc(r.Totals, func(t Total) bool { return t.Field == "" })
}

// Counter returns the counter that the documents of the collection at path (below the database's
// root) belong to, if the route covers them.
func (r *Route) Counter(path string) (Counter, bool) {
	rollUp, ok := r.collection().translate(path, r.template)
	return Counter{Template: r.Template, RollUp: rollUp}, ok
}

// InOrder reports whether the roll-ups' paths have the captures in the order in which the source
// documents' paths have them. Then both come in one order of counters.
func (r *Route) InOrder() bool {
	captures := func(p Path) Path {
		var found Path
		for _, s := range p {
			if s.Capture && !slices.Contains(found, s) {
				found = append(found, s)
			}
		}
		return found
	}
	return slices.Equal(captures(r.template), captures(r.collection()))
}

// collection is the pattern of the source documents' collection.
func (r *Route) collection() Path { return r.pattern[:len(r.pattern)-1] }

// Shards returns the path of the collection of c's documents that the route sums, such as
// "counters/likes/shards". The counter must be of the route's template.
func (r *Route) Shards(c Counter) string {
	shards, _ := r.template.translate(c.RollUp, r.collection())
	return shards
}

// Routes are the active routes. No document is a source of two of them, and no two templates give
// one roll-up document.
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

// String returns the routes as ParseRoutes reads them, one to a line.
func (rs Routes) String() string { return join(rs, "\n") }

// Match returns the counter that the source document at path (below the database's root) belongs
// to, and the route that says so, if any covers it.
func (rs Routes) Match(path string) (Counter, *Route, bool) {
	end := strings.LastIndexByte(path, '/')
	if end < 0 || end == len(path)-1 {
		return Counter{}, nil, false
	}
	for _, r := range rs {
		if c, ok := r.Counter(path[:end]); ok {
			return c, r, true
		}
	}
	return Counter{}, nil, false
}
