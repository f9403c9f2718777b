//go:build unix && gcloud

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// takeCommands calls gcloud's own command line parser in one process, as starting gcloud for each
// command takes a second of a processor. For each line of standard input, the arguments in JSON, it
// prints one with the exit status, beside what the command prints.
const takeCommands = `
import json, os, sys
root = sys.argv[1]
sys.path[:0] = [root + '/lib', root + '/lib/third_party']
from googlecloudsdk import gcloud_main
cli = gcloud_main.CreateCLI([])
for line in sys.stdin:
    sys.stderr.write('\n' + line)
    try:
        cli.Execute(json.loads(line))
        status = 0
    except SystemExit as e:
        status = e.code
    print('\nexit status', status, flush=True)
`

// TestGcloudTakesCommands gives the machine's own gcloud each kind of command that the stories of
// TestDeploy call, without credentials: it takes the command line apart, reads the files that it
// names, and then asks to be signed in, with exit status 1. A command, flag or value that it does
// not know it refuses before that, with exit status 2. What Google's servers make of them is not
// checked.
func TestGcloudTakesCommands(t *testing.T) {
	gcloud, err := exec.LookPath("gcloud")
	if err != nil {
		t.Fatalf("%v: install the Google Cloud CLI, https://cloud.google.com/sdk/docs/install", err)
	}
	out, err := exec.Command(gcloud, "info", "--format=value(basic.python_location,installation.sdk_root)").Output()
	python, root, ok := strings.Cut(strings.TrimSpace(string(out)), "\t")
	if err != nil || !ok {
		t.Fatalf("gcloud info: %v: %q", err, out)
	}
	kinds := map[string][]string{
		// What must be refused, so that this test can fail.
		" a flag":    {"gcloud", "functions", "deploy", "f", "--gen3"},
		" a command": {"gcloud", "functions", "redeploy", "f"},
		" a value":   {"gcloud", "scheduler", "jobs", "create", "http", "j", "--location=l", "--schedule=* * * * *", "--uri=https://example.com", "--http-method=PSOT"},
		" a file":    {"gcloud", "logging", "metrics", "create", "m", "--config-from-file=missing.json"},
	}
	for _, file := range stories(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			story, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			play(t, story.Files)
			data, err := os.ReadFile(filepath.Join(os.Getenv("PATH"), "all"))
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(data)) {
				var args []string
				if err := json.Unmarshal([]byte(line), &args); err != nil {
					t.Fatal(err)
				}
				if args[0] == "gcloud" && args[1] != "version" {
					kinds[kind(args)] = args
				}
			}
		})
	}
	folder := t.TempDir()
	for _, f := range txtar.Parse([]byte(cloneFiles)).Files {
		write(t, filepath.Join(folder, f.Name), f.Data)
	}
	var names []string
	var stdin, stdout, stderr bytes.Buffer
	for name, args := range kinds {
		names = append(names, name)
		if err := json.NewEncoder(&stdin).Encode(args[1:]); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(python, "-c", takeCommands, root)
	cmd.Dir = folder
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "CLOUDSDK_") || strings.HasPrefix(v, "GOOGLE_") })
	cmd.Env = append(cmd.Env, "CLOUDSDK_CONFIG="+t.TempDir(), "CLOUDSDK_CORE_CHECK_GCE_METADATA=false", "CLOUDSDK_CORE_DISABLE_PROMPTS=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = &stdin, &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	var statuses []string
	for line := range strings.Lines(stdout.String()) {
		if status, ok := strings.CutPrefix(line, "exit status "); ok {
			statuses = append(statuses, strings.TrimSpace(status))
		}
	}
	if len(statuses) != len(names) {
		t.Fatalf("%d answers to %d commands\n%s", len(statuses), len(names), &stderr)
	}
	for i, name := range names {
		want := "1"
		if strings.HasPrefix(name, " ") {
			want = "2"
		}
		if got := statuses[i]; got != want {
			t.Errorf("%s: exit status %s, want %s", strings.Join(kinds[name], " "), got, want)
		}
	}
	if asked := strings.Count(stderr.String(), "You do not currently have an active account selected"); asked != len(names)-4 {
		t.Errorf("%d of %d commands were asked to sign in", asked, len(names)-4)
	}
	if t.Failed() {
		t.Log(stderr.String())
	}
}

// kind tells command lines apart by their first words and by which flags they have.
func kind(args []string) string {
	var flags []string
	for _, arg := range args {
		if name, _, _ := strings.Cut(arg, "="); strings.HasPrefix(name, "-") {
			flags = append(flags, name)
		}
	}
	slices.Sort(flags)
	return strings.Join(args[:min(4, len(args))], " ") + " " + strings.Join(slices.Compact(flags), " ")
}
