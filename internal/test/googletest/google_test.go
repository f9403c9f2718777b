package googletest

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cloud.google.com/go/iam/apiv1/iampb"
)

const project = "my-project"

// TestCommands runs the commands of testdata/commands.txt, which says how it is read.
func TestCommands(t *testing.T) {
	g := Start(t, project)
	dir := t.TempDir()
	check(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.com/m\n"), 0o600))
	env := append(g.Environ(), "PATH="+Gcloud(t)+":"+os.Getenv("PATH"),
		`ALERT={"displayName": "Lag", "combiner": "OR", "conditions": [{"displayName": "c", "conditionMatchedLog": {"filter": "severity=ERROR"}}]}`)
	commands, err := os.ReadFile("testdata/commands.txt")
	check(t, err)
	var line, out string
	for text := range strings.Lines(string(commands)) {
		kind, text, _ := strings.Cut(strings.TrimSuffix(text, "\n"), " ")
		words := strings.SplitN(text+"  ", " ", 3)
		switch kind {
		case "$", "$!":
			cmd := exec.Command("sh", "-c", "gcloud --project="+project+" "+text)
			cmd.Dir, cmd.Env = dir, env
			output, err := cmd.CombinedOutput()
			if line, out = text, string(output); (err == nil) != (kind == "$") {
				t.Errorf("gcloud %s: %v\n%s", line, err, out)
			}
		case ">":
			if !strings.Contains(out, text) {
				t.Errorf("gcloud %s: %s\nwant %s", line, out, text)
			}
		case "=":
			got := "none"
			names := g.matching(words[0])
			if len(names) == 1 {
				got = lookUp(asJSON(g.Get(names[0])), words[1])
			}
			if want := strings.TrimSpace(words[2]); got != want {
				t.Errorf("gcloud %s: %s of %q is %s, want %s", line, words[1], names, got, want)
			}
		case "!":
			if found := g.matching(text); len(found) > 0 {
				t.Errorf("gcloud %s: there is %s", line, found)
			}
		case "+", "-":
			p := g.Policy(words[0])
			got := slices.ContainsFunc(p.Bindings, func(b *iampb.Binding) bool {
				return b.Role == words[1] && slices.Contains(b.Members, strings.TrimSpace(words[2]))
			})
			if got != (kind == "+") {
				t.Errorf("gcloud %s: policy of %s: %v", line, words[0], p)
			}
		}
	}
}

// matching returns the names of the resources that match the pattern.
func (g *Google) matching(pattern string) []string {
	return slices.DeleteFunc(g.Names(path.Base(path.Dir(pattern))), func(name string) bool {
		ok, _ := path.Match(pattern, name)
		return !ok
	})
}
