package doctor

import (
	"cmp"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/firestore-tally/tally/deploy"
	"github.com/robfig/cron/v3"
)

// jobs returns the jobs that call RollUpOnSchedule. If none does, it returns one that has deploy's
// name, which may have lost its way.
func (e *examination) jobs() []*Job {
	var calling, named []*Job
	for i := range e.Jobs.Value {
		j := &e.Jobs.Value[i]
		if e.calls(j) {
			calling = append(calling, j)
		} else if j.Name == deploy.JobName {
			named = append(named, j)
		}
	}
	if len(calling) == 0 {
		return named
	}
	return calling
}

// calls reports whether the job calls the function.
func (e *examination) calls(j *Job) bool {
	for _, address := range e.schedule[0].URLs {
		if strings.TrimRight(withoutQuery(j.URI), "/") == strings.TrimRight(address, "/") {
			return true
		}
	}
	return false
}

func withoutQuery(uri string) string {
	before, _, _ := strings.Cut(uri, "?")
	return before
}

func (e *examination) scheduleExists() {
	f := e.scheduled()
	switch {
	case f == nil:
		return
	case e.Jobs.Unread != nil:
		e.unknown(e.Jobs.Unread)
		return
	case e.job == nil:
		e.wrong([]deploy.Command{e.deploy()}, "no job of Cloud Scheduler calls %s", f.Name)
		return
	}
	if !e.calls(e.job) {
		e.wrong(e.update("--uri="+f.address()), "the job %s calls %s, which is not %s", e.job.Name, e.job.URI, f.Name)
	} else if u, err := url.Parse(e.job.URI); err == nil {
		if dry, err := strconv.ParseBool(cmp.Or(u.Query().Get("dry_run"), "false")); dry || err != nil {
			e.wrong(e.update("--uri="+f.address()), "the job %s calls with %s: nothing is repaired", e.job.Name, u.RawQuery)
		}
	}
	if e.job.Method != "POST" && e.job.Method != "GET" {
		e.wrong(e.update("--http-method=post"), "the job %s calls by %s; want POST", e.job.Name, e.job.Method)
	}
	for _, j := range e.jobs()[1:] {
		e.wrong(e.one("scheduler", "jobs", "delete", j.Name, "--location="+j.Region), "the job %s calls it too, beside %s: each audits", j.Name, e.job.Name)
	}
}

// address returns the address that jobs call the function at.
func (f *Function) address() string {
	if len(f.URLs) == 0 {
		return ""
	}
	return f.URLs[0]
}

// update returns the remedy that changes the job.
func (e *examination) update(flags ...string) []deploy.Command {
	return e.one(append([]string{"scheduler", "jobs", "update", "http", e.job.Name, "--location=" + e.job.Region}, flags...)...)
}

// theJob returns the job that calls RollUpOnSchedule, and notes if there is none.
func (e *examination) theJob() *Job {
	switch {
	case e.scheduled() == nil:
		return nil
	case e.Jobs.Unread != nil:
		e.unknown(e.Jobs.Unread)
		return nil
	case e.job == nil:
		e.idle("no job calls RollUpOnSchedule")
	}
	return e.job
}

func (e *examination) scheduleEnabled() {
	if j := e.theJob(); j != nil && j.State != "ENABLED" {
		e.wrong(e.one("scheduler", "jobs", "resume", j.Name, "--location="+j.Region), "the job %s is %s", j.Name, j.State)
	}
}

func (e *examination) scheduleIdentity() {
	j := e.theJob()
	if j == nil {
		return
	}
	f := e.schedule[0]
	if j.Identity == "" {
		e.wrong(e.update("--oidc-service-account-email="+e.defaults.Job.ServiceAccount), "the job %s sends no OIDC token", j.Name)
		return
	}
	if j.Audience == "" {
		return
	}
	for _, address := range f.URLs {
		if strings.TrimRight(j.Audience, "/") == strings.TrimRight(address, "/") {
			return
		}
	}
	e.wrong(e.update("--oidc-service-account-email="+j.Identity, "--oidc-token-audience="+f.address()), "the token of the job %s is for %s, not for %s", j.Name, j.Audience, f.Name)
}

// period is how far apart a job's calls are at most, about: over the next 2,000 calls or 40 days.
// It is zero if the schedule is none of crontab's, or hardly ever comes.
func (e *examination) periodOf(j *Job) time.Duration {
	location, err := time.LoadLocation(cmp.Or(j.TimeZone, "UTC"))
	if err != nil {
		location = time.UTC
	}
	schedule, err := cron.ParseStandard(j.Schedule)
	if err != nil {
		return 0
	}
	var longest time.Duration
	last := schedule.Next(e.AsOf.In(location))
	for range 2000 {
		next := schedule.Next(last)
		if next.IsZero() || next.Sub(e.AsOf) > 40*24*time.Hour {
			break
		}
		longest = max(longest, next.Sub(last))
		last = next
	}
	return longest
}

func (e *examination) period() {
	j := e.theJob()
	if j == nil {
		return
	}
	if !e.valid {
		e.idle(noConfig)
		return
	}
	deployed := e.update("--schedule=" + e.defaults.Job.Schedule)
	switch period, want := e.periodOf(j), e.config.SchedulePeriod; {
	case len(e.config.Routes.Scheduled()) == 0:
	case period == 0:
		e.unknown(&Unread{What: fmt.Sprintf("the period of the job %s", j.Name), Why: fmt.Sprintf("its schedule is %q; only crontab's are understood here", j.Schedule),
			Remedy: deployed})
	case period != want:
		remedy := e.setEnv(e.schedule[0], "TALLY_SCHEDULE_PERIOD", period.String())
		if want.String() == e.defaults.OnSchedule.Env["TALLY_SCHEDULE_PERIOD"] {
			remedy = deployed
		}
		e.wrong(remedy, "the job %s calls every %v, and TALLY_SCHEDULE_PERIOD is %v", j.Name, period, want)
	}
}

// longestAttempt is the longest attempt deadline of a job that makes HTTP requests
// (https://cloud.google.com/scheduler/docs/reference/rest/v1/projects.locations.jobs).
const longestAttempt = 30 * time.Minute

func (e *examination) attemptDeadline() {
	j := e.theJob()
	if j == nil {
		return
	}
	f := e.schedule[0]
	switch {
	case f.Timeout > longestAttempt:
		e.wrong(e.redeploy(f, "--timeout="+seconds(e.defaults.OnSchedule.Timeout)), "%s may take %v; a job waits for at most %v", f.Name, f.Timeout, longestAttempt)
	case j.AttemptDeadline < f.Timeout:
		e.wrong(e.update("--attempt-deadline="+seconds(f.Timeout)), "the job %s waits for %v; %s may take %v", j.Name, j.AttemptDeadline, f.Name, f.Timeout)
	}
}

func (e *examination) lastTick() {
	j := e.theJob()
	if j == nil {
		return
	}
	f := e.schedule[0]
	again := e.one("scheduler", "jobs", "run", j.Name, "--location="+j.Region)
	age := e.AsOf.Sub(j.LastAttempt).Round(time.Second)
	switch {
	case j.LastAttempt.IsZero():
		e.wrong(again, "the job %s has not called yet", j.Name)
	case j.LastError != "":
		e.wrong(e.one("functions", "logs", "read", f.Name, "--gen2", "--region="+f.Region, "--min-log-level=error", "--limit=20"),
			"the last call of the job %s, %v ago, failed: %s; the log says why", j.Name, age, j.LastError)
	default:
		// Two periods, so that one late or skipped call is no alarm.
		if period := e.periodOf(j); period > 0 && age > 2*period+j.AttemptDeadline {
			e.wrong(again, "the last call of the job %s was %v ago, and its period is %v", j.Name, age, period)
		}
	}
}
