package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/tool/local/emulator"
	"github.com/firestore-tally/tally/internal/tool/rules"
	"github.com/firestore-tally/tally/internal/tool/terminal"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
)

// heard returns what keeps each hint in said, as a terminal shows it.
func heard(said *[]string) func(format string, args ...any) {
	return func(format string, args ...any) {
		*said = append(*said, terminal.Shown(fmt.Sprintf(format, args...)))
	}
}

func parsed(t *testing.T, text string) route.Routes {
	t.Helper()
	routes, err := route.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return routes
}

// A hint is said once, about what is wrong for sure, and suggests only routes that fit the others.
func TestHints(t *testing.T) {
	var said []string
	h := hints{say: heard(&said)}
	h.routes = parsed(t, route.Default+"; posts/{p}/likes/{l} -> post_totals/{p} : count() as likes; a/{a}/s/{s} -> a/{a} : n : documents : existing : every 1h; e/{e}/seats/{s} -> e/{e} : count as taken, n : existing")
	for _, doc := range []struct {
		path   string
		fields map[string]any
	}{
		{"counters/a/shards/0", map[string]any{"count": "x", "Count": int64(1)}}, // the log says what is malformed
		{"counters/a/shards/0", map[string]any{"name": "x"}},
		{"counters/a/shards/0", nil},
		{"posts/a/likes/ann", map[string]any{"n": int64(1)}},
		{"counters/a/shards/1", map[string]any{"n": int64(1), "m": 0.5, "name": "x"}},
		{"counters/b/shards/1", map[string]any{"n": int64(1), "m": 0.5}},
		{"counters/a/shards/2", map[string]any{"tally": int64(1)}}, // no route may sum it
		{"a/1/s/0", map[string]any{"N": int64(1)}},

		{"e/1/seats/0", map[string]any{"count": int64(1)}},
		{"e/1/seats/1", map[string]any{"by": "ann"}},
		{"e/1/seats/2", map[string]any{"by": "ann"}}, // once

		{"a/1/a/2/shards/3", map[string]any{"n": int64(1)}},
		{"a/2/a/3/shards/4", map[string]any{"n": int64(1)}},
		{"posts/7/shards/0", map[string]any{"likes": int64(1)}}, // its roll-up would be another's
		{"own/0", map[string]any{"n": int64(1)}},
		{"posts/7/notes/1", map[string]any{"text": "one", "n": int64(1)}},
		{"Shards/likes", map[string]any{"num_shards": int64(1)}},
		{"Shards/x", map[string]any{"n": int64(1)}},
		{"my shards/x", map[string]any{"a, b": int64(1), "n": int64(1)}},
		{"counters/a/shards/3", map[string]any{"the rest": int64(1)}},
	} {
		h.reportReasons(doc.path, doc.fields)
	}

	list := emulator.Refusal{Method: "list", Database: "(default)", Path: "a/*"}
	h.setRules(appRules{"dir/my.rules", `rules_version = '2';
  allow write: if false;
  allow create: if signedIn() // an account; any
    && request.resource.data.at == request.time

    && request.resource.data.url != 'https://a;b'
    && request.resource.data.keys().hasOnly(['at', "it's", 'url']);
  match /b/{b} { allow get: if true; allow list: if
    false; }
  allow delete: if true;
}
`})
	for _, r := range []emulator.Refusal{
		{Method: "update", Database: "(default)", Path: "a/1", Lines: []int{2}},
		{Method: "update", Database: "(default)", Path: "a/2", Lines: []int{2}},
		{Method: "update", Database: "other", Path: "a/\n", User: "ann", Lines: []int{2, 99}},
		{Method: "create", Database: "(default)", Path: "a/3", Lines: []int{3}},
		{Method: "list", Database: "(default)", Path: "b/*", Lines: []int{8}},
		{Method: "delete", Database: "(default)", Path: "a/3", Lines: []int{10}},
		list, list,
	} {
		h.reportRefusal(r)
	}
	h.setRules(appRules{})
	h.reportRefusal(list)
	want := []string{
		"counters/a/shards/1 has m, n, not count; to sum it, the route is counters/{counter}/shards/{shard} -> rollups/{counter} : m, n",
		"counters/a/shards/2 has tally, not count",
		"a/1/s/0 has N, not n; to sum it, the route is a/{a}/s/{s} -> a/{a} : N : documents : existing : every 1h0m0s",
		"e/1/seats/1 has no field count, and taken is the sum of that field; count() as taken is how many documents there are",
		"no route covers a/1/a/2/shards/3, which looks like a shard; to sum it, add the route a/{a}/a/{a2}/shards/{shard} -> a_totals/{a}/a/{a2} : n",
		"no route covers posts/7/shards/0, which looks like a shard",
		"no route covers Shards/x, which looks like a shard; to sum it, add the route Shards/{Shard} -> totals/Shards : n",
		"no route covers my shards/x, which looks like a shard; to sum it, add the route `my shards`/{`my shard`} -> totals/`my shards` : `a, b`, n",
		"counters/a/shards/3 has the rest, not count; to sum it, the route is counters/{counter}/shards/{shard} -> rollups/{counter} : `the rest`",
		"refused: update of a/1 by a client that is not signed in; my.rules line 2: allow write: if false;",
		"refused: update of a/2 by a client that is not signed in; my.rules line 2: allow write: if false;",
		"refused: update of other: a/\\u000a by user ann; my.rules line 2: allow write: if false; and line 99",
		"refused: create of a/3 by a client that is not signed in; my.rules line 3: allow create: if signedIn() && request.resource.data.at == request.time && request.resource.data.url != 'https://a;b' && request.resource.data.keys().hasOnly(['at', \"it's\", 'url']);",
		"refused: list of b/* by a client that is not signed in; my.rules line 8: allow get: if true; allow list: if false;",
		"refused: delete of a/3 by a client that is not signed in; my.rules line 10: allow delete: if true;",
		"refused: list of a/* by a client that is not signed in; nothing in my.rules allows it",
		"refused: list of a/* by a client that is not signed in; nothing in Tally's built-in rules allows it; firebase.json names a file of your own",
	}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Errorf("said (-want +got):\n%s", diff)
	}
}

// Rules are tried on a few documents of a template and once on what only Tally's routes have, and
// again when others are in force. What is known of former rules is not told.
func TestHintsOfTriedRules(t *testing.T) {
	var said []string
	opened := 0
	h := hints{say: heard(&said), written: make(chan writtenDocument, maxWritten)}
	h.routes = parsed(t, "posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing")
	h.court = func(context.Context) (string, error) { opened++; return "", errors.New("no Java") }
	try := func(paths ...string) {
		for _, path := range paths {
			h.tryRules(t.Context(), writtenDocument{"(default)", path})
		}
	}

	try("posts/1") // Tally's own rules
	h.setRules(appRules{"my.rules", "first"})
	try("posts/1", "posts/2", "posts/3", "posts/4", "notes/1")
	if opened != 2*maxTried {
		t.Errorf("rules were tried %d times on four documents", opened)
	}
	post := h.routes.Templates()[0]
	h.reportAnswers(appRules{"my.rules", "first"}, post, []rules.Answer{{Request: rules.Requests(h.routes)[0], Verdict: rules.NotTried, Why: "no user is known"}})
	h.setRules(appRules{"my.rules", "second"})
	h.checkRules()
	try("posts/1")
	if opened != 2*maxTried+2 || len(h.written) != 2 {
		t.Errorf("other rules were tried %d times; %d documents wait", opened-2*maxTried, len(h.written))
	}

	wrong := []rules.Answer{{Request: rules.Requests(h.routes)[1], Verdict: rules.Allowed, Wrong: true, Path: "posts/1", Fields: []string{"likes"}, Lines: []int{1}}}
	h.reportAnswers(appRules{"my.rules", "first"}, post, wrong)
	if len(h.answers) > 0 || len(said) != 2 {
		t.Errorf("it goes by %v, and says %q", h.answers, said)
	}
	h.reportAnswers(appRules{"my.rules", "second"}, post, wrong)
	h.reportAnswers(appRules{"my.rules", "second"}, post, wrong)
	try("posts/5") // it is known
	want := []string{
		"the security rules were not tried: no Java",
		"my.rules: edits of posts/{post} once it has totals, and writes of totals, could not be tried: no user is known",
		"my.rules:1: tried: this lets users change likes of posts/{post}: a client that is not signed in may, in posts/1, and only Tally may. " +
			"A user makes up a total, which stays until the next roll-up. Leave what Tally writes out: " +
			"!request.resource.data.diff(resource.data).affectedKeys().hasAny(['likes', 'tally']) (my.rules line 1)",
	}
	if diff := cmp.Diff(want, said); diff != "" || opened != 2*maxTried+2+1 {
		t.Errorf("opened %d times, said (-want +got):\n%s", opened, diff)
	}
}

// A trial of rules that ends with tally dev is not told.
func TestHintsOfInterruptedTrial(t *testing.T) {
	var said []string
	ctx, cancel := context.WithCancel(t.Context())
	h := hints{say: heard(&said), routes: parsed(t, "posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing")}
	h.court = func(context.Context) (string, error) { cancel(); return "", context.Canceled }
	h.setRules(appRules{"my.rules", "first"})
	h.tryRules(ctx, writtenDocument{"(default)", "posts/1"})
	if len(said) > 0 {
		t.Errorf("it says %q", said)
	}
}

// Each reason why documents belong to no counter is told once an hour, also after another reason.
func TestHintsOfGroupsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said []string
		h := hints{say: heard(&said)}
		h.routes = parsed(t, `orders/{order} by shop -> shops/{shop} : count() as orders : existing`)
		for range 3 {
			for i, shop := range []any{int64(7), new(firestore.DocumentRef), "", "a/b", "c/d"} {
				h.reportReasons(fmt.Sprint("orders/", i), map[string]any{"shop": shop})
			}
			time.Sleep(45 * time.Minute)
		}
		const of = " belongs to no counter of orders/{order} by shop -> shops/{shop} : count() as orders : existing: its shop is "
		once := []string{
			"orders/0" + of + "a number, not a string: group by number(shop)",
			"orders/1" + of + "a reference, not a string: group by ref(shop)",
			"orders/2" + of + "empty",
			"orders/3" + of + `"a/b", which holds a slash`,
		}
		if diff := cmp.Diff(slices.Concat(once, once), said); diff != "" {
			t.Errorf("said (-want +got):\n%s", diff)
		}
	})
}

// A field that the app writes only to count by it is told once for each route: days, weeks and
// months have keys of their own.
func TestHintsOfNeedlessKeys(t *testing.T) {
	var said []string
	h := hints{say: heard(&said)}
	h.routes = parsed(t, `orders/{order} by shop_day -> shop_days/{shop_day} : sum(amount) as revenue : existing
visits/{visit} by month -> months/{month} : count() as visits : existing
views/{view} by week -> weeks/{week} : count() as views : existing`)
	at := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	for _, fields := range []map[string]any{
		{"shop_day": "north", "shop": "north", "paid": at},
		{"shop_day": "north_2026-11-27", "shop": "north"},
		{"shop_day": "north_2026-11-27", "paid": at},
		{"shop_day": "north_2026-10-27", "shop": "north", "paid": at},
		{"shop_day": "north_2026-11-27", "shop": "north", "paid": at},
		{"shop_day": "south_2026-11-27", "shop": "south", "paid": at},
	} {
		h.reportReasons("orders/1", fields)
	}
	h.reportReasons("visits/1", map[string]any{"month": "2026-11", "at": at})
	h.reportReasons("views/1", map[string]any{"week": "2026-W48", "at": at})
	want := []string{
		"orders/1: shop_day says no more than other fields do; by shop, day(paid) needs no such field (docs/migrate.md#from-a-field-that-names-a-day)",
		"visits/1: month says no more than other fields do; by month(at) needs no such field (docs/migrate.md#from-a-field-that-names-a-day)",
		"views/1: week says no more than other fields do; by week(at) needs no such field (docs/migrate.md#from-a-field-that-names-a-day)",
	}
	if d := cmp.Diff(want, said); d != "" {
		t.Errorf("said (-want +got):\n%s", d)
	}
}

// A document that no total of its route sees as its author meant it.
func TestHintsOfGroups(t *testing.T) {
	var said []string
	h := hints{say: heard(&said)}
	h.routes = parsed(t, `orders/{order} by shop -> shops/{shop} : count() as orders, maximum(amount) as largest, latest(at) as last : existing
orders/{order} by customer.id -> users/{customer.id} : count() as orders : existing
games/{game}/scores/{user} -> games/{game} : minimum(seconds) as best : existing
posts/{post}/likes/{user} -> posts/{post} : count() as likes, count() where at > now - 24h as trending, count() where at > now - 1h as hot : existing
visits/{visit} by site, day(at) -> sites/{site}/days/{day} : count() as visits : within sites/{site}`)
	customer := map[string]any{"id": "ann"}
	for _, fields := range []map[string]any{
		{"shop": "7", "customer": customer, "amount": 0.5, "at": time.Now()},
		{"shop": "7", "customer": customer, "amount": nil, "at": nil},
		{"customer": customer},
		{"customer": customer},
		{"shop": int64(7), "customer": "ann"},
		{"shop": []any{"7", "8"}, "customer": customer},
		{"shop": true, "customer": customer},
		{"shop": nil, "customer": customer},
		{"shop": "a/b\n", "customer": customer},
		{"shop": strings.Repeat("x", 1500), "customer": customer},
		{"shop": "8", "customer": customer, "amount": "5", "at": "noon"},
		{"shop": "8", "customer": customer, "amount": time.Now(), "at": int64(5)},
	} {
		h.reportReasons("orders/1", fields)
	}
	h.reportReasons("games/1/scores/ann", map[string]any{"seconds": true, "points": int64(5)})
	for _, at := range []any{time.Now(), nil, "2024-01-01", "2024-01-02", int64(5)} {
		h.reportReasons("posts/1/likes/ann", map[string]any{"at": at})
	}
	h.reportReasons("posts/1/likes/ann", map[string]any{})
	missing := func(string) bool { return true }
	for _, shop := range []string{"7", "7", "8", "a/b"} {
		h.reportMissingHome("(default)", "orders/2", map[string]any{"shop": shop}, func(path string) bool { return path == "shops/8" })
	}
	h.reportMissingHome("(default)", "orders/3", map[string]any{"shop": "gone", "customer": customer}, missing)
	h.reportMissingHome("other", "orders/3", map[string]any{"shop": "gone"}, missing)
	h.reportMissingHome("(default)", "games/1/scores/ann", nil, missing)
	h.reportMissingHome("(default)", "games/1/scores/bob", nil, missing)
	h.reportMissingHome("(default)", "visits/1", map[string]any{"site": "s", "at": time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}, func(path string) bool { return path == "sites/s" })
	h.reportMissingHome("(default)", "posts/1", map[string]any{"shop": "9"}, func(path string) bool { t.Errorf("asked for %s", path); return false })

	const byShop = "orders/{order} by shop -> shops/{shop} : count() as orders, maximum(amount) as largest, latest(at) as last : existing"
	const timeless = " is in no window of posts/{post}/likes/{user} -> posts/{post} : count() as likes, count() where at > now - 24h as trending, count() where at > now - 1h as hot : existing: its at is "
	want := []string{
		"orders/1 belongs to no counter of " + byShop + ": it has no field shop",
		"orders/1 belongs to no counter of " + byShop + ": its shop is a number, not a string: group by number(shop)",
		"orders/1 belongs to no counter of orders/{order} by customer.id -> users/{customer.id} : count() as orders : existing: it has no field customer.id: its customer is a string, not a map",
		"orders/1 belongs to no counter of " + byShop + ": its shop is an array, and a document is in one group: let the app write a document for each element, as for posts by tag (docs/recipes.md#posts-by-tag)",
		"orders/1 belongs to no counter of " + byShop + ": its shop is a boolean, not a string: no key takes a boolean; count() where shop == true is how many documents have it",
		"orders/1 belongs to no counter of " + byShop + ": its shop is null, not a string",
		"orders/1 belongs to no counter of " + byShop + `: its shop is "a/b\n", which holds a slash`,
		"orders/1 belongs to no counter of " + byShop + ": its shop is longer than 1,499 bytes, which no query takes",
		"orders/1: amount is a string, and maximum(amount) sees only numbers",
		"orders/1: at is a string, and latest(at) sees only timestamps",
		"games/1/scores/ann: seconds is a boolean, and minimum(seconds) sees only numbers",
		"posts/1/likes/ann" + timeless + "a string, not a timestamp",
		"posts/1/likes/ann" + timeless + "a number, not a timestamp",
		"orders/2 belongs to shops/8, which does not exist: the totals come with the next change, or an audit, after the app has created that document",
		"orders/3 belongs to shops/gone, which does not exist: the totals come with the next change, or an audit, after the app has created that document",
		"orders/3 belongs to users/ann, which does not exist: the totals come with the next change, or an audit, after the app has created that document",
		"other: orders/3 belongs to shops/gone, which does not exist: the totals come with the next change, or an audit, after the app has created that document",
		"games/1/scores/ann belongs to games/1, which does not exist: the totals come with the next change, or an audit, after the app has created that document",
		"visits/1 belongs to sites/s/days/2026-01-02, within sites/s, which does not exist: the totals come with the next change, or an audit, after the app has created that document",
	}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Errorf("said (-want +got):\n%s", diff)
	}
}

// Somebody makes up a thousand documents that do not exist. Ten of each template are told.
func TestHintsOfManyMissingDocuments(t *testing.T) {
	var said []string
	h := hints{say: heard(&said)}
	h.routes = parsed(t, "products/{product}/votes/{user} -> products/{product} : count() as votes : existing; orders/{order} by shop -> shops/{shop} : count() as orders : existing")
	for n := range 1000 {
		h.reportMissingHome("(default)", fmt.Sprintf("products/%d/votes/ann", n), nil, func(string) bool { return true })
	}
	h.reportMissingHome("(default)", "orders/1", map[string]any{"shop": "7"}, func(string) bool { return true })

	if len(said) != maxHomes+1 {
		t.Fatalf("%d lines, want %d:\n%s", len(said), maxHomes+1, strings.Join(said, "\n"))
	}
	for n, want := range map[int]string{
		8:  "products/8/votes/ann belongs to products/8, which does not exist: the totals come with the next change, or an audit, after the app has created that document",
		9:  "products/9/votes/ann belongs to products/9, which does not exist: the totals come with the next change, or an audit, after the app has created that document; others like it are not reported any more",
		10: "orders/1 belongs to shops/7, which does not exist: the totals come with the next change, or an audit, after the app has created that document",
	} {
		if said[n] != want {
			t.Errorf("line %d: %s, want %s", n, said[n], want)
		}
	}
}

// Totals that no route keeps any more are told, such as after tally.yaml was emptied.
func TestHintsOfTotalsThatAreLeft(t *testing.T) {
	var said []string
	h := hints{say: heard(&said)}
	h.routes = parsed(t, route.Default)
	made := map[string]any{"likes": 5, "tally": map[string]any{"as_of": time.Now()}}
	for _, path := range []string{"rollups/likes", "posts/7", "posts/8"} {
		h.reportAbandonedTotals(path, made)
	}
	h.reportAbandonedTotals("pages/7", map[string]any{"tally": map[string]any{"as_of": "noon"}})
	h.reportAbandonedTotals("pages/8", map[string]any{"tally": 5})
	h.reportAbandonedTotals("pages/9", nil)

	want := []string{"posts/7 has totals that Tally made, and no route updates them any more; they keep their last values"}
	if d := cmp.Diff(want, said); d != "" {
		t.Errorf("said (-want +got):\n%s", d)
	}
}

// What the app holds where a total belongs is told once for each template, and zeros are not.
func TestHintsOfJoinedApps(t *testing.T) {
	const routes = "posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing"
	before := func(likes any) map[string]any {
		tally := map[string]any{"as_of": time.Now(), "totals": []any{"likes"}, "before": map[string]any{"likes": likes}}
		return map[string]any{"likes": int64(3), "tally": tally}
	}
	const becomes = ", which no roll-up wrote. Tally replaces it by what the documents add up to, and keeps the number in tally.before"
	const stays = " of the app's, which no total can be. Tally leaves the field alone and leaves the total out; give the total another name by \"as\" in the route, or clear the field"

	for name, test := range map[string]struct {
		fields map[string]any
		want   []string
	}{
		"a list":            {map[string]any{"likes": []any{"ann"}}, []string{"posts/7: likes is an array" + stays}},
		"a number":          {map[string]any{"likes": int64(1234)}, []string{"posts/7: likes is 1234" + becomes}},
		"a number that was": {before(int64(1234)), []string{"posts/7: likes was 1234" + becomes}},
		"a zero":            {map[string]any{"likes": int64(0)}, nil},
		"a zero that was":   {before(int64(0)), nil},
		"nothing":           {nil, nil},
	} {
		var said []string
		h := hints{routes: parsed(t, routes), say: heard(&said)}
		h.reportAppValues("posts/7", test.fields, time.Now())
		h.reportAppValues("posts/8", test.fields, time.Now())
		if d := cmp.Diff(test.want, said); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

// The routes that need indexes are told once, when tally dev starts; the others are not.
func TestHintsOfIndexes(t *testing.T) {
	const plain = "posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing"
	const grouped = "orders/{order} by shop -> shops/{shop} : amount as revenue : existing"
	const some = "posts/{post}/comments/{id} -> posts/{post} : latest(at) where approved == true as last : existing"
	for routes, want := range map[string][]string{
		plain:                              nil,
		plain + ";" + grouped + ";" + some: {"on a project indexes are needed by " + grouped + " and by " + some + "; tally deploy builds them, and tally indexes prints them"},
	} {
		var said []string
		h := hints{routes: parsed(t, routes), say: heard(&said)}
		h.reportIndexes(route.Standard)
		if d := cmp.Diff(want, said); d != "" {
			t.Errorf("%s (-want +got):\n%s", routes, d)
		}

		said = nil
		h.reportIndexes(route.Enterprise)
		if len(said) != 1 || !strings.Contains(said[0], "each query needs an index") {
			t.Errorf("%s: on Enterprise it says %q", routes, said)
		}
	}
}

// tally dev says when it starts which roll-ups make another event.
func TestHintsOfCircles(t *testing.T) {
	const likes = "posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing"
	const karma = "posts/{post} by author -> users/{author} : sum(likes) as karma : existing"
	const replies = "comments/{comment} by parent -> comments/{parent} : count() as replies : existing"
	for routes, want := range map[string][]string{
		likes + ";" + karma: nil,
		replies:             {"each roll-up of comments/{parent} is one more event of comments/{comment}; tally deploy says what changes cost"},
	} {
		var said []string
		h := hints{routes: parsed(t, routes), say: heard(&said)}
		h.reportCircles()
		if d := cmp.Diff(want, said); d != "" {
			t.Errorf("%s (-want +got):\n%s", routes, d)
		}
	}
}

func TestAddOne(t *testing.T) {
	for _, test := range []struct{ routes, database, want string }{
		{route.Default, "(default)", "TALLY create counters/my-counter &&\n  TALLY increment counters/my-counter"},
		{"a/{b}/c/{d} -> a/{b} : count() : existing", "(default)", ""},
		{"a/{b}/c/{d} -> a/{b} : count() : existing; a/{`e f`}/`it's`/{d} -> t/{`e f`} : n, m", "other",
			`TALLY create 'a/my-e f/it'\''s' --database other &&` + "\n  " + `TALLY increment 'a/my-e f/it'\''s' --database other --total n`},
		{"sales/{sale} by shop, day(at) -> shops/{shop}/days/{day} : amount : within shops/{shop}; shops/{shop}/days/{day} -> shops/{shop} : amount as revenue : existing", "(default)", ""}, // its sums are of days, which Tally makes
		{"shards/{shard} -> totals/all : n", "(default)", "TALLY create shards &&\n  TALLY increment shards"},
	} {
		want := strings.ReplaceAll(test.want, "TALLY", os.Args[0])
		if got := addOne(parsed(t, test.routes), test.database); got != want {
			t.Errorf("%s: got %s, want %s", test.routes, got, want)
		}
	}
}
