//go:build !unix

package main

import "os"

// launcherWaiter returns a function that waits for the end of the launcher. Its error says that
// nothing can be waited for. Windows passes no further file descriptors, but lets any process wait
// for any other.
func launcherWaiter() (wait func() error) {
	parent, err := os.FindProcess(os.Getppid())
	return func() error {
		if err == nil {
			_, err = parent.Wait()
		}
		return err
	}
}
