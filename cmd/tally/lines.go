package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/firestore-tally/tally/cmd/tally/counter"
	"github.com/firestore-tally/tally/internal/tool/terminal"
	"github.com/firestore-tally/tally/rollup/route"
)

// clock is how times are shown.
const clock = "15:04:05.000"

// A lines prints what happens on a stack as it happens, a line each: what the functions log, and
// what tally itself has to say. It may be used by many goroutines at once.
type lines struct {
	verbose bool // the functions' lines of every severity; else roll-ups and warnings only

	mu        sync.Mutex
	routes    route.Routes // of the functions
	out       io.Writer
	printedAt map[string]time.Time // warnings, and when they were printed
}

// sayAgain is the least time between two printings of a warning. Every functions process logs a
// warning, so it comes several times at once. While its cause lasts, a process logs it again every
// ten minutes at most.
const sayAgain = 9 * time.Minute

// isNews reports whether a warning was not printed lately, and notes that it is now.
func (l *lines) isNews(warning string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()

	now := time.Now()
	maps.DeleteFunc(l.printedAt, func(_ string, at time.Time) bool { return now.Sub(at) >= sayAgain })
	if _, printed := l.printedAt[warning]; printed {
		return false
	}
	if l.printedAt == nil {
		l.printedAt = make(map[string]time.Time)
	}
	l.printedAt[warning] = now
	return true
}

// setRoutes notes the routes of the functions whose lines come from now on.
func (l *lines) setRoutes(routes route.Routes) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.routes = routes
}

// countText says how many documents made the totals of a roll-up; "" if their number tells nothing.
func (l *lines) countText(rollUp string, numShards int64) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, template := range l.routes.Templates() {
		if _, ok := template.Counter(rollUp); ok {
			return strings.ReplaceAll(counter.Counted(template, numShards), "\t", "  ")
		}
	}
	return "" // routes that were changed a moment ago made it
}

// shardNoun returns the word for the documents that make the totals of a roll-up.
func (l *lines) shardNoun(rollUp string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, template := range l.routes.Templates() {
		if _, ok := template.Counter(rollUp); ok {
			return counter.Noun(template) + "s"
		}
	}
	return "documents"
}

// redirect has everything from now on printed to another output, the text first.
func (l *lines) redirect(out io.Writer, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out = out
	fmt.Fprint(out, text)
}

// close ends the printing. The processes of a stack may still log until they end.
func (l *lines) close() { l.redirect(io.Discard, "") }

func (l *lines) print(format string, args ...any) {
	l.add(time.Now(), fmt.Sprintf(format, args...))
}

// printEscaped prints a line about documents or requests. It escapes what a terminal must not get,
// newlines too.
func (l *lines) printEscaped(format string, args ...any) {
	l.add(time.Now(), terminal.Shown(fmt.Sprintf(format, args...)))
}

// add prints a line that begins with a time.
func (l *lines) add(t time.Time, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.out, "%s  %s\n", t.Local().Format(clock), text)
}

// leftOut is what the functions log about malformed values, for the app's own documents, too.
const leftOut = "shards left out of the sum"

// printLogged prints a line that a functions process logged. Most are JSON, as internal/cloud/app
// writes it. A process may write other text, too, such as the reason of its crash.
func (l *lines) printLogged(line []byte) {
	var record map[string]any
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	if err := d.Decode(&record); err != nil {
		l.printEscaped("%s", line)
		return
	}

	message, severity := fmt.Sprint(record["message"]), fmt.Sprint(record["severity"])
	t := timeOf(record["time"])
	if message == "rolled up" || message == "removed" {
		n, _ := strconv.ParseInt(fmt.Sprint(record["num_shards"]), 10, 64)
		l.add(t, terminal.Shown(rollUpText(message, l.countText(fmt.Sprint(record["counter"]), n), record)))
		return
	}
	if !l.verbose && (severity == "DEBUG" || severity == "INFO") {
		return
	}

	named, has := record["shards"]
	if message == leftOut && has { // they may be orders, which users do not call shards
		summed := l.shardNoun(fmt.Sprint(record["counter"]))
		message = summed + strings.TrimPrefix(leftOut, "shards")
		delete(record, "shards")
		record[summed] = named
	}
	text, about := logText(message, severity, record)
	wanted := l.verbose || l.isNews(about)
	if wanted {
		l.add(t, terminal.Shown(text))
	}
}

// logText returns the text of a record, and what the text is about. Two processes may log the same
// about a counter, each because of another event. So about leaves out the event of such a record.
func logText(message, severity string, record map[string]any) (text, about string) {
	text = severity + "  " + message
	about = text
	_, ofCounter := record["counter"]
	for _, key := range slices.Sorted(maps.Keys(record)) {
		if key == "message" || key == "severity" || key == "time" || strings.HasPrefix(key, "logging.googleapis.com/") {
			continue
		}
		if key == "database" && record[key] == "(default)" {
			continue
		}

		field := fmt.Sprintf("  %s %v", key, record[key])
		text += field
		if key != "event_id" || !ofCounter {
			about += field
		}
	}
	return text, about
}

// rollUpText returns the text about a roll-up that a functions process has written or removed.
// counted says how many documents made its totals.
func rollUpText(message, counted string, record map[string]any) string {
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
	return fmt.Sprintf("%s%s  as of %s", text, counted, timeOf(record["as_of"]).Local().Format(clock))
}

func timeOf(value any) time.Time {
	t, _ := time.Parse(time.RFC3339Nano, fmt.Sprint(value)) // as slog writes it
	return t
}
