//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	root "github.com/firestore-tally/tally"
	"github.com/firestore-tally/tally/cmd/tally/settings"
	"github.com/firestore-tally/tally/internal/cloud/config"
	"github.com/firestore-tally/tally/internal/test/googletest"
	"github.com/firestore-tally/tally/internal/tool/appfolder"
	"github.com/firestore-tally/tally/internal/tool/deploy"
	"github.com/firestore-tally/tally/internal/tool/rules"
	"github.com/firestore-tally/tally/rollup/route"
)

// A cloud is Google with a project, on which tally works.
type cloud struct {
	*googletest.Google
	t         *testing.T
	firestore string // address, for commands on counters
	program   program
	signedOut bool
}

// newCloud returns a cloud with a new project, my-project. The current folder is that of a clone of
// Tally.
func newCloud(t *testing.T) cloud {
	t.Helper()
	c := cloud{Google: googletest.Start(t, "my-project"), t: t, program: program{source: root.Source}}
	c.Rules = shippedRules
	t.Setenv("GOOGLE_CLOUD_PROJECT", "my-project")
	t.Chdir("../..")
	return c
}

// content finds nothing wrong in any rules.
func content(_ context.Context, _ rules.Judge, routes route.Routes, _ map[string][]rules.Document) (answers []rules.Answer, err error) {
	for _, r := range rules.Requests(routes) {
		answers = append(answers, rules.Answer{Request: r, Verdict: rules.Allowed})
	}
	return answers, nil
}

// shippedRules are those that Tally ships, in short.
func shippedRules(_ string, of googletest.RulesCase) *googletest.RulesResult {
	path, method := of.Request.Path, of.Request.Method
	read := method == "get" && !strings.Contains(path, "/increment_tokens/") && !strings.Contains(path, "/rollup_audit/") && !strings.Contains(path, "/rollup_claims/")
	increment := (method == "create" || method == "update") && of.Request.Auth != nil && (strings.Contains(path, "/shards/") || strings.Contains(path, "/hot/"))
	return &googletest.RulesResult{Allow: read || increment}
}

// settings goes to an app's folder with that tally.yaml.
func (c cloud) settings(text string) {
	c.t.Helper()
	c.t.Chdir(c.t.TempDir())
	write(c.t, "tally.yaml", []byte(text))
}

// tally calls a command on the project and returns what it prints, and its exit status. Waiting
// takes no time.
func (c cloud) tally(args ...string) (printed string, status int) {
	c.t.Helper()
	var out bytes.Buffer
	synctest.Test(c.t, func(t *testing.T) {
		at := settings.Endpoints{APIs: c.REST(), Firestore: c.firestore, Judge: content}
		if c.signedOut {
			at.APIs = nil
		}
		ctx := settings.WithEndpoints(t.Context(), at)
		status = run(context.WithValue(ctx, programKey{}, c.program), args, &out, &out)
	})
	return out.String(), status
}

// want calls a command, which must end with the status.
func (c cloud) want(status int, args ...string) string {
	c.t.Helper()
	printed, got := c.tally(args...)
	if got != status {
		c.t.Fatalf("tally %s: exit status %d, want %d\n%s", strings.Join(args, " "), got, status, printed)
	}
	return printed
}

// described returns what should be deployed, by the tally.yaml of the current folder, each resource
// as it is now.
func (c cloud) described() *deploy.Deployment {
	c.t.Helper()
	on, err := deploy.Open(c.t.Context(), "my-project", c.REST()...)
	if err != nil {
		c.t.Fatal(err)
	}
	folder, err := appfolder.Find(".", "")
	if err != nil {
		c.t.Fatal(err)
	}
	config, err := config.Load(on.Wanted(folder))
	if err != nil {
		c.t.Fatal(err)
	}
	d, err := deploy.Want(on, folder, config, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	d.Differences(c.t.Context())
	return d
}

func write(t *testing.T, file string, data []byte) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, data, 0o600)); err != nil {
		t.Fatal(err)
	}
}
