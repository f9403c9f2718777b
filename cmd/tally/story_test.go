//go:build unix

package main

import (
	"encoding/json"
	"os"
	"regexp"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/emulator/emulatortest"
	"github.com/rogpeppe/go-internal/testscript"
)

// TestStory plays testdata/story: what a user types and reads, in an empty folder, with tally on the
// PATH, an emulator that runs and a project of the story's own. A line is a command of testscript
// (https://pkg.go.dev/github.com/rogpeppe/go-internal/testscript), or one of these:
//
//	put PATH JSON       write fields of a document, past the rules
//	doc PATH            print a document as JSON
//	rollup SHARD        have the engine roll up the counter of a shard, by the default route
//	await FILE REGEXP   until a file has that; $match is then the group in the expression, if any
//
// A command that runs beside the story is begun by exec sh -c 'exec tally dev > dev 2>&1' &dev&, and gets
// a Ctrl-C by kill -INT dev.
func TestStory(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/story",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			c := newConsole(env.T().(testing.TB))
			env.Values["console"] = c
			env.Setenv("FIRESTORE_EMULATOR_HOST", emulatortest.Addr())
			env.Setenv("GOOGLE_CLOUD_PROJECT", c.project)
			env.Setenv("HOME", env.WorkDir)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"put": put, "doc": doc, "rollup": rollUpShard, "await": await},
	})
}

func put(ts *testscript.TestScript, _ bool, args []string) {
	var fields map[string]any
	ts.Check(json.Unmarshal([]byte(args[1]), &fields))
	for name, value := range fields {
		if f, ok := value.(float64); ok && f == float64(int64(f)) {
			fields[name] = int64(f)
		}
	}
	c := ts.Value("console").(*console)
	_, err := c.client.Doc(args[0]).Set(c.t.Context(), fields, firestore.MergeAll)
	ts.Check(err)
}

func doc(ts *testscript.TestScript, _ bool, args []string) {
	c := ts.Value("console").(*console)
	doc, err := c.client.Doc(args[0]).Get(c.t.Context())
	ts.Check(err)
	ts.Check(json.NewEncoder(ts.Stdout()).Encode(doc.Data()))
}

func rollUpShard(ts *testscript.TestScript, _ bool, args []string) {
	ts.Value("console").(*console).rollUp(args[0])
}

func await(ts *testscript.TestScript, _ bool, args []string) {
	awaited, err := regexp.Compile(args[1])
	ts.Check(err)
	poll := time.NewTicker(10 * time.Millisecond) // nothing tells when another process has written to a file
	defer poll.Stop()
	deadline := time.After(eventually)
	for {
		text, err := os.ReadFile(ts.MkAbs(args[0]))
		if !os.IsNotExist(err) {
			ts.Check(err)
		}
		if match := awaited.FindSubmatch(text); match != nil {
			ts.Setenv("match", string(match[len(match)-1]))
			return
		}
		select {
		case <-poll.C:
		case <-deadline:
			ts.Fatalf("%s has no %s:\n%s", args[0], awaited, text)
		}
	}
}
