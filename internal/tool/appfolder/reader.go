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

// A place is a position in a file. Lines and columns count from 1. The zero value is unknown.
type place struct{ line, column int }

func placeOf(t *token.Token) place { return place{t.Position.Line, t.Position.Column} }

// in returns the beginning of a message about the place in a file.
func (p place) in(file string) string {
	if p == (place{}) {
		return file + ": "
	}
	return fmt.Sprintf("%s:%d:%d: ", file, p.line, p.column)
}

// places are the positions of the keys and the routes in tally.yaml.
type places struct {
	keys   map[string]place // such as "region" and "env.TALLY_BURST"
	routes []place          // of each line of Settings.Routes
}

// A reader reads settings from a parsed file. It notes where they are, and what is wrong.
type reader struct {
	file     string
	lines    []string
	places   places
	problems []error
}

// wrong notes a problem at a node.
func (r *reader) wrong(n ast.Node, format string, args ...any) {
	r.problems = append(r.problems, fmt.Errorf("%s%s", r.begin(n).in(r.file), fmt.Sprintf(format, args...)))
}

// begin returns where a node begins. A map's own token is its first colon or its brace, so a map
// without braces begins with its first key.
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

// settings reads a parsed file into s.
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

	r.each(bodies[0], "", func(name string, key, value ast.Node) { r.key(name, key, value, s) })
}

// key reads the value of a key of the file into its field of s.
func (r *reader) key(name string, key, value ast.Node, s *Settings) {
	if strings.Contains(name, "->") {
		r.wrong(key, "a route is not indented: %s", writeRoutes)
		return
	}
	field := fieldOf(name, s)
	if field == nil {
		r.wrong(key, "there is no key %q; the keys are %s", name, strings.Join(keyNames(), ", "))
		return
	}
	_, unset := value.(*ast.NullNode)
	if unset {
		return
	}

	switch field := field.(type) {
	case *string:
		*field = r.text(name, value)
	case *[]string:
		*field = r.list(name, value)
	case **int:
		*field = r.number(name, value)
	case *map[string]string:
		*field = r.texts(name, value)
	case *map[string]int:
		*field = r.numbers(name, value)
	}
}

// fieldOf returns a pointer to the field of s that a key stands for; nil if there is no such key.
func fieldOf(key string, s *Settings) any {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Settings]()) {
		if f.Tag.Get("yaml") == key {
			return reflect.ValueOf(s).Elem().FieldByIndex(f.Index).Addr().Interface()
		}
	}
	return nil
}

// each calls read with each key and value of a map. above is "" for the outermost map, else the key
// of the map with a dot at the end, such as "env.".
func (r *reader) each(n ast.Node, above string, read func(name string, key, value ast.Node)) {
	m, ok := n.(ast.MapNode)
	if !ok {
		r.wrong(n, "want keys and values here, such as cadence: 1s, and found %s", kind(n))
		return
	}

	for i := m.MapRange(); i.Next(); {
		name, ok := scalar(i.Key())
		if !ok {
			r.wrong(i.Key(), "want a name for a key, and found %s", kind(i.Key()))
			continue
		}
		r.places.keys[above+name] = r.begin(i.Key())
		read(name, i.Key(), i.Value())
	}
}

// text returns the value of a key that is text.
func (r *reader) text(name string, n ast.Node) string {
	if name == "routes" {
		return r.routes(n)
	}

	value, ok := scalar(n)
	if !ok {
		r.wrong(n, "%s: want text, and found %s", name, kind(n))
	}
	return value
}

// list returns the value of a key that is a list.
func (r *reader) list(name string, n ast.Node) []string {
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		r.wrong(n, "%s: want a list, such as [(default), orders], and found %s", name, kind(n))
		return nil
	}

	var all []string
	for _, n := range list.Values {
		value, ok := scalar(n)
		if !ok {
			r.wrong(n, "%s: want text in the list, and found %s", name, kind(n))
		}
		all = append(all, value)
	}
	return all
}

// number returns the value of a key that is a number.
func (r *reader) number(name string, n ast.Node) *int {
	value, _ := scalar(n)
	number, err := strconv.Atoi(value)
	if err != nil {
		r.wrong(n, "%s: want a whole number", name)
		return nil
	}
	return &number
}

// texts returns the value of a key that is a map of texts.
func (r *reader) texts(name string, n ast.Node) map[string]string {
	all := make(map[string]string)
	r.each(n, name+".", func(variable string, _, n ast.Node) {
		value, ok := scalar(n)
		if !ok {
			r.wrong(n, "%s.%s: want text, and found %s", name, variable, kind(n))
		}
		all[variable] = value
	})
	return all
}

// numbers returns the value of a key that is a map of numbers.
func (r *reader) numbers(name string, n ast.Node) map[string]int {
	all := make(map[string]int)
	r.each(n, name+".", func(key string, _, n ast.Node) {
		number := r.number(name+"."+key, n)
		if number != nil {
			all[key] = *number
		}
	})
	return all
}

// routes returns the routes of a text or of a list as one text, and notes where its lines are.
func (r *reader) routes(n ast.Node) string {
	list, isList := n.(*ast.SequenceNode)
	if !isList {
		all, ok := scalar(n)
		if !ok {
			r.wrong(n, "routes: want text or a list, and found %s: %s", kind(n), writeRoutes)
			return ""
		}
		r.noteLines(n, all)
		return all
	}

	var all []string
	for _, n := range list.Values {
		route, ok := scalar(n)
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

// noteLines notes where the lines of routes are. The node is the text that holds them.
func (r *reader) noteLines(n ast.Node, routes string) {
	for i := range strings.Count(routes, "\n") + 1 {
		r.places.routes = append(r.places.routes, r.lineOf(n, i))
	}
}

// lineOf returns where the i-th line of a text begins, from 0 on. The lines of a block follow its
// |. Any other text is on one line or folded; then all its lines begin where the text does.
func (r *reader) lineOf(n ast.Node, i int) place {
	begin := placeOf(n.GetToken())
	switch n.GetToken().Type {
	case token.LiteralType:
		return place{begin.line + 1 + i, r.indentBelow(begin.line) + 1}
	case token.SingleQuoteType, token.DoubleQuoteType:
		begin.column++
	}
	return begin
}

// indentBelow returns how deep the block below a line is indented. Its first line that is not blank
// says it.
func (r *reader) indentBelow(line int) int {
	for _, text := range r.lines[line:] {
		trimmed := strings.TrimLeft(text, " ")
		if strings.TrimSpace(trimmed) != "" {
			return len(text) - len(trimmed)
		}
	}
	return 0
}

// scalar returns the value of a scalar as it is written; false if the node is no scalar.
func scalar(n ast.Node) (string, bool) {
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

// kind returns what messages call a node.
func kind(n ast.Node) string {
	switch n.(type) {
	case *ast.SequenceNode:
		return "a list"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "keys and values"
	case *ast.TagNode:
		return "a tag"
	}
	_, isScalar := scalar(n)
	if isScalar {
		return "text"
	}
	return "something else"
}

// writeRoutes is the remedy for routes that YAML does not take for text, because of their colons.
const writeRoutes = `write "routes: |" on a line, and each route on a line of its own below, indented`

// clearerWords are messages of the parser, in part, and what to say instead.
var clearerWords = []struct{ theirs, ours string }{
	{"found character '\t'", "YAML is not indented by tabs: use spaces"},
	{"already defined", "this key stands above already: write it once"},
	{"could not find end character", "a quote is opened here and not closed"},
	{"end token", "a bracket is opened here and not closed"},
	{"is a reserved character", "text that begins with this character stands in quotes"},
	{"mapping value is not allowed", "text with a colon and a space in it stands in quotes"},
	{"non-map value is specified", "want a key and a colon here, or more spaces before the line"},
}

// clearer returns the parser's error in clearer words, with the place. If a route stands there, it
// also says how routes are written.
func clearer(file, text string, err error) error {
	problem, ok := errors.AsType[yaml.Error](err)
	if !ok {
		return fmt.Errorf("%s: is no YAML: %w", file, err)
	}

	message := "this is no YAML: " + problem.GetMessage()
	for _, words := range clearerWords {
		if strings.Contains(problem.GetMessage(), words.theirs) {
			message = words.ours
			break
		}
	}

	at := placeOf(problem.GetToken())
	lines := strings.Split(text, "\n")
	if at.line <= len(lines) && strings.Contains(lines[at.line-1], "->") {
		message += "; for routes, " + writeRoutes
	}
	return fmt.Errorf("%s%s", at.in(file), message)
}

// keyNames returns the names of the keys that tally.yaml may have.
func keyNames() (names []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Settings]()) {
		names = append(names, f.Tag.Get("yaml"))
	}
	return names
}
