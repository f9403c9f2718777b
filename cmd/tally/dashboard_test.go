//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/firestore-tally/tally/internal/emulator/emulatortest"
)

// getPage returns the dashboard's page.
func getPage(t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", url, res.Status, err)
	}
	return string(body)
}

func TestDashboard(t *testing.T) {
	c := newConsole(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, in := io.Pipe()
	var errors bytes.Buffer
	status := make(chan int, 1)
	go func() {
		status <- run(ctx, []string{"dashboard", "--project", c.project, "--port", "0", "--json"}, in, &errors)
	}()
	var said struct{ URL string }
	if err := json.NewDecoder(out).Decode(&said); err != nil {
		t.Fatalf("%v\n%s", err, &errors)
	}
	if page := getPage(t, said.URL); !strings.Contains(page, "<title>Tally dashboard</title>") {
		t.Errorf("the page is %s", page)
	}
	cancel()
	if got := <-status; got != 0 {
		t.Errorf("Ctrl-C ended it with status %d: %s", got, &errors)
	}
}

func TestDashboardRefuses(t *testing.T) {
	c := newConsole(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := l.Addr().(*net.TCPAddr).Port
	for _, test := range []struct{ args, want string }{
		{fmt.Sprintf("dashboard --port %d", taken), fmt.Sprintf("port %d is in use; choose another with --port", taken)},
		{"dashboard --port -1", "--port -1: want a port up to 65535, or 0 for any that is free"},
		{"dashboard --routes likes", "configuration: TALLY_ROUTES"},
		{"dashboard likes", `"likes" is one argument too many`},
		{fmt.Sprintf("dev --dashboard-port %d", taken), fmt.Sprintf("port %d is in use; choose another with --dashboard-port", taken)},
		{"dev --dashboard-port 65536", "--dashboard-port 65536: want a port up to 65535"},
	} {
		status, _, stderr := c.run(strings.Fields(test.args)...)
		if status != 1 || !strings.Contains(stderr, test.want) {
			t.Errorf("%s: status %d, %q, want 1, and in it %q", test.args, status, stderr, test.want)
		}
	}
	// A port that nobody chose may be in use: another one does.
	another, err := listenDashboard("port", taken, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := another.Close(); err != nil {
		t.Error(err)
	}
}

// readDashboard reads what the dashboard that was greeted with tells a page, until it has told enough.
func (f *follower) readDashboard(enough func(read string) bool) string {
	f.t.Helper()
	_, line, _ := strings.Cut(f.read.String(), "  dashboard   ")
	url, _, _ := strings.Cut(line, "\n")
	stream, err := http.Get(url + "counters")
	if err != nil {
		f.t.Fatal(err)
	}
	defer stream.Body.Close()
	var read strings.Builder
	chunk := make([]byte, 4096)
	for !enough(read.String()) {
		n, err := stream.Body.Read(chunk)
		read.Write(chunk[:n])
		if err != nil {
			f.t.Fatalf("%v\n%s", err, &read)
		}
	}
	return read.String()
}

// tally dev serves the dashboard unless it is told not to, and knows there what the functions do.
func TestDevDashboard(t *testing.T) {
	ports := freePorts(t, 3)
	c, out := startDev(t, ports, "--dashboard-port", "0")
	out.await("Add 1 from here")
	increment(t, ports, "demo-tally", "(default)", "likes")
	out.await("rollups/likes  count 1  1 shards")
	out.readDashboard(func(read string) bool {
		return strings.Contains(read, `"name":"counters/likes"`) && strings.Contains(read, `"events":1`) && strings.Contains(read, `"writes":1,`)
	})
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	out.awaitExit(0)
	wantNoListeners(t, ports, 3)
}

func TestDevWithoutDashboard(t *testing.T) {
	c := tally(t, "dev", "--dashboard=false", "--instances", "1", "--functions-port", strconv.Itoa(freePorts(t, 1)), "--project", emulatortest.Project(t))
	c.Env = append(c.Env, "FIRESTORE_EMULATOR_HOST="+emulatortest.Addr())
	out := c.follow(t)
	out.await("Add 1 from here")
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	out.awaitExit(0)
	if strings.Contains(out.read.String(), "dashboard") {
		t.Errorf("there is a dashboard:\n%s", &out.read)
	}
}
