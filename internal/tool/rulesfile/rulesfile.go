// Package rulesfile reads an app's security rules, as far as is needed to say which of them do not
// go together with Tally's totals:
//
//   - Rules add up: a document may be written if any block that matches it allows that.
//   - Tally adds fields to documents that hold totals, so rules that list or count their fields
//     refuse every later update.
//
// [Parse] reads the blocks, with the conditions under which each allows a method. A condition stays
// text: [Rules.Findings] looks for a few forms in it (totals.go), and in the functions that it
// calls (condition.go). [Check] also says where a file holds something that Parse does not know, or
// calls a function that it does not define.
package rulesfile

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/firestore-tally/tally/rollup/route"
)

// Rules are the blocks of a text of security rules.
type Rules struct {
	blocks []*block
	unread string // a sentence about what could not be read; "": everything was
}

// A block is what stands in a match.
type block struct {
	path   []segment // of its documents, below the database's root
	depth  int       // of matches
	line   int
	allows []allow

	above     *block
	functions map[string]function
}

// A function is one that conditions call.
type function struct {
	parameters []string
	body       string
}

// A segment is a part of a path.
type segment struct {
	name          string
	capture, rest bool // {name}, {name=**}
}

// An allow is a statement that allows methods.
type allow struct {
	methods   []string // such as create; write stands for three
	condition string   // "": always
	line      int
}

// Firestore takes no rules beyond these limits, and what is within them is read and compared in
// seconds: https://firebase.google.com/docs/firestore/security/rules-structure#security_rule_limits
const (
	maxText     = 256 << 10 // bytes
	maxDepth    = 10        // matches within each other
	maxSegments = 100       // in their paths together
)

// Statements of rules, as they begin where strings are blank.
var (
	version = regexp.MustCompile(`^rules_version\s*=\s*;?`)
	service = regexp.MustCompile(`^service\s+([\w.]+)\s*\{`)
	match   = regexp.MustCompile(`^match\s+((?:/(?:\{[^{}]*\}|[^\s/{}]+))+)\s*\{`)
	defined = regexp.MustCompile(`^function\s+(\w+)\s*\(([^)]*)\)\s*\{`)
	allowed = regexp.MustCompile(`^allow\s+(\w+(?:\s*,\s*\w+)*)\s*(:\s*if\b|;)?`)

	// next matches the end of a condition. Rules need no semicolon there.
	next = regexp.MustCompile(`[;}]|\ballow\s+(?:read|get|list|write|create|update|delete)\b|\bmatch\s+/|\bfunction\s+\w+\s*\(`)
)

// A reader reads a text from its beginning.
type reader struct {
	Rules
	code  string // without comments
	shape string // the same without what strings hold
	at    int
	parts []string // of what accept read
}

// Parse reads the text of rules.
func Parse(text string) *Rules {
	r := &reader{}
	if len(text) > maxText {
		r.unread = fmt.Sprintf("1: the rules are longer than %d KB, which Firestore does not take, and were not checked", maxText>>10)
		return &r.Rules
	}

	r.code, r.shape = blanked(text)
	root := &block{}
	r.read(root)
	return &r.Rules
}

// blanked returns a text without comments, and without strings, too. All else stays at its place.
func blanked(text string) (code, shape string) {
	ascii := strings.Map(func(c rune) rune {
		if c > '~' {
			return '_' // so that each character is a byte
		}
		return c
	}, text)

	withStrings, without := []byte(ascii), []byte(ascii)
	for at := 0; at < len(ascii); {
		length := quiet(ascii[at:])
		if length > 0 && ascii[at] == '/' {
			blank(withStrings[at : at+length])
		}
		blank(without[at : at+length])
		at += max(length, 1)
	}
	return string(withStrings), string(without)
}

// blank writes spaces over a text, and leaves its lines.
func blank(text []byte) {
	for i, c := range text {
		if c != '\n' {
			text[i] = ' '
		}
	}
}

// quiet returns the length of the comment or the string that begins a text; 0 if none does. One
// that nothing ends goes on to the end of the text, or of a string's line: each character is looked
// at once, whatever stands there.
func quiet(text string) (length int) {
	switch {
	case strings.HasPrefix(text, "//"):
		line, _, _ := strings.Cut(text, "\n")
		return len(line)

	case strings.HasPrefix(text, "/*"):
		comment, _, ended := strings.Cut(text[2:], "*/")
		if !ended {
			return len(text)
		}
		return len(comment) + 4

	case text[0] == '\'' || text[0] == '"':
		for i := 1; i < len(text) && text[i] != '\n'; i++ {
			switch text[i] {
			case text[0]:
				return i + 1
			case '\\':
				i++
			}
		}
		line, _, _ := strings.Cut(text, "\n")
		return len(line)
	}
	return 0
}

// read reads the statements of a block until it is closed, or the text ends.
func (r *reader) read(b *block) {
	for r.unread == "" {
		rest := strings.TrimLeft(r.shape[r.at:], " \t\r\n")
		r.at = len(r.shape) - len(rest)
		if rest == "" {
			return
		}
		if rest[0] == '}' {
			r.at++
			return
		}
		r.statement(b)
	}
}

// statement reads a statement of a block.
func (r *reader) statement(b *block) {
	begin, line := r.at, strings.Count(r.code[:r.at], "\n")+1
	switch {
	case r.accept(version):
	case r.accept(service):
		r.service(b)
	case r.accept(match):
		r.match(b, line)
	case r.accept(defined):
		if b.functions == nil {
			b.functions = make(map[string]function)
		}
		b.functions[r.parts[1]] = function{listed(r.parts[2]), r.body()}
	case r.accept(allowed):
		a := allow{methods: listed(r.parts[1]), line: line}
		if strings.HasPrefix(r.parts[2], ":") {
			a.condition = r.condition()
		}
		b.allows = append(b.allows, a)
	default:
		text, _, _ := strings.Cut(r.code[begin:], "\n")
		r.unread = fmt.Sprintf("%d: from %q on the rules could not be read, and were not checked", line, strings.TrimSpace(text[:min(len(text), 60)]))
	}
}

// accept reads what an expression matches here, and reports whether it matches. It sets r.parts to
// the whole and its submatches. It stands in conditions, so that statement reads like a grammar.
func (r *reader) accept(e *regexp.Regexp) bool {
	at := e.FindStringSubmatchIndex(r.shape[r.at:])
	if at == nil {
		return false
	}

	r.parts = nil
	for i := 0; i < len(at); i += 2 {
		part := ""
		if at[i] >= 0 {
			part = r.code[r.at+at[i] : r.at+at[i+1]]
		}
		r.parts = append(r.parts, part)
	}
	r.at += at[1]
	return true
}

// service reads what stands in a service. Only Firestore's is of interest.
func (r *reader) service(b *block) {
	if r.parts[1] != "cloud.firestore" {
		r.body()
		return
	}
	r.read(&block{above: b})
}

// match reads what stands in a match, which begins on a line.
func (r *reader) match(b *block, line int) {
	inner := &block{above: b, line: line, depth: b.depth + 1, path: append(slices.Clone(b.path), segmentsOf(r.parts[1])...)}
	if inner.depth > maxDepth || len(inner.path) > maxSegments {
		r.unread = fmt.Sprintf("%d: from here on the rules were not checked: more than %d matches within each other, or %d segments, are more than Firestore takes", line, maxDepth, maxSegments)
		return
	}
	r.blocks = append(r.blocks, inner)
	r.read(inner)
}

// listed returns the names in a list with commas.
func listed(list string) []string {
	return strings.FieldsFunc(list, func(c rune) bool { return strings.ContainsRune(", \t\r\n", c) })
}

// condition returns the condition that begins here, and goes on behind it.
func (r *reader) condition() string {
	rest := r.shape[r.at:]
	end := conditionEnd(rest)
	text := r.code[r.at : r.at+end]
	r.at += end
	if strings.HasPrefix(rest[end:], ";") {
		r.at++
	}
	return strings.TrimSpace(text)
}

// conditionEnd returns where the condition ends with which the text begins. The braces of a map in
// it, as in data == {'at': request.time}, do not end it.
func conditionEnd(text string) int {
	open := 0
	for from := 0; ; {
		at := next.FindStringIndex(text[from:])
		if at == nil {
			return len(text)
		}

		end := from + at[0]
		open += strings.Count(text[from:end], "{")
		if text[end] != '}' || open == 0 {
			return end
		}
		open--
		from = end + 1
	}
}

// body returns the text up to the brace that closes the one before it, and goes on behind.
func (r *reader) body() string {
	begin, open := r.at, 1
	for ; r.at < len(r.shape) && open > 0; r.at++ {
		switch r.shape[r.at] {
		case '{':
			open++
		case '}':
			open--
		}
	}
	return r.code[begin:r.at]
}

// segmentsOf returns the segments of a match's path, without those of the database.
func segmentsOf(path string) (segments []segment) {
	for part := range strings.SplitSeq(strings.Trim(path, "/"), "/") {
		name, capture := strings.CutPrefix(part, "{")
		name, rest := strings.CutSuffix(strings.TrimSuffix(name, "}"), "=**")
		segments = append(segments, segment{name, capture, rest})
	}
	if len(segments) >= 3 && segments[0].name == "databases" && segments[2].name == "documents" {
		return segments[3:]
	}
	return segments
}

// meet reports whether two paths can be those of one document. It takes time by the product of
// their lengths, however many segments stand for any others.
func meet(a, b []segment) bool {
	met := make([][]bool, len(a)+1) // met[i][j]: a[i:] meets b[j:]
	for i := len(a); i >= 0; i-- {
		met[i] = make([]bool, len(b)+1)
		for j := len(b); j >= 0; j-- {
			moreA, moreB := i < len(a), j < len(b)
			switch {
			case !moreA && !moreB:
				met[i][j] = true
			case moreA && a[i].rest:
				met[i][j] = met[i+1][j] || moreB && met[i][j+1]
			case moreB && b[j].rest:
				met[i][j] = met[i][j+1] || moreA && met[i+1][j]
			case moreA && moreB:
				met[i][j] = (a[i].capture || b[j].capture || a[i].name == b[j].name) && met[i+1][j+1]
			}
		}
	}
	return met[0][0]
}

// segmentsIn returns the segments of a route's path.
func segmentsIn(path route.Path) (segments []segment) {
	for _, s := range path {
		segments = append(segments, segment{name: s.Name, capture: s.Capture})
	}
	return segments
}

// writeMethods are the methods that write a document.
var writeMethods = []string{"create", "update", "delete"}

// writes returns the methods that write and that the block allows for some.
func (b *block) writes() (methods []string) {
	for _, m := range writeMethods {
		if slices.ContainsFunc(b.allows, func(a allow) bool { return a.allows(m) && b.lets(a) }) {
			methods = append(methods, m)
		}
	}
	return methods
}

// allows reports whether the statement is about a method.
func (a allow) allows(method string) bool {
	return slices.Contains(a.methods, method) || slices.Contains(a.methods, "write")
}

// claim matches a condition on a claim of the user's token.
var claim = regexp.MustCompile(`\bauth\s*\.\s*token\b`)

// lets reports whether a statement allows something that matters: a block of all documents mostly
// lets administrators in, whom a claim tells apart.
func (b *block) lets(a allow) bool {
	if a.condition == "false" {
		return false
	}
	all := slices.ContainsFunc(b.path, func(s segment) bool { return s.rest })
	return !all || !claim.MatchString(b.whole(a.condition))
}

// A Finding is something in rules that does not go together with the totals of the routes.
type Finding struct {
	Template *route.Template // whose documents it is about; nil: those of several
	Locks    bool            // the documents refuse every update once they have totals
	Line     int
	Text     string // a sentence
}

// Findings returns what in the rules does not go together with the routes.
func (r *Rules) Findings(routes route.Routes) (all []Finding) {
	for _, t := range routes.Templates() {
		all = append(all, r.written(t)...)
	}
	all = append(all, r.doubles(routes)...)
	return all
}

// Check returns a sentence about everything in a file of rules that does not go together with the
// routes, or that could not be read, and about functions that are missing. Each begins with its
// place in the file.
func Check(file, text string, routes route.Routes) (all []string) {
	r := Parse(text)
	for _, f := range r.Findings(routes) {
		all = append(all, file+":"+f.Text)
	}
	if r.unread != "" {
		return append(all, file+":"+r.unread)
	}
	for _, text := range r.undefined() {
		all = append(all, file+":"+text)
	}
	return all
}

// Lines returns where the statements begin that may allow a method for a document.
func (r *Rules) Lines(path, method string) (lines []int) {
	var ids []segment
	for id := range strings.SplitSeq(path, "/") {
		ids = append(ids, segment{name: id})
	}
	for _, b := range r.blocks {
		for _, a := range b.allows {
			if a.allows(method) && a.condition != "false" && meet(b.path, ids) {
				lines = append(lines, a.line)
			}
		}
	}
	return lines
}

// doubles returns the blocks that allow writes of documents of the routes that an earlier one
// allows, each with the first of these.
func (r *Rules) doubles(routes route.Routes) (all []Finding) {
	var paths []route.Path
	for _, route := range routes {
		paths = append(paths, route.Pattern(), route.Template.Segments())
	}

	// A near block allows writes of documents of some of the routes' paths.
	type nearBlock struct {
		*block
		writes []string
		paths  []int
	}
	var near []nearBlock
	for _, b := range r.blocks {
		n := nearBlock{block: b, writes: b.writes()}
		for i, path := range paths {
			if meet(b.path, segmentsIn(path)) {
				n.paths = append(n.paths, i)
			}
		}
		if len(n.writes) > 0 && len(n.paths) > 0 {
			near = append(near, n)
		}
	}

	for i, b := range near {
		for _, other := range near[:i] {
			at := slices.IndexFunc(b.paths, func(p int) bool { return slices.Contains(other.paths, p) })
			both := slices.DeleteFunc(slices.Clone(b.writes), func(m string) bool { return !slices.Contains(other.writes, m) })
			if at < 0 || len(both) == 0 || !meet(b.path, other.path) {
				continue
			}
			all = append(all, Finding{nil, false, b.line, fmt.Sprintf("%d: this block and that of line %d both allow %s of %s, and what either allows is allowed: put their conditions together in one block",
				b.line, other.line, strings.Join(both, ", "), paths[b.paths[at]])})
			break
		}
	}
	return all
}
