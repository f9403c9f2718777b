package deploy

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// The nearest regions come first, and those whose place is not known last. Each region that Tally
// proposes has a place.
func TestNearest(t *testing.T) {
	for location, want := range map[string]string{
		"europe-southwest1":  "europe-west1",
		"eur3":               "europe-west1",
		"nam5":               "us-central1",
		"us-west1":           "us-west2",
		"southamerica-west1": "southamerica-east1",
		"asia-southeast2":    "asia-east1",
		"mars-north1":        "mars-north2",
		"":                   "mars-north2",
	} {
		regions := append([]string{"mars-north2"}, everyones[:]...)
		if got := nearest(location, regions); got[0] != want || len(got) != len(regions) {
			t.Errorf("%s: %v, want %s first", location, got, want)
		}
	}

	for region := range maps.Keys(multiRegions) {
		regions := append(everyones[:], multiRegions[region])
		for _, region := range regions {
			if _, isKnown := places()[region]; !isKnown {
				t.Errorf("%s has no place", region)
			}
		}
	}
}

// A remedy names the other regions, the one nearest to the database first.
func TestRemedyNamesTheNearest(t *testing.T) {
	denied := refusal(403, "PERMISSION_DENIED", "Permission denied on 'locations/europe-southwest1' (or it may not exist)")
	for here, want := range map[string]string{"europe-southwest1": "europe-west1", "europe-west1": "us-central1"} {
		p := &Project{ID: "p", Number: "1", functionsRegion: here, near: "europe-southwest1"}
		said := p.failed(denied).Error()
		if !strings.Contains(said, "of "+want+", ") || !strings.HasSuffix(said, "region: "+want) {
			t.Errorf("in %s, want %s first: %s", here, want, said)
		}
	}
}

// A region that lacks a service is refused before anything is made there: with the plan, or in a
// new project as soon as its APIs are enabled. The error names the regions that have all services.
func TestRegionWithoutAService(t *testing.T) {
	for _, isNew := range []bool{true, false} {
		d := oneCounter(t)
		if !isNew {
			d.google.Enable(slices.Sorted(maps.Keys(apis()))...)
		}
		d.google.Lacks = map[string][]string{"cloudtasks.googleapis.com": {"us-central1"}, "cloudscheduler.googleapis.com": {"me-central2"}}
		said, err := d.tryDeploy(nil)
		const want = "us-central1 has no cloudtasks.googleapis.com. Write another region into tally.yaml, of europe-west1, and run tally deploy again:\n  region: europe-west1"
		if err == nil || !strings.HasSuffix(err.Error(), want) || strings.Contains(said, "[2/") {
			t.Errorf("new: %t: %v\n%s", isNew, err, said)
		}
		d.options.Region = "europe-west1"
		d.deploy()
		d.google.Lacks = map[string][]string{"cloudtasks.googleapis.com": {"europe-west1"}} // where it is already
		if again := d.deploy(); again != "" {
			t.Error(again)
		}
	}
}
