package billing

import "strings"

// The list prices of document operations in US dollars per 100,000: us-central1, Firestore Standard
// edition, without the free quota, as of 2026 (https://cloud.google.com/firestore/pricing).
const (
	pricePer    = 100_000
	readPrice   = 0.03
	writePrice  = 0.09
	deletePrice = 0.01

	// A multi-region costs twice as much: $0.06, $0.18 and $0.02. Regions are not told apart here.
	multiRegionFactor = 2
)

// Cost returns what the operations cost at list price, in US dollars, in us-central1.
func (c Counts) Cost() float64 {
	return (float64(c.Reads)*readPrice + float64(c.Writes)*writePrice + float64(c.Deletes)*deletePrice) / pricePer
}

// CostIn returns what the operations cost at list price, in US dollars, in a database of the
// location: that of a multi-region, else that of us-central1.
func (c Counts) CostIn(location string) float64 {
	if MultiRegion(location) {
		return multiRegionFactor * c.Cost()
	}
	return c.Cost()
}

// MultiRegion reports whether a location of Firestore's is a multi-region, such as nam5 and eur3.
// The ids of regions have a hyphen (https://firebase.google.com/docs/firestore/locations).
func MultiRegion(location string) bool { return location != "" && !strings.Contains(location, "-") }

// List prices of what Tally uses beside Firestore: US dollars, us-central1, without free quotas, as
// of 2026.
const (
	// VCPUSecond and those that follow are Cloud Run's, billed by requests, then by instance:
	// https://cloud.google.com/run/pricing. What an instance is busy for is rounded up to a multiple
	// of RoundedUp seconds.
	VCPUSecond           = 0.000024
	GiBSecond            = 0.0000025
	Request              = 0.40 / 1e6
	RoundedUp            = 0.1
	VCPUSecondOfInstance = 0.000018
	GiBSecondOfInstance  = 0.000002

	// Event is what Pub/Sub takes for carrying one of Eventarc's events: it is published once and
	// pushed once, and counts as at least 1,000 bytes. https://cloud.google.com/pubsub/pricing.
	Event    = 2 * 1000 * tebibyte / (1 << 40)
	tebibyte = 40.0

	// LogEntry is what Cloud Logging takes for Cloud Run's entry about a request, at $0.50 per GiB
	// (https://cloud.google.com/stackdriver/pricing). Nobody measured such an entry's size: this is
	// that of one that was put together from the documented fields.
	LogEntry      = logEntryBytes * gibibyte / (1 << 30)
	logEntryBytes = 1350
	gibibyte      = 0.50

	// Job is a job of Cloud Scheduler, a month: https://cloud.google.com/scheduler/pricing.
	Job = 0.10
)

// The instances as tally deploy sets them: RollUpOnWrite has 1 vCPU, RollUpOnSchedule a third, and
// both 512 MiB.
const (
	OnWriteSecond           = VCPUSecond + GiBSecond/2
	OnWriteSecondByInstance = VCPUSecondOfInstance + GiBSecondOfInstance/2
	OnScheduleSecond        = 0.333*VCPUSecond + GiBSecond/2
)
