package doctor

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/firestore-tally/tally/internal/tool/deploy"
)

// Failed pushes of the last hour are a problem if they are this part of all, and at least so many.
// Fewer are no fault: an instance may end, or start slowly. The alert deliveries-failing has the
// same part.
const (
	failedPart = 0.01
	failedSum  = 3
)

// longestWait is how long an event may wait. After that it has failed at least twice, because
// Eventarc delivers it again after at most ten minutes
// (https://cloud.google.com/eventarc/docs/retry-events).
const longestWait = 20 * time.Minute

// deliveries judges how Pub/Sub's pushes to RollUpOnWrite end. It does not ask Cloud Run, whose
// count of requests leaves out those that it refuses because no instance is free or a role is
// missing (https://cloud.google.com/monitoring/api/metrics_gcp_p_z#gcp-run).
func (e *examination) deliveries(ctx context.Context) {
	subscriptions := e.subscriptions()
	if len(subscriptions) == 0 {
		e.idle("there is no trigger")
		return
	}

	const ofEventarc = `resource.labels.subscription_id = starts_with("eventarc-")`
	pushed := e.ask(ctx, pushes, ofEventarc, "ALIGN_SUM", time.Hour)
	ages := e.ask(ctx, oldest, ofEventarc, "ALIGN_MEAN", 10*time.Minute)
	backlogs := e.ask(ctx, waiting, ofEventarc, "ALIGN_MEAN", 10*time.Minute)
	if slices.ContainsFunc(e.finding.Problems, func(p Problem) bool { return p.Verdict == Unknown }) {
		return
	}

	quiet := true
	for _, id := range slices.Sorted(maps.Keys(subscriptions)) {
		mine := aboutSubscription(id, pushed)
		quiet = quiet && len(mine) == 0
		e.failing(subscriptions[id], mine)
		e.backlog(subscriptions[id], aboutSubscription(id, ages), aboutSubscription(id, backlogs))
	}
	if quiet && len(e.finding.Problems) == 0 {
		var patterns []string
		for _, r := range e.config.Routes.Live() {
			patterns = append(patterns, r.Pattern().String())
		}
		e.note("no event came in the last hour. If somebody wrote, then not below %s, or the triggers are only minutes old", strings.Join(patterns, " or "))
	}
}

// subscriptions returns the triggers' names by the ids of the subscriptions through which their
// events go.
func (e *examination) subscriptions() map[string]string {
	found := make(map[string]string)
	for _, r := range e.wanted.OfKind("trigger") {
		id := r.Have().Get("transport.pubsub.subscription")
		if id != "" {
			found[path.Base(id)] = path.Base(r.Name)
		}
	}
	return found
}

// aboutSubscription returns those of the series that are about a subscription.
func aboutSubscription(subscription string, all []deploy.Object) []deploy.Object {
	return slices.DeleteFunc(slices.Clone(all), func(s deploy.Object) bool {
		return s.Get("resource.labels.subscription_id") != subscription
	})
}

// failing finds that pushes of a trigger fail, and by which answers.
func (e *examination) failing(trigger string, pushed []deploy.Object) {
	var total, failed float64
	ways := make(map[string]float64)
	for _, series := range pushed {
		n := deploy.Point(series)
		total += n
		class, code := series.Get("metric.labels.response_class"), series.Get("metric.labels.response_code")
		if class != "ack" && n > 0 {
			failed += n
			ways[cmp.Or(code, class)] += n
		}
	}
	if failed < failedSum || failed < total*failedPart {
		return
	}

	often := slices.SortedFunc(maps.Keys(ways), func(a, b string) int {
		return cmp.Or(cmp.Compare(ways[b], ways[a]), strings.Compare(a, b))
	})
	var texts []string
	for _, way := range often {
		texts = append(texts, fmt.Sprintf("%.0f by %s (%s)", ways[way], way, answerText(way)))
	}
	remedy := e.logs(deploy.OnWriteName, "warning")
	if slices.Contains([]string{"401", "403", "404", "429"}, often[0]) {
		remedy = e.deploy()
	}
	e.wrong(remedy, "%.0f of the last hour's %.0f pushes of %s failed: %s", failed, total, trigger, strings.Join(texts, ", "))
}

// answerText says what an answer to a push means: a status of HTTP, or a class of Pub/Sub's.
func answerText(way string) string {
	switch {
	case way == "401" || way == "403":
		return "the trigger's account may not call RollUpOnWrite"
	case way == "404":
		return "there is no RollUpOnWrite at that address"
	case way == "429":
		return "no instance was free: raise max_instances in tally.yaml, if the region's quota allows it"
	case way == "deadline_exceeded" || way == "504":
		return "no answer came in time"
	case way == "unreachable":
		return "RollUpOnWrite could not be reached"
	case len(way) == 3 && way[0] == '5':
		return "RollUpOnWrite failed, or an instance of it did"
	}
	return "RollUpOnWrite refused it"
}

// backlog finds that events of a trigger wait longer than longestWait.
func (e *examination) backlog(trigger string, ages, backlogs []deploy.Object) {
	var age time.Duration
	for _, series := range ages {
		age = max(age, time.Duration(deploy.Point(series))*time.Second)
	}
	if age <= longestWait {
		return
	}

	var events float64
	for _, series := range backlogs {
		events += deploy.Point(series)
	}
	e.wrong(e.logs(deploy.OnWriteName, "warning"), "%.0f events of %s wait, the oldest for %v. docs/playbooks.md#deliveries-failing", events, trigger, age)
}
