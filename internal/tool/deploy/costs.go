package deploy

import (
	"fmt"
	"slices"
	"time"

	"github.com/firestore-tally/tally/internal/cloud/billing"
	"github.com/firestore-tally/tally/internal/cloud/config"
	"github.com/firestore-tally/tally/rollup/route"
)

const (
	day     = 24 * time.Hour
	month   = 30 * day
	million = 1e6

	// auditReads is about how many reads the audit of one counter costs (docs/performance.md).
	auditReads = 4

	// repairReads is how many reads a counter costs at least that an audit repairs.
	repairReads = 3

	// auditTick is about how long a call of RollUpOnSchedule works if it finds nothing to do.
	auditTick = time.Second

	// crowd is an example of a busy counter: so many changes a second, which share roll-ups.
	crowd = 100
)

// Costs are list prices in US dollars, without free quotas. Firestore's are those of Location,
// which is a multi-region if one of the databases is in one, because these are dearer. Only Audits
// and WorstDay go by the location of each database. All other prices are those of us-central1.
type Costs struct {
	Location string   // of Firestore's prices
	Unknown  []string // locations of databases whose prices are not known; those of us-central1 or nam5 stand for them

	Rest    float64 // a month in which nothing changes, except for audits' reads
	Audit   float64 // a month of the audits of 1,000 counters
	Audits  float64 // a month of all audits, at most
	Alone   float64 // a million changes of the dearest live route, each long after the one before; 0: there is no live route
	Crowded float64 // a million changes of one counter of that route that come at 100 a second
	Every   []Kept  // of the routes that the schedule keeps, one for each period
	Days    []Dated // of the routes that have roll-ups of days or months, one for each template

	// WorstDay is a day on which all instances are busy all the time, and each call of
	// RollUpOnSchedule reads and writes as much as it may. Events, requests and their roll-ups are
	// extra: only the clients bound them.
	WorstDay float64
}

// A Kept is the price, at most, of a month of 1,000 counters that the schedule keeps.
type Kept struct {
	Every    time.Duration
	Thousand float64
}

// A Dated is the price of a month of the audits of a year of roll-ups of days or months.
type Dated struct {
	What  string // such as "shops/{shop}/days/{day}, 1,000 a day"; one a day if nothing else tells them apart
	Price float64
}

// Costs returns what the deployment costs.
func (d *Deployment) Costs() Costs {
	c := Costs{Location: billing.PricedAs(d.Databases[0].Location)}
	for _, database := range d.Databases {
		as := billing.PricedAs(database.Location)
		if billing.MultiRegion(as) {
			c.Location = as
		}
		if as != database.Location && !slices.Contains(c.Unknown, database.Location) {
			c.Unknown = append(c.Unknown, database.Location)
		}
	}

	ticks := int64(month / config.SchedulePeriod)
	cycle := d.Config.Takes(1000 * auditReads)
	c.Audit = billing.Counts{Reads: 1000 * auditReads * int64(month/cycle)}.CostIn(c.Location)
	for _, database := range d.Databases {
		c.Audits += billing.Counts{Reads: ticks * d.Config.AuditReads}.CostIn(database.Location)
	}

	busy := time.Duration(ticks) * auditTick
	for _, t := range d.Config.Routes.Templates() {
		if t.Timed() {
			c.Days = append(c.Days, d.dated(c.Location, t))
		}
		queries := int64(0)
		for _, r := range t.Routes {
			queries += int64(len(r.Queries()))
		}
		if !t.Scheduled() {
			circular := slices.ContainsFunc(t.Routes, (*route.Route).Circular)
			c.Alone = max(c.Alone, d.changes(c.Location, queries, 1, billing.RoundedUp, circular))
			c.Crowded = max(c.Crowded, d.changes(c.Location, queries, 1/(crowd*d.Config.Cadence.Seconds()), 1.0/crowd, circular))
			continue
		}

		if t.Every < config.SchedulePeriod {
			busy = month
		}
		c.keep(t.Every, queries, ticks*d.Config.KeepReads)
	}
	c.Rest = billing.Job + busy.Seconds()*billing.OnScheduleSecond
	c.WorstDay = d.worstDay()
	return c
}

// worstDay returns Costs.WorstDay. A visit of a counter that the schedule keeps reads twice at
// least, and writes once at most.
func (d *Deployment) worstDay() float64 {
	second := billing.OnWriteSecond
	if d.Billing == ByInstance {
		second = billing.OnWriteSecondByInstance
	}
	price := day.Seconds() * (float64(d.MaxInstances)*second + billing.OnScheduleSecond)

	ticks := int64(day / config.SchedulePeriod)
	for _, database := range d.Databases {
		bound := billing.Counts{Reads: d.Config.AuditReads, Writes: d.Config.AuditReads / repairReads}
		if len(d.Config.Routes.Scheduled()) > 0 {
			bound = bound.Add(billing.Counts{Reads: d.Config.KeepReads, Writes: d.Config.KeepReads / 2})
		}
		price += float64(ticks) * bound.CostIn(database.Location)
	}
	return price
}

// changes returns the price of a million changes. Each change makes so many roll-ups, on average,
// and each event keeps an instance busy for so many seconds; each roll-up makes so many queries. A
// query is taken to be of up to 1,000 documents, which an aggregation bills as one read. Routes
// that say documents cost more. A circular route's roll-ups are events, too.
func (d *Deployment) changes(location string, queries int64, rollUps, busy float64, circular bool) float64 {
	n := int64(million * rollUps)
	operations := billing.Counts{Reads: n * (1 + queries), Writes: n}.CostIn(location)

	event := billing.Event
	if d.Billing != ByInstance {
		event += billing.Request + busy*billing.OnWriteSecond
	}
	if d.RequestLogs == AllRequests {
		event += billing.LogEntry
	}

	events := float64(million)
	if circular {
		events += float64(n)
	}
	return operations + events*event
}

// dated returns the price of a template's roll-ups of days or months. A cycle of audits compares
// those of the last 30 days, and one of 30 cycles the others, which all cycles read.
func (d *Deployment) dated(location string, t *route.Template) Dated {
	const oldCycles = 30
	each, number := int64(1), "one"
	captures := slices.DeleteFunc(t.Segments(), func(s route.Segment) bool { return !s.Capture })
	if len(captures) > 1 {
		each, number = 1000, "1,000"
	}
	period, year, young := route.Day, int64(365), int64(30)
	if slices.ContainsFunc(t.Routes[0].By, func(k route.Key) bool { return k.Function == route.Month }) {
		period, year, young = route.Month, 12, 2
	}

	old := year - young
	reads := each * (young*auditReads + old + old*auditReads/oldCycles) // in a cycle
	cycles := float64(month) / float64(d.Config.Takes(reads))
	what := fmt.Sprintf("%s, %s a %s", t, number, period)
	return Dated{what, billing.Counts{Reads: int64(float64(reads) * cycles)}.CostIn(location)}
}

// keep adds the price of the counters of a template that the schedule keeps. most is how many reads
// a month it may spend on them. Of several templates with one period, Every has the dearest.
func (c *Costs) keep(every time.Duration, queries, most int64) {
	reads := 1 + queries // of a visit
	visits := min(1000*int64(month/every), most/reads)
	price := billing.Counts{Reads: visits * reads, Writes: visits}.CostIn(c.Location)

	for i := range c.Every {
		if c.Every[i].Every == every {
			c.Every[i].Thousand = max(c.Every[i].Thousand, price)
			return
		}
	}
	c.Every = append(c.Every, Kept{every, price})
}
