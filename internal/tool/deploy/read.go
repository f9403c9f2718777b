package deploy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"
	"sync"

	"google.golang.org/api/option"
)

// listedKinds are the kinds that are read by one List of a collection, which has all resources of
// the project.
var listedKinds = []struct {
	kind       *Kind
	collection string
}{
	{Account, "serviceAccounts"},
	{Exclusion, "exclusions"},
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

	s.number(ctx)
	s.readAll(ctx, "projects/"+id)
	for _, k := range []*Kind{Project, API, Field} {
		if u := s.Unread[k]; u != nil {
			return s, u
		}
	}
	if s.Number == "" {
		return s, fmt.Errorf("the number of project %s could not be read; enable an API that has it:\n  gcloud services enable %s.googleapis.com --project=%[1]s", id, projectsAPI.name)
	}
	s.settle(nil)

	// These have names that only the functions tell.
	for _, f := range s.Functions() {
		s.ours(ctx, Repository, f.Get("buildConfig.dockerRepository"))
		s.ours(ctx, Queue, Environment(f)["TALLY_QUEUE"])

		service := f.Get("serviceConfig.service")
		if service != "" {
			s.get(ctx, Service, service)
		}
	}
	return s, nil
}

// number reads which APIs are enabled, and the project's number. Both come first: by the number an
// API says for which project it is not enabled.
func (s *State) number(ctx context.Context) {
	project := "projects/" + s.Project
	s.list(ctx, API, project+"/services?filter=state:ENABLED")
	for _, api := range s.have[API] {
		s.Number = strings.Split(api.name(), "/")[1]
	}

	s.get(ctx, Project, project)
	if p := s.have[Project]; len(p) > 0 {
		s.Number = path.Base(p[0].name())
	}
}

// readAll reads everything for which the project's name is enough, all at once.
func (s *State) readAll(ctx context.Context, project string) {
	var all sync.WaitGroup
	for _, l := range listedKinds {
		all.Go(func() { s.list(ctx, l.kind, project+"/"+l.collection) })
	}

	all.Go(func() { s.policy(ctx, Account, project+"/serviceAccounts/"+email(s.Project, triggerAccount)) })
	all.Go(func() { s.databases(ctx, project) })
	all.Go(func() { s.jobs(ctx, project) })
	for _, k := range []*Kind{Function, Queue, Trigger} {
		all.Go(func() { _, _ = s.locations(ctx, k, project) }) // without them nothing is refused
	}
	all.Wait()
}

// ReadFor reads the resources that only the description names: indexes, fields, the
// repository and the queue.
// A location that did not answer makes a kind Unread if the description wants something there.
func (s *State) ReadFor(ctx context.Context, d *Description) {
	s.settle(d)

	var all sync.WaitGroup
	if len(d.Config.Routes.Indexes()) > 0 {
		all.Go(func() { _ = s.ReadIndexes(ctx, d.Databases) }) // Unread has the error
	}
	for _, r := range d.Resources {
		switch r.Kind {
		case Repository, Queue:
			all.Go(func() { s.ours(ctx, r.Kind, r.Name) })
		case Field:
			all.Go(func() { s.readField(ctx, r.Name) })
		}
	}
	all.Wait()
}

// get reads a resource of the kind, and who may do what with it.
func (s *State) get(ctx context.Context, k *Kind, name string) {
	var o Object
	err := s.Call(ctx, k.api, http.MethodGet, k.address(name), "", &o)
	if err != nil {
		s.add(k, err)
		return
	}

	s.add(k, nil, o)
	s.policy(ctx, k, name)
}

// list reads the resources of a kind in a collection.
func (s *State) list(ctx context.Context, k *Kind, collection string) {
	found, err := s.List(ctx, k.api, k.address(collection))
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

// ours reads the resource of a name that the functions or the description tell, if it is Tally's,
// unless it is read already.
func (s *State) ours(ctx context.Context, k *Kind, name string) {
	isOurs := strings.HasPrefix(name, "projects/"+s.Project+"/") && path.Base(name) == "tally"
	if isOurs && s.Find(k, name) == nil {
		s.get(ctx, k, name)
	}
}
