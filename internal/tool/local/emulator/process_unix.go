//go:build unix

package emulator

import (
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
)

// guard is the shell script that stands between this process and the program. It has the program
// die with this process, even when this process is killed.
//
// The guard's standard input is a pipe whose other end only this process has. The guard reads it
// until that end is closed, and then kills the program. Three things close it: stop, the end of the
// program's output, and the death of this process.
//
// The guard starts the program itself. So the program never starts without a guard, and the guard
// reaps it. The guard gives up its own copy of the output pipe. So the output ends when the program
// does, and that tells this process that the program has ended.
const guard = `
"$@" </dev/null &
exec >/dev/null 2>&1
read -r line
kill -9 $!
wait $!
`

// startProcess starts the program under its guard. hears gets what the program prints. Both are in
// a process group of their own, so that a Ctrl-C in the terminal reaches this process only, which
// decides when the program ends.
func startProcess(hears io.Writer, name string, args ...string) (*process, error) {
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
	p.output.onLine = hears

	drained := make(chan struct{})
	go func() {
		defer close(drained)
		defer printed.Close()
		_, _ = io.Copy(&p.output, printed) // it fails only when the pipe is closed
		p.kill()                           // the program has ended; now its guard ends too
	}()

	go func() {
		err := cmd.Wait()
		status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
		if ok && status.Signaled() {
			// Somebody killed the guard. The program alone is left in their process group.
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		}
		<-drained
		p.finish(err)
	}()
	return p, nil
}
