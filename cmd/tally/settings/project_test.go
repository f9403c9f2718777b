package settings

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/firestore-tally/tally/internal/test/firebasetest"
	"github.com/firestore-tally/tally/internal/tool/terminal"
)

// The project is chosen by the flag, by the environment, and as the Firebase CLI does. Where the
// last two differ, whatever changes a project asks.
func TestChooseProject(t *testing.T) {
	const cliActive = "the Firebase CLI's active project here: the alias staging in .firebaserc"
	t.Setenv("FIRESTORE_EMULATOR_HOST", "")
	t.Chdir(t.TempDir())
	writeFile(t, ".firebaserc", []byte(`{"projects": {"default": "shop-live", "staging": "shop-staging"}}`))
	for _, test := range []struct {
		flag, environment, active string
		want, from                string
		differs                   bool
	}{
		{"", "", "", "shop-live", "the default project in .firebaserc", false},
		{"", "", "staging", "shop-staging", cliActive, false},
		{"staging", "shop-env", "", "shop-staging", "--project: the alias staging in .firebaserc", false},
		{"shop-flag", "shop-env", "staging", "shop-flag", "--project", false},
		{"", "shop-env", "staging", "shop-env", "GOOGLE_CLOUD_PROJECT", true},
		{"", "shop-env", "", "shop-env", "GOOGLE_CLOUD_PROJECT", true},
		{"", "shop-staging", "staging", "shop-staging", "GOOGLE_CLOUD_PROJECT", false},
	} {
		name := fmt.Sprintf("--project %q, GOOGLE_CLOUD_PROJECT=%q, active %q", test.flag, test.environment, test.active)
		t.Setenv("GOOGLE_CLOUD_PROJECT", test.environment)
		firebasetest.Use(t, test.active)
		folder, err := File("").Here(t.Output())
		if err != nil {
			t.Fatal(err)
		}
		got, err := ChooseProject(test.flag, folder)
		if err != nil || got.ID != test.want || got.From != test.from {
			t.Errorf("%s: %+v, %v; want %s (%s)", name, got, err, test.want, test.from)
		}

		asked := ""
		err = got.mayChange(func(question string) error { asked = question; return terminal.ErrUnconfirmed })
		if errors.Is(err, terminal.ErrUnconfirmed) != test.differs || (asked != "") != test.differs {
			t.Errorf("%s: asked %q, %v", name, asked, err)
		}
		err = got.mayChange(nil)
		if (err != nil) != test.differs || err != nil && (!strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), got.cli.ID) || !strings.Contains(err.Error(), "--project")) {
			t.Errorf("%s: no one to ask: %v; want both and the remedy", name, err)
		}
	}
}

// What cannot be compared is not changed. Reading goes on.
func TestProjectNotCompared(t *testing.T) {
	t.Setenv("FIRESTORE_EMULATOR_HOST", "")
	t.Setenv("GOOGLE_CLOUD_PROJECT", "shop-env")
	t.Chdir(t.TempDir())
	writeFile(t, ".firebaserc", []byte("{"))
	folder, err := File("").Here(t.Output())
	if err != nil {
		t.Fatal(err)
	}
	got, err := ChooseProject("", folder)
	if err != nil || got.ID != "shop-env" {
		t.Errorf("%+v, %v; want shop-env", got, err)
	}
	err = got.mayChange(func(string) error { return nil })
	if err == nil || !strings.Contains(err.Error(), ".firebaserc:1:2: is not JSON") {
		t.Errorf("%v; want the reason", err)
	}

	t.Setenv("FIRESTORE_EMULATOR_HOST", "127.0.0.1:8080")
	got, err = ChooseProject("", folder)
	if err != nil || got.mayChange(nil) != nil {
		t.Errorf("on an emulator: %+v, %v; want no comparison", got, err)
	}
}

func writeFile(t *testing.T, file string, data []byte) {
	t.Helper()
	err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, data, 0o600))
	if err != nil {
		t.Fatal(err)
	}
}
