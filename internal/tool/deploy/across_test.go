package deploy

import (
	"slices"
	"strings"
	"testing"

	"cloud.google.com/go/firestore/apiv1/admin/adminpb"
	"github.com/firestore-tally/tally/internal/test/googletest"
	"github.com/google/go-cmp/cmp"
)

const acrossRoute = "posts/{post}/comments/{comment} by author -> users/{author} : count() as comments, sum(stars) as stars : existing"

// orders returns the orders that a field of the fake project is indexed in.
func ownOrders(t *testing.T, g *googletest.Google, name string) (all []string) {
	t.Helper()
	f, isField := g.Get(name).(*adminpb.Field)
	if !isField {
		return nil
	}
	for _, x := range f.IndexConfig.Indexes {
		how := x.Fields[0].GetOrder().String()
		if x.Fields[0].GetOrder() == adminpb.Index_IndexField_ORDER_UNSPECIFIED {
			how = x.Fields[0].GetArrayConfig().String()
		}
		all = append(all, x.QueryScope.String()+" "+x.Fields[0].FieldPath+" "+how)
	}
	slices.Sort(all)
	return all
}

// A route across parents gets one trigger for documents at any depth, and an index of the
// collection group for its key. The field keeps the indexes that it has: those by default, or what
// the app said.
func TestAcross(t *testing.T) {
	const field = "projects/my-project/databases/(default)/collectionGroups/comments/fields/author"
	byDefault := []string{"COLLECTION author ASCENDING", "COLLECTION author DESCENDING"}
	const group = "COLLECTION_GROUP author ASCENDING"
	own := func(scope adminpb.Index_QueryScope) *adminpb.Index {
		contains := &adminpb.Index_IndexField_ArrayConfig_{ArrayConfig: adminpb.Index_IndexField_CONTAINS}
		return &adminpb.Index{QueryScope: scope, Fields: []*adminpb.Index_IndexField{{FieldPath: "author", ValueMode: contains}}}
	}
	for _, test := range []struct {
		name   string
		routes string
		has    *adminpb.Field
		want   []string
	}{
		{"by default", acrossRoute, nil, append(slices.Clone(byDefault), group)},
		{"exempt", acrossRoute, &adminpb.Field{IndexConfig: &adminpb.Field_IndexConfig{}}, []string{group}},
		{
			"the app's own", acrossRoute,
			&adminpb.Field{IndexConfig: &adminpb.Field_IndexConfig{Indexes: []*adminpb.Index{own(adminpb.Index_COLLECTION), own(adminpb.Index_COLLECTION_GROUP)}}},
			[]string{"COLLECTION author CONTAINS", group, "COLLECTION_GROUP author CONTAINS"},
		},
		{
			"one collection, too", acrossRoute + "; comments/{c} by author -> guests/{author} : count() as comments : existing",
			&adminpb.Field{IndexConfig: &adminpb.Field_IndexConfig{}}, []string{byDefault[0], group},
		},
	} {
		p := oneCounter(t)
		p.options.Config = options(t, test.routes).Config
		if test.has != nil {
			p.google.Put(field, test.has)
		}
		said := p.deploy()
		if d := cmp.Diff(test.want, ownOrders(t, p.google, field)); d != "" {
			t.Errorf("%s: the indexes of author (-want +got):\n%s\n%s", test.name, d, said)
		}
		if said := p.deploy(); said != "" {
			t.Errorf("%s: something is left to do:\n%s", test.name, said)
		}
	}
}

// Routes of one collection share the trigger of a route across parents. It is no other route's.
func TestTriggersAcross(t *testing.T) {
	const each = "posts/{post}/comments/{comment} -> posts/{post} : count() as comments : existing"
	documents := func(routes string) (all []string) {
		for _, r := range described(t, options(t, routes)).OfKind("trigger") {
			_, id := cut(r.Name)
			all = append(all, id+" "+filter(r.Want, "document"))
		}
		return all
	}
	const own = "posts/*/comments/*"
	const deep = "posts/{path=**}/comments/*"
	for routes, want := range map[string]string{each: own, acrossRoute: deep, each + ";" + acrossRoute: deep, acrossRoute + ";" + each: deep} {
		got := documents(routes)
		isWanted := func(text string) bool { return strings.HasSuffix(text, " "+want) }
		if len(got) != 2 || !isWanted(got[0]) || !isWanted(got[1]) {
			t.Errorf("%s: got %q, want %s in each database", routes, got, want)
		}
	}
	if a, b := documents(each)[0], documents(acrossRoute)[0]; strings.Fields(a)[0] == strings.Fields(b)[0] {
		t.Errorf("both triggers are called %s", a)
	}
}

// The functions wait for the index of a collection group as for any other.
func TestWaitsForGroup(t *testing.T) {
	p := oneCounter(t)
	p.options.Config = options(t, acrossRoute).Config
	d := p.read()
	var labels []string
	for _, r := range d.unready() {
		labels = append(labels, r.String())
	}
	slices.Sort(labels)
	want := []string{"field index comments.author in (default)", "index collection group comments (author ASC, stars ASC) in (default)"}
	if d := cmp.Diff(want, labels); d != "" {
		t.Errorf("unready (-want +got):\n%s", d)
	}
	plan, err := d.Plan(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(plan.Awaited)
	if d := cmp.Diff([]string{"collection group comments (author ASC, stars ASC) in (default)", "comments.author in (default)"}, plan.Awaited); d != "" {
		t.Errorf("awaited (-want +got):\n%s", d)
	}
	for _, s := range plan.Steps {
		if s.Of != "API" && s.Of != "index" && s.Of != fieldIndex {
			t.Errorf("before the indexes are ready, the plan has %s", s.Title)
		}
	}
}
