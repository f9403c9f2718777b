package route_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/firestore-tally/tally/rollup/route"
)

// A level is a total that is made of the totals of another level, not of what else is in the same
// documents.
func TestDepth(t *testing.T) {
	const (
		likes = "posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing\n"
		karma = "posts/{post} by author -> users/{author} : sum(likes) as karma : existing\n"
		team  = "users/{user} by team.id -> teams/{team.id} : sum(karma) as karma : existing\n"
	)
	for _, test := range []struct {
		routes, want string
	}{
		{likes, ""},
		{team + likes + karma, "3 levels, posts/{post}/likes/{user} -> posts/{post} -> users/{author} -> teams/{team.id}: each roll-up is a change for the next level"},
		{likes + "posts/{post} by author -> users/{author} : count() as posts : existing", ""},
		{likes + "posts/{post} -> stats/all : count() where likes >= 100 as popular : every 1m", "2 levels, posts/{post}/likes/{user} -> posts/{post} -> stats/all: each roll-up is a change for the next level"},
		{"c/{c}/shards/{s} -> r/{c} : n as kind\nr/{r} by kind.of -> k/{kind.of} : count() : existing", "2 levels, c/{c}/shards/{s} -> r/{c} -> k/{kind.of}: each roll-up is a change for the next level"},
		{chain(6), "6 levels, a0/{d} -> a1/{a} -> a2/{a} -> a3/{a} -> a4/{a} -> … -> a6/{a}: each roll-up is a change for the next level"},
		{chain(4) + "a3/{d} by b -> b4/{b} : n : existing", "4 levels, a0/{d} -> a1/{a} -> a2/{a} -> a3/{a} -> a4/{a}: each roll-up is a change for the next level"}, // two have a beginning in common
		{"`a b`/{s} -> r/x : n\nr/{r} -> q/x : m", ""},
	} {
		routes, err := route.Parse(test.routes)
		if err != nil {
			t.Errorf("%s: %v", test.routes, err)
			continue
		}
		if got := routes.Depth(); got != test.want {
			t.Errorf("%s: got %q, want %q", test.routes, got, test.want)
		}
	}
}

// chain returns routes of which each makes totals of the one before.
func chain(levels int) string {
	var text strings.Builder
	for i := range levels {
		fmt.Fprintf(&text, "a%d/{d} by a -> a%d/{a} : n : existing\n", i, i+1)
	}
	return text.String()
}
