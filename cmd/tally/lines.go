package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// clock is how times are shown.
const clock = "15:04:05.000"

// A lines prints what happens on a stack as it happens, a line each: what the functions log, and what
// tally itself has to say. It may be used by many goroutines at once.
type lines struct {
	all bool // the functions' lines of every severity; else roll-ups and warnings only

	mu   sync.Mutex
	out  io.Writer        // nil until open
	held bytes.Buffer     // until then
	seen map[string]*kind // for a second from the first line on
}

// open prints the text, and from now on what was printed until now and is printed later.
func (l *lines) open(out io.Writer, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out = out
	fmt.Fprint(out, text)
	_, _ = l.held.WriteTo(out)
}

// close ends all bursts. Nothing is printed any more.
func (l *lines) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, more := range slices.Sorted(maps.Keys(l.seen)) {
		l.sum(more)
	}
	l.out = io.Discard
}

// print prints a line with the time.
func (l *lines) print(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.write(time.Now(), fmt.Sprintf(format, args...))
}

func (l *lines) write(t time.Time, text string) {
	out := l.out
	if out == nil {
		out = &l.held
	}
	fmt.Fprintf(out, "%s  %s\n", t.Local().Format(clock), text)
}

// Of many lines of one kind within a burst's time, only the first few are printed, and how many more there
// were.
const (
	burst = time.Second
	few   = 4
)

// A kind of lines.
type kind struct {
	n    int
	last string // of those that were not printed
}

// often prints a line of a kind of which there may be many; more is what they are called.
func (l *lines) often(t time.Time, more, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen == nil {
		l.seen = make(map[string]*kind)
	}
	k := l.seen[more]
	if k == nil {
		k = new(kind)
		l.seen[more] = k
	}
	if k.n++; k.n <= few {
		l.write(t, text)
	} else {
		k.last = text
	}
	if k.n == 1 {
		time.AfterFunc(burst, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.sum(more)
		})
	}
}

// sum ends a kind's burst. What was last is shown, for a roll-up is then the latest.
func (l *lines) sum(more string) {
	k := l.seen[more]
	if k == nil {
		return // closed
	}
	if n := k.n - few - 1; n > 0 {
		l.write(time.Now(), fmt.Sprintf("… and %d %s more, then", n, more))
	}
	if k.n > few {
		l.write(time.Now(), k.last)
	}
	delete(l.seen, more)
}

// of returns a writer for the log of a functions process.
func (l *lines) of() io.Writer { return &logWriter{lines: l} }

type logWriter struct {
	lines *lines
	begun []byte // a line that is not whole yet
}

func (w *logWriter) Write(p []byte) (int, error) {
	w.begun = append(w.begun, p...)
	for {
		line, rest, whole := bytes.Cut(w.begun, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		w.lines.logged(line)
		w.begun = rest
	}
}

// logged prints a line that a functions process logged: JSON, as internal/app makes it, or what else a
// process writes, such as the reason of its crash.
func (l *lines) logged(line []byte) {
	var record map[string]any
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	if err := d.Decode(&record); err != nil {
		l.print("%s", shown(string(line)))
		return
	}
	message, severity := fmt.Sprint(record["message"]), fmt.Sprint(record["severity"])
	t, _ := time.Parse(time.RFC3339Nano, fmt.Sprint(record["time"])) // as slog writes it
	if message == "rolled up" || message == "removed" {
		if text, err := rolledUp(message, line); err == nil {
			l.often(t, "roll-ups", text)
			return
		}
	}
	if !l.all && (severity == "DEBUG" || severity == "INFO") {
		return
	}
	text := severity + "  " + message
	for _, key := range slices.Sorted(maps.Keys(record)) {
		switch {
		case key == "message", key == "severity", key == "time", strings.HasPrefix(key, "logging.googleapis.com/"):
		case key == "database" && record[key] == "(default)":
		default:
			text += fmt.Sprintf("  %s %v", key, record[key])
		}
	}
	l.often(t, fmt.Sprintf("lines like %q", message), shown(text))
}

// rolledUp returns what is printed of a roll-up that a functions process has written or removed.
func rolledUp(message string, line []byte) (string, error) {
	var r struct {
		Database, Counter string
		Totals            map[string]string
		NumShards         int64     `json:"num_shards"`
		AsOf              time.Time `json:"as_of"`
	}
	if err := json.Unmarshal(line, &r); err != nil {
		return "", err
	}
	text := r.Counter
	if r.Database != "(default)" {
		text = r.Database + ": " + text
	}
	if message == "removed" {
		return shown(text + "  removed"), nil
	}
	for _, name := range slices.Sorted(maps.Keys(r.Totals)) {
		text += "  " + name + " " + r.Totals[name]
	}
	return shown(fmt.Sprintf("%s  %d shards  as of %s", text, r.NumShards, r.AsOf.Local().Format(clock))), nil
}
