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
		if got := placeAfter(pattern[:len(pattern)-1], strings.Split(path, "/")); got != want {
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

	// A numeric id comes before the pattern's own.
	routes, err = route.Parse("users/{user}/private/Main/items/{item} -> users/{user} : amount : existing")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"users/ann/private/__id7__/items/0": "users/ann/private/Main",
		"users/ann/private/Other/items/0":   "users/ann\x00",
	} {
		if got := next(routes[0].Pattern(), path); got != want {
			t.Errorf("next after %s: %q, want %q", path, got, want)
		}
	}
}

// No place behind a text is longer than a query takes.
func TestPlaceBehindAText(t *testing.T) {
	x := func(n int) string { return strings.Repeat("x", n) }
	const longest = route.LongestGroup
	for text, want := range map[string]string{
		"":                    "\x00",
		x(longest - 1):        x(longest-1) + "\x00",
		x(longest):            x(longest-1) + "y",
		x(longest + 1):        x(longest-1) + "y",
		x(longest-1) + "\x7f": x(longest-2) + "y", // the character behind the last has two bytes
	} {
		if got := afterText(text); got != want || len(got) > longest {
			t.Errorf("behind %d bytes that end with %q: %d bytes that end with %q, want %d that end with %q",
				len(text), text[max(0, len(text)-2):], len(got), got[max(0, len(got)-2):], len(want), want[max(0, len(want)-2):])
		}
	}
}
