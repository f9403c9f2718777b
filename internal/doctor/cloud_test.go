package doctor

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"path"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/admin/adminpb"
	"cloud.google.com/go/functions/apiv2/functionspb"
	"cloud.google.com/go/scheduler/apiv1/schedulerpb"
	"github.com/firestore-tally/tally/deploy"
	"github.com/firestore-tally/tally/rollup"
	"google.golang.org/api/firebaserules/v1"
	"google.golang.org/api/option"
	"google.golang.org/genproto/googleapis/cloud/location"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// project is the one of the stand-in cloud.
const project = "shop-7"

// A cloud stands in for Google's APIs: gRPC servers of their own service definitions, and REST. It answers
// from what deploy would set, so that what is deployed and what is expected have one source.
type cloud struct {
	functionspb.UnimplementedFunctionServiceServer
	schedulerpb.UnimplementedCloudSchedulerServer
	location.UnimplementedLocationsServer
	adminpb.UnimplementedFirestoreAdminServer

	now         time.Time
	functions   []*functionspb.Function
	unreachable []string
	jobs        []*schedulerpb.Job
	databases   map[string]*adminpb.Database
	fields      map[string]*adminpb.Field  // by name; absent: as the default
	policies    map[string]policy          // by resource
	deadlines   map[string]int             // of subscriptions
	urls        map[string][]string        // of services
	allows      map[string]func(test) bool // rules, by release
	asks        func(test) bool            // rules that ask for other documents; nil: none do
	failing     map[string]error           // by API
	waiting     chan struct{}              // the Rules API answers when it is closed; nil: at once
	pages       atomic.Int64               // of lists, that were asked for
}

type policy map[string][]string // members by role

// A test is a case as the Rules API gets it.
type test struct {
	Expectation string
	Request     struct {
		Method, Path string
		Auth         *struct{ UID string }
		Resource     *struct{ Data map[string]any }
	}
	Resource *struct{ Data map[string]any }
}

// options are those of the sound deployment: three routes, one of which reads documents and one of which
// the schedule keeps, in two databases.
func options(t *testing.T) deploy.Options {
	routes, err := rollup.ParseRoutes(rollup.DefaultRoute + "; posts/{post}/hot/{n} -> posts/{post}/sums/hot : likes, views : documents" +
		"; pages/{page}/shards/{shard} -> pages/{page}/sums/all : views : every 10s")
	if err != nil {
		t.Fatal(err)
	}
	return deploy.Options{
		Project: project, Routes: routes, Cadence: time.Second, Burst: 5, HoldLimit: 8 * time.Second, AuditReads: 50_000,
		Databases: []deploy.Database{{ID: "(default)", Location: "nam5"}, {ID: "orders", Location: "europe-west1"}},
	}
}

// newCloud returns a cloud in which all is as deploy sets it.
func newCloud(t *testing.T, o deploy.Options) *cloud {
	s, err := deploy.New(o)
	if err != nil {
		t.Fatal(err)
	}
	c := &cloud{
		now:       time.Now(),
		databases: make(map[string]*adminpb.Database), fields: make(map[string]*adminpb.Field), policies: make(map[string]policy), deadlines: make(map[string]int),
		urls: make(map[string][]string), allows: make(map[string]func(test) bool), failing: make(map[string]error),
	}
	for _, f := range s.Functions() {
		name := "projects/" + project + "/locations/" + f.Region + "/functions/" + f.Name
		service := "projects/" + project + "/locations/" + f.Region + "/services/" + f.Name
		made := &functionspb.Function{
			Name: name, Environment: functionspb.Environment_GEN_2, State: functionspb.Function_ACTIVE, Labels: map[string]string{deploy.Label: f.Kind},
			Url:         "https://" + f.Region + "-" + project + ".cloudfunctions.net/" + f.Name,
			BuildConfig: &functionspb.BuildConfig{EntryPoint: f.EntryPoint, Runtime: f.Runtime},
			ServiceConfig: &functionspb.ServiceConfig{
				Service: service, TimeoutSeconds: int32(f.Timeout.Seconds()), AvailableCpu: strconv.Itoa(f.CPU), EnvironmentVariables: f.Env,
				Uri: "https://" + f.Name + "-abc123-uc.a.run.app", ServiceAccountEmail: f.ServiceAccount, AllTrafficOnLatestRevision: true,
				MaxInstanceRequestConcurrency: int32(f.Concurrency),
			},
		}
		c.policies[service] = policy{"roles/run.invoker": {member(f.Invoker)}}
		c.urls[service] = []string{"https://" + f.Name + "-1234567." + f.Region + ".run.app"}
		if trigger := f.Trigger; trigger != nil {
			made.EventTrigger = &functionspb.EventTrigger{
				Trigger:       "projects/" + project + "/locations/" + trigger.Location + "/triggers/" + f.Name + "-000001",
				TriggerRegion: trigger.Location, EventType: trigger.EventType, ServiceAccountEmail: trigger.ServiceAccount,
				EventFilters: []*functionspb.EventFilter{
					{Attribute: "database", Value: trigger.Database}, {Attribute: "document", Value: trigger.Pattern, Operator: "match-path-pattern"},
				},
				RetryPolicy: functionspb.EventTrigger_RETRY_POLICY_RETRY,
			}
			c.deadlines["eventarc-"+f.Name] = 10
		}
		c.functions = append(c.functions, made)
	}
	c.jobs = []*schedulerpb.Job{{
		Name:     "projects/" + project + "/locations/" + s.Job.Region + "/jobs/" + s.Job.Name,
		Schedule: s.Job.Schedule, TimeZone: s.Job.TimeZone, State: schedulerpb.Job_ENABLED, AttemptDeadline: durationpb.New(s.Job.AttemptDeadline),
		LastAttemptTime: timestamppb.New(c.now.Add(-time.Minute)),
		Target: &schedulerpb.Job_HttpTarget{HttpTarget: &schedulerpb.HttpTarget{
			Uri: c.schedule().ServiceConfig.Uri, HttpMethod: schedulerpb.HttpMethod_POST,
			AuthorizationHeader: &schedulerpb.HttpTarget_OidcToken{OidcToken: &schedulerpb.OidcToken{ServiceAccountEmail: s.Job.ServiceAccount}},
		}},
	}}
	of := policy{}
	for _, a := range s.ServiceAccounts {
		for _, role := range a.Roles {
			of[role] = append(of[role], a.Member())
		}
	}
	c.policies["projects/"+project] = of
	for _, d := range s.Databases {
		name := "projects/" + project + "/databases/" + d.ID
		c.databases[name] = &adminpb.Database{Name: name, LocationId: d.Location, Type: adminpb.Database_FIRESTORE_NATIVE}
		for _, f := range s.Fields {
			field := &adminpb.Field{IndexConfig: &adminpb.Field_IndexConfig{}}
			if f.TTL {
				field.TtlConfig = &adminpb.Field_TtlConfig{State: adminpb.Field_TtlConfig_ACTIVE}
			}
			c.fields[name+"/collectionGroups/"+f.CollectionGroup+"/fields/"+f.Path] = field
		}
		for _, hot := range []string{"likes", "views"} {
			c.fields[name+"/collectionGroups/hot/fields/"+hot] = &adminpb.Field{IndexConfig: &adminpb.Field_IndexConfig{}}
		}
		c.allows[release(d.ID)] = readsOfRollUps
	}
	return c
}

func release(database string) string {
	if database == "(default)" {
		return "cloud.firestore"
	}
	return "cloud.firestore/" + database
}

// readsOfRollUps are rules that allow clients to read roll-ups and counters, and nothing that is tried
// here else.
func readsOfRollUps(t test) bool {
	return t.Request.Method == "get" && (strings.Contains(t.Request.Path, "/rollups/") || strings.Contains(t.Request.Path, "/sums/"))
}

// write and schedule are the first RollUpOnWrite, and RollUpOnSchedule.
func (c *cloud) write() *functionspb.Function    { return c.functions[0] }
func (c *cloud) schedule() *functionspb.Function { return c.functions[len(c.functions)-1] }

func (c *cloud) ListFunctions(_ context.Context, r *functionspb.ListFunctionsRequest) (*functionspb.ListFunctionsResponse, error) {
	if err := c.failing["cloudfunctions"]; err != nil || r.Parent != "projects/"+project+"/locations/-" {
		return nil, cmpErr(err, r.Parent)
	}
	from, to, next := c.page(r.PageToken, len(c.functions))
	return &functionspb.ListFunctionsResponse{Functions: c.functions[from:to], NextPageToken: next, Unreachable: c.unreachable}, nil
}

// page returns the bounds of a page of one, and the token of the next.
func (c *cloud) page(token string, n int) (from, to int, next string) {
	c.pages.Add(1)
	from, _ = strconv.Atoi(token)
	to = min(n, from+1)
	if to < n {
		next = strconv.Itoa(to)
	}
	return from, to, next
}

func cmpErr(err error, what string) error {
	if err == nil {
		err = status.Errorf(codes.InvalidArgument, "%s is not of this cloud", what)
	}
	return err
}

func (c *cloud) ListLocations(context.Context, *location.ListLocationsRequest) (*location.ListLocationsResponse, error) {
	return &location.ListLocationsResponse{Locations: []*location.Location{{LocationId: "us-central1"}, {LocationId: "asia-east1"}}}, c.failing["cloudscheduler"]
}

func (c *cloud) ListJobs(_ context.Context, r *schedulerpb.ListJobsRequest) (*schedulerpb.ListJobsResponse, error) {
	if err := c.failing["cloudscheduler"]; err != nil {
		return nil, err
	}
	var here []*schedulerpb.Job
	for _, j := range c.jobs {
		if strings.HasPrefix(j.Name, r.Parent+"/") {
			here = append(here, j)
		}
	}
	from, to, next := c.page(r.PageToken, len(here))
	return &schedulerpb.ListJobsResponse{Jobs: here[from:to], NextPageToken: next}, nil
}

func (c *cloud) GetDatabase(_ context.Context, r *adminpb.GetDatabaseRequest) (*adminpb.Database, error) {
	if err := c.failing["firestore"]; err != nil {
		return nil, err
	}
	if d := c.databases[r.Name]; d != nil {
		return d, nil
	}
	return nil, status.Error(codes.NotFound, "no such database")
}

// GetField answers as Firestore does of a field that has no configuration of its own: with the
// database's default.
func (c *cloud) GetField(_ context.Context, r *adminpb.GetFieldRequest) (*adminpb.Field, error) {
	if err := c.failing["firestore"]; err != nil {
		return nil, err
	}
	if f := c.fields[r.Name]; f != nil {
		return f, nil
	}
	database, _, _ := strings.Cut(r.Name, "/collectionGroups/")
	byDefault := database + "/collectionGroups/__default__/fields/*"
	if r.Name != byDefault {
		return &adminpb.Field{Name: r.Name, IndexConfig: &adminpb.Field_IndexConfig{UsesAncestorConfig: true, AncestorField: byDefault}}, nil
	}
	return &adminpb.Field{Name: r.Name, IndexConfig: &adminpb.Field_IndexConfig{Indexes: []*adminpb.Index{index("*")}}}, nil
}

// index returns the ascending index of a field.
func index(field string) *adminpb.Index {
	return &adminpb.Index{QueryScope: adminpb.Index_COLLECTION, State: adminpb.Index_READY, Fields: []*adminpb.Index_IndexField{
		{FieldPath: field, ValueMode: &adminpb.Index_IndexField_Order_{Order: adminpb.Index_IndexField_ASCENDING}},
	}}
}

// ServeHTTP serves the APIs that are asked by REST.
func (c *cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/v1/"), "/v2/")
	collection := path.Base(path.Dir(name))
	answer := func(api string, body any) {
		if err := c.failing[api]; err != nil {
			refuse(w, err)
			return
		}
		_ = json.NewEncoder(w).Encode(body)
	}
	resource, verb, _ := strings.Cut(name, ":")
	switch {
	case verb == "getIamPolicy" && strings.Contains(resource, "/services/"):
		answer("run", bindings(c.policies[resource]))
	case verb == "getIamPolicy":
		answer("cloudresourcemanager", bindings(c.policies[resource]))
	case collection == "services":
		answer("run", map[string]any{"urls": c.urls[name]})
	case collection == "triggers":
		answer("eventarc", map[string]any{"name": name, "transport": map[string]any{"pubsub": map[string]any{
			"subscription": "projects/" + project + "/subscriptions/eventarc-" + strings.TrimSuffix(path.Base(name), "-000001")}}})
	case collection == "subscriptions":
		answer("pubsub", map[string]any{"name": name, "ackDeadlineSeconds": c.deadlines[path.Base(name)]})
	case strings.Contains(name, "/releases/"):
		if c.waiting != nil {
			<-c.waiting
		}
		_, of, _ := strings.Cut(name, "/releases/")
		if c.allows[of] == nil && c.failing["firebaserules"] == nil {
			refuse(w, status.Error(codes.NotFound, "Requested entity was not found."))
			return
		}
		answer("firebaserules", map[string]any{"name": name, "rulesetName": "projects/" + project + "/rulesets/" + strings.ReplaceAll(of, "/", "~")})
	case verb == "test":
		answer("firebaserules", c.try(r, strings.ReplaceAll(path.Base(resource), "~", "/")))
	default:
		http.NotFound(w, r)
	}
}

func (c *cloud) try(r *http.Request, release string) map[string]any {
	var request struct{ TestSuite struct{ TestCases []test } }
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		panic(err)
	}
	var results []*firebaserules.TestResult
	for _, t := range request.TestSuite.TestCases {
		result := &firebaserules.TestResult{State: "FAILURE"}
		if c.allows[release](t) == (t.Expectation == "ALLOW") {
			result.State = "SUCCESS"
		}
		if c.asks != nil && c.asks(t) {
			result.FunctionCalls = []*firebaserules.FunctionCall{{Function: "get"}}
		}
		results = append(results, result)
	}
	return map[string]any{"testResults": results}
}

func bindings(p policy) map[string]any {
	var list []map[string]any
	for role, members := range p {
		list = append(list, map[string]any{"role": role, "members": members})
	}
	return map[string]any{"bindings": list}
}

// refuse answers with a gRPC error as Google's REST does.
func refuse(w http.ResponseWriter, err error) {
	s := status.Convert(err)
	code := map[codes.Code]int{codes.PermissionDenied: 403, codes.NotFound: 404, codes.Unauthenticated: 401, codes.Unavailable: 503}[s.Code()]
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	body := map[string]any{"code": code, "message": s.Message(), "status": strings.ToUpper(s.Code().String())}
	if details := s.Proto().GetDetails(); len(details) > 0 {
		var list []json.RawMessage
		for _, d := range details {
			text, err := protojson.Marshal(d)
			if err != nil {
				panic(err)
			}
			list = append(list, text)
		}
		body["details"] = list
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"error": body})
}

// serve returns clients of the cloud.
func (c *cloud) serve(t *testing.T) *Clients {
	server := grpc.NewServer()
	functionspb.RegisterFunctionServiceServer(server, c)
	schedulerpb.RegisterCloudSchedulerServer(server, c)
	location.RegisterLocationsServer(server, c)
	adminpb.RegisterFirestoreAdminServer(server, c)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	rest := httptest.NewServer(c)
	t.Cleanup(rest.Close)
	return dial(t, listener.Addr().String(), rest.URL)
}

func dial(t *testing.T, grpcAddr, restURL string) *Clients {
	clients, err := Dial(t.Context(),
		[]option.ClientOption{option.WithEndpoint(grpcAddr), option.WithoutAuthentication(), option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials()))},
		[]option.ClientOption{option.WithEndpoint(restURL), option.WithoutAuthentication()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(clients.Close)
	return clients
}

// read reads the cloud and examines it.
func (c *cloud) read(t *testing.T) []Finding {
	t.Helper()
	d, err := Read(t.Context(), c.serve(t), project)
	if err != nil {
		t.Fatal(err)
	}
	d.AsOf = c.now
	return Examine(d, nil)
}
