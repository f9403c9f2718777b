package rollup

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/firestore-tally/tally/internal/document"
)

// Bounds of what is read. Both are far from what anybody needs; they keep the time short.
const (
	maxText   = 128 << 10 // bytes; no variable of a process on Linux can be longer
	maxRoutes = 500       // most triggers in a location (https://cloud.google.com/eventarc/docs/quotas)
)

// ParseRoutes parses routes, one to a line or separated by semicolons, and checks each and all
// together. A line that is indented deeper than the one on which a route begins continues it, and
// one that begins with # is a comment. The error joins the first problems found, each with its
// route or its place, and the reason.
func ParseRoutes(text string) (Routes, error) {
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
		return nil, errors.New("no route given; the default is " + DefaultRoute)
	}
	for _, t := range routes.Templates() {
		t.seal()
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

// share gives routes of equal templates one Template.
func (rs Routes) share(p *problems) {
	first := make(map[string]*Route)
	for _, r := range rs {
		other := first[r.Template.spelt]
		switch {
		case other == nil:
			first[r.Template.spelt] = r
		case r.Template.Every != other.Template.Every:
			p.add(r, "it and route %q make one roll-up; say the same \"every\" in both", other)
		case r.Template.Existing != other.Template.Existing:
			p.add(r, "it and route %q make one roll-up; say \"existing\" in both, or in neither", other)
		default:
			r.Template = other.Template
			r.Template.Routes = append(r.Template.Routes, r)
		}
	}
}

// parseRoute parses one route and checks what can be checked without the others.
func parseRoute(text source, tokens []token) (*Route, error) {
	p := parser{source: text, tokens: tokens}
	n, err := p.route()
	if err != nil {
		return nil, err
	}

	r := &Route{Template: new(Template)}
	r.Template.Routes = []*Route{r}
	if r.pattern, err = text.path(n.pattern); err != nil {
		return nil, err
	}
	if r.template, err = text.path(n.template); err != nil {
		return nil, err
	}
	r.Template.segments, r.Template.spelt = r.template, spell(r.template, r.template)
	if err := text.checkCaptures(n); err != nil {
		return nil, err
	}
	if r.Totals, err = text.totals(n.totals); err != nil {
		return nil, err
	}
	r.queries = queries(r.Totals)
	r.fields = fieldsOf(r)
	return r, text.setOptions(r, n.options)
}

// maxSegments is Firestore's limit: 100 collections below each other
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
			return nil, text.mistake(n.at, "%q: a literal segment has no braces", n.Name)
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

// checkCaptures checks that the pattern ends in a capture, and that the template uses exactly the
// pattern's other captures.
func (text source) checkCaptures(n routeNode) error {
	last := n.pattern[len(n.pattern)-1]
	if !last.Capture {
		return text.mistake(last.at, "the source pattern ends in the literal %q; its last segment must capture the document, as {shard}", last.Name)
	}

	var captured []string
	for i, s := range n.pattern {
		if !s.Capture {
			continue
		}
		if i%2 == 0 {
			return text.mistake(s.at, "the source pattern captures a collection's name, %v; only document ids can be captured", s)
		}
		if slices.Contains(captured, s.String()) {
			return text.mistake(s.at, "the source pattern captures %v twice; give each capture a name of its own", s)
		}
		captured = append(captured, s.String())
	}

	var used []string
	for i, s := range n.template {
		if !s.Capture {
			continue
		}
		if i%2 == 0 {
			return text.mistake(s.at, "the roll-up path captures a collection's name, %v; only document ids can be captured, or the audit could not find the roll-ups", s)
		}
		if s.Segment == last.Segment {
			return text.mistake(s.at, "the roll-up path uses the last capture %v; every document would get a roll-up of its own", s)
		}
		if !slices.Contains(captured, s.String()) {
			return text.mistake(s.at, "the roll-up path uses %v, which the source pattern does not capture%s", s, meant(s.String(), captured[:len(captured)-1]...))
		}
		used = append(used, s.String())
	}

	for _, s := range n.pattern[:len(n.pattern)-1] {
		if s.Capture && !slices.Contains(used, s.String()) {
			return text.mistake(s.at, "the roll-up path does not use %v; counters that differ only in it would share one roll-up", s)
		}
	}
	return nil
}

// totals returns the totals of a route.
func (text source) totals(nodes []totalNode) ([]Total, error) {
	totals := make([]Total, len(nodes))
	seen := make(map[string]bool)
	for i, n := range nodes {
		t, err := text.total(n)
		if err != nil {
			return nil, err
		}

		at := n.at
		if n.name.kind != end {
			at = n.name.from
		}
		if t.Name == document.TallyField {
			return nil, text.mistake(at, "the total %q has the name of a field that Tally itself writes to the roll-up; name it otherwise with \"as\"", t.Name)
		}
		if seen[t.Name] {
			return nil, text.mistake(at, "the total %q is named twice", t.Name)
		}
		seen[t.Name] = true
		totals[i] = t
	}
	return totals, nil
}

// total returns a total.
func (text source) total(n totalNode) (Total, error) {
	t := Total{Aggregate: Count, Name: n.name.text}
	if n.function != "count" {
		if err := text.checkField(n.field); err != nil {
			return t, err
		}
		t.Aggregate, t.Field = Sum, document.FieldOf(n.field.text)
	}

	if n.name.kind != end {
		return t, text.checkField(n.name)
	}
	switch n.function {
	case "count":
		t.Name = countName
	case "sum":
		return t, text.mistake(n.at, "sum(%s) has no name; write sum(%[1]s) as %[1]s", quoteField(t.Field))
	default:
		t.Name = n.field.text
	}
	return t, nil
}

// checkField checks the name of a top-level field.
func (text source) checkField(name token) error {
	if name.kind == word && strings.Contains(name.text, ".") {
		return text.mistake(name.from, "%s is in a map; want the name of a top-level field", name.text)
	}
	if strings.ContainsAny(name.text, ".`[]*~/()") {
		return text.mistake(name.from, "the field %q: name a top-level field, without any of . ` [ ] * ~ / ( )", name.text)
	}
	if err := document.CheckID(name.text); err != nil {
		return text.mistake(name.from, "a field's name %v", err)
	}
	return nil
}

// fieldsOf returns the fields that decide which totals a document is in, and how, each once.
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

// shortestEvery is the least that "every" may say: Tally plans one write a second for a document.
const shortestEvery = time.Second

// setOptions takes the options over into the route.
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
				return text.mistake(o.name.from, "count() needs no index and bills one read for each 1,000 documents; leave the option documents out")
			}
			r.Documents = true
		case "existing":
			r.Template.Existing = true
		case "every":
			every, err := time.ParseDuration(o.duration.text)
			if err != nil || every < shortestEvery {
				return text.mistake(o.duration.from, "every %s: want a duration of at least %v, such as 10s or 5m", o.duration.text, shortestEvery)
			}
			r.Template.Every = every
		}
	}
	return nil
}
