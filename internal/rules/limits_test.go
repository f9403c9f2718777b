package rules

import (
	"fmt"
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
