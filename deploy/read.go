package deploy

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path"
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
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// A State holds the resources of a project.
type State struct {
	Project   string
	Number    string // of the project
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

// NewProject returns the state of a project in which there is nothing but databases, and the
// commands that create these. Nobody has seen it, so that commands look up its number.
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

// A reader reads one project, many things at once. State.Unread tells what it could not read.
type reader struct {
	*State
	ctx     context.Context
	options []option.ClientOption
	all     errgroup.Group // whose functions return nil
}

func newReader(ctx context.Context, s *State, o []option.ClientOption) *reader {
	return &reader{State: s, ctx: ctx, options: append(slices.Clone(o), option.WithGRPCDialOption(grpc.WithChainUnaryInterceptor(failSoon)))}
}

// failSoon has a call end that cannot reach its API. The client would try again for a minute, and
// then tell no more than that its time was over.
func failSoon(ctx context.Context, method string, request, answer any, c *grpc.ClientConn, call grpc.UnaryInvoker, o ...grpc.CallOption) error {
	err := call(ctx, method, request, answer, c, o...)
	if s := status.Convert(err); s.Code() == codes.Unavailable && unconnected(err) {
		return status.Error(codes.FailedPrecondition, s.Message())
	}
	return err
}

// Read reads the project. It changes nothing. State.Unread tells which parts could not be read; it
// is an error if one of them is needed for everything else. An API that is not enabled has nothing.
// The options are those of Google's clients.
func Read(ctx context.Context, id string, o ...option.ClientOption) (*State, error) {
	r := newReader(ctx, newState(id), o)
	parent := "projects/" + id
	anywhere := parent + "/locations/-"
	use(r, Project, resourcemanager.NewProjectsClient, func(c *resourcemanager.ProjectsClient) {
		p, err := c.GetProject(ctx, &resourcemanagerpb.GetProjectRequest{Name: parent})
		r.add(Project, p, err)
		r.Number = path.Base(p.GetName())
		r.policy(Project, parent, c.GetIamPolicy)
	})
	use(r, API, serviceusage.NewClient, func(c *serviceusage.Client) {
		each(r, API, c.ListServices(ctx, &serviceusagepb.ListServicesRequest{Parent: parent, Filter: "state:ENABLED"}).All())
	})
	use(r, Field, firestore.NewFirestoreAdminClient, func(c *firestore.FirestoreAdminClient) {
		databases, err := c.ListDatabases(ctx, &adminpb.ListDatabasesRequest{Parent: parent})
		r.add(Field, nil, err)
		for _, d := range databases.GetDatabases() {
			r.Databases[path.Base(d.GetName())] = d
		}
	})
	use(r, Account, iam.NewIamClient, func(c *iam.IamClient) {
		each(r, Account, c.ListServiceAccounts(ctx, &iampb.ListServiceAccountsRequest{Name: parent}).All())
		r.policy(Account, r.accountName(triggerAccount), func(ctx context.Context, request *policypb.GetIamPolicyRequest, _ ...gax.CallOption) (*policypb.Policy, error) {
			p, err := c.GetIamPolicy(ctx, request)
			if err != nil {
				return nil, err
			}
			return p.InternalProto, nil
		})
	})
	r.functions()
	use(r, Trigger, eventarc.NewClient, func(c *eventarc.Client) {
		all := c.ListTriggers(ctx, &eventarcpb.ListTriggersRequest{Parent: anywhere})
		each(r, Trigger, everywhere(all.Next, &all.Response))
	})
	use(r, Job, scheduler.NewCloudSchedulerClient, func(c *scheduler.CloudSchedulerClient) {
		var locations errgroup.Group // some dozens
		locations.SetLimit(atOnce)
		for l, err := range c.ListLocations(ctx, &location.ListLocationsRequest{Name: parent}).All() {
			if err != nil {
				r.add(Job, nil, err)
				break
			}
			locations.Go(func() error {
				each(r, Job, c.ListJobs(ctx, &schedulerpb.ListJobsRequest{Parent: parent + "/locations/" + l.GetLocationId()}).All())
				return nil
			})
		}
		_ = locations.Wait()
	})
	use(r, Metric, logging.NewMetricsClient, func(c *logging.MetricsClient) {
		each(r, Metric, c.ListLogMetrics(ctx, &loggingpb.ListLogMetricsRequest{Parent: parent}).All())
	})
	use(r, Alert, monitoring.NewAlertPolicyClient, func(c *monitoring.AlertPolicyClient) {
		each(r, Alert, c.ListAlertPolicies(ctx, &monitoringpb.ListAlertPoliciesRequest{Name: parent}).All())
	})
	use(r, Channel, monitoring.NewNotificationChannelClient, func(c *monitoring.NotificationChannelClient) {
		each(r, Channel, c.ListNotificationChannels(ctx, &monitoringpb.ListNotificationChannelsRequest{Name: parent}).All())
	})
	use(r, Dashboard, dashboards.NewDashboardsClient, func(c *dashboards.DashboardsClient) {
		each(r, Dashboard, c.ListDashboards(ctx, &dashboardpb.ListDashboardsRequest{Parent: parent}).All())
	})
	_ = r.all.Wait()
	slices.SortFunc(r.have[Job], func(a, b Object) int { return strings.Compare(a.name(), b.name()) })
	for _, k := range []*Kind{Project, API, Field} {
		if u := r.Unread[k]; u != nil {
			return nil, u
		}
	}

	// These have names that only the functions and triggers tell.
	if u := r.Unread[Trigger]; u != nil {
		r.Unread[Subscription] = u
	}
	deployed, triggers := r.Functions(), r.have[Trigger]
	var names []string
	for _, f := range deployed {
		names = append(names, f.Get("buildConfig.dockerRepository"))
	}
	r.repositories(names...)
	use(r, Service, run.NewServicesClient, func(c *run.ServicesClient) {
		for _, f := range deployed {
			if name := f.Get("serviceConfig.service"); name != "" {
				s, err := c.GetService(ctx, &runpb.GetServiceRequest{Name: name})
				r.add(Service, s, err)
				r.policy(Service, name, c.GetIamPolicy)
			}
		}
	})
	use(r, Subscription, pubsub.NewSubscriptionAdminClient, func(c *pubsub.SubscriptionAdminClient) {
		for _, t := range triggers {
			if name := t.Get("transport.pubsub.subscription"); t.Get("destination.cloudRun.service") == OnWriteName && name != "" {
				s, err := c.GetSubscription(ctx, &pubsubpb.GetSubscriptionRequest{Subscription: name})
				r.add(Subscription, s, err)
			}
		}
	})
	_ = r.all.Wait()
	return r.State, nil
}

// ReadFor reads the resources that only the description names: fields and the repository.
func (s *State) ReadFor(ctx context.Context, d *Description, o ...option.ClientOption) {
	r := newReader(ctx, s, o)
	r.repositories(d.only(Repository).Name)
	use(r, Field, firestore.NewFirestoreAdminClient, func(c *firestore.FirestoreAdminClient) {
		var fields errgroup.Group
		fields.SetLimit(atOnce)
		for _, w := range d.Resources {
			if w.Kind == Field {
				fields.Go(func() error { r.field(c, w.Name); return nil })
			}
		}
		_ = fields.Wait()
	})
	_ = r.all.Wait()
	if u := s.Unread[Field]; u != nil {
		s.Unread[TTL] = u
	}
}

// Deployed returns the variables that a project's functions are deployed with, nil if there are no
// functions. The options are of Google's clients.
func Deployed(ctx context.Context, project string, o ...option.ClientOption) (map[string]string, error) {
	r := newReader(ctx, newState(project), o)
	r.functions()
	_ = r.all.Wait()
	if u := r.Unread[Function]; u != nil {
		return nil, u
	}
	if len(r.Functions()) == 0 {
		return nil, nil
	}
	return r.Env(), nil
}

// functions reads the functions of all regions.
func (r *reader) functions() {
	use(r, Function, functions.NewFunctionClient, func(c *functions.FunctionClient) {
		all := c.ListFunctions(r.ctx, &functionspb.ListFunctionsRequest{Parent: "projects/" + r.Project + "/locations/-"})
		each(r, Function, everywhere(all.Next, &all.Response))
	})
}

// repositories reads those of the names that are not read yet. It comes before other reads, which
// add to what it looks at.
func (r *reader) repositories(names ...string) {
	names = slices.DeleteFunc(names, func(n string) bool { return path.Base(n) != repositoryName || r.Find(Repository, n) != nil })
	slices.Sort(names)
	use(r, Repository, artifactregistry.NewClient, func(c *artifactregistry.Client) {
		for _, name := range slices.Compact(names) {
			o, err := c.GetRepository(r.ctx, &artifactregistrypb.GetRepositoryRequest{Name: name})
			r.add(Repository, o, err)
			r.policy(Repository, name, c.GetIamPolicy)
		}
	})
}

// atOnce is how many calls are made at once.
const atOnce = 16

// use has a client read something of the kind.
func use[C interface{ Close() error }](r *reader, k *Kind, dial func(context.Context, ...option.ClientOption) (C, error), read func(C)) {
	r.all.Go(func() error {
		c, err := dial(r.ctx, r.options...)
		if err != nil {
			r.add(k, nil, err)
			return nil
		}
		defer func() { _ = c.Close() }()
		read(c)
		return nil
	})
}

// each adds what a List finds.
func each[M proto.Message](r *reader, k *Kind, all iter.Seq2[M, error]) {
	for m, err := range all {
		if r.add(k, m, err); err != nil {
			return
		}
	}
}

// add adds a resource of the kind, or why those could not be read. What an API has that is not
// enabled is nothing.
func (r *reader) add(k *Kind, m proto.Message, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var o Object
	if err == nil && m != nil {
		o, err = object(m)
	}
	switch {
	case err == nil && m != nil:
		r.have[k] = append(r.have[k], tidy(o))
	case err == nil, k != Project && absent(err):
	case r.Unread[k] == nil:
		r.Unread[k] = ReadError(k.api, r.Project, k.all(), err)
	}
}

// policy reads who may do what with the resource, in the version of policies that tells conditions.
func (r *reader) policy(k *Kind, name string, call func(context.Context, *policypb.GetIamPolicyRequest, ...gax.CallOption) (*policypb.Policy, error)) {
	p, err := call(r.ctx, &policypb.GetIamPolicyRequest{Resource: name, Options: &policypb.GetPolicyOptions{RequestedPolicyVersion: 3}})
	r.add(k, nil, err)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.policies[name] = p.GetBindings()
}

// tidy puts the filters of a trigger by their attributes.
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
	return o
}

// everywhere returns what a List of all regions finds, by its iterator's Next and Response. That a
// region does not answer is an error: what is missing may be there.
func everywhere[M proto.Message](next func() (M, error), response *any) iter.Seq2[M, error] {
	return func(yield func(M, error) bool) {
		for {
			m, err := next()
			page, ok := (*response).(interface{ GetUnreachable() []string })
			if ok && len(page.GetUnreachable()) > 0 && (err == nil || errors.Is(err, iterator.Done)) {
				err = fmt.Errorf("these regions did not answer: %s", strings.Join(page.GetUnreachable(), ", "))
			}
			if errors.Is(err, iterator.Done) || !yield(m, err) || err != nil {
				return
			}
		}
	}
}

// ours reports whether tally deploy or its Terraform made the resource.
func ours(o Object) bool { return o.Get("labels."+label) != "" || o.Get("userLabels."+label) != "" }

func (s *State) accountName(id string) string {
	return "projects/" + s.Project + "/serviceAccounts/" + id + "@" + s.Project + ".iam.gserviceaccount.com"
}
