package emulator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/text/collate"
	"golang.org/x/text/language"
)

// pathVariable names a jar to use instead of any other. The Firebase CLI honors the same variable.
const pathVariable = "FIRESTORE_EMULATOR_BINARY_PATH"

// installEmulator is the remedy for a machine without an emulator.
const installEmulator = "install one with `gcloud components install cloud-firestore-emulator`, " +
	"`sudo apt-get install google-cloud-cli-firestore-emulator` or `firebase setup:emulators:firestore`, " +
	"or set " + pathVariable + " to the path of its jar"

// findJar returns the emulator to run: the one that pathVariable names, else the Google Cloud
// CLI's, else the newest that was downloaded. If there is none, it returns errNoJar.
func findJar(ctx context.Context) (string, error) {
	if path := os.Getenv(pathVariable); path != "" {
		_, err := os.Stat(path)
		if err != nil {
			return "", fmt.Errorf("%s is set: %w", pathVariable, err)
		}
		return path, nil
	}

	root := cloudSDK(ctx)
	if root != "" {
		jar := filepath.Join(root, "platform", "cloud-firestore-emulator", "cloud-firestore-emulator.jar")
		if isFile(jar) {
			return jar, nil
		}
	}

	dir, err := cacheDir()
	if err == nil { // without a directory nothing was downloaded
		jar := newest(filepath.Join(dir, "cloud-firestore-emulator-v*.jar"))
		if jar != "" {
			return jar, nil
		}
	}
	return "", errNoJar
}

var errNoJar = errors.New("no Firestore emulator on this machine")

// cloudSDK returns the root directory of the Google Cloud CLI, "" if it is not known.
func cloudSDK(ctx context.Context) string {
	if root := os.Getenv("CLOUDSDK_ROOT_DIR"); root != "" {
		return root
	}

	gcloud, err := exec.LookPath("gcloud")
	if err != nil {
		return ""
	}

	// Mostly gcloud is a link to bin/gcloud below the root. That is a script, which runs
	// lib/gcloud.py.
	file, err := filepath.EvalSymlinks(gcloud)
	if err == nil {
		root := filepath.Dir(filepath.Dir(file))
		if isFile(filepath.Join(root, "lib", "gcloud.py")) {
			return root
		}
	}

	// Some packages install a script or a launcher elsewhere. It tells the root if asked. If it
	// fails, the CLI has no emulator either.
	root, _, _ := run(ctx, gcloud, "info", "--format=value(installation.sdk_root)")
	return root
}

// cacheDir returns the directory in which [Downloads] and the Firebase CLI keep the emulators that
// they download. It is the same on every system. cacheDir fails if there is no home directory.
func cacheDir() (string, error) {
	if dir := os.Getenv("FIREBASE_EMULATORS_PATH"); dir != "" {
		return dir, nil
	}

	home, err := os.UserHomeDir()
	return filepath.Join(home, ".cache", "firebase", "emulators"), err
}

// newest returns the file of the highest version among those that match a pattern, "" if none does.
func newest(pattern string) string {
	files, _ := filepath.Glob(pattern) // the patterns are well-formed
	if len(files) == 0 {
		return ""
	}

	byVersion := collate.New(language.Und, collate.Numeric) // 1.9 comes before 1.20
	return slices.MaxFunc(files, byVersion.CompareString)
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// run runs a program that prints a fact and ends, and returns its output. That takes a second or
// two, and longer on a busy machine. After a minute run ends the program.
func run(ctx context.Context, name string, args ...string) (stdout, stderr string, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()

	var out, errs strings.Builder
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = time.Second // a killed script's children may keep the output open

	err = cmd.Run()
	return strings.TrimSpace(out.String()), strings.TrimSpace(errs.String()), err
}
