package googletest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const project = "my-project"

// gcloud runs a command, with quotes as in a shell.
func gcloud(t *testing.T, g *Google, dir string, env []string, line string) string {
	t.Helper()
	cmd := exec.Command("sh", "-c", "gcloud --project="+project+" "+line)
	cmd.Dir, cmd.Env = dir, env
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("gcloud %s: %v\n%s%s", line, err, out, &stderr)
	}
	if testing.Verbose() {
		t.Logf("gcloud %s:\n%s%s", line, out, &stderr)
	}
	return string(out)
}

func TestLines(t *testing.T) {
	g := Start(t, project)
	dir := t.TempDir()
	for name, text := range map[string]string{"metric.json": read(t, "../../deploy/monitoring/metrics/"), "alert.json": read(t, "../../deploy/monitoring/alerts/"), "dashboard.json": read(t, "../../deploy/monitoring/dashboard.json"), "go.mod": "module m\n", "m.go": "package m\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile("/tmp/lines")
	if err != nil {
		t.Fatal(err)
	}
	env := append(g.Environ(), "PATH="+Gcloud(t)+":"+os.Getenv("PATH"))
	for line := range strings.Lines(string(data)) {
		gcloud(t, g, dir, env, strings.TrimSpace(line))
	}
	t.Log(strings.Join(g.Changes(), "\n"))
}

func read(t *testing.T, name string) string {
	files, _ := filepath.Glob(name + "*")
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
