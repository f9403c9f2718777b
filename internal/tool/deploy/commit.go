package deploy

import (
	"bufio"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/mod/semver"
)

// A gitFolder is the folder .git of a repository, which may be somebody else's. It is read without
// git, because git runs programs that the folder's configuration names: hooks, filters and monitors
// of files. Nothing outside of the folder is read.
type gitFolder struct{ root *os.Root }

// maxGitFile is the most bytes of a file that is read. A list of some 10,000 tags has as much.
const maxGitFile = 1 << 20

var (
	gitHash = regexp.MustCompile(`^[0-9a-f]{40}([0-9a-f]{24})?$`)

	// https://git-scm.com/book/en/v2/Git-Internals-Git-References#_tags
	annotatedTag = regexp.MustCompile(`^tag [0-9]+\x00object ([0-9a-f]+)\ntype commit\n`)
)

// commitVersion returns the greatest version among the tags of the commit that is checked out in a
// folder, or else the first digits of the commit's hash. It returns "" if the folder itself is no
// repository, or one of another form, such as a work tree. Changes that are not committed do not
// show.
func commitVersion(folder string) string {
	path := filepath.Join(folder, ".git")
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() {
		return ""
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return ""
	}
	defer root.Close()

	g := gitFolder{root}
	packed, peeled := g.packedRefs()
	commit, err := g.head(packed)
	if err != nil {
		return ""
	}
	version := g.tagOf(commit, packed, peeled)
	if version == "" {
		return commit[:12]
	}
	return version
}

// head returns the hash of the commit that is checked out.
func (g gitFolder) head(packed map[string]string) (string, error) {
	text, err := g.read("HEAD")
	if err != nil {
		return "", err
	}

	ref, isBranch := strings.CutPrefix(text, "ref: ")
	if isBranch {
		if !strings.HasPrefix(ref, "refs/") || !fs.ValidPath(ref) {
			return "", fmt.Errorf("HEAD names %q, which is no branch", ref)
		}
		text, err = g.read(ref)
		if errors.Is(err, fs.ErrNotExist) {
			text, err = packed[ref], nil
		}
	}
	if err != nil {
		return "", err
	}

	if !gitHash.MatchString(text) {
		return "", errors.New("HEAD names no commit")
	}
	return text, nil
}

// packedRefs returns the hashes in the file packed-refs by ref. peeled has those of the commits
// that annotated tags name.
func (g gitFolder) packedRefs() (packed, peeled map[string]string) {
	packed, peeled = make(map[string]string), make(map[string]string)
	text, err := g.read("packed-refs")
	if err != nil {
		return packed, peeled // most repositories of one's own have none
	}

	last := ""
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		commit, isPeeled := strings.CutPrefix(lines.Text(), "^")
		if isPeeled {
			peeled[last] = commit
			continue
		}
		hash, ref, _ := strings.Cut(lines.Text(), " ")
		packed[ref] = hash
		last = ref
	}
	return packed, peeled
}

// tagOf returns the greatest version among a commit's tags, "" if it has none. It does not find a
// tag whose own object was packed while its ref was not, as after a fetch of many tags.
func (g gitFolder) tagOf(commit string, packed, peeled map[string]string) string {
	const tags = "refs/tags/"
	hashes := maps.Clone(packed)
	loose, err := fs.ReadDir(g.root.FS(), strings.TrimSuffix(tags, "/"))
	if err != nil {
		loose = nil // none was made here
	}
	for _, tag := range loose {
		hash, err := g.read(tags + tag.Name())
		if err == nil {
			hashes[tags+tag.Name()] = hash
			delete(peeled, tags+tag.Name())
		}
	}

	greatest := ""
	for ref, hash := range hashes {
		version, isTag := strings.CutPrefix(ref, tags)
		if !isTag || !semver.IsValid(version) || semver.Compare(version, greatest) <= 0 {
			continue
		}
		if hash == commit || peeled[ref] == commit || g.annotated(hash) == commit {
			greatest = version
		}
	}
	return greatest
}

// annotated returns the commit that an annotated tag names, "" if the hash is of no such tag.
func (g gitFolder) annotated(hash string) string {
	if !gitHash.MatchString(hash) {
		return ""
	}
	data, err := g.read("objects/" + hash[:2] + "/" + hash[2:])
	if err != nil {
		return ""
	}
	unpacked, err := zlib.NewReader(strings.NewReader(data))
	if err != nil {
		return ""
	}

	begin := make([]byte, 200) // of a tag; its message may be long
	n, err := io.ReadFull(unpacked, begin)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return ""
	}
	found := annotatedTag.FindSubmatch(begin[:n])
	if found == nil {
		return ""
	}
	return string(found[1])
}

// read returns a regular file of the folder without the line's end at its end.
func (g gitFolder) read(name string) (string, error) {
	info, err := g.root.Stat(name) // before it is opened: opening a pipe would wait
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > maxGitFile {
		return "", fmt.Errorf("%s is no regular file of at most %d KB", name, maxGitFile>>10)
	}

	text, err := g.root.ReadFile(name)
	return strings.TrimSuffix(string(text), "\n"), err
}
