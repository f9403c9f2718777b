package rules

import (
	"fmt"
	"maps"
	"sync"
	"testing"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The largest commits that the emulator accepts, for the table in docs/rules.md. Firestore allows 20
// document accesses for a commit, and 10 for each write in it.
func TestLimits(t *testing.T) {
	t.Parallel()
	documents := map[string]fields{}
	for i := range 30 {
		documents[fmt.Sprintf("counters/free%d", i)] = fields{"num_shards": 100}
		once := fmt.Sprintf("counters/once%d", i)
		maps.Copy(documents, map[string]fields{
			once: {"num_shards": 10, "once_per_user": true}, once + "/shards/3": {"count": 1}, once + "/voters/bob": {"shard": "3"},
		})
	}
	for _, test := range []struct {
		name  string
		user  user
		most  int
		write func(i int) []*firestorepb.Write
	}{
		{"increments of counters with documents", ann, 10, func(i int) []*firestorepb.Write { return writes(add(fmt.Sprintf("counters/free%d/shards/0", i), 1)) }},
		{"increments of counters without documents", ann, 20, func(i int) []*firestorepb.Write { return writes(add(fmt.Sprintf("counters/new%d/shards/0", i), 1)) }},
		{"votes", ann, 4, func(i int) []*firestorepb.Write {
			counter := fmt.Sprintf("counters/once%d", i)
			return writes(vote(counter+"/voters/ann", "3"), add(counter+"/shards/3", 1))
		}},
		{"votes taken back", bob, 3, func(i int) []*firestorepb.Write {
			counter := fmt.Sprintf("counters/once%d", i)
			return writes(remove(counter+"/voters/bob"), add(counter+"/shards/3", -1))
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := newDatabase(t, documents)
			var ws []*firestorepb.Write
			for i := range test.most {
				ws = append(ws, test.write(i)...)
			}
			if err := d.commit(test.user, append(ws, test.write(test.most)...)...); status.Code(err) != codes.PermissionDenied {
				t.Errorf("%d: %v, want PermissionDenied", test.most+1, err)
			}
			if err := d.commit(test.user, ws...); err != nil {
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

// Votes in one shard do not get into one another's way, and a user who votes in several places at once
// has voted once.
func TestConcurrentVotes(t *testing.T) {
	t.Parallel()
	d := newDatabase(t, map[string]fields{"counters/v": {"num_shards": 2, "once_per_user": true}})
	const users, devices = 6, 3
	var mu sync.Mutex
	accepted := map[user]int{}
	var wg sync.WaitGroup
	for i := range users * devices {
		wg.Go(func() {
			u := user(fmt.Sprint("user", i/devices))
			shard := fmt.Sprint(i % 2)
			for {
				err := d.commit(u, vote("counters/v/voters/"+string(u), shard), add("counters/v/shards/"+shard, 1))
				switch status.Code(err) {
				case codes.OK:
					mu.Lock()
					accepted[u]++
					mu.Unlock()
					return
				case codes.PermissionDenied:
					return
				case codes.Aborted: // as SDKs do, again
				default:
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	shards, err := d.list(server, "counters/v", "shards")
	if err != nil {
		t.Fatal(err)
	}
	if got := total(shards); got != users {
		t.Errorf("the total is %d, of %d voters", got, users)
	}
	for i := range users {
		if u := user(fmt.Sprint("user", i)); accepted[u] != 1 {
			t.Errorf("%s voted %d times", u, accepted[u])
		}
	}
}
