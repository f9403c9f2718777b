//go:build unix

package emulator

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// emptyMachine takes away all that Start looks for: it leaves a home directory with nothing in it,
// and nothing on PATH.
func emptyMachine(t *testing.T) (home string) {
	t.Helper()
	home = t.TempDir()
	for name, value := range map[string]string{
		"HOME":                    home,
		"USERPROFILE":             home,
		"PATH":                    filepath.Join(home, "bin"),
		"JAVA_HOME":               "",
		"CLOUDSDK_ROOT_DIR":       "",
		"FIREBASE_EMULATORS_PATH": "",
		pathVariable:              "",
	} {
		t.Setenv(name, value)
	}
	return home
}

// fakeTool puts a shell script on PATH, which must be below home.
func fakeTool(t *testing.T, home, name, script string) (path string) {
	t.Helper()
	path = filepath.Join(home, "bin", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\nPATH=/usr/bin:/bin\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// fakeJava leaves on the machine only a Java of some version, which runs the script as any program,
// and an emulator for that Java.
func fakeJava(t *testing.T, version int, script string) (home string) {
	t.Helper()
	home = emptyMachine(t)
	fakeTool(t, home, "java", fmt.Sprintf(`[ "$1" != -version ] || { echo 'openjdk version "%d.0.2" 2022-01-18' >&2; exit 0; }
case "$*" in *ArchiveClassesAtExit*) exit 1; esac
%s`, version, script))
	t.Setenv(pathVariable, writeFileAt(t, filepath.Join(home, "emulator.jar"), ""))
	return home
}

func TestNoJava(t *testing.T) {
	emptyMachine(t)
	_, err := Start(t.Context(), Options{})
	wantError(t, err, "emulator: no Java")
	wantError(t, err, "openjdk-21-jre-headless", "openjdk@21", "https://adoptium.net")
}

// macOS has a java on PATH that only tells how to install one.
func TestJavaThatDoesNotRun(t *testing.T) {
	fakeTool(t, emptyMachine(t), "java", `echo 'Unable to locate a Java Runtime.' >&2; exit 1`)
	_, err := Start(t.Context(), Options{})
	wantError(t, err, "emulator: no Java")
	wantError(t, err, "Unable to locate")
}

func TestFindJava(t *testing.T) {
	home := emptyMachine(t)
	anyJar := writeFileAt(t, filepath.Join(home, "any.jar"), "")
	onPath := fakeTool(t, home, "java", `echo 'java version "1.8.0_292"' >&2`)
	javaHome := filepath.Join(home, "jdk")
	inHome := fakeTool(t, javaHome, "java", `echo 'Picked up JAVA_TOOL_OPTIONS: -Dx' >&2; echo 'openjdk version "25-ea" 2025-09-16' >&2`)
	check := func(what string, want javaRuntime) {
		t.Helper()
		got, err := findJava(t.Context(), anyJar)
		if err != nil || got != want {
			t.Errorf("%s: got %v, %v, want %v", what, got, err, want)
		}
	}
	check("PATH", javaRuntime{onPath, 8})
	t.Setenv("JAVA_HOME", javaHome)
	check("JAVA_HOME", javaRuntime{inHome, 25})
	t.Setenv("JAVA_HOME", filepath.Join(home, "gone"))
	check("JAVA_HOME without a Java", javaRuntime{onPath, 8})

	// What is too old for the emulator is passed over. The newest of those downloaded comes last.
	downloaded := fakeTool(t, filepath.Join(home, ".cache/firebase/emulators/temurin-jdk-21.0.10+7"), "java", `echo 'openjdk version "21.0.10"' >&2`)
	fakeTool(t, filepath.Join(home, ".cache/firebase/emulators/temurin-jdk-21.0.9+10"), "java", `echo 'openjdk version "21.0.9"' >&2`)
	writeFileAt(t, filepath.Join(home, ".cache/firebase/emulators/temurin-jdk-21.0.11+1.12.part"), "")
	check("none that is newer", javaRuntime{onPath, 8})
	anyJar = writeJar(t, filepath.Join(home, "new.jar"), 65)
	check("one that was downloaded", javaRuntime{downloaded, 21})

	fakeTool(t, home, "java", `echo 'a strange program'`)
	fakeTool(t, filepath.Join(home, ".cache/firebase/emulators/temurin-jdk-21.0.10+7"), "java", `echo 'Exec format error' >&2; exit 1`)
	_, err := findJava(t.Context(), anyJar)
	wantError(t, err, "names no version")
	wantError(t, err, "Exec format error")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Start(ctx, Options{}); !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "no Java") {
		t.Errorf("with a canceled context: %v", err)
	}
}

func TestNoEmulator(t *testing.T) {
	home := fakeJava(t, 21, `echo "$@"; exit 1`)
	t.Setenv(pathVariable, "")
	_, err := Start(t.Context(), Options{})
	wantError(t, err, "emulator: no Firestore emulator on this machine")
	wantError(t, err, "gcloud components install", "apt-get install", "firebase setup:emulators:firestore", pathVariable)

	d := offer(t, "a jar")
	jar := filepath.Join(home, ".cache/firebase/emulators/cloud-firestore-emulator-v9.8.7.jar")
	for range 2 { // once it is downloaded, it is found
		_, err = Start(t.Context(), Options{Downloads: d})
		wantError(t, err, "-cp "+jar+" "+mainClass+" --host=127.0.0.1 --port=")
		d = nil
	}
}

func TestFindJar(t *testing.T) {
	home := emptyMachine(t)
	check := func(what, want string) {
		t.Helper()
		got, err := findJar(t.Context())
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%s: %q, %v, want %q", what, got, err, want)
		}
	}
	check("nothing", "")

	firebase := filepath.Join(home, ".cache/firebase/emulators")
	fb9 := writeFileAt(t, filepath.Join(firebase, "cloud-firestore-emulator-v1.9.10.jar"), "")
	fb20 := writeFileAt(t, filepath.Join(firebase, "cloud-firestore-emulator-v1.20.4.jar"), "")
	writeFileAt(t, filepath.Join(firebase, "firebase-database-emulator-v4.11.2.jar"), "")
	writeFileAt(t, filepath.Join(firebase, "cloud-firestore-emulator-v1.23.0.jar.123.part"), "")
	check("Firebase's cache, newest first", fb20)

	elsewhere := filepath.Join(home, "elsewhere")
	fb21 := writeFileAt(t, filepath.Join(elsewhere, "cloud-firestore-emulator-v1.21.0.jar"), "")
	t.Setenv("FIREBASE_EMULATORS_PATH", elsewhere)
	check("Firebase's cache elsewhere", fb21)
	t.Setenv("FIREBASE_EMULATORS_PATH", "")

	sdk := filepath.Join(home, "google-cloud-sdk")
	component := "platform/cloud-firestore-emulator/cloud-firestore-emulator.jar"
	writeFileAt(t, filepath.Join(sdk, "lib/gcloud.py"), "")
	fakeTool(t, sdk, "gcloud", "exit 1")
	gcloud := filepath.Join(home, "bin", "gcloud")
	if err := errors.Join(os.MkdirAll(filepath.Dir(gcloud), 0o755), os.Symlink(filepath.Join(sdk, "bin", "gcloud"), gcloud)); err != nil {
		t.Fatal(err)
	}
	check("Cloud CLI without the component", fb20)
	sdkJar := writeFileAt(t, filepath.Join(sdk, component), "")
	check("Cloud CLI, by link", resolved(t, sdkJar))

	if err := os.Remove(gcloud); err != nil {
		t.Fatal(err)
	}
	fakeTool(t, home, "gcloud", `echo Updates are available. >&2; [ "$*" = "info --format=value(installation.sdk_root)" ] && echo '`+sdk+`'`)
	check("Cloud CLI, by script", sdkJar)
	fakeTool(t, home, "gcloud", "echo No Python. >&2; exit 1")
	check("Cloud CLI that does not run", fb20)
	t.Setenv("CLOUDSDK_ROOT_DIR", sdk)
	check("Cloud CLI, by variable", sdkJar)

	t.Setenv(pathVariable, fb9)
	check("named", fb9)
	t.Setenv(pathVariable, filepath.Join(home, "gone.jar"))
	_, err := findJar(t.Context())
	wantError(t, err, pathVariable, "gone.jar")
}

// A jar that the machine's real Java cannot run, or that is no emulator, is named.
func TestUnusableJars(t *testing.T) {
	needJava(t)
	cache := t.TempDir()
	t.Setenv(pathVariable, writeJar(t, filepath.Join(cache, "cloud-firestore-emulator-v3.0.0.jar"), 143))
	_, err := Start(t.Context(), Options{})
	wantError(t, err, "v3.0.0.jar needs Java 99, but", "openjdk-99-jre-headless")

	t.Setenv(pathVariable, writeFileAt(t, filepath.Join(cache, "cloud-firestore-emulator-v2.0.0.jar"), "not a zip file"))
	_, err = Start(t.Context(), Options{})
	wantError(t, err, "v2.0.0.jar is not a Firestore emulator")
}

// writeJar writes a jar whose emulator is a class file of some major version.
func writeJar(t *testing.T, path string, major byte) string {
	t.Helper()
	var jar bytes.Buffer
	z := zip.NewWriter(&jar)
	w, err := z.Create(strings.ReplaceAll(mainClass, ".", "/") + ".class")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte{0xCA, 0xFE, 0xBA, 0xBE, 0, 0, 0, major}); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return writeFileAt(t, path, jar.String())
}

func writeFileAt(t *testing.T, path, content string) string {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o600)); err != nil {
		t.Fatal(err)
	}
	return path
}

// resolved returns path without symbolic links: on macOS the temporary directory is behind one.
func resolved(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Find tells what is wrong with the Java and with the emulator, each by itself, before anything is
// started.
func TestFind(t *testing.T) {
	home := emptyMachine(t)
	java, jar := Find(t.Context())
	if java == nil || !errors.Is(jar, errNoJar) {
		t.Errorf("nothing: %v, %v", java, jar)
	}

	fakeTool(t, home, "java", `echo 'openjdk version "17.0.2" 2024-01-16' >&2`)
	java, jar = Find(t.Context())
	wantError(t, java, "Google's Firestore emulator 1.22.0 needs Java 21, but "+filepath.Join(home, "bin", "java")+" is Java 17")
	if !errors.Is(jar, errNoJar) {
		t.Errorf("only an old Java: %v", jar)
	}

	fakeTool(t, home, "java", `echo 'openjdk version "21.0.2" 2024-01-16' >&2`)
	if java, jar := Find(t.Context()); java != nil || !errors.Is(jar, errNoJar) {
		t.Errorf("only Java: %v, %v", java, jar)
	}

	for _, test := range []struct {
		major byte // of the class file
		want  string
	}{
		{65, ""}, {55, ""}, {66, "old.jar needs Java 22, but " + filepath.Join(home, "bin", "java") + " is Java 21"},
	} {
		t.Setenv(pathVariable, writeJar(t, filepath.Join(home, "old.jar"), test.major))
		java, jar := Find(t.Context())
		if jar != nil || (java == nil) != (test.want == "") || java != nil && !strings.HasSuffix(java.Error(), test.want) {
			t.Errorf("class version %d: %v, %v; want %q", test.major, java, jar, test.want)
		}
	}

	t.Setenv(pathVariable, writeFileAt(t, filepath.Join(home, "none.jar"), "not a zip file"))
	if java, jar := Find(t.Context()); java != nil || jar != nil {
		t.Errorf("a jar that does not tell: %v, %v", java, jar)
	}
}
