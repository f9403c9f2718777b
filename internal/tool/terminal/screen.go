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
	raw      io.Writer
	terminal bool
	mu       sync.Mutex
	drawn    bool // a progress is in the last line
}

// NewScreen returns the screen that writes to an output.
func NewScreen(raw io.Writer) *Screen {
	return &Screen{raw: raw, terminal: Is(raw)}
}

func (s *Screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
	if _, err := io.WriteString(s.raw, Escape(string(p), "\n\t")); err != nil {
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

// Is reports whether an input or an output is a terminal.
func Is(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
