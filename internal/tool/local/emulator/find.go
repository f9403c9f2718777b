package emulator

import (
	"archive/zip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/text/collate"
	"golang.org/x/text/language"
)

// pathVariable names a jar to use instead of any other. The Firebase CLI honours the same variable.
const pathVariable = "FIRESTORE_EMULATOR_BINARY_PATH"

// installEmulator is the remedy for a machine without an emulator.
const installEmulator = "install one with `gcloud components install cloud-firestore-emulator`, " +
	"`sudo apt-get install google-cloud-cli-firestore-emulator` or `firebase setup:emulators:firestore`, " +
	"or set " + pathVariable + " to the path of its jar"

// findJar returns the emulator to run: the one that pathVariable names, else the Google Cloud
// CLI's, else the newest that was downloaded. If there is none, it calls fetch. If fetch is nil, it
// returns errNoJar with the remedy.
func findJar(ctx context.Context, fetch func(context.Context) (string, error)) (string, error) {
	if path := os.Getenv(pathVariable); path != "" {
		_, err := os.Stat(path)
		if err != nil {
			return "", fmt.Errorf("emulator: %s is set: %w", pathVariable, err)
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
		jar := newestJar(dir)
		if jar != "" {
			return jar, nil
		}
	}

	if fetch == nil {
		return "", fmt.Errorf("emulator: %w: %s", errNoJar, installEmulator)
	}
	return fetch(ctx)
}

var errNoJar = errors.New("no Firestore emulator on this machine")

// Find returns why no emulator can start on this machine: what is wrong with its Java, and what is
// wrong with its emulator. If both are nil, one can start, as far as Find can tell without trying.
func Find(ctx context.Context) (java, jar error) {
	runtime, java := lookForJava(ctx)
	path, jar := findJar(ctx, nil)
	if errors.Is(jar, errNoJar) {
		jar = errNoJar // without the remedy
	}
	if java != nil || jar != nil {
		return java, jar
	}

	needed := neededJava(path)
	if needed > runtime.version {
		java = fmt.Errorf("%s needs Java %d, but %s is Java %d", path, needed, runtime.path, runtime.version)
	}
	return java, nil
}

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

// cacheDir returns the directory in which [Download] and the Firebase CLI keep the emulators that
// they download. It is the same on every system. cacheDir fails if there is no home directory.
func cacheDir() (string, error) {
	if dir := os.Getenv("FIREBASE_EMULATORS_PATH"); dir != "" {
		return dir, nil
	}

	home, err := os.UserHomeDir()
	return filepath.Join(home, ".cache", "firebase", "emulators"), err
}

// newestJar returns the newest of the Firebase CLI's emulators in a directory, "" if there is none.
func newestJar(dir string) string {
	jars, _ := filepath.Glob(filepath.Join(dir, "cloud-firestore-emulator-v*.jar"))
	if len(jars) == 0 {
		return ""
	}

	byVersion := collate.New(language.Und, collate.Numeric) // 1.9 comes before 1.20
	return slices.MaxFunc(jars, byVersion.CompareString)
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// supportedJava is the oldest Java that Google's current emulators support: the Google Cloud CLI's
// since its version 523, the Firebase CLI's since its version 15. Older ones run on Java 11.
const supportedJava = 21

// A javaRuntime is a Java on this machine.
type javaRuntime struct {
	path    string
	version int // 17 for Java 17; 8 for Java 8, which calls itself 1.8
}

// CheckJava returns nil if this machine has a Java that runs. Its error says how to get one.
func CheckJava(ctx context.Context) error {
	_, err := findJava(ctx)
	return err
}

// findJava returns the Java of JAVA_HOME or else the first one on PATH, if it runs.
func findJava(ctx context.Context) (javaRuntime, error) {
	java, err := lookForJava(ctx)
	if err == nil {
		return java, nil
	}
	if ctx.Err() != nil {
		return javaRuntime{}, fmt.Errorf("emulator: %w", context.Cause(ctx))
	}
	return javaRuntime{}, fmt.Errorf("emulator: no Java: %s\n%w", installJava(supportedJava), err)
}

// lookForJava does the work of findJava. Its error lists what was tried, and holds no remedy.
func lookForJava(ctx context.Context) (javaRuntime, error) {
	names := []string{"java"}
	if home := os.Getenv("JAVA_HOME"); home != "" {
		names = []string{filepath.Join(home, "bin", "java"), "java"}
	}

	var tried []error
	for _, name := range names {
		java, err := askJava(ctx, name)
		if err == nil {
			return java, nil
		}
		tried = append(tried, err)
	}
	return javaRuntime{}, errors.Join(tried...)
}

// askJava returns the Java of a name, which may be a path, if it runs.
func askJava(ctx context.Context, name string) (javaRuntime, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return javaRuntime{}, err
	}

	version, err := javaVersion(ctx, path)
	if err != nil {
		return javaRuntime{}, err
	}
	return javaRuntime{path, version}, nil
}

// neededJava returns the version of Java that the emulator was built for, 0 if the jar cannot be
// read.
func neededJava(jar string) int {
	z, err := zip.OpenReader(jar)
	if err != nil {
		return 0
	}
	defer z.Close()

	class, err := z.Open(strings.ReplaceAll(mainClass, ".", "/") + ".class")
	if err != nil {
		return 0
	}
	defer class.Close()

	header := make([]byte, 8) // four bytes of magic, the minor version, the major one
	_, err = io.ReadFull(class, header)
	if err != nil {
		return 0
	}
	return javaOf(int(binary.BigEndian.Uint16(header[6:])))
}

// javaOf returns the version of Java that introduced a major version of class files: 11 for 55, and
// 21 for 65.
func javaOf(major int) int { return major - 44 }

var versionLine = regexp.MustCompile(`version "(?:1\.)?(\d+)`)

// javaVersion asks a Java for its version. The java of a macOS without Java exists, but fails.
func javaVersion(ctx context.Context, path string) (int, error) {
	_, out, err := run(ctx, path, "-version") // Java prints it to the standard error
	if err != nil {
		return 0, fmt.Errorf("%s -version: %w\n%s", path, err, out)
	}

	m := versionLine.FindStringSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("%s -version names no version: %q", path, out)
	}
	return strconv.Atoi(m[1])
}

// installJava is the remedy for a Java that is missing or too old.
func installJava(version int) string {
	return fmt.Sprintf("install Java %d or newer (Ubuntu, Debian from 13 on: sudo apt-get install openjdk-%[1]d-jre-headless; "+
		"macOS: brew install openjdk@%[1]d; Debian 12 and others: https://adoptium.net), and set JAVA_HOME if it is not on PATH", version)
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
