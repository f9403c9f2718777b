//go:build unix

package e2e

import (
	"archive/zip"
	"bytes"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	root "github.com/firestore-tally/tally"
	"github.com/firestore-tally/tally/internal/tool/deploy"
	"github.com/firestore-tally/tally/internal/tool/local/freeport"
)

const module = "github.com/firestore-tally/tally"

// What the program uploads builds as Google's Go buildpack builds it, and the binary rolls up.
func TestUploadBuildsAndRollsUp(t *testing.T) { // not in parallel: the build would slow the scenarios
	own, err := deploy.NewUpload(root.Source, "")
	if err != nil {
		t.Fatal(err)
	}
	folder := unpacked(t, own)
	binary := buildpack(t, folder, listed(t, own))
	w := newWorld(t, options{counters: 1, proxies: []func(*proxy){near}, binary: binary, env: []string{
		"FUNCTION_TARGET=RollUpOnWrite",
		"LOCAL_ONLY=true", // has the functions framework listen on the loopback address only
	}})
	c := w.counters[0]
	for _, amount := range []int64{1, 20, 300} {
		if err := c.increment(w.ctx, amount); err != nil {
			t.Fatal(err)
		}
	}
	w.settle()
	const want = 321
	rollUp := w.client.Doc("rollups/" + c.id)
	check := func(function string) {
		t.Helper()
		d, err := rollUp.Get(w.ctx)
		if err != nil {
			t.Fatalf("after %s: %v", function, err)
		}
		if got := d.Data()["count"]; got != int64(want) {
			t.Errorf("%s rolled up %v, want %d", function, got, want)
		}
	}
	check("RollUpOnWrite")

	if _, err := rollUp.Delete(w.ctx); err != nil {
		t.Fatal(err)
	}
	// The proxy does not pass on an audit's calls.
	p := &process{binary: binary, env: append(slices.Clone(w.processes[0].env), "FUNCTION_TARGET=RollUpOnSchedule", "FIRESTORE_EMULATOR_HOST="+w.addr)}
	p.start(w.ctx, t)
	t.Cleanup(p.kill)
	r, err := http.NewRequestWithContext(w.ctx, http.MethodPost, "http://"+net.JoinHostPort(freeport.Loopback, p.port), nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Fatalf("RollUpOnSchedule answered %s\n%s", res.Status, p.logs.tail())
	}
	check("RollUpOnSchedule")
}

// archived returns what is uploaded.
func archived(t *testing.T, upload *deploy.Upload) *zip.Reader {
	t.Helper()
	data, err := upload.Archive()
	if err != nil {
		t.Fatal(err)
	}
	again, err := upload.Archive()
	if err != nil || !bytes.Equal(data, again) {
		t.Errorf("the same files are another archive: %v", err)
	}
	archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	return archive
}

// listed returns the names of the files that are uploaded, in the archive's order.
func listed(t *testing.T, upload *deploy.Upload) []string {
	t.Helper()
	var files []string
	for _, f := range archived(t, upload).File {
		files = append(files, f.Name)
	}
	return files
}

// unpacked returns a folder that has what is uploaded.
func unpacked(t *testing.T, upload *deploy.Upload) string {
	t.Helper()
	folder := t.TempDir()
	if err := os.CopyFS(folder, archived(t, upload)); err != nil {
		t.Fatal(err)
	}
	return folder
}

// buildpack does what Google's Go buildpack does with files of a folder and returns the binary: it
// puts them into a folder of their own, adds a main package that imports the package at the root
// for what that registers, tidies the module and builds that main package
// (https://github.com/GoogleCloudPlatform/buildpacks, cmd/go/functions_framework and cmd/go/build).
func buildpack(t *testing.T, folder string, files []string) (binary string) {
	t.Helper()
	work := t.TempDir()
	source := filepath.Join(work, "serverless_function_source_code")
	copyFiles(t, folder, files, source)
	main := filepath.Join(source, "functions.local", "app")
	write(t, filepath.Join(main, "main.go"), []byte(`package main

import (
	"log"
	"os"

	"github.com/GoogleCloudPlatform/functions-framework-go/funcframework"
	_ "`+module+`"
)

func main() { log.Fatal(funcframework.Start(os.Getenv("PORT"))) }
`))
	run(t, source, nil, "go", "mod", "tidy")
	binary = filepath.Join(work, "main")
	run(t, source, nil, "go", "build", "-o", binary, main)
	return binary
}

// run runs a command in a folder, with further variables, and returns the lines that it prints.
func run(t *testing.T, dir string, env []string, name string, args ...string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	cmd.Env = append(cmd.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, &stderr)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// copyFiles copies files of a folder.
func copyFiles(t *testing.T, from string, names []string, into string) {
	t.Helper()
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(into, name), data)
	}
}

// write writes a file and makes its folder.
func write(t *testing.T, file string, data []byte) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(file), 0o700)
	if err == nil {
		err = os.WriteFile(file, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
