package emulator

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
)

// mainClass is the emulator's entry point, for a jar whose manifest does not name it.
const mainClass = "com.google.cloud.datastore.emulator.firestore.CloudFirestore"

// A jarFile is an emulator on this machine.
type jarFile struct {
	path       string
	executable bool // java -jar starts it: the Firebase CLI's, not the Google Cloud CLI's
	java       int  // the oldest Java that can run it
}

// openJar finds out what it takes to run the emulator at path.
func openJar(path string) (jarFile, error) {
	z, err := zip.OpenReader(path)
	if err != nil {
		return jarFile{}, fmt.Errorf("emulator: %s: %w", path, err)
	}
	defer z.Close()
	class, executable := mainClass, false
	if name := manifestMainClass(&z.Reader); name != "" {
		class, executable = name, true
	}
	major, err := classMajor(&z.Reader, class)
	if err != nil {
		return jarFile{}, fmt.Errorf("emulator: %s is not a Firestore emulator: %w", path, err)
	}
	return jarFile{path, executable, javaOf(major)}, nil
}

// arguments returns what Java wants to start the emulator, to be followed by the emulator's own flags.
func (j jarFile) arguments() []string {
	if j.executable {
		return []string{"-jar", j.path}
	}
	return []string{"-cp", j.path, mainClass}
}

// manifestMainClass returns the class that the manifest names for java -jar, "" if none.
func manifestMainClass(z *zip.Reader) string {
	f, err := z.Open("META-INF/MANIFEST.MF")
	if err != nil {
		return "" // a jar without a manifest is a jar
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		return ""
	}
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	text = bytes.ReplaceAll(text, []byte("\n "), nil) // a line goes on in the next if that begins with a space
	main, _, _ := bytes.Cut(text, []byte("\n\n"))     // then follow sections about single files
	for line := range bytes.Lines(main) {
		if name, ok := bytes.CutPrefix(line, []byte("Main-Class:")); ok {
			return string(bytes.TrimSpace(name))
		}
	}
	return ""
}

// classMajor returns the major version of a class file: which Java it was compiled for.
func classMajor(z *zip.Reader, class string) (int, error) {
	f, err := z.Open(strings.ReplaceAll(class, ".", "/") + ".class")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var head struct {
		Magic        uint32
		Minor, Major uint16
	}
	if err := binary.Read(f, binary.BigEndian, &head); err != nil {
		return 0, fmt.Errorf("class %s: %w", class, err)
	}
	if head.Magic != 0xCAFEBABE {
		return 0, fmt.Errorf("class %s is not a class file", class)
	}
	return int(head.Major), nil
}

// javaOf returns the Java that first ran class files of a major version: 55 came with Java 11, 61 with 17, 65 with 21.
func javaOf(major int) int { return major - 44 }
