package appfolder

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// A place is one in a file, from 1 on. The zero value is unknown.
type place struct{ line, column int }

func placeOf(t *token.Token) place { return place{t.Position.Line, t.Position.Column} }

// in returns how messages begin that are about the place in a file.
func (p place) in(file string) string {
	if p == (place{}) {
		return file + ": "
	}
	return fmt.Sprintf("%s:%d:%d: ", file, p.line, p.column)
}

// places are where things are in tally.yaml.
type places struct {
	keys   map[string]place // such as "region" and "env.TALLY_BURST"
	routes []place          // of each line of Settings.Routes
}

// A reader reads settings from a parsed file. It notes where they are, and what is wrong.
type reader struct {
	file     string
	text     []string // the file's lines
	places   places
	problems []error
}

func (r *reader) wrong(n ast.Node, format string, args ...any) {
	r.problems = append(r.problems, fmt.Errorf("%s%s", r.begin(n).in(r.file), fmt.Sprintf(format, args...)))
}

// begin returns where a node begins. The token of a map is its first colon, or brace.
func (r *reader) begin(n ast.Node) place {
	switch n := n.(type) {
	case *ast.MappingNode:
		if len(n.Values) > 0 && n.GetToken().Type == token.MappingValueType {
			return r.begin(n.Values[0])
		}
	case *ast.MappingValueNode:
		return placeOf(n.Key.GetToken())
	}
	return placeOf(n.GetToken())
}

// settings reads a file.
func (r *reader) settings(f *ast.File, s *Settings) {
	var bodies []ast.Node
	for _, d := range f.Docs {
		if d.Body != nil {
			bodies = append(bodies, d.Body)
		}
	}
	if len(bodies) > 1 {
		r.wrong(bodies[1], "another document begins here: tally.yaml is one, without lines of ---")
		return
	}
	if len(bodies) == 0 {
		return
	}

	fields := make(map[string]reflect.Value)
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Settings]()) {
		fields[f.Tag.Get("yaml")] = reflect.ValueOf(s).Elem().FieldByIndex(f.Index)
	}
	r.each(bodies[0], "", func(name string, key, value ast.Node) {
		field, has := fields[name]
		if strings.Contains(name, "->") {
			r.wrong(key, "a route is not indented: %s", writeRoutes)
			return
		}
		if !has {
			r.wrong(key, "there is no key %q; the keys are %s", name, strings.Join(keyNames(), ", "))
			return
		}
		switch _, unset := value.(*ast.NullNode); {
		case unset:
		case name == "routes":
			s.Routes = r.routes(value)
		default:
			r.value(name, value, field.Addr().Interface())
		}
	})
}

// each calls read with each key and value of a map. Above it are the keys that it is below, with a
// dot at the end.
func (r *reader) each(n ast.Node, above string, read func(name string, key, value ast.Node)) {
	m, ok := n.(ast.MapNode)
	if !ok {
		r.wrong(n, "want keys and values here, such as cadence: 1s, and found %s", kind(n))
		return
	}
	for i := m.MapRange(); i.Next(); {
		name, ok := text(i.Key())
		if !ok {
			r.wrong(i.Key(), "want a name for a key, and found %s", kind(i.Key()))
			continue
		}
		r.places.keys[above+name] = r.begin(i.Key())
		read(name, i.Key(), i.Value())
	}
}

// value reads the value of a key into a field of Settings.
func (r *reader) value(name string, n ast.Node, into any) {
	switch into := into.(type) {
	case *string:
		value, ok := text(n)
		if !ok {
			r.wrong(n, "%s: want text, and found %s", name, kind(n))
		}
		*into = value
	case *[]string:
		list, ok := n.(*ast.SequenceNode)
		if !ok {
			r.wrong(n, "%s: want a list, such as [(default), orders], and found %s", name, kind(n))
			return
		}
		for _, n := range list.Values {
			value, ok := text(n)
			if !ok {
				r.wrong(n, "%s: want text in the list, and found %s", name, kind(n))
			}
			*into = append(*into, value)
		}
	case **int:
		value, _ := text(n)
		number, err := strconv.Atoi(value)
		if err != nil {
			r.wrong(n, "%s: want a whole number", name)
			return
		}
		*into = &number
	case *map[string]string:
		*into = make(map[string]string)
		r.each(n, name+".", func(variable string, _, n ast.Node) {
			value, ok := text(n)
			if !ok {
				r.wrong(n, "%s.%s: want text, and found %s", name, variable, kind(n))
			}
			(*into)[variable] = value
		})
	}
}

// routes returns the text of routes, or those of a list, and notes where its lines are.
func (r *reader) routes(n ast.Node) string {
	list, isList := n.(*ast.SequenceNode)
	if !isList {
		all, ok := text(n)
		if !ok {
			r.wrong(n, "routes: want text or a list, and found %s: %s", kind(n), writeRoutes)
			return ""
		}
		r.noteLines(n, all)
		return all
	}

	var all []string
	for _, n := range list.Values {
		route, ok := text(n)
		if !ok {
			r.wrong(n, "a route in a list stands in quotes, because of its colons: - '%s'", exampleRoute)
			continue
		}
		route = strings.TrimSuffix(route, "\n")
		r.noteLines(n, route)
		all = append(all, route)
	}
	return strings.Join(all, "\n")
}

const exampleRoute = "posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing"

// noteLines notes where the lines of routes are, which a node says.
func (r *reader) noteLines(n ast.Node, routes string) {
	for i := range strings.Count(routes, "\n") + 1 {
		r.places.routes = append(r.places.routes, r.lineOf(n, i))
	}
}

// lineOf returns where the i-th line of a text begins, from 0 on. The lines of a block follow its |.
// Other texts are on one line, or folded: then it is where they begin.
func (r *reader) lineOf(n ast.Node, i int) place {
	begin := placeOf(n.GetToken())
	switch n.GetToken().Type {
	case token.LiteralType:
		indent := 0
		for _, line := range r.text[begin.line:] { // the first that is not blank says how deep all are
			if trimmed := strings.TrimLeft(line, " "); strings.TrimSpace(trimmed) != "" {
				indent = len(line) - len(trimmed)
				break
			}
		}
		return place{begin.line + 1 + i, indent + 1}
	case token.SingleQuoteType, token.DoubleQuoteType:
		begin.column++
	}
	return begin
}

// text returns what a scalar says, as it is written.
func text(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	case *ast.NullNode:
		return "", true
	}
	return "", false
}

// kind returns what a node is called.
func kind(n ast.Node) string {
	switch n.(type) {
	case *ast.SequenceNode:
		return "a list"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "keys and values"
	case *ast.TagNode:
		return "a tag"
	}
	if _, ok := text(n); ok {
		return "text"
	}
	return "something else"
}

// writeRoutes is the remedy for routes that are no text to YAML, because of their colons.
const writeRoutes = `write "routes: |" on a line, and each route on a line of its own below, indented`

// ownWords returns what is wrong with a text that is no YAML.
func ownWords(file, text string, err error) error {
	problem, ok := errors.AsType[yaml.Error](err)
	if !ok {
		return fmt.Errorf("%s: is no YAML: %w", file, err)
	}
	at, theirs := placeOf(problem.GetToken()), problem.GetMessage()
	ours := "this is no YAML: " + theirs
	for _, words := range []struct{ theirs, ours string }{
		{"found character '\t'", "YAML is not indented by tabs: use spaces"},
		{"already defined", "this key stands above already: write it once"},
		{"could not find end character", "a quote is opened here and not closed"},
		{"end token", "a bracket is opened here and not closed"},
		{"is a reserved character", "text that begins with this character stands in quotes"},
		{"mapping value is not allowed", "text with a colon and a space in it stands in quotes"},
		{"non-map value is specified", "want a key and a colon here, or more spaces before the line"},
	} {
		if strings.Contains(theirs, words.theirs) {
			ours = words.ours
			break
		}
	}
	lines := strings.Split(text, "\n")
	if at.line <= len(lines) && strings.Contains(lines[at.line-1], "->") {
		ours += "; for routes, " + writeRoutes
	}
	return fmt.Errorf("%s%s", at.in(file), ours)
}

// keyNames returns the names of the keys that tally.yaml may have.
func keyNames() (names []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Settings]()) {
		names = append(names, f.Tag.Get("yaml"))
	}
	return names
}
