package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/term"
)

// shown returns text from a document or a user as a terminal may show it, in one line and one
// column. Control characters, marks that change the direction of writing, whatever else has no look
// of its own, and bytes that are not UTF-8 are escaped.
func shown(text string) string { return escape(text, "") }

// escape escapes what a terminal must not get, but for the characters that are kept. An escaped
// string of JSON has the same value.
func escape(text, keep string) string {
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

// A screen is an output of a command. It escapes what a terminal must not get but newlines and tabs,
// which the caller escapes by shown where they are not its own.
type screen struct{ raw io.Writer }

func (s screen) Write(p []byte) (int, error) {
	if _, err := io.WriteString(s.raw, escape(string(p), "\n\t")); err != nil {
		return 0, err
	}
	return len(p), nil
}

// raw returns where the writer of a screen writes to, for progress bars.
func raw(w io.Writer) io.Writer {
	if s, ok := w.(screen); ok {
		return s.raw
	}
	return w
}

// isTerminal reports whether an input or an output is a terminal.
func isTerminal(stream any) bool {
	if s, ok := stream.(screen); ok {
		stream = s.raw
	}
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// errUnconfirmed is how a command ends that was not allowed to go on.
var errUnconfirmed = errors.New("nothing was changed; --yes goes on without a question")

// confirm asks the user whether to go on, unless yes says so. It returns errUnconfirmed if the answer
// is no, or if there is none because in has ended.
func confirm(ctx context.Context, in io.Reader, logs io.Writer, yes bool, question string) error {
	if yes {
		return nil
	}
	fmt.Fprintf(logs, "%s [y/N] ", question)
	answer := make(chan string, 1)
	go func() { // it is left behind when ctx ends, as a command soon does
		line, err := bufio.NewReader(in).ReadString('\n')
		if err != nil {
			fmt.Fprintln(logs)
		}
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case a := <-answer:
		if a != "y" && a != "yes" {
			return errUnconfirmed
		}
		return nil
	}
}
