// Package needs lists what go test ./... runs in addition to Go and this machine lacks. The list
// has all of it at once, and says how to install each. A Go test that misses a program fails with
// the list. .ci/machine lists what .ci/run and .ci/nightly need beyond that.
package needs

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// An Emulator finds out why no Firestore emulator can start on this machine: what is wrong with its
// Java, and with its emulator. Callers pass emulator.Find. This package cannot import it, because
// the tests of package emulator use this package too.
type Emulator func(context.Context) (java, jar error)

// Missing returns the list, as text of several lines; "" if go test ./... lacks nothing. It takes a
// second or two, because it asks the Google Cloud CLI for its version.
func Missing(ctx context.Context, find Emulator) string {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()

	java, jar := find(ctx)
	var missing strings.Builder
	for _, tool := range []struct {
		name, install string
		absent        error // why it cannot be used; nil: it can
	}{
		{"Java 21", "sudo apt-get install openjdk-21-jdk-headless, brew install openjdk@21, or https://adoptium.net; set JAVA_HOME if it is not on PATH", java},
		{"Firestore emulator", "go run ./cmd/tally demo downloads it, once", jar},
		{"Google Cloud CLI", "https://cloud.google.com/sdk/docs/install, with gcloud components install alpha beta", gcloud(ctx)},
	} {
		if tool.absent != nil {
			reason, _, _ := strings.Cut(tool.absent.Error(), "\n")
			fmt.Fprintf(&missing, "  %s: %s\n    to install it: %s\n", tool.name, reason, tool.install)
		}
	}
	if missing.Len() == 0 {
		return ""
	}
	return "go test ./... runs more than Go, and this machine lacks:\n" + missing.String() + "go test -short ./... needs Go alone.\n"
}

// gcloud returns an error unless the Google Cloud CLI runs and has the components whose commands
// tally deploy uses.
func gcloud(ctx context.Context) error {
	path, err := exec.LookPath("gcloud")
	if err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, path, "version", "--format=value(alpha,beta)").Output()
	if err != nil {
		return fmt.Errorf("%s does not run: %w", path, err)
	}
	if len(strings.Fields(string(out))) < 2 {
		return errors.New("gcloud lacks its components alpha and beta")
	}
	return nil
}
