//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/firestore-tally/tally/internal/test/emulatortest"
)

// The job of docs/recipes.md starts the emulator with Tally, waits, tests and stops both, in an app
// as tally init makes it. The job ends as its tests do: those that fail run on an emulator that was
// there before.
func TestJob(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts an emulator")
	}
	emulatortest.Need(t)
	page, err := os.ReadFile("../../docs/recipes.md")
	if err != nil {
		t.Fatal(err)
	}
	recipe := regexp.MustCompile("(?s)\n## In a CI job\n.*?```sh\n(.*?)```").FindSubmatch(page)
	if recipe == nil {
		t.Fatal("recipes.md has no job")
	}
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, programs := t.TempDir(), t.TempDir()
	if err := os.Symlink(executable, filepath.Join(programs, "tally")); err != nil {
		t.Fatal(err)
	}

	project := "GOOGLE_CLOUD_PROJECT=" + emulatortest.Project(t)
	for _, job := range []struct {
		tests  string
		passes bool
		env    []string
	}{
		{"tally create likes && tally increment likes", true, []string{"FIRESTORE_EMULATOR_HOST="}},
		{"false", false, append(onShared(t), project)},
	} {
		port := strconv.Itoa(freePorts(t, 1))
		script := strings.NewReplacer("8080", port, "--dashboard=false", "--dashboard=false --functions-port=0", "npm test", job.tests).Replace(string(recipe[1]))
		c := exec.CommandContext(t.Context(), "sh", "-ec", "test -f tally.yaml || tally init --routes='"+"counters/{counter}/shards/{shard} -> rollups/{counter} : count"+"'\n"+script)
		c.Dir = dir
		c.Env = append(os.Environ(), asTally+"=1", "PATH="+programs+string(os.PathListSeparator)+os.Getenv("PATH"))
		c.Env = append(c.Env, job.env...)
		out, err := c.CombinedOutput()
		if (err == nil) != job.passes {
			t.Errorf("%s: %v:\n%s", job.tests, err, out)
		}
		log, err := os.ReadFile(filepath.Join(dir, "tally.log"))
		if !strings.Contains(string(log), "Point an app at it") {
			t.Errorf("%s: tally dev did not run (%v): %s\n%s", job.tests, err, log, out)
		}
		n, _ := strconv.Atoi(port) // it was written above
		wantNoListeners(t, n)
	}
}
