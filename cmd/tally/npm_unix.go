//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// endWithChildren has the end of c's context kill all that c started too, and keeps a terminal's Ctrl-C
// from them, which is this process's to act on.
func endWithChildren(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
}
