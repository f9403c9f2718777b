// Package load writes to counters at a rate, listens to their roll-ups, and compares both.
// internal/tool/local has it write on one machine, and internal/tool/trial to a project.
//
// A [Load] makes the writes. A [Counter] notes those that Firestore acknowledged, and each version
// of its roll-up that a listener sees. A [Lag] sums up how long after the commits the roll-ups were
// seen.
package load

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/googleapis/gax-go/v2"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A Load is writes at a rate.
type Load struct {
	Increments int     // in all, each by 1
	Clients    int     // that write at once
	Rate       float64 // writes a second

	Stage    func(name string) // is called when a stage of the load begins
	Progress func(done int)    // is called with the number of writes made; calls may overlap
}

// WriteAll has the clients make so many writes at the rate. Each call of write makes one, and gets
// its number.
func (l Load) WriteAll(ctx context.Context, writes int, write func(ctx context.Context, n int) error) error {
	limiter := rate.NewLimiter(rate.Limit(l.Rate), 1)
	clients, working := errgroup.WithContext(ctx)
	clients.SetLimit(l.Clients)

	for n := range writes {
		err := limiter.Wait(working)
		if err != nil {
			return cmp.Or(clients.Wait(), context.Cause(ctx), err)
		}
		clients.Go(func() error { return write(working, n) })
	}
	return cmp.Or(clients.Wait(), context.Cause(ctx))
}

// retryPause is the time between a write that failed and the next try.
const retryPause = 200 * time.Millisecond

// Persist makes a write, and again while that fails for a reason that may pass, until ctx ends.
func Persist(ctx context.Context, write func(context.Context) error) error {
	for {
		err := write(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil && !isTransient(err) {
			return err
		}

		stopped := gax.Sleep(ctx, retryPause)
		if stopped != nil {
			return fmt.Errorf("%w: %v", context.Cause(ctx), err) //nolint:errorlint // the cause matters, and the text
		}
	}
}

// isTransient reports whether a write that failed with the error may succeed later.
func isTransient(err error) bool {
	return slices.Contains([]codes.Code{codes.Aborted, codes.Unavailable, codes.ResourceExhausted, codes.Internal}, status.Code(err))
}
