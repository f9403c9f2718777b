// Package needs lists the programs that the tests run in addition to Go and that this machine
// lacks. The list has all of them at once, and says how to install each. A Go test that misses a
// program fails with the list.
package needs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A tool is something that tests run.
type tool struct {
	name   string
	apt    string // package of Debian and Ubuntu; "": they have none
	brew   string // package of Homebrew; "": it has none
	how    string // how it is installed otherwise
	absent error  // why it cannot be used; nil: it can
}

// An Emulator finds out why no Firestore emulator can start on this machine: what is wrong with its
// Java, and with its emulator. Callers pass emulator.Find. This package cannot import it, because
// the tests of package emulator use this package too.
type Emulator func(context.Context) (java, jar error)

// Missing returns the list, as text of several lines: what go test ./... lacks on this machine, and
// what .ci/run and .ci/nightly lack beyond that. It returns "" if go test ./... lacks nothing. If
// all is true, these must lack nothing either. It takes a second or two, because it asks some tools
// for their version.
func Missing(ctx context.Context, find Emulator, all bool) string {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()

	java, jar := find(ctx)
	tests := absent(
		tool{"Java 21", "openjdk-21-jdk-headless", "openjdk@21", "https://adoptium.net; set JAVA_HOME if it is not on PATH", java},
		tool{"Firestore emulator", "", "", "go run ./cmd/tally demo downloads it, once", jar},
		tool{"Google Cloud CLI", "", "", "https://cloud.google.com/sdk/docs/install, with gcloud components install alpha beta", gcloud(ctx)},
	)
	more := absent(
		tool{"Pub/Sub emulator", "", "", "gcloud components install pubsub-emulator, or Google's package google-cloud-cli-pubsub-emulator", pubsub(ctx)},
		tool{"Java Development Kit", "openjdk-21-jdk-headless", "openjdk@21", "https://adoptium.net", runs(ctx, "javac", "-version")},
		tool{"Node.js 20", "nodejs", "node", "https://nodejs.org", node(ctx)},
		tool{"npm", "npm", "node", "https://nodejs.org", onPath("npm")},
		tool{"Chromium", "chromium", "", "https://www.chromium.org; set CHROMIUM to its path, or to that of Chrome", onPath(chromium())},
		tool{"Maven", "maven", "maven", "https://maven.apache.org", onPath("mvn")},
		tool{"Python 3 with venv", "python3-venv", "python", "https://www.python.org", runs(ctx, "python3", "-c", "import ensurepip, venv")},
	)

	nothing := len(tests) == 0 && (!all || len(more) == 0)
	if nothing {
		return ""
	}
	return describe(tests, more)
}

// absent returns the tools that cannot be used.
func absent(tools ...tool) []tool {
	return slices.DeleteFunc(tools, func(t tool) bool { return t.absent == nil })
}

// describe returns the list.
func describe(tests, more []tool) string {
	var b strings.Builder
	list(&b, "go test ./... runs more than Go, and this machine lacks:", tests)
	list(&b, ".ci/run and .ci/nightly, for what they run beyond that, also lack:", more)

	all := slices.Concat(tests, more)
	b.WriteString("To install them:\n")
	install(&b, "Debian, Ubuntu", "sudo apt-get install", all, func(t tool) string { return t.apt })
	install(&b, "macOS", "brew install", all, func(t tool) string { return t.brew })
	for _, t := range all {
		fmt.Fprintf(&b, "  %-22s%s\n", t.name, t.how)
	}
	b.WriteString("go test -short ./... needs Go alone.\n")
	return b.String()
}

// list writes a title and why each tool cannot be used; nothing without tools.
func list(b *strings.Builder, title string, tools []tool) {
	if len(tools) == 0 {
		return
	}

	fmt.Fprintf(b, "%s\n", title)
	for _, t := range tools {
		reason, _, _ := strings.Cut(t.absent.Error(), "\n")
		fmt.Fprintf(b, "  %-22s%s\n", t.name, reason)
	}
}

// install writes the command that installs the packages of the tools on a system; nothing if the
// system has none.
func install(b *strings.Builder, system, command string, tools []tool, packageOf func(tool) string) {
	var packages []string
	for _, t := range tools {
		p := packageOf(t)
		if p != "" && !slices.Contains(packages, p) {
			packages = append(packages, p)
		}
	}

	if len(packages) > 0 {
		fmt.Fprintf(b, "  %-22s%s %s\n", system, command, strings.Join(packages, " "))
	}
}

// gcloud returns an error unless the Google Cloud CLI runs and has the components whose commands
// tally deploy uses.
func gcloud(ctx context.Context) error {
	out, err := output(ctx, "gcloud", "version", "--format=value(alpha,beta)")
	if err != nil {
		return err
	}
	if len(strings.Fields(out)) < 2 {
		return errors.New("gcloud lacks its components alpha and beta")
	}
	return nil
}

// pubsub returns an error unless the Google Cloud CLI has its Pub/Sub emulator, which .ci/nightly
// uses.
func pubsub(ctx context.Context) error {
	out, err := output(ctx, "gcloud", "version", "--format=value(pubsub-emulator)")
	if err == nil && out == "" {
		err = errors.New("gcloud lacks its component pubsub-emulator")
	}
	return err
}

// chromium returns the program that the tests start as a browser, as clients/web/e2e/chromium.mjs
// chooses it.
func chromium() string {
	if named := os.Getenv("CHROMIUM"); named != "" {
		return named
	}

	for _, usual := range []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"} {
		path := "/usr/bin/" + usual
		if onPath(path) == nil {
			return path
		}
	}
	return "chromium"
}

// node returns an error unless Node.js runs and is new enough.
func node(ctx context.Context) error {
	const oldest = 20
	out, err := output(ctx, "node", "--version")
	if err != nil {
		return err
	}

	major, _, _ := strings.Cut(strings.TrimPrefix(out, "v"), ".")
	n, err := strconv.Atoi(major)
	if err != nil || n < oldest {
		return fmt.Errorf("node is %s, want v%d or newer", out, oldest)
	}
	return nil
}

// onPath returns an error unless the program is on PATH.
func onPath(name string) error {
	_, err := exec.LookPath(name)
	return err
}

// runs returns an error unless the program runs and ends well. The java and javac of a macOS
// without Java exist, and fail.
func runs(ctx context.Context, name string, args ...string) error {
	_, err := output(ctx, name, args...)
	return err
}

// output returns what a program prints. It is for programs that print a fact and end.
func output(ctx context.Context, name string, args ...string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, path, args...).Output()
	if err != nil {
		return "", fmt.Errorf("%s does not run: %w", path, err)
	}
	return strings.TrimSpace(string(out)), nil
}
