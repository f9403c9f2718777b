package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/firestore-tally/tally/internal/tool/local/emulator"
)

// silence is how long a program may be silent before the user is told. An idle emulator answers in
// a millisecond.
const silence = 3 * time.Second

// AwaitAnswer does what emulator.Check does, and tells a program that takes connections and does
// not answer: it may be a busy emulator, or another program that never will.
func AwaitAnswer(ctx context.Context, addr string, logs io.Writer) error {
	notice := time.AfterFunc(silence, func() {
		fmt.Fprintf(logs, "tally: a program listens at %s, and has not answered for %v: waiting for half a minute in all, in case it is a busy emulator\n", addr, silence)
	})
	defer notice.Stop()
	return emulator.Check(ctx, addr)
}

// CheckEmulator returns an error, which ends in a remedy, unless an emulator answers at addr, the
// value of FIRESTORE_EMULATOR_HOST. The remedy is never to unset that: the next command would go to
// a real project.
func CheckEmulator(ctx context.Context, addr string, logs io.Writer) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || host == "" || port == "" {
		return errors.New("is not of the form host:port; set it to one such as 127.0.0.1:8080")
	}

	err = AwaitAnswer(ctx, addr, logs)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, emulator.ErrBusy):
		return fmt.Errorf("%w; try again when it has less to do", err)
	default:
		return fmt.Errorf("%w; tally dev starts one there, or name the one that runs", err)
	}
}
