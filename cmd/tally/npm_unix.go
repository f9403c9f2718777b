//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// inOwnGroup keeps a terminal's Ctrl-C from c, which is this process's to act on.
func inOwnGroup(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
