package route_test

import (
	"testing"

	"github.com/firestore-tally/tally/rollup/route"
)

// A level is a total that is made of the totals of another level, not of what else is in the same
// documents.
func TestLevels(t *testing.T) {
	const (
		likes = "posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing\n"
		karma = "posts/{post} by author -> users/{author} : sum(likes) as karma : existing\n"
		team  = "users/{user} by team.id -> teams/{team.id} : sum(karma) as karma : existing\n"
	)
	for _, test := range []struct {
		routes, path string
		levels       int
	}{
		{likes, "posts/{post}/likes/{user} -> posts/{post}", 1},
		{team + likes + karma, "posts/{post}/likes/{user} -> posts/{post} -> users/{author} -> teams/{team.id}", 3},
		{likes + "posts/{post} by author -> users/{author} : count() as posts : existing", "posts/{post}/likes/{user} -> posts/{post}", 1},
		{likes + "posts/{post} -> stats/all : count() where likes >= 100 as popular : every 1m", "posts/{post}/likes/{user} -> posts/{post} -> stats/all", 2},
		{"c/{c}/shards/{s} -> r/{c} : n as kind\nr/{r} by kind.of -> k/{kind.of} : count() : existing", "c/{c}/shards/{s} -> r/{c} -> k/{kind.of}", 2},
		{"`a b`/{s} -> r/x : n\nr/{r} -> q/x : m", "`a b`/{s} -> r/x", 1},
	} {
		routes, err := route.Parse(test.routes)
		if err != nil {
			t.Errorf("%s: %v", test.routes, err)
			continue
		}
		levels := routes.Levels()
		if len(levels) != test.levels || levels.Path() != test.path {
			t.Errorf("%s: %d levels, %s; want %d, %s", test.routes, len(levels), levels.Path(), test.levels, test.path)
		}
	}
}
