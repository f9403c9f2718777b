//go:build unix

package emulator

import (
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
)

// guard is the shell script that stands between this process and the program it starts, so that the
// program dies with this process even when this process is killed. The guard's standard input is a
// pipe of which only this process has the other end. It reads nothing there until that end is
// closed, by Stop or by death; then it kills the program.
//
// The guard is the program's parent, so at no instant the program runs and nobody would end it, and
// it reaps what it ends. It keeps no copy of the output pipe: the end of the output tells that the
// program has ended by itself.
const guard = `
"$@" </dev/null &
exec >/dev/null 2>&1
read -r line
kill -9 $!
wait $!
`

// startProcess starts the program under its guard. Both are in a process group of their own, so a
// Ctrl-C in the terminal does not reach the program before the parent has decided what to do.
func startProcess(name string, args ...string) (*process, error) {
	printed, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("/bin/sh", append([]string{"-c", guard, "guard", name}, args...)...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	lifeline, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	out.Close()
	if err != nil {
		printed.Close()
		return nil, err
	}

	p := &process{
		pid:  cmd.Process.Pid,
		kill: sync.OnceFunc(func() { lifeline.Close() }),
		done: make(chan struct{}),
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		defer printed.Close()
		_, _ = io.Copy(&p.output, printed) // neither end fails, but by closing
		p.kill()                           // the program has ended: so shall its guard
	}()
	go func() {
		err := cmd.Wait()
		if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			// Somebody killed the guard. The program is what is left of its group.
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		}
		<-drained
		p.finish(err)
	}()
	return p, nil
}
