package rollup

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/firestore-tally/tally/internal/document"
)

// ParseRoutes parses routes, one to a line or separated by semicolons, and checks each and all
// together. The error joins every problem found, each naming its route and the reason.
func ParseRoutes(text string) (Routes, error) {
	var routes Routes
	var found problems
	for line := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' || r == ';' }) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		r, err := parseRoute(line)
		if err != nil {
			found = append(found, fmt.Errorf("route %q: %w", line, err))
			continue
		}
		routes = append(routes, r)
	}
	routes.share(&found)
	routes.conflicts(&found)
	if len(found) > 0 {
		return nil, errors.Join(found...)
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
		spelt := spell(r.template, r.template)
		other := first[spelt]
		switch {
		case other == nil:
			first[spelt] = r
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
func parseRoute(line string) (*Route, error) {
	left, right, ok := strings.Cut(line, "->")
	parts := strings.Split(right, ":")
	if !ok || len(parts) < 2 {
		return nil, errors.New("want <source pattern> -> <roll-up template> : <totals>, as in " + DefaultRoute)
	}
	r := &Route{Template: new(Template)}
	r.Template.Routes = []*Route{r}
	var err error
	if r.pattern, err = parsePath(left); err != nil {
		return nil, fmt.Errorf("source pattern: %w", err)
	}
	if r.template, err = parsePath(parts[0]); err != nil {
		return nil, fmt.Errorf("roll-up template: %w", err)
	}
	r.Template.segments = r.template
	if err := checkCaptures(r.pattern, r.template); err != nil {
		return nil, err
	}
	if r.Totals, err = parseTotals(parts[1]); err != nil {
		return nil, err
	}
	for _, t := range r.Totals {
		if t.Field != "" && !slices.Contains(r.fields, t.Field) {
			r.fields = append(r.fields, t.Field)
		}
	}
	return r, r.parseOptions(parts[2:])
}

// shortestEvery is the least that "every" may say: Tally plans one write a second for a document.
const shortestEvery = time.Second

// parseOptions parses what follows the totals.
func (r *Route) parseOptions(options []string) error {
	const want = "want documents, existing, or every and a duration such as 10s"
	seen := make(map[string]bool)
	for _, text := range options {
		words := strings.Fields(text)
		if len(words) == 0 {
			return errors.New("an option is empty; " + want)
		}
		if seen[words[0]] {
			return fmt.Errorf("the option %s is given twice", words[0])
		}
		seen[words[0]] = true
		switch {
		case words[0] == "documents" && len(words) == 1:
			r.Documents = true
		case words[0] == "existing" && len(words) == 1:
			r.Template.Existing = true
		case words[0] == "every" && len(words) == 2:
			var err error
			if r.Template.Every, err = time.ParseDuration(words[1]); err != nil || r.Template.Every < shortestEvery {
				return fmt.Errorf("the option %q: want a duration of at least %v, such as 10s or 5m", strings.Join(words, " "), shortestEvery)
			}
		default:
			return fmt.Errorf("unknown option %q; %s", strings.Join(words, " "), want)
		}
	}
	if r.Documents && r.Counts() {
		return errors.New("count() needs no index and bills one read for each 1,000 documents; leave the option documents out")
	}
	return nil
}

// parseTotals parses a comma-separated list of totals.
func parseTotals(list string) ([]Total, error) {
	var totals []Total
	for text := range strings.SplitSeq(list, ",") {
		t := Total{Field: strings.TrimSpace(text)}
		words := strings.Fields(text)
		switch n := len(words); {
		case n > 2 && words[n-2] == "as":
			t.Name = words[n-1]
			before := strings.TrimSpace(strings.TrimSuffix(t.Field, t.Name))
			t.Field = strings.TrimSpace(strings.TrimSuffix(before, "as"))
		case n > 1 && slices.ContainsFunc(words, isAs):
			return nil, fmt.Errorf("the total %q: want a field or count(), then perhaps \"as\" and a name of one word", t.Field)
		}
		if t.Field == countAll {
			t.Field, t.Name = "", cmp.Or(t.Name, countName)
		} else if err := checkField(t.Field); err != nil {
			return nil, err
		}
		t.Name = cmp.Or(t.Name, t.Field)
		if err := checkField(t.Name); err != nil {
			return nil, err
		}
		if t.Name == document.TallyField {
			return nil, fmt.Errorf("the total %q has the name of a field that Tally itself writes to the roll-up; name it otherwise with \"as\"", t.Name)
		}
		totals = append(totals, t)
	}
	return totals, nil
}

// checkField checks the name of a top-level field.
func checkField(name string) error {
	if strings.ContainsAny(name, ".`[]*~/()") {
		return fmt.Errorf("the field %q: name a top-level field, without any of . ` [ ] * ~ / ( ); or count()", name)
	}
	if err := document.CheckID(name); err != nil {
		return fmt.Errorf("a field's name %w", err)
	}
	return nil
}

func isAs(word string) bool { return strings.EqualFold(word, "as") }

// checkCaptures checks that the pattern ends in a capture, and that the template uses exactly the
// pattern's other captures.
func checkCaptures(pattern, template Path) error {
	last := pattern[len(pattern)-1]
	if !last.Capture {
		return fmt.Errorf("the source pattern ends in the literal %q; its last segment must capture the document, as {shard}", last.Name)
	}
	for i, s := range pattern {
		if !s.Capture {
			continue
		}
		if i%2 == 0 {
			return fmt.Errorf("the source pattern captures a collection's name, {%s}; only document ids can be captured", s.Name)
		}
		if slices.Index(pattern, s) < i {
			return fmt.Errorf("the source pattern captures {%s} twice; give each capture a name of its own", s.Name)
		}
	}
	for i, s := range template {
		if s.Capture && i%2 == 0 {
			return fmt.Errorf("the roll-up path captures a collection's name, {%s}; only document ids can be captured, or the audit could not find the roll-ups", s.Name)
		}
		if s.Capture && s.Name == last.Name {
			return fmt.Errorf("the roll-up path uses the last capture {%s}; every document would get a roll-up of its own", s.Name)
		}
		if s.Capture && !slices.Contains(pattern, s) {
			return fmt.Errorf("the roll-up path uses {%s}, which the source pattern does not capture", s.Name)
		}
	}
	for _, s := range pattern[:len(pattern)-1] {
		if s.Capture && !slices.Contains(template, s) {
			return fmt.Errorf("the roll-up path does not use {%s}; counters that differ only in it would share one roll-up", s.Name)
		}
	}
	return nil
}

// parsePath parses the path of a document, with captures.
func parsePath(path string) (Path, error) {
	path = strings.TrimSpace(path)
	var segments Path
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
		if err := document.CheckID(s.Name); err != nil {
			return nil, fmt.Errorf("%q: segment %d %w", path, len(segments)+1, err)
		}
		segments = append(segments, s)
	}
	if len(segments)%2 != 0 {
		return nil, fmt.Errorf("%q names a collection; a document's path has an even number of segments, and this has %d", path, len(segments))
	}
	return segments, nil
}
