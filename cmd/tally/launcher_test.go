//go:build unix

package main

import (
	"os"
	"testing"
)

// The end of npm's launcher ends everything, as a signal does.
func TestLauncherEnds(t *testing.T) {
	t.Parallel()
	lifeline, launcher, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c := tally(t, "dev", "--firestore-port=0", "--functions-port=0", "--dashboard=false")
	c.ExtraFiles, c.Env = []*os.File{lifeline}, append(c.Env, launcherVariable+"=npm")
	out := c.follow(t)
	out.await("Add 1 from here")
	lifeline.Close()

	ports := out.ports()
	launcher.Close()
	out.awaitExit(0)
	wantNoListeners(t, ports...)
}
