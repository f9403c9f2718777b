package session

import (
	"errors"
	"strings"
	"testing"

	"github.com/firestore-tally/tally/cmd/tally/counter"
	"github.com/firestore-tally/tally/internal/cloud/config"
	"github.com/firestore-tally/tally/rollup/route"
)

// A command that changes totals works by the routes of the functions that run. Where none run, it
// works by routes that somebody named.
func TestDecide(t *testing.T) {
	const pages = "pages/{page}/shards/{shard} -> rollups/{page} : count"
	const defaults = route.Default
	configured := func(routes string, databases ...string) *config.Config {
		if databases == nil {
			databases = []string{"(default)"}
		}
		return &config.Config{Routes: routesOf(t, routes), Databases: databases}
	}
	assumed := statedConfig{config: *configured(defaults)}
	ofFile := statedConfig{config: *configured(pages), from: "by tally.yaml"}
	ofFlag := statedConfig{config: *configured(pages), from: "by --routes", forThis: true}
	none := runningFunctions{project: "shop", of: "the deployed functions"}
	runs := func(c *config.Config) runningFunctions {
		return runningFunctions{project: "shop", of: "the deployed functions", config: c}
	}
	unread := runningFunctions{project: "shop", of: "the deployed functions", unread: errors.New("could not read the deployed routes: no role")}

	type want struct {
		routes, from string
		refusal      string // in it; "": the command may change everything
		notice       string // its beginning
		database     string // "": the default one
	}
	for _, test := range []struct {
		name     string
		said     statedConfig
		runs     runningFunctions
		database string
		want     want
	}{
		// Once a repair by the default route, which no flag or file had named, set the totals of an
		// app with other routes to 0, because by the default route their roll-ups had no shards.
		{"nothing is stated", assumed, none, "", want{
			routes: defaults, refusal: "nothing was changed: the routes are assumed; tally init writes them into tally.yaml, and --routes names them",
			notice: "routes, assumed (no tally.yaml here or above; no functions run for project shop): " + defaults,
		}},
		{"nothing is stated, and what runs is not known", assumed, unread, "", want{
			routes: defaults, refusal: "nothing was changed: the routes are assumed",
			notice: "routes, assumed (no tally.yaml here or above; could not read the deployed routes: no role): " + defaults,
		}},
		{"functions run, and nothing else is stated", assumed, runs(configured(pages)), "", want{
			routes: pages, from: "of the deployed functions",
		}},

		{"a file, and nothing runs", ofFile, none, "", want{routes: pages, from: "by tally.yaml"}},
		{"a file, and what runs is not known", ofFile, unread, "", want{
			routes: pages, from: "by tally.yaml",
			refusal: "nothing was changed: could not read the deployed routes: no role; --routes names the routes for sure",
			notice:  "tally: could not read the deployed routes: no role",
		}},
		{"a file that says what runs", ofFile, runs(configured(pages)), "", want{routes: pages, from: "of the deployed functions"}},
		{"a file that says another", ofFile, runs(configured(defaults)), "", want{routes: defaults, from: "of the deployed functions"}},

		{"a flag, and nothing runs", ofFlag, none, "", want{routes: pages, from: "by --routes"}},
		{"a flag, and what runs is not known", ofFlag, unread, "", want{
			routes: pages, from: "by --routes", notice: "tally: could not read the deployed routes",
		}},
		{"a flag that says what runs", ofFlag, runs(configured(pages)), "", want{routes: pages, from: "of the deployed functions"}},
		{"a flag that says another is meant for reading", ofFlag, runs(configured(defaults)), "", want{
			routes: pages, from: "by --routes",
			refusal: "nothing was changed: the routes by --routes differ from those of the deployed functions, so this command may only read:\n" + defaults,
		}},

		{"the first of the databases", assumed, runs(configured(pages, "orders", "(default)")), "", want{
			routes: pages, from: "of the deployed functions", database: "orders",
		}},
		{"one of the databases", assumed, runs(configured(pages, "(default)", "orders")), "orders", want{
			routes: pages, from: "of the deployed functions", database: "orders",
		}},
		{"a database that no functions serve", ofFile, runs(configured(pages, "(default)", "orders")), "sales", want{
			routes: pages, from: "of the deployed functions", database: "sales", refusal: "the databases of the deployed functions are (default), orders, not sales",
		}},
		{"a database, and nothing runs", ofFile, none, "sales", want{routes: pages, from: "by tally.yaml", database: "sales"}},
		{"other routes and another database", ofFlag, runs(configured(defaults, "orders")), "", want{
			routes: pages, from: "by --routes", refusal: "nothing was changed: the routes by --routes differ from those of ",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := decide(test.said, test.runs, test.database)
			if got := d.Config.Routes.String(); got != test.want.routes || d.From != test.want.from {
				t.Errorf("the routes %s: %s\nwant %s: %s", d.From, got, test.want.from, test.want.routes)
			}
			database := test.want.database
			if database == "" {
				database = "(default)"
			}
			if d.Database != database {
				t.Errorf("the database %s, want %s", d.Database, database)
			}
			if !strings.HasPrefix(d.notice, test.want.notice) || (d.notice == "") != (test.want.notice == "") {
				t.Errorf("said first: %q, want %q", d.notice, test.want.notice)
			}
			if want := test.said.from == "" && test.runs.config == nil; d.Assumed != want {
				t.Errorf("assumed: %v, want %v", d.Assumed, want)
			}

			if want := test.runs.config != nil && test.want.refusal == ""; d.Served != want {
				t.Errorf("served: %v, want %v", d.Served, want)
			}
			refusal := ""
			if d.Refusal != nil {
				refusal = d.Refusal.Error()
			}
			if (refusal == "") != (test.want.refusal == "") || !strings.Contains(refusal, test.want.refusal) {
				t.Errorf("refused: %q\nwant %q", refusal, test.want.refusal)
			}
		})
	}
}

// What an argument names, by the routes alone.
func TestCounterOf(t *testing.T) {
	const some = route.Default + `
posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing
posts/{post}/views/{shard} -> posts/{post} : n as views : existing
orders/{order} by shop -> shops/{shop} : count() as orders : existing`
	const elsewhere = "shops/{shop}/likes/{user} -> shop_likes/{shop} : count(); shops/{shop}/views/{shard} -> shop_views/{shop} : n"
	for _, test := range []struct {
		routes, arg string
		rollUp      string
		path        string // what messages call it
		sources     int    // that it names
		err         string // in the error
		noRoute     bool   // it is errNoRoute
	}{
		{route.Default, "likes", "rollups/likes", "counters/likes", 1, "", false},
		{route.Default, "counters/likes", "rollups/likes", "counters/likes", 1, "", false},
		{route.Default, "counters/likes/shards", "rollups/likes", "counters/likes", 1, "", false},
		{route.Default, "counters/likes/shards/3", "rollups/likes", "counters/likes", 1, "", false},
		{route.Default, "rollups/likes", "rollups/likes", "counters/likes", 1, "", false},
		{some, "likes", "rollups/likes", "counters/likes", 1, "", false}, // as create makes it
		{some, "posts/7", "posts/7", "posts/7", 2, "", false},
		{some, "posts/7/likes", "posts/7", "posts/7", 1, "", false},
		{some, "posts/7/views/0", "posts/7", "posts/7", 1, "", false},
		{some, "shops/acme", "shops/acme", "shops/acme", 1, "", false},
		{elsewhere, "shop_likes/s", "shop_likes/s", "shops/s", 1, "", false},
		{"a/{a}/b/{b}/c/{c} -> d/{b}/e/{a} : n", "1/2", "d/1/e/2", "a/2/b/1", 1, "", false}, // the ids as the roll-up has them

		{some, "orders/1", "", "", 0, "the field shop of orders/1 says which counter it belongs to", false},
		{elsewhere, "shops/s", "", "", 0, "shops/s has several counters: name the roll-up of one, such as shop_likes/s or shop_views/s", false},
		{elsewhere, "s", "shop_views/s", "shops/s", 1, "", false}, // the likes are the app's own
		{"a/{a}/b/{b} -> c/{a} : n; d/{d}/e/{e} -> f/{d} : n", "x", "", "", 0, `"x" may be c/x or f/x: name a path`, false},
		{route.Default, "counter/likes", "", "", 0, "did you mean counters/likes?", false},
		{route.Default, "posts/7/likes", "", "", 0, "no route serves posts/7/likes; this one would: posts/{post}/likes/{like} -> post_totals/{post}", true},
		{route.Default, "posts/7/counters/likes", "", "", 0, "no route serves posts/7/counters/likes; this one would: ", true},
		{route.Default, "counters//likes", "", "", 0, `"counters//likes" is not a path`, false},
		{route.Default, "a\xff", "", "", 0, "is not a path", false},
		{route.Default, strings.Repeat("x/", 1000) + "x", "", "", 0, "no route serves x/x/", true},
	} {
		c, err := counter.Of(routesOf(t, test.routes), test.arg)
		if c.RollUp != test.rollUp || c.Path != test.path || len(c.Sources) != test.sources {
			t.Errorf("%q: the roll-up %q of %q with %d sources; want %q of %q with %d", test.arg, c.RollUp, c.Path, len(c.Sources), test.rollUp, test.path, test.sources)
		}
		if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) || errors.Is(err, counter.ErrNoRoute) != test.noRoute {
			t.Errorf("%q: %v\nwant %q, of no route: %v", test.arg, err, test.err, test.noRoute)
		}
	}
}

func routesOf(t *testing.T, text string) route.Routes {
	t.Helper()
	routes, err := route.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return routes
}
