package trial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/firestore-tally/tally/internal/tool/deploy"
	"github.com/googleapis/gax-go/v2"
)

// now returns the time by Firestore's clock, as far as it is known.
func (r *run) now() time.Time {
	ahead, _ := r.ahead()
	return time.Now().Add(ahead)
}

// logPause is the time between two looks at the log. Cloud Logging allows one a second:
// https://cloud.google.com/logging/quotas#api-limits
const logPause = 3 * time.Second

// clocksDiffer is by how much a function's clock may be behind Firestore's.
const clocksDiffer = time.Second

// logged waits for the first line with a message that a function's service logs from a time on.
func (r *run) logged(ctx context.Context, service, message string, from time.Time) (deploy.Object, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.Timeout, fmt.Errorf("%s logged no line %q within %v; it needs TALLY_LOG_LEVEL INFO or DEBUG", service, message, r.Timeout))
	defer cancel()
	filter := fmt.Sprintf("resource.type=%q AND resource.labels.service_name=%q AND jsonPayload.message=%q AND timestamp>=%q",
		"cloud_run_revision", service, message, from.Add(-clocksDiffer).UTC().Format(time.RFC3339Nano))

	for {
		lines, err := r.on.Entries(ctx, filter, "timestamp asc", 1)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			return nil, fmt.Errorf("reading the log, which takes roles/logging.viewer: %w", err)
		}
		if len(lines) > 0 {
			return lines[0], nil
		}

		stopped := gax.Sleep(ctx, logPause)
		if stopped != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// record writes one more document, and returns how its event came to RollUpOnWrite, which logs that
// for a counter with such an id.
func (r *run) record(ctx context.Context) (*Recorded, error) {
	i := slices.IndexFunc(r.parts, (*part).live)
	if i < 0 {
		return nil, errors.New("no event can be recorded: " + noEvents)
	}
	p, err := r.sibling(ctx, r.parts[i], "-record")
	if err != nil {
		return nil, err
	}

	from := r.now()
	err = r.put(ctx, p, "0")
	if err != nil {
		return nil, err
	}
	line, err := r.logged(ctx, deploy.OnWriteName, "event of a demo", from)
	if err != nil {
		return nil, fmt.Errorf("no event was recorded, which is done once a minute: %w", err)
	}

	event := new(Recorded)
	text, err := json.Marshal(line["jsonPayload"])
	if err != nil {
		return nil, err
	}
	return event, errors.Join(json.Unmarshal(text, event), r.covered(ctx, p))
}
