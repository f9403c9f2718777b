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
	"strconv"
	"strings"
)

// supportedJava is the oldest Java that Google's current emulators support: the Google Cloud CLI's
// since its version 523, the Firebase CLI's since its version 15. Older ones run on Java 11.
const supportedJava = 21

// A javaRuntime is a Java on this machine.
type javaRuntime struct {
	path    string
	version int // 17 for Java 17; 8 for Java 8, which calls itself 1.8
}

// Find returns why no emulator can start on this machine: what is wrong with its Java, and what is
// wrong with its emulator. If both are nil, one can start, as far as Find can tell without trying.
func Find(ctx context.Context) (java, jar error) {
	path, jar := findJar(ctx)
	_, java = findJava(ctx, path)
	return java, jar
}

// Java returns the path of the Java by which [Start] runs the emulator of this machine.
func Java(ctx context.Context) (string, error) {
	_, java, err := programs(ctx, nil)
	return java.path, err
}

// Programs returns the paths of the jar that [Start] runs, and of the Javas that it tries, without
// running one. For a link it returns the path of the file to which it leads.
func Programs(ctx context.Context) (jar string, javas []string, err error) {
	jar, err = findJar(ctx)
	if err != nil {
		return "", nil, fmt.Errorf("emulator: %w", err)
	}

	for _, name := range javaNames() {
		java, err := exec.LookPath(name)
		if err != nil {
			continue // it is not there
		}
		java, err = filepath.EvalSymlinks(java)
		if err != nil {
			return "", nil, fmt.Errorf("emulator: %w", err)
		}
		javas = append(javas, java)
	}
	if len(javas) == 0 {
		return "", nil, errors.New("emulator: no Java")
	}
	return jar, javas, nil
}

// programs returns the emulator to run, and a Java that runs it. downloads fetches what the machine
// lacks. If that is nil, programs returns an error instead.
func programs(ctx context.Context, downloads *Downloads) (jar string, java javaRuntime, err error) {
	jar, err = findJar(ctx)
	absent := errors.Is(err, errNoJar)
	if err != nil && !absent {
		return "", javaRuntime{}, fmt.Errorf("emulator: %w", err)
	}

	// Java comes first. Without it, 137 MB of emulator are of no use.
	java, err = findJava(ctx, jar)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return "", javaRuntime{}, fmt.Errorf("emulator: %w", context.Cause(ctx))
	case downloads == nil:
		return "", javaRuntime{}, fmt.Errorf("emulator: no Java that runs it: %s\n%w", installJava(javaFor(jar)), err)
	default:
		java, err = downloads.java(ctx, javaFor(jar), tooOld(err))
		if err != nil {
			return "", javaRuntime{}, err
		}
	}

	if !absent {
		return jar, java, nil
	}
	if downloads == nil {
		return "", javaRuntime{}, fmt.Errorf("emulator: %w: %s", errNoJar, installEmulator)
	}
	jar, err = downloads.jar(ctx)
	return jar, java, err
}

// findJava returns the first Java on this machine that runs a jar: that of JAVA_HOME, the first one
// on PATH, or one that was downloaded. Without a jar, it must run the one that [Downloads] fetches.
// The error of findJava lists what was tried, and holds no remedy.
func findJava(ctx context.Context, jar string) (javaRuntime, error) {
	var tried []error
	for _, name := range javaNames() {
		java, err := askJava(ctx, name)
		if err == nil && java.version >= neededJava(jar) {
			return java, nil
		}
		if err == nil {
			err = oldJavaError{fmt.Errorf("%s needs Java %d, but %s is Java %d", nameOf(jar), neededJava(jar), java.path, java.version), java}
		}
		tried = append(tried, err)
	}
	return javaRuntime{}, errors.Join(tried...)
}

// An oldJavaError says that a Java is too old for a jar.
type oldJavaError struct {
	error
	java javaRuntime
}

// tooOld names the Java that findJava found and that was too old; "" if there is none.
func tooOld(err error) string {
	old, is := errors.AsType[oldJavaError](err)
	if !is {
		return ""
	}
	return fmt.Sprintf("%s is Java %d", old.java.path, old.java.version)
}

// javaNames returns the names of the Javas to try, in their order. They may be paths.
func javaNames() []string {
	var names []string
	if home := os.Getenv("JAVA_HOME"); home != "" {
		names = append(names, filepath.Join(home, "bin", "java"))
	}
	names = append(names, "java")

	dir, err := cacheDir()
	if err != nil { // without a directory nothing was downloaded
		return names
	}
	if downloaded := newestJava(dir); downloaded != "" {
		names = append(names, downloaded)
	}
	return names
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

// nameOf returns what messages call a jar, "" being the one that [Downloads] fetches.
func nameOf(jar string) string {
	if jar == "" {
		return "Google's Firestore emulator " + official.version
	}
	return jar
}

// javaFor returns the version of Java to install for a jar.
func javaFor(jar string) int { return max(neededJava(jar), supportedJava) }

// neededJava returns the version of Java that an emulator was built for, 0 if the jar cannot be
// read. Without a jar, it is that of the one that [Downloads] fetches.
func neededJava(jar string) int {
	if jar == "" {
		return supportedJava
	}

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

	// Java 11 introduced class files of the major version 55, and Java 21 those of 65.
	return int(binary.BigEndian.Uint16(header[6:])) - 44
}

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
