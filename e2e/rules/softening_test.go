package rules

import (
	"strings"
	"testing"
)

// A softening takes one part out of firestore.rules.
type softening struct {
	name     string
	old, new string // old is there once
}

var softenings = []softening{
	{"signed in", "return request.auth != null;", "return true;"},
	{"only 1", "return amount == 1;", "return true;"},
	{"integers stay", "(after is int || before is float)", "true"},
	{"frozen", " && !frozen()", ""},
	{"frozen is a boolean", "return declared('frozen', false);", "return declared('frozen', false) == true;"},
	{"adds", " && adds('count')", ""},
	{"only count", " && holdsOnly(['count'])", ""},
	{"only count before", "before.keys().hasOnly(fields) && ", ""},
	{"only count after", " && request.resource.data.keys().hasOnly(fields)", ""},
	{"10 shards", "'numShards', 10)", "'numShards', 1000)"},
	{"shard id", "isShard(shard, numShards()) && ", ""},
	{"canonical", "id.matches('0|[1-9][0-9]*') && ", ""},
	{"below num_shards", " && int(id) < n", ""},
	{"ids", "isId(counter) && ", ""},
	{"short ids", "id.toUtf8().size() <= 200 && ", ""},
	{"no control characters", `id.matches('\\P{Cc}+') && `, ""},
	{"no spaces at the ends", ` && !id.matches('\\p{Z}.*|.*\\p{Z}')`, ""},
	{"no deletes", "allow create, update: if mayWrite()", "allow delete: if true;\n        allow create, update: if mayWrite()"},
	{"counters are the servers'", "match /counters/{counter} {\n", "match /counters/{counter} {\n      allow write: if true;\n"},
	{"roll-ups are Tally's", "match /rollups/{counter} {\n", "match /rollups/{counter} {\n      allow write: if true;\n"},
	{"nothing else", "match /databases/{database}/documents {\n", "match /databases/{database}/documents {\n    match /{all=**} { allow read, write: if true; }\n"},

	// Of reads.
	{"lists skip nothing", "return " + skipsNothing + ";", "return true;"},
	{"lists of counters are short", "match /counters/{counter} {\n", "match /counters/{counter} {\n      allow list: if true;\n"},
	{"lists of roll-ups are short", "match /rollups/{counter} {\n", "match /rollups/{counter} {\n      allow list: if true;\n"},
	{"no collection groups", "match /databases/{database}/documents {\n", "match /databases/{database}/documents {\n    match /{parent=**}/shards/{shard} { allow read: if true; }\n"},
}

// skipsNothing is the condition on offsets.
const skipsNothing = "!('offset' in request.query) || request.query.offset == null || request.query.offset == 0"

// soften returns the rules without the parts named, which " + " joins.
func soften(t *testing.T, rules, parts string) string {
	t.Helper()
	for name := range strings.SplitSeq(parts, " + ") {
		found := false
		for _, s := range softenings {
			if s.name != name {
				continue
			}
			if n := strings.Count(rules, s.old); n != 1 {
				t.Fatalf("softening %q: %d times in the rules, want once: %s", name, n, s.old)
			}
			rules, found = strings.Replace(rules, s.old, s.new, 1), true
		}
		if !found {
			t.Fatalf("no softening %q", name)
		}
	}
	return rules
}
