package terminal

import (
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rivo/uniseg"
)

// A Progress says how much of its work a command has done. On a terminal the last line shows it,
// from the first second on. It may be used by many goroutines.
type Progress struct {
	screen      *Screen
	unit        string
	done, total atomic.Int64

	// The screen's lock guards these.
	what   string
	began  time.Time   // work of this name
	from   int64       // how much was done then
	redraw *time.Timer // nil once it is stopped
}

// Unknown is the total of a progress whose end is not known.
const Unknown = -1

// NewProgress shows the progress of work in the last line of the logs, if they are a terminal's
// screen. what names the work. total says how many of the unit it has, or is Unknown.
func NewProgress(logs io.Writer, what, unit string, total int) *Progress {
	s, ok := logs.(*Screen)
	if !ok || s.width == 0 {
		s = &Screen{raw: io.Discard}
	}
	p := &Progress{screen: s, what: what, unit: unit, began: time.Now()}
	p.At(0, total)
	s.mu.Lock()
	defer s.mu.Unlock()
	p.redraw = time.AfterFunc(time.Second, p.draw)
	return p
}

// draw draws the line, and again five times a second.
func (p *Progress) draw() {
	p.screen.mu.Lock()
	defer p.screen.mu.Unlock()
	if p.redraw == nil {
		return
	}
	p.redraw.Reset(time.Second / 5)
	p.screen.clear()
	p.screen.drawn = true
	line := fmt.Sprintf("%s: %v", p.what, p)

	done, total := p.done.Load(), p.total.Load()
	made := done - p.from
	if made >= max(1, total/leastKnown) && done < total {
		left := time.Duration(float64(time.Since(p.began)) * float64(total-done) / float64(made))
		line += fmt.Sprintf(", %v left", left.Round(time.Second))
	}
	_, _ = io.WriteString(p.screen.raw, cut(line, p.screen.width-1))
}

// cut returns as much of a line as the width holds. A longer progress would leave its first lines
// behind each time that it is drawn. In the terminal's last column some begin a new line.
func cut(line string, width int) string {
	var b strings.Builder
	for g := uniseg.NewGraphemes(line); g.Next(); {
		width -= g.Width()
		if width < 0 {
			break
		}
		b.WriteString(g.Str())
	}
	return b.String()
}

// leastKnown is which part of the work is done before a progress says how long the rest takes. The
// first few may take much longer than the others.
const leastKnown = 100

// At notes how much is done, and how much there is.
func (p *Progress) At(done, total int) {
	p.done.Store(int64(done))
	p.total.Store(int64(total))
}

// Describe gives the work another name from now on. How long the rest takes is then told by what is
// done under this name.
func (p *Progress) Describe(what string) {
	p.screen.mu.Lock()
	defer p.screen.mu.Unlock()
	p.what, p.began, p.from = what, time.Now(), p.done.Load()
}

// String says how far the command is.
func (p *Progress) String() string {
	if total := p.total.Load(); total != Unknown {
		return fmt.Sprintf("%d of %d %s are done", p.done.Load(), total, p.unit)
	}
	return fmt.Sprintf("%d %s are done", p.done.Load(), p.unit)
}

// Stop takes the line away, if p is not nil.
func (p *Progress) Stop() {
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
