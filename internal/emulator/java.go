package emulator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// ErrNoJava says that there is no Java on the machine, neither below JAVA_HOME nor on PATH.
var ErrNoJava = errors.New("emulator: no Java")

// supportedJava is the oldest Java that Google's current emulators support: the Google Cloud CLI's since its version 523,
// the Firebase CLI's since its version 15. Emulators older than that run on Java 11.
const supportedJava = 21

// toolTimeout bounds the run of a program that only prints a fact. Java takes some 30 ms to tell its version, gcloud one
// or two seconds to tell its root; a minute is a program that hangs, even on a busy machine.
const toolTimeout = time.Minute

// A javaRuntime is a Java on this machine.
type javaRuntime struct {
	path    string
	version int // 17 for Java 17, 8 for what calls itself 1.8
}

// findJava returns the Java of JAVA_HOME or else the first one on PATH, if it runs. The error wraps ErrNoJava.
func findJava(ctx context.Context) (javaRuntime, error) {
	names := []string{"java"}
	if home := os.Getenv("JAVA_HOME"); home != "" {
		names = []string{filepath.Join(home, "bin", "java"), "java"}
	}
	var tried []error
	for _, name := range names {
		path, err := exec.LookPath(name)
		if err != nil {
			tried = append(tried, err)
			continue
		}
		version, err := javaVersion(ctx, path)
		if ctx.Err() != nil {
			return javaRuntime{}, fmt.Errorf("emulator: %w", context.Cause(ctx))
		}
		if err != nil {
			tried = append(tried, err)
			continue
		}
		return javaRuntime{path, version}, nil
	}
	return javaRuntime{}, fmt.Errorf("%w: %s\n%w", ErrNoJava, installJava(supportedJava), errors.Join(tried...))
}

var versionLine = regexp.MustCompile(`version "(?:1\.)?(\d+)`)

// javaVersion asks a Java for its version. The java of a macOS without Java exists, but fails.
func javaVersion(ctx context.Context, path string) (int, error) {
	_, out, err := runTool(ctx, path, "-version") // which Java prints as an error
	if err != nil {
		return 0, fmt.Errorf("%s -version: %w\n%s", path, err, strings.TrimSpace(out))
	}
	m := versionLine.FindStringSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("%s -version names no version: %q", path, out)
	}
	return strconv.Atoi(m[1])
}

// installJava is the remedy for a Java that is missing or too old.
func installJava(version int) string {
	return fmt.Sprintf("install Java %d or newer (Debian, Ubuntu: sudo apt-get install openjdk-%[1]d-jre-headless; "+
		"macOS: brew install openjdk@%[1]d; or https://adoptium.net), and set JAVA_HOME if it is not on PATH", version)
}

// runTool runs a program and returns what it prints.
func runTool(ctx context.Context, name string, args ...string) (stdout, stderr string, err error) {
	ctx, cancel := context.WithTimeout(ctx, toolTimeout)
	defer cancel()
	var out, errs strings.Builder
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = time.Second // for a killed script whose own children keep the output open
	err = cmd.Run()
	return out.String(), errs.String(), err
}
