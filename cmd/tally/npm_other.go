//go:build !unix

package main

import (
	"os/exec"
	"strconv"
)

// endWithChildren has the end of c's context kill all that c started too: npm is a script on Windows,
// whose children outlive it.
func endWithChildren(c *exec.Cmd) {
	c.Cancel = func() error { return exec.Command("taskkill", "/T", "/F", "/PID", strconv.Itoa(c.Process.Pid)).Run() }
}

// inOwnGroup does nothing: a Ctrl-C reaches every process of the console.
func inOwnGroup(*exec.Cmd) {}
