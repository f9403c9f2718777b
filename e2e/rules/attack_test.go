package rules

import (
	"fmt"
	"math"
	"slices"
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
	"counters/free/shards/1": {"count": 1},
	"counters/free/shards/7": {"count": 1, "likes": 3, "by": "a server"},
	"counters/free/shards/8": {"likes": 3},
	"counters/free/shards/9": {"count": -4},
	// Its number of shards has the name that the samples for Swift and Android give it.
	"counters/camel": {"numShards": 10},
	// Its document does not say how many shards it has.
	"counters/untold": {"title": "untold"},
	// Documents that no server of sound mind writes.
	"counters/text": {"num_shards": "10"},
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
	// Frozen, with and without a number of shards; and open again.
	"counters/frozen":          {"num_shards": 10, "frozen": true},
	"counters/frozen/shards/0": {"count": 5},
	"counters/banned":          {"frozen": true},
	"counters/thawed":          {"num_shards": 10, "frozen": false},
	"counters/icy":             {"num_shards": 10, "frozen": "yes"},

	"rollups/free":                     {"count": 2, "tally": fields{"as_of": time.Unix(1, 0), "num_shards": 4}},
	"rollup_audit/cursor":              {"at": "x"},
	"rollup_claims/5f0c":               {"claim": "x"},
	"counters/free/increment_tokens/x": {"field": "count", "amount": 1},
	"private/x":                        {"text": "x"},
}

const (
	free = "counters/free/shards/"
	odd  = "counters/odd/shards/"
)

// writes are the writes of one commit.
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
		{"increment a shard that is missing", ann, writes(add(free+"4", 1))},
		{"create a shard with 1", ann, writes(set(free+"4", fields{"count": 1}))},
		{"set to one more, as a transaction does", ann, writes(merge(free+"0", fields{"count": 6}, "count"))},
		{"from -4", ann, writes(add(free+"9", 1))},
		{"a shard that is a double", ann, writes(add(odd+"2", 1))},
		{"a shard that is a fraction", ann, writes(add(odd+"3", 1))},
		{"a shard beyond 2^53", ann, writes(add(odd+"10", 1))},
		{"the last shard", ann, writes(add(odd+"99", 1))},
		{"of a counter with numShards", ann, writes(add("counters/camel/shards/9", 1))},
		{"of a counter that does not say its shards", ann, writes(add("counters/untold/shards/9", 1))},
		{"of a counter whose id is long", ann, writes(add("counters/"+strings.Repeat("é", 100)+"/shards/0", 1))},
		{"of a counter whose id has spaces", ann, writes(add("counters/Café au lait/shards/0", 1))},
		{"of a counter whose id is of other scripts", ann, writes(add("counters/いいね 👨\u200d👩\u200d👧/shards/0", 1))},
		{"of a counter without a document", ann, writes(add("counters/new/shards/9", 1))},
		{"of a counter that was frozen", ann, writes(add("counters/thawed/shards/9", 1))},
		{"several shards", ann, writes(add(free+"0", 1), add(free+"1", 1), add(free+"4", 1))},
		{"several counters", ann, writes(add(free+"0", 1), add("counters/camel/shards/0", 1), add("counters/new/shards/0", 1))},
		{"of a counter of increments, in the shard of one's own number", "3", writes(add(free+"3", 1))},
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
			soft := newDatabaseUnder(t, soften(t, rules, part), seed)
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

// attacks returns all attacks: the tables' attacks, and families that differ in one value.
func attacks() []attack {
	return slices.Concat(attacksOnCounters(), attacksByValue(), attacksByID())
}

func attacksOnCounters() []attack {
	return []attack{
		// Who, and how much.
		{"increments, signed out", "signed in", signedOut, writes(add(free+"0", 1))},
		{"creates a shard, signed out", "signed in", signedOut, writes(set(free+"4", fields{"count": 1}))},
		{"increment by 2", "only 1", ann, writes(add(free+"0", 2))},
		{"decrement", "only 1", ann, writes(add(free+"0", -1))},
		{"decrement a shard that is missing", "only 1", ann, writes(add(free+"4", -1))},
		{"increment by the largest integer", "only 1", ann, writes(add(free+"9", math.MaxInt64))},
		{"decrement by the smallest integer", "adds", ann, writes(add(free+"9", math.MinInt64))},
		{"increment by 0", "only 1", ann, writes(add(free+"4", 0))},
		{"create with 0", "only 1", ann, writes(set(free+"4", fields{"count": 0}))},
		{"create with 2", "only 1", ann, writes(set(free+"4", fields{"count": 2}))},
		{"create with -2", "only 1", ann, writes(set(free+"4", fields{"count": -2}))},
		{"create without a count", "adds", ann, writes(set(free+"4", nil))},
		{"create with a large integer", "only 1", ann, writes(set(free+"4", fields{"count": 1 << 53}))},
		{"write what is there", "only 1", ann, writes(set(free+"0", fields{"count": 5}))},
		{"touch a shard", "only 1", ann, writes(merge(free+"0", nil))},
		{"set to 1000", "only 1", ann, writes(set(free+"0", fields{"count": 1000}))},
		{"set to 0", "only 1", ann, writes(set(free+"0", fields{"count": 0}))},
		{"two increments of a shard at once", "only 1", ann, writes(add(free+"0", 1), add(free+"0", 1))},
		{"two increments in one write", "only 1", ann, writes(transform(merge(free+"0", nil), increment("count", 1), increment("count", 1)))},
		{"set and increment in one write", "only 1", ann, writes(transform(merge(free+"0", fields{"count": 6}, "count"), increment("count", 1)))},
		{"1000 and back, up to 2", "only 1", ann, writes(add(free+"0", 1000), set(free+"0", fields{"count": 7}))},
		{"maximum", "only 1", ann, writes(transform(merge(free+"0", nil), maximum("count", 1000)))},
		{"minimum", "only 1", ann, writes(transform(merge(free+"0", nil), minimum("count", -1000)))},

		// Of what type.
		{"increment by 0.5", "only 1 + integers stay", ann, writes(add(free+"0", 0.5))},
		{"increment a double by 0.5", "only 1", ann, writes(add(odd+"2", 0.5))},
		{"a double by 1.5", "only 1", ann, writes(add(odd+"2", 1.5))},
		{"increment by 1.0", "integers stay", ann, writes(add(free+"0", 1.0))},
		{"create with 1.0", "integers stay", ann, writes(set(free+"4", fields{"count": 1.0}))},
		{"5 becomes 5.0", "only 1 + integers stay", ann, writes(set(free+"0", fields{"count": 5.0}))},
		{"increment by -0.0", "only 1 + integers stay", ann, writes(add(free+"0", math.Copysign(0, -1)))},
		{"create with -0.0", "only 1 + integers stay", ann, writes(set(free+"4", fields{"count": math.Copysign(0, -1)}))},
		{"1 becomes -0.0", "only 1 + integers stay", ann, writes(set(odd+"11", fields{"count": math.Copysign(0, -1)}))},
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
		{"beyond the largest integer", "only 1", ann, writes(add(odd+"4", 1))},
		{"beyond the smallest integer", "only 1", ann, writes(add(odd+"5", -1))},
		{"from the largest integer to the smallest", "adds", ann, writes(set(odd+"4", fields{"count": math.MinInt64}))},
		{"a double that 1 is too little for", "only 1", ann, writes(add(odd+"7", 1))},
		{"a double that 1 is made 2 for", "only 1", ann, writes(add(odd+"8", 1))},

		// Other fields, and shards in which a server keeps some.
		{"increment another field", "only count + adds", ann, writes(transform(merge(free+"7", nil), increment("likes", 1)))},
		{"increment another field too", "only count", ann, writes(transform(merge(free+"7", nil), increment("count", 1), increment("likes", 1)))},
		{"add another field", "only count after", ann, writes(transform(merge(free+"0", fields{"x": 1}, "x"), increment("count", 1)))},
		{"add a field that looks like it", "only count after", ann, writes(transform(merge(free+"0", fields{"соunt": 1}, "`соunt`"), increment("count", 1)))},
		{"create with another field", "only count after", ann, writes(set(free+"4", fields{"count": 1, "x": 1}))},
		{"set another field", "only count", ann, writes(merge(free+"7", fields{"count": 2, "by": "ann"}, "count", "by"))},
		{"another field goes from 3 to 3.0", "only count", ann, writes(transform(merge(free+"7", fields{"likes": 3.0}, "likes"), increment("count", 1)))},
		{"delete another field", "only count", ann, writes(transform(merge(free+"7", nil, "by"), increment("count", 1)))},
		{"set without merge, over other fields", "only count before", ann, writes(set(free+"7", fields{"count": 2}))},
		{"increment a shard with other fields", "only count", ann, writes(add(free+"7", 1))},
		{"increment a shard with other fields only", "only count", ann, writes(add(free+"8", 1))},

		// Shards that the counter has not.
		{"the first shard too many", "below num_shards", ann, writes(add(free+"10", 1))},
		{"a shard too many, with numShards", "below num_shards", ann, writes(add("counters/camel/shards/10", 1))},
		{"the 11th of a counter without a document", "10 shards", ann, writes(add("counters/new/shards/10", 1))},
		{"the 11th of a counter that does not say its shards", "10 shards", ann, writes(add("counters/untold/shards/10", 1))},
		{"a shard under one's own id", "shard id", ann, writes(add(free+"ann", 1))},
		{"a shard of a counter with text for a number", "shard id", ann, writes(add("counters/text/shards/0", 1))},
		{"the shard -1", "canonical", ann, writes(add(free+"-1", 1))},

		// Deletes.
		{"delete a shard", "no deletes", ann, writes(remove(free + "0"))},
		{"delete a shard that is missing", "no deletes", ann, writes(remove(free + "4"))},
		{"delete a shard and create it", "only 1", ann, writes(remove(free+"0"), set(free+"0", fields{"count": 1}))},
		{"increment a shard and delete it", "no deletes", ann, writes(add(free+"0", 1), remove(free+"0"))},

		// Counters, roll-ups, and what is Tally's.
		{"more shards", "counters are the servers'", ann, writes(merge("counters/free", fields{"num_shards": 1000}, "num_shards"))},
		{"create a counter", "counters are the servers'", ann, writes(set("counters/new", fields{"num_shards": 1000}))},
		{"let the shards grow", "counters are the servers'", ann, writes(merge("counters/free", fields{"auto_shards": true}, "auto_shards"))},
		{"create a counter whose shards grow", "counters are the servers'", ann, writes(set("counters/new", fields{"num_shards": 10, "auto_shards": true}))},
		{"delete a counter", "counters are the servers'", ann, writes(remove("counters/free"))},
		{"set a roll-up", "roll-ups are Tally's", ann, writes(merge("rollups/free", fields{"count": 1000}, "count"))},
		{"create a roll-up", "roll-ups are Tally's", ann, writes(set("rollups/new", fields{"count": 1}))},
		{"increment a roll-up", "roll-ups are Tally's", ann, writes(add("rollups/free", 1))},
		{"delete a roll-up", "roll-ups are Tally's", ann, writes(remove("rollups/free"))},
		{"set a roll-up's time", "roll-ups are Tally's", ann, writes(transform(merge("rollups/free", nil), serverTime("tally.as_of")))},
		{"the audit's cursor", "nothing else", ann, writes(set("rollup_audit/cursor", fields{"at": "z"}))},
		{"a claim", "nothing else", ann, writes(set("rollup_claims/5f0c", fields{"claim": "z"}))},
		{"a new claim", "nothing else", ann, writes(set("rollup_claims/e1d2", fields{"claim": "z"}))},
		{"a token", "nothing else", ann, writes(set("counters/free/increment_tokens/y", fields{"field": "count"}))},
		{"delete a token", "nothing else", ann, writes(remove("counters/free/increment_tokens/x"))},
		{"below a shard", "nothing else", ann, writes(add(free+"0/shards/0", 1))},
		{"a shard at the top", "nothing else", ann, writes(add("shards/0", 1))},
		{"another collection of a counter", "nothing else", ann, writes(add("counters/free/shard/0", 1))},
		{"elsewhere", "nothing else", ann, writes(set("private/x", fields{"text": "y"}))},

		// Good and bad in one commit.
		{"good, and a roll-up", "roll-ups are Tally's", ann, writes(add(free+"0", 1), set("rollups/free", fields{"count": 6}))},
		{"good, and by 2", "only 1", ann, writes(add(free+"0", 1), add(free+"1", 2))},
		{"good, and a shard too many", "below num_shards", ann, writes(add(free+"0", 1), add(free+"10", 1))},
		{"good, and a delete", "no deletes", ann, writes(add(free+"0", 1), remove(free+"9"))},

		// In counters that are frozen.
		{"increment a frozen counter", "frozen", ann, writes(add("counters/frozen/shards/0", 1))},
		{"create a shard of a frozen counter", "frozen", ann, writes(set("counters/frozen/shards/4", fields{"count": 1}))},
		{"begin a counter that is frozen", "frozen", ann, writes(add("counters/banned/shards/0", 1))},
		{"increment a counter, and a frozen one", "frozen", ann, writes(add(free+"0", 1), add("counters/frozen/shards/0", 1))},
		{"unfreeze", "counters are the servers'", ann, writes(merge("counters/frozen", nil, "frozen"))},
		{"unfreeze and increment", "counters are the servers' + frozen", ann, writes(merge("counters/frozen", fields{"frozen": false}, "frozen"), add("counters/frozen/shards/0", 1))},
		{"freeze", "counters are the servers'", ann, writes(merge("counters/free", fields{"frozen": true}, "frozen"))},
		{"increment where frozen is not a boolean", "frozen is a boolean", ann, writes(add("counters/icy/shards/0", 1))},
	}
}

func attacksByValue() []attack {
	var all []attack
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
	return all
}

func attacksByID() []attack {
	var all []attack
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
	// No HTTP header can carry them, or not for long.
	for part, ids := range map[string][]string{
		"short ids":             {strings.Repeat("a", 201), strings.Repeat("é", 101), strings.Repeat("い", 67), strings.Repeat("👨", 51)},
		"no control characters": {"a\x00b", "a\tb", "a\nb", "a\r\nb", "\x1b[2J", "\x7f", "a\u0085b", "x\n"},
		"no spaces at the ends": {" ", " x", "x ", "x  ", "\u00a0x", "x\u2003", "\u2028x", "x\u3000"},
	} {
		for _, id := range ids {
			all = append(all,
				attack{fmt.Sprintf("a counter %q, by its id", id), "ids", ann, writes(add("counters/"+id+"/shards/0", 1))},
				attack{fmt.Sprintf("a counter %q, by %s", id, part), part, ann, writes(add("counters/"+id+"/shards/0", 1))})
		}
	}
	return all
}
