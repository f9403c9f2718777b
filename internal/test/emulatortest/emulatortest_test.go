package emulatortest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
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
	withoutMain = "EMULATORTEST_WITHOUT_MAIN" // TestMain forgets Main
	killed      = "EMULATORTEST_KILLED"       // TestKilled kills the emulator's host
)

func TestMain(m *testing.M) {
	if os.Getenv(withoutMain) != "" {
		os.Exit(m.Run())
	}
	emulatortest.Main(m)
}

func TestAddr(t *testing.T) {
	addr := emulatortest.Addr(t)
	if again := emulatortest.Addr(t); again != addr {
		t.Errorf("Addr() = %s, then %s", addr, again)
	}
	if got := os.Getenv("FIRESTORE_EMULATOR_HOST"); got != addr {
		t.Errorf("FIRESTORE_EMULATOR_HOST = %s, want %s", got, addr)
	}
}

// The events of a project come to its own handler, from the emulator that has the project.
func TestHandle(t *testing.T) {
	own := emulatortest.Own(t, emulator.Options{})
	for name, addr := range map[string]string{"shared": emulatortest.Addr(t), "own": own.Addr()} {
		var projects [2]string
		var got [2]chan string
		for i := range projects {
			projects[i], got[i] = emulatortest.Project(t), make(chan string, 10)
			emulatortest.Handle(t, projects[i], http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				got[i] <- r.URL.Path + " " + r.Header.Get("ce-document")
			}))
			err := emulator.RegisterTrigger(t.Context(), addr, emulator.Trigger{Project: projects[i], Name: "t", Pattern: "c/{id}"})
			if err != nil {
				t.Fatal(err)
			}
		}

		for i, project := range projects {
			url := fmt.Sprintf("http://%s/v1/projects/%s/databases/(default)/documents/c?documentId=%d", addr, project, i)
			answer, err := http.Post(url, "application/json", strings.NewReader("{}"))
			if err != nil || answer.StatusCode != http.StatusOK {
				t.Fatalf("%s: %v %v", name, answer, err)
			}
			answer.Body.Close()
			if got, want := <-got[i], fmt.Sprintf("/functions/projects/%s/triggers/t c/%d", project, i); got != want {
				t.Errorf("%s: got %s, want %s", name, got, want)
			}
		}
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

func TestKilled(t *testing.T) {
	if os.Getenv(killed) == "" {
		return
	}
	emulatortest.Addr(t)
	host, err := os.FindProcess(emulatortest.Host())
	if err != nil {
		t.Fatal(err)
	}
	err = host.Kill()
	if err != nil {
		t.Fatal(err)
	}
}

func TestFailures(t *testing.T) {
	emulatortest.Need(t)
	t.Parallel()
	for _, c := range []struct {
		name, run string
		env       []string
		want      string // in the output
		fails     bool
	}{
		{"not needed", "^TestWithoutEmulator$", []string{"PATH="}, "PASS", false},
		{"another emulator is set", "^TestAddr$", []string{"FIRESTORE_EMULATOR_HOST=127.0.0.1:1"}, "PASS", false},
		{"no Java", "^TestAddr$", []string{"PATH="}, "emulatortest: \ngo test ./... runs more than Go, and this machine lacks:\n  Java 21: ", true},
		{"emulator ends by itself", "^TestKilled$", []string{killed + "=1", "TMPDIR=" + t.TempDir()}, "emulatortest: the emulator ended before the tests did", true},
		{"no lock", "^TestAddr$", []string{"TMPDIR=/does/not/exist"}, "emulatortest: starts an emulator for this package alone: open /does/not/exist/", false},
		{"no Main", "^TestAddr$", []string{withoutMain + "=1"}, "does not call emulatortest.Main", true},
	} {
		out, err := runSelf(t.Context(), c.run, c.env)
		if exit := new(exec.ExitError); !c.fails && err != nil || c.fails && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
			t.Errorf("%s: %v\n%s", c.name, err, out)
		}
		if !strings.Contains(out, c.want) {
			t.Errorf("%s: output lacks %q:\n%s", c.name, c.want, out)
		}
	}
}

// runSelf runs some tests of this binary in a process of its own.
func runSelf(ctx context.Context, run string, env []string) (output string, err error) {
	exe, err := os.Executable()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, exe, "-test.run="+run)
	cmd.Env = append(os.Environ(), env...)
	if env[0] == "PATH=" {
		cmd.Env = append(cmd.Env, "JAVA_HOME=")
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}
