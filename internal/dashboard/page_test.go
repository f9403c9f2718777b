package dashboard

import (
	"cmp"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/firestore-tally/tally/rollup"
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

func (b *Board) put(name string, total int, shards int64) {
	r := row{key: rowKey{"d", name, "count"}, shards: "counters/" + name + "/shards", known: true}
	b.model.put(r, sample{int64(total), rollup.Int(int64(total))}, shards)
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
		{view{Sort: "shards", Down: true}, "b1 a9 a10 b2"},
		{view{Sort: "age"}, "b1 a9 a10 b2"},
		{view{Sort: "rate", Down: true}, "a9 a10 b1 b2"},
		{view{Sort: "name", Filter: " A COUNTERS/"}, "a9 a10"},
		{view{Sort: "name", Filter: "zebra"}, ""},
		{view{Sort: "name", Gone: true}, "a9 a10 b1 b2 gone"},
	} {
		test.view.Page, test.view.Count = "p", maxRows
		s := b.show(test.view, time.Now())
		if got := s.ids(); got != test.want || s.Gone != 1 {
			t.Errorf("%+v: got %s and %d gone, want %s and 1", test.view, got, s.Gone, test.want)
		}
	}
}

// Rows that keep their order do so whatever their totals become. A page is sent those in its view.
func TestKeep(t *testing.T) {
	b := newBoard(map[string]int{"a": 1, "b": 2, "c": 3, "d": 4})
	v := view{Page: "p", Sort: "total", Down: true, Count: maxRows, Active: `"d" "a" "count"`}
	show := func(want string, active int) {
		t.Helper()
		s := b.show(v, time.Now())
		if got := s.ids(); got != want || s.Active != active {
			t.Errorf("got %s, the active row at %d, want %s, %d", got, s.Active, want, active)
		}
	}
	show("d c b a", 3)
	v.Keep = true
	b.put("a", 9, 9)
	b.put("c", 5, 0)
	b.put("f", 50, 1)
	b.put("e", 100, 1)
	delete(b.model.rows, rowKey{"d", "b", "count"})
	show("d c a e f", 2)
	v.First, v.Count = 1, 2
	show("c a", 2)
	v.First = 9
	show("", 2)
	v.First, v.Count, v.Keep = 0, maxRows, false
	show("e f a c d", 2)
	v.Filter = "/e"
	show("e", -1)
}

func TestFresh(t *testing.T) {
	b := newBoard(map[string]int{"a": 1, "b": 1})
	b.put("b", 2, 1)
	now := time.Now()
	for after, want := range map[time.Duration]bool{0: true, freshFor: false} {
		s := b.show(view{Page: "p", Sort: "name", Count: maxRows}, now.Add(after))
		if s.Rows[0].Fresh || s.Rows[1].Fresh != want {
			t.Errorf("after %v the total that changed is fresh: %v, the other: %v", after, s.Rows[1].Fresh, s.Rows[0].Fresh)
		}
	}
}

func TestForeign(t *testing.T) {
	b := newBoard(nil)
	handler := b.handler()
	state := "/state?view=" + url.QueryEscape(`{"page":"p","sort":"name"}`)
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
		{"/main.js", "localhost:9000", "same-origin", http.StatusOK}, // by a port that was forwarded
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

	// Further pages than there may be are refused, until one is closed.
	ask := func(n int) int {
		return get(strings.ReplaceAll(state, "p%22", fmt.Sprintf("p%d%%22", n)), "", "").StatusCode
	}
	for n := range maxPages - 1 { // one asked above
		if got := ask(n); got != http.StatusOK {
			t.Errorf("page %d: %d", n, got)
		}
	}
	if got := ask(maxPages); got != http.StatusServiceUnavailable {
		t.Errorf("a page too many: %d", got)
	}
	b.forget(time.Now().Add(absence + time.Minute))
	if got := ask(maxPages); got != http.StatusOK {
		t.Errorf("a page after the others were closed: %d", got)
	}
}
