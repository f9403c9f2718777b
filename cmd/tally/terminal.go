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
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/rivo/uniseg"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// shown returns text from a document or a user as a terminal may show it, in one line and one
// column. Control characters, marks that change the direction of writing, whatever else has no look
// of its own, and bytes that are not UTF-8 are escaped.
func shown(text string) string { return escape(text, "") }

// escaped has the texts among the arguments shown.
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

// said returns what an error says, with a line for each of several errors that are joined.
func said(err error) string {
	if many, ok := err.(interface{ Unwrap() []error }); ok && err.Error() == errors.Join(many.Unwrap()...).Error() {
		var all []string
		for _, err := range many.Unwrap() {
			all = append(all, said(err))
		}
		return strings.Join(all, "\n")
	}
	return shown(err.Error())
}

// table puts the cells of lines, which tabs separate, below each other, as wide as a terminal shows
// them. An empty line ends a table.
func table(text string) string {
	blocks := strings.Split(text, "\n\n")
	for i, block := range blocks {
		var widths []int
		rows := strings.Split(block, "\n")
		for _, row := range rows {
			cells := strings.Split(row, "\t")
			for j, cell := range cells[:len(cells)-1] {
				if j == len(widths) {
					widths = append(widths, 0)
				}
				widths[j] = max(widths[j], uniseg.StringWidth(cell))
			}
		}
		for n, row := range rows {
			cells := strings.Split(row, "\t")
			for j, cell := range cells[:len(cells)-1] {
				cells[j] += strings.Repeat(" ", widths[j]-uniseg.StringWidth(cell)+2)
			}
			rows[n] = strings.Join(cells, "")
		}
		blocks[i] = strings.Join(rows, "\n")
	}
	return strings.Join(blocks, "\n\n")
}

// A screen is an output of a command. It escapes what a terminal must not get but newlines and tabs,
// which the caller escapes by shown where they are not its own. Lines take the place of a progress
// bar, which is drawn again below.
type screen struct {
	raw      io.Writer
	terminal bool
	mu       sync.Mutex
	bar      bool // is there
}

func (s *screen) Write(p []byte) (int, error) {
	text := escape(string(p), "\n\t")
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bar {
		text = "\r\x1b[K" + text
	}
	if _, err := io.WriteString(s.raw, text); err != nil {
		return 0, err
	}
	return len(p), nil
}

// isTerminal reports whether an input or an output is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// A progress is how far a command is. On a terminal a bar shows it, once the first second is over. It
// may be used by many goroutines.
type progress struct {
	screen *screen // nil where there is no terminal
	unit   string

	mu          *sync.Mutex // the screen's, if there is one
	what        string
	done, total int
	timer       *time.Timer              // nil once it is stopped
	bar         *progressbar.ProgressBar // nil in the first second
}

// unknown is the total of a progress whose end nobody knows.
const unknown = -1

func newProgress(logs io.Writer, what, unit string, total int) *progress {
	p := &progress{unit: unit, what: what, total: total, mu: new(sync.Mutex)}
	if s, ok := logs.(*screen); ok && s.terminal {
		p.screen, p.mu = s, &s.mu
		p.mu.Lock()
		defer p.mu.Unlock()
		p.timer = time.AfterFunc(time.Second, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.timer != nil {
				p.draw()
			}
		})
	}
	return p
}

// draw begins a bar.
func (p *progress) draw() {
	p.screen.bar = true
	p.bar = progressbar.NewOptions(p.total, progressbar.OptionSetWriter(p.screen.raw), progressbar.OptionSetDescription(p.what),
		progressbar.OptionShowCount(), progressbar.OptionShowTotalBytes(p.total != unknown), progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSetSpinnerChangeInterval(0), progressbar.OptionClearOnFinish(), progressbar.OptionSetRenderBlankState(true))
	_ = p.bar.Set(p.done)
}

// at says that so much is done, out of a total. Another total is another bar.
func (p *progress) at(done, total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	anew := total != p.total
	p.done, p.total = done, total
	switch {
	case p.bar == nil:
	case anew:
		_ = p.bar.Finish()
		p.draw()
	default:
		_ = p.bar.Set(done)
	}
}

// describe says what is done from now on.
func (p *progress) describe(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.what = what; p.bar != nil {
		p.bar.Describe(what)
	}
}

// String says how far the command is.
func (p *progress) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.total == unknown {
		return fmt.Sprintf("%d %s are done", p.done, p.unit)
	}
	return fmt.Sprintf("%d of %d %s are done", p.done, p.total, p.unit)
}

// stop takes the bar away.
func (p *progress) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
	if p.bar != nil {
		_ = p.bar.Finish()
		p.bar = nil
		p.screen.bar = false
	}
}

// errUnconfirmed is how a command ends that was not allowed to go on.
var errUnconfirmed = errors.New("nothing was changed; --yes goes on without a question")

// answerWithin is how long a question waits where there is no terminal, and so perhaps nobody.
const answerWithin = time.Minute

// confirm asks the user whether to go on, unless yes says so. It returns errUnconfirmed if the answer
// is no, or if there is none because in has ended, or is no terminal and says nothing.
func confirm(ctx context.Context, in io.Reader, logs io.Writer, yes bool, question string) error {
	if yes {
		return nil
	}
	if !isTerminal(in) {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, answerWithin, errUnconfirmed)
		defer stop()
	}
	fmt.Fprintf(logs, "%s [y/N] ", question)
	line, err := readLine(ctx, bufio.NewReader(in))
	if err != nil {
		fmt.Fprintln(logs)
	}
	switch a := strings.ToLower(line); {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case a != "y" && a != "yes":
		return errUnconfirmed
	}
	return nil
}

// readLine returns the next line without the blanks around it. It returns early when ctx ends, and leaves
// the reading behind then, as a command soon ends.
func readLine(ctx context.Context, in *bufio.Reader) (line string, err error) {
	read := make(chan struct{})
	var text string
	var failed error
	go func() {
		text, failed = in.ReadString('\n')
		close(read)
	}()
	select {
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case <-read:
		return strings.TrimSpace(text), failed
	}
}
