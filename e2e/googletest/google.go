// Package googletest stands in for Google's APIs in tests: over gRPC, and over REST as gcloud calls
// it.
//
// A store keeps resources as the APIs' own protobuf messages, by their full names. The standard
// methods (Get, List, Create, Update, Delete) follow the services' descriptors; apis.go adds the
// particulars of each API. A request over REST becomes the message of the method that
// google.api.http gives for its path, and is refused if it does not fit the message.
package googletest

import (
	"cmp"
	"context"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"cloud.google.com/go/firestore/apiv1/admin/adminpb"
	"cloud.google.com/go/functions/apiv2/functionspb"
	"cloud.google.com/go/iam/apiv1/iampb"
	"cloud.google.com/go/monitoring/apiv3/v2/monitoringpb"
	"cloud.google.com/go/resourcemanager/apiv3/resourcemanagerpb"
	"google.golang.org/api/option"
	"google.golang.org/genproto/googleapis/cloud/location"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
)

// Number is the number of each project.
const Number = "123456789"

// alwaysOn are the APIs that need not be enabled.
var alwaysOn = []string{"cloudresourcemanager.googleapis.com", "serviceusage.googleapis.com", "storage.googleapis.com"}

// apis are those that gcloud calls, by the names of its configuration.
var apis = []string{"artifactregistry", "cloudbuild", "cloudfunctions", "cloudresourcemanager", "cloudscheduler", "eventarc", "firestore", "iam", "logging",
	"monitoring", "pubsub", "run", "serviceusage"}

// Google is Google with one project.
type Google struct {
	// Rules decides a case of a test of security rules; release is such as
	// "cloud.firestore/orders". The result is nil if there is no such release. It may wait, without
	// delaying other calls.
	Rules func(release string, c RulesCase) *RulesResult

	// Build is asked whether a function can be built, if it is not nil. Its error is a gRPC status.
	// It must not call the Google.
	Build func(*functionspb.Function) error

	// Series are the time series that ListTimeSeries finds.
	Series []*monitoringpb.TimeSeries

	// NoBilling says that the project has no billing account that is open.
	NoBilling bool

	// Unreachable are the locations that Lists of all locations say they did not reach.
	Unreachable []string

	// Closed are the locations that the project may not use: each call about one is refused.
	Closed []string

	// Builds is how many Lists of indexes a new composite index is being built; below 0 it is never
	// ready.
	Builds int

	// CPUs is the quota of Cloud Run in each region, 0 if there is none.
	CPUs int

	t       testing.TB
	project string
	grpc    string // address
	rest    *url.URL

	mu        sync.Mutex
	resources map[string]proto.Message
	policies  map[string]*iampb.Policy
	agents    map[string]bool // service accounts of Google's, by email
	failures  []*failure
	uploaded  []byte // source of a function
	last      int    // number that was given
}

// A failure makes calls fail.
type failure struct {
	api, method string
	err         error
	times       int
}

// Start starts Google with the project, which has a Firestore database and nothing else. It ends
// with the test.
func Start(t testing.TB, project string) *Google {
	t.Helper()
	g := &Google{t: t, project: project, resources: make(map[string]proto.Message), policies: make(map[string]*iampb.Policy), agents: make(map[string]bool)}
	name := "projects/" + project
	g.resources[name] = &resourcemanagerpb.Project{Name: "projects/" + Number, ProjectId: project}
	for _, id := range []string{"us-central1", "europe-west1", "me-central2"} {
		g.resources[name+"/locations/"+id] = &location.Location{Name: name + "/locations/" + id, LocationId: id}
	}
	g.Enable("firestore.googleapis.com")
	g.Put(name+"/databases/(default)", &adminpb.Database{LocationId: "nam5", Type: adminpb.Database_FIRESTORE_NATIVE,
		DatabaseEdition: adminpb.Database_STANDARD})
	g.resources[name+"/sinks/_Default"] = defaultSink(project)

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	server := grpc.NewServer(grpc.UnknownServiceHandler(g.serveGRPC))
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	g.grpc = listener.Addr().String()
	mux := g.restOnly()
	mux.HandleFunc("/", g.serveREST)
	rest := httptest.NewServer(mux)
	t.Cleanup(rest.Close)
	g.rest, err = url.Parse(rest.URL)
	check(t, err)
	return g
}

// GRPC returns the options with which Google's clients call this Google over gRPC. They keep the
// names of Google's servers, by which it knows the API.
func (g *Google) GRPC() []option.ClientOption {
	return []option.ClientOption{
		option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", g.grpc)
		})),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())),
	}
}

// REST returns the options with which Google's clients call it over REST.
func (g *Google) REST() []option.ClientOption {
	return []option.ClientOption{option.WithHTTPClient(g.client())}
}

// client returns a client whose requests come here, those over https too. It keeps no connection,
// on which a test in virtual time would wait.
func (g *Google) client() *http.Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", g.rest.Host)
	}
	return &http.Client{Transport: &http.Transport{DialContext: dial, DialTLSContext: dial, DisableKeepAlives: true}}
}

// Environ returns the test's environment with what makes gcloud work on this Google, as proxy for
// all that it asks. https, and with it the internet, is refused.
func (g *Google) Environ() []string {
	dir := g.t.TempDir()
	token := filepath.Join(dir, "token")
	check(g.t, os.WriteFile(token, []byte("token"), 0o600))
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "CLOUDSDK_") || strings.HasPrefix(v, "GOOGLE_") })
	env = append(env,
		"CLOUDSDK_CONFIG="+dir,
		"CLOUDSDK_AUTH_ACCESS_TOKEN_FILE="+token,
		"CLOUDSDK_CORE_DISABLE_PROMPTS=1",
		"CLOUDSDK_CORE_CHECK_GCE_METADATA=false",
		"CLOUDSDK_CORE_DISABLE_USAGE_REPORTING=true",
		"CLOUDSDK_CORE_SURVEY_DISABLE_PROMPTS=true",
		"CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK=true",
		"CLOUDSDK_PROXY_TYPE=http",
		"CLOUDSDK_PROXY_ADDRESS="+g.rest.Hostname(),
		"CLOUDSDK_PROXY_PORT="+g.rest.Port(),
		environ+"="+g.grpc+" "+g.rest.String(),
	)
	for _, api := range apis {
		env = append(env, "CLOUDSDK_API_ENDPOINT_OVERRIDES_"+strings.ToUpper(api)+"=http://"+api+".googleapis.com/")
	}
	return env
}

// environ names what Environ adds for Started.
const environ = "GOOGLETEST"

// Started returns the Google whose Environ this process has, of which only GRPC and REST work here,
// or nil.
func Started() *Google {
	addr, rest, _ := strings.Cut(os.Getenv(environ), " ")
	u, err := url.Parse(rest)
	if addr == "" || err != nil {
		return nil
	}
	return &Google{grpc: addr, rest: u}
}

// Get returns a copy of a resource of the full name, such as projects/p/locations/l/functions/f:
// nil if there is none.
func (g *Google) Get(name string) proto.Message {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m := g.resources[g.key(name)]; m != nil {
		return proto.Clone(m)
	}
	return nil
}

// Names returns the full names of the resources of a collection, such as "functions", in order.
func (g *Google) Names(collection string) []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var names []string
	for name := range g.resources {
		if parts := strings.Split(name, "/"); parts[len(parts)-2] == collection {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Put makes a resource as if it had been created or updated outside the test. It gets the name, and
// what the API adds.
func (g *Google) Put(name string, m proto.Message) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.put(g.key(name), proto.Clone(m))
}

// Change changes a resource in place. It must be there, and be a T.
func Change[T proto.Message](g *Google, name string, change func(T)) {
	g.t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	m, ok := g.resources[g.key(name)].(T)
	if !ok {
		g.t.Fatalf("%s is %T", name, g.resources[g.key(name)])
	}
	change(m)
}

// Delete deletes a resource, its policy, and the resources that its API made for it.
func (g *Google) Delete(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.remove(g.key(name))
}

// Policy returns a copy of the IAM policy of a resource.
func (g *Google) Policy(resource string) *iampb.Policy {
	g.mu.Lock()
	defer g.mu.Unlock()
	return proto.CloneOf(cmp.Or(g.policies[g.key(resource)], &iampb.Policy{}))
}

// SetPolicy sets the IAM policy of a resource.
func (g *Google) SetPolicy(resource string, p *iampb.Policy) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.policies[g.key(resource)] = proto.CloneOf(p)
}

// Enable enables APIs, such as run.googleapis.com.
func (g *Google) Enable(apis ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.enable(apis)
}

// Fail makes calls of a method, such as CreateTrigger, fail with a gRPC status: so many times, or
// always if times is negative. Without a method it is any of the API. Nothing is done by them.
func (g *Google) Fail(api, method string, err error, times int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failures = append(g.failures, &failure{api, method, err, times})
}

// Snapshot returns a function that puts everything back as it is now, and ends all failures.
func (g *Google) Snapshot() (restore func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	resources, policies, agents, last := cloned(g.resources), cloned(g.policies), maps.Clone(g.agents), g.last
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.resources, g.policies, g.agents, g.last = cloned(resources), cloned(policies), maps.Clone(agents), last
		g.failures, g.Build = nil, nil
		g.Unreachable, g.Closed, g.CPUs, g.Builds = nil, nil, 0, 0
	}
}

func cloned[M proto.Message](of map[string]M) map[string]M {
	all := make(map[string]M)
	for name, m := range of {
		all[name] = proto.CloneOf(m)
	}
	return all
}

// projectOf is the project in a name, by its number or a wildcard.
var projectOf = regexp.MustCompile(`^projects/(` + Number + `|-)(/|$)`)

// key returns the name under which a resource is kept: with the project's ID.
func (g *Google) key(name string) string {
	return projectOf.ReplaceAllString(name, "projects/"+g.project+"$2")
}

// next returns a number that was not given before.
func (g *Google) next() int {
	g.last++
	return g.last
}
