package tally

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
	".":                       {"internal/app"},
	"internal/app":            {"internal/billing", "internal/config", "internal/document", "internal/firestorestore", "internal/telemetry", "internal/trigger", "rollup"},
	"internal/telemetry":      {"internal/config", "rollup"},
	"internal/firestorestore": {"internal/document", "internal/value", "rollup"},
	"internal/trigger":        {"internal/document"},
	"internal/billing":        {},
	"internal/config":         {"rollup"},
	"rollup":                  {"internal/document", "internal/value"},
	"internal/value":          {},
	"internal/document":       {},

	// Go servers.
	"shards": {"internal/document", "internal/value"},

	// The command line.
	"cmd/tally": {".", "clients/web", "internal/appfolder", "internal/billing", "internal/config", "internal/dashboard", "internal/deploy", "internal/doctor", "internal/document",
		"internal/firestorestore", "internal/lag", "internal/local", "internal/local/emulator", "internal/local/freeport", "internal/migration", "internal/trial", "internal/value", "rollup", "shards"},
	"clients/web":        {},
	"internal/doctor":    {"internal/appfolder", "internal/config", "internal/deploy", "internal/document", "internal/local/emulator", "rollup"},
	"internal/deploy":    {"internal/appfolder", "internal/billing", "internal/config", "internal/document", "rollup"},
	"internal/migration": {"internal/billing", "internal/document", "internal/firestorestore", "internal/value", "rollup", "shards"},
	"internal/dashboard": {"internal/billing", "internal/document", "internal/value", "rollup"},
	"internal/appfolder": {},
	"internal/lag":       {"shards"},
	"internal/trial":     {"internal/appfolder", "internal/billing", "internal/config", "internal/deploy", "internal/document", "internal/firestorestore", "internal/lag", "rollup", "shards"},

	// What runs on one machine.
	"internal/local": {"internal/billing", "internal/config", "internal/document", "internal/firestorestore", "internal/lag", "internal/local/emulator", "internal/local/eventrelay",
		"internal/local/framework", "internal/local/freeport", "rollup", "shards"},
	"internal/local/emulator":   {"internal/local/freeport"},
	"internal/local/eventrelay": {"internal/document"},
	"internal/local/framework":  {"internal/local/freeport"},
	"internal/local/freeport":   {},

	// Only tests and benchmarks.
	"e2e":                                  {},
	"e2e/apps":                             {},
	"e2e/bench":                            {},
	"e2e/googletest":                       {"internal/local/emulator/emulatortest", "internal/local/freeport"},
	"e2e/rules":                            {},
	"docs":                                 {},
	"docs/test/likes":                      {"shards"},
	"internal/local/emulator/emulatortest": {"internal/local/emulator", "internal/needs"},
	"internal/local/emulator/emulatortest/share": {"internal/local/emulator", "internal/local/emulator/emulatortest"},
	"internal/memstore":                          {"internal/document", "internal/value", "rollup"},
	"internal/needs":                             {},
	"internal/storetest":                         {"internal/document", "internal/value", "rollup"},
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

// The tour of doc.go comes through every package.
func TestTour(t *testing.T) {
	tour, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}

	for name := range allowed {
		room := regexp.MustCompile(`\b` + regexp.QuoteMeta(path.Base(name)) + `\b`)
		if name != "." && !room.Match(tour) {
			t.Errorf("doc.go does not name %s", name)
		}
	}
}

// The deployed functions carry none of what only cmd/tally needs.
func TestFunctionsStaySmall(t *testing.T) {
	deps, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for path := range strings.Lines(string(deps)) {
		path = strings.TrimSpace(path)
		for _, heavy := range []string{"cloud.google.com/go/functions/apiv2", "cloud.google.com/go/scheduler", "cloud.google.com/go/firestore/apiv1/admin", "cloud.google.com/go/run", "cloud.google.com/go/eventarc",
			"github.com/spf13/cobra", "github.com/firestore-tally/tally/internal/deploy", "github.com/firestore-tally/tally/internal/doctor"} {
			if strings.HasPrefix(path, heavy) {
				t.Errorf("the functions import %s", path)
			}
		}
	}
}
