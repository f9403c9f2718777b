package doctor

import (
	"context"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/firestore"
	firestoreadmin "cloud.google.com/go/firestore/apiv1/admin"
	"cloud.google.com/go/firestore/apiv1/admin/adminpb"
	functions "cloud.google.com/go/functions/apiv2"
	"cloud.google.com/go/functions/apiv2/functionspb"
	scheduler "cloud.google.com/go/scheduler/apiv1"
	"cloud.google.com/go/scheduler/apiv1/schedulerpb"
	"github.com/firestore-tally/tally/deploy"
	"github.com/firestore-tally/tally/internal/app"
	"golang.org/x/sync/errgroup"
	"google.golang.org/api/cloudresourcemanager/v1"
	"google.golang.org/api/eventarc/v1"
	"google.golang.org/api/firebaserules/v1"
	"google.golang.org/api/iterator"
	"google.golang.org/api/option"
	"google.golang.org/api/pubsub/v1"
	"google.golang.org/api/run/v2"
	"google.golang.org/genproto/googleapis/cloud/location"
	"google.golang.org/grpc/codes"
)

// Clients are connections to Google's APIs.
type Clients struct {
	functions *functions.FunctionClient
	scheduler *scheduler.CloudSchedulerClient
	admin     *firestoreadmin.FirestoreAdminClient
	run       *run.Service
	eventarc  *eventarc.Service
	pubsub    *pubsub.Service
	rules     *firebaserules.Service
	projects  *cloudresourcemanager.Service
}

// Dial returns clients with application default credentials. The options of grpc are for the APIs that
// have a gRPC client (Cloud Functions, Cloud Scheduler, Firestore), those of rest for the others.
func Dial(ctx context.Context, grpc, rest []option.ClientOption) (*Clients, error) {
	c := new(Clients)
	var errs [8]error
	c.functions, errs[0] = functions.NewFunctionClient(ctx, grpc...)
	c.scheduler, errs[1] = scheduler.NewCloudSchedulerClient(ctx, grpc...)
	c.admin, errs[2] = firestoreadmin.NewFirestoreAdminClient(ctx, grpc...)
	c.run, errs[3] = run.NewService(ctx, rest...)
	c.eventarc, errs[4] = eventarc.NewService(ctx, rest...)
	c.pubsub, errs[5] = pubsub.NewService(ctx, rest...)
	c.rules, errs[6] = firebaserules.NewService(ctx, rest...)
	c.projects, errs[7] = cloudresourcemanager.NewService(ctx, rest...)
	for _, err := range errs {
		if err != nil { // all fail for the same reason
			c.Close()
			return nil, err
		}
	}
	return c, nil
}

// Close closes the connections.
func (c *Clients) Close() {
	if c.functions != nil {
		_ = c.functions.Close()
	}
	if c.scheduler != nil {
		_ = c.scheduler.Close()
	}
	if c.admin != nil {
		_ = c.admin.Close()
	}
}

// A reader reads one project.
type reader struct {
	*Clients
	project string
}

// Read reads what there is in the project. It asks many things at once, until ctx is done. The error says
// why not even the functions could be read; all else that could not be read is said in the Deployment.
func Read(ctx context.Context, c *Clients, project string) (*Deployment, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := reader{c, project}
	d := &Deployment{Project: project, AsOf: time.Now()}
	var all errgroup.Group
	defer func() { _ = all.Wait() }()
	all.Go(func() error { d.Jobs = r.jobs(ctx); return nil })
	all.Go(func() error { d.Policy = r.projectPolicy(ctx); return nil })
	if err := r.functions(ctx, d); err != nil {
		cancel()
		return nil, err
	}
	for i := range d.Functions {
		f := &d.Functions[i]
		if f.SecondGen {
			all.Go(func() error { r.service(ctx, f); return nil })
		}
		if f.Trigger != nil {
			all.Go(func() error { f.Trigger.Delivery = r.delivery(ctx, f.Name, f.Trigger.Name); return nil })
		}
	}
	config, valid := d.config()
	for _, id := range d.databaseIDs() {
		d.Databases = append(d.Databases, Database{ID: id})
	}
	for i := range d.Databases {
		db := &d.Databases[i]
		all.Go(func() error { db.Metadata = r.metadata(ctx, db.ID); return nil })
		if !valid || !slices.Contains(config.Databases, db.ID) {
			continue
		}
		all.Go(func() error { db.Rules = r.rulesOf(ctx, db.ID, ruleCases(config.Routes)); return nil })
		all.Go(func() error { db.Fields = r.fields(ctx, db.ID, fieldsOf(config)); return nil })
	}
	return d, all.Wait()
}

// databaseIDs returns the databases that functions' variables and triggers name.
func (d *Deployment) databaseIDs() []string {
	var ids []string
	for i := range d.Functions {
		f := &d.Functions[i]
		if c, err := app.LoadConfig(f.Env); err == nil {
			ids = append(ids, c.Databases...)
		}
		if f.Trigger != nil {
			ids = append(ids, f.Trigger.Database)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// functions reads the functions of all regions.
func (r *reader) functions(ctx context.Context, d *Deployment) error {
	const what = "the functions"
	it := r.Clients.functions.ListFunctions(ctx, &functionspb.ListFunctionsRequest{Parent: "projects/" + r.project + "/locations/-"})
	var silent []string
	for {
		f, err := it.Next()
		if err == iterator.Done {
			break
		}
		if err != nil {
			return r.unread(functionsAPI, what, err)
		}
		if page, ok := it.Response.(*functionspb.ListFunctionsResponse); ok {
			silent = append(silent, page.Unreachable...)
		}
		if converted := newFunction(f); converted.ours() {
			d.Functions = append(d.Functions, converted)
		}
	}
	if page, ok := it.Response.(*functionspb.ListFunctionsResponse); ok {
		silent = append(silent, page.Unreachable...) // of a last page without functions
	}
	if slices.Sort(silent); len(silent) > 0 {
		d.Elsewhere = &Unread{What: what, Why: "these regions did not answer: " + strings.Join(slices.Compact(silent), ", ")}
	}
	// By name, but deploy's own RollUpOnSchedule first: what else is one is the second.
	key := func(f Function) string {
		if f.Name == deploy.OnScheduleName {
			return ""
		}
		return f.Name + "/" + f.Region
	}
	slices.SortStableFunc(d.Functions, func(a, b Function) int { return strings.Compare(key(a), key(b)) })
	return nil
}

// newFunction returns the facts of a function.
func newFunction(f *functionspb.Function) Function {
	service := f.GetServiceConfig()
	c := Function{
		Name: path.Base(f.GetName()), Region: segment(f.GetName(), "locations"), Label: f.GetLabels()[deploy.Label],
		SecondGen: f.GetEnvironment() == functionspb.Environment_GEN_2, State: f.GetState().String(), LatestServes: service.GetAllTrafficOnLatestRevision(),
		EntryPoint: f.GetBuildConfig().GetEntryPoint(), Service: service.GetService(), Timeout: time.Duration(service.GetTimeoutSeconds()) * time.Second,
		Concurrency: max(1, int(service.GetMaxInstanceRequestConcurrency())), CPU: service.GetAvailableCpu(), Env: service.GetEnvironmentVariables(),
		ServiceAccount: service.GetServiceAccountEmail(),
	}
	for _, u := range []string{service.GetUri(), f.GetUrl()} {
		if u != "" {
			c.URLs = append(c.URLs, u)
		}
	}
	for _, s := range service.GetSecretEnvironmentVariables() {
		c.SecretEnv = append(c.SecretEnv, s.GetKey())
	}
	for _, m := range f.GetStateMessages() {
		c.StateMessage = strings.TrimPrefix(c.StateMessage+"; "+m.GetMessage(), "; ")
	}
	if t := f.GetEventTrigger(); t != nil {
		c.Trigger = &Trigger{
			Name: t.GetTrigger(), EventType: t.GetEventType(), Location: t.GetTriggerRegion(), Retry: t.GetRetryPolicy() == functionspb.EventTrigger_RETRY_POLICY_RETRY,
			ServiceAccount: t.GetServiceAccountEmail(),
		}
		for _, filter := range t.GetEventFilters() {
			switch filter.GetAttribute() {
			case "database":
				c.Trigger.Database = filter.GetValue()
			case "document":
				c.Trigger.Pattern = filter.GetValue()
			}
		}
	}
	return c
}

// segment returns what follows the collection's name in a resource's name.
func segment(name, collection string) string {
	parts := strings.Split(name, "/")
	if i := slices.Index(parts, collection); i >= 0 && i+1 < len(parts) {
		return parts[i+1]
	}
	return ""
}

// service reads the addresses and the policy of a function's Cloud Run service.
func (r *reader) service(ctx context.Context, f *Function) {
	s, err := r.run.Projects.Locations.Services.Get(f.Service).Context(ctx).Do()
	if err == nil { // otherwise the function's own addresses must do
		for _, u := range s.Urls {
			if !slices.Contains(f.URLs, u) {
				f.URLs = append(f.URLs, u)
			}
		}
	}
	p, err := r.run.Projects.Locations.Services.GetIamPolicy(f.Service).OptionsRequestedPolicyVersion(policyVersion).Context(ctx).Do()
	if err != nil {
		f.Policy.Unread = r.unread(runAPI, "the IAM policy of "+f.Name, err)
		return
	}
	for _, b := range p.Bindings {
		f.Policy.Value = append(f.Policy.Value, Binding{b.Role, b.Members, b.Condition != nil})
	}
}

// policyVersion is the version of IAM policies that tells conditions.
const policyVersion = 3

func (r *reader) projectPolicy(ctx context.Context) Fact[Policy] {
	request := &cloudresourcemanager.GetIamPolicyRequest{Options: &cloudresourcemanager.GetPolicyOptions{RequestedPolicyVersion: policyVersion}}
	p, err := r.projects.Projects.GetIamPolicy(r.project, request).Context(ctx).Do()
	if err != nil {
		return Fact[Policy]{Unread: r.unread(projectsAPI, "the IAM policy of the project", err)}
	}
	var policy Policy
	for _, b := range p.Bindings {
		policy = append(policy, Binding{b.Role, b.Members, b.Condition != nil})
	}
	return Fact[Policy]{Value: policy}
}

// delivery reads how the events of a trigger of Eventarc are delivered to the function.
func (r *reader) delivery(ctx context.Context, function, trigger string) Fact[Delivery] {
	t, err := r.eventarc.Projects.Locations.Triggers.Get(trigger).Context(ctx).Do()
	if err != nil {
		return Fact[Delivery]{Unread: r.unread(eventarcAPI, "the trigger of "+function, err)}
	}
	if t.Transport == nil || t.Transport.Pubsub == nil || t.Transport.Pubsub.Subscription == "" {
		return Fact[Delivery]{Unread: &Unread{What: "the subscription of the trigger of " + function, Why: "the trigger names none"}}
	}
	name := t.Transport.Pubsub.Subscription
	if !strings.Contains(name, "/") {
		name = "projects/" + r.project + "/subscriptions/" + name
	}
	s, err := r.pubsub.Projects.Subscriptions.Get(name).Context(ctx).Do()
	if err != nil {
		return Fact[Delivery]{Unread: r.unread(pubsubAPI, "the subscription of the trigger of "+function, err)}
	}
	return Fact[Delivery]{Value: Delivery{Subscription: name, AckDeadline: time.Duration(s.AckDeadlineSeconds) * time.Second}}
}

// jobs reads the jobs of all locations that make HTTP requests.
func (r *reader) jobs(ctx context.Context) Fact[[]Job] {
	var locations errgroup.Group
	locations.SetLimit(8) // of some dozens
	var mu sync.Mutex
	var jobs []Job
	it := r.scheduler.ListLocations(ctx, &location.ListLocationsRequest{Name: "projects/" + r.project})
	var err error
	for {
		var l *location.Location
		if l, err = it.Next(); err != nil {
			break
		}
		locations.Go(func() error {
			found, err := r.jobsIn(ctx, l.GetLocationId())
			mu.Lock()
			defer mu.Unlock()
			jobs = append(jobs, found...)
			return err
		})
	}
	if in := locations.Wait(); err == iterator.Done {
		err = in
	}
	if err != nil {
		return Fact[[]Job]{Unread: r.unread(schedulerAPI, "the jobs of Cloud Scheduler", err)}
	}
	slices.SortFunc(jobs, func(a, b Job) int { return strings.Compare(a.Name+"/"+a.Region, b.Name+"/"+b.Region) })
	return Fact[[]Job]{Value: jobs}
}

func (r *reader) jobsIn(ctx context.Context, location string) ([]Job, error) {
	var jobs []Job
	it := r.scheduler.ListJobs(ctx, &schedulerpb.ListJobsRequest{Parent: "projects/" + r.project + "/locations/" + location})
	for {
		j, err := it.Next()
		if err == iterator.Done {
			return jobs, nil
		}
		if err != nil {
			return nil, err
		}
		if j.GetHttpTarget() != nil {
			jobs = append(jobs, newJob(j))
		}
	}
}

// newJob returns the facts of a job.
func newJob(j *schedulerpb.Job) Job {
	target := j.GetHttpTarget()
	c := Job{
		Name: path.Base(j.GetName()), Region: segment(j.GetName(), "locations"), State: j.GetState().String(), Schedule: j.GetSchedule(), TimeZone: j.GetTimeZone(),
		URI: target.GetUri(), Method: target.GetHttpMethod().String(), Identity: target.GetOidcToken().GetServiceAccountEmail(), Audience: target.GetOidcToken().GetAudience(),
		AttemptDeadline: 3 * time.Minute, // unless it says another: see schedulerpb.Job
	}
	if d := j.GetAttemptDeadline(); d != nil {
		c.AttemptDeadline = d.AsDuration()
	}
	if t := j.GetLastAttemptTime(); t != nil {
		c.LastAttempt = t.AsTime()
	}
	if s := j.GetStatus(); s.GetCode() != 0 {
		c.LastError = strings.TrimSuffix(codes.Code(s.GetCode()).String()+": "+s.GetMessage(), ": ")
	}
	return c
}

func (r *reader) metadata(ctx context.Context, id string) Fact[Metadata] {
	db, err := r.admin.GetDatabase(ctx, &adminpb.GetDatabaseRequest{Name: r.databaseName(id)})
	switch {
	case notFound(err):
		return Fact[Metadata]{}
	case err != nil:
		return Fact[Metadata]{Unread: r.unread(firestoreAPI, "database "+id, err)}
	}
	return Fact[Metadata]{Value: Metadata{Exists: true, Location: db.GetLocationId(), Native: db.GetType() == adminpb.Database_FIRESTORE_NATIVE}}
}

func (r *reader) databaseName(id string) string { return "projects/" + r.project + "/databases/" + id }

func (r *reader) fields(ctx context.Context, database string, names []FieldName) map[FieldName]Fact[Field] {
	fields := make(map[FieldName]Fact[Field])
	for _, name := range names {
		f, err := r.field(ctx, r.databaseName(database)+"/collectionGroups/"+name.Group+"/fields/"+quoteField(name.Path))
		if err != nil {
			fields[name] = Fact[Field]{Unread: r.unread(firestoreAPI, fmt.Sprintf("database %s: the field %s of %s", database, name.Path, name.Group), err)}
			continue
		}
		fields[name] = Fact[Field]{Value: f}
	}
	return fields
}

// simpleField is a field's name that needs no quotes in a field path
// (https://cloud.google.com/firestore/docs/reference/rest/v1/projects.databases.collectionGroups.fields).
var simpleField = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func quoteField(name string) string {
	if simpleField.MatchString(name) {
		return name
	}
	return "`" + name + "`" // routes' fields hold no backquotes
}

// field reads how a field is indexed. If it says no more than that it is as its ancestor, the default of
// the database, that is read.
func (r *reader) field(ctx context.Context, name string) (Field, error) {
	f, err := r.admin.GetField(ctx, &adminpb.GetFieldRequest{Name: name})
	if err != nil {
		return Field{}, err
	}
	config := f.GetIndexConfig()
	if ancestor := config.GetAncestorField(); config.GetUsesAncestorConfig() && len(config.GetIndexes()) == 0 && ancestor != "" && ancestor != name {
		inherited, err := r.admin.GetField(ctx, &adminpb.GetFieldRequest{Name: ancestor})
		if err != nil {
			return Field{}, err
		}
		config = inherited.GetIndexConfig()
	}
	var c Field
	if t := f.GetTtlConfig(); t != nil {
		c.Expires = t.GetState().String()
	}
	for _, index := range config.GetIndexes() {
		c.Indexed = true
		if index.GetQueryScope() != adminpb.Index_COLLECTION {
			continue
		}
		for _, part := range index.GetFields() {
			if part.GetOrder() == adminpb.Index_IndexField_ASCENDING {
				c.Summable = true
				c.Building = index.GetState() == adminpb.Index_CREATING
			}
		}
	}
	return c, nil
}

// rulesOf tries the rules of a database on the cases.
func (r *reader) rulesOf(ctx context.Context, database string, cases []RuleCase) Fact[Rules] {
	what := "the rules of database " + database
	release := "projects/" + r.project + "/releases/cloud.firestore"
	if database != firestore.DefaultDatabaseID {
		release += "/" + database
	}
	deployed, err := r.rules.Projects.Releases.Get(release).Context(ctx).Do()
	switch {
	case notFound(err):
		return Fact[Rules]{}
	case err != nil:
		return Fact[Rules]{Unread: r.unread(rulesAPI, what, err)}
	}
	suite := new(firebaserules.TestSuite)
	for _, c := range cases {
		suite.TestCases = append(suite.TestCases, c.trial(database, time.Now()))
	}
	answer, err := r.rules.Projects.Test(deployed.RulesetName, &firebaserules.TestRulesetRequest{TestSuite: suite}).Context(ctx).Do()
	if err == nil && len(answer.TestResults) != len(cases) {
		err = fmt.Errorf("%d cases were tried, and %d results came", len(cases), len(answer.TestResults))
	}
	if err != nil {
		return Fact[Rules]{Unread: r.unread(rulesAPI, what, err)}
	}
	rules := Rules{Deployed: true}
	for i, c := range cases {
		result := answer.TestResults[i]
		rules.Results = append(rules.Results, RuleResult{c, result.State == "SUCCESS", len(result.FunctionCalls) > 0})
	}
	return Fact[Rules]{Value: rules}
}

// trial returns the case as the Firebase Rules API takes it.
func (c *RuleCase) trial(database string, now time.Time) *firebaserules.TestCase {
	request := map[string]any{"method": c.Method, "path": "/databases/" + database + "/documents/" + c.Path, "time": now.UTC().Format(time.RFC3339Nano)}
	if c.SignedIn {
		request["auth"] = map[string]any{"uid": someID, "token": map[string]any{"sub": someID}}
	}
	if c.After != nil {
		request["resource"] = map[string]any{"data": c.After}
	}
	t := &firebaserules.TestCase{Request: request, Expectation: "DENY", PathEncoding: "PLAIN"}
	if c.Allow {
		t.Expectation = "ALLOW"
	}
	if c.Before != nil {
		t.Resource = map[string]any{"data": c.Before}
	}
	return t
}
