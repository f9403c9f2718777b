package emulator

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"sync/atomic"
)

// A process is a running child, which startProcess starts. On Unix the child dies with this
// process, even if this process is killed (process_unix.go). Elsewhere it outlives a killed parent
// (process_other.go).
type process struct {
	pid    int    // of the program's guard if it has one, else of the program
	kill   func() // makes the program end and does not wait; may be called at any time, more than once
	output output

	// done is closed when the program has ended, output has all that it printed, and exit is set.
	done chan struct{}
	exit error // how the program ended; nil if stop ended it; valid once done is closed

	stopped atomic.Bool
}

// stop ends the program and waits for its end. If the program had ended by itself before, stop
// returns how.
func (p *process) stop() error {
	p.stopped.Store(true)
	p.kill()
	<-p.done
	return p.exit
}

// finish records the end of the program. err is the error of waiting for it.
func (p *process) finish(err error) {
	if err == nil {
		err = errors.New("exit status 0")
	}
	if !p.stopped.Load() {
		p.exit = err
	}
	close(p.done)
}

// tailSize is how much of the output is kept: more than the longest stack trace seen, little enough
// to print.
const tailSize = 8 << 10

// output remembers the tail of what a process prints.
type output struct {
	onLine io.Writer // gets all of it, too

	mu   sync.Mutex
	tail []byte
}

func (o *output) Write(p []byte) (int, error) {
	o.remember(p)
	return o.onLine.Write(p)
}

func (o *output) remember(p []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()

	o.tail = append(o.tail, p...)
	o.tail = o.tail[max(0, len(o.tail)-tailSize):]
}

// String returns the tail of the output.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.tail)
}

// quote returns the tail as the end of an error message, "" if nothing was printed.
func (o *output) quote() string {
	text := bytes.TrimSpace([]byte(o.String()))
	if len(text) == 0 {
		return ""
	}
	return "\nits last output:\n" + string(text)
}
