package route_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
)

// Every route has one spelling, by which it is stored and shown.
func TestSpelling(t *testing.T) {
	for text, want := range map[string]string{
		"a / { a } /s/{s}->r/{a}:n,sum( k )as m :every 90s:documents":  "a/{a}/s/{s} -> r/{a} : n, k as m : documents : every 1m30s",
		"a/{a}/s/{s} -> r/{a} : sum(n) as n, sum(m) as k":              "a/{a}/s/{s} -> r/{a} : n, m as k",
		"a/{a}/s/{s}\u00a0->\u2003r/{a} :\tn":                          "a/{a}/s/{s} -> r/{a} : n",
		"a/{a}/s/{s}->r/{a}:n:cadence 90s:existing":                    "a/{a}/s/{s} -> r/{a} : n : existing : cadence 1m30s",
		"a/{a}/s/{s}->r/{a}:n":                                         "a/{a}/s/{s} -> r/{a} : n",
		"a-b/{a}/s/{s}->r-/{a}:n-1":                                    "a-b/{a}/s/{s} -> r-/{a} : n-1",
		"`a`/{`a`}/s/{s} -> r/{a} : `n` as `m`":                        "a/{a}/s/{s} -> r/{a} : n as m",
		"`a; b -> c : d, e`/{`{`}/s/{s} -> r/{`{`} : n":                "",
		"`my a`/{`my a`}/s/{s} -> r/{`my a`} : `the rest` as `a rest`": "`my a`/{`my a`}/s/{s} -> r/{`my a`} : `the rest` as `a rest`",
		"`a; b -> c : d, \" e`/{s} -> r/x : `x; y -> z : 1, 2`":        "`a; b -> c : d, \" e`/{s} -> r/x : `x; y -> z : 1, 2`",
		"`by`/{s} -> `where`/`and` : `as` as `as`, as2, By":            "`by`/{s} -> `where`/`and` : `as`, as2, By",
		"`a\\`b\\\\`/{s} -> r/x : n":                                   "`a\\`b\\\\`/{s} -> r/x : n",
		"example.com/{s} -> v1.0/größe_1 : n+1":                        "example.com/{s} -> v1.0/größe_1 : n+1",
		"s/{s} -> r/x : `sum`, `count`, sum as count2":                 "s/{s} -> r/x : sum, count, sum as count2",
		"s/{s} -> r/x : count() as count : existing : every 60s":       "s/{s} -> r/x : count() : existing : every 1m0s",

		"o/{o}by shop->s/{ shop }:average( a.b )as n,latest(at)as l:existing":                                                      "o/{o} by shop -> s/{shop} : average(a.b) as n, latest(at) as l : existing",
		"o/{o} by `a b`.c.`by` -> s/{a b.c.by} : count() : existing":                                                               "",
		"o/{o} by `a b`.c.`by` -> s/{`a b`.c.`by`} : count() : existing":                                                           "o/{o} by `a b`.c.`by` -> s/{`a b.c.by`} : count() : existing",
		"o/{o} by c.id -> s/{`c.id`} : count() : existing":                                                                         "o/{o} by c.id -> s/{c.id} : count() : existing",
		"o/{o} by c.id -> s/{id} : count() : existing":                                                                             "o/{o} by c.id -> s/{id} : count() : existing",
		"o/{o} by c.id as x,shop as shop -> s/{shop}/t/{x} : count() : existing":                                                   "o/{o} by shop, c.id as x -> s/{shop}/t/{x} : count() : existing",
		"o/{o} by ref( c.r ),month(at,\"UTC\")as m -> s/{r}/m/{m} : count() : existing":                                            "o/{o} by ref(c.r), month(at) as m -> s/{r}/m/{m} : count() : existing",
		"o/{o} by number(n) as u, day(at, \"Europe/Berlin\") as day -> u/{u}/d/{day} : count() : existing":                         "o/{o} by number(n) as u, day(at, \"Europe/Berlin\") -> u/{u}/d/{day} : count() : existing",
		"o/{o} by day(at)->d/{day}:count():cadence 5s:within":                                                                      "o/{o} by day(at) -> d/{day} : count() : within : cadence 5s",
		"o/{o} by s,day(at) as `a b`->`my s`/{s}/d/{`a b`}:count():within `my s`/{ s }":                                            "o/{o} by s, day(at) as `a b` -> `my s`/{s}/d/{`a b`} : count() : within `my s`/{s}",
		"o/{o} by day -> days/{day} : count() : existing":                                                                          "o/{o} by day -> days/{day} : count() : existing",
		"s/{s} -> r/x : count()where b==\"; -> : , \\\" \u00e9\"and a.x==2.0 as n":                                                 `s/{s} -> r/x : count() where a.x == 2 and b == "; -> : , \" é" as n`,
		"s/{s} -> r/x : sum(n) where a == null and b == false as n, n where c==1e3 as m":                                           "s/{s} -> r/x : sum(n) where a == null and b == false as n, sum(n) where c == 1000 as m",
		"s/{s} -> r/x : maximum(n) where a == -0.5 as n, minimum(`where`) as m":                                                    "s/{s} -> r/x : maximum(n) where a == -0.5 as n, minimum(`where`) as m",
		"s/{s} -> r/x : n where a == 1E3 and b == 0.30000000000000004 as n":                                                        "s/{s} -> r/x : sum(n) where a == 1000 and b == 0.30000000000000004 as n",
		`s/{s} -> r/x : count()where n>=-3.0 and n<1e1 and a in["b",-2,true,"a",1.5,timestamp("2026-01-31T13:00:00.5+01:00")]as n`: `s/{s} -> r/x : count() where a in [true, -2, 1.5, timestamp("2026-01-31T12:00:00.5Z"), "a", "b"] and n >= -3 and n < 10 as n`,
		"s/{s} -> r/x : sum(n) where n<=5 and n>2 as n, count() where in in [1] as m":                                              "s/{s} -> r/x : sum(n) where n > 2 and n <= 5 as n, count() where in in [1] as m",
		`s/{s} -> r/x : count() where timestamp == timestamp("2026-01-31T12:00:00.000001Z") and now < false as n`:                  `s/{s} -> r/x : count() where now < false and timestamp == timestamp("2026-01-31T12:00:00.000001Z") as n`,
		"s/{s} -> r/x : count() where at>now - 1440m and a==1 as n, latest(at) where at >= now - 90s as m":                         "s/{s} -> r/x : count() where a == 1 and at > now - 24h as n, latest(at) where at >= now - 1m30s as m",
		`s/{s} -> r/x : count() where now > now - 720h and now < timestamp("2099-01-31T12:00:00Z") as now`:                         `s/{s} -> r/x : count() where now > now - 30d and now < timestamp("2099-01-31T12:00:00Z") as now`,
		"s/{s} -> r/x : count() where at > now - 60s as n, count() where at > now - 25h as m, count() where at > now - 400d as k":  "s/{s} -> r/x : count() where at > now - 1m as n, count() where at > now - 25h as m, count() where at > now - 400d as k",
		"s/{s} -> r/x : earliest(at) as at, sum(a.b) as c":                                                                         "s/{s} -> r/x : earliest(at) as at, a.b as c",
		"s/{s} -> r/x : sum(n) where a == 9223372036854775807 and b == -0 as n":                                                    "s/{s} -> r/x : sum(n) where a == 9223372036854775807 and b == 0 as n",
	} {
		routes, err := route.Parse(text)
		if want == "" {
			if err == nil {
				t.Errorf("%s: taken for %s", text, routes)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if got := routes.String(); got != want {
			t.Errorf("%s: String() = %s, want %s", text, got, want)
		}
	}
}

// A line that is indented deeper than the one its route begins on continues it. Comments and blank
// lines are nothing.
func TestLines(t *testing.T) {
	const want = "a/{a}/s/{s} -> r/{a} : n, m : existing\nb/{b}/s/{s} -> q/{b} : n\nc/{c}/s/{s} -> p/{c} : n"
	for name, text := range map[string]string{
		"one to a line":              want,
		"semicolons":                 ";" + strings.ReplaceAll(want, "\n", ";; ") + ";",
		"CRLF":                       strings.ReplaceAll(want, "\n", "\r\n\r\n") + "\r\n",
		"continued":                  "a/{a}/s/{s}\n -> r/{a}\n : n,\n m : existing\nb/{b}/s/{s} -> q/{b}\n\t\t: n\nc/{c}/s/{s} -> p/{c} : n",
		"all indented":               "\n\t\ta/{a}/s/{s} -> r/{a} : n, m\n\t\t\t: existing\n\t\tb/{b}/s/{s} -> q/{b} : n\n\tc/{c}/s/{s} -> p/{c} : n\n",
		"indented by wide spaces":    strings.ReplaceAll("\u3000"+strings.ReplaceAll(want, "\n", "\n\u3000"), " : n, m", "\n  : n, m"),
		"comments between":           "# a\na/{a}/s/{s} -> r/{a} :\n# b; c -> d\n\n  # `\n  n, m : existing\n#\nb/{b}/s/{s} -> q/{b} : n\n# c\nc/{c}/s/{s} -> p/{c} : n\n# end",
		"indented behind semicolons": "a/{a}/s/{s} -> r/{a} : n, m : existing;\n  b/{b}/s/{s} -> q/{b} : n; c/{c}/s/{s} ->\n    p/{c} : n",
	} {
		routes, err := route.Parse(text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if d := cmp.Diff(want, routes.String()); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

// Roll-ups hold the hashes of their templates: these are of routes that were served before.
func TestHashesStay(t *testing.T) {
	for text, want := range map[string]string{
		route.Default: "1cb6e516cd88dac1",
		"posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing":                 "ed4190813fa0649c",
		"a/{a}/b/{b}/s/{s} -> r/{b}/of/{a} : sum(views) as seen, count(), likes : every 10s":      "a59e036550a0d0ee",
		"`my posts`/{`my post`}/s/{s} -> r/{`my post`} : `the rest` as rest, größe, count() as n": "354bcab6348ff3cb",
		"a/{a}/s/{s} -> r/{a} : n; b/{b}/s/{s} -> r/{b} : m":                                      "b09b309c205cac54",
	} {
		routes, err := route.Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if got := routes[0].Template.Hash(); got != want {
			t.Errorf("%s: hash %s, want %s", text, got, want)
		}
	}
}

// There is a bound of what is read, and of what is told.
func TestBounds(t *testing.T) {
	routes := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "a%d/{a} -> r/%d : n\n", i, i)
		}
		return b.String()
	}
	if all, err := route.Parse(routes(500)); len(all) != 500 || err != nil {
		t.Errorf("500 routes: %d, %v", len(all), err)
	}
	for text, want := range map[string]string{
		routes(501):                             "there are 501 routes; want at most 500",
		strings.Repeat("\n", 131073):            "the routes have 131073 bytes; want at most 131072",
		strings.Repeat("a\n", 11):               "\nand 1 more",
		strings.Repeat("a/{a} -> r/x : n\n", 5): "\nand 4 more", // 10 pairs share a source, 4 neighbors a name
	} {
		if _, err := route.Parse(text); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%.20q…: %v, want %s", text, err, want)
		}
	}
}

// Whatever the text is, it is read at once, and an error has a size that a log takes.
func TestMuchText(t *testing.T) {
	const most = 128 << 10
	// filled returns as many parts as fit between begin and end.
	filled := func(begin string, part func(n int) string, end string) string {
		var b strings.Builder
		b.WriteString(begin)
		for n := 0; b.Len()+len(part(n))+len(end) <= most; n++ {
			b.WriteString(part(n))
		}
		return b.String() + end
	}
	all := func(text string) string { return filled("", func(int) string { return text }, "") }
	totals := func(text string) string {
		return filled("a/{a}/s/{s} -> r/{a} : ", func(int) string { return text }, "n")
	}
	for name, text := range map[string]string{
		"too much":          strings.Repeat(" ", most+1),
		"routes":            all("a/{a}->b/c:d;"),
		"mistaken routes":   all("a/{a}->b/c:d(;"),
		"alike":             strings.Repeat("a/{a}->b/c:d;", 500),
		"lines":             all("a\n"),
		"on one line":       all("a;"),
		"slashes":           all("/"),
		"segments":          all("a/{a}/"),
		"captures":          filled("", func(n int) string { return fmt.Sprintf("a/{a%d}/", n) }, "x/{x} -> r/{y} : n"),
		"totals":            totals("n, "),
		"different totals":  filled("a/{a}/s/{s} -> r/{a} : ", func(n int) string { return fmt.Sprintf("n%d, ", n) }, "n0"),
		"options":           totals("n : existing "),
		"a word":            all("a"),
		"an odd word":       all("§"),
		"empty names":       all("`"),
		"names without end": all("`a\n"),
		"backslashes":       filled("`", func(int) string { return "\\" }, ""),
		"texts":             all(`"\""`),
		"sums":              totals("sum("),
		"words":             all("a "),
		"continued lines":   filled("a", func(int) string { return "\n b" }, ""),
		"arrows":            all("->"),
		"hyphens":           all("-"),
		"no UTF-8":          all("\xff"),
		"control":           all("\x00"),
		"deep templates": filled("", func(n int) string {
			return fmt.Sprintf("x/%d/{x}/y/{y} -> %s : n;", n, strings.Repeat("a/b/", 50)+"{x}/c")
		}, ""),
	} {
		_, err := route.Parse(text)
		if err == nil {
			t.Errorf("%s: no error", name)
		} else if n := len(err.Error()); n > 2*most {
			t.Errorf("%s: an error of %d bytes", name, n)
		}
	}
}
