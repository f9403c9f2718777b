package route

import (
	"testing"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/google/go-cmp/cmp"
)

// Firestore merges what must be equal only where documents are counted.
func TestIndexes(t *testing.T) {
	where := func(field document.Field, value any) Condition { return Condition{field, Equal, value} }
	total := func(a Aggregate, field document.Field, conditions ...Condition) Total {
		return Total{Aggregate: a, Field: field, Where: conditions}
	}
	orders := Path{{Name: "orders"}, {Name: "order", Capture: true}}
	comments := Path{{Name: "posts"}, {Name: "post", Capture: true}, {Name: "comments"}, {Name: "id", Capture: true}}
	paid, due := where("status", "paid"), where("status", "due")

	for _, test := range []struct {
		name      string
		pattern   Path
		by        []Key
		totals    []Total
		documents bool
		composite []string
		single    []string
	}{
		{name: "all documents", pattern: comments, totals: []Total{total(Count, "")}},
		{
			name: "some documents", pattern: comments,
			totals: []Total{total(Count, "", where("approved", true), where("kind", nil))},
			single: []string{"comments (approved ASC)", "comments (kind ASC)"},
		},
		{
			name: "groups", pattern: orders, by: []Key{{Field: "shop"}},
			totals: []Total{total(Count, "")},
			single: []string{"orders (shop ASC)"},
		},
		{
			name: "some of a group", pattern: orders, by: []Key{{Field: "shop"}},
			totals: []Total{total(Count, "", paid)},
			single: []string{"orders (shop ASC)", "orders (status ASC)"},
		},
		{
			name: "sums", pattern: comments,
			totals: []Total{total(Sum, "stars"), total(Average, "stars"), total(Minimum, "stars"), total(Sum, "length")},
			single: []string{"comments (length ASC)", "comments (stars ASC)"},
		},
		{
			name: "the best", pattern: comments,
			totals: []Total{total(Maximum, "stars"), total(Latest, "at"), total(Earliest, "at")},
			single: []string{"comments (at ASC)", "comments (at DESC)", "comments (stars DESC)"},
		},
		{
			name: "sums of some", pattern: comments,
			totals:    []Total{total(Sum, "stars", where("approved", true)), total(Average, "stars", where("approved", false))},
			composite: []string{"comments (approved ASC, stars ASC)"},
		},
		{
			name: "the best of some", pattern: comments,
			totals: []Total{
				total(Latest, "at", where("approved", true)), total(Earliest, "at", where("approved", true)),
				total(Maximum, "stars", where("approved", true)), total(Minimum, "stars", where("approved", true)),
			},
			composite: []string{
				"comments (approved ASC, at ASC)", "comments (approved ASC, at DESC)",
				"comments (approved ASC, stars ASC)", "comments (approved ASC, stars DESC)",
			},
		},
		{
			name: "sums of a group", pattern: orders, by: []Key{{Field: "shop"}},
			totals: []Total{total(Sum, "amount"), total(Sum, "amount", paid), total(Sum, "amount", due), total(Maximum, "amount")},
			composite: []string{
				"orders (shop ASC, amount ASC)", "orders (shop ASC, amount DESC)", "orders (shop ASC, status ASC, amount ASC)",
			},
			single: []string{"orders (shop ASC)"},
		},
		{
			name: "fields of maps", pattern: orders, by: []Key{{Field: "customer.id"}},
			totals:    []Total{total(Latest, "paid.at", where("`a-b`.kind", "x"))},
			composite: []string{"orders (`a-b`.kind ASC, customer.id ASC, paid.at DESC)"},
			single:    []string{"orders (customer.id ASC)"},
		},
		{
			name: "the field itself is equal", pattern: orders, by: []Key{{Field: "shop"}},
			totals: []Total{
				total(Sum, "shop"), total(Count, "", where("shop", "b")),
				total(Maximum, "amount", where("amount", int64(5))), total(Sum, "amount", where("shop", "b")),
			},
			composite: []string{"orders (shop ASC, amount ASC)", "orders (shop ASC, amount DESC)"},
			single:    []string{"orders (shop ASC)"},
		},
		{
			name: "that in no group", pattern: comments,
			totals: []Total{total(Sum, "stars", where("stars", int64(5))), total(Maximum, "likes", where("likes", int64(5)))},
			single: []string{"comments (likes DESC)", "comments (stars ASC)"},
		},
		{name: "documents that are read", pattern: comments, totals: []Total{total(Sum, "stars")}, documents: true},
	} {
		r := &Route{pattern: test.pattern, By: test.by, Totals: test.totals, Documents: test.documents, queries: queries(test.totals, "")}
		routes := Routes{r, r}
		if d := cmp.Diff(test.composite, texts(routes.Indexes(Standard))); d != "" {
			t.Errorf("%s: composite indexes (-want +got):\n%s", test.name, d)
		}
		if d := cmp.Diff(test.single, texts(routes.FieldIndexes())); d != "" {
			t.Errorf("%s: indexes of one field (-want +got):\n%s", test.name, d)
		}
	}
}

// Routes whose collections have one id share indexes, in whatever order their conditions name the
// fields.
func TestIndexesOfSeveralRoutes(t *testing.T) {
	total := Total{Aggregate: Sum, Field: "amount", Where: []Condition{{"shop", Equal, "b"}}}
	grouped := Total{Aggregate: Sum, Field: "amount", Where: []Condition{{"status", Equal, "paid"}}}
	routes := Routes{
		{pattern: Path{{Name: "orders"}, {Name: "order", Capture: true}}, By: []Key{{Field: "shop"}}, queries: queries([]Total{grouped}, "")},
		{pattern: Path{{Name: "orders"}, {Name: "order", Capture: true}}, By: []Key{{Field: "status"}}, queries: queries([]Total{total}, "")},
		{pattern: Path{{Name: "orders"}, {Name: "order", Capture: true}, {Name: "lines"}, {Name: "line", Capture: true}}, queries: queries([]Total{total}, "")},
	}
	want := []string{"lines (shop ASC, amount ASC)", "orders (shop ASC, status ASC, amount ASC)"}
	if d := cmp.Diff(want, texts(routes.Indexes(Standard))); d != "" {
		t.Errorf("composite indexes (-want +got):\n%s", d)
	}
}

// A day is a range of its field: the fields that are equal come first, and the aggregated one last.
func TestIndexesOfDays(t *testing.T) {
	for _, test := range []struct {
		totals string
		want   []string
	}{
		{"count() as n", []string{"orders (shop ASC, at ASC)"}},
		{`count() where paid == true as n`, []string{"orders (paid ASC, shop ASC, at ASC)", "orders (shop ASC, at ASC)"}},
		{"sum(amount) as n, average(amount) as m", []string{"orders (shop ASC, at ASC)", "orders (shop ASC, at ASC, amount ASC)"}},
		{"latest(at) as n", []string{"orders (shop ASC, at ASC)", "orders (shop ASC, at DESC)"}},
		{"earliest(at) as n", []string{"orders (shop ASC, at ASC)"}},
	} {
		routes, err := Parse("orders/{order} by shop, day(at) -> shops/{shop}/days/{day} : " + test.totals + " : existing")
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(test.want, texts(routes.Indexes(Standard))); d != "" {
			t.Errorf("%s (-want +got):\n%s", test.totals, d)
		}
		if single := routes.FieldIndexes(); len(single) > 0 {
			t.Errorf("%s: indexes of one field: %v", test.totals, single)
		}
	}

	routes, err := Parse("shops/{shop}/orders/{order} by month(at) -> shops/{shop}/months/{month} : count() as n, sum(amount) as m : existing")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"orders (at ASC)"}, texts(routes.FieldIndexes())); d != "" {
		t.Errorf("one key (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"orders (at ASC, amount ASC)"}, texts(routes.Indexes(Standard))); d != "" {
		t.Errorf("one key (-want +got):\n%s", d)
	}
}

// Only a plain sum of all documents can do without its index: the option documents is for no other
// route.
func TestRemedy(t *testing.T) {
	for _, test := range []struct {
		route, want string
	}{
		{"orders/{order} -> totals/orders : amount", `create the index orders (amount ASC), or add ": documents" to the route to have each document read, which costs one read a document`},
		{"orders/{order} -> totals/orders : sum(amount) where paid == true as revenue", "create the index orders (paid ASC, amount ASC)"},
		{"orders/{order} by shop -> shops/{shop} : amount : existing", "create the index orders (shop ASC, amount ASC)"},
		{"orders/{order} -> totals/orders : maximum(amount) as largest", "create the index orders (amount DESC)"},
		{"orders/{order} by shop -> shops/{shop} : count() where paid == true as sold : existing", "create the index orders (paid ASC) and orders (shop ASC)"},
	} {
		routes, err := Parse(test.route)
		if err != nil {
			t.Fatal(err)
		}
		r := routes[0]
		if d := cmp.Diff(test.want, r.Remedy(r.IndexesOf(r.queries[0]))); d != "" {
			t.Errorf("%s (-want +got):\n%s", test.route, d)
		}
	}
}

func texts(indexes []Index) []string {
	var all []string
	for _, x := range indexes {
		all = append(all, x.String())
	}
	return all
}
