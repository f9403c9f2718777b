package emulator

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/firestore-tally/tally/internal/tool/local/freeport"
)

// archiving bounds the making of an archive of classes, which takes two seconds on idle cores.
const archiving = time.Minute

// noArchive has Java take classes from its own archive, which it does anyway.
const noArchive = "-Xshare:auto"

// classes returns the option by which Java takes the emulator's classes from an archive, as it has
// read and checked them before. A start takes half the processor time so: 0.6 s instead of 1.1
// (measured). classes makes the archive if there is none of this Java and this jar, because Java
// uses it for no others. It returns noArchive where it can't.
func classes(ctx context.Context, java javaRuntime, jar string) (option string) {
	dir, err := cacheDir()
	if err != nil {
		return noArchive
	}
	same := sha256.New()
	for _, path := range []string{java.path, jar} {
		info, err := os.Stat(path)
		if err != nil {
			return noArchive
		}
		fmt.Fprintln(same, path, info.Size(), info.ModTime().UnixNano())
	}

	archive := filepath.Join(dir, fmt.Sprintf("%s%x.jsa", archivePrefix, same.Sum(nil)[:8]))
	if !isFile(archive) {
		err = archiveClasses(ctx, java, jar, archive)
		if err != nil {
			return noArchive
		}
	}
	return "-XX:SharedArchiveFile=" + archive
}

// archivePrefix begins the names of archives.
const archivePrefix = "tally-classes-"

// archiveClasses makes the archive, in place of those of other Javas and other jars. Java writes it
// when a program ends by itself. So archiveClasses starts an emulator at a port that is taken: the
// emulator ends when it has loaded its classes. Other processes may do the same meanwhile.
func archiveClasses(ctx context.Context, java javaRuntime, jar, archive string) error {
	taken, err := net.Listen("tcp", freeport.HostPort(0))
	if err != nil {
		return err
	}
	defer taken.Close()

	err = os.MkdirAll(filepath.Dir(archive), 0o755)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(filepath.Dir(archive), archivePrefix)
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()

	made := filepath.Join(dir, "made")
	port := taken.Addr().(*net.TCPAddr).Port
	p, err := startProcess(io.Discard, java.path, arguments("-XX:ArchiveClassesAtExit="+made, jar, port, Options{})...)
	if err != nil {
		return err
	}
	select {
	case <-p.done:
	case <-time.After(archiving):
	case <-ctx.Done():
	}
	_ = p.stop() // it has ended mostly, because its port is taken

	old, _ := filepath.Glob(filepath.Join(filepath.Dir(archive), archivePrefix+"*.jsa")) // the pattern is well-formed
	err = os.Rename(made, archive)
	if err != nil {
		return err
	}
	for _, path := range old {
		if path != archive {
			_ = os.Remove(path)
		}
	}
	return nil
}
