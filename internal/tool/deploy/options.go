package deploy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/firestore-tally/tally/internal/cloud/config"
)

// Options are the user's decisions.
type Options struct {
	Region    string            // where the functions run; empty: near the first database
	Databases []Database        // at least one
	Config    config.Config     // what the functions take from their environment
	Env       map[string]string // variables that somebody set; those of Config win
	Billing   string            // of RollUpOnWrite's instances: ByRequest or ByInstance; empty: it stays as it is

	// Alerts say who hears about problems: an address, names of notification channels, or Console.
	// Empty: no one, and nothing is watched.
	Alerts []string

	KeepAlerts bool // what watches stays, even with Prune: no tally.yaml says that no one is
	Prune      bool // surplus is deleted, and routes and databases may go that are served

	MinInstances int // of RollUpOnWrite, which wait for work; 0: none does
	MaxInstances int // of RollUpOnWrite; at least 1
}

// DefaultMaxInstances are enough to hold 10,000 events at once. Each instance has a processor, and
// a region's quota may be as small as 10 processors for all services of a project:
// https://cloud.google.com/run/docs/configuring/max-instances-limits
const DefaultMaxInstances = 10

// Console is what Options.Alerts has for alerts that only Google Cloud's console shows.
const Console = "console"

// Ways to bill instances: https://cloud.google.com/run/docs/configuring/billing-settings
const (
	ByRequest  = "request"  // the time in which they serve, and each request
	ByInstance = "instance" // all of their time, at a lower rate, and no request
)

// Place returns the region of the functions.
func (o *Options) Place() string {
	return cmp.Or(o.Region, multiRegions[o.Databases[0].Location], o.Databases[0].Location)
}

// nameQueue sets what the functions have to know of the queue. There is always one: it costs
// nothing while no route makes alarms.
//
// With it the address of RollUpOnWrite is known before there is a function. The queue's calls are
// internal ones only at run.app: https://cloud.google.com/run/docs/securing/ingress
func (d *Deployment) nameQueue() {
	d.Config.Queue = d.nameIn(d.Place(), "queues", "tally")
	d.Config.QueueURL = fmt.Sprintf("https://%s-%s.%s.run.app", OnWriteName, d.Number, d.Place())
	d.Config.QueueAccount = email(d.ID, triggerAccount)
}

// check returns why the options cannot be deployed.
func (o *Options) check() error {
	if err := o.Config.CheckHoldLimit(config.OnWriteTimeout); err != nil {
		return err
	}
	if !slices.Contains([]string{"", ByRequest, ByInstance}, o.Billing) {
		return fmt.Errorf("billing: %q: want %s or %s", o.Billing, ByRequest, ByInstance)
	}
	if o.MinInstances > o.MaxInstances {
		return fmt.Errorf("min_instances: %d: want at most max_instances, which is %d", o.MinInstances, o.MaxInstances)
	}
	for _, r := range o.Config.Routes.Live() {
		for _, s := range r.Pattern() {
			// https://cloud.google.com/eventarc/docs/path-patterns
			if !s.Capture && strings.Contains(s.Name, "*") {
				return fmt.Errorf("route %v: a trigger takes the * in %s for any text, and would send events of other collections; let the route say every, or rename the collection", r, s.Name)
			}
		}
	}
	return nil
}
