package firestorestore

import (
	"strings"
	"testing"

	"github.com/firestore-tally/tally/rollup/route"
)

// The places behind counters and documents, as the comments draw them.
func TestPlaces(t *testing.T) {
	routes, err := route.Parse(route.Default)
	if err != nil {
		t.Fatal(err)
	}
	pattern := routes[0].Pattern()

	for path, want := range map[string]string{
		"counters/likes/shards/0":   "counters/likes\x00",
		"counters/__id7__/shards/0": "counters/__id7__/shards\x00/" + firstID,
	} {
		if got := behind(pattern[:len(pattern)-1], strings.Split(path, "/")); got != want {
			t.Errorf("behind %s: %q, want %q", path, got, want)
		}
	}

	for path, want := range map[string]string{
		"counters/likes/drafts/x/shards/0": "counters/likes/shards/" + firstID,
		"counters/likes/zzz/x/shards/0":    "counters/likes\x00",
		"counters/likes/shards/0/shards/1": "counters/likes/shards/0\x00",
	} {
		if got := next(pattern, path); got != want {
			t.Errorf("next after %s: %q, want %q", path, got, want)
		}
	}
}
