package session

import (
	"context"
	"net"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// DevProject is a project on the emulator that belongs to tally dev. It has a document for each
// project that tally dev serves, with the variables of its functions. So a command that knows the
// emulator's address finds the functions' routes.
const DevProject = "demo-tally-dev"

// AliveAt names a field next to the variables. It holds an address that answers for as long as
// tally dev runs.
const AliveAt = "alive_at"

// devNote returns the document that keeps the variables.
func devNote(ctx context.Context, addr, project string) (*firestore.Client, *firestore.DocumentRef, error) {
	client, err := firestorestore.Dial(ctx, addr, DevProject, firestore.DefaultDatabaseID)
	if err != nil {
		return nil, nil, err
	}
	return client, client.Doc("dev/" + project), nil
}

// NoteDev keeps the variables of the functions on the emulator. They stay there when tally dev has
// ended: [DevVariables] asks whether it runs.
func NoteDev(ctx context.Context, addr, project string, variables map[string]string) error {
	client, note, err := devNote(ctx, addr, project)
	if err != nil {
		return err
	}
	defer client.Close()
	_, err = note.Set(ctx, variables)
	return err
}

// DevVariables returns the variables of the functions that tally dev runs on the emulator, nil if
// it runs none for the project.
func DevVariables(ctx context.Context, addr, project string) (variables map[string]string, err error) {
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

	alive, err := net.DialTimeout("tcp", variables[AliveAt], time.Second)
	if err != nil {
		return nil, nil // it has ended
	}
	return variables, alive.Close()
}
