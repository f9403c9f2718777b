package googletest

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	_ "cloud.google.com/go/artifactregistry/apiv1/artifactregistrypb" // its service
	"cloud.google.com/go/eventarc/apiv1/eventarcpb"
	"cloud.google.com/go/firestore/apiv1/admin/adminpb"
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
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// methods are those that are not standard, or not quite, by full name or by last name.
var methods = map[protoreflect.FullName]func(*call) (proto.Message, error){
	"GetIamPolicy":       (*call).getIAMPolicy,
	"SetIamPolicy":       (*call).setIAMPolicy,
	"TestIamPermissions": (*call).testIAMPermissions,

	"google.api.serviceusage.v1.ServiceUsage.GetService":          (*call).getAPI,
	"google.api.serviceusage.v1.ServiceUsage.EnableService":       (*call).enableAPIs,
	"google.api.serviceusage.v1.ServiceUsage.BatchEnableServices": (*call).enableAPIs,

	"google.cloud.functions.v2.FunctionService.CreateFunction":         (*call).deployFunction,
	"google.cloud.functions.v2.FunctionService.UpdateFunction":         (*call).deployFunction,
	"google.cloud.functions.v2.FunctionService.GenerateUploadUrl":      (*call).uploadURL,
	"google.cloud.functions.v2.FunctionService.ListRuntimes":           (*call).runtimes,
	"google.cloud.scheduler.v1.CloudScheduler.PauseJob":                (*call).changeJob,
	"google.cloud.scheduler.v1.CloudScheduler.ResumeJob":               (*call).changeJob,
	"google.cloud.scheduler.v1.CloudScheduler.RunJob":                  (*call).changeJob,
	"google.firestore.admin.v1.FirestoreAdmin.GetField":                (*call).getField,
	"google.firestore.admin.v1.FirestoreAdmin.UpdateField":             (*call).updateField,
	"google.iam.admin.v1.IAM.CreateServiceAccount":                     (*call).createAccount,
	"google.monitoring.v3.MetricService.ListTimeSeries":                (*call).timeSeries,
	"google.monitoring.dashboard.v1.DashboardsService.UpdateDashboard": (*call).updateDashboard,
}

// refusal is why an API refuses to create a resource (then old is nil) or update it.
func (c *call) refusal(m, old proto.Message) error {
	switch m := m.(type) {
	case *eventarcpb.Trigger:
		before, _ := old.(*eventarcpb.Trigger)
		return c.refusalOfTrigger(m, before)
	case *functionspb.Function:
		before, _ := old.(*functionspb.Function)
		is, will := before.GetEventTrigger(), m.GetEventTrigger()
		if before != nil && ((is == nil) != (will == nil) || is.GetEventType() != will.GetEventType() || is.GetTriggerRegion() != will.GetTriggerRegion()) {
			return status.Error(codes.InvalidArgument, "The trigger of a function cannot be changed.")
		}
		return c.noAccount(m.GetServiceConfig().GetServiceAccountEmail(), m.GetBuildConfig().GetServiceAccount(), m.GetEventTrigger().GetServiceAccountEmail())
	case *schedulerpb.Job:
		return c.noAccount(m.GetHttpTarget().GetOidcToken().GetServiceAccountEmail())
	}
	return nil
}

// complete adds to a resource what its API does when it is created (then old is nil) or updated.
func (g *Google) complete(name string, m, old proto.Message) {
	switch m := m.(type) {
	case *adminpb.Database:
		g.completeDatabase(name, m)
	case *adminpb.Field:
		g.completeField(m)
	case *dashboardpb.Dashboard:
		m.Name = "projects/" + Number + "/dashboards/" + path.Base(name)
	case *eventarcpb.Trigger:
		before, _ := old.(*eventarcpb.Trigger)
		g.completeTrigger(name, m, before)
	case *functionspb.Function:
		before, _ := old.(*functionspb.Function)
		g.completeFunction(name, m, before)
	case *iamadminpb.ServiceAccount:
		m.Email, m.ProjectId = path.Base(name), g.project
		m.UniqueId = cmp.Or(m.UniqueId, fmt.Sprintf("1000000000000000%05d", g.next()))
	case *loggingpb.LogMetric:
		m.Name = path.Base(name)
	case *runpb.Service:
		before, _ := old.(*runpb.Service)
		g.completeService(name, m, before)
	case *schedulerpb.Job:
		m.State = cmp.Or(m.State, schedulerpb.Job_ENABLED)
		m.UserUpdateTime = timestamppb.Now()
	}
}

// owned returns the names of what goes with a resource.
func owned(m proto.Message) []string {
	switch m := m.(type) {
	case *functionspb.Function:
		return []string{m.GetServiceConfig().GetService(), m.GetEventTrigger().GetTrigger()}
	case *eventarcpb.Trigger:
		return []string{m.GetTransport().GetPubsub().GetSubscription(), m.GetTransport().GetPubsub().GetTopic()}
	}
	return nil
}

// IAM: https://cloud.google.com/iam/docs/policies

func (c *call) policyOf() (*iampb.Policy, error) {
	c.resource = c.key(text(c.request.ProtoReflect(), "resource"))
	if _, err := c.find(c.resource); err != nil {
		return nil, err
	}
	if p := c.policies[c.resource]; p != nil {
		return p, nil
	}
	return &iampb.Policy{Etag: []byte("none")}, nil
}

func conditional(b *iampb.Binding) bool { return b.GetCondition() != nil }

// getIAMPolicy shows conditions only to those who ask for version 3.
// https://cloud.google.com/iam/docs/policies#specifying-version-get
func (c *call) getIAMPolicy() (proto.Message, error) {
	p, err := c.policyOf()
	if err != nil {
		return nil, err
	}
	p = proto.CloneOf(p)
	if slices.ContainsFunc(p.Bindings, conditional) && c.request.(*iampb.GetIamPolicyRequest).GetOptions().GetRequestedPolicyVersion() < 3 {
		p.Version = 1
		for _, b := range p.Bindings {
			if conditional(b) {
				b.Role, b.Condition = fmt.Sprintf("%s_withcond_%x", b.Role, len(b.Condition.Expression)), nil
			}
		}
	}
	return p, nil
}

func (c *call) setIAMPolicy() (proto.Message, error) {
	old, err := c.policyOf()
	if err != nil {
		return nil, err
	}
	p := c.request.(*iampb.SetIamPolicyRequest).GetPolicy()
	if len(p.GetEtag()) > 0 && !bytes.Equal(p.Etag, old.Etag) {
		return nil, status.Error(codes.Aborted, "There were concurrent policy changes. Please retry the whole read-modify-write with exponential backoff.")
	}
	if p.GetVersion() < 3 && (slices.ContainsFunc(old.Bindings, conditional) || slices.ContainsFunc(p.GetBindings(), conditional)) {
		return nil, status.Error(codes.InvalidArgument, "Policies with conditions must have version 3.")
	}
	for _, b := range p.GetBindings() {
		for _, m := range b.Members {
			if email, ok := strings.CutPrefix(m, "serviceAccount:"); ok && !c.account(email) {
				return nil, status.Errorf(codes.InvalidArgument, "Service account %s does not exist.", email)
			}
		}
	}
	p = proto.CloneOf(p)
	p.Etag, p.Version = c.etag(), 1
	if slices.ContainsFunc(p.Bindings, conditional) {
		p.Version = 3
	}
	c.policies[c.resource] = p
	return p, nil
}

func (c *call) testIAMPermissions() (proto.Message, error) {
	return &iampb.TestIamPermissionsResponse{Permissions: c.request.(*iampb.TestIamPermissionsRequest).GetPermissions()}, nil
}

// account reports whether a service account exists. All others than the project's do.
func (g *Google) account(email string) bool {
	return g.resources["projects/"+g.project+"/serviceAccounts/"+email] != nil || g.agents[email] ||
		!strings.HasSuffix(email, "@"+g.project+".iam.gserviceaccount.com") && !strings.HasPrefix(email, "service-"+Number+"@gcp-sa-")
}

// noAccount returns the error of the first of the accounts, by email or name, that does not exist.
// https://github.com/firebase/firebase-tools/issues/8841 shows it.
func (g *Google) noAccount(names ...string) error {
	for _, name := range names {
		if email := path.Base(name); name != "" && !g.account(email) {
			return status.Errorf(codes.NotFound, "Service account projects/-/serviceAccounts/%s was not found.", email)
		}
	}
	return nil
}

// mark marks a service account that is deleted in all policies.
// https://cloud.google.com/iam/docs/principal-identifiers
func (g *Google) mark(a *iamadminpb.ServiceAccount) {
	for _, p := range g.policies {
		for _, b := range p.Bindings {
			if i := slices.Index(b.Members, "serviceAccount:"+a.Email); i >= 0 {
				b.Members[i] = "deleted:serviceAccount:" + a.Email + "?uid=" + a.UniqueId
			}
		}
	}
}

func (c *call) createAccount() (proto.Message, error) {
	r := c.request.(*iamadminpb.CreateServiceAccountRequest)
	c.resource = c.key(r.Name) + "/serviceAccounts/" + r.AccountId + "@" + c.project + ".iam.gserviceaccount.com"
	if c.resources[c.resource] != nil {
		return nil, status.Errorf(codes.AlreadyExists, "Service account %s already exists within project %s.", r.AccountId, r.Name)
	}
	c.put(c.resource, r.ServiceAccount)
	return r.ServiceAccount, nil
}

// Service Usage: https://cloud.google.com/service-usage/docs/reference/rest/v1/services

func (g *Google) enable(apis []string) {
	for _, api := range apis {
		g.resources["projects/"+g.project+"/services/"+api] = &serviceusagepb.Service{
			Name: "projects/" + Number + "/services/" + api, Parent: "projects/" + Number,
			Config: &serviceusagepb.ServiceConfig{Name: api}, State: serviceusagepb.State_ENABLED,
		}
	}
}

func (c *call) getAPI() (proto.Message, error) {
	name := text(c.request.ProtoReflect(), "name")
	if m := c.resources[c.key(name)]; m != nil {
		return m, nil
	}
	return &serviceusagepb.Service{Name: "projects/" + Number + "/services/" + path.Base(name), State: serviceusagepb.State_DISABLED}, nil
}

func (c *call) enableAPIs() (proto.Message, error) {
	var apis []string
	switch r := c.request.(type) {
	case *serviceusagepb.BatchEnableServicesRequest:
		apis = r.ServiceIds
	case *serviceusagepb.EnableServiceRequest:
		apis = []string{path.Base(r.Name)}
	}
	c.enable(apis)
	c.resource = strings.Join(apis, " ")
	response := &serviceusagepb.BatchEnableServicesResponse{}
	for _, api := range apis {
		response.Services = append(response.Services, c.resources["projects/"+c.project+"/services/"+api].(*serviceusagepb.Service))
	}
	return response, nil
}

// Cloud Run functions: https://cloud.google.com/functions/docs/reference/rest/v2/projects.locations.functions

func (c *call) uploadURL() (proto.Message, error) {
	object := fmt.Sprintf("source-%d.zip", c.next())
	return &functionspb.GenerateUploadUrlResponse{
		UploadUrl:     "http://storage.googleapis.com/gcf-v2-uploads/" + object,
		StorageSource: &functionspb.StorageSource{Bucket: "gcf-v2-uploads", Object: object},
	}, nil
}

// deployFunction leaves a new function that was not built without a service, and an old one as it was.
func (c *call) deployFunction() (proto.Message, error) {
	m, _ := c.given()
	if c.Build != nil {
		c.problem = c.Build(m.Interface().(*functionspb.Function))
	}
	if c.problem != nil && c.method.Name() == "UpdateFunction" {
		c.resource = c.key(text(m, "name"))
		return c.find(c.resource)
	}
	made, err := c.standard()
	if c.problem == nil || err != nil {
		return made, err
	}
	f := made.(*functionspb.Function)
	c.remove(f.ServiceConfig.Service)
	f.State, f.ServiceConfig.Uri, f.ServiceConfig.Service, f.ServiceConfig.Revision = functionspb.Function_FAILED, "", "", ""
	f.StateMessages = []*functionspb.StateMessage{{Severity: functionspb.StateMessage_ERROR, Type: "CloudRunServiceNotFound", Message: status.Convert(c.problem).Message()}}
	return f, nil
}

func (c *call) runtimes() (proto.Message, error) {
	response := &functionspb.ListRuntimesResponse{}
	for _, name := range []string{"go125", "go126", "go127"} {
		response.Runtimes = append(response.Runtimes, &functionspb.ListRuntimesResponse_Runtime{Name: name, Environment: functionspb.Environment_GEN_2})
	}
	return response, nil
}

func (g *Google) completeFunction(name string, f, before *functionspb.Function) {
	if f.BuildConfig == nil {
		f.BuildConfig = &functionspb.BuildConfig{}
	}
	if f.ServiceConfig == nil {
		f.ServiceConfig = &functionspb.ServiceConfig{}
	}
	id, region, s := path.Base(name), strings.Split(name, "/")[3], f.ServiceConfig
	f.State, f.Environment = functionspb.Function_ACTIVE, functionspb.Environment_GEN_2
	f.Url = "https://" + region + "-" + g.project + ".cloudfunctions.net/" + id
	if before == nil { // https://cloud.google.com/functions/docs/monitoring/logging
		s.EnvironmentVariables = maps.Clone(s.EnvironmentVariables)
		if s.EnvironmentVariables == nil {
			s.EnvironmentVariables = make(map[string]string)
		}
		s.EnvironmentVariables["LOG_EXECUTION_ID"] = "true"
	}
	// The defaults are those of the API's reference.
	s.TimeoutSeconds = cmp.Or(s.TimeoutSeconds, 60)
	s.AvailableMemory = cmp.Or(s.AvailableMemory, "256M")
	s.ServiceAccountEmail = cmp.Or(s.ServiceAccountEmail, Number+"-compute@developer.gserviceaccount.com")
	s.MaxInstanceRequestConcurrency = cmp.Or(s.MaxInstanceRequestConcurrency, 1)
	s.IngressSettings = cmp.Or(s.IngressSettings, functionspb.ServiceConfig_ALLOW_ALL)
	s.AllTrafficOnLatestRevision = s.AllTrafficOnLatestRevision || before == nil
	s.Service = "projects/" + g.project + "/locations/" + region + "/services/" + id
	s.Uri = "https://" + id + "-abc123-uc.a.run.app"
	g.put(s.Service, g.service(f))
	s.Revision = path.Base(g.resources[s.Service].(*runpb.Service).LatestReadyRevision)
	if t := f.EventTrigger; t != nil {
		g.trigger(f, t)
	}
}

// service returns the Cloud Run service of a function. Its CPU stays allocated always if it was, as in
// https://github.com/world-federation-of-advertisers/cross-media-measurement/issues/3832, and its
// requests stay with an older revision, as gcloud warns of.
func (g *Google) service(f *functionspb.Function) *runpb.Service {
	s := f.ServiceConfig
	ingress := map[functionspb.ServiceConfig_IngressSettings]runpb.IngressTraffic{
		functionspb.ServiceConfig_ALLOW_ALL:               runpb.IngressTraffic_INGRESS_TRAFFIC_ALL,
		functionspb.ServiceConfig_ALLOW_INTERNAL_ONLY:     runpb.IngressTraffic_INGRESS_TRAFFIC_INTERNAL_ONLY,
		functionspb.ServiceConfig_ALLOW_INTERNAL_AND_GCLB: runpb.IngressTraffic_INGRESS_TRAFFIC_INTERNAL_LOAD_BALANCER,
	}
	idle, traffic := true, []*runpb.TrafficTarget{{Type: runpb.TrafficTargetAllocationType_TRAFFIC_TARGET_ALLOCATION_TYPE_LATEST, Percent: 100}}
	if before, ok := g.resources[s.Service].(*runpb.Service); ok {
		idle = before.Template.Containers[0].Resources.CpuIdle
		if !s.AllTrafficOnLatestRevision {
			traffic = before.Traffic
		}
	}
	container := &runpb.Container{
		Image:     "us-central1-docker.pkg.dev/" + g.project + "/gcf-artifacts/" + path.Base(f.Name),
		Resources: &runpb.ResourceRequirements{Limits: map[string]string{"cpu": s.AvailableCpu, "memory": s.AvailableMemory}, CpuIdle: idle, StartupCpuBoost: true},
	}
	for name, value := range s.EnvironmentVariables {
		container.Env = append(container.Env, &runpb.EnvVar{Name: name, Values: &runpb.EnvVar_Value{Value: value}})
	}
	return &runpb.Service{
		Labels: map[string]string{"goog-managed-by": "cloudfunctions"}, Ingress: ingress[s.IngressSettings],
		Uri: s.Uri, Urls: []string{"https://" + path.Base(f.Name) + "-" + Number + "." + strings.Split(s.Service, "/")[3] + ".run.app", s.Uri},
		Template: &runpb.RevisionTemplate{
			Containers: []*runpb.Container{container}, ServiceAccount: s.ServiceAccountEmail, MaxInstanceRequestConcurrency: s.MaxInstanceRequestConcurrency,
			Scaling: &runpb.RevisionScaling{MinInstanceCount: s.MinInstanceCount, MaxInstanceCount: s.MaxInstanceCount},
		},
		Traffic: traffic,
	}
}

// trigger keeps the Eventarc trigger of a function.
func (g *Google) trigger(f *functionspb.Function, t *functionspb.EventTrigger) {
	if t.Trigger == "" {
		t.Trigger = fmt.Sprintf("projects/%s/locations/%s/triggers/%s-%06d", g.project, t.TriggerRegion, path.Base(f.Name), g.next())
	}
	filters := []*eventarcpb.EventFilter{{Attribute: "type", Value: t.EventType}}
	for _, filter := range t.EventFilters {
		filters = append(filters, &eventarcpb.EventFilter{Attribute: filter.Attribute, Value: filter.Value, Operator: filter.Operator})
	}
	g.put(t.Trigger, &eventarcpb.Trigger{
		EventFilters: filters, ServiceAccount: t.ServiceAccountEmail,
		Destination: &eventarcpb.Destination{Descriptor_: &eventarcpb.Destination_CloudFunction{CloudFunction: f.Name}},
	})
}

func (g *Google) completeService(name string, s, before *runpb.Service) {
	s.Generation = before.GetGeneration() + 1
	s.ObservedGeneration = s.Generation
	s.LatestReadyRevision = fmt.Sprintf("%s/revisions/%s-%05d-abc", name, path.Base(name), s.Generation)
	s.LatestCreatedRevision = s.LatestReadyRevision
	s.TerminalCondition = &runpb.Condition{Type: "Ready", State: runpb.Condition_CONDITION_SUCCEEDED}
	if f, ok := g.resources[strings.Replace(name, "/services/", "/functions/", 1)].(*functionspb.Function); ok {
		f.ServiceConfig.AllTrafficOnLatestRevision = latest(s)
	}
}

// latest reports whether the newest revision gets all requests.
func latest(s *runpb.Service) bool {
	return len(s.Traffic) == 1 && s.Traffic[0].Type == runpb.TrafficTargetAllocationType_TRAFFIC_TARGET_ALLOCATION_TYPE_LATEST
}

// Eventarc: https://cloud.google.com/eventarc/docs/reference/rest/v1/projects.locations.triggers

// refusalOfTrigger has the words of https://github.com/hashicorp/terraform-provider-google/issues/17057,
// https://cloud.google.com/eventarc/docs/troubleshooting and
// https://github.com/GoogleCloudPlatform/eventarc-samples/issues/94.
func (c *call) refusalOfTrigger(t, before *eventarcpb.Trigger) error {
	if before != nil && filterOf(before, "type") != filterOf(t, "type") { // as gcloud's source says
		return status.Error(codes.InvalidArgument, "The request was invalid: the trigger's type cannot be updated")
	}
	agent := "serviceAccount:service-" + Number + "@gcp-sa-eventarc.iam.gserviceaccount.com"
	if !c.has("projects/"+c.project, "roles/eventarc.serviceAgent", agent) {
		return status.Error(codes.InvalidArgument, `Invalid resource state for "": Permission denied while using the Eventarc Service Agent. `+
			"If you recently started to use Eventarc, it may take a few minutes before all necessary permissions are propagated to the Service Agent. "+
			"Otherwise, verify that it has Eventarc Service Agent role.")
	}
	if err := c.noAccount(t.ServiceAccount); err != nil {
		return err
	}
	if !c.has("projects/"+c.project, "roles/eventarc.eventReceiver", "serviceAccount:"+t.ServiceAccount) {
		return status.Errorf(codes.PermissionDenied, "Permission \"eventarc.events.receiveEvent\" denied on %q", t.ServiceAccount)
	}
	if database := filterOf(t, "database"); database != "" {
		here := strings.Split(c.resource, "/")[3]
		d, _ := c.resources["projects/"+c.project+"/databases/"+database].(*adminpb.Database)
		if d.GetLocationId() != here {
			return status.Errorf(codes.InvalidArgument, "Validation failed for trigger %s: The request was invalid: generic::invalid_argument: "+
				"Database '%s' does not exist in region '%s'. Did you mean region '%s'?", c.resource, database, here, d.GetLocationId())
		}
	}
	return nil
}

// filterOf returns the value that a trigger's events have in an attribute.
func filterOf(t *eventarcpb.Trigger, attribute string) string {
	for _, f := range t.EventFilters {
		if f.Attribute == attribute {
			return f.Value
		}
	}
	return ""
}

// has reports whether the policy of a resource gives a role to a member.
func (g *Google) has(resource, role, member string) bool {
	return slices.ContainsFunc(g.policies[resource].GetBindings(), func(b *iampb.Binding) bool {
		return b.Role == role && slices.Contains(b.Members, member)
	})
}

// completeTrigger makes the topic and the subscription through which a new trigger's events go.
func (g *Google) completeTrigger(name string, t, before *eventarcpb.Trigger) {
	if before != nil {
		t.Transport = before.Transport
		return
	}
	parts := strings.Split(name, "/")
	id, n := "eventarc-"+parts[3]+"-"+parts[5], g.next()
	pubsub := &eventarcpb.Pubsub{
		Topic:        fmt.Sprintf("projects/%s/topics/%s-%d", g.project, id, n),
		Subscription: fmt.Sprintf("projects/%s/subscriptions/%s-sub-%d", g.project, id, n),
	}
	t.Transport = &eventarcpb.Transport{Intermediary: &eventarcpb.Transport_Pubsub{Pubsub: pubsub}}
	g.put(pubsub.Topic, &pubsubpb.Topic{})
	g.put(pubsub.Subscription, &pubsubpb.Subscription{Topic: pubsub.Topic, AckDeadlineSeconds: 10, State: pubsubpb.Subscription_ACTIVE})
}

// Cloud Scheduler: https://cloud.google.com/scheduler/docs/reference/rest/v1/projects.locations.jobs

func (c *call) changeJob() (proto.Message, error) {
	c.resource = c.key(text(c.request.ProtoReflect(), "name"))
	m, err := c.find(c.resource)
	if err != nil {
		return nil, err
	}
	j := m.(*schedulerpb.Job)
	switch c.method.Name() {
	case "PauseJob":
		j.State = schedulerpb.Job_PAUSED
	case "ResumeJob":
		j.State = schedulerpb.Job_ENABLED
	case "RunJob":
		j.LastAttemptTime = timestamppb.Now()
	}
	return j, nil
}

// Firestore: https://cloud.google.com/firestore/docs/reference/rest/v1/projects.databases.collectionGroups.fields

func (g *Google) completeDatabase(name string, d *adminpb.Database) {
	d.Type = cmp.Or(d.Type, adminpb.Database_FIRESTORE_NATIVE)
	d.DatabaseEdition = cmp.Or(d.DatabaseEdition, adminpb.Database_STANDARD)
	index := func(i *adminpb.Index_IndexField) *adminpb.Index {
		i.FieldPath = "*"
		return &adminpb.Index{QueryScope: adminpb.Index_COLLECTION, State: adminpb.Index_READY, Fields: []*adminpb.Index_IndexField{i}}
	}
	field := name + "/collectionGroups/__default__/fields/*"
	g.resources[field] = &adminpb.Field{Name: field, IndexConfig: &adminpb.Field_IndexConfig{Indexes: []*adminpb.Index{
		index(&adminpb.Index_IndexField{ValueMode: &adminpb.Index_IndexField_Order_{Order: adminpb.Index_IndexField_ASCENDING}}),
		index(&adminpb.Index_IndexField{ValueMode: &adminpb.Index_IndexField_Order_{Order: adminpb.Index_IndexField_DESCENDING}}),
		index(&adminpb.Index_IndexField{ValueMode: &adminpb.Index_IndexField_ArrayConfig_{ArrayConfig: adminpb.Index_IndexField_CONTAINS}}),
	}}}
}

// completeField gives a field that has no index configuration of its own the database's.
func (g *Google) completeField(f *adminpb.Field) {
	if f.IndexConfig == nil {
		database, _, _ := strings.Cut(f.Name, "/collectionGroups/")
		byDefault := g.resources[database+"/collectionGroups/__default__/fields/*"].(*adminpb.Field)
		f.IndexConfig = &adminpb.Field_IndexConfig{Indexes: byDefault.IndexConfig.Indexes, UsesAncestorConfig: true, AncestorField: byDefault.Name}
	}
	if f.TtlConfig != nil {
		f.TtlConfig.State = cmp.Or(f.TtlConfig.State, adminpb.Field_TtlConfig_ACTIVE)
	}
}

// getField finds any field of a database.
func (c *call) getField() (proto.Message, error) {
	c.resource = c.key(text(c.request.ProtoReflect(), c.pattern.variable))
	database, _, _ := strings.Cut(c.resource, "/collectionGroups/")
	if c.resources[database] == nil {
		return nil, status.Errorf(codes.NotFound, "Project '%s' or database '%s' does not exist.", c.project, path.Base(database))
	}
	if f := c.resources[c.resource]; f != nil {
		return f, nil
	}
	f := &adminpb.Field{Name: c.resource}
	c.completeField(f)
	return f, nil
}

func (c *call) updateField() (proto.Message, error) {
	old, err := c.getField()
	if err != nil {
		return nil, err
	}
	merged, err := merge(old, c.request.(*adminpb.UpdateFieldRequest).Field, c.mask())
	if err != nil {
		return nil, err
	}
	f := merged.(*adminpb.Field)
	c.put(c.resource, f)
	if f.IndexConfig.UsesAncestorConfig && f.TtlConfig == nil {
		c.remove(c.resource)
	}
	return f, nil
}

// Cloud Monitoring: https://cloud.google.com/monitoring/api/ref_v3/rest

func (c *call) timeSeries() (proto.Message, error) {
	filter, err := parseFilter(c.request.(*monitoringpb.ListTimeSeriesRequest).GetFilter())
	if err != nil {
		return nil, err
	}
	var found []proto.Message
	for _, s := range c.Series {
		if filter(s) {
			found = append(found, s)
		}
	}
	return c.page(found)
}

func (c *call) updateDashboard() (proto.Message, error) {
	d := c.request.(*dashboardpb.UpdateDashboardRequest).GetDashboard()
	old, _ := c.resources[c.key(d.GetName())].(*dashboardpb.Dashboard)
	switch {
	case old != nil && d.Etag == "":
		return nil, status.Error(codes.InvalidArgument, "Update Dashboard should specify a non empty etag")
	case old != nil && d.Etag != old.Etag:
		return nil, status.Error(codes.Aborted, "The dashboard was changed in the meantime")
	}
	return c.standard()
}
