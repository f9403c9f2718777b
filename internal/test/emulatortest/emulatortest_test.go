package emulatortest_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/internal/tool/local/emulator"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Variables that make a child of this test binary misbehave.
const (
	withoutMain  = "EMULATORTEST_WITHOUT_MAIN"  // TestMain forgets Main
	killEmulator = "EMULATORTEST_KILL_EMULATOR" // TestKillEmulator does
)

func TestMain(m *testing.M) {
	if os.Getenv(withoutMain) != "" {
		os.Exit(m.Run())
	}
	err := os.Unsetenv(emulatortest.Shared) // these tests are about emulators of a binary's own
	if err != nil {
		panic(err)
	}
	emulatortest.Main(m, emulator.Options{})
}

func TestAddr(t *testing.T) {
	addr := emulatortest.Addr(t)
	if again := emulatortest.Addr(t); again != addr {
		t.Errorf("Addr() = %s, then %s", addr, again)
	}
	if got := emulatortest.Emulator(t).Addr(); got != addr {
		t.Errorf("Emulator().Addr() = %s, want %s", got, addr)
	}
	if got := os.Getenv("FIRESTORE_EMULATOR_HOST"); got != addr {
		t.Errorf("FIRESTORE_EMULATOR_HOST = %s, want %s", got, addr)
	}
}

// A binary takes the shared emulator, and starts none.
func TestShared(t *testing.T) {
	const shared = "127.0.0.1:1"
	own := emulatortest.Addr(t)
	t.Setenv("FIRESTORE_EMULATOR_HOST", own) // to be set again
	t.Setenv(emulatortest.Shared, shared)
	if got := emulatortest.Addr(t); got != shared {
		t.Errorf("Addr() = %s, want %s", got, shared)
	}
	if got := os.Getenv("FIRESTORE_EMULATOR_HOST"); got != shared {
		t.Errorf("FIRESTORE_EMULATOR_HOST = %s, want %s", got, shared)
	}
}

func TestProject(t *testing.T) {
	// The form of a Google Cloud project id.
	valid := regexp.MustCompile(`^[a-z][a-z0-9-]{4,28}[a-z0-9]$`)
	seen := make(map[string]bool)
	for range 100 {
		id := emulatortest.Project(t)
		if !valid.MatchString(id) || !strings.HasPrefix(id, "demo-") {
			t.Errorf("%q is not a demo project id", id)
		}
		if seen[id] {
			t.Errorf("%s was returned twice", id)
		}
		seen[id] = true
	}
}

func TestDatabasesAreSeparate(t *testing.T) {
	t.Parallel()
	project := emulatortest.Project(t)
	const path = "counters/a"
	writer := emulatortest.ClientDatabase(t, project, "named")
	if _, err := writer.Doc(path).Set(t.Context(), map[string]any{"n": 1}); err != nil {
		t.Fatal(err)
	}
	if doc, err := emulatortest.ClientDatabase(t, project, "named").Doc(path).Get(t.Context()); err != nil || doc.Data()["n"] != int64(1) {
		t.Errorf("same project and database: %v", err)
	}
	if _, err := emulatortest.ClientDatabase(t, project, emulator.DefaultDatabase).Doc(path).Get(t.Context()); status.Code(err) != codes.NotFound {
		t.Errorf("default database of the project: %v, want NotFound", err)
	}
	if _, err := emulatortest.Client(t).Doc(path).Get(t.Context()); status.Code(err) != codes.NotFound {
		t.Errorf("another project: %v, want NotFound", err)
	}
}

// The next two do nothing by themselves: TestFailures runs them, in a child of this test binary.

func TestWithoutEmulator(*testing.T) {}

func TestKillEmulator(t *testing.T) {
	if os.Getenv(killEmulator) == "" {
		return
	}
	e := emulatortest.Emulator(t)
	guard, err := os.FindProcess(e.Pid())
	if err != nil {
		t.Fatal(err)
	}
	if err := guard.Kill(); err != nil {
		t.Fatal(err)
	}
	<-e.Done()
}

func TestFailures(t *testing.T) {
	emulatortest.Emulator(t)
	t.Parallel()
	for _, c := range []struct {
		name, env, run string
		want           string // in the output of a failed run; "" if the run is to pass
	}{
		{"not needed", "PATH=", "^TestWithoutEmulator$", ""},
		{"another emulator is set", "FIRESTORE_EMULATOR_HOST=127.0.0.1:1", "^TestAddr$", ""},
		{"no Java", "PATH=", "^TestAddr$", "emulatortest: \ngo test ./... runs more than Go, and this machine lacks:\n  Java 21: "},
		{"emulator ends by itself", killEmulator + "=1", "^TestKillEmulator$", "emulatortest: the emulator ended before the tests did"},
		{"no Main", withoutMain + "=1", "^TestAddr$", "does not call emulatortest.Main"},
	} {
		out, err := runSelf(t.Context(), c.run, c.env)
		if exit := new(exec.ExitError); c.want == "" && err != nil || c.want != "" && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
			t.Errorf("%s: %v\n%s", c.name, err, out)
		}
		if !strings.Contains(out, c.want) {
			t.Errorf("%s: output lacks %q:\n%s", c.name, c.want, out)
		}
	}
}

// runSelf runs some tests of this binary in a process of its own.
func runSelf(ctx context.Context, run, env string) (output string, err error) {
	exe, err := os.Executable()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, exe, "-test.run="+run)
	cmd.Env = append(os.Environ(), env)
	if strings.HasPrefix(env, "PATH=") {
		cmd.Env = append(cmd.Env, "JAVA_HOME=")
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}
