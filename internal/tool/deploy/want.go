package deploy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/firestore-tally/tally/internal/cloud/config"
	"github.com/firestore-tally/tally/internal/tool/appfolder"
	"google.golang.org/api/option"
)

// Deployed is what of Tally is deployed in a project, as far as it decides what is wanted there.
type Deployed struct {
	Functions []Object // that Tally's tools made, the one that was deployed last first

	silence error // a Silence of regions that did not say which functions they have; nil: all did
}

// Read reads what is deployed. A project of which only the plan is made has nothing.
func (p *Project) Read(ctx context.Context) (*Deployed, error) {
	was := new(Deployed)
	if p.planned {
		return was, nil
	}
	if err := p.readFunctions(ctx, was); err != nil {
		return nil, err
	}
	return was, nil
}

// readFunctions reads the functions that Tally's tools made.
func (p *Project) readFunctions(ctx context.Context, was *Deployed) error {
	all, err := p.List(ctx, "cloudfunctions.googleapis.com/v2/projects/"+p.ID+"/locations/-/functions")
	silence := new(Silence)
	switch {
	case errors.As(err, &silence):
		was.silence = err
	case err != nil && !p.absent(err):
		return p.Unreadable("cloudfunctions", "the functions", err)
	}
	was.Functions = slices.DeleteFunc(all, func(f Object) bool { return !ours(f) })
	slices.SortStableFunc(was.Functions, func(a, b Object) int { return strings.Compare(b.Get("updateTime"), a.Get("updateTime")) })
	return nil
}

// ReadFunctions reads the functions of a project, and nothing else. The options are those of
// Google's clients. It is an error if there are none, and some may be in a region that did not
// answer.
func ReadFunctions(ctx context.Context, project string, o ...option.ClientOption) (*Deployed, error) {
	p, err := open(ctx, project, o)
	if err != nil {
		return nil, err
	}
	was := new(Deployed)
	if err := p.readFunctions(ctx, was); err != nil {
		return nil, err
	}
	if len(was.Functions) == 0 && was.silence != nil {
		return nil, p.Unreadable("cloudfunctions", "the functions", was.silence)
	}
	return was, nil
}

// function returns the function of an id; nil if it is not deployed.
func (was *Deployed) function(id string) Object {
	for _, f := range was.Functions {
		if path.Base(f.name()) == id {
			return f
		}
	}
	return nil
}

// Env returns the variables that the functions are deployed with; nil if there are no functions. If
// the functions' variables differ, Env takes the function that was deployed last, of those whose
// variables are valid.
func (was *Deployed) Env() map[string]string {
	var env map[string]string
	for _, f := range slices.Backward(was.Functions) {
		own := Environment(f)
		_, err := config.Load(own)
		if err == nil || env == nil {
			env = own
		}
	}
	return env
}

// Environment returns a function's variables, without the one that Cloud Functions adds.
func Environment(f Object) map[string]string {
	env := make(map[string]string)
	variables := asObject(f.at([]string{"serviceConfig", "environmentVariables"}))
	for name, value := range variables {
		if name != "LOG_EXECUTION_ID" {
			env[name] = fmt.Sprint(value)
		}
	}
	return env
}

// Region returns the region that the functions are in, "" if there are none.
func (was *Deployed) Region() string {
	if len(was.Functions) == 0 {
		return ""
	}
	return segment(was.Functions[0].name(), "locations")
}

// regions returns all regions that have functions of Tally's.
func (was *Deployed) regions() (all []string) {
	for _, f := range was.Functions {
		all = append(all, segment(f.name(), "locations"))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Wanted returns the variables that the functions should have: those of tally.yaml, or if there is
// no tally.yaml, those that they have now.
func (was *Deployed) Wanted(f *appfolder.Folder, project string) map[string]string {
	env := f.Variables()
	if f.File == "" {
		maps.Copy(env, was.Env())
	}
	env["GOOGLE_CLOUD_PROJECT"] = project
	return env
}

// A Deployment is what tally deploy makes in a project.
type Deployment struct {
	*Project
	Options
	Was       *Deployed
	Upload    *Upload // the functions' source; nil: any will do
	Resources []*Resource
}

// Want returns the deployment that the app's folder says. What tally.yaml does not say has its
// default, except for the region, which stays as it is deployed. If there is no tally.yaml, all
// stays as it is deployed.
//
// c is the configuration that the variables of Deployed.Wanted say. It is an error if Tally cannot
// serve one of the databases, or if the settings contradict each other.
func Want(p *Project, was *Deployed, f *appfolder.Folder, c config.Config, upload *Upload) (*Deployment, error) {
	databases, err := p.Locate(c.Databases)
	if err != nil {
		return nil, err
	}
	o := Options{
		Project:      p.ID,
		Region:       cmp.Or(f.Settings.Region, was.Region()),
		Databases:    databases,
		Config:       c,
		Env:          was.Wanted(f, p.ID),
		Billing:      said(f, f.Settings.Billing, ByRequest),
		MaxInstances: was.maxInstances(f),
		Alerts:       f.Settings.Alerts,
		KeepAlerts:   f.File == "",
		RequestLogs:  said(f, f.Settings.RequestLogs, FailedRequests),
	}
	return Describe(p, was, o, upload)
}

// said returns a setting of tally.yaml, and its default if the file does not say it. Without the
// file it returns "".
func said(f *appfolder.Folder, setting, byDefault string) string {
	if f.File == "" {
		return ""
	}
	return cmp.Or(setting, byDefault)
}

// maxInstances returns how many instances RollUpOnWrite may have.
func (was *Deployed) maxInstances(f *appfolder.Folder) int {
	if f.Settings.MaxInstances != nil {
		return *f.Settings.MaxInstances
	}
	deployed, _ := strconv.Atoi(was.function(OnWriteName).Get("serviceConfig.maxInstanceCount"))
	if f.File == "" && deployed > 0 {
		return deployed
	}
	return DefaultMaxInstances
}

// Describe returns the deployment for the options.
func Describe(p *Project, was *Deployed, o Options, upload *Upload) (*Deployment, error) {
	o.nameQueue(p.Number)
	if err := o.check(); err != nil {
		return nil, err
	}
	d := &Deployment{Project: p, Options: o, Was: was, Upload: upload}
	text, err := d.fill().write()
	if err == nil {
		d.Resources, err = readManifest(text)
	}
	return d, err
}

// Of returns the resources of a kind.
func (d *Deployment) Of(kind string) []*Resource {
	return slices.DeleteFunc(slices.Clone(d.Resources), func(r *Resource) bool { return r.kind.Noun != kind })
}

// in returns the name of a resource in a region or location.
func (d *Deployment) in(location, collection, id string) string {
	return "projects/" + d.ID + "/locations/" + location + "/" + collection + "/" + id
}

// Job returns the name of the job.
func (d *Deployment) Job() string { return d.in(d.region(), "jobs", "tally") }

// QueueResume returns the command that resumes the queue.
func (d *Deployment) QueueResume() Command {
	return command(fmt.Sprintf("gcloud tasks queues resume tally --location=%s --project=%s", d.region(), d.ID))
}

// LongestSilence is how long ago the job's last call may be: two periods and the longest time of a
// call. So one late or skipped call is no alarm.
const LongestSilence = 2*config.SchedulePeriod + config.OnScheduleTimeout

// RunJob has Cloud Scheduler run a job now, which takes roles/cloudscheduler.jobRunner.
func (p *Project) RunJob(ctx context.Context, name string) error {
	return p.Call(ctx, http.MethodPost, "cloudscheduler.googleapis.com/v1/"+name+":run", Object{}, new(Object))
}

// Entries reads the log entries that a filter finds, at most so many, in an order such as
// "timestamp desc". It takes roles/logging.viewer.
func (p *Project) Entries(ctx context.Context, filter, order string, most int) (all []Object, err error) {
	body := Object{"resourceNames": []string{"projects/" + p.ID}, "filter": filter, "orderBy": order, "pageSize": min(most, 1000)}
	for {
		var page struct {
			Entries       []Object
			NextPageToken string
		}
		if err := p.Call(ctx, http.MethodPost, "logging.googleapis.com/v2/entries:list", body, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Entries...)
		if page.NextPageToken == "" || len(all) >= most {
			return all, nil
		}
		body["pageToken"] = page.NextPageToken
	}
}

// An API is one that Tally reads.
type API struct{ Name, Reads, Role string }

// APIs returns the APIs that Tally reads, with the permissions that it takes and a role that has
// them.
func APIs() (all []API) {
	for _, name := range slices.Sorted(maps.Keys(known().APIs)) {
		access := known().APIs[name]
		all = append(all, API{name + ".googleapis.com", access.Reads, access.Role})
	}
	return all
}
