package route

import (
	"fmt"
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
		function token // of kind end: the key is a bare field
		field    fieldNode
		zone     token // of kind end: there is none
		name     token // of kind end: there is no "as"
		at       int
	}

	totalNode struct {
		function token // of kind end: the total is a bare field
		field    fieldNode
		where    []conditionNode
		name     token // of kind end: there is no "as"
		at       int
	}

	conditionNode struct {
		field    fieldNode
		operator token
		values   []valueNode // one, or several after "in"
	}

	valueNode struct {
		token       // as JSON has it; in a timestamp, the text; of a window, its length
		isTime bool // the text is in a timestamp
		isAgo  bool // it is of a window
	}

	optionNode struct {
		name, duration token
		owner          pathNode // of within
	}
)

// A parser reads one route from tokens.
type parser struct {
	source
	tokens []token // the tokens that are left; the last is the route's end
	bare   token   // the token that was just read, if it is a name without backticks
}

// These say what the parser expects where something else stands.
const (
	wantRoute   = "want <source pattern> -> <roll-up template> : <totals>, as in " + Default
	wantTotal   = "want a field, count(), or sum, average, maximum, minimum, latest or earliest of a field"
	wantOption  = "want documents, existing, within, or every or cadence and a duration such as 10s"
	wantCapture = "a capture stands for one whole segment, as {counter}"
)

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
		return n, p.noArrow(n)
	}
	n.template, err = p.path()
	if err != nil {
		return n, err
	}

	if !p.accept(":") {
		return n, p.unexpected(wantRoute)
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

	if p.tokens[0].kind == end {
		return n, nil
	}
	if p.sees("or") {
		return n, p.wrong(insteadOfOr)
	}
	if p.sees("by") {
		return n, p.wrong(insteadOfBy)
	}
	if err := p.noWindow("at"); err != nil {
		return n, err
	}
	if n.options != nil {
		return n, p.unended("want a colon or the route's end")
	}
	if err := p.unnamed(n.totals[len(n.totals)-1]); err != nil {
		return n, err
	}
	return n, p.unended("want a comma, a colon or the route's end", n.totals[len(n.totals)-1].next()...)
}

// otherArrows are what people write in place of the arrow, and what no message about a missing
// word would turn into it.
var otherArrows = []string{"→", "⇒", "⟶", "➔", "➜"}

// noArrow says what the parser expects where the arrow is missing.
func (p *parser) noArrow(n routeNode) error {
	if slices.Contains(otherArrows, p.tokens[0].text) {
		return p.wrong(insteadOfArrow)
	}
	grouped := strings.EqualFold(p.tokens[0].text, "group") && strings.EqualFold(p.ahead(1).text, "by")
	if grouped && n.by == nil {
		return p.wrong(insteadOfGroupBy)
	}
	if n.by == nil {
		return p.unexpected(wantRoute, arrow, "by")
	}
	if p.sees("[") || p.bare.text == "each" {
		return p.wrong(insteadOfList)
	}
	return p.unexpected("want a comma and another key, or "+arrow+" and the roll-up template", arrow, "as")
}

// key reads
//
//	field ["as" name] | function "(" field ["," text] ")" ["as" name]
func (p *parser) key() (n keyNode, err error) {
	n.at = p.tokens[0].from
	if p.tokens[0].kind == word && p.tokens[1].is("(") {
		n.function = p.next()
		err = p.keyFunction(&n)
	} else {
		n.field, err = p.field(wantKey)
	}
	if err != nil {
		return n, err
	}

	if p.accept("as") {
		n.name, err = p.name("want a name, which the roll-up template has as a capture")
	}
	return n, err
}

const wantKey = "want the field by which documents belong to counters, as in orders/{order} by shop"

// exampleFields are fields of the kind that a function takes.
var exampleFields = map[Function]string{Reference: "author", Number: "user_id", Day: "at", Week: "at", Month: "at"}

// keyFunction reads
//
//	"(" field ["," text] ")"
func (p *parser) keyFunction(n *keyNode) (err error) {
	name := n.function.text
	if !slices.Contains(keyFunctions, Function(name)) {
		p.next()
		return p.noFunction(n.function, "want a field, or ref, number, day, week or month of one", meantKey(name))
	}

	p.next()
	n.field, err = p.field(fmt.Sprintf("want a field, as in %s(%s)", name, exampleFields[Function(name)]))
	if err != nil {
		return err
	}
	if Function(name).OfTime() && p.accept(",") {
		if p.tokens[0].kind != inQuotes {
			return p.wrong("want a time zone in double quotes, as in %s(at, %q)", name, "Europe/Berlin")
		}
		n.zone = p.next()
	}
	if !p.accept(")") {
		return p.unexpected("want )")
	}
	return nil
}

// meantKey asks whether another function of a key was meant. The name may be misspelled, or be that
// of a type.
func meantKey(name string) string {
	types := map[string]Function{"reference": Reference, "path": Reference, "int": Number, "integer": Number, "date": Day, "timestamp": Day}
	if f, ok := types[strings.ToLower(name)]; ok {
		name = string(f)
	}
	var names []string
	for _, f := range keyFunctions {
		names = append(names, string(f)+"()")
	}
	return meant(name+"()", names...)
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

// unended says what the parser expects where a route neither ends nor goes on as it may. One of the
// words may have been meant. If the next token is the name of an option, the colon before it is
// missing.
func (p *parser) unended(want string, words ...string) error {
	t := p.tokens[0]
	if t.is(",") {
		t = p.ahead(1)
	}
	if t.kind == word && slices.Contains(options, t.text) {
		return p.wrong("%s; an option follows a colon: \": %s\"", want, t.text)
	}
	return p.unexpected(want, words...)
}

// unnamed returns an error if what follows a total is its name without "as", or a condition that
// stands behind its name, or begins with another word than "where".
func (p *parser) unnamed(n totalNode) error {
	t := p.tokens[0]
	switch {
	case p.sees("where") && n.name.kind != end:
		total := strings.TrimSpace(string(p.source[n.at:n.name.from]))
		condition := string(p.source[t.from:p.totalEnd()])
		return p.wrong(`the condition stands before "as": %s %s as %s`, strings.TrimSpace(strings.TrimSuffix(total, "as")), condition, Quote(n.name.text))
	case t.kind == word && slices.Contains([]string{"if", "when", "filter", "having"}, strings.ToLower(t.text)):
		return p.wrong(insteadOfIf)
	}

	complete := n.name.kind == end && (n.function.kind != end || n.where != nil)
	next := p.ahead(1)
	last := next.kind == end || next.is(",") || next.is(":")
	if complete && last && t.named() && !slices.Contains(options, t.text) && meant(t.text, n.next()...) == "" {
		return p.wrong(insteadOfUnnamed, Quote(t.text))
	}
	return nil
}

// totalEnd returns where the total ends in which the next token stands.
func (p *parser) totalEnd() int {
	at := 0
	for _, t := range p.tokens {
		if t.kind == end || t.is(",") || t.is(":") {
			break
		}
		at = t.to
	}
	return at
}

// next returns the words that may come next in a total, after what was read of it.
func (n totalNode) next() []string {
	switch {
	case n.name.kind != end:
		return nil
	case n.where != nil:
		return []string{"and", "as"}
	default:
		return []string{"where", "as"}
	}
}

// path reads
//
//	segment {"/" segment}
func (p *parser) path() (pathNode, error) {
	var path pathNode
	for {
		if p.sees("/") && path == nil {
			return nil, p.wrong("a path begins with a collection's name; remove the slash before it")
		}
		if err := p.otherCapture(); err != nil {
			return nil, err
		}
		if p.sees("/") || p.sees(arrow) || p.sees(":") || p.tokens[0].kind == end {
			return nil, p.wrong("segment %d is empty", len(path)+1)
		}
		if len(path) == 3 && path[0].Name == "projects" && path[2].Name == "databases" {
			return nil, p.wrong(insteadOfFullPath)
		}
		segment, err := p.segment()
		if err != nil {
			return nil, err
		}
		path = append(path, segment)

		if !p.accept("/") {
			break
		}
	}

	if p.sees("{") || p.sees("}") {
		return nil, p.wrong(wantCapture)
	}
	return path, nil
}

// otherCapture returns an error if the next segment is a capture as other languages spell it.
func (p *parser) otherCapture() error {
	mark, name := p.tokens[0], p.ahead(1)
	if mark.kind == odd && mark.text == "*" {
		return p.wrong(insteadOfStar)
	}
	spelled := mark.is(":") || mark.kind == odd && (mark.text == "$" || mark.text == "@") || mark.text == "<"
	if !spelled || name.kind != word || name.from != mark.to || p.ahead(2).is("(") {
		return nil
	}
	return p.wrong(insteadOfCapture, name.text)
}

// segment reads
//
//	name | "{" name "}"
func (p *parser) segment() (segmentNode, error) {
	n := segmentNode{at: p.tokens[0].from}
	n.Capture = p.accept("{")
	if !n.Capture && strings.HasPrefix(p.tokens[0].text, "**") {
		return n, p.wrong("a route is of one path; " + insteadOfPaths)
	}
	want := "want a collection, a document's id or a capture such as {counter}"
	if n.Capture {
		want = wantCapture
	}

	name, err := p.segmentName(n.Capture, want)
	if err != nil {
		return n, err
	}
	n.Name = name
	if n.Capture && strings.HasPrefix(p.tokens[0].text, "=**") {
		return n, p.wrong(wantCapture + "; " + insteadOfPaths)
	}
	if n.Capture && strings.ContainsAny(p.tokens[0].text, "=*") {
		return n, p.wrong(wantCapture)
	}
	if !n.Capture {
		return n, nil
	}

	closing := p.tokens[0]
	if !p.accept("}") {
		return n, p.unexpected(wantCapture)
	}
	if glued := p.tokens[0]; glued.named() && glued.from == closing.to {
		if strings.HasPrefix(glued.text, ".") {
			return n, p.wrong(insteadOfMap, n.Segment)
		}
		return n, p.wrong(wantCapture)
	}
	return n, nil
}

// segmentName reads a literal segment, or the name of a capture, which may be a field's path.
func (p *parser) segmentName(capture bool, want string) (string, error) {
	if !capture {
		t, err := p.name(want)
		return t.text, err
	}
	f, err := p.field(want)
	return strings.Join(f.names, "."), err
}

// total reads
//
//	aggregate ["where" condition {"and" condition}] ["as" name]
func (p *parser) total() (n totalNode, err error) {
	n.at = p.tokens[0].from
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
		n.name, err = p.name("want a name")
	}
	return n, err
}

// aggregate reads
//
//	field | "count" "(" ")" | function "(" field ")"
func (p *parser) aggregate(n *totalNode) (err error) {
	if p.tokens[0].kind != word || !p.tokens[1].is("(") {
		n.field, err = p.field(wantTotal)
		return err
	}

	n.function = p.next()
	name := n.function.text
	p.next()
	if name == string(Count) {
		if !p.accept(")") {
			return p.unexpected("count() is of documents, not of a field; want )")
		}
		return nil
	}
	if !slices.Contains(functions, Aggregate(name)) {
		return p.noFunction(n.function, wantTotal, meantFunction(name))
	}

	n.field, err = p.field(fmt.Sprintf("want a field, as in %s(amount)", name))
	if err == nil && p.sees("(") {
		err = p.mistake(n.field.at, "%s", insteadOfNested(n.field.names))
	}
	if err == nil && p.tokens[0].isFormula() {
		err = p.wrong(insteadOfFormula)
	}
	if err == nil && !p.accept(")") {
		err = p.unexpected("want )")
	}
	return err
}

// functions are the aggregates of a field.
var functions = []Aggregate{Sum, Average, Maximum, Minimum, Latest, Earliest}

// meantFunction asks whether another function was meant. The name may be misspelled, or a common
// short form.
func meantFunction(name string) string {
	short := map[string]Aggregate{"avg": Average, "mean": Average, "max": Maximum, "min": Minimum, "last": Latest, "newest": Latest, "first": Earliest, "oldest": Earliest, "total": Sum}
	if long, ok := short[strings.ToLower(name)]; ok {
		name = string(long)
	}
	names := []string{"count()"}
	for _, f := range functions {
		names = append(names, string(f)+"()")
	}
	return meant(name+"()", names...)
}

// condition reads
//
//	field comparison value | field "in" "[" value {"," value} "]" | field ">" window | field ">=" window
//
// where a comparison is
//
//	"==" | ">" | ">=" | "<" | "<="
func (p *parser) condition() (n conditionNode, err error) {
	n.field, err = p.field("want a condition, as in approved == true")
	if err != nil {
		return n, err
	}

	t := p.tokens[0]
	if err := p.noWindow(quoteField(document.FieldOf(n.field.names...))); err != nil {
		return n, err
	}
	if !slices.ContainsFunc(comparisons, t.is) {
		return n, p.wrong("want a comparison: ==, >, >=, <, <= or in%s", meantComparison(t.text))
	}
	n.operator = p.next()
	if p.sees(now) && !n.operator.is(string(In)) && !p.tokens[1].is("-") && !p.tokens[1].named() {
		return n, p.wrong(insteadOfNow)
	}
	if p.sees(now) && !n.operator.is(string(In)) {
		if !Operator(n.operator.text).lower() {
			return n, p.mistake(n.operator.from, "a window is what is later than a while ago; want > or >=, as in at > now - 24h, and subtract two totals in the app for what is older")
		}
		n.values, err = one(p.window)
		return n, err
	}
	if !n.operator.is(string(In)) {
		n.values, err = one(p.value)
		return n, err
	}

	if !p.accept("[") {
		return n, p.wrong(wantList)
	}
	if p.sees("]") {
		return n, p.wrong("the list is empty, so no document would count; " + wantList)
	}
	n.values, err = list(p, ",", p.value)
	if err != nil {
		return n, err
	}
	if !p.accept("]") {
		return n, p.unexpected("want a comma or ]")
	}
	return n, nil
}

// one reads one element, as a list.
func one[T any](element func() (T, error)) ([]T, error) {
	e, err := element()
	return []T{e}, err
}

// meantComparison says what stands in the place of a comparison that there is not, or asks which
// one was meant.
func meantComparison(written string) string {
	switch strings.ToLower(written) {
	case "=", "===", "is", "equals":
		return "; did you mean ==?"
	case "=>":
		return "; did you mean >=?"
	case "=<":
		return "; did you mean <=?"
	case "in":
		return "; did you mean in?"
	case "!=", "<>", "not":
		return "; there is no !=: list the other values with in, or let the app keep a field that says it"
	}
	if slices.Contains(infixes, strings.ToLower(written)) {
		return insteadOfInfix
	}
	return ""
}

// value reads
//
//	text | number | "true" | "false" | "null" | "timestamp" "(" text ")"
func (p *parser) value() (n valueNode, err error) {
	n.isTime = p.sees(timestamp) && p.tokens[1].is("(")
	if n.isTime {
		p.next()
		p.next()
	}

	t := p.tokens[0]
	switch {
	case t.kind == broken:
		return n, p.wrong("%s", t.text)
	case t.kind == word && strings.HasPrefix(t.text, now+"-"):
		return n, p.wrong(wantWindow)
	case n.isTime && t.kind != inQuotes:
		return n, p.wrong("want a time in quotes, as in " + exampleTime)
	case t.kind != inQuotes && (t.kind != word || !t.named()):
		return n, p.wrong("%s%s", wantValue, noValue(t.text))
	}

	n.token = p.next()
	if n.isTime && !p.accept(")") {
		return n, p.unexpected("want )")
	}
	return n, nil
}

// window reads
//
//	"now" "-" length
func (p *parser) window() (n valueNode, err error) {
	p.next()
	if !p.accept("-") {
		return n, p.unexpected(wantWindow)
	}
	if p.tokens[0].kind != word || !p.tokens[0].named() {
		return n, p.unexpected(wantWindow)
	}
	n.isAgo, n.token = true, p.next()
	return n, p.noUnit(n.token)
}

// noUnit returns an error if the unit of a window's length stands apart from its number.
func (p *parser) noUnit(number token) error {
	unit := p.tokens[0]
	together := number.text + unit.text
	_, isLength := parseWindow(together)
	if unit.kind != word || !isLength {
		return nil
	}
	return p.mistake(number.from, "write %s, without a space", together)
}

const (
	now         = "now"
	wantWindow  = "want now - and how long the window is, with spaces, as in at > now - 24h"
	timestamp   = "timestamp"
	exampleTime = `timestamp("2026-01-31T12:00:00Z")`
	wantValue   = `want a value as JSON has it: a text in quotes, a number, true, false or null; or a time such as ` + exampleTime
	wantList    = `want a list of values in brackets, as in status in ["paid", "sent"]`
)

// field reads the path of a field: names with dots between them, and no spaces.
func (p *parser) field(want string) (fieldNode, error) {
	n := fieldNode{at: p.tokens[0].from}
	var path string
	for {
		t, err := p.name(want)
		if err != nil {
			return n, err
		}

		part := t.text
		if t.kind == backticked {
			part = string(document.FieldOf(t.text))
		}
		if path != "" && !strings.HasSuffix(path, ".") && !strings.HasPrefix(part, ".") {
			return n, p.mistake(t.from, "a dot is missing between the names of a field's path, as in customer.id")
		}
		path += part

		next := p.tokens[0]
		goesOn := next.from == t.to && (next.kind == word || next.kind == backticked) && next.named()
		if !goesOn {
			n.names = document.Field(path).Names()
			return n, nil
		}
	}
}

// options are the names of the options.
var options = []string{"documents", "existing", "within", "every", "cadence"}

// option reads
//
//	"documents" | "existing" | "within" [pattern] | "every" duration | "cadence" duration
func (p *parser) option() (n optionNode, err error) {
	if p.tokens[0].kind != word {
		return n, p.unexpected("an option is missing; " + wantOption)
	}
	if err := p.noWindow("at"); err != nil {
		return n, err
	}
	n.name = p.next()
	switch n.name.text {
	case "documents", "existing":
		return n, nil

	case "within":
		if p.sees(":") || p.tokens[0].kind == end {
			return n, nil
		}
		n.owner, err = p.path()
		return n, err

	case "every", "cadence":
		if p.tokens[0].kind != word {
			return n, p.unexpected("want a duration such as 10s or 5m")
		}
		n.duration = p.next()
		return n, nil
	}
	if n.name.text == "history" {
		return n, p.mistake(n.name.from, insteadOfHistory)
	}
	return n, p.mistake(n.name.from, "unknown option %s; %s%s", n.name.text, wantOption, meant(n.name.text, options...))
}

// name reads a name. If there is none, its error says what the parser expects.
func (p *parser) name(want string) (token, error) {
	t := p.tokens[0]
	if t.kind == word && slices.Contains(reserved, t.text) {
		return t, p.wrong("%s is a reserved word; put it in backticks to use it as a name: %s", t.text, Quote(t.text))
	}
	if t.kind != word && t.kind != backticked {
		return t, p.unexpected(want)
	}
	if strings.ContainsFunc(t.text, unicode.IsControl) {
		return t, p.wrong("a name cannot have control characters")
	}
	p.next()
	if t.kind == word {
		p.bare = t
	}
	return t, nil
}

// ahead returns the token that comes so many after the next one; behind the route's end, that end.
func (p *parser) ahead(n int) token { return p.tokens[min(n, len(p.tokens)-1)] }

// sees reports whether the next token is the symbol or the bare word text.
func (p *parser) sees(text string) bool { return p.tokens[0].is(text) }

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
func (p *parser) next() token {
	t := p.tokens[0]
	p.tokens, p.bare = p.tokens[1:], token{}
	return t
}

// wrong returns an error that says what is wrong with the next token.
func (p *parser) wrong(format string, args ...any) error {
	return p.mistake(p.tokens[0].from, format, args...)
}

// unexpected says what the parser expects in place of the next token. One of the words may have
// been meant.
func (p *parser) unexpected(want string, words ...string) error {
	t := p.tokens[0]
	if t.kind == broken {
		return p.wrong("%s", t.text)
	}
	if t.continues {
		return p.wrong("%s; the line is indented, so it continues the route above", want)
	}
	if t.kind != word && t.kind != odd {
		return p.wrong("%s", want)
	}

	did := meant(t.text, words...)
	if did != "" {
		return p.wrong("%s%s", want, did)
	}
	if t.text[0] == '#' {
		return p.wrong("%s; put a comment on its own line", want)
	}
	if t.kind == odd || p.bare.kind == word && t.named() {
		return p.wrong("%s; put a name with a space or another special character in backticks%s", want, p.inBackticks())
	}
	return p.wrong("%s", want)
}

// inBackticks returns ": " and the name that should stand in backticks. The next token is a part of
// that name. If the name is long or does not print, it returns nothing.
func (p *parser) inBackticks() string {
	const longest = 100 // bytes
	from, to := p.tokens[0].from, 0
	if p.bare.kind == word {
		from = p.bare.from
	}
	for i := 0; p.tokens[i].named(); i++ {
		to = p.tokens[i].to
	}

	name := string(p.source[from:to])
	if len(name) > longest || name != visible(name) {
		return ""
	}
	return ": " + Quote(name)
}
