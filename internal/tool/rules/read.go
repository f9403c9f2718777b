package rules

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/firestore-tally/tally/rollup/route"
)

// Rules are the blocks of a text of security rules.
type Rules struct {
	blocks     []*readBlock
	statements map[int][]string // those that allow something, by the lines on which they begin
	unread     string           // a sentence about what could not be read; "": everything was
}

// A readBlock is what stands in a match of a text that was read.
type readBlock struct {
	path    []string       // the segments of its documents below the database's root, as matches spell them
	matches *regexp.Regexp // their paths behind a slash; it is the same, however captures are called
	depth   int            // of matches
	line    int
	grants  []grant

	above     *readBlock
	functions map[string]string // their bodies
}

// A grant is a statement that allows methods.
type grant struct {
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
	r := &reader{Rules: Rules{statements: make(map[int][]string)}}
	if len(text) > maxText {
		r.unread = fmt.Sprintf("1: the rules are longer than %d KB, which Firestore does not take", maxText>>10)
		return &r.Rules
	}

	r.code, r.shape = withoutComments(strings.ToValidUTF8(text, "?"))
	root := &readBlock{}
	r.read(root)
	return &r.Rules
}

// withoutComments returns a text without comments, and without strings, too. All else stays at its
// place.
func withoutComments(text string) (code, shape string) {
	withStrings, without := []byte(text), []byte(text)
	for at := 0; at < len(text); {
		length := commentOrString(text[at:])
		if length > 0 && text[at] == '/' {
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

// commentOrString returns the length of the comment or the string that begins a text; 0 if none
// does. One that nothing ends goes on to the end of the text, or of a string's line: each character
// is looked at once, whatever stands there.
func commentOrString(text string) (length int) {
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
func (r *reader) read(b *readBlock) {
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
func (r *reader) statement(b *readBlock) {
	begin, line := r.at, strings.Count(r.code[:r.at], "\n")+1
	switch {
	case r.accept(version):
	case r.accept(service):
		r.service(b)
	case r.accept(match):
		r.match(b, line)
	case r.accept(defined):
		if b.functions == nil {
			b.functions = make(map[string]string)
		}
		name := r.parts[1]
		b.functions[name] = r.body()
	case r.accept(allowed):
		g := grant{methods: namesIn(r.parts[1]), line: line}
		if strings.HasPrefix(r.parts[2], ":") {
			g.condition = r.condition()
		}
		b.grants = append(b.grants, g)
		r.statements[line] = append(r.statements[line], r.code[begin:r.at])
	default:
		text, _, _ := strings.Cut(r.code[begin:], "\n")
		r.unread = fmt.Sprintf("%d: from %.60q on the rules could not be read", line, strings.TrimSpace(text))
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
func (r *reader) service(b *readBlock) {
	if r.parts[1] != "cloud.firestore" {
		r.body()
		return
	}
	r.read(&readBlock{above: b})
}

// match reads what stands in a match, which begins on a line.
func (r *reader) match(b *readBlock, line int) {
	inner := &readBlock{above: b, line: line, depth: b.depth + 1, path: append(slices.Clone(b.path), segmentsOf(r.parts[1])...)}
	inner.matches = patternOf(inner.path)
	if inner.depth > maxDepth || len(inner.path) > maxSegments {
		r.unread = fmt.Sprintf("%d: from here on the rules could not be read: more than %d matches within each other, or %d segments, are more than Firestore takes", line, maxDepth, maxSegments)
		return
	}
	r.blocks = append(r.blocks, inner)
	r.read(inner)
}

// namesIn returns the names in a list with commas.
func namesIn(list string) []string {
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
func segmentsOf(path string) []string {
	segments := strings.Split(strings.Trim(path, "/"), "/")
	if len(segments) >= 3 && segments[0] == "databases" && segments[2] == "documents" {
		return segments[3:]
	}
	return segments
}

// isRest and isCapture report whether a segment stands for any number of ids, or for one.
func isRest(segment string) bool    { return strings.HasSuffix(segment, "=**}") }
func isCapture(segment string) bool { return strings.HasPrefix(segment, "{") && !isRest(segment) }

// patternOf returns the expression that the paths of documents match. It takes time by the product
// of their lengths, however many segments stand for any others.
func patternOf(segments []string) *regexp.Regexp {
	text := "^"
	for _, s := range segments {
		switch {
		case isRest(s):
			text += "(?:/[^/]+)*"
		case isCapture(s):
			text += "/[^/]+"
		default:
			text += "/" + regexp.QuoteMeta(s)
		}
	}
	return regexp.MustCompile(text + "$")
}

// allows reports whether the statement may allow a method.
func (g grant) allows(method string) bool {
	isRead := method == "get" || method == "list"
	general := "write"
	if isRead {
		general = "read"
	}
	return (slices.Contains(g.methods, method) || slices.Contains(g.methods, general)) && !g.never()
}

// refused matches the end of a condition that is false whatever stands before it, as tally init
// writes one that waits for a decision.
var refused = regexp.MustCompile(`(?:^|&&)\s*false$`)

// never reports whether the statement allows nothing.
func (g grant) never() bool {
	_, shape := withoutComments(g.condition)
	open, choice := 0, false
	for i, c := range []byte(shape) {
		switch c {
		case '(', '[', '{':
			open++
		case ')', ']', '}':
			open--
		}
		choice = choice || open == 0 && strings.HasPrefix(shape[i:], "||")
	}
	return !choice && refused.MatchString(shape)
}

// matching returns the blocks that match a document.
func (r *Rules) matching(path string) (blocks []*readBlock) {
	for _, b := range r.blocks {
		if b.matches.MatchString("/" + path) {
			blocks = append(blocks, b)
		}
	}
	return blocks
}

// Lines returns where the statements begin that may allow a method for a document.
func (r *Rules) Lines(path, method string) (lines []int) {
	for _, b := range r.matching(path) {
		for _, g := range b.grants {
			if g.allows(method) {
				lines = append(lines, g.line)
			}
		}
	}
	return lines
}

// Statement returns what allows something and begins on a line, as one line, without comments; ""
// if nothing does.
func (r *Rules) Statement(line int) string {
	return strings.Join(strings.Fields(strings.Join(r.statements[line], " ")), " ")
}

// writeMethods are the methods that write a document.
var writeMethods = []string{"create", "update", "delete"}

// DuplicateBlocks returns a sentence about each block that may allow writes of documents of the
// routes, and whose path is that of an earlier one, with the first of these. It begins with the
// line.
func (r *Rules) DuplicateBlocks(routes route.Routes) (all []string) {
	earlier := make(map[string]*readBlock) // the first that allows a method of documents of a path
	for _, b := range r.blocks {
		var both []string
		var first *readBlock
		for _, method := range b.writes() {
			key := method + b.matches.String()
			other := earlier[key]
			switch {
			case other == nil:
				earlier[key] = b
			case first == nil || other == first:
				first, both = other, append(both, method)
			}
		}
		if first == nil {
			continue
		}
		of := b.firstRoutePath(routes)
		if of != "" {
			all = append(all, fmt.Sprintf("%d: this block and that of line %d both allow %s of %s, and one that allows is enough: merge their conditions into one block",
				b.line, first.line, strings.Join(both, ", "), of))
		}
	}
	return all
}

// ClosedPaths returns the paths of the routes' documents that no block lets a client create, unless
// they are shards, whose increments are tried. It is nil if the text could not be read to its end.
func (r *Rules) ClosedPaths(routes route.Routes) (paths []string) {
	if r.unread != "" {
		return nil
	}
	for _, of := range routes {
		path := of.Pattern().String()
		opens := func(b *readBlock) bool { return slices.Contains(b.writes(), "create") && b.matchesRoute(of) }
		if !areShards(of) && !slices.Contains(paths, path) && !slices.ContainsFunc(r.blocks, opens) {
			paths = append(paths, path)
		}
	}
	return paths
}

// writes returns the methods that write and that the block may allow.
func (b *readBlock) writes() (methods []string) {
	for _, method := range writeMethods {
		if slices.ContainsFunc(b.grants, func(g grant) bool { return g.allows(method) }) {
			methods = append(methods, method)
		}
	}
	return methods
}

// firstRoutePath returns the first of the routes' paths that some of the block's documents have; ""
// if none have any.
func (b *readBlock) firstRoutePath(routes route.Routes) string {
	for _, r := range routes {
		_, holds := r.Template.Counter(b.example())
		switch {
		case b.matchesRoute(r):
			return r.Pattern().String()
		case holds, b.matches.MatchString("/" + Request{at: r.Template.Segments()}.Path()):
			return r.Template.String()
		}
	}
	return ""
}

// matchesRoute reports whether some of the block's documents are a route's.
func (b *readBlock) matchesRoute(r *route.Route) bool {
	return r.Covers(b.example()) || b.matches.MatchString("/"+Request{at: r.Pattern()}.Path())
}

// example returns the path of one of the block's documents.
func (b *readBlock) example() string {
	var ids []string
	for _, s := range b.path {
		if isCapture(s) {
			s = someID
		}
		ids = append(ids, s)
	}
	return strings.Join(ids, "/")
}

// called matches the name of a function that a text calls. Strings are blank.
var called = regexp.MustCompile(`\b(\w+)\s*\(`)

// maxBodyText bounds, in bytes, what bodyText returns. Firestore evaluates no more than 1,000
// expressions for a request, so few conditions that it takes are longer.
const maxBodyText = 16 << 10

// bodyText returns what the conditions say under which one of the methods is allowed for a
// document, with the bodies of all functions that they call, and that these call.
func (r *Rules) bodyText(path string, methods ...string) string {
	var all strings.Builder
	seen := make(map[string]bool)
	var add func(b *readBlock, text string)
	add = func(b *readBlock, text string) {
		if all.Len()+len(text) > maxBodyText {
			return
		}
		all.WriteString(text + "\n")
		_, shape := withoutComments(text)
		for _, call := range called.FindAllStringSubmatch(shape, -1) {
			body, known := b.function(call[1])
			if known && !seen[body] {
				seen[body] = true
				add(b, body)
			}
		}
	}
	for _, b := range r.matching(path) {
		for _, g := range b.grants {
			if slices.ContainsFunc(methods, g.allows) {
				add(b, g.condition)
			}
		}
	}
	return all.String()
}

// function returns the body of the function that a condition of the block calls by a name.
func (b *readBlock) function(name string) (body string, known bool) {
	for scope := b; scope != nil && !known; scope = scope.above {
		body, known = scope.functions[name]
	}
	return body, known
}

// Overview says what the text of rules in a file shows about the routes, and that it was not tried.
func Overview(file, text string, routes route.Routes) (all []string) {
	r := Parse(text)
	for _, text := range r.DuplicateBlocks(routes) {
		all = append(all, file+":"+text)
	}
	if r.unread != "" {
		all = append(all, file+":"+r.unread)
	}

	var lines []string
	for _, t := range routes.Templates() {
		path := Request{at: t.Segments()}.Path()
		var may []int
		for _, method := range writeMethods {
			may = append(may, r.Lines(path, method)...)
		}
		slices.Sort(may)
		var of []string
		for _, line := range slices.Compact(may) {
			of = append(of, strconv.Itoa(line))
		}
		if of != nil {
			lines = append(lines, t.String()+" by "+strings.Join(of, ", "))
		}
	}
	overview := file + " was only read: tally dev and tally doctor --files try what its rules allow"
	if lines != nil {
		overview += ". Clients may write documents that hold totals where these lines allow it: " + strings.Join(lines, "; ")
	}
	return append(all, overview)
}
