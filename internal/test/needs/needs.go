// Package needs lists what go test ./... runs in addition to Go and this machine lacks. The list
// has all of it at once, and says how to get it. A Go test that misses a program fails with
// the list. .ci/machine lists what .ci/run and .ci/nightly need beyond that.
package needs

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// An Emulator finds out why no Firestore emulator can start on this machine: what is wrong with its
// Java, and with its emulator. Callers pass emulator.Find. This package cannot import it, because
// the tests of package emulator use this package too.
type Emulator func(context.Context) (java, jar error)

// Missing returns the list, as text of several lines; "" if go test ./... lacks nothing.
func Missing(ctx context.Context, find Emulator) string {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()

	java, jar := find(ctx)
	var missing strings.Builder
	for _, tool := range []struct {
		name   string
		absent error // why it cannot be used; nil: it can
	}{
		{"Java 21", java},
		{"Firestore emulator", jar},
	} {
		if tool.absent != nil {
			reason, _, _ := strings.Cut(tool.absent.Error(), "\n")
			fmt.Fprintf(&missing, "  %s: %s\n", tool.name, reason)
		}
	}
	if missing.Len() == 0 {
		return ""
	}
	return "go test ./... runs more than Go, and this machine lacks:\n" + missing.String() +
		"go run ./cmd/tally demo downloads it, once. go test -short ./... needs Go alone.\n"
}
