//go:build unix

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/creack/pty"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/rollup/route"
	"github.com/google/go-cmp/cmp"
	"github.com/rivo/uniseg"
)

// startOnTerminal starts a command on a terminal of so many columns.
func startOnTerminal(t *testing.T, columns int, dir string, env []string, args ...string) (c *exec.Cmd, screen *os.File) {
	t.Helper()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c = exec.CommandContext(t.Context(), executable, args...)
	c.Dir, c.Env = dir, append(append(os.Environ(), asTally+"=1", "TERM=xterm"), env...)
	screen, err = pty.StartWithSize(c, &pty.Winsize{Rows: 24, Cols: uint16(columns)})
	if err != nil {
		t.Fatal(err)
	}
	return c, screen
}

// onTerminal runs a command on a terminal of so many columns, and returns what it prints.
func onTerminal(t *testing.T, columns int, dir string, env []string, args ...string) string {
	t.Helper()
	c, screen := startOnTerminal(t, columns, dir, env, args...)
	var out bytes.Buffer
	_, _ = io.Copy(&out, screen) // the terminal of a process that has ended fails
	_ = c.Wait()                 // some have findings
	return strings.ReplaceAll(out.String(), "\r\n", "\n")
}

// wantNarrow wants each line to have so many columns at most, unless it is a single word or a
// quoted one, with the blanks before it.
func wantNarrow(t *testing.T, columns int, what, text string) {
	t.Helper()
	for line := range strings.SplitSeq(text, "\n") {
		whole := strings.ContainsAny(line, "'\"") || !strings.Contains(strings.TrimSpace(line), " ")
		if uniseg.StringWidth(line) > columns && !whole {
			t.Errorf("%s: a line has more than %d columns:\n%s", what, columns, line)
		}
	}
}

// Help and doctor keep to the width of the terminal, in which no word breaks.
func TestWidths(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "tally.yaml"), []byte("routes: |\n  posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing\n"))
	write(t, filepath.Join(dir, "firebase.json"), []byte(`{"firestore": {"indexes": "firestore.indexes.json"}}`))
	write(t, filepath.Join(dir, "firestore.indexes.json"), []byte(`{"indexes": [], "fieldOverrides": [
		{"collectionGroup": "increment_tokens", "fieldPath": "expire_at", "ttl": true, "indexes": []},
		{"collectionGroup": "posts", "fieldPath": "tally", "indexes": []}]}`))
	root := rootCommand()
	root.InitDefaultHelpCmd()

	for _, columns := range []int{80, 60} {
		var all strings.Builder
		shown := func(args ...string) {
			text := onTerminal(t, columns, dir, nil, args...)
			wantNarrow(t, columns, strings.Join(args, " "), text)
			fmt.Fprintf(&all, "$ tally %s\n%s\n", strings.Join(args, " "), text)
		}
		shown("--help")
		for _, c := range root.Commands() {
			if c.Name() != "help" && !c.Hidden {
				shown(c.Name(), "--help")
			}
		}
		shown("doctor", "--list")
		shown("doctor", "--files", "--skip=rules-file", "--verbose")

		file := fmt.Sprintf("testdata/width/%d.txt", columns)
		if *update {
			write(t, file, []byte(all.String()))
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), all.String()); d != "" {
			t.Errorf("%s differs; -update writes it (-want +got):\n%s", file, d)
		}
	}
}

// Audit and demo keep to the width, too, and their progress leaves no trail: each time that it is
// drawn it is shorter than a line. Get and ls keep to it when a counter has a long name.
func TestWidthsOfWork(t *testing.T) {
	t.Parallel()
	project := "--project=" + emulatortest.Project(t)
	long := "a-counter-of-which-the-name-has-some-sixty-characters-in-all"
	for _, args := range [][]string{{"create", long, "--num-shards=1"}, {"audit", "--repair"}} {
		onTerminal(t, 80, "../..", onShared(t), append(args, project, "--routes="+route.Default)...)
	}
	for _, columns := range []int{80, 60} {
		work := [][]string{{"audit", project}, {"get", long, project}, {"ls", project}}
		if columns == 60 { // a demo takes seconds
			work = append(work, []string{"demo", "--counters=1", "--increments=6", "--rate=20", "--clients=1", "--instances=1", "--firestore-port=0", "--functions-port=0"})
		}
		for _, args := range work {
			text := onTerminal(t, columns, "../..", onShared(t), args...)
			if !strings.Contains(text, "counter") {
				t.Errorf("%v: %s", args, text)
			}
			drawn := strings.ReplaceAll(text, "\r\x1b[K", "\n")
			wantNarrow(t, columns, args[0], drawn)
		}
	}
}

// Dev keeps to the width from its first line to its last, also when it shows roll-ups and hints.
func TestWidthsOfDev(t *testing.T) {
	for _, columns := range []int{80, 60} {
		t.Run(strconv.Itoa(columns), func(t *testing.T) {
			t.Parallel()
			text := devOnTerminal(t, columns)
			wantNarrow(t, columns, "dev", text)
			for _, want := range []string{"number_of_sales 1", "belongs to no counter"} {
				if !strings.Contains(text, want) {
					t.Errorf("it does not say %q:\n%s", want, text)
				}
			}
		})
	}
}

// devOnTerminal runs dev on a terminal of so many columns until it shows the roll-up of one of two
// documents, of which the other has no shop. It returns what dev prints.
func devOnTerminal(t *testing.T, columns int) string {
	t.Helper()
	dir, project := t.TempDir(), emulatortest.Project(t)
	const routes = "routes: |\n  sales/{sale} by shop -> shops_of_the_whole_country/{shop} : count() as number_of_sales, sum(amount) as revenue : existing\n"
	write(t, filepath.Join(dir, "tally.yaml"), []byte(routes))
	c, screen := startOnTerminal(t, columns, dir, onShared(t), "dev", "--project="+project, "--firestore-port=0", "--functions-port=0", "--dashboard-port=0", "--instances=1")

	client := emulatortest.ClientDatabase(t, project, "(default)")
	set := func(path string, data map[string]any) {
		_, err := client.Doc(path).Set(t.Context(), data)
		if err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	for lines := bufio.NewReader(screen); ; {
		line, err := lines.ReadString('\n')
		out.WriteString(line)
		if err != nil {
			break // the terminal of a process that has ended fails
		}
		switch {
		case strings.Contains(line, "Point an app at it"):
			set("shops_of_the_whole_country/corner", map[string]any{"name": "the one at the corner"})
			set("sales/1", map[string]any{"shop": nil, "amount": 5})
			set("sales/2", map[string]any{"shop": "corner", "amount": 5})
		case strings.Contains(line, "number_of_sales 1"):
			_, err = screen.WriteString("\x03") // Ctrl-C
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	err := c.Wait()
	if err != nil {
		t.Errorf("dev: %v", err)
	}
	text := strings.ReplaceAll(out.String(), "\r\n", "\n")
	return strings.ReplaceAll(text, dir, ".") // which may have any width
}

// With --routes, init asks nothing on a terminal either: a pasted block of commands keeps its next
// line. With --ask it asks who writes the documents. Its last line counts what it left to decide.
func TestInitAsks(t *testing.T) {
	const routes = "--routes=posts/{post}/comments/{comment} -> posts/{post} : count() as comments : existing"
	text := onTerminal(t, 80, t.TempDir(), nil, "init", routes)
	wantNarrow(t, 80, "init", text)
	last := strings.Join(strings.Fields(text), " ")
	if strings.Contains(text, "?") || !strings.HasSuffix(last, " in firestore.rules as false; // decide. To be asked instead, delete the written files and run tally init --ask") {
		t.Errorf("init --routes:\n%s", text)
	}

	c, screen := startOnTerminal(t, 80, t.TempDir(), nil, "init", routes, "--ask", "--alert-email=me@example.com")
	_, err := io.WriteString(screen, "owner\nusers\n")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	_, _ = io.Copy(&out, screen) // the terminal of a process that has ended fails
	err = c.Wait()
	if err != nil || !strings.Contains(out.String(), "Who writes posts/{post}/comments/{comment}?") || !strings.Contains(out.String(), "Who creates posts/{post}") {
		t.Errorf("init --ask: %v\n%s", err, &out)
	}
}
