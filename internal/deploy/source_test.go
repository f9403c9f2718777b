package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A folder's version is that of Go's module cache, or of git if the folder is a repository's own.
// Nothing that such a repository names is run.
func TestVersion(t *testing.T) {
	if testing.Short() {
		t.Skip("needs git")
	}
	repository, ran := t.TempDir(), filepath.Join(t.TempDir(), "ran")
	git := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", repository, "-c", "user.name=me", "-c", "user.email=me@example.com"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v\n%s", args, err, out)
		}
	}
	put := func(name, text string) string {
		t.Helper()
		file := filepath.Join(repository, name)
		if err := os.WriteFile(file, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		return file
	}
	want := func(folder, want string) {
		t.Helper()
		if got := version(t.Context(), folder); got != want {
			t.Errorf("%s: got %q, want %q", folder, got, want)
		}
	}

	want("/go/pkg/mod/github.com/firestore-tally/tally@v1.2.3", "v1.2.3")
	want(repository, "")
	git("init", "--quiet")
	want(repository, "") // it has no commit
	monitor := put("monitor", "#!/bin/sh\ntouch "+ran+"\n")
	git("add", ".")
	git("commit", "--quiet", "--message=first")
	git("tag", "v0.1.0")
	git("config", "core.fsmonitor", monitor)
	want(repository, "v0.1.0")
	put("monitor", "changed")
	want(repository, "v0.1.0-dirty")
	if _, err := os.Stat(ran); err == nil {
		t.Error("the repository's monitor was run")
	}

	below := filepath.Join(repository, "below")
	if err := os.Mkdir(below, 0o700); err != nil {
		t.Fatal(err)
	}
	want(below, "")
}
