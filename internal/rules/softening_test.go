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
	{"upper bound", "amount <= bound()", "true"},
	{"lower bound", "amount >= -bound()", "true"},
	{"not 0", "amount != 0", "true"},
	{"whole", "after == before + math.round(amount)", "true"},
	{"integers stay", "(after is int || before is float)", "true"},
	{"adds", "&& adds('count')", ""},
	{"only count", "&& changesOnly(['count'])", ""},
	{"100 shards", "return 100;", "return 1000;"},
	{"shard id", "return isShard(shard, numShards(data))\n          && (isFree", "return (isFree"},
	{"canonical", "string(int(id)) == id", "true"},
	{"not negative", "int(id) >= 0", "true"},
	{"below num_shards", "int(id) < n", "true"},
	{"once_per_user is a boolean", "data.get('once_per_user', false) == false", "data.get('once_per_user', false) != true"},
	{"no deletes", "allow create, update: if mayWrite() && changesOnly", "allow delete: if true;\n        allow create, update: if mayWrite() && changesOnly"},
	{"counters are the servers'", "match /counters/{counter} {\n      allow read: if true;", "match /counters/{counter} {\n      allow read, write: if true;"},
	{"roll-ups are Tally's", "match /rollups/{counter} {\n      allow read: if true;", "match /rollups/{counter} {\n      allow read, write: if true;"},
	{"nothing else", "match /databases/{database}/documents {\n", "match /databases/{database}/documents {\n    match /{all=**} { allow read, write: if true; }\n"},
	{"no collection groups", "match /databases/{database}/documents {\n", "match /databases/{database}/documents {\n    match /{parent=**}/shards/{shard} { allow read: if true; }\n"},

	{"a shard's write needs a vote", "isOncePerUser(data) && votes(shard, numShards(data))", "isOncePerUser(data)"},
	{"no vote before", "!exists(path) && getAfter", "getAfter"},
	{"the vote names the shard", "getAfter(path).data.shard == shard", "true"},
	{"no vote after", "!existsAfter(path)", "true"},
	{"the vote was for the shard", "shardNow(get(path).data, n) == shard", "true"},
	{"votes are the user's to read", "allow get: if request.auth.uid == uid;", "allow get: if true;"},
	{"votes are not listed", "allow get: if request.auth.uid == uid;", "allow read: if true;"},
	{"votes are the user's to make", "allow create: if mayWrite() && request.auth.uid == uid", "allow create: if mayWrite()"},
	{"votes are the user's to take back", "allow delete: if mayWrite() && request.auth.uid == uid", "allow delete: if mayWrite()"},
	{"votes only if once per user", "isOncePerUser(data) && vote.keys()", "vote.keys()"},
	{"back only if once per user", "isOncePerUser(data) && moves", "moves"},
	{"a vote holds a shard only", "vote.keys().hasOnly(['shard'])", "true"},
	{"a vote's shard exists", "isShard(vote.shard, numShards(data)) && ", ""},
	{"votes do not change", "match /voters/{uid} {\n", "match /voters/{uid} {\n        allow update: if true;\n"},
	{"a vote adds 1", " && moves(vote.shard, 1)", ""},
	{"back takes 1", " && moves(shardNow(vote, numShards(data)), -1)", ""},
	{"a vote makes a difference", "getAfter(path).data.count - before == amount", "getAfter(path).data.count == before + amount"},
}

// soften takes parts, joined by " + ", out of the rules.
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
