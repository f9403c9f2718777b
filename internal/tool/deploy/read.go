package deploy

import (
	"context"
	"errors"
	"net/http"
	"path"
	"sync"

	"google.golang.org/api/option"
)

// listedKinds are the kinds that are read by one List of a collection, which has all resources of
// the project.
var listedKinds = []struct {
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

// Read reads the project over the REST interfaces of Google's APIs. It changes nothing there. The
// options are those of Google's clients.
//
// State.Unread tells which kinds could not be read. It is an error if the project, its APIs or its
// databases could not, because everything else needs them; then the state is good for nothing but a
// recording. An API that is not enabled counts as
// read: it has nothing. A single location that does not answer makes a kind Unread only if it
// matters; see settle.
func Read(ctx context.Context, id string, o ...option.ClientOption) (*State, error) {
	s, err := connect(ctx, id, o)
	if err != nil {
		return nil, err
	}

	s.readAll(ctx, "projects/"+id)
	for _, k := range []Kind{Project, API, Field} {
		if u := s.Unread[k]; u != nil {
			return s, u
		}
	}
	s.Number = path.Base(s.have[Project][0].name())
	s.settle(nil)

	// These have names that only the functions tell.
	for _, f := range s.Functions() {
		s.repository(ctx, f.Get("buildConfig.dockerRepository"))

		service := f.Get("serviceConfig.service")
		if service != "" {
			s.get(ctx, Service, service)
		}
	}
	return s, nil
}

// readAll reads everything for which the project's name is enough, all at once.
func (s *State) readAll(ctx context.Context, project string) {
	var all sync.WaitGroup
	for _, l := range listedKinds {
		all.Go(func() { s.list(ctx, l.kind, project+"/"+l.collection) })
	}

	all.Go(func() { s.get(ctx, Project, project) })
	all.Go(func() { s.policy(ctx, Account, project+"/serviceAccounts/"+email(s.Project, triggerAccount)) })
	all.Go(func() { s.databases(ctx, project) })
	all.Go(func() { s.exclusions(ctx) })
	all.Go(func() { s.jobs(ctx, project) })
	for _, k := range []Kind{Function, Trigger} {
		all.Go(func() { _, _ = s.locations(ctx, k, project) }) // without them nothing is refused
	}
	all.Wait()
}

// ReadFor reads the resources that only the description names: indexes, fields and the repository.
// A location that did not answer makes a kind Unread if the description wants something there.
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

	// One call reads both.
	if u := s.Unread[Field]; u != nil {
		s.Unread[TTL] = u
	}
	if u := s.Unread[Repository]; u != nil {
		s.Unread[Cleanup] = u
	}
}

// get reads a resource of the kind, and who may do what with it.
func (s *State) get(ctx context.Context, k Kind, name string) {
	var o Object
	err := s.Call(ctx, k.source(), http.MethodGet, k.version()+"/"+name, "", &o)
	if err != nil {
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

// add adds resources of the kind, or why those could not be read. An API that is not enabled has
// none.
func (s *State) add(k Kind, err error, found ...Object) {
	s.mu.Lock()
	defer s.mu.Unlock()

	for _, o := range found {
		switch k {
		case Trigger:
			tidy(o)
		case Subscription:
			expiring(o)
		}
		s.have[k] = append(s.have[k], o)
	}

	none := err == nil || k != Project && absent(err)
	if !none && s.Unread[k] == nil {
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
