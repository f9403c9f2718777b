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

	"github.com/firestore-tally/tally/internal/test/emulatortest"
)

//go:embed gcloud.py
var gcloudPy string

// ownGcloud returns the path of the machine's own gcloud. It skips the test under -short.
func ownGcloud(t testing.TB) string {
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

// Gcloud returns a folder for PATH, in which gcloud is a program that has a server run the
// machine's own gcloud. Starting gcloud takes most of a command's time; the server starts it once.
// The folder is there as long as this process.
func Gcloud(t testing.TB) string {
	t.Helper()
	ownGcloud(t)
	dir, err := serveGcloud()
	if err != nil {
		t.Fatalf("%v\n%s", err, emulatortest.Missing())
	}
	return dir
}

// server is the process that serveGcloud starts. It ends when its standard input is closed. A
// variable of the package holds it, so that this stays open as long as the tests run.
var server *exec.Cmd

// serveGcloud writes gcloud.py to a new folder, starts its server, and returns the folder. The
// server removes the folder when it ends.
var serveGcloud = sync.OnceValues(func() (string, error) {
	python, root, err := askGcloud()
	if err != nil {
		return "", err
	}

	dir, err := os.MkdirTemp("", "gcloud") // a socket's name must be short
	if err != nil {
		return "", err
	}
	script := filepath.Join(dir, "gcloud")
	err = os.WriteFile(script, []byte("#!"+python+" -IS\n"+gcloudPy), 0o700)
	if err != nil {
		return "", err
	}

	server = exec.Command(python, script, "serve", root)
	server.Stderr = os.Stderr
	server.Env = append(os.Environ(), "CLOUDSDK_CONFIG="+dir)
	_, err = server.StdinPipe()
	if err != nil {
		return "", err
	}
	stdout, err := server.StdoutPipe()
	if err != nil {
		return "", err
	}
	err = server.Start()
	if err != nil {
		return "", err
	}

	_, err = bufio.NewReader(stdout).ReadString('\n') // a line when it is ready
	return dir, err
})

// askGcloud returns the Python that runs the machine's gcloud, and gcloud's root directory.
func askGcloud() (python, root string, err error) {
	const facts = "basic.python_location,installation.sdk_root,installation.components.alpha,installation.components.beta"
	out, err := exec.Command("gcloud", "info", "--format=value("+facts+")").Output()
	if err != nil {
		return "", "", fmt.Errorf("gcloud info: %w", err)
	}

	values := strings.Split(strings.TrimSuffix(string(out), "\n"), "\t")
	if slices.Contains(values, "") {
		return "", "", fmt.Errorf("gcloud lacks its components alpha and beta: %s are %q", facts, values)
	}
	return values[0], values[1], nil
}

// check ends the test if there is an error.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
