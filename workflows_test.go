package tally

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A tag of an action may be moved to other code, which then makes the releases. So workflows name
// commits, each with its version for those who read it. Only one job may publish.
func TestWorkflows(t *testing.T) {
	uses := regexp.MustCompile(`(?m)^\s*-? *uses: *(.*)$`)
	pinned := regexp.MustCompile(`^[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	files, err := filepath.Glob(".github/workflows/*.yml")
	if err != nil || len(files) < 2 {
		t.Fatalf("%d workflows, %v", len(files), err)
	}

	publishers := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text := string(data)

		actions := uses.FindAllStringSubmatch(text, -1)
		if len(actions) == 0 {
			t.Errorf("%s uses no action", file)
		}
		for _, action := range actions {
			if !pinned.MatchString(action[1]) {
				t.Errorf("%s uses %s: want a commit, and its version in a comment", file, action[1])
			}
		}
		if checkouts := strings.Count(text, "actions/checkout@"); checkouts != strings.Count(text, "persist-credentials: false") {
			t.Errorf("%s: a checkout leaves its credentials to the steps behind it", file)
		}
		if !strings.Contains(text, "\npermissions:\n  contents: read\n") {
			t.Errorf("%s: a job without permissions of its own may do more than read", file)
		}
		publishers += strings.Count(text, "id-token: write")
	}
	if publishers != 1 {
		t.Errorf("%d jobs may publish as this repository, want 1", publishers)
	}
}
