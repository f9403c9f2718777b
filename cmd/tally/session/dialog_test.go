package session

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// The time limit of a command is without progress.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		patient := dialog{timeout: time.Minute}
		ctx, stop := patient.withPatience(t.Context())
		defer stop()
		for range 3 {
			time.Sleep(59 * time.Second)
			patient.Report(1, 10)
		}
		if ctx.Err() != nil {
			t.Errorf("given up while it went on: %v", context.Cause(ctx))
		}
		time.Sleep(61 * time.Second)
		if err := context.Cause(ctx); err == nil || err.Error() != "no progress for 1m0s; --timeout gives it longer" {
			t.Errorf("without progress: %v", err)
		}
	})
}
