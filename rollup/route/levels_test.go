package route_test

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/firestore-tally/tally/rollup/route"
)

// The replies of comments are comments. Each roll-up is an event that is unchanged and Circular.
// Levels above see it as any other.
func TestCircularRoutes(t *testing.T) {
	routes, err := route.Parse(`
		comments/{c}/likes/{user} -> comments/{c} : count() as likes : existing
		comments/{c} by parent -> comments/{parent} : count() as replies, sum(points) where shown == true as points_of_replies : existing
		comments/{c} by root -> comments/{root} : count() as thread : existing
		comments/{c} by author -> users/{author} : sum(replies) as replies : existing
		stories/{s} -> stories/all : count() where shown == true as stories : existing`)
	if err != nil {
		t.Fatal(err)
	}
	const circles = "each roll-up of comments/{parent} is one more event of comments/{c}; " +
		"each roll-up of comments/{root} is one more event of comments/{c}; each roll-up of stories/all is one more event of stories/{s}"
	if got := routes.Circles(); got != circles {
		t.Errorf("got %s, want %s", got, circles)
	}

	before := map[string]any{"parent": "p", "root": "r", "author": "ann", "points": int64(1), "shown": true, "replies": int64(1)}
	with := func(field string, value any) map[string]any {
		after := maps.Clone(before)
		after[field] = value
		return after
	}
	for _, test := range []struct {
		name          string
		path          string
		before, after map[string]any
		want          []string
	}{
		{"a like", "comments/c/likes/ann", nil, map[string]any{}, []string{"comments/c"}},
		{"created", "comments/c", nil, before, []string{"comments/p circular", "comments/r circular", "users/ann"}},
		{"edited", "comments/c", before, with("text", "x"), []string{"comments/p unchanged circular", "comments/r unchanged circular", "users/ann unchanged"}},
		{"rolled up", "comments/c", before, with("replies", int64(2)), []string{"comments/p unchanged circular", "comments/r unchanged circular", "users/ann"}},
		{"hidden", "comments/c", before, with("shown", false), []string{"comments/p circular", "comments/r unchanged circular", "users/ann unchanged"}},
		{"moved", "comments/c", before, with("parent", "q"), []string{"comments/p circular", "comments/q circular", "comments/r unchanged circular", "users/ann unchanged"}},
		{"within one thread", "comments/c", with("root", "p"), with("root", "p"), []string{"comments/p unchanged circular", "users/ann unchanged"}},
		{"moved within one thread", "comments/c", with("root", "p"), with("parent", "r"), []string{"comments/p circular", "comments/r circular", "users/ann unchanged"}},
		{"without its documents", "stories/s", nil, nil, []string{"stories/all circular untold"}},
		{"of all", "stories/all", before, with("stories", int64(2)), []string{"stories/all unchanged circular"}},
	} {
		source, _ := routes.Source(test.path)
		var got []string
		for _, c := range source.Concerned(write{test.path, test.before, test.after}) {
			name := c.RollUp
			if c.Unchanged {
				name += " unchanged"
			}
			if c.Circular {
				name += " circular"
			}
			if c.Untold {
				name += " untold"
			}
			got = append(got, name)
		}
		if d := cmp.Diff(test.want, got); d != "" {
			t.Errorf("%s: concerns (-want +got):\n%s", test.name, d)
		}
	}
}
