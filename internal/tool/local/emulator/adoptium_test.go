//go:build unix

package emulator

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// A packed is a file of an archive.
type packed struct {
	name, content string
	mode          fs.FileMode
}

// pack returns a compressed tar archive.
func pack(t *testing.T, files ...packed) []byte {
	t.Helper()
	var archive bytes.Buffer
	zipped := gzip.NewWriter(&archive)
	w := tar.NewWriter(zipped)
	for _, f := range files {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: int64(f.mode.Perm()), Size: int64(len(f.content))}
		if f.mode&fs.ModeSymlink != 0 {
			header = &tar.Header{Typeflag: tar.TypeSymlink, Name: f.name, Linkname: f.content}
			f.content = ""
		}
		if err := w.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, f.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	return archive.Bytes()
}

// api serves Adoptium's API, which offers the archive under a name, and the archive.
func api(t *testing.T, name, file string, archive []byte) *Downloads {
	t.Helper()
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	sum := sha256.Sum256(archive)
	mux.HandleFunc("GET /v3/assets/latest/21/hotspot", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		for key, want := range map[string]string{
			"architecture": map[string]string{"amd64": "x64", "arm64": "aarch64"}[runtime.GOARCH],
			"os":           map[string]string{"linux": "linux", "darwin": "mac"}[runtime.GOOS],
			"image_type":   "jre",
			"vendor":       "eclipse",
		} {
			if q.Get(key) != want && want != "" && !isFile("/etc/alpine-release") {
				t.Errorf("asked for %s %q, want %q", key, q.Get(key), want)
			}
		}
		fmt.Fprintf(w, `[{"binary": {"image_type": "jre", "package": {"link": "%s/%s", "size": %d, "checksum": "%x", "name": "%[2]s"}},
			"release_name": %[5]q, "vendor": "eclipse"}]`, server.URL, file, len(archive), sum, name)
	})
	mux.HandleFunc("GET /"+file, func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write(archive) })
	return &Downloads{report: wantProgress(t), adoptium: server.URL, archives: server.URL + "/"}
}

// On a machine without a Java, the emulator starts by one that is downloaded, and from then on
// without a download. The Java is one that this machine's own JDK makes.
func TestDownloadedJava(t *testing.T) {
	needJava(t)
	d := api(t, "jdk-21.0.9+10", "jre.tar.gz", packFolder(t, smallRuntime(t)))
	jar, err := findJar(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	home := emptyMachine(t)
	t.Setenv(pathVariable, jar)

	e, err := Start(t.Context(), Options{Downloads: d})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Stop() }()
	want := filepath.Join(home, ".cache/firebase/emulators/temurin-jdk-21.0.9+10/bin/java")
	if !strings.HasSuffix(e.Program(), want) {
		t.Errorf("it runs %s, want the Java %s", e.Program(), want)
	}
	if next, err := Java(t.Context()); err != nil || next != want {
		t.Errorf("the next start runs the Java %q, %v, want %s", next, err, want)
	}
}

// smallRuntime returns the folder of a Java that runs the emulator. Where this machine has a JDK,
// its jlink makes the Java. Elsewhere it is the one that other tests run.
func smallRuntime(t *testing.T) string {
	t.Helper()
	program, err := Java(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	home := filepath.Dir(filepath.Dir(resolved(t, program)))
	jlink := filepath.Join(home, "bin", "jlink")
	if !isFile(jlink) {
		return home
	}

	made := filepath.Join(t.TempDir(), "jre")
	out, err := exec.Command(jlink, "-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC", "--add-modules=java.management,java.naming,java.sql,jdk.httpserver,jdk.unsupported", "--output="+made).CombinedOutput()
	if err != nil {
		t.Fatalf("jlink: %v\n%s", err, out)
	}
	return made
}

// packFolder returns a compressed archive that holds a folder.
func packFolder(t *testing.T, folder string) []byte {
	t.Helper()
	archive, err := exec.Command("sh", "-c", `tar -c -C "$1" "$2" | gzip -1`, "sh", filepath.Dir(folder), filepath.Base(folder)).Output()
	if err != nil {
		t.Fatal(err)
	}
	return archive
}

// A runtime is unpacked with its links and the modes of its files. Nothing else is left.
func TestUnpack(t *testing.T) {
	files := []packed{
		{"jdk/bin/java", "#!/bin/sh\necho 'openjdk version \"21.0.9\"' >&2\n", 0o755},
		{"jdk/legal/one", "a license", 0o444},
		{"jdk/legal/two", "one", 0o777 | fs.ModeSymlink},
	}
	for file, archive := range map[string][]byte{"jre.tar.gz": pack(t, files...), "jre.zip": packZip(t, files[:2]...)} {
		t.Run(file, func(t *testing.T) {
			home := emptyMachine(t)
			d := api(t, "jdk-21.0.9+10", file, archive)
			for range 2 { // two processes may download it at once
				java, err := d.java(t.Context(), 21, "")
				want := javaRuntime{filepath.Join(home, ".cache/firebase/emulators/temurin-jdk-21.0.9+10/bin/java"), 21}
				if err != nil || java != want {
					t.Fatalf("got %v, %v, want %v", java, err, want)
				}
			}

			dir := filepath.Join(home, ".cache/firebase/emulators")
			if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
				t.Errorf("the cache holds %v, %v", left, err)
			}
			if file == "jre.zip" {
				return
			}
			license, err := os.ReadFile(filepath.Join(dir, "temurin-jdk-21.0.9+10/legal/two"))
			if err != nil || string(license) != "a license" {
				t.Errorf("through a link: %q, %v", license, err)
			}
		})
	}
}

// packZip returns a zip archive.
func packZip(t *testing.T, files ...packed) []byte {
	t.Helper()
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	if _, err := w.Create("jdk/"); err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		header := &zip.FileHeader{Name: f.name}
		header.SetMode(f.mode)
		content, err := w.CreateHeader(header)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(content, f.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return archive.Bytes()
}

// An answer that holds no Java for this machine ends with the remedy of today, and leaves nothing.
func TestNoDownloadedJava(t *testing.T) {
	answers := func(status int, body string) *Downloads {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, strings.ReplaceAll(body, "$HERE", "http://"+r.Host))
		}))
		t.Cleanup(server.Close)
		return &Downloads{report: wantProgress(t), adoptium: server.URL, archives: server.URL + "/"}
	}
	offer := func(link string, size int64) string {
		return fmt.Sprintf(`[{"binary": {"package": {"link": %q, "size": %d, "checksum": "00"}}, "release_name": "jdk"}]`, link, size)
	}
	java := packed{"jdk/bin/java", "#!/bin/sh\nexit 1\n", 0o755}
	for name, test := range map[string]struct {
		downloads *Downloads
		want      string
	}{
		"no such platform":     {answers(404, `{"errorMessage": "No releases"}`), "the server answered 404 Not Found"},
		"an empty list":        {answers(200, `[]`), "there is none for " + runtime.GOOS + " on " + runtime.GOARCH},
		"no list":              {answers(200, `<html>`), "could not read the answer: invalid character"},
		"no name":              {answers(200, `[{}]`), `the answer names the release "", which is no file name`},
		"a path as a name":     {api(t, "../jdk", "jre.tar.gz", pack(t, java)), `the release "../jdk", which is no file name`},
		"another host":         {answers(200, offer("https://evil.example/adoptium/jre.tar.gz", 1)), "names the archive \"https://evil.example/adoptium/jre.tar.gz\", which is not below http://127.0.0.1:"},
		"the next folder":      {answers(200, offer("$HERE/../evil/jre.tar.gz", 1)), "which is not below"},
		"a folder in escapes":  {answers(200, offer("$HERE/%2e%2e/evil/jre.tar.gz", 1)), "which is not below"},
		"no end":               {answers(200, offer("$HERE/jre.tar.gz", 1<<60)), "the answer names an archive of 1152921504606846976 bytes; want at most 524288000"},
		"no archive":           {api(t, "jdk", "jre.tar.gz", []byte("text")), "could not unpack it: unexpected EOF"},
		"an archive that ends": {api(t, "jdk", "jre.tar.gz", pack(t, java)[:60]), "could not unpack it: unexpected EOF"},
		"no Java in it":        {api(t, "jdk", "jre.tar.gz", pack(t, packed{"jdk/readme", "text", 0o644})), "jre.tar.gz holds no Java"},
		"a way out":            {api(t, "jdk", "jre.tar.gz", pack(t, packed{"jdk/../../../evil", "text", 0o644})), "could not unpack it: "},
		"a Java that fails":    {api(t, "jdk", "jre.tar.gz", pack(t, java)), "bin/java -version: exit status 1"},
	} {
		t.Run(name, func(t *testing.T) {
			home := emptyMachine(t)
			_, err := Start(t.Context(), Options{Downloads: test.downloads})
			wantError(t, err, "emulator: could not download Java 21 from "+test.downloads.adoptium, test.want, "openjdk-21-jre-headless")
			if name != "no Java in it" && name != "a Java that fails" {
				wantEmpty(t, filepath.Join(home, ".cache/firebase/emulators"))
			}
			if _, err := os.Stat(filepath.Join(home, ".cache/evil")); err == nil {
				t.Error("a file was written outside of the folder")
			}
		})
	}
}

// A Java that is too old is named, by the download that takes its place and if that fails.
func TestDownloadsNameAnOldJava(t *testing.T) {
	home := emptyMachine(t)
	fakeTool(t, home, "java", `echo 'openjdk version "11.0.2" 2024-01-16' >&2`)
	d := api(t, "jdk", "jre.tar.gz", []byte("text"))
	var what string
	d.report = func(download string, _ int64) (func(int64), func()) {
		what = download
		return func(int64) {}, func() {}
	}
	_, err := Start(t.Context(), Options{Downloads: d})
	old := filepath.Join(home, "bin", "java") + " is Java 11"
	wantError(t, err, "emulator: could not download Java 21 from ", "could not unpack it", old)
	if want := "Java 21 (Eclipse Temurin), because " + old; what != want {
		t.Errorf("the download is called %q, want %q", what, want)
	}
}

// A download of Java that is interrupted says so, and leaves nothing.
func TestDownloadOfJavaCancelled(t *testing.T) {
	home := emptyMachine(t)
	noise := make([]byte, 10_000_000) // it does not compress
	_, _ = rand.Read(noise)
	d := api(t, "jdk", "jre.tar.gz", pack(t, packed{"jdk/bin/java", string(noise), 0o755}))
	ctx, cancel := context.WithCancel(t.Context())
	d.report = func(string, int64) (func(int64), func()) { return func(int64) { cancel() }, func() {} }
	_, err := Start(ctx, Options{Downloads: d})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error is not context.Canceled: %v", err)
	}
	wantEmpty(t, filepath.Join(home, ".cache/firebase/emulators"))
}
