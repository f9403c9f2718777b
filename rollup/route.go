package rollup

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/firestore-tally/tally/internal/document"
)

// DefaultRoute is the layout of Firebase's documentation.
const DefaultRoute = "counters/{counter}/shards/{shard} -> rollups/{counter} : count"

// ownPaths are the documents that Tally keeps for itself.
var ownPaths = [][]Segment{
	{{Name: document.AuditCollection}, {Name: "id", Capture: true}},
}

// A Segment is one part of a document path: a literal id, or a capture, which stands for any one
// id.
type Segment struct {
	Name    string
	Capture bool
}

// String returns the segment as a route spells it.
func (s Segment) String() string {
	if s.Capture {
		return "{" + s.Name + "}"
	}
	return s.Name
}

// A Route says which shards make up which counter. It is parsed from
//
//	<shard path pattern> -> <roll-up path template> : <field>[, <field>]… [: <option>]…
//
// such as "posts/{post}/counters/{name}/shards/{shard} -> posts/{post}/rollups/{name} : likes,
// views : every 10s". The options are "documents" and "every" with a duration, in any order. A route
// is immutable.
type Route struct {
	Fields []string // top-level field names, each with a total of its own

	// Documents has every shard read, one billed read each, where an aggregation query bills one for
	// each 1,000 shards. It needs no index. It is for a counter so hot that writing the field's index
	// entries is its limit: exempt the field from indexing and read it this way.
	Documents bool

	// Every is how often the schedule rolls the route's counters up. Zero: events do, live.
	Every time.Duration

	pattern  []Segment // of a shard document; the last segment is a capture
	template []Segment // of the roll-up document; its captures are the pattern's, but for the shard's
	hash     string
}

// Hash tells routes apart that make different totals. It is over what names the shards, the roll-up
// and the totals, not over the options nor over what the captures are called.
func (r *Route) Hash() string { return r.hash }

func (r *Route) computeHash() string {
	positions := make(map[string]string) // of captures in the template; the shard's has none
	for i, s := range r.template {
		if s.Capture && positions[s.Name] == "" {
			positions[s.Name] = strconv.Itoa(i)
		}
	}
	var b strings.Builder
	for _, path := range [][]Segment{r.template, r.pattern} {
		for _, s := range path {
			if s.Capture {
				s.Name = positions[s.Name]
			}
			fmt.Fprintf(&b, "%v %q\n", s.Capture, s.Name)
		}
		b.WriteByte('\n')
	}
	for _, field := range slices.Sorted(slices.Values(r.Fields)) {
		fmt.Fprintf(&b, "%q\n", field)
	}
	sum := sha256.Sum256([]byte(b.String()))
	return hex.EncodeToString(sum[:8])
}

// String returns the route as ParseRoutes reads it.
func (r *Route) String() string {
	s := joinSegments(r.pattern) + " -> " + joinSegments(r.template) + " : " + strings.Join(r.Fields, ", ")
	if r.Documents {
		s += " : documents"
	}
	if r.Every > 0 {
		s += " : every " + r.Every.String()
	}
	return s
}

// Pattern returns the segments of the pattern of the shards' paths.
func (r *Route) Pattern() []Segment { return slices.Clone(r.pattern) }

// Template returns the segments of the template of the roll-ups' paths.
func (r *Route) Template() []Segment { return slices.Clone(r.template) }

// Counter returns the counter whose shards' collection is at path (below the database's root), if
// the route covers it.
func (r *Route) Counter(path string) (Counter, bool) {
	rest := path
	matched := make([]string, 0, 8)
	for i, segment := range r.pattern[:len(r.pattern)-1] {
		id, after, more := strings.Cut(rest, "/")
		if more != (i < len(r.pattern)-2) || id == "" || !segment.Capture && segment.Name != id {
			return Counter{}, false
		}
		matched = append(matched, id)
		rest = after
	}
	ids := make([]string, 0, 8)
	for _, segment := range r.template {
		id := segment.Name
		if segment.Capture {
			id = matched[slices.Index(r.pattern, segment)]
		}
		ids = append(ids, id)
	}
	return Counter{Route: r, Shards: path, RollUp: strings.Join(ids, "/")}, true
}

// CounterOfRollUp returns the counter whose roll-up document is at path (below the database's
// root), if the route covers it.
func (r *Route) CounterOfRollUp(path string) (Counter, bool) {
	ids := strings.Split(path, "/")
	if len(ids) != len(r.template) {
		return Counter{}, false
	}
	captured := make(map[string]string, len(ids))
	for i, segment := range r.template {
		if !segment.Capture {
			if segment.Name != ids[i] {
				return Counter{}, false
			}
			continue
		}
		if seen, ok := captured[segment.Name]; ok && seen != ids[i] {
			return Counter{}, false
		}
		captured[segment.Name] = ids[i]
	}
	shards := make([]string, len(r.pattern)-1)
	for i, segment := range r.pattern[:len(shards)] {
		shards[i] = segment.Name
		if segment.Capture {
			shards[i] = captured[segment.Name]
		}
	}
	return Counter{Route: r, Shards: strings.Join(shards, "/"), RollUp: path}, true
}

// Routes are the active routes. No document is a shard of two of them, and no two counters share a
// roll-up document.
type Routes []*Route

// Live returns the routes that events keep.
func (rs Routes) Live() Routes { return rs.where(func(r *Route) bool { return r.Every == 0 }) }

// Scheduled returns the routes that the schedule keeps.
func (rs Routes) Scheduled() Routes { return rs.where(func(r *Route) bool { return r.Every > 0 }) }

func (rs Routes) where(f func(*Route) bool) Routes {
	var some Routes
	for _, r := range rs {
		if f(r) {
			some = append(some, r)
		}
	}
	return some
}

// String returns the routes as ParseRoutes reads them, one to a line.
func (rs Routes) String() string {
	lines := make([]string, len(rs))
	for i, r := range rs {
		lines[i] = r.String()
	}
	return strings.Join(lines, "\n")
}

// Match returns the counter that the shard document at path (below the database's root) belongs to,
// if any route covers it.
func (rs Routes) Match(path string) (Counter, bool) {
	end := strings.LastIndexByte(path, '/')
	if end < 0 || end == len(path)-1 {
		return Counter{}, false
	}
	for _, r := range rs {
		if c, ok := r.Counter(path[:end]); ok {
			return c, true
		}
	}
	return Counter{}, false
}

// ParseRoutes parses routes, one to a line or separated by semicolons, and checks each and all
// together. The error joins every problem found, each naming its route and the reason.
func ParseRoutes(text string) (Routes, error) {
	var routes Routes
	var problems []error
	for line := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' || r == ';' }) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		r, err := parseRoute(line)
		if err != nil {
			problems = append(problems, fmt.Errorf("route %q: %w", line, err))
			continue
		}
		routes = append(routes, r)
	}
	problems = append(problems, routes.conflicts()...)
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	if len(routes) == 0 {
		return nil, errors.New("no route given; the default is " + DefaultRoute)
	}
	return routes, nil
}

// UnmarshalText sets rs to what ParseRoutes makes of text.
func (rs *Routes) UnmarshalText(text []byte) error {
	routes, err := ParseRoutes(string(text))
	if err != nil {
		return err
	}
	*rs = routes
	return nil
}

// conflicts returns what makes the routes unsafe together.
func (rs Routes) conflicts() []error {
	var problems []error
	report := func(r *Route, format string, args ...any) {
		problems = append(problems, fmt.Errorf("route %q: "+format, append([]any{r}, args...)...))
	}
	for i, r := range rs {
		for _, other := range rs[:i] {
			if overlap(r.pattern, other.pattern) {
				report(r, "its shards and those of route %q could be one document; each shard may belong to one counter only", other)
			}
			if overlap(r.template, other.template) {
				report(r, "its roll-ups and those of route %q could be one document; give each route roll-ups of its own", other)
			}
		}
		for _, other := range rs {
			if overlap(r.template, other.pattern[:len(other.pattern)-2]) {
				report(r, "the roll-up %s is the counter document of route %q, whose num_shards clients read; choose another path",
					joinSegments(r.template), other)
			}
			if overlap(r.template, other.pattern) {
				report(r, "the roll-up %s matches the shard pattern %s; writing it would trigger another roll-up, without end",
					joinSegments(r.template), joinSegments(other.pattern))
			}
		}
		for _, own := range ownPaths {
			if overlap(own, r.pattern) {
				report(r, "the pattern matches %s, which Tally writes itself; every roll-up would trigger another, without end",
					joinSegments(own))
			}
			if overlap(own, r.template) {
				report(r, "the roll-up %s is where Tally keeps %s; choose another path", joinSegments(r.template), joinSegments(own))
			}
		}
	}
	return problems
}

// parseRoute parses one route and checks what can be checked without the others.
func parseRoute(line string) (*Route, error) {
	left, right, ok := strings.Cut(line, "->")
	parts := strings.Split(right, ":")
	if !ok || len(parts) < 2 {
		return nil, errors.New("want <shard path pattern> -> <roll-up path template> : <fields>, as in " + DefaultRoute)
	}
	r := new(Route)
	var err error
	if r.pattern, err = parsePath(left); err != nil {
		return nil, fmt.Errorf("shard path pattern: %w", err)
	}
	if r.template, err = parsePath(parts[0]); err != nil {
		return nil, fmt.Errorf("roll-up path template: %w", err)
	}
	if err := checkCaptures(r.pattern, r.template); err != nil {
		return nil, err
	}
	if r.Fields, err = parseFields(parts[1]); err != nil {
		return nil, err
	}
	if err := r.parseOptions(parts[2:]); err != nil {
		return nil, err
	}
	r.hash = r.computeHash()
	return r, nil
}

// shortestEvery is the least that "every" may say: a document sustains about one write a second.
const shortestEvery = time.Second

// parseOptions parses what follows the fields.
func (r *Route) parseOptions(options []string) error {
	seen := make(map[string]bool)
	for _, text := range options {
		words := strings.Fields(text)
		if len(words) == 0 {
			return errors.New("an option is empty; want documents, or every and a duration such as 10s")
		}
		if seen[words[0]] {
			return fmt.Errorf("the option %s is given twice", words[0])
		}
		seen[words[0]] = true
		switch {
		case words[0] == "documents" && len(words) == 1:
			r.Documents = true
		case words[0] == "every" && len(words) == 2:
			var err error
			if r.Every, err = time.ParseDuration(words[1]); err != nil || r.Every < shortestEvery {
				return fmt.Errorf("the option %q: want a duration of at least %v, such as 10s or 5m", strings.Join(words, " "), shortestEvery)
			}
		default:
			return fmt.Errorf("unknown option %q; want documents, or every and a duration such as 10s", strings.Join(words, " "))
		}
	}
	return nil
}

// checkCaptures checks that the pattern names shards by a capture, and that the template uses
// exactly the pattern's other captures.
func checkCaptures(pattern, template []Segment) error {
	last := len(pattern) - 1
	shard := pattern[last]
	if !shard.Capture {
		return fmt.Errorf("the shard pattern ends in the literal %q; its last segment must capture the shard, as {shard}", shard.Name)
	}
	var captures []string
	for i, s := range pattern {
		if !s.Capture {
			continue
		}
		if i%2 == 0 {
			return fmt.Errorf("the shard pattern captures a collection's name, {%s}; only document ids can be captured", s.Name)
		}
		if slices.Contains(captures, s.Name) {
			return fmt.Errorf("the shard pattern captures {%s} twice; give each capture a name of its own", s.Name)
		}
		captures = append(captures, s.Name)
	}
	for i, s := range template {
		if s.Capture && i%2 == 0 {
			return fmt.Errorf("the roll-up path captures a collection's name, {%s}; only document ids can be captured, or the audit could not find the roll-ups", s.Name)
		}
		if s.Capture && s.Name == shard.Name {
			return fmt.Errorf("the roll-up path uses the shard's capture {%s}; every shard would get a roll-up of its own", s.Name)
		}
		if s.Capture && !slices.Contains(captures, s.Name) {
			return fmt.Errorf("the roll-up path uses {%s}, which the shard pattern does not capture", s.Name)
		}
	}
	for _, name := range captures[:len(captures)-1] {
		if !slices.Contains(template, Segment{Name: name, Capture: true}) {
			return fmt.Errorf("the roll-up path does not use {%s}; counters that differ only in it would share one roll-up", name)
		}
	}
	return nil
}

// parsePath parses the path of a document, with captures.
func parsePath(path string) ([]Segment, error) {
	path = strings.TrimSpace(path)
	var segments []Segment
	for id := range strings.SplitSeq(path, "/") {
		s := Segment{Name: id}
		if strings.ContainsAny(id, "{}") {
			name, opened := strings.CutPrefix(id, "{")
			name, closed := strings.CutSuffix(name, "}")
			if !opened || !closed || name == "" || strings.ContainsAny(name, "{}=*") {
				return nil, fmt.Errorf("%q: a capture stands for one whole segment, as {counter}", id)
			}
			s = Segment{Name: name, Capture: true}
		}
		if err := checkID(s.Name); err != nil {
			return nil, fmt.Errorf("%q: segment %d %w", path, len(segments)+1, err)
		}
		segments = append(segments, s)
	}
	if len(segments)%2 != 0 {
		return nil, fmt.Errorf("%q names a collection; a document's path has an even number of segments, and this has %d", path, len(segments))
	}
	return segments, nil
}

// parseFields parses a comma-separated list of field names.
func parseFields(list string) ([]string, error) {
	var fields []string
	for f := range strings.SplitSeq(list, ",") {
		f = strings.TrimSpace(f)
		switch {
		case f == document.TallyField:
			return nil, fmt.Errorf("the field %q is one that Tally itself writes to the roll-up; rename it in the shards", f)
		case strings.ContainsAny(f, ".`[]*~/"):
			return nil, fmt.Errorf("the field %q: name a top-level field, without any of . ` [ ] * ~ /", f)
		case slices.Contains(fields, f):
			return nil, fmt.Errorf("the field %q is named twice", f)
		}
		if err := checkID(f); err != nil {
			return nil, fmt.Errorf("a field's name %w", err)
		}
		fields = append(fields, f)
	}
	return fields, nil
}

// maxIDBytes is Firestore's limit on a document id and on a field name
// (https://cloud.google.com/firestore/quotas).
const maxIDBytes = 1500

// checkID checks an id by Firestore's constraints on ids and field names.
func checkID(id string) error {
	switch {
	case id == "":
		return errors.New("is empty")
	case id == "." || id == "..":
		return fmt.Errorf("is %q, which Firestore does not allow", id)
	case len(id) >= 4 && strings.HasPrefix(id, "__") && strings.HasSuffix(id, "__"):
		return fmt.Errorf("is %q, and Firestore reserves names that begin and end with two underscores", id)
	case len(id) > maxIDBytes:
		return fmt.Errorf("is longer than %d bytes, Firestore's limit", maxIDBytes)
	case !utf8.ValidString(id):
		return fmt.Errorf("is %q, which is not valid UTF-8", id)
	}
	return nil
}

// overlap reports whether a and b could name one document: segment by segment equal, or either a
// capture.
func overlap(a, b []Segment) bool {
	return slices.EqualFunc(a, b, func(s, t Segment) bool { return s.Capture || t.Capture || s.Name == t.Name })
}

func joinSegments(segments []Segment) string {
	parts := make([]string, len(segments))
	for i, s := range segments {
		parts[i] = s.String()
	}
	return strings.Join(parts, "/")
}
