package deploy

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/goccy/go-yaml"
)

// multiRegions are the regions of the functions for databases in multi-regions. The Firebase CLI
// takes the same ones. Eventarc delivers to any region
// (https://firebase.google.com/docs/firestore/eventarc). eur3's events come from europe-west4
// (https://cloud.google.com/firestore/docs/eventarc). But a
// new project may not be allowed to build there, and may in europe-west1
// (https://cloud.google.com/build/docs/locations).
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

// farDatabases returns the databases on another continent than the functions.
func (d *Deployment) farDatabases() []Database {
	return slices.DeleteFunc(slices.Clone(d.Databases), func(database Database) bool {
		return continent(database.Location) == continent(d.Place())
	})
}

// checkContinents refuses to choose the functions' region if databases are on several continents:
// each event carries its whole document there, which may be against a law or a contract.
func (d *Deployment) checkContinents() error {
	far := d.farDatabases()
	if d.Region != "" || len(far) == 0 {
		return nil
	}
	return fmt.Errorf("databases %s in %s and %s in %s are on two continents. All their documents are sent to one region, so name it in tally.yaml, such as\n  region: %s",
		d.Databases[0].ID, d.Databases[0].Location, far[0].ID, far[0].Location, d.Place())
}

// everyones are the regions in which every project may build, and which have all services that
// Tally uses: https://cloud.google.com/build/docs/locations
var everyones = [...]string{"us-central1", "us-west2", "europe-west1", "asia-east1", "australia-southeast1", "southamerica-east1"}

//go:embed regions.yaml
var regionsText []byte

// places are where the regions are.
var places = sync.OnceValue(func() (of map[string][2]float64) {
	if err := yaml.Unmarshal(regionsText, &of); err != nil {
		panic(err) // the program carries the file, and a test reads it
	}
	return of
})

// nearest returns a copy of regions, those first that are nearest to a location, and those last
// whose place is not known. If the location's place is not known, they stay in their order.
func nearest(location string, regions []string) []string {
	from, isKnown := places()[cmp.Or(multiRegions[location], location)]
	if !isKnown {
		return slices.Clone(regions)
	}
	return slices.SortedStableFunc(slices.Values(regions), func(a, b string) int {
		return cmp.Compare(distance(from, a), distance(from, b))
	})
}

// distance returns how far a region is from a place, as an angle.
func distance(from [2]float64, region string) float64 {
	to, isKnown := places()[region]
	if !isKnown {
		return math.Inf(1)
	}
	const degree = math.Pi / 180
	a, b := from[0]*degree, to[0]*degree
	cosine := math.Sin(a)*math.Sin(b) + math.Cos(a)*math.Cos(b)*math.Cos((from[1]-to[1])*degree)
	return math.Acos(min(1, cosine))
}

// regional are the APIs that must be in the functions' region and are not in all of Firestore's, as
// addresses have them: https://cloud.google.com/about/locations
var regional = []string{"cloudfunctions.googleapis.com/v2", "cloudtasks.googleapis.com/v2", "cloudscheduler.googleapis.com/v1"}

// checkRegion returns why the functions cannot be in a region that is new to them: an API's list of
// its locations lacks the region. An API that does not answer, for it is not enabled yet, is taken
// to have all.
func (d *Deployment) checkRegion(ctx context.Context) error {
	if d.planned || d.DeployedIn() == d.Place() {
		return nil
	}
	var lacking, all []string
	for _, api := range regional {
		list, err := d.List(ctx, api+"/projects/"+d.ID+"/locations")
		if err != nil || len(list) == 0 {
			continue
		}
		has := make(map[string]bool)
		for _, o := range list {
			has[o.Get("locationId")] = true
		}
		if all == nil {
			all = slices.Sorted(maps.Keys(has))
		}
		all = slices.DeleteFunc(all, func(region string) bool { return !has[region] })
		if !has[d.Place()] {
			lacking = append(lacking, path.Dir(api))
		}
	}
	if len(lacking) == 0 || len(all) == 0 {
		return nil
	}

	others := nearest(d.near, all)
	return fmt.Errorf("%s has no %s. Write another region into tally.yaml, of %s, and run tally deploy again:\n  region: %s",
		d.Place(), strings.Join(lacking, " and no "), firstFew(others, ", "), others[0])
}
