package rules

import (
	"maps"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/firestore-tally/tally/rollup/route"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func docsPage(t *testing.T, name string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

// The routes in the page's text are routes; recipes.test.mjs runs the routes that stand alone.
func TestDocsRoutes(t *testing.T) {
	routes := regexp.MustCompile("`([^`\n]+ -> [^`\n]+)`").FindAllStringSubmatch(docsPage(t, "security-rules.md"), -1)
	if len(routes) != 1 {
		t.Errorf("%d routes, want 1", len(routes))
	}
	for _, m := range routes {
		if _, err := route.Parse(m[1]); err != nil {
			t.Error(err)
		}
	}
}

// The longest path that isId lets through has room in an event, whichever recipe it is of. Its ids
// have 200 bytes each.
func TestPathsHaveRoomInEvents(t *testing.T) {
	patterns := regexp.MustCompile("(?m)^`{0,1}([^` \n]+)(?: by [^\n]*)? +-> ").FindAllStringSubmatch(docsPage(t, "recipes.md")+docsPage(t, "security-rules.md"), -1)
	if len(patterns) < 10 {
		t.Fatalf("%d patterns on the page", len(patterns))
	}
	for _, m := range patterns {
		longest := regexp.MustCompile(`{\w+}`).ReplaceAllString("documents/"+m[1], strings.Repeat("x", 200))
		if len(longest) > 1024 {
			t.Errorf("%s: %d bytes, want at most 1,024", m[1], len(longest))
		}
	}
}

// docsCode returns the JavaScript and the rules on a page of the docs by the heading that they
// stand under. Blocks under one heading are in order.
func docsCode(t *testing.T, name string) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	heading := ""
	for _, m := range regexp.MustCompile("(?ms)^##+ (.*?)$|^```js\n(.*?)^```").FindAllStringSubmatch(docsPage(t, name), -1) {
		if m[1] != "" {
			heading = m[1]
		} else {
			found[heading] = append(found[heading], m[2])
		}
	}
	return found
}

// rulesCode returns the code of both pages that have rules.
func rulesCode(t *testing.T) map[string][]string {
	t.Helper()
	code := docsCode(t, "recipes.md")
	for heading, blocks := range docsCode(t, "security-rules.md") {
		if code[heading] != nil {
			t.Errorf("%q stands on both pages", heading)
		}
		code[heading] = blocks
	}
	return code
}

// replaced returns the rules with one part replaced, which must be there once.
func replaced(t *testing.T, rules, old, new string) string {
	t.Helper()
	if n := strings.Count(rules, old); n != 1 {
		t.Fatalf("%d times in the rules, want once: %s", n, old)
	}
	return strings.Replace(rules, old, new, 1)
}

// What docs/security-rules.md says to change, changed.
func TestChanges(t *testing.T) {
	t.Parallel()
	code := rulesCode(t)["To change"]
	if len(code) != 3 {
		t.Fatalf("%d blocks to change, want 3", len(code))
	}
	const who, much, inShards = "return request.auth != null;\n", "return amount == 1;\n", "isId(counter) && "
	up := writes(add(free+"0", 1))
	for _, test := range []struct {
		name             string
		as               user
		old, new         string
		allowed, refused map[string][]*firestorepb.Write
	}{
		{name: "anonymous accounts", as: anonymous, old: who, new: code[0], refused: map[string][]*firestorepb.Write{"increment": up}},
		{name: "other accounts", as: ann, old: who, new: code[0], allowed: map[string][]*firestorepb.Write{"increment": up}},
		{name: "everybody", as: signedOut, old: who, new: "return true;\n",
			allowed: map[string][]*firestorepb.Write{"increment": up}},
		{name: "down", as: ann, old: much, new: code[1],
			allowed: map[string][]*firestorepb.Write{
				"1": up, "-1": writes(add(free+"0", -1)), "0 to -1": writes(add(free+"4", -1)),
				"each shard": writes(add(free+"0", -1), add(free+"1", -1), add(free+"9", -1)),
			},
			refused: map[string][]*firestorepb.Write{
				"2": writes(add(free+"0", 2)), "-2": writes(add(free+"0", -2)), "0": writes(add(free+"0", 0)), "twice": writes(add(free+"0", -1), add(free+"0", -1)),
				"-1.0": writes(add(free+"0", -1.0)),
			}},
		{name: "up to 5", as: ann, old: much, new: "return amount >= 1 && amount <= 5;\n",
			allowed: map[string][]*firestorepb.Write{
				"5": writes(add(free+"0", 5)), "0 to 3": writes(set(free+"4", fields{"count": 3})), "twice": writes(add(free+"0", 1), add(free+"0", 1)),
			},
			refused: map[string][]*firestorepb.Write{
				"6": writes(add(free+"0", 6)), "-1": writes(add(free+"0", -1)), "2.5": writes(add(free+"0", 2.5)),
				"NaN": writes(add(free+"0", math.NaN())),
			}},
		{name: "counters that exist", as: ann, old: inShards, new: inShards + strings.TrimPrefix(code[2], "&& ") + " && ",
			allowed: map[string][]*firestorepb.Write{
				"num_shards": writes(add(free+"9", 1)), "numShards": writes(add("counters/camel/shards/9", 1)),
				"a document without number": writes(add("counters/untold/shards/9", 1)),
			},
			refused: map[string][]*firestorepb.Write{
				"no document":                writes(add("counters/none/shards/0", 1)),
				"a document of no use":       writes(add("counters/none/shards/0", 1), set("counters/none/x/y", nil)),
				"declared by the client":     writes(set("counters/none", fields{"num_shards": 1}), add("counters/none/shards/0", 1)),
				"one of two has no document": writes(add(free+"0", 1), add("counters/none/shards/0", 1)),
			}},
		{name: "the number of before", as: ann, old: "isShard(shard, numShards())", new: "isShard(shard, 50)",
			allowed: map[string][]*firestorepb.Write{"a surplus shard": writes(add(free+"49", 1)), "increment": up},
			refused: map[string][]*firestorepb.Write{"another": writes(add(free+"50", 1)), "2": writes(add(free+"49", 2))}},
		{name: "all frozen", as: ann, old: who, new: "return false;\n",
			refused: map[string][]*firestorepb.Write{"increment": up, "a new counter": writes(add("counters/none/shards/0", 1))}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := newDatabaseUnder(t, replaced(t, firestoreRules(t), test.old, test.new), seed)
			d.judges(test.as, test.allowed, test.refused)
		})
	}
	t.Run("another field", func(t *testing.T) {
		t.Parallel()
		d := newDatabaseUnder(t, strings.ReplaceAll(firestoreRules(t), "'count'", "'Count'"), seed)
		d.judges(ann, map[string][]*firestorepb.Write{
			"increment": writes(transform(merge(free+"5", nil), increment("Count", 1))),
		}, map[string][]*firestorepb.Write{"count": up})
	})
}

// judges checks that the rules allow and refuse commits, and undoes each.
func (d *database) judges(u user, allowed, refused map[string][]*firestorepb.Write) {
	d.t.Helper()
	for name, ws := range refused {
		if err := d.commit(u, ws...); status.Code(err) != codes.PermissionDenied {
			d.t.Errorf("%s: %v, want PermissionDenied", name, err)
		}
	}
	for name, ws := range allowed {
		if err := d.commit(u, ws...); err != nil {
			d.t.Errorf("%s: %v", name, err)
		}
		d.restore(ws, seed)
	}
}

// A blockTest tells what a block of rules allows and refuses.
type blockTest struct {
	seed    map[string]fields
	honest  map[string][]*firestorepb.Write // as ann, one after the other
	attacks []blockAttack
	reads   map[string]func(*database, user) error // as ann
	secrets map[string]func(*database, user) error // not for ann
}

// blocks are the rules that the pages have ready, by heading.
var blocks = map[string]blockTest{
	"Likes": {
		seed: map[string]fields{"posts/p/likes/bob": {"at": "x"}},
		honest: map[string][]*firestorepb.Write{
			"like":                    writes(like("ann")),
			"like twice":              writes(like("ann"), like("ann")),
			"take back":               writes(like("ann"), remove("posts/p/likes/ann")),
			"take back what is not":   writes(remove("posts/p/likes/ann")),
			"like a post that is not": writes(transform(set("posts/none/likes/ann", nil), serverTime("at"))),
		},
		attacks: []blockAttack{
			{"signed out", "mayWrite() && isId(post) && request.auth.uid == user", signedOut, writes(like("ann"))},
			{"of a post whose id no header carries", "isId(post)", ann, writes(transform(set("posts/p\n/likes/ann", nil), serverTime("at")))},
			{"for another", "request.auth.uid == user", ann, writes(like("dan"))},
			{"over another's", "request.auth.uid == user", ann, writes(like("bob"))},
			{"take another's back", "request.auth.uid == user", ann, writes(remove("posts/p/likes/bob"))},
			{"nothing", "request.resource.data == {'at': request.time}", ann, writes(set("posts/p/likes/ann", nil))},
			{"text", "request.resource.data == {'at': request.time}", ann, writes(set("posts/p/likes/ann", fields{"at": "x"}))},
			{"text in addition", "request.resource.data == {'at': request.time}", ann, writes(transform(set("posts/p/likes/ann", fields{"x": "y"}), serverTime("at")))},
			{"in another collection", "", ann, writes(transform(set("posts/p/like/ann", nil), serverTime("at")))},
			{"below a like", "", ann, writes(transform(set("posts/p/likes/ann/likes/ann", nil), serverTime("at")))},
			{"the post's total", "", ann, writes(merge("posts/p", fields{"likes": 1000}, "likes"))},
		},
		reads:   map[string]func(*database, user) error{"own": get("posts/p/likes/ann")},
		secrets: map[string]func(*database, user) error{"another's": get("posts/p/likes/bob"), "all": query("posts/p", "likes", 1)},
	},
	"Totals in the app's own documents": {
		seed: map[string]fields{
			"posts/p":   {"title": "p", "likes": 2, "count": 1, "tally": tallied(2)},
			"posts/new": {"title": "new"},
			"posts/f":   {"title": "f", "likes": 2.5},
		},
		honest: map[string][]*firestorepb.Write{
			"create":                         writes(set("posts/q", fields{"title": "q"})),
			"create with totals of 0":        writes(set("posts/q", fields{"title": "q", "likes": 0, "comments": 0})),
			"create with 200 letters":        writes(set("posts/q", fields{"title": strings.Repeat("é", 200)})),
			"update":                         writes(merge("posts/p", fields{"title": "r"}, "title")),
			"update with the same total":     writes(set("posts/p", fields{"title": "r", "likes": 2, "count": 1, "tally": tallied(2)})),
			"update what is not counted yet": writes(set("posts/new", fields{"title": "r"})),
			"update next to a fraction":      writes(merge("posts/f", fields{"title": "r"}, "title")),
		},
		attacks: []blockAttack{
			{"creates, signed out", "mayWrite()", signedOut, writes(set("posts/q", fields{"title": "q"}))},
			{"updates, signed out", "mayWrite()", signedOut, writes(merge("posts/p", fields{"title": "q"}, "title"))},
			{"create an id that no header carries", "isId(post)", ann, writes(set("posts/q ", fields{"title": "q"}))},
			{"create with 1", "isUncounted('likes')", ann, writes(post(fields{"likes": 1}))},
			{"create with comments", "isUncounted('comments')", ann, writes(post(fields{"likes": 0, "comments": -1}))},
			{"create with 0.0", "value is int", ann, writes(post(fields{"likes": 0.0}))},
			{"create with NaN", "isUncounted('likes')", ann, writes(post(fields{"likes": math.NaN()}))},
			{"create with text", "isUncounted('likes')", ann, writes(post(fields{"likes": "0"}))},
			{"create with null", "isUncounted('likes')", ann, writes(post(fields{"likes": nil}))},
			{"create with a map", "isUncounted('likes')", ann, writes(post(fields{"likes": fields{"x": 0}}))},
			{"create with the largest integer", "value == 0", ann, writes(post(fields{"likes": math.MaxInt64}))},
			{"create by increment", "isUncounted('likes')", ann, writes(transform(post(nil), increment("likes", 1)))},
			{"create with tally", "changesOnly(['title', 'likes', 'comments'])", ann, writes(post(fields{"tally": fields{"as_of": 1}}))},
			{"create with tally of null", "changesOnly(['title', 'likes', 'comments'])", ann, writes(post(fields{"tally": nil}))},
			{"create with a time in tally", "changesOnly(['title', 'likes', 'comments'])", ann, writes(transform(post(nil), serverTime("tally.as_of")))},
			{"create with another field", "changesOnly(['title', 'likes', 'comments'])", ann, writes(post(fields{"text": strings.Repeat("a", 1_000_000)}))},
			{"create with a long title", "isText('title', 200)", ann, writes(post(fields{"title": strings.Repeat("a", 201)}))},
			{"create with a title that is a list", "text is string", ann, writes(post(fields{"title": array("a")}))},
			{"create without a title", "isText('title', 200)", ann, writes(set("posts/q", nil))},
			{"a long title", "isText('title', 200)", ann, writes(merge("posts/p", fields{"title": strings.Repeat("a", 1_000_000)}, "title"))},
			{"another field", "changesOnly(['title'])", ann, writes(merge("posts/p", fields{"text": strings.Repeat("a", 1_000_000)}, "text"))},
			{"a field that looks like a total", "changesOnly(['title'])", ann, writes(merge("posts/p", fields{"Likes": 5}, "Likes"))},
			{"set a total", "changesOnly(['title'])", ann, writes(merge("posts/p", fields{"likes": 3}, "likes"))},
			{"set a total that is missing", "changesOnly(['title'])", ann, writes(merge("posts/p", fields{"comments": 0}, "comments"))},
			{"increment a total", "changesOnly(['title'])", ann, writes(transform(merge("posts/p", nil), increment("likes", 1)))},
			{"delete a total", "changesOnly(['title']) && isText('title', 200)\n    && keepsInt('likes')", ann, writes(merge("posts/p", nil, "likes"))},
			{"set without merge", "changesOnly(['title'])", ann, writes(set("posts/p", fields{"title": "r"}))},
			{"a field of tally", "changesOnly(['title'])", ann, writes(merge("posts/p", fields{"tally": fields{"num_shards": 3}}, "tally.num_shards"))},
			{"a new field of tally", "changesOnly(['title'])", ann, writes(transform(merge("posts/p", nil), serverTime("tally.at")))},
			{"delete tally", "changesOnly(['title'])", ann, writes(merge("posts/p", nil, "tally"))},
			{"tally where there is none", "changesOnly(['title'])", ann, writes(merge("posts/new", fields{"tally": fields{}}, "tally"))},
			{"a total of earlier routes", "changesOnly(['title'])", ann, writes(merge("posts/p", nil, "count"))},
			{"likes from 2 to 2.0", "keepsInt('likes')", ann, writes(merge("posts/p", fields{"likes": 2.0}, "likes"))},
			{"num_shards from 2 to 2.0, with an edit", "keepsInt(['tally', 'num_shards'])", ann,
				writes(merge("posts/p", fields{"title": "r", "tally": fields{"num_shards": 2.0}}, "title", "tally.num_shards"))},
			{"all of tally, num_shards 2.0", "keepsInt(['tally', 'num_shards'])", ann, writes(merge("posts/p", fields{"tally": tallied(2.0)}, "tally"))},
			{"took from 15000 to 15000.0, with an edit", "keepsInt(['tally', 'took'])", ann,
				writes(merge("posts/p", fields{"title": "r", "tally": fields{"took": 15000.0}}, "title", "tally.took"))},
			// What rules tell apart: names as bytes, and a time that is a microsecond later.
			{"totals as bytes", "changesOnly(['title'])", ann, writes(merge("posts/p", fields{"tally": fields{"totals": array(bytes("likes"))}}, "tally.totals"))},
			{"routes as bytes", "changesOnly(['title'])", ann, writes(merge("posts/p", fields{"tally": fields{"routes": bytes("5f0c")}}, "tally.routes"))},
			{"as_of", "changesOnly(['title'])", ann, writes(merge("posts/p", fields{"tally": fields{"as_of": time.Unix(1, 1000)}}, "tally.as_of"))},
			{"paced_until", "changesOnly(['title'])", ann, writes(merge("posts/p", fields{"tally": fields{"paced_until": time.Unix(60, 0)}}, "tally.paced_until"))},
			{"delete a post", "", ann, writes(remove("posts/p"))},
			{"delete and create", "", ann, writes(remove("posts/p"), post(fields{"likes": 5}))},
		},
		reads:   map[string]func(*database, user) error{"a post": get("posts/p"), "100": query("", "posts", 100)},
		secrets: map[string]func(*database, user) error{"101": query("", "posts", 101), "all": query("", "posts", 0)},
	},
	"Ratings": {
		seed: map[string]fields{"shops/s/ratings/bob": {"stars": 4}, "shops/s": {"ratings": 1, "rating": 4}},
		honest: map[string][]*firestorepb.Write{
			"1 star":       writes(rate("ann", 1)),
			"5 stars":      writes(rate("ann", 5)),
			"change":       writes(rate("ann", 5), rate("ann", 1)),
			"send twice":   writes(rate("ann", 5), rate("ann", 5)),
			"take back":    writes(rate("ann", 5), remove("shops/s/ratings/ann")),
			"another shop": writes(rate("ann", 3), set("shops/z/ratings/ann", fields{"stars": 3})),
		},
		attacks: []blockAttack{
			{"signed out", "mayWrite() && isId(shop) && request.auth.uid == user", signedOut, writes(rate("ann", 5))},
			{"of a shop whose id no header carries", "isId(shop)", ann, writes(set("shops/ /ratings/ann", fields{"stars": 5}))},
			{"for another", "request.auth.uid == user", ann, writes(rate("dan", 5))},
			{"over another's", "request.auth.uid == user", ann, writes(rate("bob", 1))},
			{"take another's back", "request.auth.uid == user", ann, writes(remove("shops/s/ratings/bob"))},
			{"0 stars", "stars >= 1", ann, writes(rate("ann", 0))},
			{"-1000 stars", "stars >= 1", ann, writes(rate("ann", -1000))},
			{"6 stars", "stars <= 5", ann, writes(rate("ann", 6))},
			{"4 and 5 stars", "stars <= 5", ann, writes(rate("ann", 4), transform(merge("shops/s/ratings/ann", nil), increment("stars", 5)))},
			{"4.5 stars", "stars is int", ann, writes(rate("ann", 4.5))},
			{"5.0 stars", "stars is int", ann, writes(rate("ann", 5.0))},
			{"NaN", "isRating(request.resource.data.stars)", ann, writes(rate("ann", math.NaN()))},
			{"text", "isRating(request.resource.data.stars)", ann, writes(rate("ann", "5"))},
			{"no stars", "isRating(request.resource.data.stars)", ann, writes(set("shops/s/ratings/ann", nil))},
			{"another field", "request.resource.data.keys().hasOnly(['stars'])", ann, writes(set("shops/s/ratings/ann", fields{"stars": 5, "x": "y"}))},
			{"the totals", "", ann, writes(merge("shops/s", fields{"rating": 1000}, "rating"))},
		},
		reads: map[string]func(*database, user) error{
			"own": get("shops/s/ratings/ann"), "a shop": get("shops/s"), "100 shops": query("", "shops", 100)},
		secrets: map[string]func(*database, user) error{
			"another's": get("shops/s/ratings/bob"), "all": query("shops/s", "ratings", 1), "all shops": query("", "shops", 0)},
	},
	"Shards with several fields": {
		seed: map[string]fields{sums + "1": {"likes": 2, "views": 2}, sums + "2": {"views": "2"}, sums + "3": {"likes": 1, "x": 3}},
		honest: map[string][]*firestorepb.Write{
			"likes":          writes(transform(merge(sums+"0", nil), increment("likes", 1))),
			"likes, views":   writes(transform(merge(sums+"0", nil), increment("likes", 1), increment("views", 1))),
			"a new shard":    writes(set(sums+"9", fields{"views": 1})),
			"an old shard":   writes(transform(merge(sums+"1", nil), increment("views", 1))),
			"next to a text": writes(transform(merge(sums+"2", nil), increment("likes", 1))),
		},
		attacks: []blockAttack{
			{"signed out", "mayWrite()", signedOut, writes(set(sums+"0", fields{"likes": 1}))},
			{"of a post whose id no header carries", "isId(post)", ann, writes(set("posts/p /counters/c/shards/0", fields{"likes": 1}))},
			{"of a counter whose id no header carries", "isId(name)", ann, writes(set("posts/p/counters/ c/shards/0", fields{"likes": 1}))},
			{"likes by 2", "(adds('likes') || adds('views'))\n    && (adds('likes') || isKept('likes'))", ann, writes(set(sums+"0", fields{"likes": 2}))},
			{"likes by 1, views by 2", "(adds('views') || isKept('views'))", ann, writes(transform(merge(sums+"0", nil), increment("likes", 1), increment("views", 2)))},
			{"likes by 2, views by 1", "(adds('likes') || isKept('likes'))", ann, writes(transform(merge(sums+"0", nil), increment("likes", 2), increment("views", 1)))},
			{"views to null", "(adds('views') || isKept('views'))", ann, writes(set(sums+"9", fields{"likes": 1, "views": nil}))},
			{"likes by 1, views to 2.0", "(after is int) == (before is int)", ann, writes(merge(sums+"1", fields{"likes": 3, "views": 2.0}, "likes", "views"))},
			{"likes by 1, views gone", "(adds('views') || isKept('views'))", ann, writes(set(sums+"1", fields{"likes": 3}))},
			{"what is there", "(adds('likes') || adds('views'))", ann, writes(set(sums+"1", fields{"likes": 2, "views": 2}))},
			{"a touch", "(adds('likes') || adds('views'))", ann, writes(merge(sums+"1", nil))},
			{"an empty shard", "(adds('likes') || adds('views'))", ann, writes(set(sums+"9", nil))},
			{"zeros", "(adds('likes') || adds('views'))", ann, writes(set(sums+"9", fields{"likes": 0, "views": 0}))},
			{"another field", "holdsOnly(['likes', 'views'])", ann, writes(transform(merge(sums+"0", nil), increment("likes", 1), increment("x", 1)))},
			{"a shard with another field, to 3.0", "holdsOnly(['likes', 'views'])", ann, writes(transform(merge(sums+"3", fields{"x": 3.0}, "x"), increment("likes", 1)))},
			{"shard 10", "isShard(shard, 10)", ann, writes(set(sums+"10", fields{"likes": 1}))},
			{"delete", "", ann, writes(remove(sums + "1"))},
			{"the roll-up", "", ann, writes(set("posts/p/rollups/c", fields{"likes": 1}))},
		},
		reads: map[string]func(*database, user) error{
			"the sum": sum("posts/p/counters/c", "shards", 0, false), "the roll-up": get("posts/p/rollups/c"), "100 roll-ups": query("posts/p", "rollups", 100)},
		secrets: map[string]func(*database, user) error{"all roll-ups": query("posts/p", "rollups", 0)},
	},
}

const sums = "posts/p/counters/c/shards/"

func like(u user) *firestorepb.Write {
	return transform(set("posts/p/likes/"+string(u), nil), serverTime("at"))
}

// post creates a post with these fields, and a title if they have none.
func post(f fields) *firestorepb.Write {
	all := fields{"title": "q"}
	maps.Copy(all, f)
	return set("posts/q", all)
}

// tallied is what a roll-up has.
func tallied(numShards any) fields {
	return fields{"as_of": time.Unix(1, 0), "num_shards": numShards, "paced_until": time.Unix(2, 0), "routes": "5f0c", "totals": array("likes", "comments"), "former": array("count"), "took": 15000}
}

func bytes(text string) *firestorepb.Value {
	return &firestorepb.Value{ValueType: &firestorepb.Value_BytesValue{BytesValue: []byte(text)}}
}

func rate(u user, stars any) *firestorepb.Write {
	return set("shops/s/ratings/"+string(u), fields{"stars": stars})
}

// A blockAttack is a commit that a block must refuse, and must let through once the part, if it is
// not "", is true instead.
type blockAttack struct {
	name   string
	part   string
	user   user
	writes []*firestorepb.Write
}

func TestBlocks(t *testing.T) {
	t.Parallel()
	code := rulesCode(t)
	for heading, test := range blocks {
		t.Run(heading, func(t *testing.T) {
			t.Parallel()
			if len(code[heading]) != 1 {
				t.Fatalf("%d blocks on the page, want 1", len(code[heading]))
			}
			test.run(t, code[heading][0], firestoreRules(t))
		})
	}
}

// withBlocks returns the rules with blocks put where docs/security-rules.md says.
func withBlocks(t *testing.T, rules string, blocks ...string) string {
	t.Helper()
	const rollUps = "    match /rollups/{counter} {\n"
	return replaced(t, rules, rollUps, strings.Join(blocks, "")+rollUps)
}

// run has the block judged, with the rules around it.
func (test blockTest) run(t *testing.T, block, rules string) {
	d := newDatabaseUnder(t, withBlocks(t, rules, block), test.seed)
	for name, ws := range test.honest {
		for _, w := range ws {
			if err := d.commit(ann, w); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		d.restore(ws, test.seed)
	}
	for name, read := range test.reads {
		if err := read(d, ann); err != nil {
			t.Errorf("read %s: %v", name, err)
		}
	}
	for name, read := range test.secrets {
		if err := read(d, ann); status.Code(err) != codes.PermissionDenied {
			t.Errorf("read %s: %v, want PermissionDenied", name, err)
		}
	}
	byPart := map[string][]blockAttack{}
	for _, a := range test.attacks {
		if err := d.commit(a.user, a.writes...); status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s: answer %v, want PermissionDenied", a.name, err)
		}
		if a.part != "" {
			byPart[a.part] = append(byPart[a.part], a)
		}
	}
	for part, attacks := range byPart {
		if !strings.Contains(block, part) {
			t.Errorf("not on the page: %s", part)
		}
		d.setRules(withBlocks(t, rules, strings.ReplaceAll(block, part, "true")))
		for _, a := range attacks {
			if err := d.commit(a.user, a.writes...); err != nil {
				t.Errorf("%s: refused without %q too: %v", a.name, part, err)
			}
			d.restore(a.writes, test.seed)
		}
	}
}
