package googletest

import (
	"bytes"
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	_ "cloud.google.com/go/artifactregistry/apiv1/artifactregistrypb" // its service
	"cloud.google.com/go/cloudtasks/apiv2/cloudtaskspb"
	"cloud.google.com/go/eventarc/apiv1/eventarcpb"
	"cloud.google.com/go/firestore/apiv1/admin/adminpb"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"cloud.google.com/go/functions/apiv2/functionspb"
	iamadminpb "cloud.google.com/go/iam/admin/apiv1/adminpb"
	"cloud.google.com/go/iam/apiv1/iampb"
	"cloud.google.com/go/logging/apiv2/loggingpb"
	"cloud.google.com/go/monitoring/apiv3/v2/monitoringpb"
	"cloud.google.com/go/monitoring/dashboard/apiv1/dashboardpb"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/run/apiv2/runpb"
	"cloud.google.com/go/scheduler/apiv1/schedulerpb"
	"cloud.google.com/go/serviceusage/apiv1/serviceusagepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// answer answers a call. Most are of standard methods.
func (c *call) answer() (proto.Message, error) {
	switch r := c.request.(type) {
	// Firestore
	case *adminpb.CreateIndexRequest:
		return c.createIndex(r.Index)
	case *adminpb.ListIndexesRequest:
		if r.PageToken == "" {
			c.build()
		}
	case *firestorepb.UpdateDocumentRequest: // it also creates
		return c.store(r.Document)

	// Cloud Run functions
	case *functionspb.CreateFunctionRequest:
		return c.deploy(r.Function)
	case *functionspb.UpdateFunctionRequest:
		resetCPU(r)
		return c.deploy(r.Function)
	case *functionspb.GenerateUploadUrlRequest:
		return uploadURL, nil

	// IAM, Service Usage and Monitoring
	case *iampb.GetIamPolicyRequest:
		_, err := c.find(c.resource)
		p := proto.CloneOf(cmp.Or(c.policies[c.resource], &iampb.Policy{}))
		p.Etag = c.policyEtag()
		return p, err
	case *iampb.SetIamPolicyRequest:
		return c.setIAMPolicy(r.Policy)
	case *serviceusagepb.EnableServiceRequest:
		c.enable([]string{path.Base(r.Name)})
		return &serviceusagepb.EnableServiceResponse{}, nil
	case *serviceusagepb.BatchEnableServicesRequest:
		if len(r.ServiceIds) < 2 {
			return nil, status.Error(codes.InvalidArgument, "Two or more services must be specified.")
		}
		c.enable(r.ServiceIds)
		return &serviceusagepb.BatchEnableServicesResponse{}, nil
	case *monitoringpb.ListTimeSeriesRequest:
		var all []proto.Message
		for _, s := range c.Series {
			all = append(all, s)
		}
		return c.page(all)

	// Cloud Tasks
	case *cloudtaskspb.PurgeQueueRequest:
		m, err := c.find(c.resource)
		if q, ok := m.(*cloudtaskspb.Queue); ok {
			q.PurgeTime = timestamppb.Now()
		}
		return m, err

	// Cloud Scheduler
	case *schedulerpb.RunJobRequest:
		m, err := c.find(c.resource)
		if j, ok := m.(*schedulerpb.Job); ok {
			j.LastAttemptTime = timestamppb.Now()
		}
		return m, err
	}
	return c.standard()
}

// uploadURL is where the source of functions goes.
var uploadURL = &functionspb.GenerateUploadUrlResponse{
	UploadUrl: "http://storage.googleapis.com/source.zip", StorageSource: &functionspb.StorageSource{Object: "source.zip"},
}

// refusal returns the error with which an API refuses a resource.
func (c *call) refusal(m proto.Message) error {
	switch m := m.(type) {
	case *dashboardpb.Dashboard:
		return c.refusalOfDashboard(m)
	case *adminpb.Field: // https://github.com/hashicorp/terraform-provider-google/issues/25331
		if c.isEnterprise(c.resource) && m.IndexConfig != nil {
			return status.Error(codes.InvalidArgument, "Single field indexes are not supported by databases of the Enterprise edition.")
		}
		return nil
	case *eventarcpb.Trigger:
		return c.refusalOfTrigger(m)
	case *functionspb.Function:
		return cmp.Or(
			c.refusalOfSize(c.resource, m),
			c.noAccount(m.GetServiceConfig().GetServiceAccountEmail(), m.GetBuildConfig().GetServiceAccount()),
		)
	case *schedulerpb.Job:
		return cmp.Or(
			c.refusalOfJob(c.resource),
			c.noAccount(m.GetHttpTarget().GetOidcToken().GetServiceAccountEmail()),
		)
	}
	return nil
}

// refusalOfDashboard refuses a change of a dashboard that somebody else has changed since it was
// read.
func (c *call) refusalOfDashboard(d *dashboardpb.Dashboard) error {
	old, exists := c.resources[c.resource].(*dashboardpb.Dashboard)
	if exists && d.Etag != old.Etag {
		return status.Error(codes.Aborted, "The etag is not that of the dashboard")
	}
	return nil
}

// complete adds the fields that an API fills in.
func (g *Google) complete(name string, m proto.Message) {
	switch m := m.(type) {
	case *adminpb.Field:
		g.completeField(m)
	case *cloudtaskspb.Queue:
		m.State = cmp.Or(m.State, cloudtaskspb.Queue_RUNNING)
		if m.GetRetryConfig().GetMaxRetryDuration().AsDuration() == 0 && m.RetryConfig != nil {
			m.RetryConfig.MaxRetryDuration = nil
		}
	case *dashboardpb.Dashboard:
		m.Name = "projects/" + Number + "/dashboards/" + path.Base(name)
	case *eventarcpb.Trigger:
		g.completeTrigger(name, m)
	case *functionspb.Function:
		g.completeFunction(name, m)
	case *iamadminpb.ServiceAccount:
		m.Email, m.UniqueId = path.Base(name), cmp.Or(m.UniqueId, fmt.Sprint(g.next()))
	case *loggingpb.LogMetric:
		m.Name = path.Base(name)
	case *loggingpb.LogExclusion:
		m.Name = path.Base(name)
	case *schedulerpb.Job:
		m.State = cmp.Or(m.State, schedulerpb.Job_ENABLED)
	}
}

// remove deletes a resource, and those that its API made for it.
func (g *Google) remove(name string) {
	m := g.resources[name]
	delete(g.resources, name)
	delete(g.policies, name)

	switch m := m.(type) {
	case *eventarcpb.Trigger:
		g.remove(m.GetTransport().GetPubsub().GetSubscription())
	case *functionspb.Function:
		g.remove(m.GetServiceConfig().GetService())
	case *iamadminpb.ServiceAccount:
		g.gone[name] = true
		g.mark(m)
	case *cloudtaskspb.Queue:
		g.gone[name] = true
	}
}

// IAM: https://cloud.google.com/iam/docs/policies

// setIAMPolicy sets the policy of a resource. Each service account in it must exist.
func (c *call) setIAMPolicy(p *iampb.Policy) (proto.Message, error) {
	_, err := c.find(c.resource)
	if err != nil {
		return nil, err
	}
	for _, b := range p.GetBindings() {
		for _, m := range b.Members {
			email, isAccount := strings.CutPrefix(m, "serviceAccount:")
			if isAccount && !c.account(email) {
				return nil, status.Errorf(codes.InvalidArgument, "Service account %s does not exist.", email)
			}
		}
	}

	if len(p.GetEtag()) > 0 && !bytes.Equal(p.GetEtag(), c.policyEtag()) {
		return nil, status.Error(codes.Aborted, "There were concurrent policy changes. Please retry the whole read-modify-write with exponential backoff.")
	}
	p.Etag = fmt.Append(nil, c.next())
	c.policies[c.resource] = p
	return p, nil
}

// policyEtag returns the etag of the resource's policy. One that a test made may have none.
func (c *call) policyEtag() []byte {
	etag := c.policies[c.resource].GetEtag()
	if len(etag) == 0 {
		return []byte("first")
	}
	return etag
}

// has reports whether the policy of the project gives a role to a service account.
func (g *Google) has(role, email string) bool {
	return slices.ContainsFunc(g.policies["projects/"+g.project].GetBindings(), func(b *iampb.Binding) bool {
		return b.Role == role && slices.Contains(b.Members, "serviceAccount:"+email)
	})
}

// account reports whether a service account exists. The accounts of other projects all do.
func (g *Google) account(email string) bool {
	isOwn := strings.HasSuffix(email, "@"+g.project+".iam.gserviceaccount.com")
	isAgent := strings.HasPrefix(email, "service-"+Number+"@gcp-sa-")
	if !isOwn && !isAgent {
		return true
	}
	return g.resources["projects/"+g.project+"/serviceAccounts/"+email] != nil || g.agents[email]
}

// noAccount returns the error of the first of the accounts, by email or name, that does not exist.
// https://github.com/firebase/firebase-tools/issues/8841 shows it.
func (g *Google) noAccount(names ...string) error {
	for _, name := range names {
		email := path.Base(name)
		if name != "" && !g.account(email) {
			return status.Errorf(codes.NotFound, "Service account projects/-/serviceAccounts/%s was not found.", email)
		}
	}
	return nil
}

// mark marks a service account as deleted, in all policies.
// https://cloud.google.com/iam/docs/principal-identifiers
func (g *Google) mark(a *iamadminpb.ServiceAccount) {
	for _, p := range g.policies {
		for _, b := range p.Bindings {
			i := slices.Index(b.Members, "serviceAccount:"+a.Email)
			if i >= 0 {
				b.Members[i] = "deleted:" + b.Members[i] + "?uid=" + a.UniqueId
			}
		}
	}
}

// Service Usage: https://cloud.google.com/service-usage/docs/reference/rest/v1/services

// enable enables APIs.
func (g *Google) enable(apis []string) {
	for _, api := range apis {
		g.resources["projects/"+g.project+"/services/"+api] = &serviceusagepb.Service{
			Name: "projects/" + Number + "/services/" + api, Config: &serviceusagepb.ServiceConfig{Name: api}, State: serviceusagepb.State_ENABLED,
		}
	}
}

// Cloud Run functions:
// https://cloud.google.com/functions/docs/reference/rest/v2/projects.locations.functions

// deploy creates or updates a function. If the function cannot be built, an old one stays as it
// was, and a new one is there without a service.
func (c *call) deploy(f *functionspb.Function) (proto.Message, error) {
	if c.Build != nil {
		c.problem = c.Build(f)
	}
	if c.problem != nil && c.method.Name() == "UpdateFunction" {
		return c.find(c.resource)
	}

	made, err := c.standard()
	if err != nil {
		return made, err
	}
	if c.problem != nil {
		c.remove(f.ServiceConfig.Service)
		f.State, f.ServiceConfig.Uri, f.ServiceConfig.Service = functionspb.Function_FAILED, "", ""
	}
	return made, nil
}

// regionCodes stand for regions in the addresses of services.
var regionCodes = map[string]string{"us-central1": "uc", "europe-west1": "ew"}

// completeFunction gives a function its Cloud Run service, and makes that if it is new.
func (g *Google) completeFunction(name string, f *functionspb.Function) {
	if f.ServiceConfig == nil {
		f.ServiceConfig = &functionspb.ServiceConfig{}
	}
	s := f.ServiceConfig
	region := strings.Split(name, "/")[3]
	f.State, f.Environment = functionspb.Function_ACTIVE, functionspb.Environment_GEN_2
	s.Service = strings.Replace(name, "/functions/", "/services/", 1)
	s.Uri = "https://" + path.Base(name) + "-abc123-" + cmp.Or(regionCodes[region], "xx") + ".a.run.app"

	service, exists := g.resources[s.Service].(*runpb.Service)
	if exists {
		if s.AllTrafficOnLatestRevision { // "ignoring any traffic split settings, if any"
			service.Traffic = nil
		}
		return
	}

	s.AllTrafficOnLatestRevision = true
	if s.EnvironmentVariables == nil {
		s.EnvironmentVariables = make(map[string]string)
	}
	s.EnvironmentVariables["LOG_EXECUTION_ID"] = "true" // https://cloud.google.com/functions/docs/monitoring/logging
	container := &runpb.Container{Image: "image", Resources: &runpb.ResourceRequirements{CpuIdle: true}}
	g.put(s.Service, &runpb.Service{Template: &runpb.RevisionTemplate{Containers: []*runpb.Container{container}}})
}

// Eventarc: https://cloud.google.com/eventarc/docs/reference/rest/v1/projects.locations.triggers

// refusalOfTrigger has the words of https://cloud.google.com/eventarc/docs/troubleshooting,
// https://github.com/hashicorp/terraform-provider-google/issues/17057 and
// https://github.com/GoogleCloudPlatform/eventarc-samples/issues/94.
func (c *call) refusalOfTrigger(t *eventarcpb.Trigger) error {
	if !c.has("roles/eventarc.serviceAgent", "service-"+Number+"@gcp-sa-eventarc.iam.gserviceaccount.com") {
		return status.Error(codes.InvalidArgument, `Invalid resource state for "": Permission denied while using the Eventarc Service Agent.`)
	}
	if !c.has("roles/eventarc.eventReceiver", t.ServiceAccount) {
		return status.Errorf(codes.PermissionDenied, "Permission \"eventarc.events.receiveEvent\" denied on %q", t.ServiceAccount)
	}

	here := strings.Split(c.resource, "/")[3]
	for _, f := range t.EventFilters {
		d, _ := c.resources["projects/"+c.project+"/databases/"+f.Value].(*adminpb.Database)
		if f.Attribute == "database" && d.GetLocationId() != here {
			return status.Errorf(codes.InvalidArgument, "Database '%s' does not exist in region '%s'. Did you mean region '%s'?", f.Value, here, d.GetLocationId())
		}
	}
	return nil
}

// completeTrigger makes the subscription through which a new trigger's events go.
func (g *Google) completeTrigger(name string, t *eventarcpb.Trigger) {
	before, exists := g.resources[name].(*eventarcpb.Trigger)
	if exists {
		t.Transport = before.Transport
		return
	}

	parts := strings.Split(name, "/")
	s := fmt.Sprintf("projects/%s/subscriptions/eventarc-%s-%s-sub-%d", g.project, parts[3], parts[5], g.next())
	t.Transport = &eventarcpb.Transport{Intermediary: &eventarcpb.Transport_Pubsub{Pubsub: &eventarcpb.Pubsub{Subscription: s}}}
	// The deadline is Eventarc's, and the 31 days are Pub/Sub's default, which an export of 2021 has.
	month := &pubsubpb.ExpirationPolicy{Ttl: durationpb.New(31 * 24 * time.Hour)}
	g.put(s, &pubsubpb.Subscription{AckDeadlineSeconds: 10, ExpirationPolicy: month})
}

// Firestore:
// https://cloud.google.com/firestore/docs/reference/rest/v1/projects.databases.collectionGroups.fields

// byDefault is how a database indexes each field, as far as sums need it: in both orders.
var byDefault = []*adminpb.Index{ofAnyField(adminpb.Index_IndexField_ASCENDING), ofAnyField(adminpb.Index_IndexField_DESCENDING)}

// ofAnyField returns an index of one field, whatever its name, in an order.
func ofAnyField(order adminpb.Index_IndexField_Order) *adminpb.Index {
	field := &adminpb.Index_IndexField{FieldPath: "*", ValueMode: &adminpb.Index_IndexField_Order_{Order: order}}
	return &adminpb.Index{
		QueryScope: adminpb.Index_COLLECTION, State: adminpb.Index_READY, Fields: []*adminpb.Index_IndexField{field},
	}
}

// find finds a resource. The fields of a database need no making: any name finds one.
func (g *Google) find(name string) (proto.Message, error) {
	m, exists := g.resources[name]
	if exists {
		return m, nil
	}

	database, _, inGroup := strings.Cut(name, "/collectionGroups/")
	isField := inGroup && strings.Contains(name, "/fields/")
	if isField && g.resources[database] != nil {
		f := &adminpb.Field{Name: name}
		g.completeField(f)
		return f, nil
	}
	return nil, status.Errorf(codes.NotFound, "Resource '%s' was not found", name)
}

// completeField gives a field the database's index configuration if it has none of its own.
func (g *Google) completeField(f *adminpb.Field) {
	if f.IndexConfig == nil && !g.isEnterprise(f.Name) {
		database, _, _ := strings.Cut(f.Name, "/collectionGroups/")
		ancestor := database + "/collectionGroups/__default__/fields/*"
		f.IndexConfig = &adminpb.Field_IndexConfig{Indexes: byDefault, UsesAncestorConfig: true, AncestorField: ancestor}
		a, configured := g.resources[ancestor].(*adminpb.Field)
		if configured {
			f.IndexConfig.Indexes = a.IndexConfig.Indexes
		}
	}

	if f.TtlConfig != nil {
		f.TtlConfig.State = cmp.Or(f.TtlConfig.State, adminpb.Field_TtlConfig_ACTIVE)
	}
}
