package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/firestore-tally/tally/internal/cloud/trigger"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

// A delivery is one delivery of an event, and what became of it. A field is zero if the delivery
// ended before the step that sets it.
type delivery struct {
	began    time.Time
	event    trigger.Event  // without its data: very many may be held
	change   trigger.Change // without its documents, once the concerns are known
	updated  bool           // the document existed before
	since    time.Duration  // between the write before and this one; 0: unknown
	concerns []route.Concern
	ending   rollup.Ending
	err      error
	outcome  outcome
}

// counters names the counters that the event is about, for the log.
func (d *delivery) counters() string {
	names := make([]string, len(d.concerns))
	for i, c := range d.concerns {
		names[i] = c.RollUp
	}
	return strings.Join(names, ", ")
}

// serve takes an event from its request to the answer.
func (s *service) serve(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	d := &delivery{began: time.Now()}

	d.err = s.rollUp(ctx, r, d)
	if errors.Is(d.err, errNoRoute) {
		d.err = s.noteDropped(ctx, d)
	}
	d.outcome = classify(d.ending, d.err)

	s.logLag(ctx, d)
	s.grow(ctx, d)
	s.answer(ctx, w, d)
}

// noteDropped notes for audits that an event is dropped because no route covers its document. The
// routes that did may still be those of the schedule, or will be again. It returns the event's own
// error if that was noted. Otherwise the event must come again. Nothing is noted in a database that
// is not served.
func (s *service) noteDropped(ctx context.Context, d *delivery) error {
	ctx, cancel := context.WithDeadline(ctx, d.began.Add(s.config.HoldLimit))
	defer cancel()
	database, err := s.database(ctx, d.change.Database)
	if err != nil {
		return err
	}
	err = database.notes.All(ctx)
	if err != nil {
		return fmt.Errorf("noting that an event was dropped: %w", err)
	}
	return d.err
}

// grow looks whether the counter needs more shards, if the event was held and its shard existed
// before. It does so before the answer, because Cloud Run gives an instance little processor time
// after it. So once in 20 seconds one event of a counter is answered some milliseconds later, and
// none is held longer than the hold limit. Nothing that goes wrong here changes the answer.
func (s *service) grow(ctx context.Context, d *delivery) {
	if !d.ending.Held || d.err != nil || !d.updated {
		return
	}
	database, err := s.database(ctx, d.change.Database)
	if err != nil {
		return // not reached: the event was held there
	}

	ctx, cancel := context.WithDeadline(ctx, d.began.Add(s.config.HoldLimit))
	defer cancel()
	database.grower.HandleWrite(ctx, d.change.Path(), d.since)
}

// rollUp has the engine roll up the counters that the event in a request is about. It returns when
// they are done with the event. On its way it fills in the delivery.
func (s *service) rollUp(ctx context.Context, r *http.Request, d *delivery) error {
	understanding, cancel := context.WithDeadline(ctx, d.began.Add(s.config.HoldLimit))
	defer cancel()
	known, err := s.decode(understanding, r, d)
	if err != nil || len(d.concerns) == 0 { // it belonged to no counter before, and does not now
		return err
	}
	if !known { // reading its keys took a part of the time for which it may be held
		ctx = understanding
	}

	database, err := s.database(ctx, d.change.Database)
	if err != nil {
		return err
	}
	event := rollup.Event{ID: d.change.ID, UpdateTime: d.change.UpdateTime, Time: d.change.Committed}
	d.ending, err = database.coalescer.HandleEvent(ctx, event, d.concerns...)
	return err
}

// decode reads and decodes the event, and finds out which counters it is about. Until then the
// event takes the memory of its documents, so large events may have to wait for one another here.
// It reports whether the event told that by itself.
func (s *service) decode(ctx context.Context, r *http.Request, d *delivery) (known bool, err error) {
	body := &countedBody{ReadCloser: r.Body, ctx: ctx, memory: s.memory}
	defer body.release()
	r.Body = body

	err = d.receive(r)
	if err != nil {
		return false, err
	}

	source, err := s.source(d.change)
	if err != nil {
		return false, err
	}
	d.concerns, known, err = s.concerns(ctx, d.change, source)
	d.updated, d.since = d.change.Updated(), d.change.SinceLastWrite()
	d.change = d.change.WithoutDocuments()
	return known, err
}

// receive reads the event from the request, and decodes its change. After an error the delivery has
// what could be read, for the log.
func (d *delivery) receive(r *http.Request) error {
	event, err := trigger.FromRequest(r)
	if err == nil {
		d.change, err = trigger.Decode(event)
	}

	event.Data = nil
	d.event = event
	return err
}

// source returns the document that changed. It returns an error if its database is not served here,
// or if no route covers it.
func (s *service) source(change trigger.Change) (route.Source, error) {
	if change.Project != s.config.Project || !slices.Contains(s.config.Databases, change.Database) {
		return route.Source{}, fmt.Errorf("database %s of project %s: %w", change.Database, change.Project, errUnserved)
	}

	source, ok := s.config.Routes.Source(change.Path())
	if !ok {
		return route.Source{}, fmt.Errorf("%s: %w", change.Path(), errNoRoute)
	}
	return source, nil
}

// concerns returns the counters that a change of a source document is about. It reports whether
// the event told them by itself, so that nothing was read.
func (s *service) concerns(ctx context.Context, change trigger.Change, source route.Source) (concerns []route.Concern, told bool, err error) {
	told = change.Known() && !hidesTime(change, source)
	if told || len(source.Keys()) == 0 {
		s.logOmissions(ctx, change, source)
		return source.Own(source.Concerned(change), change.Holds), told, nil
	}

	now, err := s.readKeys(ctx, change, source)
	if err != nil {
		return nil, false, err
	}
	return source.Own(source.Concerned(now), change.Holds), false, nil
}

// hidesTime reports whether the event may hide the time by which the document belongs to a day or a
// month.
func hidesTime(change trigger.Change, source route.Source) bool {
	return slices.ContainsFunc(source.Times(), change.MayHideTime)
}

// readKeys reads by which keys a document belongs to counters now, because the event does not tell
// all of them. If the document was too large for its event, the counters that it has left are
// unknown. An audit will correct their totals, so readKeys writes a note for it: such a difference
// is not drift. A document that the event has created has left none.
func (s *service) readKeys(ctx context.Context, change trigger.Change, source route.Source) (storedChange, error) {
	database, err := s.database(ctx, change.Database)
	if err != nil {
		return storedChange{}, err
	}

	reading, cancel := context.WithTimeout(ctx, s.config.HoldLimit/2)
	defer cancel()
	fields, created, err := database.store.Fields(reading, change.Path(), source.Keys())
	if err != nil {
		return storedChange{}, err
	}
	if !change.Known() && (created.IsZero() || !created.Equal(change.Committed.Truncate(time.Microsecond))) {
		err = database.notes.Untold(reading, source)
	}
	return storedChange{change, fields}, err
}

// storedChange is a change whose event does not tell the document's present keys. They were read.
type storedChange struct {
	trigger.Change
	fields map[string]any
}

// Held implements route.Change.
func (c storedChange) Held(f document.Field) (before, after any) {
	before, _ = c.Change.Held(f)
	after, _ = f.In(c.fields)
	return before, after
}

// origin names what sends events such as this one: their source, their type, and the collections on
// the path of their document. A trigger has few of them.
func (d *delivery) origin() string {
	parts := append([]string{d.event.Source, d.event.Type}, strings.Split(d.change.Path(), "/")...)
	for i := 3; i < len(parts); i += 2 {
		parts[i] = "*" // a document's id
	}
	return strings.Join(parts, "/")
}

// logDropped logs that a request is acknowledged without effect, unless that was logged lately of
// the same origin. The line says how many were not logged since the last such line of the process.
// A trigger or a queue that was left over may send very many.
func (s *service) logDropped(ctx context.Context, logger *slog.Logger, message, origin string) {
	if !s.logged.First(message, origin, nil) {
		s.unlogged.Add(1)
		return
	}
	logger.ErrorContext(ctx, message, "unlogged", s.unlogged.Swap(0))
}

// logFailed logs that an event will be delivered again, unless that was logged lately of each of
// its counters. While Firestore refuses, all events fail. If its counters are not known, its origin
// stands for them.
func (s *service) logFailed(ctx context.Context, logger *slog.Logger, d *delivery) {
	const message = "event not acknowledged; it will be delivered again"
	first := len(d.concerns) == 0 && s.logged.First(message, d.origin(), d.err)
	for _, c := range d.concerns {
		if s.logged.First(message, d.change.Database+"/"+c.RollUp, d.err) {
			first = true
		}
	}
	if first {
		logger.WarnContext(ctx, message)
	}
}

// answer answers an event's delivery as its outcome asks, and logs a failure.
func (s *service) answer(ctx context.Context, w http.ResponseWriter, d *delivery) {
	if d.err == nil {
		w.Header().Set("Content-Length", "0") // so that the flushed answer is whole
		return
	}

	logger := s.logger.With("event_id", d.event.ID, "counter", d.counters(), "subject", d.event.Subject, "error", d.err)
	switch d.outcome {
	case refused:
		logger.WarnContext(ctx, "request refused")
		http.Error(w, d.err.Error(), http.StatusBadRequest)
	case dropped:
		w.Header().Set("Content-Length", "0")
		s.logDropped(ctx, logger.With("source", d.event.Source), "event dropped; a retry cannot help", d.origin())
	default:
		s.logFailed(ctx, logger.With("database", d.change.Database), d)
		http.Error(w, "not acknowledged; the log says why", http.StatusInternalServerError)
	}
}
