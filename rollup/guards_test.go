//go:build mutations

package rollup_test

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	guardsFile   = flag.String("guards", "", "the file to which TestGuards adds a line for each mutation, with all tests that notice it")
	guardsFolder = flag.String("guards.folder", ".", "the folder, seen from rollup, whose tests TestGuards runs")
)

// TestGuards says what each test of a folder is for. It runs all of them on each mutation, and adds
// a line with those that fail to a file. At the end it prints a table of the tests: how many
// mutations each notices, and how many of these no other test notices.
//
// That takes hours. Stop it at any time: started again, it goes on behind the lines of the file. It
// stops by itself before its -timeout. With -short it runs what go test -short runs.
//
//	go test -tags=mutations -vet=off -timeout=8h -run=TestGuards ./rollup -short -guards=guards.tsv
func TestGuards(t *testing.T) {
	if *guardsFile == "" {
		t.Skip("it measures for hours; see -guards")
	}

	g := newGuards(t)
	todo := make(chan int)
	var working sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		working.Go(func() {
			for n := range todo {
				g.add(t, n)
			}
		})
	}
	for _, n := range g.left() {
		if g.hasTime(t) {
			todo <- n
		}
	}
	close(todo)
	working.Wait()

	g.print()
}

// guards are the tests of a folder, and the mutations that they notice.
type guards struct {
	mutants reaching
	tests   []string      // those that pass without a mutation
	took    time.Duration // by all tests without a mutation

	mu      sync.Mutex
	noticed map[int][]string // the tests that failed, by the mutation's index
}

// reaching are mutants in what the tests of a folder import.
type reaching struct {
	*mutants
	folders []string
}

// reach reports whether a mutation is in a function that the tests can reach.
func (r reaching) reach(n int) bool {
	folder, err := filepath.Abs(filepath.Dir(mutations[n].file))
	return err == nil && slices.Contains(r.folders, folder) && slices.ContainsFunc(r.decls[mutations[n].file], func(decl string) bool {
		return strings.Contains(decl, fmt.Sprintf("Mutant%d(", n))
	})
}

// left returns the mutations that were not tried yet.
func (g *guards) left() (left []int) {
	for n := range mutations {
		if _, done := g.noticed[n]; !done && g.mutants.reach(n) {
			left = append(left, n)
		}
	}
	return left
}

func newGuards(t *testing.T) *guards {
	t.Helper()
	all := newMutants()
	for n, m := range mutations {
		if _, err := all.add(n, m); err != nil {
			t.Fatal(err)
		}
	}
	if err := all.build(t.Context(), *guardsFolder, t.TempDir()); err != nil {
		t.Fatal(err)
	}
	imported, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-test", "-f", "{{.Dir}}", "./"+*guardsFolder).Output()
	if err != nil {
		t.Fatal(err)
	}

	g := &guards{mutants: reaching{all, strings.Fields(string(imported))}, noticed: make(map[int][]string)}
	g.read(t)
	if g.tests != nil {
		return g
	}

	began := time.Now()
	g.tests, err = g.run(t.Context(), -1, nil, time.Hour, passes)
	if err != nil {
		t.Fatalf("without a mutation: %v", err)
	}
	g.took = time.Since(began)
	if err := g.write(withoutMutation, g.took.String(), g.tests); err != nil {
		t.Fatal(err)
	}
	return g
}

// withoutMutation stands for a rule in the line of the file that has the tests, and how long they
// take.
const withoutMutation = "-"

// write adds a line to the file.
func (g *guards) write(rule, name string, tests []string) error {
	file, err := os.OpenFile(*guardsFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(file, "%s\t%s\t%s\t%s\n", *guardsFolder, rule, name, strings.Join(tests, " "))
	return errors.Join(err, file.Close())
}

// hasTime reports whether one mutation more can be tried before the test's own time-out. Its tests
// may crash, and run twice.
func (g *guards) hasTime(t *testing.T) bool {
	deadline, ok := t.Deadline()
	return !ok || time.Until(deadline) > 3*g.took
}

// add tries a mutation, and writes down which tests noticed it.
func (g *guards) add(t *testing.T, n int) {
	noticed, err := g.tried(t.Context(), n)
	if err != nil {
		t.Errorf("%s: %s: %v", mutations[n].rule, mutations[n].name, err)
		return
	}

	g.mu.Lock()
	defer g.mu.Unlock()
	g.noticed[n] = noticed
	err = g.write(mutations[n].rule, mutations[n].name, noticed)
	if err != nil {
		t.Error(err)
	}
}

// mostCrashes is how many tests of a mutation may end the process of all. Each takes a run more.
const mostCrashes = 30

// tried returns all tests that fail on a mutation. A test that panics or does not end takes the
// others with it, so these run again without it.
func (g *guards) tried(ctx context.Context, n int) (noticed []string, err error) {
	for range mostCrashes {
		failed, err := g.run(ctx, n, noticed, 3*g.took+10*time.Second, fails)
		for _, test := range failed {
			if !slices.Contains(noticed, test) {
				noticed = append(noticed, test)
			}
		}
		switch {
		case err == nil:
			slices.Sort(noticed)
			return noticed, nil
		case !errors.Is(err, errDied) || len(failed) == 0:
			return nil, err
		}
	}
	return nil, fmt.Errorf("%w %d times", errDied, mostCrashes)
}

var (
	errDied = errors.New("the tests crashed")

	passes = regexp.MustCompile(`(?m)^--- PASS: (Test\w+)`)
	fails  = regexp.MustCompile(`(?m)^--- FAIL: (Test\w+)`)
	begins = regexp.MustCompile(`(?m)^=== (?:RUN|CONT|NAME) +(Test\w+)`)
)

// run runs all tests but some on a mutant, one after the other, and returns those whose line says
// how they ended. With errDied, the last of them is the one that ended the process.
func (g *guards) run(ctx context.Context, n int, without []string, timeout time.Duration, ended *regexp.Regexp) (tests []string, err error) {
	args := []string{"-test.v", "-test.parallel=1", fmt.Sprint("-test.timeout=", timeout)}
	if testing.Short() {
		args = append(args, "-test.short")
	}
	if len(without) > 0 {
		args = append(args, "-test.skip=^("+strings.Join(without, "|")+")$")
	}
	if *guardsFolder == "." {
		args = append(args, "-sim.shrink=0")
	}
	c := exec.CommandContext(ctx, g.mutants.binary, args...)
	c.Dir = *guardsFolder
	c.Env = append(os.Environ(), fmt.Sprint(selected, "=", n))
	out, err := c.CombinedOutput()

	for _, line := range ended.FindAllSubmatch(out, -1) {
		tests = append(tests, string(line[1]))
	}
	text := string(out)
	whole := strings.HasSuffix(text, "PASS\n") || strings.HasSuffix(text, "FAIL\n")
	switch {
	case whole && (err == nil || n >= 0):
		return tests, nil
	case n < 0:
		return nil, fmt.Errorf("%w\n%s", cmp.Or(err, errDied), text[max(0, len(text)-2000):])
	}
	running := begins.FindAllStringSubmatch(text, -1)
	if len(running) == 0 {
		return nil, fmt.Errorf("%w before they began: %s", errDied, text[max(0, len(text)-2000):])
	}
	return append(tests, running[len(running)-1][1]), errDied
}

// read reads the lines of earlier runs.
func (g *guards) read(t *testing.T) {
	t.Helper()
	file, err := os.Open(*guardsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()

	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		cells := strings.Split(lines.Text(), "\t")
		if len(cells) != 4 || cells[0] != *guardsFolder {
			continue
		}
		if cells[1] == withoutMutation {
			g.tests = strings.Fields(cells[3])
			g.took, err = time.ParseDuration(cells[2])
			if err != nil {
				t.Fatalf("%s: %v", *guardsFile, err)
			}
			continue
		}
		n := slices.IndexFunc(mutations, func(m mutation) bool { return m.rule == cells[1] && m.name == cells[2] })
		if n >= 0 {
			g.noticed[n] = strings.Fields(cells[3])
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}

// print prints the table of the tests, and the mutations that none of them notices.
func (g *guards) print() {
	notices, alone := make(map[string]int), make(map[string]int)
	var unnoticed []string
	for n, tests := range g.noticed {
		switch len(tests) {
		case 0:
			unnoticed = append(unnoticed, mutations[n].rule+": "+mutations[n].name)
		case 1:
			alone[tests[0]]++
		}
		for _, test := range tests {
			notices[test]++
		}
	}

	fmt.Printf("%d mutations were tried on the tests of %s.\n\n| test | notices | alone |\n| --- | --- | --- |\n", len(g.noticed), *guardsFolder)
	slices.SortFunc(g.tests, func(a, b string) int {
		return cmp.Or(alone[b]-alone[a], notices[b]-notices[a], strings.Compare(a, b))
	})
	for _, test := range g.tests {
		fmt.Printf("| %s | %d | %d |\n", test, notices[test], alone[test])
	}
	slices.Sort(unnoticed)
	fmt.Printf("\nNo test here notices:\n%s\n", strings.Join(unnoticed, "\n"))
}
