package main

import (
	"context"
	"net"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

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
