// Package firestorestore is the rollup.AuditStore on Cloud Firestore. It reads and writes roll-up
// documents as package document draws them. Other fields of a document are left alone, so a
// template may name one that the app writes too. More fields may be added later; a missing field is
// read as no total, and a tally.as_of of another type as no roll-up.
//
// Audits keep their place in the document rollup_audit/cursor, what keeps the routes that say
// "every" in rollup_audit/keep; see SaveCursor. When events came without their documents stands in
// rollup_audit/untold-HASH; see rollup.Untold. Who sums a counter whose sums take long says so in
// rollup_claims; see document.Claim.
package firestorestore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/firestore"
	vkit "cloud.google.com/go/firestore/apiv1"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// A Store is one Firestore database. It may be used by many goroutines at once.
//
// It looks at roll-ups and sums through Firestore's API itself. The SDK begins a transaction by a
// call of its own and ends it by another, which does not end with its context; here a transaction
// begins with its first read, and nobody ends it: it is read-only, takes no locks and expires.
type Store struct {
	client   *firestore.Client
	api      *vkit.Client
	database string // its resource name
	routing  string // the parameters by which calls are routed to it
	logger   *slog.Logger

	remedies sync.Map // for indexes that lack, as the log has told them
}

// Client returns Firestore's SDK on the same connection.
func (s *Store) Client() *firestore.Client { return s.client }

// Close closes the connection.
func (s *Store) Close() error { return s.client.Close() }

// View implements rollup.Store in one call. The roll-up document is read inside the transaction: a
// lone read may be served at a time that is not later than the shards' commits.
func (s *Store) View(ctx context.Context, c rollup.Counter) (rollup.Snapshot, error) {
	v := &snapshot{store: s, counter: c}
	if err := s.begin(ctx, v); err != nil {
		return nil, fmt.Errorf("firestore: reading %s: %w", c.RollUp, err)
	}
	return v, nil
}

// Sources implements rollup.AuditStore. The first aggregation begins the transaction.
func (s *Store) Sources(_ context.Context, c rollup.Counter) rollup.Snapshot {
	return &snapshot{store: s, counter: c}
}

// begin reads the roll-up document. The read begins the snapshot's transaction.
func (s *Store) begin(ctx context.Context, v *snapshot) error {
	req := &firestorepb.BatchGetDocumentsRequest{
		Database:            s.database,
		Documents:           []string{s.database + "/documents/" + v.counter.RollUp},
		Mask:                new(firestorepb.DocumentMask),
		ConsistencySelector: &firestorepb.BatchGetDocumentsRequest_NewTransaction{NewTransaction: readOnly()},
	}
	for _, field := range rollUpFields(v.counter.Template) {
		req.Mask.FieldPaths = append(req.Mask.FieldPaths, string(document.FieldOf(field)))
	}

	stream, err := s.api.BatchGetDocuments(s.routed(ctx), req)
	if err != nil {
		return err
	}

	for {
		answer, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF) && (v.readTime.IsZero() || len(v.transaction) == 0):
			return errors.New("answered without the document or the transaction")
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}

		if len(answer.Transaction) > 0 {
			v.transaction = answer.Transaction
		}
		if answer.Result == nil || answer.ReadTime == nil {
			continue
		}

		v.readTime = answer.ReadTime.AsTime().Truncate(time.Microsecond)
		if d := answer.GetFound(); d != nil {
			v.rollUp = rollup.RollUpOf(v.counter.Template, decodeFields(d.Fields), d.UpdateTime.AsTime())
		}
	}
}

// readOnly are the options of a transaction that takes no locks.
func readOnly() *firestorepb.TransactionOptions {
	return &firestorepb.TransactionOptions{
		Mode: &firestorepb.TransactionOptions_ReadOnly_{ReadOnly: new(firestorepb.TransactionOptions_ReadOnly)},
	}
}

// routed returns ctx with the headers by which Firestore routes a call of a transaction. Without
// those of the database production refuses calls to a named one. The SDK sends all of them itself.
func (s *Store) routed(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx,
		"google-cloud-resource-prefix", s.database,
		"x-goog-request-params", s.routing,
		"x-goog-is-transaction", "true")
}

// rollUpFields are the fields of a roll-up document that Tally reads and writes.
func rollUpFields(t *rollup.Template) []string { return append(t.Totals(), document.TallyField) }

// Write implements rollup.Store.
func (s *Store) Write(ctx context.Context, c rollup.Counter, r rollup.RollUp) error {
	fields := make(map[string]any)
	for _, name := range r.Gone {
		fields[name] = firestore.Delete
	}
	for name, v := range r.Values {
		fields[name] = v.Firestore()
	}
	fields[document.TallyField] = r.Tally.Encode()

	_, err := s.put(ctx, c.RollUp, fields, r.UpdateTime)
	return unkept(err)
}

// Claim implements rollup.Store.
func (s *Store) Claim(ctx context.Context, c rollup.Counter, claim rollup.Claim) error {
	_, err := s.put(ctx, document.ClaimPath(c.RollUp), claim.Encode(c.RollUp), claim.UpdateTime)
	return err
}

// unkept marks an error of a counter's own query or write as rollup.ErrUnkept if Firestore calls
// the request itself invalid, such as a write to a document that is full. It calls a query so, too,
// whose transaction has expired, and a new transaction mends that
// (https://github.com/googleapis/nodejs-firestore/pull/1347).
func unkept(err error) error {
	if status.Code(err) != codes.InvalidArgument {
		return err
	}
	message := strings.ToLower(status.Convert(err).Message())
	if strings.Contains(message, "transaction") {
		return err
	}
	return fmt.Errorf("%w: %w", rollup.ErrUnkept, err)
}

// put sets fields of a document and leaves its others as they are, on the precondition that its
// update time is still updateTime, or when that is zero, that it does not exist.
func (s *Store) put(ctx context.Context, path string, fields map[string]any, updateTime time.Time) (time.Time, error) {
	doc := s.client.Doc(path)
	var updates []firestore.Update
	for field, v := range fields {
		updates = append(updates, firestore.Update{FieldPath: firestore.FieldPath{field}, Value: v})
	}

	var result *firestore.WriteResult
	var err error
	if updateTime.IsZero() {
		result, err = doc.Create(ctx, fields)
	} else {
		result, err = doc.Update(ctx, updates, firestore.LastUpdateTime(updateTime))
	}
	if err != nil {
		return time.Time{}, outcome(err, "writing", path)
	}
	return result.UpdateTime, nil
}

// outcome is what the engine makes of the error of a write with a precondition.
func outcome(err error, doing, path string) error {
	switch status.Code(err) {
	case codes.OK:
		return nil
	case codes.FailedPrecondition, codes.AlreadyExists, codes.NotFound, codes.Aborted:
		return fmt.Errorf("%w: %w", rollup.ErrConflict, err)
	default:
		return fmt.Errorf("firestore: %s %s: %w", doing, path, err)
	}
}

// Class returns the kind of an error of a Store, of which there are few: the name of a gRPC status
// code, such as "Unavailable".
func Class(err error) string {
	code := status.Code(err)
	if code == codes.Unknown {
		code = status.FromContextError(err).Code()
	}
	return code.String()
}
