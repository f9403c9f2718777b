//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/cloud/billing"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/rollup"
	"github.com/google/go-cmp/cmp"
)

const pagesRoute = "pages/{page}/_counter_shards_/{shard} -> page_totals/{page} : visits, likes"

// randomShard is the path of a shard of the extension's clients.
func randomShard(page string, n int) string {
	return fmt.Sprintf("%s/_counter_shards_/%08x-7f3a-4d4e-9c1b-2f6e0a9d5c11", page, n*0x1234567)
}

// pages writes documents of the extension.
func (c *console) pages() {
	c.set("pages/a", map[string]any{"visits": 1000, "likes": 10})
	c.set("pages/b", map[string]any{"visits": 7})
	for n := range 3 {
		c.set(randomShard("pages/a", n), map[string]any{"visits": 1})
	}
	c.set("pages/a/_counter_shards_/\t\t\t\t0", map[string]any{"_updates_": []any{map[string]any{"_id_": "x", "_data_": map[string]any{"visits": 20}}}})
}

// everything is all documents of the collections, and when they were written.
func (c *console) everything(groups ...string) map[string]string {
	c.t.Helper()
	all := map[string]string{}
	for _, group := range groups {
		docs, err := c.client.CollectionGroup(group).Documents(c.t.Context()).GetAll()
		if err != nil {
			c.t.Fatal(err)
		}
		for _, doc := range docs {
			all[doc.Ref.Path] = doc.UpdateTime.String()
		}
	}
	return all
}

func TestMigrateExtension(t *testing.T) {
	c := newConsole(t)
	c.pages()
	stdin := os.Stdin
	t.Cleanup(func() { os.Stdin = stdin })
	before := c.everything("pages", "_counter_shards_", "increment_tokens")
	const found = `documents  2, with something left to do for 2
to fold    4 shards, 1 of them partial sums
to carry   likes 10, visits 1007
to bill    about 28 reads, 10 writes, 4 deletes: $0.0000 at list price in us-central1, without the roll-ups that follow
extension  left no sign of when it ran
`
	const asked = `
The extension must have been uninstalled in project PROJECT for 3m0s, or it takes the shards away again.
The documents' fields are not updated from now on until Tally writes them. Do not read them by the extension's client library any more: it adds its own shard.
Is the extension uninstalled? [y/N] `
	for _, step := range []struct {
		name   string
		before func()
		answer string
		args   string
		want   string // of standard output
		logged string
		writes bool
	}{
		{name: "no routes", logged: "the routes are assumed"},
		{name: "no route of the extension", args: "--routes=counters/{counter}/shards/{shard}->rollups/{counter}:count", logged: "tally: no route has its shards in _counter_shards_"},
		{name: "concurrency", args: "--routes=ROUTE --concurrency=0", logged: "tally: --concurrency 0"},
		{name: "dry run", args: "--routes=ROUTE --dry-run", want: `pages/a: fold 4 of 4 shards; carry likes 10, visits 1000; then likes 10, visits 1023
pages/b: fold 0 of 0 shards; carry likes 0, visits 7; then likes 0, visits 7
` + found},
		{name: "no answer", args: "--routes=ROUTE", want: found, logged: asked + "\ntally: nothing was changed; --yes continues without a question"},
		{name: "no", args: "--routes=ROUTE", answer: "n\n", want: found, logged: asked + "tally: nothing was changed; --yes continues without a question"},
		{name: "the extension runs", args: "--routes=ROUTE --yes", before: func() { c.set("_firebase_ext_/sharded_counter", map[string]any{"workers": 0}) },
			want: strings.Replace(found, "left no sign of when it ran", "ran AGO ago", 1), logged: "tally: the extension ran AGO ago: uninstall it, and begin 3m0s after its last run; nothing was changed"},
		{name: "uncounted", args: "--routes=ROUTE --yes", before: func() {
			c.delete("_firebase_ext_/sharded_counter")
			c.set("sites/s/pages/p/_counter_shards_/0", map[string]any{"visits": 1})
		}, want: strings.Replace(found, "28 reads", "29 reads", 1) + `NOT COUNTED: no route serves sites/*/pages/*/_counter_shards_: visits 1 (shards: 1; such as "sites/s/pages/p/_counter_shards_/0")
`, logged: "tally: some amounts would not be counted"},
		{name: "yes", args: "--routes=ROUTE --leave-uncounted", answer: "y\n", writes: true, want: strings.Replace(found, "28 reads", "29 reads", 1) +
			`NOT COUNTED: no route serves sites/*/pages/*/_counter_shards_: visits 1 (shards: 1; such as "sites/s/pages/p/_counter_shards_/0")
done       2 documents
exact      2 of 3 documents
left out   amounts of 1 document, by the lines NOT COUNTED
roll-ups   none yet: when Tally's functions are deployed, tally audit compares them
`},
	} {
		args := []string{"migrate", "--from-extension"}
		for arg := range strings.FieldsSeq(step.args) {
			args = append(args, strings.ReplaceAll(arg, "ROUTE", pagesRoute))
		}
		if step.before != nil {
			step.before()
			before = c.everything("pages", "_counter_shards_", "increment_tokens")
		}
		answer := filepath.Join(t.TempDir(), "answer")
		write(t, answer, []byte(step.answer))
		var err error
		if os.Stdin, err = os.Open(answer); err != nil {
			t.Fatal(err)
		}
		status, out, logs := c.run(args...)
		os.Stdin.Close()
		steady := func(text string) string {
			text = regexp.MustCompile(`ran [\w.]+ ago`).ReplaceAllString(strings.ReplaceAll(text, c.project, "PROJECT"), "ran AGO ago")
			return regexp.MustCompile(`(?m)^billed .*\n`).ReplaceAllString(text, "")
		}
		if diff := cmp.Diff(step.want, steady(out)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
		if failed := step.logged != ""; !strings.Contains(steady(logs), step.logged) || failed != (status == 1) || status > 1 {
			t.Errorf("%s: status %d, logged %s", step.name, status, logs)
		}
		if unchanged := cmp.Equal(before, c.everything("pages", "_counter_shards_", "increment_tokens")); unchanged == step.writes {
			t.Errorf("%s: it wrote something: %v", step.name, !unchanged)
		}
	}

	// Again, it finds nothing to do, asks nothing, and writes nothing.
	status, out, logs := c.run("migrate", "--from-extension", "--routes", pagesRoute, "--leave-uncounted", "--json")
	var m struct {
		Documents, Fold int
		ToDo            int `json:"to_do"`
		LeftOut         int `json:"left_out"`
		Uncounted       []any
		RollUps         *rollup.Report `json:"roll_ups"`
		Billed          billing.Counts
	}
	if err := json.Unmarshal([]byte(out), &m); err != nil || status != 0 {
		t.Fatalf("status %d, %v: %s\n%s", status, err, out, logs)
	}
	if m.Documents != 2 || m.ToDo != 0 || m.Fold != 0 || len(m.Uncounted) != 1 || m.Billed.Writes+m.Billed.Deletes != 0 || m.RollUps != nil {
		t.Errorf("again: %s", out)
	}
	if !strings.Contains(logs, "exact      2 of 3 documents") || !strings.Contains(out, `"amounts":{"visits":1}`) || m.LeftOut != 1 {
		t.Errorf("again: %s, logged %s", out, logs)
	}

	// The functions make the roll-ups, of the sums of the shards.
	t.Setenv("TALLY_ROUTES", pagesRoute+"; sites/{site}/pages/{page}/_counter_shards_/{shard} -> sites/{site}/page_totals/{page} : visits")
	c.rollUpBy(os.Getenv("TALLY_ROUTES"), "pages/a/_counter_shards_/0")
	c.rollUpBy(os.Getenv("TALLY_ROUTES"), "pages/b/_counter_shards_/0")
	c.rollUpBy(os.Getenv("TALLY_ROUTES"), "sites/s/pages/p/_counter_shards_/0")
	status, out, logs = c.run("migrate", "--from-extension")
	if status != 0 || !strings.Contains(out, "exact      3 of 3 documents\nroll-ups   3, of which 0 differ from their shards\n") {
		t.Errorf("rolled up: status %d: %s\n%s", status, out, logs)
	}
	doc, err := c.client.Doc("page_totals/a").Get(t.Context())
	if err != nil || doc.Data()["visits"] != int64(1023) || doc.Data()["likes"] != int64(10) {
		t.Errorf("roll-up %v (%v)", doc.Data(), err)
	}
}

func (c *console) delete(path string) {
	c.t.Helper()
	if _, err := c.client.Doc(path).Delete(c.t.Context(), firestore.Exists); err != nil {
		c.t.Fatal(err)
	}
}

// A run is stopped, the next is killed, and the third finishes.
func TestMigrateGoesOn(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	const n = 300
	bulk := c.client.BulkWriter(t.Context())
	for i := range n {
		page := fmt.Sprint("pages/", i)
		for path, fields := range map[string]map[string]any{page: {"visits": 100, "likes": 5}, randomShard(page, 1): {"visits": 1}, randomShard(page, 2): {"visits": 1, "likes": 2}} {
			if _, err := bulk.Set(c.client.Doc(path), fields); err != nil {
				t.Fatal(err)
			}
		}
	}
	bulk.End()
	notes := func() int { return len(c.everything("increment_tokens")) }
	begin := func(signal os.Signal, after int) (status *os.ProcessState, logs string) {
		t.Helper()
		executable, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		var output bytes.Buffer
		cmd := exec.Command(executable, "migrate", "--from-extension", "--project", c.project, "--routes", pagesRoute, "--yes", "--concurrency", "2")
		cmd.Env = append(os.Environ(), asTally+"=1", "FIRESTORE_EMULATOR_HOST="+emulatortest.Addr(t))
		cmd.Stdout, cmd.Stderr = &output, &output
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if signal != nil {
			again := time.NewTicker(10 * time.Millisecond)
			defer again.Stop()
			for notes() < after {
				<-again.C
			}
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
		}
		_ = cmd.Wait() // the state says it
		return cmd.ProcessState, output.String()
	}
	status, logs := begin(syscall.SIGINT, 20)
	if status.ExitCode() != interrupted || !regexp.MustCompile(`(?m)^\d+ of 300 documents are done. Nothing is half done`).MatchString(logs) {
		t.Errorf("stopped: status %v: %s", status, logs)
	}
	before := notes()
	if status, logs = begin(os.Kill, before+100); status.Success() {
		t.Errorf("killed: status %v: %s", status, logs)
	}
	if left := notes(); left == 2*n {
		t.Error("nothing was left to do")
	}
	if status, logs = begin(nil, 0); !status.Success() || !strings.Contains(logs, "exact      300 of 300 documents\n") {
		t.Errorf("finished: status %v: %s", status, logs)
	}
	for i := range n {
		if got := c.sums(fmt.Sprintf("pages/%d/_counter_shards_", i)); got != [2]int64{102, 7} {
			t.Errorf("page %d: %v", i, got)
		}
	}
}

// sums adds up the visits and likes of shards.
func (c *console) sums(collection string) (sums [2]int64) {
	c.t.Helper()
	docs, err := c.client.Collection(collection).Documents(c.t.Context()).GetAll()
	if err != nil {
		c.t.Fatal(err)
	}
	for _, doc := range docs {
		for i, field := range []string{"visits", "likes"} {
			n, _ := doc.Data()[field].(int64)
			sums[i] += n
		}
	}
	return sums
}
