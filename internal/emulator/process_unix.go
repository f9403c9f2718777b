//go:build unix

package emulator

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// guard is the shell script that stands between this process and the program it starts. It is what makes the program die
// with this process even when this process is killed and can do nothing any more: its standard input is a pipe of which
// only this process has the other end, so it reads nothing there until that end is closed, by Stop or by death.
//
// The guard is the program's parent, so there is no instant at which the program runs and nobody would end it, and it reaps
// what it ends. It keeps no copy of the output pipe: the end of the output tells that the program has ended by itself.
const guard = `
"$@" </dev/null 3>&- &
echo $! >&3
exec >/dev/null 2>&1 3>&-
read -r line
kill -9 $!
wait $!
`

// startProcess starts the program under its guard. Both are in a process group of their own, so a Ctrl-C in the terminal
// does not reach the program before the parent has decided what to do about it.
func startProcess(to io.Writer, name string, args ...string) (*process, error) {
	outRead, outWrite, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer outWrite.Close()
	pidRead, pidWrite, err := os.Pipe()
	if err != nil {
		outRead.Close()
		return nil, err
	}
	defer pidRead.Close()
	defer pidWrite.Close()

	cmd := exec.Command("/bin/sh", append([]string{"-c", guard, "guard", name}, args...)...)
	cmd.Stdout, cmd.Stderr = outWrite, outWrite
	cmd.ExtraFiles = []*os.File{pidWrite} // descriptor 3
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	lifeline, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		outRead.Close()
		return nil, err
	}
	outWrite.Close()
	pidWrite.Close()

	p := &process{
		kill:   sync.OnceFunc(func() { lifeline.Close() }),
		output: &output{next: to},
		done:   make(chan struct{}),
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		defer outRead.Close()
		_, _ = io.Copy(p.output, outRead) // neither end fails, but by closing
		p.kill()                          // the program has ended: so shall its guard
	}()
	go func() {
		err := cmd.Wait()
		if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			// Somebody killed the guard. The program is what is left of its group.
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		}
		<-drained
		if err == nil {
			err = errors.New("exit status 0")
		}
		p.finish(err)
	}()

	line, err := io.ReadAll(pidRead)
	if err == nil {
		p.pid, err = strconv.Atoi(strings.TrimSpace(string(line)))
	}
	if err != nil {
		_ = p.stop()
		return nil, fmt.Errorf("no process id from its guard: %w", err)
	}
	return p, nil
}
