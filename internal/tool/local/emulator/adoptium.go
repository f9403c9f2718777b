package emulator

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// adoptium is the address of the API that offers Eclipse's builds of Java, which are called
// Temurin:
// https://api.adoptium.net/q/swagger-ui.
const adoptium = "https://api.adoptium.net"

// archives is where that API's archives are: the releases of Temurin's own repositories.
const archives = "https://github.com/adoptium/"

// largestJava is the most bytes that an archive may have; those of today have 50 MB.
const largestJava = 500 << 20

// runtimePrefix begins the names of the folders in the cache that hold a Java. The Firebase CLI
// leaves them alone, because none of its own files begins so.
const runtimePrefix = "temurin-"

// java fetches the newest Temurin of a version of Java, as a runtime without a compiler. old names
// the Java of this machine that is too old, if there is one.
func (d *Downloads) java(ctx context.Context, version int, old string) (javaRuntime, error) {
	java, err := d.temurin(ctx, version, old)
	if err != nil && old != "" {
		err = fmt.Errorf("%w, and %s", err, old)
	}
	if err != nil {
		return javaRuntime{}, withRemedy(ctx, fmt.Sprintf("Java %d from %s", version, d.adoptium), err, installJava(version))
	}
	return java, nil
}

// temurin does the work of java.
func (d *Downloads) temurin(ctx context.Context, version int, old string) (javaRuntime, error) {
	dir, err := cacheDir()
	if err != nil {
		return javaRuntime{}, err
	}
	offered, err := d.newestRuntime(ctx, version)
	if err != nil {
		return javaRuntime{}, err
	}

	home := filepath.Join(dir, runtimePrefix+offered.version)
	place := func(file, path string) error { return unpack(file, path, strings.HasSuffix(offered.url, ".zip")) }
	what := fmt.Sprintf("Java %d (Eclipse Temurin)", version)
	if old != "" {
		what += ", because " + old
	}
	err = d.fetch(ctx, what, offered, home, place)
	if err != nil {
		return javaRuntime{}, err
	}

	program := javaIn(home)
	if program == "" {
		return javaRuntime{}, fmt.Errorf("%s holds no Java", offered.url)
	}
	return askJava(ctx, program)
}

// newestRuntime returns the newest runtime for this machine that Adoptium's API offers.
func (d *Downloads) newestRuntime(ctx context.Context, version int) (release, error) {
	query := url.Values{
		"architecture": {architecture(runtime.GOARCH)},
		"image_type":   {"jre"},
		"os":           {operatingSystem(runtime.GOOS)},
		"vendor":       {"eclipse"},
	}
	resp, err := get(ctx, d.adoptium+"/v3/assets/latest/"+strconv.Itoa(version)+"/hotspot?"+query.Encode())
	if err != nil {
		return release{}, err
	}
	defer resp.Body.Close()

	var offers []struct {
		Binary struct {
			Package struct {
				Link     string `json:"link"`
				Size     int64  `json:"size"` // bytes
				Checksum string `json:"checksum"`
			} `json:"package"`
		} `json:"binary"`
		Name string `json:"release_name"` // such as jdk-21.0.5+11
	}
	err = json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&offers)
	if err != nil {
		return release{}, fmt.Errorf("could not read the answer: %w", err)
	}
	if len(offers) == 0 {
		return release{}, fmt.Errorf("there is none for %s on %s", runtime.GOOS, runtime.GOARCH)
	}

	first := offers[0]
	if !filepath.IsLocal(first.Name) || strings.ContainsAny(first.Name, `/\`) {
		return release{}, fmt.Errorf("the answer names the release %q, which is no file name", first.Name)
	}
	file := first.Binary.Package
	switch {
	case !isBelow(file.Link, d.archives):
		return release{}, fmt.Errorf("the answer names the archive %q, which is not below %s", file.Link, d.archives)
	case file.Size > largestJava:
		return release{}, fmt.Errorf("the answer names an archive of %d bytes; want at most %d", file.Size, largestJava)
	}
	return release{version: first.Name, url: file.Link, size: file.Size, sha256: file.Checksum}, nil
}

// isBelow reports whether an address is one of a folder, whose address ends in a slash.
func isBelow(address, folder string) bool {
	u, err := url.Parse(address)
	return err == nil && strings.HasPrefix(address, folder) && path.Clean(u.Path) == u.Path
}

// architecture returns Adoptium's name of a processor.
func architecture(goarch string) string {
	switch goarch {
	case "amd64":
		return "x64"
	case "arm64":
		return "aarch64"
	default:
		return goarch
	}
}

// operatingSystem returns Adoptium's name of a system. Alpine Linux has a C library of its own.
func operatingSystem(goos string) string {
	switch {
	case goos == "darwin":
		return "mac"
	case goos == "linux" && isFile("/etc/alpine-release"):
		return "alpine-linux"
	default:
		return goos
	}
}

// javaPlaces are where a runtime has its program: on Unix, on Windows, on macOS.
var javaPlaces = []string{"bin/java", "bin/java.exe", "Contents/Home/bin/java"}

// newestJava returns the program of the newest Java that was downloaded into a directory, "" if
// there is none.
func newestJava(dir string) string {
	for _, place := range javaPlaces {
		program := newest(filepath.Join(dir, runtimePrefix+"*", filepath.FromSlash(place)))
		if program != "" {
			return program
		}
	}
	return ""
}

// javaIn returns the program of a Java in a folder, "" if there is none.
func javaIn(home string) string {
	for _, place := range javaPlaces {
		program := filepath.Join(home, filepath.FromSlash(place))
		if isFile(program) {
			return program
		}
	}
	return ""
}

// unpack makes a folder of an archive, which holds one folder with all of its files. The new folder
// appears only whole. Nothing is written outside of it.
func unpack(archive, folder string, zipped bool) error {
	part, err := os.MkdirTemp(filepath.Dir(folder), "unpacking-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(part) }() // no such folder any more once it is renamed

	into, err := os.OpenRoot(part)
	if err != nil {
		return err
	}
	defer into.Close()

	if zipped {
		err = unzip(archive, into)
	} else {
		err = untar(archive, into)
	}
	if err != nil {
		return fmt.Errorf("could not unpack it: %w", err)
	}

	err = os.Rename(part, folder)
	if errors.Is(err, fs.ErrExist) && javaIn(folder) != "" {
		return nil // another process was faster
	}
	return err
}

// unzip writes the files of a zip archive, as Adoptium packs Java for Windows.
func unzip(archive string, into *os.Root) error {
	z, err := zip.OpenReader(archive)
	if err != nil {
		return err
	}
	defer z.Close()

	for _, file := range z.File {
		if file.FileInfo().IsDir() {
			continue
		}
		content, err := file.Open()
		if err != nil {
			return err
		}
		err = errors.Join(write(into, pathInside(file.Name), file.Mode(), content), content.Close())
		if err != nil {
			return err
		}
	}
	return nil
}

// untar writes the files and links of a compressed tar archive, as Adoptium packs Java for Unix.
func untar(archive string, into *os.Root) error {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		return err
	}

	for files := tar.NewReader(unzipped); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}

		name := pathInside(header.Name)
		switch header.Typeflag {
		case tar.TypeReg:
			err = write(into, name, header.FileInfo().Mode(), files)
		case tar.TypeSymlink: // a license that several modules share
			err = errors.Join(into.MkdirAll(path.Dir(name), 0o755), into.Symlink(header.Linkname, name))
		}
		if err != nil {
			return err
		}
	}
}

// pathInside returns the path of an archive's file below the one folder that the archive holds.
func pathInside(name string) string {
	_, rest, _ := strings.Cut(strings.TrimPrefix(name, "./"), "/")
	return rest
}

// write writes a file, and makes its folder.
func write(into *os.Root, name string, mode fs.FileMode, content io.Reader) error {
	err := into.MkdirAll(path.Dir(name), 0o755)
	if err != nil {
		return err
	}
	file, err := into.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode.Perm()|0o600)
	if err != nil {
		return err
	}

	_, err = io.Copy(file, content)
	return errors.Join(err, file.Close())
}
