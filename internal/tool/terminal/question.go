package terminal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// ErrUnconfirmed ends a command when the user did not agree to go on.
var ErrUnconfirmed = errors.New("nothing was changed; --yes continues without a question")

// answerWithin is how long a question waits where there is no terminal, and so perhaps no user.
const answerWithin = time.Minute

// Confirm asks the user whether to go on, unless yes is set. It returns ErrUnconfirmed if the
// answer is no. No answer is a no, too: the input ends, or it is no terminal and stays silent for
// answerWithin.
func Confirm(ctx context.Context, in io.Reader, logs io.Writer, yes bool, question string) error {
	if yes {
		return nil
	}
	if !IsTerminal(in) {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, answerWithin, ErrUnconfirmed)
		defer stop()
	}

	answer, _ := Ask(ctx, bufio.NewReader(in), logs, question+" [y/N] ")
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	answer = strings.ToLower(answer)
	if answer != "y" && answer != "yes" {
		return ErrUnconfirmed
	}
	return nil
}

// Ask asks a question and returns the next line, without the blanks around it. When ctx ends, it
// returns at once. Its goroutine goes on reading then, which does no harm: the command soon ends.
func Ask(ctx context.Context, in *bufio.Reader, out io.Writer, question string) (answer string, err error) {
	type line struct {
		text string
		err  error
	}

	fmt.Fprint(out, question)
	read := make(chan line, 1)
	go func() {
		text, err := in.ReadString('\n')
		read <- line{strings.TrimSpace(text), err}
	}()

	var l line
	select {
	case <-ctx.Done():
		l.err = context.Cause(ctx)
	case l = <-read:
	}
	if l.err != nil {
		fmt.Fprintln(out)
	}
	return l.text, l.err
}
