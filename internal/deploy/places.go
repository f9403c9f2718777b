package deploy

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// multiRegions are the regions for functions on databases in multi-regions: those that the Firebase
// CLI takes. Eventarc delivers to any region
// (https://firebase.google.com/docs/firestore/eventarc).
var multiRegions = map[string]string{"nam5": "us-central1", "nam7": "us-central1", "eur3": "europe-west1"}

// buildRegions are those in which every project may build. Some, often new ones, may build nowhere
// else, and nothing but a build tells which they are: https://cloud.google.com/build/docs/locations
var buildRegions = []string{"asia-east1", "australia-southeast1", "europe-west1", "southamerica-east1", "us-central1", "us-west2"}

// An unreached says why resources of a kind could not be read in a location.
type unreached struct {
	Unread
	kind     Kind
	location string
}

// An unreachable is the error of a list that lacks what is in some regions.
type unreachable struct {
	regions []string // ids
}

func (u *unreachable) Error() string {
	return "these regions did not answer: " + strings.Join(u.regions, ", ")
}

// miss notes that resources of the kind could not be read in a location.
func (s *State) miss(k Kind, location string, err error) {
	if absent(err) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unreached = append(s.unreached, unreached{*ReadError(k.source(), s.Project, k.All()+" in "+location, err), k, location})
}

// settle makes Unread what could not be read in a location that matters. A location matters for a kind
// if the description, if there is one, has such resources there, or if what was found tells that the
// project has.
func (s *State) settle(d *Description) {
	s.unreached = slices.DeleteFunc(s.unreached, func(u unreached) bool {
		if !s.names(u.kind, u.location) && (d == nil || !d.uses(u.kind, u.location)) {
			return false
		}
		if s.Unread[u.kind] == nil {
			s.Unread[u.kind] = &u.Unread
		}
		return true
	})

	if u := s.Unread[Trigger]; u != nil { // a subscription is of use only with its trigger
		s.Unread[Subscription] = u
	}
}

// names reports whether what was found tells that resources of the kind may be in the location.
// Triggers are where other triggers are: at their database. All else is in the functions' region, which
// triggers name, and also the condition on the grant by which builds read their bucket.
func (s *State) names(k Kind, location string) bool {
	for of, objects := range s.have {
		for _, o := range objects {
			if !ours(o) && !made(o) {
				continue
			}
			if segment(o.name(), "locations") == location && (of == Trigger) == (k == Trigger) {
				return true
			}
			if o.Get("destination.cloudRun.region") == location && k != Trigger {
				return true
			}
		}
	}

	build := "serviceAccount:" + email(s.Project, buildAccount)
	return k != Trigger && slices.ContainsFunc(s.given, func(g Grant) bool {
		return g.Member == build && strings.Contains(g.Condition, "-"+location+`"`)
	})
}

// Unreached tells, in a sentence for each, what could not be read in a location where nothing of
// Tally's is known to be, and why. The sentences are sorted, because the calls end in any order.
func (s *State) Unreached() (notes []string) {
	for _, u := range s.unreached {
		notes = append(notes, fmt.Sprintf("%s could not be read, and nothing of Tally's is known to be there: %s", u.What, u.Why))
	}
	slices.Sort(notes)
	return notes
}

// uses reports whether a resource of the kind is to be in the location.
func (d *Description) uses(k Kind, location string) bool {
	return slices.ContainsFunc(d.Resources, func(r Resource) bool { return r.Kind() == k && segment(r.Name(), "locations") == location })
}

// checkRegion refuses a region that Cloud Scheduler does not have. As long as its API is not
// enabled, nobody tells its regions; then the plan looks.
func (d *Description) checkRegion(have *State) error {
	if len(have.schedulers) == 0 || slices.Contains(have.schedulers, d.region()) {
		return nil
	}

	continent, _, _ := strings.Cut(d.region(), "-")
	elsewhere := func(region string) bool { return !strings.HasPrefix(region, continent+"-") }
	regions := slices.DeleteFunc(slices.Sorted(slices.Values(have.schedulers)), elsewhere)
	if len(regions) == 0 {
		regions = slices.Sorted(slices.Values(have.schedulers))
	}
	return fmt.Errorf("%s has no Cloud Scheduler, which calls %s; write another region into tally.yaml, of %s:\n  region: %s",
		d.region(), OnScheduleName, strings.Join(regions, ", "), regions[0])
}

// lookForScheduler has a plan that makes the job look whether Cloud Scheduler has the region, before
// anything is made, if that is not known.
func (p *Plan) lookForScheduler(d *Description, have *State) {
	if !p.creates(Job) || len(have.schedulers) > 0 {
		return
	}

	p.afterAPIs(Step{
		Does:    See,
		Of:      API,
		Title:   "see that Cloud Scheduler is in " + d.region(),
		Command: gcloud("scheduler", "locations", "describe", d.region()).in(d.Project),
		Remedy: fmt.Sprintf("If Cloud Scheduler is not in %s, write another region into tally.yaml, of those that this lists:\n  gcloud scheduler locations list --project=%s",
			d.region(), d.Project),
		Again: true,
	})
}

// noteBuilds notes that the first build in a region may be refused.
func (p *Plan) noteBuilds(d *Description) {
	if p.creates(Function) && !slices.Contains(buildRegions, d.region()) {
		p.note("some projects, often new ones, may build only in %s. If yours is one, the functions cannot be built in %s: then name one of those as region in tally.yaml, and run tally deploy again",
			strings.Join(buildRegions, ", "), d.region())
	}
}

// locationID returns the id of a location, of which APIs also give the full name.
func locationID(name string) string { return path.Base(name) }
