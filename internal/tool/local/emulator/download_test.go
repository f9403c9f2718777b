//go:build unix

package emulator

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// offer returns downloads whose emulator has that content, and whose report checks what it is told.
func offer(t *testing.T, content string) *Downloads {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		_, _ = w.Write([]byte(content)) // a client that goes away is the test's intent
	}))
	t.Cleanup(server.Close)
	sum := sha256.Sum256([]byte(content))
	return &Downloads{
		report: wantProgress(t),
		official: release{
			version: "9.8.7",
			url:     server.URL + "/emulator.jar",
			size:    int64(len(content)),
			sha256:  hex.EncodeToString(sum[:]),
		},
	}
}

// wantProgress returns a report that fails the test unless each download goes on and ends.
func wantProgress(t *testing.T) Report {
	t.Helper()
	running := 0
	t.Cleanup(func() {
		if running != 0 {
			t.Errorf("%d downloads did not end", running)
		}
	})
	return func(what string, size int64) (at func(int64), end func()) {
		running++
		last := int64(0)
		at = func(done int64) {
			if done <= last || done > size+1 {
				t.Errorf("%s: %d of %d bytes after %d", what, done, size, last)
			}
			last = done
		}
		return at, func() { running-- }
	}
}

// cache has downloads go to a folder, which need not exist yet.
func cache(t *testing.T, dir string) string {
	t.Helper()
	t.Setenv("FIREBASE_EMULATORS_PATH", dir)
	return dir
}

// wantEmpty fails the test if a failed download left something.
func wantEmpty(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range entries {
		t.Errorf("left behind: %s", e.Name())
	}
}

func TestDownload(t *testing.T) {
	content := strings.Repeat("emulator ", 100_000)
	d := offer(t, content)
	dir := cache(t, filepath.Join(t.TempDir(), "not", "there", "yet"))
	for range 2 { // the second one replaces the first
		jar, err := d.jar(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(jar)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != content {
			t.Error("the file is not what was served")
		}
		if found, err := findJar(t.Context()); found != jar && os.Getenv(pathVariable) == "" && cloudSDK(t.Context()) == "" {
			t.Errorf("Start finds %q, %v, want %s", found, err, jar)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
			t.Errorf("the cache holds %v, %v", entries, err)
		}
	}
}

func TestDownloadOfAnotherFile(t *testing.T) {
	dir := cache(t, t.TempDir())
	d := offer(t, "what came")
	sum := d.official.sha256
	d.official.sha256 = strings.Repeat("0", 64)
	_, err := d.jar(t.Context())
	wantError(t, err, d.official.url, sum, d.official.sha256, "gcloud components install")
	wantEmpty(t, dir)

	// A file without end is not read to its end.
	d = offer(t, strings.Repeat("x", 10_000_000))
	d.official.size = 1000
	_, err = d.jar(t.Context())
	wantError(t, err, "after 1001 bytes")
	wantEmpty(t, dir)
}

func TestDownloadBrokenOff(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte("the beginning"))
	}))
	defer server.Close()
	dir := cache(t, t.TempDir())
	d := &Downloads{report: wantProgress(t), official: release{url: server.URL, size: 1000}}
	_, err := d.jar(t.Context())
	wantError(t, err, server.URL, "unexpected EOF", "gcloud components install")
	wantEmpty(t, dir)
}

func TestDownloadRefused(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	dir := cache(t, t.TempDir())
	d := &Downloads{report: wantProgress(t), official: release{url: server.URL}}
	_, err := d.jar(t.Context())
	wantError(t, err, server.URL, "404 Not Found", "gcloud components install")
	wantEmpty(t, dir)

	server.Close() // from here on there is no such host
	_, err = d.jar(t.Context())
	wantError(t, err, server.URL, "apt-get install", "firebase setup:emulators:firestore", pathVariable)
	wantEmpty(t, dir)
}

func TestDownloadCancelled(t *testing.T) {
	dir := cache(t, t.TempDir())
	d := offer(t, strings.Repeat("x", 10_000_000))
	ctx, cancel := context.WithCancel(t.Context())
	d.report = func(string, int64) (func(int64), func()) { return func(int64) { cancel() }, func() {} }
	_, err := d.jar(ctx)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error is not context.Canceled: %v", err)
	}
	wantError(t, err, d.official.url, "stopped")
	wantEmpty(t, dir)
}

func TestDownloadUnwritable(t *testing.T) {
	file := writeFile(t, "file", "")
	cache(t, filepath.Join(file, "cache"))
	_, err := offer(t, "x").jar(t.Context())
	wantError(t, err, file)
}

// A download that begins with https ends with it. What is offered in truth lies there.
func TestDownloadsByHTTPS(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "text") }))
	defer plain.Close()
	secure := httptest.NewTLSServer(http.RedirectHandler(plain.URL, http.StatusFound))
	defer secure.Close()

	trusting := *downloader
	trusting.Transport = secure.Client().Transport
	resp, err := trusting.Get(secure.URL)
	if err == nil {
		resp.Body.Close()
	}
	wantError(t, err, "it leads to "+plain.URL+", without https")

	d := NewDownloads(nil)
	for _, address := range []string{d.official.url, d.adoptium, d.archives} {
		if !strings.HasPrefix(address, "https://") {
			t.Errorf("%s: want https", address)
		}
	}
}
