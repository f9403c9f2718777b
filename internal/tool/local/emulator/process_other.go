//go:build !unix

package emulator

import (
	"io"
	"os/exec"
)

// startProcess starts the program as a plain child. hears gets what it prints. Without a POSIX
// shell there is no guard: stop ends the program, but it outlives a parent that is killed.
func startProcess(hears io.Writer, name string, args ...string) (*process, error) {
	p := &process{done: make(chan struct{}), output: output{hears: hears}}
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = &p.output, &p.output
	err := cmd.Start()
	if err != nil {
		return nil, err
	}

	p.pid = cmd.Process.Pid
	p.kill = func() { _ = cmd.Process.Kill() } // fails only if the program has ended
	go func() { p.finish(cmd.Wait()) }()
	return p, nil
}
