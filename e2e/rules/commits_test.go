package rules

import (
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var (
	commitsSeed = flag.Uint64("rules.seed", 1, "of the requests of TestAnyCommits")
	commits     = flag.Int("rules.commits", 600, "how many requests TestAnyCommits makes")
)

// enough is how many requests notice a softened rule, at the latest.
const enough = 5000

// seed is what tests of firestore.rules find.
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

// soften returns the rules without the part named.
func soften(t *testing.T, rules, part string) string {
	t.Helper()
	i := slices.IndexFunc(softenings, func(s softening) bool { return s.name == part })
	if i < 0 {
		t.Fatalf("no softening %q", part)
	}
	return replaced(t, rules, softenings[i].old, softenings[i].new)
}

// Whatever users send, honest or not, a counter's total moves by what they are allowed to and by
// nothing else: each shard up by 1. They read what everybody may, and no more. Honest requests are
// accepted. Without any one part of the rules, some request succeeds that must not.
func TestAnyCommits(t *testing.T) {
	t.Parallel()
	t.Run("firestore.rules", func(t *testing.T) {
		t.Parallel()
		newTrial(t, firestoreRules(t), false).holds()
	})
	t.Run("counters that clients create", func(t *testing.T) {
		t.Parallel()
		newTrial(t, withBlocks(t, firestoreRules(t), rulesCode(t)["Counters that clients create"][0]), true).holds()
	})
	for _, s := range softenings {
		t.Run("without "+s.name, func(t *testing.T) {
			t.Parallel()
			r := newTrial(t, soften(t, firestoreRules(t), s.name), false)
			for n := range enough {
				if why, _, _ := r.request(); why != "" {
					t.Logf("after %d requests: %s", n, why)
					return
				}
			}
			t.Errorf("seed %d: no request of %d notices it", *commitsSeed, enough)
		})
	}
}

// A trial makes requests at random, and knows what is in the database.
type trial struct {
	*database
	rand   *rand.Rand
	docs   map[string]map[string]any
	create bool // clients may create counters
	made   int  // requests
}

func newTrial(t *testing.T, rules string, create bool) *trial {
	return &trial{newDatabaseUnder(t, rules, seed), rand.New(rand.NewPCG(*commitsSeed, 0)), documents(seed), create, 0}
}

// holds makes requests under rules that nothing is wrong with.
func (r *trial) holds() {
	r.t.Helper()
	var honest, accepted, refused int
	created := false
	for range *commits {
		why, good, ok := r.request()
		switch {
		case why != "":
			r.t.Fatalf("seed %d, request %d: accepted, but %s", *commitsSeed, r.made, why)
		case good:
			honest++
		case ok:
			accepted++
		default:
			refused++
		}
		created = created || r.docs["counters/made"] != nil
	}
	r.t.Logf("%d honest requests; of the others %d accepted, %d refused", honest, accepted, refused)
	if few := *commits / 60; honest < few || accepted < few || refused < few {
		r.t.Errorf("less than %d of some kind: the requests show little", few)
	}
	if created != r.create {
		r.t.Errorf("a client created a counter: %t, want %t", created, r.create)
	}
}

// The id of one of the users could be a shard's number.
var users = []user{ann, bob, cid, "2"}

// request makes one request, and says what is wrong if it is accepted and must not be. good says
// that the rules must accept it.
func (r *trial) request() (why string, good, accepted bool) {
	r.made++
	if r.made%50 == 0 { // a server gives a counter another number of shards, and freezes another or opens it again
		for path, f := range map[string]fields{"counters/a": {"num_shards": 1 + r.rand.IntN(5)}, "counters/w": {"num_shards": 4, "frozen": r.made%100 == 0}} {
			r.seed(map[string]fields{path: f})
			r.docs[path] = decoded(f.proto())
		}
	}
	u := any1(r.rand, users...)
	switch r.rand.IntN(8) {
	case 0:
		return r.read(any1(r.rand, u, signedOut))
	case 1, 2:
		ws := []*firestorepb.Write{r.honest()}
		if r.rand.IntN(4) == 0 {
			ws = append(ws, r.honest())
		}
		return r.commits(u, ws, !sameTarget(ws))
	}

	ws := []*firestorepb.Write{r.dishonest()}
	switch r.rand.IntN(6) {
	case 0:
		ws = append(ws, r.honest())
	case 1:
		ws = append(ws, r.dishonest())
	case 2:
		ws[0] = r.honest()
		u = signedOut
	case 3:
		ws[0] = r.honest()
		ws = append(ws, ws[0])
	}
	return r.commits(u, ws, false)
}

func sameTarget(ws []*firestorepb.Write) bool { return len(ws) == 2 && target(ws[0]) == target(ws[1]) }

// commits makes a commit.
func (r *trial) commits(u user, ws []*firestorepb.Write, good bool) (why string, isGood, accepted bool) {
	r.t.Helper()
	paths := make(map[string]int) // and how often each is written
	for _, w := range ws {
		paths[target(w)]++
	}
	err := r.commit(u, ws...)
	switch code := status.Code(err); {
	case good && err != nil:
		r.t.Fatalf("seed %d, request %d: an honest one was refused: %s: %v", *commitsSeed, r.made, describe(u, ws), err)
	case code == codes.PermissionDenied, code == codes.InvalidArgument:
		return "", good, false
	case err != nil:
		r.t.Fatal(err)
	}

	before := maps.Clone(r.docs)
	for path := range paths {
		doc, err := r.api.GetDocument(server.context(r.t.Context()), &firestorepb.GetDocumentRequest{Name: r.path(path)})
		delete(r.docs, path)
		if err == nil {
			r.docs[path] = decoded(doc.Fields)
		} else if status.Code(err) != codes.NotFound {
			r.t.Fatal(err)
		}
	}
	for path, times := range paths {
		if why := r.broken(u, path, before, times); why != "" {
			return path + ": " + why + ": " + describe(u, ws), good, true
		}
	}
	return "", good, true
}

// broken says what is wrong with an accepted commit of a document.
func (r *trial) broken(u user, path string, before map[string]map[string]any, times int) string {
	was, is := before[path], r.docs[path]
	parts := strings.Split(path, "/")
	counter := strings.Join(parts[:2], "/")
	unchanged := fmt.Sprintf("%T %[1]v", was) == fmt.Sprintf("%T %[1]v", is)
	switch {
	case u == signedOut:
		return "signed out"
	case r.create && was == nil && r.created(parts, before):
		return ""
	case len(parts) != 4 || parts[0] != "counters" || parts[2] != "shards":
		if unchanged {
			return "" // nothing is lost
		}
		return "not theirs"
	case isUnsafe(parts[1]):
		return "an id that no event carries"
	case r.docs[counter]["frozen"] != nil && r.docs[counter]["frozen"] != false:
		return "frozen"
	case len(is) != 1 || len(was) > 1 || was != nil && was["count"] == nil:
		return "other fields"
	}

	n := r.shards(counter)
	if id, err := strconv.Atoi(parts[3]); err != nil || id < 0 || id >= n || strconv.Itoa(id) != parts[3] {
		return fmt.Sprintf("not one of %d shards", n)
	}
	former, isInt := was["count"].(int64)
	latter, staysInt := is["count"].(int64)
	switch {
	case (was == nil || isInt) && staysInt:
		if moved := latter - former; moved < 1 || moved > int64(times) {
			return fmt.Sprintf("moved by %d", moved)
		}
	case was == nil || isInt:
		return "no integer any more"
	default:
		from, isFloat := was["count"].(float64)
		to, staysFloat := is["count"].(float64)
		if !isFloat || !staysFloat || !(to-from >= 1 && to-from <= float64(times)) {
			return fmt.Sprintf("from %v to %v", was["count"], is["count"])
		}
	}
	return ""
}

// shards returns how many shards a counter has, 0 if that is not a number.
func (r *trial) shards(counter string) int {
	for _, name := range []string{"num_shards", "numShards"} {
		if held, has := r.docs[counter][name]; has {
			n, _ := held.(int64)
			return int(n)
		}
	}
	return 10
}

// created tells whether a new document is what clients may create: a counter of 10 to 100 shards,
// or a shard of a counter with 0.
func (r *trial) created(path []string, before map[string]map[string]any) bool {
	counter, is := strings.Join(path[:2], "/"), r.docs[strings.Join(path, "/")]
	n := r.shards(counter)
	switch {
	case path[0] != "counters" || isUnsafe(path[1]):
		return false
	case len(path) == 2:
		return len(is) == 1 && (is["num_shards"] != nil || is["numShards"] != nil) && n >= 10 && n <= 100
	case len(path) != 4 || path[2] != "shards" || r.docs[counter] == nil:
		return false
	}
	id, err := strconv.Atoi(path[3])
	frozen := before[counter]["frozen"]
	return err == nil && strconv.Itoa(id) == path[3] && id >= 0 && id < n && (frozen == nil || frozen == false) && len(is) == 1 && is["count"] == int64(0)
}

// writes are the writes of one commit.
func writes(ws ...*firestorepb.Write) []*firestorepb.Write { return ws }

// honest returns an increment that apps send.
func (r *trial) honest() *firestorepb.Write {
	counter := any1(r.rand, "free", "free", "a", "a", "camel", "untold", "thawed", "new", strings.Repeat("é", 100), "Café au lait", "いいね 👨\u200d👩\u200d👧")
	n := r.shards("counters/" + counter)
	if counter == "free" {
		n = 7 // the others have fields of servers
	}
	shard := fmt.Sprintf("counters/%s/shards/%d", counter, r.rand.IntN(n))
	count, _ := r.docs[shard]["count"].(int64)
	switch r.rand.IntN(8) {
	case 0: // as a transaction does
		return set(shard, fields{"count": int(count) + 1})
	case 1:
		return merge(shard, fields{"count": int(count) + 1}, "count")
	case 2: // as older SDKs do
		return transformOnly(shard, increment("count", 1))
	case 3:
		return add(odd+any1(r.rand, "2", "10", "99"), 1) // a double, beyond 2^53, and the last
	case 4:
		return add(free+"9", 1)
	}
	return add(shard, 1)
}

// oddIDs are ids of shards that are the number 1, or 0, to some reader of numbers.
var oddIDs = []string{
	"01", "00", "+1", "-0", "٣", "１", "1٠", "1e1", "1.0", " 1", "1 ", "1\n", "0x1", "1_0", "Ⅷ", "½", "one", "é", "null", "NaN", "-1",
	"9223372036854775808", "18446744073709551616", "−1", "1\u200b", "ann", "bob", "10", "11", "99", "100",
}

// oddCounters are counters that are frozen, or whose ids no HTTP header can carry, or not for long.
var oddCounters = []string{
	"frozen", "banned", "icy", "w", "text", "x\n", "a\x00b", "a\tb", "\x1b[2J", "\x7f", "a\u0085b", " ", " x", "x ", "\u00a0x", "x\u2003", "\u2028x",
	strings.Repeat("a", 201), strings.Repeat("é", 101), strings.Repeat("👨", 51),
}

// dishonest returns a write that must be refused, or almost always.
func (r *trial) dishonest() *firestorepb.Write {
	shard := any1(r.rand, free, odd, "counters/new/shards/", "counters/a/shards/") + strconv.Itoa(r.rand.IntN(12))
	kinds := 10
	if r.create {
		kinds = 14 // more creations
	}
	switch r.rand.IntN(kinds) {
	case 9:
		return add("counters/"+any1(r.rand, "free", "new", "untold", "camel")+"/shards/"+any1(r.rand, "10", "11", "99"), 1)
	case 0:
		return add(any1(r.rand, "counters/odd/shards/", free, "counters/new/shards/", "counters/untold/shards/", "counters/camel/shards/")+any1(r.rand, oddIDs...), 1)
	case 1:
		return add("counters/"+any1(r.rand, oddCounters...)+"/shards/"+strconv.Itoa(r.rand.IntN(3)), 1)
	case 2:
		return remove(any1(r.rand, shard, "counters/free", "rollups/free"))
	case 3, 10, 11, 12, 13:
		return r.elsewhere()
	case 4:
		return r.otherFields(free + any1(r.rand, "0", "1", "7", "8"))
	case 5:
		return add(odd+strconv.Itoa(r.rand.IntN(12)), r.value())
	case 6:
		return set(shard, fields{"count": r.value()})
	case 7:
		count, _ := r.docs[shard]["count"].(int64)
		return set(shard, fields{"count": any1[any](r.rand, int(count)-1, int(count)+2, float64(count)+1, int(count))})
	default:
		return r.transformed(shard)
	}
}

// value returns a value of any kind, most often a number.
func (r *trial) value() any {
	if r.rand.IntN(3) == 0 {
		return any1[any](r.rand, "6", nil, true, time.Unix(6, 0), fields{"count": 6}, array(6), bytes("6"))
	}
	return any1[any](r.rand, 2, -1, 0, 1<<53, math.MaxInt64, math.MinInt64, 0.5, 1.5, 1.0, -1.0, math.Copysign(0, -1), math.NaN(), math.Inf(1), math.Inf(-1), 1e308)
}

// transformed returns a write that changes a shard by what it holds.
func (r *trial) transformed(shard string) *firestorepb.Write {
	switch r.rand.IntN(8) {
	case 0:
		return transform(merge(shard, nil), maximum("count", 1000))
	case 1:
		return transform(merge(shard, nil), minimum("count", -1000))
	case 2:
		return transform(merge(shard, nil), serverTime("count"))
	case 3:
		return transform(merge(shard, nil), appendTo("count", 1))
	case 4:
		return transform(merge(shard, nil), increment("count.x", 1))
	case 5:
		return transform(merge(shard, nil), increment("count", 1), increment("count", 1))
	case 6:
		return merge(shard, nil, any1[[]string](r.rand, nil, []string{"count"})...)
	default:
		return transform(merge(shard, nil), increment("count", any1[any](r.rand, 2, -1, 0, 0.5, 1.0, 1e308, math.NaN(), math.Copysign(0, -1), math.MaxInt64, math.MinInt64)))
	}
}

// otherFields returns a write to other fields of a shard than count.
func (r *trial) otherFields(shard string) *firestorepb.Write {
	count, _ := r.docs[shard]["count"].(int64)
	more := int(count) + 1
	switch r.rand.IntN(8) {
	case 0:
		return transform(merge(shard, nil), increment("likes", 1))
	case 1:
		return transform(merge(shard, nil), increment("count", 1), increment("likes", 1))
	case 2:
		return transform(merge(shard, fields{"x": 1}, "x"), increment("count", 1))
	case 3:
		return transform(merge(shard, fields{"соunt": 1}, "`соunt`"), increment("count", 1)) // it looks like it
	case 4:
		return transform(merge(shard, fields{"likes": 3.0}, "likes"), increment("count", 1))
	case 5:
		return transform(merge(shard, nil, "by"), increment("count", 1))
	case 6:
		return set(shard, fields{"count": more})
	default:
		return add(shard, 1)
	}
}

// elsewhere returns a write to what no client writes, or as a client that creates a counter.
func (r *trial) elsewhere() *firestorepb.Write {
	counter := "counters/" + any1(r.rand, "made", "made", "made", "free", "untold", "frozen", "w", "made\n")
	n := any1[any](r.rand, 10, 12, 12, 100, 9, 101, 10.0, "10")
	switch r.rand.IntN(9) {
	case 0, 8:
		return set(counter, fields{any1(r.rand, "num_shards", "numShards"): n})
	case 1:
		return set(counter+"/shards/"+any1(r.rand, "0", "3", "10", "14", "00"), fields{"count": any1[any](r.rand, 0, 0, 0, 0.0, -1)})
	case 2:
		return merge(counter, fields{"num_shards": n, "frozen": false}, "num_shards", any1(r.rand, "frozen", "auto_shards"))
	case 3:
		return add("rollups/"+any1(r.rand, "free", "made"), 1)
	case 4:
		return transform(merge("rollups/free", fields{"count": 1000}, "count"), serverTime("tally.as_of"))
	case 5:
		return set(any1(r.rand, "rollup_audit/cursor", "rollup_claims/5f0c", "rollup_claims/e1d2", "counters/free/increment_tokens/x", "private/x"), fields{"at": "z"})
	case 6:
		return set(counter, fields{"num_shards": 12, any1(r.rand, "auto_shards", "numShards", "x"): true})
	default:
		return add(any1(r.rand, free+"0/shards/0", "shards/0", "counters/free/shard/0"), 1)
	}
}

// read reads something, and says what is wrong if it must not be read.
func (r *trial) read(u user) (why string, good, accepted bool) {
	var err error
	what := any1(r.rand, "counters/free", "counters/new", free+"0", "counters/new/shards/0", "rollups/free", "rollups/new",
		"rollup_audit/cursor", "rollup_claims/5f0c", "counters/free/increment_tokens/x", "private/x")
	if r.rand.IntN(2) == 0 {
		err = get(what)(r.database, u)
		good = strings.Contains(what, "/shards/") || !strings.Contains(what, "increment_tokens") && (strings.HasPrefix(what, "counters") || strings.HasPrefix(what, "rollups/"))
	} else {
		l := list{
			parent: "", collection: any1(r.rand, "counters", "rollups", "shards", "rollup_audit", "increment_tokens"),
			limit: any1[int32](r.rand, 0, 1, 20, 21, 100, 101), offset: any1[int32](r.rand, 0, 0, 0, 1, 1<<30), group: r.rand.IntN(3) == 0,
		}
		if (l.collection == "shards" || l.collection == "increment_tokens") && !l.group {
			l.parent = "counters/" + any1(r.rand, "free", "new", "frozen")
		}
		most := int32(100)
		if u == signedOut {
			most = 20
		}
		isShort := l.limit > 0 && l.limit <= most && (l.collection == "counters" || l.collection == "rollups")
		good = !l.group && l.offset == 0 && (isShort || l.collection == "shards")
		what = fmt.Sprintf("%+v", l)
		err = any1(r.rand, l.query, l.sum)(r.database, u)
	}

	switch {
	case err != nil && status.Code(err) != codes.PermissionDenied:
		r.t.Fatalf("%s: %v", what, err)
	case good && err != nil:
		r.t.Fatalf("seed %d, request %d: %s may not read %s: %v", *commitsSeed, r.made, u, what, err)
	case !good && err == nil:
		return fmt.Sprintf("%s read %s", u, what), false, true
	}
	return "", good, err == nil
}

// describe tells a commit, for a failed test.
func describe(u user, ws []*firestorepb.Write) string {
	text := []string{fmt.Sprintf("%s commits", u)}
	for _, w := range ws {
		text = append(text, w.String())
	}
	return strings.Join(text, "\n\t")
}
