//go:build unix

package main

import (
	"os"
	"strconv"
	"testing"

	"github.com/firestore-tally/tally/internal/test/emulatortest"
)

// The end of npm's launcher ends everything, as a signal does.
func TestLauncherEnds(t *testing.T) {
	t.Parallel()
	lifeline, launcher, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c := tally(t, "dev", "--functions-port=0", "--dashboard=false", "--every=1h", "--instances=1", "--project", emulatortest.Project(t))
	c.ExtraFiles, c.Env = []*os.File{lifeline}, append(append(c.Env, launcherVariable+"=npm"), onShared(t)...)
	out := c.follow(t)
	out.await("Add 1 from here")
	lifeline.Close()

	functions, err := strconv.Atoi(out.greeted(`http://127\.0\.0\.1:(\d+)/RollUpOnWrite`))
	if err != nil {
		t.Fatal(err)
	}
	launcher.Close()
	out.awaitExit(0)
	wantNoListeners(t, functions)
}
