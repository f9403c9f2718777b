package terminal

import (
	"io"
	"slices"
	"strings"

	"github.com/mitchellh/go-wordwrap"
	"github.com/rivo/uniseg"
)

// Width returns how many columns an output has. It is 0 unless the output is a terminal's screen.
func Width(output io.Writer) int {
	s, ok := output.(*Screen)
	if !ok {
		return 0
	}
	return s.width
}

// Wrap has the outputs that are a terminal's screen break their lines between words from now on.
func Wrap(outputs ...io.Writer) {
	for _, output := range outputs {
		s, ok := output.(*Screen)
		if ok {
			s.mu.Lock()
			s.wraps = s.width > 0
			s.mu.Unlock()
		}
	}
}

// Hanging writes a text behind its first words, broken between words into lines of the width. The
// other lines begin with as many blanks as the first words take. The first line may be longer than
// the width by one word.
func Hanging(first, text string, width int) string {
	indent := uniseg.StringWidth(first)
	narrow := max(1, width-indent)
	rest := "\n" + strings.Repeat(" ", indent)
	return first + strings.ReplaceAll(wordwrap.WrapString(text, uint(narrow)), "\n", rest)
}

// wrapped breaks the lines of a text. One that continues what was written before stays as it is.
func (s *Screen) wrapped(text string) string {
	var all, rows []string // rows are those of the line before
	for i, line := range strings.Split(text, "\n") {
		if strings.TrimSpace(line) == caret && len(rows) > 1 {
			before := all[:len(all)-len(rows)]
			all = append(before, withCaret(rows, uniseg.StringWidth(line)-1)...)
			continue
		}

		rows = []string{line}
		continues := i == 0 && s.midline
		if !continues && uniseg.StringWidth(line) > s.width {
			at := hangingColumn(line, s.width)
			rows = strings.Split(Hanging(line[:at], line[at:], s.width), "\n")
		}
		all = append(all, rows...)
	}
	if text != "" {
		s.midline = !strings.HasSuffix(text, "\n")
	}
	return strings.Join(all, "\n")
}

// caret is alone in a line, and points at a place in the line before.
const caret = "^"

// withCaret adds a caret below the place that it points at, in a line that is broken into rows. The
// column is that of the whole line, of which a blank went with each break.
func withCaret(rows []string, column int) []string {
	for i, row := range rows {
		indent := 0
		if i > 0 {
			indent = uniseg.StringWidth(row) - uniseg.StringWidth(strings.TrimLeft(row, " "))
		}
		width := uniseg.StringWidth(row) - indent
		if column <= width || i == len(rows)-1 {
			return slices.Insert(rows, i+1, strings.Repeat(" ", indent+column)+caret)
		}
		column -= width + 1
	}
	return rows
}

// hangingColumn returns the place in a line below which its other lines begin: behind its mark and
// its columns, if these end in the left half of the width, else behind its blanks.
func hangingColumn(line string, width int) int {
	at := len(line) - len(strings.TrimLeft(line, " "))
	for {
		next := strings.Index(line[at:], "  ")
		if next < 0 {
			return at
		}
		column := at + next + len(line[at+next:]) - len(strings.TrimLeft(line[at+next:], " "))
		if column > width/2 {
			return at
		}
		at = column
	}
}

// Commands breaks lines of a shell's commands that are wider than the width. A line that is
// continued ends with a backslash, so it can be copied. A comment moves above its command. A word
// that is quoted stays whole.
func Commands(text string, width int) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = command(line, width)
	}
	return strings.Join(lines, "\n")
}

// continued ends a line of a command that goes on.
const continued = ` \`

func command(line string, width int) string {
	if uniseg.StringWidth(line) <= width {
		return line
	}
	indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
	rest, comment, has := strings.Cut(line, " # ")
	if has {
		above := strings.ReplaceAll(Hanging(indent+"# ", comment, width), "\n"+indent+"  ", "\n"+indent+"# ")
		return above + "\n" + command(strings.TrimRight(rest, " "), width)
	}

	var b strings.Builder
	used := len(indent)
	b.WriteString(indent)
	for i, word := range shellWords(line) {
		wide := uniseg.StringWidth(word)
		switch {
		case i == 0:
		case used+1+wide+len(continued) > width:
			b.WriteString(continued + "\n" + indent + "  ")
			used = len(indent) + 2
		default:
			b.WriteString(" ")
			used++
		}
		b.WriteString(word)
		used += wide
	}
	return b.String()
}

// shellWords returns the words of a line. Blanks in quotes separate none.
func shellWords(line string) []string {
	quote := rune(0)
	return strings.FieldsFunc(line, func(r rune) bool {
		switch {
		case quote == 0 && (r == '\'' || r == '"'):
			quote = r
		case r == quote:
			quote = 0
		}
		return r == ' ' && quote == 0
	})
}
