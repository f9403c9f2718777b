package route

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A source is the text of routes.
type source string

// A mistake says what is wrong at a place of the text.
type mistake struct {
	in     source
	at     int // the place, in bytes
	reason string
}

// mistake returns an error that says what is wrong at a place.
func (text source) mistake(at int, format string, args ...any) error {
	return &mistake{text, at, fmt.Sprintf(format, args...)}
}

// Error returns the reason, and below it the line with a mark at the place.
func (m *mistake) Error() string {
	const most = 100 // characters on each side of the place

	before, after := m.in.line(m.at)
	left, right := []rune(visible(before)), []rune(visible(after))
	if len(left) > most {
		left = append([]rune("…"), left[len(left)-most:]...)
	}
	if len(right) > most {
		right = append(right[:most:most], '…')
	}

	return fmt.Sprintf("%s\n  %s%s\n  %s^", m.reason, string(left), string(right), blank(string(left)))
}

// Place returns the line of the place in the text, and the number of the character on that line.
// Both count from 1.
func (m *mistake) Place() (line, column int) {
	before := string(m.in[:m.at])
	begin := strings.LastIndexByte(before, '\n') + 1
	return strings.Count(before, "\n") + 1, utf8.RuneCountInString(before[begin:]) + 1
}

// line returns what is before and behind a place on its line, without the spaces around both.
func (text source) line(at int) (before, after string) {
	begin := strings.LastIndexByte(string(text[:at]), '\n') + 1
	before, after = string(text[begin:at]), string(text[at:])
	after, _, _ = strings.Cut(after, "\n")
	return strings.TrimLeftFunc(before, unicode.IsSpace), strings.TrimRightFunc(after, unicode.IsSpace)
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

// visible returns the text with a space for each tab, and a mark for each character that does not
// print. So no character can control the terminal.
func visible(text string) string {
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

// meant asks whether one of the other words was meant. It returns nothing if no other word has
// about half of its characters right.
func meant(word string, others ...string) string {
	nearest, least := "", len(word)+1
	for _, other := range others {
		if len(word) > 2*len(other) {
			continue
		}
		d := Distance(strings.ToLower(word), strings.ToLower(other))
		if d <= len(other)/2 && d < least {
			nearest, least = other, d
		}
	}

	if nearest == "" {
		return ""
	}
	return "; did you mean " + nearest + "?"
}

// Distance returns how many characters must be changed, added or taken away to turn from into to.
func Distance(from, to string) int {
	b := []rune(to)
	row := make([]int, len(b)+1) // row[j] is the distance between the part of from that was read and the first j characters of b
	for j := range row {
		row[j] = j
	}

	for i, r := range []rune(from) {
		diagonal := row[0]
		row[0] = i + 1
		for j, s := range b {
			changed := diagonal
			if r != s {
				changed++
			}
			diagonal = row[j+1]
			row[j+1] = min(changed, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}
