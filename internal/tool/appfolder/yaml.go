package appfolder

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
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
	halves []string         // keys whose value has a fraction, where a whole number stands
}

// decode reads a parsed tally.yaml.
func decode(file, text string, parsed *ast.File) (s Settings, p places, err error) {
	p.keys = make(map[string]place)
	var bodies []ast.Node
	for _, d := range parsed.Docs {
		if d.Body != nil {
			bodies = append(bodies, d.Body)
		}
	}
	if len(bodies) > 1 {
		return s, p, fmt.Errorf("%sanother document begins here: tally.yaml is one document, without lines of ---", place{bodies[1].GetToken().Position.Line, 1}.in(file))
	}
	if len(bodies) == 0 {
		return s, p, nil
	}

	p.note(bodies[0], "", strings.Split(lineEnds.Replace(text), "\n"))
	err = p.mistakes(file)
	if err != nil {
		return s, p, err
	}
	err = yaml.NodeToValue(bodies[0], &s)
	if err != nil {
		return s, p, explained(file, err)
	}
	return s, p, nil
}

// mistakes returns an error that names the keys that tally.yaml may not have, and the numbers that
// the YAML package would round.
func (p *places) mistakes(file string) error {
	var known []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Settings]()) {
		known = append(known, f.Tag.Get("yaml"))
	}

	var wrong []error
	for _, key := range p.inOrder() {
		outer, _, _ := strings.Cut(key, ".")
		switch {
		case slices.Contains(known, outer):
		case strings.Contains(key, "->"):
			wrong = append(wrong, fmt.Errorf("%sa route is not indented: %s", p.keys[key].in(file), writeRoutes))
		default:
			wrong = append(wrong, fmt.Errorf("%sunknown key %q; the keys are %s", p.keys[key].in(file), key, strings.Join(known, ", ")))
		}
	}
	for _, key := range p.halves {
		wrong = append(wrong, fmt.Errorf("%s%s: want a whole number", p.keys[key].in(file), key))
	}
	return FirstOf(wrong)
}

// inOrder returns the keys in the order of the file.
func (p *places) inOrder() []string {
	return slices.SortedFunc(maps.Keys(p.keys), func(a, b string) int {
		at, bt := p.keys[a], p.keys[b]
		return cmp.Or(at.line-bt.line, at.column-bt.column)
	})
}

// note notes where the keys of a map are, and the routes. above is "" for the outermost map, else
// such as "env.".
func (p *places) note(n ast.Node, above string, lines []string) {
	m, ok := n.(ast.MapNode)
	if !ok {
		return
	}
	for i := m.MapRange(); i.Next(); {
		key := above + i.Key().GetToken().Value
		p.keys[key] = placeOf(i.Key().GetToken())
		_, isFraction := i.Value().(*ast.FloatNode)
		if isFraction && (key == "max_instances" || key == "min_instances" || above == "dev.") {
			p.halves = append(p.halves, key)
		}

		switch key {
		case "env", "dev":
			p.note(i.Value(), key+".", lines)
		case "routes":
			p.noteRoutes(i.Value(), lines)
		}
	}
}

// noteRoutes notes where each line of the routes begins. The lines of a block follow its |. Any
// other text is on one line or folded; then all its lines begin where the text does.
func (p *places) noteRoutes(n ast.Node, lines []string) {
	for _, n := range routeNodes(n) {
		var text string
		if yaml.NodeToValue(n, &text) != nil {
			return // explained says why
		}

		begin := placeOf(n.GetToken())
		for i := range strings.Count(strings.TrimSuffix(text, "\n"), "\n") + 1 {
			at := begin
			switch n.GetToken().Type {
			case token.LiteralType:
				at = place{begin.line + 1 + i, indentBelow(lines, begin.line) + 1}
			case token.SingleQuoteType, token.DoubleQuoteType:
				at.column++
			}
			p.routes = append(p.routes, at)
		}
	}
}

// indentBelow returns how deep the block below a line is indented. Its first line that is not blank
// says it.
func indentBelow(lines []string, line int) int {
	for _, text := range lines[line:] {
		trimmed := strings.TrimLeft(text, " ")
		if strings.TrimSpace(trimmed) != "" {
			return len(text) - len(trimmed)
		}
	}
	return 0
}

// Routes is a text with a route on each line. tally.yaml may also have a list of such texts.
type Routes string

// UnmarshalYAML reads a text or a list.
func (r *Routes) UnmarshalYAML(n ast.Node) error {
	var all []string
	for _, n := range routeNodes(n) {
		var text string
		err := yaml.NodeToValue(n, &text)
		if err != nil {
			return err
		}
		all = append(all, strings.TrimSuffix(text, "\n"))
	}
	*r = Routes(strings.Join(all, "\n"))
	return nil
}

// routeNodes returns the texts of routes.
func routeNodes(n ast.Node) []ast.Node {
	list, isList := n.(*ast.SequenceNode)
	if isList {
		return list.Values
	}
	return []ast.Node{n}
}

// writeRoutes is the remedy for routes that YAML does not take for text, because of their colons.
const writeRoutes = `write "routes: |" on a line, and each route on a line of its own below, indented`

// contents says what the fields of Settings hold, by what YAML's errors call it.
var contents = map[string]string{
	"mapping": "keys and values", "map": "keys and values", "struct": "keys and values",
	"sequence": "a list, such as [(default), orders]", "slice": "a list, such as [(default), orders]",
	"int": "a whole number", "string": "text",
}

// maxExcerpt is how many bytes of a file an error quotes.
const maxExcerpt = 1000

// explained returns an error of the YAML package with its place in the file and the lines around
// it. If a route stands there, it also says how routes are written.
func explained(file string, err error) error {
	problem, ok := errors.AsType[yaml.Error](err)
	if !ok || problem.GetToken() == nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	message := problem.GetMessage()
	kind := ""
	if mistyped, is := errors.AsType[*yaml.TypeError](err); is {
		kind = mistyped.DstType.Kind().String()
	}
	if unexpected, is := errors.AsType[*yaml.UnexpectedNodeTypeError](err); is {
		kind = strings.ToLower(unexpected.Expected.YAMLName())
	}
	if contents[kind] != "" {
		message = "want " + contents[kind]
	}

	_, excerpt, _ := strings.Cut(problem.FormatError(false, true), "\n")
	if strings.Contains(message, "tab character") {
		excerpt = "" // its lines have other numbers than in the file
	}
	if strings.Contains(excerpt, "->") {
		message += "; " + writeRoutes
	}
	message = placeOf(problem.GetToken()).in(file) + message
	if excerpt != "" && len(excerpt) <= maxExcerpt {
		message += "\n" + strings.TrimRight(excerpt, "\n ")
	}
	return errors.New(strings.Map(visible, message))
}

// visible returns a character that does nothing to a terminal.
func visible(r rune) rune {
	if isControl(r) || r == '\r' {
		return '�'
	}
	return r
}
