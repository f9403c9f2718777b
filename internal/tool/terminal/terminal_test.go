package terminal

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// On a terminal, what takes longer than a second shows how far it is, which leaves no trace in what
// else is printed.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shown bytes.Buffer
		out, logs := &Screen{raw: &shown, width: 80}, &Screen{raw: &shown, width: 80}
		p := NewProgress(logs, "resizing", "shards", Unknown)
		p.At(1, 1000)
		time.Sleep(time.Second - 1)
		logs.mu.Lock()
		early := shown.String()
		logs.mu.Unlock()
		time.Sleep(time.Second)

		var line sync.WaitGroup
		line.Go(func() { _, _ = io.WriteString(logs, "a line\n") }) // while the progress is drawn
		p.At(700, 1000)
		line.Wait()
		time.Sleep(time.Second / 5)
		p.Stop()
		_, _ = io.WriteString(out, "likes\n")

		want := regexp.MustCompile(`^resizing: 1 of 1000 shards are done\r.*\r\x1b\[Ka line\n.*: 700 of 1000 shards are done, 1s left\r\x1b\[Klikes\n$`)
		if got := shown.String(); early != "" || !want.MatchString(got) {
			t.Errorf("in the first second %q; got %q, want %s", early, got, want)
		}
	})
}

// Many that take long are no less than nothing left.
func TestLongProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shown bytes.Buffer
		p := NewProgress(&Screen{raw: &shown, width: 80}, "migrating", "documents", 20_000_000)
		p.At(1_000_000, 20_000_000)
		time.Sleep(1000*time.Second + time.Millisecond)
		p.Stop()
		if got := shown.String(); !strings.Contains(got, ", 5h16m40s left") {
			t.Errorf("got %q", got[max(0, len(got)-80):])
		}
	})
}

// What another stage took says nothing about the rest, and neither do the first few.
func TestProgressOfStages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shown bytes.Buffer
		p := NewProgress(&Screen{raw: &shown, width: 80}, "one by one", "increments", 2000)
		p.At(15, 2000)
		time.Sleep(time.Minute + time.Millisecond)
		p.Describe("all together")
		p.At(34, 2000)
		time.Sleep(time.Second)
		p.At(115, 2000)
		time.Sleep(time.Second)
		p.Stop()

		got := shown.String()
		if !strings.Contains(got, "all together: 34 of 2000 increments are done\r") {
			t.Errorf("19 increments say how long the rest takes: %q", got[max(0, len(got)-400):])
		}
		if !strings.Contains(got, "all together: 115 of 2000 increments are done, 38s left") {
			t.Errorf("%q says nothing of 1885 increments at 50 a second", got[max(0, len(got)-400):])
		}
	})
}

// A question to a pipe that stays open and says nothing is answered by no.
func TestNobodyAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, user := io.Pipe()
		defer user.Close()
		var logs bytes.Buffer
		asked := time.Now()
		if err := Confirm(t.Context(), in, &logs, false, "Go on?"); !errors.Is(err, ErrUnconfirmed) || time.Since(asked) > time.Hour {
			t.Errorf("got %v after %v", err, time.Since(asked))
		}
		answer := strings.NewReader("y\n")
		if err := Confirm(t.Context(), answer, &logs, false, "Go on?"); err != nil {
			t.Error(err)
		}
	})
}

// A cell that is very long makes no other line wide.
func TestTable(t *testing.T) {
	long := strings.Repeat("x", 1499)
	edge := strings.Repeat("y", widestCell)
	for _, test := range []struct{ text, want string }{
		{"COUNTER\tcount\na\t1\nposts/7\t20\n", "COUNTER  count\na        1\nposts/7  20\n"},
		{"a\t1\n" + long + "\t2\n投票\t3\n", "a     1\n" + long + "  2\n投票  3\n"},
		{"a\t1\n" + edge + "\t2\n", "a" + strings.Repeat(" ", widestCell+1) + "1\n" + edge + "  2\n"},
		{long + "\t1\n", long + "  1\n"},
		{"a\tb\n\ncc\td\n", "a  b\n\ncc  d\n"},
	} {
		if got := Table(test.text); got != test.want {
			t.Errorf("got\n%swant\n%s", got, test.want)
		}
	}
}

// A progress that is wider than the terminal is cut, so it takes one line, and leaves none behind.
func TestNarrowProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shown bytes.Buffer
		s := &Screen{raw: &shown, width: 20}
		p := NewProgress(s, "moving 東京 to Tally", "documents", 20_000_000)
		time.Sleep(time.Second)
		synctest.Wait()
		p.Stop()
		if got, want := shown.String(), "moving 東京 to Tall\r\x1b[K"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// Lines break between words. The others of a line stand below its text, and what continues a line
// stays as it is.
func TestWrap(t *testing.T) {
	const text = "likes  3 → 4 of posts/7, which is a little late\n" +
		"    a text that is indented, and long\n" +
		"short\nWhich? "
	const want = "likes  3 → 4 of posts/7,\n" +
		"       which is a little\n" +
		"       late\n" +
		"    a text that is\n" +
		"    indented, and long\n" +
		"short\nWhich? this one, of all that there are\n"
	var shown bytes.Buffer
	s := &Screen{raw: &shown, width: 24}
	Wrap(s)
	for _, part := range []string{text, "this one, of all that there are\n"} {
		if _, err := io.WriteString(s, part); err != nil {
			t.Fatal(err)
		}
	}
	if shown.String() != want {
		t.Errorf("got\n%s, want\n%s", &shown, want)
	}
	if Width(s) != 24 || Width(&shown) != 0 {
		t.Errorf("widths %d and %d", Width(s), Width(&shown))
	}
}

// A caret points at the same place of a line that is broken.
func TestWrappedCaret(t *testing.T) {
	const line = "  orders/{order} by shop group on day -> shops/{shop}"
	for column, want := range map[int]string{
		2:  "  orders/{order} by\n  ^\n  shop group on day\n  -> shops/{shop}\nend\n",
		20: "  orders/{order} by\n  shop group on day\n  ^\n  -> shops/{shop}\nend\n",
		25: "  orders/{order} by\n  shop group on day\n       ^\n  -> shops/{shop}\nend\n",
		41: "  orders/{order} by\n  shop group on day\n  -> shops/{shop}\n     ^\nend\n",
		53: "  orders/{order} by\n  shop group on day\n  -> shops/{shop}\n                 ^\nend\n",
	} {
		var shown bytes.Buffer
		s := &Screen{raw: &shown, width: 20}
		Wrap(s)
		_, err := io.WriteString(s, line+"\n"+strings.Repeat(" ", column)+"^\nend\n")
		if err != nil || shown.String() != want {
			t.Errorf("at %d: %v, got\n%s, want\n%s", column, err, &shown, want)
		}
	}
}

// A command that is broken can be copied: it goes on behind a backslash, and not within quotes.
func TestCommands(t *testing.T) {
	const text = "  tally ls # all\n  tally init --routes 'a/{a}/b/{b} -> c/{a} : n' --ask # asks for the rest"
	const want = "  tally ls # all\n  # asks for the\n  # rest\n  tally init \\\n    --routes \\\n    'a/{a}/b/{b} -> c/{a} : n' \\\n    --ask"
	if got := Commands(text, 20); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A line of a log begins with the counter that it is about, and shows no control characters.
func TestLogger(t *testing.T) {
	var out strings.Builder
	log := NewLogger(&out)
	log.With("counter", "rollups/a").Warn("drift", "differs", "count 6 → 7", "age", 2*time.Second, "as_of", time.Time{}, "at", time.Unix(1, 5000).UTC())
	log.Info("the cursor was lost", "error", errors.New("a\nb"))
	log.Debug("nothing")
	const want = "rollups/a: drift; differs: count 6 → 7; age: 2s; at: 1970-01-01T00:00:01.000005Z\nthe cursor was lost; error: a\\u000ab\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
