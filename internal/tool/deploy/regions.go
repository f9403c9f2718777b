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
func (d *Deployment) elsewhere() []Database {
	return slices.DeleteFunc(slices.Clone(d.Databases), func(database Database) bool {
		return continent(database.Location) == continent(d.region())
	})
}

// checkContinents refuses to choose the functions' region if databases are on several continents:
// each event carries its whole document there, which may be against a law or a contract.
func (d *Deployment) checkContinents() error {
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

// placed are the APIs that must be in the functions' region, and what for.
var placed = []struct{ api, service string }{
	{"cloudfunctions.googleapis.com/v2", "Cloud Functions, which runs " + OnWriteName},
	{"cloudtasks.googleapis.com/v2", "Cloud Tasks, which makes alarms"},
	{"cloudscheduler.googleapis.com/v1", "Cloud Scheduler, which calls " + OnScheduleName},
}

// checkRegion refuses a region of the functions that lacks one of their services, and a database in
// a region that Eventarc does not have. Eventarc is not asked for multi-regions: no one has seen
// how its list names them. While an API is not enabled, its regions are not known, and known is
// false.
func (d *Deployment) checkRegion(ctx context.Context) (known bool, err error) {
	known = true
	regions := make(map[string][]string) // by API
	for _, api := range []string{placed[0].api, placed[1].api, placed[2].api, "eventarc.googleapis.com/v1"} {
		found, err := d.List(ctx, api+"/projects/"+d.ID+"/locations")
		if err != nil && !d.absent(err) {
			name, _, _ := strings.Cut(api, ".")
			return false, d.Unreadable(name, "the regions of "+name, err)
		}
		known = known && err == nil
		for _, location := range found {
			regions[api] = append(regions[api], path.Base(location.name()))
		}
	}
	lacks := func(api, region string) bool { return len(regions[api]) > 0 && !slices.Contains(regions[api], region) }

	for _, database := range d.Databases {
		live := len(d.Config.Routes.Live()) > 0 && !billing.MultiRegion(database.Location)
		if live && lacks("eventarc.googleapis.com/v1", database.Location) {
			return known, fmt.Errorf("database %s is in %s, which has no Eventarc: its documents send no events. Only routes that say every can keep their totals", database.ID, database.Location)
		}
	}
	for _, in := range placed {
		if !lacks(in.api, d.region()) {
			continue
		}
		others := slices.DeleteFunc(slices.Clone(regions[in.api]), func(other string) bool {
			return slices.ContainsFunc(placed, func(of struct{ api, service string }) bool { return lacks(of.api, other) })
		})
		return known, fmt.Errorf("%s has no %s%s", d.region(), in.service, instead(d.region(), others))
	}
	return known, nil
}

// instead returns what to write into tally.yaml instead of a region, of others: one on its
// continent if there is any; "" if no other is known.
func instead(region string, others []string) string {
	slices.Sort(others)
	near := slices.DeleteFunc(slices.Clone(others), func(other string) bool { return continent(other) != continent(region) })
	if len(near) == 0 {
		near = others
	}
	if len(near) == 0 {
		return ""
	}
	return fmt.Sprintf("; write another region into tally.yaml, of %s:\n  region: %s", strings.Join(near, ", "), near[0])
}
