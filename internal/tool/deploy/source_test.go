package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A gitRepository is made by git itself.
type gitRepository struct {
	*testing.T
	folder string
}

func newGitRepository(t *testing.T) gitRepository {
	t.Helper()
	if testing.Short() {
		t.Skip("needs git")
	}
	r := gitRepository{t, t.TempDir()}
	r.git("init", "--quiet", "--initial-branch=main")
	return r
}

// git runs a command of git's in the repository, and returns what it printed.
func (r gitRepository) git(args ...string) string {
	r.Helper()
	cmd := exec.CommandContext(r.Context(), "git", append([]string{"-C", r.folder, "-c", "user.name=me", "-c", "user.email=me@example.com"}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.Fatalf("git %s: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (r gitRepository) put(name, text string) string {
	r.Helper()
	file := filepath.Join(r.folder, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		r.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o700); err != nil {
		r.Fatal(err)
	}
	return file
}

// commit commits another version of a file, and returns the commit's short hash.
func (r gitRepository) commit(text string) string {
	r.Helper()
	r.put("file", text)
	r.git("add", ".")
	r.git("commit", "--quiet", "--message="+text)
	return r.git("rev-parse", "HEAD")[:12]
}

func (r gitRepository) want(what, want string) {
	r.Helper()
	if got := version(r.folder); got != want {
		r.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// A folder's version is that of Go's module cache, or of the commit that is checked out if the
// folder is a repository's own.
func TestVersion(t *testing.T) {
	if got := version("/go/pkg/mod/github.com/firestore-tally/tally@v1.2.3"); got != "v1.2.3" {
		t.Errorf("in the module cache: %q", got)
	}
	if got := version(t.TempDir()); got != "" {
		t.Errorf("no repository: %q", got)
	}

	r := newGitRepository(t)
	r.want("no commit", "")
	first := r.commit("first")
	r.want("no tag", first)
	r.git("tag", "release")
	r.want("a tag that is no version", first)
	r.git("tag", "v0.9.0")
	r.git("tag", "--annotate", "v0.10.0", "--message=ten")
	r.git("tag", "--annotate", "v0.10.0-rc.1", "--message=candidate")
	r.git("tag", "v1.0.0", r.git("rev-parse", "HEAD^{tree}"))
	r.want("the greatest version", "v0.10.0")
	r.git("pack-refs", "--all")
	r.want("packed", "v0.10.0")

	second := r.commit("second")
	r.want("a commit without a tag", second)
	r.git("checkout", "--quiet", "v0.10.0")
	r.want("a commit and no branch", "v0.10.0")
	r.git("gc", "--quiet")
	r.want("packed objects", "v0.10.0")
	r.git("checkout", "--quiet", "-b", "feature/x", second)
	r.want("a branch in a folder", second)

	below := filepath.Join(r.folder, "below")
	if err := os.Mkdir(below, 0o700); err != nil {
		t.Fatal(err)
	}
	if got := version(below); got != "" {
		t.Errorf("a folder in the repository: %q, want none", got)
	}
}

// The folder may be somebody else's. Nothing that its .git names is run, and git is not.
func TestVersionRunsNothing(t *testing.T) {
	r := newGitRepository(t)
	first := r.commit("first")

	ran := filepath.Join(t.TempDir(), "ran")
	program := r.put(".git/program", "#!/bin/sh\necho \"$0 $*\" >>"+ran+"\ncat\n")
	hooks := filepath.Dir(r.put(".git/evil/post-index-change", "#!/bin/sh\necho hook >>"+ran+"\n"))
	for _, setting := range []string{
		"core.fsmonitor", "core.pager", "core.editor", "core.sshCommand", "core.gitProxy", "core.alternateRefsCommand", "diff.external",
		"filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "diff.evil.textconv", "uploadpack.packObjectsHook", "pager.describe",
	} {
		r.git("config", setting, program)
	}
	r.git("config", "core.hooksPath", hooks)
	r.git("config", "alias.describe", "!"+program)
	r.put(".git/info/attributes", "* filter=evil diff=evil\n")
	r.put("file", "other")

	if got := version(r.folder); got != first {
		t.Errorf("got %q, want %q", got, first)
	}
	if programs, err := os.ReadFile(ran); err == nil {
		t.Errorf("the repository had these run:\n%s", programs)
	}
}

// What is no repository of git's usual form has no version, and is not followed out of its folder.
func TestVersionOfOddRepositories(t *testing.T) {
	other := newGitRepository(t)
	hash := other.git("rev-parse", "--verify", "--quiet", other.commit("first"))
	for what, files := range map[string]map[string]string{
		"an empty HEAD":         {"HEAD": ""},
		"no hash":               {"HEAD": "v1.2.3\n"},
		"a short hash":          {"HEAD": hash[:12] + "\n"},
		"a ref above":           {"HEAD": "ref: ../../x\n", "../x": hash},
		"a ref that is no ref":  {"HEAD": "ref: x\n", "x": hash},
		"a ref to a ref":        {"HEAD": "ref: refs/heads/a\n", "refs/heads/a": "ref: refs/heads/b\n", "refs/heads/b": hash},
		"a HEAD without an end": {"HEAD": hash + "\n" + strings.Repeat("x", maxGitFile)},
	} {
		r := gitRepository{t, t.TempDir()}
		for name, text := range files {
			r.put(filepath.Join(".git", name), text)
		}
		r.want(what, "")
	}

	r := gitRepository{t, t.TempDir()}
	if err := os.Symlink(filepath.Join(other.folder, ".git"), filepath.Join(r.folder, ".git")); err != nil {
		t.Fatal(err)
	}
	r.want("a link to another repository", "")

	r = gitRepository{t, t.TempDir()}
	r.put(".git/refs/tags/v6.6.6", hash)
	if err := os.Symlink(filepath.Join(other.folder, ".git", "HEAD"), filepath.Join(r.folder, ".git", "HEAD")); err != nil {
		t.Fatal(err)
	}
	r.want("a link to another HEAD", "")

	r = gitRepository{t, t.TempDir()}
	r.put(".git/HEAD", hash)
	r.put(".git/refs/tags/v1\n\x1b[2J", hash)
	r.put(".git/packed-refs", hash+" refs/tags/\x1b[2J\n")
	r.want("tags that are no versions", hash[:12])
}
