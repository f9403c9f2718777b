package deploy

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/googleapis/gax-go/v2"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"
	transport "google.golang.org/api/transport/http"
)

// A State holds the resources of a project.
type State struct {
	Project   string
	Number    string            // of the project
	Databases map[string]Object // by id

	// Unread says why resources could not be read, by their kind.
	Unread map[Kind]*Unread

	client     *http.Client
	mu         sync.Mutex
	have       map[Kind][]Object
	given      []Grant
	unreached  []unreached
	schedulers []string // locations of Cloud Scheduler; none: its API is not enabled, or could not be read
}

// newState returns the state of a project in which there is nothing.
func newState(id string) *State {
	return &State{Project: id, Databases: make(map[string]Object),
		Unread: make(map[Kind]*Unread), have: make(map[Kind][]Object)}
}

// NewProject returns the state of a project in which there is nothing but databases, and the
// commands that create these. Nobody has seen it, so that commands look up its number.
func NewProject(id string, databases []string, location string) (*State, Plan) {
	s := newState(id)
	s.Number = Placeholder
	var p Plan
	for _, d := range databases {
		s.Databases[d] = Object{"locationId": location, "type": nativeMode}

		p.add(Step{
			Does:    Create,
			Title:   "create database " + d + ", in a location that it keeps for ever",
			Command: createDatabase(id, d, location),
			Exists:  new(gcloud("firestore", "databases", "describe", "--database="+d, "--format=value(name)").in(id)),
		})
	}
	return s, p
}

// Find returns the resource of the kind that has the name, or what else tells it from the others of
// its kind; nil if there is none.
func (s *State) Find(k Kind, name string) Object {
	s.mu.Lock()
	defer s.mu.Unlock()

	for _, o := range s.have[k] {
		if k.key(o) == name {
			return o
		}
	}
	return nil
}

// listed are the kinds of which one call lists all resources of a project, with their collections.
var listed = []struct {
	kind       Kind
	collection string
}{
	{API, "services?filter=state:ENABLED"},
	{Account, "serviceAccounts"},
	{Function, "locations/-/functions"},
	{Trigger, "locations/-/triggers"},
	{Subscription, "subscriptions"},
	{Metric, "metrics"},
	{Channel, "notificationChannels"},
	{Alert, "alertPolicies"},
	{Dashboard, "dashboards"},
}

// Read reads the project over the REST interfaces of Google's APIs. It changes nothing.
// State.Unread tells which parts could not be read; it is an error if one of them is needed for
// everything else. What could not be read in a location where nothing of Tally's was found is
// unreached instead, until ReadFor tells that something is to be there. An API that is not enabled
// has nothing. The options are those of Google's clients.
func Read(ctx context.Context, id string, o ...option.ClientOption) (*State, error) {
	s, err := connect(ctx, id, o)
	if err != nil {
		return nil, err
	}
	parent := "projects/" + id
	var all sync.WaitGroup
	for _, l := range listed {
		all.Go(func() { s.list(ctx, l.kind, parent+"/"+l.collection) })
	}
	all.Go(func() { s.get(ctx, Project, parent) })
	all.Go(func() { s.exclusions(ctx) })
	all.Go(func() {
		databases, err := s.List(ctx, firestoreAPI, "v1/"+parent+"/databases")
		s.add(Field, err)
		for _, d := range databases {
			s.Databases[path.Base(d.name())] = d
		}
	})
	all.Go(func() { s.policy(ctx, Account, parent+"/serviceAccounts/"+email(id, triggerAccount)) })
	all.Go(func() { s.jobs(ctx, parent) })
	all.Wait()
	slices.SortFunc(s.have[Job], func(a, b Object) int { return strings.Compare(a.name(), b.name()) })
	for _, k := range []Kind{Project, API, Field} {
		if u := s.Unread[k]; u != nil {
			return nil, u
		}
	}
	s.Number = path.Base(s.have[Project][0].name())

	s.settle(nil)

	// These have names that only the functions tell.
	for _, f := range s.Functions() {
		s.repository(ctx, f.Get("buildConfig.dockerRepository"))
		if name := f.Get("serviceConfig.service"); name != "" {
			s.get(ctx, Service, name)
		}
	}
	return s, nil
}

// jobs reads the jobs of each location of Cloud Scheduler, of which there are some dozens: it has no
// list of all. One location may be closed to the project. If all are, that is no matter of places.
func (s *State) jobs(ctx context.Context, parent string) {
	locations, err := s.List(ctx, schedulerAPI, "v1/"+parent+"/locations")
	s.add(Job, err)

	errs := make([]error, len(locations))
	var all sync.WaitGroup
	for i, l := range locations {
		s.schedulers = append(s.schedulers, locationID(l.name()))
		all.Go(func() {
			var jobs []Object
			jobs, errs[i] = s.List(ctx, schedulerAPI, "v1/"+l.name()+"/jobs")
			s.add(Job, nil, jobs...)
		})
	}
	all.Wait()

	if len(errs) > 0 && !slices.Contains(errs, nil) {
		s.add(Job, errs[0])
		return
	}
	for i, err := range errs {
		if err != nil {
			s.miss(Job, s.schedulers[i], err)
		}
	}
}

// ReadFor reads the resources that only the description names: indexes, fields and the repository. What was
// not reached in the description's locations is Unread from then on.
func (s *State) ReadFor(ctx context.Context, d *Description) {
	s.settle(d)

	var all sync.WaitGroup
	if len(d.Config.Routes.Indexes()) > 0 {
		all.Go(func() { _ = s.ReadIndexes(ctx, d.Databases) }) // Unread has the error
	}
	for _, r := range d.Resources {
		switch r.Kind() {
		case Repository:
			all.Go(func() { s.repository(ctx, r.Name()) })
		case Field:
			all.Go(func() { s.field(ctx, r.Name()) })
		}
	}
	all.Wait()
	if u := s.Unread[Field]; u != nil {
		s.Unread[TTL] = u
	}
	if u := s.Unread[Repository]; u != nil {
		s.Unread[Cleanup] = u
	}
}

// Deployed returns the variables that a project's functions are deployed with, nil if there are no
// functions. The options are of Google's clients.
func Deployed(ctx context.Context, project string, o ...option.ClientOption) (map[string]string, error) {
	s, err := ReadFunctions(ctx, project, o...)
	if err != nil {
		return nil, err
	}
	return s.Env(), nil
}

// ReadFunctions reads the functions of a project, and nothing else.
func ReadFunctions(ctx context.Context, project string, o ...option.ClientOption) (*State, error) {
	s, err := connect(ctx, project, o)
	if err != nil {
		return nil, err
	}
	s.list(ctx, Function, "projects/"+project+"/locations/-/functions")
	if u := s.Unread[Function]; u != nil {
		return nil, u
	}
	if len(s.Functions()) == 0 && len(s.unreached) > 0 { // they may be there
		return nil, &s.unreached[0]
	}
	return s, nil
}

// get reads a resource of the kind, and who may do what with it.
func (s *State) get(ctx context.Context, k Kind, name string) {
	var o Object
	if err := s.Call(ctx, k.source(), http.MethodGet, k.version()+"/"+name, "", &o); err != nil {
		s.add(k, err)
		return
	}
	s.add(k, nil, o)
	s.policy(ctx, k, name)
}

// list reads the resources of a kind in a collection.
func (s *State) list(ctx context.Context, k Kind, collection string) {
	found, err := s.List(ctx, k.source(), k.version()+"/"+collection)
	u := new(unreachable)
	if !errors.As(err, &u) {
		s.add(k, err, found...)
		return
	}

	s.add(k, nil, found...)
	for _, region := range u.regions {
		s.miss(k, region, errors.New("the region did not answer"))
	}
}

// add adds resources of the kind, or why those could not be read. What an API has that is not
// enabled is nothing.
func (s *State) add(k Kind, err error, found ...Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range found {
		if k == Trigger {
			tidy(o)
		}
		s.have[k] = append(s.have[k], o)
	}
	if err != nil && (k == Project || !absent(err)) && s.Unread[k] == nil {
		s.Unread[k] = ReadError(k.source(), s.Project, k.All(), err)
	}
}

// policy reads which members have which roles on the resource. It asks for version 3 of the policy,
// the first that has conditions.
func (s *State) policy(ctx context.Context, k Kind, name string) {
	verb, query, body := http.MethodGet, "?options.requestedPolicyVersion=3", ""
	switch k {
	case Project:
		verb, query, body = http.MethodPost, "", `{"options": {"requestedPolicyVersion": 3}}`
	case Account:
		verb = http.MethodPost
	}

	var p struct {
		Bindings []struct {
			Role      string
			Members   []string
			Condition struct{ Expression string }
		}
	}
	s.add(k, s.Call(ctx, k.source(), verb, k.version()+"/"+name+":getIamPolicy"+query, body, &p))

	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range p.Bindings {
		for _, member := range b.Members {
			s.given = append(s.given, Grant{k, name, b.Role, member, b.Condition.Expression})
		}
	}
}

// connect returns a state that reads the project.
func connect(ctx context.Context, project string, o []option.ClientOption) (*State, error) {
	s := newState(project)
	var err error
	scopes := option.WithScopes("https://www.googleapis.com/auth/cloud-platform")
	if s.client, _, err = transport.NewClient(ctx, append([]option.ClientOption{scopes}, o...)...); err != nil {
		return nil, ReadError(projectsAPI, project, Project.All(), err)
	}
	return s, nil
}

// List returns all pages of a List of an API, of the collection at the address. If regions did not
// answer, it returns what the others have, and an error: what is missing may be there.
func (s *State) List(ctx context.Context, api Source, address string) (all []Object, err error) {
	collection, query, _ := strings.Cut(address, "?")
	name := path.Base(collection) // of the list in the answer
	if name == "serviceAccounts" {
		name = "accounts"
	}
	var silent []string // regions
	for token := ""; ; {
		var page Object
		if err := s.Call(ctx, api, http.MethodGet, collection+"?"+query+token, "", &page); err != nil {
			return all, err
		}
		list, _ := page[name].([]any)
		for _, o := range list {
			all = append(all, o.(map[string]any))
		}
		for region := range strings.SplitSeq(page.Get("unreachable"), ",") {
			if id := locationID(region); region != "" && !slices.Contains(silent, id) {
				silent = append(silent, id)
			}
		}

		next := page.Get("nextPageToken")
		if next != "" {
			token = "&pageToken=" + url.QueryEscape(next)
			continue
		}
		if len(silent) > 0 {
			return all, &unreachable{silent}
		}
		return all, nil
	}
}

// Call calls an API with a body in JSON, and decodes its answer. While the API is overloaded, Call
// tries again, for a minute.
func (s *State) Call(ctx context.Context, api Source, verb, path, body string, answer any) error {
	call := func(ctx context.Context, _ gax.CallSettings) error {
		address := "https://" + api.name + ".googleapis.com/" + path
		r, err := http.NewRequestWithContext(ctx, verb, address, strings.NewReader(body))
		if err != nil {
			return err
		}

		r.Header.Set("Content-Type", "application/json")
		if api == RulesAPI { // it takes no quota from gcloud's own project; the credentials' own comes first
			r.Header.Set("X-Goog-User-Project", s.Project)
		}

		response, err := s.client.Do(r)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if err := googleapi.CheckResponse(response); err != nil {
			return err
		}

		d := json.NewDecoder(response.Body)
		d.UseNumber() // as they are spelled
		return d.Decode(answer)
	}

	overloaded := func() gax.Retryer { return gax.OnHTTPCodes(gax.Backoff{}, http.StatusServiceUnavailable) }
	return gax.Invoke(ctx, call, gax.WithRetry(overloaded), gax.WithTimeout(time.Minute))
}
