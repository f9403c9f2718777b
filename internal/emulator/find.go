package emulator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// ErrNotFound says that there is no emulator on the machine, in any of the places where one is installed.
var ErrNotFound = errors.New("emulator: no Firestore emulator on this machine")

// pathVariable names a jar to use instead of any other. The Firebase CLI honours the same variable.
const pathVariable = "FIRESTORE_EMULATOR_BINARY_PATH"

// installEmulator is the remedy for a machine without an emulator.
const installEmulator = "install one with `gcloud components install cloud-firestore-emulator`, " +
	"`sudo apt-get install google-cloud-cli-firestore-emulator` or `firebase setup:emulators:firestore`, " +
	"or set " + pathVariable + " to the path of its jar"

// findJar returns the first emulator on the machine that java can run. It calls fetch, if not nil, when there is none at all.
func findJar(ctx context.Context, java javaRuntime, fetch func(context.Context) (string, error)) (jarFile, error) {
	paths, err := installedJars(ctx)
	if err != nil {
		return jarFile{}, err
	}
	if len(paths) == 0 {
		if fetch == nil {
			return jarFile{}, fmt.Errorf("%w: %s", ErrNotFound, installEmulator)
		}
		path, err := fetch(ctx)
		if err != nil {
			return jarFile{}, err
		}
		paths = []string{path}
	}
	return chooseJar(paths, java)
}

// chooseJar returns the first of the jars that java can run. If there is none, the error is about the first jar.
func chooseJar(paths []string, java javaRuntime) (jarFile, error) {
	var first error
	for _, path := range paths {
		jar, err := openJar(path)
		if err == nil && jar.java > java.version {
			err = fmt.Errorf("emulator: %s needs Java %d, but %s is Java %d: %s",
				path, jar.java, java.path, java.version, installJava(jar.java))
		}
		if err == nil {
			return jar, nil
		}
		if first == nil {
			first = err
		}
	}
	return jarFile{}, first
}

// installedJars returns the emulators on this machine, the preferred ones first: the one that pathVariable names and no
// other; or the Google Cloud CLI's, those in the Firebase CLI's cache and those in our own, the newest first in each cache.
func installedJars(ctx context.Context) ([]string, error) {
	if path := os.Getenv(pathVariable); path != "" {
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("emulator: %s is set: %w", pathVariable, err)
		}
		return []string{path}, nil
	}
	var jars []string
	if root := cloudSDK(ctx); root != "" {
		jar := filepath.Join(root, "platform", "cloud-firestore-emulator", "cloud-firestore-emulator.jar")
		if isFile(jar) {
			jars = append(jars, jar)
		}
	}
	for _, dir := range []func() (string, error){firebaseCache, ownCache} {
		if dir, err := dir(); err == nil { // or else there is no home directory, and nothing below it
			jars = append(jars, cachedJars(dir)...)
		}
	}
	return jars, nil
}

// cloudSDK returns the root directory of the Google Cloud CLI, "" if there is none.
func cloudSDK(ctx context.Context) string {
	if root := os.Getenv("CLOUDSDK_ROOT_DIR"); root != "" {
		return root
	}
	gcloud, err := exec.LookPath("gcloud")
	if err != nil {
		return ""
	}
	// Mostly gcloud is a link to bin/gcloud below the root, whose script runs lib/gcloud.py.
	if file, err := filepath.EvalSymlinks(gcloud); err == nil {
		if root := filepath.Dir(filepath.Dir(file)); isFile(filepath.Join(root, "lib", "gcloud.py")) {
			return root
		}
	}
	// Some packages install a script or a launcher instead. Asking costs a second or two.
	root, _, err := runTool(ctx, gcloud, "info", "--format=value(installation.sdk_root)")
	if err != nil {
		return "" // a gcloud that does not run has no emulator to offer
	}
	return strings.TrimSpace(root)
}

// firebaseCache returns the directory where the Firebase CLI keeps the emulators that it downloads, on every system.
func firebaseCache() (string, error) {
	if dir := os.Getenv("FIREBASE_EMULATORS_PATH"); dir != "" {
		return dir, nil
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, ".cache", "firebase", "emulators"), err
}

// ownCache returns the directory where Download keeps emulators.
func ownCache() (string, error) {
	dir, err := os.UserCacheDir()
	return filepath.Join(dir, "tally", "emulator"), err
}

// jarName is how a cache names an emulator: the Firebase CLI's habit, and ours.
var jarName = regexp.MustCompile(`^cloud-firestore-emulator-v(\d+)\.(\d+)\.(\d+)\.jar$`)

// cachedJars returns the emulators in a cache directory, the newest first.
func cachedJars(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // mostly there is no such cache; one that cannot be read has nothing to offer either
	}
	type jar struct {
		path    string
		version [3]int
	}
	var jars []jar
	for _, entry := range entries {
		m := jarName.FindStringSubmatch(entry.Name())
		if m == nil {
			continue
		}
		j := jar{path: filepath.Join(dir, entry.Name())}
		for i, digits := range m[1:] {
			j.version[i], _ = strconv.Atoi(digits) // digits only; one too large for an int counts as the largest
		}
		jars = append(jars, j)
	}
	slices.SortFunc(jars, func(a, b jar) int { return -slices.Compare(a.version[:], b.version[:]) })
	paths := make([]string, len(jars))
	for i, j := range jars {
		paths[i] = j.path
	}
	return paths
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
