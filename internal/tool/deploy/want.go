package deploy

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/firestore-tally/tally/internal/cloud/config"
	"github.com/firestore-tally/tally/internal/tool/appfolder"
)

// Want returns what is to be deployed, by the app's tally.yaml and the state that was read. If
// tally.yaml does not say the region, the billing or the request logs, they stay as they are
// deployed. If it does not say a variable or the number of instances, these have their defaults;
// they stay as they are deployed only if there is no tally.yaml.
//
// c is the configuration that the variables of State.Wanted say. upload is the functions' source;
// nil: any will do. It is an error if Tally cannot serve one of the databases, or if the settings
// contradict each other.
//
// Want is pure: it makes no calls, and changes nothing that it is given.
func Want(f *appfolder.Folder, have *State, c config.Config, upload *Upload) (*Description, error) {
	databases, err := have.Locate(c.Databases)
	if err != nil {
		return nil, err
	}

	o := have.options(f, c, databases)
	source := ""
	if upload != nil {
		o.Version, source = upload.Version, upload.Hash
	}
	return Describe(o, have, source)
}

// options returns the options by tally.yaml and what is deployed; see Want.
func (s *State) options(f *appfolder.Folder, c config.Config, databases []Database) Options {
	return Options{
		Project:      s.Project,
		Region:       cmp.Or(f.Settings.Region, s.Region()),
		Databases:    databases,
		Config:       c,
		Env:          s.Wanted(f),
		Former:       s.Former(),
		Billing:      cmp.Or(f.Settings.Billing, s.Billing()),
		MaxInstances: s.maxInstancesBy(f),
		AlertEmail:   f.Settings.AlertEmail,
		RequestLogs:  cmp.Or(f.Settings.RequestLogs, s.RequestLogs()),
	}
}

// maxInstancesBy returns how many instances RollUpOnWrite may have by tally.yaml. A tally.yaml that
// does not say it means the default. Without a tally.yaml the deployed number stays.
func (s *State) maxInstancesBy(f *appfolder.Folder) int {
	if f.Settings.MaxInstances != nil {
		return *f.Settings.MaxInstances
	}

	deployed := s.MaxInstances()
	if f.File == "" && deployed > 0 {
		return deployed
	}
	return DefaultMaxInstances
}

// A Description is all that a deployment consists of. Nothing changes it once it is made.
type Description struct {
	Options
	Resources []*Resource

	number string // of the project
	source string // hash of the functions' source; empty: any will do
	silent bool   // no one gets an alert
}

// Describe returns the description for the options. source is the hash of the functions' source, ""
// if any will do.
func Describe(o Options, have *State, source string) (*Description, error) {
	o.nameQueue(have.Number)
	if err := o.check(); err != nil {
		return nil, err
	}

	d := &Description{Options: o, number: have.Number, source: source}
	text, err := d.fill(have.Number).write()
	if err != nil {
		return nil, err
	}
	d.Resources, err = readManifest(text)
	if err != nil {
		return nil, err
	}

	for i, r := range d.Resources {
		d.Resources[i] = have.filledIn(r)
		if r.Kind == Alert && o.AlertEmail == "" {
			d.silent = d.silent || have.Find(Alert, r.Name).Get("notificationChannels") == ""
		}
	}
	return d, nil
}

// in returns the name of a resource in a region or location.
func (d *Description) in(location, collection, id string) string {
	return "projects/" + d.Project + "/locations/" + location + "/" + collection + "/" + id
}

// of returns the resources of a kind.
func (d *Description) of(k *Kind) []*Resource {
	return slices.DeleteFunc(slices.Clone(d.Resources), func(r *Resource) bool { return r.Kind != k })
}

// wants reports whether the description has a resource of the kind that has the name.
func (d *Description) wants(k *Kind, name string) bool {
	return slices.ContainsFunc(d.Resources, func(r *Resource) bool { return r.Kind == k && r.Name == name })
}

// Job returns the name of the job.
func (d *Description) Job() string { return d.in(d.region(), "jobs", "tally") }

// QueueResume returns the command that resumes the queue.
func (d *Description) QueueResume() Command {
	return command(fmt.Sprintf("gcloud tasks queues resume tally --location=%s --project=%s", d.region(), d.Project))
}

// uri returns the address of RollUpOnSchedule, "" if it is not there.
func (d *Description) uri(have *State) string {
	return have.Find(Function, d.in(d.region(), "functions", OnScheduleName)).Get("serviceConfig.uri")
}

// LongestSilence is how long ago the job's last call may be: two periods and the longest time of a
// call. So one late or skipped call is no alarm.
const LongestSilence = 2*config.SchedulePeriod + config.OnScheduleTimeout
