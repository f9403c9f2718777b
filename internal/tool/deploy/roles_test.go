package deploy

import (
	"cmp"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/firestore-tally/tally/internal/test/googletest"
	"google.golang.org/protobuf/types/known/durationpb"
)

// permissions are those of calls whose permission is not called as the call is, by API, collection
// and method: https://cloud.google.com/iam/docs/permissions-reference
var permissions = map[string]string{
	"cloudresourcemanager.projects.get":          "resourcemanager.projects.get",
	"cloudresourcemanager.projects.getIamPolicy": "resourcemanager.projects.getIamPolicy",
	"firestore.databases.list":                   "datastore.databases.list",
	"firestore.fields.get":                       "datastore.indexes.get",
	"firestore.fields.update":                    "datastore.indexes.update",
	"firestore.indexes.list":                     "datastore.indexes.list",
	"firestore.indexes.create":                   "datastore.indexes.create",
	"firestore.rollup_audit.update":              "datastore.entities.update",
	"logging.metrics.get":                        "logging.logMetrics.get",
}

// verbs are the methods of calls without a name of their own.
var verbs = map[string]string{http.MethodGet: "get", http.MethodPost: "create", http.MethodPatch: "update", http.MethodPut: "update", http.MethodDelete: "delete"}

// lists are the collections that are listed.
var lists = regexp.MustCompile(`/(services|databases|functions|triggers|jobs|repositories|serviceAccounts|indexes|notificationChannels|alertPolicies|dashboards|timeSeries)$`)

// permissionOf returns the permission that a request takes.
func permissionOf(r googletest.Request) string {
	host, name, _ := strings.Cut(r.At, "/")
	api := strings.TrimSuffix(host, ".googleapis.com")
	name, method, _ := strings.Cut(name, ":")
	isList := r.Verb == http.MethodGet && lists.MatchString(name)
	if isList {
		method = "list"
	}

	segments := strings.Split(name, "/")
	collection := segments[len(segments)-1]
	ofOne := !isList && r.Verb != http.MethodPost || strings.Contains(r.At, ":") && collection != "functions"
	if ofOne {
		collection = segments[len(segments)-2]
	}
	call := api + "." + collection + "." + cmp.Or(method, verbs[r.Verb])
	return cmp.Or(permissions[call], call)
}

// An account with the roles that docs/operations.md has for CI may make each call that brings
// functions, routes and settings up to date. Each permission of its custom role is one that a call
// takes.
func TestRolesOfCI(t *testing.T) {
	page, err := os.ReadFile("../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "--permissions=\\\n")
	list, _, _ := strings.Cut(rest, "\n    gcloud")
	role := strings.FieldsFunc(list, func(c rune) bool { return strings.ContainsRune(",\\\n ", c) })
	var mayRead []string
	for _, access := range known().APIs {
		mayRead = append(mayRead, strings.Split(access.Reads, ", ")...)
	}

	d := newProject(t)
	d.deploy()
	d.google.Requests()
	const here = "projects/my-project/locations/us-central1/"
	d.google.Set(here+"functions/tally-on-write", []string{"serviceConfig", "timeoutSeconds"}, 7)
	d.google.Set(here+"services/tally-on-write", []string{"template", "containers", "0", "resources", "cpuIdle"}, false)
	d.google.Set(here+"jobs/tally", []string{"schedule"}, "* * * * *")
	googletest.Change(d.google, d.google.Names("subscriptions")[0], func(s *pubsubpb.Subscription) {
		s.ExpirationPolicy = &pubsubpb.ExpirationPolicy{Ttl: durationpb.New(1)}
	})
	d.google.Set("projects/my-project/databases/(default)/collectionGroups/rollups/fields/tally", []string{"indexConfig"}, nil)
	d.deploy()

	routes := options(t, likes+"; orders/{order} by shop -> shops/{shop} : sum(amount) as amount, count() where paid == true as paid : existing").Config.Routes
	d.options.Config.Routes, d.options.Prune = routes, true // others are gone
	d.deploy()
	d.google.Set(d.google.Names("triggers")[0], []string{"eventDataContentType"}, "x")
	d.deploy() // triggers only

	// Calls are counted for a project, a note may be new, and operations take a while.
	taken := []string{"serviceusage.services.use", "datastore.entities.create", "cloudfunctions.operations.get", "eventarc.operations.get"}
	for _, r := range d.google.Requests() {
		if strings.HasPrefix(r.At, "storage.") {
			continue // a signed address
		}
		permission := permissionOf(r)
		taken = append(taken, permission)
		if !slices.Contains(role, permission) && !slices.Contains(mayRead, permission) {
			t.Errorf("neither the role nor what reads has %s, for %s %s", permission, r.Verb, r.At)
		}
	}
	for _, permission := range role {
		if !slices.Contains(taken, permission) {
			t.Errorf("nothing takes %s", permission)
		}
	}
}

// The page about deploying, and its picture of the identities, name each role that is given.
func TestPagesNameRoles(t *testing.T) {
	page, err := os.ReadFile("../../../docs/deploy.md")
	if err != nil {
		t.Fatal(err)
	}
	picture, err := os.ReadFile("../../../docs/pictures/identities.svg")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range newProject(t).read().Resources {
		for _, g := range r.Grants {
			if !strings.Contains(string(page), "`"+g.Role+"`") {
				t.Errorf("docs/deploy.md does not name %v, on %v", g, r)
			}
			if !strings.Contains(string(picture), strings.TrimPrefix(g.Role, "roles/")) {
				t.Errorf("the picture does not name %v, on %v", g, r)
			}
		}
	}
}
