package doctor

import (
	"context"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/firestore-tally/tally/internal/reason"
	"github.com/firestore-tally/tally/internal/tool/deploy"
	"github.com/firestore-tally/tally/rollup/route"
)

// lastTick finds that the job does not call RollUpOnSchedule, or that its last call failed.
func (e *examination) lastTick(context.Context) {
	job := e.wanted.OfKind("job")[0].Have()
	if job == nil {
		e.idle("there is no job")
		return
	}

	run, resume := e.job("run"), e.job("resume")
	logs := e.logs(deploy.OnScheduleName, "error")

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

// alarms finds that the queue does not run, and that alarms of the last hour rang late. Cloud Tasks
// has no stable API for the age of the oldest task.
func (e *examination) alarms(ctx context.Context) {
	queue := e.wanted.OfKind("queue")[0].Have()
	switch state := queue.Get("state"); {
	case queue == nil:
		e.idle("there is no queue")
		return
	case state == "RUNNING":
	case state == "DISABLED":
		e.wrong(e.queue("resume", e.wanted.Place()), "the queue is DISABLED: deferred roll-ups, and documents that drop out of a window, wait. App Engine disables each queue that an uploaded queue.yaml does not name")
	default:
		e.wrong(e.queue("resume", e.wanted.Place()), "the queue is %s: deferred roll-ups, and documents that drop out of a window, wait", state)
	}
	e.purged(queue)

	const ofTally = `resource.labels.queue_id = "tally"`
	for _, series := range e.ask(ctx, delays, ofTally, "ALIGN_PERCENTILE_99", time.Hour) {
		delay := time.Duration(deploy.Point(series)) * time.Millisecond
		if delay > longestDelay {
			e.wrong("", "one in a hundred alarms of the last hour rang more than %v late: docs/playbooks.md#alarms-late", delay.Round(time.Second))
		}
	}
	for _, series := range e.ask(ctx, attempts, ofTally, "ALIGN_SUM", time.Hour) {
		location, n := series.Get("resource.labels.location"), deploy.Point(series)
		if n > 0 && isNotFound.MatchString(series.Get("metric.labels.response_code")) {
			e.wrong(e.queue("purge", location),
				"%.0f calls of the queue in %s found no RollUpOnWrite in the last hour: its tasks call functions that are gone, such as those of a former region", n, location)
		}
	}
}

// isNotFound matches how a metric of Cloud Tasks says that a call was answered by 404.
var isNotFound = regexp.MustCompile(`(?i)^(404|not[_ ]?found)$`)

// purged notes that the queue's tasks were deleted within the last day, and with them the alarms.
func (e *examination) purged(queue deploy.Object) {
	at, err := time.Parse(time.RFC3339, queue.Get("purgeTime"))
	if err == nil && e.AsOf.Sub(at) < day {
		e.note("the queue was purged at %s, and its pending alarms are gone. Audits find their counters; task names can be reused after 24 hours", at.UTC().Format(time.RFC3339))
	}
}

// queue returns the command that does something with the queue in a region.
func (e *examination) queue(verb, region string) string {
	return deploy.Command("gcloud", "tasks", "queues", verb, "tally", "--location="+region, "--project="+e.Project.ID)
}

// job returns the command that does something with the job.
func (e *examination) job(verb string) string {
	return deploy.Command("gcloud", "scheduler", "jobs", verb, path.Base(e.wanted.Job()), "--location="+e.Project.DeployedIn(), "--project="+e.Project.ID)
}

// drift finds that audits repaired a roll-up within their last two cycles. It also finds that
// audits cannot tell, because the configuration leaves them too little time.
func (e *examination) drift(ctx context.Context) {
	if err := e.config.CheckGrace(); err != nil {
		e.wrong(e.deploy(), "%v", err)
	}
	e.wantNoLine(ctx, e.config.TwoCycles(), "drift: no event of a change came in time", "audits found %s roll-ups that lacked a change: docs/playbooks.md#drift")
}

// late finds that roll-ups of the last day came late, and those with windows of the last two cycles
// of audits, which find them. It says how long most took, and notes a counter whose sums take long.
func (e *examination) late(ctx context.Context) {
	e.wantNoLine(ctx, day, "rolled up late", "%s roll-ups came late: docs/playbooks.md#lag")
	e.wantNoLine(ctx, e.config.TwoCycles(), "left late: no alarm had the counter rolled up when documents left a window", "%s roll-ups came late when documents dropped out of a window: docs/playbooks.md#left-late")

	line, _ := e.firstLine(ctx, fmt.Sprintf("jsonPayload.message=%q", "sums take long; events are deferred"))
	if line != nil {
		nanoseconds, _ := strconv.ParseFloat(line.Get("jsonPayload.took"), 64)
		e.note("a sum of %s in %s took %v. Totals whose sums take long are late by up to two sums: docs/routes.md#cadence",
			line.Get("jsonPayload.counter"), line.Get("jsonPayload.database"), time.Duration(nanoseconds).Round(100*time.Millisecond))
	}
	e.lag(ctx)
}

// mostSamples is how many samples of lag are read, the newest ones. Each instance logs one in ten
// seconds.
const mostSamples = 10_000

// lag notes how long it took from commits to the roll-ups that cover them.
func (e *examination) lag(ctx context.Context) {
	var seconds []float64
	for _, line := range e.entries(ctx, day, fmt.Sprintf("jsonPayload.message=%q", "lag sampled"), "timestamp desc", mostSamples) {
		s, err := strconv.ParseFloat(line.Get("jsonPayload.lag_seconds"), 64)
		if err == nil {
			seconds = append(seconds, s)
		}
	}
	if len(seconds) == 0 {
		return
	}

	slices.Sort(seconds)
	at := func(part float64) float64 { return seconds[int(part*float64(len(seconds)-1))] }
	e.note("from commit to roll-up it took %.2fs (median) and %.2fs (99th percentile) in %d samples of the last day", at(0.5), at(0.99), len(seconds))
}

// foreignKind is what the functions log about the app's own values in the fields of totals.
const foreignKind = "totals left out: their fields hold the app's own values"

// leftOut finds documents of the last day that had a list in the field of a key, or a reference to
// another database, or something else than a time in the field of a window, or a value of the app's
// in the field of a total. The functions' log says so.
func (e *examination) leftOut(ctx context.Context) {
	lines := e.entries(ctx, day, fmt.Sprintf(`(jsonPayload.message=%q AND jsonPayload.reason=("an array" OR "another database") OR jsonPayload.message=(%q OR %q))`,
		reason.Ungrouped, reason.Timeless, foreignKind), "timestamp asc", mostCounted)

	reported := make(map[string]bool)
	for _, line := range lines {
		message, text, counter := line.Get("jsonPayload.message"), line.Get("jsonPayload.route"), line.Get("jsonPayload.counter")
		of := strings.Join([]string{message, text, counter, line.Get("jsonPayload.reason")}, "\n")
		if reported[of] {
			continue
		}
		reported[of] = true

		database := line.Get("jsonPayload.database")
		_, isKept := e.config.Routes.Counter(counter)
		isRoute := slices.ContainsFunc(e.config.Routes.Live(), func(r *route.Route) bool { return r.String() == text })
		switch {
		case message == foreignKind && isKept:
			e.wrong("", "%s of %s has no such total: %s; clear the field, or give the total another name by \"as\" in its route", counter, database, line.Get("jsonPayload.fields"))
		case message != foreignKind && isRoute:
			e.wrong("", "%s", reason.Logged(reason.Kind(message), line.Get("jsonPayload.document")+" of "+database, text, line.Get("jsonPayload.why")))
		}
	}
}

// firstLine returns the first line of the last day that a filter finds in the log of RollUpOnWrite.
// It returns nil if there is none. It reports whether the log could be read, and notes if it could
// not.
func (e *examination) firstLine(ctx context.Context, filter string) (line deploy.Object, known bool) {
	before := len(e.finding.Problems)
	found := e.entries(ctx, day, filter, "timestamp asc", 1)
	if len(found) == 0 {
		return nil, len(e.finding.Problems) == before
	}
	return found[0], true
}

// entries returns lines of the last time that a filter finds in the functions' log. It notes if the
// log cannot be read.
func (e *examination) entries(ctx context.Context, last time.Duration, filter, order string, most int) []deploy.Object {
	found, err := e.Project.Entries(ctx, fmt.Sprintf("resource.type=%q AND resource.labels.service_name=(%q OR %q) AND timestamp>=%q AND %s",
		"cloud_run_revision", deploy.OnWriteName, deploy.OnScheduleName, e.AsOf.Add(-last).UTC().Format(time.RFC3339), filter), order, most)
	if err != nil {
		e.unknown(e.Project.Unreadable("logging", "the functions' log", err))
	}
	return found
}

// mostCounted is how far lines of the log are counted.
const mostCounted = 1000

// wantNoLine finds that the functions logged a message in the last time. format gets how often.
func (e *examination) wantNoLine(ctx context.Context, last time.Duration, message, format string) {
	n := len(e.entries(ctx, last, fmt.Sprintf("jsonPayload.message=%q", message), "timestamp desc", mostCounted))
	switch {
	case n >= mostCounted:
		e.wrong("", format, fmt.Sprintf("at least %d", n))
	case n > 0:
		e.wrong("", format, strconv.Itoa(n))
	}
}
