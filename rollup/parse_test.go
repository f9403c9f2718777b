package rollup_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/firestore-tally/tally/rollup"
	"github.com/google/go-cmp/cmp"
)

// A mistake is shown with its place, and with the word that was perhaps meant.
func TestMistakesArePlaced(t *testing.T) {
	for _, test := range []struct{ name, routes, want string }{
		{"a function", "posts/{post}/likes/{user} -> posts/{post} : cout() as likes : existing", `
cout() is no total; want a field, count() or sum(f); did you mean count()?
  posts/{post}/likes/{user} -> posts/{post} : cout() as likes : existing
                                              ^`},
		{"a function of a field", "a/{a}/s/{s} -> r/{a} : summ(n) as n", `
summ() is no total; want a field, count() or sum(f); did you mean sum()?
  a/{a}/s/{s} -> r/{a} : summ(n) as n
                         ^`},
		{"a function like none", "a/{a}/s/{s} -> r/{a} : first(n) as n", `
first() is no total; want a field, count() or sum(f)
  a/{a}/s/{s} -> r/{a} : first(n) as n
                         ^`},
		{"an option", "a/{a}/s/{s} -> a/{a} : n : exists", `
unknown option exists; want documents, existing, or every and a duration such as 10s; did you mean existing?
  a/{a}/s/{s} -> a/{a} : n : exists
                             ^`},
		{"an arrow", "a/{a}/s/{s} => r/{a} : n", `
want <source pattern> -> <roll-up template> : <totals>, as in counters/{counter}/shards/{shard} -> rollups/{counter} : count; did you mean ->?
  a/{a}/s/{s} => r/{a} : n
              ^`},
		{"AS", "a/{a}/s/{s} -> r/{a} : n AS m", `
want a comma, a colon or the route's end; did you mean as?
  a/{a}/s/{s} -> r/{a} : n AS m
                           ^`},
		{"a capture", "posts/{post}/likes/{user} -> totals/{pots} : count()", `
the roll-up path uses {pots}, which the source pattern does not capture; did you mean {post}?
  posts/{post}/likes/{user} -> totals/{pots} : count()
                                      ^`},
		{"the end", "a/{a}/s/{s}", `
want <source pattern> -> <roll-up template> : <totals>, as in counters/{counter}/shards/{shard} -> rollups/{counter} : count
  a/{a}/s/{s}
             ^`},
		{"of several routes on a line", "a/{a}/s/{s} -> r/{a} : n; b/{b}/s/{s} -> r2/{b} : sun(n) as n; c/{c}/s/{s} -> r3/{c} : n", `
sun() is no total; want a field, count() or sum(f); did you mean sum()?
  a/{a}/s/{s} -> r/{a} : n; b/{b}/s/{s} -> r2/{b} : sun(n) as n; c/{c}/s/{s} -> r3/{c} : n
                                                    ^`},
		{"of a route on several lines", "a/{a}/s/{s} -> r/{a}\n  : n,\n\tcoumt() as m\nb/{b}/s/{s} -> q/{b} : n", `
coumt() is no total; want a field, count() or sum(f); did you mean count()?
  coumt() as m
  ^`},
		{"a route that is indented by mistake", "a/{a}/s/{s} -> r/{a} : n\n  b/{b}/s/{s} -> q/{b} : n", `
want a comma, a colon or the route's end; the line is indented, so it continues the route above
  b/{b}/s/{s} -> q/{b} : n
  ^`},
		{"behind a semicolon on an indented line", "a/{a}/s/{s} -> r/{a} : n\n  ; -> q/x : n", `
segment 1 is empty
  ; -> q/x : n
    ^`},
		{"behind letters and a tab", "gro\u0308ße/{g}/s/{s} ->\tr/{g} : 大小, x.y", "\n" +
			"x.y is in a map; want the name of a top-level field\n" +
			"  gro\u0308ße/{g}/s/{s} -> r/{g} : 大小, x.y\n" +
			"                             \u3000\u3000  ^"},
		{"a name with a space, as it was spelt", "a/{a}/s/{s} -> r/{a} : n, the rest of it as rest", "\n" +
			"want a comma, a colon or the route's end; a name with a space or another odd character stands in backticks: `the rest of it`\n" +
			"  a/{a}/s/{s} -> r/{a} : n, the rest of it as rest\n" +
			"                                ^"},
		{"a name with an odd character", "a/{a}/s/{s} -> r/{a} : $n", "\n" +
			"want a field, count() or sum(f); a name with a space or another odd character stands in backticks: `$n`\n" +
			"  a/{a}/s/{s} -> r/{a} : $n\n" +
			"                         ^"},
		{"a collection with a space", "my posts/{p} -> r/all : count()", "\n" +
			"want <source pattern> -> <roll-up template> : <totals>, as in counters/{counter}/shards/{shard} -> rollups/{counter} : count; a name with a space or another odd character stands in backticks: `my posts`\n" +
			"  my posts/{p} -> r/all : count()\n" +
			"     ^"},
		{"a capture with a space", "a/{my a}/s/{s} -> r/{my a} : n", "\n" +
			"a capture stands for one whole segment, as {counter}; a name with a space or another odd character stands in backticks: `my a`\n" +
			"  a/{my a}/s/{s} -> r/{my a} : n\n" +
			"        ^"},
		{"a word of routes", "a/{a}/by/{s} -> r/{a} : n", "\n" +
			"by is a word of routes; as a name it stands in backticks: `by`\n" +
			"  a/{a}/by/{s} -> r/{a} : n\n" +
			"        ^"},
		{"a name that does not end", "a/{a}/s/{s} -> r/{a} : `n as m; b/{b}/s/{s} -> q/{b} : n", "\n" +
			"the name that begins here does not end on its line; a ` is missing\n" +
			"  a/{a}/s/{s} -> r/{a} : `n as m; b/{b}/s/{s} -> q/{b} : n\n" +
			"                         ^"},
		{"a name with another escape", "a/{a}/s/{s} -> r/{a} : `a\\n`", "\n" +
			"in backticks a \\ stands only before a ` or another \\\n" +
			"  a/{a}/s/{s} -> r/{a} : `a\\n`\n" +
			"                         ^"},
		{"a text where none can be", `a/{a}/s/{s} -> r/{a} : "n"`, "\n" +
			"want a field, count() or sum(f)\n" +
			"  a/{a}/s/{s} -> r/{a} : \"n\"\n" +
			"                         ^"},
		{"a comment behind a route", "a/{a}/s/{s} -> r/{a} : n # old", `
want a comma, a colon or the route's end; a comment stands on a line of its own
  a/{a}/s/{s} -> r/{a} : n # old
                           ^`},
		{"a sum without a name", "a/{a}/s/{s} -> r/{a} : sum(amount)", `
sum(amount) has no name; write sum(amount) as amount
  a/{a}/s/{s} -> r/{a} : sum(amount)
                         ^`},
		{"a count of a field", "a/{a}/s/{s} -> r/{a} : count(n) as m", `
count() is of documents, not of a field; want )
  a/{a}/s/{s} -> r/{a} : count(n) as m
                               ^`},
		{"a sum of nothing", "a/{a}/s/{s} -> r/{a} : sum() as m", `
want a field, as in sum(amount)
  a/{a}/s/{s} -> r/{a} : sum() as m
                             ^`},
		{"groups", "orders/{order} by shop -> shops/{shop} : count() as orders : existing", `
Tally has no groups; the path of a document alone says which total it belongs to
  orders/{order} by shop -> shops/{shop} : count() as orders : existing
                 ^`},
		{"conditions", `a/{a}/s/{s} -> r/{a} : count() where t == "a; b -> c : d, \" e" and f == 1 as n; b/{b}/s/{s} -> q/{b} : n`, `
Tally has no conditions; a total is of all documents of its source
  a/{a}/s/{s} -> r/{a} : count() where t == "a; b -> c : d, \" e" and f == 1 as n; b/{b}/s/{s} -> q/{b} : n
                                 ^`},
		{"average", "a/{a}/s/{s} -> r/{a} : average(n) as n", `
Tally has no average(); want a field, count() or sum(f)
  a/{a}/s/{s} -> r/{a} : average(n) as n
                         ^`},
		{"maximum", "a/{a}/s/{s} -> r/{a} : count(), maximum(n) as n", `
Tally has no maximum(); want a field, count() or sum(f)
  a/{a}/s/{s} -> r/{a} : count(), maximum(n) as n
                                  ^`},
		{"a field in a map", "a/{a}/s/{s} -> r/{a} : sum(customer.id) as n", `
customer.id is in a map; want the name of a top-level field
  a/{a}/s/{s} -> r/{a} : sum(customer.id) as n
                             ^`},
		{"what a terminal would obey", "a/{a}/s/{s} -> r/{a} : n \x1b[2J\u202e", "\n" +
			"a control character stands here; take it out\n" +
			"  a/{a}/s/{s} -> r/{a} : n \ufffd[2J\ufffd\n" +
			"                           ^"},
		{"a name that does not print", "a/{a}/s/{s} -> r/{a} : n \u202em", "\n" +
			"want a comma, a colon or the route's end; a name with a space or another odd character stands in backticks\n" +
			"  a/{a}/s/{s} -> r/{a} : n \ufffdm\n" +
			"                           ^"},
		{"a long line", "a/{a}/s/{s} -> r/{a} : " + strings.Repeat("n, ", 50) + "coumt()" + strings.Repeat(", n", 50), "\n" +
			"coumt() is no total; want a field, count() or sum(f); did you mean count()?\n" +
			"  …" + strings.Repeat(" n,", 33) + " coumt()" + strings.Repeat(", n", 31) + "…\n" +
			"   " + strings.Repeat(" ", 100) + "^"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := rollup.ParseRoutes(test.routes)
			if err == nil {
				t.Fatal("no error")
			}
			if d := cmp.Diff(strings.TrimPrefix(test.want, "\n"), err.Error()); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// Every route has one spelling, by which it is stored and shown.
func TestSpelling(t *testing.T) {
	for text, want := range map[string]string{
		"a / { a } /s/{s}->r/{a}:n,sum( k )as m :every 90s:documents":  "a/{a}/s/{s} -> r/{a} : n, k as m : documents : every 1m30s",
		"a/{a}/s/{s} -> r/{a} : sum(n) as n, sum(m) as k":              "a/{a}/s/{s} -> r/{a} : n, m as k",
		"a/{a}/s/{s}\u00a0->\u2003r/{a} :\tn":                          "a/{a}/s/{s} -> r/{a} : n",
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
	} {
		routes, err := rollup.ParseRoutes(text)
		if want == "" {
			if err == nil {
				t.Errorf("%s: taken for %s", text, routes)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if got := routes.String(); got != want {
			t.Errorf("%s: spelt %s, want %s", text, got, want)
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
		"comments between":           "# a\na/{a}/s/{s} -> r/{a} :\n# b; c -> d\n\n  # `\n  n, m : existing\n#\nb/{b}/s/{s} -> q/{b} : n\n# c\nc/{c}/s/{s} -> p/{c} : n\n# end",
		"indented behind semicolons": "a/{a}/s/{s} -> r/{a} : n, m : existing;\n  b/{b}/s/{s} -> q/{b} : n; c/{c}/s/{s} ->\n    p/{c} : n",
	} {
		routes, err := rollup.ParseRoutes(text)
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
		rollup.DefaultRoute: "1cb6e516cd88dac1",
		"posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing":                 "ed4190813fa0649c",
		"a/{a}/b/{b}/s/{s} -> r/{b}/of/{a} : sum(views) as seen, count(), likes : every 10s":      "a59e036550a0d0ee",
		"`my posts`/{`my post`}/s/{s} -> r/{`my post`} : `the rest` as rest, größe, count() as n": "354bcab6348ff3cb",
		"a/{a}/s/{s} -> r/{a} : n; b/{b}/s/{s} -> r/{b} : m":                                      "b09b309c205cac54",
	} {
		routes, err := rollup.ParseRoutes(text)
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
	if all, err := rollup.ParseRoutes(routes(500)); len(all) != 500 || err != nil {
		t.Errorf("500 routes: %d, %v", len(all), err)
	}
	for text, want := range map[string]string{
		routes(501):                             "there are 501 routes; want at most 500",
		strings.Repeat("\n", 131073):            "the routes have 131073 bytes; want at most 131072",
		strings.Repeat("a\n", 11):               "\nand 1 more",
		strings.Repeat("a/{a} -> r/x : n\n", 5): "\nand 4 more", // 10 pairs share a source, 4 neighbors a name
	} {
		if _, err := rollup.ParseRoutes(text); err == nil || !strings.HasSuffix(err.Error(), want) {
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
		_, err := rollup.ParseRoutes(text)
		if err == nil {
			t.Errorf("%s: no error", name)
		} else if n := len(err.Error()); n > 2*most {
			t.Errorf("%s: an error of %d bytes", name, n)
		}
	}
}
