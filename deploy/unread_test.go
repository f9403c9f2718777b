package deploy

import (
	"os"
	"strings"
	"testing"
)

// docs/doctor.md names the permissions that reading takes, and roles that have them.
func TestPermissionsDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	sources := []Source{RulesAPI}
	for _, k := range kinds {
		sources = append(sources, k.api)
	}
	for _, s := range sources {
		for _, name := range append(strings.Split(s.permissions, ", "), s.role) {
			if !strings.Contains(string(page), "`"+name+"`") {
				t.Errorf("docs/doctor.md does not tell that reading by %s takes %s", s.name, name)
			}
		}
	}
}
