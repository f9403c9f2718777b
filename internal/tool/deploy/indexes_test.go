package deploy

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"cloud.google.com/go/firestore/apiv1/admin/adminpb"
	"github.com/firestore-tally/tally/internal/test/googletest"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
)

const orderRoutes = `orders/{order} by shop -> shops/{shop} : count() as orders, maximum(amount) as largest, sum(amount) where status == "paid" as revenue : existing`

// An index of Firestore's serves a query whatever the orders of the fields that are equal.
func TestIndexKey(t *testing.T) {
	const want = "g/indexes/shop, status, amount DESC"
	asc := func(path string) string { return `{"fieldPath": "` + path + `", "order": "ASCENDING"}` }
	desc := func(path string) string { return `{"fieldPath": "` + path + `", "order": "DESCENDING"}` }
	for _, test := range []struct {
		name, index string
		serves      bool
	}{
		{"the same", asc("shop") + "," + asc("status") + "," + desc("amount"), true},
		{"with the name", asc("shop") + "," + asc("status") + "," + desc("amount") + "," + desc("__name__"), true},
		{"others first", desc("status") + "," + asc("shop") + "," + desc("amount"), true},
		{"in a file of another time", asc("shop") + "," + asc("status") + `,{"fieldPath": "amount", "mode": "DESCENDING"}`, true},
		{"the other way round", asc("shop") + "," + asc("status") + "," + asc("amount"), false},
		{"the name the other way round", asc("shop") + "," + asc("status") + "," + desc("amount") + "," + asc("__name__"), false},
		{"in the middle", asc("shop") + "," + desc("amount") + "," + asc("status"), false},
		{"too few", asc("shop") + "," + desc("amount"), false},
		{"too many", asc("shop") + "," + asc("status") + "," + desc("amount") + "," + desc("at"), false},
		{"a list", `{"fieldPath": "shop", "arrayConfig": "CONTAINS"},` + asc("status") + "," + desc("amount"), false},
		{"nothing", "", false},
	} {
		var o Object
		if err := json.Unmarshal([]byte(`{"name": "g/indexes/7", "queryScope": "COLLECTION", "fields": [`+test.index+`]}`), &o); err != nil {
			t.Fatal(err)
		}
		if got := IndexKey(o, route.Standard) == want; got != test.serves {
			t.Errorf("%s: %q serves %q: %v, want %v", test.name, IndexKey(o, route.Standard), want, got, test.serves)
		}
		for path, value := range map[string]string{"queryScope": "COLLECTION_RECURSIVE", "apiScope": "DATASTORE_MODE_API", "density": "DENSE"} {
			before := o[path]
			if o[path] = value; IndexKey(o, route.Standard) != "" {
				t.Errorf("%s: of %s %s it serves %q", test.name, path, value, IndexKey(o, route.Standard))
			}
			o[path] = before
			if before == nil {
				delete(o, path)
			}
		}
	}
}

// Routes of one pattern share a trigger.
func TestTriggerOfAPattern(t *testing.T) {
	d := described(t, options(t, orderRoutes+"; orders/{o} by customer.id -> customers/{customer.id} : count() as orders : existing"))
	triggers := make(map[string]int)
	for _, r := range d.OfKind("trigger") {
		triggers[r.Name]++
	}
	want := map[string]int{"projects/p/locations/nam5/triggers/tally-orders-964b9b": 1, "projects/p/locations/europe-west1/triggers/tally-orders-orders-152d65": 1}
	if d := cmp.Diff(want, triggers); d != "" {
		t.Errorf("triggers (-want +got):\n%s", d)
	}
}

// A wait ends when nothing can come of it any more: the build failed, somebody deleted the index,
// it cannot be read, or the user has had enough.
func TestWaitForIndexes(t *testing.T) {
	const name = "projects/my-project/databases/(default)/collectionGroups/orders/indexes/7"
	routes := `orders/{order} by shop -> shops/{shop} : sum(amount) as revenue : existing`
	enough := errors.New("enough")

	for _, test := range []struct {
		name    string
		state   adminpb.Index_State
		patient bool
		want    string
	}{
		{"ready", adminpb.Index_READY, true, ""},
		{"broken", adminpb.Index_NEEDS_REPAIR, true, "index orders (shop ASC, amount ASC) in (default): its build failed; run tally deploy again to recreate the index"},
		{"gone", adminpb.Index_STATE_UNSPECIFIED, true, "index orders (shop ASC, amount ASC) in (default): not there; run tally deploy again to recreate the index"},
		{"never", adminpb.Index_CREATING, false, "enough"},
	} {
		g := googletest.Start(t, "my-project")
		g.Builds = -1
		if test.state != adminpb.Index_STATE_UNSPECIFIED {
			order := &adminpb.Index_IndexField_Order_{Order: adminpb.Index_IndexField_ASCENDING}
			g.Put(name, &adminpb.Index{QueryScope: adminpb.Index_COLLECTION, State: test.state, Fields: []*adminpb.Index_IndexField{
				{FieldPath: "shop", ValueMode: order}, {FieldPath: "amount", ValueMode: order}, {FieldPath: "__name__", ValueMode: order},
			}})
		}
		o := options(t, routes)
		o.Databases = o.Databases[:1]
		d := (&testProject{T: t, google: g, options: o}).read()

		ctx, cancel := context.WithCancelCause(t.Context())
		var progress strings.Builder
		d.Progress = writer(func(text []byte) {
			progress.Write(text)
			cancel(enough)
		})
		err := d.ready(ctx)
		cancel(nil)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
		if got, want := progress.String(), "  orders (shop ASC, amount ASC) in (default): being built\n"; !test.patient && got != want {
			t.Errorf("%s: said %q, want %q", test.name, got, want)
		}
	}
}

// A writer calls itself with what is written.
type writer func([]byte)

func (w writer) Write(text []byte) (int, error) {
	w(text)
	return len(text), nil
}
