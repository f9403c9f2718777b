package deploy

import (
	"context"
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

	// repairReads is how many reads a counter costs at least that an audit repairs.
	repairReads = 3

	// auditTick is about how long a call of RollUpOnSchedule works if it finds nothing to do.
	auditTick = time.Second
)

// Costs are list prices in US dollars, without free quotas. Firestore's are those of Location,
// which is a multi-region if one of the databases is in one, because these are dearer. Only
// WorstDay goes by the location of each database. All other prices are those of us-central1.
type Costs struct {
	Location string // of Firestore's prices
	Guessed  bool   // prices of a database's location are not known, and Location's stand for them

	Rest   float64 // a month in which nothing changes, without reads and writes
	Change float64 // a million changes of the dearest live route, each long after the one before; 0: there is no live route

	// WorstDay is a day on which all instances are busy all the time, and each call of
	// RollUpOnSchedule reads and writes as much as it may. Events, requests and their roll-ups are
	// extra: only the clients bound them.
	WorstDay float64
}

// Costs returns what the deployment costs.
func (d *Deployment) Costs() Costs {
	c := Costs{Location: billing.PricedAs(d.Databases[0].Location), WorstDay: d.worstDay()}
	for _, database := range d.Databases {
		as := billing.PricedAs(database.Location)
		if billing.MultiRegion(as) {
			c.Location = as
		}
		c.Guessed = c.Guessed || as != database.Location
	}

	busy := month.Seconds() / config.SchedulePeriod.Seconds() * auditTick.Seconds()
	for _, t := range d.Config.Routes.Templates() {
		switch {
		case t.Scheduled() && t.Every < config.SchedulePeriod:
			busy = month.Seconds()
		case !t.Scheduled():
			c.Change = max(c.Change, d.changes(c.Location, t))
		}
	}
	c.Rest = billing.Job + busy*billing.OnScheduleSecond + float64(d.MinInstances)*month.Seconds()*d.rates().idleSecond
	return c
}

// rates are prices of RollUpOnWrite.
type rates struct{ event, busySecond, idleSecond float64 }

// rates returns what an event costs that comes alone, and a second of an instance.
func (d *Deployment) rates() rates {
	if d.Billing == ByInstance {
		return rates{billing.Event, billing.OnWriteSecondByInstance, billing.OnWriteSecondByInstance}
	}
	return rates{billing.Event + billing.Request + billing.RoundedUp*billing.OnWriteSecond, billing.OnWriteSecond, billing.OnWriteSecondIdle}
}

// worstDay returns Costs.WorstDay. A visit of a counter that the schedule keeps reads twice at
// least, and writes once at most.
func (d *Deployment) worstDay() float64 {
	price := day.Seconds() * (float64(d.MaxInstances)*d.rates().busySecond + billing.OnScheduleSecond)

	ticks := int64(day / config.SchedulePeriod)
	for _, database := range d.Databases {
		bound := billing.Counts{Reads: d.Config.AuditReads, Writes: d.Config.AuditReads / repairReads}
		if len(d.Config.Routes.Scheduled()) > 0 {
			bound = bound.Add(billing.Counts{Reads: d.Config.KeepReads, Writes: d.Config.KeepReads / 2})
		}
		price += float64(ticks) * d.most(bound, database.Location)
	}
	return price
}

// most returns the most that operations cost in a location, on the edition of the databases.
func (d *Deployment) most(c billing.Counts, location string) float64 {
	most := billing.Usage{Counts: c, Units: billing.Units{Reads: c.Reads * billing.UnitsPerRead, Writes: c.Writes}}
	return most.On(d.Config.Edition).CostIn(location)
}

// changes returns the price of a million changes, each of which makes a roll-up of the template. A
// query is taken to be of up to 1,000 documents, which an aggregation bills as one read. Routes
// that say documents cost more. A circular route's roll-ups are events, too.
func (d *Deployment) changes(location string, t *route.Template) float64 {
	events, queries := float64(million), 0
	if slices.ContainsFunc(t.Routes, (*route.Route).Circular) {
		events *= 2
	}
	for _, r := range t.Routes {
		queries += len(r.Queries())
	}
	used := billing.Usage{
		Counts: billing.Counts{Reads: million * int64(1+queries), Writes: million},
		Units:  enterpriseRollUp(t).Times(million),
	}
	return used.On(d.Config.Edition).CostIn(location) + events*d.rates().event
}

// enterpriseRollUp returns what a roll-up of the template takes on Enterprise, if each query is of
// 1,000 documents, and the roll-up is of 1 KiB at most.
func enterpriseRollUp(t *route.Template) billing.Units {
	const documents, kib = 1000, 1 << 10
	all := billing.PointReads(1, kib).Add(billing.Write(kib, 0))
	for _, r := range t.Routes {
		for _, q := range r.Queries() {
			switch {
			case q.Best != "":
				all = all.Add(billing.Scan(1, billing.SumEntry)).Add(billing.PointReads(1, kib))
			case q.Field == "" && len(q.Where) == 0 && r.By == nil:
				all = all.Add(billing.Scan(documents, billing.NameEntry))
			default:
				all = all.Add(billing.Scan(documents, billing.SumEntry))
			}
		}
	}
	return all
}

// Cheaper returns what to say if the other way to bill RollUpOnWrite's instances would have cost a
// fifth less on the day before now, and ten cents at least; "" if not, or if no metric says so.
func (d *Deployment) Cheaper(ctx context.Context, now time.Time) string {
	if len(d.Functions) == 0 {
		return ""
	}
	const ofOnWrite = `resource.labels.service_name = "` + OnWriteName + `"`
	instances, err := d.Series(ctx, Question{"run.googleapis.com/container/instance_count", ofOnWrite, "ALIGN_MEAN", day}, now)
	if err != nil {
		return ""
	}
	requests, err := d.Series(ctx, Question{"run.googleapis.com/request_count", ofOnWrite, "ALIGN_SUM", day}, now)
	if err != nil {
		return ""
	}

	var active, idle, served float64
	for _, s := range instances {
		if s.Get("metric.labels.state") == "active" {
			active += Point(s)
		} else {
			idle += Point(s)
		}
	}
	for _, s := range requests {
		served += Point(s)
	}
	waiting := min(idle, float64(d.MinInstances)) // others that wait are free
	byRequest := day.Seconds()*(active*billing.OnWriteSecond+waiting*billing.OnWriteSecondIdle) + served*billing.Request
	byInstance := day.Seconds() * (active + idle) * billing.OnWriteSecondByInstance

	way, has, other := ByInstance, byRequest, byInstance
	if d.Billing == ByInstance {
		way, has, other = ByRequest, byInstance, byRequest
	}
	if other > has*0.8 || has-other < 0.10 {
		return ""
	}
	return fmt.Sprintf("in the last day the instances of RollUpOnWrite cost about $%.2f. With billing: %s in tally.yaml they would have cost about $%.2f", has, way, other)
}
