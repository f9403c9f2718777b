package doctor

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/firestore-tally/tally/internal/tool/deploy"
	"github.com/firestore-tally/tally/rollup/route"
)

// lastTick finds that the job does not call RollUpOnSchedule, or that its last call failed.
func (e *examination) lastTick(context.Context) {
	known := e.read(deploy.Job)
	if !known {
		return
	}

	name := e.described.Job()
	job := e.Have.Find(deploy.Job, name)
	if job == nil {
		e.idle("there is no job")
		return
	}

	run, resume := e.job("run"), e.job("resume")
	logs := []deploy.Command{e.logs(deploy.OnScheduleName, "error")}

	last, _ := time.Parse(time.RFC3339, job.Get("lastAttemptTime")) // zero if there was none
	age := e.AsOf.Sub(last).Round(time.Second)
	code := job.Get("status.code")

	switch {
	case job.Get("state") != "ENABLED":
		e.wrong(resume, "the job is %s", job.Get("state"))
	case last.IsZero():
		e.wrong(run, "the job has not called yet")
	case code != "" && code != "0":
		e.wrong(logs, "the last call, %v ago, failed: %s", age, strings.TrimSpace(code+" "+job.Get("status.message")))
	case age > deploy.LongestSilence:
		e.wrong(run, "the last call was %v ago", age)
	}
}

// longestDelay is how long after its time an alarm may ring. Cloud Tasks promises none.
const longestDelay = time.Minute

// alarms finds what tally deploy would fix of the queue, whether it is paused, and that alarms of
// the last hour rang late. Cloud Tasks has no stable API for the age of the oldest task.
func (e *examination) alarms(ctx context.Context) {
	settings(deploy.Queue)(e, ctx)

	queue := e.Have.Find(deploy.Queue, e.described.Config.Queue)
	if state := queue.Get("state"); queue != nil && state != "RUNNING" {
		e.wrong([]deploy.Command{e.described.QueueResume()}, "the queue is %s: what is deferred, or leaves a window, waits", state)
	}

	for _, series := range e.ask(ctx, question{delays, `resource.labels.queue_id = "tally"`, "ALIGN_PERCENTILE_99", time.Hour, time.Hour}) {
		delay := time.Duration(point(series, 0)) * time.Millisecond
		if delay > longestDelay {
			e.wrong(nil, "one in a hundred alarms of the last hour rang more than %v late: docs/playbooks/alarms-late.md", delay.Round(time.Second))
		}
	}
}

// job returns the command that does something with the job.
func (e *examination) job(verb string) []deploy.Command {
	return []deploy.Command{{Args: []string{"gcloud", "scheduler", "jobs", verb, path.Base(e.described.Job()),
		"--location=" + e.Have.Region(), "--project=" + e.Have.Project}}}
}

// drift finds that audits repaired a roll-up within the last day. It also finds that audits cannot
// tell, because the configuration leaves them too little time.
func (e *examination) drift(ctx context.Context) {
	if err := e.config.CheckGrace(); err != nil {
		e.wrong([]deploy.Command{e.deploy()}, "%v", err)
	}
	e.wantNone(ctx, drifted, "audits found %.0f roll-ups that lacked a change: docs/playbooks/drift.md")
}

// late finds that roll-ups of the last day came late. It notes a counter whose sums take long.
func (e *examination) late(ctx context.Context) {
	e.wantNone(ctx, cameLate, "%.0f roll-ups came late: docs/playbooks/lag.md")

	line, _ := e.logged(ctx, fmt.Sprintf("jsonPayload.message=%q", "sums take long; events are deferred"))
	if line != nil {
		nanoseconds, _ := strconv.ParseFloat(line.Get("jsonPayload.took"), 64)
		e.note("a sum of %s in %s took %v. Totals whose sums take long are late by up to two sums: docs/config.md#cadence",
			line.Get("jsonPayload.counter"), line.Get("jsonPayload.database"), time.Duration(nanoseconds).Round(100*time.Millisecond))
	}
}

// leftOut finds documents of the last day that had a list in the field of a group, or something
// else than a time in that of a window. The log of RollUpOnWrite says so. A log that cannot be read
// is read once.
func (e *examination) leftOut(ctx context.Context) {
	routes := e.config.Routes.Live()
	grouped := slices.DeleteFunc(slices.Clone(routes), func(r *route.Route) bool { return r.By == "" })
	for _, left := range []struct {
		routes       route.Routes
		filter, says string
	}{
		{grouped, `jsonPayload.message="a document belongs to no counter" AND jsonPayload.reason="an array"`, "belongs to no counter of"},
		{routes.Windowed(), `jsonPayload.message="a document is in no window"`, "is in no window of"},
	} {
		for _, r := range left.routes {
			line, known := e.logged(ctx, fmt.Sprintf("%s AND jsonPayload.route=%q", left.filter, r))
			if !known {
				return
			}
			if line != nil {
				e.wrong(nil, "%s of %s %s %s: %s", line.Get("jsonPayload.document"), line.Get("jsonPayload.database"), left.says, r, line.Get("jsonPayload.why"))
			}
		}
	}
}

// logged returns the first line of the last day that a filter finds in the log of RollUpOnWrite.
// It returns nil if there is none. It reports whether the log could be read, and notes if it could
// not.
func (e *examination) logged(ctx context.Context, filter string) (line deploy.Object, known bool) {
	line, err := e.Have.FirstEntry(ctx, fmt.Sprintf("resource.type=%q AND resource.labels.service_name=%q AND timestamp>=%q AND %s",
		"cloud_run_revision", deploy.OnWriteName, e.AsOf.Add(-day).UTC().Format(time.RFC3339), filter))
	if err != nil {
		e.unknown(e.Have.ReadError(deploy.LoggingAPI, "the log of "+deploy.OnWriteName, err))
	}
	return line, err == nil
}

// wantNone finds that a metric of the last day is not 0. format gets the sum.
func (e *examination) wantNone(ctx context.Context, metric, format string) {
	sum := e.measure(ctx, metric)
	if sum > 0 {
		e.wrong(nil, format, sum)
	}
}
