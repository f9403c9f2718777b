package firestorestore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/firestore"
	vkit "cloud.google.com/go/firestore/apiv1"
	"google.golang.org/api/option"
	transport "google.golang.org/api/transport/grpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

// EmulatorHost is the environment variable in which every Firestore SDK looks for an emulator, as
// host:port.
const EmulatorHost = "FIRESTORE_EMULATOR_HOST"

// Open opens the Store of a database, over one connection with the dial options. It uses
// application default credentials or, unless emulator is empty, the emulator at that host:port.
// Nothing is sent to Firestore yet. So if the database does not exist, Open succeeds, and the first
// call fails. The Store logs to logger what it does not report to the engine, such as a missing
// index.
func Open(ctx context.Context, emulator, project, database string, logger *slog.Logger, dial ...grpc.DialOption) (*Store, error) {
	s := &Store{
		database: fmt.Sprintf("projects/%s/databases/%s", project, database),
		routing:  fmt.Sprintf("project_id=%s&database_id=%s", url.QueryEscape(project), url.QueryEscape(database)),
		logger:   logger,
	}

	conn, err := connect(ctx, emulator, dial)
	if err != nil {
		return nil, fmt.Errorf("firestore: opening database %s of project %s: %w", database, project, err)
	}

	s.conn = conn
	s.client, err = firestore.NewClientWithDatabase(ctx, project, database, option.WithGRPCConn(conn))
	if err == nil {
		s.api, err = vkit.NewClient(ctx, option.WithGRPCConn(conn))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("firestore: opening database %s of project %s: %w", database, project, err), conn.Close())
	}
	return s, nil
}

// Dial opens Firestore's SDK as Open opens a Store, for tools other than the functions.
func Dial(ctx context.Context, emulator, project, database string, dial ...grpc.DialOption) (*firestore.Client, error) {
	s, err := Open(ctx, emulator, project, database, nil, dial...)
	if err != nil {
		return nil, err
	}
	return s.client, nil
}

// unacknowledged is how long the other side may leave sent bytes without TCP's acknowledgement.
// Then the connection is treated as dead. Without this limit, a connection that a network has
// forgotten would swallow calls for a quarter of an hour. gRPC sets it as Linux's TCP_USER_TIMEOUT
// if keep-alive is on. It is less than half of the default hold limit, so an event outlives a dead
// connection.
const unacknowledged = 3 * time.Second

// connect makes the connection that both clients of a Store share. Clients that connect to an
// emulator by themselves ignore the dial options.
func connect(ctx context.Context, emulator string, dial []grpc.DialOption) (*grpc.ClientConn, error) {
	connect, endpoint := transport.Dial, "firestore.googleapis.com:443"
	dial = append(slices.Clone(dial),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 5 * time.Minute, Timeout: unacknowledged}))
	if emulator != "" {
		connect, endpoint = transport.DialInsecure, emulator
		dial = append(dial, grpc.WithPerRPCCredentials(owner{}))
	}

	opts := []option.ClientOption{option.WithEndpoint(endpoint), option.WithScopes(vkit.DefaultAuthScopes()...)}
	for _, d := range dial {
		opts = append(opts, option.WithGRPCDialOption(d))
	}
	return connect(ctx, opts...)
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
