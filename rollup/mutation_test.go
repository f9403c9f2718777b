//go:build mutations

package rollup_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	onlyChanged     = flag.Bool("mutations.changed", false, "leave out the mutations of rules whose code and tests are as they were when -mutations.update last wrote them down")
	mutationsUpdate = flag.Bool("mutations.update", false, "write down the rules whose mutations were all noticed, for -mutations.changed")
)

// TestMutations shows that the tests notice when a rule is broken. A mutation that no test notices
// is a missing test.
//
//	go test -tags=mutations -timeout=30m -run=TestMutations ./rollup
//	go test -tags=mutations -timeout=30m -run=TestMutations/logged-once ./rollup # one rule's
//	go test -tags=mutations -timeout=30m -run=TestMutations ./rollup -mutations.changed -mutations.update
//
// One build of a folder holds all the mutants that its tests notice: each function that a mutation
// changes begins by calling its mutant if an environment variable says so. A mutation outside of
// functions takes a build of its own.
func TestMutations(t *testing.T) {
	together := newMutants()
	var alone []int
	for n, m := range mutations {
		inFunction, err := together.add(n, m)
		if err != nil {
			t.Fatal(err)
		}
		if !inFunction {
			alone = append(alone, n)
		}
	}

	hashes := hashRules(t)
	run := toRun(t, hashes)
	t.Logf("%d of %d mutations", len(run), len(mutations))
	if len(run) == 0 {
		return
	}

	builds := make(map[string]func() (*mutants, error)) // by folder, each done when it is first needed
	for _, n := range run {
		dir := mutations[n].dir()
		if builds[dir] != nil {
			continue
		}
		into := t.TempDir()
		builds[dir] = sync.OnceValues(func() (*mutants, error) {
			built := *together
			return &built, built.build(t.Context(), dir, into)
		})
	}

	var mu sync.Mutex
	noticed := make(map[string]int) // mutations by rule
	if *mutationsUpdate {
		t.Cleanup(func() { writeNoticed(t, hashes, noticed) })
	}
	for _, n := range run {
		m := mutations[n]
		t.Run(m.rule+": "+m.name, func(t *testing.T) {
			t.Parallel()
			build := builds[m.dir()]
			if slices.Contains(alone, n) {
				build = func() (*mutants, error) {
					built := newMutants()
					built.sources[m.file] = strings.Replace(together.sources[m.file], m.old, m.new, 1)
					return built, built.build(t.Context(), m.dir(), t.TempDir())
				}
			}
			built, err := build()
			if err != nil {
				t.Fatal(err)
			}

			out, err := built.run(t, n, m)
			switch {
			case err == nil:
				t.Errorf("survived %s", m.test)
			case !strings.Contains(string(out), "--- FAIL: "+m.testName()):
				t.Errorf("%s did not fail, but:\n%s", m.test, out)
			default:
				mu.Lock()
				noticed[m.rule]++
				mu.Unlock()
			}
		})
	}
}

// noticedFile has a line for each rule: its name, and the hash that it had when all its mutations
// were last noticed.
const noticedFile = "testdata/mutations.txt"

// toRun returns the indexes of the mutations to run.
func toRun(t *testing.T, hashes map[string]string) (run []int) {
	noticed := readNoticed(t)
	for n, m := range mutations {
		if !*onlyChanged || noticed[m.rule] != hashes[m.rule] {
			run = append(run, n)
		}
	}
	return run
}

// readNoticed returns the hashes in noticedFile by rule.
func readNoticed(t *testing.T) map[string]string {
	data, err := os.ReadFile(noticedFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}

	noticed := make(map[string]string)
	for line := range strings.Lines(string(data)) {
		rule, hash, _ := strings.Cut(strings.TrimSpace(line), " ")
		noticed[rule] = hash
	}
	return noticed
}

// writeNoticed writes the hashes of the rules whose mutations were all noticed to noticedFile. Of
// other rules it keeps what the file says, and it drops rules that have no mutations anymore.
func writeNoticed(t *testing.T, hashes map[string]string, noticed map[string]int) {
	of := make(map[string]int)
	for _, m := range mutations {
		of[m.rule]++
	}

	last := readNoticed(t)
	var lines []string
	for rule, hash := range hashes {
		if noticed[rule] < of[rule] {
			hash = last[rule]
		}
		if hash != "" {
			lines = append(lines, rule+" "+hash+"\n")
		}
	}
	slices.Sort(lines)
	err := os.WriteFile(noticedFile, []byte(strings.Join(lines, "")), 0o644)
	if err != nil {
		t.Error(err)
	}
}

// hashRules returns a hash for each rule: of its mutations, of the files that they change, and of
// the files that hold their tests.
func hashRules(t *testing.T) map[string]string {
	content := make(map[string][]byte)
	read := func(file string) []byte {
		if content[file] == nil {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			content[file] = data
		}
		return content[file]
	}

	texts := make(map[string][]byte)
	for _, m := range mutations {
		text := fmt.Appendf(texts[m.rule], "%q\n", m)
		text = append(text, read(m.file)...)
		for _, file := range filesOfTest(t, &m, read) {
			text = append(text, read(file)...)
		}
		texts[m.rule] = text
	}

	hashes := make(map[string]string)
	for rule, text := range texts {
		hashes[rule] = fmt.Sprintf("%x", sha256.Sum256(text))[:16]
	}
	return hashes
}

// filesOfTest returns the files of a mutation's test: in this folder the one that holds it, or all
// of the simulation's; otherwise all tests of its folder.
func filesOfTest(t *testing.T, m *mutation, read func(string) []byte) []string {
	name, _, _ := strings.Cut(m.testName(), "/")
	pattern := "*_test.go"
	if name == "TestSimulation" {
		pattern = "sim_*.go"
	}
	files, err := filepath.Glob(filepath.Join(m.dir(), pattern))
	if err != nil {
		t.Fatal(err)
	}
	if m.dir() != "." || name == "TestSimulation" {
		return files
	}

	for _, file := range files {
		if strings.Contains(string(read(file)), "\nfunc "+name+"(") {
			return []string{file}
		}
	}
	t.Fatalf("no file has %s", m.test)
	return nil
}

var softTable = flag.Uint64("soft.table", 0, "print as a table how many of so many seeds of TestSimulation break, and how many acknowledged events they lose, with each rule of events that concern several counters, of alarms and of windows, softened")

// longestSoftened is how long the seeds of one softened rule may take. A rule may be one without
// which a run never ends.
const longestSoftened = 5 * time.Minute

// TestSoftened measures what the simulation alone sees of the rules on events that concern several
// counters, of those on alarms and of those on windows, each softened.
//
//	go test -tags=mutations -timeout=1h -run=TestSoftened ./rollup -soft.table=3000 -v
func TestSoftened(t *testing.T) {
	if *softTable == 0 {
		t.Skip("it measures; see -soft.table")
	}
	all := newMutants()
	measured := []string{"", "each-done", "unchanged-everywhere", "unkept", "deferred-ahead", "alarm-routes", "alarm-covers",
		"known-alarm", "window-instant", "alarm-before", "alarm-relied", "left-late"}
	softened := []mutation{{name: "nothing"}}
	numbers := []int{-1}
	for n, m := range mutations {
		if !slices.Contains(measured, m.rule) || m.dir() != "." || !slices.Contains([]string{".", "route"}, filepath.Dir(m.file)) {
			continue
		}
		if inFunction, err := all.add(n, m); err != nil || !inFunction {
			t.Fatalf("%s: %v", m.name, err)
		}
		softened, numbers = append(softened, m), append(numbers, n)
	}
	err := all.build(t.Context(), ".", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}

	fmt.Println("| rule | softened | the simulation says |\n| --- | --- | --- |")
	for i, m := range softened {
		ctx, cancel := context.WithTimeout(t.Context(), longestSoftened)
		c := exec.CommandContext(ctx, all.binary, "-test.run=^TestSimulation$", "-sim.count", fmt.Sprint("-sim.seeds=", *softTable))
		c.Env = append(os.Environ(), fmt.Sprint(selected, "=", numbers[i]))
		out, err := c.CombinedOutput()
		said, _, _ := strings.Cut(string(out), "\n")
		if err != nil {
			said = fmt.Sprintf("a run does not end: %v %s", err, said)
		}
		cancel()
		fmt.Printf("| %s | %s | %s |\n", m.rule, m.name, said)
	}
}

// dir is the folder of the mutation's test.
func (m *mutation) dir() string {
	folder := strings.TrimSuffix(m.test, m.testName())
	switch dir := filepath.Dir(m.file); {
	case folder != "":
		return path.Clean(folder)
	case slices.Contains([]string{"firestorestore", "app", "growth", "migration", "shards"}, filepath.Base(dir)):
		return dir
	default:
		return "."
	}
}

// mutants are a build of the tests with mutated sources.
type mutants struct {
	sources map[string]string           // by file, without mutants
	calls   map[string]map[int][]string // of the mutants, by file and by where a function's body begins
	decls   map[string][]string         // the mutants, by file
	binary  string                      // of build
}

func newMutants() *mutants {
	return &mutants{sources: make(map[string]string), calls: make(map[string]map[int][]string), decls: make(map[string][]string)}
}

// The environment variables of a build: one selects a mutant, by its mutation's index; the other
// names a file to which the tests add the index of each mutant that they reach.
const (
	selected = "TALLY_MUTANT"
	reached  = "TALLY_MUTANTS_REACHED"
)

// switching is what build adds to a package: each function asks it whether to call its mutant.
const switching = `

import (
	"os"
	"sync"
)

var (
	mutant         = os.Getenv("` + selected + `")
	mutantsReached = os.Getenv("` + reached + `")
	mutantsNoted   sync.Map
)

func mutated(n string) bool {
	if mutantsReached != "" {
		noteMutant(n)
	}
	return mutant == n
}

func noteMutant(n string) {
	_, again := mutantsNoted.LoadOrStore(n, true)
	if again {
		return
	}
	file, err := os.OpenFile(mutantsReached, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		panic(err)
	}
	defer file.Close()
	_, err = file.WriteString(n + "\n")
	if err != nil {
		panic(err)
	}
}
`

// add adds the mutant of a function, and reports whether the mutation is in one.
func (b *mutants) add(n int, m mutation) (bool, error) {
	data, err := os.ReadFile(m.file)
	if err != nil {
		return false, err
	}
	source := string(data)
	b.sources[m.file] = source
	if n := strings.Count(source, m.old); n != 1 {
		return false, fmt.Errorf("%s holds %d times, want once:\n%s", m.file, n, m.old)
	}
	begin := strings.Index(source, m.old)
	end := begin + len(m.old)
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, m.file, data, parser.SkipObjectResolution)
	if err != nil {
		return false, err
	}
	offset := func(p token.Pos) int { return fset.Position(p).Offset }
	for _, decl := range parsed.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || begin <= offset(f.Body.Lbrace) || end > offset(f.Body.Rbrace) {
			continue
		}
		name := fmt.Sprintf("%sMutant%d", f.Name.Name, n)
		b.decls[m.file] = append(b.decls[m.file], source[offset(f.Pos()):offset(f.Name.Pos())]+name+source[offset(f.Name.End()):begin]+m.new+source[end:offset(f.End())])
		if b.calls[m.file] == nil {
			b.calls[m.file] = make(map[int][]string)
		}
		body := offset(f.Body.Lbrace) + 1
		b.calls[m.file][body] = append(b.calls[m.file][body], fmt.Sprintf("if mutated(%q) { %s }; ", fmt.Sprint(n), callOf(f, name)))
		return true, nil
	}
	return false, nil
}

// callOf returns a call of a function's mutant in place of the function.
func callOf(f *ast.FuncDecl, name string) string {
	if f.Recv != nil {
		name = f.Recv.List[0].Names[0].Name + "." + name
	}
	var arguments []string
	for _, field := range f.Type.Params.List {
		if field.Names == nil { // unused
			arguments = append(arguments, "*new("+types.ExprString(field.Type)+")")
		}
		for _, parameter := range field.Names {
			argument := parameter.Name
			if _, variadic := field.Type.(*ast.Ellipsis); variadic {
				argument += "..."
			}
			arguments = append(arguments, argument)
		}
	}
	text := name + "(" + strings.Join(arguments, ", ") + ")"
	if f.Type.Results == nil {
		return text + "; return"
	}
	return "return " + text
}

// build builds the tests of a folder on the sources and their mutants, into another folder.
func (b *mutants) build(ctx context.Context, dir, into string) error {
	overlay := make(map[string]string)
	replace := func(file, source string) error {
		original, err := filepath.Abs(file)
		if err != nil {
			return err
		}
		if overlay[original] == "" {
			overlay[original] = filepath.Join(into, fmt.Sprintf("%d.go", len(overlay)))
		}
		return os.WriteFile(overlay[original], []byte(source), 0o644)
	}

	for file, source := range b.sources {
		var mutated strings.Builder
		for i, c := range []byte(source) {
			for _, call := range b.calls[file][i] {
				mutated.WriteString(call)
			}
			mutated.WriteByte(c)
		}
		for _, decl := range b.decls[file] {
			mutated.WriteString("\n" + decl + "\n")
		}

		name, _, _ := strings.Cut(source[strings.Index(source, "\npackage ")+1:], "\n")
		err := errors.Join(replace(file, mutated.String()), replace(filepath.Join(filepath.Dir(file), "mutant.go"), name+switching))
		if err != nil {
			return err
		}
	}

	text, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		return err
	}
	file := filepath.Join(into, "overlay.json")
	err = os.WriteFile(file, text, 0o644)
	if err != nil {
		return err
	}

	b.binary = filepath.Join(into, "mutants.test")
	out, err := exec.CommandContext(ctx, "go", "test", "-c", "-o", b.binary, "-overlay="+file, "-vet=off", "-ldflags=-s -w", "./"+dir).CombinedOutput()
	if err != nil {
		return fmt.Errorf("go test -c %s: %w\n%s", dir, err, out)
	}
	return nil
}

// run runs a mutation's test on its mutant, with a variable of the environment.
func (b *mutants) run(t *testing.T, n int, m mutation) ([]byte, error) {
	args := []string{"-test.failfast", "-test.timeout=2m", "-test.run=^" + strings.ReplaceAll(regexp.QuoteMeta(m.testName()), "/", "$/^") + "$"}
	if m.dir() == "." {
		args = append(args, "-sim.shrink=0")
	}
	c := exec.CommandContext(t.Context(), b.binary, args...)
	c.Dir = m.dir()
	c.Env = append(os.Environ(), fmt.Sprint(selected, "=", n))
	return c.CombinedOutput()
}
