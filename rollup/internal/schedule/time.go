package schedule

import (
	"context"
	"time"
)

// sleep waits for d, or until ctx ends. In that case it returns the cause. Other packages sleep by
// gax-go; the engine imports only the standard library.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()

	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
