package terminal

import (
	"io"
	"os"
	"sync"

	"golang.org/x/term"
)

// A Screen is an output of a command. It escapes the characters that a terminal must not get. It
// keeps newlines and tabs, so the caller uses Shown for text that may hold some of its own. Text
// that is written takes the place of a progress, which is then drawn again below it.
type Screen struct {
	raw   io.Writer
	width int // columns of the terminal; 0: the output is none
	mu    sync.Mutex

	// The lock guards these.
	drawn   bool // a progress is in the last line
	wraps   bool // lines are broken between words
	midline bool // the last text did not end its line
}

// narrowest is the width of a terminal that does not say how wide it is.
const narrowest = 80

// NewScreen returns the screen that writes to an output. It asks a terminal once how wide it is.
func NewScreen(raw io.Writer) *Screen {
	s := &Screen{raw: raw}
	f, ok := raw.(*os.File)
	if ok && IsTerminal(raw) {
		width, _, err := term.GetSize(int(f.Fd()))
		if err != nil || width <= 0 {
			width = narrowest
		}
		s.width = width
	}
	return s
}

func (s *Screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
	text := Escape(string(p), "\n\t")
	if s.wraps {
		text = s.wrapped(text)
	}
	if _, err := io.WriteString(s.raw, text); err != nil {
		return 0, err
	}
	return len(p), nil
}

// clear takes the progress out of the last line.
func (s *Screen) clear() {
	if s.drawn {
		_, _ = io.WriteString(s.raw, "\r\x1b[K")
		s.drawn = false
	}
}

// IsTerminal reports whether an input or an output is a terminal.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
