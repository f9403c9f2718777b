//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/emulator/emulatortest"
	"github.com/google/go-cmp/cmp"
)

// A clone is a folder with what tally dev --web looks for, on a machine whose node and npm are
// scripts: npm writes its calls down and does what the file of the first argument's name says.
type clone struct {
	t             *testing.T
	dir, bin, npm string
	env           []string
}

func newClone(t *testing.T) *clone {
	t.Helper()
	c := &clone{t: t, dir: t.TempDir(), bin: t.TempDir()}
	c.npm = filepath.Join(c.bin, "calls")
	c.env = []string{"PATH=" + c.bin + ":" + os.Getenv("PATH")}
	c.write("firestore.rules", "rules_version = '2'; service cloud.firestore {}")
	for _, source := range []string{"package.json", "package-lock.json", "src/index.ts", "example/page.html"} {
		c.write(filepath.Join(webClient, source), "source")
	}
	c.script("node", "echo v20.1.0")
	c.script("npm", `echo "$@" >>"$0/../calls"; . "$0/../npm-$1"`)
	c.script("npm-ci", "rm -rf node_modules && mkdir node_modules")
	c.script("npm-run", "mkdir -p example/dist && echo built >example/dist/index.html")
	return c
}

func (c *clone) write(name, text string) {
	c.t.Helper()
	path := filepath.Join(c.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		c.t.Fatal(err)
	}
}

// script makes one of the machine's programs.
func (c *clone) script(name, text string) {
	c.t.Helper()
	text = strings.ReplaceAll(text, "$0/..", c.bin)
	if err := os.WriteFile(filepath.Join(c.bin, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
		c.t.Fatal(err)
	}
}

// change makes a source newer than all that was built.
func (c *clone) change(source string) {
	c.t.Helper()
	path := filepath.Join(c.dir, webClient, source)
	built, err := os.Stat(filepath.Join(c.dir, lastBuilt))
	if err == nil {
		later := built.ModTime().Add(time.Millisecond)
		err = os.Chtimes(path, later, later)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// wantCalls wants npm to have been called with these arguments since the last time.
func (c *clone) wantCalls(want ...string) {
	c.t.Helper()
	text, err := os.ReadFile(c.npm)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		c.t.Fatal(err)
	}
	_ = os.Remove(c.npm)
	if d := cmp.Diff(want, strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })); d != "" && len(want)+len(text) > 0 {
		c.t.Errorf("calls of npm (-want +got):\n%s", d)
	}
}

// dev returns tally dev --web in the clone, on the tests' emulator.
func (c *clone) dev(project string, args ...string) (command *command, page string) {
	c.t.Helper()
	ports := freePorts(c.t, 2)
	command = tally(c.t, append([]string{"dev", "--web", "--project", project, "--instances", "1", "--functions-port", strconv.Itoa(ports), "--web-port", strconv.Itoa(ports + 1)}, args...)...)
	command.Dir = c.dir
	command.Env = append(append(command.Env, "FIRESTORE_EMULATOR_HOST="+emulatortest.Addr()), c.env...)
	return command, fmt.Sprintf("http://127.0.0.1:%d", ports+1)
}

// run runs tally dev --web until it says that it runs and f has returned.
func (c *clone) run(project string, f func(page string)) {
	c.t.Helper()
	command, page := c.dev(project)
	out := command.follow(c.t)
	out.await("  web page    " + page + "\n")
	f(page)
	if err := command.Process.Signal(os.Interrupt); err != nil {
		c.t.Fatal(err)
	}
	out.awaitExit(0)
	if _, err := net.Dial("tcp", strings.TrimPrefix(page, "http://")); err == nil {
		c.t.Error("the page's port is still open")
	}
}

func get(t *testing.T, url string) (body string, header http.Header) {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", url, res.Status, err)
	}
	return string(text), res.Header
}

func TestDevWeb(t *testing.T) {
	c := newClone(t)
	project := emulatortest.Project(t)
	client := emulatortest.ClientDatabase(t, project, firestore.DefaultDatabaseID)
	likes := client.Doc("counters/example-likes")
	c.run(project, func(page string) {
		body, header := get(t, page)
		if body != "built\n" || header.Get("Cache-Control") != "no-store" {
			t.Errorf("got page %q, %v", body, header)
		}
		body, header = get(t, page+"/config.json")
		var got map[string]any
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatal(err)
		}
		host, port, _ := strings.Cut(emulatortest.Addr(), ":")
		number, _ := strconv.ParseFloat(port, 64)
		want := map[string]any{"projectId": project, "databaseId": "(default)", "host": host, "port": number,
			"likes": "counters/example-likes", "vote": "counters/example-vote"}
		if d := cmp.Diff(want, got); d != "" || header.Get("Cache-Control") != "no-store" || header.Get("Content-Type") != "application/json" {
			t.Errorf("config.json (-want +got):\n%s%v", d, header)
		}
		for counter, want := range map[string]map[string]any{
			"example-likes": {"num_shards": int64(10)},
			"example-vote":  {"once_per_user": true},
		} {
			doc, err := client.Doc("counters/" + counter).Get(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, doc.Data()); d != "" {
				t.Errorf("%s (-want +got):\n%s", counter, d)
			}
		}
	})
	c.wantCalls("ci --include=dev", "run example")

	// What exists stays: the counters, another number of shards, and what was built.
	if _, err := likes.Set(t.Context(), map[string]any{"num_shards": 20}, firestore.MergeAll); err != nil {
		t.Fatal(err)
	}
	if _, err := likes.Collection("shards").Doc("3").Set(t.Context(), map[string]any{"count": 7}); err != nil {
		t.Fatal(err)
	}
	c.run(project, func(string) {
		counter, err := likes.Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		shard, err := likes.Collection("shards").Doc("3").Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if n, count := counter.Data()["num_shards"], shard.Data()["count"]; n != int64(20) || count != int64(7) {
			t.Errorf("got %v shards, of which one counts %v; want 20 and 7", n, count)
		}
	})
	c.wantCalls()

	// What has changed is built anew, and no more than that.
	c.change("example/page.html")
	c.run(project, func(string) {})
	c.wantCalls("run example")
	c.change("package-lock.json")
	c.run(project, func(string) {})
	c.wantCalls("ci --include=dev", "run example")
	c.write(filepath.Join(webClient, "README.md"), "no source")
	c.change("README.md")
	c.run(project, func(string) {})
	c.wantCalls()
}

// A Ctrl-C ends npm and what it has started, and what was cut off is done anew.
func TestDevWebIsInterrupted(t *testing.T) {
	for _, cut := range []string{"npm-ci", "npm-run"} {
		t.Run(cut, func(t *testing.T) {
			c := newClone(t)
			project := emulatortest.Project(t)
			pipe := filepath.Join(t.TempDir(), "pipe")
			if err := syscall.Mkfifo(pipe, 0o600); err != nil {
				t.Fatal(err)
			}
			whole, err := os.ReadFile(filepath.Join(c.bin, cut))
			if err != nil {
				t.Fatal(err)
			}
			c.script(cut, fmt.Sprintf("mkdir -p node_modules example/dist && touch node_modules/half example/dist/page.js\nsleep 1000 &\necho $$ $! >'%s'; wait", pipe))
			command, _ := c.dev(project)
			out := command.followErrors(t)
			f, err := os.Open(pipe) // returns when npm opens it
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			line, err := bufio.NewReader(f).ReadString('\n')
			var script, child int
			if _, scan := fmt.Sscan(line, &script, &child); err != nil || scan != nil {
				t.Fatalf("%q: %v, %v", line, err, scan)
			}
			t.Cleanup(func() {
				if t.Failed() {
					_ = syscall.Kill(child, syscall.SIGKILL) // it may have ended
				}
			})
			if err := command.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			out.awaitExit(0)
			awaitGone(t, script)
			awaitGone(t, child)
			c.wantCalls(map[string][]string{"npm-ci": {"ci --include=dev"}, "npm-run": {"ci --include=dev", "run example"}}[cut]...)

			c.script(cut, string(whole))
			c.run(project, func(string) {})
			c.wantCalls(map[string][]string{"npm-ci": {"ci --include=dev", "run example"}, "npm-run": {"run example"}}[cut]...)
		})
	}
}

// awaitGone waits until a process that is not this one's child has ended.
func awaitGone(t *testing.T, pid int) {
	t.Helper()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	deadline := time.After(eventually)
	for {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // a zombie has ended too, whoever reaps it
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || err == nil && strings.Contains(string(stat), ") Z ") {
			return
		}
		select {
		case <-poll.C:
		case <-deadline:
			t.Fatalf("process %d is still there", pid)
		}
	}
}

func TestDevWebRefusals(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	_, port, _ := net.SplitHostPort(busy.Addr().String())
	for _, test := range []struct {
		name string
		args []string
		set  func(c *clone)
		want []string
	}{
		{"a port too low", []string{"--web-port", "-1"}, nil, []string{"--web-port -1: want a port up to 65535, or 0 for any"}},
		{"a port too high", []string{"--web-port", "65536"}, nil, []string{"--web-port 65536: want a port up to 65535, or 0 for any"}},
		{"a function's port", []string{"--web-port", "8083", "--functions-port", "8082", "--instances", "2"}, nil, []string{"--web-port 8083 is one of the functions' ports, 8082 to 8083"}},
		{"Firestore's port", []string{"--web-port", "8080"}, func(c *clone) { c.env = append(c.env, "FIRESTORE_EMULATOR_HOST=") }, []string{"--web-port 8080 is the --firestore-port too"}},
		{"a port in use", []string{"--web-port", port}, nil, []string{"port " + port + " is in use", "--web-port"}},
		{"no clone", nil, func(c *clone) { c.dir = c.t.TempDir() }, []string{"clients/web", "run tally in a clone of https://github.com/firestore-tally/tally"}},
		{"no node", nil, func(c *clone) {
			c.remove("node")
			c.env = []string{"PATH=" + c.bin}
		}, []string{"no Node.js", "install the LTS release of Node.js", "https://nodejs.org"}},
		{"an old node", nil, func(c *clone) { c.script("node", "echo v18.19.1") }, []string{"node is Node.js v18.19.1", "install the LTS release of Node.js"}},
		{"a node that fails", nil, func(c *clone) { c.script("node", "exit 3") }, []string{"node --version: exit status 3", "install the LTS release of Node.js"}},
		{"a node that is none", nil, func(c *clone) { c.script("node", "echo hello") }, []string{`says "hello"`, "install the LTS release of Node.js"}},
		{"no npm", nil, func(c *clone) {
			c.remove("npm")
			c.env = []string{"PATH=" + c.bin}
		}, []string{"no npm", "install the LTS release of Node.js"}},
		{"npm ci fails", nil, func(c *clone) { c.script("npm-ci", "seq 100; echo network is down >&2; exit 4") },
			[]string{"npm ci --include=dev in clients/web: exit status 4; its last lines:\n87\n", "\n100\nnetwork is down\n"}},
		{"the build fails", nil, func(c *clone) { c.script("npm-run", "echo src/index.ts: error; exit 2") },
			[]string{"npm run example in clients/web: exit status 2; its last lines:\nsrc/index.ts: error\n"}},
		{"the build builds nothing", nil, func(c *clone) { c.script("npm-run", ":") }, []string{"clients/web/example/dist/index.html"}},
		{"other routes", nil, func(c *clone) {
			c.env = append(c.env, "TALLY_ROUTES=counters/{c}/shards/{s} -> rollups/{c} : likes")
		}, []string{"TALLY_ROUTES: no route rolls up the example page's counters/example-likes", "counters/{counter}/shards/{shard} -> rollups/{counter} : count"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newClone(t)
			if test.set != nil {
				test.set(c)
			}
			command, _ := c.dev(emulatortest.Project(t), test.args...)
			err := command.Run()
			if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 1 {
				t.Errorf("ended with %v, want exit status 1", err)
			}
			for _, want := range test.want {
				if !strings.Contains(command.stderr.String(), want) {
					t.Errorf("got %q, want also %q", &command.stderr, want)
				}
			}
			if command.stdout.Len() > 0 || strings.Contains(command.stderr.String(), "goroutine") {
				t.Errorf("standard output %q, standard error %q", &command.stdout, &command.stderr)
			}
		})
	}
}

func (c *clone) remove(program string) {
	c.t.Helper()
	if err := os.Remove(filepath.Join(c.bin, program)); err != nil {
		c.t.Fatal(err)
	}
}

func TestPageConfig(t *testing.T) {
	for _, test := range []struct{ addr, want string }{
		{"127.0.0.1:8080", `"host":"127.0.0.1"`},
		{"localhost:8080", `"host":"localhost"`},
		{"[::1]:8080", `"host":"[::1]"`}, // as gcloud prints it
	} {
		got, err := pageConfig(test.addr, "demo-p", "(default)")
		if err != nil || !strings.Contains(string(got), test.want) || !strings.Contains(string(got), `"port":8080`) {
			t.Errorf("pageConfig(%q) is %s, %v; want %s and the port", test.addr, got, err, test.want)
		}
	}
}
