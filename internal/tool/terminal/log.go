package terminal

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// NewLogger returns a logger whose lines are for people: the counter that a line is about, the
// message, and what else there is to know, without time and level.
func NewLogger(w io.Writer) *slog.Logger { return slog.New(&logger{w: w, mu: new(sync.Mutex)}) }

// A logger is the handler of NewLogger. It knows no groups.
type logger struct {
	w    io.Writer
	mu   *sync.Mutex
	with []slog.Attr // of all lines
}

// Enabled implements slog.Handler.
func (l *logger) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

// WithAttrs implements slog.Handler.
func (l *logger) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &logger{l.w, l.mu, append(slices.Clone(l.with), attrs...)}
}

// WithGroup implements slog.Handler.
func (l *logger) WithGroup(string) slog.Handler { return l }

// Handle implements slog.Handler.
func (l *logger) Handle(_ context.Context, r slog.Record) error {
	attrs := slices.Clone(l.with)
	r.Attrs(func(a slog.Attr) bool {
		attrs = append(attrs, a)
		return true
	})

	text := r.Message
	for _, a := range attrs {
		at, isTime := a.Value.Any().(time.Time)
		switch {
		case a.Key == "counter":
			text = fmt.Sprintf("%v: %s", a.Value, text)
		case !isTime:
			text += fmt.Sprintf("; %s: %v", a.Key, a.Value)
		case !at.IsZero():
			text += fmt.Sprintf("; %s: %s", a.Key, at.Format(time.RFC3339Nano))
		}
	}

	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := fmt.Fprintln(l.w, Shown(text))
	return err
}
