package route

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Mistake is what keeps routes from being used. It is at a place of their text, or a route of
// them does not go together with others.
//
// Its text is short, for the log of a function: deployed functions have routes that were checked.
// Package internal/tool/mistakes has a sentence for each kind, which says what to write instead.
type Mistake struct {
	Kind   string // such as "key twice"
	Values []any  // what the kind speaks of, such as the key
	Route  *Route // that does not go together with others; nil if the mistake is at a place

	Text string  // of all routes
	At   int     // the place in Text, in bytes
	Next []Token // that the parser had not read of the route; none if it had read the whole route
	Name Token   // that the parser had just read, if it was a name without backticks; else of kind End
}

// Error returns the kind and the values, with the route or the place.
func (m *Mistake) Error() string {
	text := m.Kind
	if len(m.Values) > 0 {
		text += ": " + strings.TrimSuffix(fmt.Sprintln(m.Values...), "\n")
	}
	if m.Route != nil {
		return fmt.Sprintf("route %q: %s", m.Route, text)
	}
	return text + "\n" + m.Mark()
}

// Place returns the line of the place in the text, and the number of the character on that line.
// Both count from 1. It reports false if the mistake is not at a place.
func (m *Mistake) Place() (line, column int, ok bool) {
	before := m.Text[:m.At]
	begin := strings.LastIndexByte(before, '\n') + 1
	return strings.Count(before, "\n") + 1, utf8.RuneCountInString(before[begin:]) + 1, m.Route == nil
}

// Mark returns the line of the place, and below it a line with a mark at the place.
func (m *Mistake) Mark() string {
	const most = 100 // characters on each side of the place

	begin := strings.LastIndexByte(m.Text[:m.At], '\n') + 1
	before := strings.TrimLeftFunc(m.Text[begin:m.At], unicode.IsSpace)
	after, _, _ := strings.Cut(m.Text[m.At:], "\n")
	after = strings.TrimRightFunc(after, unicode.IsSpace)

	left, right := []rune(Visible(before)), []rune(Visible(after))
	if len(left) > most {
		left = append([]rune("…"), left[len(left)-most:]...)
	}
	if len(right) > most {
		right = append(right[:most:most], '…')
	}
	return fmt.Sprintf("  %s%s\n  %s^", string(left), string(right), blank(string(left)))
}

// A source is the text of routes.
type source string

// mistake returns a mistake at a place of a route that was read.
func (text source) mistake(at int, kind string, values ...any) error {
	return &Mistake{Kind: kind, Values: values, Text: string(text), At: at}
}

// blank returns spaces that are as wide on a terminal as the text.
func blank(text string) string {
	const wideSpace = '\u3000'
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.Is(unicode.Mn, r):
			return -1
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul):
			return wideSpace
		}
		return ' '
	}, text)
}

// Visible returns the text with a space for each tab, and a mark for each character that does not
// print. So no character can control the terminal.
func Visible(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsPrint(r):
			return r
		case unicode.IsSpace(r):
			return ' '
		}
		return utf8.RuneError
	}, text)
}
