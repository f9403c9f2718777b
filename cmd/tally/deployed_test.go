//go:build unix

package main

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"cloud.google.com/go/iam/apiv1/iampb"
	"github.com/firestore-tally/tally/internal/test/emulatortest"
	"github.com/firestore-tally/tally/internal/tool/local/emulator"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// What deploy brings to a project is fixed, obeyed and taken away.
func TestDeployed(t *testing.T) {
	c := newCloud(t)
	c.settings("alerts: me@example.com")
	before := c.own()
	c.want(0, "deploy", "--yes")
	restore := c.Snapshot()
	for _, test := range []struct {
		name string
		run  func(cloud)
	}{{"grants", cloud.grants}, {"routes win", cloud.deployedRoutesWin}, {"undeploy", func(c cloud) { c.undeploy(before) }}} {
		t.Run(test.name, func(t *testing.T) {
			restore()
			test.run(cloud{Google: c.Google, t: t, program: c.program})
		})
	}
}

// Each role that somebody takes away, and each that somebody adds, is found, fixed, and gone
// after.
func (c cloud) grants() {
	d := c.described()
	grants := 0
	for _, r := range d.Resources {
		for _, g := range r.Grants {
			grants++
			p := c.Policy(r.Name)
			p.Bindings = slices.DeleteFunc(p.Bindings, func(b *iampb.Binding) bool { return b.Role == g.Role && slices.Contains(b.Members, g.Member) })
			c.SetPolicy(r.Name, p)
		}
	}
	if grants < 9 {
		c.t.Errorf("only %d grants", grants)
	}
	add := func(name, role, member string) {
		p := c.Policy(name)
		p.Bindings = append(p.Bindings, &iampb.Binding{Role: role, Members: []string{member}})
		c.SetPolicy(name, p)
	}
	const services = "projects/my-project/locations/us-central1/services/"
	add(services+"tally-on-write", "roles/run.invoker", "allUsers")
	add("projects/my-project", "roles/datastore.user", "serviceAccount:tally-functions@my-project.iam.gserviceaccount.com") // of every database
	found := jsonText(c.want(1, "doctor", "--json"))
	for _, want := range []string{"update service tally-on-write: take roles/run.invoker from allUsers", "take roles/datastore.user from tally-functions (condition: none)"} {
		if !strings.Contains(found, want) {
			c.t.Errorf("doctor does not find: %s", want)
		}
	}
	for _, r := range d.Resources {
		for _, g := range r.Grants {
			if !strings.Contains(found, "give "+g.String()) {
				c.t.Errorf("doctor does not find that %s lacks %s", g.Member, g.Role)
			}
		}
	}
	c.want(0, "deploy", "--yes")
	c.want(0, "doctor")
	if _, status := c.tally("deploy"); status != 0 {
		c.t.Error("a last deploy has something to do")
	}
}

// ours are the collections of what deploy makes.
var ours = []string{"functions", "services", "triggers", "subscriptions", "jobs", "repositories", "serviceAccounts", "metrics", "alertPolicies", "notificationChannels", "dashboards"}

// own returns the names of what is in these collections and not Google's.
func (c cloud) own() (names []string) {
	for _, of := range ours {
		names = append(names, c.Names(of)...)
	}
	return slices.DeleteFunc(names, func(n string) bool { return strings.HasSuffix(n, ".googleapis.com") || strings.Contains(n, "gcp-sa") })
}

// Undeploy leaves nothing that deploy made, but what it says.
func (c cloud) undeploy(before []string) {
	made := make(map[string]bool)
	for _, name := range c.own() {
		made[strings.Split(name, "/")[len(strings.Split(name, "/"))-2]] = true
	}
	if got := slices.Sorted(maps.Keys(made)); len(got) != len(ours) {
		c.t.Fatalf("deploy made only %v", got)
	}
	c.want(0, "undeploy", "--yes")
	if after := c.own(); !slices.Equal(before, after) {
		c.t.Errorf("left: %v", after)
	}
	for _, b := range c.Policy("projects/my-project").Bindings {
		for _, m := range b.Members {
			if strings.Contains(m, "tally-") {
				c.t.Errorf("%s still has %s", m, b.Role)
			}
		}
	}
	if printed := c.want(0, "undeploy"); !strings.Contains(printed, "Nothing here was made by tally deploy.") {
		c.t.Errorf("a second undeploy:\n%s", printed)
	}
}

// On a project the routes of the deployed functions win, over tally.yaml, too. A command that would
// write by others stops.
func (c cloud) deployedRoutesWin() {
	const deployed, other = "counters/{counter}/shards/{shard} -> rollups/{counter} : count", "pages/{page}/shards/{shard} -> page_totals/{page} : views"
	c.firestore = emulatortest.Own(c.t, emulator.Options{}).Addr() // of a project that all tests of deployments have
	c.t.Setenv("FIRESTORE_EMULATOR_HOST", "")
	c.want(0, "create", "likes")
	c.want(0, "increment", "likes", "--by", "3")
	repaired := c.want(0, "audit", "--repair", "--grace", "0")

	c.settings("routes: |\n  " + other)
	refused := c.want(1, "increment", "likes", "--routes", other)
	audit := c.want(0, "audit", "--repair", "--grace", "0")
	read := c.want(0, "get", "likes")
	examined := c.want(1, "doctor", "--json")
	explicit := c.want(1, "get", "likes", "--routes", other)

	c.t.Chdir(c.t.TempDir())
	unnamed := c.want(0, "audit", "--repair", "--grace", "0")
	deleted := c.want(0, "delete", "likes", "--yes")
	c.Fail("cloudfunctions.googleapis.com", "ListFunctions", status.Error(codes.PermissionDenied, "no"), -1)
	unknown := c.want(1, "delete", "likes", "--yes")

	for _, told := range []struct{ name, printed, want string }{
		{"repair", repaired, "routes, of the deployed functions: " + deployed},
		{"a command that writes", refused, "nothing was changed: the routes by --routes differ from those of the deployed functions, so this command may only read:\n" + deployed},
		{"audit --repair", audit, "routes, of the deployed functions: " + deployed},
		{"a command that reads", read, "counters/likes  3\nroll-up         3"},
		{"--routes", explicit, "no such counter: pages/likes"},
		{"doctor", examined, "environmentVariables.TALLY_ROUTES: counters/{counter}"},
		{"without tally.yaml", unnamed, "routes, of the deployed functions: " + deployed},
		{"delete", deleted, "deleted"},
		{"routes that cannot be read", unknown, "the routes are assumed"},
		{"why they cannot be read", unknown, "could not read the functions: "},
	} {
		if !strings.Contains(told.printed, told.want) {
			c.t.Errorf("%s printed\n%s\nwant %q in it", told.name, told.printed, told.want)
		}
	}
}

// jsonText returns JSON as people read its texts.
func jsonText(text string) string {
	return strings.NewReplacer(`\"`, `"`, `\u003e`, ">", `\u003c`, "<", `\u0026`, "&").Replace(text)
}
