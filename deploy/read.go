package deploy

import (
	"context"
	"fmt"
	"iter"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	artifactregistry "cloud.google.com/go/artifactregistry/apiv1"
	"cloud.google.com/go/artifactregistry/apiv1/artifactregistrypb"
	eventarc "cloud.google.com/go/eventarc/apiv1"
	"cloud.google.com/go/eventarc/apiv1/eventarcpb"
	firestore "cloud.google.com/go/firestore/apiv1/admin"
	"cloud.google.com/go/firestore/apiv1/admin/adminpb"
	functions "cloud.google.com/go/functions/apiv2"
	"cloud.google.com/go/functions/apiv2/functionspb"
	iam "cloud.google.com/go/iam/admin/apiv1"
	iampb "cloud.google.com/go/iam/admin/apiv1/adminpb"
	policypb "cloud.google.com/go/iam/apiv1/iampb"
	logging "cloud.google.com/go/logging/apiv2"
	"cloud.google.com/go/logging/apiv2/loggingpb"
	monitoring "cloud.google.com/go/monitoring/apiv3/v2"
	"cloud.google.com/go/monitoring/apiv3/v2/monitoringpb"
	dashboards "cloud.google.com/go/monitoring/dashboard/apiv1"
	"cloud.google.com/go/monitoring/dashboard/apiv1/dashboardpb"
	pubsub "cloud.google.com/go/pubsub/v2/apiv1"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	resourcemanager "cloud.google.com/go/resourcemanager/apiv3"
	"cloud.google.com/go/resourcemanager/apiv3/resourcemanagerpb"
	run "cloud.google.com/go/run/apiv2"
	"cloud.google.com/go/run/apiv2/runpb"
	scheduler "cloud.google.com/go/scheduler/apiv1"
	"cloud.google.com/go/scheduler/apiv1/schedulerpb"
	serviceusage "cloud.google.com/go/serviceusage/apiv1"
	"cloud.google.com/go/serviceusage/apiv1/serviceusagepb"
	"github.com/googleapis/gax-go/v2"
	"golang.org/x/sync/errgroup"
	"google.golang.org/api/iterator"
	"google.golang.org/api/option"
	"google.golang.org/genproto/googleapis/cloud/location"
	"google.golang.org/protobuf/proto"
)

// Clients are Google's clients of the APIs that are read.
type Clients struct {
	projects     *resourcemanager.ProjectsClient
	services     *serviceusage.Client
	accounts     *iam.IamClient
	repositories *artifactregistry.Client
	databases    *firestore.FirestoreAdminClient
	functions    *functions.FunctionClient
	run          *run.ServicesClient
	triggers     *eventarc.Client
	pubsub       *pubsub.SubscriptionAdminClient
	scheduler    *scheduler.CloudSchedulerClient
	metrics      *logging.MetricsClient
	alerts       *monitoring.AlertPolicyClient
	channels     *monitoring.NotificationChannelClient
	dashboards   *dashboards.DashboardsClient

	// Series are what Cloud Monitoring has measured.
	Series *monitoring.MetricClient

	close []func() error
}

// Dial returns clients, which connect when they are used. Close closes them.
func Dial(ctx context.Context, o ...option.ClientOption) (*Clients, error) {
	c := new(Clients)
	err := firstError(
		dial(ctx, c, &c.projects, resourcemanager.NewProjectsClient, o), dial(ctx, c, &c.services, serviceusage.NewClient, o),
		dial(ctx, c, &c.accounts, iam.NewIamClient, o), dial(ctx, c, &c.repositories, artifactregistry.NewClient, o),
		dial(ctx, c, &c.databases, firestore.NewFirestoreAdminClient, o), dial(ctx, c, &c.functions, functions.NewFunctionClient, o),
		dial(ctx, c, &c.run, run.NewServicesClient, o), dial(ctx, c, &c.triggers, eventarc.NewClient, o),
		dial(ctx, c, &c.pubsub, pubsub.NewSubscriptionAdminClient, o), dial(ctx, c, &c.scheduler, scheduler.NewCloudSchedulerClient, o),
		dial(ctx, c, &c.metrics, logging.NewMetricsClient, o), dial(ctx, c, &c.alerts, monitoring.NewAlertPolicyClient, o),
		dial(ctx, c, &c.channels, monitoring.NewNotificationChannelClient, o), dial(ctx, c, &c.dashboards, dashboards.NewDashboardsClient, o),
		dial(ctx, c, &c.Series, monitoring.NewMetricClient, o),
	)
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func dial[C interface{ Close() error }](ctx context.Context, c *Clients, into *C, client func(context.Context, ...option.ClientOption) (C, error), o []option.ClientOption) error {
	made, err := client(ctx, o...)
	if err == nil {
		*into = made
		c.close = append(c.close, made.Close)
	}
	return err
}

// firstError returns the first error: all have the same reason.
func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Close closes the connections.
func (c *Clients) Close() {
	for _, f := range c.close {
		_ = f()
	}
}

// A State is what there is in a project.
type State struct {
	Project   string
	Number    string   // of the project
	APIs      []string // enabled
	Databases map[string]*adminpb.Database

	// Unread says why resources could not be read, by their kind.
	Unread map[*Kind]*Unread

	mu       sync.Mutex
	have     map[*Kind][]Object
	policies map[string][]*policypb.Binding // by resource
}

// newState returns the state of a project in which there is nothing.
func newState(id string) *State {
	return &State{Project: id, Databases: make(map[string]*adminpb.Database), Unread: make(map[*Kind]*Unread), have: make(map[*Kind][]Object), policies: make(map[string][]*policypb.Binding)}
}

// NewProject returns the state of a project in which there is nothing but databases, and the commands that
// create these. Nobody has seen it, so that commands look up its number.
func NewProject(id string, databases []string, location string) (*State, Plan) {
	s := newState(id)
	s.Number = Placeholder
	var p Plan
	for _, d := range databases {
		s.Databases[d] = &adminpb.Database{LocationId: location, Type: adminpb.Database_FIRESTORE_NATIVE}
		p.add(nil, "create database "+d+", in a location that it keeps for ever", createDatabase(id, d, location))
	}
	return s, p
}

// Find returns the resource of the kind that has the name, or the key; nil if there is none.
func (s *State) Find(k *Kind, name string) Object {
	for _, o := range s.have[k] {
		if k.key == nil && o.name() == name || k.key != nil && k.key(o) == name {
			return o
		}
	}
	return k.missing
}

// A reader reads one project.
type reader struct {
	*Clients
	*State
	all waits
}

// Read reads the project. It changes nothing. Parts that could not be read are told by State.Unread; the
// error is of what all else rests on. What an API has that is not enabled is nothing.
func Read(ctx context.Context, c *Clients, id string) (*State, error) {
	r := &reader{Clients: c, State: newState(id)}
	parent := "projects/" + id
	p, err := c.projects.GetProject(ctx, &resourcemanagerpb.GetProjectRequest{Name: parent})
	if err != nil {
		return nil, unread(projectsAPI, id, "project "+id, err)
	}
	r.Number = path.Base(p.GetName())
	for s, err := range c.services.ListServices(ctx, &serviceusagepb.ListServicesRequest{Parent: parent, Filter: "state:ENABLED"}).All() {
		if err != nil {
			return nil, unread(servicesAPI, id, "the APIs of the project", err)
		}
		r.APIs = append(r.APIs, path.Base(s.GetName()))
	}
	databases, err := c.databases.ListDatabases(ctx, &adminpb.ListDatabasesRequest{Parent: parent})
	if err != nil && classify(err) != disabled {
		return nil, unread(firestoreAPI, id, "the databases", err)
	}
	for _, d := range databases.GetDatabases() {
		r.Databases[path.Base(d.GetName())] = d
	}
	r.policy(ctx, projectsAPI, Project, parent, c.projects.GetIamPolicy)
	list(r, accountsAPI, Account, c.accounts.ListServiceAccounts(ctx, &iampb.ListServiceAccountsRequest{Name: parent}).All())
	list(r, functionsAPI, Function, c.functionsIn(ctx, parent))
	list(r, eventarcAPI, Trigger, c.triggers.ListTriggers(ctx, &eventarcpb.ListTriggersRequest{Parent: parent + "/locations/-"}).All())
	list(r, schedulerAPI, Job, c.jobsIn(ctx, parent))
	list(r, loggingAPI, Metric, c.metrics.ListLogMetrics(ctx, &loggingpb.ListLogMetricsRequest{Parent: parent}).All())
	list(r, monitoringAPI, Alert, c.alerts.ListAlertPolicies(ctx, &monitoringpb.ListAlertPoliciesRequest{Name: parent}).All())
	list(r, monitoringAPI, Channel, c.channels.ListNotificationChannels(ctx, &monitoringpb.ListNotificationChannelsRequest{Name: parent}).All())
	list(r, monitoringAPI, Dashboard, c.dashboards.ListDashboards(ctx, &dashboardpb.ListDashboardsRequest{Parent: parent}).All())
	r.all.Wait()

	// What is read of what was found.
	if a := r.Find(Account, r.accountName(triggerAccount)); a != nil {
		r.policy(ctx, accountsAPI, Account, a.name(), func(ctx context.Context, request *policypb.GetIamPolicyRequest, _ ...gax.CallOption) (*policypb.Policy, error) {
			p, err := c.accounts.GetIamPolicy(ctx, request)
			if err != nil {
				return nil, err
			}
			return p.InternalProto, nil
		})
	}
	var repositories []string
	for _, f := range r.have[Function] {
		if name := f.Get("serviceConfig.service"); ours(f) && name != "" {
			r.policy(ctx, runAPI, Service, name, c.run.GetIamPolicy)
			get(r, runAPI, Service, func() (*runpb.Service, error) { return c.run.GetService(ctx, &runpb.GetServiceRequest{Name: name}) })
		}
		if name := f.Get("buildConfig.dockerRepository"); ours(f) && path.Base(name) == repositoryName && !slices.Contains(repositories, name) {
			repositories = append(repositories, name)
			r.repository(ctx, name)
		}
	}
	for _, t := range r.have[Trigger] {
		if name := t.Get("transport.pubsub.subscription"); t.Get("destination.cloudRun.service") == OnWriteName && name != "" {
			get(r, pubsubAPI, Subscription, func() (*pubsubpb.Subscription, error) {
				return c.pubsub.GetSubscription(ctx, &pubsubpb.GetSubscriptionRequest{Subscription: name})
			})
		}
	}
	r.all.Wait()
	return r.State, nil
}

// ReadFor reads what only the description names: how fields are indexed, and the repository.
func (s *State) ReadFor(ctx context.Context, c *Clients, d *Description) {
	r := &reader{Clients: c, State: s}
	r.all.SetLimit(atOnce)
	for i := range d.Resources {
		switch w := &d.Resources[i]; w.Kind {
		case Field:
			r.all.Go(func() error { r.field(ctx, w.Name); return nil })
		case Repository:
			if s.Find(Repository, w.Name) == nil {
				r.repository(ctx, w.Name)
			}
		}
	}
	r.all.Wait()
}

// atOnce is how many calls are made at once.
const atOnce = 16

// waits are of calls that tell their errors by State.Unread.
type waits struct{ errgroup.Group }

func (w *waits) Wait() { _ = w.Group.Wait() }

// add adds a resource, or why those of the kind could not be read.
func (r *reader) add(a api, k *Kind, m proto.Message, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var o Object
	if err == nil {
		o, err = object(m)
	}
	switch c := classify(err); {
	case err == nil:
		r.have[k] = append(r.have[k], tidy(o))
	case c == disabled || c == missing: // of an API that is not enabled there is nothing
	case r.Unread[k] == nil:
		r.Unread[k] = unread(a, r.Project, "the "+k.Noun+"s", err)
	}
}

// tidy makes alike what the APIs have in different ways.
func tidy(o Object) Object {
	if filters, ok := o["eventFilters"].([]any); ok { // a list of attributes and values
		by := make(map[string]any)
		for _, f := range filters {
			filter := Object(f.(map[string]any))
			by[filter.Get("attribute")] = filter.Get("value")
		}
		by["document"] = anonymous(fmt.Sprint(by["document"]))
		o["eventFilters"] = by
	}
	if target, ok := o["httpTarget"].(map[string]any); ok { // addresses get a slash at their end
		target["uri"] = strings.TrimSuffix(fmt.Sprint(target["uri"]), "/")
		if token, ok := target["oidcToken"].(map[string]any); ok {
			token["audience"] = strings.TrimSuffix(fmt.Sprint(token["audience"]), "/")
		}
	}
	return o
}

func list[M proto.Message](r *reader, a api, k *Kind, all iter.Seq2[M, error]) {
	r.all.Go(func() error {
		for m, err := range all {
			r.add(a, k, m, err)
			if err != nil {
				break
			}
		}
		return nil
	})
}

func get[M proto.Message](r *reader, a api, k *Kind, call func() (M, error)) {
	r.all.Go(func() error {
		m, err := call()
		r.add(a, k, m, err)
		return nil
	})
}

// policyVersion is the version of IAM policies that tells conditions.
const policyVersion = 3

type policyCall func(context.Context, *policypb.GetIamPolicyRequest, ...gax.CallOption) (*policypb.Policy, error)

// policy reads who may do what with the resource.
func (r *reader) policy(ctx context.Context, a api, k *Kind, resource string, call policyCall) {
	r.all.Go(func() error {
		p, err := call(ctx, &policypb.GetIamPolicyRequest{Resource: resource, Options: &policypb.GetPolicyOptions{RequestedPolicyVersion: policyVersion}})
		r.mu.Lock()
		defer r.mu.Unlock()
		switch c := classify(err); {
		case err == nil:
			r.policies[resource] = p.GetBindings()
		case c != disabled && c != missing:
			r.Unread[k] = unread(a, r.Project, "the IAM policy of "+resource, err)
		}
		return nil
	})
}

// repository reads the repository and who may write it.
func (r *reader) repository(ctx context.Context, name string) {
	get(r, repositoriesAPI, Repository, func() (*artifactregistrypb.Repository, error) {
		return r.repositories.GetRepository(ctx, &artifactregistrypb.GetRepositoryRequest{Name: name})
	})
	r.policy(ctx, repositoriesAPI, Repository, name, r.repositories.GetIamPolicy)
}

// functionsIn returns the functions of all regions. That a region does not answer is an error: what is
// missing may be there.
func (c *Clients) functionsIn(ctx context.Context, parent string) iter.Seq2[*functionspb.Function, error] {
	return func(yield func(*functionspb.Function, error) bool) {
		it := c.functions.ListFunctions(ctx, &functionspb.ListFunctionsRequest{Parent: parent + "/locations/-"})
		for {
			f, err := it.Next()
			if page, ok := it.Response.(*functionspb.ListFunctionsResponse); ok && len(page.Unreachable) > 0 && (err == nil || err == iterator.Done) {
				f, err = nil, fmt.Errorf("these regions did not answer: %s", strings.Join(page.Unreachable, ", "))
			}
			if err == iterator.Done || !yield(f, err) || err != nil {
				return
			}
		}
	}
}

// jobsIn returns the jobs of all locations, of which there are some dozens.
func (c *Clients) jobsIn(ctx context.Context, parent string) iter.Seq2[*schedulerpb.Job, error] {
	return func(yield func(*schedulerpb.Job, error) bool) {
		var locations errgroup.Group
		locations.SetLimit(atOnce)
		var mu sync.Mutex
		var found []*schedulerpb.Job
		for l, err := range c.scheduler.ListLocations(ctx, &location.ListLocationsRequest{Name: parent}).All() {
			if err != nil {
				locations.Go(func() error { return err })
				break
			}
			locations.Go(func() error {
				for j, err := range c.scheduler.ListJobs(ctx, &schedulerpb.ListJobsRequest{Parent: parent + "/locations/" + l.GetLocationId()}).All() {
					if err != nil {
						return err
					}
					mu.Lock()
					found = append(found, j)
					mu.Unlock()
				}
				return nil
			})
		}
		err := locations.Wait()
		slices.SortFunc(found, func(a, b *schedulerpb.Job) int { return strings.Compare(a.GetName(), b.GetName()) })
		for _, j := range found {
			if !yield(j, nil) {
				return
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

// simpleField is a field's name that needs no quotes in a field path
// (https://cloud.google.com/firestore/docs/reference/rest/v1/projects.databases.collectionGroups.fields).
var simpleField = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// fieldPath returns a field's id, in quotes if it needs them.
func fieldPath(id string) string {
	if id == "*" || simpleField.MatchString(id) {
		return id
	}
	return "`" + id + "`" // routes' fields hold no backquotes
}

// field reads how a field is indexed, and whether it expires documents. If it says no more than that it is
// as its ancestor, the default of the database, that is read. An index or a policy that is being made
// counts as made.
func (r *reader) field(ctx context.Context, name string) {
	get := func(name string) (*adminpb.Field, error) {
		collection, id := path.Split(name)
		return r.databases.GetField(ctx, &adminpb.GetFieldRequest{Name: collection + fieldPath(id)})
	}
	f, err := get(name)
	config := f.GetIndexConfig()
	if ancestor := config.GetAncestorField(); err == nil && config.GetUsesAncestorConfig() && len(config.GetIndexes()) == 0 && ancestor != "" && ancestor != name {
		var inherited *adminpb.Field
		inherited, err = get(ancestor)
		config = inherited.GetIndexConfig()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		if classify(err) != disabled {
			r.Unread[Field] = unread(firestoreAPI, r.Project, "the indexes of "+name, err)
		}
		return
	}
	summable := slices.ContainsFunc(config.GetIndexes(), func(index *adminpb.Index) bool {
		return index.GetQueryScope() == adminpb.Index_COLLECTION && slices.ContainsFunc(index.GetFields(), func(f *adminpb.Index_IndexField) bool {
			return f.GetOrder() == adminpb.Index_IndexField_ASCENDING
		})
	})
	expires := f.GetTtlConfig() != nil && f.GetTtlConfig().GetState() != adminpb.Field_TtlConfig_NEEDS_REPAIR
	r.have[Field] = append(r.have[Field], Object{"name": name, "indexed": len(config.GetIndexes()) > 0, "summable": summable})
	r.have[TTL] = append(r.have[TTL], Object{"name": name, "expires": expires})
}

// ours reports whether tally deploy or its Terraform made the resource.
func ours(o Object) bool { return o.Get("labels."+label) != "" || o.Get("userLabels."+label) != "" }

func (s *State) accountName(id string) string {
	return "projects/" + s.Project + "/serviceAccounts/" + id + "@" + s.Project + ".iam.gserviceaccount.com"
}
