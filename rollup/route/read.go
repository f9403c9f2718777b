package route

import (
	"slices"
	"strings"
	"unicode"

	"github.com/firestore-tally/tally/internal/document"
)

// Nodes hold what a route says, with the place in the text of each part.
type (
	routeNode struct {
		pattern, template pathNode
		by                []keyNode
		totals            []totalNode
		options           []optionNode
	}

	pathNode []segmentNode

	segmentNode struct {
		Segment
		at int
	}

	// A fieldNode without names means that there is no field.
	fieldNode struct {
		names []string
		at    int
	}

	keyNode struct {
		function Token // of kind End: the key is a bare field
		field    fieldNode
		zone     Token // of kind End: there is none
		name     Token // of kind End: there is no "as"
		at       int
	}

	totalNode struct {
		function Token // of kind End: the total is a bare field
		field    fieldNode
		where    []conditionNode
		name     Token // of kind End: there is no "as"
		at       int
	}

	conditionNode struct {
		field    fieldNode
		operator Token
		values   []valueNode // one, or several after "in"
	}

	valueNode struct {
		Token       // as JSON has it; in a timestamp, the text; of a window, its length
		isTime bool // the text is in a timestamp
		isAgo  bool // it is of a window
	}

	optionNode struct {
		name, duration Token
		owner          pathNode // of within
	}
)

// A parser reads one route from tokens.
type parser struct {
	source
	tokens []Token // the tokens that are left; the last is the route's end
	bare   Token   // the token that was just read, if it is a name without backticks
}

// route reads
//
//	pattern ["by" key {"," key}] "->" template ":" total {"," total} {":" option}
func (p *parser) route() (n routeNode, err error) {
	n.pattern, err = p.path()
	if err != nil {
		return n, err
	}
	if p.accept("by") {
		n.by, err = list(p, ",", p.key)
		if err != nil {
			return n, err
		}
	}

	if !p.accept(arrow) {
		if n.by != nil {
			return n, p.wrong("want a comma or ->")
		}
		return n, p.wrong("want by or ->")
	}
	n.template, err = p.path()
	if err != nil {
		return n, err
	}

	if !p.accept(":") {
		return n, p.wrong("want a colon")
	}
	n.totals, err = list(p, ",", p.total)
	if err != nil {
		return n, err
	}

	for p.accept(":") {
		option, err := p.option()
		if err != nil {
			return n, err
		}
		n.options = append(n.options, option)
	}

	if p.tokens[0].Kind == End {
		return n, nil
	}
	if n.options != nil {
		return n, p.wrong("want a colon or the end")
	}
	return n, p.unended(n.totals[len(n.totals)-1])
}

// unended says what may follow what was read of a total.
func (p *parser) unended(n totalNode) error {
	switch {
	case n.name.Kind != End:
		return p.wrong("want a comma, a colon or the end", strings.TrimSpace(string(p.source[n.at:n.name.From])), Quote(n.name.Text))
	case n.where != nil:
		return p.wrong("want and, as, a comma, a colon or the end")
	case n.function.Kind != End:
		return p.wrong("want where, as, a comma, a colon or the end")
	default:
		return p.wrong("want where, as, a comma, a colon or the end after a field")
	}
}

// key reads
//
//	field ["as" name] | function "(" field ["," text] ")" ["as" name]
func (p *parser) key() (n keyNode, err error) {
	n.at = p.tokens[0].From
	if p.tokens[0].Kind == Word && p.tokens[1].Is("(") {
		n.function = p.next()
		err = p.keyFunction(&n)
	} else {
		n.field, err = p.field("want a key")
	}
	if err != nil {
		return n, err
	}

	if p.accept("as") {
		n.name, err = p.name("want a name of a key")
	}
	return n, err
}

// keyFunction reads
//
//	"(" field ["," text] ")"
func (p *parser) keyFunction(n *keyNode) (err error) {
	function := Function(n.function.Text)
	p.next()
	if !slices.Contains(keyFunctions, function) {
		return p.mistake(n.function.From, "unknown function of a key", function)
	}

	n.field, err = p.field("want a field of a function", function)
	if err != nil {
		return err
	}
	if function.OfTime() && p.accept(",") {
		if p.tokens[0].Kind != InQuotes {
			return p.wrong("want a time zone", function)
		}
		n.zone = p.next()
	}
	if !p.accept(")") {
		return p.wrong("want )", function)
	}
	return nil
}

// list reads one or more elements with a separator between them.
func list[T any](p *parser, separator string, element func() (T, error)) ([]T, error) {
	var all []T
	for {
		e, err := element()
		if err != nil {
			return nil, err
		}
		all = append(all, e)

		if !p.accept(separator) {
			return all, nil
		}
	}
}

// path reads
//
//	segment {"/" segment}
func (p *parser) path() (pathNode, error) {
	var path pathNode
	for {
		if len(path) == 3 && path[0].Name == "projects" && path[2].Name == "databases" {
			return nil, p.wrong("path of a project")
		}
		segment, err := p.segment(len(path) + 1)
		if err != nil {
			return nil, err
		}
		path = append(path, segment)

		if !p.accept("/") {
			return path, nil
		}
	}
}

// segment reads
//
//	name | "{" field "}"
func (p *parser) segment(number int) (n segmentNode, err error) {
	n.at = p.tokens[0].From
	n.Capture = p.accept("{")
	if !n.Capture {
		name, err := p.name("want a segment", number)
		n.Name = name.Text
		return n, err
	}

	field, err := p.field("want a capture")
	if err != nil {
		return n, err
	}
	n.Name = strings.Join(field.names, ".")
	if !p.accept("}") {
		return n, p.wrong("want a capture")
	}
	return n, nil
}

// total reads
//
//	aggregate ["where" condition {"and" condition}] ["as" name]
func (p *parser) total() (n totalNode, err error) {
	n.at = p.tokens[0].From
	err = p.aggregate(&n)
	if err != nil {
		return n, err
	}

	if p.accept("where") {
		n.where, err = list(p, "and", p.condition)
		if err != nil {
			return n, err
		}
	}

	if p.accept("as") {
		n.name, err = p.name("want a name of a total")
	}
	return n, err
}

// aggregate reads
//
//	field | "count" "(" ")" | function "(" field ")"
func (p *parser) aggregate(n *totalNode) (err error) {
	if p.tokens[0].Kind != Word || !p.tokens[1].Is("(") {
		n.field, err = p.field("want a total")
		return err
	}

	n.function = p.next()
	function := Aggregate(n.function.Text)
	p.next()
	if function == Count {
		if !p.accept(")") {
			return p.wrong("want ) of count")
		}
		return nil
	}
	if !slices.Contains(functions, function) {
		return p.mistake(n.function.From, "unknown function of a total", function)
	}

	n.field, err = p.field("want a field of a function", function)
	if err != nil {
		return err
	}
	if p.sees("(") {
		return p.mistake(n.field.at, "function of a function", n.field.names[0])
	}
	if !p.accept(")") {
		return p.wrong("want )", function)
	}
	return nil
}

// functions are the aggregates of a field.
var functions = []Aggregate{Sum, Average, Maximum, Minimum, Latest, Earliest}

// condition reads
//
//	field comparison value | field "in" "[" value {"," value} "]" | field ">" window | field ">=" window
//
// where a comparison is
//
//	"==" | ">" | ">=" | "<" | "<="
func (p *parser) condition() (n conditionNode, err error) {
	n.field, err = p.field("want a condition")
	if err != nil {
		return n, err
	}

	field := document.FieldOf(n.field.names...)
	if !slices.ContainsFunc(comparisons, p.tokens[0].Is) {
		return n, p.wrong("want a comparison", field)
	}
	n.operator = p.next()
	if n.operator.Is(string(In)) {
		n.values, err = p.values(field)
		return n, err
	}
	if !p.sees(now) {
		n.values, err = one(p.value)
		return n, err
	}

	if !p.tokens[1].Is("-") && !p.tokens[1].Named() {
		return n, p.wrong("now without a length")
	}
	if !Operator(n.operator.Text).lower() {
		return n, p.mistake(n.operator.From, "window with another comparison")
	}
	n.values, err = one(p.window)
	return n, err
}

// values reads the values to which "in" compares a field:
//
//	"[" value {"," value} "]"
func (p *parser) values(field document.Field) ([]valueNode, error) {
	if !p.accept("[") {
		return nil, p.wrong("want a list", field)
	}
	values, err := list(p, ",", p.value)
	if err != nil {
		return nil, err
	}
	if !p.accept("]") {
		return nil, p.wrong("want a comma or ]")
	}
	return values, nil
}

// one reads one element, as a list.
func one[T any](element func() (T, error)) ([]T, error) {
	e, err := element()
	return []T{e}, err
}

// value reads
//
//	text | number | "true" | "false" | "null" | "timestamp" "(" text ")"
func (p *parser) value() (n valueNode, err error) {
	n.isTime = p.sees(timestamp) && p.tokens[1].Is("(")
	if n.isTime {
		p.next()
		p.next()
	}

	t := p.tokens[0]
	if n.isTime && t.Kind != InQuotes {
		return n, p.wrong("want a time in quotes")
	}
	if t.Kind == Word && strings.HasPrefix(t.Text, now+"-") {
		return n, p.wrong("want a window")
	}
	if t.Kind != InQuotes && (t.Kind != Word || !t.Named()) {
		return n, p.wrong("want a value")
	}

	n.Token = p.next()
	if n.isTime && !p.accept(")") {
		return n, p.wrong("want )", timestamp)
	}
	return n, nil
}

// window reads
//
//	"now" "-" length
func (p *parser) window() (n valueNode, err error) {
	p.next()
	if !p.accept("-") || p.tokens[0].Kind != Word || !p.tokens[0].Named() {
		return n, p.wrong("want a window")
	}
	n.isAgo, n.Token = true, p.next()

	together := n.Text + p.tokens[0].Text
	_, isLength := ParseAgo(together)
	if isLength && p.tokens[0].Kind == Word {
		return n, p.mistake(n.From, "length with a space", together)
	}
	return n, nil
}

const (
	now       = "now"
	timestamp = "timestamp"
)

// field reads the path of a field: names with dots between them, and no spaces.
func (p *parser) field(want string, values ...any) (fieldNode, error) {
	n := fieldNode{at: p.tokens[0].From}
	var path string
	for {
		t, err := p.name(want, values...)
		if err != nil {
			return n, err
		}

		part := t.Text
		if t.Kind == Backticked {
			part = string(document.FieldOf(t.Text))
		}
		if path != "" && !strings.HasSuffix(path, ".") && !strings.HasPrefix(part, ".") {
			return n, p.mistake(t.From, "dot missing in a field")
		}
		path += part

		next := p.tokens[0]
		goesOn := next.From == t.To && (next.Kind == Word || next.Kind == Backticked) && next.Named()
		if !goesOn {
			n.names = document.Field(path).Names()
			return n, nil
		}
	}
}

// option reads
//
//	"documents" | "existing" | "within" [pattern] | "every" duration | "cadence" duration
func (p *parser) option() (n optionNode, err error) {
	if p.tokens[0].Kind != Word {
		return n, p.wrong("want an option")
	}
	n.name = p.next()
	switch n.name.Text {
	case "documents", "existing":
		return n, nil

	case "within":
		if p.sees(":") || p.tokens[0].Kind == End {
			return n, nil
		}
		n.owner, err = p.path()
		return n, err

	case "every", "cadence":
		if p.tokens[0].Kind != Word {
			return n, p.wrong("want a duration")
		}
		n.duration = p.next()
		return n, nil

	default:
		return n, p.mistake(n.name.From, "unknown option", n.name.Text)
	}
}

// name reads a name. If there is none, the mistake is that the parser wants what it says.
func (p *parser) name(want string, values ...any) (Token, error) {
	t := p.tokens[0]
	switch {
	case t.Kind == Word && slices.Contains(reserved, t.Text):
		return t, p.wrong("reserved word", t.Text)
	case t.Kind != Word && t.Kind != Backticked:
		return t, p.wrong(want, values...)
	case strings.ContainsFunc(t.Text, unicode.IsControl):
		return t, p.wrong("control character in a name")
	}

	p.next()
	if t.Kind == Word {
		p.bare = t
	}
	return t, nil
}

// sees reports whether the next token is the symbol or the bare word text.
func (p *parser) sees(text string) bool { return p.tokens[0].Is(text) }

// accept reads the next token if it is the symbol or the bare word text, and reports whether it is.
// It stands in conditions, so that a function reads like the grammar above it.
func (p *parser) accept(text string) bool {
	if !p.sees(text) {
		return false
	}
	p.next()
	return true
}

// next reads the next token, which must not be the end of the route.
func (p *parser) next() Token {
	t := p.tokens[0]
	p.tokens, p.bare = p.tokens[1:], Token{}
	return t
}

// wrong returns the mistake that the next token is, where the parser wants something else.
func (p *parser) wrong(kind string, values ...any) error {
	t := p.tokens[0]
	if t.Kind == Broken {
		kind, values = t.Text, nil
	}
	return p.mistake(t.From, kind, values...)
}

// mistake returns a mistake at a place, with the tokens that are left.
func (p *parser) mistake(at int, kind string, values ...any) error {
	return &Mistake{Kind: kind, Values: values, Text: string(p.source), At: at, Next: p.tokens, Name: p.bare}
}
