package route

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A token is a part of a route that has a meaning of its own.
type token struct {
	kind     kind
	text     string // as written; for a name in backticks, the name itself; for a broken token, what is wrong
	from, to int    // its place in the text of the routes, in bytes

	// continues says that the token is the first on a line that continues a route.
	continues bool
}

type kind int

const (
	end        kind = iota // of a route
	word                   // a bare name, a number, or one of the reserved words
	backticked             // a name in backticks
	inQuotes               // a text, as in JSON
	symbol                 // "->", one of symbols, or one of the comparisons that are no word
	odd                    // characters that no bare name has
	broken                 // the rest of a line, which cannot be read
)

// symbols are the symbols of one character.
const symbols = "/{}()[],:"

// reserved are the words that have a meaning wherever a name may end. As names they must stand in
// backticks.
var reserved = []string{"by", "where", "and", "as"}

// is reports whether the token is the symbol or the bare word text.
func (t token) is(text string) bool { return t.text == text && (t.kind == symbol || t.kind == word) }

// named reports whether the token is a part of a name, or could be one in backticks.
func (t token) named() bool {
	switch t.kind {
	case word:
		return !slices.Contains(reserved, t.text)
	case backticked, inQuotes, odd:
		return true
	}
	return false
}

// A lexer makes tokens of the text of routes.
type lexer struct {
	text   string
	tokens []token
	open   bool // a route has begun, and not ended
	indent int  // of the line on which it began, in characters
}

// lex returns the tokens of routes. Each route has at least one token, and then a token of kind
// end. A semicolon ends a route. The end of a line also ends a route, unless the next line is
// indented deeper than the one on which the route began. Blank lines and lines that begin with #
// are skipped.
func lex(text string) []token {
	l := lexer{text: text}
	for from := 0; from < len(text); {
		to := from + len(text[from:])
		if n := strings.IndexByte(text[from:], '\n'); n >= 0 {
			to = from + n
		}
		l.line(from, to)
		from = to + 1
	}
	l.finish()
	return l.tokens
}

// line reads a line.
func (l *lexer) line(from, to int) {
	at := l.skip(from, to)
	if at == to || l.text[at] == '#' {
		return
	}

	indent := utf8.RuneCountInString(l.text[from:at])
	if indent <= l.indent {
		l.finish()
	}

	for continues := l.open; at < to; at = l.skip(at, to) {
		if l.text[at] == ';' {
			l.finish()
			at, continues = at+1, false
			continue
		}

		if !l.open {
			l.open, l.indent = true, indent
		}
		t, n := scan(l.text[at:to])
		t.from, t.to, t.continues = at, at+n, continues
		continues = false
		l.tokens = append(l.tokens, t)
		at += n
	}
}

// finish ends the route that has begun, if there is one.
func (l *lexer) finish() {
	if !l.open {
		return
	}
	at := l.tokens[len(l.tokens)-1].to
	l.tokens = append(l.tokens, token{kind: end, from: at, to: at})
	l.open = false
}

// skip returns the place of the next character that is not a space.
func (l *lexer) skip(from, to int) int {
	return to - len(strings.TrimLeftFunc(l.text[from:to], unicode.IsSpace))
}

// scan returns the token at the beginning of what is left of a line, and how many bytes it has.
func scan(line string) (token, int) {
	if strings.HasPrefix(line, arrow) {
		return token{kind: symbol, text: arrow}, len(arrow)
	}
	if strings.IndexByte(symbols, line[0]) >= 0 {
		return token{kind: symbol, text: line[:1]}, 1
	}
	if line[0] == '`' {
		return scanName(line)
	}
	if line[0] == '"' {
		return scanText(line)
	}

	n := bare(line)
	if n > 0 {
		return token{kind: word, text: line[:n]}, n
	}

	n = strings.IndexFunc(line, func(r rune) bool { return !isOdd(r) })
	if n < 0 {
		n = len(line)
	}
	if slices.Contains(comparisons, line[:n]) {
		return token{kind: symbol, text: line[:n]}, n
	}
	if !utf8.ValidString(line[:n]) {
		return token{kind: broken, text: "this is not valid UTF-8"}, len(line)
	}
	if strings.ContainsFunc(line[:n], unicode.IsControl) {
		return token{kind: broken, text: "unexpected control character; remove it"}, len(line)
	}
	return token{kind: odd, text: line[:n]}, n
}

const arrow = "->"

// comparisons are the operators of conditions.
var comparisons = []string{string(Equal), string(GreaterThan), string(GreaterThanOrEqual), string(LessThan), string(LessThanOrEqual), string(In)}

// scanName reads a name in backticks, in which \` stands for ` and \\ for \.
func scanName(line string) (token, int) {
	var name strings.Builder
	for i := 1; i < len(line); i++ {
		c := line[i]
		if c == '`' {
			return token{kind: backticked, text: name.String()}, i + 1
		}
		if c == '\\' {
			i++
			if i == len(line) || line[i] != '`' && line[i] != '\\' {
				return token{kind: broken, text: "in backticks a \\ is only allowed before a ` or another \\"}, len(line)
			}
		}
		name.WriteByte(line[i])
	}
	return token{kind: broken, text: "the name that begins here does not end on its line; a ` is missing"}, len(line)
}

// scanText reads a text in quotes.
func scanText(line string) (token, int) {
	for i := 1; i < len(line); i++ {
		switch line[i] {
		case '"':
			return token{kind: inQuotes, text: line[:i+1]}, i + 1
		case '\\':
			i++
		}
	}
	return token{kind: broken, text: `the text that begins here does not end on its line; a " is missing`}, len(line)
}

// bare returns how many bytes at the beginning of s can be part of a name without backticks.
func bare(s string) int {
	for i, r := range s {
		if !isBare(r) || strings.HasPrefix(s[i:], arrow) {
			return i
		}
	}
	return len(s)
}

func isBare(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsNumber(r) || strings.ContainsRune("_-.+", r)
}

// isOdd reports whether the character begins no token of another kind.
func isOdd(r rune) bool {
	return !isBare(r) && !unicode.IsSpace(r) && !strings.ContainsRune(symbols+";`\"", r)
}

// Quote returns a name as routes spell it. It stands in backticks, unless it can do without them.
func Quote(name string) string {
	if name != "" && bare(name) == len(name) && !slices.Contains(reserved, name) {
		return name
	}
	return "`" + strings.NewReplacer(`\`, `\\`, "`", "\\`").Replace(name) + "`"
}
