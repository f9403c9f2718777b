package reason_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/reason"
	"github.com/firestore-tally/tally/rollup/route"
)

// Each way in which a document belongs to no group has a reason, and there are few of them.
func TestUngrouped(t *testing.T) {
	routes, err := route.Parse("orders/{order} by shop -> shops/{shop} : count() as orders : existing")
	if err != nil {
		t.Fatal(err)
	}
	source, _ := routes.Source("orders/1")
	for _, test := range []struct {
		kind, text  string
		reason, why string // "": it belongs to a group
	}{
		{"a string", "7", "", ""},
		{"", "", "", "it has no field shop"},
		{"a reference", "", "a reference", "its shop is a reference, not a string: group by ref(shop)"},
		{"an array", "", "an array", "its shop is an array, and a document is in one group: let the app write a document for each element, as for posts by tag (docs/recipes.md#posts-by-tag)"},
		{"a number", "", "a number", "its shop is a number, not a string: group by number(shop)"},
		{"null", "", "null", "its shop is null, not a string"},
		{"a string", "", "empty", "its shop is empty"},
		{"a string", "a/b", "a path", `its shop is "a/b", which holds a slash`},
		{"a string", strings.Repeat("x", 1500), "too long", "its shop is longer than 1,499 bytes, which no query takes"},
	} {
		got := omissions(source, test.kind, test.text)
		if test.why == "" {
			if len(got) > 0 {
				t.Errorf("%+v: %+v, want a group", test, got)
			}
			continue
		}
		if len(got) != 1 || got[0].Route != routes[0] || got[0].About != test.reason || got[0].Why != test.why {
			t.Errorf("%+v: got %+v, want %q: %q", test, got, test.reason, test.why)
		}
	}
}

// omissions returns why a source is in no counter or window if each of its fields holds something.
func omissions(s route.Source, kind string, held any) (all []reason.Reason) {
	holds := func(document.Field) (string, any) { return kind, held }
	for _, r := range s.Routes() {
		all = append(all, reason.Omissions(r, reason.Document{Path: s.Path(), Holds: holds})...)
	}
	return all
}

// A value of another kind names the key that takes it, and a reference to another place says where
// it should lead.
func TestUngroupedByFunctions(t *testing.T) {
	routes, err := route.Parse(`comments/{comment} by ref(author) -> users/{author} : count() as comments : existing
follows/{follow} by number(member_id) as member -> members/{member} : count() as followers : existing
visits/{visit} by day(at) -> days/{day} : count() as visits : within`)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		path, kind string
		held       any
		want       string
	}{
		{"comments/1", "a string", "ann", "its author is a string, not a reference: group by author"},
		{"comments/1", "a boolean", true, "its author is a boolean, not a reference: no key takes a boolean; count() where author == true is how many documents have it"},
		{"comments/1", "a number", int64(1), "its author is a number, not a reference: group by number(author)"},
		{"comments/1", "a reference", document.Reference("people/ann"), "its author refers to people/ann, not to users/{author}"},
		{"comments/1", "a reference", nil, "its author refers to a document of another database, as a clone or an import leaves it: let the app write the reference again"},
		{"follows/1", "a string", "42", "its member_id is a string, not a number: group by member_id"},
		{"visits/1", "a number", int64(1764254000000), "its at is a number, not a timestamp: let the app write a timestamp"},
		{"visits/1", "a string", "2026-11-27", "its at is a string, not a timestamp: let the app write a timestamp"},
	} {
		source, _ := routes.Source(test.path)
		got := omissions(source, test.kind, test.held)
		if len(got) != 1 || got[0].Why != test.want {
			t.Errorf("%+v: got %+v", test, got)
		}
	}
}

// What is neither a time nor may become one is in no window of its field.
func TestTimeless(t *testing.T) {
	routes, err := route.Parse(`likes/{like} -> totals/likes : count() where at > now - 24h as day, count() where at > now - 7d as week, count() as all
orders/{order} -> totals/orders : count() where paid.at > now - 30d as lately`)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		path, kind string
		reasons    []string
		why        string
	}{
		{"likes/1", "a timestamp", nil, ""},
		{"likes/1", "null", nil, ""},
		{"likes/1", "", nil, ""},
		{"likes/1", "a number", []string{"at is a number"}, "its at is a number, not a timestamp"},
		{"orders/1", "a string", []string{"paid.at is a string"}, "its paid.at is a string, not a timestamp"},
	} {
		source, _ := routes.Source(test.path)
		got := omissions(source, test.kind, "")
		var reasons []string
		for _, o := range got {
			reasons = append(reasons, o.About)
			if o.Why != test.why || !o.Route.Covers(test.path) {
				t.Errorf("%+v: got %+v", test, o)
			}
		}
		if !slices.Equal(reasons, test.reasons) {
			t.Errorf("%+v: reasons %q", test, reasons)
		}
	}
}
