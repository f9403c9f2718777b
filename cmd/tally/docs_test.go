//go:build unix

package main

import (
	"context"
	"errors"
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
	"github.com/firestore-tally/tally/internal/emulator/emulatortest"
	"github.com/firestore-tally/tally/internal/firestorestore"
	"github.com/firestore-tally/tally/internal/googletest"
	"github.com/goccy/go-yaml"
)

// notRun are the commands of the docs that are not run, by how they begin, and why.
var notRun = map[string]string{
	".ci/run":                         "it runs this test",
	"go test":                         "tests run by themselves, and benchmarks for minutes; that they exist is checked",
	"go tool -modfile=tools/go.mod":   "govulncheck asks the internet",
	"(cd clients/web && npm audit":    "it asks the internet",
	"(cd clients/snippets && npm":     "likewise",
	"(cd internal/dashboard/browser ": "likewise",
	"npm run":                         "the web client's own checks, which .ci/run runs",
	"firebase firestore:delete":       "the Firebase CLI is not here",
	"terraform init":                  "it downloads Google's provider",
	"curl -X PATCH":                   "it writes to Google's own Firestore",
}

// notServed are the gcloud commands that the stand-in for Google's APIs cannot answer, by how they begin.
// gcloud itself accepts them: it ends with status 2 where it does not know a command or a flag.
var notServed = []string{"gcloud logging read", "gcloud billing", "gcloud run services list", "gcloud firestore databases restore"}

// endless are the commands that run until Ctrl-C, by how they begin, and what they print first.
var endless = map[string]string{"tally dev": "Add 1 from here", "tally watch": " as of ", "tally dashboard": "http://"}

// adapted are the commands that get more flags here, by how they begin: ports that nobody else has, and a
// load that takes less time.
var adapted = map[string]string{
	"tally dev":       "tally dev --firestore-port=0 --functions-port=0 --dashboard-port=0 --web-port=0",
	"tally demo":      "tally demo --firestore-port=0 --functions-port=0 --increments=300",
	"tally dashboard": "tally dashboard --port=0",
}

// address is that of the emulator in the docs.
const address = "127.0.0.1:8080"

// TestDocs reads the README and then the pages that it links to, as a reader does who tries everything: in
// an empty folder outside the clone it runs each command of their code blocks by sh, where it must end with
// status 0. A block of YAML goes into tally.yaml.
//
// Each section of a page but the README begins with the project and the tally.yaml that the README left,
// those of docs/migrate.md with a project without Tally. Each page begins in a new terminal, in the app's folder.
func TestDocs(t *testing.T) {
	r := newReader(t)
	seen := map[string]bool{}
	for pages := []string{"README.md"}; len(pages) > 0; pages = pages[1:] {
		page := pages[0]
		if seen[page] {
			continue
		}
		seen[page] = true
		text, err := os.ReadFile(filepath.Join(r.root, page))
		if err != nil {
			t.Fatal(err)
		}
		t.Run(page, func(t *testing.T) { r.read(t, page, string(text)) })
		for _, link := range regexp.MustCompile(`\]\(([^):#]+\.md)`).FindAllStringSubmatch(string(text), -1) {
			pages = append(pages, filepath.Join(filepath.Dir(page), link[1]))
		}
	}
	docs, err := filepath.Glob(filepath.Join(r.root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range docs {
		if page = "docs/" + filepath.Base(page); !seen[page] {
			t.Errorf("no page links to %s", page)
		}
	}
	for start := range notRun {
		if !r.met[start] {
			t.Errorf("no page has a command that begins with %q", start)
		}
	}
}

// A reader is somebody who tries the docs.
type reader struct {
	cloud
	root, dir, app string // folders: this clone, the reader's, and the app's
	terminal       string // folder that keeps the terminal's variables and current folder

	addr     string          // of the emulator of tally dev
	dev      *follower       // tally dev, nil if it does not run
	anew     func()          // puts the project back as it was without Tally
	restore  func()          // likewise, as the README left it
	settings []byte          // tally.yaml as the README left it
	met      map[string]bool // of notRun
}

func newReader(t *testing.T) *reader {
	r := &reader{cloud: newCloud(t), root: abs(t, "."), dir: t.TempDir(), terminal: t.TempDir(), met: map[string]bool{}}
	r.firestore = emulatortest.Addr()
	r.app = filepath.Join(r.dir, "my-app")
	r.Put("projects/my-project/databases/orders", &adminpb.Database{LocationId: "nam5", Type: adminpb.Database_FIRESTORE_NATIVE, DatabaseEdition: adminpb.Database_STANDARD})
	r.anew = r.Snapshot()
	upstream := filepath.Join(t.TempDir(), "tally")
	for name, value := range map[string]string{
		"PROJECT": "my-project", "REGION": "us-central1", "GOBIN": t.TempDir(), firestoreOfTests: r.firestore,
		"GOOGLE_CLOUD_PROJECT": "", firestorestore.EmulatorHost: "",
		"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "url." + upstream + ".insteadOf", "GIT_CONFIG_VALUE_0": "https://github.com/firestore-tally/tally",
	} {
		t.Setenv(name, value)
	}
	write(t, filepath.Join(r.terminal, "main.go"), []byte("package main\n\nimport \"github.com/firestore-tally/tally/shards\"\n\nfunc main() { shards.New(nil, \"counters/likes\") }\n"))
	commit := exec.Command("sh", "-ec", `git init --quiet --initial-branch=main "$0" && export GIT_DIR="$0"/.git GIT_WORK_TREE="$1"
git add --all && git -c user.name=Tally -c user.email=tally@example.com commit --quiet --message=Tally && git tag v1.2.3`, upstream, r.root)
	if out, err := commit.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return r
}

var (
	fence   = regexp.MustCompile("^ *```(.*)")
	heading = regexp.MustCompile("^##+ ")
)

// read reads a page.
func (r *reader) read(t *testing.T, page, text string) {
	first := page == "README.md"
	r.t = t
	folder := r.app
	if first {
		folder = r.dir
	}
	write(t, filepath.Join(r.terminal, "environment"), nil)
	write(t, filepath.Join(r.terminal, "folder"), []byte(folder))
	defer r.stopDev()
	language, block, command := "", "", ""
	for n, line := range strings.Split(text, "\n") {
		is := fence.FindStringSubmatch(line)
		switch {
		case heading.MatchString(line) && block == "" && !first:
			r.begin(page)
		case is != nil && block == "":
			language, block = is[1], "\n"
		case is != nil:
			if language == "yaml" {
				r.set(block)
			}
			block = ""
		case block != "":
			block += line + "\n"
		case strings.HasPrefix(line, "    ") && strings.TrimSpace(line) != "":
			command += strings.TrimSpace(line)
			if more, ok := strings.CutSuffix(command, `\`); ok {
				command = more
				continue
			}
			began := time.Now()
			if err := r.run(command); err != nil {
				t.Errorf("%s:%d: %s\n%v", page, n+1, command, err)
			}
			t.Logf("%.1f s: %s", time.Since(began).Seconds(), command)
			command = ""
		}
	}
	if first {
		r.restore = r.Snapshot()
		var err error
		if r.settings, err = os.ReadFile(filepath.Join(r.app, "tally.yaml")); err != nil {
			t.Fatal(err)
		}
	}
}

// begin begins a section.
func (r *reader) begin(page string) {
	r.restore()
	if page == "docs/migrate.md" {
		r.anew()
	}
	write(r.t, filepath.Join(r.app, "tally.yaml"), r.settings)
}

// set puts keys into tally.yaml.
func (r *reader) set(keys string) {
	file := filepath.Join(r.app, "tally.yaml")
	var all map[string]any
	text, err := os.ReadFile(file)
	if err := errors.Join(err, yaml.Unmarshal(text, &all), yaml.Unmarshal([]byte(keys), &all)); err != nil {
		r.t.Fatal(err)
	}
	if text, err = yaml.Marshal(all); err != nil {
		r.t.Fatal(err)
	}
	write(r.t, file, text)
}

// run runs a line of a page.
func (r *reader) run(line string) error {
	begins := func(start string) bool { return strings.HasPrefix(line, start) }
	for start := range notRun {
		if begins(start) {
			r.met[start] = true
			return r.checkTests(line)
		}
	}
	_, loop := pick(endless, begins)
	if with, start := pick(adapted, begins); start != "" {
		line = strings.Replace(line, start, with, 1)
	}
	line = strings.ReplaceAll(line, address, r.addr)
	if loop != "" {
		return r.follow(line, endless[loop])
	}
	if strings.HasPrefix(line, "go mod edit") { // of a server of the app's
		line = `cp "$TERMINAL/main.go" . && go mod init example.com/my-app && ` + line + " && go build -o /dev/null ."
	}
	sh := r.sh(line + "\ns=$?; export -p >\"$TERMINAL/environment\"; pwd >\"$TERMINAL/folder\"; exit $s")
	out, err := sh.CombinedOutput()
	if sh.ProcessState.ExitCode() == 1 && slices.ContainsFunc(notServed, begins) {
		return nil
	}
	if err != nil {
		return errors.New(err.Error() + "\n" + string(out))
	}
	return nil
}

// sh returns a command that goes on in the reader's terminal.
func (r *reader) sh(script string) *exec.Cmd {
	cmd := exec.Command("sh", "-c", `. "$TERMINAL/environment" && cd "$(cat "$TERMINAL/folder")"`+"\n"+script)
	cmd.Env = append(os.Environ(), "TERMINAL="+r.terminal)
	cmd.Stdin = strings.NewReader(strings.Repeat("y\n", 9))
	return cmd
}

// follow starts a command that runs until Ctrl-C. tally dev goes on beside the others.
func (r *reader) follow(line, prints string) error {
	isDev := strings.HasPrefix(line, "tally dev")
	if isDev {
		r.stopDev()
	}
	c := &command{Cmd: r.sh("exec " + line)}
	c.Stderr = &c.stderr
	out, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	f := c.start(r.t, out)
	kill := time.AfterFunc(eventually, func() { _ = c.Process.Kill() })
	f.await(prints)
	kill.Stop()
	if !isDev {
		return r.interrupt(f)
	}
	r.dev = f
	r.addr = regexp.MustCompile(`Firestore +(\S+),`).FindStringSubmatch(f.read.String())[1]
	app, err := firestorestore.Dial(r.t.Context(), r.addr, "demo-tally", firestore.DefaultDatabaseID)
	if err != nil {
		return err
	}
	defer app.Close()
	batch := app.BulkWriter(r.t.Context())
	for path, fields := range map[string]map[string]any{"posts/7": {"likes": 2}, "posts/7/likes/ann": {}, "posts/7/likes/bob": {}} {
		_, err = batch.Set(app.Doc(path), fields)
	}
	batch.End()
	return err
}

func (r *reader) interrupt(f *follower) error {
	err := f.command.Process.Signal(os.Interrupt)
	f.awaitExit(0)
	return err
}

func (r *reader) stopDev() {
	if r.dev != nil {
		if err := r.interrupt(r.dev); err != nil {
			r.t.Error(err)
		}
		r.dev = nil
	}
}

// checkTests returns an error if a go test -run or -bench names no test.
func (r *reader) checkTests(line string) error {
	named := regexp.MustCompile(`^go test (\S+) .*?-(?:bench|run) '?([^' ^][^' ]*)`).FindStringSubmatch(line)
	if named == nil {
		return nil // it runs them all
	}
	files, err := filepath.Glob(filepath.Join(r.root, named[1], "*_test.go"))
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, test := range regexp.MustCompile(`(?m)^func ((?:Test|Benchmark)\w*)\(`).FindAllSubmatch(text, -1) {
			if regexp.MustCompile(named[2]).Match(test[1]) {
				return nil
			}
		}
	}
	return errors.New("there is no such test")
}

// pick returns the value and the key that is right, "" if there is none.
func pick(of map[string]string, is func(string) bool) (value, key string) {
	for _, key := range slices.Sorted(maps.Keys(of)) {
		if is(key) {
			return of[key], key
		}
	}
	return "", ""
}

// firestoreOfTests names the emulator that stands for Firestore where the Google of a test does for Google.
const firestoreOfTests = "TALLY_TEST_FIRESTORE"

// mainOfTests is main for the tally on the PATH of tests. In their Google's environment it works on that.
func mainOfTests() {
	g := googletest.Started()
	if g == nil {
		main()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(runAt(ctx, endpoints{grpc: g.GRPC(), rest: g.REST(), firestore: os.Getenv(firestoreOfTests)}, os.Args[1:], os.Stdout, os.Stderr))
}
