package tally

import (
	"context"
	"net/http"
	"os"

	"github.com/GoogleCloudPlatform/functions-framework-go/functions"
	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/firestore-tally/tally/internal/app"
)

func init() {
	functions.CloudEvent("RollUpOnWrite", RollUpOnWrite)
	functions.HTTP("RollUpOnSchedule", RollUpOnSchedule)
}

var service = app.New(os.Environ, os.Stderr)

// RollUpOnWrite is the function that Eventarc calls with each write of a shard, as a CloudEvent of type
// google.cloud.firestore.document.v1.written. It returns nil once the write is in the counter's roll-up document or another event that is not
// acknowledged yet stands for it, and an error, after at most TALLY_HOLD_LIMIT, when the event must be delivered again: deploy it with retry on.
func RollUpOnWrite(ctx context.Context, e event.Event) error {
	return service.OnWrite(ctx, e)
}

// RollUpOnSchedule is the function that Cloud Scheduler calls. It brings the roll-up of every counter up to date and answers with a report in
// JSON: status 200, or 500 when anything failed.
func RollUpOnSchedule(w http.ResponseWriter, r *http.Request) {
	service.OnSchedule(w, r)
}
