package mistakes

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/firestore-tally/tally/rollup/route"
)

var update = flag.Bool("update", false, "write what is said of each route into testdata/shapes.txt and rollup/route/testdata/refused.txt")

// The files of routes, each with what is said of them below.
const (
	shapesFile  = "testdata/shapes.txt"
	refusedFile = "../../../rollup/route/testdata/refused.txt"
)

// Routes as people write them before they know the grammar. Each is taken, or refused with what
// does it instead. In testdata/shapes.txt the line below a route is "taken", or the reason.
func TestShapes(t *testing.T) {
	checkBlocks(t, shapesFile, func(routes string) []string {
		_, err := Parse(routes)
		if err == nil {
			return []string{"    taken"}
		}

		said := firstLine(err)
		if strings.HasPrefix(said, "want <source pattern> -> ") && !strings.Contains(said, "did you mean") {
			t.Errorf("%s\nis refused without a form that says it: %s", routes, said)
		}
		return []string{"    " + said}
	})
}

// Routes that are refused, with the short text and the sentence of each mistake.
func TestRefused(t *testing.T) {
	checkBlocks(t, refusedFile, func(routes string) (lines []string) {
		_, err := route.Parse(routes)
		joined, ok := err.(interface{ Unwrap() []error })
		if !ok {
			t.Fatalf("%s: %v", routes, err)
		}
		for _, err := range joined.Unwrap() {
			lines = append(lines, "  short: "+firstLine(err), "   long: "+firstLine(Explain(err)))
		}
		return lines
	})
}

// checkBlocks compares what a file says below the routes of each of its blocks. Lines that begin
// with # are comments.
func checkBlocks(t *testing.T, name string, say func(routes string) []string) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}

	var blocks []string
	for block := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		var lines []string
		for line := range strings.SplitSeq(block, "\n") {
			isSaid := strings.HasPrefix(line, " ")
			if isSaid {
				continue
			}
			lines = append(lines, line)
			if isRoute(line) {
				lines = append(lines, say(line)...)
			}
		}
		blocks = append(blocks, strings.Join(lines, "\n"))
	}
	got := strings.Join(blocks, "\n\n") + "\n"

	if *update {
		if err := os.WriteFile(name, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != string(text) {
		t.Errorf("%s differs; run the test with -update, and read what changed. Now it would be:\n%s", name, got)
	}
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(fmt.Sprint(err), "\n")
	return line
}
