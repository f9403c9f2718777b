package googletest

import (
	"bufio"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/firestore-tally/tally/internal/local/emulator/emulatortest"
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
		t.Fatalf("%v\n%s", err, emulatortest.Missing())
	}
	return gcloud
}

// Gcloud returns a folder for PATH with an executable gcloud that runs the machine's own, without
// starting it each time. It ends with the process.
func Gcloud(t testing.TB) string {
	t.Helper()
	machines(t)
	dir, err := serveGcloud()
	if err != nil {
		t.Fatalf("%v\n%s", err, emulatortest.Missing())
	}
	return dir
}

// server is the process of serveGcloud. It lives as long as its standard input is open here.
var server *exec.Cmd

// serveGcloud starts the server of gcloud.py, which ends, and removes its folder, when its standard
// input does.
var serveGcloud = sync.OnceValues(func() (string, error) {
	const facts = "basic.python_location,installation.sdk_root,installation.components.alpha,installation.components.beta"
	out, err := exec.Command("gcloud", "info", "--format=value("+facts+")").Output()
	if err != nil {
		return "", fmt.Errorf("gcloud info: %w", err)
	}
	values := strings.Split(strings.TrimSuffix(string(out), "\n"), "\t")
	if slices.Contains(values, "") {
		return "", fmt.Errorf("gcloud lacks its components alpha and beta: %s are %q", facts, values)
	}
	python, root := values[0], values[1]
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
