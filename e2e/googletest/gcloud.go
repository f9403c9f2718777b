package googletest

import (
	"bufio"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
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
// starting it each time. It ends with the process.
func Gcloud(t testing.TB) string {
	t.Helper()
	machines(t)
	dir, err := serveGcloud()
	check(t, err)
	return dir
}

// server is the process of serveGcloud. It lives as long as its standard input is open here.
var server *exec.Cmd

// serveGcloud starts the server of gcloud.py, which ends, and removes its folder, when its standard
// input does.
var serveGcloud = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("gcloud", "info", "--format=value(basic.python_location,installation.sdk_root)").Output()
	python, root, ok := strings.Cut(strings.TrimSpace(string(out)), "\t")
	if err != nil || !ok {
		return "", fmt.Errorf("gcloud info: %w: %q", err, out)
	}
	dir, err := os.MkdirTemp("", "gcloud") // a socket's name must be short
	if err != nil {
		return "", err
	}
	script := filepath.Join(dir, "gcloud")
	if err := os.WriteFile(script, []byte("#!"+python+" -IS\n"+gcloudPy), 0o700); err != nil {
		return "", err
	}
	server = exec.Command(python, script, "serve", root)
	server.Stderr = os.Stderr
	server.Env = append(os.Environ(), "CLOUDSDK_CONFIG="+dir)
	if _, err := server.StdinPipe(); err != nil {
		return "", err
	}
	stdout, err := server.StdoutPipe()
	if err == nil {
		err = server.Start()
	}
	if err == nil {
		_, err = bufio.NewReader(stdout).ReadString('\n') // it is ready
	}
	return dir, err
})

// check ends the test if there is an error.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
