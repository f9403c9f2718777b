package googletest

import (
	"fmt"
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
	for name, text := range map[string]string{
		"go.mod":         "module example.com/m\n",
		"m.go":           "package m\n",
		"metric.json":    `{"name": "tally_ticks", "filter": "resource.type=\"cloud_run_revision\"", "metricDescriptor": {"metricKind": "DELTA", "valueType": "INT64"}}`,
		"metric2.json":   `{"name": "tally_ticks", "filter": "severity=ERROR"}`,
		"alert.json":     `{"displayName": "Lag", "combiner": "OR", "conditions": [{"displayName": "c", "conditionMatchedLog": {"filter": "severity=ERROR"}}]}`,
		"dashboard.json": `{"displayName": "Tally", "gridLayout": {}}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := append(g.Environ(), "PATH="+Gcloud(t)+":"+os.Getenv("PATH"))
	commands, err := os.ReadFile("testdata/commands.txt")
	if err != nil {
		t.Fatal(err)
	}
	var line, out string
	for text := range strings.Lines(string(commands)) {
		kind, text, _ := strings.Cut(strings.TrimSuffix(text, "\n"), " ")
		words := strings.SplitN(text+"   ", " ", 4)
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
			want := strings.TrimSpace(words[2] + " " + words[3])
			if got := g.field(words[0], words[1]); got != want {
				t.Errorf("gcloud %s: %s of %s is %s, want %s", line, words[1], words[0], got, want)
			}
		case "!":
			if found := g.matching(text); len(found) > 0 {
				t.Errorf("gcloud %s: there is %s", line, found)
			}
		case "+", "-":
			if got := holds(g.Policy(words[0]), words[1], words[2], strings.TrimSpace(words[3])); got != (kind == "+") {
				t.Errorf("gcloud %s: policy of %s: %v", line, words[0], g.Policy(words[0]))
			}
		}
	}
}

func holds(p *iampb.Policy, role, member, title string) bool {
	return slices.ContainsFunc(p.Bindings, func(b *iampb.Binding) bool {
		return b.Role == role && slices.Contains(b.Members, member) && b.Condition.GetTitle() == title
	})
}

// matching returns the names of the resources that match the pattern.
func (g *Google) matching(pattern string) []string {
	return slices.DeleteFunc(g.Names(path.Base(path.Dir(pattern))), func(name string) bool {
		ok, _ := path.Match(pattern, name)
		return !ok
	})
}

// field returns the field of the path of the one resource that matches the pattern, as its JSON has it.
func (g *Google) field(pattern, path string) string {
	names := g.matching(pattern)
	if len(names) != 1 {
		return fmt.Sprintf("that of %q", names)
	}
	value := asJSON(g.Get(names[0]))
	for key := range strings.SplitSeq(path, ".") {
		switch v := value.(type) {
		case map[string]any:
			value = v[key]
		case []any:
			value = v[int(key[0]-'0')]
		default:
			value = nil
		}
	}
	if value == nil {
		return "none"
	}
	return fmt.Sprint(value)
}
