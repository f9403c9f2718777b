package route

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what Parse says of each shape into testdata/shapes.txt")

// Routes as people write them before they know the grammar. Each is taken, or refused with what
// does it instead. In testdata/shapes.txt the line below a route is "taken", or the reason.
func TestShapes(t *testing.T) {
	const file = "testdata/shapes.txt"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}

	var got strings.Builder
	for block := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		route, _, _ := strings.Cut(block, "\n")
		said := "taken"
		if _, err := Parse(route); err != nil {
			said, _, _ = strings.Cut(err.Error(), "\n")
		}
		if strings.HasPrefix(said, wantRoute) && !strings.Contains(said, "did you mean") {
			t.Errorf("%s\nis refused without a form that says it: %s", route, said)
		}
		got.WriteString(route + "\n    " + said + "\n\n")
	}

	if *update {
		if err := os.WriteFile(file, []byte(strings.TrimSpace(got.String())+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if strings.TrimSpace(got.String()) != strings.TrimSpace(string(text)) {
		t.Errorf("%s differs; run the test with -update, and read what changed. Now it would be:\n%s", file, got.String())
	}
}
