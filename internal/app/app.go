// Package app is what both functions run: configuration, logs, the databases, and what an event
// ends in.
package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caarlos0/env/v11"
	"github.com/firestore-tally/tally/internal/billing"
	"github.com/firestore-tally/tally/internal/config"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/internal/firestorestore"
	"github.com/firestore-tally/tally/internal/telemetry"
	"github.com/firestore-tally/tally/internal/trigger"
	"github.com/firestore-tally/tally/rollup"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/singleflight"
	"google.golang.org/grpc"
)

// An App serves Tally's functions. Nothing is read, opened or dialed before the first request. It
// may be used by many goroutines at once.
type App struct {
	environ func() []string
	logs    io.Writer
	dial    []grpc.DialOption

	setup func() (*service, error)
}

// New returns an App configured by environ's variables, each "name=value", that logs to logs. The
// dial options are for the connections to Firestore.
func New(environ func() []string, logs io.Writer, dial ...grpc.DialOption) *App {
	a := &App{environ: environ, logs: logs, dial: dial}
	a.setup = sync.OnceValues(a.load)
	return a
}

// load makes the service from the environment, which does not change, so that a wrong configuration
// stays wrong.
func (a *App) load() (*service, error) {
	config, err := config.Load(env.ToMap(a.environ()))
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}

	s := &service{config: config, logger: NewLogger(a.logs, config.LogLevel, config.Project)}
	s.open = func(ctx context.Context, id string) (documentStore, error) {
		return firestorestore.Open(ctx, config.EmulatorHost, config.Project, id, s.logger, s.dial...)
	}

	var observer func(billing.Counts)
	if config.UsageFile != "" {
		f, err := os.Create(config.UsageFile)
		if err != nil {
			return nil, fmt.Errorf("configuration: TALLY_USAGE_FILE: %w", err)
		}
		observer = billing.Mirror(f)
	}

	meter := billing.NewMeter(observer)
	s.dial = append(slices.Clone(a.dial), meter.DialOptions()...)
	billed := func() (reads, writes, deletes int64) {
		c := meter.Counts()
		return c.Reads, c.Writes, c.Deletes
	}

	interval := time.Duration(config.TelemetryInterval) * time.Millisecond
	s.telemetry, err = telemetry.Start(config.Telemetry, config.Project, interval, billed, s.logger)
	if err != nil { // counters go on without it
		s.logger.Error("no telemetry", "error", err)
	}

	s.endGracefully()
	s.logger.Info("configured", "routes", config.Routes.String(), "cadence", config.Cadence.String(),
		"burst", config.Burst, "hold_limit", config.HoldLimit.String())
	return s, nil
}

// OnWrite serves a Firestore document event, a CloudEvent over HTTP. It answers 2xx when the event
// is done with, and 500 when it is to be delivered again.
func (a *App) OnWrite(w http.ResponseWriter, r *http.Request) {
	ctx := telemetry.Traced(r.Context(), r.Header)
	s, err := a.setup()
	if err != nil {
		event, _ := trigger.FromRequest(r) // as far as it can be read
		NewLogger(a.logs, slog.LevelInfo, "").ErrorContext(ctx, "misconfigured; no event is acknowledged", "event_id", event.ID, "error", err)
		http.Error(w, "misconfigured; the log says how", http.StatusInternalServerError)
		return
	}

	s.ending.RLock()
	defer s.ending.RUnlock()
	defer func() { _ = http.NewResponseController(w).Flush() }() // the process may end as soon as it is unlocked

	ctx, span := s.telemetry.Start(ctx, "event")
	e := ended{began: time.Now()}
	e.event, e.change, e.err = s.receive(r)
	if e.err == nil {
		s.hold(ctx, &e)
	}
	e.outcome = classify(e.ending, e.err)
	s.record(ctx, span, e)
	s.answer(ctx, w, &e)
}

// answer answers an event's delivery as its outcome asks, and logs a failure.
func (s *service) answer(ctx context.Context, w http.ResponseWriter, e *ended) {
	if e.err == nil {
		w.Header().Set("Content-Length", "0") // so that the flushed answer is whole
		return
	}

	logger := s.logger.With("event_id", e.event.ID, "counter", e.counters(), "subject", e.event.Subject, "error", e.err)
	switch e.outcome {
	case telemetry.Refused:
		logger.WarnContext(ctx, "request refused")
		http.Error(w, e.err.Error(), http.StatusBadRequest)
	case telemetry.Dropped:
		w.Header().Set("Content-Length", "0")
		logger.ErrorContext(ctx, "event dropped; a retry cannot help", "source", e.event.Source, "dropped", s.dropped.Add(1))
	default:
		logger.WarnContext(ctx, "event not acknowledged; it will be delivered again")
		http.Error(w, "not acknowledged; the log says why", http.StatusInternalServerError)
	}
}

// receive returns an event, as far as it can be read, and the change that it tells.
func (s *service) receive(r *http.Request) (trigger.Event, trigger.Change, error) {
	e, err := trigger.FromRequest(r)
	if err != nil {
		return e, trigger.Change{}, err
	}

	change, err := trigger.Decode(e)
	e.Data = nil // very many events may be held
	return e, change, err
}

// hold rolls up the counters that an event is about. It notes the counters, and how that ended, in e.
func (s *service) hold(ctx context.Context, e *ended) {
	if !e.change.Known() { // the read of its groups counts towards the time that it may be held
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, e.began.Add(s.config.HoldLimit))
		defer cancel()
	}

	e.concerns, e.err = s.concerned(ctx, e.change)
	e.change = e.change.Forget()
	if e.err != nil {
		return
	}
	e.ending, e.err = s.onWrite(ctx, e.change, e.concerns)
}

// OnSchedule serves a request of Cloud Scheduler: it audits the counters of every database. With
// the query parameter dry_run=true it only reports. It answers a scheduleReport as JSON, with
// status 500 when anything failed, so that Scheduler retries.
func (a *App) OnSchedule(w http.ResponseWriter, r *http.Request) {
	text := cmp.Or(r.URL.Query().Get("dry_run"), "false")
	dryRun, err := strconv.ParseBool(text)
	if err != nil {
		http.Error(w, fmt.Sprintf("dry_run=%q: want true or false", text), http.StatusBadRequest)
		return
	}

	ctx := telemetry.Traced(r.Context(), r.Header)
	var report scheduleReport
	s, err := a.setup()
	if err != nil {
		NewLogger(a.logs, slog.LevelInfo, "").ErrorContext(ctx, "misconfigured", "error", err)
		report.Errors = []string{err.Error()}
	} else {
		report = s.onSchedule(ctx, dryRun)
	}

	w.Header().Set("Content-Type", "application/json")
	if len(report.Errors) > 0 {
		w.WriteHeader(http.StatusInternalServerError)
	}
	_ = json.NewEncoder(w).Encode(report) // the caller may be gone
}

// A service is a configured App.
type service struct {
	config    config.Config
	logger    *slog.Logger
	telemetry *telemetry.Telemetry // nil: off
	dial      []grpc.DialOption
	open      func(ctx context.Context, id string) (documentStore, error)

	dropped atomic.Int64 // events that no retry could help
	ending  sync.RWMutex // held for reading while an event is held; see endGracefully

	opening   singleflight.Group
	databases sync.Map // *database by id, of those that are open
}

// A documentStore is what the functions need of a database.
type documentStore interface {
	rollup.AuditStore

	// Fields returns some fields of the document at a path, in their places in it.
	Fields(ctx context.Context, path string, fields []document.Field) (map[string]any, error)
}

// A database is one that is open.
type database struct {
	store     documentStore
	logger    *slog.Logger
	logged    *rollup.Logged // by events and by ticks
	coalescer *rollup.Coalescer
	untold    *rollup.Untold
}

// database returns a database, which it opens on first use. It waits for the hold limit at most, and
// other databases do not wait for this one. A failed open is tried again by the next call.
func (s *service) database(ctx context.Context, id string) (*database, error) {
	if d, ok := s.databases.Load(id); ok {
		return d.(*database), nil
	}

	ctx, cancel := context.WithTimeout(ctx, s.config.HoldLimit)
	defer cancel()
	opened := s.opening.DoChan(id, func() (any, error) {
		if d, ok := s.databases.Load(id); ok { // by the call before
			return d, nil
		}

		store, err := s.open(context.WithoutCancel(ctx), id) // the client outlives the request that opens it
		if err != nil {
			return nil, err
		}

		logger := s.logger.With("database", id)
		logged := rollup.NewLogged()
		coalescer := rollup.NewCoalescer(store, s.options(logger, logged))
		d := &database{store, logger, logged, coalescer, rollup.NewUntold(store)}
		s.databases.Store(id, d)
		return d, nil
	})

	select {
	case r := <-opened:
		d, _ := r.Val.(*database)
		return d, r.Err
	case <-ctx.Done():
		return nil, fmt.Errorf("database %s is not open yet: %w", id, context.Cause(ctx))
	}
}

func (s *service) options(logger *slog.Logger, logged *rollup.Logged) rollup.Options {
	return rollup.Options{
		Cadence: s.config.Cadence,
		Burst:   s.config.Burst,
		Timeout: s.config.HoldLimit / 2, // an event outlives one call that never answers
		Hold:    s.config.HoldLimit,
		Logger:  logger,
		Logged:  logged,
		Wrote:   s.telemetry.Wrote,
		Calling: s.telemetry.Calling(true, firestorestore.Class),
	}
}

var (
	errNoRoute  = errors.New("no route covers the document; see TALLY_ROUTES and the trigger's path pattern")
	errUnserved = errors.New("not served here; see GOOGLE_CLOUD_PROJECT, TALLY_DATABASES and the trigger")
)

// concerned returns the counters that a change is about.
func (s *service) concerned(ctx context.Context, change trigger.Change) ([]rollup.Concern, error) {
	if change.Project != s.config.Project || !slices.Contains(s.config.Databases, change.Database) {
		return nil, fmt.Errorf("database %s of project %s: %w", change.Database, change.Project, errUnserved)
	}

	var written rollup.Written = change
	if !change.Known() {
		read, err := s.readGroups(ctx, change)
		if err != nil {
			return nil, err
		}
		written = read
	}

	concerns, covered := s.config.Routes.Concerned(written)
	if !covered {
		return nil, fmt.Errorf("%s: %w", change.Path(), errNoRoute)
	}
	return concerns, nil
}

// readGroups reads the groups that the document of a change is in now, if routes go by groups: it was
// too large for its event. The groups that it has left are unknown. The audit brings them up to
// date, and a note tells the audit that this is no drift.
func (s *service) readGroups(ctx context.Context, change trigger.Change) (rollup.Written, error) {
	by := s.config.Routes.Groups(change.Path())
	if len(by) == 0 {
		return change, nil
	}
	d, err := s.database(ctx, change.Database)
	if err != nil {
		return nil, err
	}

	reading, cancel := context.WithTimeout(ctx, s.config.HoldLimit/2)
	defer cancel()
	if err := d.untold.Note(reading, s.config.Routes, change.Path()); err != nil {
		return nil, err
	}
	fields, err := d.store.Fields(reading, change.Path(), by)
	if err != nil {
		return nil, err
	}
	return asRead{change, fields}, nil
}

// asRead is a change of which only the document's fields as they are now are known.
type asRead struct {
	trigger.Change
	fields map[string]any
}

// Texts implements rollup.Written.
func (c asRead) Texts(f document.Field) (before, after string) {
	value, _ := f.In(c.fields)
	after, _ = value.(string)
	return "", after
}

// onWrite rolls up the counters that a change is about.
func (s *service) onWrite(ctx context.Context, change trigger.Change, concerns []rollup.Concern) (rollup.Ending, error) {
	if len(concerns) == 0 { // it belonged to none before, and does not now
		return rollup.Ending{}, nil
	}

	d, err := s.database(ctx, change.Database)
	if err != nil {
		return rollup.Ending{}, err
	}
	return d.coalescer.Changed(ctx, rollup.Event{ID: change.ID, UpdateTime: change.UpdateTime}, concerns...)
}

// ended is how an event ended.
type ended struct {
	began    time.Time
	event    trigger.Event
	change   trigger.Change
	concerns []rollup.Concern
	ending   rollup.Ending
	outcome  telemetry.Outcome
	err      error
}

// counters names the counters that the event is about, for the log.
func (e ended) counters() string {
	names := make([]string, len(e.concerns))
	for i, c := range e.concerns {
		names[i] = c.RollUp
	}
	return strings.Join(names, ", ")
}

// record notes how an event ended, and warns if its roll-up came late. It exports telemetry if that
// is due, unless the event was absorbed: the event that is held in its place does so at its end.
func (s *service) record(ctx context.Context, span trace.Span, e ended) {
	held := time.Duration(-1)
	if e.ending.Held {
		held = time.Since(e.began)
	}

	if e.outcome == telemetry.Covered && !e.change.Committed.IsZero() {
		lag := e.ending.AsOf.Sub(e.change.Committed)
		s.telemetry.Lag(ctx, lag)
		if lag > s.config.Grace() {
			s.logger.WarnContext(ctx, "rolled up late", "event_id", e.change.ID, "counter", e.counters(), "lag_seconds", lag.Seconds())
		}
	}

	s.telemetry.Event(ctx, e.outcome, held)
	if span.IsRecording() {
		span.SetAttributes(attribute.String("tally.outcome", string(e.outcome)),
			attribute.String("tally.counter", e.counters()), attribute.String("tally.event_id", e.change.ID))
	}
	telemetry.End(span, e.err)

	if e.outcome != telemetry.Absorbed {
		s.telemetry.Flush(ctx)
	}
}

// classify decides what an event ends in. Everything that goes wrong at run time is Failed:
// the event is delivered again.
func classify(ending rollup.Ending, err error) telemetry.Outcome {
	switch {
	case err == nil && ending.Unkept:
		return telemetry.Unkept
	case err == nil && ending.Held:
		return telemetry.Covered
	case err == nil:
		return telemetry.Absorbed
	case errors.Is(err, trigger.ErrNoEvent): // whoever sent the request, it was not Eventarc
		return telemetry.Refused
	case errors.Is(err, trigger.ErrMalformed), errors.Is(err, errNoRoute), errors.Is(err, errUnserved): // no retry can help
		return telemetry.Dropped
	default:
		return telemetry.Failed
	}
}
