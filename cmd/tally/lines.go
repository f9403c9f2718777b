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

// A lines prints what happens on a stack as it happens, a line each: what the functions log, and
// what tally itself has to say. It may be used by many goroutines at once.
type lines struct {
	all bool // the functions' lines of every severity; else roll-ups and warnings only

	mu     sync.Mutex
	out    io.Writer
	bursts map[string]*burst // by the kind of their lines
}

// turnTo prints the text to another output, which gets what is printed from now on.
func (l *lines) turnTo(out io.Writer, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out = out
	fmt.Fprint(out, text)
}

// close ends all bursts. Nothing is printed any more.
func (l *lines) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, kind := range slices.Sorted(maps.Keys(l.bursts)) {
		l.end(kind)
	}
	l.out = io.Discard
}

func (l *lines) print(format string, args ...any) {
	l.add(time.Now(), "", fmt.Sprintf(format, args...))
}

// A burst begins with a line of a kind of which there may be many. Only the first few lines of its
// time are printed, how many more there were, and the last.
type burst struct {
	n    int
	last string
}

const (
	burstTime = time.Second
	few       = 4
)

// add prints a line of a time and of a kind, "" if there are not many of its kind.
func (l *lines) add(t time.Time, kind, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if kind == "" {
		l.write(t, text)
		return
	}
	b := l.bursts[kind]
	if b == nil {
		if l.bursts == nil {
			l.bursts = make(map[string]*burst)
		}
		b = new(burst)
		l.bursts[kind] = b
		time.AfterFunc(burstTime, func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.end(kind)
		})
	}
	b.last = text
	if b.n++; b.n <= few {
		l.write(t, text)
	}
}

// end ends a burst, if close has not. The last line is shown, for it is the latest roll-up.
func (l *lines) end(kind string) {
	b := l.bursts[kind]
	if b == nil {
		return
	}
	delete(l.bursts, kind)
	if more := b.n - few - 1; more > 0 {
		l.write(time.Now(), fmt.Sprintf("… and %d %s more, then", more, kind))
	}
	if b.n > few {
		l.write(time.Now(), b.last)
	}
}

func (l *lines) write(t time.Time, text string) {
	fmt.Fprintf(l.out, "%s  %s\n", t.Local().Format(clock), text)
}

// logged prints a line that a functions process logged: JSON, as internal/app makes it, or what
// else a process writes, such as the reason of its crash.
func (l *lines) logged(line []byte) {
	var record map[string]any
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	if err := d.Decode(&record); err != nil {
		l.print("%s", shown(string(line)))
		return
	}
	message, severity := fmt.Sprint(record["message"]), fmt.Sprint(record["severity"])
	t := timeOf(record["time"])
	switch {
	case message == "rolled up" || message == "removed":
		l.add(t, "roll-ups", shown(rolledUp(message, record)))
	case l.all || severity != "DEBUG" && severity != "INFO":
		text := severity + "  " + message
		for _, key := range slices.Sorted(maps.Keys(record)) {
			switch {
			case key == "message", key == "severity", key == "time", strings.HasPrefix(key, "logging.googleapis.com/"):
			case key == "database" && record[key] == "(default)":
			default:
				text += fmt.Sprintf("  %s %v", key, record[key])
			}
		}
		l.add(t, fmt.Sprintf("lines like %q", message), shown(text))
	}
}

// rolledUp returns what is printed of a roll-up that a functions process has written or removed.
func rolledUp(message string, record map[string]any) string {
	text := fmt.Sprint(record["counter"])
	if database := fmt.Sprint(record["database"]); database != "(default)" {
		text = database + ": " + text
	}
	if message == "removed" {
		return text + "  removed"
	}
	totals, _ := record["totals"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(totals)) {
		text += fmt.Sprintf("  %s %v", name, totals[name])
	}
	return fmt.Sprintf("%s  %v shards  as of %s", text, record["num_shards"], timeOf(record["as_of"]).Local().Format(clock))
}

func timeOf(value any) time.Time {
	t, _ := time.Parse(time.RFC3339Nano, fmt.Sprint(value)) // as slog writes it
	return t
}
