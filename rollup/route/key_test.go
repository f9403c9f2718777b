package route_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
)

func mustParse(t *testing.T, text string) route.Routes {
	t.Helper()
	routes, err := route.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return routes
}

// of returns a function that returns the fields of a document.
func of(fields map[string]any) func(document.Field) any {
	return func(f document.Field) any {
		held, _ := f.In(fields)
		return held
	}
}

// A document belongs to the counter that its keys say, and the counter's conditions hold for it.
// An id that no key gives names no counter.
func TestKeys(t *testing.T) {
	long := strings.Repeat("x", route.LongestGroup)
	at := time.Date(2026, 11, 27, 23, 30, 0, 0, time.UTC)
	for _, test := range []struct {
		route, path string
		fields      map[string]any
		want        string // "": it belongs to no counter
	}{
		{"o/{o} by shop -> s/{shop} : count() : existing", "o/1", map[string]any{"shop": "größe"}, "s/größe"},
		{"o/{o} by shop -> s/{shop} : count() : existing", "o/1", map[string]any{"shop": long}, "s/" + long},
		{"o/{o} by shop -> s/{shop} : count() : existing", "o/1", map[string]any{"shop": long + "x"}, ""},
		{"o/{o} by shop -> s/{shop} : count() : existing", "o/1", map[string]any{"shop": "a/b"}, ""},
		{"o/{o} by shop -> s/{shop} : count() : existing", "o/1", map[string]any{"shop": int64(7)}, ""},
		{"o/{o} by shop -> s/{shop} : count() : existing", "o/1", map[string]any{"shop": document.Reference("s/a")}, ""},
		{"o/{o} by shop -> s/{shop} : count() : existing", "o/1", nil, ""},
		{"o/{o} by shop -> s/{shop} : count() : existing", "p/1", map[string]any{"shop": "a"}, ""},
		{"o/{o} by c.id -> s/{id} : count() : existing", "o/1", map[string]any{"c": map[string]any{"id": "a"}}, "s/a"},

		{"p/{p}/v/{v} by talk -> p/{p}/t/{talk} : count() : existing", "p/x/v/1", map[string]any{"talk": "b"}, "p/x/t/b"},
		{"p/{p}/v/{v} by talk -> t/{talk}/p/{p} : count() : existing", "p/x/v/1", map[string]any{"talk": "b"}, "t/b/p/x"},
		{"p/{p}/v/{v} by a, b -> t/{b}/p/{p}/t/{a} : count() : existing", "p/x/v/1", map[string]any{"a": "1", "b": "2"}, "t/2/p/x/t/1"},
		{"p/{p}/v/{v} by a, b -> t/{b}/p/{p}/t/{a} : count() : existing", "p/x/v/1", map[string]any{"a": "1"}, ""},
		{"r/{r}/m/{m} by to as user -> r/{r}/u/{user} : count() : existing", "r/x/m/1", map[string]any{"to": "ann"}, "r/x/u/ann"},

		{"a/{a}/b/{b}/c/{c}/d/{d}/e/{e} by f -> a/{a}/b/{b}/c/{c}/d/{d}/f/{f} : count() : existing", strings.Join([]string{"a", long, "b", long, "c", long, "d", long, "e", "1"}, "/"), map[string]any{"f": long}, ""},

		{"c/{c} by ref(author) -> users/{author} : count() : existing", "c/1", map[string]any{"author": document.Reference("users/ann")}, "users/ann"},
		{"c/{c} by ref(author) -> users/{author} : count() : existing", "c/1", map[string]any{"author": document.Reference("people/ann")}, ""},
		{"c/{c} by ref(author) -> users/{author} : count() : existing", "c/1", map[string]any{"author": document.Reference("x/y/users/ann")}, ""},
		{"c/{c} by ref(author) -> users/{author} : count() : existing", "c/1", map[string]any{"author": document.Reference("users/ann/x/y")}, ""},
		{"c/{c} by ref(author) -> users/{author} : count() : existing", "c/1", map[string]any{"author": "users/ann"}, ""},
		{"c/{c} by ref(author) -> users/{author} : count() : existing", "c/1", map[string]any{"author": document.Reference("users/" + long)}, ""},
		{"c/{c} by ref(author) -> users/{author}/s/all : count() : existing", "c/1", map[string]any{"author": document.Reference("users/ann")}, "users/ann/s/all"},
		{"p/{p}/c/{c} by ref(author) -> p/{p}/users/{author} : count() : existing", "p/x/c/1", map[string]any{"author": document.Reference("p/x/users/ann")}, "p/x/users/ann"},
		{"p/{p}/c/{c} by ref(author) -> p/{p}/users/{author} : count() : existing", "p/x/c/1", map[string]any{"author": document.Reference("p/y/users/ann")}, ""},
		{"c/{c} by ref(b), a -> s/{a}/b/{b} : count() : existing", "c/1", map[string]any{"a": "x", "b": document.Reference("s/x/b/y")}, "s/x/b/y"},
		{"c/{c} by ref(b), a -> s/{a}/b/{b} : count() : existing", "c/1", map[string]any{"a": "y", "b": document.Reference("s/x/b/y")}, ""},

		{"f/{f} by number(id) -> u/{id} : count() : existing", "f/1", map[string]any{"id": int64(42)}, "u/42"},
		{"f/{f} by number(id) -> u/{id} : count() : existing", "f/1", map[string]any{"id": 42.0}, "u/42"},
		{"f/{f} by number(id) -> u/{id} : count() : existing", "f/1", map[string]any{"id": math.Copysign(0, -1)}, "u/0"},
		{"f/{f} by number(id) -> u/{id} : count() : existing", "f/1", map[string]any{"id": int64(1<<53 + 1)}, "u/9007199254740993"},
		{"f/{f} by number(id) -> u/{id} : count() : existing", "f/1", map[string]any{"id": float64(math.MinInt64)}, "u/-9223372036854775808"},
		{"f/{f} by number(id) -> u/{id} : count() : existing", "f/1", map[string]any{"id": float64(1 << 63)}, ""},
		{"f/{f} by number(id) -> u/{id} : count() : existing", "f/1", map[string]any{"id": 0.5}, ""},
		{"f/{f} by number(id) -> u/{id} : count() : existing", "f/1", map[string]any{"id": math.NaN()}, ""},
		{"f/{f} by number(id) -> u/{id} : count() : existing", "f/1", map[string]any{"id": math.Inf(1)}, ""},
		{"f/{f} by number(id) -> u/{id} : count() : existing", "f/1", map[string]any{"id": "42"}, ""},

		{"o/{o} by day(at) -> d/{day} : count() : existing", "o/1", map[string]any{"at": at}, "d/2026-11-27"},
		{`o/{o} by day(at, "Europe/Berlin") -> d/{day} : count() : existing`, "o/1", map[string]any{"at": at}, "d/2026-11-28"},
		{`o/{o} by day(at, "America/New_York") as when -> d/{when} : count() : existing`, "o/1", map[string]any{"at": at}, "d/2026-11-27"},
		{"o/{o} by month(at) -> d/{month} : count() : existing", "o/1", map[string]any{"at": at}, "d/2026-11"},
		{"o/{o} by week(at) -> w/{week} : count() : existing", "o/1", map[string]any{"at": at}, "w/2026-W48"},
		{"o/{o} by week(at) -> w/{week} : count() : existing", "o/1", map[string]any{"at": at.AddDate(0, 0, 37)}, "w/2026-W53"}, // January 3rd
		{"o/{o} by week(at) -> w/{week} : count() : existing", "o/1", map[string]any{"at": at.AddDate(0, 0, 38)}, "w/2027-W01"},
		{`o/{o} by week(at, "Asia/Tokyo") -> w/{week} : count() : existing`, "o/1", map[string]any{"at": at.AddDate(0, 0, 2)}, "w/2026-W49"},
		{"o/{o} by week -> w/{week} : count() : existing", "o/1", map[string]any{"week": "2026-W48"}, "w/2026-W48"},
		{"o/{o} by week -> w/{week} : count() : existing", "o/1", map[string]any{"week": at}, ""},
		{"o/{o} by day(at) -> d/{day} : count() : existing", "o/1", map[string]any{"at": "2026-11-27"}, ""},
		{"o/{o} by day(at) -> d/{day} : count() : existing", "o/1", map[string]any{"at": nil}, ""},
		{"o/{o} by shop, day(at) -> s/{shop}/d/{day} : count() : existing", "o/1", map[string]any{"shop": "a", "at": at}, "s/a/d/2026-11-27"},
		{"o/{o} by day(at), shop -> s/{shop}/d/{day} : count() : existing", "o/1", map[string]any{"shop": "a"}, ""},
	} {
		r := mustParse(t, test.route)[0]
		c, ok := r.Belongs(test.path, of(test.fields))
		if ok != (test.want != "") || ok && c.RollUp != test.want {
			t.Errorf("%s of %v: got %q, %v; want %q", test.route, test.fields, c.RollUp, ok, test.want)
		}
		if !ok {
			continue
		}

		if back, ok := r.Template.Counter(c.RollUp); !ok || back != c {
			t.Errorf("%s: the path %s leads to %v, %v", test.route, c.RollUp, back, ok)
		}
		where, any := r.Where(c)
		if !any || !route.HoldAll(where, test.fields) {
			t.Errorf("%s of %v: the conditions %v, %v do not hold", test.route, test.fields, where, any)
		}
		if !strings.HasPrefix(test.path, r.Shards(c)+"/") {
			t.Errorf("%s: %s is not in %s", test.route, test.path, r.Shards(c))
		}
	}
}

// An id that no key gives names no counter.
func TestIDsOfNoKey(t *testing.T) {
	for text, ids := range map[string][]string{
		"f/{f} by number(id) -> u/{id} : count() : existing":                          {"042", "-0", "+1", "1.0", "1e3", "0x1", "9223372036854775808", " 1", "x"},
		"f/{f} by day(at) -> u/{day} : count() : existing":                            {"2026-1-1", "2026-02-30", "20260101", "2026-01-01x", "2026-01", "0000-01-01", "10000-01-01", "x", "+2026-01-01"},
		"f/{f} by month(at) -> u/{month} : count() : existing":                        {"2026-1", "2026-13", "2026-00", "2026-01-01", "0000-12"},
		`f/{f} by day(at, "Pacific/Apia") -> u/{day} : count() : existing`:            {"2011-12-30", "9999-12-32"},
		`f/{f} by day(at, "America/New_York") -> u/{day} : count() : existing`:        {"9999-12-31"},
		"f/{f} by week(at) -> u/{week} : count() : existing":                          {"2026-W00", "2026-W54", "2027-W53", "2026-W1", "2026-w01", "2026-W48x", "2026-48", "2026-11-23", "+026-W01", "0000-W52", "9999-W52", "10000-W01", "x"},
		`f/{f} by week(at, "Asia/Tokyo") -> u/{week} : count() : existing`:            {"0001-W01"},
		`f/{f} by month(at, "Asia/Tokyo") -> u/{month} : count() : existing`:          {"0001-01"},
		`f/{f} by month(at, "America/Los_Angeles") -> u/{month} : count() : existing`: {"9999-12"},
	} {
		r := mustParse(t, text)[0]
		for _, id := range ids {
			if c, ok := r.Template.Counter("u/" + id); ok {
				t.Errorf("%s: %q names the counter %v", text, id, c)
			}
		}
	}

	text := mustParse(t, "f/{f} by shop -> u/{shop} : count() : existing; u/{u}/r/{r} -> u/{u} : count() as n : existing")
	for _, id := range []string{strings.Repeat("x", document.LongestID), "__id7__"} {
		c, ok := text.Counter("u/" + id)
		if !ok {
			t.Errorf("u/%s is no counter", id)
		}
		if _, any := text[0].Where(c); any {
			t.Errorf("by shop, u/%s has documents", id)
		}
		if _, any := text[1].Where(c); !any {
			t.Errorf("by its path, u/%s has no documents", id)
		}
	}
}

// A time whose day has no end in Firestore is in no day, and a reference longer than any query
// compares with is no home.
func TestValuesOfNoKey(t *testing.T) {
	newYork := mustParse(t, `f/{f} by day(at, "America/New_York") -> u/{day} : count() : existing`)[0]
	late := time.Date(9999, 12, 31, 23, 0, 0, 0, time.UTC)
	for at, want := range map[time.Time]bool{late: false, late.AddDate(0, 0, -1): true} {
		if c, ok := newYork.Belongs("f/1", func(document.Field) any { return at }); ok != want {
			t.Errorf("%v belongs to %v: %v", at, c, ok)
		}
	}

	byRef := mustParse(t, "f/{f} by ref(author) -> u/{author} : count() : existing")[0]
	for length, want := range map[int]bool{1290: true, 1400: false} {
		path := "u/" + strings.Repeat("x", length)
		c, _ := byRef.Template.Counter(path)
		_, some := byRef.Where(c)
		_, belongs := byRef.Belongs("f/1", func(document.Field) any { return document.Reference(path) })
		if some != want || belongs != want {
			t.Errorf("an id of %d bytes: documents %v, belongs %v", length, some, belongs)
		}
	}
}

// spans are the zones whose days are compared with the clocks, and about when: where clocks change
// at midnight, over it, by a day, or by fractions of an hour, before 1900 and after 2037.
var spans = map[string][]time.Time{
	"America/Sao_Paulo":          {time.Date(2017, 10, 15, 0, 0, 0, 0, time.UTC), time.Date(2018, 2, 18, 0, 0, 0, 0, time.UTC)},                                             // at midnight
	"America/Havana":             {time.Date(2026, 3, 8, 0, 0, 0, 0, time.UTC), time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), time.Date(2099, 11, 1, 0, 0, 0, 0, time.UTC)}, // at midnight, from 1 to 0
	"Asia/Beirut":                {time.Date(2022, 3, 27, 0, 0, 0, 0, time.UTC), time.Date(2022, 10, 30, 0, 0, 0, 0, time.UTC)},                                             // back over midnight
	"Asia/Gaza":                  {time.Date(2011, 4, 1, 0, 0, 0, 0, time.UTC), time.Date(2011, 8, 1, 0, 0, 0, 0, time.UTC), time.Date(2011, 9, 30, 0, 0, 0, 0, time.UTC)},
	"America/St_Johns":           {time.Date(2010, 3, 14, 0, 0, 0, 0, time.UTC), time.Date(2010, 11, 7, 0, 0, 0, 0, time.UTC)}, // at 00:01, back over midnight
	"America/Asuncion":           {time.Date(2024, 3, 24, 0, 0, 0, 0, time.UTC), time.Date(2023, 10, 1, 0, 0, 0, 0, time.UTC)},
	"Pacific/Apia":               {time.Date(2011, 12, 30, 0, 0, 0, 0, time.UTC), time.Date(1892, 7, 5, 0, 0, 0, 0, time.UTC)}, // a day that was left out, and one that came twice
	"Pacific/Kwajalein":          {time.Date(1993, 8, 21, 0, 0, 0, 0, time.UTC)},
	"America/Juneau":             {time.Date(1867, 10, 18, 0, 0, 0, 0, time.UTC)}, // came twice
	"Asia/Manila":                {time.Date(1844, 12, 31, 0, 0, 0, 0, time.UTC)},
	"Europe/Berlin":              {time.Date(2026, 3, 29, 0, 0, 0, 0, time.UTC), time.Date(2026, 10, 25, 0, 0, 0, 0, time.UTC), time.Date(1893, 4, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 3, 28, 0, 0, 0, 0, time.UTC)},
	"Antarctica/Troll":           {time.Date(2026, 3, 29, 0, 0, 0, 0, time.UTC)},
	"Australia/Lord_Howe":        {time.Date(2026, 4, 5, 0, 0, 0, 0, time.UTC)},
	"Asia/Kathmandu":             {time.Date(1986, 1, 1, 0, 0, 0, 0, time.UTC)},
	"Africa/Monrovia":            {time.Date(1972, 1, 7, 0, 0, 0, 0, time.UTC)},
	"Etc/GMT+12":                 {time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 30, 0, 0, 0, 0, time.UTC)},
	"Pacific/Kiritimati":         {time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 30, 0, 0, 0, 0, time.UTC)},
	"UTC":                        {time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 30, 0, 0, 0, 0, time.UTC)},
	"America/Argentina/San_Luis": {time.Date(2008, 1, 21, 0, 0, 0, 0, time.UTC)},
}

// shownBy has the day, the week and the month that clocks show.
var shownBy = map[string]func(time.Time) string{
	"day": func(at time.Time) string { return at.Format("2006-01-02") },
	"week": func(at time.Time) string {
		year, week := at.ISOWeek()
		return fmt.Sprintf("%04d-W%02d", year, week)
	},
	"month": func(at time.Time) string { return at.Format("2006-01") },
}

// Days, weeks and months are the ones that their bounds say: each begins with the first instant at
// which the clocks show its first day or a later one. The reference goes through the hours, and
// looks at the clocks.
func TestPeriodsByTheClocks(t *testing.T) {
	first, last := time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC)
	for name, around := range spans {
		for function, shownBy := range shownBy {
			r := mustParse(t, fmt.Sprintf("o/{o} by %s(at, %q) as k -> d/{k} : count() : existing", function, name))[0]
			for _, middle := range around {
				want := "" // the latest that the clocks have shown
				zone := route.ZoneOf(name)
				for at := middle.Add(-100 * 24 * time.Hour).In(zone); at.Before(middle.Add(72 * time.Hour)); at = at.Add(15 * time.Minute) {
					shown := shownBy(at)
					if year := at.Year(); year < 1 || year > 9999 {
						continue
					}
					want = max(want, shown)
					if at.Before(middle.Add(-72*time.Hour)) || at.Before(first) || at.After(last) {
						continue
					}

					c, ok := r.Belongs("o/1", func(document.Field) any { return at })
					if !ok {
						if c, ok := r.Template.Counter("d/" + want); ok {
							t.Errorf("%s of %s: %v belongs to none, want %v", function, name, at, c)
						}
						continue
					}
					if c.RollUp != "d/"+want {
						t.Fatalf("%s of %s: %v is in %s, want %s", function, name, at, c.RollUp, want)
					}
					where, _ := r.Where(c)
					if !route.HoldAll(where, map[string]any{"at": at}) {
						t.Fatalf("%s of %s: %v is not within %v", function, name, at, where)
					}
				}
			}
		}
	}
}

// The days with 23 hours, 25 hours and none are those of the clocks.
func TestBoundsOfDays(t *testing.T) {
	for _, test := range []struct{ zone, day, start, end string }{
		{"UTC", "2026-11-27", "2026-11-27T00:00:00Z", "2026-11-28T00:00:00Z"},
		{"Europe/Berlin", "2026-03-29", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"},     // 23 hours
		{"Europe/Berlin", "2026-10-25", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"},     // 25 hours
		{"America/Sao_Paulo", "2017-10-15", "2017-10-15T03:00:00Z", "2017-10-16T02:00:00Z"}, // begins at 1
		{"America/Sao_Paulo", "2018-02-17", "2018-02-17T02:00:00Z", "2018-02-18T03:00:00Z"}, // 23 comes twice
		{"America/Havana", "2026-11-01", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"},    // 0 comes twice
		{"America/St_Johns", "2010-11-07", "2010-11-07T02:30:00Z", "2010-11-08T03:30:00Z"},  // a minute of it, an hour of the day before, and the rest
		{"UTC", "0001-01-01", "0001-01-01T00:00:00Z", "0001-01-02T00:00:00Z"},
		{"UTC", "9999-12-31", "9999-12-31T00:00:00Z", "9999-12-31T23:59:59.999999Z"},
	} {
		r := mustParse(t, fmt.Sprintf("o/{o} by day(at, %q) -> d/{day} : count() : existing", test.zone))[0]
		c, ok := r.Template.Counter("d/" + test.day)
		if !ok {
			t.Errorf("%s of %s is no day", test.day, test.zone)
			continue
		}
		where, _ := r.Where(c)
		var got []string
		for _, c := range where {
			got = append(got, c.Value.(time.Time).Format(time.RFC3339Nano))
		}
		if d := cmp.Diff([]string{test.start, test.end}, got); d != "" {
			t.Errorf("%s of %s (-want +got):\n%s", test.day, test.zone, d)
		}
	}
}

// FuzzPeriods: each instant is in one day, one week and one month, which hold it, and which touch
// the next.
func FuzzPeriods(f *testing.F) {
	zones := slices.Sorted(func(yield func(string) bool) {
		for name := range spans {
			if !yield(name) {
				return
			}
		}
	})
	random := rand.New(rand.NewPCG(1, 2))
	for i := range zones {
		f.Add(i, random.Int64N(315537897599)-62135596800, random.Int64N(1e9))
	}
	f.Fuzz(func(t *testing.T, zone int, seconds, nanoseconds int64) {
		at := time.Unix(seconds, nanoseconds%1e9).UTC().Truncate(time.Microsecond)
		if zone < 0 || at.Year() < 1 || at.Year() > 9999 {
			return
		}
		for _, function := range []string{"day", "week", "month"} {
			r := mustParse(t, fmt.Sprintf("o/{o} by %s(at, %q) as k -> d/{k} : count() : existing", function, zones[zone%len(zones)]))[0]
			c, ok := r.Belongs("o/1", func(document.Field) any { return at })
			if !ok {
				if at.Year() > 1 && at.Year() < 9999 {
					t.Fatalf("%v is in no %s", at, function)
				}
				continue
			}
			where, _ := r.Where(c)
			if !route.HoldAll(where, map[string]any{"at": at}) {
				t.Fatalf("%v is in %s, which is from %v", at, c.RollUp, where)
			}
			end := where[1].Value.(time.Time)
			if where[1].Operator == route.LessThanOrEqual {
				continue
			}
			next, ok := r.Belongs("o/1", func(document.Field) any { return end })
			if !ok {
				continue
			}
			after, _ := r.Where(next)
			if start := after[0].Value.(time.Time); !start.Equal(end) || next.RollUp <= c.RollUp {
				t.Fatalf("%s ends at %v, and %s begins at %v", c.RollUp, end, next.RollUp, start)
			}
		}
	})
}
