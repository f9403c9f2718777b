package rules

import (
	"fmt"
	"strings"
	"testing"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The largest commits that the emulator accepts, for docs/recipes.md. Firestore allows 20
// document accesses for a commit, and 10 for each write in it.
func TestLimits(t *testing.T) {
	t.Parallel()
	documents := map[string]fields{}
	for i := range 30 {
		documents[fmt.Sprintf("counters/free%d", i)] = fields{"num_shards": 100}
		documents[fmt.Sprintf("counters/open%d", i)] = fields{"num_shards": 100, "frozen": false}
		documents[fmt.Sprintf("counters/once%d", i)] = fields{"once_per_user": true}
	}
	for _, test := range []struct {
		name  string
		most  int
		write func(i int) *firestorepb.Write
	}{
		{"increments of counters with documents", 10, func(i int) *firestorepb.Write { return add(fmt.Sprintf("counters/free%d/shards/0", i), 1) }},
		{"increments of counters without documents", 20, func(i int) *firestorepb.Write { return add(fmt.Sprintf("counters/new%d/shards/0", i), 1) }},
		{"increments of counters, frozen false", 10, func(i int) *firestorepb.Write { return add(fmt.Sprintf("counters/open%d/shards/0", i), 1) }},
		{"votes", 10, func(i int) *firestorepb.Write { return vote(fmt.Sprintf("counters/once%d/shards/ann", i), 1) }},
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
				"vote": writes(vote(votes+"ann", 1)), "take back": writes(vote(votes+"ann", 0)),
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
