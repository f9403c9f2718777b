package storetest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/internal/value"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
	"google.golang.org/grpc"
)

// A database of the Enterprise edition serves all that a Standard one serves, by the indexes that
// Routes.Indexes names, and scans nothing.
func TestEnterprise(t *testing.T) { run(t, 20, openEnterprise) }

func openEnterprise(t *testing.T) backend {
	e := &enterpriseStore{t: t, project: emulatortest.Project(t), stores: make(map[string]*firestorestore.Store)}
	base := e.of(nil)
	b := backendOf(t, e.project, base)
	e.AuditStore = base
	b.AuditStore = e
	return b
}

// An enterpriseStore has for each template a Store of its own, of the same database. The database
// has the indexes of the template's routes then, and no other.
type enterpriseStore struct {
	rollup.AuditStore // what asks for no documents of a template

	t       *testing.T
	project string
	mu      sync.Mutex
	stores  map[string]*firestorestore.Store
}

// of returns the Store of a template.
func (e *enterpriseStore) of(routes route.Routes) *firestorestore.Store {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.stores[routes.String()]
	if s == nil {
		database := emulatortest.NewEnterprise(routes.Indexes(route.Enterprise))
		s = openEdition(e.t, route.Enterprise, e.project, database.DialOptions()...)
		e.stores[routes.String()] = s
		e.t.Cleanup(func() {
			for _, scan := range database.Scans() {
				e.t.Errorf("%v: scanned for want of %s", routes, scan)
			}
		})
	}
	return s
}

func (e *enterpriseStore) View(ctx context.Context, c route.Counter) (rollup.Snapshot, error) {
	return e.of(c.Template.Routes).View(ctx, c)
}

func (e *enterpriseStore) Sources(ctx context.Context, c route.Counter) rollup.Snapshot {
	return e.of(c.Template.Routes).Sources(ctx, c)
}

func (e *enterpriseStore) RollUps(ctx context.Context, t *route.Template, from string, limit int) (rollup.Page, error) {
	return e.of(t.Routes).RollUps(ctx, t, from, limit)
}

func (e *enterpriseStore) Recent(ctx context.Context, t *route.Template, since func(string) time.Time, from string, limit int) (rollup.Page, error) {
	return e.of(t.Routes).Recent(ctx, t, since, from, limit)
}

func (e *enterpriseStore) Missing(ctx context.Context, r *route.Route, since time.Time, from string, limit int) (rollup.Page, error) {
	return e.of(r.Template.Routes).Missing(ctx, r, since, from, limit)
}

// Transactions of Enterprise take no locks by themselves. Taken for one of Standard, such a
// database never rolls up a document that the app writes all the time.
func TestContendedOnEnterprise(t *testing.T) {
	t.Parallel()
	for _, edition := range []route.Edition{route.Standard, route.Enterprise} {
		database := &emulatortest.Enterprise{Optimistic: true}
		project := emulatortest.Project(t)
		app := emulatortest.ClientDatabase(t, project, firestore.DefaultDatabaseID)
		var writing sync.WaitGroup
		write := func() { // waits for the lock, if there is one
			_, err := app.Doc("posts/x").Set(t.Context(), map[string]any{"edits": firestore.Increment(1)}, firestore.MergeAll)
			if err != nil {
				t.Error(err)
			}
		}
		busy := grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			commit, ok := req.(*firestorepb.CommitRequest)
			if ok && emulatortest.IsOptimistic(commit.Transaction) {
				write()
			} else if ok {
				writing.Go(write)
			}
			return invoke(ctx, method, req, reply, conn, opts...)
		})
		write()

		store := openEdition(t, edition, project, append([]grpc.DialOption{busy}, database.DialOptions()...)...)
		c := counter("posts/{p}/likes/{u} -> posts/{p} : count() as likes : existing", "posts/x/likes")
		r := rollup.RollUp{Values: map[string]value.Value{"likes": value.Int(1)}, Tally: document.Tally{AsOf: time.Unix(1, 0)}}
		err := store.WriteLocked(t.Context(), c, r, document.Tally{})
		if edition == route.Standard && !errors.Is(err, rollup.ErrConflict) {
			t.Errorf("without the edition: got %v, want %v", err, rollup.ErrConflict)
		}
		if edition == route.Enterprise && err != nil {
			t.Errorf("with the edition: %v", err)
		}
		writing.Wait()
	}
}

// A store of Standard keeps to no list of indexes. On an Enterprise database without any, its
// queries scan. One of Enterprise does not send them.
func TestScansOnEnterprise(t *testing.T) {
	t.Parallel()
	c := counter("orders/{order} -> totals/orders : amount", "orders")
	for _, edition := range []route.Edition{route.Standard, route.Enterprise} {
		database := &emulatortest.Enterprise{Unindexed: true}
		store := openEdition(t, edition, emulatortest.Project(t), database.DialOptions()...)
		_, err := store.Sources(t.Context(), c).Sum(t.Context())
		scans := database.Scans()
		if edition == route.Standard && (err != nil || len(scans) == 0) {
			t.Errorf("Standard: got %v, scans %v; want scans", err, scans)
		}
		if edition == route.Enterprise && (!errors.Is(err, rollup.ErrUnkept) || len(scans) > 0) {
			t.Errorf("Enterprise: got %v, scans %v; want %v and none", err, scans, rollup.ErrUnkept)
		}
	}
}
