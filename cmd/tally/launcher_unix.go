//go:build unix

package main

import (
	"io"
	"os"
	"syscall"
)

// lifeline is the file descriptor of a pipe whose other end only the launcher has. It ends when the
// launcher closes its end, and when the launcher ends.
const lifeline = 3

// launcherWaiter returns a function that waits for the end of the launcher. Its error says that
// nothing can be waited for.
func launcherWaiter() (wait func() error) {
	syscall.CloseOnExec(lifeline)
	pipe := os.NewFile(lifeline, "lifeline")
	return func() error {
		_, err := io.Copy(io.Discard, pipe)
		return err
	}
}
