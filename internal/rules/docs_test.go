package rules

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// What docs/rules.md says to change, changed.
func TestDocs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/rules.md")
	if err != nil {
		t.Fatal(err)
	}
	var routes []string
	var who string
	for _, m := range regexp.MustCompile("(?s)```js\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		switch code := m[1]; {
		case strings.HasPrefix(code, "match "):
			routes = append(routes, code)
		case strings.HasPrefix(code, "return "):
			who = code
		default:
			t.Errorf("a block of rules that is not tested:\n%s", code)
		}
	}
	replace := func(old, new string) func(string) string {
		return func(rules string) string {
			t.Helper()
			if n := strings.Count(rules, old); n != 1 {
				t.Fatalf("%d times in the rules, want once: %s", n, old)
			}
			return strings.Replace(rules, old, new, 1)
		}
	}
	const rollUps = "    match /rollups/{counter} {\n"
	const post = "posts/p/counters/c/shards/"
	const php = "samples/php/distributedCounters/"
	addTo := func(path string, ts ...transformation) *firestorepb.Write { return transform(merge(path, nil), ts...) }
	for _, test := range []struct {
		name    string
		change  func(string) string
		allowed map[string][]*firestorepb.Write
		refused map[string][]*firestorepb.Write
		as      user
	}{
		{name: "anonymous accounts", as: anonymous,
			change:  replace("return request.auth != null;\n", who),
			refused: map[string][]*firestorepb.Write{"increment": writes(add(free+"0", 1))}},
		{name: "other accounts", as: ann,
			change:  replace("return request.auth != null;\n", who),
			allowed: map[string][]*firestorepb.Write{"increment": writes(add(free+"0", 1))}},
		{name: "everybody", as: nobody,
			change:  replace("return request.auth != null;\n", "return true;\n"),
			allowed: map[string][]*firestorepb.Write{"increment": writes(add(free+"0", 1))},
			refused: map[string][]*firestorepb.Write{"vote": writes(vote(voter+"ann", "3"), add(votes+"3", 1))}},
		{name: "a bound of 5", as: ann,
			change: replace("return 1;\n", "return 5;\n"),
			allowed: map[string][]*firestorepb.Write{
				"5": writes(add(free+"0", 5)), "-5": writes(add(free+"0", -5)), "0 to 3": writes(set(free+"4", fields{"count": 3})),
				"vote": writes(vote(voter+"ann", "3"), add(votes+"3", 1)), "twice at once": writes(add(free+"0", 1), add(free+"0", 1)),
			},
			refused: map[string][]*firestorepb.Write{
				"6": writes(add(free+"0", 6)), "2.5": writes(add(odd+"2", 2.5)), "-6": writes(add(free+"0", -6)),
				"vote with 2":                     writes(vote(voter+"ann", "3"), add(votes+"3", 2)),
				"vote with two increments":        writes(add(votes+"3", 1), vote(voter+"ann", "3"), add(votes+"3", 1)),
				"vote with two increments, after": writes(vote(voter+"ann", "3"), add(votes+"3", 1), add(votes+"3", 1)),
				"vote and take 1":                 writes(vote(voter+"ann", "3"), add(votes+"3", -1)),
			}},
		{name: "declared counters only", as: ann,
			change: replace("return 100;\n", "return 0;\n"),
			allowed: map[string][]*firestorepb.Write{
				"num_shards": writes(add(free+"9", 1)), "a new shard": writes(add(free+"5", 1)),
				"numShards": writes(add("counters/camel/shards/9", 1)),
				"vote":      writes(vote(voter+"ann", "3"), add(votes+"3", 1)),
			},
			refused: map[string][]*firestorepb.Write{
				"no document":               writes(add("counters/none/shards/0", 1)),
				"a document without number": writes(add("counters/untold/shards/0", 1)),
				"declared by the client":    writes(set("counters/none", fields{"num_shards": 1}), add("counters/none/shards/0", 1)),
			}},
		{name: "another field", as: ann,
			change: func(rules string) string {
				return strings.ReplaceAll(strings.ReplaceAll(rules, "'count'", "'Count'"), ".data.count", ".data.Count")
			},
			allowed: map[string][]*firestorepb.Write{
				"increment": writes(addTo(free+"5", increment("Count", 1))),
				"vote":      writes(vote(voter+"ann", "4"), addTo(votes+"4", increment("Count", 1))),
			},
			refused: map[string][]*firestorepb.Write{"count": writes(add(free+"5", 1))}},
		{name: "routes", as: ann,
			change: replace(rollUps, strings.Join(routes, "\n")+rollUps),
			allowed: map[string][]*firestorepb.Write{
				"likes":         writes(addTo(post+"0", increment("likes", 1))),
				"likes, views":  writes(addTo(post+"0", increment("likes", 1), increment("views", -1))),
				"a new shard":   writes(set(post+"9", fields{"views": 1})),
				"an old shard":  writes(addTo(post+"1", increment("views", 1))),
				"Cnt":           writes(addTo(php+"9", increment("Cnt", 1))),
				"count":         writes(add(free+"0", 1)),
				"vote":          writes(vote(voter+"ann", "3"), add(votes+"3", 1)),
				"beside a text": writes(addTo(post+"2", increment("likes", 1))),
			},
			refused: map[string][]*firestorepb.Write{
				"nothing":                  writes(set(post+"9", nil)),
				"likes by 2":               writes(addTo(post+"0", increment("likes", 2))),
				"likes by 1, views by 2":   writes(addTo(post+"0", increment("likes", 1), increment("views", 2))),
				"another field":            writes(addTo(post+"0", increment("likes", 1), increment("x", 1))),
				"views to null":            writes(set(post+"9", fields{"likes": 1, "views": nil})),
				"likes by 1, views to 2.0": writes(merge(post+"1", fields{"likes": 3, "views": 2.0}, "likes", "views")),
				"likes by 1, views gone":   writes(set(post+"1", fields{"likes": 3})),
				"shard 100":                writes(addTo(post+"100", increment("likes", 1))),
				"roll-up":                  writes(addTo("posts/p/rollups/c", increment("likes", 1))),
				"Cnt by 2":                 writes(addTo(php+"9", increment("Cnt", 2))),
				"Cnt in shard 10":          writes(addTo(php+"10", increment("Cnt", 1))),
				"cnt":                      writes(addTo(php+"9", increment("cnt", 1))),
				"php_rollups":              writes(addTo("php_rollups/total", increment("Cnt", 1))),
			}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := newDatabase(t, seed)
			d.seed(map[string]fields{post + "1": {"likes": 2, "views": 2}, post + "2": {"views": "2"}})
			d.setRules(test.change(firestoreRules(t)))
			for name, ws := range test.refused {
				if err := d.commit(test.as, ws...); status.Code(err) != codes.PermissionDenied {
					t.Errorf("%s: %v, want PermissionDenied", name, err)
				}
			}
			for name, ws := range test.allowed {
				if err := d.commit(test.as, ws...); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				d.restore(ws, seed)
			}
		})
	}
}
