package tally

import (
	"net/http"
	"os"

	"github.com/GoogleCloudPlatform/functions-framework-go/functions"
	"github.com/firestore-tally/tally/internal/cloud/app"
)

// RollUpOnWrite is registered as an HTTP function, and takes the CloudEvent out of the request
// itself. The framework's own way is functions.CloudEvent, which passes all requests through one
// channel. If a caller goes away, each later event may have to wait there for the one that follows
// it (https://github.com/cloudevents/sdk-go/issues/1224). Tally holds events for seconds, so it
// would soon meet that.
//
// In a function's process on Cloud Run, init also reads the configuration, and ends the process if
// that is wrong. The revision then never gets ready, and the one before keeps the traffic. It must
// be init, because the main function is Google's: the buildpack writes it. This is the only init in
// Tally that does more than register names.
func init() {
	functions.HTTP("RollUpOnWrite", RollUpOnWrite)
	functions.HTTP("RollUpOnSchedule", RollUpOnSchedule)

	// Cloud Run sets the first variable in each of its services, and the buildpack the second one
	// where a function is served. The command tally may run in a service of somebody's own.
	deployed := os.Getenv("K_SERVICE") != "" && os.Getenv("FUNCTION_TARGET") != ""
	if !deployed {
		return
	}

	err := service.Configure()
	if err != nil { // it is logged
		os.Exit(1)
	}
}

var service = app.New(os.Environ, os.Stderr)

// RollUpOnWrite is the function that Eventarc calls with each write of a shard, as a CloudEvent of
// type google.cloud.firestore.document.v1.written. It answers:
//
//   - 2xx once the write is in the counter's roll-up document, or at once if another event that is
//     not acknowledged yet stands for it, or if it changes no total;
//   - 2xx when the counter cannot be rolled up until someone fixes it; the log says why;
//   - 2xx when no retry can help: the event is malformed, or no route covers its document, or its
//     project or database is not served here. The log says that the event was dropped;
//   - 500 when the event must be delivered again, TALLY_HOLD_LIMIT after its database was opened at
//     the latest. So the trigger must be deployed with retries on;
//   - 400 when the request is no CloudEvent as Eventarc sends it. Eventarc uses HTTP's binary
//     content mode, or, if a document's id cannot be sent as a header, a message pushed by Pub/Sub.
func RollUpOnWrite(w http.ResponseWriter, r *http.Request) {
	service.OnWrite(w, r)
}

// RollUpOnSchedule is the function that Cloud Scheduler calls. Until the next call is due, it rolls
// up the counters of the routes that say "every", as often as they say. At the same time it audits
// the other counters: it goes on where the last call stopped, and repairs each roll-up that differs
// from its shards. It stops when its time or TALLY_AUDIT_READS_PER_TICK is used up. With the query
// parameter dry_run=true it only reports. It answers with a report in JSON, which docs/config.md
// explains: status 200, or 500 when anything failed.
func RollUpOnSchedule(w http.ResponseWriter, r *http.Request) {
	service.OnSchedule(w, r)
}
