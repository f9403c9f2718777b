package route_test

import (
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
)

func TestMatch(t *testing.T) {
	routes, err := route.Parse(`
		counters/{counter}/shards/{shard}           -> rollups/{counter} : count
		posts/{post}/counters/{name}/shards/{shard} -> posts/{post}/rollups/{name} : likes, views
		posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing
		posts/{p}/ratings/{user} -> posts/{p} : count(), sum(stars) as stars, ` + "`the rest`" + ` as rest : existing
		samples/php/distributedCounters/{shard}     -> php_rollups/total : Cnt : every 10m : documents; shards/{shard} -> rollups_of/shards : count
	`)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		path   string
		rollUp string // "" means no match
		shards string
		fields string
		option string
	}{
		{"counters/likes/shards/0", "rollups/likes", "counters/likes/shards", "count", ""},
		{"counters/größe 三/shards/٣", "rollups/größe 三", "counters/größe 三/shards", "count", ""},
		{"counters/{counter}/shards/{shard}", "rollups/{counter}", "counters/{counter}/shards", "count", ""},
		{"posts/7/likes/ann", "posts/7", "posts/7/likes", "count() as likes", "existing"},
		{"posts/7/ratings/ann", "posts/7", "posts/7/ratings", "count(), stars, `the rest` as rest", "existing"},
		{"posts/p/counters/c/shards/9", "posts/p/rollups/c", "posts/p/counters/c/shards", "likes, views", ""},
		{"samples/php/distributedCounters/3", "php_rollups/total", "samples/php/distributedCounters", "Cnt", "documents every 10m0s"},
		{"shards/x", "rollups_of/shards", "shards", "count", ""},
		{path: "counters/likes"},
		{path: "counters/likes/shards"},
		{path: "counters/likes/shards/"},
		{path: "counters//shards/0"},
		{path: "counters/likes/shards/0/more/1"},
		{path: "counters/likes/Shards/0"},
		{path: "rollups/likes"},
		{path: "/counters/likes/shards/0"},
		{path: ""},
		{path: "/"},
	} {
		c, r, ok := routes.Match(test.path)
		if ok != (test.rollUp != "") {
			t.Errorf("Match(%q): matched %v", test.path, ok)
			continue
		}
		if !ok {
			continue
		}
		option := ""
		if r.Documents {
			option = "documents every " + c.Template.Every.String()
		}
		if c.Template.Existing {
			option = "existing"
		}
		var totals []string
		for _, total := range r.Totals {
			totals = append(totals, total.String())
		}
		got := []string{c.RollUp, r.Shards(c), strings.Join(totals, ", "), option}
		if d := cmp.Diff([]string{test.rollUp, test.shards, test.fields, test.option}, got); d != "" {
			t.Errorf("Match(%q) (-want +got):\n%s", test.path, d)
		}
		if back, ok := c.Template.Counter(c.RollUp); !ok || back != c {
			t.Errorf("Counter(%q) = %+v, %v; want the counter", c.RollUp, back, ok)
		}
		if _, ok := c.Template.Counter(c.RollUp + "/more/1"); ok {
			t.Errorf("Counter matched a longer path")
		}
	}
}

func TestRefusedRoutes(t *testing.T) {
	const base = "counters/{c}/shards/{s} -> rollups/{c} : count"
	for _, test := range []struct {
		name   string
		routes string
		want   string // part of the message
	}{
		{"nothing", " \n ; ", "no route given"},
		{"no arrow", "counters/{c}/shards/{s}", "want <source pattern> -> "},
		{"no fields", "counters/{c}/shards/{s} -> rollups/{c}", "want <source pattern> -> "},
		{"unknown option", base + " : documents : more", "unknown option more; want documents, existing, within, or every or cadence"},
		{"option twice", base + " : documents : every 1s : documents", "the option documents is given twice"},
		{"empty option", base + " : ", "an option is missing; want documents"},
		{"a text that no query takes", base + `, count() where x == "` + strings.Repeat("é", 750) + `" as n`, "this text has 1500 bytes; no query takes more than 1499"},
		{"a text that is half a character", base + `, count() where x == "a\ud800" as n`, "this text is not valid UTF-8"},
		{"a string that is not UTF-8", base + ", count() where x == \"a\xff\" as n", "this text is not valid UTF-8"},
		{"option with a word too many", base + " : documents now", "want a colon or the route's end"},
		{"every without a duration", base + " : every", "want a duration such as 10s"},
		{"every of no duration", base + " : every day", "every day: want a duration of at least 1s"},
		{"every too often", base + " : every 999ms", "every 999ms: want a duration of at least 1s"},
		{"cadence without a duration", base + " : cadence", "want a duration such as 10s"},
		{"cadence of no duration", base + " : cadence slow", "cadence slow: want a duration from 1s to 24h"},
		{"cadence too often", base + " : cadence 999ms", "cadence 999ms: want a duration from 1s to 24h"},
		{"cadence twice", base + " : cadence 1s : cadence 2s", "the option cadence is given twice"},
		{"one template, cadences of two lengths", base + " : cadence 10s\nx/{x}/shards/{s} -> rollups/{x} : n : cadence 11s", `say the same "cadence" in both`},
		{"pattern of a collection", "counters/{c}/shards -> rollups/{c} : count", "names a collection"},
		{"template of a collection", "counters/{c}/shards/{s} -> rollups/{c}/x : count", "names a collection"},
		{"empty segment", "counters//shards/{s} -> rollups/x : count", "segment 2 is empty"},
		{"reserved id", "counters/__c__/shards/{s} -> rollups/x : count", "reserves names"},
		{"dot", "counters/./shards/{s} -> rollups/x : count", "does not allow"},
		{"long id", "counters/" + strings.Repeat("x", 1501) + "/shards/{s} -> rollups/x : count", "longer than 1500 bytes"},
		{"not UTF-8", "counters/\xff/shards/{s} -> rollups/x : count", "not valid UTF-8"},
		{"part of a segment", "counters/c{c}/shards/{s} -> rollups/{c} : count", "one whole segment"},
		{"many segments", "counters/{c=**}/shards/{s} -> rollups/{c} : count", "one whole segment"},
		{"captured collection", "{all}/{c}/shards/{s} -> rollups/{all}/of/{c} : count", "only document ids"},
		{"captured twice", "counters/{c}/of/{c}/shards/{s} -> rollups/{c} : count", "captures {c} twice"},
		{"literal shard", "counters/{c}/shards/0 -> rollups/{c} : count", "must capture the document"},
		{"the shard's capture used", "counters/{c}/shards/{s} -> rollups/{c}/of/{s} : count", "uses the last capture {s}"},
		{"a capture not used", "a/{a}/b/{b}/shards/{s} -> rollups/{b} : count", "does not use {a}"},
		{"an unknown capture", "counters/{c}/shards/{s} -> rollups/{x} : count", "uses {x}, which"},
		{"tally", "counters/{c}/shards/{s} -> rollups/{c} : count, tally", `the total "tally" has the name of a field that Tally itself writes`},
		{"field twice", "counters/{c}/shards/{s} -> rollups/{c} : count, count", `the total "count" is named twice`},
		{"empty field", "counters/{c}/shards/{s} -> rollups/{c} : count, ", "want a field, count(), or sum, average, maximum, minimum, latest or earliest of a field"},
		{"empty name of a field", "counters/{c}/shards/{s} -> rollups/{c} : ``", "a field's name is empty"},
		{"empty name", "counters/{c}/shards/{s} -> rollups/{c} : count() as ``", "a field's name is empty"},
		{"empty segment in backticks", "counters/``/shards/{s} -> rollups/x : count", "segment 2 is empty"},
		{"slash in a segment", "`counters/x`/{s} -> rollups/x : count", "holds a slash"},
		{"braces in a literal", "`{counters}`/{s} -> rollups/x : count", "a literal segment cannot have braces"},
		{"control character in a name", "counters/`a\tb`/shards/{s} -> rollups/x : count", "a name cannot have control characters"},
		{"a path deeper than Firestore's", strings.Repeat("a/b/", 100) + "s/{s} -> rollups/x : count", "the path has 202 segments; Firestore's limit is 200"},
		{"nested field in backticks", "counters/{c}/shards/{s} -> rollups/{c} : `stats.likes`", "without any of . `"},
		{"nested field", "counters/{c}/shards/{s} -> rollups/{c} : stats.likes", "write stats.likes as likes"},
		{"templates that may meet", base + "\nx/y/shards/{s} -> rollups/y : n", "could be one document; spell both alike, or give each its own roll-ups"},
		{"templates with one capture twice", "a/{a}/b/{b}/s/{s} -> r/{a}/of/{b} : n\nc/{c}/s/{s} -> r/{c}/of/{c} : m", "could be one document; spell both alike"},
		{"templates of which one has a literal", "a/{a}/b/{b}/s/{s} -> r/{a}/of/{b} : n\nc/{c}/s/{s} -> r/{c}/of/x : m", "could be one document; spell both alike"},
		{"one total of two routes", base + "\nx/{x}/shards/{s} -> rollups/{x} : n as count", `its total "count" and that of route "` + base + `" have one name in one roll-up`},
		{"count() twice", "posts/{p}/likes/{u} -> totals/{p} : count()\nposts/{p}/comments/{c} -> totals/{p} : count()", `its total "count" and that of route`},
		{"two names alike", "a/{a}/s/{s} -> r/{a} : x as n, y as n", `the total "n" is named twice`},
		{"one template, every and live", base + " : every 10s\nx/{x}/shards/{s} -> rollups/{x} : n", `say the same "every" in both`},
		{"one template, every of two lengths", base + " : every 10s\nx/{x}/shards/{s} -> rollups/{x} : n : every 11s", `say the same "every" in both`},
		{"one template, existing and not", base + "\nx/{x}/shards/{s} -> rollups/{x} : n : existing", `say "existing" in both, or in neither`},
		{"tally by as", "counters/{c}/shards/{s} -> rollups/{c} : count() as tally", `the total "tally" has the name of a field that Tally itself writes to the roll-up; rename it with "as"`},
		{"a name that is a path", base + " as a.b", "top-level field"},
		{"a field with parentheses", "counters/{c}/shards/{s} -> rollups/{c} : `sum(count)`", "without any of"},
		{"as nothing", "counters/{c}/shards/{s} -> rollups/{c} : count() as", "want a name"},
		{"as nothing, behind a field", "counters/{c}/shards/{s} -> rollups/{c} : stars as", "want a name"},
		{"nothing as a name", "counters/{c}/shards/{s} -> rollups/{c} : as likes", "as is a reserved word; put it in backticks to use it as a name: `as`"},
		{"as two words", "counters/{c}/shards/{s} -> rollups/{c} : stars as all stars", "put a name with a space or another special character in backticks: `all stars`"},
		{"AS", "counters/{c}/shards/{s} -> rollups/{c} : stars AS n", "did you mean as?"},
		{"count() of read documents", "counters/{c}/shards/{s} -> rollups/{c} : count() : documents", "remove the option documents"},
		{"existing twice", base + " : existing : existing", "the option existing is given twice"},
		{"num_shards of a counter", "counters/{c}/shards/{s} -> counters/{c} : count() as num_shards : existing", `the total "num_shards" has the name of a field by which the counter's own document counters/{c}`},
		{"numShards of another's counter", base + "\nx/{x}/y/{y} -> counters/{x} : numShards : existing", `the total "numShards" has the name of a field by which the counter's own document`},
		{"frozen of a counter", "counters/{c}/shards/{s} -> counters/{c} : frozen : existing", `the total "frozen" has the name`},
		{"an ancestor of its own source", "posts/{p}/likes/{u} -> posts/{p} : count()", "is a document above the source posts/{p}/likes/{u}, and Tally would create and remove it; add the option existing"},
		{"an ancestor two levels above", "a/{a}/b/x/c/{c} -> r/{a} : n\nb/{b}/s/{s} -> a/{b} : m", "the roll-up a/{b} is a document above the source a/{a}/b/x/c/{c}"},
		{"an ancestor of many", "a/{a}/b/{b}/c/{c}/d/{d} -> r/{a}/of/{b}/in/{c} : n\nx/{x}/y/{y}/s/{s} -> a/{x}/b/{y} : m", "the roll-up a/{x}/b/{y} is a document above the source a/{a}/b/{b}/c/{c}/d/{d}"},
		{"template is a shard", "counters/{c}/shards/{s} -> counters/{c}/shards/total : count() as n", "the roll-up counters/{c}/shards/total is a document of its own source counters/{c}/shards/{s}, and Tally would create and remove it; add the option existing"},
		{"days among their own documents", "s/{s}/d/{d} by day(at) -> s/{s}/d/{day} : count() : within s/{s}", "is a document of its own source"},
		{"a total of itself", "counters/{c}/shards/{s} -> counters/{c}/shards/total : count : existing", "it reads the field count, which they write; each roll-up could trigger another, without end"},
		{"all descendants", "c/{c} by parent -> c/{parent} : sum(below) as below : existing", "it reads the field below, which"},
		{"a condition on a total", "c/{c} by parent -> c/{parent} : count() where replies > 0 as replies : existing", "it reads the field replies, which"},
		{"a key that is a total", "c/{c} by parent -> c/{parent} : latest(at) as parent : existing", "it reads the field parent, which"},
		{"a key in a total", "c/{c} by parent.id -> c/{parent.id} : latest(at) as parent : existing", "it reads the field parent.id, which"},
		{"a condition on tally", "c/{c} by parent -> c/{parent} : count() where tally.num_shards > 0 as replies : existing", "it reads the field tally.num_shards, which"},
		{"likes of replies", "c/{c}/likes/{u} -> c/{c} : count() as likes : existing\nc/{c} by parent -> c/{parent} : sum(likes) as liked : existing", `it reads the field likes, which the roll-ups of route "c/{c}/likes/{u} -> c/{c} : count() as likes : existing" write`},
		{"two routes of one collection, of which one reads the other's total", "c/{c} by parent -> c/{parent} : count() as replies : existing\nc/{c} by root -> c/{root} : sum(replies) as thread : existing", `it reads the field replies, which the roll-ups of route "c/{c} by parent -> c/{parent} : count() as replies : existing" write`},
		{"two collections whose roll-ups are in either", "a/b/c/{y} by k, y2 -> a/{k}/c/{y2} : count() as n : existing\na/d/c/{z} by k, z2 -> a/{k}/c/{z2} : count() as m : existing", "whose roll-ups are sources of this route"},
		{"a circle through another collection", "c/{c} by parent -> c/{parent} : count() as replies : existing\nc/{c} by author -> u/{author} : count() as comments : existing\nu/{u} by pinned -> c/{pinned} : count() as pins : existing", "whose roll-ups are sources of this route"},
		{"two routes in a circle", "a/{a} by b -> b/{b} : n : existing\nb/{b} by a -> a/{a} : n : existing", "its roll-ups are sources of route \"b/{b} by a -> a/{a} : n : existing\", whose roll-ups are sources of this route"},
		{"three routes in a circle, of which one has two ways out", "a/{a}/s/{s} -> b/{a} : n\nb/{b} by m -> c/all/s/{m} : n : existing\nb/{b} by k -> d/{k} : n : existing\nc/{c}/s/{s} -> a/x/s/{c} : n", "each roll-up would trigger another"},
		{"captured collection of roll-ups", "counters/{c}/shards/{s} -> totals/of/{c}/total : count", "the roll-up path captures a collection's name, {c}"},
		{"the audit's path is a shard", "rollup_audit/{s} -> rollups/audit : count", "which Tally writes itself"},
		{"a claim's path is a shard", "rollup_claims/{s} -> rollups/audit : count", "which Tally writes itself"},
		{"roll-up on a claim's path", "counters/{c}/shards/{s} -> rollup_claims/{c} : count", "where Tally keeps"},
		{"roll-up on the audit's path", "counters/x/shards/{s} -> rollup_audit/cursor : count", "where Tally keeps"},
		{"roll-up on the counter document", "counters/{c}/shards/{s} -> counters/{c} : count", "is a document above the source"},
		{"roll-up on another's counter document", base + "\nx/{x}/shards/{s} -> counters/{x} : n", "is a document above the source counters/{c}/shards/{s}"},
		{"patterns that match one document", base + "\ncounters/x/shards/{s} -> other/x : count", "spell both patterns alike"},
		{"one source, every and live", base + "\ncounters/{x}/shards/{y} -> others/{x} : count : every 10s", `have the same source; say the same "every" in both`},
		{"one source and one roll-up", base + "\ncounters/{x}/shards/{y} -> rollups/{x} : n", "make one roll-up of one source; put all totals into one of them"},
		{"one group twice", "o/{o} by a -> s/{a} : count() : existing\no/{p} by a -> s/{a} : n : existing", "make one roll-up of one source"},
		{"a key that stands twice in the template", "o/{o} by s -> a/{s}/b/{s} : count() : existing", "uses {s} twice"},
		{"three keys", "o/{o} by a, b, c -> a/{a}/b/{b}/c/{c} : count() : existing", "at most 2 keys"},
		{"a total that is called as an id's field", "o/{o} by s, day(at) -> s/{s}/d/{day} : count() as day : within s/{s}", "its total \"day\" has the name of a capture"},
		{"an id's field that is Tally's", "o/{o} by day(at) as tally -> d/{tally} : count() : within", "{tally} would be a field of the roll-up, and Tally itself writes one of that name"},
		{"an id's field with a dot", "o/{o} by c.id, day(at) -> s/{c.id}/d/{day} : count() : within s/{c.id}", "a top-level field has no dots in its name; rename the capture, as in {id}"},
		{"an id's field with a name that no total has", "s/{`s[0]`}/o/{o} by day(at) -> s/{`s[0]`}/d/{day} : count() : within s/{`s[0]`}", "want a name without any of"},
		{"an id's field of two names", "o/{o} by s, day(at) -> s/{s}/d/{day} : count() : within s/{s}\np/{p} by t, day(at) -> s/{t}/d/{day} : count() as m : within s/{t}", "give the captures the same names in both"},
		{"a circle by the field of an id", "o/{o} by day(at) -> d/{day} : count() : within\nd/{d} by day -> d/{day} : count() as m : existing", "it reads the field day, which the roll-ups of route"},
		{"a key twice", "o/{o} by a, number(a) as b -> a/{a}/b/{b} : count() : existing", "a is a key twice"},
		{"two keys of one name", "o/{o} by a.id, b.id -> a/{id}/b/{id} : count() : existing", `two keys are called {id}; name one of them with "as"`},
		{"a key that is called as a capture", "p/{p}/o/{o} by c.p -> p/{p} : count() : existing", "has the name of the key {p}"},
		{"a day and a month", "o/{o} by day(a), month(b) -> d/{day}/m/{month} : count() : existing", "only one of the keys can be a day, a week or a month"},
		{"no time zone", `o/{o} by day(a, "Europe/Berlim") -> d/{day} : count() : existing`, "did you mean Europe/Berlin?"},
		{"the zone of this machine", `o/{o} by day(a, "Local") -> d/{day} : count() : existing`, "is not a time zone"},
		{"no zone", `o/{o} by day(a, "") -> d/{day} : count() : existing`, "is not a time zone"},
		{"a zone without quotes", `o/{o} by day(a, UTC) -> d/{day} : count() : existing`, "want a time zone in double quotes"},
		{"a zone of a number", `o/{o} by number(a, "UTC") -> d/{a} : count() : existing`, "want )"},
		{"an unknown function", `o/{o} by date(a) -> d/{a} : count() : existing`, "unknown function date(); want a field, or ref, number, day, week or month of one; did you mean day()?"},
		{"a day without existing", "o/{o} by s, day(at) -> s/{s}/d/{day} : count()", "must say existing, because anyone who may write a source could make up roll-ups without end; the app creates the documents s/{s}/d/{day} itself; or say within s/{s}, and Tally creates them while that document exists"},
		{"a day alone without existing", "o/{o} by day(at) -> d/{day} : count()", "or say within, and Tally creates them"},
		{"within without a day", "o/{o} by s -> s/{s}/d/x : count() : within s/{s}", "within is for keys that are days, weeks or months"},
		{"within without by", "s/{s}/o/{o} -> s/{s}/d/x : count() : within s/{s}", "within is for keys that are days, weeks or months"},
		{"within no document", "o/{o} by s, day(at) -> s/{s}/d/{day} : count() : within", "could make up a {s}, and roll-ups without end; want within s/{s}, which the app creates"},
		{"within too little", "p/{p}/o/{o} by s, day(at) -> p/{p}/s/{s}/d/{day} : count() : within p/{p}", "want within p/{p}/s/{s}, which the app creates"},
		{"within a collection", "o/{o} by s, day(at) -> s/{s}/d/{day} : count() : within s", "within s: want a document above s/{s}/d/{day}, spelled as in that path"},
		{"within itself", "o/{o} by day(at) -> d/{day} : count() : within d/{day}", "want a document above"},
		{"within another document", "o/{o} by s, day(at) -> s/{s}/d/{day} : count() : within t/{s}", "want a document above"},
		{"within another spelling", "o/{o} by s, day(at) -> s/{s}/d/{day} : count() : within s/{t}", "want a document above"},
		{"within and existing", "o/{o} by day(at) -> d/{day} : count() : within : existing", "existing and within exclude each other"},
		{"within and every", "o/{o} by day(at) -> d/{day} : count() : every 5m : within", "every is not for a route that says within"},
		{"within twice", "o/{o} by day(at) -> d/{day} : count() : within : within", "given twice"},
		{"one roll-up within and existing", "o/{o} by day(at) -> d/{day} : count() : within\np/{p} by day(at) -> d/{day} : count() as n : existing", `say the same "within" in both`},
		{"one roll-up within two documents", "o/{o} by day(at) -> a/b/d/{day} : count() : within a/b\np/{p} by day(at) -> a/b/d/{day} : count() as n : within", `say the same "within" in both`},
		{"within a roll-up", "o/{o} by s, day(at) -> s/{s}/d/{day} : count() : within s/{s}\nc/{c}/y/{y} -> s/{c} : count() as m", "which Tally creates and removes itself by route"},
		{"a list", `o/{o} by tags[] -> tags/{tags} : count() : existing`, "a document is in one group, so a list is no key"},
		{"the greatest of a day", "o/{o} by day(at) -> d/{day} : maximum(n) as m : existing", "has no maximum"},
		{"another time of a day", "o/{o} by day(at) -> d/{day} : latest(then) as m : existing", "has the latest of the key's own field, at"},
		{"a window within a day", "o/{o} by day(at) -> d/{day} : count() where then > now - 1h as m : existing", "compares the key's time already"},
		{"a range within a day", "o/{o} by day(at) -> d/{day} : count() where n > 5 as m : existing", "compares the key's time already"},
		{"the time of a day as a condition", "o/{o} by day(at) -> d/{day} : count() where at > now - 1h as m : existing", "at is a key"},
		{"one roll-up of texts and numbers", "o/{o} by a -> s/{a} : count() : existing\np/{p} by number(a) -> s/{a} : count() as n : existing", "their ids differ"},
		{"one roll-up of captures and numbers", "s/{s}/o/{o} -> s/{s} : count() : existing\np/{p} by number(a) -> s/{a} : count() as n : existing", "their ids differ"},
		{"one roll-up of two zones", "o/{o} by day(a) -> d/{day} : count() : existing\np/{p} by day(a, \"Europe/Berlin\") -> d/{day} : count() as n : existing", "their ids differ"},
		{"read documents with conditions", "s/{s} -> r/x : sum(n) where a == 1 as n : documents", "documents is for plain sums of all documents"},
		{"read documents with a maximum", "s/{s} -> r/x : maximum(n) as n : documents", "documents is for plain sums of all documents"},
		{"read documents of a group", "s/{s} by g -> r/{g} : n : documents : existing", "documents is for plain sums of all documents"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := route.Parse(test.routes)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}

// "as" stands between spaces of any kind, and as a name in backticks.
func TestAs(t *testing.T) {
	for text, want := range map[string]route.Total{
		"count()":                  {Aggregate: route.Count, Name: "count"},
		"count":                    {Aggregate: route.Sum, Field: document.FieldOf("count"), Name: "count"},
		"`as`":                     {Aggregate: route.Sum, Field: document.FieldOf("as"), Name: "as"},
		"`a as b` as c":            {Aggregate: route.Sum, Field: document.FieldOf("a as b"), Name: "c"},
		"`as` as `as`":             {Aggregate: route.Sum, Field: document.FieldOf("as"), Name: "as"},
		"stars as `as`":            {Aggregate: route.Sum, Field: document.FieldOf("stars"), Name: "as"},
		"stars as AS":              {Aggregate: route.Sum, Field: document.FieldOf("stars"), Name: "AS"},
		"stars  as  n":             {Aggregate: route.Sum, Field: document.FieldOf("stars"), Name: "n"},
		"stars\tas\tn":             {Aggregate: route.Sum, Field: document.FieldOf("stars"), Name: "n"},
		"stars as\n\tn":            {Aggregate: route.Sum, Field: document.FieldOf("stars"), Name: "n"},
		"count()\u00a0as\u00a0n":   {Aggregate: route.Count, Name: "n"},
		" `the  rest`as\u2003n ":   {Aggregate: route.Sum, Field: document.FieldOf("the  rest"), Name: "n"},
		"sum(stars) as n":          {Aggregate: route.Sum, Field: document.FieldOf("stars"), Name: "n"},
		"sum( `the  rest` )as n":   {Aggregate: route.Sum, Field: document.FieldOf("the  rest"), Name: "n"},
		"stars as stars":           {Aggregate: route.Sum, Field: document.FieldOf("stars"), Name: "stars"},
		"größe as 大きさ":             {Aggregate: route.Sum, Field: document.FieldOf("größe"), Name: "大きさ"},
		"count() as count, x as n": {Aggregate: route.Count, Name: "count"},
		"`count` as n":             {Aggregate: route.Sum, Field: document.FieldOf("count"), Name: "n"},
	} {
		routes, err := route.Parse("s/{s} -> r/x : " + text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
		} else if got := routes[0].Totals[0]; !reflect.DeepEqual(got, want) {
			t.Errorf("%q is taken for %+v, want %+v", text, got, want)
		}
	}
}

// Every problem is reported at once, each by its route.
func TestAllProblemsAreReported(t *testing.T) {
	_, err := route.Parse("a/{a}/s/{s} -> r/x : n\nb -> c : n\nc/{c}/s/{s} -> r/{c} : tally")
	for _, want := range []string{"does not use {a}; ", "\n  a/{a}/s/{s} -> r/x : n\n    ^\n", "names a collection; ", "\n  b -> c : n\n  ^\n", "the name of a field that Tally itself writes", "\n  c/{c}/s/{s} -> r/{c} : tally\n"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want also %q", err, want)
		}
	}
}

// The hash is of what makes the totals, not of names of captures, order of fields or options.
func TestHash(t *testing.T) {
	hash := func(text string) string {
		t.Helper()
		routes, err := route.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return routes[0].Template.Hash()
	}
	base := hash("a/{a}/b/{b}/s/{s} -> r/{b}/of/{a} : likes, views")
	for _, same := range []string{
		"a/{x}/b/{y}/s/{z} -> r/{y}/of/{x} : likes, views",
		"a/{a}/b/{b}/s/{s} -> r/{b}/of/{a} : views, likes : every 10s : documents",
		"a/{a}/b/{b}/s/{s} -> r/{b}/of/{a} : views as views, likes : existing",
		"a/{a}/b/{b}/s/{s} -> r/{b}/of/{a} : likes, views : cadence 10s",
	} {
		if hash(same) != base {
			t.Errorf("%s: another hash", same)
		}
	}
	seen := map[string]string{base: "the base"}
	for _, other := range []string{
		"a/{a}/b/{b}/s/{s} -> r/{a}/of/{b} : likes, views",
		"a/{a}/b/{b}/s/{s} -> r/{b}/of/{a} : likes",
		"a/{a}/b/{b}/s/{s} -> r/{b}/of/{a} : likes, views, x",
		"a/{a}/b/{b}/t/{s} -> r/{b}/of/{a} : likes, views",
		"a/{a}/b/x/s/{s} -> r/x/of/{a} : likes, views",
		"a/{a}/b/{b}/s/{s} -> q/{b}/of/{a} : likes, views",
		"a/{a}/b/{b}/s/{s} -> r/{b}/of/{a} : likes, views as seen",
		"a/{a}/b/{b}/s/{s} -> r/{b}/of/{a} : likes, seen as views",
		"a/{a}/b/{b}/s/{s} -> r/{b}/of/{a} : likes, count() as views",
		"a/{a}/b/{b}/s/{s} -> r/{b}/of/{a} : likes, average(views) as views",
		"a/{a}/b/{b}/s/{s} -> r/{b}/of/{a} : likes, views where ok == true as views",
		"a/{a}/b/{b}/s/{s} -> r/{b}/of/{a} : likes, views where ok == false as views",
		"a/{a}/b/{b}/s/{s} -> r/{b}/of/{a} : likes, views where ok == true and kind == 1 as views",
		"a/{a}/b/{b}/s/{s} -> r/{b}/of/{a} : likes, views where ok == true and kind == 2 as views",
		"a/{a}/b/{b}/s/{s} -> r/{b}/of/{a} : likes as views, views as likes",
		"a/{a}/b/{b}/s/{s} -> r/{b}/of/{a} : likes\na/{a}/c/{b}/s/{s} -> r/{b}/of/{a} : views",
		"a/{a}/b/{b}/s/{s} -> r/{b}/of/{a} : likes\na/{a}/c/{b}/s/{s} -> r/{a}/of/{b} : views",
		"s/{s} by shop -> r/{shop} : likes, views : existing",
		"s/{s} by home -> r/{home} : likes, views : existing",
	} {
		if text, ok := seen[hash(other)]; ok {
			t.Errorf("%s has the hash of %s", other, text)
		}
		seen[hash(other)] = other
	}
}

// Routes whose templates differ only in the names of captures share one, whose hash is the same in
// whatever order they come.
func TestTemplate(t *testing.T) {
	const likes, comments, other = "posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing", "posts/{p}/comments/{c} -> posts/{p} : count() as comments, words : existing",
		"x/{x}/y/{y} -> posts/{x}/of/{x} : n"
	parse := func(text ...string) route.Routes {
		t.Helper()
		routes, err := route.Parse(strings.Join(text, "\n"))
		if err != nil {
			t.Fatal(err)
		}
		return routes
	}
	one, back := parse(likes, other, comments), parse(comments, likes)
	if one[0].Template != one[2].Template || one[0].Template == one[1].Template || len(one.Templates()) != 2 || one[0].Template.Hash() != back[0].Template.Hash() ||
		one[0].Template.Hash() == parse(likes)[0].Template.Hash() {
		t.Errorf("%v are of the templates %v", one, one.Templates())
	}
	if got, want := one[0].Template.Totals(), []string{"comments", "likes", "words"}; !slices.Equal(got, want) {
		t.Errorf("totals %v, want %v", got, want)
	}
	c, _ := one[0].Template.Counter("posts/7")
	if got := one[0].Shards(c) + " " + one[2].Shards(c); got != "posts/7/likes posts/7/comments" {
		t.Errorf("posts/7 has the sources %s", got)
	}
	for _, bad := range []string{"posts/7/of/8", "posts/7/of", "posts/7/by/7"} {
		if c, ok := one[1].Template.Counter(bad); ok {
			t.Errorf("%s is taken for %v", bad, c)
		}
	}
}

func TestRoutesAtTheEdge(t *testing.T) {
	for name, test := range map[string]struct{ routes, want string }{
		"a literal does not use a capture": {"counters/{c}/shards/{s} -> rollups/c : count", "does not use {c}"},
		"two dots":                         {"counters/../shards/{s} -> rollups/x : count", "does not allow"},
		"half a capture":                   {"counters/{c/shards/{s} -> rollups/x : count", "one whole segment"},
		"the other half":                   {"counters/c}/shards/{s} -> rollups/x : count", "one whole segment"},
		"no capture's name":                {"counters/{}/shards/{s} -> rollups/x : count", "one whole segment"},
		"a field's slash":                  {"counters/{c}/shards/{s} -> rollups/{c} : `a/b`", "want a name without"},
		"conflicts and a parse error":      {"b -> c : n; a/{a}/s/{s} -> r/{a} : n; b/{b}/s/{s} -> r/{b} : n", "have one name in one roll-up"},
	} {
		if _, err := route.Parse(test.routes); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, test.want)
		}
	}
	for _, ok := range []string{
		"counters/{c}/shards/{s} -> s/{c} : count",
		"counters/" + strings.Repeat("x", 1500) + "/shards/{s} -> rollups/x : count",
		"counters/__/shards/{s} -> rollups/___ : count",
		"counters/{c}/shards/{s} -> rollups/{c} : count : documents",
		"a/{a} -> r/all : count()",
		"a/{a}/s/{s} -> r/{a} : `as` as of, `the as` as n, count() as m, count : existing : every 1m0s",
		"a/{a}/s/{s} -> r/{a} : count : existing : cadence 10s",
		"a/`b; c -> d : e, \"f\"`/s/{`my s`} -> `r\\``/`by` : n",
		"counters/{c}/shards/{s} -> counters/{c} : count : existing",
	} {
		r, err := route.Parse(ok)
		if err != nil || r[0].String() != ok {
			t.Errorf("%v, printed %v", err, r)
		}
	}
	r, _ := route.Parse("a/{a}/s/{s} -> r/{a}/of/{a} : n")
	for _, path := range []string{"r/1/of/2", "q/1/of/1", "r/1/by/1"} {
		if c, ok := r[0].Template.Counter(path); ok {
			t.Errorf("%s is taken for a roll-up of %v", path, c)
		}
	}
}

// One document may be in several counters: by routes of one pattern, which share a trigger.
func TestRoutesOfOnePattern(t *testing.T) {
	routes, err := route.Parse(`
		orders/{order} by shop -> shops/{shop} : count() as orders : existing
		orders/{o} by buyer.id -> users/{buyer.id} : count() as bought : existing
		orders/{o} by seller -> users/{seller} : count() as sold : existing
		orders/{o} -> totals/orders : count()
		orders/{o} -> totals/amounts : count() as n, sum(amount) where kind == "x" and paid == true as paid`)
	if err != nil {
		t.Fatal(err)
	}

	before := map[string]any{"shop": "a", "buyer": map[string]any{"id": "ann"}, "seller": "bob", "note": "x", "kind": "x", "paid": true, "amount": int64(5)}
	changed := func(field string, value any) map[string]any {
		after := maps.Clone(before)
		after[field] = value
		return after
	}
	moved := changed("shop", "b")
	moved["seller"] = "ann"
	strange := map[string]any{"shop": int64(7), "buyer": "ann", "seller": "no/id", "kind": "x", "paid": true, "amount": int64(5)}

	all := []string{"shops/a", "users/ann", "users/bob", "totals/orders", "totals/amounts"}
	some := []string{"shops/a: unchanged", "users/ann: unchanged", "users/bob: unchanged", "totals/orders: unchanged", "totals/amounts"}
	for _, test := range []struct {
		name          string
		before, after map[string]any
		want          []string
	}{
		{"created", nil, before, all},
		{"deleted", before, nil, all},
		{"moved", before, moved, []string{"shops/a", "shops/b", "users/ann", "users/bob", "totals/orders: unchanged", "totals/amounts: unchanged"}},
		{"unchanged", before, changed("note", "y"), []string{"shops/a: unchanged", "users/ann: unchanged", "users/bob: unchanged", "totals/orders: unchanged", "totals/amounts: unchanged"}},
		{"another amount", before, changed("amount", int64(6)), some},
		{"another by the first condition", before, changed("kind", "y"), some},
		{"another by the second condition", before, changed("paid", false), some},
		{"in no group", nil, strange, []string{"totals/orders", "totals/amounts"}},
		{"in no group any more", before, strange, []string{"shops/a", "users/ann", "users/bob", "totals/orders: unchanged", "totals/amounts: unchanged"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			source, covered := routes.Source("orders/1")
			if !covered {
				t.Error("no route covers it")
			}
			var got []string
			for _, c := range source.Concerned(write{"orders/1", test.before, test.after}) {
				name := c.RollUp
				if c.Unchanged {
					name += ": unchanged"
				}
				got = append(got, name)
			}
			if d := cmp.Diff(test.want, got); d != "" {
				t.Errorf("concerns (-want +got):\n%s", d)
			}
		})
	}

	if d := cmp.Diff([]document.Field{"shop", "buyer.id", "seller"}, routes.Keys("orders/1")); d != "" {
		t.Errorf("fields of groups (-want +got):\n%s", d)
	}
	if _, covered := routes.Source("shops/a"); covered || routes.Keys("shops/a") != nil {
		t.Error("a roll-up is covered")
	}
}

// A write is a document at a path before and after it was written; nil: there is none.
type write struct {
	path          string
	before, after map[string]any
}

func (w write) Known() bool { return w.before != nil || w.after != nil }

func (w write) Updated() bool { return w.before != nil && w.after != nil }

func (w write) Changed(f document.Field) bool {
	before, was := f.In(w.before)
	after, is := f.In(w.after)
	return was != is || !reflect.DeepEqual(before, after)
}

func (w write) Has(f document.Field, after bool) bool {
	_, has := w.Value(f, after)
	return has
}

func (w write) Value(f document.Field, after bool) (any, bool) {
	if after {
		return f.In(w.after)
	}
	return f.In(w.before)
}

func (w write) Held(f document.Field) (before, after any) {
	before, _ = f.In(w.before)
	after, _ = f.In(w.after)
	return before, after
}

// A document that no total of a counter sees, neither before a write nor after it, changes none. A
// total sees a document that meets its conditions and has its field, with a value of any kind. What
// an event may hide counts as seen, and so does everything of an event without documents.
func TestUnseen(t *testing.T) {
	type fields = map[string]any
	at := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	const shown, revenue, at30, seen = "count() where shown == true as shown", "sum(amount) where paid == true as revenue", "count() where at > now - 30d as lately", ""
	for _, test := range []struct {
		totals        string
		before, after fields
		want          string
	}{
		{shown, nil, fields{"shown": false}, "unseen"},
		{shown, fields{"shown": false}, nil, "unseen"},
		{shown, fields{"shown": false}, fields{"shown": "true"}, "unseen"},
		{shown, fields{}, fields{"shown": int64(1)}, "unseen"},
		{shown, nil, fields{"shown": true}, seen},
		{shown, fields{"shown": true}, nil, seen},
		{shown, fields{"shown": false}, fields{"shown": true}, seen},
		{shown, fields{"shown": true}, fields{"shown": false}, seen},
		{shown, nil, fields{"shown": document.Hidden{}}, seen},
		{shown, fields{"shown": document.Hidden{}}, nil, seen},
		{shown + ", count() as all", nil, fields{"shown": false}, seen},
		{shown + ", " + revenue, nil, fields{"shown": false, "paid": true, "amount": int64(1)}, seen},
		{revenue, nil, fields{"paid": true}, "unseen"},
		{revenue, nil, fields{"paid": false, "amount": int64(1)}, "unseen"},
		{revenue, nil, fields{"paid": true, "amount": "one"}, seen},
		{revenue, nil, fields{"paid": true, "amount": nil}, seen},
		{"amount", nil, fields{"x": int64(1)}, "unseen"},
		{"amount", nil, fields{"amount": "one"}, seen},
		{"maximum(amount) as most", nil, fields{}, "unseen"},
		{"latest(at) as last", nil, fields{"at": "noon"}, seen},
		{"average(stars) where stars > 0 as stars", nil, fields{"stars": math.NaN()}, "unseen"},
		{"average(stars) where stars > 0 as stars", nil, fields{"stars": 0.5}, seen},
		{"count() where gone == null as there", nil, fields{}, "unseen"},
		{"count() where gone == null as there", nil, fields{"gone": nil}, seen},
		{at30, nil, fields{}, "unseen"},
		{at30, nil, fields{"at": "noon"}, "unseen"},
		{at30, nil, fields{"at": at}, seen},
		{at30, nil, fields{"at": at.AddDate(200, 0, 0)}, seen},
		{at30, nil, fields{"at": document.Hidden{}}, seen},
	} {
		for _, keyed := range []bool{false, true} {
			text, path := "posts/{post}/comments/{comment} -> posts/{post} : "+test.totals+" : existing", "posts/a/comments/1"
			before, after := maps.Clone(test.before), maps.Clone(test.after)
			if keyed {
				text, path = "comments/{comment} by post -> posts/{post} : "+test.totals+" : existing", "comments/1"
				for _, f := range []fields{before, after} {
					if f != nil {
						f["post"] = "a"
					}
				}
			}
			routes, err := route.Parse(text)
			if err != nil {
				t.Fatal(err)
			}

			source, _ := routes.Source(path)
			concerns := source.Concerned(write{path, before, after})
			if len(concerns) != 1 || concerns[0].RollUp != "posts/a" || concerns[0].Unchanged != (test.want == "unseen") {
				t.Errorf("%s, from %v to %v: %+v, want %s", text, before, after, concerns, test.want)
			}
			if c := source.Concerned(write{path, nil, nil}); slices.ContainsFunc(c, func(c route.Concern) bool { return c.Unchanged }) {
				t.Errorf("%s, without documents: %+v", text, c)
			}
		}
	}

	routes, err := route.Parse("comments/{comment} by post -> posts/{post} : " + shown + " : existing")
	if err != nil {
		t.Fatal(err)
	}
	source, _ := routes.Source("comments/1")
	moved := source.Concerned(write{"comments/1", fields{"post": "a", "shown": false}, fields{"post": "b", "shown": true}})
	if len(moved) != 2 || !moved[0].Unchanged || moved[1].Unchanged {
		t.Errorf("moved and shown: %+v", moved)
	}
	moved = source.Concerned(write{"comments/1", fields{"post": "a", "shown": true}, fields{"post": "b", "shown": false}})
	if len(moved) != 2 || moved[0].Unchanged || !moved[1].Unchanged {
		t.Errorf("moved and no longer shown: %+v", moved)
	}
}

// The routes of a document are found without a change of the routes themselves.
func TestSourceLeavesRoutesAlone(t *testing.T) {
	routes, err := route.Parse("orders/{o} by shop -> shops/{shop} : count() as orders : existing; users/{u} -> stats/users : count() as users; orders/{o} by day -> days/{day} : count() as orders : existing")
	if err != nil {
		t.Fatal(err)
	}
	before := routes.String()
	source, _ := routes.Source("orders/1")
	if keys := source.Keys(); !slices.Equal(keys, []document.Field{"shop", "day"}) || routes.String() != before {
		t.Errorf("the keys are %q of\n%s\nwhich were\n%s", keys, routes, before)
	}
}

// BenchmarkConcerned is what an event costs until its counters are known.
func BenchmarkConcerned(b *testing.B) {
	o := order{shop: "a", at: time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)}
	for _, benchmark := range []struct{ name, path, route string }{
		{"keys=0", "shops/a/orders/1", "shops/{shop}/orders/{order} -> shops/{shop} : sum(amount) as revenue : existing"},
		{"keys=1", "orders/1", "orders/{order} by shop -> shops/{shop} : sum(amount) as revenue : existing"},
		{"keys=2", "orders/1", "orders/{order} by shop, day(at) -> shops/{shop}/days/{day} : sum(amount) as revenue : existing"},
	} {
		b.Run(benchmark.name, func(b *testing.B) {
			routes, err := route.Parse(benchmark.route)
			if err != nil {
				b.Fatal(err)
			}

			b.ReportAllocs()
			for b.Loop() {
				source, _ := routes.Source(benchmark.path)
				if concerns := source.Concerned(&o); len(concerns) != 1 {
					b.Fatalf("the event is about %d counters, want 1", len(concerns))
				}
			}
		})
	}
}

// An order is the change of its amount. It makes the values of its fields each time, as an event's
// are decoded.
type order struct {
	shop   string
	at     time.Time
	amount int64
}

func (*order) Known() bool { return true }

func (*order) Updated() bool { return true }

func (*order) Has(document.Field, bool) bool { return true }

func (o *order) Value(f document.Field, after bool) (any, bool) {
	before, now := o.Held(f)
	if after {
		return now, true
	}
	return before, true
}

func (*order) Changed(f document.Field) bool { return f == "amount" }

func (o *order) Held(f document.Field) (before, after any) {
	switch f {
	case "shop":
		return o.shop, o.shop
	case "at":
		return o.at, o.at
	default:
		return o.amount - 1, o.amount
	}
}

// Two routes by one field name it once: a query may not select a field twice.
func TestGroupsNameAFieldOnce(t *testing.T) {
	routes, err := route.Parse("orders/{o} by shop -> shops/{shop} : count() as orders : existing; orders/{o} by shop -> shop_totals/{shop} : amount : existing")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]document.Field{"shop"}, routes.Keys("orders/1")); d != "" {
		t.Errorf("fields of groups (-want +got):\n%s", d)
	}
}
