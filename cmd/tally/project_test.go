//go:build unix

package main

import (
	"strings"
	"testing"

	"github.com/firestore-tally/tally/internal/test/firebasetest"
)

// "firebase deploy && tally deploy" does not serve two projects.
func TestTwoProjects(t *testing.T) {
	c := newCloud(t)
	t.Setenv("FIRESTORE_EMULATOR_HOST", "") // other tests of the process have an emulator
	c.settings("cadence: 1s")
	write(t, ".firebaserc", []byte(`{"projects": {"default": "my-project", "staging": "my-staging"}}`))
	firebasetest.Use(t, "staging")

	const both = "GOOGLE_CLOUD_PROJECT names my-project, and the Firebase CLI takes my-staging (the Firebase CLI's active project here: the alias staging in .firebaserc): name the one that you mean by --project"
	for _, args := range [][]string{{"deploy", "--yes"}, {"deploy"}, {"create", "likes/x"}, {"delete", "likes/x", "--yes"}} {
		printed, status := c.tally(args...)
		if status == 0 || !strings.Contains(printed, "tally: project my-project (GOOGLE_CLOUD_PROJECT)\n") || !strings.Contains(printed, both) {
			t.Errorf("tally %v: exit status %d\n%s", args, status, printed)
		}
	}
	if names := c.Names("functions"); len(names) > 0 {
		t.Errorf("it deployed %v", names)
	}

	if printed := c.want(0, "deploy", "--dry-run"); !strings.Contains(printed, "project my-project (GOOGLE_CLOUD_PROJECT)") {
		t.Errorf("a dry run says\n%s", printed)
	}
	c.want(0, "deploy", "--yes", "--project", "default")
	if printed := c.want(1, "undeploy", "--yes"); !strings.Contains(printed, both) {
		t.Errorf("undeploy says\n%s", printed)
	}
	t.Setenv("GOOGLE_CLOUD_PROJECT", "")
	firebasetest.Use(t, "default")
	if printed := c.want(0, "deploy", "--yes"); !strings.Contains(printed, "project my-project (the Firebase CLI's active project here: the alias default in .firebaserc)") {
		t.Errorf("it says\n%s", printed)
	}
}
