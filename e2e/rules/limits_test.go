package rules

import (
	"fmt"
	"strings"
	"testing"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/firestore-tally/tally/internal/tool/rules"
	"github.com/firestore-tally/tally/rollup/route"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The largest commits that the emulator accepts, for docs/security-rules.md. Firestore allows 20
// document accesses for a commit, and 10 for each write in it.
func TestLimits(t *testing.T) {
	t.Parallel()
	documents := map[string]fields{}
	for i := range 30 {
		documents[fmt.Sprintf("counters/free%d", i)] = fields{"num_shards": 100}
		documents[fmt.Sprintf("counters/open%d", i)] = fields{"num_shards": 100, "frozen": false}
	}
	for _, test := range []struct {
		name  string
		most  int
		write func(i int) *firestorepb.Write
	}{
		{"increments of counters with documents", 10, func(i int) *firestorepb.Write { return add(fmt.Sprintf("counters/free%d/shards/0", i), 1) }},
		{"increments of counters without documents", 20, func(i int) *firestorepb.Write { return add(fmt.Sprintf("counters/new%d/shards/0", i), 1) }},
		{"increments of counters, frozen false", 10, func(i int) *firestorepb.Write { return add(fmt.Sprintf("counters/open%d/shards/0", i), 1) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := newDatabase(t, documents)
			var ws []*firestorepb.Write
			for i := range test.most {
				ws = append(ws, test.write(i))
			}
			if err := d.commit(ann, append(ws, test.write(test.most))...); status.Code(err) != codes.PermissionDenied {
				t.Errorf("%d: %v, want PermissionDenied", test.most+1, err)
			}
			if err := d.commit(ann, ws...); err != nil {
				t.Errorf("%d: %v", test.most, err)
			}
		})
	}
	t.Run("expressions", func(t *testing.T) {
		t.Parallel()
		d := newDatabase(t, seed)
		for _, test := range []struct {
			more int
			want codes.Code
		}{{500, codes.OK}, {1000, codes.PermissionDenied}} {
			d.setRules(withMore(t, firestoreRules(t), test.more))
			for name, ws := range map[string][]*firestorepb.Write{
				"increment": writes(add(free+"0", 1)), "increment without a document": writes(add("counters/new/shards/9", 1)),
			} {
				if err := d.commit(ann, ws...); status.Code(err) != test.want {
					t.Errorf("%s, with %d expressions more: %v, want %v", name, test.more, err, test.want)
				}
				d.restore(ws, seed)
			}
		}
	})
	t.Run("all shards of a counter", func(t *testing.T) {
		t.Parallel()
		var ws []*firestorepb.Write
		for i := range 100 {
			ws = append(ws, add(fmt.Sprintf("counters/free0/shards/%d", i), 1))
		}
		if err := newDatabase(t, documents).commit(ann, ws...); err != nil {
			t.Error(err)
		}
	})
}

// A request may evaluate 1,000 expressions. What tally init writes for ten routes of one path, each
// with a window, a document that must exist and fields of its own, leaves room for an honest write,
// and for one of a document with the totals of ten routes.
func TestExpressionsUnderInit(t *testing.T) {
	t.Parallel()
	var text []string
	documents := map[string]fields{}
	honest := fields{}
	for i := range 10 {
		text = append(text,
			fmt.Sprintf("rooms/{room}/members/{user} -> h%d/{room} : count() where at > now - 1h as n, count() where k%d in [\"x\", \"y\"] as k : existing", i, i),
			fmt.Sprintf("posts/{post}/likes%d/{user} -> posts/{post} : count() as likes%d : existing", i, i))
		documents[fmt.Sprintf("h%d/r", i)] = fields{"a": 1}
		honest[fmt.Sprint("k", i)] = "z"
	}
	routes, err := route.Parse(strings.Join(text, "\n"))
	if err != nil {
		t.Fatal(err)
	}

	answered := decided.ReplaceAllString(rules.For(firestoreRules(t), routes, rules.Answers{}), "mayWrite()$1")
	d := newDatabaseUnder(t, answered, documents)
	for name, w := range map[string]*firestorepb.Write{
		"a source":                   transform(set("rooms/r/members/ann", honest), serverTime("at")),
		"a document with ten totals": set("posts/p", fields{"title": "One"}),
	} {
		if err := d.commit(ann, w); err != nil {
			t.Errorf("%s: %v\n%s", name, err, answered)
		}
	}
}

// What one request writes under the blocks of docs/recipes.md, and with the lines by which
// docs/security-rules.md bounds that.
func TestRequests(t *testing.T) {
	t.Parallel()
	code := rulesCode(t)
	likes, comments, tokens := code["Likes"][0], code["Likes and comments in a post"][1], code["Increments that count once"][1]
	created := code["Counters that clients create"][0]
	ofRoom := "&& exists(/databases/$(database)/documents/rooms/$(counter))"
	if !strings.Contains(docsPage(t, "security-rules.md"), "`"+ofRoom+"`") {
		t.Errorf("not on the page: %s", ofRoom)
	}
	boundCreated := replaced(t, created, "isId(counter) && saysShards", "isId(counter) "+ofRoom+" && saysShards")
	existing := code["What one request can do"][0]
	boundLikes := replaced(t, likes, "isId(post)", "isId(post) "+existing)
	counters := "isId(counter) "
	boundCounters := replaced(t, firestoreRules(t), counters, counters+code["To change"][2])

	documents := map[string]fields{"counters/free": {"num_shards": 10}}
	for i := range 30 {
		documents[fmt.Sprint("posts/", i)] = fields{"title": "p"}
		documents[fmt.Sprint("rooms/new", i)] = nil
		documents[fmt.Sprint("counters/free", i)] = fields{"num_shards": 10}
	}
	one := func(what string) func(int) *firestorepb.Write {
		return func(i int) *firestorepb.Write {
			switch what {
			case "likes":
				return transform(set(fmt.Sprintf("posts/%d/likes/ann", i), nil), serverTime("at"))
			case "comments":
				return set(fmt.Sprintf("posts/0/comments/%d", i), fields{"by": "ann", "text": "a"})
			case "increments":
				return add(fmt.Sprintf("counters/free%d/shards/0", i), 1)
			case "new counters":
				return set(fmt.Sprint("counters/new", i), fields{"num_shards": 10})
			case "zeros":
				return zero(fmt.Sprint("free", i), 0)
			case "a counter's increments":
				return add(fmt.Sprintf("counters/free/shards/%d", i), 1)
			}
			if i == 0 {
				return add("counters/free/shards/0", 1)
			}
			return set(fmt.Sprintf("counters/free/tokens/%d", i), token("0"))
		}
	}
	for _, test := range []struct {
		name, what string
		rules      string
		most       int
		refused    int // writes that are too many; 0: the batch is full before
	}{
		{"likes", "likes", withBlocks(t, firestoreRules(t), likes), 500, 0},
		{"comments", "comments", withBlocks(t, firestoreRules(t), comments), 500, 0},
		{"tokens", "tokens", withBlocks(t, firestoreRules(t), tokens), 500, 0},
		{"likes of posts that exist", "likes", withBlocks(t, firestoreRules(t), boundLikes), 20, 21},
		{"counters that exist", "increments", boundCounters, 10, 11},
		{"new counters", "new counters", withBlocks(t, firestoreRules(t), created), 500, 0},
		{"new counters of rooms", "new counters", withBlocks(t, firestoreRules(t), boundCreated), 20, 21},
		{"shards of counters that exist", "zeros", withBlocks(t, firestoreRules(t), created), 10, 11},
		{"a counter that exists", "a counter's increments", boundCounters, 10, 11},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := newDatabaseUnder(t, test.rules, documents)
			var all []*firestorepb.Write
			for i := range max(test.most, test.refused) {
				all = append(all, one(test.what)(i))
			}
			if test.refused > 0 {
				if err := d.commit(ann, all[:test.refused]...); status.Code(err) != codes.PermissionDenied {
					t.Errorf("%d: %v, want PermissionDenied", test.refused, err)
				}
			}
			if err := d.commit(ann, all[:test.most]...); err != nil {
				t.Errorf("%d: %v", test.most, err)
			}
		})
	}

	t.Run("a post that is not there", func(t *testing.T) {
		t.Parallel()
		d := newDatabaseUnder(t, withBlocks(t, firestoreRules(t), boundLikes), documents)
		d.judges(ann,
			map[string][]*firestorepb.Write{"a post": writes(one("likes")(0))},
			map[string][]*firestorepb.Write{"no post": writes(one("likes")(99)), "one of two": writes(one("likes")(0), one("likes")(99))})
	})
}

// withMore returns the rules with so many hundreds of expressions more for each write, all of them
// true. Firestore evaluates at most 1,000.
func withMore(t *testing.T, rules string, expressions int) string {
	t.Helper()
	const who = "return request.auth != null;\n"
	calls := strings.Repeat("hundred() && ", expressions/100)
	return replaced(t, rules, "function mayWrite() {\n      "+who, `function ten() { return true && true && true && true && true; }
    function hundred() { return ten()`+strings.Repeat(" && ten()", 9)+`; }
    function mayWrite() {
      return `+calls+strings.TrimPrefix(who, "return "))
}
