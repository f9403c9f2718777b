package deploy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// A State is what there is in a project, as gcloud tells it.
type State struct {
	ProjectNumber   string
	APIs            []string // enabled
	Databases       []database
	ServiceAccounts []account
	Policy          policy            // of the project
	TriggerPolicy   policy            // of the trigger's service account
	Functions       []function        // those that tally deploy made
	Others          []function        // all others
	Invokers        map[string]policy // of their Cloud Run services, by region and name as in id
	Jobs            []job
	Fields          map[string][]field // that differ from the default, by database
	Metrics         []map[string]any
	Policies        []map[string]any // of alerts
	Dashboards      []map[string]any
	Channels        []channel
}

// What gcloud prints is the resources of Google's REST APIs.
type (
	database struct {
		Name       string // projects/P/databases/ID
		LocationID string `json:"locationId"`
		Type       string
	}
	account struct {
		Email, Description string
	}
	policy struct {
		Bindings []struct {
			Role    string
			Members []string
		}
	}
	// https://cloud.google.com/functions/docs/reference/rest/v2/projects.locations.functions
	function struct {
		Name        string // projects/P/locations/REGION/functions/NAME
		State       string
		UpdateTime  time.Time
		Environment string
		Labels      map[string]string
		BuildConfig struct {
			Runtime, EntryPoint, ServiceAccount string
		}
		ServiceConfig struct {
			URI                           string
			TimeoutSeconds                int
			AvailableMemory, AvailableCPU string
			EnvironmentVariables          map[string]string
			MaxInstanceCount              int
			MinInstanceCount              int
			MaxInstanceRequestConcurrency int
			ServiceAccountEmail           string
		}
		EventTrigger *struct {
			TriggerRegion, EventType, ServiceAccountEmail, RetryPolicy string
			EventFilters                                               []struct{ Attribute, Value, Operator string }
		}
	}
	// https://cloud.google.com/scheduler/docs/reference/rest/v1/projects.locations.jobs
	job struct {
		Name                                   string // projects/P/locations/REGION/jobs/NAME
		Description, Schedule, TimeZone, State string
		AttemptDeadline                        string
		RetryConfig                            struct {
			RetryCount                             int
			MinBackoffDuration, MaxBackoffDuration string
		}
		HTTPTarget struct {
			URI, HTTPMethod string
			OIDCToken       struct{ ServiceAccountEmail string }
		} `json:"httpTarget"`
	}
	// https://cloud.google.com/firestore/docs/reference/rest/v1/projects.databases.collectionGroups.fields
	field struct {
		Name        string // projects/P/databases/D/collectionGroups/G/fields/F
		IndexConfig *struct {
			Indexes            []any
			UsesAncestorConfig bool
		}
		TTLConfig *struct{ State string } `json:"ttlConfig"`
	}
	channel struct {
		Name       string
		Labels     map[string]string
		UserLabels map[string]string
	}
)

func (f *function) id() string     { return path.Base(f.Name) }
func (f *function) region() string { return segment(f.Name, "locations") }
func (j *job) region() string      { return segment(j.Name, "locations") }

// labelled reports whether the function has Tally's label, whatever gave it: Terraform does too.
func (f *function) labelled() bool {
	return f.Labels[Label] == KindOnWrite || f.Labels[Label] == KindOnSchedule
}

// segment returns what follows the collection's name in a resource's name.
func segment(name, collection string) string {
	parts := strings.Split(name, "/")
	if i := slices.Index(parts, collection); i >= 0 && i+1 < len(parts) {
		return parts[i+1]
	}
	return ""
}

// has reports whether the policy gives the role to the member.
func (p policy) has(role, member string) bool {
	for _, b := range p.Bindings {
		if b.Role == role && slices.Contains(b.Members, member) {
			return true
		}
	}
	return false
}

// enabled reports whether the project has all the APIs.
func (s *State) enabled(apis ...string) bool {
	return !slices.ContainsFunc(apis, func(api string) bool { return !slices.Contains(s.APIs, api+".googleapis.com") })
}

// function returns the function that is deployed under the name in the region, nil if there is none.
func (s *State) function(region, name string) *function {
	for i := range s.Functions {
		if f := &s.Functions[i]; f.id() == name && f.region() == region {
			return f
		}
	}
	return nil
}

func (s *State) job(region string) *job {
	for i := range s.Jobs {
		if j := &s.Jobs[i]; j.region() == region && path.Base(j.Name) == JobName {
			return j
		}
	}
	return nil
}

// Deployed returns the variables that the functions are deployed with; none if there are none. All have
// the same, and RollUpOnSchedule gets them last, so its own count, or while it is not there those of
// the RollUpOnWrite that was deployed last. Disputed are those that another function has otherwise, by
// their names, and says who has what: after a deploy that did not get to its end. What is older than
// RollUpOnSchedule disputes nothing; it was left over on purpose.
func (s *State) Deployed() (env, disputed map[string]string) {
	env, disputed = make(map[string]string), make(map[string]string)
	var last *function
	for i := range s.Functions {
		f := &s.Functions[i]
		if last == nil || f.scheduled() && !last.scheduled() || f.scheduled() == last.scheduled() && f.UpdateTime.After(last.UpdateTime) {
			last = f
		}
	}
	if last == nil {
		return env, disputed
	}
	env = last.variables()
	for i := range s.Functions {
		f := &s.Functions[i]
		if last.scheduled() && last.State == "ACTIVE" && !f.UpdateTime.After(last.UpdateTime) {
			continue
		}
		has := f.variables()
		both := maps.Clone(env)
		maps.Copy(both, has)
		for name := range both {
			if env[name] != has[name] {
				disputed[name] = fmt.Sprintf("%s in %s, %s in %s", orNone(env[name]), last.id(), orNone(has[name]), f.id())
			}
		}
	}
	return env, disputed
}

func (f *function) scheduled() bool { return f.Labels[Label] == KindOnSchedule }

// variables returns the function's variables but for Cloud Functions' own.
func (f *function) variables() map[string]string {
	env := make(map[string]string)
	maps.Copy(env, f.ServiceConfig.EnvironmentVariables)
	delete(env, "LOG_EXECUTION_ID")
	return env
}

// DeployedIn returns the region that was named for the functions: the one that each RollUpOnWrite is
// in although one of them has its database elsewhere; "" if none was. While functions move, one is in
// several regions: then a region must be named, or which are the old ones would be a guess.
func (s *State) DeployedIn() (string, error) {
	regions := make(map[string][]string)
	region, same, named := "", true, false
	for i := range s.Functions {
		f := &s.Functions[i]
		regions[f.id()] = append(regions[f.id()], f.region())
		if !f.scheduled() {
			same = same && (region == "" || region == f.region())
			region = f.region()
			named = named || !s.near(f)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(regions)) {
		if in := regions[name]; len(in) > 1 {
			slices.Sort(in)
			return "", fmt.Errorf("%s is deployed in %s: name the region that the functions are to be in by --region", name, strings.Join(in, " and in "))
		}
	}
	if !same || !named {
		return "", nil
	}
	return region, nil
}

// near reports whether the function is where its database is; one without a trigger, where any is.
func (s *State) near(f *function) bool {
	if f.EventTrigger != nil {
		return f.region() == FunctionRegion(f.EventTrigger.TriggerRegion)
	}
	return slices.ContainsFunc(s.Databases, func(d database) bool { return f.region() == FunctionRegion(d.LocationID) })
}

// Locate returns the databases with their locations.
func (s *State) Locate(project string, ids []string) ([]Database, error) {
	var found []Database
	var problems []error
	for _, id := range ids {
		i := slices.IndexFunc(s.Databases, func(d database) bool { return path.Base(d.Name) == id })
		switch {
		case i < 0 && id == "(default)" && len(s.Databases) == 0:
			problems = append(problems, fmt.Errorf("project %s has no Firestore database; create one, in a location that it keeps for ever:\n  %s",
				project, gcloud("firestore", "databases", "create", "--location=nam5").in(project)))
		case i < 0:
			problems = append(problems, fmt.Errorf("project %s has no database %s; --databases names those that it has: %s", project, id, s.databaseIDs()))
		case s.Databases[i].Type != "FIRESTORE_NATIVE":
			problems = append(problems, fmt.Errorf("database %s is of type %s; Tally's events and rules need Firestore in native mode", id, s.Databases[i].Type))
		default:
			found = append(found, Database{ID: id, Location: s.Databases[i].LocationID})
		}
	}
	return found, errors.Join(problems...)
}

func (s *State) databaseIDs() string {
	var ids []string
	for _, d := range s.Databases {
		ids = append(ids, path.Base(d.Name))
	}
	return strings.Join(ids, ", ")
}

// Ask asks gcloud for the state of a project. It changes nothing. It asks about nothing whose API is
// not enabled: there is nothing of it then, and gcloud would want to enable it.
func (t *Tools) Ask(ctx context.Context, project string) (*State, error) {
	if err := t.check(ctx); err != nil {
		return nil, err
	}
	s := &State{Invokers: make(map[string]policy), Fields: make(map[string][]field)}
	var described struct{ ProjectNumber json.Number }
	if err := t.query(ctx, &described, gcloud("projects", "describe", project)); err != nil {
		return nil, err
	}
	s.ProjectNumber = described.ProjectNumber.String()
	var services []struct{ Config struct{ Name string } }
	if err := t.query(ctx, &services, gcloud("services", "list", "--enabled").in(project)); err != nil {
		return nil, err
	}
	for _, service := range services {
		s.APIs = append(s.APIs, service.Config.Name)
	}
	all, calls := errgroup.WithContext(ctx)
	all.SetLimit(atOnce)
	ask := func(into any, c Command, apis ...string) {
		if s.enabled(apis...) {
			all.Go(func() error { return t.query(calls, into, c.in(project)) })
		}
	}
	var functions []function
	ask(&s.Databases, gcloud("firestore", "databases", "list"), "firestore")
	ask(&s.Policy, gcloud("projects", "get-iam-policy", project))
	ask(&s.ServiceAccounts, gcloud("iam", "service-accounts", "list"), "iam")
	ask(&functions, gcloud("functions", "list", "--v2"), "cloudfunctions", "run")
	ask(&s.Metrics, gcloud("logging", "metrics", "list"), "logging")
	ask(&s.Policies, gcloud("alpha", "monitoring", "policies", "list"), "monitoring")
	ask(&s.Dashboards, gcloud("monitoring", "dashboards", "list"), "monitoring")
	ask(&s.Channels, gcloud("beta", "monitoring", "channels", "list"), "monitoring")
	if err := all.Wait(); err != nil {
		return nil, err
	}

	// What is asked about what was found.
	for _, f := range functions {
		if f.labelled() && f.Labels[sourceLabel] != "" {
			s.Functions = append(s.Functions, f)
		} else {
			s.Others = append(s.Others, f)
		}
	}
	all, calls = errgroup.WithContext(ctx)
	all.SetLimit(atOnce)
	invokers := make([]policy, len(s.Functions))
	var regions []string
	for i, f := range s.Functions {
		all.Go(func() error {
			err := t.query(calls, &invokers[i], gcloud("run", "services", "get-iam-policy", f.id(), "--region="+f.region()).in(project))
			if failed := new(failure); errors.As(err, &failed) && strings.Contains(failed.stderr, "NOT_FOUND") {
				return nil // a function that was never built has no service
			}
			return err
		})
		if f.Labels[Label] == KindOnSchedule {
			regions = append(regions, f.region())
		}
	}
	jobs := make([][]job, len(regions))
	for i, region := range regions {
		ask(&jobs[i], gcloud("scheduler", "jobs", "list", "--location="+region), "cloudscheduler")
	}
	if trigger := accountEmail(triggerAccount, project); slices.ContainsFunc(s.ServiceAccounts, func(a account) bool { return a.Email == trigger }) {
		ask(&s.TriggerPolicy, gcloud("iam", "service-accounts", "get-iam-policy", trigger))
	}
	if err := all.Wait(); err != nil {
		return nil, err
	}
	for i, f := range s.Functions {
		s.Invokers[f.region()+"/"+f.id()] = invokers[i]
	}
	s.Jobs = slices.Concat(jobs...)
	return s, nil
}

// atOnce is how many commands ask at once: one takes about a second of a processor.
const atOnce = 4

// AskFor asks for what only the settings name: the job's region, and the fields of the databases that
// have indexes or a time to live of their own.
func (t *Tools) AskFor(ctx context.Context, settings *Settings, s *State) error {
	all, calls := errgroup.WithContext(ctx)
	all.SetLimit(atOnce)
	ask := func(into any, args ...string) {
		all.Go(func() error { return t.query(calls, into, gcloud(args...).in(settings.Project)) })
	}
	var jobs []job
	if s.enabled("cloudscheduler") && !slices.ContainsFunc(s.Jobs, func(j job) bool { return j.region() == settings.Job.Region }) {
		ask(&jobs, "scheduler", "jobs", "list", "--location="+settings.Job.Region)
	}
	found := make([]struct{ indexed, expiring []field }, len(settings.Databases))
	for i, d := range settings.Databases {
		ask(&found[i].indexed, "firestore", "indexes", "fields", "list", "--database="+d.ID)
		ask(&found[i].expiring, "firestore", "fields", "ttls", "list", "--database="+d.ID)
	}
	if err := all.Wait(); err != nil {
		return err
	}
	s.Jobs = append(s.Jobs, jobs...)
	for i, d := range settings.Databases {
		s.Fields[d.ID] = append(found[i].indexed, found[i].expiring...)
	}
	return nil
}

// samePattern reports whether two patterns stand for the same documents: they may name captures
// differently.
func samePattern(a, b string) bool {
	anonymous := func(pattern string) string {
		segments := strings.Split(pattern, "/")
		for i, s := range segments {
			if strings.HasPrefix(s, "{") && strings.HasSuffix(s, "}") || s == "*" {
				segments[i] = "{}"
			}
		}
		return strings.Join(segments, "/")
	}
	return anonymous(a) == anonymous(b)
}
