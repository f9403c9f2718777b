package mistakes

import (
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/firestore-tally/tally/rollup/route"
)

// examples returns the routes in files and of placed. Most of them are refused.
func examples(t testing.TB, files ...string) (all []string) {
	t.Helper()
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.SplitSeq(string(text), "\n") {
			if isRoute(line) {
				all = append(all, line)
			}
		}
	}
	for _, test := range placed {
		all = append(all, test.routes)
	}
	return all
}

// isRoute reports whether a line of such a file has routes. The others are comments, blank, or what
// is said of the routes above.
func isRoute(line string) bool { return line != "" && !strings.ContainsAny(line[:1], "# ") }

// FuzzParse: each mistake has a sentence that can be shown, whatever stands before and behind it.
func FuzzParse(f *testing.F) {
	for _, text := range examples(f, shapesFile, refusedFile) {
		f.Add(text)
	}
	f.Add("a/{a}/s/{s} -> r/{a} : count() where n > timestamp!\"\xe0000\"0")
	f.Add("a/{a}/s/{s} -> r/{a} : count() \"\x9d\"")
	f.Add("a/{a}/s/{s} -> r/{a} : count() as n where \xff")
	f.Fuzz(checkSentences)
}

// checkSentences checks that what is wrong with routes is said, if anything is.
func checkSentences(t *testing.T, text string) {
	_, short := route.Parse(text)
	_, err := Parse(text)
	if (short == nil) != (err == nil) {
		t.Fatalf("%q: %v, and in short %v", text, err, short)
	}
	if err == nil {
		return
	}

	said := err.Error()
	shown := utf8.ValidString(said) && !strings.ContainsFunc(said, func(r rune) bool { return r != '\n' && unicode.IsControl(r) })
	misformed := strings.Contains(said, "%!") && !strings.Contains(text, "%!")
	if said == "" || !shown || misformed {
		t.Errorf("%q: %q", text, said)
	}
}

// A part of a route that stands where it does not belong, or is missing, is told in a sentence.
func TestPartsInOtherPlaces(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 0))
	routes := examples(t, shapesFile, refusedFile)
	var parts []string
	for _, text := range routes {
		parts = append(parts, part.FindAllString(text, -1)...)
	}
	for range 20_000 {
		of := part.FindAllString(routes[random.IntN(len(routes))], -1)
		for range 1 + random.IntN(2) {
			at := random.IntN(len(of) + 1)
			switch {
			case random.IntN(3) == 0 && at < len(of):
				of = slices.Delete(of, at, at+1)
			case random.IntN(2) == 0:
				of = of[:at]
			default:
				of = slices.Insert(of, at, parts[random.IntN(len(parts))])
			}
		}
		checkSentences(t, strings.Join(of, []string{"", " "}[random.IntN(2)]))
	}
}

// part matches a word, a mark or a space.
var part = regexp.MustCompile(`[\pL\pN_.]+|\s+|[^\pL\pN_.\s]`)
