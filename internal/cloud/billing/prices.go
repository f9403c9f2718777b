package billing

import "strings"

// The list prices of document operations in US dollars per 100,000: us-central1, Firestore Standard
// edition, without the free quota, as of 2026 (https://cloud.google.com/firestore/pricing).
const (
	pricePer    = 100_000
	readPrice   = 0.03
	writePrice  = 0.09
	deletePrice = 0.01

	// The multi-regions nam5 and eur3 cost twice as much: $0.06, $0.18 and $0.02.
	multiRegionFactor = 2
)

// PriceRegion is the region whose prices stand here. They stand for all regions: what another one
// costs is not known here, up to twice as much.
const PriceRegion = "us-central1"

// PricedAs returns the location whose prices of Firestore CostIn takes for a database of the
// location. If the prices of the location are not known, it is another location.
func PricedAs(location string) string {
	switch {
	case location == "eur3":
		return location
	case MultiRegion(location):
		return "nam5"
	}
	return PriceRegion
}

// Cost returns what the operations cost at list price, in US dollars, in us-central1.
func (c Counts) Cost() float64 {
	return (float64(c.Reads)*readPrice + float64(c.Writes)*writePrice + float64(c.Deletes)*deletePrice) / pricePer
}

// CostIn returns what the operations cost at list price, in US dollars, in a database of the
// location, or of the one that PricedAs names.
func (c Counts) CostIn(location string) float64 {
	if MultiRegion(location) {
		return multiRegionFactor * c.Cost()
	}
	return c.Cost()
}

// MultiRegion reports whether a location of Firestore's is a multi-region, such as nam5 or eur3.
// The ids of regions have a hyphen (https://firebase.google.com/docs/firestore/locations).
func MultiRegion(location string) bool { return location != "" && !strings.Contains(location, "-") }

// List prices of what Tally uses in addition to Firestore: US dollars, us-central1, without free
// quotas, as of 2026.
const (
	// VCPUSecond, GiBSecond and Request are prices of Cloud Run that is billed by requests:
	// https://cloud.google.com/run/pricing. The time for which an instance is busy is rounded up to
	// a multiple of RoundedUp seconds.
	VCPUSecond = 0.000024
	GiBSecond  = 0.0000025
	Request    = 0.40 / 1e6
	RoundedUp  = 0.1

	// VCPUSecondIdle and GiBSecondIdle are prices of an instance that waits for work because
	// somebody wants so many at least.
	VCPUSecondIdle = 0.0000025
	GiBSecondIdle  = 0.0000025

	// VCPUSecondOfInstance and GiBSecondOfInstance are prices of Cloud Run that is billed by
	// instance.
	VCPUSecondOfInstance = 0.000018
	GiBSecondOfInstance  = 0.000002

	// Event is the price of Pub/Sub for an event of Eventarc's. An event is published once and
	// pushed once, and each counts as at least 1,000 bytes.
	// https://cloud.google.com/pubsub/pricing.
	Event    = 2 * 1000 * tebibyte / (1 << 40)
	tebibyte = 40.0

	// Task is the price of an operation of Cloud Tasks: of a call that makes a task, or a call that
	// the task makes: https://cloud.google.com/tasks/pricing.
	Task = 0.40 / 1e6

	// Job is the price of a job of Cloud Scheduler for a month:
	// https://cloud.google.com/scheduler/pricing.
	Job = 0.10
)

// The instances as tally deploy sets them: RollUpOnWrite has 1 vCPU, RollUpOnSchedule a third, and
// both 512 MiB.
const (
	OnWriteSecond           = VCPUSecond + GiBSecond/2
	OnWriteSecondByInstance = VCPUSecondOfInstance + GiBSecondOfInstance/2
	OnWriteSecondIdle       = VCPUSecondIdle + GiBSecondIdle/2
	OnScheduleSecond        = 0.333*VCPUSecond + GiBSecond/2
)
