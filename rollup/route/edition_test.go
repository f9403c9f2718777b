package route

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// On Enterprise each query has an index of its own, also of one field, and none are merged. Only
// counts of whole collections, and reads of all their documents, have none. Walks go along names.
func TestIndexesOfEnterprise(t *testing.T) {
	const notes = "rollup_audit (__name__ ASC)"
	for _, test := range []struct {
		routes string
		want   []string // without that of notes
	}{
		{"counters/{counter}/shards/{shard} -> rollups/{counter} : count", []string{
			"collection group rollups (__name__ ASC)", "collection group shards (__name__ ASC)", "shards (count ASC)",
		}},
		{"posts/{post}/likes/{like} -> posts/{post} : count() as likes : existing", []string{
			"collection group likes (__name__ ASC)", "collection group posts (__name__ ASC)",
		}},
		{"orders/{order} -> totals/orders : amount", []string{"orders (amount ASC)"}},
		{"orders/{order} -> totals/orders : amount : documents", nil},
		{`orders/{order} -> totals/orders : count() where paid == true and state in ["a", "b"] as paid`, []string{"orders (paid ASC, state ASC)"}},
		{"users/{user} by country -> countries/{country} : count() as users, sum(karma) as karma : existing", []string{
			"collection group countries (__name__ ASC)", "users (country ASC)", "users (country ASC, karma ASC)",
		}},
		{"orders/{order} by shop, day(at) -> shops/{shop}/days/{day} : count() as n, latest(at) as last : within shops/{shop}", []string{
			"collection group days (__name__ ASC)", "orders (shop ASC, at ASC)", "orders (shop ASC, at DESC)",
		}},
		{"shops/{shop}/orders/{order} by month(at) -> shops/{shop}/months/{month} : count() where paid == true as n : within shops/{shop}", []string{
			"collection group months (__name__ ASC)", "collection group orders (__name__ ASC)", "orders (at ASC)", "orders (paid ASC, at ASC)",
		}},
		{"orders/{order} by ref(customer), state -> users/{customer}/states/{state} : count() as n : existing", []string{
			"orders (customer ASC)", "orders (customer ASC, state ASC)", "collection group states (__name__ ASC)",
		}},
		{"posts/{post}/likes/{like} -> posts/{post} : count() where at > now - 24h as today : existing", []string{
			"collection group likes (__name__ ASC)", "likes (at ASC)", "collection group posts (__name__ ASC)",
		}},
		{"orders/{order} -> totals/orders : minimum(amount) where paid == true and at > timestamp(\"2026-01-01T00:00:00Z\") as least", []string{
			"orders (paid ASC, amount ASC, at ASC)",
		}},
	} {
		routes, err := Parse(test.routes)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, x := range texts(routes.Indexes(Enterprise)) {
			if x != notes {
				got = append(got, x)
			}
		}
		if d := cmp.Diff(test.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", test.routes, d)
		}
		if !strings.Contains(strings.Join(texts(routes.Indexes(Enterprise)), "\n"), notes) {
			t.Errorf("%s: no index for notes", test.routes)
		}
	}
}
