package deploy

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/firestore-tally/tally/internal/cloud/config"
)

// Job is the kind of jobs of Cloud Scheduler.
var Job Kind = &jobKind{common{noun: "job", from: schedulerAPI, api: "v1", group: "scheduler jobs", place: "--location"}}

type jobKind struct{ common }

// Command implements Kind.
func (k *jobKind) Command(project, verb, name string, args ...string) Command {
	if verb == "create" || verb == "update" {
		verb += " http"
	}
	return k.common.Command(project, verb, name, args...)
}

// LongestSilence is how long ago the job's last call may be: two periods and the longest time of a
// call. So one late or skipped call is no alarm.
const LongestSilence = 2*config.SchedulePeriod + config.OnScheduleTimeout

const jobID = "tally"

// Job returns the name of the job.
func (d *Description) Job() string { return d.in(d.region(), "jobs", jobID) }

// A job calls RollUpOnSchedule.
type job struct {
	wanted
	uri Command // looks up the function's address
}

// schedule adds the job. Its flags are those of
// https://cloud.google.com/sdk/gcloud/reference/scheduler/jobs/create/http.
func (d *Description) schedule(have *State) {
	uri := cmp.Or(d.uri(have), Placeholder)
	caller := value("httpTarget.oidcToken.serviceAccountEmail", d.email(schedulerAccount), "--oidc-service-account-email")
	caller.Always = true
	period := func(path, flag string, want time.Duration) Setting { return value(path, seconds(want), flag) }

	lookup := Function.Command(d.Project, "describe", d.in(d.region(), "functions", OnScheduleName), "--format=value(serviceConfig.uri)")
	d.add(&job{uri: lookup, wanted: d.want(Job, d.Job(),
		value("schedule", fmt.Sprintf("*/%d * * * *", config.SchedulePeriod/time.Minute), "--schedule"),
		value("timeZone", "Etc/UTC", "--time-zone"), // UTC has no summer time
		value("httpTarget.uri", uri, "--uri"),
		value("httpTarget.httpMethod", "POST", "--http-method"),
		// https://cloud.google.com/scheduler/docs/http-target-auth
		caller,
		value("httpTarget.oidcToken.audience", uri, "--oidc-token-audience"),
		// The job waits as long as the function may take. Otherwise it would call the function
		// again while that is still at work.
		period("attemptDeadline", "--attempt-deadline", config.OnScheduleTimeout),
		// A call that failed is tried again, twice, soon; the next one is due anyway.
		// https://cloud.google.com/scheduler/docs/configuring/retry-jobs
		value("retryConfig.retryCount", "2", "--max-retry-attempts"),
		period("retryConfig.minBackoffDuration", "--min-backoff", 10*time.Second),
		period("retryConfig.maxBackoffDuration", "--max-backoff", time.Minute),
		Setting{Arg: "--description=" + madeBy},
	)})
}

func (j *job) create() Command { return j.wanted.create().filled(&j.uri) }

func (j *job) update(have Object, changes []Change) Command {
	return j.wanted.update(have, changes).filled(&j.uri)
}

func (j *job) terraform(t *terraform) {
	const uri = "${google_cloudfunctions2_function." + OnScheduleName + ".service_config[0].uri}"
	id := path.Base(j.name)

	b := settingsOf(j)
	b["region"], b["name"] = segment(j.name, "locations"), id
	set(b, "httpTarget.uri", uri)
	set(b, "httpTarget.oidcToken.audience", uri)
	t.add(jobType, id, b)
}

// jobs reads the jobs of Cloud Scheduler. The API has no list of all, so jobs asks each of the some
// dozens of locations. One location may be closed to the project. But if all of them fail, the
// reason is another one, and the jobs are Unread.
func (s *State) jobs(ctx context.Context, parent string) {
	ids, err := s.locations(ctx, Job, parent)
	s.add(Job, err)

	errs := make([]error, len(ids))
	var all sync.WaitGroup
	for i, id := range ids {
		all.Go(func() {
			var jobs []Object
			jobs, errs[i] = s.List(ctx, schedulerAPI, "v1/"+parent+"/locations/"+id+"/jobs")
			s.add(Job, nil, jobs...)
		})
	}
	all.Wait()

	s.mu.Lock()
	slices.SortFunc(s.have[Job], func(a, b Object) int { return strings.Compare(a.name(), b.name()) })
	s.mu.Unlock()

	if len(errs) > 0 && !slices.Contains(errs, nil) {
		s.add(Job, errs[0])
		return
	}
	for i, err := range errs {
		if err != nil {
			s.miss(Job, ids[i], err)
		}
	}
}
