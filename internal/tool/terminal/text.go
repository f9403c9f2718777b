package terminal

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Shown returns text from a document or a user as a terminal may show it: in one line and one
// column. It escapes control characters, marks that change the direction of writing, other
// characters that cannot be seen, and bytes that are not UTF-8.
func Shown(text string) string { return Escape(text, "") }

// Escaped replaces each text among the arguments by what shown returns for it.
func Escaped(args []any) []any {
	for i, arg := range args {
		switch arg := arg.(type) {
		case string:
			args[i] = Shown(arg)
		case fmt.Stringer:
			args[i] = Shown(arg.String())
		}
	}
	return args
}

// Cells are text for [Table], whose tabs and newlines [Escaped] leaves alone.
type Cells string

// Escape escapes the characters that a terminal must not get, except those in keep. A string of
// JSON that is escaped still has the same value.
func Escape(text, keep string) string {
	var b strings.Builder
	for i, size := 0, 0; i < len(text); i += size {
		var r rune
		r, size = utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case strings.ContainsRune(keep, r), unicode.IsPrint(r) && !unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r):
			b.WriteRune(r)
		default:
			for _, unit := range utf16.AppendRune(nil, r) {
				fmt.Fprintf(&b, `\u%04x`, unit)
			}
		}
	}
	return b.String()
}

// ErrorLines returns the text of an error: a line for each of the errors that it joins.
func ErrorLines(err error) string {
	many, ok := err.(interface{ Unwrap() []error })
	joined := ok && err.Error() == errors.Join(many.Unwrap()...).Error()
	if !joined {
		return Shown(err.Error())
	}

	var all []string
	for _, err := range many.Unwrap() {
		all = append(all, ErrorLines(err))
	}
	return strings.Join(all, "\n")
}

// Plural returns a number of things in words. one is the word for a single thing.
func Plural[N int | int64](n N, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
