package doctor

import (
	"slices"
	"strings"
	"testing"

	"cloud.google.com/go/firestore/apiv1/admin/adminpb"
	"github.com/firestore-tally/tally/internal/test/googletest"
	"github.com/google/go-cmp/cmp"
)

// groupRoutes are those of sound, and one that needs an index.
const groupRoutes = "counters/{counter}/shards/{shard} -> rollups/{counter} : count;" +
	"posts/{post}/hot/{n} -> posts/{post}/sums/hot : likes : documents; pages/{page}/shards/{shard} -> pages/{page}/sums/all : views : every 10s;" +
	`orders/{order} by shop -> shops/{shop} : latest(at) as last_order : existing`

// needIndexes deploys groupRoutes, without their indexes.
func needIndexes(g *googletest.Google) { setRoutes(g, groupRoutes) }

// setRoutes deploys routes.
func setRoutes(g *googletest.Google, routes string) {
	for _, function := range []string{onWriteIs, scheduleIs} {
		setEnv(g, function, "TALLY_ROUTES", routes)
	}
}

// index puts the index of groupRoutes into a database.
func index(g *googletest.Google, database string, state adminpb.Index_State) {
	field := func(path string, order adminpb.Index_IndexField_Order) *adminpb.Index_IndexField {
		return &adminpb.Index_IndexField{FieldPath: path, ValueMode: &adminpb.Index_IndexField_Order_{Order: order}}
	}
	g.Put("projects/"+project+"/databases/"+database+"/collectionGroups/orders/indexes/7", &adminpb.Index{
		QueryScope: adminpb.Index_COLLECTION, State: state, Fields: []*adminpb.Index_IndexField{
			field("shop", adminpb.Index_IndexField_ASCENDING), field("at", adminpb.Index_IndexField_DESCENDING), field("__name__", adminpb.Index_IndexField_DESCENDING),
		},
	})
}

// Each database has its indexes, which may be there or not, and ready or not.
func TestIndexes(t *testing.T) {
	const here = "index orders (shop ASC, at DESC) in "
	const deploys = "tally deploy --project=my-project"
	for _, test := range []struct {
		name     string
		orders   adminpb.Index_State // of the index in the database orders
		problems []string
		remedies []string
	}{
		{"ready", adminpb.Index_READY, nil, nil},
		{"missing", adminpb.Index_STATE_UNSPECIFIED, []string{"create " + here + "orders"}, []string{deploys}},
		{"being built", adminpb.Index_CREATING, []string{here + "orders: being built"}, []string{"tally deploy --project=my-project --wait"}},
		{
			"broken", adminpb.Index_NEEDS_REPAIR,
			[]string{"replace " + here + "orders: its build failed, and it never becomes ready"},
			[]string{deploys},
		},
	} {
		g := sound(t)
		needIndexes(g)
		index(g, "(default)", adminpb.Index_READY)
		if test.orders != adminpb.Index_STATE_UNSPECIFIED {
			index(g, "orders", test.orders)
		}

		_, findings, err := examined(t.Context(), g)
		if err != nil {
			t.Fatal(err)
		}
		var problems, remedies []string
		for _, p := range slices.Concat(findings["as-deployed"].Problems, findings["indexes"].Problems) {
			if !strings.Contains(p.Text, "index ") {
				continue
			}
			problems = append(problems, p.Text)
			remedies = append(remedies, p.Remedy)
		}
		if d := cmp.Diff([][]string{test.problems, test.remedies}, [][]string{problems, remedies}); d != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, d)
		}
		checkExplained(t, map[string]Finding{"indexes": findings["indexes"]})
	}
}
