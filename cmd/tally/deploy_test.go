//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "write testdata/deploy anew")

// cloneFiles is what the stories deploy: the least that looks like a clone of Tally.
const cloneFiles = `
-- go.mod --
module github.com/firestore-tally/tally

go 1.26.0
-- go.sum --
-- functions.go --
package tally
-- deploy/monitoring/metrics/drift.json --
{"name": "tally/drift", "description": "Roll-ups that an audit found late", "filter": "jsonPayload.message=\"drift\""}
-- deploy/monitoring/alerts/drift.json --
{"displayName": "Tally: drift", "combiner": "OR", "conditions": [{"displayName": "drift"}]}
-- deploy/monitoring/alerts/no-tick.json --
{"displayName": "Tally: no tick", "combiner": "OR", "conditions": [{"displayName": "no tick"}]}
-- deploy/monitoring/dashboard.json --
{"displayName": "Tally", "labels": {"tally": ""}, "mosaicLayout": {"columns": 48}}
-- app/firebase.json --
{"firestore": {"rules": "firestore.rules", "indexes": "firestore.indexes.json"}}
-- app/firestore.rules --
match /counters/{counter} { match /shards/{shard} {} } match /rollups/{counter} {}
-- app/firestore.indexes.json --
{"indexes": [], "fieldOverrides": [{"collectionGroup": "rollups", "fieldPath": "tally", "indexes": []}]}
-- bare/firebase.json --
{"firestore": {"rules": "firestore.rules"}}
-- bare/firestore.rules --
match /{document=**} {}
`

// fresh is a new project with a database.
const fresh = `{
	"Version": {"Google Cloud SDK": "528.0.0", "alpha": "2025.06.20", "beta": "2025.06.20"},
	"Number": "123456789",
	"APIs": ["firestore.googleapis.com"],
	"Databases": [{"name": "projects/my-project/databases/(default)", "locationId": "nam5", "type": "FIRESTORE_NATIVE"}]
}`

// TestDeploy plays the stories of testdata/deploy: of a project that the stand-ins for gcloud and
// firebase keep, and of the commands that are called on it one after the other. A file of a story is
// named after
//
//   - a command, and holds what it printed, what it changed by gcloud and firebase (after "$ "), and its exit status if that is not 0;
//   - "project", and holds what the project has from then on;
//   - "edit FILE", and holds what a file of the clone has from then on;
//   - "answer", and holds what the user answers the next command;
//   - "without TOOL", after which gcloud or firebase is not on PATH.
func TestDeploy(t *testing.T) {
	for _, file := range stories(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			told, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			played := play(t, told.Files)
			if *update {
				write(t, file, txtar.Format(&txtar.Archive{Comment: told.Comment, Files: played}))
				return
			}
			for i, f := range told.Files {
				if d := cmp.Diff(string(f.Data), string(played[i].Data)); d != "" {
					t.Errorf("%s (-want +got):\n%s", f.Name, d)
				}
			}
		})
	}
}

func stories(t *testing.T) []string {
	t.Helper()
	folder, err := filepath.Abs("testdata/deploy") // they are played in another folder
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	return files
}

// play plays a story and returns it as it came about. The current folder is its clone from then on,
// and PATH the folder of the stand-ins.
func play(t *testing.T, story []txtar.File) []txtar.File {
	t.Helper()
	dir, source := newStandIn(t), t.TempDir()
	for _, f := range txtar.Parse([]byte(cloneFiles)).Files {
		write(t, filepath.Join(source, f.Name), f.Data)
	}
	t.Chdir(source)
	played := slices.Clone(story)
	for i, f := range story {
		verb, rest, _ := strings.Cut(f.Name, " ")
		switch verb {
		case "project":
			merge(t, filepath.Join(dir, "project.json"), f.Data)
		case "edit":
			write(t, filepath.Join(source, rest), f.Data)
		case "answer":
			write(t, filepath.Join(dir, "answer"), f.Data)
		case "without":
			if err := os.Remove(filepath.Join(dir, rest)); err != nil {
				t.Fatal(err)
			}
		case "tally":
			played[i].Data = []byte(transcript(t, dir, source, shellWords(rest)))
		default:
			t.Fatalf("file %q", f.Name)
		}
	}
	return played
}

// newStandIn puts the stand-ins on PATH, and nothing else, and returns their folder.
func newStandIn(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "gcloud"), "github.com/firestore-tally/tally/internal/standin")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.Link(filepath.Join(dir, "gcloud"), filepath.Join(dir, "firebase")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	write(t, filepath.Join(dir, "project.json"), []byte(fresh))
	return dir
}

// merge puts an object into that of a file: objects into objects, all else in the place of what was
// there.
func merge(t *testing.T, file string, changes []byte) {
	t.Helper()
	var into func(all, more map[string]any)
	into = func(all, more map[string]any) {
		for key, value := range more {
			inner, both := value.(map[string]any)
			if old, ok := all[key].(map[string]any); ok && both {
				into(old, inner)
			} else {
				all[key] = value
			}
		}
	}
	var all, more map[string]any
	data, err := os.ReadFile(file)
	if err == nil {
		err = errors.Join(json.Unmarshal(data, &all), json.Unmarshal(changes, &more))
	}
	if err == nil {
		into(all, more)
		data, err = json.Marshal(all)
	}
	if err != nil {
		t.Fatal(err)
	}
	write(t, file, data)
}

// transcript calls a command and returns what came of it.
func transcript(t *testing.T, dir, source string, args []string) string {
	t.Helper()
	answer, stdin := filepath.Join(dir, "answer"), os.Stdin
	if f, err := os.Open(answer); err == nil {
		os.Stdin = f
		defer func() {
			os.Stdin = stdin
			if err := f.Close(); err != nil {
				t.Error(err)
			}
			if err := os.Remove(answer); err != nil {
				t.Error(err)
			}
		}()
	}
	changes := filepath.Join(dir, "changes")
	if err := os.WriteFile(changes, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var printed bytes.Buffer
	status := 0
	synctest.Test(t, func(t *testing.T) { // so that waiting takes no time
		status = run(t.Context(), args, &printed, &printed)
	})
	done, err := os.ReadFile(changes)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.Write(printed.Bytes())
	for line := range strings.Lines(string(done)) {
		b.WriteString("$ " + line)
	}
	if status != 0 {
		fmt.Fprintf(&b, "exit status %d\n", status)
	}
	return strings.ReplaceAll(b.String(), source, "CLONE")
}

// shellWords splits a line at blanks, but for those between single quotes.
func shellWords(line string) []string {
	var words []string
	for i, part := range strings.Split(line, "'") {
		if i%2 == 0 {
			words = append(words, strings.Fields(part)...)
		} else {
			words = append(words, part)
		}
	}
	return words
}

func write(t *testing.T, file string, data []byte) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(file), 0o700)
	if err == nil {
		err = os.WriteFile(file, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
