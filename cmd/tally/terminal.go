package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/rivo/uniseg"
	"golang.org/x/term"
)

// shown returns text from a document or a user as a terminal may show it: in one line and one
// column. It escapes control characters, marks that change the direction of writing, other
// characters that cannot be seen, and bytes that are not UTF-8.
func shown(text string) string { return escape(text, "") }

// escaped replaces each text among the arguments by what shown returns for it.
func escaped(args []any) []any {
	for i, arg := range args {
		switch arg := arg.(type) {
		case string:
			args[i] = shown(arg)
		case fmt.Stringer:
			args[i] = shown(arg.String())
		}
	}
	return args
}

// escape escapes the characters that a terminal must not get, except those in keep. A string of
// JSON that is escaped still has the same value.
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

// said returns the text of an error: a line for each of the errors that it joins.
func said(err error) string {
	many, ok := err.(interface{ Unwrap() []error })
	joined := ok && err.Error() == errors.Join(many.Unwrap()...).Error()
	if !joined {
		return shown(err.Error())
	}

	var all []string
	for _, err := range many.Unwrap() {
		all = append(all, said(err))
	}
	return strings.Join(all, "\n")
}

// widestCell is the greatest width of a column of a table. A longer cell sticks out of its column:
// a single id may have 1,499 bytes. Paths with two of Firestore's own ids have some 60.
const widestCell = 64

// table lays out lines of cells, which tabs separate, in columns. It measures cells as wide as a
// terminal shows them. An empty line ends a table, and another begins.
func table(text string) string {
	blocks := strings.Split(text, "\n\n")
	for i, block := range blocks {
		rows := strings.Split(block, "\n")
		widths := widthsOf(rows)
		for n, row := range rows {
			rows[n] = padded(row, widths)
		}
		blocks[i] = strings.Join(rows, "\n")
	}
	return strings.Join(blocks, "\n\n")
}

// widthsOf returns the widths of the columns of rows. The last cell of a row does not count.
func widthsOf(rows []string) (widths []int) {
	for _, row := range rows {
		cells := strings.Split(row, "\t")
		for j, cell := range cells[:len(cells)-1] {
			if j == len(widths) {
				widths = append(widths, 0)
			}
			width := uniseg.StringWidth(cell)
			if width <= widestCell {
				widths[j] = max(widths[j], width)
			}
		}
	}
	return widths
}

// padded returns a row whose cells are as wide as its columns, with two blanks between them.
func padded(row string, widths []int) string {
	cells := strings.Split(row, "\t")
	for j, cell := range cells[:len(cells)-1] {
		missing := max(0, widths[j]-uniseg.StringWidth(cell))
		cells[j] += strings.Repeat(" ", missing+2)
	}
	return strings.Join(cells, "")
}

// A screen is an output of a command. It escapes the characters that a terminal must not get. It
// keeps newlines and tabs, so the caller uses shown for text that may hold some of its own. Text
// that is written takes the place of a progress, which is then drawn again below it.
type screen struct {
	raw      io.Writer
	terminal bool
	mu       sync.Mutex
	drawn    bool // a progress is in the last line
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
	if _, err := io.WriteString(s.raw, escape(string(p), "\n\t")); err != nil {
		return 0, err
	}
	return len(p), nil
}

// clear takes the progress out of the last line.
func (s *screen) clear() {
	if s.drawn {
		_, _ = io.WriteString(s.raw, "\r\x1b[K")
		s.drawn = false
	}
}

// isTerminal reports whether an input or an output is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// A progress says how much of its work a command has done. On a terminal the last line shows it,
// from the first second on. It may be used by many goroutines.
type progress struct {
	screen      *screen
	what, unit  string // the screen's lock guards what
	done, total atomic.Int64
	began       time.Time
	redraw      *time.Timer // nil once it is stopped
}

// unknown is the total of a progress whose end is not known.
const unknown = -1

func newProgress(logs io.Writer, what, unit string, total int) *progress {
	s, ok := logs.(*screen)
	if !ok || !s.terminal {
		s = &screen{raw: io.Discard}
	}
	p := &progress{screen: s, what: what, unit: unit, began: time.Now()}
	p.at(0, total)
	s.mu.Lock()
	defer s.mu.Unlock()
	p.redraw = time.AfterFunc(time.Second, p.draw)
	return p
}

// draw draws the line, and again five times a second.
func (p *progress) draw() {
	p.screen.mu.Lock()
	defer p.screen.mu.Unlock()
	if p.redraw == nil {
		return
	}
	p.redraw.Reset(time.Second / 5)
	p.screen.clear()
	p.screen.drawn = true
	_, _ = fmt.Fprintf(p.screen.raw, "%s: %v", p.what, p)

	done, total := p.done.Load(), p.total.Load()
	if 0 < done && done < total {
		left := time.Duration(float64(time.Since(p.began)) * float64(total-done) / float64(done))
		_, _ = fmt.Fprintf(p.screen.raw, ", %v left", left.Round(time.Second))
	}
}

// at notes how much is done, and how much there is.
func (p *progress) at(done, total int) {
	p.done.Store(int64(done))
	p.total.Store(int64(total))
}

// describe gives the work another name from now on.
func (p *progress) describe(what string) {
	p.screen.mu.Lock()
	defer p.screen.mu.Unlock()
	p.what = what
}

// String says how far the command is.
func (p *progress) String() string {
	if total := p.total.Load(); total != unknown {
		return fmt.Sprintf("%d of %d %s are done", p.done.Load(), total, p.unit)
	}
	return fmt.Sprintf("%d %s are done", p.done.Load(), p.unit)
}

// stop takes the line away, if p is not nil.
func (p *progress) stop() {
	if p == nil {
		return
	}
	p.screen.mu.Lock()
	defer p.screen.mu.Unlock()
	if p.redraw != nil {
		p.redraw.Stop()
		p.redraw = nil
		p.screen.clear()
	}
}

// errUnconfirmed ends a command when the user did not agree to go on.
var errUnconfirmed = errors.New("nothing was changed; --yes goes on without a question")

// answerWithin is how long a question waits where there is no terminal, and so perhaps no user.
const answerWithin = time.Minute

// confirm asks the user whether to go on, unless yes is set. It returns errUnconfirmed if the
// answer is no. No answer is a no, too: the input ends, or it is no terminal and stays silent for
// answerWithin.
func confirm(ctx context.Context, in io.Reader, logs io.Writer, yes bool, question string) error {
	if yes {
		return nil
	}
	if !isTerminal(in) {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, answerWithin, errUnconfirmed)
		defer stop()
	}

	answer, _ := ask(ctx, bufio.NewReader(in), logs, question+" [y/N] ")
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	answer = strings.ToLower(answer)
	if answer != "y" && answer != "yes" {
		return errUnconfirmed
	}
	return nil
}

// ask asks a question and returns the next line, without the blanks around it. When ctx ends, it
// returns at once. Its goroutine goes on reading then, which does no harm: the command soon ends.
func ask(ctx context.Context, in *bufio.Reader, out io.Writer, question string) (answer string, err error) {
	type line struct {
		text string
		err  error
	}

	fmt.Fprint(out, question)
	read := make(chan line, 1)
	go func() {
		text, err := in.ReadString('\n')
		read <- line{strings.TrimSpace(text), err}
	}()

	var l line
	select {
	case <-ctx.Done():
		l.err = context.Cause(ctx)
	case l = <-read:
	}
	if l.err != nil {
		fmt.Fprintln(out)
	}
	return l.text, l.err
}
