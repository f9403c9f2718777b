package dashboard

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/cloud/billing"
	"github.com/firestore-tally/tally/internal/value"
	"github.com/firestore-tally/tally/rollup/route"
)

// newBoard returns a board of counters, each with a total and as many shards, that is not run.
func newBoard(totals map[string]int) *Board {
	b := New()
	b.model = newModel(10*time.Second, false)
	for name, total := range totals {
		b.put(name, total, int64(total))
	}
	return b
}

var defaultRoute = routes(route.Default)[0]

// routes parses routes that are valid.
func routes(text string) route.Routes {
	routes, err := route.Parse(text)
	if err != nil {
		panic(err)
	}
	return routes
}

func (b *Board) put(name string, total int, shards int64) {
	r := row{Key: rowKey{"d", name, "count"}, Name: "counters/" + name, Route: defaultRoute, shards: "counters/" + name + "/shards", total: defaultRoute.Totals[0], known: true}
	b.model.put(r, sample{int64(total), value.Int(int64(total))}, shards)
}

// ids returns the counters that a page is sent, in order.
func (s *state) ids() string {
	var ids []string
	for _, r := range s.Rows {
		ids = append(ids, r.Label[1])
	}
	return strings.Join(ids, " ")
}

func TestOrder(t *testing.T) {
	b := newBoard(map[string]int{"a10": 5, "a9": 50, "b1": 500, "b2": 5, "gone": 0})
	for _, test := range []struct {
		view view
		want string
	}{
		{view{Sort: "name"}, "a9 a10 b1 b2"}, // numbers in names by value
		{view{Sort: "name", Down: true}, "b2 b1 a10 a9"},
		{view{Sort: "total"}, "a10 b2 a9 b1"}, // equal totals in the order of their names, either way
		{view{Sort: "total", Down: true}, "b1 a9 a10 b2"},
		{view{Sort: "age"}, "b1 a9 a10 b2"},
		{view{Sort: "rate", Down: true}, "a9 a10 b1 b2"},
		{view{Sort: "name", Filter: " A COUNTERS/"}, "a9 a10"},
		{view{Sort: "name", Filter: "zebra"}, ""},
		{view{Sort: "name", Gone: true}, "a9 a10 b1 b2 gone"},
	} {
		s := b.show(test.view, time.Now())
		if got := s.ids(); got != test.want || s.Gone != 1 {
			t.Errorf("%+v: got %s and %d gone, want %s and 1", test.view, got, s.Gone, test.want)
		}
	}
}

// A page shows maxRows rows, from those that it asks for, or the last that there are.
func TestFrom(t *testing.T) {
	totals := make(map[string]int)
	for i := range 2*maxRows + 50 {
		totals[fmt.Sprint("c", i)] = i + 1
	}
	b := newBoard(totals)
	for _, test := range []struct {
		from        int
		filter      string
		first, last int
	}{
		{0, "", 0, 99}, {100, "", 100, 199}, {200, "", 200, 249}, {300, "", 200, 249},
		{200, "c1", 100, 110}, // of 1, 10 to 19 and 100 to 199
		{200, "zebra", 0, -1},
	} {
		s := b.show(view{Sort: "name", Filter: test.filter, From: test.from}, time.Now())
		if s.From != test.first || s.Last() != test.last+1 || s.Last() > s.Shown {
			t.Errorf("from %d of %q: rows %d to %d of %d, want %d to %d", test.from, test.filter, s.From, s.Last()-1, s.Shown, test.first, test.last)
		}
	}
}

func TestFormats(t *testing.T) {
	for _, test := range []struct{ got, want string }{
		{decimal(int64(9007199254740993)), "9,007,199,254,740,993"}, {decimal(-1234.5678), "-1,234.568"}, {decimal(math.NaN()), "NaN"},
		{signed(3), "+3"}, {signed(0), "+0"}, {signed(-1234), "-1,234"},
		{plural(1, "shard"), "1 shard"}, {plural(10.0, "second"), "10 seconds"}, {plural(int64(0), "read"), "0 reads"},
		{rate(0), "0"}, {rate(-0.43), "-0.4"}, {rate(21.06), "21.1"}, {rate(1234.5), "1,235"},
		{age(0), "0.0 s"}, {age(9.9), "9.9 s"}, {age(9.96), "10 s"}, {age(119), "119 s"}, {age(600), "10 min"}, {age(7200), "2 h"}, {age(86400 * 1234), "1,234 d"},
		{age(since(at(2), at(1))), "0.0 s"}, {age(since(at(1), at(2.5))), "1.5 s"},
		{total(value.Int(1 << 60)), "1,152,921,504,606,846,976"}, {total(value.Null), "–"}, {total(value.Timestamp(time.UnixMicro(at(2)))), clock(at(2))},
		{pending(value.Int(3), value.Int(5)), "+2 not rolled up yet"}, {pending(value.Int(3), value.Double(3)), "as rolled up"},
		{pending(value.Null, value.Int(5)), "not rolled up yet"}, {pending(value.Null, value.Null), "as rolled up"},
		{pending(value.Timestamp(time.Unix(1, 0)), value.Timestamp(time.Unix(2, 0))), "not rolled up yet"},
		{visible("a\u202eb\u2028<é!שלום"), `a\u202eb\u2028<é!שלום`},
	} {
		if test.got != test.want {
			t.Errorf("got %q, want %q", test.got, test.want)
		}
	}
}

// Totals of different kinds have an order: null, numbers, times.
func TestOrderOfTotals(t *testing.T) {
	ascending := []value.Value{value.Null, value.Int(-1), value.Double(0.5), value.Int(7), value.Timestamp(time.Unix(-1, 0)), value.Timestamp(time.Unix(5, 0))}
	for i, a := range ascending {
		for j, b := range ascending {
			if got := compareTotals(a, b); got != cmp.Compare(i, j) {
				t.Errorf("%v and %v: got %d", a, b, got)
			}
		}
	}
}

// A counter is gone when an audit will remove its roll-up: not if that is a document of the app's
// own, nor if there may be documents that no total sees.
func TestGone(t *testing.T) {
	at := time.Unix(5, 0)
	for _, test := range []struct {
		route  string
		shards int64
		total  value.Value
		want   bool
	}{
		{route.Default, 0, value.Int(0), true},
		{route.Default, 1, value.Int(0), false},
		{route.Default, 0, value.Int(1), false}, // odd: it is shown
		{"a/{a}/b/{b} -> c/{a} : count() as n, latest(at) as last", 0, value.Null, true},
		{"a/{a}/b/{b} -> c/{a} : count() as n, latest(at) as last", 0, value.Timestamp(at), false},
		{"a/{a}/b/{b} -> c/{a} : count() where ok == true as n", 0, value.Int(0), false},
		{"a/{a}/b/{b} -> a/{a} : count() as n : existing", 0, value.Int(0), false},
	} {
		r := row{Route: routes(test.route)[0], documents: test.shards, Total: test.total}
		if got := r.isGone(); got != test.want {
			t.Errorf("%s, %d documents, %v: got %v", test.route, test.shards, test.total, got)
		}
	}
}

// The page calls documents of the app's own no shards, and adds up no totals of different things.
func TestNouns(t *testing.T) {
	for route, noun := range map[string]string{
		route.Default: "shard",
		"posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing":    "document",
		"posts/{post}/comments/{id} -> posts/{post} : latest(at) as last : existing": "document",
		"orders/{order} by shop -> shops/{shop} : amount as revenue : existing":      "document",
	} {
		r := row{Route: routes(route)[0], Total: value.Int(2)}
		var page strings.Builder
		err := pageTemplate.Execute(&page, &state{
			View: view{Open: "x"}, Columns: columns, Ready: true, Counters: 1, Totals: 1, Rows: []row{r}, Watching: billing.Counts{},
			Open: &detail{row: r, Parts: []shard{{ID: "a"}, {ID: "b"}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		for text, want := range map[string]bool{
			"sum of totals":              false,
			"first 2 " + noun + "s":      true,
			">" + capital(noun) + "<":    true,
			"Total of the " + noun + "s": true,
			"these shards bills":         noun == "shard",
			"<h3>Shards</h3>":            noun == "shard",
		} {
			if strings.Contains(page.String(), text) != want {
				t.Errorf("%s: %q is on the page: %v, want %v", route, text, !want, want)
			}
		}
	}
}

func TestSteps(t *testing.T) {
	const now = 1_000_000_000
	ago := func(seconds int64, value float64) point { return point{now - seconds*1e6, value} }
	for _, test := range []struct {
		name     string
		points   []point
		fromZero bool
		want     string
	}{
		{"none", nil, false, ""},
		{"one", []point{ago(9, 1)}, false, "M-9.0 100H-9.0V50.0H0V100Z"},
		{"one from before the chart", []point{ago(500, 1)}, false, "M-120.0 100H-120.0V50.0H0V100Z"},
		{"up from the least", []point{ago(60, 10), ago(30, 15), ago(1, 20)}, false, "M-60.0 100H-60.0V100.0H-30.0V50.0H-1.0V0.0H0V100Z"},
		{"up from 0", []point{ago(60, 10), ago(30, 20)}, true, "M-60.0 100H-60.0V50.0H-30.0V0.0H0V100Z"},
		{"below 0", []point{ago(60, -10), ago(30, 10)}, true, "M-60.0 100H-60.0V100.0H-30.0V0.0H0V100Z"},
		{"flat", []point{ago(60, 5), ago(30, 5)}, false, "M-60.0 100H-60.0V50.0H-30.0V50.0H0V100Z"},
		{"flat above 0", []point{ago(60, 5), ago(30, 5)}, true, "M-60.0 100H-60.0V0.0H-30.0V0.0H0V100Z"},
		{"flat at 0", []point{ago(60, 0), ago(30, 0)}, true, "M-60.0 100H-60.0V100.0H-30.0V100.0H0V100Z"},
		{"from before the chart", []point{ago(500, 99), ago(200, 0), ago(10, 10)}, false, "M-120.0 100H-120.0V100.0H-10.0V0.0H0V100Z"},
	} {
		if got := steps(test.points, now, test.fromZero); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

func TestForeign(t *testing.T) {
	b := newBoard(nil)
	handler := b.handler()
	state := "/state?view=" + url.QueryEscape(`{"sort":"name"}`)
	get := func(path, host, site string) *http.Response {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Host = cmp.Or(host, "127.0.0.1:8091")
		if site != "" {
			r.Header.Set("Sec-Fetch-Site", site)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w.Result()
	}
	for _, test := range []struct {
		path, host, site string
		want             int
	}{
		{"/", "", "", http.StatusOK},
		{"/page/page.js", "localhost:9000", "same-origin", http.StatusOK}, // by a port that was forwarded
		{"/", "[::1]:80", "", http.StatusOK},
		{"/", "LOCALHOST", "cross-site", http.StatusOK}, // a link to it
		{"/", "evil.example", "", http.StatusForbidden},
		{"/", "127.0.0.1.evil.example:80", "", http.StatusForbidden},
		{"/", "10.0.0.1", "", http.StatusForbidden},
		{state, "evil.example:80", "", http.StatusForbidden},
		{state, "", "same-origin", http.StatusOK},
		{state, "", "cross-site", http.StatusForbidden},
		{state, "", "same-site", http.StatusForbidden},
		{"/state", "", "", http.StatusBadRequest},
		{"/state?view={}", "", "", http.StatusBadRequest},
		{"/nothing", "", "", http.StatusNotFound},
	} {
		res := get(test.path, test.host, test.site)
		if res.StatusCode != test.want {
			t.Errorf("%s at %q from %q: %s, want %d", test.path, test.host, test.site, res.Status, test.want)
		}
		if got := res.Header.Get("Content-Security-Policy"); !strings.HasPrefix(got, "default-src 'none'; script-src 'self';") || strings.Contains(got, "unsafe") {
			t.Errorf("%s: policy %q", test.path, got)
		}
	}
}

// The price of watching is that of the database's edition.
func TestPriceOfWatching(t *testing.T) {
	three := []firestore.DocumentChange{{Kind: firestore.DocumentAdded}, {Kind: firestore.DocumentAdded}, {Kind: firestore.DocumentModified}}
	gone := firestore.DocumentChange{Kind: firestore.DocumentRemoved}
	for edition, want := range map[route.Edition]string{
		route.Standard:   "6 reads",
		route.Enterprise: "5 read units, 2 real-time update units",
	} {
		b := New()
		b.model = newModel(leastWindow, false)
		b.options.Edition = edition
		b.bill(three, true)
		b.bill(append(three[:2:2], gone), false)
		b.bill(nil, true)

		s := b.figures(time.Now(), &Functions{Used: billing.Usage{Counts: billing.Counts{Reads: 7}, Units: billing.Units{Reads: 8}}}, nil)
		if s.Watching.String() != want {
			t.Errorf("%v: watching bills %v, want %s", edition, s.Watching, want)
		}
		if price := map[route.Edition]string{route.Standard: "7 reads", route.Enterprise: "8 read units"}[edition]; s.Billed.String() != price {
			t.Errorf("%v: the functions' bill is %v, want %s", edition, s.Billed, price)
		}
	}
}
