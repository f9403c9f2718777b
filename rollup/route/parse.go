package route

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/firestore-tally/tally/internal/document"
)

// These bound the input. Both are far above any real need. They keep the time of parsing short.
const (
	maxText   = 128 << 10 // bytes; no variable of a process on Linux can be longer
	maxRoutes = 500       // most triggers in a location (https://cloud.google.com/eventarc/docs/quotas)
)

// Parse parses routes, one to a line or separated by semicolons. It checks each route, and
// all of them together. A line that is indented deeper than the one on which a route begins
// continues that route. A line that begins with # is a comment. The error joins the first problems
// found. Each has the reason, and names its route or its place. A problem with a place has a method
// Place() (line, column int). It counts lines of the text and characters of the line, both from 1.
func Parse(text string) (Routes, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("the routes have %d bytes; want at most %d", len(text), maxText)
	}

	var routes Routes
	var found problems
	for tokens := lex(text); len(tokens) > 0; {
		next := 1 + slices.IndexFunc(tokens, func(t token) bool { return t.kind == end })
		r, err := parseRoute(source(text), tokens[:next])
		if err != nil {
			found.keep(err)
		} else {
			routes = append(routes, r)
		}
		tokens = tokens[next:]
	}

	if len(routes) > maxRoutes {
		return nil, fmt.Errorf("there are %d routes; want at most %d", len(routes), maxRoutes)
	}

	routes.share(&found)
	routes.conflicts(&found)
	if err := found.join(); err != nil {
		return nil, err
	}
	if len(routes) == 0 {
		return nil, errors.New("no route given; the default is " + Default)
	}
	for _, t := range routes.Templates() {
		t.seal()
	}
	return routes, nil
}

// UnmarshalText sets rs to the routes that Parse reads from text.
func (rs *Routes) UnmarshalText(text []byte) error {
	routes, err := Parse(string(text))
	if err != nil {
		return err
	}
	*rs = routes
	return nil
}

// share has routes with equal templates share one Template.
func (rs Routes) share(p *problems) {
	first := make(map[string]*Route)
	for _, r := range rs {
		other := first[r.Template.canonical]
		switch {
		case other == nil:
			first[r.Template.canonical] = r
		case r.Template.Every != other.Template.Every:
			p.add(r, "it and route %q make one roll-up; say the same \"every\" in both", other)
		case r.Template.Cadence != other.Template.Cadence:
			p.add(r, "it and route %q make one roll-up; say the same \"cadence\" in both", other)
		case r.Template.Existing != other.Template.Existing:
			p.add(r, "it and route %q make one roll-up; say \"existing\" in both, or in neither", other)
		default:
			r.Template = other.Template
			r.Template.Routes = append(r.Template.Routes, r)
		}
	}
}

// parseRoute parses one route, and checks everything that needs no other route.
func parseRoute(text source, tokens []token) (*Route, error) {
	p := parser{source: text, tokens: tokens}
	n, err := p.route()
	if err != nil {
		return nil, err
	}

	r := &Route{Template: new(Template)}
	r.Template.Routes = []*Route{r}

	r.pattern, err = text.path(n.pattern)
	if err != nil {
		return nil, err
	}
	r.template, err = text.path(n.template)
	if err != nil {
		return nil, err
	}
	r.Template.segments, r.Template.canonical = r.template, spell(r.template, r.template)

	r.By, err = text.group(n)
	if err != nil {
		return nil, err
	}
	err = text.checkCaptures(n)
	if err != nil {
		return nil, err
	}

	r.Totals, err = text.totals(n)
	if err != nil {
		return nil, err
	}
	r.queries, r.windows = queries(r.Totals), windows(r.Totals)
	r.fields = fieldsOf(r)
	return r, text.setOptions(r, n.options)
}

// maxSegments is Firestore's limit for a path: 100 collections, each below the one before
// (https://cloud.google.com/firestore/quotas).
const maxSegments = 200

// path returns the path of a document.
func (text source) path(nodes pathNode) (Path, error) {
	path := make(Path, len(nodes))
	for i, n := range nodes {
		if n.Capture && strings.ContainsAny(n.Name, "{}=*") {
			return nil, text.mistake(n.at, "%s", wantCapture)
		}
		if strings.ContainsAny(n.Name, "{}") {
			return nil, text.mistake(n.at, "%q: a literal segment cannot have braces", n.Name)
		}
		if err := document.CheckID(n.Name); err != nil {
			return nil, text.mistake(n.at, "segment %d %v", i+1, err)
		}
		path[i] = n.Segment
	}

	if len(path)%2 != 0 {
		return nil, text.mistake(nodes[0].at, "%q names a collection; a document's path has an even number of segments, and this has %d", path, len(path))
	}
	if len(path) > maxSegments {
		return nil, text.mistake(nodes[0].at, "the path has %d segments; Firestore's limit is %d", len(path), maxSegments)
	}
	return path, nil
}

// group returns the field that says to which counter a document belongs. It returns "" if the
// document's path says so.
func (text source) group(n routeNode) (document.Field, error) {
	if n.by.names == nil {
		return "", nil
	}

	field, err := text.field(n.by)
	if err != nil {
		return "", err
	}

	last := len(n.pattern) - 1
	for _, s := range n.pattern[:last] {
		if s.Capture {
			return "", text.mistake(s.at, "a group is of one collection; the pattern of a route with \"by\" captures the document only, not %v", s)
		}
	}

	capture := n.capture()
	if n.pattern[last].Segment == capture {
		return "", text.mistake(n.pattern[last].at, "the pattern's capture has the name of the group, %v; give it another name", capture)
	}

	saysExisting := slices.ContainsFunc(n.options, func(o optionNode) bool { return o.name.text == "existing" })
	if !saysExisting {
		return "", text.mistake(n.by.at, "a route with \"by\" must say existing, because anyone who may write a source could make up roll-ups without end; the app creates the documents %s itself", pathOf(n.template))
	}

	length := n.longestRollUp()
	if length > document.LongestPath {
		return "", text.mistake(n.template[0].at, "with a group of %d bytes this path has %d; Firestore's limit is %d", LongestGroup, length, document.LongestPath)
	}
	return field, nil
}

// longestRollUp returns the length of the longest roll-up path that a route with a group can give.
func (n routeNode) longestRollUp() int {
	length := 0
	for _, s := range n.template {
		if s.Capture {
			length += LongestGroup
		} else {
			length += len(s.Name)
		}
	}
	return length + len(n.template) - 1 // slashes
}

// capture is the capture of the group: its field's path.
func (n routeNode) capture() Segment {
	return Segment{Name: strings.Join(n.by.names, "."), Capture: true}
}

// pathOf returns the path that nodes spell.
func pathOf(nodes pathNode) Path {
	path := make(Path, len(nodes))
	for i, n := range nodes {
		path[i] = n.Segment
	}
	return path
}

// checkCaptures checks that the pattern ends in a capture. It also checks that the template uses
// exactly the pattern's other captures, or exactly the group's capture.
func (text source) checkCaptures(n routeNode) error {
	captured, err := text.captured(n.pattern)
	if err != nil {
		return err
	}
	if n.by.names != nil {
		captured = []string{n.capture().String(), captured[len(captured)-1]}
	}

	used, err := text.used(n, captured)
	if err != nil {
		return err
	}

	if n.by.names != nil && used == nil {
		return text.mistake(n.template[0].at, "the roll-up path does not use the group %v; all groups would share one roll-up", n.capture())
	}
	for _, s := range n.pattern[:len(n.pattern)-1] {
		if s.Capture && !slices.Contains(used, s.String()) {
			return text.mistake(s.at, "the roll-up path does not use %v; counters that differ only in it would share one roll-up", s)
		}
	}
	return nil
}

// captured returns the captures of a pattern. The last one is the document's.
func (text source) captured(pattern pathNode) ([]string, error) {
	last := pattern[len(pattern)-1]
	if !last.Capture {
		return nil, text.mistake(last.at, "the source pattern ends in the literal %q; its last segment must capture the document, as {shard}", last.Name)
	}

	var captured []string
	for i, s := range pattern {
		if !s.Capture {
			continue
		}

		if i%2 == 0 {
			return nil, text.mistake(s.at, "the source pattern captures a collection's name, %v; only document ids can be captured", s)
		}
		if slices.Contains(captured, s.String()) {
			return nil, text.mistake(s.at, "the source pattern captures %v twice; give each capture a name of its own", s)
		}
		captured = append(captured, s.String())
	}
	return captured, nil
}

// used returns the captures that the template of a route uses. It may use all that are captured but
// the last, which is the document's.
func (text source) used(n routeNode, captured []string) ([]string, error) {
	last := n.pattern[len(n.pattern)-1]
	var used []string
	for i, s := range n.template {
		if !s.Capture {
			continue
		}

		if i%2 == 0 {
			return nil, text.mistake(s.at, "the roll-up path captures a collection's name, %v; only document ids can be captured, or the audit could not find the roll-ups", s)
		}
		if s.Segment == last.Segment {
			return nil, text.mistake(s.at, "the roll-up path uses the last capture %v; every document would get a roll-up of its own", s)
		}
		if !slices.Contains(captured, s.String()) {
			return nil, text.mistake(s.at, "the roll-up path uses %v, which %s%s", s, n.whatCaptures(), meant(s.String(), captured[:len(captured)-1]...))
		}
		used = append(used, s.String())
	}
	return used, nil
}

// whatCaptures is the part of an error that follows a capture. It says why the template cannot use
// that capture.
func (n routeNode) whatCaptures() string {
	if n.by.names != nil {
		return "is not the group"
	}
	return "the source pattern does not capture"
}

// totals returns the totals of a route.
func (text source) totals(route routeNode) ([]Total, error) {
	totals := make([]Total, len(route.totals))
	seen := make(map[string]bool)
	for i, n := range route.totals {
		t, err := text.total(n, route.by)
		if err != nil {
			return nil, err
		}

		at := n.at
		if n.name.kind != end {
			at = n.name.from
		}
		if t.Name == document.TallyField {
			return nil, text.mistake(at, "the total %q has the name of a field that Tally itself writes to the roll-up; rename it with \"as\"", t.Name)
		}
		if seen[t.Name] {
			return nil, text.mistake(at, "the total %q is named twice", t.Name)
		}
		seen[t.Name] = true
		totals[i] = t
	}
	return totals, nil
}

// total returns one total of a route. by is the field of the route's group, if it has one.
func (text source) total(n totalNode, by fieldNode) (t Total, err error) {
	t.Aggregate = Sum
	if n.function.kind != end {
		t.Aggregate = Aggregate(n.function.text)
	}

	if t.Aggregate != Count {
		t.Field, err = text.field(n.field)
		if err != nil {
			return t, err
		}
	}
	t.Where, err = text.conditions(n, t, by)
	if err != nil {
		return t, err
	}

	t.Name, err = text.name(n, t)
	return t, err
}

// name returns the name of a total. If "as" does not name it, only a bare field and a bare count()
// have a name.
func (text source) name(n totalNode, t Total) (string, error) {
	if n.name.kind != end {
		if strings.Contains(n.name.text, ".") {
			return "", text.mistake(n.name.from, "%s is in a map; a total is a top-level field", n.name.text)
		}
		return n.name.text, text.checkName(n.name.from, n.name.text)
	}
	if t.All() {
		return countName, nil
	}

	bare := n.function.kind == end && n.where == nil
	if bare && len(n.field.names) == 1 {
		return n.field.names[0], nil
	}

	name := string(t.Aggregate)
	if t.Field != "" {
		name = n.field.names[len(n.field.names)-1]
	}
	written := t.aggregated()
	if n.function.kind != end && n.where == nil {
		written = n.function.text + "(" + quoteField(t.Field) + ")"
	}
	return "", text.mistake(n.at, "%s has no name; write %[1]s as %s", written, Quote(name))
}

// field returns the field at a path.
func (text source) field(n fieldNode) (document.Field, error) {
	for _, name := range n.names {
		if err := text.checkName(n.at, name); err != nil {
			return "", err
		}
	}
	return document.FieldOf(n.names...), nil
}

// checkName checks the name of a field in its document or map.
func (text source) checkName(at int, name string) error {
	if strings.ContainsAny(name, ".`[]*~/()") {
		return text.mistake(at, "the field %q: want a name without any of . ` [ ] * ~ / ( )", name)
	}
	if err := document.CheckID(name); err != nil {
		return text.mistake(at, "a field's name %v", err)
	}
	return nil
}

// fieldsOf returns the fields that decide in which totals a document counts, and with what. Each
// field comes once.
func fieldsOf(r *Route) []document.Field {
	fields := r.Fields()
	add := func(f document.Field) {
		if f != "" && !slices.Contains(fields, f) {
			fields = append(fields, f)
		}
	}

	add(r.By)
	for _, t := range r.Totals {
		for _, c := range t.Where {
			add(c.Field)
		}
	}
	return fields
}

const (
	// shortestEvery is the least duration that "every" and "cadence" may have. Tally writes a
	// document at most about once a second.
	shortestEvery = time.Second

	// LongestCadence is the greatest duration that "cadence" may have. A total that is a day old is
	// kept by "every" as well.
	LongestCadence = 24 * time.Hour
)

// setOptions sets what the options of the route say.
func (text source) setOptions(r *Route, options []optionNode) error {
	seen := make(map[string]bool)
	for _, o := range options {
		name := o.name.text
		if seen[name] {
			return text.mistake(o.name.from, "the option %s is given twice", name)
		}
		seen[name] = true

		switch name {
		case "documents":
			if r.Counts() {
				return text.mistake(o.name.from, "count() needs no index and bills one read for each 1,000 documents; remove the option documents")
			}
			if !r.Plain() {
				return text.mistake(o.name.from, "documents is for plain sums of all documents; remove the option")
			}
			r.Documents = true
		case "existing":
			r.Template.Existing = true
		case "every":
			every, err := time.ParseDuration(o.duration.text)
			if err != nil || every < shortestEvery {
				return text.mistake(o.duration.from, "every %s: want a duration of at least %v, such as 10s or 5m", o.duration.text, shortestEvery)
			}
			if len(windows(r.Totals)) > 0 {
				return text.mistake(o.name.from, "every is for totals without a window: when a document leaves a window, an alarm has that rolled up, and not the schedule; remove the option")
			}
			r.Template.Every = every
		case "cadence":
			cadence, err := time.ParseDuration(o.duration.text)
			if err != nil || cadence < shortestEvery || cadence > LongestCadence {
				return text.mistake(o.duration.from, "cadence %s: want a duration from %v to %.0fh, such as 10s or 5m", o.duration.text, shortestEvery, LongestCadence.Hours())
			}
			r.Template.Cadence = cadence
		}

		if seen["every"] && seen["cadence"] {
			return text.mistake(o.name.from, "every and cadence exclude each other: the schedule keeps a route that says every, and events keep one that says cadence")
		}
	}
	return nil
}
