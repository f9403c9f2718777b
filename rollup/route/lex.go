package route

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Token is a part of a route that has a meaning of its own.
type Token struct {
	Kind     TokenKind
	Text     string // as written; for a name in backticks, the name itself; for a broken token, the kind of the mistake
	From, To int    // its place in the text of the routes, in bytes

	// Continues says that the token is the first on a line that continues a route.
	Continues bool
}

// A TokenKind says which part of a route a token is.
type TokenKind int

// The kinds of tokens.
const (
	End        TokenKind = iota // of a route
	Word                        // a bare name, a number, or one of the reserved words
	Backticked                  // a name in backticks
	InQuotes                    // a text, as in JSON
	Symbol                      // "->", one of symbols, or one of the comparisons that are no word
	Odd                         // characters that no bare name has
	Broken                      // the rest of a line, which cannot be read
)

// symbols are the symbols of one character.
const symbols = "/{}()[],:"

// reserved are the words that have a meaning wherever a name may end. As names they must stand in
// backticks.
var reserved = []string{"by", "where", "and", "as"}

// Is reports whether the token is the symbol or the bare word text.
func (t Token) Is(text string) bool { return t.Text == text && (t.Kind == Symbol || t.Kind == Word) }

// Named reports whether the token is a part of a name, or could be one in backticks.
func (t Token) Named() bool {
	switch t.Kind {
	case Word:
		return !slices.Contains(reserved, t.Text)
	case Backticked, InQuotes, Odd:
		return true
	}
	return false
}

// A lexer makes tokens of the text of routes.
type lexer struct {
	text   string
	tokens []Token
	open   bool // a route has begun, and not ended
	indent int  // of the line on which it began, in characters
}

// lex returns the tokens of routes. Each route has at least one token, and then a token of kind
// end. A semicolon ends a route. The end of a line also ends a route, unless the next line is
// indented deeper than the one on which the route began. Blank lines and lines that begin with #
// are skipped.
func lex(text string) []Token {
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
		t.From, t.To, t.Continues = at, at+n, continues
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
	at := l.tokens[len(l.tokens)-1].To
	l.tokens = append(l.tokens, Token{Kind: End, From: at, To: at})
	l.open = false
}

// skip returns the place of the next character that is not a space.
func (l *lexer) skip(from, to int) int {
	return to - len(strings.TrimLeftFunc(l.text[from:to], unicode.IsSpace))
}

// scan returns the token at the beginning of what is left of a line, and how many bytes it has.
func scan(line string) (Token, int) {
	if strings.HasPrefix(line, arrow) {
		return Token{Kind: Symbol, Text: arrow}, len(arrow)
	}
	if strings.IndexByte(symbols, line[0]) >= 0 {
		return Token{Kind: Symbol, Text: line[:1]}, 1
	}
	if line[0] == '`' {
		return scanName(line)
	}
	if line[0] == '"' {
		return scanText(line)
	}

	n := bare(line)
	if n > 0 {
		return Token{Kind: Word, Text: line[:n]}, n
	}

	n = strings.IndexFunc(line, func(r rune) bool { return !isOdd(r) })
	if n < 0 {
		n = len(line)
	}
	if slices.Contains(comparisons, line[:n]) {
		return Token{Kind: Symbol, Text: line[:n]}, n
	}
	if !utf8.ValidString(line[:n]) {
		return Token{Kind: Broken, Text: "not UTF-8"}, len(line)
	}
	if strings.ContainsFunc(line[:n], unicode.IsControl) {
		return Token{Kind: Broken, Text: "control character"}, len(line)
	}
	return Token{Kind: Odd, Text: line[:n]}, n
}

const arrow = "->"

// comparisons are the operators of conditions.
var comparisons = []string{string(Equal), string(GreaterThan), string(GreaterThanOrEqual), string(LessThan), string(LessThanOrEqual), string(In)}

// scanName reads a name in backticks, in which \` stands for ` and \\ for \.
func scanName(line string) (Token, int) {
	var name strings.Builder
	for i := 1; i < len(line); i++ {
		c := line[i]
		if c == '`' {
			return Token{Kind: Backticked, Text: name.String()}, i + 1
		}
		if c == '\\' {
			i++
			if i == len(line) || line[i] != '`' && line[i] != '\\' {
				return Token{Kind: Broken, Text: "backslash in backticks"}, len(line)
			}
		}
		name.WriteByte(line[i])
	}
	return Token{Kind: Broken, Text: "name without end"}, len(line)
}

// scanText reads a text in quotes.
func scanText(line string) (Token, int) {
	for i := 1; i < len(line); i++ {
		switch line[i] {
		case '"':
			return Token{Kind: InQuotes, Text: line[:i+1]}, i + 1
		case '\\':
			i++
		}
	}
	return Token{Kind: Broken, Text: "text without end"}, len(line)
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
