//go:build unix

package main

import (
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
	"testing"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/emulator/emulatortest"
	"github.com/google/go-cmp/cmp"
)

// A clone is a folder with the rules in it, which is all that tally dev --web needs.
type clone struct {
	t   *testing.T
	dir string
	env []string
}

func newClone(t *testing.T) *clone {
	t.Helper()
	c := &clone{t: t, dir: t.TempDir()}
	rules := []byte("rules_version = '2'; service cloud.firestore {}")
	if err := os.WriteFile(filepath.Join(c.dir, "firestore.rules"), rules, 0o600); err != nil {
		t.Fatal(err)
	}
	return c
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
		if !strings.Contains(body, "importmap") || header.Get("Cache-Control") != "no-store" {
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

	// The counters that exist stay, with another number of shards.
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
