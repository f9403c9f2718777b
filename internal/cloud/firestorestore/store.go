// Package firestorestore is the rollup.AuditStore on Cloud Firestore.
//
// # What you need to know about Firestore
//
// A document is a map of typed fields at a path: ids of collections and of documents by turns, such
// as counters/likes/shards/0. Documents of a collection can exist although the document above them
// does not. A collection group is all collections of one id, wherever they are.
//
// Every write has a commit time, and a document has the update time of its last one. A write may
// have a precondition: that the document does not exist, or that it still has a certain update
// time. If that does not hold, Firestore refuses the write. Nothing else protects a roll-up from
// other instances, with one exception: a transaction that may write locks what it reads.
//
// A read-only transaction sees the database at one instant, its read time, and takes no locks. It
// begins with its first read. All reads with its id see what was committed at or before that
// instant, and nothing later.
//
// A query goes along an index, in the order of the index. It can begin and end anywhere in it. The
// index of names holds all documents of a collection group in the order of their paths. So the next
// document behind a place is one query and one billed read, whatever lies before it. Firestore
// makes the indexes of names and of single fields itself. Indexes of several fields have to be
// created. A query whose index is missing fails. A field that a document lacks, or that is exempt
// from indexing, is in no index.
//
// The Enterprise edition differs in this. It makes no index by itself, and answers a query without
// its index by reading all documents. A query has no order but the one that it asks for. So each
// query whose order matters says it, and one that has a limit without an order only asks whether
// there is any document. A transaction that may write takes locks only if it asks for them.
//
// An aggregation query answers COUNT, SUM or AVG from the index, and bills one read for each 1,000
// entries. SUM and AVG pass over values that are not numbers.
//
// # What is stored
//
// Roll-up documents are as package document draws them. Tally leaves the other fields of a document
// alone, so a template may name a document that the app writes, too. If the field of a total is
// missing, there is no such total. If tally.as_of has another type than a timestamp, there is no
// roll-up. So fields can be added later.
//
//	rollup_audit/cursor         where the next audit goes on; see SaveCursor
//	rollup_audit/keep           where the next call of rollup.Keep goes on
//	rollup_audit/note-{…}       what needs an audit soon; see rollup.Note
//	rollup_claims/{hash}        who sums a counter whose sums take long; see document.Claim
//
// # The files
//
// store.go opens snapshots and writes, locked.go writes in a lock, and sum.go sums in a snapshot.
// audit.go walks all counters: by their roll-ups, or along a lane of their shards (lane.go, and for
// days and months bytime.go). cursor.go keeps where a walk goes on, and note.go what needs an audit
// soon. growth.go reads shards and adds more, fields.go reads single fields, value.go decodes and
// encodes values, and client.go opens the connection. enterprise.go keeps queries without an index
// from the Enterprise edition.
package firestorestore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/firestore"
	vkit "cloud.google.com/go/firestore/apiv1"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// A Store is one Firestore database. It may be used by many goroutines at once.
//
// For looks and sums it calls Firestore's API without the SDK. The SDK begins a transaction with a
// call of its own. It ends the transaction with another call, which goes on even when its context
// has ended. A Store begins a transaction with its first read, and does not end it: a read-only
// transaction takes no locks, and expires.
type Store struct {
	conn     grpc.ClientConnInterface
	client   *firestore.Client
	api      *vkit.Client
	edition  route.Edition
	database string // its resource name
	routing  string // the parameters by which calls are routed to it
	logger   *slog.Logger

	remedies sync.Map // remedies for missing indexes that the log has named
}

// Client returns Firestore's SDK on the same connection.
func (s *Store) Client() *firestore.Client { return s.client }

// Close closes the connection.
func (s *Store) Close() error { return s.client.Close() }

// View implements rollup.Store in one call, which reads the roll-up document inside the
// transaction. A read outside could be served at a time before the shards' commits, and the sum
// would miss them.
func (s *Store) View(ctx context.Context, c route.Counter) (rollup.Snapshot, error) {
	v := &snapshot{store: s, counter: c}
	if err := s.beginReadOnly(ctx, v); err != nil {
		return nil, fmt.Errorf("firestore: reading %s: %w", c.RollUp, err)
	}
	return v, nil
}

// Sources implements rollup.AuditStore. The first aggregation begins the transaction. If Sum reads
// documents one by one before that, it begins the transaction as View does, which costs one more
// read.
func (s *Store) Sources(_ context.Context, c route.Counter) rollup.Snapshot {
	return &snapshot{store: s, counter: c}
}

// beginReadOnly reads the roll-up document, and the owner if there is one. The read begins the
// snapshot's transaction.
func (s *Store) beginReadOnly(ctx context.Context, v *snapshot) error {
	req := &firestorepb.BatchGetDocumentsRequest{
		Documents:           []string{s.database + "/documents/" + v.counter.RollUp},
		Mask:                maskOf(v.counter.Template),
		ConsistencySelector: &firestorepb.BatchGetDocumentsRequest_NewTransaction{NewTransaction: readOnly()},
	}
	owner := s.database + "/documents/" + v.counter.Owner()
	if v.counter.Owner() != "" {
		req.Documents = append(req.Documents, owner)
	}

	answers := 0
	err := s.batchGet(ctx, req, func(answer *firestorepb.BatchGetDocumentsResponse) {
		if len(answer.Transaction) > 0 {
			v.transaction = answer.Transaction
		}
		if answer.Result == nil || answer.ReadTime == nil {
			return
		}

		answers++
		v.readTime = answer.ReadTime.AsTime().Truncate(time.Microsecond)
		if answer.GetMissing() == owner {
			v.ownerless = true
		}
		d := answer.GetFound()
		if d != nil && d.Name != owner {
			v.rollUp = rollup.RollUpOf(v.counter.Template, decodeFields(d.Fields), d.UpdateTime.AsTime())
		}
	})
	if err == nil && (answers < len(req.Documents) || len(v.transaction) == 0) {
		return errors.New("answered without the document or the transaction")
	}
	return err
}

// batchGet reads documents by one call, and has each answer taken. They come in no order. An answer
// may have only the transaction, or the read time.
func (s *Store) batchGet(ctx context.Context, req *firestorepb.BatchGetDocumentsRequest, take func(*firestorepb.BatchGetDocumentsResponse)) error {
	req.Database = s.database
	stream, err := s.api.BatchGetDocuments(s.routed(ctx), req)
	if err != nil {
		return err
	}

	for {
		answer, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		take(answer)
	}
}

// readOnly are the options of a transaction that takes no locks.
func readOnly() *firestorepb.TransactionOptions {
	return &firestorepb.TransactionOptions{
		Mode: &firestorepb.TransactionOptions_ReadOnly_{ReadOnly: new(firestorepb.TransactionOptions_ReadOnly)},
	}
}

// routed returns ctx with the headers by which Firestore routes a call of a transaction. The SDK
// sends them itself. Without the headers that name the database, production refuses calls to any
// database but (default).
func (s *Store) routed(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx,
		"google-cloud-resource-prefix", s.database,
		"x-goog-request-params", s.routing,
		"x-goog-is-transaction", "true")
}

// rollUpFields are the fields of a roll-up document that Tally reads and writes.
func rollUpFields(t *route.Template) []string {
	return append(append(t.Totals(), document.TallyField), t.Labels()...)
}

// maskOf has a read answered with these fields only.
func maskOf(t *route.Template) *firestorepb.DocumentMask {
	m := new(firestorepb.DocumentMask)
	for _, field := range rollUpFields(t) {
		m.FieldPaths = append(m.FieldPaths, string(document.FieldOf(field)))
	}
	return m
}

// Write implements rollup.Store.
func (s *Store) Write(ctx context.Context, c route.Counter, r rollup.RollUp) error {
	fields := make(map[string]any)
	for _, name := range r.Gone {
		fields[name] = firestore.Delete
	}
	maps.Copy(fields, written(r))

	_, err := s.setFields(ctx, c.RollUp, fields, r.UpdateTime)
	return unkept(err)
}

// written returns the fields that a roll-up writes.
func written(r rollup.RollUp) map[string]any {
	fields := make(map[string]any)
	for name, v := range r.Values {
		fields[name] = v.Firestore()
	}
	for name, id := range r.Labels {
		fields[name] = id
	}
	fields[document.TallyField] = r.Tally.Encode()
	return fields
}

// Claim implements rollup.Store.
func (s *Store) Claim(ctx context.Context, c route.Counter, claim rollup.Claim) error {
	_, err := s.setFields(ctx, document.ClaimPath(c.RollUp), claim.Encode(c.RollUp), claim.UpdateTime)
	return err
}

// expiredMessages are the beginnings of Firestore's messages about a transaction that has expired,
// or that it does not know. A text about a document begins otherwise, whatever the document's path
// is.
var expiredMessages = []string{
	"The referenced transaction has expired", // https://github.com/googleapis/google-cloud-php/issues/5396
	"Invalid transaction",                    // https://github.com/googleapis/repo-automation-bots/issues/4481
	"Transaction is invalid or closed",       // the emulator
}

// unkept marks an error of a counter's own query or write as rollup.ErrUnkept if Firestore calls
// the request invalid. A write to a document that is full is an example. Firestore also calls a
// request invalid if its transaction has expired. unkept does not mark that error, because a new
// transaction helps (https://github.com/googleapis/nodejs-firestore/pull/1347).
func unkept(err error) error {
	if _, is := errors.AsType[*unservedQuery](err); is {
		return fmt.Errorf("%w: %w", rollup.ErrUnkept, err)
	}
	if status.Code(err) != codes.InvalidArgument {
		return err
	}

	said := message(err)
	for _, beginning := range expiredMessages {
		if strings.HasPrefix(said, beginning) {
			return err
		}
	}
	return fmt.Errorf("%w: %w", rollup.ErrUnkept, err)
}

// message returns what Firestore itself said, without what was wrapped around it.
func message(err error) string {
	answer, ok := errors.AsType[interface {
		error
		GRPCStatus() *status.Status
	}](err)
	if !ok {
		return ""
	}
	return answer.GRPCStatus().Message()
}

// setFields sets fields of a document, and leaves its other fields as they are. The precondition is
// that the document's update time is still updateTime. If updateTime is zero, it is that the
// document does not exist.
func (s *Store) setFields(ctx context.Context, path string, fields map[string]any, updateTime time.Time) (time.Time, error) {
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

// Cause names what caused an error of a store: the gRPC code with which Firestore answered.
func Cause(err error) string { return status.Code(err).String() }

// outcome translates the error of a write with a precondition for the engine. It returns
// rollup.ErrConflict if Firestore refused the write.
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
