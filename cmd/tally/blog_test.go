package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/firestore-tally/tally/internal/tool/appfolder"
)

// The example's settings are what tally init writes, and its rules are those of tally init with
// answers: each line stands there in its order, except for the lines with a question. So an answer
// adds to a condition, and takes nothing away that is no question.
func TestBlogIsWhatInitWrites(t *testing.T) {
	blog := filepath.Join("..", "..", "examples", "blog")
	read := func(dir, name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	folder, err := appfolder.Find(blog, "")
	if err != nil {
		t.Fatal(err)
	}
	settings, rules := read(blog, appfolder.FileName), read(blog, rulesFile)
	firebase := read(blog, "firebase.json")

	dir := t.TempDir()
	t.Chdir(dir)
	a := answers{routes: string(folder.Settings.Routes)}
	if _, err := a.write(&appfolder.Folder{}); err != nil {
		t.Fatal(err)
	}
	if got := read(dir, appfolder.FileName); got != settings {
		t.Errorf("tally.yaml: tally init writes\n%s\nand the blog has\n%s", got, settings)
	}
	if got := read(dir, "firebase.json"); got != firebase {
		t.Errorf("firebase.json: tally init writes\n%s\nand the blog has\n%s", got, firebase)
	}
	if strings.Contains(rules, "decide:") {
		t.Error("the blog's rules leave a question open")
	}

	_, written, _ := strings.Cut(read(dir, rulesFile), "service cloud.firestore")
	_, rest, _ := strings.Cut(rules, "service cloud.firestore")
	for line := range strings.Lines(written) {
		line = strings.TrimRight(strings.TrimSpace(line), ";")
		if strings.Contains(line, "// decide:") {
			line, _, _ = strings.Cut(line, " if ") // of which the answer is all that follows
			if !strings.HasPrefix(line, "allow") {
				continue
			}
		}
		_, after, found := strings.Cut(rest, line)
		if !found {
			t.Errorf("the blog's rules lack, or have elsewhere: %s", line)
			continue
		}
		rest = after
	}
}
