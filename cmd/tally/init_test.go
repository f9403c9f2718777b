package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/internal/tool/local/emulator"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
)

func TestRouteFor(t *testing.T) {
	for _, test := range []struct{ path, field, want string }{
		{"counters/likes/shards/3", "count", route.Default},
		{"counters/likes/shards/3", "Count", "counters/{counter}/shards/{shard} -> rollups/{counter} : Count"},
		{"posts/7/shards/0", "likes", "posts/{post}/shards/{shard} -> post_totals/{post} : likes"},
		{"my orders/1/`by`/2", "the amount", "`my orders`/{`my order`}/`\\`by\\``/{`\\`by\\``} -> `my order_totals`/{`my order`} : `the amount`"},
		{"orders/1", "amount", "orders/{order} -> totals/orders : amount"},
	} {
		got := routeFor(test.path, test.field)
		if _, err := route.Parse(got); got != test.want || err != nil {
			t.Errorf("routeFor(%q, %q) = %q, %v; want %q", test.path, test.field, got, err, test.want)
		}
	}
}

// The answers to the questions make a route. An answer that is none is said to be so, and the
// question comes again.
func TestQuestions(t *testing.T) {
	for _, test := range []struct {
		name, want string
		answers    []string
		says       []string
	}{
		{"the default", route.Default, []string{"", "", ""}, nil},
		{"a route", "a/{b} -> totals/c : n", []string{"a/{b} -> totals/c : n"}, nil},
		{"likes", "posts/{post}/likes/{like} -> posts/{post} : count() as likes : existing", []string{"posts/7/likes/ann", "", ""}, nil},
		{"names in backticks", "`my orders`/{`my order`}/`and`/{`and`} -> `my orders`/{`my order`} : count() as `and` : existing",
			[]string{"my orders/1/and/2", "", ""}, nil},
		{"one document for all", "orders/{order} -> totals/orders : count() as orders", []string{"orders/1", "", ""}, nil},
		{"another document for all", "orders/{order} -> stats/all : sum(amount) as revenue", []string{"orders/1", "sum(amount) as revenue", "stats/all", "", ""}, nil},
		{"the app's own document for all", "orders/{order} -> stats/all : count() as orders : existing", []string{"orders/1", "", "stats/all", "", "app"}, nil},
		{"a group", `orders/{order} by shop -> shops/{shop} : sum(amount) where status == "paid" as revenue : existing`,
			[]string{"orders/1", `sum(amount) where status == "paid" as revenue`, "shops/acme", "shop"},
			[]string{"Which field of orders/1 says \"acme\"", "The app creates shops/acme and all others like it: Tally writes totals only into documents that exist."}},
		{"a group in a map", "orders/{order} by customer.id -> users/{customer.id} : count() as orders : existing",
			[]string{"orders/1", "", "users/ann", "customer.id"}, nil},
		{"several totals in a document of their own", "posts/{post}/comments/{comment} -> stats/{post} : count() as n, latest(at) as last",
			[]string{"posts/7/comments/a", "count() as n, latest(at) as last", "stats/7", "tally"}, nil},
		{"two levels", "a/{a}/b/{b}/c/{c} -> d/{b}/e/{a} : count() as c", []string{"a/1/b/2/c/3", "", "d/2/e/1", ""}, nil},

		{"no document", route.Default, []string{"likes", "posts/7/likes", "a//b/c", "counters/x -> y : z", "", "", ""},
			[]string{`"likes" is a collection`, `"posts/7/likes" is a collection`, `"a//b/c" has an empty id`, "names a collection"}},
		{"no total", "orders/{order} -> totals/orders : average(stars) as rating",
			[]string{"orders/1", "avg(stars)", "average(stars)", "count() : existing", "count : every 5s", "n : documents", "n; a/{b} -> c/d : n", "average(stars) as rating", ""},
			[]string{"unknown function avg()", "write average(stars) as stars", "want totals alone", "want totals alone", "want totals alone", "want totals alone"}},
		{"no target", "posts/{post}/likes/{like} -> posts/{post} : count() as likes : existing",
			[]string{"posts/7/likes/ann", "", "posts", "posts/8", "all/likes/ann/x", "posts/7/likes/x", "posts/7"},
			[]string{`"posts" is a collection`, "does not use {post}", "does not use {post}", "matches the source"}},
		{"no field and no user", "orders/{order} -> shops/acme : count() as orders",
			[]string{"orders/1", "", "shops/acme", "order", "a b", "none", "me", "tally"},
			[]string{"give it another name", "", `"me": want app or tally`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var said strings.Builder
			q := questions{bufio.NewReader(strings.NewReader(strings.Join(test.answers, "\n") + "\n")), &said}
			got, err := q.route(t.Context(), "")
			if err != nil {
				t.Fatalf("%v\n%s", err, &said)
			}
			if _, err := route.Parse(got); got != test.want || err != nil {
				t.Errorf("got %s, %v\nwant %s\n%s", got, err, test.want, &said)
			}
			rest := said.String()
			for _, want := range test.says {
				_, after, ok := strings.Cut(rest, want)
				if !ok {
					t.Errorf("%q is not said:\n%s", want, rest)
				}
				rest = after
			}
		})
	}
}

// After one total init asks for another, and for each who writes the documents.
func TestQuestionsForSeveralTotals(t *testing.T) {
	answers := []string{
		"posts/7/likes/ann", "", "", "", // by their owners
		"posts/7/likes/ann", "count() as likes", "posts/7", // again: the total has a name already
		"orders/1", "", "", "me", "servers",
		"counters/likes/shards/0", "", "", // init does not ask who writes shards
		"pages/{page}/votes/{user} -> pages/{page} : on as votes : existing", "none",
	}
	var said strings.Builder
	q := questions{bufio.NewReader(strings.NewReader(strings.Join(answers, "\n") + "\n")), &said}
	routes, writers, err := q.routes(t.Context())
	if err != nil {
		t.Fatalf("%v\n%s", err, &said)
	}

	const likes, orders = "posts/{post}/likes/{like} -> posts/{post} : count() as likes : existing", "orders/{order} -> totals/orders : count() as orders"
	const votes = "pages/{page}/votes/{user} -> pages/{page} : on as votes : existing"
	if want := strings.Join([]string{likes, orders, route.Default, votes}, "\n"); routes != want {
		t.Errorf("routes:\n%s\nwant:\n%s\n%s", routes, want, &said)
	}
	want := map[string]string{likes: byOwner, orders: byServers, route.Default: byOwner, votes: byOwner}
	if d := cmp.Diff(want, writers); d != "" {
		t.Errorf("writers (-want +got):\n%s", d)
	}
	for _, text := range []string{"Another document, for another total [none]: ", `"me": want owner, users or servers`, "Who writes posts/{post}/likes/{like}?"} {
		if !strings.Contains(said.String(), text) {
			t.Errorf("%q is not said:\n%s", text, &said)
		}
	}
}

// The rules for each kind of route compile. They let clients write what is counted, and no total.
func TestRulesFor(t *testing.T) {
	for _, test := range []struct {
		routes  string
		writer  string
		has     []string
		hasNone []string
	}{
		{route.Default, byOwner, []string{"match /counters/{counter} {", "match /rollups/{counter} {", "function isShard("}, []string{"isUncounted"}},
		{"posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing", byOwner,
			[]string{"allow create, update: if mayWrite() && isId(post) && request.auth.uid == user;", "isUncounted('likes')", "!('tally' in request.resource.data)"},
			[]string{"counters", "isShard", "mayAdd"}},
		{"posts/{post}/likes/{user} -> posts/{post} : count() where at > now - 24h as trending, count() where at > now - 1h as hot : existing", byOwner,
			[]string{"request.auth.uid == user\n        && request.resource.data['at'] == request.time;"}, nil},
		{"orders/{order} by shop -> shops/{shop} : sum(amount) where at > now - 30d as revenue : existing", byUsers,
			[]string{"isId(order)\n        && request.resource.data['at'] == request.time;"}, nil},
		{"posts/{post}/likes/{user} -> posts/{post} : on as likes : existing", byOwner, []string{"isVote(user, 'on')", "function isVote("}, []string{"counters"}},
		{"orders/{order} by customer.id -> users/{customer.id} : count() as orders, sum(amount) as `it's`: existing", byUsers,
			[]string{"allow create: if mayWrite() && isId(order);", "match /users/{customer_id} {", `isUncounted('it\'s')`}, []string{"counters"}},
		{"orders/{order} -> totals/orders : count() as orders", byServers, []string{"// Only servers read and write these documents.", "match /totals/orders {"}, []string{"isUncounted", "match /orders"}},
		{"posts/{post}/shards/{shard} -> post_totals/{post} : likes", byOwner, []string{"isShard(shard, 10) && adds('likes')", "function isShard("}, []string{"match /counters"}},
		{"posts/{post}/shards/{shard} -> post_totals/{post} : likes, views", byOwner, []string{"To write: the rules of its shards"}, nil},
		{"`my orders`/{order} -> totals/orders : count() as orders", byUsers, []string{"names need care"}, []string{"my orders/{"}},
		{route.Default + "; posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing", byOwner,
			[]string{"match /counters/{counter} {", "match /posts/{post}/likes/{user} {"}, nil},
	} {
		routes := parsed(t, test.routes)
		writers := make(map[*route.Route]string)
		for _, r := range routes {
			writers[r] = test.writer
		}
		rules := rulesFor(routes, writers)
		for _, text := range test.has {
			if !strings.Contains(rules, text) {
				t.Errorf("%s: %q is missing:\n%s", test.routes, text, rules)
			}
		}
		for _, text := range test.hasNone {
			if strings.Contains(rules, text) {
				t.Errorf("%s: %q is there:\n%s", test.routes, text, rules)
			}
		}
		if err := emulator.SetRules(t.Context(), emulatortest.Addr(t), emulatortest.Project(t), rules); err != nil {
			t.Errorf("%s: %v\n%s", test.routes, err, rules)
		}
	}
}

// Answers that never do end with the answers.
func TestNoAnswerWillDo(t *testing.T) {
	q := questions{bufio.NewReader(strings.NewReader(strings.Repeat("likes\n", 10_000))), io.Discard}
	if got, err := q.route(t.Context(), ""); err == nil || got != "" {
		t.Errorf("got %q, %v; want an error", got, err)
	}
}

// Ctrl-C at a question ends the command, and nothing is written.
func TestQuestionIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	in, typed := io.Pipe()
	defer typed.Close()
	stopped := errors.New("Ctrl-C")
	cancel(stopped)
	q := questions{bufio.NewReader(in), io.Discard}
	if _, err := q.route(ctx, ""); !errors.Is(err, stopped) {
		t.Errorf("route: %v, want %v", err, stopped)
	}
}
