package draft

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/firestore-tally/tally/internal/tool/rules"
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
		got := For(test.path, test.field)
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
		{"names of captures", "posts/{id}/likes/{user} -> posts/{id} : count() as likes : existing", []string{"posts/{id}/likes/{user}", "", ""}, nil},
		{"captures of one name", "posts/{id}/likes/{like2} -> posts/{id} : count() as likes : existing", []string{"posts/{id}/likes/{id}", "", ""}, nil},
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
		{"a group of its own collection", "comments/{comment} by parent -> comments/{parent} : count() as replies : existing",
			[]string{"comments/1", "count() as replies", "comments/2", "parent"}, nil},
		{"a day", "orders/{order} by shop, day(at) -> shops/{shop}/days/{day} : count() as orders, sum(amount) as revenue : within shops/{shop}",
			[]string{"orders/1", "count() as orders, sum(amount) as revenue", "shops/acme/days/2026-11-27", "shop", "at"},
			[]string{"A total of each day, week or month has a document for each", `Which field of orders/1 says "acme"`, "Days are those of UTC, unless the answer names a zone, as in day(at, \"Europe/Berlin\").", "Which field of orders/1 has a time in 2026-11-27", "Tally creates shops/acme/days/2026-11-27 and all others like it, if the app has created shops/acme."}},
		{"a month of a zone", `visits/{visit} by month(at, "Europe/Berlin") -> visit_months/{month} : count() as visits : within`,
			[]string{"visits/1", "", "visit_months/2026-11", `month(at, "Berlin")`, `month(at, "Europe/Berlin")`},
			[]string{"did you mean Europe/Berlin?", "Tally creates visit_months/2026-11 and all others like it.\n"}},
		{"a week of a customer", "logs/{log} by customer.id, week(at) -> users/{id}/weeks/{week} : count() as logs : within users/{id}",
			[]string{"logs/1", "", "users/ann/weeks/2026-W48", "customer.id", "at"}, nil},
		{"a week", "logs/{log} by user, week(at) -> users/{user}/weeks/{week} : count() as logs : within users/{user}",
			[]string{"logs/1", "", "users/ann/weeks/2026-W48", "user", "at"}, nil},
		{"a day below the document above", "shops/{shop}/orders/{order} by day(paid.at) -> shops/{shop}/days/{day} : count() as orders : within shops/{shop}",
			[]string{"shops/7/orders/1", "", "shops/7/days/2026-11-27", "paid.at"}, nil},
		{"a document that is called like a day", "orders/{order} -> reports/2026-11-27 : count() as orders",
			[]string{"orders/1", "", "reports/2026-11-27", "none", "tally"}, nil},
		{"a reference", "comments/{comment} by ref(author) -> users/{author} : count() as comments : existing",
			[]string{"comments/1", "", "users/ann", "ref(author)"}, nil},
		{"a key with a name", "follows/{follow} by number(to) as user -> users/{user} : count() as followers : existing",
			[]string{"follows/1", "count() as followers", "users/42", "number(to) as user"}, nil},
		{"a field and the document above", "rooms/{room}/messages/{message} by to -> rooms/{room}/members/{to} : count() where read == false as unread : existing",
			[]string{"rooms/7/messages/1", "count() where read == false as unread", "rooms/7/members/ann", "to"},
			[]string{"The app creates rooms/7/members/ann and all others like it"}},
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
			[]string{`"posts" is a collection`, "does not use {post}", "does not use {post}", "is a document of its own source"}},
		{"no field and no user", "orders/{order} -> shops/acme : count() as orders",
			[]string{"orders/1", "", "shops/acme", "order", "a b", "none", "me", "tally"},
			[]string{"give one of them another name", "", `"me": want app or tally`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var said strings.Builder
			q := Questions{bufio.NewReader(strings.NewReader(strings.Join(test.answers, "\n") + "\n")), &said}
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

// After one total init asks for another, and once for each kind of document who writes it.
func TestQuestionsForSeveralTotals(t *testing.T) {
	answers := []string{
		"posts/7/likes/ann", "", "", "", "me", "users", // likes by their owners, posts by any user
		"posts/7/likes/ann", "count() as likes", "posts/7", // again: the total has a name already
		"posts/{post}/likes/{like} -> hot_posts/{post} : count() where at > now - 1h as hot", // their writers are known
		"orders/1", "", "", "me", "servers",
		"counters/likes/shards/0", "", "", // init does not ask who writes shards
		"pages/{page}/shards/{shard} -> pages/{page} : count as views : existing", "", "none",
	}
	var said strings.Builder
	q := Questions{bufio.NewReader(strings.NewReader(strings.Join(answers, "\n") + "\n")), &said}
	routes, writers, err := q.Routes(t.Context())
	if err != nil {
		t.Fatalf("%v\n%s", err, &said)
	}

	const likes, orders = "posts/{post}/likes/{like} -> posts/{post} : count() as likes : existing", "orders/{order} -> totals/orders : count() as orders"
	const hot = "posts/{post}/likes/{like} -> hot_posts/{post} : count() where at > now - 1h as hot"
	const views = "pages/{page}/shards/{shard} -> pages/{page} : count as views : existing"
	if want := strings.Join([]string{likes, hot, orders, route.Default, views}, "\n"); routes != want {
		t.Errorf("routes:\n%s\nwant:\n%s\n%s", routes, want, &said)
	}
	want := rules.Answers{
		Sources: map[string]rules.Writer{likes: rules.Owner, hot: rules.Owner, orders: rules.Servers},
		Homes:   map[string]rules.Writer{"posts/{post}": rules.Users, "pages/{page}": rules.Undecided},
	}
	if d := cmp.Diff(want, writers); d != "" {
		t.Errorf("writers (-want +got):\n%s", d)
	}
	for _, text := range []string{"Another document, for another total [none]: ", "Who writes posts/{post}/likes/{like}?", "Who creates posts/{post}, which holds the totals?", `"me": want users, servers or later`, `"me": want owner, users, servers or later`} {
		if !strings.Contains(said.String(), text) {
			t.Errorf("%q is not said:\n%s", text, &said)
		}
	}
}

// Answers that never do end with the answers.
func TestNoAnswerWillDo(t *testing.T) {
	q := Questions{bufio.NewReader(strings.NewReader(strings.Repeat("likes\n", 10_000))), io.Discard}
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
	q := Questions{bufio.NewReader(in), io.Discard}
	if _, err := q.route(ctx, ""); !errors.Is(err, stopped) {
		t.Errorf("route: %v, want %v", err, stopped)
	}
}
