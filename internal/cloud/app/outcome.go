package app

import (
	"errors"

	"github.com/firestore-tally/tally/internal/cloud/trigger"
	"github.com/firestore-tally/tally/rollup"
)

// An outcome is how an event ended. Metrics and spans have its text.
type outcome string

const (
	absorbed outcome = "absorbed" // acknowledged at once: an event that is held stands for it, or it changes nothing
	covered  outcome = "covered"  // held until a roll-up covered it, then acknowledged
	deferred outcome = "deferred" // acknowledged because an alarm stands for it
	unkept   outcome = "unkept"   // acknowledged, but a counter cannot be rolled up until someone fixes it
	dropped  outcome = "dropped"  // acknowledged without effect: no retry can help
	refused  outcome = "refused"  // answered with 400: the request is not an event
	failed   outcome = "failed"   // not acknowledged: it is delivered again
)

var (
	errNoRoute  = errors.New("no route covers the document; see TALLY_ROUTES and the trigger's path pattern")
	errUnserved = errors.New("not served here; see GOOGLE_CLOUD_PROJECT, TALLY_DATABASES and the trigger")
)

// classify decides how an event ended. Only errors that no retry can change have outcomes of their
// own. Any other error is failed, so that the event is delivered again.
func classify(ending rollup.Ending, err error) outcome {
	switch {
	case err == nil && ending.Unkept:
		return unkept
	case err == nil && ending.Deferred:
		return deferred
	case err == nil && ending.Held:
		return covered
	case err == nil:
		return absorbed
	case errors.Is(err, trigger.ErrNoEvent): // the request did not come from Eventarc
		return refused
	case errors.Is(err, trigger.ErrMalformed), errors.Is(err, errNoRoute), errors.Is(err, errUnserved):
		return dropped
	default:
		return failed
	}
}
