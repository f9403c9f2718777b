package deploy

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/firestore-tally/tally/internal/cloud/config"
	"github.com/firestore-tally/tally/internal/tool/appfolder"
)

// readFunctions reads the functions that Tally's tools made.
func (p *Project) readFunctions(ctx context.Context) error {
	all, err := p.List(ctx, "cloudfunctions.googleapis.com/v2/projects/"+p.ID+"/locations/-/functions")
	if err != nil && !p.isAbsent(err) {
		return p.Unreadable("cloudfunctions", "the functions", err)
	}
	p.Functions = slices.DeleteFunc(all, func(f Object) bool { return !isTallys(f) })
	slices.SortStableFunc(p.Functions, func(a, b Object) int { return strings.Compare(b.Get("updateTime"), a.Get("updateTime")) })
	return nil
}

// checkSilence returns an error if no functions are known, and some may be in a region that did not
// answer.
func (p *Project) checkSilence() error {
	silence := p.silenceOf("cloudfunctions")
	if len(p.Functions) > 0 || silence == nil {
		return nil
	}
	return p.Unreadable("cloudfunctions", "the functions", silence)
}

// Variables returns the variables that the functions are deployed with; nil if there are no
// functions. If the functions' variables differ, Variables takes the function that was deployed
// last, of those whose variables are valid.
func (p *Project) Variables() map[string]string {
	var env map[string]string
	for _, f := range slices.Backward(p.Functions) {
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

// DeployedIn returns the region that the functions are in, "" if there are none.
func (p *Project) DeployedIn() string {
	if len(p.Functions) == 0 {
		return ""
	}
	return segment(p.Functions[0].name(), "locations")
}

// Wanted returns the variables that the functions should have: those of tally.yaml, or if there is
// no tally.yaml, those that they have now.
func (p *Project) Wanted(f *appfolder.Folder) map[string]string {
	env := f.Variables()
	if f.File == "" {
		maps.Copy(env, p.Variables())
	}
	env["GOOGLE_CLOUD_PROJECT"] = p.ID
	return env
}

// A Deployment is what tally deploy makes in a project.
type Deployment struct {
	*Project
	Options
	Upload    *Upload // the functions' source; nil: any will do
	Resources []*Resource
}

// Want returns the deployment that the app's folder says. What tally.yaml does not say has its
// default, except for the region, which stays as it is deployed. If there is no tally.yaml, all
// stays as it is deployed.
//
// c is the configuration that the variables of Project.Wanted say. It is an error if Tally cannot
// serve one of the databases, or if the settings contradict each other.
func Want(p *Project, f *appfolder.Folder, c config.Config, upload *Upload) (*Deployment, error) {
	databases, err := p.Locate(c.Databases, c.Edition)
	if err != nil {
		return nil, err
	}
	o := Options{
		Region:       cmp.Or(f.Settings.Region, p.DeployedIn()),
		Databases:    databases,
		Config:       c,
		Env:          p.Wanted(f),
		Billing:      billed(f),
		MinInstances: p.instances(f, f.Settings.MinInstances, "minInstanceCount", 0),
		MaxInstances: p.instances(f, f.Settings.MaxInstances, "maxInstanceCount", DefaultMaxInstances),
		Alerts:       f.Settings.Alerts,
		KeepAlerts:   f.File == "",
	}
	return Describe(p, o, upload)
}

// billed returns how RollUpOnWrite's instances are billed; "": as they are.
func billed(f *appfolder.Folder) string {
	if f.File == "" {
		return ""
	}
	return cmp.Or(f.Settings.Billing, ByRequest)
}

// instances returns how many instances RollUpOnWrite has at least, or at most: as tally.yaml says,
// or without the file as is deployed, or by default.
func (p *Project) instances(f *appfolder.Folder, setting *int, field string, byDefault int) int {
	if setting != nil {
		return *setting
	}
	for _, deployed := range p.Functions {
		n, err := strconv.Atoi(deployed.Get("serviceConfig." + field))
		if f.File == "" && path.Base(deployed.name()) == OnWriteName && err == nil {
			return n
		}
	}
	return byDefault
}

// Describe returns the deployment for the options.
func Describe(p *Project, o Options, upload *Upload) (*Deployment, error) {
	d := &Deployment{Project: p, Options: o, Upload: upload}
	p.functionsRegion, p.near, p.edition = o.Place(), o.Databases[0].Location, o.Config.Edition
	d.nameQueue()
	if err := d.check(); err != nil {
		return nil, err
	}
	text, err := manifest{d}.write()
	if err == nil {
		d.Resources, err = readManifest(text)
	}
	return d, err
}

// OfKind returns the resources of a kind.
func (d *Deployment) OfKind(kind string) []*Resource {
	return slices.DeleteFunc(slices.Clone(d.Resources), func(r *Resource) bool { return r.kind.Noun != kind })
}

// nameIn returns the name of a resource in a region or location.
func (d *Deployment) nameIn(location, collection, id string) string {
	return "projects/" + d.ID + "/locations/" + location + "/" + collection + "/" + id
}

// Job returns the name of the job.
func (d *Deployment) Job() string { return d.nameIn(d.Place(), "jobs", "tally") }

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
