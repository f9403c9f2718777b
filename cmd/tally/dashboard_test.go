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
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/spf13/pflag"
)

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
	if page := get(t, said.URL); !strings.Contains(page, "<title>Tally dashboard: "+c.project+"</title>") {
		t.Errorf("the page is %s", page)
	}
	cancel()
	if got := <-status; got != 0 {
		t.Errorf("Ctrl-C ended it with status %d: %s", got, &errors)
	}
}

func get(t *testing.T, url string) (body string) {
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
	return string(text)
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
		{fmt.Sprintf("dashboard --port %d", taken), fmt.Sprintf("port %d is in use; choose another with --port, or 0 for any that is free", taken)},
		{"dashboard --port -1", "--port -1: want a port up to 65535, or 0 for any that is free"},
		{"dashboard --routes likes", "configuration: TALLY_ROUTES"},
		{"dashboard likes", `unexpected argument "likes"; usage: tally dashboard`},
		{fmt.Sprintf("dev --dashboard-port %d", taken), fmt.Sprintf("port %d is in use; choose another with --dashboard-port", taken)},
		{"dev --dashboard-port 65536", "--dashboard-port 65536: want a port up to 65535"},
	} {
		status, _, stderr := c.run(strings.Fields(test.args)...)
		if status != 1 || !strings.Contains(stderr, test.want) {
			t.Errorf("%s: status %d, %q, want 1, and in it %q", test.args, status, stderr, test.want)
		}
	}
	// If the default port is in use, the dashboard takes another one.
	unchosen := page{on: true, flag: &pflag.Flag{Name: "port"}, first: taken}
	if err := unchosen.open(); err != nil {
		t.Errorf("the default port is in use: %v", err)
	}
	unchosen.listener.Close()
}

// readDashboard asks the dashboard that was greeted with for all that a page may show, until it
// tells enough.
func (f *follower) readDashboard(enough func(read string) bool) string {
	f.t.Helper()
	_, line, _ := strings.Cut(f.read.String(), "  dashboard   ")
	address, _, _ := strings.Cut(line, "\n")
	view := address + "state?view=" + url.QueryEscape(`{"sort": "name"}`)
	ctx, cancel := context.WithTimeout(f.t.Context(), emulatortest.Eventually())
	defer cancel()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for ctx.Err() == nil {
		if read := get(f.t, view); enough(read) {
			return read
		}
		<-again.C
	}
	f.t.Fatalf("the dashboard does not tell enough\n%s", &f.read)
	return ""
}
