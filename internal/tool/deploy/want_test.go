package deploy

import (
	"testing"

	"github.com/firestore-tally/tally/internal/cloud/config"
	"github.com/firestore-tally/tally/internal/tool/appfolder"
	"github.com/google/go-cmp/cmp"
)

// What tally.yaml says comes first, then what is deployed, then the default. Without a tally.yaml
// the number of instances stays, too.
func TestWant(t *testing.T) {
	type decisions struct {
		Region, Billing, RequestLogs string
		MaxInstances                 int
	}
	seven := 7
	deployed := func() *State {
		have := troubled(t)
		have.Databases["(default)"] = Object{"locationId": "nam5", "type": nativeMode}
		have.add(Service, nil, Object{"name": "projects/p/locations/us-central1/services/" + OnWriteName})
		have.add(Exclusion, nil, Object{"name": "tally-on-write-requests", "disabled": true})
		return have
	}
	created := func() *State {
		return NewProject("p", []string{"(default)"}, "nam5")
	}

	for _, test := range []struct {
		name   string
		folder appfolder.Folder
		have   func() *State
		want   decisions
	}{
		{"nothing is said or deployed", appfolder.Folder{}, created, decisions{"us-central1", ByRequest, FailedRequests, DefaultMaxInstances}},
		{"nothing is said", appfolder.Folder{}, deployed, decisions{"us-central1", ByInstance, AllRequests, 3}},
		{"little is said", appfolder.Folder{File: "tally.yaml"}, deployed, decisions{"us-central1", ByInstance, AllRequests, DefaultMaxInstances}},
		{
			"all is said",
			appfolder.Folder{File: "tally.yaml", Settings: appfolder.Settings{Region: "europe-west1", Billing: ByRequest, RequestLogs: FailedRequests, MaxInstances: &seven}},
			deployed,
			decisions{"europe-west1", ByRequest, FailedRequests, 7},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := configured(t, "(default)")
			have := test.have()
			d, err := Want(&test.folder, have, c, nil)
			if err != nil {
				t.Fatal(err)
			}

			got := decisions{d.region(), d.Billing, d.RequestLogs, d.MaxInstances}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.have(), have, everything); diff != "" {
				t.Errorf("the state (-before +after):\n%s", diff)
			}
		})
	}
}

// A database that Tally cannot serve is an error.
func TestWantUnservedDatabase(t *testing.T) {
	have := NewProject("p", []string{"(default)"}, "nam5")
	_, err := Want(&appfolder.Folder{}, have, configured(t, "(default),orders"), nil)
	if want := "project p has no database orders; it has (default)"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// configured returns a configuration for the databases.
func configured(t *testing.T, databases string) config.Config {
	t.Helper()
	c, err := config.Load(map[string]string{"GOOGLE_CLOUD_PROJECT": "p", "TALLY_DATABASES": databases})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
