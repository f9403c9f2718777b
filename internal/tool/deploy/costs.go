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

	// auditReads is about how many reads the audit of one counter costs (docs/performance.md).
	auditReads = 4

	// repairReads is how many reads a counter costs at least that an audit repairs.
	repairReads = 3

	// auditTick is about how long a call of RollUpOnSchedule works if it finds nothing to do.
	auditTick = time.Second
)

// Costs are list prices in US dollars, without free quotas. Firestore's are those of Location,
// which is a multi-region if one of the databases is in one, because these are dearer. Only
// WorstDay goes by the location of each database. All other prices are those of us-central1.
type Costs struct {
	Location string   // of Firestore's prices
	Unknown  []string // locations of databases whose prices are not known; those of us-central1 or nam5 stand for them

	Rest     float64 // a month in which nothing changes, without reads and writes
	Thousand float64 // a month of 1,000 counters of the dearest route, at rest: audits, and what the schedule keeps, at most
	Change   float64 // a million changes of the dearest live route, each long after the one before; 0: there is no live route

	// WorstDay is a day on which all instances are busy all the time, and each call of
	// RollUpOnSchedule reads and writes as much as it may. Events, requests and their roll-ups are
	// extra: only the clients bound them.
	WorstDay float64
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
	busy := time.Duration(ticks) * auditTick
	var kept float64
	for _, t := range d.Config.Routes.Templates() {
		queries := int64(0)
		for _, r := range t.Routes {
			queries += int64(len(r.Queries()))
		}
		if !t.Scheduled() {
			c.Change = max(c.Change, d.changes(c.Location, queries, slices.ContainsFunc(t.Routes, (*route.Route).Circular)))
			continue
		}

		if t.Every < config.SchedulePeriod {
			busy = month
		}
		visits := min(1000*int64(month/t.Every), ticks*d.Config.KeepReads/(1+queries))
		kept = max(kept, billing.Counts{Reads: visits * (1 + queries), Writes: visits}.CostIn(c.Location))
	}
	cycle := d.Config.Takes(1000 * auditReads)
	c.Thousand = kept + billing.Counts{Reads: 1000 * auditReads * int64(month/cycle)}.CostIn(c.Location)
	c.Rest = billing.Job + busy.Seconds()*billing.OnScheduleSecond + float64(d.MinInstances)*month.Seconds()*d.idleSecond()
	c.WorstDay = d.worstDay()
	return c
}

// idleSecond returns the price of a second in which an instance of RollUpOnWrite waits for work.
func (d *Deployment) idleSecond() float64 {
	if d.Billing == ByInstance {
		return billing.OnWriteSecondByInstance
	}
	return billing.OnWriteSecondIdle
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

// changes returns the price of a million changes, each of which makes a roll-up of so many queries.
// A query is taken to be of up to 1,000 documents, which an aggregation bills as one read. Routes
// that say documents cost more. A circular route's roll-ups are events, too.
func (d *Deployment) changes(location string, queries int64, circular bool) float64 {
	event := billing.Event
	if d.Billing != ByInstance {
		event += billing.Request + billing.RoundedUp*billing.OnWriteSecond
	}
	events := float64(million)
	if circular {
		events *= 2
	}
	return billing.Counts{Reads: million * (1 + queries), Writes: million}.CostIn(location) + events*event
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
