//go:build mutations

package rollup_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

var guardsIn = flag.String("guards", "", "a folder for what TestGuards has found so far")

// guarding are the folders, seen from this one, whose tests TestGuards runs, and how long a test
// may take there. Longer ones, such as simulations, notice much by design. Tests that use the
// emulator wait for it.
var guarding = []struct {
	dir     string
	longest time.Duration
}{
	{".", 250 * time.Millisecond},
	{"../internal/cloud/firestorestore", time.Second},
	{"../internal/cloud/app", time.Second},
}

// guardsFile is the table that TestGuards writes.
const guardsFile = "testdata/guards.md"

// TestGuards says what each test of some folders is for. It notes which mutants each test reaches,
// runs each mutation on all tests that reach it, and writes a table: how many mutations each test
// notices, and how many of these no other test notices.
//
// Stop it at any time, also by a short -timeout: started again, it goes on. After a change of the
// code, begin in an empty folder. Name one of the tests' folders to run only its tests:
//
//	go test -tags=mutations -vet=off -timeout=2h -run=TestGuards ./rollup -v -guards=/tmp/guards
//	go test -tags=mutations -vet=off -timeout=2h -run=TestGuards/app ./rollup -v -guards=/tmp/guards
func TestGuards(t *testing.T) {
	if *guardsIn == "" {
		t.Skip("it measures for long; see -guards")
	}
	err := os.MkdirAll(*guardsIn, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	deadline, ok := t.Deadline()
	if ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-10*time.Second))
		defer cancel()
	}

	all := make([]*guards, len(guarding))
	for i, tests := range guarding {
		all[i] = readGuards(t, tests.dir, tests.longest)
		t.Run(all[i].name, func(t *testing.T) {
			err := all[i].try(ctx, t)
			switch {
			case ctx.Err() != nil:
				t.Logf("stopped; %d mutations are left", len(all[i].Left))
			case err != nil:
				t.Fatal(err)
			}
		})
	}
	writeGuards(t, all)
}

// guards are the tests of a folder, and the mutations that they notice.
type guards struct {
	dir, name string
	longest   time.Duration
	mutants   *mutants
	hung      int // tests of a mutation that did not end

	Took    map[string]time.Duration // by each test, without a mutation; those that pass
	Left    map[string][]string      // by a mutation that was not tried, the tests that reach it
	Noticed map[string][]string      // by a mutation that was tried, the tests that failed
}

// key names a mutation.
func key(n int) string { return mutations[n].rule + ": " + mutations[n].name }

// readGuards reads what was found before.
func readGuards(t *testing.T, dir string, longest time.Duration) *guards {
	t.Helper()
	folder, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	g := &guards{dir: dir, name: filepath.Base(folder), longest: longest, Left: make(map[string][]string), Noticed: make(map[string][]string)}
	data, err := os.ReadFile(g.file())
	if errors.Is(err, fs.ErrNotExist) {
		return g
	}
	if err != nil {
		t.Fatal(err)
	}
	err = json.Unmarshal(data, g)
	if err != nil {
		t.Fatalf("%s: %v", g.file(), err)
	}
	return g
}

func (g *guards) file() string { return filepath.Join(*guardsIn, g.name+".json") }

// write writes what was found so far. A stop leaves the file as it was, or as it should be.
func (g *guards) write() error {
	data, err := json.MarshalIndent(g, "", "\t")
	if err != nil {
		return err
	}
	next := g.file() + ".next"
	err = os.WriteFile(next, data, 0o644)
	if err != nil {
		return err
	}
	return os.Rename(next, g.file())
}

// try tries all mutations that are left.
func (g *guards) try(ctx context.Context, t *testing.T) error {
	g.mutants = newMutants()
	for n, m := range mutations {
		_, err := g.mutants.add(n, m)
		if err != nil {
			return err
		}
	}
	err := g.mutants.build(ctx, g.dir, t.TempDir())
	if err != nil {
		return err
	}
	if g.Took == nil {
		err := g.reach(ctx, t)
		if err != nil {
			return err
		}
	}

	for n := range mutations {
		tests, ok := g.Left[key(n)]
		if !ok {
			continue
		}
		g.hung = 0
		noticed, err := g.tried(ctx, n, tests)
		if err != nil {
			return fmt.Errorf("%s: %w", key(n), err)
		}
		g.Noticed[key(n)] = noticed
		delete(g.Left, key(n))
		err = g.write()
		if err != nil {
			return err
		}
	}
	return nil
}

// reach runs each test without a mutation, and notes how long it takes and which mutants it
// reaches.
func (g *guards) reach(ctx context.Context, t *testing.T) error {
	c := exec.CommandContext(ctx, g.mutants.binary, "-test.list=^Test")
	c.Dir = g.dir
	list, err := c.Output()
	if err != nil {
		return err
	}

	took := make(map[string]time.Duration)
	for _, test := range strings.Fields(string(list)) {
		ended, numbers, err := g.reached(ctx, t, test, took)
		switch {
		case err != nil:
			return err
		case ended == "SKIP":
			delete(took, test)
		case ended != "PASS":
			return fmt.Errorf("%s fails without a mutation", test)
		case took[test] <= g.longest:
			for _, n := range numbers {
				g.Left[key(n)] = append(g.Left[key(n)], test)
			}
		}
	}
	g.Took = took
	return g.write()
}

// reached runs a test without a mutation. It returns how the test ended, and the mutations that the
// test reaches. A long test runs twice, because the first that needs the emulator may start it.
func (g *guards) reached(ctx context.Context, t *testing.T, test string, took map[string]time.Duration) (ended string, numbers []int, err error) {
	file := filepath.Join(t.TempDir(), test)
	for range 2 {
		began := time.Now()
		all, err := g.run(ctx, []string{test}, 3*time.Minute, selected+"=-1", reached+"="+file)
		if err != nil {
			return "", nil, err
		}
		ended, took[test] = all[test], time.Since(began)
		if took[test] <= g.longest {
			break
		}
	}

	data, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", nil, err
	}
	for _, line := range strings.Fields(string(data)) {
		n, err := strconv.Atoi(line)
		if err != nil {
			return "", nil, err
		}
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	return ended, slices.Compact(numbers), nil
}

// mostHung is how many tests may not end on one mutation. Each takes more than ten seconds. The
// tests behind them do not run on that mutation, which is no test's alone.
const mostHung = 3

// tried returns all tests that fail on a mutation. A test that panics or does not end takes others
// with it, so these run again.
func (g *guards) tried(ctx context.Context, n int, tests []string) (noticed []string, err error) {
	if len(tests) == 0 || g.hung >= mostHung {
		return nil, nil
	}
	timeout := 10 * time.Second
	for _, test := range tests {
		timeout += g.Took[test]
	}
	ended, err := g.run(ctx, tests, timeout, fmt.Sprint(selected, "=", n))
	if err != nil {
		return nil, err
	}

	var again [][]string
	var behind []string
	for _, test := range tests {
		switch ended[test] {
		case "FAIL":
			noticed = append(noticed, test)
		case "RUN":
			again = append(again, []string{test})
		case "":
			behind = append(behind, test)
		}
	}
	for _, tests := range append(again, behind) {
		more, err := g.tried(ctx, n, tests)
		if err != nil {
			return nil, err
		}
		noticed = append(noticed, more...)
	}
	slices.Sort(noticed)
	return noticed, nil
}

var (
	begins = regexp.MustCompile(`(?m)^=== (?:RUN|CONT|NAME) +(Test\w+)`)
	pauses = regexp.MustCompile(`(?m)^=== PAUSE Test\w+$`)
	ends   = regexp.MustCompile(`(?m)^--- (PASS|SKIP|FAIL): (Test\w+)`)
)

// run runs tests, one after the other, with variables of the environment. It returns how they
// ended: PASS, SKIP or FAIL. A test that ends the process fails, and those behind it are not in the
// result. If some of the tests are parallel, the result is RUN for all that were running then.
func (g *guards) run(ctx context.Context, tests []string, timeout time.Duration, variables ...string) (map[string]string, error) {
	args := []string{"-test.v", "-test.parallel=1", fmt.Sprint("-test.timeout=", timeout), "-test.run=^(" + strings.Join(tests, "|") + ")$"}
	if g.dir == "." {
		args = append(args, "-sim.shrink=0")
	}
	c := exec.CommandContext(ctx, g.mutants.binary, args...)
	c.Dir = g.dir
	c.Env = append(os.Environ(), variables...)
	out, err := c.CombinedOutput()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}

	text := string(out)
	if strings.Contains(text, "panic: test timed out after ") {
		g.hung++
	}
	ended := make(map[string]string)
	for _, line := range ends.FindAllStringSubmatch(text, -1) {
		ended[line[2]] = line[1]
	}
	whole := strings.HasSuffix(text, "PASS\n") || strings.HasSuffix(text, "FAIL\n")
	if whole && len(ended) == len(tests) {
		return ended, nil
	}

	var running []string
	last := ""
	for _, line := range begins.FindAllStringSubmatch(text, -1) {
		last = line[1]
		if ended[last] == "" && !slices.Contains(running, last) {
			running = append(running, last)
		}
	}
	switch {
	case whole || last == "":
		return nil, fmt.Errorf("%w, and the tests did not end: %s", cmp.Or(err, errors.New("exit status 0")), text[max(0, len(text)-2000):])
	case len(tests) > 1 && pauses.MatchString(text):
		for _, test := range running {
			ended[test] = "RUN"
		}
	default:
		ended[cmp.Or(append(running, last)...)] = "FAIL"
	}
	return ended, nil
}

// writeGuards writes the table.
func writeGuards(t *testing.T, all []*guards) {
	t.Helper()
	left := make(map[string]bool) // mutations that some folder's tests have not tried
	for _, g := range all {
		for mutation := range g.Left {
			left[mutation] = true
		}
	}

	noticed := make(map[string][]string) // by other mutations, the folders and tests that notice each
	for _, g := range all {
		for mutation, tests := range g.Noticed {
			if left[mutation] {
				continue
			}
			by := noticed[mutation]
			for _, test := range tests {
				by = append(by, g.name+" "+test)
			}
			noticed[mutation] = by
		}
	}

	notices := make(map[string]int)    // by folder and test
	alone := make(map[string][]string) // the rules of the mutations that no other test notices
	unnoticed := 0
	for mutation, tests := range noticed {
		for _, test := range tests {
			notices[test]++
		}
		switch len(tests) {
		case 0:
			unnoticed++
		case 1:
			rule, _, _ := strings.Cut(mutation, ":")
			alone[tests[0]] = append(alone[tests[0]], rule)
		}
	}

	var text strings.Builder
	fmt.Fprintf(&text, guardsHead, len(mutations), len(noticed), len(left), unnoticed)
	for _, g := range all {
		var tests, long []string
		for _, test := range slices.Sorted(maps.Keys(g.Took)) {
			if g.Took[test] > g.longest {
				long = append(long, test)
			} else {
				tests = append(tests, test)
			}
		}
		slices.SortStableFunc(tests, func(a, b string) int {
			a, b = g.name+" "+a, g.name+" "+b
			return cmp.Or(len(alone[b])-len(alone[a]), notices[b]-notices[a])
		})

		fmt.Fprintf(&text, "\n## %s\n\n| test | notices | alone | rules that it guards alone |\n| --- | --- | --- | --- |\n", g.name)
		for _, test := range tests {
			id := g.name + " " + test
			slices.Sort(alone[id])
			rules := strings.Join(slices.Compact(slices.Clone(alone[id])), ", ")
			fmt.Fprintf(&text, "| %s | %d | %d | %s |\n", test, notices[id], len(alone[id]), rules)
		}
		fmt.Fprintf(&text, "\nLeft out because they take longer than %v: %s.\n", g.longest, strings.Join(long, ", "))
	}
	err := os.WriteFile(guardsFile, []byte(text.String()), 0o644)
	if err != nil {
		t.Fatal(err)
	}
}

// guardsHead is the page's beginning.
const guardsHead = `# What each test is for

TestGuards writes this page, from the tests of three folders; long ones are left out. Of %d mutations, it tried %d and has %d left to try: those in a function that one of these tests reaches. Each ran on all tests that reach it, or until three of them did not end.

A test *notices* a mutation if it fails on it. It notices it *alone* if no other test of this page fails. %d of the mutations that it tried are noticed only by the longer tests, such as the simulation, or by tests of other folders.
`
