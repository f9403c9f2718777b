package shards

import (
	"context"
	"fmt"
	"path"
	"sync"
	"testing"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/internal/value"
	"golang.org/x/sync/errgroup"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

func TestMain(m *testing.M) { emulatortest.Main(m) }

// A wire is a connection to the emulator that sees each request, also those that the SDK sends
// again by itself.
type wire struct {
	mu    sync.Mutex
	calls map[string]int // by method, such as "Commit"

	most   int                                // most writes in one commit
	before func(method string, nth int) error // if not nil, what to fail the nth request with instead of sending it
	after  func(method string, nth int) error // if not nil, what to fail it with once it was carried out: the answer is lost

	// if not nil, reports whether the nth request gets no answer and is not sent either: send may
	// send it later
	late func(method string, nth int, send func() error) bool
}

// fail has requests fail with what fault returns: with lost once they were carried out, else
// instead of being sent.
func (w *wire) fail(lost bool, fault func(method string, nth int) error) {
	if lost {
		w.after = fault
	} else {
		w.before = fault
	}
}

// newWire returns a wire and a client that uses it, on a project of its own.
func newWire(t *testing.T) (*wire, *firestore.Client) {
	t.Helper()
	w := &wire{calls: map[string]int{}}
	conn, err := grpc.NewClient("passthrough:///"+emulatortest.Addr(t),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(w.unary),
		grpc.WithStreamInterceptor(w.stream))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	// This connection takes the place of the one that the SDK makes for an emulator, which ignores
	// dial options.
	client, err := firestore.NewClient(t.Context(), emulatortest.Project(t), option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	return w, client
}

func (w *wire) unary(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	name, nth, err := w.request(method)
	if err != nil {
		return err
	}
	if commit, ok := req.(*firestorepb.CommitRequest); ok {
		w.mu.Lock()
		w.most = max(w.most, len(commit.Writes))
		w.mu.Unlock()
	}
	if w.late != nil {
		copied, answer := proto.Clone(req.(proto.Message)), proto.Clone(reply.(proto.Message))
		outgoing := asOwner(context.WithoutCancel(ctx))
		if w.late(name, nth, func() error { return invoke(outgoing, method, copied, answer, conn, opts...) }) {
			return status.Error(codes.Unknown, "no answer") // which the SDK does not send again
		}
	}
	if err := invoke(asOwner(ctx), method, req, reply, conn, opts...); err != nil {
		return err
	}
	if w.after != nil {
		return w.after(name, nth)
	}
	return nil
}

func (w *wire) stream(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if _, _, err := w.request(method); err != nil {
		return nil, err
	}
	return open(asOwner(ctx), desc, conn, method, opts...)
}

// request counts a request and says with which error to fail it.
func (w *wire) request(method string) (name string, nth int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	name = path.Base(method)
	w.calls[name]++
	nth = w.calls[name]
	if w.before != nil {
		err = w.before(name, nth)
	}
	return name, nth, err
}

// sent returns how often the method was called.
func (w *wire) sent(method string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls[method]
}

// asOwner is how the emulator knows a server, whom security rules do not bind.
func asOwner(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer owner")
}

// set writes documents by path.
func set(t *testing.T, client *firestore.Client, docs map[string]map[string]any) {
	t.Helper()
	var writes errgroup.Group
	writes.SetLimit(20)
	for path, data := range docs {
		writes.Go(func() error {
			_, err := client.Doc(path).Set(t.Context(), data)
			return err
		})
	}
	if err := writes.Wait(); err != nil {
		t.Fatal(err)
	}
}

// read returns a document's fields, nil if it does not exist.
func read(t *testing.T, client *firestore.Client, path string) map[string]any {
	t.Helper()
	docs, err := client.GetAll(t.Context(), []*firestore.DocumentRef{client.Doc(path)})
	if err != nil {
		t.Fatal(err)
	}
	return docs[0].Data()
}

// list returns the documents of a collection by id.
func list(t *testing.T, client *firestore.Client, collection string) map[string]map[string]any {
	t.Helper()
	docs, err := client.Collection(collection).Documents(t.Context()).GetAll()
	if err != nil {
		t.Fatal(err)
	}
	byID := map[string]map[string]any{}
	for _, doc := range docs {
		byID[doc.Ref.ID] = doc.Data()
	}
	return byID
}

// wantTotal fails the test unless the shards add up to want, an int64 or a float64.
func wantTotal(t *testing.T, c *Counter, want any) {
	t.Helper()
	total, err := c.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wanted, ok := value.Number(want)
	if !ok {
		t.Fatalf("wantTotal(%T)", want)
	}
	if total != wanted {
		t.Errorf("Get = %v, want %v", describe(total), describe(wanted))
	}
}

func describe(t Total) string {
	if _, ok := t.Int64(); ok {
		return fmt.Sprintf("integer %v", t)
	}
	return fmt.Sprintf("double %v", t)
}
