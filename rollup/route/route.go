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

	// Deep says that the capture stands for any odd number of ids: for a document at any depth
	// below the collection before it. Only the pattern of a route that goes Across has one.
	Deep bool
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

// CollectionID returns the id of the collections whose documents have such paths.
func (p Path) CollectionID() string { return p[len(p)-2].Name }

// Same reports whether two patterns match the same paths: the names of captures do not count.
func (p Path) Same(other Path) bool {
	same := func(a, b Segment) bool { return a.Capture && b.Capture && a.Deep == b.Deep || a == b }
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
	if !p.matches(ids) {
		return "", false
	}

	translated := make([]string, len(to))
	to.fill(translated, p, ids)
	return strings.Join(translated, "/"), true
}

// matches reports whether the pattern p matches the path that has the ids.
func (p Path) matches(ids []string) bool {
	p, fits := p.stretched(len(ids))
	if !fits {
		return false
	}
	matches := func(s Segment, id string) bool { return id != "" && (s.Capture || s.Name == id) }
	return slices.EqualFunc(p, ids, matches)
}

// fill sets ids to those of the pattern p, in which each capture is replaced by the id that the
// pattern from captured. path has the ids of the path that from matched. fill leaves out captures
// that from lacks.
func (p Path) fill(ids []string, from Path, path []string) {
	for i, s := range p {
		if !s.Capture {
			ids[i] = s.Name
			continue
		}

		at := slices.Index(from, s)
		if at >= 0 {
			ids[i] = path[at]
		}
	}
}

// A Route says which documents make which totals. It is parsed from
//
//	<source pattern> [by <key>[, <key>]] -> <roll-up template> : <total>[, <total>]… [: <option>]…
//
// such as "posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing". A total is the
// sum of a field f, written f or sum(f), or another Aggregate. count() is how many documents there
// are. "where" and conditions say which documents a total takes, and "as" names it in the roll-up.
// Quote says how names are written. The options may come in any order. They are "documents",
// "existing", "within" with the beginning of the template that is the owner's path, and "every" or
// "cadence" with a duration such as 10s. All routes of one template must agree in "existing",
// "within", "every" and "cadence". A route is immutable.
type Route struct {
	Template *Template // where the roll-ups are; routes with equal templates share it
	Totals   []Total

	// By are the keys that say to which counter a document belongs, in the order of the template.
	// There are at most two, and the template has a capture for each. Without keys, the document's
	// path alone says to which counter it belongs.
	By []Key

	// Documents has every document read, which costs one read each. An aggregation query would bill
	// one for each 1,000. Reading needs no index. The option is for a counter so hot that writing
	// the field's index entries limits it.
	Documents bool

	pattern  Path             // of the path of a source document; the last segment is a capture
	across   int              // the index of the capture that is Deep; 0 if there is none
	template Path             // of the path of a roll-up, with the captures named as in this route
	reads    []document.Field // all fields that the conditions and the totals name; needed for each event
	queries  []Query
	windows  []Window
	homes    []*Template // of any route, whose roll-ups may be source documents

	circular  bool   // its roll-ups may be its own documents
	ofRollUps bool   // other routes make its documents, or totals in these
	text      string // of String; "" before the route is parsed
}

// String returns the canonical spelling of the route, on one line. Parse turns it back into the
// same route.
func (r *Route) String() string { return r.text }

// With returns how the route is spelled with other totals.
func (r *Route) With(totals []Total) string {
	s := r.pattern.quote()
	if r.By != nil {
		s += " by " + join(r.By, ", ")
	}
	s += " -> " + r.template.quote() + " : " + join(totals, ", ")
	if r.Documents {
		s += " : documents"
	}
	if r.Template.Existing {
		s += " : existing"
	}
	if r.Template.Within {
		s += " : within"
	}
	if r.Template.owner > 0 {
		s += " " + r.owner().quote()
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

// Reads returns the fields that decide in which totals a document counts, and with what: those of
// the keys, those of the conditions, and Fields. Each comes once.
func (r *Route) Reads() []document.Field {
	fields := slices.Clone(r.reads)
	for _, k := range r.By {
		if !slices.Contains(fields, k.Field) {
			fields = append(fields, k.Field)
		}
	}
	return fields
}

// Queries returns the queries that answer the route's totals. Callers must not change the list.
func (r *Route) Queries() []Query { return r.queries }

// Plain reports whether the route sums the shards of plain counters: it has no keys, and each
// total is the sum of a top-level field of all documents.
func (r *Route) Plain() bool {
	plain := func(t Total) bool { return t.Aggregate == Sum && len(t.Where) == 0 && len(t.Field.Names()) == 1 }
	return r.By == nil && !slices.ContainsFunc(r.Totals, func(t Total) bool { return !plain(t) })
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
// root) belong to, if the route covers them and has no keys.
func (r *Route) Counter(path string) (Counter, bool) {
	if r.By != nil {
		return Counter{}, false
	}
	rollUp, ok := r.collection().translate(path, r.template)
	return Counter{Template: r.Template, RollUp: rollUp}, ok
}

// Where returns the conditions that tell c's documents from other documents of their collection. It
// reports false if no document can belong to c by the route, because an id in c's path is none that
// a key gives. The counter must be of the route's template.
func (r *Route) Where(c Counter) (conditions []Condition, ok bool) {
	if r.By == nil {
		return nil, true
	}

	ids := strings.Split(c.RollUp, "/")
	for _, k := range r.By {
		of, ok := k.conditions(ids[:k.at+1])
		if !ok {
			return nil, false
		}
		conditions = append(conditions, of...)
	}
	return conditions, true
}

// owner is the pattern of the paths of the counters' owners, with the captures named as in this
// route. It is empty if the counters need none.
func (r *Route) owner() Path { return r.template[:r.Template.owner] }

// collection is the pattern of the source documents' collection.
func (r *Route) collection() Path { return r.pattern[:len(r.pattern)-1] }

// Shards returns the path of the collection of c's documents, such as "counters/likes/shards". If
// the route has keys, other counters' documents are there, too: see Where. If it goes Across, there
// are many collections: see Group. Then the text is for people, such as "posts/**/comments". The
// counter must be of the route's template.
func (r *Route) Shards(c Counter) string {
	collection := r.collection()
	if r.Across() {
		collection = slices.Clone(collection)
		collection[r.across] = Segment{Name: between}
	}
	shards, _ := r.template.translate(c.RollUp, collection)
	return shards
}

// Covers reports whether the document at path (below the database's root) is a source of the route.
func (r *Route) Covers(path string) bool {
	return r.pattern.matches(strings.Split(path, "/"))
}

// Belongs returns the counter to which the document at path belongs. held returns the value of one
// of its fields as [Change] has it. It reports false if the route does not cover the document, or
// if that belongs to no counter: then the result has a path only if that is too long.
func (r *Route) Belongs(path string, held func(document.Field) any) (Counter, bool) {
	parts := strings.Split(path, "/")
	if !r.pattern.matches(parts) {
		return Counter{}, false
	}

	values := r.values(held)
	return r.counter(parts, values[:])
}

// values returns the values of the keys' fields.
func (r *Route) values(held func(document.Field) any) (values [maxKeys]any) {
	for i, k := range r.By {
		values[i] = held(k.Field)
	}
	return values
}

// Misfit returns the first key that gives no id for the document at path, which the route covers,
// and the template up to the key's capture. held is as for [Route.Belongs]. It reports false if
// each key gives one.
func (r *Route) Misfit(path string, held func(document.Field) any) (k Key, to Path, misfit bool) {
	values := r.values(held)
	n := r.fill(make([]string, len(r.template)), strings.Split(path, "/"), values[:])
	if n == len(r.By) {
		return Key{}, nil, false
	}
	return r.By[n], r.template[:r.By[n].at+1], true
}

// Routes are the active routes. If a document can be a source of several routes, they have the same
// pattern, or one goes across parents and has all documents of the others. No document can be a
// roll-up of two templates.
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

// Covers reports whether the document at path (below the database's root) is a source of one of the
// routes.
func (rs Routes) Covers(path string) bool {
	return slices.ContainsFunc(rs, func(r *Route) bool { return r.Covers(path) })
}
