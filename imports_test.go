package tally

import (
	"go/build"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Arrows point down only: each package may import those of this module that are named here, and no
// others. That rollup imports nothing else than the standard library is tested there.
func TestImports(t *testing.T) {
	const module = "github.com/firestore-tally/tally/"
	for path, allowed := range map[string][]string{
		".":                       {"internal/app"},
		"internal/app":            {"internal/billing", "internal/firestorestore", "internal/telemetry", "internal/trigger", "rollup"},
		"internal/trigger":        nil,
		"internal/document":       nil,
		"internal/firestorestore": {"internal/document", "rollup"},
		"internal/migration":      {"internal/billing", "internal/document", "internal/firestorestore", "rollup", "shards"},
		"internal/memstore":       {"internal/document", "rollup"},
		"internal/billing":        nil,
		"internal/telemetry":      {"rollup"},
		"rollup":                  {"internal/document"},
		"shards":                  {"internal/document"},
		"deploy":                  {"internal/app", "internal/appfolder", "internal/document", "rollup"},
		"internal/appfolder":      nil,
		"internal/emulator":       {"internal/freeport"},
		"internal/eventrelay":     nil,
		"internal/framework":      {"internal/freeport"},
		"internal/freeport":       nil,
		"internal/googletest":     nil,
		"internal/doctor":         {"deploy", "internal/app", "internal/appfolder", "internal/document", "rollup"},
		"internal/dashboard":      {"internal/billing", "internal/document", "rollup"},
	} {
		p, err := build.ImportDir(path, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, imported := range p.Imports {
			if name, ok := strings.CutPrefix(imported, module); ok && !slices.Contains(allowed, name) {
				t.Errorf("%s imports %s", path, name)
			}
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
			"github.com/spf13/cobra", "github.com/firestore-tally/tally/deploy", "github.com/firestore-tally/tally/internal/doctor"} {
			if strings.HasPrefix(path, heavy) {
				t.Errorf("the functions import %s", path)
			}
		}
	}
}
