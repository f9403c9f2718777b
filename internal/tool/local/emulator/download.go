package emulator

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
)

// Downloads fetches what a machine lacks to run the emulator: Google's official emulator, about
// 137 MB, and a Java that runs it, about 50 MB. Both stay in the Firebase CLI's cache, where that
// CLI finds the emulator, and [Start] finds both. Each appears there only whole and with the right
// checksum. Only the context bounds the time it takes.
type Downloads struct {
	report   Report
	official release
	adoptium string // the address of Adoptium's API
	archives string // of the folder of its archives
}

// A Report is called as a download begins, with its name and its size in bytes. Then at is called
// often, with the bytes so far, and end once, whether the download succeeded or not. All calls come
// from one goroutine.
type Report func(what string, size int64) (at func(done int64), end func())

// NewDownloads returns downloads that tell report how they go on.
func NewDownloads(report Report) *Downloads {
	return &Downloads{report: report, official: official, adoptium: adoptium, archives: archives}
}

// official is the release that the Firebase CLI 15.34.2 downloads, as in its
// downloadableEmulatorInfo.json.
var official = release{
	version: "1.22.0",
	url:     "https://storage.googleapis.com/firebase-preview-drop/emulator/cloud-firestore-emulator-v1.22.0.jar",
	size:    136707194,
	sha256:  "9b6498b7f62714d67f48f59b3818883cd682dbcd46b9f59511de81c97bb5166c",
}

// A release is a file that can be downloaded.
type release struct {
	version string
	url     string
	size    int64  // bytes
	sha256  string // of the file, in hexadecimal
}

// jar fetches the official emulator, and returns its path.
func (d *Downloads) jar(ctx context.Context) (string, error) {
	dir, err := cacheDir()
	if err != nil {
		return "", fmt.Errorf("emulator: could not download it: %w", err)
	}

	jar := filepath.Join(dir, "cloud-firestore-emulator-v"+d.official.version+".jar")
	err = d.fetch(ctx, "Google's Firestore emulator", d.official, jar, os.Rename)
	if err != nil {
		return "", withRemedy(ctx, d.official.url, err, installEmulator)
	}
	return jar, nil
}

// withRemedy returns the error of a download, with its address and what to do instead.
func withRemedy(ctx context.Context, url string, err error, remedy string) error {
	if ctx.Err() != nil {
		return fmt.Errorf("emulator: stopped the download of %s: %w", url, context.Cause(ctx))
	}
	return fmt.Errorf("emulator: could not download %s: %w; %s", url, err, remedy)
}

// fetch downloads a release into a temporary file next to path, and calls place, which makes path
// of it.
func (d *Downloads) fetch(ctx context.Context, what string, r release, path string, place func(file, path string) error) error {
	resp, err := get(ctx, r.url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()

	err = os.MkdirAll(filepath.Dir(path), 0o755)
	if err != nil {
		return err
	}
	part, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.part")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(part.Name()) }() // no such file any more once it is renamed
	defer part.Close()                            // closed already if nothing failed

	at, end := d.report(what, r.size)
	defer end()
	err = r.copyTo(part, resp.Body, at)
	if err != nil {
		return err
	}
	err = part.Close()
	if err != nil {
		return err
	}
	return place(part.Name(), path)
}

// downloader follows no redirect that leads from https to an address that anybody on the way may
// answer.
var downloader = &http.Client{CheckRedirect: func(next *http.Request, via []*http.Request) error {
	switch {
	case via[0].URL.Scheme == "https" && next.URL.Scheme != "https":
		return fmt.Errorf("it leads to %s, without https", next.URL.Redacted())
	case len(via) == 10:
		return errors.New("it leads on and on")
	}
	return nil
}}

// get asks for an address. The caller closes the body of the response.
func get(ctx context.Context, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := downloader.Do(req)
	if err != nil {
		return nil, err
	}

	if resp.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("the server answered %s", resp.Status), resp.Body.Close())
	}
	return resp, nil
}

// copyTo copies the release to a file, and returns an error if its checksum is another.
func (r release) copyTo(file io.Writer, from io.Reader, at func(done int64)) error {
	sum, done := sha256.New(), int64(0)
	count := writerFunc(func(p []byte) (int, error) {
		done += int64(len(p))
		at(done)
		return len(p), nil
	})

	_, err := io.Copy(io.MultiWriter(file, sum, count), io.LimitReader(from, r.size+1))
	if err != nil {
		return err
	}

	got := hex.EncodeToString(sum.Sum(nil))
	if got != r.sha256 {
		return fmt.Errorf("not the file expected: its SHA-256 is %s after %d bytes, not %s after %d", got, done, r.sha256, r.size)
	}
	return nil
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
