package googletest

import (
	"bufio"
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

//go:embed gcloud.py
var gcloudPy string

// machines returns the machine's own gcloud. Short tests, which need no gcloud, end here.
func machines(t testing.TB) string {
	t.Helper()
	if testing.Short() {
		t.Skip("needs gcloud")
	}
	gcloud, err := exec.LookPath("gcloud")
	if err != nil {
		t.Fatalf("%v: install the Google Cloud CLI, https://cloud.google.com/sdk/docs/install", err)
	}
	return gcloud
}

// Gcloud returns a folder for PATH with an executable gcloud that runs the machine's own, without
// starting it each time. It ends with the test.
func Gcloud(t testing.TB) string {
	t.Helper()
	gcloud := machines(t)
	out, err := exec.Command(gcloud, "info", "--format=value(basic.python_location,installation.sdk_root)").Output()
	python, root, ok := strings.Cut(strings.TrimSpace(string(out)), "\t")
	if err != nil || !ok {
		t.Fatalf("gcloud info: %v: %q", err, out)
	}
	dir, err := os.MkdirTemp("", "gcloud") // a socket's name must be short
	check(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	script := filepath.Join(dir, "gcloud")
	check(t, os.WriteFile(script, []byte("#!"+python+" -IS\n"+gcloudPy), 0o700))
	cmd := exec.Command(python, script, "serve", root)
	cmd.Stderr = os.Stderr
	cmd.Env = append(os.Environ(), "CLOUDSDK_CONFIG="+dir)
	stdin, err := cmd.StdinPipe()
	check(t, err)
	stdout, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	})
	_, err = bufio.NewReader(stdout).ReadString('\n') // it is ready
	check(t, err)
	return dir
}

// check ends the test if there is an error.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
