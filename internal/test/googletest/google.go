// Package googletest stands in for Google's APIs in tests: over REST, as package deploy and
// Google's clients for Go call them.
//
// The APIs have one form in common (https://google.aip.dev). Everything is a resource with a full
// name, such as projects/p/locations/l/functions/f, and most methods are standard: Get, List,
// Create, Update, Delete. Methods that take long return an operation, which clients ask until it is
// done. So one store of protobuf messages by their full names serves them all:
//
//   - google.go is the test's side: it makes, reads and changes resources, and has calls fail.
//   - standard.go serves the standard methods, by the descriptors of the services.
//   - rest.go turns a request into the message of its method, by the paths that
//     google.api.http gives. It refuses a request that does not fit the message. restonly.go has
//     the methods of which Go has no messages.
//   - apis.go adds what each API does beyond that: the fields that it fills in, the resources that
//     it makes in addition, and what it refuses. indexes.go and places.go have the longer parts of
//     it, and states.go the states in which a resource is not what a client
//     expects.
//   - requests.go keeps the requests that came over REST.
package googletest

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"

	"cloud.google.com/go/firestore/apiv1/admin/adminpb"
	"cloud.google.com/go/functions/apiv2/functionspb"
	"cloud.google.com/go/iam/apiv1/iampb"
	"cloud.google.com/go/monitoring/apiv3/v2/monitoringpb"
	"cloud.google.com/go/resourcemanager/apiv3/resourcemanagerpb"
	"google.golang.org/api/option"
	"google.golang.org/genproto/googleapis/cloud/location"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// Number is the number of each project.
const Number = "123456789"

// alwaysOn are the APIs that need not be enabled.
var alwaysOn = []string{"cloudresourcemanager.googleapis.com", "serviceusage.googleapis.com", "storage.googleapis.com"}

// Google is Google with one project.
type Google struct {
	// Rules decides a case of a test of security rules. A release names the database for which
	// rules are in force, such as "cloud.firestore/orders". The result is nil if there is no such
	// release. Rules may wait, which delays no other call.
	Rules func(release string, c RulesCase) *RulesResult

	// RulesText is the source of all rules.
	RulesText string

	// Build, unless nil, says why a function cannot be built, by the error of a gRPC status. It
	// must not call methods of the Google.
	Build func(*functionspb.Function) error

	// Series are the time series that ListTimeSeries finds.
	Series []*monitoringpb.TimeSeries

	// Entries returns the log entries, as JSON, that a filter finds; nil: there are none.
	Entries func(filter string) []json.RawMessage

	// Found are paths of documents that each query of their collection finds, in each database.
	Found []string

	// NoBilling says that the project has no billing account that is open.
	NoBilling bool

	// Unreachable are the locations that do not answer when a List asks all locations.
	Unreachable []string

	// Closed are the locations that the project may not use: each call about one is refused.
	Closed []string

	// Lacks are the locations that an API, such as cloudtasks.googleapis.com, is not in.
	Lacks map[string][]string

	// Builds is how many Lists of indexes it takes until a new composite index is ready. Below 0 it
	// is never ready.
	Builds int

	// Young is how often a call about a service account or a queue that was just made is refused.
	Young int

	// CPUs is the quota of Cloud Run in each region, 0 if there is none.
	CPUs int

	t       testing.TB
	project string
	rest    *url.URL

	mu        sync.Mutex
	resources map[string]proto.Message // by full name
	policies  map[string]*iampb.Policy // by full name of the resource
	agents    map[string]bool          // service accounts of Google's, by email
	gone      map[string]bool          // names of service accounts and queues that were deleted
	looks     map[string]int           // how often somebody has listed a composite index that is being built, by its name
	young     map[string]int           // how often a call about a resource is still refused, by its name
	failures  []*failure
	uploaded  []byte // source of a function
	last      int    // the last number that next returned
	requests  []Request
}

// A failure makes calls fail.
type failure struct {
	api, method string
	err         error
	times       int
}

// Start starts Google with the project. The project has a Firestore database, and what Google gives
// to every project. Google ends with the test.
func Start(t testing.TB, project string) *Google {
	t.Helper()
	g := &Google{t: t, project: project, resources: make(map[string]proto.Message), policies: make(map[string]*iampb.Policy), agents: make(map[string]bool), gone: make(map[string]bool), young: make(map[string]int), looks: make(map[string]int)}

	name := "projects/" + project
	g.resources[name] = &resourcemanagerpb.Project{Name: "projects/" + Number, ProjectId: project}
	for _, id := range []string{"us-central1", "europe-west1", "me-central2"} {
		g.resources[name+"/locations/"+id] = &location.Location{Name: name + "/locations/" + id, LocationId: id}
	}
	g.Enable("firestore.googleapis.com")
	g.Put(name+"/databases/(default)", &adminpb.Database{LocationId: "nam5", Type: adminpb.Database_FIRESTORE_NATIVE,
		DatabaseEdition: adminpb.Database_STANDARD})

	g.listenREST()
	return g
}

// listenREST serves the APIs over REST until the test ends.
func (g *Google) listenREST() {
	g.t.Helper()
	mux := http.NewServeMux()
	g.handleRESTOnly(mux)
	mux.HandleFunc("/", g.serveREST)
	server := httptest.NewServer(g.remembered(mux))
	g.t.Cleanup(server.Close)

	address, err := url.Parse(server.URL)
	check(g.t, err)
	g.rest = address
}

// REST returns the options with which Google's clients call it over REST.
func (g *Google) REST() []option.ClientOption {
	return []option.ClientOption{option.WithHTTPClient(g.client())}
}

// client returns a client whose requests come here, also those over https. It keeps no connection
// open, because a test in virtual time would wait for it.
func (g *Google) client() *http.Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", g.rest.Host)
	}
	return &http.Client{Transport: &http.Transport{DialContext: dial, DialTLSContext: dial, DisableKeepAlives: true}}
}

// Environ returns the test's environment with the variable by which another process of the test
// finds this Google; see Started.
func (g *Google) Environ() []string {
	return append(os.Environ(), environ+"="+g.rest.String())
}

// environ is the variable that tells a child process the address of a Google; see Started.
const environ = "GOOGLETEST"

// Started returns the Google whose Environ this process has, nil if it has none. Only REST
// works on it.
func Started() *Google {
	rest, err := url.Parse(os.Getenv(environ))
	if err != nil || rest.Host == "" {
		return nil
	}
	return &Google{rest: rest}
}

// Get returns a copy of the resource of a full name, such as projects/p/locations/l/functions/f;
// nil if there is none.
func (g *Google) Get(name string) proto.Message {
	g.mu.Lock()
	defer g.mu.Unlock()

	m, ok := g.resources[g.key(name)]
	if !ok {
		return nil
	}
	return proto.Clone(m)
}

// Names returns the full names of the resources of a collection, such as "functions", in order.
func (g *Google) Names(collection string) []string {
	g.mu.Lock()
	defer g.mu.Unlock()

	var names []string
	for name := range g.resources {
		if path.Base(path.Dir(name)) == collection {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Put makes a resource as if somebody had created or updated it. The resource gets the name, and
// the fields that its API fills in.
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

// Set has somebody set a field of a resource by hand. The path has names and indexes of its JSON.
func (g *Google) Set(name string, path []string, value any) {
	g.t.Helper()
	m := g.Get(name)
	if m == nil {
		g.t.Fatalf("there is no %s", name)
	}

	tree := asJSON(m)
	var in any = tree
	for _, step := range path[:len(path)-1] {
		if list, isList := in.([]any); isList {
			i, err := strconv.Atoi(step)
			check(g.t, err)
			in = list[i]
			continue
		}
		o := in.(map[string]any)
		if o[step] == nil {
			o[step] = map[string]any{}
		}
		in = o[step]
	}
	in.(map[string]any)[path[len(path)-1]] = value

	text, err := json.Marshal(tree)
	check(g.t, err)
	err = protojson.Unmarshal(text, m)
	if err != nil {
		g.t.Fatalf("%s %s: %v", name, path, err)
	}
	g.Put(name, m)
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
// always if times is negative. If the method is "", it is any of the API. Such a call does nothing.
func (g *Google) Fail(api, method string, err error, times int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failures = append(g.failures, &failure{api, method, err, times})
}

// FailDisabled makes calls fail as if the API were not enabled in a project, which need not be this
// one. Otherwise it is like Fail.
func (g *Google) FailDisabled(api, method, consumer string, times int) {
	g.Fail(api, method, notEnabled(api, consumer), times)
}

// An Image is what a project holds.
type Image struct {
	project   string
	resources map[string]proto.Message
	policies  map[string]*iampb.Policy
	agents    map[string]bool
	gone      map[string]bool
	young     map[string]int
	last      int
}

// Image returns what the project holds.
func (g *Google) Image() *Image {
	g.mu.Lock()
	defer g.mu.Unlock()
	return &Image{g.project, cloned(g.resources), cloned(g.policies), maps.Clone(g.agents), maps.Clone(g.gone), maps.Clone(g.young), g.last}
}

// into has Google's project hold what the image does.
func (i *Image) into(g *Google) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.resources, g.policies, g.agents, g.last = cloned(i.resources), cloned(i.policies), maps.Clone(i.agents), i.last
	g.gone, g.young = maps.Clone(i.gone), maps.Clone(i.young)
}

// Start starts Google with a project that holds the same.
func (i *Image) Start(t testing.TB) *Google {
	t.Helper()
	g := Start(t, i.project)
	i.into(g)
	return g
}

// Snapshot returns a function that puts everything back as it is now, and ends all failures.
func (g *Google) Snapshot() (restore func()) {
	image := g.Image()
	return func() {
		image.into(g)
		g.mu.Lock()
		defer g.mu.Unlock()
		g.failures, g.Build, g.Young = nil, nil, 0
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

// key returns the name under which a resource is kept: with the project's id, also if the name has
// the project's number or a wildcard.
func (g *Google) key(name string) string {
	return projectOf.ReplaceAllString(name, "projects/"+g.project+"$2")
}

// next returns a number that was not given before.
func (g *Google) next() int {
	g.last++
	return g.last
}

// check ends the test if there is an error.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
