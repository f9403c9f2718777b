package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/tool/terminal"
	"github.com/firestore-tally/tally/shards"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// errDial says that no client of Firestore could be opened.
var errDial = errors.New("cannot reach Firestore")

// Explain adds the remedy to the error of a command, if there is one. writes says
// that the command changes something in the project.
func Explain(err error, project string, writes bool) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	remedy := remedyOf(err, project, writes)
	if remedy == "" {
		return err
	}
	return errors.Join(err, errors.New(remedy))
}

// remedyOf returns a remedy for an error; "" if none is known.
func remedyOf(err error, project string, writes bool) string {
	code := status.Code(err)
	onEmulator := os.Getenv(firestorestore.EmulatorHost) != ""
	switch {
	case code == codes.PermissionDenied:
		return fmt.Sprintf("the account needs the role %s: gcloud projects add-iam-policy-binding %s --member=user:YOU --role=%[1]s", role(writes), project)
	case code == codes.NotFound && strings.Contains(err.Error(), "database"):
		return fmt.Sprintf("gcloud firestore databases list --project=%s tells which databases there are, and --database names one", project)
	case code == codes.Unauthenticated, errors.Is(err, errDial) && !onEmulator: // nothing is sent before there are credentials
		return "gcloud auth application-default login provides credentials; for an emulator, export FIRESTORE_EMULATOR_HOST as tally dev prints it"
	case errors.Is(err, shards.ErrNumShards):
		return "tally resize changes it"
	case errors.Is(err, shards.ErrInDoubt):
		return "look at the total first; an increment with --once could be repeated safely"
	default:
		return ""
	}
}

// simplify returns err in the user's words. Paths begin at the database's root, and a line
// break in an id cannot make a line of its own.
func simplify(err error, project, database string) error {
	if err == nil {
		return nil
	}
	text := strings.ReplaceAll(strings.TrimPrefix(terminal.ErrorLines(err), "shards: "), ": shards: ", ": ")
	root := fmt.Sprintf("projects/%s/databases/%s/documents/", project, database)
	return errors.New(strings.ReplaceAll(text, root, ""))
}
