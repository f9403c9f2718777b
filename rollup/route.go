package rollup

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// DefaultRoute is the layout of Firebase's documentation.
const DefaultRoute = "counters/{counter}/shards/{shard} -> rollups/{counter} : count"

// Field names of a roll-up document beside the totals.
const (
	FieldAsOf      = "as_of"
	FieldNumShards = "num_shards"
)

// ownPaths are the documents that Tally keeps for itself.
var ownPaths = [][]Segment{
	{{Name: "rollup_pending"}, {Name: "id", Capture: true}},
	{{Name: "rollup_audit"}, {Name: "id", Capture: true}},
}

// A Read is a way to read a counter's shards.
type Read string

const (
	// Aggregate has Firestore add up the shards with an aggregation query, which bills one document
	// read for each 1,000 shards. It needs the field to be indexed, as every field is unless
	// exempted.
	Aggregate Read = "aggregate"

	// Documents reads every shard, one billed read each, and needs no index. It is for a counter so
	// hot that writing the field's index entries becomes its limit: exempt the field from indexing
	// and read it this way.
	Documents Read = "documents"
)

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
//	<shard path pattern> -> <roll-up path template> : <field>[, <field>]… [: <read>]
//
// such as "posts/{post}/counters/{name}/shards/{shard} -> posts/{post}/rollups/{name} : likes,
// views". A route is immutable.
type Route struct {
	Fields []string // top-level field names, each with a total of its own
	Read   Read

	pattern  []Segment // of a shard document; the last segment is a capture
	template []Segment // of the roll-up document; its captures are the pattern's, but for the shard's
}

// String returns the route as ParseRoutes reads it.
func (r *Route) String() string {
	s := joinSegments(r.pattern) + " -> " + joinSegments(r.template) + " : " + strings.Join(r.Fields, ", ")
	if r.Read != Aggregate {
		s += " : " + string(r.Read)
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
	if !ok || len(parts) < 2 || len(parts) > 3 {
		return nil, errors.New("want <shard path pattern> -> <roll-up path template> : <fields>, as in " + DefaultRoute)
	}
	r := &Route{Read: Aggregate}
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
	if len(parts) == 3 {
		r.Read = Read(strings.TrimSpace(parts[2]))
		if r.Read != Aggregate && r.Read != Documents {
			return nil, fmt.Errorf("unknown way to read the shards %q; want %s or %s", r.Read, Aggregate, Documents)
		}
	}
	return r, nil
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
		case f == FieldAsOf || f == FieldNumShards:
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
