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
// as tally init makes it. The job ends as its tests do.
func TestJob(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts two emulators")
	}
	emulatortest.Need(t)
	page, err := os.ReadFile("../../docs/recipes.md")
	if err != nil {
		t.Fatal(err)
	}
	job := regexp.MustCompile("(?s)\n## In a CI job\n.*?```sh\n(.*?)```").FindSubmatch(page)
	if job == nil {
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

	for tests, passes := range map[string]bool{
		"tally create likes && tally increment likes": true,
		"false": false,
	} {
		port := strconv.Itoa(freePorts(t, 1))
		script := strings.NewReplacer("8080", port, "--dashboard=false", "--dashboard=false --functions-port=0", "npm test", tests).Replace(string(job[1]))
		c := exec.CommandContext(t.Context(), "sh", "-ec", "test -f tally.yaml || tally init --routes='"+"counters/{counter}/shards/{shard} -> rollups/{counter} : count"+"'\n"+script)
		c.Dir = dir
		c.Env = append(os.Environ(), asTally+"=1", "FIRESTORE_EMULATOR_HOST=", "PATH="+programs+string(os.PathListSeparator)+os.Getenv("PATH"))
		out, err := c.CombinedOutput()
		if (err == nil) != passes {
			t.Errorf("%s: %v:\n%s", tests, err, out)
		}
		n, _ := strconv.Atoi(port) // it was written above
		wantNoListeners(t, n)
	}
}
