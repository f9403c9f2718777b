//go:build unix

package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/internal/tool/local/emulator"
	"github.com/rogpeppe/go-internal/testscript"
)

// TestStory plays testdata/story: what a user types and reads, in an empty folder, with tally on
// the PATH, an emulator that runs and a project of the story's own. A line is a command of
// testscript (https://pkg.go.dev/github.com/rogpeppe/go-internal/testscript), or one of these:
//
//	put PATH JSON       write fields of a document, past the rules; PATH is as in a Go string, as is SHARD
//	doc PATH            print a document as JSON
//	rollup SHARD        have the engine roll up the counter of a shard, by the default route
//	client USER SHARD   add 1 to a shard as a signed-in user's app does, bound by firestore.rules
//	await FILE REGEXP   until a file has that; $match is then the group in the expression, if any
//
// A command that runs next to the story is begun by exec sh -c 'exec tally dev > dev 2>&1' &dev&,
// and gets a Ctrl-C by kill -INT dev.
func TestStory(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/story",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			c := newConsole(env.T().(testing.TB))
			env.Values["console"] = c
			env.Setenv("FIRESTORE_EMULATOR_HOST", emulatortest.Addr(t))
			env.Setenv("GOOGLE_CLOUD_PROJECT", c.project)
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("FIREBASE_EMULATORS_PATH", emulators(t)) // HOME is another
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"put": put, "doc": doc, "rollup": rollUpShard, "client": client, "await": await},
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
	_, err := c.client.Doc(unquoted(ts, args[0])).Set(c.t.Context(), fields, firestore.MergeAll)
	ts.Check(err)
}

func doc(ts *testscript.TestScript, _ bool, args []string) {
	c := ts.Value("console").(*console)
	doc, err := c.client.Doc(args[0]).Get(c.t.Context())
	ts.Check(err)
	ts.Check(json.NewEncoder(ts.Stdout()).Encode(doc.Data()))
}

func rollUpShard(ts *testscript.TestScript, _ bool, args []string) {
	ts.Value("console").(*console).rollUp(unquoted(ts, args[0]))
}

func unquoted(ts *testscript.TestScript, path string) string {
	path, err := strconv.Unquote(`"` + path + `"`)
	ts.Check(err)
	return path
}

func client(ts *testscript.TestScript, refused bool, args []string) {
	rules, err := os.ReadFile("../../firestore.rules")
	ts.Check(err)
	c := ts.Value("console").(*console)
	ctx, addr := c.t.Context(), emulatortest.Addr(c.t)
	ts.Check(emulator.SetRules(ctx, addr, c.project, emulator.DefaultDatabase, string(rules)))
	database := "projects/" + c.project + "/databases/(default)/documents"
	body := fmt.Sprintf(`{"writes":[{"update":{"name":%q},"updateMask":{},"updateTransforms":[{"fieldPath":"count","increment":{"integerValue":1}}]}]}`,
		database+"/"+args[1])
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/v1/"+database+":commit", strings.NewReader(body))
	ts.Check(err)
	part := base64.RawURLEncoding.EncodeToString
	token := part([]byte(`{"alg":"none"}`)) + "." + part(fmt.Appendf(nil, `{"sub":%q}`, args[0])) + "." // without a signature
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	ts.Check(err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	ts.Check(err)
	if refused != (resp.StatusCode == http.StatusForbidden) {
		ts.Fatalf("%s: %s", resp.Status, text)
	}
	fmt.Fprintf(ts.Stderr(), "%s", text)
}

func await(ts *testscript.TestScript, _ bool, args []string) {
	awaited, err := regexp.Compile(args[1])
	ts.Check(err)
	poll := time.NewTicker(10 * time.Millisecond) // nothing tells when another process has written to a file
	defer poll.Stop()
	deadline := time.After(emulatortest.Eventually())
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
