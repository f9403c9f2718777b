//go:build unix

package emulator

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Each other project that a request names is told once, and neither the emulator's own nor that of
// the check of its rules.
func TestOtherProject(t *testing.T) {
	t.Parallel()
	told := make(chan string, 10)
	e := start(t, Options{Project: "demo-shop", OtherProject: func(project string) { told <- project }})

	for _, project := range []string{"demo-shop", "my-real-shop", "my-real-shop", "demo-shop", "another"} {
		if err := SetRules(t.Context(), e.Addr(), RulesProject, DefaultDatabase, "service cloud.firestore { match /a/b { allow read; } }"); err != nil {
			t.Fatal(err)
		}
		path := "/v1/projects/" + project + "/databases/(default)/documents/a/b"
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+e.Addr()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
	}

	// The emulator prints in the order of the requests.
	for _, want := range []string{"my-real-shop", "another"} {
		select {
		case got := <-told:
			if got != want {
				t.Errorf("reported %s, want %s", got, want)
			}
		case <-t.Context().Done():
			t.Fatalf("did not report %s", want)
		}
	}
}

func TestProjectWatch(t *testing.T) {
	warning := func(project string) string {
		return "Multiple projectIds are not recommended in single project mode. Requested project ID " + project + ", but the emulator is configured for demo-shop. To opt-out\n"
	}
	var many string
	var ten []string
	for n := range 12 {
		many += warning(fmt.Sprint("p", n))
		if n < maxProjects {
			ten = append(ten, fmt.Sprint("p", n))
		}
	}

	for name, c := range map[string]struct {
		printed string
		want    []string
	}{
		"nothing":              {"", nil},
		"another":              {"INFO: x\n" + warning("a-b") + "y\n" + warning("a-b") + warning("c"), []string{"a-b", "c"}},
		"the check":            {warning(RulesProject), nil},
		"within a line":        {"x " + warning("a"), nil},
		"a line without end":   {strings.Repeat("x", 3*tailSize) + warning("a") + warning("b"), []string{"b"}},
		"a line that is short": {strings.TrimSuffix(warning("a"), "\n"), nil},
		"more than ten":        {many, ten},
	} {
		for _, chunk := range []int{1, 7, 100_000} {
			t.Run(fmt.Sprint(name, ", by ", chunk), func(t *testing.T) {
				var got []string
				w := &projectWatch{tell: func(project string) { got = append(got, project) }}
				for rest := c.printed; rest != ""; {
					n := min(chunk, len(rest))
					if _, err := io.WriteString(w, rest[:n]); err != nil {
						t.Fatal(err)
					}
					rest = rest[n:]
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Error(diff)
				}
				if len(w.line) > tailSize {
					t.Errorf("keeps %d bytes", len(w.line))
				}
			})
		}
	}
}
