package route

import (
	"errors"
	"fmt"
	"slices"
)

// These bound the input. Both are far above any real need. They keep the time of parsing short.
const (
	maxText   = 128 << 10 // bytes; no variable of a process on Linux can be longer
	maxRoutes = 500       // most triggers in a location (https://cloud.google.com/eventarc/docs/quotas)
)

// Parse parses routes, one to a line or separated by semicolons. It checks each route, and
// all of them together. A line that is indented deeper than the one on which a route begins
// continues that route. A line that begins with # is a comment. The error joins the first problems
// found. Each that is about what the text says is a [Mistake].
func Parse(text string) (Routes, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("the routes have %d bytes; want at most %d", len(text), maxText)
	}

	var routes Routes
	var found problems
	for tokens := lex(text); len(tokens) > 0; {
		next := 1 + slices.IndexFunc(tokens, func(t Token) bool { return t.Kind == End })
		r, err := parseRoute(source(text), tokens[:next])
		if err != nil {
			found.note(err)
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
	for _, r := range routes {
		r.ofRollUps = slices.ContainsFunc(routes, func(other *Route) bool { return other.feeds(r) })
		r.homes = slices.DeleteFunc(routes.Templates(), func(t *Template) bool { return !Overlap(t.segments, r.pattern) })
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
			p.add(r, "one roll-up, and two of every", other)
		case r.Template.Cadence != other.Template.Cadence:
			p.add(r, "one roll-up, and two of cadence", other)
		case !slices.Equal(r.spaces(), other.spaces()):
			p.add(r, "one roll-up, and two kinds of ids", other)
		case r.Template.Within != other.Template.Within || r.Template.owner != other.Template.owner:
			p.add(r, "one roll-up, and two of within", other)
		case r.Template.Within && !slices.Equal(r.template, other.template):
			p.add(r, "one roll-up, and two names of captures", other)
		case r.Template.Existing != other.Template.Existing:
			p.add(r, "one roll-up, and one existing", other)
		default:
			r.Template = other.Template
			r.Template.Routes = append(r.Template.Routes, r)
		}
	}
}
