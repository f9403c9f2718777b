package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/firestore-tally/tally/internal/tool/terminal"
	"github.com/spf13/cobra"
)

// A dialog is between a command and its user. It has results, questions, and the progress of work
// that takes long.
type dialog struct {
	in        io.Reader
	out, Logs io.Writer
	JSON      bool // the result is JSON
	Yes       bool // do not ask

	timeout   time.Duration      // without progress; 0: none
	patience  *time.Timer        // ends the command after the timeout; nil: there is none
	Progress  *terminal.Progress // of the work that begin has begun; nil: none has begun
	whenEnded string             // what is true if this work is stopped, and how to go on
}

// newDialog returns the dialog of a command that was called with these flags.
func newDialog(c *cobra.Command, f databaseFlags) *dialog {
	return &dialog{in: c.InOrStdin(), out: c.OutOrStdout(), Logs: c.ErrOrStderr(), JSON: f.json, Yes: f.yes, timeout: f.timeout}
}

// Text returns the output for text that is no result: the logs if the result is JSON.
func (d *dialog) Text() io.Writer {
	if d.JSON {
		return d.Logs
	}
	return d.out
}

// Logger returns a logger to the user: of lines for people, or raw, as programs read them.
func (d *dialog) Logger(raw bool) *slog.Logger {
	if raw || d.JSON {
		return slog.New(slog.NewTextHandler(d.Logs, nil))
	}
	return terminal.NewLogger(d.Logs)
}

// withPatience returns a context that ends when the timeout has passed without a call of report.
func (d *dialog) withPatience(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	if d.timeout > 0 {
		d.patience = time.AfterFunc(d.timeout, func() {
			cancel(fmt.Errorf("no progress for %v; --timeout gives it longer", d.timeout))
		})
	}
	return ctx, func() { cancel(nil) }
}

// Begin shows the progress of work that may take long. what names the work. total says how many of
// the unit it has, or terminal.Unknown. whenEnded says what is true if it is stopped, and how to go
// on.
func (d *dialog) Begin(what, unit string, total int, whenEnded string) {
	d.Stop()
	d.Progress, d.whenEnded = terminal.NewProgress(d.Logs, what, unit, total), whenEnded
}

// Report notes how much of the work is done, and restarts the timeout.
func (d *dialog) Report(done, total int) {
	if d.patience != nil {
		d.patience.Reset(d.timeout)
	}
	if d.Progress != nil {
		d.Progress.At(done, total)
	}
}

// Stop takes the progress away.
func (d *dialog) Stop() { d.Progress.Stop() }

// wrapEnd returns the error for a command whose work returned err. If ctx has ended the work, the
// error gives the cause, how far the work came, and what is true now.
func (d *dialog) wrapEnd(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}

	cause := context.Cause(ctx)
	if d.Progress == nil {
		return cause
	}
	return errors.Join(cause, fmt.Errorf("%v. %s", d.Progress, d.whenEnded))
}

// Confirm asks whether to go on, unless --yes says so.
func (d *dialog) Confirm(ctx context.Context, format string, args ...any) error {
	return d.awaitUser(func() error {
		return terminal.Confirm(ctx, d.in, d.Logs, d.Yes, fmt.Sprintf(format, terminal.Escaped(args)...))
	})
}

// awaitUser asks the user, who may take time.
func (d *dialog) awaitUser(ask func() error) error {
	if d.patience != nil {
		d.patience.Stop()
		defer d.patience.Reset(d.timeout)
	}
	return ask()
}

// Print prints the object if JSON is wanted, else the text: lines of cells, which tabs separate. A
// progress is taken away first: it is on the same terminal.
func (d *dialog) Print(object any, format string, args ...any) error {
	d.Stop()
	if d.JSON {
		return json.NewEncoder(d.out).Encode(object)
	}
	_, err := io.WriteString(d.out, terminal.Table(fmt.Sprintf(format+"\n", terminal.Escaped(args)...)))
	return err
}
