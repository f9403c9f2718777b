package rules

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// seed is what each case finds.
var seed = map[string]fields{
	// Everybody may increment it at will.
	"counters/free":          {"num_shards": 10, "title": "free"},
	"counters/free/shards/0": {"count": 5},
	"counters/free/shards/1": {"count": 1, "likes": 3, "by": "a server"},
	"counters/free/shards/2": {"likes": 3},
	"counters/free/shards/9": {"count": -4},
	// Its number of shards has the name that the samples for Swift and Android give it.
	"counters/camel": {"numShards": 10},
	// Its document does not say how many shards it has.
	"counters/untold": {"title": "untold"},
	// Documents that no server of sound mind writes.
	"counters/text":  {"num_shards": "10"},
	"counters/maybe": {"num_shards": 10, "once_per_user": "yes"},
	// Shards as only servers can make them.
	"counters/odd":           {"num_shards": 100},
	"counters/odd/shards/0":  {"count": math.NaN()},
	"counters/odd/shards/1":  {"count": "1"},
	"counters/odd/shards/2":  {"count": 2.0},
	"counters/odd/shards/3":  {"count": 0.1},
	"counters/odd/shards/4":  {"count": math.MaxInt64},
	"counters/odd/shards/5":  {"count": math.MinInt64},
	"counters/odd/shards/6":  {"count": math.Inf(1)},
	"counters/odd/shards/7":  {"count": 0x1p53},
	"counters/odd/shards/8":  {"count": 0x1p53 + 2},
	"counters/odd/shards/9":  {"count": nil},
	"counters/odd/shards/10": {"count": 1 << 60},
	"counters/odd/shards/11": {"count": 1},
	// Once per user. bob and cid voted.
	"counters/votes":            {"num_shards": 10, "once_per_user": true},
	"counters/votes/shards/3":   {"count": 1},
	"counters/votes/shards/7":   {"count": 1},
	"counters/votes/voters/bob": {"shard": "3"},
	"counters/votes/voters/cid": {"shard": "7"},
	"counters/more":             {"numShards": 10, "once_per_user": true},
	"counters/more/voters/bob":  {"shard": "3"},
	"counters/more/voters/dan":  {"shard": "3"},
	"counters/more/shards/3":    {"count": 2},
	"counters/more/shards/8":    {"count": 0x1p53},
	// It had 10 shards, of which bob's and cid's votes are in 7 and 6, and then 4.
	"counters/shrunk":            {"num_shards": 4, "once_per_user": true},
	"counters/shrunk/shards/3":   {"count": 2},
	"counters/shrunk/voters/bob": {"shard": "7"},
	"counters/shrunk/voters/cid": {"shard": "6"},
	"counters/empty":             {"num_shards": 1, "once_per_user": true},
	// It was once per user.
	"counters/former":            {"num_shards": 10},
	"counters/former/shards/3":   {"count": 1},
	"counters/former/voters/bob": {"shard": "3"},

	"rollups/free":                     {"count": 2, "tally": fields{"as_of": time.Unix(1, 0), "num_shards": 4}},
	"rollup_audit/cursor":              {"at": "x"},
	"counters/free/increment_tokens/x": {"field": "count", "amount": 1},
	"private/x":                        {"text": "x"},
}

const (
	free  = "counters/free/shards/"
	votes = "counters/votes/shards/"
	voter = "counters/votes/voters/"
	odd   = "counters/odd/shards/"
)

// vote is the document of a vote.
func vote(path, shard string) *firestorepb.Write { return set(path, fields{"shard": shard}) }

// writes are those of one commit.
func writes(ws ...*firestorepb.Write) []*firestorepb.Write { return ws }

// What honest apps send.
func TestHonest(t *testing.T) {
	t.Parallel()
	d := newDatabase(t, seed)
	for _, test := range []struct {
		name   string
		user   user
		writes []*firestorepb.Write
	}{
		{"increment", ann, writes(add(free+"0", 1))},
		{"increment by update", ann, writes(update(add(free+"0", 1)))},
		{"increment as older SDKs send it", ann, writes(transformOnly(free+"0", increment("count", 1)))},
		{"decrement", ann, writes(add(free+"0", -1))},
		{"increment a shard that is missing", ann, writes(add(free+"4", 1))},
		{"decrement a shard that is missing", ann, writes(add(free+"4", -1))},
		{"create a shard with 1", ann, writes(set(free+"4", fields{"count": 1}))},
		{"set to one more, as a transaction does", ann, writes(merge(free+"0", fields{"count": 6}, "count"))},
		{"from -4", ann, writes(add(free+"9", 1))},
		{"a shard with other fields", ann, writes(add(free+"1", 1))},
		{"a shard with other fields only", ann, writes(add(free+"2", 1))},
		{"a shard that is a double", ann, writes(add(odd+"2", 1))},
		{"a shard that is a fraction", ann, writes(add(odd+"3", 1))},
		{"a shard beyond 2^53", ann, writes(add(odd+"10", 1))},
		{"the last shard", ann, writes(add(odd+"99", 1))},
		{"of a counter with numShards", ann, writes(add("counters/camel/shards/9", 1))},
		{"of a counter that does not say its shards", ann, writes(add("counters/untold/shards/99", 1))},
		{"of a counter without a document", ann, writes(add("counters/new/shards/99", 1))},
		{"of a counter that was once per user", ann, writes(add("counters/former/shards/3", 1))},
		{"several shards", ann, writes(add(free+"0", 1), add(free+"1", -1), add(free+"4", 1))},
		{"several counters", ann, writes(add(free+"0", 1), add("counters/camel/shards/0", 1), add("counters/new/shards/0", 1))},
		{"vote", ann, writes(vote(voter+"ann", "3"), add(votes+"3", 1))},
		{"vote, the shard first", ann, writes(add(votes+"3", 1), vote(voter+"ann", "3"))},
		{"vote in a shard that is missing", ann, writes(vote(voter+"ann", "0"), add(votes+"0", 1))},
		{"vote where there is no vote yet", ann, writes(vote("counters/shrunk/voters/ann", "2"), add("counters/shrunk/shards/2", 1))},
		{"vote, with numShards", ann, writes(vote("counters/more/voters/ann", "9"), add("counters/more/shards/9", 1))},
		{"vote in two counters", ann, writes(
			vote(voter+"ann", "3"), add(votes+"3", 1), vote("counters/more/voters/ann", "5"), add("counters/more/shards/5", 1))},
		{"vote and increment", ann, writes(vote(voter+"ann", "3"), add(votes+"3", 1), add(free+"0", 1))},
		{"take a vote back", bob, writes(remove(voter+"bob"), add(votes+"3", -1))},
		{"take a vote back, the shard first", bob, writes(add(votes+"3", -1), remove(voter+"bob"))},
		{"take a vote back, with fewer shards", bob, writes(remove("counters/shrunk/voters/bob"), add("counters/shrunk/shards/3", -1))},
		{"take a vote back, of a shard that is gone", cid, writes(remove("counters/shrunk/voters/cid"), add("counters/shrunk/shards/2", -1))},
		{"vote here and take back there", bob, writes(
			remove(voter+"bob"), add(votes+"3", -1), vote("counters/empty/voters/bob", "0"), add("counters/empty/shards/0", 1))},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := d.commit(test.user, test.writes...); err != nil {
				t.Error(err)
			}
			d.restore(test.writes, seed)
		})
	}
}

// An attack is a commit that must be refused, and must be let through once the part of the rules
// is softened: names of softenings, joined by " + " where each of them refuses it alone.
type attack struct {
	name   string
	part   string
	user   user
	writes []*firestorepb.Write
}

func TestAttacks(t *testing.T) {
	t.Parallel()
	rules := firestoreRules(t)
	byPart := map[string][]attack{}
	names := map[string]bool{}
	needed := map[string]bool{} // softenings
	for _, a := range attacks() {
		if names[a.name] {
			t.Errorf("two attacks are named %q", a.name)
		}
		names[a.name] = true
		byPart[a.part] = append(byPart[a.part], a)
		for name := range strings.SplitSeq(a.part, " + ") {
			needed[name] = true
		}
	}
	for _, s := range softenings {
		if !needed[s.name] && !readParts[s.name] {
			t.Errorf("no attack needs %q", s.name)
		}
	}
	t.Logf("%d attacks on %d parts of the rules", len(names), len(softenings))
	strict := newDatabase(t, seed)
	for part, as := range byPart {
		t.Run(part, func(t *testing.T) {
			t.Parallel()
			soft := newDatabase(t, seed)
			soft.setRules(soften(t, rules, part))
			for _, a := range as {
				if err := strict.commit(a.user, a.writes...); status.Code(err) != codes.PermissionDenied {
					t.Errorf("%s: answer %v, want PermissionDenied", a.name, err)
				}
				if err := soft.commit(a.user, a.writes...); err != nil {
					t.Errorf("%s: refused all the same: %v", a.name, err)
				}
				soft.restore(a.writes, seed)
			}
		})
	}
}

// attacks returns all attacks: those of the table, and families that differ in one value.
func attacks() []attack {
	all := []attack{
		// Who, and how much.
		{"nobody increments", "signed in", nobody, writes(add(free+"0", 1))},
		{"nobody creates a shard", "signed in", nobody, writes(set(free+"4", fields{"count": 1}))},
		{"increment by 2", "upper bound", ann, writes(add(free+"0", 2))},
		{"decrement by 2", "lower bound", ann, writes(add(free+"0", -2))},
		{"increment by the largest integer", "upper bound", ann, writes(add(free+"9", math.MaxInt64))},
		{"decrement by the smallest integer", "adds", ann, writes(add(free+"9", math.MinInt64))},
		{"increment by 0", "not 0", ann, writes(add(free+"4", 0))},
		{"create with 0", "not 0", ann, writes(set(free+"4", fields{"count": 0}))},
		{"create with 2", "upper bound", ann, writes(set(free+"4", fields{"count": 2}))},
		{"create with -2", "lower bound", ann, writes(set(free+"4", fields{"count": -2}))},
		{"create without a count", "adds", ann, writes(set(free+"4", nil))},
		{"create with a large integer", "upper bound", ann, writes(set(free+"4", fields{"count": 1 << 53}))},
		{"write what is there", "adds", ann, writes(set(free+"0", fields{"count": 5}))},
		{"touch a shard", "adds", ann, writes(merge(free+"0", nil))},
		{"set to 1000", "upper bound", ann, writes(set(free+"0", fields{"count": 1000}))},
		{"set to 0", "lower bound", ann, writes(set(free+"0", fields{"count": 0}))},
		{"two increments of a shard at once", "upper bound", ann, writes(add(free+"0", 1), add(free+"0", 1))},
		{"two increments in one write", "upper bound", ann, writes(transform(merge(free+"0", nil), increment("count", 1), increment("count", 1)))},
		{"set and increment in one write", "upper bound", ann, writes(transform(merge(free+"0", fields{"count": 6}, "count"), increment("count", 1)))},
		{"1000 and back, up to 2", "upper bound", ann, writes(add(free+"0", 1000), set(free+"0", fields{"count": 7}))},
		{"maximum", "upper bound", ann, writes(transform(merge(free+"0", nil), maximum("count", 1000)))},
		{"minimum", "lower bound", ann, writes(transform(merge(free+"0", nil), minimum("count", -1000)))},

		// Of what type.
		{"increment by 0.5", "whole + integers stay", ann, writes(add(free+"0", 0.5))},
		{"increment a double by 0.5", "whole", ann, writes(add(odd+"2", 0.5))},
		{"a double by 1.5", "upper bound + whole", ann, writes(add(odd+"2", 1.5))},
		{"increment by 1.0", "integers stay", ann, writes(add(free+"0", 1.0))},
		{"create with 1.0", "integers stay", ann, writes(set(free+"4", fields{"count": 1.0}))},
		{"5 becomes 5.0", "not 0 + integers stay", ann, writes(set(free+"0", fields{"count": 5.0}))},
		{"increment by -0.0", "not 0 + integers stay", ann, writes(add(free+"0", math.Copysign(0, -1)))},
		{"create with -0.0", "not 0 + integers stay", ann, writes(set(free+"4", fields{"count": math.Copysign(0, -1)}))},
		{"1 becomes -0.0", "integers stay", ann, writes(set(odd+"11", fields{"count": math.Copysign(0, -1)}))},
		{"increment by NaN", "adds", ann, writes(add(free+"0", math.NaN()))},
		{"increment by Infinity", "adds", ann, writes(add(free+"0", math.Inf(1)))},
		{"increment a double by -Infinity", "adds", ann, writes(add(odd+"2", math.Inf(-1)))},
		{"increment by 1e308", "adds", ann, writes(add(free+"0", 1e308))},
		{"delete the count", "adds", ann, writes(merge(free+"0", nil, "count"))},
		{"empty a shard", "adds", ann, writes(set(free+"0", nil))},
		{"the server's time", "adds", ann, writes(transform(merge(free+"0", nil), serverTime("count")))},
		{"an array's element", "adds", ann, writes(transform(merge(free+"0", nil), appendTo("count", 1)))},
		{"a field of the count", "adds", ann, writes(transform(merge(free+"0", nil), increment("count.x", 1)))},

		// Of shards that are odd already.
		{"increment NaN", "adds", ann, writes(add(odd+"0", 1))},
		{"increment text", "adds", ann, writes(add(odd+"1", 1))},
		{"increment null", "adds", ann, writes(add(odd+"9", 1))},
		{"increment Infinity", "adds", ann, writes(add(odd+"6", 1))},
		{"beyond the largest integer", "not 0", ann, writes(add(odd+"4", 1))},
		{"beyond the smallest integer", "not 0", ann, writes(add(odd+"5", -1))},
		{"from the largest integer to the smallest", "adds", ann, writes(set(odd+"4", fields{"count": math.MinInt64}))},
		{"a double that 1 is too little for", "not 0", ann, writes(add(odd+"7", 1))},
		{"a double that 1 is made 2 for", "upper bound", ann, writes(add(odd+"8", 1))},

		// Other fields.
		{"increment another field", "only count + adds", ann, writes(transform(merge(free+"1", nil), increment("likes", 1)))},
		{"increment another field too", "only count", ann, writes(transform(merge(free+"1", nil), increment("count", 1), increment("likes", 1)))},
		{"add another field", "only count", ann, writes(transform(merge(free+"0", fields{"x": 1}, "x"), increment("count", 1)))},
		{"add a field that looks like it", "only count", ann, writes(transform(merge(free+"0", fields{"соunt": 1}, "`соunt`"), increment("count", 1)))},
		{"create with another field", "only count", ann, writes(set(free+"4", fields{"count": 1, "x": 1}))},
		{"set another field", "only count", ann, writes(merge(free+"1", fields{"count": 2, "by": "ann"}, "count", "by"))},
		{"delete another field", "only count", ann, writes(transform(merge(free+"1", nil, "by"), increment("count", 1)))},
		{"set without merge, over other fields", "only count", ann, writes(set(free+"1", fields{"count": 2}))},

		// Shards that the counter has not.
		{"the first shard too many", "below num_shards", ann, writes(add(free+"10", 1))},
		{"a shard too many, with numShards", "below num_shards", ann, writes(add("counters/camel/shards/10", 1))},
		{"the 101st of a counter without a document", "100 shards", ann, writes(add("counters/new/shards/100", 1))},
		{"the 101st of a counter that does not say its shards", "100 shards", ann, writes(add("counters/untold/shards/100", 1))},
		{"a shard of a counter with text for a number", "shard id", ann, writes(add("counters/text/shards/0", 1))},
		{"the shard -1", "not negative", ann, writes(add(free+"-1", 1))},

		// Deletes.
		{"delete a shard", "no deletes", ann, writes(remove(free + "0"))},
		{"delete a shard that is missing", "no deletes", ann, writes(remove(free + "4"))},
		{"delete a shard and create it", "lower bound", ann, writes(remove(free+"0"), set(free+"0", fields{"count": 1}))},
		{"increment a shard and delete it", "no deletes", ann, writes(add(free+"0", 1), remove(free+"0"))},
		{"delete a shard of votes", "no deletes", bob, writes(remove(votes + "3"))},

		// Counters, roll-ups, and what is Tally's.
		{"more shards", "counters are the servers'", ann, writes(merge("counters/free", fields{"num_shards": 1000}, "num_shards"))},
		{"create a counter", "counters are the servers'", ann, writes(set("counters/new", fields{"num_shards": 1000}))},
		{"delete a counter", "counters are the servers'", ann, writes(remove("counters/free"))},
		{"no longer once per user", "counters are the servers'", ann, writes(merge("counters/votes", nil, "once_per_user"))},
		{"no longer once per user, and increment", "counters are the servers' + a shard's write needs a vote", ann, writes(
			merge("counters/votes", fields{"once_per_user": false}, "once_per_user"), add(votes+"3", 1))},
		{"set a roll-up", "roll-ups are Tally's", ann, writes(merge("rollups/free", fields{"count": 1000}, "count"))},
		{"create a roll-up", "roll-ups are Tally's", ann, writes(set("rollups/new", fields{"count": 1}))},
		{"increment a roll-up", "roll-ups are Tally's", ann, writes(add("rollups/free", 1))},
		{"delete a roll-up", "roll-ups are Tally's", ann, writes(remove("rollups/free"))},
		{"set a roll-up's time", "roll-ups are Tally's", ann, writes(transform(merge("rollups/free", nil), serverTime("tally.as_of")))},
		{"the audit's cursor", "nothing else", ann, writes(set("rollup_audit/cursor", fields{"at": "z"}))},
		{"a token", "nothing else", ann, writes(set("counters/free/increment_tokens/y", fields{"field": "count"}))},
		{"delete a token", "nothing else", ann, writes(remove("counters/free/increment_tokens/x"))},
		{"below a shard", "nothing else", ann, writes(add(free+"0/shards/0", 1))},
		{"below a voter", "nothing else", ann, writes(add(voter+"ann/shards/0", 1))},
		{"a shard at the top", "nothing else", ann, writes(add("shards/0", 1))},
		{"another collection of a counter", "nothing else", ann, writes(add("counters/free/shard/0", 1))},
		{"elsewhere", "nothing else", ann, writes(set("private/x", fields{"text": "y"}))},

		// Good and bad in one commit.
		{"good, and a roll-up", "roll-ups are Tally's", ann, writes(add(free+"0", 1), set("rollups/free", fields{"count": 6}))},
		{"good, and by 2", "upper bound", ann, writes(add(free+"0", 1), add(free+"1", 2))},
		{"good, and a shard too many", "below num_shards", ann, writes(add(free+"0", 1), add(free+"10", 1))},
		{"good, and a delete", "no deletes", ann, writes(add(free+"0", 1), remove(free+"9"))},
		{"a vote, and by 2 elsewhere", "upper bound", ann, writes(vote(voter+"ann", "3"), add(votes+"3", 1), add(free+"0", 2))},

		// Votes without increments, and increments without votes.
		{"vote without an increment", "a vote adds 1", ann, writes(vote(voter+"ann", "3"))},
		{"vote for a shard that is missing, without an increment", "a vote adds 1", ann, writes(vote(voter+"ann", "0"))},
		{"vote where 1 is too little", "a vote makes a difference", ann, writes(vote("counters/more/voters/ann", "8"))},
		{"increment without a vote", "a shard's write needs a vote", ann, writes(add(votes+"3", 1))},
		{"decrement without a vote", "a shard's write needs a vote", ann, writes(add(votes+"3", -1))},
		{"increment with an old vote", "a shard's write needs a vote", bob, writes(add(votes+"3", 1))},
		{"increment beside an old vote", "no vote before", bob, writes(add(votes+"3", 1))},
		{"decrement, keep the vote", "no vote after", bob, writes(add(votes+"3", -1))},
		{"take back, keep the 1", "back takes 1", bob, writes(remove(voter + "bob"))},
		{"nobody votes", "signed in + votes are the user's to make + a shard's write needs a vote", nobody, writes(vote(voter+"ann", "3"), add(votes+"3", 1))},

		// Of the wrong amount.
		{"vote and take 1", "a vote adds 1", ann, writes(vote(voter+"ann", "3"), add(votes+"3", -1))},
		{"take back and add 1", "back takes 1", bob, writes(remove(voter+"bob"), add(votes+"3", 1))},
		{"vote with 2", "upper bound + a vote adds 1", ann, writes(vote(voter+"ann", "3"), add(votes+"3", 2))},
		{"two increments with one vote", "upper bound + a vote adds 1", ann, writes(add(votes+"3", 1), vote(voter+"ann", "3"), add(votes+"3", 1))},
		{"take back 2", "lower bound + back takes 1", bob, writes(remove(voter+"bob"), add(votes+"3", -2))},
		{"two decrements with one vote", "lower bound + back takes 1", bob, writes(add(votes+"3", -1), add(votes+"3", -1), remove(voter+"bob"))},
		{"vote with 1.0", "integers stay", ann, writes(vote(voter+"ann", "3"), add(votes+"3", 1.0))},
		{"vote with another field", "only count", ann, writes(vote(voter+"ann", "0"), set(votes+"0", fields{"count": 1, "x": 1}))},

		// In the wrong shard.
		{"vote for one shard, increment another", "the vote names the shard + a vote adds 1", ann, writes(vote(voter+"ann", "3"), add(votes+"7", 1))},
		{"vote for one shard, increment two", "the vote names the shard", ann, writes(vote(voter+"ann", "3"), add(votes+"3", 1), add(votes+"7", 1))},
		{"take back from another shard", "the vote was for the shard + back takes 1", bob, writes(remove(voter+"bob"), add(votes+"7", -1))},
		{"take back from two shards", "the vote was for the shard", bob, writes(remove(voter+"bob"), add(votes+"3", -1), add(votes+"7", -1))},
		{"take back, and add elsewhere", "the vote was for the shard", bob, writes(remove(voter+"bob"), add(votes+"3", -1), add(votes+"7", 1))},
		{"vote in a shard too many", "below num_shards", ann, writes(vote(voter+"ann", "10"), add(votes+"10", 1))},
		{"vote for a shard too many", "a vote's shard exists + a vote adds 1", ann, writes(vote(voter+"ann", "10"))},
		{"vote for a shard too many, increment its remainder", "a vote's shard exists + the vote names the shard + a vote adds 1", ann, writes(
			vote("counters/shrunk/voters/ann", "7"), add("counters/shrunk/shards/3", 1))},
		{"take back from the shard of old", "below num_shards + the vote was for the shard + back takes 1", bob, writes(
			remove("counters/shrunk/voters/bob"), add("counters/shrunk/shards/7", -1))},
		{"vote in another counter", "a vote adds 1 + a shard's write needs a vote", ann, writes(vote(voter+"ann", "3"), add("counters/more/shards/3", 1))},

		// Twice, and back and forth.
		{"vote again", "votes do not change + no vote before", bob, writes(vote(voter+"bob", "3"), add(votes+"3", 1))},
		{"vote again, in another shard", "votes do not change + no vote before", bob, writes(vote(voter+"bob", "7"), add(votes+"7", 1))},
		{"move a vote", "votes do not change + no vote before + no vote after", bob, writes(
			vote(voter+"bob", "7"), add(votes+"7", 1), add(votes+"3", -1))},
		{"change where a vote is", "votes do not change", bob, writes(vote(voter+"bob", "7"))},
		{"take back and vote at once", "votes do not change + no vote before", bob, writes(
			remove(voter+"bob"), vote(voter+"bob", "3"), add(votes+"3", 1))},
		{"take back and vote at once, with both amounts", "votes do not change + adds + no vote before", bob, writes(
			remove(voter+"bob"), add(votes+"3", -1), vote(voter+"bob", "3"), add(votes+"3", 1))},
		{"vote and take back at once, keep the 1", "a shard's write needs a vote + back takes 1", ann, writes(
			vote(voter+"ann", "3"), add(votes+"3", 1), remove(voter+"ann"))},
		{"take back what was never given", "back takes 1 + a shard's write needs a vote", ann, writes(remove(voter+"ann"), add(votes+"3", -1))},

		// For others.
		{"vote for another", "votes are the user's to make + a shard's write needs a vote", ann, writes(vote(voter+"dan", "3"), add(votes+"3", 1))},
		{"vote for oneself and another with one increment", "votes are the user's to make", ann, writes(
			vote(voter+"ann", "3"), vote(voter+"dan", "3"), add(votes+"3", 1))},
		{"vote for oneself and another with two increments", "votes are the user's to make + upper bound + a vote adds 1", ann, writes(
			vote(voter+"ann", "3"), add(votes+"3", 1), vote(voter+"dan", "3"), add(votes+"3", 1))},
		{"take another's vote back", "votes are the user's to take back + a shard's write needs a vote", ann, writes(remove(voter+"bob"), add(votes+"3", -1))},
		{"take one's own and another's back", "votes are the user's to take back", bob, writes(
			remove("counters/more/voters/bob"), remove("counters/more/voters/dan"), add("counters/more/shards/3", -1))},
		{"vote in the place of another", "votes are the user's to take back + a vote adds 1 + back takes 1", ann, writes(
			remove(voter+"bob"), vote(voter+"ann", "3"))},
		{"overwrite another's vote", "votes do not change", ann, writes(vote(voter+"bob", "7"))},

		// Votes of another form.
		{"a vote with another field", "a vote holds a shard only", ann, writes(set(voter+"ann", fields{"shard": "3", "x": 1}), add(votes+"3", 1))},
		{"a vote with the server's time", "a vote holds a shard only", ann, writes(transform(vote(voter+"ann", "3"), serverTime("at")), add(votes+"3", 1))},
		{"a vote without a shard", "a vote's shard exists + a vote adds 1", ann, writes(set(voter+"ann", nil))},
		{"a vote with a number for the shard", "a vote's shard exists + a vote adds 1", ann, writes(set(voter+"ann", fields{"shard": 3}))},
		{"a vote for shard 03", "a vote's shard exists + a vote adds 1", ann, writes(vote(voter+"ann", "03"))},
		{"a vote for shard 03, increment 3", "a vote's shard exists + the vote names the shard + a vote adds 1", ann, writes(vote(voter+"ann", "03"), add(votes+"3", 1))},
		{"a vote for a path", "a vote's shard exists + a vote adds 1", ann, writes(vote(voter+"ann", "3/x/y"))},
		{"add a field to a vote", "votes do not change", bob, writes(merge(voter+"bob", fields{"x": 1}, "x"))},

		// In counters that are not once per user.
		{"vote in a counter of increments", "votes only if once per user", ann, writes(vote("counters/free/voters/ann", "0"), add(free+"0", 1))},
		{"vote in a counter without a document", "votes only if once per user", ann, writes(vote("counters/new/voters/ann", "0"), add("counters/new/shards/0", 1))},
		{"take back from a counter that was once per user", "back only if once per user", bob, writes(
			remove("counters/former/voters/bob"), add("counters/former/shards/3", -1))},
		{"increment where once_per_user is no boolean", "once_per_user is a boolean", ann, writes(add("counters/maybe/shards/0", 1))},
		{"vote where once_per_user is no boolean", "once_per_user is a boolean + votes only if once per user", ann, writes(
			vote("counters/maybe/voters/ann", "0"), add("counters/maybe/shards/0", 1))},
	}
	for name, v := range map[string]any{
		"text": "6", "null": nil, "a boolean": true, "a time": time.Unix(6, 0), "a map": fields{"count": 6}, "an array": array(6),
		"bytes":       &firestorepb.Value{ValueType: &firestorepb.Value_BytesValue{BytesValue: []byte("6")}},
		"a reference": &firestorepb.Value{ValueType: &firestorepb.Value_ReferenceValue{ReferenceValue: "projects/p/databases/(default)/documents/a/b"}},
		"NaN":         math.NaN(), "Infinity": math.Inf(1), "-Infinity": math.Inf(-1), "1e300": 1e300,
	} {
		all = append(all,
			attack{"set to " + name, "adds", ann, writes(set(free+"0", fields{"count": v}))},
			attack{"create with " + name, "adds", ann, writes(set(free+"4", fields{"count": v}))})
	}
	// Each is the number 1, or 0, to some reader of numbers.
	for _, id := range []string{"01", "00", "+1", "-0", "٣", "１", "1٠"} {
		all = append(all, attack{"shard " + id, "canonical", ann, writes(add("counters/odd/shards/"+id, 1))})
	}
	for _, id := range []string{
		"1e1", "1.0", " 1", "1 ", "1\n", "\n1", "0x1", "1_0", "Ⅷ", "½", "one", "x", "é", "null", "true", "NaN", "Infinity",
		"9223372036854775808", "18446744073709551616", "340282366920938463463374607431768211457", "−1", "1\u200b",
	} {
		all = append(all, attack{fmt.Sprintf("shard %q", id), "shard id", ann, writes(add(free+id, 1))})
	}
	return all
}
