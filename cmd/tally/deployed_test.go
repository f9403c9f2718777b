//go:build unix

package main

import (
	"strings"
	"testing"

	"github.com/firestore-tally/tally/internal/emulator/emulatortest"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// On a project the routes of the deployed functions win. A command that would write by others says where
// they differ, and stops.
func TestDeployedRoutesWin(t *testing.T) {
	c := newCloud(t)
	const deployed, other = "counters/{counter}/shards/{shard} -> rollups/{counter} : count", "pages/{page}/shards/{shard} -> page_totals/{page} : views"
	c.settings("routes: |\n  " + deployed)
	c.want(0, "deploy", "--yes")
	c.firestore = emulatortest.Addr()
	t.Setenv("FIRESTORE_EMULATOR_HOST", "")
	c.want(0, "create", "likes")
	c.want(0, "increment", "likes", "--by", "3")
	repaired := c.want(0, "audit", "--repair", "--grace", "0")

	c.settings("routes: |\n  " + other)
	refused := c.want(1, "increment", "likes")
	audit := c.want(1, "audit", "--repair")
	read := c.want(0, "get", "likes")
	examined := c.want(1, "doctor", "--json")
	explicit := c.want(1, "get", "likes", "--routes", other)

	t.Chdir(t.TempDir())
	unnamed := c.want(0, "audit", "--repair", "--grace", "0")
	deleted := c.want(0, "delete", "likes", "--yes")
	c.Fail("cloudfunctions.googleapis.com", "ListFunctions", status.Error(codes.PermissionDenied, "no"), -1)
	unknown := c.want(1, "delete", "likes", "--yes")

	for _, told := range []struct{ name, printed, want string }{
		{"repair", repaired, "routes, of the deployed functions: " + deployed},
		{"a command that writes", refused, "  only named:  " + other + "\n  only there:  " + deployed},
		{"audit --repair", audit, "nothing was changed"},
		{"a command that reads", read, "counters/likes  3\nroll-up         3"},
		{"--routes", explicit, "no such counter: pages/likes"},
		{"doctor", examined, "environmentVariables.TALLY_ROUTES: counters/{counter}"},
		{"without tally.yaml", unnamed, "routes, of the deployed functions: " + deployed},
		{"delete", deleted, "deleted"},
		{"nobody may know", unknown, "the routes are assumed"},
		{"why nobody may know", unknown, "the functions could not be read: "},
	} {
		if !strings.Contains(told.printed, told.want) {
			t.Errorf("%s printed\n%s\nwant %q in it", told.name, told.printed, told.want)
		}
	}
}
