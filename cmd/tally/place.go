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
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/tool/local/freeport"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
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
	variables, err := devVariables(ctx, addr, d.project)
	if err == nil && variables != nil {
		err = fmt.Errorf("another tally dev runs on %s for project %s: %s", addr, d.project, remedy)
	}
	return err
}

// devProject is a project on the emulator that belongs to tally dev. It has a document for each
// project that tally dev serves, with the variables of its functions. So a command that knows the
// emulator's address finds the functions' routes.
const devProject = "demo-tally-dev"

// aliveAt names a field next to the variables. It holds an address that answers for as long as
// tally dev runs.
const aliveAt = "alive_at"

// devNote returns the document that keeps the variables.
func devNote(ctx context.Context, addr, project string) (*firestore.Client, *firestore.DocumentRef, error) {
	client, err := firestorestore.Dial(ctx, addr, devProject, firestore.DefaultDatabaseID)
	if err != nil {
		return nil, nil, err
	}
	return client, client.Doc("dev/" + project), nil
}

// noteDev keeps the variables of the functions on the emulator. They stay there when tally dev has
// ended: devVariables asks whether it runs.
func noteDev(ctx context.Context, addr, project string, variables map[string]string) error {
	client, note, err := devNote(ctx, addr, project)
	if err != nil {
		return err
	}
	defer client.Close()
	_, err = note.Set(ctx, variables)
	return err
}

// devVariables returns the variables of the functions that tally dev runs on the emulator, nil if
// it runs none for the project.
func devVariables(ctx context.Context, addr, project string) (variables map[string]string, err error) {
	client, note, err := devNote(ctx, addr, project)
	if err != nil {
		return nil, err
	}
	defer client.Close()

	doc, err := note.Get(ctx)
	if status.Code(err) == codes.NotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := doc.DataTo(&variables); err != nil {
		return nil, err
	}

	alive, err := net.DialTimeout("tcp", variables[aliveAt], time.Second)
	if err != nil {
		return nil, nil // it has ended
	}
	return variables, alive.Close()
}
