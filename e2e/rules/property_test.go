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

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var (
	propertySeed    = flag.Uint64("rules.seed", 1, "of the commits of TestAnyCommits")
	propertyCommits = flag.Int("rules.commits", 300, "how many commits TestAnyCommits makes")
)

// Whatever users commit, honest or not, the accepted commits move a counter's total by what they
// are allowed to and by nothing else: each shard up by 1. A model of Firestore says what an
// accepted commit did, and which at the end must agree with Firestore itself.
func TestAnyCommits(t *testing.T) {
	t.Parallel()
	t.Run("firestore.rules", func(t *testing.T) {
		t.Parallel()
		anyCommits(t, firestoreRules(t), false)
	})
	t.Run("counters that clients create", func(t *testing.T) {
		t.Parallel()
		anyCommits(t, withBlocks(t, firestoreRules(t), rulesCode(t)["Counters that clients create"][0]), true)
	})
}

// anyCommits makes commits under these rules. create says that they let clients create counters.
func anyCommits(t *testing.T, rules string, create bool) {
	start := map[string]fields{
		"counters/a": {"num_shards": 3},
		"counters/w": {"num_shards": 4},
		"rollups/a":  {"count": 0},
	}
	d := newDatabaseUnder(t, rules, start)
	g := &generator{rand: rand.New(rand.NewPCG(*propertySeed, 0)), docs: start}
	amounts := map[string]int{} // by counter: the sum of the accepted ones
	var honest, accepted, refused int
	for i := range *propertyCommits {
		if i%50 == 49 { // a server gives a counter another number of shards, and freezes another or opens it again
			g.docs["counters/a"] = fields{"num_shards": 1 + g.rand.IntN(5)}
			g.docs["counters/w"] = fields{"num_shards": 4, "frozen": i%100 == 49}
			d.seed(map[string]fields{"counters/a": g.docs["counters/a"], "counters/w": g.docs["counters/w"]})
		}
		u, ws, good := g.commit()
		err := d.commit(u, ws...)
		switch {
		case err != nil && status.Code(err) != codes.PermissionDenied:
			t.Fatalf("seed %d, commit %d: %s: %v", *propertySeed, i, describe(u, ws), err)
		case err != nil && good:
			t.Fatalf("seed %d, commit %d: an honest one was refused: %s: %v", *propertySeed, i, describe(u, ws), err)
		case err != nil:
			refused++
			continue
		case good:
			honest++
		default:
			accepted++
		}
		after := apply(g.docs, ws)
		if err := allowed(g.docs, after, amounts, create); err != nil {
			t.Fatalf("seed %d, commit %d: accepted, but %v: %s", *propertySeed, i, err, describe(u, ws))
		}
		g.docs = after
	}
	t.Logf("seed %d: %d honest commits; of the others %d accepted, %d refused", *propertySeed, honest, accepted, refused)
	if few := *propertyCommits / 30; honest < few || accepted < few || refused < few {
		t.Errorf("less than %d of some kind: the commits show little", few)
	}
	if made := g.docs["counters/n"] != nil || g.docs["counters/o"] != nil; made != create {
		t.Errorf("a client created a counter: %t, want %t", made, create)
	}

	for _, counter := range []string{"a", "n", "o", "w"} {
		path := "counters/" + counter
		held, err := d.list(server, path, "shards")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(below(g.docs, path+"/shards/"), held); diff != "" {
			t.Errorf("shards of %s (-model +Firestore):\n%s", counter, diff)
		}
		if total := total(held); total != amounts[path] {
			t.Errorf("the total of %s is %d, the accepted amounts come to %d", counter, total, amounts[path])
		}
	}
}

// allowed says what is wrong with a commit that changed docs from before to after, nil if nothing
// is, and adds up what it added to counters.
func allowed(before, after map[string]fields, amounts map[string]int, create bool) error {
	for _, path := range slices.Sorted(maps.Keys(changed(before, after))) {
		parts := strings.Split(path, "/")
		if create && before[path] == nil && created(after, parts) {
			continue
		}
		if len(parts) != 4 || parts[0] != "counters" || parts[2] != "shards" {
			return fmt.Errorf("%s changed", path)
		}
		counter := "counters/" + parts[1]
		count, ok := after[path]["count"].(int)
		if !ok || len(after[path]) != 1 {
			return fmt.Errorf("%s became %v", path, after[path])
		}
		if before[counter]["frozen"] == true {
			return fmt.Errorf("%s is frozen", counter)
		}
		was, _ := before[path]["count"].(int)
		amounts[counter] += count - was
		n, ok := before[counter]["num_shards"].(int)
		if !ok {
			n = 10
		}
		if id, err := strconv.Atoi(parts[3]); err != nil || id < 0 || id >= n || strconv.Itoa(id) != parts[3] {
			return fmt.Errorf("%s is not one of %d shards", path, n)
		}
		if count-was != 1 {
			return fmt.Errorf("%s moved by %d", path, count-was)
		}
	}
	return nil
}

// created tells whether a new document is what clients may create: a counter of 10 to 100 shards,
// or a shard of a counter with 0.
func created(after map[string]fields, path []string) bool {
	counter := after[strings.Join(path[:2], "/")]
	n, ok := counter["num_shards"].(int)
	switch {
	case path[0] != "counters":
		return false
	case len(path) == 2:
		return ok && len(counter) == 1 && n >= 10 && n <= 100
	case !ok:
		return false // no shards
	}
	id, err := strconv.Atoi(path[3])
	return err == nil && strconv.Itoa(id) == path[3] && id >= 0 && id < n &&
		cmp.Equal(after[strings.Join(path, "/")], fields{"count": 0})
}

// changed returns the paths whose documents differ.
func changed(before, after map[string]fields) map[string]bool {
	paths := map[string]bool{}
	for path, f := range before {
		if g, ok := after[path]; !ok || !cmp.Equal(f, g) {
			paths[path] = true
		}
	}
	for path := range after {
		if _, ok := before[path]; !ok {
			paths[path] = true
		}
	}
	return paths
}

// below returns the documents of a collection, by id.
func below(docs map[string]fields, collection string) map[string]fields {
	found := map[string]fields{}
	for path, f := range docs {
		if id, ok := strings.CutPrefix(path, collection); ok {
			found[id] = f
		}
	}
	return found
}

func total(shards map[string]fields) int {
	sum := 0
	for _, f := range shards {
		sum += f["count"].(int)
	}
	return sum
}

// apply returns what the documents are after the writes, by Firestore's documentation.
func apply(docs map[string]fields, ws []*firestorepb.Write) map[string]fields {
	docs = maps.Clone(docs)
	for _, w := range ws {
		path := target(w)
		if _, ok := w.Operation.(*firestorepb.Write_Delete); ok {
			delete(docs, path)
			continue
		}
		f := fields{}
		if w.UpdateMask != nil {
			f = maps.Clone(docs[path])
			if f == nil {
				f = fields{}
			}
			for _, name := range w.UpdateMask.FieldPaths {
				delete(f, name)
			}
		}
		for name, v := range w.GetUpdate().GetFields() {
			f[name] = plain(v)
		}
		for _, t := range w.UpdateTransforms {
			f[t.FieldPath] = plus(f[t.FieldPath], plain(t.GetIncrement()))
		}
		docs[path] = f
	}
	return docs
}

// plus is what an increment makes of a field.
func plus(held, amount any) any {
	switch h := held.(type) {
	case int:
		switch a := amount.(type) {
		case int:
			sum := h + a
			if a > 0 && sum < h {
				return math.MaxInt64
			}
			if a < 0 && sum > h {
				return math.MinInt64
			}
			return sum
		case float64:
			return float64(h) + a
		}
	case float64:
		switch a := amount.(type) {
		case int:
			return h + float64(a)
		case float64:
			return h + a
		}
	}
	return amount
}

// The id of one of the users could be a shard's number.
var users = []user{ann, bob, cid, "2"}

// A generator makes commits, as users of the documents that there are.
type generator struct {
	rand *rand.Rand
	docs map[string]fields
}

// commit returns a commit; good says that the rules must accept it.
func (g *generator) commit() (u user, ws []*firestorepb.Write, good bool) {
	u = pick(g, users...)
	ws = g.honest()
	if g.rand.IntN(3) == 0 {
		return u, ws, !slices.ContainsFunc(ws, func(w *firestorepb.Write) bool {
			return strings.HasPrefix(target(w), "counters/w/") && g.docs["counters/w"]["frozen"] == true
		})
	}
	ws = g.twist(ws)
	for g.rand.IntN(3) == 0 {
		ws = g.twist(ws)
	}
	if g.rand.IntN(10) == 0 {
		u = pick(g, append(users, signedOut)...)
	}
	return u, ws, false
}

// honest returns an increment, or two of different counters.
func (g *generator) honest() []*firestorepb.Write {
	counters := []string{"counters/a", "counters/n", "counters/w"}
	g.rand.Shuffle(len(counters), func(i, j int) { counters[i], counters[j] = counters[j], counters[i] })
	var ws []*firestorepb.Write
	for _, counter := range counters[:1+g.rand.IntN(2)] {
		ws = append(ws, g.increment(counter))
	}
	return ws
}

func (g *generator) increment(counter string) *firestorepb.Write {
	n, ok := g.docs[counter]["num_shards"].(int)
	if !ok {
		n = 10
	}
	shard := counter + "/shards/" + strconv.Itoa(g.rand.IntN(n))
	if g.rand.IntN(3) == 0 { // as a transaction does
		count, _ := g.docs[shard]["count"].(int)
		return set(shard, fields{"count": count + 1})
	}
	return add(shard, 1)
}

// twist changes something, for better or worse.
func (g *generator) twist(ws []*firestorepb.Write) []*firestorepb.Write {
	ws = slices.Clone(ws)
	if len(ws) == 0 {
		return append(ws, g.any())
	}
	i := g.rand.IntN(len(ws))
	switch g.rand.IntN(7) {
	case 0: // one more
		return slices.Insert(ws, i, g.any())
	case 1: // more that is honest
		return append(g.honest(), ws...)
	}
	switch g.rand.IntN(4) {
	case 0: // one less
		return slices.Delete(ws, i, i+1)
	case 1: // one twice
		return append(ws, ws[i])
	case 2: // one changed, if it is a shard's
		if strings.Contains(target(ws[i]), "/shards/") {
			ws[i] = g.shard(target(ws[i]))
		}
	case 3: // one changed
		ws[i] = g.any()
	}
	return ws
}

// shard returns any write of a shard.
func (g *generator) shard(path string) *firestorepb.Write {
	amount := pick[any](g, 1, -1, 1, -1, 2, -2, 0, 5, math.MaxInt64, 1.0, -1.0, 0.5, math.NaN(), math.Inf(1), math.Copysign(0, -1))
	count, _ := g.docs[path]["count"].(int)
	switch g.rand.IntN(8) {
	case 0:
		return set(path, fields{"count": amount})
	case 1:
		return merge(path, fields{"count": count + pick(g, -2, -1, 0, 1, 2)}, "count")
	case 2:
		return set(path, fields{"count": count + 1, "x": 1})
	case 3:
		return merge(path, nil, "count")
	case 4:
		return remove(path)
	}
	return add(path, amount)
}

// any returns any write.
func (g *generator) any() *firestorepb.Write {
	counter := pick(g, "counters/a", "counters/n", "counters/o", "counters/w")
	switch g.rand.IntN(10) {
	case 0:
		return merge(counter, fields{"num_shards": 100, "frozen": false}, "num_shards", "frozen")
	case 1:
		return add("rollups/a", 1)
	case 2: // as a client that creates a counter
		return set(counter, fields{"num_shards": pick[any](g, 10, 12, 12, 100, 9, 101, 10.0, "10")})
	case 3:
		return set(counter+"/shards/"+strconv.Itoa(g.rand.IntN(14)), fields{"count": 0})
	}
	return g.shard(counter + "/shards/" + pick(g, "0", "1", "2", "3", "4", "10", "00", "+1", "-1", "x", "ann", "bob", "cid"))
}

func pick[T any](g *generator, of ...T) T { return of[g.rand.IntN(len(of))] }

// describe tells a commit, for a failed test.
func describe(u user, ws []*firestorepb.Write) string {
	text := []string{fmt.Sprintf("%s commits", u)}
	for _, w := range ws {
		text = append(text, w.String())
	}
	return strings.Join(text, "\n\t")
}
