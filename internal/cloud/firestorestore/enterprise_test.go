package firestorestore_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/admin/adminpb"
	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// openEnterprise opens the Store of a new database, as one of the Enterprise edition.
func openEnterprise(t *testing.T, dial ...grpc.DialOption) *firestorestore.Store {
	t.Helper()
	return openEnterpriseAt(t, time.Now, dial...)
}

// openEnterpriseAt is openEnterprise with a clock.
func openEnterpriseAt(t *testing.T, now func() time.Time, dial ...grpc.DialOption) *firestorestore.Store {
	t.Helper()
	store, err := firestorestore.OpenEnterprise(t.Context(), now, emulatortest.Addr(t), emulatortest.Project(t), firestore.DefaultDatabaseID, slog.New(slog.DiscardHandler), dial...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

// A query is sent only if the last list of indexes has its index, and the list is not too old: also
// after somebody has deleted the index, or the list can no longer be had.
func TestListOfIndexes(t *testing.T) {
	t.Parallel()
	tmpl, routes := template(t, "orders/{order} -> totals/orders : sum(amount) where paid == true as revenue")
	c, _ := tmpl.Counter("totals/orders")
	has := routes.Indexes(route.Enterprise)
	database := emulatortest.NewEnterprise(has)
	now := time.Unix(1_800_000_000, 0)
	store := openEnterpriseAt(t, func() time.Time { return now }, database.DialOptions()...)

	denied := status.Error(codes.PermissionDenied, "The caller does not have permission")
	for _, step := range []struct {
		name   string
		after  time.Duration // since the step before
		change func()
		lists  int // in this step
		unkept bool
		failed bool // and it is tried again
	}{
		{name: "the first query", lists: 1},
		{name: "a little later", after: 4 * time.Minute},
		{name: "an index was deleted, unseen", change: func() { database.SetIndexes(nil) }},
		{name: "that is seen", after: time.Minute, lists: 1, unkept: true},
		{name: "the index is there again, unseen", change: func() { database.SetIndexes(has) }, unkept: true},
		{name: "that is seen, too", after: 5 * time.Minute, lists: 1},
		{name: "lists fail", after: 5 * time.Minute, change: func() { database.SetAdminIndexes(nil, denied) }, lists: 1},
		{name: "the list is still good", after: 5*time.Minute - time.Second, lists: 1},
		{name: "it counts as none", after: time.Second, lists: 1, failed: true},
		{name: "lists come again", change: func() { database.SetIndexes(has) }, lists: 1},
	} {
		now = now.Add(step.after)
		if step.change != nil {
			step.change()
		}
		before := database.Lists()
		_, err := store.Sources(t.Context(), c).Sum(t.Context())
		if (err != nil) != (step.unkept || step.failed) || errors.Is(err, rollup.ErrUnkept) != step.unkept {
			t.Errorf("%s: got %v", step.name, err)
		}
		if step.unkept && !strings.Contains(err.Error(), "its index orders (paid ASC, amount ASC) is not READY in database (default)") {
			t.Errorf("%s: the error does not name the index: %v", step.name, err)
		}
		if lists := database.Lists() - before; lists != step.lists {
			t.Errorf("%s: the indexes were listed %d times, want %d", step.name, lists, step.lists)
		}
	}
	for _, scan := range database.Scans() {
		if scan != "orders (paid ASC, amount ASC)" { // once, before the deletion was seen
			t.Errorf("scanned for want of %s", scan)
		}
	}
}

// Without its index, no walk is sent either. The error says which index it is.
func TestWalksWithoutIndexes(t *testing.T) {
	t.Parallel()
	_, routes := template(t, "shops/{shop}/orders/{order} -> shops/{shop} : count() as orders : existing")
	database := emulatortest.NewEnterprise(nil)
	store := openEnterprise(t, database.DialOptions()...)
	_, rollUps := store.RollUps(t.Context(), routes[0].Template, "", 10)
	_, missing := store.Missing(t.Context(), routes[0], time.Time{}, "", 10)
	_, notes := store.Notes(t.Context(), "", 10)
	for want, err := range map[string]error{
		"collection group shops (__name__ ASC)":  rollUps,
		"collection group orders (__name__ ASC)": missing,
		"rollup_audit (__name__ ASC)":            notes,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", want, err)
		}
	}
	if scans := database.Scans(); len(scans) > 0 {
		t.Errorf("scanned: %v", scans)
	}
}

// These indexes serve a sum of the paid orders' amounts, and those do not.
func TestWhichIndexServes(t *testing.T) {
	t.Parallel()
	shops, _ := template(t, "orders/{order} by shop -> shops/{shop} : sum(amount) where paid == true as revenue : existing")
	c, _ := shops.Counter("shops/a")
	of := func(fields ...string) *adminpb.Index {
		x := route.Index{Collection: "orders"}
		for _, f := range fields {
			name, descending := strings.CutPrefix(f, "-")
			x.Fields = append(x.Fields, route.IndexField{Field: document.Field(name), Descending: descending})
		}
		return emulatortest.AdminIndex(x, adminpb.Index_READY)
	}
	in := func(change func(*adminpb.Index)) *adminpb.Index {
		x := of("paid", "shop", "amount")
		change(x)
		return x
	}
	count := of("shop")
	for _, test := range []struct {
		name   string
		index  *adminpb.Index
		serves bool
	}{
		{"as it is named", of("paid", "shop", "amount"), true},
		{"equal fields the other way around", of("shop", "paid", "amount"), true},
		{"equal fields in another order of values", of("-shop", "paid", "amount"), true},
		{"with the name that Firestore appends", of("paid", "shop", "amount", "__name__"), true},
		{"dense, sparse", in(func(x *adminpb.Index) { x.Density = adminpb.Index_DENSE }), true},
		{"with less", of("paid", "amount"), false},
		{"with more", of("paid", "shop", "amount", "at"), false},
		{"the sum first", of("amount", "paid", "shop"), false},
		{"the sum in another order of values", of("paid", "shop", "-amount"), false},
		{"being built", in(func(x *adminpb.Index) { x.State = adminpb.Index_CREATING }), false},
		{"broken", in(func(x *adminpb.Index) { x.State = adminpb.Index_NEEDS_REPAIR }), false},
		{"of the group", in(func(x *adminpb.Index) { x.QueryScope = adminpb.Index_COLLECTION_GROUP }), false},
		{"for another API", in(func(x *adminpb.Index) { x.ApiScope = adminpb.Index_MONGODB_COMPATIBLE_API }), false},
		{"of another collection", in(func(x *adminpb.Index) { x.Name = strings.Replace(x.Name, "orders", "carts", 1) }), false},
	} {
		database := emulatortest.NewEnterprise(nil)
		database.SetAdminIndexes([]*adminpb.Index{count, test.index}, nil)
		_, err := openEnterprise(t, database.DialOptions()...).Sources(t.Context(), c).Sum(t.Context())
		if errors.Is(err, rollup.ErrUnkept) == test.serves || (err == nil) != test.serves {
			t.Errorf("%s: got %v, want it to serve: %v", test.name, err, test.serves)
		}
	}
}

// A Store that was opened as one of Standard tells that its database is none.
func TestCheckEdition(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		opened route.Edition
		is     adminpb.Database_DatabaseEdition
		err    error // in place of an answer
		wrong  bool
	}{
		{"Standard", route.Standard, adminpb.Database_STANDARD, nil, false},
		{"Enterprise, opened as Standard", route.Standard, adminpb.Database_ENTERPRISE, nil, true},
		{"Enterprise", route.Enterprise, adminpb.Database_ENTERPRISE, nil, false},
		{"untold", route.Standard, 0, status.Error(codes.PermissionDenied, "no"), false},
	} {
		tell := grpc.WithChainUnaryInterceptor(func(_ context.Context, _ string, req, reply any, _ *grpc.ClientConn, _ grpc.UnaryInvoker, _ ...grpc.CallOption) error {
			if name := req.(*adminpb.GetDatabaseRequest).Name; !strings.HasSuffix(name, "/databases/(default)") {
				t.Errorf("asked for %s", name)
			}
			reply.(*adminpb.Database).DatabaseEdition = test.is
			return test.err
		})
		store, err := firestorestore.OpenEdition(t.Context(), test.opened, emulatortest.Addr(t), emulatortest.Project(t), firestore.DefaultDatabaseID, slog.New(slog.DiscardHandler), tell)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		if err := store.CheckEdition(t.Context()); (err != nil) != test.wrong {
			t.Errorf("%s: got %v", test.name, err)
		}
	}
}

// An emulator makes no indexes and lists none.
func TestEmulatorHasAllIndexes(t *testing.T) {
	t.Parallel()
	totals, _ := template(t, "orders/{order} -> totals/orders : amount")
	c, _ := totals.Counter("totals/orders")
	if _, err := openEnterprise(t).Sources(t.Context(), c).Sum(t.Context()); err != nil {
		t.Error(err)
	}
}
