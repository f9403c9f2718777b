package firestorestore

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/firestore/apiv1/admin/adminpb"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup/route"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// OpenEdition opens a Store as Open does, of a database of an edition. On Enterprise
//
//   - a write in a lock asks for the lock, because transactions take none by themselves;
//   - no query is sent unless its index was READY when the indexes were last listed. Enterprise
//     would answer the query without its index, and bill all documents of the collection.
func OpenEdition(ctx context.Context, edition route.Edition, emulator, project, database string, logger *slog.Logger, dial ...grpc.DialOption) (*Store, error) {
	if edition != route.Enterprise {
		return Open(ctx, emulator, project, database, logger, dial...)
	}

	return openEnterprise(ctx, time.Now, emulator, project, database, logger, dial...)
}

// openEnterprise opens a database of the Enterprise edition. The clock now measures the age of the
// list of its indexes.
func openEnterprise(ctx context.Context, now func() time.Time, emulator, project, database string, logger *slog.Logger, dial ...grpc.DialOption) (*Store, error) {
	known := &knownIndexes{database: fmt.Sprintf("projects/%s/databases/%s", project, database), emulated: emulator != "", now: now}
	guarded := append([]grpc.DialOption{grpc.WithChainStreamInterceptor(known.guard)}, dial...)
	s, err := Open(ctx, emulator, project, database, logger, guarded...)
	if err != nil {
		return nil, err
	}
	s.edition = route.Enterprise
	return s, nil
}

// CheckEdition returns an error if the database is of the Enterprise edition, and the Store was
// opened as one of Standard, so that its queries may scan. If Firestore does not tell the edition,
// there is no error.
func (s *Store) CheckEdition(ctx context.Context) error {
	ctx = metadata.NewOutgoingContext(ctx, metadata.Pairs("x-goog-request-params", "name="+url.QueryEscape(s.database)))
	found, err := adminpb.NewFirestoreAdminClient(s.conn).GetDatabase(ctx, &adminpb.GetDatabaseRequest{Name: s.database})
	if err != nil || s.edition == route.Enterprise || found.DatabaseEdition != adminpb.Database_ENTERPRISE {
		return nil //nolint:nilerr // the account may read documents, and not this
	}
	return fmt.Errorf("database %s is of the Enterprise edition, where queries without an index read all documents; the line \"edition: enterprise\" in tally.yaml keeps them from being sent", s.name())
}

// name returns the id of the database.
func (s *Store) name() string { return path.Base(s.database) }

const (
	// listEvery is how old a list of indexes is when the next query waits for a new one. An app's
	// "firebase deploy" may delete an index at any time.
	listEvery = 5 * time.Minute

	// listLasts is how old a list of indexes may be if no new one can be had.
	listLasts = 10 * time.Minute

	// listTime is how long a query waits for a list of indexes.
	listTime = 5 * time.Second
)

// knownIndexes are the indexes that a database of the Enterprise edition had when they were last
// listed. Each connection lists them for itself.
type knownIndexes struct {
	database string // its resource name
	emulated bool   // an emulator answers
	now      func() time.Time

	mu     sync.Mutex // held while they are listed, so that all queries wait for one list
	listed time.Time  // when the last list was asked for that came; zero: there is none
	ready  []route.Index
	all    bool // an emulator needs none
}

// An unservedQuery is the error of a query that was not sent, because its index was not READY.
type unservedQuery struct {
	needs    need
	database string
}

func (e *unservedQuery) Error() string {
	return fmt.Sprintf("a query was not run, because its index %s is not READY in database %s: without it Firestore reads and bills all documents. tally deploy creates the index",
		e.needs, path.Base(e.database))
}

// GRPCStatus returns the status with which Standard refuses a query without an index.
func (e *unservedQuery) GRPCStatus() *status.Status {
	return status.New(codes.FailedPrecondition, e.Error())
}

// guard is an interceptor that lets queries pass if their indexes are READY.
func (x *knownIndexes) guard(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	ctx, cancel := context.WithCancel(ctx)
	s, err := open(ctx, desc, conn, method, opts...)
	if err != nil {
		cancel()
		return nil, err
	}
	return &guardedStream{s, x, conn, cancel}, nil
}

// A guardedStream is a call that may be a query.
type guardedStream struct {
	grpc.ClientStream
	indexes *knownIndexes
	conn    *grpc.ClientConn
	cancel  context.CancelFunc
}

// SendMsg sends a request, unless it is a query whose index is not READY.
func (s *guardedStream) SendMsg(msg any) error {
	for _, query := range queriesOf(msg) {
		err := s.indexes.check(s.Context(), s.conn, query)
		if err != nil {
			s.cancel()
			return err
		}
	}
	return s.ClientStream.SendMsg(msg)
}

// RecvMsg receives an answer or the end of the call.
func (s *guardedStream) RecvMsg(msg any) error {
	err := s.ClientStream.RecvMsg(msg)
	if err != nil {
		s.cancel()
	}
	return err
}

// check returns why a query must not be sent.
func (x *knownIndexes) check(ctx context.Context, conn grpc.ClientConnInterface, query need) error {
	if !query.needsIndex() {
		return nil
	}

	x.mu.Lock()
	defer x.mu.Unlock()
	err := x.refresh(ctx, conn)
	if err != nil {
		return err
	}
	if x.all || slices.ContainsFunc(x.ready, query.servedBy) {
		return nil
	}
	return &unservedQuery{query, x.database}
}

// refresh lists the indexes if the last list is too old. Without a list that counts, no query can
// be sent, and a later try may help.
func (x *knownIndexes) refresh(ctx context.Context, conn grpc.ClientConnInterface) error {
	now := x.now()
	if !x.listed.IsZero() && now.Sub(x.listed) < listEvery {
		return nil
	}

	ready, err := x.list(ctx, conn)
	switch {
	case err == nil:
		x.listed, x.ready = now, ready
		return nil
	case x.emulated && status.Code(err) == codes.Unimplemented:
		x.listed, x.all = now, true
		return nil
	case !x.listed.IsZero() && now.Sub(x.listed) < listLasts:
		return nil
	default:
		return fmt.Errorf("could not list the indexes of %s, without which no query is run on the Enterprise edition: %w", x.database, err)
	}
}

// list returns the indexes that are READY. It costs no read.
func (x *knownIndexes) list(ctx context.Context, conn grpc.ClientConnInterface) (ready []route.Index, err error) {
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	parent := x.database + "/collectionGroups/-"
	ctx = metadata.NewOutgoingContext(ctx, metadata.Pairs("x-goog-request-params", "parent="+url.QueryEscape(parent)))

	req := &adminpb.ListIndexesRequest{Parent: parent, PageSize: 1000}
	for {
		page, err := adminpb.NewFirestoreAdminClient(conn).ListIndexes(ctx, req)
		if err != nil {
			return nil, err
		}
		for _, has := range page.Indexes {
			index, ok := indexOf(has)
			if ok && has.State == adminpb.Index_READY {
				ready = append(ready, index)
			}
		}
		if page.NextPageToken == "" {
			return ready, nil
		}
		req.PageToken = page.NextPageToken
	}
}

// indexOf returns an index as it was listed. It reports false if the index serves no query of
// Tally's.
func indexOf(has *adminpb.Index) (x route.Index, ok bool) {
	_, group, found := strings.Cut(has.Name, "/collectionGroups/")
	x.Collection, _, _ = strings.Cut(group, "/indexes/")
	x.Group = has.QueryScope == adminpb.Index_COLLECTION_GROUP
	inScope := x.Group || has.QueryScope == adminpb.Index_COLLECTION
	if !found || !inScope || has.ApiScope != adminpb.Index_ANY_API {
		return x, false
	}
	for _, f := range has.Fields {
		if f.GetOrder() == adminpb.Index_IndexField_ORDER_UNSPECIFIED {
			return x, false
		}
		x.Fields = append(x.Fields, route.IndexField{Field: document.Field(f.FieldPath), Descending: f.GetOrder() == adminpb.Index_IndexField_DESCENDING})
	}
	return x, true
}

// A need is what a query needs of its index: first the fields that are tested for equality, in any
// order, and then the fields along which the query goes.
type need struct {
	collection string
	group      bool
	equal      []document.Field // sorted
	along      []route.IndexField
	unknown    bool // the query is of a kind that Tally never sends
}

// needsIndex reports whether the query needs an index. A query that takes all documents of its
// collections, in any order, reads no more than it answers or counts.
func (n need) needsIndex() bool { return n.unknown || len(n.equal)+len(n.along) > 0 }

// String returns the index.
func (n need) String() string {
	if n.unknown {
		return n.collection + " (of a query that Tally does not know)"
	}
	x := route.Index{Collection: n.collection, Group: n.group}
	for _, f := range n.equal {
		x.Fields = append(x.Fields, route.IndexField{Field: f})
	}
	x.Fields = append(x.Fields, n.along...)
	return x.String()
}

// servedBy reports whether an index serves the query. Firestore may append the name to an index's
// fields.
func (n need) servedBy(x route.Index) bool {
	if n.unknown || x.Collection != n.collection || x.Group != n.group {
		return false
	}
	fields := x.Fields
	last := len(fields) - 1
	if last > 0 && fields[last].Field == route.DocumentName && len(fields) > len(n.equal)+len(n.along) {
		fields = fields[:last]
	}
	if len(fields) != len(n.equal)+len(n.along) {
		return false
	}

	var equal []document.Field
	for _, f := range fields[:len(n.equal)] {
		equal = append(equal, f.Field)
	}
	slices.Sort(equal)
	return slices.Equal(equal, n.equal) && slices.Equal(fields[len(n.equal):], n.along)
}

// queriesOf returns what the queries of a request need.
func queriesOf(msg any) []need {
	switch req := msg.(type) {
	case *firestorepb.RunQueryRequest:
		return []need{needOf(req.GetStructuredQuery(), nil)}
	case *firestorepb.RunAggregationQueryRequest:
		of := req.GetStructuredAggregationQuery()
		return []need{needOf(of.GetStructuredQuery(), of.GetAggregations())}
	case *firestorepb.ListenRequest:
		query := req.GetAddTarget().GetQuery().GetStructuredQuery()
		if query != nil {
			return []need{needOf(query, nil)}
		}
	case *firestorepb.ExecutePipelineRequest:
		return []need{{collection: "(pipeline)", unknown: true}}
	}
	return nil
}

// needOf returns what a query needs.
func needOf(query *firestorepb.StructuredQuery, aggregations []*firestorepb.StructuredAggregationQuery_Aggregation) need {
	n := need{unknown: len(query.GetFrom()) != 1}
	if n.unknown {
		return n
	}
	from := query.GetFrom()[0]
	n.collection, n.group = from.CollectionId, from.AllDescendants

	var ranges []string
	for _, f := range filtersOf(query.GetWhere()) {
		switch of := f.GetFieldFilter(); {
		case f.GetUnaryFilter() != nil:
			n.unknown = n.unknown || f.GetUnaryFilter().Op != firestorepb.StructuredQuery_UnaryFilter_IS_NULL
			n.equal = append(n.equal, document.Field(f.GetUnaryFilter().GetField().GetFieldPath()))
		case of == nil:
			n.unknown = true
		case slices.Contains(equalities, of.Op):
			n.equal = append(n.equal, document.Field(of.GetField().GetFieldPath()))
		case slices.Contains(comparisons, of.Op):
			ranges = append(ranges, of.GetField().GetFieldPath())
		default:
			n.unknown = true
		}
	}
	slices.Sort(n.equal)
	n.equal = slices.Compact(n.equal)

	descending := false
	for _, o := range query.GetOrderBy() {
		descending = o.Direction == firestorepb.StructuredQuery_DESCENDING
		n.addField(o.GetField().GetFieldPath(), descending)
	}
	slices.Sort(ranges)
	for _, field := range ranges {
		n.addField(field, descending)
	}
	for _, a := range aggregations {
		n.addField(a.GetSum().GetField().GetFieldPath(), false)
		n.addField(a.GetAvg().GetField().GetFieldPath(), false)
	}
	last := len(n.along) - 1
	if last >= 0 && len(n.equal)+last > 0 && n.along[last].Field == route.DocumentName { // each index may end in it
		n.along = n.along[:last]
	}
	return n
}

// Operators of conditions that Tally's queries have.
var (
	equalities = []firestorepb.StructuredQuery_FieldFilter_Operator{
		firestorepb.StructuredQuery_FieldFilter_EQUAL, firestorepb.StructuredQuery_FieldFilter_IN,
	}
	comparisons = []firestorepb.StructuredQuery_FieldFilter_Operator{
		firestorepb.StructuredQuery_FieldFilter_LESS_THAN, firestorepb.StructuredQuery_FieldFilter_LESS_THAN_OR_EQUAL,
		firestorepb.StructuredQuery_FieldFilter_GREATER_THAN, firestorepb.StructuredQuery_FieldFilter_GREATER_THAN_OR_EQUAL,
	}
)

// addField adds a field along which the query goes, unless the field is known already.
func (n *need) addField(path string, descending bool) {
	field := document.Field(path)
	isField := func(f route.IndexField) bool { return f.Field == field }
	if path != "" && !slices.Contains(n.equal, field) && !slices.ContainsFunc(n.along, isField) {
		n.along = append(n.along, route.IndexField{Field: field, Descending: descending})
	}
}

// filtersOf returns the conditions of a query, all of which must hold.
func filtersOf(where *firestorepb.StructuredQuery_Filter) []*firestorepb.StructuredQuery_Filter {
	all := where.GetCompositeFilter()
	switch {
	case where == nil:
		return nil
	case all.GetOp() == firestorepb.StructuredQuery_CompositeFilter_AND:
		return all.GetFilters()
	default:
		return []*firestorepb.StructuredQuery_Filter{where}
	}
}
