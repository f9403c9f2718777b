package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/firestore-tally/tally/internal/cloud/alarm"
	"github.com/firestore-tally/tally/rollup"
)

// mayBeAlarm reports whether a request can be an alarm that rings, and cannot be an event. Events
// have their version in a header, or come to an address with a parameter.
func mayBeAlarm(r *http.Request) bool {
	return r.Header.Get("Ce-Specversion") == "" && r.URL.RawQuery == "" && r.Header.Get("Content-Type") == "application/json"
}

// serveAlarm takes an alarm from its request to the answer.
func (s *service) serveAlarm(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	d, a, err := s.handleAlarm(ctx, r)

	logger := s.logger.With("counter", a.RollUp, "at", a.At, "error", err)
	switch {
	case err == nil:
		w.Header().Set("Content-Length", "0") // so that the flushed answer is whole
	case errors.Is(err, alarm.ErrNoAlarm):
		logger.WarnContext(ctx, "request refused")
		http.Error(w, err.Error(), http.StatusBadRequest)
	case errors.Is(err, errUnserved):
		w.Header().Set("Content-Length", "0")
		s.logDropped(ctx, logger, "alarm dropped; a retry cannot help", err.Error())
	default:
		again := d != nil && !d.logged.First("alarm not done", a.RollUp, err) // it rings every ten seconds or so
		if !again {
			logger.WarnContext(ctx, "alarm not done; it will ring again")
		}
		http.Error(w, "not done; the log says why", http.StatusInternalServerError)
	}
}

// handleAlarm has the engine do what an alarm rings for. The database is nil if it is not known.
func (s *service) handleAlarm(ctx context.Context, r *http.Request) (*database, rollup.Alarm, error) {
	resource, a, err := alarm.FromRequest(r)
	if err != nil {
		return nil, a, err
	}

	id := resource[strings.LastIndex(resource, "/")+1:]
	if resource != s.resourceName(id) || !slices.Contains(s.config.Databases, id) {
		return nil, a, fmt.Errorf("%s: %w", resource, errUnserved)
	}

	d, err := s.database(ctx, id)
	if err != nil {
		return nil, a, err
	}
	_, err = d.coalescer.HandleAlarm(ctx, a, s.config.Routes)
	return d, a, err
}
