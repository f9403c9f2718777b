//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// endWithChildren has the end of c's context kill all that c started too.
func endWithChildren(c *exec.Cmd) {
	inOwnGroup(c)
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
}

// inOwnGroup keeps a terminal's Ctrl-C from c, which is this process's to act on.
func inOwnGroup(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
