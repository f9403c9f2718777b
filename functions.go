package tally

import (
	"net/http"
	"os"

	"github.com/GoogleCloudPlatform/functions-framework-go/functions"
	"github.com/firestore-tally/tally/internal/app"
)

// RollUpOnWrite is registered as an HTTP function and takes the CloudEvent out of the request
// itself. The framework's own way, functions.CloudEvent, hands all requests through one channel, so
// that a caller that goes away can leave every later event waiting for the next one
// (https://github.com/cloudevents/sdk-go/issues/1224). Events that are held, as Tally's are, meet
// that soon.
func init() {
	functions.HTTP("RollUpOnWrite", RollUpOnWrite)
	functions.HTTP("RollUpOnSchedule", RollUpOnSchedule)
}

var service = app.New(os.Environ, os.Stderr)

// RollUpOnWrite is the function that Eventarc calls with each write of a shard, as a CloudEvent of
// type google.cloud.firestore.document.v1.written. It answers:
//
//   - 2xx once the write is in the counter's roll-up document, or another event that is not
//     acknowledged yet stands for it;
//   - 2xx too when no retry can help, because the event is malformed, of no route, or of a project
//     or database that is not served here, and logs that it dropped the event;
//   - 500, after at most TALLY_HOLD_LIMIT, when the event must be delivered again: deploy it with
//     retry on;
//   - 400 to what is no CloudEvent in either form in which Eventarc sends them: HTTP's binary
//     content mode, or, if a document's id cannot be sent as a header, a message pushed by Pub/Sub.
func RollUpOnWrite(w http.ResponseWriter, r *http.Request) {
	service.OnWrite(w, r)
}

// RollUpOnSchedule is the function that Cloud Scheduler calls. It rolls up the counters of the
// routes that say "every", as often as they say, until the next call is due. Beside that it walks
// the other counters, as far as time and TALLY_AUDIT_READS_PER_TICK allow, from where the last call
// stopped, and repairs each roll-up that differs from its shards. With the query parameter
// dry_run=true it only reports. It answers with a report in JSON, which docs/config.md explains:
// status 200, or 500 when anything failed.
func RollUpOnSchedule(w http.ResponseWriter, r *http.Request) {
	service.OnSchedule(w, r)
}
