package deploy

import (
	"fmt"
	"slices"
	"strings"
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
		return continent(database.Location) == continent(d.region())
	})
}

// checkContinents refuses to choose the functions' region if databases are on several continents:
// each event carries its whole document there, which may be against a law or a contract.
func (d *Deployment) checkContinents() error {
	far := d.farDatabases()
	if d.Region != "" || len(far) == 0 {
		return nil
	}
	return fmt.Errorf("database %s in %s and database %s in %s are on two continents, and the events of both carry whole documents to the functions' region: write that into tally.yaml, such as\n  region: %s",
		d.Databases[0].ID, d.Databases[0].Location, far[0].ID, far[0].Location, d.region())
}
