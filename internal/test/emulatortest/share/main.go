// Share starts a Firestore emulator, and runs a command whose tests share that emulator:
//
//	go run ./internal/test/emulatortest/share go test ./...
//
// Tests that need rules or events of their own still start an emulator of their own. The emulator
// ends with the command. The exit status is the command's.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/internal/tool/local/emulator"
)

func main() {
	status, err := share(context.Background(), os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "share:", err)
		status = 1
	}
	os.Exit(status)
}

// share runs a command while there is an emulator, and returns the command's exit status.
func share(ctx context.Context, args []string) (status int, err error) {
	if len(args) == 0 {
		return 0, errors.New("name the command to run: share go test ./rollup")
	}

	e, err := emulator.Start(ctx, emulator.Options{})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, e.Stop()) }()

	command := exec.CommandContext(ctx, args[0], args[1:]...)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	command.Env = append(os.Environ(), emulatortest.Shared+"="+e.Addr())
	err = command.Run()
	if failed := new(exec.ExitError); errors.As(err, &failed) {
		return failed.ExitCode(), nil
	}
	return 0, err
}
