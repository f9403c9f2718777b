//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/admin/adminpb"
	"github.com/firestore-tally/tally/cmd/tally/settings"
	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/internal/test/googletest"
	"github.com/firestore-tally/tally/internal/tool/local/emulator"
	"github.com/goccy/go-yaml"
)

var docs = flag.Bool("docs", false, "run the commands of the README and the docs")

// notRun are the commands of the docs that are not run, by how they begin.
var notRun = []struct{ start, why string }{
	{"go test", "tests run by themselves, and benchmarks for minutes; whether they exist is looked up"},
	{"go run golang.org/x/vuln", "govulncheck asks the internet"},
	{"(cd clients/web && npm audit", "it asks the internet"},
	{"(cd docs/test && npm audit", "it asks the internet"},
	{"(cd internal/tool/dashboard/test && npm audit", "it asks the internet"},
	{"npm ci", "the web client's own tests in a clone, which .ci/run runs"},
	{"npm run", "likewise"},
	{"npm test", "likewise"},
	{"firebase", "the Firebase CLI is not here"},
	{"gcloud", "it asks Google's own APIs"},
	{"lines", "likewise"},
	{"for account in", "likewise"},
	{"cd ../changed", "it needs a changed clone"},
	{"tally demo --project", "it needs functions at work; TestDemoOnProject runs it"},
}

// unawaited are the commands, by how they begin, that only the next of them need. They run one
// after the other, at the same time as the others.
var unawaited = []string{"tally demo", "go run ./cmd/tally demo", "go install", "(cd ../tally/clients/web", "npm install"}

// endless are the commands that run until Ctrl-C, by how they begin, and what they print first.
var endless = []struct{ start, prints string }{
	{"tally dev", "Point an app at it"}, {"tally watch", " as of "}, {"tally dashboard", "http://"},
}

// assignments are the variables that a command has at its beginning, such as "CI=true ".
var assignments = regexp.MustCompile(`^([A-Z_]+=\S+ )*`)

// loadFlag is the flag of a demo's load.
var loadFlag = regexp.MustCompile(` --increments[ =]\d+`)

// adapted are the commands, by how they begin, that get other flags here: ports of their own and a
// smaller load.
var adapted = []struct{ start, flags string }{
	{"tally dev", " --firestore-port=0 --functions-port=0 --dashboard-port=0"},
	{"tally demo", " --firestore-port=0 --functions-port=0 --increments=300"},
	{"go run ./cmd/tally demo", " --firestore-port=0 --functions-port=0 --increments=300"},
	{"tally dashboard", " --port=0"},
}

// TestDocs tries the docs as a reader does: the README, and then the pages that it links to. In an
// empty folder outside the clone it has sh run each command of their code blocks, which are
// indented by four spaces. Each must end with status 0. What a block of YAML says goes into
// tally.yaml.
//
// Each page begins in a new terminal, in the app's folder. Each of its sections begins with the
// project and the tally.yaml that the README left; those of docs/migrate.md with a project without
// Tally.
func TestDocs(t *testing.T) {
	if !*docs {
		t.Skip("it clones and installs for minutes: -docs runs it, and so does .ci/run")
	}
	t.Parallel() // it waits more than it works
	r := newReader(t)
	seen := map[string]bool{}
	for pages := []string{"README.md"}; len(pages) > 0; pages = pages[1:] {
		page := pages[0]
		if seen[page] {
			continue
		}
		seen[page] = true
		data, err := os.ReadFile(filepath.Join(r.root, page))
		if err != nil {
			t.Fatal(err)
		}
		t.Run(page, func(t *testing.T) { r.read(t, page, string(data)) })
		for _, link := range regexp.MustCompile(`\]\(([^):#]+\.md)`).FindAllStringSubmatch(string(data), -1) {
			pages = append(pages, filepath.Join(filepath.Dir(page), link[1]))
		}
	}
	pages, err := filepath.Glob(filepath.Join(r.root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		if page = "docs/" + filepath.Base(page); !seen[page] {
			t.Errorf("no page links to %s", page)
		}
	}
	for _, c := range notRun {
		if r.pages == len(seen) && !r.met[c.start] { // else -run left pages out
			t.Errorf("no page has a command that begins with %q", c.start)
		}
	}
}

// A reader is somebody who tries the docs.
type reader struct {
	all, t         *testing.T // t is of the page
	root, dir, app string     // folders: this clone, the reader's, and the app's
	upstream       string     // repository that has this clone as a commit
	tutorial       bool       // the page is one, whose commands are fenced, need each other, and begin in a clone
	terminal       string     // folder that keeps the terminal's variables and current folder
	env            []string
	google         *googletest.Google

	addr       string          // of the emulator of tally dev
	dev        *follower       // tally dev, nil if it does not run
	pages      int             // that were read
	begun      map[string]bool // unawaited commands
	last       chan struct{}   // closed when the last of them has ended
	met        map[string]bool // of notRun
	withoutIt  func()          // puts the project back as it was without Tally
	readmeLeft func()          // puts the project and tally.yaml back as the README left them
}

func newReader(t *testing.T) *reader {
	g := googletest.Start(t, "my-project")
	g.Rules = shippedRules
	for _, id := range []string{"orders", "restored"} {
		g.Put("projects/my-project/databases/"+id, &adminpb.Database{LocationId: "nam5", Type: adminpb.Database_FIRESTORE_NATIVE, DatabaseEdition: adminpb.Database_STANDARD})
	}
	r := &reader{all: t, t: t, root: abs(t, "../.."), dir: t.TempDir(), terminal: t.TempDir(), google: g,
		begun: map[string]bool{}, last: make(chan struct{}), met: map[string]bool{}, withoutIt: g.Snapshot()}
	close(r.last)
	t.Cleanup(func() { <-r.last })
	r.app = filepath.Join(r.dir, "my-app")
	upstream := filepath.Join(t.TempDir(), "tally")
	running := emulatortest.Own(t, emulator.Options{}).Addr() // the docs name the project
	r.env = append(g.Environ(), firestoreOfTests+"="+running, firestorestore.EmulatorHost+"=",
		"PROJECT=my-project", "REGION=us-central1", "LOCATION=nam5", "GOBIN="+t.TempDir(), "TERMINAL="+r.terminal,
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url."+upstream+".insteadOf", "GIT_CONFIG_VALUE_0=https://github.com/firestore-tally/tally")
	commit := exec.Command("sh", "-ec", `git init --quiet --initial-branch=main "$0" && export GIT_DIR="$0"/.git GIT_WORK_TREE="$1"
git add --all && git -c user.name=Tally -c user.email=tally@example.com commit --quiet --message=Tally && git tag v1.2.3`, upstream, r.root)
	if out, err := commit.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	r.upstream = upstream
	r.put(running, "my-project", posts)
	r.put(running, "my-project", map[string]map[string]any{"counters/likes": {"num_shards": 10}})
	readme, err := os.ReadFile(filepath.Join(r.root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	program := regexp.MustCompile("(?s)```go\n(.*?)```").FindSubmatch(readme)
	if program == nil {
		t.Fatal("README.md has no program in Go")
	}
	write(t, filepath.Join(r.terminal, "main.go"), program[1])
	return r
}

var (
	fence   = regexp.MustCompile("^ *```(.*)")
	heading = regexp.MustCompile("^##+ ")
)

// read reads a page.
func (r *reader) read(t *testing.T, page, text string) {
	r.t = t
	r.pages++
	first := page == "README.md"
	if !first && r.readmeLeft == nil {
		t.Fatal("the README's commands failed, and this page begins where they end")
	}

	folder := r.app
	if first {
		folder = r.dir
	}
	r.tutorial = page == "docs/cloud-shell.md"
	if r.tutorial {
		folder = filepath.Join(t.TempDir(), "tally")
		out, err := exec.CommandContext(t.Context(), "git", "clone", "--quiet", r.upstream, folder).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	write(t, filepath.Join(r.terminal, "variables"), nil)
	write(t, filepath.Join(r.terminal, "folder"), []byte(folder))
	begin := func() { // a section
		r.readmeLeft()
		if page == "docs/migrate.md" {
			r.withoutIt()
		}
	}
	if !first {
		begin()
	}
	defer r.stopDev()
	fenced, language, block, command := false, "", "", ""
	for n, line := range strings.Split(text, "\n") {
		if f := fence.FindStringSubmatch(line); f != nil {
			if fenced && language == "yaml" {
				r.set(block)
			}
			fenced, language, block = !fenced, f[1], ""
			continue
		}
		switch {
		case fenced && r.tutorial && language == "sh":
			r.try(fmt.Sprintf("%s:%d", page, n+1), strings.ReplaceAll(line, "<walkthrough-project-id/>", "my-project"))
		case fenced:
			block += line + "\n"
		case heading.MatchString(line) && !first && !r.tutorial:
			begin()
		case strings.HasPrefix(line, "    ") && strings.TrimSpace(line) != "":
			var more bool
			if command, more = strings.CutSuffix(command+strings.TrimSpace(line), `\`); more {
				continue
			}
			r.try(fmt.Sprintf("%s:%d", page, n+1), command)
			command = ""
		}
	}
	if first {
		restore, file := r.google.Snapshot(), filepath.Join(r.app, "tally.yaml")
		settings, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		r.readmeLeft = func() {
			restore()
			write(r.t, file, settings)
		}
	}
}

// set puts keys into tally.yaml. Before there is one, a page only shows what it may hold.
func (r *reader) set(keys string) {
	file := filepath.Join(r.app, "tally.yaml")
	var all, more map[string]any
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err := errors.Join(err, yaml.Unmarshal(text, &all), yaml.Unmarshal([]byte(keys), &more)); err != nil {
		r.t.Fatal(err)
	}
	maps.Copy(all, more)
	if text, err = yaml.Marshal(all); err != nil {
		r.t.Fatal(err)
	}
	write(r.t, file, text)
	if _, routes := more["routes"]; routes {
		r.mergeRules()
	}
}

// mergeRules merges the rules of likes into those that tally init wrote, as docs/recipes.md says.
func (r *reader) mergeRules() {
	const place = "    match /rollups/{counter} {"
	file := filepath.Join(r.app, "firestore.rules")
	rules, err := os.ReadFile(file)
	recipes, errRecipes := os.ReadFile(filepath.Join(r.root, "docs", "recipes.md"))
	if err := errors.Join(err, errRecipes); err != nil {
		r.t.Fatal(err)
	}
	if bytes.Contains(rules, []byte("match /posts/")) {
		return
	}

	block := regexp.MustCompile("(?s)### (?:Likes|Totals in the app's own documents)\n.*?```js\n(match .*?)```")
	merged := ""
	for _, found := range block.FindAllSubmatch(recipes, -1) {
		merged += string(found[1])
	}
	write(r.t, file, bytes.Replace(rules, []byte(place), []byte(merged+place), 1))
}

// try runs a command of a page.
func (r *reader) try(at, command string) {
	variables := assignments.FindString(command)
	line := strings.ReplaceAll(command, "127.0.0.1:8080", r.addr)
	begins := func(start string) bool { return strings.HasPrefix(command[len(variables):], start) }
	run := func(t *testing.T, sh *exec.Cmd) {
		began := time.Now()
		out, err := sh.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %s\n%v\n%s", at, command, err, out)
		}
		t.Logf("%5.1f s  %s: %s", time.Since(began).Seconds(), at, command)
	}
	for _, c := range notRun {
		if begins(c.start) {
			r.met[c.start] = true
			r.lookUp(at, command)
			return
		}
	}
	for _, c := range adapted {
		if begins(c.start) {
			given := strings.TrimPrefix(line, variables+c.start)
			line = variables + c.start + c.flags + loadFlag.ReplaceAllString(given, "")
		}
	}
	for _, c := range endless {
		if begins(c.start) {
			r.follow(line, c.prints)
			return
		}
	}
	if begins("go mod init") { // then the reader writes the page's program
		line += ` && cp "$TERMINAL"/main.go .`
	}
	if r.tutorial || !slices.ContainsFunc(unawaited, begins) {
		run(r.t, r.sh(line+"\nstatus=$?; export -p >\"$TERMINAL\"/variables; pwd >\"$TERMINAL\"/folder; exit $status"))
		return
	}
	if r.begun[command] {
		return
	}
	r.begun[command] = true
	sh := r.sh(line)
	before, ended := r.last, make(chan struct{})
	r.last = ended
	go func() {
		defer close(ended)
		<-before
		run(r.all, sh)
	}()
}

// sh returns a command that goes on in the reader's terminal as it is now. It answers questions by
// y.
func (r *reader) sh(script string) *exec.Cmd {
	folder, err := os.ReadFile(filepath.Join(r.terminal, "folder"))
	variables, errVariables := os.ReadFile(filepath.Join(r.terminal, "variables"))
	if err := errors.Join(err, errVariables); err != nil {
		r.t.Fatal(err)
	}
	sh := exec.Command("sh", "-c", string(variables)+script)
	sh.Dir, sh.Env = strings.TrimSpace(string(folder)), r.env
	sh.Stdin = strings.NewReader(strings.Repeat("y\n", 9))
	return sh
}

// follow starts a command that runs until Ctrl-C. tally dev goes on until the next one, or the
// page's end.
func (r *reader) follow(line, prints string) {
	isDev := strings.HasPrefix(line, "tally dev")
	if isDev {
		r.stopDev()
	}
	c := &process{Cmd: r.sh("exec " + line)}
	c.Stdin, c.Stderr = nil, &c.stderr
	out, err := c.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	f := c.start(r.t, out)
	kill := time.AfterFunc(emulatortest.Eventually(), func() { _ = c.Process.Kill() })
	f.await(prints)
	kill.Stop()
	if !isDev {
		f.interrupt()
		return
	}
	r.dev, r.addr = f, regexp.MustCompile(`Firestore +(\S+),`).FindStringSubmatch(f.read.String())[1]
	r.put(r.addr, "demo-tally", posts)
}

// posts are what the app has: a post with two likes.
var posts = map[string]map[string]any{"posts/7": {"likes": 2}, "posts/7/likes/ann": {}, "posts/7/likes/bob": {}}

// put writes documents.
func (r *reader) put(addr, project string, documents map[string]map[string]any) {
	app, err := firestorestore.Dial(r.t.Context(), addr, project, firestore.DefaultDatabaseID)
	if err != nil {
		r.t.Fatal(err)
	}
	defer app.Close()
	for path, fields := range documents {
		if _, err := app.Doc(path).Set(r.t.Context(), fields); err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *reader) stopDev() {
	if r.dev != nil {
		r.dev.interrupt()
		r.dev = nil
	}
}

func (f *follower) interrupt() {
	f.t.Helper()
	if err := f.command.Process.Signal(os.Interrupt); err != nil {
		f.t.Error(err)
	}
	f.awaitExit(0)
}

// lookUp looks up whether there are tests of the name that go test is to run.
func (r *reader) lookUp(at, command string) {
	named := regexp.MustCompile(`^go test (\S+) .*?-(?:bench|run)[ =]'?([^' ^][^' ]*)`).FindStringSubmatch(command)
	if named == nil {
		return
	}
	function, _, _ := strings.Cut(named[2], "/") // behind a slash are names of subtests

	files, err := filepath.Glob(filepath.Join(r.root, named[1], "*_test.go"))
	if err != nil {
		r.t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			r.t.Fatal(err)
		}
		for _, test := range regexp.MustCompile(`(?m)^func ((?:Test|Benchmark)\w*)\(`).FindAllSubmatch(text, -1) {
			if regexp.MustCompile(function).Match(test[1]) {
				return
			}
		}
	}
	r.t.Errorf("%s: %s\nthere is no such test", at, command)
}

// firestoreOfTests names the emulator that stands for the Firestore of a googletest.Google.
const firestoreOfTests = "TALLY_TEST_FIRESTORE"

// mainOfTests is main of the tally on the PATH of tests. In the environment of a googletest.Google
// it works on that.
func mainOfTests() {
	g := googletest.Started()
	if g == nil {
		main()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx = settings.WithEndpoints(ctx, settings.Endpoints{APIs: g.REST(), Firestore: os.Getenv(firestoreOfTests), Judge: content})
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
