package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Where the web client and its example page are, in a clone.
const (
	webClient = "clients/web"
	builtPage = webClient + "/example/dist"

	// lastBuilt is what "npm run example" writes last: while it is not there, the page is not whole.
	lastBuilt = builtPage + "/index.html"

	// lastInstalled is written when "npm ci" has ended well, and goes with node_modules. npm's own record
	// of an installation is there before the installation is whole.
	lastInstalled = webClient + "/node_modules/.tally-installed"
)

// oldestNode is the oldest Node.js that the page is built with in the tests.
const oldestNode = 20

const installNode = "install the LTS release of Node.js, which brings npm (https://nodejs.org; macOS: brew install node; Windows: winget install OpenJS.NodeJS.LTS)"

// pageIsBuilt reports whether the example page is built of the sources as they are.
func pageIsBuilt() (bool, error) {
	return upToDate(lastBuilt, "package.json", "package-lock.json", "src", "example")
}

// upToDate reports whether made exists and none of the web client's sources, files or folders, was
// written after it.
func upToDate(made string, sources ...string) (bool, error) {
	info, err := os.Stat(made)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for _, source := range sources {
		err := filepath.WalkDir(filepath.Join(webClient, source), func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case !entry.IsDir():
				return notAfter(entry, info.ModTime())
			case filepath.ToSlash(path) == builtPage:
				return fs.SkipDir
			}
			return nil
		})
		if errors.Is(err, errNewer) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

var errNewer = errors.New("written later")

// notAfter returns errNewer if the file was written after t.
func notAfter(entry fs.DirEntry, t time.Time) error {
	info, err := entry.Info()
	if err == nil && info.ModTime().After(t) {
		err = errNewer
	}
	return err
}

// checkNode returns an error with the remedy unless Node.js and npm are here to build the page.
func checkNode(ctx context.Context) error {
	node, err := exec.LookPath("node")
	if err != nil {
		return fmt.Errorf("no Node.js: %w; %s", err, installNode)
	}
	out, err := exec.CommandContext(ctx, node, "--version").Output()
	if err != nil {
		return fmt.Errorf("%s --version: %w; %s", node, err, installNode)
	}
	m := regexp.MustCompile(`^v(\d+)\.`).FindSubmatch(out)
	if m == nil {
		return fmt.Errorf("%s --version says %q; %s", node, bytes.TrimSpace(out), installNode)
	}
	if major, err := strconv.Atoi(string(m[1])); err != nil || major < oldestNode {
		return fmt.Errorf("%s is Node.js %s; %s", node, bytes.TrimSpace(out), installNode)
	}
	if _, err := exec.LookPath("npm"); err != nil {
		return fmt.Errorf("no npm: %w; %s", err, installNode)
	}
	return nil
}

// buildPage installs what the web client's build needs, if that is not there yet, and builds the
// example page. When ctx ends, npm ends at once, and what it has not finished is done anew next time.
func buildPage(ctx context.Context, logs io.Writer) error {
	current, err := upToDate(lastInstalled, "package.json", "package-lock.json")
	if err != nil {
		return err
	}
	if !current {
		fmt.Fprintln(logs, "tally: installing what the web client's build needs (npm ci), once")
		if err := os.Remove(lastInstalled); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := npm(ctx, "ci", "--include=dev"); err != nil { // NODE_ENV=production would leave those out
			return err
		}
		if err := os.WriteFile(lastInstalled, nil, 0o666); err != nil {
			return err
		}
	}
	fmt.Fprintln(logs, "tally: building the example page (npm run example)")
	if err := npm(ctx, "run", "example"); err != nil {
		return err
	}
	_, err = os.Stat(lastBuilt)
	return err
}

// npm runs npm in the web client's folder. Its output is shown only if it fails.
func npm(ctx context.Context, args ...string) error {
	c := exec.CommandContext(ctx, "npm", args...)
	c.Dir = webClient
	var output bytes.Buffer
	c.Stdout, c.Stderr = &output, &output
	endWithChildren(c)
	c.WaitDelay = time.Second // for output that a child keeps open
	err := c.Run()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		const shown = 15 // npm's own error and the end of what it ran
		lines := strings.Split(strings.TrimSpace(output.String()), "\n")
		return fmt.Errorf("npm %s in %s: %w; its last lines:\n%s", strings.Join(args, " "), webClient, err, strings.Join(lines[max(0, len(lines)-shown):], "\n"))
	}
	return nil
}
