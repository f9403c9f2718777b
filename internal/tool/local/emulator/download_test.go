//go:build unix

package emulator

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// offer serves content as a release.
func offer(t *testing.T, content string) release {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		_, _ = w.Write([]byte(content)) // a client that goes away is the test's intent
	}))
	t.Cleanup(server.Close)
	sum := sha256.Sum256([]byte(content))
	return release{
		version: "9.8.7",
		url:     server.URL + "/emulator.jar",
		size:    int64(len(content)),
		sha256:  hex.EncodeToString(sum[:]),
	}
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
	r := offer(t, content)
	dir := filepath.Join(t.TempDir(), "not", "there", "yet")
	for range 2 { // the second one replaces the first
		var last int64
		jar, err := r.download(t.Context(), dir, func(done, total int64) {
			if done <= last || total != r.size {
				t.Errorf("progress %d of %d after %d of %d", done, total, last, r.size)
			}
			last = done
		})
		if err != nil {
			t.Fatal(err)
		}
		if last != r.size {
			t.Errorf("last progress %d, want %d", last, r.size)
		}
		got, err := os.ReadFile(jar)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != content {
			t.Error("the file is not what was served")
		}
		if found := newestJar(dir); found != jar {
			t.Errorf("the cache offers %q, want %s", found, jar)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
			t.Errorf("the cache holds %v, %v", entries, err)
		}
	}
	if _, err := r.download(t.Context(), dir, nil); err != nil {
		t.Errorf("without progress: %v", err)
	}
}

func TestDownloadOfAnotherFile(t *testing.T) {
	dir := t.TempDir()
	r := offer(t, "what came")
	sum := r.sha256
	r.sha256 = strings.Repeat("0", 64)
	_, err := r.download(t.Context(), dir, nil)
	wantError(t, err, r.url, sum, r.sha256, "gcloud components install")
	wantEmpty(t, dir)

	// A file without end is not read to its end.
	r = offer(t, strings.Repeat("x", 10_000_000))
	r.size = 1000
	_, err = r.download(t.Context(), dir, nil)
	wantError(t, err, "after 1001 bytes")
	wantEmpty(t, dir)
}

func TestDownloadBrokenOff(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte("the beginning"))
	}))
	defer server.Close()
	dir := t.TempDir()
	_, err := release{url: server.URL, size: 1000}.download(t.Context(), dir, nil)
	wantError(t, err, server.URL, "unexpected EOF", "gcloud components install")
	wantEmpty(t, dir)
}

func TestDownloadRefused(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	dir := t.TempDir()
	r := release{url: server.URL}
	_, err := r.download(t.Context(), dir, nil)
	wantError(t, err, server.URL, "404 Not Found", "gcloud components install")
	wantEmpty(t, dir)

	server.Close() // from here on there is no such host
	_, err = r.download(t.Context(), dir, nil)
	wantError(t, err, server.URL, "apt-get install", "firebase setup:emulators:firestore", pathVariable)
	wantEmpty(t, dir)
}

func TestDownloadCancelled(t *testing.T) {
	dir := t.TempDir()
	r := offer(t, strings.Repeat("x", 10_000_000))
	ctx, cancel := context.WithCancel(t.Context())
	_, err := r.download(ctx, dir, func(int64, int64) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error is not context.Canceled: %v", err)
	}
	wantError(t, err, r.url, "given up")
	wantEmpty(t, dir)
}

func TestDownloadUnwritable(t *testing.T) {
	file := writeFile(t, "file", "")
	_, err := offer(t, "x").download(t.Context(), filepath.Join(file, "cache"), nil)
	wantError(t, err, file)
}

// The official release is fetched only for a Java that can run it. That it can be fetched is not
// tested: tests need no internet.
func TestDownloadForOldJava(t *testing.T) {
	fakeJava(t, 17, "exit 1")
	_, err := Download(t.Context(), nil)
	wantError(t, err, "version 1.22.0 needs Java 21", "is Java 17")
	emptyMachine(t)
	_, err = Download(t.Context(), nil)
	wantError(t, err, "emulator: no Java")
}
