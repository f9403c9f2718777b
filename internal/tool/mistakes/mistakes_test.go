package mistakes

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Mistakes are shown with their places, and with the word that was perhaps meant.
var placed = []struct{ name, routes, want string }{
	{"a function", "posts/{post}/likes/{user} -> posts/{post} : cout() as likes : existing", `
unknown function cout(); want a field, count(), or sum, average, maximum, minimum, latest or earliest of a field; did you mean count()?
  posts/{post}/likes/{user} -> posts/{post} : cout() as likes : existing
                                              ^`},
	{"a function of a field", "a/{a}/s/{s} -> r/{a} : summ(n) as n", `
unknown function summ(); want a field, count(), or sum, average, maximum, minimum, latest or earliest of a field; did you mean sum()?
  a/{a}/s/{s} -> r/{a} : summ(n) as n
                         ^`},
	{"a function like none", "a/{a}/s/{s} -> r/{a} : first(n) as n", `
unknown function first(); want a field, count(), or sum, average, maximum, minimum, latest or earliest of a field; did you mean earliest()?
  a/{a}/s/{s} -> r/{a} : first(n) as n
                         ^`},
	{"an option", "a/{a}/s/{s} -> a/{a} : n : exists", `
unknown option exists; want documents, existing, within, or every or cadence and a duration such as 10s; did you mean existing?
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
unknown function sun(); want a field, count(), or sum, average, maximum, minimum, latest or earliest of a field; did you mean sum()?
  a/{a}/s/{s} -> r/{a} : n; b/{b}/s/{s} -> r2/{b} : sun(n) as n; c/{c}/s/{s} -> r3/{c} : n
                                                    ^`},
	{"of a route on several lines", "a/{a}/s/{s} -> r/{a}\n  : n,\n\tcoumt() as m\nb/{b}/s/{s} -> q/{b} : n", `
unknown function coumt(); want a field, count(), or sum, average, maximum, minimum, latest or earliest of a field; did you mean count()?
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
		"x.y has no name; write x.y as y\n" +
		"  gro\u0308ße/{g}/s/{s} -> r/{g} : 大小, x.y\n" +
		"                             \u3000\u3000  ^"},
	{"a name with a space, as it was written", "a/{a}/s/{s} -> r/{a} : n, the rest of it as rest", "\n" +
		"want a comma, a colon or the route's end; put a name with a space or another special character in backticks: `the rest of it`\n" +
		"  a/{a}/s/{s} -> r/{a} : n, the rest of it as rest\n" +
		"                                ^"},
	{"a name with an odd character", "a/{a}/s/{s} -> r/{a} : $n", "\n" +
		"want a field, count(), or sum, average, maximum, minimum, latest or earliest of a field; put a name with a space or another special character in backticks: `$n`\n" +
		"  a/{a}/s/{s} -> r/{a} : $n\n" +
		"                         ^"},
	{"a collection with a space", "my posts/{p} -> r/all : count()", "\n" +
		"want <source pattern> -> <roll-up template> : <totals>, as in counters/{counter}/shards/{shard} -> rollups/{counter} : count; put a name with a space or another special character in backticks: `my posts`\n" +
		"  my posts/{p} -> r/all : count()\n" +
		"     ^"},
	{"a capture with a space", "a/{my a}/s/{s} -> r/{my a} : n", "\n" +
		"a capture stands for one whole segment, as {counter}; put a name with a space or another special character in backticks: `my a`\n" +
		"  a/{my a}/s/{s} -> r/{my a} : n\n" +
		"        ^"},
	{"a long name with spaces", "a/{a}/s/{s} -> r/{a} : n, x" + strings.Repeat(" x", 50), "\n" +
		"want a comma, a colon or the route's end; put a name with a space or another special character in backticks\n" +
		"  a/{a}/s/{s} -> r/{a} : n, x" + strings.Repeat(" x", 50) + "\n" +
		"                              ^"},
	{"a name with quotes in it", "a/{a}/s/{s} -> r/{a} : the so \"called\" n", "\n" +
		"want a comma, a colon or the route's end; put a name with a space or another special character in backticks: `the so \"called\" n`\n" +
		"  a/{a}/s/{s} -> r/{a} : the so \"called\" n\n" +
		"                             ^"},
	{"a name with a space on a line that continues a route", "a/{a}/s/{s} -> r/{a} : n,\n  m k", "\n" +
		"want a comma, a colon or the route's end; put a name with a space or another special character in backticks: `m k`\n" +
		"  m k\n" +
		"    ^"},
	{"a collection in quotes, behind a semicolon on an indented line", "a/{a}/s/{s} -> r/{a} : n\n  ; \"b\"/{b} -> q/{b} : n", "\n" +
		"want a collection, a document's id or a capture such as {counter}\n" +
		"  ; \"b\"/{b} -> q/{b} : n\n" +
		"    ^"},
	{"a capture of many segments", "a/{a=**}/s/{s} -> r/{a} : n", "\n" +
		"a capture stands for one whole segment, as {counter}; write a route for each path, or one across parents, as in posts/{post}/comments/{comment} by author -> users/{author} (docs/routes.md#across-parents)\n" +
		"  a/{a=**}/s/{s} -> r/{a} : n\n" +
		"      ^"},
	{"a capture of some documents", "a/{a=x}/s/{s} -> r/{a} : n", "\n" +
		"a capture stands for one whole segment, as {counter}\n" +
		"  a/{a=x}/s/{s} -> r/{a} : n\n" +
		"      ^"},
	{"a capture with a star", "a/{a*}/s/{s} -> r/{a} : n", "\n" +
		"a capture stands for one whole segment, as {counter}\n" +
		"  a/{a*}/s/{s} -> r/{a} : n\n" +
		"      ^"},
	{"a word of routes", "a/{a}/by/{s} -> r/{a} : n", "\n" +
		"by is a reserved word; put it in backticks to use it as a name: `by`\n" +
		"  a/{a}/by/{s} -> r/{a} : n\n" +
		"        ^"},
	{"a name that does not end", "a/{a}/s/{s} -> r/{a} : `n as m; b/{b}/s/{s} -> q/{b} : n", "\n" +
		"the name that begins here does not end on its line; a ` is missing\n" +
		"  a/{a}/s/{s} -> r/{a} : `n as m; b/{b}/s/{s} -> q/{b} : n\n" +
		"                         ^"},
	{"a name with another escape", "a/{a}/s/{s} -> r/{a} : `a\\n`", "\n" +
		"in backticks a \\ is only allowed before a ` or another \\\n" +
		"  a/{a}/s/{s} -> r/{a} : `a\\n`\n" +
		"                         ^"},
	{"a text where none can be", `a/{a}/s/{s} -> r/{a} : "n"`, "\n" +
		"want a field, count(), or sum, average, maximum, minimum, latest or earliest of a field\n" +
		"  a/{a}/s/{s} -> r/{a} : \"n\"\n" +
		"                         ^"},
	{"a comment behind a route", "a/{a}/s/{s} -> r/{a} : n # old", `
want a comma, a colon or the route's end; put a comment on its own line
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
	{"a group below two parents that the template lacks", "malls/{mall}/shops/{shop}/orders/{order} by customer -> users/{customer} : count() as orders : existing", "\n" +
		"the roll-up path does not use {mall}, so the documents count in collections orders at any depth below malls; spell the source malls/{mall}/orders/{order}\n" +
		"  malls/{mall}/shops/{shop}/orders/{order} by customer -> users/{customer} : count() as orders : existing\n" +
		"        ^"},
	{"a group called as the document", "orders/{shop} by shop -> shops/{shop} : count() as orders : existing", "\n" +
		"the pattern's capture has the name of the key {shop}; give one of them another name, a key with \"as\"\n" +
		"  orders/{shop} by shop -> shops/{shop} : count() as orders : existing\n" +
		"         ^"},
	{"a group that may make roll-ups up", "orders/{order} by shop -> shops/{shop} : count() as orders", "\n" +
		"add existing: without it, anyone who can write a source could create any number of roll-ups. The app then creates shops/{shop}\n" +
		"  orders/{order} by shop -> shops/{shop} : count() as orders\n" +
		"                    ^"},
	{"a group that the template lacks", "orders/{order} by shop -> all/orders : count() as orders : existing", "\n" +
		"the roll-up path does not use {shop}, the key shop; all its groups would share one roll-up: end the path in {shop}, or write a total for each value, as in count() where shop == \"a\" as a\n" +
		"  orders/{order} by shop -> all/orders : count() as orders : existing\n" +
		"                            ^"},
	{"a template of another group", "orders/{order} by customer.id -> users/{customer} : count() as orders : existing", "\n" +
		"the roll-up path uses {customer}, which is neither a key nor captured by the source pattern\n" +
		"  orders/{order} by customer.id -> users/{customer} : count() as orders : existing\n" +
		"                                         ^"},
	{"a group by nothing", "orders/{order} by -> shops/{shop} : count()", "\n" +
		"want the field by which documents belong to counters, as in orders/{order} by shop\n" +
		"  orders/{order} by -> shops/{shop} : count()\n" +
		"                    ^"},
	{"a field with a gap", "a/{a}/s/{s} -> r/{a} : sum(a..b) as n", "\n" +
		"a field's name is empty\n" +
		"  a/{a}/s/{s} -> r/{a} : sum(a..b) as n\n" +
		"                             ^"},
	{"a field without a dot", "a/{a}/s/{s} -> r/{a} : sum(a`b`) as n", "\n" +
		"a dot is missing between the names of a field's path, as in customer.id\n" +
		"  a/{a}/s/{s} -> r/{a} : sum(a`b`) as n\n" +
		"                              ^"},
	{"an average without a name", "a/{a}/s/{s} -> r/{a} : average(stars)", "\n" +
		"average(stars) has no name; write average(stars) as stars\n" +
		"  a/{a}/s/{s} -> r/{a} : average(stars)\n" +
		"                         ^"},
	{"a filtered count without a name", "a/{a}/s/{s} -> r/{a} : count() where ok == true", "\n" +
		"count() where ok == true has no name; write count() where ok == true as count\n" +
		"  a/{a}/s/{s} -> r/{a} : count() where ok == true\n" +
		"                         ^"},
	{"a filtered field without a name", "a/{a}/s/{s} -> r/{a} : n where ok == true", "\n" +
		"sum(n) where ok == true has no name; write sum(n) where ok == true as n\n" +
		"  a/{a}/s/{s} -> r/{a} : n where ok == true\n" +
		"                         ^"},
	{"a total in a map", "a/{a}/s/{s} -> r/{a} : n as m.n", "\n" +
		"m.n is in a map; a total is a top-level field: as n\n" +
		"  a/{a}/s/{s} -> r/{a} : n as m.n\n" +
		"                              ^"},
	{"one equals sign", "a/{a}/s/{s} -> r/{a} : count() where n = 3 as m", "\n" +
		"want a comparison: ==, >, >=, <, <= or in; did you mean ==?\n" +
		"  a/{a}/s/{s} -> r/{a} : count() where n = 3 as m\n" +
		"                                         ^"},
	{"a comparison the other way round", "a/{a}/s/{s} -> r/{a} : count() where n => 3 as m", "\n" +
		"want a comparison: ==, >, >=, <, <= or in; did you mean >=?\n" +
		"  a/{a}/s/{s} -> r/{a} : count() where n => 3 as m\n" +
		"                                         ^"},
	{"a comparison that there is not", `a/{a}/s/{s} -> r/{a} : count() where n != "x" as m`, "\n" +
		"want a comparison: ==, >, >=, <, <= or in; there is no !=: list the other values with in, or let the app keep a field that says it\n" +
		"  a/{a}/s/{s} -> r/{a} : count() where n != \"x\" as m\n" +
		"                                         ^"},
	{"a field without a comparison", "a/{a}/s/{s} -> r/{a} : count() where n as m", "\n" +
		"want a comparison: ==, >, >=, <, <= or in\n" +
		"  a/{a}/s/{s} -> r/{a} : count() where n as m\n" +
		"                                         ^"},
	{"null in a range", "a/{a}/s/{s} -> r/{a} : count() where n >= null as m", "\n" +
		"null has no order; want ==, or another value\n" +
		"  a/{a}/s/{s} -> r/{a} : count() where n >= null as m\n" +
		"                                            ^"},
	{"a list without brackets", "a/{a}/s/{s} -> r/{a} : count() where n in 1, 2 as m", "\n" +
		"want a list of values in brackets, as in status in [\"paid\", \"sent\"]\n" +
		"  a/{a}/s/{s} -> r/{a} : count() where n in 1, 2 as m\n" +
		"                                            ^"},
	{"a list in parentheses", "a/{a}/s/{s} -> r/{a} : count() where n IN (1, 2) as m", "\n" +
		"want a comparison: ==, >, >=, <, <= or in; did you mean in?\n" +
		"  a/{a}/s/{s} -> r/{a} : count() where n IN (1, 2) as m\n" +
		"                                         ^"},
	{"a list after another comparison", "a/{a}/s/{s} -> r/{a} : count() where n == [1, 2] as m", "\n" +
		"want a value as JSON has it: a text in quotes, a number, true, false or null; or a time such as timestamp(\"2026-01-31T12:00:00Z\")\n" +
		"  a/{a}/s/{s} -> r/{a} : count() where n == [1, 2] as m\n" +
		"                                            ^"},
	{"an empty list", "a/{a}/s/{s} -> r/{a} : count() where n in [] as m", "\n" +
		"the list is empty, so no document would count; want a list of values in brackets, as in status in [\"paid\", \"sent\"]\n" +
		"  a/{a}/s/{s} -> r/{a} : count() where n in [] as m\n" +
		"                                             ^"},
	{"a list that does not end", "a/{a}/s/{s} -> r/{a} : count() where n in [1, 2 as m", "\n" +
		"want a comma or ]\n" +
		"  a/{a}/s/{s} -> r/{a} : count() where n in [1, 2 as m\n" +
		"                                                  ^"},
	{"a list with null", "a/{a}/s/{s} -> r/{a} : count() where n in [1, null] as m", "\n" +
		"null in a list matches no document; test it with ==\n" +
		"  a/{a}/s/{s} -> r/{a} : count() where n in [1, null] as m\n" +
		"                                                ^"},
	{"a list with a value twice", "a/{a}/s/{s} -> r/{a} : count() where n in [2, 3, 2.0] as m", "\n" +
		"2 is in the list twice\n" +
		"  a/{a}/s/{s} -> r/{a} : count() where n in [2, 3, 2.0] as m\n" +
		"                                                   ^"},
	{"a list that is too long", "a/{a}/s/{s} -> r/{a} : count() where n in [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31] as m", "\n" +
		"the list has more than 30 values, which is Firestore's limit\n" +
		"  … 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31] as m\n" +
		"                                                                                                       ^"},
	{"lists that make too much together", `a/{a}/s/{s} -> r/{a} : count() where n in [1, 2, 3, 4, 5, 6] and k in ["a", "b", "c", "d", "e", "f"] as m`, "\n" +
		"the lists of this total make more than 30 alternatives, which is Firestore's limit\n" +
		"  a/{a}/s/{s} -> r/{a} : count() where n in [1, 2, 3, 4, 5, 6] and k in [\"a\", \"b\", \"c\", \"d\", \"e\", \"f\"] as m\n" +
		"                                                                   ^"},
	{"two lower bounds", "a/{a}/s/{s} -> r/{a} : count() where n > 3 and n >= 4 as m", "\n" +
		"n is tested twice\n" +
		"  a/{a}/s/{s} -> r/{a} : count() where n > 3 and n >= 4 as m\n" +
		"                                                 ^"},
	{"bounds of two kinds", `a/{a}/s/{s} -> r/{a} : count() where n > 3 and n < "z" as m`, "\n" +
		"3 and \"z\" are of two kinds, so no document would count\n" +
		"  a/{a}/s/{s} -> r/{a} : count() where n > 3 and n < \"z\" as m\n" +
		"                                                     ^"},
	{"ranges of two fields", "a/{a}/s/{s} -> r/{a} : count() where n > 3 and k <= 4 as m", "\n" +
		"n and k are both compared; a total has a range of one field\n" +
		"  a/{a}/s/{s} -> r/{a} : count() where n > 3 and k <= 4 as m\n" +
		"                                                 ^"},
	{"a sum of texts", `a/{a}/s/{s} -> r/{a} : sum(n) where n > "a" as m`, "\n" +
		"\"a\" is of a kind that sum does not see\n" +
		"  a/{a}/s/{s} -> r/{a} : sum(n) where n > \"a\" as m\n" +
		"                                          ^"},
	{"the latest number", "a/{a}/s/{s} -> r/{a} : latest(n) where n > 3 as m", "\n" +
		"3 is of a kind that latest does not see\n" +
		"  a/{a}/s/{s} -> r/{a} : latest(n) where n > 3 as m\n" +
		"                                             ^"},
	{"a list of what is aggregated", "a/{a}/s/{s} -> r/{a} : sum(n) where n in [4, 5] as m", "\n" +
		"n is tested and aggregated; count the documents of each value instead\n" +
		"  a/{a}/s/{s} -> r/{a} : sum(n) where n in [4, 5] as m\n" +
		"                                      ^"},
	{"a time without quotes", "a/{a}/s/{s} -> r/{a} : count() where n > timestamp(2026) as m", "\n" +
		"want a time in quotes, as in timestamp(\"2026-01-31T12:00:00Z\")\n" +
		"  a/{a}/s/{s} -> r/{a} : count() where n > timestamp(2026) as m\n" +
		"                                                     ^"},
	{"a time that does not end", `a/{a}/s/{s} -> r/{a} : count() where n > timestamp("2026-01-31T12:00:00Z" as m`, "\n" +
		"want )\n" +
		"  a/{a}/s/{s} -> r/{a} : count() where n > timestamp(\"2026-01-31T12:00:00Z\" as m\n" +
		"                                                                            ^"},
	{"a date", `a/{a}/s/{s} -> r/{a} : count() where n > timestamp("2026-01-31") as m`, "\n" +
		"this is not a time as in RFC 3339; want one such as timestamp(\"2026-01-31T12:00:00Z\")\n" +
		"  a/{a}/s/{s} -> r/{a} : count() where n > timestamp(\"2026-01-31\") as m\n" +
		"                                                     ^"},
	{"a time that is too fine", `a/{a}/s/{s} -> r/{a} : count() where n > timestamp("2026-01-31T12:00:00.0000001Z") as m`, "\n" +
		"Firestore keeps microseconds; this time is finer\n" +
		"  a/{a}/s/{s} -> r/{a} : count() where n > timestamp(\"2026-01-31T12:00:00.0000001Z\") as m\n" +
		"                                                     ^"},
	{"a time before Firestore's first", `a/{a}/s/{s} -> r/{a} : count() where n > timestamp("0001-01-01T00:00:00+01:00") as m`, "\n" +
		"the year is out of Firestore's range, which is 1 to 9999\n" +
		"  a/{a}/s/{s} -> r/{a} : count() where n > timestamp(\"0001-01-01T00:00:00+01:00\") as m\n" +
		"                                                     ^"},
	{"now alone", "a/{a}/s/{s} -> r/{a} : count() where at > now as m", "\n" +
		"write now with a length, as in at > now - 24h. To count what is due, query in the app or let the app set a field when it is due\n" +
		"  a/{a}/s/{s} -> r/{a} : count() where at > now as m\n" +
		"                                            ^"},
	{"the end of a window", "a/{a}/s/{s} -> r/{a} : count() where at > now + 24h as m", "\n" +
		"want now - and how long the window is, with spaces, as in at > now - 24h\n" +
		"  a/{a}/s/{s} -> r/{a} : count() where at > now + 24h as m\n" +
		"                                                ^"},
	{"a window without spaces", "a/{a}/s/{s} -> r/{a} : count() where at > now-24h as m", "\n" +
		"want now - and how long the window is, with spaces, as in at > now - 24h\n" +
		"  a/{a}/s/{s} -> r/{a} : count() where at > now-24h as m\n" +
		"                                            ^"},
	{"a window of no length", "a/{a}/s/{s} -> r/{a} : count() where at > now - as m", "\n" +
		"want now - and how long the window is, with spaces, as in at > now - 24h\n" +
		"  a/{a}/s/{s} -> r/{a} : count() where at > now - as m\n" +
		"                                                  ^"},
	{"a window of a number", "a/{a}/s/{s} -> r/{a} : count() where at > now - 24 as m", "\n" +
		"24: want whole seconds from 1m to 400d, in s, m, h or d, such as 90s, 24h, or 7d for a week\n" +
		"  a/{a}/s/{s} -> r/{a} : count() where at > now - 24 as m\n" +
		"                                                  ^"},
	{"a short window", "a/{a}/s/{s} -> r/{a} : count() where at > now - 59s as m", "\n" +
		"59s: want whole seconds from 1m to 400d, in s, m, h or d, such as 90s, 24h, or 7d for a week\n" +
		"  a/{a}/s/{s} -> r/{a} : count() where at > now - 59s as m\n" +
		"                                                  ^"},
	{"a fine window", "a/{a}/s/{s} -> r/{a} : count() where at > now - 90.5s as m", "\n" +
		"90.5s: want whole seconds from 1m to 400d, in s, m, h or d, such as 90s, 24h, or 7d for a week\n" +
		"  a/{a}/s/{s} -> r/{a} : count() where at > now - 90.5s as m\n" +
		"                                                  ^"},
	{"a long window", "a/{a}/s/{s} -> r/{a} : count() where at > now - 401d as m", "\n" +
		"401d: want whole seconds from 1m to 400d, in s, m, h or d, such as 90s, 24h, or 7d for a week\n" +
		"  a/{a}/s/{s} -> r/{a} : count() where at > now - 401d as m\n" +
		"                                                  ^"},
	{"a window whose nanoseconds are those of 17 hours, modulo 2^64", "a/{a}/s/{s} -> r/{a} : count() where at > now - 416999965498d as m", "\n" +
		"416999965498d: want whole seconds from 1m to 400d, in s, m, h or d, such as 90s, 24h, or 7d for a week\n" +
		"  a/{a}/s/{s} -> r/{a} : count() where at > now - 416999965498d as m\n" +
		"                                                  ^"},
	{"a window with a space", "a/{a}/s/{s} -> r/{a} : count() where at > now - 24 h as m", "\n" +
		"write 24h, without a space\n" +
		"  a/{a}/s/{s} -> r/{a} : count() where at > now - 24 h as m\n" +
		"                                                  ^"},
	{"a window in weeks", "a/{a}/s/{s} -> r/{a} : count() where at > now - 1w as m", "\n" +
		"1w: want whole seconds from 1m to 400d, in s, m, h or d, such as 90s, 24h, or 7d for a week\n" +
		"  a/{a}/s/{s} -> r/{a} : count() where at > now - 1w as m\n" +
		"                                                  ^"},
	{"a window of two units", "a/{a}/s/{s} -> r/{a} : count() where at > now - 1d12h as m", "\n" +
		"1d12h: want whole seconds from 1m to 400d, in s, m, h or d, such as 90s, 24h, or 7d for a week\n" +
		"  a/{a}/s/{s} -> r/{a} : count() where at > now - 1d12h as m\n" +
		"                                                  ^"},
	{"a window and a name", "a/{a}/s/{s} -> r/{a} : count() where at > now - 24 trending", "\n" +
		"a total's name follows \"as\": as trending\n" +
		"  a/{a}/s/{s} -> r/{a} : count() where at > now - 24 trending\n" +
		"                                                     ^"},
	{"what a window leaves out", "a/{a}/s/{s} -> r/{a} : count() where at < now - 24h as m", "\n" +
		"a window needs > or >=, as in at > now - 24h. For older documents, subtract two totals in the app\n" +
		"  a/{a}/s/{s} -> r/{a} : count() where at < now - 24h as m\n" +
		"                                          ^"},
	{"a window of one instant", "a/{a}/s/{s} -> r/{a} : count() where at == now - 24h as m", "\n" +
		"a window needs > or >=, as in at > now - 24h. For older documents, subtract two totals in the app\n" +
		"  a/{a}/s/{s} -> r/{a} : count() where at == now - 24h as m\n" +
		"                                          ^"},
	{"a window in a list", "a/{a}/s/{s} -> r/{a} : count() where at in [now - 24h] as m", "\n" +
		"want a comma or ]\n" +
		"  a/{a}/s/{s} -> r/{a} : count() where at in [now - 24h] as m\n" +
		"                                                  ^"},
	{"two windows in one total", "a/{a}/s/{s} -> r/{a} : count() where at > now - 24h and at >= now - 1h as m", "\n" +
		"at is tested twice\n" +
		"  a/{a}/s/{s} -> r/{a} : count() where at > now - 24h and at >= now - 1h as m\n" +
		"                                                          ^"},
	{"windows of two fields", "a/{a}/s/{s} -> r/{a} : count() where at > now - 24h and due > now - 1h as m", "\n" +
		"at and due are both compared; a total has a range of one field\n" +
		"  a/{a}/s/{s} -> r/{a} : count() where at > now - 24h and due > now - 1h as m\n" +
		"                                                          ^"},
	{"a window that ends at a number", "a/{a}/s/{s} -> r/{a} : count() where at > now - 24h and at < 5 as m", "\n" +
		"now - 24h and 5 are of two kinds, so no document would count\n" +
		"  a/{a}/s/{s} -> r/{a} : count() where at > now - 24h and at < 5 as m\n" +
		"                                                               ^"},
	{"a sum of the window's field", "a/{a}/s/{s} -> r/{a} : sum(at) where at > now - 24h as m", "\n" +
		"now - 24h is of a kind that sum does not see\n" +
		"  a/{a}/s/{s} -> r/{a} : sum(at) where at > now - 24h as m\n" +
		"                                                  ^"},
	{"a window by the schedule", "a/{a}/s/{s} -> r/{a} : count() where at > now - 24h as m : every 10s", "\n" +
		"every is for totals without a window: when a document leaves a window, an alarm has that rolled up, and not the schedule; remove the option\n" +
		"  a/{a}/s/{s} -> r/{a} : count() where at > now - 24h as m : every 10s\n" +
		"                                                             ^"},
	{"another condition", "a/{a}/s/{s} -> r/{a} : count() where n == 3 or k == 4 as m", "\n" +
		"there is no or: list the values of one field with in, or add up two totals in the app\n" +
		"  a/{a}/s/{s} -> r/{a} : count() where n == 3 or k == 4 as m\n" +
		"                                              ^"},
	{"a value without quotes", "a/{a}/s/{s} -> r/{a} : count() where n == paid as m", "\n" +
		"paid: want a value as JSON has it: a text in quotes, a number, true, false or null; or a time such as timestamp(\"2026-01-31T12:00:00Z\")\n" +
		"  a/{a}/s/{s} -> r/{a} : count() where n == paid as m\n" +
		"                                            ^"},
	{"a value that is missing", "a/{a}/s/{s} -> r/{a} : count() where n == as m", "\n" +
		"want a value as JSON has it: a text in quotes, a number, true, false or null; or a time such as timestamp(\"2026-01-31T12:00:00Z\")\n" +
		"  a/{a}/s/{s} -> r/{a} : count() where n == as m\n" +
		"                                            ^"},
	{"a text that is not JSON's", "a/{a}/s/{s} -> r/{a} : count() where n == \"\\q\" as m", "\n" +
		"this is not a JSON string: invalid character 'q' in string escape code\n" +
		"  a/{a}/s/{s} -> r/{a} : count() where n == \"\\q\" as m\n" +
		"                                            ^"},
	{"an integer that is too large", "a/{a}/s/{s} -> r/{a} : count() where n == 9223372036854775808 as m", "\n" +
		"9223372036854775808 is beyond the largest integer that Firestore holds\n" +
		"  a/{a}/s/{s} -> r/{a} : count() where n == 9223372036854775808 as m\n" +
		"                                            ^"},
	{"a double that is too large", "a/{a}/s/{s} -> r/{a} : count() where n == 1e999 as m", "\n" +
		"1e999 is beyond the largest number that Firestore holds\n" +
		"  a/{a}/s/{s} -> r/{a} : count() where n == 1e999 as m\n" +
		"                                            ^"},
	{"a field that is tested twice", "a/{a}/s/{s} -> r/{a} : count() where n == 3 and n == 4 as m", "\n" +
		"n is tested twice\n" +
		"  a/{a}/s/{s} -> r/{a} : count() where n == 3 and n == 4 as m\n" +
		"                                                  ^"},
	{"a field that is tested and aggregated", "a/{a}/s/{s} -> r/{a} : maximum(n) where n == 3 as m", "\n" +
		"n is tested and aggregated; all its values would be the same\n" +
		"  a/{a}/s/{s} -> r/{a} : maximum(n) where n == 3 as m\n" +
		"                                          ^"},
	{"the group as a condition", "orders/{order} by shop -> shops/{shop} : count() where shop == \"7\" as orders : existing", "\n" +
		"shop is a key, so each counter tests it already\n" +
		"  orders/{order} by shop -> shops/{shop} : count() where shop == \"7\" as orders : existing\n" +
		"                                                         ^"},
	{"the group as a condition, in a map", "orders/{order} by shop.id -> shops/{shop.id} : count() where shop.id == \"7\" as orders : existing", "\n" +
		"shop.id is a key, so each counter tests it already\n" +
		"  orders/{order} by shop.id -> shops/{shop.id} : count() where shop.id == \"7\" as orders : existing\n" +
		"                                                               ^"},
	{"a short form", "a/{a}/s/{s} -> r/{a} : avg(n) as m", "\n" +
		"unknown function avg(); want a field, count(), or sum, average, maximum, minimum, latest or earliest of a field; did you mean average()?\n" +
		"  a/{a}/s/{s} -> r/{a} : avg(n) as m\n" +
		"                         ^"},
	{"a word nearby", "a/{a}/s/{s} -> r/{a} : count() were n == 3 as m", "\n" +
		"want a comma, a colon or the route's end; did you mean where?\n" +
		"  a/{a}/s/{s} -> r/{a} : count() were n == 3 as m\n" +
		"                                 ^"},
	{"an option without its colon", "a/{a}/s/{s} -> r/{a} : count() as m existing", "\n" +
		"want a comma, a colon or the route's end; an option follows a colon: \": existing\"\n" +
		"  a/{a}/s/{s} -> r/{a} : count() as m existing\n" +
		"                                      ^"},
	{"a duration's option without its colon", "a/{a}/s/{s} -> r/{a} : n every 10s", "\n" +
		"want a comma, a colon or the route's end; an option follows a colon: \": every\"\n" +
		"  a/{a}/s/{s} -> r/{a} : n every 10s\n" +
		"                           ^"},
	{"a cadence's option without its colon", "a/{a}/s/{s} -> r/{a} : n cadence 10s", "\n" +
		"want a comma, a colon or the route's end; an option follows a colon: \": cadence\"\n" +
		"  a/{a}/s/{s} -> r/{a} : n cadence 10s\n" +
		"                           ^"},
	{"a cadence that is too long", "a/{a}/s/{s} -> r/{a} : n : existing : cadence 25h", "\n" +
		"cadence 25h: want a duration from 1s to 24h, such as 10s or 5m\n" +
		"  a/{a}/s/{s} -> r/{a} : n : existing : cadence 25h\n" +
		"                                                ^"},
	{"every and cadence", "a/{a}/s/{s} -> r/{a} : n : cadence 10s : every 10s", "\n" +
		"use either every (the schedule rolls up) or cadence (events do)\n" +
		"  a/{a}/s/{s} -> r/{a} : n : cadence 10s : every 10s\n" +
		"                                           ^"},
	{"a second option without its colon", "a/{a}/s/{s} -> r/{a} : n : existing every 10s", "\n" +
		"want a colon or the route's end; an option follows a colon: \": every\"\n" +
		"  a/{a}/s/{s} -> r/{a} : n : existing every 10s\n" +
		"                                      ^"},
	{"what a terminal would obey", "a/{a}/s/{s} -> r/{a} : n \x1b[2J\u202e", "\n" +
		"unexpected control character; remove it\n" +
		"  a/{a}/s/{s} -> r/{a} : n \ufffd[2J\ufffd\n" +
		"                           ^"},
	{"a name that does not print", "a/{a}/s/{s} -> r/{a} : n \u202em", "\n" +
		"want a comma, a colon or the route's end; put a name with a space or another special character in backticks\n" +
		"  a/{a}/s/{s} -> r/{a} : n \ufffdm\n" +
		"                           ^"},
	{"a name with a tab", "counters/`a\tb`/shards/{s} -> rollups/x : count", "\n" +
		"a name cannot have control characters\n" +
		"  counters/`a b`/shards/{s} -> rollups/x : count\n" +
		"           ^"},
	{"a capture with braces in its name", "a/{`b}`}/s/{s} -> r/x : n", "\n" +
		"a capture stands for one whole segment, as {counter}\n" +
		"  a/{`b}`}/s/{s} -> r/x : n\n" +
		"    ^"},
	{"a text that does not end", "a/{a}/s/{s} -> r/{a} : count() where k == \"x as m", "\n" +
		"the text that begins here does not end on its line; a \" is missing\n" +
		"  a/{a}/s/{s} -> r/{a} : count() where k == \"x as m\n" +
		"                                            ^"},
	{"a function of a function", "a/{a}/s/{s} -> r/{a} : sum(abs(n)) as m", "\n" +
		"a total takes one field; let the app write the result into a field of its own\n" +
		"  a/{a}/s/{s} -> r/{a} : sum(abs(n)) as m\n" +
		"                             ^"},
	{"bytes that are not UTF-8", "a/\xff/s/{s} -> r/x : n", "\n" +
		"this is not valid UTF-8\n" +
		"  a/\ufffd/s/{s} -> r/x : n\n" +
		"    ^"},
	{"a path from the API", "projects/p/databases/d/documents/a/{a} -> r/x : n", "\n" +
		"the path begins behind documents/, as in posts/{post}/likes/{user}\n" +
		"  projects/p/databases/d/documents/a/{a} -> r/x : n\n" +
		"                       ^"},
	{"a condition that is missing", "a/{a}/s/{s} -> r/{a} : count() where", "\n" +
		"want a condition, as in approved == true\n" +
		"  a/{a}/s/{s} -> r/{a} : count() where\n" +
		"                                      ^"},
	{"a path deeper than Firestore's", strings.Repeat("a/b/", 100) + "s/{s} -> r/x : n", "\n" +
		"the path has 202 segments; Firestore's limit is 200\n" +
		"  " + strings.Repeat("a/b/", 25) + "…\n" +
		"  ^"},
	{"a key's name that is missing", "o/{o} by shop as -> s/{s} : count() : existing", "\n" +
		"want a name, which the roll-up template has as a capture\n" +
		"  o/{o} by shop as -> s/{s} : count() : existing\n" +
		"                   ^"},
	{"a text that no query takes", `a/{a}/s/{s} -> r/{a} : count() where k == "` + strings.Repeat("é", 750) + `" as m`, "\n" +
		"this text has 1500 bytes; no query takes more than 1499\n" +
		"  a/{a}/s/{s} -> r/{a} : count() where k == \"" + strings.Repeat("é", 99) + "…\n" +
		"                                            ^"},
	{"a long line", "a/{a}/s/{s} -> r/{a} : " + strings.Repeat("n, ", 50) + "coumt()" + strings.Repeat(", n", 50), "\n" +
		"unknown function coumt(); want a field, count(), or sum, average, maximum, minimum, latest or earliest of a field; did you mean count()?\n" +
		"  …" + strings.Repeat(" n,", 33) + " coumt()" + strings.Repeat(", n", 31) + "…\n" +
		"   " + strings.Repeat(" ", 100) + "^"},
}

func TestMistakesArePlaced(t *testing.T) {
	for _, test := range placed {
		t.Run(test.name, func(t *testing.T) {
			_, err := Parse(test.routes)
			if err == nil {
				t.Fatal("no error")
			}
			if d := cmp.Diff(strings.TrimPrefix(test.want, "\n"), err.Error()); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// A conflict is reported for the later route, and names the earlier one.
func TestConflictsNameRoutes(t *testing.T) {
	for _, test := range []struct {
		routes []string
		want   string // 0, 1 and 2 in angle brackets are the routes
	}{
		{[]string{"a/{a}/s/{s} -> r/{a} : n", "b/{b} -> r/x : n"},
			`route <1>: its roll-ups and those of route <0> could be one document; spell both alike, or give each its own roll-ups`},
		{[]string{"a/{a} -> q/x : n", "rollup_audit/{s} -> r/x : n"},
			`route <1>: the source matches rollup_audit/{id}, which Tally writes itself; every roll-up would trigger another, without end`},
		{[]string{"a/{a} -> q/x : n", "b/{b} -> rollup_audit/x : n"},
			`route <1>: the roll-up rollup_audit/x is where Tally keeps rollup_audit/{id}; choose another path`},
		{[]string{"a/{a} -> r/x : n", "b/{b} -> r/x : m", "c/{c} -> r/x : m"},
			`route <2>: its total "m" and that of route <1> have one name in one roll-up; rename one of them with "as"`},
		{[]string{"a/{a} -> r/x : n", "b/{b} -> r/x : n", "c/{c} -> r/x : n"},
			`route <1>: its total "n" and that of route <0> have one name in one roll-up; rename one of them with "as"
route <2>: its total "n" and that of route <1> have one name in one roll-up; rename one of them with "as"`},
		{[]string{"a/{a}/s/{s} -> r/{a} : n", "a/x/s/{s} -> q/x : n"},
			`route <1>: its source and that of route <0> could be one document; spell both patterns alike, so that they share a trigger, or keep the documents apart`},
		{[]string{"a/{a} -> r/x : n", "a/{b} -> q/x : n : every 10s"},
			`route <1>: it and route <0> have the same source; say the same "every" in both`},
		{[]string{"a/{a} -> r/x : n", "a/{b} -> r/x : m"},
			`route <1>: it and route <0> make one roll-up of one source; put all totals into one of them`},
		{[]string{"a/{a} -> a/x : n", "b/{b} -> r/x : n"},
			`route <0>: its roll-ups are among its own sources, and it reads the field n, which they write; each roll-up could trigger another, without end; read a field that only the app writes, or keep the totals in another collection`},
		{[]string{"a/{a} -> b/x : n", "b/{b} -> c/x : n", "c/{c} -> a/x : n"},
			`route <0>: its roll-ups are sources of route <1>, whose roll-ups are sources of route <2>, whose roll-ups are sources of this route; each roll-up would trigger another, without end`},
		{[]string{"a/{a} -> b/x : n", "b/{b}/s/{s} -> r/{b} : n"},
			`route <0>: the roll-up b/x is a document above the source b/{b}/s/{s}, and Tally would create and remove it; add the option existing if the app writes it, or choose another path`},
		{[]string{"p/{p}/s/{s} -> p/{p} : n", "p/{p}/t/{t} -> p/{p} : m"}, // each route once, and not for each of the sources
			`route <0>: the roll-up p/{p} is a document above the source p/{p}/s/{s}, and Tally would create and remove it; add the option existing if the app writes it, or choose another path
route <1>: the roll-up p/{p} is a document above the source p/{p}/t/{t}, and Tally would create and remove it; add the option existing if the app writes it, or choose another path`},
		{[]string{"a/{a} -> b/x : frozen : existing", "b/{b}/s/{s} -> r/{b} : n"},
			`route <0>: the total "frozen" has the name of a field by which the counter's own document b/x tells clients and rules about its shards; rename it with "as"`},
		{[]string{"a/{a} -> r/x : n", "b/{b} -> r/x : m : every 10s"},
			`route <1>: it and route <0> make one roll-up; say the same "every" in both`},
		{[]string{"a/{a} -> r/x : n", "b/{b} -> r/x : m : cadence 10s"},
			`route <1>: it and route <0> make one roll-up; say the same "cadence" in both`},
		{[]string{"a/{a} -> r/x : n", "b/{b} -> r/x : m : existing"},
			`route <1>: it and route <0> make one roll-up; say "existing" in both, or in neither`},
	} {
		want := test.want
		for i, r := range test.routes {
			want = strings.ReplaceAll(want, fmt.Sprintf("<%d>", i), fmt.Sprintf("%q", r))
		}
		_, err := Parse(strings.Join(test.routes, "\n"))
		if d := cmp.Diff(want, fmt.Sprint(err)); d != "" {
			t.Errorf("%q (-want +got):\n%s", test.routes, d)
		}
	}
}
