package rules

import (
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
)

// recipes are the blocks of the recipes in docs/recipes.md, by heading. docs/test/recipes.test.mjs
// runs the page's code under them.
var recipes = map[string]blockTest{
	"Likes and comments in a post": {
		seed: map[string]fields{"posts/p": {"title": "p"}, comments + "bob's": {"by": "bob", "text": "b"}},
		honest: map[string][]*firestorepb.Write{
			"write, edit, delete": writes(say("ann's", "ann", "a"), say("ann's", "ann", "A"), remove(comments+"ann's")),
			"send twice":          writes(say("ann's", "ann", "a"), say("ann's", "ann", "a")),
			"1,000 letters":       writes(say("ann's", "ann", strings.Repeat("a", 1000))),
		},
		attacks: []blockAttack{
			{"as nobody", "mayWrite() && isId(post) && isId(comment) && isComment(request.resource.data)", nobody, writes(say("x", "ann", "a"))},
			{"of a post whose id no header carries", "isId(post)", ann, writes(set("posts/p /comments/x", fields{"by": "ann", "text": "a"}))},
			{"an id that no header carries", "isId(comment)", ann, writes(say("x ", "ann", "a"))},
			{"a long id", "isId(comment)", ann, writes(say(strings.Repeat("x", 201), "ann", "a"))},
			{"as another", "data.by == request.auth.uid", ann, writes(say("x", "bob", "a"))},
			{"edit another's", "resource.data.by == request.auth.uid", ann, writes(say("bob's", "ann", "a"))},
			{"delete another's", "resource.data.by == request.auth.uid", ann, writes(remove(comments + "bob's"))},
			{"no text", "isComment(request.resource.data)", ann, writes(set(comments+"x", fields{"by": "ann"}))},
			{"a number", "isComment(request.resource.data)", ann, writes(set(comments+"x", fields{"by": "ann", "text": 1}))},
			{"a map", "data.text is string", ann, writes(set(comments+"x", fields{"by": "ann", "text": fields{"a": 1}}))},
			{"1,001 letters", "data.text.size() <= 1000", ann, writes(say("x", "ann", strings.Repeat("a", 1001)))},
			{"another field", "data.keys().hasOnly(['by', 'text'])", ann, writes(set(comments+"x", fields{"by": "ann", "text": "a", "x": 1}))},
		},
		reads:   map[string]func(*database, user) error{"one": get(comments + "bob's"), "100": query("posts/p", "comments", 100)},
		secrets: map[string]func(*database, user) error{"all": query("posts/p", "comments", 0)},
	},
	"Likes that exist anyway": {
		seed: map[string]fields{"photos/p/likes/bob": {"at": "x"}},
		honest: map[string][]*firestorepb.Write{
			"like":                     writes(likePhoto("ann")),
			"like twice":               writes(likePhoto("ann"), likePhoto("ann")),
			"take back":                writes(likePhoto("ann"), remove("photos/p/likes/ann")),
			"take back what is not":    writes(remove("photos/p/likes/ann")),
			"like a photo that is not": writes(transform(set("photos/none/likes/ann", nil), serverTime("at"))),
		},
		attacks: []blockAttack{
			{"as nobody", "mayWrite() && isId(photo) && request.auth.uid == user", nobody, writes(likePhoto("ann"))},
			{"of a photo whose id no header carries", "isId(photo)", ann, writes(transform(set("photos/p\n/likes/ann", nil), serverTime("at")))},
			{"for another", "request.auth.uid == user", ann, writes(likePhoto("dan"))},
			{"over another's", "request.auth.uid == user", ann, writes(likePhoto("bob"))},
			{"take another's back", "request.auth.uid == user", ann, writes(remove("photos/p/likes/bob"))},
			{"nothing", "request.resource.data == {'at': request.time}", ann, writes(set("photos/p/likes/ann", nil))},
			{"text", "request.resource.data == {'at': request.time}", ann, writes(set("photos/p/likes/ann", fields{"at": "x"}))},
			{"text beside", "request.resource.data == {'at': request.time}", ann, writes(transform(set("photos/p/likes/ann", fields{"x": "y"}), serverTime("at")))},
			{"in another collection", "", ann, writes(transform(set("photos/p/like/ann", nil), serverTime("at")))},
			{"below a like", "", ann, writes(transform(set("photos/p/likes/ann/likes/ann", nil), serverTime("at")))},
			{"the photo's total", "", ann, writes(merge("photos/p", fields{"likes": 1000}, "likes"))},
		},
		reads:   map[string]func(*database, user) error{"own": get("photos/p/likes/ann")},
		secrets: map[string]func(*database, user) error{"another's": get("photos/p/likes/bob"), "all": query("photos/p", "likes", 1)},
	},
	"Leaderboard": {
		seed: map[string]fields{
			"players/ann":          {"name": "Ann", "points": 3, "tally": fields{"num_shards": 1}},
			"players/bob":          {"name": "Bob"},
			"players/ann/rounds/1": {"points": 3},
		},
		honest: map[string][]*firestorepb.Write{
			"another name":    writes(merge("players/ann", fields{"name": "A."}, "name")),
			"the same points": writes(set("players/ann", fields{"name": "A.", "points": 3, "tally": fields{"num_shards": 1}})),
		},
		attacks: []blockAttack{
			{"points", "changesOnly(['name'])", ann, writes(merge("players/ann", fields{"points": 4}, "points"))},
			{"points from 3 to 3.0", "keepsInt('points')", ann, writes(merge("players/ann", fields{"points": 3.0}, "points"))},
			{"tally", "changesOnly(['name'])", ann, writes(merge("players/ann", nil, "tally"))},
			{"num_shards from 1 to 1.0, beside an edit", "keepsInt(['tally', 'num_shards'])", ann,
				writes(merge("players/ann", fields{"name": "A.", "tally": fields{"num_shards": 1.0}}, "name", "tally"))},
			{"another field", "changesOnly(['name'])", ann, writes(merge("players/ann", fields{"text": "a"}, "text"))},
			{"a long name", "isText('name', 100)", ann, writes(merge("players/ann", fields{"name": strings.Repeat("a", 101)}, "name"))},
			{"another's name", "request.auth.uid == player", ann, writes(merge("players/bob", fields{"name": "B."}, "name"))},
			{"as another", "request.auth.uid == player", ann, writes(set("players/new", fields{"name": "N."}))},
			{"begin with points", "isUncounted('points')", dan, writes(set("players/dan", fields{"name": "Dan", "points": 1}))},
			{"begin with tally", "changesOnly(['name', 'points'])", dan, writes(set("players/dan", fields{"name": "Dan", "tally": fields{}}))},
			{"begin with a long name", "isText('name', 100)", dan, writes(set("players/dan", fields{"name": strings.Repeat("a", 101)}))},
			{"a round", "", ann, writes(set("players/ann/rounds/2", fields{"points": 1000}))},
			{"delete", "", ann, writes(remove("players/ann"))},
		},
		reads: map[string]func(*database, user) error{
			"one": get("players/bob"), "1,000": query("", "players", 1000), "how many, up to 1,000": sum("", "players", 1000, false)},
		secrets: map[string]func(*database, user) error{
			"1,001": query("", "players", 1001), "how many": sum("", "players", 0, false), "a round": get("players/ann/rounds/1")},
	},
	"Unique visitors": {
		seed: map[string]fields{"visitor_totals/2026-11-21": {"visitors": 1}},
		honest: map[string][]*firestorepb.Write{
			"twice":               writes(visit(0, "ann"), visit(0, "ann")),
			"offline until today": writes(visit(-3, "ann"), visit(0, "ann")),
		},
		attacks: []blockAttack{
			{"as nobody", "mayWrite() && request.auth.uid == user", nobody, writes(visit(0, "ann"))},
			{"as another", "request.auth.uid == user", ann, writes(visit(0, "dan"))},
			{"with text", "request.resource.data.size() == 0", ann, writes(set(dayPath(0)+"ann", fields{"x": "y"}))},
			{"nine days ago", "date > request.time.date() - duration.value(7, 'd')", ann, writes(visit(-9, "ann"))},
			{"in two days", "date <= request.time.date()", ann, writes(visit(2, "ann"))},
			{"no day", "request.resource.data.size() == 0 && isThisWeek(day)", ann, writes(set("days/x/visitors/ann", nil))},
			{"today, written another way", "day.matches('[0-9]{4}-[0-9]{2}-[0-9]{2}')", ann, writes(set(strings.ReplaceAll(dayPath(0), "-", ".")+"ann", nil))},
			{"today and more", "day.matches('[0-9]{4}-[0-9]{2}-[0-9]{2}')", ann, writes(set(strings.TrimSuffix(dayPath(0), "/visitors/")+"x/visitors/ann", nil))},
			{"take back", "", ann, writes(remove(dayPath(0) + "ann"))},
			{"the total", "", ann, writes(merge("visitor_totals/2026-11-21", fields{"visitors": 5}, "visitors"))},
		},
		reads: map[string]func(*database, user) error{
			"a total": get("visitor_totals/2026-11-21"), "100 totals": query("", "visitor_totals", 100)},
		secrets: map[string]func(*database, user) error{
			"who visited": query("days/2026-11-21", "visitors", 1), "a visit": get(dayPath(0) + "bob"), "all totals": query("", "visitor_totals", 0)},
	},
	"Increments that count once": {
		seed: map[string]fields{free + "0": {"count": 5}, free + "1": {"count": 1}, tokens + "old": token("0")},
		attacks: []blockAttack{
			{"twice", "", ann, writes(set(tokens+"old", token("0")), add(free+"0", 1))},
			{"twice, by another shard", "", ann, writes(set(tokens+"old", token("1")), add(free+"1", 1))},
			{"twice, after a deletion", "", ann, writes(remove(tokens+"old"), set(tokens+"old", token("0")), add(free+"0", 1))},
			{"as nobody", "", nobody, writes(set(tokens+"new", token("0")), add(free+"0", 1))},
			{"without its increment", "goesUp(counter, request.resource.data.shard)", ann, writes(set(tokens+"new", token("0")))},
			{"of another shard", "goesUp(counter, request.resource.data.shard)", ann, writes(set(tokens+"new", token("1")), add(free+"0", 1))},
			{"of a missing shard", "goesUp(counter, request.resource.data.shard)", ann, writes(set(tokens+"new", token("2")))},
			{"of no shard", "goesUp(counter, request.resource.data.shard)", ann, writes(set(tokens+"new", token(nil)))},
			{"whose id no header carries", "isId(token)", ann, writes(set(tokens+"new\n", token("0")), add(free+"0", 1))},
			{"that never expires", "expiresInTime(request.resource.data.expire_at)", ann, writes(set(tokens+"new", fields{"shard": "0", "expire_at": "never"}), add(free+"0", 1))},
			{"that has expired", "at > request.time + duration.value(1, 'd')", ann, writes(set(tokens+"new", expiring(-time.Hour)), add(free+"0", 1))},
			{"that expires within a day", "at > request.time + duration.value(1, 'd')", ann, writes(set(tokens+"new", expiring(23*time.Hour)), add(free+"0", 1))},
			{"that stays for 61 days", "at < request.time + duration.value(60, 'd')", ann, writes(set(tokens+"new", expiring(61*24*time.Hour)), add(free+"0", 1))},
			{"that stays for ever", "at < request.time + duration.value(60, 'd')", ann,
				writes(set(tokens+"new", fields{"shard": "0", "expire_at": time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)}), add(free+"0", 1))},
			{"that holds text", "request.resource.data.keys().hasOnly(['shard', 'expire_at'])", ann,
				writes(merge(tokens+"new", fields{"shard": "0", "expire_at": expiring(time.Hour * 48)["expire_at"], "x": "y"}, "shard", "expire_at", "x"), add(free+"0", 1))},
			{"with 2", "", ann, writes(set(tokens+"new", token("0")), add(free+"0", 2))},
		},
		reads:   map[string]func(*database, user) error{"whether it is there": get(tokens + "new")},
		secrets: map[string]func(*database, user) error{"all": query("counters/free", "tokens", 1)},
	},
}

// Each block of docs/recipes.md is tested: here, in TestBlocks or in TestChanges.
func TestRecipes(t *testing.T) {
	t.Parallel()
	rules := beside(t, firestoreRules(t), docsCode(t, "recipes.md")["Totals in the app's own documents"]...)
	code := map[string]string{}
	for heading, found := range docsCode(t, "recipes.md") {
		if _, ok := blocks[heading]; ok || heading == "To change" {
			continue
		}
		for _, block := range found {
			switch {
			case strings.HasPrefix(block, "import "): // docs/test/recipes.test.mjs runs it
			case !strings.HasPrefix(block, "match ") || code[heading] != "":
				t.Errorf("code under %q that is not tested:\n%s", heading, block)
			default:
				code[heading] = block
			}
		}
	}
	for heading := range code {
		if _, ok := recipes[heading]; !ok {
			t.Errorf("the rules under %q are not tested", heading)
		}
	}
	for heading, test := range recipes {
		t.Run(heading, func(t *testing.T) {
			t.Parallel()
			test.run(t, code[heading], rules)
		})
	}
	t.Run("tokens with their increments", func(t *testing.T) {
		t.Parallel()
		d := newDatabase(t, seed)
		d.setRules(beside(t, rules, code["Increments that count once"]))
		d.judges(ann, map[string][]*firestorepb.Write{
			"one":                              writes(set(tokens+"a", token("0")), add(free+"0", 1)),
			"the other way":                    writes(add(free+"0", 1), set(tokens+"a", token("0"))),
			"a new shard":                      writes(set(tokens+"a", token("5")), add(free+"5", 1)),
			"of two shards":                    writes(set(tokens+"a", token("0")), set(tokens+"b", token("1")), add(free+"0", 1), add(free+"1", 1)),
			"no token":                         writes(add(free+"0", 1)),
			"sent after 28 days":               writes(set(tokens+"a", expiring(48*time.Hour)), add(free+"0", 1)),
			"of a phone that is 29 days ahead": writes(set(tokens+"a", expiring(59*24*time.Hour)), add(free+"0", 1)),
		}, nil)
	})
}

const comments, tokens = "posts/p/comments/", "counters/free/tokens/"

func say(id string, by user, text string) *firestorepb.Write {
	return set(comments+id, fields{"by": string(by), "text": text})
}

func likePhoto(u user) *firestorepb.Write {
	return transform(set("photos/p/likes/"+string(u), nil), serverTime("at"))
}

// dayPath is the path of the visitors' documents, so many days after today in UTC. No case rests on the
// day's end coming after that of the test.
func dayPath(days int) string {
	return "days/" + time.Now().UTC().AddDate(0, 0, days).Format(time.DateOnly) + "/visitors/"
}

func visit(days int, u user) *firestorepb.Write { return set(dayPath(days)+string(u), nil) }

func token(shard any) fields {
	return fields{"shard": shard, "expire_at": expiring(30 * 24 * time.Hour)["expire_at"]}
}

// expiring is a token of shard 0 that stays for so long.
func expiring(after time.Duration) fields {
	return fields{"shard": "0", "expire_at": time.Now().Add(after)}
}
