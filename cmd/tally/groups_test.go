//go:build unix

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup/route"
)

const groupRoutes = route.Default + `
orders/{order} by shop -> shops/{shop} : count() as orders, sum(amount) where status == "paid" as revenue, maximum(amount) as largest, latest(at) as last : existing
posts/{post}/votes/{user} -> posts/{post} : count() where on == 1 as votes : existing
posts/{post}/ratings/{user} -> posts/{post} : average(stars) as rating : existing
posts/{post}/parts/{part} -> post_parts/{post} : sum(size.bytes) as bytes
sales/{sale} by shop -> sale_totals/{shop} : amount : existing
trades/{trade} by buyer -> members/{buyer} : count() as bought : existing
trades/{trade} by seller -> members/{seller} : count() as sold : existing`

// newShops returns a console with three shops, of which two have orders.
func newShops(t *testing.T) *console {
	t.Setenv("TALLY_ROUTES", groupRoutes)
	c := newConsole(t)
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, shop := range []string{"7", "8", "9"} {
		c.set("shops/"+shop, map[string]any{"name": "x"})
	}
	c.set("orders/1", map[string]any{"shop": "7", "amount": 5, "status": "paid", "at": at})
	c.set("orders/2", map[string]any{"shop": "7", "amount": 9, "status": "open", "at": at.Add(time.Hour)})
	c.set("orders/3", map[string]any{"shop": "8", "amount": 100, "status": "paid"})
	c.set("orders/4", map[string]any{"amount": 1000, "status": "paid", "at": at})
	for shop, totals := range map[string]map[string]any{
		"7": {"orders": 2, "revenue": 5, "largest": 9, "last": at.Add(time.Hour)},
		"9": {"orders": 0, "revenue": 0, "largest": nil, "last": nil},
	} {
		var numShards int64
		if shop == "7" {
			numShards = 2
		}
		template := c.routes(groupRoutes)[1].Template
		totals[document.TallyField] = document.Tally{AsOf: time.Now(), NumShards: numShards, Routes: template.Hash(), Totals: template.Totals()}.Encode()
		c.set("shops/"+shop, totals)
	}
	return c
}

// A group is a counter like others: it is named by the document with its totals, which may be times
// and null.
func TestGroups(t *testing.T) {
	c := newShops(t)
	c.tell([]step{
		{args: "get shops/7", want: "shops/7  largest 9, last T, orders 2, revenue 5\nroll-up  largest 9, last T, orders 2, revenue 5  2 documents  as of T  T\n"},
		{args: "get shops/7 --json | .totals", want: `{"largest":9,"last":"2026-01-02T04:04:05Z","orders":2,"revenue":5}`},
		{args: "get shops/7 --json | .rollup.totals", want: `{"largest":9,"last":"2026-01-02T04:04:05Z","orders":2,"revenue":5}`},
		{args: "get shops/8", want: "shops/8  largest 100, last null, orders 1, revenue 100\nroll-up  none; do Tally's functions run?\n"},
		{args: "get shops/9", want: "shops/9  largest null, last null, orders 0, revenue 0\nroll-up  largest null, last null, orders 0, revenue 0  0 documents  as of T  T\n"},
		{args: "get shops/9 --json | .totals", want: `{"largest":null,"last":null,"orders":0,"revenue":0}`},
		{args: "ls", want: "COUNTER  largest  last                  orders  revenue  DOCUMENTS  AS OF\nshops/7  9        T  2       5        2          T\nshops/8  -        -                     -       -        -          -\nshops/9  null     null                  0       0        0          T\n"},
		{args: "get shops/s", status: 1},
		{args: "delete --matching * --yes --json | .counters", want: "[]"},
	})
	c.set("orders/5", map[string]any{"shop": "gone"})
	c.tell([]step{
		{args: "get shops/gone", want: "shops/gone  largest null, last null, orders 1, revenue 0\nroll-up     none: the document shops/gone does not exist; Tally writes its totals once the app has created it\n"},
		{args: "get shops/gone --json | .missing", want: "true"},
		{args: "get shops/8 --json | .missing", want: "false"},
	})
	if status, _, errors := c.run("get", "shops/s"); status != 1 || !strings.Contains(errors, "no such counter: shops/s; did you mean shops/7?") {
		t.Errorf("status %d: %s", status, errors)
	}
}

// tally audit walks groups, explains what differs by the totals that do, and repairs it.
func TestAuditOfGroups(t *testing.T) {
	c := newShops(t)
	routes := strings.Join(strings.Split(groupRoutes, "\n")[1:2], "")
	c.set("shops/7", map[string]any{"revenue": 4, "last": nil})
	status, _, logs := c.run("audit", "--grace", "0", "--routes", routes)
	if status != 1 || !strings.Contains(logs, "\nshops/7: recent: a change whose event may be on its way; differs: last null → 2026-01-02T04:04:05Z, revenue 4 → 5; num_shards: 2") {
		t.Errorf("status %d: %s", status, logs)
	}
	if status, out, logs := c.run("audit", "--grace", "0", "--repair", "--routes", routes); status != 0 {
		t.Errorf("status %d: %s%s", status, out, logs)
	}
	c.tell([]step{
		{args: "get shops/7 --json | .rollup.totals", want: `{"largest":9,"last":"2026-01-02T04:04:05Z","orders":2,"revenue":5}`},
		{args: "get shops/8 --json | .rollup.totals", want: `{"largest":100,"last":null,"orders":1,"revenue":100}`},
		{args: "audit --grace 0 --json | .differing", want: "0"},
	})
}

// Commands that change shards refuse totals that are of the app's own documents, and say which.
func TestNoShards(t *testing.T) {
	c := newShops(t)
	c.set("posts/1", map[string]any{})
	c.set("posts/1/votes/ann", map[string]any{"on": 1})
	c.set("posts/1/ratings/ann", map[string]any{"stars": 5})
	c.set("posts/1/parts/a", map[string]any{"size": map[string]any{"bytes": 5}})
	c.set("sale_totals/7", map[string]any{})
	c.set("members/ann", map[string]any{})
	for of, want := range map[string]string{
		"posts/1/votes":   "posts/1 has no shards: it holds count() where on == 1 as votes of the app's own documents: write documents of posts/1/votes instead",
		"posts/1/ratings": "posts/1 has no shards: it holds average(stars) as rating of the app's own documents: write documents of posts/1/ratings instead",
		"posts/1/parts":   "posts/1 has no shards: it holds size.bytes as bytes of the app's own documents: write documents of posts/1/parts instead",
		"sale_totals/7":   `sale_totals/7 has no shards: it holds amount of the app's own documents: write documents of sales where shop == "7" instead`,
	} {
		for _, command := range []string{
			"create OF", "increment OF", "set OF 3 --yes", "resize OF 3", "migrate OF --from-documents posts", "migrate OF --from-documents posts --check",
			"migrate OF --document posts/1 --from-field x", "delete OF --yes",
		} {
			args := strings.Fields(strings.ReplaceAll(command, "OF", of))
			if status, out, errors := c.run(args...); status != 1 || out != "" || !strings.Contains(errors, want) {
				t.Errorf("tally %v: status %d, %s%s; want %s", args, status, out, errors, want)
			}
		}
	}
	if _, _, errors := c.run("get", "orders/1"); !strings.Contains(errors, "the field shop of orders/1 says which counter it belongs to: name that one, as in shops/{shop}") {
		t.Errorf("got %s", errors)
	}
	if _, _, errors := c.run("resize", "shops/7", "3"); !strings.Contains(errors, `orders counts documents: add or delete documents of orders where shop == "7" instead`) {
		t.Errorf("got %s", errors)
	}
	if _, _, errors := c.run("delete", "members/ann"); !strings.Contains(errors, `bought counts documents: add or delete documents of trades where buyer == "ann" instead`) {
		t.Errorf("got %s", errors)
	}
	if docs, err := c.client.Collection("posts/1/votes").Documents(t.Context()).GetAll(); err != nil || len(docs) != 1 {
		t.Errorf("a refused command wrote: %d votes, %v", len(docs), err)
	}
}

const dayRoutes = `sales/{sale} by store, day(at) -> stores/{store}/days/{day} : count() as sales, amount as revenue : within stores/{store}
stores/{store}/days/{day} -> stores/{store} : sales, revenue : existing
rooms/{room}/messages/{message} by to as user -> rooms/{room}/members/{user} : count() as messages : existing`

// A day, and what days add up to, are counters like others. The commands that change shards leave
// the days alone: Tally makes them of the sales.
func TestDays(t *testing.T) {
	t.Setenv("TALLY_ROUTES", dayRoutes)
	c := newConsole(t)
	at := time.Date(2026, 11, 27, 23, 0, 0, 0, time.UTC)
	c.set("stores/north", map[string]any{"owner": "ann"})
	c.set("sales/1", map[string]any{"store": "north", "amount": 12, "at": at})
	c.set("sales/2", map[string]any{"store": "north", "amount": 8, "at": at.Add(time.Hour)})
	c.set("rooms/7/members/ann", map[string]any{})
	c.set("rooms/7/messages/1", map[string]any{"to": "ann"})
	status, out, logs := c.run("audit", "--grace", "0", "--repair")
	if status != 0 {
		t.Fatalf("status %d: %s%s", status, out, logs)
	}
	status, out, logs = c.run("audit", "--grace", "0", "--repair") // of the days that are there now
	if status != 0 {
		t.Fatalf("status %d: %s%s", status, out, logs)
	}

	c.tell([]step{
		{args: "get stores/north/days/2026-11-27 --json | .totals", want: `{"revenue":12,"sales":1}`},
		{args: "get stores/north/days/2026-11-28", want: "stores/north/days/2026-11-28  revenue 8, sales 1\nroll-up                       revenue 8, sales 1  1 document  as of T  T\n"},
		{args: "get stores/north", want: "stores/north  revenue 20, sales 2\nroll-up       revenue 20, sales 2  as of T  T\n"},
		{args: "get stores/north/days --json | .totals", want: `{"revenue":20,"sales":2}`},
		{args: "get rooms/7/members/ann", want: "rooms/7/members/ann  1\nroll-up              1  1 document  as of T  T\n"},
	})
	const sales = `sales counts documents: add or delete documents of sales where store == "north" and at >= timestamp("2026-11-27T00:00:00Z") and at < timestamp("2026-11-28T00:00:00Z") instead`
	for of, want := range map[string]string{
		"stores/north/days/2026-11-27": sales,
		"stores/north":                 "stores/north has no shards: it holds sales, revenue of stores/north/days, where another route has its totals: change what that one counts instead",
		"stores/north/days":            "stores/north has no shards: it holds sales, revenue of stores/north/days, where another route has its totals: change what that one counts instead",
	} {
		for _, command := range []string{"create OF", "increment OF --total sales", "set OF 3 --yes --total sales", "resize OF 3", "delete OF --yes"} {
			args := strings.Fields(strings.ReplaceAll(command, "OF", of))
			status, out, errors := c.run(args...)
			if status != 1 || out != "" || !strings.Contains(errors, want) {
				t.Errorf("tally %v: status %d, %s%s; want %s", args, status, out, errors, want)
			}
		}
	}
	for command, want := range map[string]string{
		"get stores/north/days/2026-11-31": `"2026-11-31" in stores/north/days/2026-11-31 is not an id that day(at) gives, such as 2026-11-27`,
		"get stores/north/days/today":      `"today" in stores/north/days/today is not an id that day(at) gives, such as 2026-11-27`,
		"get stores/north/days/2026-11-29": "no such counter: stores/north/days/2026-11-29; no document belongs to it",
		"get rooms/7":                      "the field to of rooms/7/messages says which counter each belongs to: name one, as in rooms/{room}/members/{user}",
		"get sales/1":                      "the fields store and at of sales/1 say which counter it belongs to: name that one, as in stores/{store}/days/{day}",
	} {
		status, out, errors := c.run(strings.Fields(command)...)
		if status != 1 || out != "" || !strings.Contains(errors, want) {
			t.Errorf("tally %s: status %d, %s%s; want %s", command, status, out, errors, want)
		}
	}
	days, err := c.client.Collection("stores/north/days").Documents(t.Context()).GetAll()
	if err != nil || len(days) != 2 {
		t.Errorf("a refused command wrote: %d days, %v", len(days), err)
	}
}

// A route across parents is a group like others: its documents are at any depth.
func TestAcross(t *testing.T) {
	t.Setenv("TALLY_ROUTES", `posts/{post}/comments/{comment} by author -> users/{author} : count() as comments, sum(stars) as stars : existing
posts/{post}/comments/{comment} -> posts/{post} : count() as comments : existing`)
	c := newConsole(t)
	for _, home := range []string{"users/ann", "users/ben", "posts/1"} {
		c.set(home, map[string]any{"name": "x"})
	}
	c.set("posts/1/comments/a", map[string]any{"author": "ann", "stars": 5})
	c.set("posts/2/comments/a", map[string]any{"author": "ann", "stars": 3})
	c.set("posts/2/comments/a/comments/b", map[string]any{"author": "ann", "stars": 1})
	c.set("posts/2/comments/c", map[string]any{"author": "ben", "stars": 100})
	c.set("pages/1/comments/a", map[string]any{"author": "ann", "stars": 100})
	c.tell([]step{
		{args: "get users/ann", want: "users/ann  comments 3, stars 9\nroll-up    none; do Tally's functions run?\n"},
		{args: "audit --grace 0 --json | .differing", status: 1, want: "3"},
		{args: "audit --grace 0 --repair --json | .rolled_up", status: 0, want: "3"},
		{args: "get users/ann --json | .rollup.totals", want: `{"comments":3,"stars":9}`},
		{args: "get posts/1 --json | .rollup.totals", want: `{"comments":1}`},
		{args: "explain users/ann --json | .holds.made_of", want: `["count() as comments, stars of the documents in posts/**/comments where author == \"ann\""]`},
		{args: "explain posts/2/comments/a/comments/b --json | .says", want: `"posts/2/comments/a/comments/b counts in users/ann, and the roll-up has it as it is"`},
		{args: "explain pages/1/comments/a --json | .counts", want: "false"},
		{args: "audit --grace 0 --json | .differing", want: "0"},
	})
	for _, args := range [][]string{{"create", "users/ann"}, {"delete", "users/ann", "--yes"}, {"increment", "users/ann", "--total", "stars"}} {
		status, _, errors := c.run(args...)
		if status == 0 || !strings.Contains(errors, `documents of posts/**/comments where author == "ann"`) {
			t.Errorf("%s: status %d: %s", args[0], status, errors)
		}
	}
}
