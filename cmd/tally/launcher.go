package main

import (
	"context"
	"errors"
	"os"
)

// launcherVariable is set if npm's launcher, npm/tally.js, has started this program.
const launcherVariable = "TALLY_LAUNCHER"

// errLauncher is why a command ends that npm's launcher started.
var errLauncher = errors.New("npm's launcher of this program was told to end, or was killed")

// underLauncher returns a context that ends when npm's launcher is told to end, or has ended in
// whatever way. Process managers send their signals to the launcher alone. If no launcher started
// this program, underLauncher returns ctx.
func underLauncher(ctx context.Context) context.Context {
	if os.Getenv(launcherVariable) == "" {
		return ctx
	}
	_ = os.Unsetenv(launcherVariable) // the launcher starts none of the programs that this one starts

	ctx, cancel := context.WithCancelCause(ctx)
	wait := launcherWaiter()
	go func() {
		if err := wait(); err == nil {
			cancel(errLauncher)
		}
	}()
	return ctx
}
