package firestorestore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"cloud.google.com/go/firestore"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// EmulatorHost is the environment variable by which every Firestore SDK finds an emulator, as
// host:port.
const EmulatorHost = "FIRESTORE_EMULATOR_HOST"

// Dial opens a client of a database, over connections with the dial options. It uses application
// default credentials or, unless emulator is empty, the emulator at that host:port. Nothing is sent
// yet, so a database that does not exist shows only in the first call.
func Dial(ctx context.Context, emulator, project, database string, dial ...grpc.DialOption) (*firestore.Client, error) {
	var opts []option.ClientOption
	closeConn := func() error { return nil }
	if emulator != "" {
		// The SDK makes its own connection to an emulator and drops dial options, so the connection
		// is made here.
		conn, err := grpc.NewClient("passthrough:///"+emulator, append(slices.Clone(dial),
			grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithPerRPCCredentials(owner{}))...)
		if err != nil {
			return nil, fmt.Errorf("firestore: %s=%q: %w", EmulatorHost, emulator, err)
		}
		closeConn = conn.Close // else the client's to close
		opts = append(opts, option.WithGRPCConn(conn))
	} else {
		for _, d := range dial {
			opts = append(opts, option.WithGRPCDialOption(d))
		}
	}
	client, err := firestore.NewClientWithDatabase(ctx, project, database, opts...)
	if err != nil {
		err = fmt.Errorf("firestore: opening database %s of project %s: %w", database, project, err)
		return nil, errors.Join(err, closeConn())
	}
	return client, nil
}

// owner is the credential with which the emulator lets a request pass its security rules, as it
// does for every server SDK.
type owner struct{}

func (owner) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer owner"}, nil
}

func (owner) RequireTransportSecurity() bool { return false }

// Path returns a document's path below the database's root.
func Path(doc *firestore.DocumentRef) string {
	_, path, _ := strings.Cut(doc.Path, "/documents/")
	return path
}
