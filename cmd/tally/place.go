package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/firestore-tally/tally/cmd/tally/session"
	"github.com/firestore-tally/tally/internal/tool/local/freeport"
)

// takePlace takes the place of the tally dev that serves the project on the emulator, whether the
// emulator has yet to start or is somebody else's. It is an error if another one has it.
func (d *dev) takePlace(ctx context.Context) error {
	addr := d.stack.Config.EmulatorHost
	if addr == "" && d.stack.FirestorePort == 0 {
		return nil // an emulator of its own at any port
	}
	addr = cmp.Or(addr, net.JoinHostPort(freeport.Loopback, strconv.Itoa(d.stack.FirestorePort)))

	// This also finds one that is starting.
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	place := sha256.Sum256([]byte(addr + "\n" + d.project))
	other, leave, err := lock(filepath.Join(os.TempDir(), fmt.Sprintf("tally-dev-%x", place[:8])), dir)
	if err != nil {
		return err
	}
	d.leave = leave
	const remedy = "stop it, or name another project by --project"
	if other != "" {
		return fmt.Errorf("another tally dev runs in %s, on %s for project %s: %s", other, addr, d.project, remedy)
	}

	// This also finds one with other temporary files, such as another user's.
	if d.stack.Config.EmulatorHost == "" {
		return nil
	}
	variables, err := session.DevVariables(ctx, addr, d.project)
	if err == nil && variables != nil {
		err = fmt.Errorf("another tally dev runs on %s for project %s: %s", addr, d.project, remedy)
	}
	return err
}
