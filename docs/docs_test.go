// Package docs_test reads the pages as a browser does: each link leads somewhere.
package docs_test

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/firestore-tally/tally/rollup/route"
)

var (
	code    = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	dropped = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

func glob(t *testing.T, patterns ...string) (files []string) {
	t.Helper()
	for _, pattern := range patterns {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(found), err)
		}
		files = append(files, found...)
	}
	return files
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// anchors returns the headings of a page as GitHub names them in links.
func anchors(t *testing.T, page string) map[string]bool {
	found := map[string]bool{}
	for _, h := range heading.FindAllStringSubmatch(code.ReplaceAllString(read(t, page), ""), -1) {
		found[strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-")] = true
	}
	return found
}

func TestLinks(t *testing.T) {
	for _, page := range glob(t, "../*.md", "*.md", "design/*.md", "../clients/web/README.md", "../examples/*/README.md") {
		for _, l := range link.FindAllStringSubmatch(read(t, page), -1) {
			path, anchor, _ := strings.Cut(l[1], "#")
			if strings.Contains(path, "://") {
				continue
			}
			file := page
			if path != "" {
				file = filepath.Join(filepath.Dir(page), path)
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: %v", page, err)
			} else if strings.HasSuffix(file, ".md") && anchor != "" && !anchors(t, file)[anchor] {
				t.Errorf("%s links to %s, which has no such heading", page, l[1])
			}
		}
	}
}

// What was tried on real projects stands in one place. README has a line that leads there; other
// pages only link.
func TestRealProjects(t *testing.T) {
	untried := regexp.MustCompile(`(?i)\b(no|not|never|nothing|no one)\b[^.\n]*\breal (google cloud )?project`)
	want := map[string]int{"../README.md": 1, "limits.md": 1}
	for _, page := range glob(t, "../*.md", "*.md", "design/*.md", "../cmd/tally/command/help/*.md", "../npm/*.md", "../clients/web/README.md", "../examples/*/README.md") {
		if found := untried.FindAllString(read(t, page), -1); len(found) != want[page] {
			t.Errorf("%s: got %q, want %d", page, found, want[page])
		}
	}
}

// Thirteen pages and a tutorial, and pictures that are seen in light and in dark.
func TestSize(t *testing.T) {
	if pages := glob(t, "*.md"); len(pages) > 14 {
		t.Errorf("%d pages, want 14 at most: %v", len(pages), pages)
	}
	for _, picture := range glob(t, "pictures/*.svg") {
		text := read(t, picture)
		if len(text) > 60_000 || !strings.Contains(text, "prefers-color-scheme: dark") {
			t.Errorf("%s has %d bytes, or no dark colors", picture, len(text))
		}
		for d := xml.NewDecoder(strings.NewReader(text)); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", picture, err)
			}
		}
	}
}

// identities.svg says what firestore.rules let users do, and no more.
func TestIdentities(t *testing.T) {
	said := regexp.MustCompile(`firestore\.rules: ([^<]*)<`).FindStringSubmatch(read(t, "pictures/identities.svg"))
	if said == nil {
		t.Fatal("it says nothing of firestore.rules")
	}
	rules, allowed := read(t, "../firestore.rules"), map[string]string{"add 1": "adds('count')"}
	for what := range strings.SplitSeq(said[1], ", ") {
		if rule := allowed[what]; rule == "" || !strings.Contains(rules, rule) {
			t.Errorf("%q is by no rule of firestore.rules", what)
		}
	}
}

// The edit that CONTRIBUTING.md names, for when the first release is published, still applies. Then
// no one is told to take a clone, except for a change of Tally itself.
func TestPublished(t *testing.T) {
	if testing.Short() {
		t.Skip("needs git")
	}
	patch, err := filepath.Abs("../npm/published.patch")
	if err != nil {
		t.Fatal(err)
	}
	changed := regexp.MustCompile(`(?m)^\+\+\+ b/(.*)$`).FindAllStringSubmatch(read(t, patch), -1)
	dir := t.TempDir()
	for _, file := range changed {
		into := filepath.Join(dir, file[1])
		err := os.MkdirAll(filepath.Dir(into), 0o700)
		if err := errors.Join(err, os.WriteFile(into, []byte(read(t, filepath.Join("..", file[1]))), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	apply := exec.CommandContext(t.Context(), "git", "apply", patch)
	apply.Dir = dir
	if out, err := apply.CombinedOutput(); err != nil {
		t.Fatalf("git apply npm/published.patch: %v\n%s", err, out)
	}

	readme := read(t, filepath.Join(dir, "README.md"))
	if !strings.Contains(readme, "npx @firestore-tally/cli demo") {
		t.Error("README.md does not name npx then")
	}
	if strings.Contains(read(t, filepath.Join(dir, "examples/blog/package.json")), "go build") {
		t.Error("examples/blog takes Go then")
	}
	for _, page := range []string{"README.md", "clients/web/README.md", "examples/blog/README.md"} {
		for _, word := range []string{"../tally", "git clone", "not published", "Nothing is published"} {
			if strings.Contains(read(t, filepath.Join(dir, page)), word) {
				t.Errorf("%s says %q then", page, word)
			}
		}
	}
}

// Blocks of routes are routes. Tests of their own run those of recipes.md.
func TestRoutes(t *testing.T) {
	found := 0
	for _, page := range []string{"config.md", "routes.md", "limits.md", "migrate.md", "../README.md"} {
		text := read(t, page)
		var routes []string
		for _, m := range regexp.MustCompile("(?m)^```(?:text|yaml\nroutes: \\|)\n((?:.* -> .*\n|  .*\n)+)").FindAllStringSubmatch(text, -1) {
			routes = append(routes, m[1])
		}
		for _, m := range regexp.MustCompile("`([^`\n]+ -> [^`\n]+)`").FindAllStringSubmatch(text, -1) {
			routes = append(routes, m[1])
		}

		found += len(routes)
		for _, r := range routes {
			if _, err := route.Parse(r); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
	}
	if found < 10 {
		t.Errorf("%d routes were found", found)
	}
}

// Each total in the table of indexes needs the index that its row says.
func TestIndexExamples(t *testing.T) {
	_, table, _ := strings.Cut(read(t, "routes.md"), "| total | index |\n| --- | --- |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(table, "\n")
	if len(rows) < 10 {
		t.Fatalf("the table has %d rows", len(rows))
	}
	for _, row := range rows {
		cells := strings.Split(strings.Trim(row, "| "), " | ")
		routes, err := route.Parse("orders/{order} by shop -> shops/{shop} : " + strings.Trim(cells[0], "`") + " as n : existing")
		if err != nil {
			t.Errorf("%s: %v", row, err)
			continue
		}
		want := "none"
		for _, x := range routes.Indexes(route.Standard) {
			want = x.String()
		}
		if cells[1] != want {
			t.Errorf("%s: want %s", row, want)
		}
	}
}
