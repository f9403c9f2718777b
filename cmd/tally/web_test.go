//go:build unix

package main

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/google/go-cmp/cmp"
)

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

// tally dev --web serves the example page and creates its counters. What exists stays.
func TestDevWeb(t *testing.T) {
	t.Parallel()
	project := emulatortest.Project(t)
	client := emulatortest.ClientDatabase(t, project, firestore.DefaultDatabaseID)
	for path, fields := range map[string]map[string]any{
		"counters/example-likes": {"num_shards": 20}, "counters/example-likes/shards/3": {"count": 7},
	} {
		if _, err := client.Doc(path).Set(t.Context(), fields); err != nil {
			t.Fatal(err)
		}
	}
	out := startDev(t, onShared(t), "--web", "--web-port=0", "--instances=1", "--project", project)
	page := out.greeted(`  web page    (\S+)`)
	body, header := get(t, page)
	if !strings.Contains(body, "<title>Likes and a vote</title>") || header.Get("Cache-Control") != "no-store" {
		t.Errorf("got page %q, %v", body, header)
	}
	body, header = get(t, page+"/config.json")
	var got map[string]any
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	host, port, _ := strings.Cut(emulatortest.Addr(t), ":")
	number, _ := strconv.ParseFloat(port, 64)
	want := map[string]any{"projectId": project, "databaseId": "(default)", "host": host, "port": number,
		"likes": "counters/example-likes", "vote": "counters/example-vote"}
	if d := cmp.Diff(want, got); d != "" || header.Get("Cache-Control") != "no-store" || header.Get("Content-Type") != "application/json" {
		t.Errorf("config.json (-want +got):\n%s%v", d, header)
	}
	for path, want := range map[string]map[string]any{
		"counters/example-likes": {"num_shards": int64(20)}, "counters/example-likes/shards/3": {"count": int64(7)},
		"counters/example-vote": {"once_per_user": true},
	} {
		doc, err := client.Doc(path).Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, doc.Data()); d != "" {
			t.Errorf("%s (-want +got):\n%s", path, d)
		}
	}
	ports := out.ports()
	out.interrupt()
	wantNoListeners(t, ports[1:]...) // the first is the tests' own emulator
}

// A route that takes the page's counters elsewhere is an error before anything is served.
func TestDevWebRoutes(t *testing.T) {
	t.Parallel()
	c := tally(t, "dev", "--web", "--web-port=0", "--functions-port=0", "--dashboard=false", "--instances=1", "--project", emulatortest.Project(t))
	c.Env = append(append(c.Env, "TALLY_ROUTES=counters/{c}/shards/{s} -> rollups/{c} : likes"), onShared(t)...)
	_ = c.Run() // the status says how
	const want = "TALLY_ROUTES: no route rolls up the example page's counters/example-likes; leave the variable unset, or add the route counters/{counter}/shards/{shard} -> rollups/{counter} : count"
	if status := c.ProcessState.ExitCode(); status != 1 || !strings.Contains(c.stderr.String(), want) || c.stdout.Len() > 0 {
		t.Errorf("status %d, standard error %q, standard output %q", status, &c.stderr, &c.stdout)
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
