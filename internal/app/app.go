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

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/firestore-tally/tally/internal/billing"
	"github.com/firestore-tally/tally/internal/firestorestore"
	"github.com/firestore-tally/tally/internal/telemetry"
	"github.com/firestore-tally/tally/internal/trigger"
	"github.com/firestore-tally/tally/rollup"
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
	environment := make(map[string]string)
	for _, variable := range a.environ() {
		name, value, _ := strings.Cut(variable, "=")
		environment[name] = value
	}
	config, err := LoadConfig(environment)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	s := &service{config: config, logger: NewLogger(a.logs, config.LogLevel, config.projectID()), databases: make(map[databaseName]*opening)}
	s.open = s.dialDatabase
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
	s.telemetry, err = telemetry.Start(config.Telemetry, config.projectID(), time.Duration(config.TelemetryInterval)*time.Millisecond, billed, s.logger)
	if err != nil { // counters go on without it
		s.logger.Error("no telemetry", "error", err)
	}
	s.telemetry.FlushAtEnd()
	s.logger.Info("configured", "routes", fmt.Sprint(config.Routes), "cadence", config.Cadence.String(), "hold_limit", config.HoldLimit.String())
	return s, nil
}

// OnWrite serves a Firestore document event, a CloudEvent over HTTP. It answers 2xx when the event
// is done with, and 500 when it is to be delivered again.
func (a *App) OnWrite(w http.ResponseWriter, r *http.Request) {
	ctx := withRequest(r.Context(), r.Header)
	s, err := a.setup()
	if err != nil {
		NewLogger(a.logs, slog.LevelInfo, "").ErrorContext(ctx, "misconfigured; no event is acknowledged", "event_id", r.Header.Get("Ce-Id"), "error", err)
		http.Error(w, "misconfigured; the log says how", http.StatusInternalServerError)
		return
	}
	ctx, span := s.telemetry.StartEvent(ctx, r.Header)
	began := time.Now()
	e, err := trigger.FromRequest(r)
	counter := ""
	var ending rollup.Ending
	if err == nil {
		counter, ending, err = s.onWrite(ctx, e)
	}
	outcome := classify(err)
	s.record(ctx, span, e, counter, ending, outcome, time.Since(began), err)
	if outcome == done {
		return
	}
	logger := s.logger.With("event_id", cmp.Or(e.ID(), r.Header.Get("Ce-Id")), "counter", counter, "subject", e.Subject(), "error", err)
	switch outcome {
	case refused:
		logger.WarnContext(ctx, "request refused")
		http.Error(w, err.Error(), http.StatusBadRequest)
	case permanent:
		logger.ErrorContext(ctx, "event dropped; a retry cannot help", "source", r.Header.Get("Ce-Source"), "dropped", s.dropped.Add(1))
	case transient:
		logger.WarnContext(ctx, "event not acknowledged; it will be delivered again")
		http.Error(w, "not acknowledged; the log says why", http.StatusInternalServerError)
	}
}

// OnSchedule serves a request of Cloud Scheduler: it audits the counters of every database. With the
// query parameter dry_run=true it only reports. It answers a scheduleReport as JSON, with status 500
// when anything failed, so that Scheduler retries.
func (a *App) OnSchedule(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost && r.Method != http.MethodGet {
		w.Header().Set("Allow", "GET, POST")
		http.Error(w, "want GET or POST", http.StatusMethodNotAllowed)
		return
	}
	dryRun := false
	if text := r.URL.Query().Get("dry_run"); text != "" {
		var err error
		if dryRun, err = strconv.ParseBool(text); err != nil {
			http.Error(w, fmt.Sprintf("dry_run=%q: want true or false", text), http.StatusBadRequest)
			return
		}
	}
	ctx := withRequest(r.Context(), r.Header)
	var report scheduleReport
	s, err := a.setup()
	if err != nil {
		NewLogger(a.logs, slog.LevelInfo, "").ErrorContext(ctx, "misconfigured", "error", err)
		report.Errors = []string{err.Error()}
	} else {
		report = s.onSchedule(ctx, r.Header, dryRun)
	}
	w.Header().Set("Content-Type", "application/json")
	if len(report.Errors) > 0 {
		w.WriteHeader(http.StatusInternalServerError)
	}
	_ = json.NewEncoder(w).Encode(report) // the caller may be gone
}

// A service is a configured App.
type service struct {
	config    Config
	logger    *slog.Logger
	telemetry *telemetry.Telemetry // nil: off
	dial      []grpc.DialOption
	open      func(context.Context, databaseName) (*database, error)

	dropped atomic.Int64 // events that no retry could help

	mu        sync.Mutex
	databases map[databaseName]*opening
}

type databaseName struct{ project, database string }

// A database is one that events came from, open.
type database struct {
	store     telemetry.Store
	coalescer *rollup.Coalescer
}

// An opening is a database that is being opened or is open.
type opening struct {
	name     databaseName
	done     chan struct{} // closed when one of these is set
	database *database
	err      error
}

// opening returns the opening of a database, which it begins on first use. A failed open is not
// remembered.
func (s *service) opening(ctx context.Context, name databaseName) *opening {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.databases[name]
	if o == nil {
		o = &opening{name: name, done: make(chan struct{})}
		s.databases[name] = o
		go func() {
			defer close(o.done)
			// The client outlives the request that opens it.
			if o.database, o.err = s.open(context.WithoutCancel(ctx), name); o.err != nil {
				s.mu.Lock()
				defer s.mu.Unlock()
				delete(s.databases, name)
			}
		}()
	}
	return o
}

// wait returns the database once it is open. It waits for that as long as ctx lasts, and keeps no
// other database waiting.
func (o *opening) wait(ctx context.Context) (*database, error) {
	select {
	case <-o.done:
		return o.database, o.err
	case <-ctx.Done():
		return nil, fmt.Errorf("database %s of project %s is not open yet: %w", o.name.database, o.name.project, context.Cause(ctx))
	}
}

// dialDatabase opens a database.
func (s *service) dialDatabase(ctx context.Context, name databaseName) (*database, error) {
	if s.config.scheduled() && !slices.Contains(s.config.Databases, name.database) {
		return nil, fmt.Errorf("database %s is not in TALLY_DATABASES: with TALLY_CADENCE=%v no schedule would roll up its marks", name.database, s.config.Cadence)
	}
	client, err := firestorestore.Dial(ctx, s.config.EmulatorHost, name.project, name.database, s.dial...)
	if err != nil {
		return nil, err
	}
	store := s.telemetry.Store(firestorestore.New(client, s.logger), firestorestore.Class)
	if s.config.scheduled() {
		return &database{store, rollup.NewMarker(store, s.options())}, nil
	}
	return &database{store, rollup.NewCoalescer(store, s.options())}, nil
}

func (s *service) options() rollup.Options {
	// Half the hold limit, so that an event outlives one call that never answers.
	return rollup.Options{Cadence: s.config.Cadence, Timeout: s.config.HoldLimit / 2, Hold: s.config.HoldLimit, Logger: s.logger, Wrote: s.telemetry.Wrote}
}

var errNoRoute = errors.New("no route covers the document; see TALLY_ROUTES and the trigger's path pattern")

// onWrite rolls up the counter that e is about, and returns its name for the log.
func (s *service) onWrite(ctx context.Context, e event.Event) (counter string, ending rollup.Ending, err error) {
	change, err := trigger.Decode(e)
	if err != nil {
		return "", ending, err
	}
	c, ok := s.config.Routes.Match(change.Path)
	if !ok {
		return "", ending, fmt.Errorf("%s: %w", change.Path, errNoRoute)
	}
	o := s.opening(ctx, databaseName{change.Project, change.Database})
	select {
	case <-o.done: // and the coalescer bounds the hold, at no cost for an event that is absorbed
	default:
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.config.HoldLimit)
		defer cancel()
	}
	d, err := o.wait(ctx)
	if err != nil {
		return c.RollUp, ending, err
	}
	ending, err = d.coalescer.Changed(ctx, c, e.ID())
	return c.RollUp, ending, err
}

// record notes how an event ended, which took so long, and warns when its roll-up came late. It
// exports telemetry if that is due, unless the event was absorbed: then another, which is held, will
// do so.
func (s *service) record(ctx context.Context, span telemetry.Span, e event.Event, counter string, ending rollup.Ending, o outcome, took time.Duration, err error) {
	held := time.Duration(-1)
	if ending.Held {
		held = took
	}
	ended := recorded(o, ending)
	if committed := e.Time(); ended == telemetry.Covered && !committed.IsZero() {
		lag := ending.AsOf.Sub(committed)
		s.telemetry.Lag(ctx, lag)
		if lag > rollup.Grace(s.config.Cadence, s.config.HoldLimit) {
			s.logger.WarnContext(ctx, "rolled up late", "event_id", e.ID(), "counter", counter, "lag_seconds", lag.Seconds())
		}
	}
	s.telemetry.Event(ctx, ended, held)
	span.Set("tally.outcome", string(ended))
	span.Set("tally.counter", counter)
	span.Set("tally.event_id", e.ID())
	span.End(err)
	if ended != telemetry.Absorbed {
		s.telemetry.Flush(ctx)
	}
}

// recorded is what telemetry calls an event's outcome.
func recorded(o outcome, ending rollup.Ending) telemetry.Outcome {
	switch {
	case o == refused:
		return telemetry.Refused
	case o == permanent:
		return telemetry.Dropped
	case o == transient:
		return telemetry.Failed
	case !ending.Held:
		return telemetry.Absorbed
	case ending.AsOf.IsZero():
		return telemetry.Marked
	default:
		return telemetry.Covered
	}
}

// An outcome is what an event ends in.
type outcome int

const (
	done      outcome = iota
	refused           // whoever sent the request, it was not Eventarc
	permanent         // no retry can help: logged and acknowledged
	transient         // anything that happened at run time: delivered again
)

// classify decides what an event ends in.
func classify(err error) outcome {
	switch {
	case err == nil:
		return done
	case errors.Is(err, trigger.ErrNoEvent):
		return refused
	case errors.Is(err, trigger.ErrMalformed), errors.Is(err, errNoRoute):
		return permanent
	default:
		return transient
	}
}
