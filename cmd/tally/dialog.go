package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/firestore-tally/tally/internal/tool/terminal"
	"github.com/spf13/cobra"
)

// A dialog is between a command and its user. It has results, questions, and the progress of work
// that takes long.
type dialog struct {
	in        io.Reader
	out, logs io.Writer
	json      bool // the result is JSON
	yes       bool // do not ask

	timeout  time.Duration      // without progress; 0: none
	patience *time.Timer        // ends the command after the timeout; nil: there is none
	progress *terminal.Progress // of the work that begin has begun; nil: none has begun
	kept     string             // what is true if this work is stopped, and how to go on
}

// newDialog returns the dialog of a command that was called with these flags.
func newDialog(c *cobra.Command, f databaseFlags) *dialog {
	return &dialog{in: c.InOrStdin(), out: c.OutOrStdout(), logs: c.ErrOrStderr(), json: f.json, yes: f.yes, timeout: f.timeout}
}

// text returns the output for text that is no result: the logs if the result is JSON.
func (d *dialog) text() io.Writer {
	if d.json {
		return d.logs
	}
	return d.out
}

// patient returns a context that ends when the timeout has passed without a call of report.
func (d *dialog) patient(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	if d.timeout > 0 {
		d.patience = time.AfterFunc(d.timeout, func() {
			cancel(fmt.Errorf("no progress for %v; --timeout gives it longer", d.timeout))
		})
	}
	return ctx, func() { cancel(nil) }
}

// begin shows the progress of work that may take long. what names the work. total says how many of
// the unit it has, or terminal.Unknown. kept says what is true if it is stopped, and how to go on.
func (d *dialog) begin(what, unit string, total int, kept string) {
	d.stop()
	d.progress, d.kept = terminal.NewProgress(d.logs, what, unit, total), kept
}

// report notes how much of the work is done, and restarts the timeout.
func (d *dialog) report(done, total int) {
	if d.patience != nil {
		d.patience.Reset(d.timeout)
	}
	if d.progress != nil {
		d.progress.At(done, total)
	}
}

// stop takes the progress away.
func (d *dialog) stop() { d.progress.Stop() }

// ended returns the error for a command whose work returned err. If ctx has ended the work, the
// error gives the cause, how far the work came, and what is true now.
func (d *dialog) ended(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}

	cause := context.Cause(ctx)
	if d.progress == nil {
		return cause
	}
	return errors.Join(cause, fmt.Errorf("%v. %s", d.progress, d.kept))
}

// confirm asks whether to go on, unless --yes says so.
func (d *dialog) confirm(ctx context.Context, format string, args ...any) error {
	return d.patiently(func() error {
		return terminal.Confirm(ctx, d.in, d.logs, d.yes, fmt.Sprintf(format, terminal.Escaped(args)...))
	})
}

// patiently asks the user, who may take time.
func (d *dialog) patiently(ask func() error) error {
	if d.patience != nil {
		d.patience.Stop()
		defer d.patience.Reset(d.timeout)
	}
	return ask()
}

// Cells are text whose tabs and newlines are not to be escaped.
type cells string

// print prints the object if JSON is wanted, else the text: lines of cells, which tabs separate. A
// progress is taken away first: it is on the same terminal.
func (d *dialog) print(object any, format string, args ...any) error {
	d.stop()
	if d.json {
		return json.NewEncoder(d.out).Encode(object)
	}
	_, err := io.WriteString(d.out, terminal.Table(fmt.Sprintf(format+"\n", terminal.Escaped(args)...)))
	return err
}
