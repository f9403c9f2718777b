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
		out, logs := &Screen{raw: &shown, terminal: true}, &Screen{raw: &shown, terminal: true}
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
		p := NewProgress(&Screen{raw: &shown, terminal: true}, "migrating", "documents", 20_000_000)
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
		p := NewProgress(&Screen{raw: &shown, terminal: true}, "one by one", "increments", 2000)
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
