package deploy

import "strings"

// logFilter returns the filter of the functions' log lines with a message. It names both services,
// because other services of the project may log the same words.
func logFilter(message string) string {
	return `resource.type="cloud_run_revision" AND resource.labels.service_name=("` + OnWriteName + `" OR "` + OnScheduleName +
		`") AND jsonPayload.message="` + message + `"`
}

// increaseOf returns the query for how much a metric of log lines increased within a time.
func increaseOf(metric, within string) string {
	return "sum(increase(logging_googleapis_com:user_" + metric + `{monitored_resource="cloud_run_revision"}[` + within + "]))"
}

// subscriptionMetric returns a metric of Pub/Sub's subscriptions, limited to those of Tally's
// triggers.
func subscriptionMetric(metric string, also ...string) string {
	labels := append([]string{`subscription_id=~"eventarc-[a-z]+(-[a-z]+)?[0-9]+-tally-.+"`}, also...)
	return "pubsub_googleapis_com:subscription_" + metric + "{" + strings.Join(labels, ",") + "}"
}

// pushMetric returns a metric of Pub/Sub's pushes, limited to the subscriptions of Tally's
// triggers.
func pushMetric(metric string, also ...string) string {
	return subscriptionMetric("push_request_"+metric, also...)
}

// attemptMetric returns a metric of the queue's calls, such as count.
func attemptMetric(metric string, also ...string) string {
	labels := append([]string{`monitored_resource="cloud_tasks_queue"`, `queue_id="tally"`}, also...)
	return "cloudtasks_googleapis_com:queue_task_attempt_" + metric + "{" + strings.Join(labels, ",") + "}"
}
