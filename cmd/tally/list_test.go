//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/spf13/cobra"
)

func TestList(t *testing.T) {
	c := newConsole(t)
	for _, id := range []string{"b", "c", "d"} {
		c.set("counters/"+id+"/shards/0", map[string]any{"count": len(id)})
		c.rollUp("counters/" + id + "/shards/0")
	}
	c.set("counters/e/shards/0", map[string]any{"count": 1}) // no roll-up
	c.set("rollups/d", map[string]any{"count": "text"})
	c.set("posts/7/likes/ann", map[string]any{})
	c.set("posts/7", map[string]any{"likes": "text"}) // no roll-up yet
	c.set("posts/8/likes/ann", map[string]any{})
	c.set("posts/8", map[string]any{})
	c.rollUp("posts/8/likes/ann")
	c.tell([]step{
		{args: "ls --limit 2", want: "COUNTER     count  SHARDS  AS OF\ncounters/b  1      1       T\ncounters/c  1      1       T\n"},
		{args: "ls --limit 2 --json | .after", want: `"counters/c"`},
		{args: "ls --limit 1 --after counters/c", want: "COUNTER     count  SHARDS  AS OF\ncounters/d  -      1       T\n"},
		{args: "ls --limit 2 --after c --json", want: `{"after":"","counters":[{"counter":"counters/d","rollup":{"totals":{},"num_shards":1,"as_of":"T"}}]}` + "\n"},
		{args: "ls --after d", want: "no counters\n"},
		{args: "ls --after posts/7", status: 1},
	})
	if _, _, more := c.run("ls", "--limit", "2"); !strings.HasSuffix(more, "\nmore: --after counters/c\n") {
		t.Errorf("after the first page: %q", more)
	}
	if _, _, more := c.run("ls", "--limit", "3"); strings.Contains(more, "more") {
		t.Errorf("after the only page: %q", more)
	}

	t.Setenv("TALLY_ROUTES", someRoutes)
	c.tell([]step{
		{args: "ls --after rollups/c", want: "COUNTER     count  SHARDS  AS OF\ncounters/d  -      1       T\n" +
			"COUNTER     likes  unique  views  AS OF\nposts/7     -      -       -      -\nposts/8     1      0       0      T\n"},
		{args: "ls --limit 2 --after counters/c --json", want: `{"after":"posts/7","counters":[{"counter":"counters/d","rollup":{"totals":{},"num_shards":1,"as_of":"T"}},{"counter":"posts/7","rollup":null}]}` + "\n"},
		{args: "ls --limit 2 --after posts/7 --json", want: `{"after":"","counters":[{"counter":"posts/8","rollup":{"totals":{"likes":1,"unique":0,"views":0},"num_shards":1,"as_of":"T"}}]}` + "\n"},
	})

	// Two counters' documents are one: each is listed by its roll-up.
	t.Setenv("TALLY_ROUTES", "posts/{post}/likes/{user} -> post_likes/{post} : count(); posts/{post}/views/{shard} -> post_views/{post} : n")
	c.set("post_likes/8", map[string]any{})
	c.set("post_views/8", map[string]any{})
	c.tell([]step{
		{args: "ls --limit 1", want: "COUNTER       count  DOCUMENTS  AS OF\npost_likes/8  -      -          -\n"},
		{args: "ls --after post_likes/8", want: "COUNTER       n  SHARDS  AS OF\npost_views/8  -  -       -\n"},
	})
}

func TestWatch(t *testing.T) {
	c := newConsole(t)
	c.set("counters/views", map[string]any{})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	reader, writer := io.Pipe()
	var logs bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"watch", "likes", "views", "--json", "--project", c.project}, writer, &logs)
		writer.Close()
	}()
	lines := json.NewDecoder(reader)
	age, seen := regexp.MustCompile(`"age_ms":[0-9.]+`), make(map[string]bool)
	await := func(want string) (line json.RawMessage) {
		t.Helper()
		for {
			line = nil
			if err := lines.Decode(&line); err != nil {
				t.Fatalf("%s was not printed: %v\n%s", want, err, &logs)
			}
			if said := age.ReplaceAllString(string(line), ""); seen[said] {
				t.Errorf("printed again: %s", line)
			} else {
				seen[said] = true
			}
			if times.ReplaceAllString(string(line), "T") == want {
				return line
			}
		}
	}
	await(`{"counter":"counters/likes","rollup":null}`)
	for n := 1; n <= 2; n++ {
		c.set("counters/likes/shards/0", map[string]any{"count": n})
		c.set("rollups/likes", map[string]any{"title": n}) // by the app
		c.rollUp("counters/likes/shards/0")
		await(fmt.Sprintf(`{"counter":"counters/likes","rollup":{"totals":{"count":%d},"num_shards":1,"as_of":"T",T}}`, n))
	}
	c.set("counters/views/shards/0", map[string]any{"count": 7})
	c.rollUp("counters/views/shards/0")
	shows(t, commandNamed(t, "watch"), await(`{"counter":"counters/views","rollup":{"totals":{"count":7},"num_shards":1,"as_of":"T",T}}`))
	_, out, _ := c.run("get", "views", "--json")
	shows(t, commandNamed(t, "get"), []byte(out))
	stop()
	go io.Copy(io.Discard, reader)
	if status := <-ended; status != 0 || !strings.Contains(logs.String(), "no such counter: counters/likes; ") {
		t.Errorf("Ctrl-C: status %d, %s", status, &logs)
	}
}

// commandNamed returns the command of a name.
func commandNamed(t *testing.T, name string) *cobra.Command {
	t.Helper()
	c, _, err := rootCommand().Find([]string{name})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Where events are deferred, the commands say when a counter is due.
func TestDue(t *testing.T) {
	c := newConsole(t)
	t.Setenv("TALLY_ROUTES", "posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing : cadence 1h")
	counter := c.counter(os.Getenv("TALLY_ROUTES"), "posts/7/likes/ann")
	now := time.Now().Truncate(time.Microsecond).UTC()
	for post, used := range map[string]time.Time{"7": now.Add(5 * time.Hour), "8": now.Add(time.Hour)} {
		tally := document.Tally{AsOf: now, NumShards: 1, PacedUntil: used, Routes: counter.Template.Hash(), Totals: []string{"likes"}}
		c.set("posts/"+post, map[string]any{"likes": 1, document.TallyField: tally.Encode()})
		c.set("posts/"+post+"/likes/ann", map[string]any{})
	}
	c.set("posts/9", map[string]any{})

	due := now.Add(time.Hour).Format(time.RFC3339Nano)
	for args, want := range map[string]string{
		"ls": `^COUNTER  likes  DOCUMENTS  AS OF +DUE
posts/7  1      1          \S+ +` + due + `
posts/8  1      1          \S+ +on change
posts/9  -      -          - +on change
$`,
		"ls --json --limit 1": `"due":"` + due + `"`,
		"get posts/7":         `old  due at ` + due + "\n$",
		"get posts/7 --json":  `"due":"` + due + `"`,
		"get posts/8":         ` old\n$`,
		"get posts/7 --routes posts/{post}/likes/{user}->posts/{post}:count()as\tlikes:existing": ` old\n$`,
	} {
		status, out, errors := c.run(strings.Split(args, " ")...)
		if status != 0 || !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("%s: status %d, %s%s\nwant %s", args, status, out, errors, want)
		}
	}
}
