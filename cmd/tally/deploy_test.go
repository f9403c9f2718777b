//go:build unix

package main

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"cloud.google.com/go/eventarc/apiv1/eventarcpb"
	"cloud.google.com/go/firestore/apiv1/admin/adminpb"
	"cloud.google.com/go/functions/apiv2/functionspb"
	"cloud.google.com/go/logging/apiv2/loggingpb"
	"cloud.google.com/go/monitoring/apiv3/v2/monitoringpb"
	"cloud.google.com/go/monitoring/dashboard/apiv1/dashboardpb"
	"cloud.google.com/go/scheduler/apiv1/schedulerpb"
	"github.com/firestore-tally/tally/internal/tool/deploy"
	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	"google.golang.org/genproto/googleapis/cloud/location"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

var update = flag.Bool("update", false, "rewrite testdata/deploy")

// TestDeploy plays the stories of testdata/deploy, each of commands that are called one after the
// other. first.txtar is of a new project, and each of the others of the project as first.txtar left
// it. A file of a story is named after
//
//   - a command, and holds what it printed, and its exit status if that is not 0. The source that
//     the program carries is the clone's;
//   - "own VERSION": from then on the program is of that version;
//   - "answer", and holds what the user answers the next command;
//   - "env NAME=VALUE", which is the user's from then on;
//   - "edit FILE", and holds what a file of the clone has from then on;
//   - "without FILE", which is deleted from the clone;
//   - "put NAME" or "change NAME", and holds what a resource has from then on, in JSON, or "delete
//     NAME". What the server names may be named as it is displayed, or with * for the name;
//   - "get PATH of NAME", and holds what a resource has there;
//   - "signed out": from then on there are no credentials;
//   - "closed LOCATION…" or "unreachable LOCATION…": those that the project may not use, or that do
//     not answer, from then on; or
//     "cpus N", the quota of Cloud Run, or "builds N", how often a new index is looked at before it
//     is ready;
//   - "fail API METHOD TIMES", and holds the error with which so many calls fail. "fail build
//     FUNCTION TIMES" is of builds.
func TestDeploy(t *testing.T) {
	folder := abs(t, "testdata/deploy")
	c := newCloud(t)
	t.Setenv("PATH", "") // no other program is needed
	first := filepath.Join(folder, "first.txtar")
	var opening map[string]string // of the first deployment's plan
	tell := func(t *testing.T, file string) {
		told, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		p := player{cloud: cloud{Google: c.Google, t: t}, clone: leastClone(t)}
		p.program.source = os.DirFS(filepath.Join(p.clone, "source"))
		played := slices.Clone(told.Files)
		for i, f := range told.Files {
			printed := strings.ReplaceAll(string(p.play(f)), p.clone, "CLONE")
			switch {
			case f.Name == "tally deploy" && file == first && opening == nil:
				opening = openingOf(printed)
			case strings.HasPrefix(f.Name, "tally ") && file != first:
				printed = shortened(printed, opening)
			}
			played[i].Data = []byte(printed)
		}
		if *update {
			write(t, file, txtar.Format(&txtar.Archive{Comment: told.Comment, Files: played}))
		}
		for i, f := range told.Files {
			if d := cmp.Diff(string(f.Data), string(played[i].Data)); d != "" && !*update {
				t.Errorf("%s (-want +got):\n%s", f.Name, d)
			}
		}
	}
	tell(t, first)
	if testing.Short() {
		return // the others take seconds
	}

	restore := c.Snapshot()
	files, err := filepath.Glob(filepath.Join(folder, "*.txtar"))
	if err != nil || len(files) < 2 {
		t.Fatalf("no stories: %v", err)
	}
	for _, file := range files {
		if file != first {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
				restore()
				tell(t, file)
			})
		}
	}
}

// openingLine matches what a plan says besides its steps, stepLine a step of the plan, and progress
// how a line about a step that is done begins.
var (
	stepLine    = regexp.MustCompile(`^  (\S.*)`)
	openingLine = regexp.MustCompile(`^  (source|routes|where|at rest|changes|worst day|prices|not done|undo) +`)
	progress    = regexp.MustCompile(`\[\d+/\d+\] `)
)

// openingOf returns what the plan that was printed says besides its steps, by the kind of it.
func openingOf(printed string) map[string]string {
	said := make(map[string]string)
	for line := range strings.SplitSeq(printed, "\n") {
		kind := openingLine.FindString(line)
		if kind != "" {
			said[kind] = line
		}
	}
	return said
}

// shortened returns what was printed without what says the same as the opening of the first
// deployment's plan, and with three points for the heading that all plans have. If each step of the
// plan was done, in order, it leaves only the last one's line.
func shortened(printed string, first map[string]string) string {
	const heading = "tally: project my-project (GOOGLE_CLOUD_PROJECT)\nreading project my-project\nIn project my-project:\n\n"
	afterHeading, hasHeading := strings.CutPrefix(printed, heading)
	if hasHeading {
		printed = "...\n" + afterHeading
	}

	opening := openingOf(printed)
	var lines, steps, done []string
	for _, kind := range slices.Sorted(maps.Keys(first)) {
		if len(opening) > 0 && opening[kind] == "" {
			lines = append(lines, "without "+strings.TrimSpace(kind))
		}
	}
	for line := range strings.SplitSeq(printed, "\n") {
		kind := openingLine.FindString(line)
		if kind != "" && line == first[kind] {
			continue
		}
		lines = append(lines, line)
		at := progress.FindStringIndex(line)
		step := stepLine.FindStringSubmatch(line)
		switch {
		case at != nil:
			done = append(done, line[at[1]:])
		case step != nil && kind == "" && done == nil:
			steps = append(steps, step[1])
		}
	}
	if len(done) < 2 || !slices.Equal(steps, done) {
		return strings.Join(lines, "\n")
	}

	last := fmt.Sprintf("[%d/%[1]d] %s", len(done), done[len(done)-1])
	lines = slices.DeleteFunc(lines, func(line string) bool {
		return strings.HasPrefix(line, "[") && progress.MatchString(line) && line != last
	})
	return strings.Join(lines, "\n")
}

// A player plays a story.
type player struct {
	cloud
	clone  string // folder
	answer []byte
}

// play plays a file of a story and returns it as it came about.
func (p *player) play(f txtar.File) []byte {
	p.t.Helper()
	verb, rest, _ := strings.Cut(f.Name, " ")
	switch verb {
	case "tally":
		args := shellWords(rest)
		return p.transcript(args)
	case "own":
		p.program.version = rest
	case "answer":
		p.answer = f.Data
	case "env":
		name, value, _ := strings.Cut(rest, "=")
		p.t.Setenv(name, value)
	case "edit":
		write(p.t, filepath.Join(p.clone, rest), f.Data)
	case "without":
		p.without(rest)
	case "put", "change":
		p.put(p.name(rest), f.Data, verb == "put")
	case "delete":
		p.Delete(p.name(rest))
	case "get":
		path, name, _ := strings.Cut(rest, " of ")
		return []byte(p.get(p.name(name)).Get(path) + "\n")
	case "signed":
		p.signedOut = true
		p.t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", filepath.Join(p.clone, "none.json"))
	case "closed":
		p.Closed = strings.Fields(rest)
	case "unreachable":
		p.Unreachable = strings.Fields(rest)
	case "cpus", "builds":
		n, err := strconv.Atoi(rest)
		if err != nil {
			p.t.Fatal(err)
		}
		if verb == "cpus" {
			p.CPUs = n
		} else {
			p.Builds = n
		}
	case "fail":
		p.fail(strings.Fields(rest), string(f.Data))
	default:
		p.t.Fatalf("file %q", f.Name)
	}
	return f.Data
}

// without takes away a file of the clone.
func (p *player) without(name string) {
	p.t.Helper()
	if err := os.Remove(filepath.Join(p.clone, name)); err != nil {
		p.t.Fatal(err)
	}
}

func (p *player) transcript(args []string) []byte {
	p.t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := w.Write(p.answer); err != nil {
		p.t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		p.t.Fatal(err)
	}
	p.answer = nil
	stdin := os.Stdin
	os.Stdin = r
	printed, status := p.tally(args...)
	os.Stdin = stdin
	if err := r.Close(); err != nil {
		p.t.Fatal(err)
	}
	if status != 0 {
		printed += fmt.Sprintf("exit status %d\n", status)
	}
	return []byte(printed)
}

// put puts an object into what a resource has, as https://www.rfc-editor.org/rfc/rfc7396 says.
func (p *player) put(name string, changes []byte, isNew bool) {
	p.t.Helper()
	m := p.Get(name)
	if (m == nil) != isNew {
		p.t.Fatalf("%s: %v", name, m)
	}
	if isNew {
		m = map[string]proto.Message{"databases": &adminpb.Database{}, "functions": &functionspb.Function{}, "triggers": &eventarcpb.Trigger{},
			"jobs": &schedulerpb.Job{}, "notificationChannels": &monitoringpb.NotificationChannel{}, "dashboards": &dashboardpb.Dashboard{}, "exclusions": &loggingpb.LogExclusion{}, "locations": &location.Location{}}[path.Base(path.Dir(name))]
	}
	var into func(all, more map[string]any)
	into = func(all, more map[string]any) {
		for key, value := range more {
			inner, both := value.(map[string]any)
			if old, ok := all[key].(map[string]any); ok && both {
				into(old, inner)
			} else if all[key] = value; value == nil {
				delete(all, key)
			}
		}
	}
	var all, more map[string]any
	data, err := protojson.Marshal(m)
	if err := errors.Join(err, json.Unmarshal(data, &all), json.Unmarshal(changes, &more)); err != nil {
		p.t.Fatal(err)
	}
	into(all, more)
	data, err = json.Marshal(all)
	if err := errors.Join(err, protojson.Unmarshal(data, m)); err != nil {
		p.t.Fatal(err)
	}
	p.Put(name, m)
}

func (p *player) get(name string) (o deploy.Object) {
	p.t.Helper()
	data, err := protojson.Marshal(p.Get(name))
	if err := errors.Join(err, json.Unmarshal(data, &o)); err != nil {
		p.t.Fatal(err)
	}
	return o
}

// name returns the full name of a resource.
func (p *player) name(name string) string {
	name = "projects/my-project/" + name
	for _, n := range p.Names(path.Base(path.Dir(name))) {
		matches, err := path.Match(name, n)
		if err != nil {
			p.t.Fatal(err)
		}
		if matches || p.get(n).Get("displayName") == path.Base(name) {
			return n
		}
	}
	return name
}

func (p *player) fail(words []string, text string) {
	p.t.Helper()
	var code codes.Code
	name, message, _ := strings.Cut(strings.TrimSpace(text), ": ")
	times, err := strconv.Atoi(words[2])
	if err := errors.Join(err, code.UnmarshalJSON([]byte(strconv.Quote(name)))); err != nil {
		p.t.Fatal(err)
	}
	err = status.Error(code, message)
	if words[0] != "build" {
		p.Fail(words[0]+".googleapis.com", words[1], err, times)
		return
	}
	before := p.Build
	p.Build = func(f *functionspb.Function) error {
		if before != nil {
			if err := before(f); err != nil {
				return err
			}
		}
		if times == 0 || path.Base(f.Name) != words[1] {
			return nil
		}
		times--
		return err
	}
}

// The plan and the manifest of a new project need no credentials, and no other program.
func TestDeployNew(t *testing.T) {
	file := abs(t, "testdata/deploy/new.txt")
	clone := leastClone(t)
	write(t, "tally.yaml", []byte("alerts: me@example.com"))
	t.Setenv("PATH", "")
	call := func(flag string) string {
		t.Helper()
		var out, logs strings.Builder
		args := []string{"deploy", "--new", "--location", "nam5", "--project", "my-project", flag}
		ctx := context.WithValue(t.Context(), programKey{}, program{source: os.DirFS(filepath.Join(clone, "source"))})
		if status := run(ctx, args, &out, &logs); status != 0 {
			t.Fatalf("%s: exit status %d: %s", flag, status, &logs)
		}
		if strings.Contains(out.String(), "s3cret") {
			t.Errorf("%s prints a secret", flag)
		}
		return strings.ReplaceAll(out.String(), clone, "CLONE")
	}

	plan := call("--dry-run")
	if *update {
		write(t, file, []byte(plan))
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), plan); d != "" {
		t.Errorf("new.txt (-want +got):\n%s", d)
	}

	manifest := call("--manifest")
	var resources []struct{ Kind, Name string }
	if err := yaml.Unmarshal([]byte(manifest), &resources); err != nil || len(resources) < 50 {
		t.Errorf("%d resources, %v", len(resources), err)
	}
	for _, want := range []string{"# An instance can absorb an event only into one that it holds itself.\n      maxInstanceRequestConcurrency: 1000\n", `uri: "${function projects/my-project/locations/us-central1/functions/tally-on-schedule serviceConfig.uri}"`} {
		if !strings.Contains(manifest, want) {
			t.Errorf("the manifest lacks %q:\n%s", want, manifest)
		}
	}
}

// A deployment uploads this program's own source, whatever the current folder looks like, and says
// which before it asks.
func TestDeploySource(t *testing.T) {
	c := newCloud(t)
	own, err := c.program.upload()
	if err != nil {
		t.Fatal(err)
	}
	repository, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	leastClone(t)         // the current folder
	write(t, ".git", nil) // is no repository of git
	version := func(want string) {
		t.Helper()
		if printed := c.want(0, "version", "--project", "my-project"); !strings.Contains(printed, "\nmy-project: "+want+"\n") {
			t.Errorf("tally version says %q, not %q", printed, want)
		}
	}
	version("nothing is deployed; this tally is of an unknown version")

	printed := c.want(0, "deploy", "--yes")
	source, first := strings.Index(printed, "\n  source    this tally's own, of an unknown version, hash "+own.Hash+"\n"), strings.Index(printed, "[1/")
	if source < 0 || first < source {
		t.Errorf("tally deploy does not say its source before its first step:\n%s", printed)
	}
	want, err := os.ReadFile(filepath.Join(repository, "functions.go"))
	if err != nil {
		t.Fatal(err)
	}
	if got := c.uploaded("functions.go"); got != string(want) {
		t.Errorf("tally deploy uploads\n%s\nwant that of %s", got, repository)
	}
	version("the functions have the source of this tally, of an unknown version")
}

// uploaded returns a file of the source that was uploaded last.
func (c cloud) uploaded(name string) string {
	c.t.Helper()
	archive := c.Uploaded()
	files, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		c.t.Fatal(err)
	}
	text, err := fs.ReadFile(files, name)
	if err != nil {
		c.t.Fatal(err)
	}
	return string(text)
}

// leastClone makes the least that looks like a clone of Tally, and an app's folder in it, and goes
// there.
func leastClone(t *testing.T) string {
	t.Helper()
	clone := t.TempDir()
	for name, text := range map[string]string{
		"source/go.mod":       "module github.com/firestore-tally/tally\n\ngo 1.26.0\n",
		"source/functions.go": "package tally\n",
	} {
		write(t, filepath.Join(clone, name), []byte(text))
	}
	t.Chdir(clone)
	return clone
}

// shellWords splits a line at blanks, except for those between single quotes.
func shellWords(line string) []string {
	var words []string
	for i, part := range strings.Split(line, "'") {
		if i%2 == 0 {
			words = append(words, strings.Fields(part)...)
		} else {
			words = append(words, part)
		}
	}
	return words
}

func abs(t *testing.T, name string) string {
	t.Helper()
	name, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	return name
}
