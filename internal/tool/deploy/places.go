package deploy

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/firestore-tally/tally/internal/cloud/billing"
)

// multiRegions are the regions of the functions for databases in multi-regions. The Firebase CLI
// takes the same ones. Eventarc delivers to any region
// (https://firebase.google.com/docs/firestore/eventarc). eur3's events come from europe-west4
// (https://cloud.google.com/firestore/docs/eventarc). But europe-west1 is one of buildRegions, and
// europe-west4 is not: a new project could not build there.
var multiRegions = map[string]string{"nam5": "us-central1", "nam7": "us-central1", "eur3": "europe-west1"}

// continent returns the part of the world that a location of Google's is in, such as "europe".
func continent(location string) string {
	word, _, _ := strings.Cut(strings.TrimRight(location, "0123456789"), "-")
	switch word {
	case "nam", "us", "northamerica":
		return "northamerica"
	case "eur":
		return "europe"
	}
	return word
}

// elsewhere returns the databases on another continent than the functions.
func (d *Description) elsewhere() []Database {
	return slices.DeleteFunc(slices.Clone(d.Databases), func(database Database) bool {
		return continent(database.Location) == continent(d.region())
	})
}

// checkContinents refuses to choose the functions' region if databases are on several continents:
// each event carries its whole document there, which may be against a law or a contract.
func (d *Description) checkContinents() error {
	far := d.elsewhere()
	if d.Region != "" || len(far) == 0 {
		return nil
	}
	return fmt.Errorf("database %s in %s and database %s in %s are on two continents, and the events of both carry whole documents to the functions' region: write that into tally.yaml, such as\n  region: %s",
		d.Databases[0].ID, d.Databases[0].Location, far[0].ID, far[0].Location, d.region())
}

// buildRegions are the regions in which every project may build. Some projects, often new ones, may
// build nowhere else. Only a build tells whether a project is one of them:
// https://cloud.google.com/build/docs/locations
var buildRegions = []string{"asia-east1", "australia-southeast1", "europe-west1", "southamerica-east1", "us-central1", "us-west2"}

// An unreached says why resources of a kind could not be read in a location.
type unreached struct {
	Unread
	kind     *Kind
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
func (s *State) miss(k *Kind, location string, err error) {
	if s.absent(err) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unreached = append(s.unreached, unreached{*s.readError(k.api, k.All()+" in "+location, err), k, location})
}

// settle decides which unreached locations make a kind Unread: those that matter for the kind. A
// location matters if the description wants resources of the kind there, or if the resources that
// were found tell that there may be some. d may be nil.
func (s *State) settle(d *Description) {
	s.unreached = slices.DeleteFunc(s.unreached, func(u unreached) bool {
		if !s.mayHave(u.kind, u.location) && (d == nil || !d.uses(u.kind, u.location)) {
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

// mayHave reports whether the resources that were found tell that some of the kind may be in the
// location. Triggers are where other triggers are: at their database. All else is in the functions'
// region. Two things tell it: the triggers' destination, and the condition on the grant by which
// builds read their bucket.
func (s *State) mayHave(k *Kind, location string) bool {
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
	return k != Trigger && slices.ContainsFunc(s.given["projects/"+s.Project], func(g Grant) bool {
		return g.Member == build && strings.Contains(g.If, "-"+location+`"`)
	})
}

// Unreached returns a sentence for each kind and location that could not be read, and where nothing
// of Tally's is known to be. The sentences are sorted, because the calls end in any order.
func (s *State) Unreached() (notes []string) {
	for _, u := range s.unreached {
		notes = append(notes, fmt.Sprintf("%s could not be read, and nothing of Tally's is known to be there: %s", u.What, u.Why))
	}
	slices.Sort(notes)
	return notes
}

// uses reports whether a resource of the kind is to be in the location.
func (d *Description) uses(k *Kind, location string) bool {
	return slices.ContainsFunc(d.Resources, func(r *Resource) bool { return r.Kind == k && segment(r.Name, "locations") == location })
}

// locations reads the ids of the locations that a kind's API has.
func (s *State) locations(ctx context.Context, k *Kind, parent string) ([]string, error) {
	found, err := s.List(ctx, k.api, k.version+"/"+parent+"/locations")

	var ids []string
	for _, l := range found {
		ids = append(ids, locationID(l.name()))
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	s.regions[k] = ids
	return ids, err
}

// lacks reports whether the API of the kind is known not to be in the location.
func (s *State) lacks(k *Kind, location string) bool {
	return len(s.regions[k]) > 0 && !slices.Contains(s.regions[k], location)
}

// placed are the kinds whose locations are read.
var placed = []*Kind{Function, Queue, Trigger, Job}

// A regional service is one that the functions' region must have.
type regional struct {
	kind    *Kind
	service string
}

var inRegion = []regional{
	{Function, "Cloud Functions, which runs " + OnWriteName},
	{Queue, "Cloud Tasks, which makes alarms"},
	{Job, "Cloud Scheduler, which calls " + OnScheduleName},
}

// checkRegion refuses a region of the functions that lacks one of their services, and a database in
// a region that Eventarc does not have. While an API is not enabled, its regions are not known;
// then lookAtRegions has the plan ask. Eventarc is not asked for multi-regions: no one has seen how
// its list names them.
func (d *Description) checkRegion(have *State) error {
	for _, database := range d.Databases {
		live := len(d.Config.Routes.Live()) > 0 && !billing.MultiRegion(database.Location)
		if live && have.lacks(Trigger, database.Location) {
			return fmt.Errorf("database %s is in %s, which has no Eventarc: its documents send no events. Only routes that say every can keep their totals", database.ID, database.Location)
		}
	}

	for _, in := range inRegion {
		if have.lacks(in.kind, d.region()) {
			return fmt.Errorf("%s has no %s%s", d.region(), in.service, have.otherRegions(d.region()))
		}
	}
	return nil
}

// otherRegions returns what to write into tally.yaml instead of a region: the regions that have all
// services of the functions, on the region's continent if there are any there; "" if none is known.
func (s *State) otherRegions(region string) string {
	var all []string
	for _, in := range inRegion {
		all = append(all, s.regions[in.kind]...)
	}
	slices.Sort(all)
	all = slices.DeleteFunc(slices.Compact(all), func(other string) bool {
		return slices.ContainsFunc(inRegion, func(in regional) bool { return s.lacks(in.kind, other) })
	})

	near := slices.DeleteFunc(slices.Clone(all), func(other string) bool { return continent(other) != continent(region) })
	if len(near) == 0 {
		near = all
	}
	if len(near) == 0 {
		return ""
	}
	return fmt.Sprintf("; write another region into tally.yaml, of %s:\n  region: %s", strings.Join(near, ", "), near[0])
}

// lookAtRegions adds a step that asks the services whether they are where the plan needs them, if
// this is not known because their APIs are not enabled yet. The step comes right after the APIs:
// before anything is created.
func (p *Plan) lookAtRegions(d *Description, have *State) {
	unknown := func(k *Kind) bool { return p.creates(k) && len(have.regions[k]) == 0 }
	if !slices.ContainsFunc(placed, unknown) {
		return
	}
	p.afterAPIs(Step{
		Does:  See,
		Of:    API,
		Title: "see that Cloud Functions, Cloud Tasks, Eventarc and Cloud Scheduler are in " + d.region() + " and at the databases",
		wait:  &regions{d, have},
	})
}

// noteBuilds notes that the first build in a region may be refused.
func (p *Plan) noteBuilds(d *Description) {
	if p.creates(Function) && !slices.Contains(buildRegions, d.region()) {
		p.note("some projects, often new ones, may build only in %s. If yours is one, the functions cannot be built in %s: then name one of those as region in tally.yaml, and run tally deploy again",
			strings.Join(buildRegions, ", "), d.region())
	}
}

// locationID returns the id of a location. Some APIs give the id, and others the full name.
func locationID(name string) string { return path.Base(name) }
