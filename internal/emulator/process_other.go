//go:build !unix

package emulator

import (
	"io"
	"os/exec"
)

// startProcess starts the program as a plain child. Without a POSIX shell there is no guard: stop
// ends the program, but it outlives a parent that is killed.
func startProcess(to io.Writer, name string, args ...string) (*process, error) {
	p := &process{output: &output{next: to}, done: make(chan struct{})}
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = p.output, p.output
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p.pid = cmd.Process.Pid
	p.kill = func() { _ = cmd.Process.Kill() } // fails only if the program has ended
	go func() { p.finish(cmd.Wait()) }()
	return p, nil
}
