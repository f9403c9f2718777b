package doctor

import (
	"context"
	"time"

	"github.com/firestore-tally/tally/internal/tool/deploy"
)

// Metrics of Cloud Monitoring (https://cloud.google.com/monitoring/api/metrics_gcp_p_z).
const (
	pushes   = "pubsub.googleapis.com/subscription/push_request_count"
	waiting  = "pubsub.googleapis.com/subscription/num_undelivered_messages"
	attempts = "cloudtasks.googleapis.com/queue/task_attempt_count"
	delays   = "cloudtasks.googleapis.com/queue/task_attempt_delays"
	oldest   = "pubsub.googleapis.com/subscription/oldest_unacked_message_age"
)

const day = 24 * time.Hour

// ask returns the series of a metric, as deploy.Question has them. If they cannot be read, it notes
// that and returns none.
func (e *examination) ask(ctx context.Context, metric, where, aligner string, within time.Duration) []deploy.Object {
	all, err := e.Project.Series(ctx, deploy.Question{Metric: metric, Where: where, Aligner: aligner, Within: within}, e.AsOf)
	if err != nil {
		e.unknown(e.Project.Unreadable("monitoring", "the metric "+metric, err))
	}
	return all
}
