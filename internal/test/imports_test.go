package test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/firestore-tally/tally"

// allowed are the packages of this module, and which others of it each may import. Arrows point
// down only. A package that is not listed may not exist.
var allowed = map[string][]string{
	// The functions.
	".":                             {"internal/cloud/app"},
	"internal/cloud/app":            {"internal/cloud/alarm", "internal/cloud/billing", "internal/cloud/config", "internal/cloud/firestorestore", "internal/cloud/growth", "internal/cloud/trigger", "internal/document", "internal/reason", "rollup", "rollup/route"},
	"internal/cloud/firestorestore": {"internal/cloud/growth", "internal/document", "internal/value", "rollup", "rollup/route"},
	"internal/cloud/growth":         {"internal/document", "rollup/route"},
	"internal/cloud/trigger":        {"internal/document"},
	"internal/cloud/billing":        {"rollup/route"},
	"internal/cloud/config":         {"internal/cloud/billing", "rollup", "rollup/route"},
	"rollup":                        {"rollup/internal/events", "rollup/internal/note", "rollup/internal/roll", "rollup/internal/schedule", "rollup/route"},
	"rollup/internal/events":        {"internal/document", "rollup/internal/note", "rollup/internal/roll", "rollup/route"},
	"rollup/internal/schedule":      {"rollup/internal/note", "rollup/internal/roll", "rollup/route"},
	"rollup/internal/note":          {"internal/document", "rollup/internal/roll", "rollup/route"},
	"rollup/internal/roll":          {"internal/document", "internal/value", "rollup/route"},
	"rollup/route":                  {"internal/document", "internal/value"},
	"internal/reason":               {"internal/document", "internal/value", "rollup/route"},
	"internal/value":                {},
	"internal/document":             {"internal/value"},

	// Go servers.
	"shards": {"internal/document", "internal/value"},

	// The command line.
	"cmd/tally":               {".", "cmd/tally/command", "cmd/tally/counter", "cmd/tally/counters", "cmd/tally/court", "cmd/tally/draft", "cmd/tally/session", "cmd/tally/settings", "internal/cloud/alarm", "internal/cloud/billing", "internal/cloud/config", "internal/cloud/firestorestore", "internal/document", "internal/reason", "internal/tool/appfolder", "internal/tool/dashboard", "internal/tool/deploy", "internal/tool/doctor", "internal/tool/load", "internal/tool/local", "internal/tool/local/emulator", "internal/tool/local/freeport", "internal/tool/mistakes", "internal/tool/rules", "internal/tool/terminal", "internal/tool/trial", "internal/value", "rollup", "rollup/route", "shards"},
	"cmd/tally/counters":      {"cmd/tally/command", "cmd/tally/counter", "cmd/tally/court", "cmd/tally/session", "cmd/tally/settings", "internal/cloud/alarm", "internal/cloud/billing", "internal/cloud/config", "internal/cloud/firestorestore", "internal/document", "internal/reason", "internal/tool/appfolder", "internal/tool/doctor", "internal/tool/migration", "internal/tool/mistakes", "internal/tool/rules", "internal/tool/terminal", "internal/value", "rollup", "rollup/route", "shards"},
	"cmd/tally/session":       {"cmd/tally/counter", "cmd/tally/settings", "internal/cloud/config", "internal/cloud/firestorestore", "internal/document", "internal/reason", "internal/tool/appfolder", "internal/tool/deploy", "internal/tool/local/emulator", "internal/tool/terminal", "rollup/route", "shards"},
	"cmd/tally/court":         {"internal/tool/local/emulator", "internal/tool/rules", "internal/tool/terminal", "rollup/route"},
	"cmd/tally/counter":       {"cmd/tally/draft", "internal/document", "internal/reason", "internal/tool/terminal", "rollup/route"},
	"cmd/tally/draft":         {"internal/reason", "internal/tool/appfolder", "internal/tool/mistakes", "internal/tool/rules", "internal/tool/terminal", "rollup/route"},
	"cmd/tally/settings":      {"internal/cloud/config", "internal/cloud/firestorestore", "internal/tool/appfolder", "internal/tool/deploy", "internal/tool/rules", "internal/tool/terminal", "rollup/route"},
	"cmd/tally/command":       {"internal/tool/terminal"},
	"internal/tool/doctor":    {"internal/cloud/billing", "internal/cloud/config", "internal/document", "internal/reason", "internal/tool/appfolder", "internal/tool/deploy", "internal/tool/local/emulator", "internal/tool/mistakes", "internal/tool/rules", "internal/tool/terminal", "rollup/route"},
	"internal/tool/deploy":    {"internal/cloud/billing", "internal/cloud/config", "internal/document", "internal/tool/appfolder", "internal/tool/mistakes", "rollup", "rollup/route"},
	"internal/tool/migration": {"internal/cloud/billing", "internal/cloud/firestorestore", "internal/document", "internal/value", "rollup/route", "shards"},
	"internal/tool/dashboard": {"internal/cloud/billing", "internal/cloud/firestorestore", "internal/document", "internal/tool/local/freeport", "internal/value", "rollup/route"},
	"internal/tool/appfolder": {"internal/tool/mistakes"},
	"internal/tool/mistakes":  {"internal/document", "internal/reason", "rollup/route"},
	"internal/tool/rules":     {"internal/document", "internal/tool/local/emulator", "rollup/route"},
	"internal/tool/terminal":  {},
	"internal/tool/trial":     {"internal/cloud/billing", "internal/cloud/config", "internal/cloud/firestorestore", "internal/document", "internal/tool/appfolder", "internal/tool/deploy", "internal/tool/load", "internal/tool/mistakes", "rollup/route", "shards"},

	// What runs on one machine.
	"internal/tool/local":            {"internal/cloud/alarm", "internal/cloud/billing", "internal/cloud/config", "internal/cloud/firestorestore", "internal/tool/load", "internal/tool/local/emulator", "internal/tool/local/eventrelay", "internal/tool/local/framework", "internal/tool/local/freeport", "internal/tool/local/taskqueue", "rollup/route", "shards"},
	"internal/tool/local/emulator":   {"internal/tool/local/freeport"},
	"internal/tool/local/eventrelay": {"internal/document", "internal/tool/local/freeport"},
	"internal/tool/local/framework":  {"internal/tool/local/freeport"},
	"internal/tool/local/freeport":   {},

	// Only tests and benchmarks.
	"docs":                              {},
	"docs/design":                       {},
	"docs/test/likes":                   {"shards"},
	"e2e":                               {},
	"e2e/apps":                          {},
	"e2e/bench":                         {},
	"e2e/rules":                         {},
	"internal/cloud/alarm":              {"internal/document", "rollup"},
	"internal/test":                     {},
	"internal/test/changed":             {},
	"internal/test/emulatortest":        {"internal/document", "internal/test/emulatortest/shared", "internal/test/needs", "internal/tool/local/emulator", "internal/tool/local/freeport", "rollup/route"},
	"internal/test/emulatortest/shared": {"internal/tool/local/emulator", "internal/tool/local/freeport"},
	"internal/test/firebasetest":        {},
	"internal/test/googletest":          {"internal/tool/local/freeport"},
	"internal/test/memstore":            {"internal/cloud/growth", "internal/document", "internal/value", "rollup", "rollup/route"},
	"internal/test/needs":               {},
	"internal/test/storetest":           {},
	"internal/tool/load":                {"shards"},
	"internal/tool/local/taskqueue":     {"internal/tool/local/eventrelay", "internal/tool/local/freeport"},
}

func TestImports(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	local := func(path string) (string, bool) {
		name, ok := strings.CutPrefix(path+"/", module+"/")
		name = strings.TrimSuffix(name, "/")
		if name == "" {
			name = "."
		}
		return name, ok
	}
	seen := make(map[string]bool)
	packages := json.NewDecoder(bytes.NewReader(out))
	for {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := packages.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		name, _ := local(p.ImportPath)
		rights, ok := allowed[name]
		if !ok {
			t.Errorf("package %s is not listed here: it has no rights, not even to be", name)
		}
		for _, path := range p.Imports {
			if imported, ok := local(path); ok && !slices.Contains(rights, imported) {
				t.Errorf("%s imports %s", name, imported)
			}
		}
		seen[name] = true
	}
	for name := range allowed {
		if !seen[name] {
			t.Errorf("package %s is listed here, and is not there", name)
		}
	}
}

// The tour of doc.go comes through every package, and the picture of the design has all that are
// not only for tests.
func TestTour(t *testing.T) {
	for _, page := range []struct {
		file  string
		tests bool // it has the packages for tests, too
	}{{"doc.go", true}, {"docs/design/README.md", false}} {
		text, err := os.ReadFile(page.file)
		if err != nil {
			t.Fatal(err)
		}

		for name := range allowed {
			onlyTests := strings.HasPrefix(name+"/", "internal/test/") || strings.HasPrefix(name, "e2e") || strings.HasPrefix(name, "docs")
			if name == "." || onlyTests && !page.tests {
				continue
			}
			room := regexp.MustCompile(`\b` + regexp.QuoteMeta(path.Base(name)) + `\b`)
			if !room.Match(text) {
				t.Errorf("%s does not name %s", page.file, name)
			}
		}
	}
}

// The deployed functions carry none of what only cmd/tally needs. They list indexes, without the
// client of that API.
func TestFunctionsStaySmall(t *testing.T) {
	deps, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for path := range strings.Lines(string(deps)) {
		path = strings.TrimSpace(path)
		for _, heavy := range []string{"cloud.google.com/go/functions/apiv2", "cloud.google.com/go/scheduler", "cloud.google.com/go/firestore/apiv1/admin", "cloud.google.com/go/run", "cloud.google.com/go/eventarc",
			"github.com/spf13/cobra", "github.com/firestore-tally/tally/internal/tool/"} {
			if strings.HasPrefix(path, heavy) && path != "cloud.google.com/go/firestore/apiv1/admin/adminpb" {
				t.Errorf("the functions import %s", path)
			}
		}
	}
}
