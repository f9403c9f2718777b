package test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// A tag of an action may be moved to other code, which then makes the releases. So workflows name
// commits, each with its version for those who read it.
func TestWorkflows(t *testing.T) {
	uses := regexp.MustCompile(`(?m)^\s*-? *uses: *(.*)$`)
	pinned := regexp.MustCompile(`^[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	files, err := filepath.Glob(".github/workflows/*.yml")
	if err != nil || len(files) < 2 {
		t.Fatalf("%d workflows, %v", len(files), err)
	}

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
	}
}

// A dependency of the build, or a script of npm's, would publish what it likes if it ran in a job
// that may. So the jobs with rights of their own take what another job made.
func TestPublishersBuildNothing(t *testing.T) {
	type job struct {
		Permissions map[string]string
		Needs       string
		Steps       []struct{ Uses, Run string }
	}
	separator := regexp.MustCompile(`[\n;&|]+\s*`)
	harmless := regexp.MustCompile(`^(gh release (create|download) |npm publish --ignore-scripts |diff |sha256sum |cd |number=|case |\*\) |esac|for |do$|done)`)
	files, err := filepath.Glob(".github/workflows/*.yml")
	if err != nil {
		t.Fatal(err)
	}

	var publishers []string
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var workflow struct{ Jobs map[string]job }
		err = yaml.Unmarshal(data, &workflow)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}

		for name, job := range workflow.Jobs {
			if !slices.Contains(slices.Collect(maps.Values(job.Permissions)), "write") {
				continue
			}
			if job.Permissions["id-token"] == "write" {
				publishers = append(publishers, file+" "+name)
			}
			if job.Needs == "" {
				t.Errorf("%s: job %s has rights, and takes nothing from a job that has none", file, name)
			}
			for _, step := range job.Steps {
				action, _, _ := strings.Cut(step.Uses, "@")
				if !slices.Contains([]string{"", "actions/download-artifact", "actions/setup-node"}, action) {
					t.Errorf("%s: job %s has rights, and uses %s", file, name, action)
				}
				for _, command := range separator.Split(step.Run, -1) {
					if command != "" && !harmless.MatchString(command) {
						t.Errorf("%s: job %s has rights, and runs %s", file, name, command)
					}
				}
			}
		}
	}
	if len(publishers) != 1 {
		t.Errorf("%q may publish as this repository, want one job", publishers)
	}
}
