package route_test

import (
	"testing"

	"github.com/firestore-tally/tally/rollup/route"
)

// Totals of some documents do not tell how many documents there are. Documents of several kinds are
// not added up.
func TestTellsNumber(t *testing.T) {
	for text, want := range map[string]bool{
		route.Default: true,
		"counters/{c}/shards/{shard} -> rollups/{c} : likes, views":                                                                      true,
		"orders/{order} by shop -> shops/{shop} : count() as orders, amount as revenue, latest(at) as last : existing":                   true,
		"orders/{order} by shop -> shops/{shop} : amount as revenue : existing":                                                          true,
		"orders/{order} by shop -> shops/{shop} : amount as revenue, tax as taxes : existing":                                            false,
		"games/{g}/scores/{s} -> games/{g} : maximum(points) as best : existing":                                                         false,
		"polls/{p}/votes/{v} -> polls/{p} : count() where yes == true as yes, count() where yes == false as no : existing":               false,
		"posts/{p}/comments/{c} -> posts/{p} : count() where ok == true as comments : existing":                                          false,
		"posts/{p}/likes/{u} -> posts/{p} : count() as likes : existing\nposts/{p}/views/{v} -> posts/{p} : count() as views : existing": false,
		"votes/{v}/yes/{shard} -> totals/{v} : count as yes\nvotes/{v}/no/{shard} -> totals/{v} : count as no":                           true,
	} {
		routes, err := route.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := routes[0].Template.TellsNumber(); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

func TestHasShards(t *testing.T) {
	for text, want := range map[string]bool{
		route.Default: true,
		"posts/{p}/likes/{user} -> posts/{p} : count() as likes : existing": false,
		"orders/{order} by shop -> shops/{shop} : amount : existing":        false,
		"stores/{store}/days/{day} -> stores/{store} : revenue : existing\nsales/{sale} by store, day(at) -> stores/{store}/days/{day} : amount as revenue : within stores/{store}": false,
		"posts/{p}/views/{shard} -> posts/{p} : views : existing\nposts/{p} -> stats/all : views":                                                                                   true,
	} {
		routes, err := route.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := routes[0].HasShards(); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}
