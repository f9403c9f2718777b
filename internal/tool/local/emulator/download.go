package emulator

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
)

// A release is an emulator that can be downloaded.
type release struct {
	version string
	url     string
	size    int64  // bytes
	sha256  string // of the file, in hexadecimal
}

// official is the release that the Firebase CLI 15.34.2 downloads, as in its
// downloadableEmulatorInfo.json.
var official = release{
	version: "1.22.0",
	url:     "https://storage.googleapis.com/firebase-preview-drop/emulator/cloud-firestore-emulator-v1.22.0.jar",
	size:    136707194,
	sha256:  "9b6498b7f62714d67f48f59b3818883cd682dbcd46b9f59511de81c97bb5166c",
}

// Download fetches the official emulator, about 137 MB, into the Firebase CLI's cache, and returns
// the path of the jar. [Start] and that CLI find it there from then on. The file appears there only
// whole and with the right checksum. Download fails before it fetches anything if no Java here can
// run the emulator. Only ctx bounds the time it takes.
//
// progress, if not nil, is called often and from one goroutine, with the bytes so far and in all.
func Download(ctx context.Context, progress func(done, total int64)) (jar string, err error) {
	java, err := findJava(ctx)
	if err != nil {
		return "", err
	}
	if java.version < supportedJava {
		return "", fmt.Errorf("emulator: version %s needs Java %d, but %s is Java %d: %s",
			official.version, supportedJava, java.path, java.version, installJava(supportedJava))
	}

	dir, err := cacheDir()
	if err != nil {
		return "", fmt.Errorf("emulator: download: %w", err)
	}
	return official.download(ctx, dir, progress)
}

// download fetches the release into dir. Its error names the address and the remedy.
func (r release) download(ctx context.Context, dir string, progress func(done, total int64)) (jar string, err error) {
	jar, err = r.fetch(ctx, dir, progress)
	if err == nil {
		return jar, nil
	}
	if ctx.Err() != nil {
		return "", fmt.Errorf("emulator: download of %s given up: %w", r.url, context.Cause(ctx))
	}
	return "", fmt.Errorf("emulator: download of %s: %w; %s", r.url, err, installEmulator)
}

// fetch does the work of download.
func (r release) fetch(ctx context.Context, dir string, progress func(done, total int64)) (jar string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("the server answered %s", resp.Status)
	}

	err = os.MkdirAll(dir, 0o755)
	if err != nil {
		return "", err
	}
	jar = filepath.Join(dir, "cloud-firestore-emulator-v"+r.version+".jar")
	part, err := os.CreateTemp(dir, filepath.Base(jar)+".*.part")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.Remove(part.Name()) }() // no such file any more once it is renamed
	defer part.Close()                            // closed already if nothing failed

	err = r.copyTo(part, resp.Body, progress)
	if err != nil {
		return "", err
	}
	err = part.Close()
	if err != nil {
		return "", err
	}
	return jar, os.Rename(part.Name(), jar)
}

// copyTo copies the release to a file, and returns an error if its checksum is another.
func (r release) copyTo(file io.Writer, from io.Reader, progress func(done, total int64)) error {
	sum, done := sha256.New(), int64(0)
	count := writerFunc(func(p []byte) (int, error) {
		done += int64(len(p))
		if progress != nil {
			progress(done, r.size)
		}
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
