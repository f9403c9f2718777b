// Package app is what both functions run. It reads the configuration, decodes an event or a call of
// the schedule, has the engine do the work on the right database, and decides how to answer.
//
// An HTTP answer is all that Eventarc and Cloud Scheduler learn. Eventarc takes 2xx as an
// acknowledgement: the event never comes again. After any other answer, or none, the event comes
// again for up to a day. Cloud Run gives an instance little or no processor time while it serves no
// request. So all work is done before the answer.
//
//	app.go       the two functions, and what they set up on first use
//	event.go     the way of an event
//	alarm.go     the way of an alarm that rings
//	outcome.go   how an event ends
//	lag.go       how late roll-ups are
//	omission.go  documents that belong to no counter, or to no window
//	schedule.go  the way of a call of the schedule
//	database.go  the databases, each opened when it is first needed
//	end.go       the end of the process
//	log.go       lines for Cloud Logging
package app

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/caarlos0/env/v11"
	"github.com/firestore-tally/tally/internal/cloud/alarm"
	"github.com/firestore-tally/tally/internal/cloud/billing"
	"github.com/firestore-tally/tally/internal/cloud/config"
	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/cloud/trigger"
	"github.com/firestore-tally/tally/rollup"
	"golang.org/x/sync/singleflight"
	"google.golang.org/grpc"
)

// An App serves Tally's functions. Nothing is read before [App.Configure] or the first request, and
// nothing opened or dialed before the first request. It may be used by many goroutines at once.
type App struct {
	environ func() []string
	logs    io.Writer
	dial    []grpc.DialOption

	setup func() (*service, error)
}

// New returns an App that logs to logs. The variables that environ returns configure it, each as
// "name=value". The dial options are for the connections to Firestore.
func New(environ func() []string, logs io.Writer, dial ...grpc.DialOption) *App {
	a := &App{environ: environ, logs: logs, dial: dial}
	a.setup = sync.OnceValues(a.load)
	return a
}

// A service is a configured App.
type service struct {
	config config.Config
	logger *slog.Logger
	queue  *alarm.Queue // nil: there are no alarms
	open   func(ctx context.Context, id string) (documentStore, error)

	logged   *rollup.Logged // what was logged lately
	unlogged atomic.Int64   // events and alarms that were dropped since the last line about one
	lags     lagSampler
	memory   memory
	ending   sync.RWMutex // held for reading while an event is held; see endGracefully

	opening   singleflight.Group
	databases sync.Map // *database by id, of those that are open
}

// load makes the service from the environment. It is called once: the environment does not change,
// so a wrong configuration stays wrong.
func (a *App) load() (*service, error) {
	loaded, err := config.Load(env.ToMap(a.environ()))
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	logger := NewLogger(a.logs, loaded.LogLevel)

	meter, err := newMeter(loaded.UsageFile)
	if err != nil {
		return nil, fmt.Errorf("configuration: TALLY_USAGE_FILE: %w", err)
	}
	dial := append(slices.Clone(a.dial), meter.DialOptions()...)
	open := func(ctx context.Context, id string) (documentStore, error) {
		return firestorestore.OpenEdition(ctx, loaded.Edition, loaded.EmulatorHost, loaded.Project, id, logger, dial...)
	}

	s := &service{config: loaded, logger: logger, open: open, logged: rollup.NewLogged(firestorestore.Cause)}
	s.queue, err = openQueue(loaded)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	s.memory = newMemory()
	s.endGracefully()
	logger.Info("configured", "routes", loaded.Routes.String(), "cadence", loaded.Cadence.String(),
		"burst", loaded.Burst, "hold_limit", loaded.HoldLimit.String())
	return s, nil
}

// openQueue opens the queue that makes alarms. It returns nil if none is configured, and an error
// if a cadence needs one.
func openQueue(c config.Config) (*alarm.Queue, error) {
	if c.Queue == "" {
		return nil, c.CheckAlarms()
	}
	return alarm.Open(alarm.Options{Queue: c.Queue, URL: c.QueueURL, Account: c.QueueAccount, Emulator: c.QueueHost})
}

// newMeter returns a meter of what Firestore bills to this process. The meter also writes its
// counts to the file, unless the name is empty.
func newMeter(file string) (*billing.Meter, error) {
	if file == "" {
		return billing.NewMeter(nil), nil
	}

	f, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	return billing.NewMeter(billing.Mirror(f)), nil
}

// Configure reads the configuration before the first request. It logs the error that it returns.
func (a *App) Configure() error {
	_, err := a.setup()
	if err != nil {
		NewLogger(a.logs, slog.LevelInfo).Error("misconfigured", "error", err)
	}
	return err
}

// OnWrite serves a Firestore document event, a CloudEvent over HTTP, or an alarm that rings. It
// answers 2xx when that is done with, 400 when the request is neither, and 500 when it must come
// again.
func (a *App) OnWrite(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	s, err := a.setup()
	if err != nil {
		event, _ := trigger.FromRequest(r) // as far as it can be read
		NewLogger(a.logs, slog.LevelInfo).ErrorContext(ctx, "misconfigured; no event is acknowledged", "event_id", event.ID, "error", err)
		http.Error(w, "misconfigured; the log says how", http.StatusInternalServerError)
		return
	}

	s.ending.RLock()
	defer s.ending.RUnlock()

	limitBodyTime(w, r, s.config.HoldLimit)
	if mayBeAlarm(r) {
		s.serveAlarm(ctx, w, r)
	} else {
		s.serve(ctx, w, r)
	}
	// The process may end once the lock is free. After a panic nothing is sent, because that would
	// be a status of 200.
	_ = http.NewResponseController(w).Flush()
}

// OnSchedule serves a request of Cloud Scheduler. In each database it rolls up the counters of the
// routes that say "every", and audits the others. With the query parameter dry_run=true it only
// reports. It answers a scheduleReport as JSON. The status is 500 when anything failed, so that
// Scheduler calls again.
func (a *App) OnSchedule(w http.ResponseWriter, r *http.Request) {
	text := cmp.Or(r.URL.Query().Get("dry_run"), "false")
	dryRun, err := strconv.ParseBool(text)
	if err != nil {
		http.Error(w, fmt.Sprintf("dry_run=%q: want true or false", text), http.StatusBadRequest)
		return
	}

	ctx := r.Context()
	var report scheduleReport
	s, err := a.setup()
	if err != nil {
		NewLogger(a.logs, slog.LevelInfo).ErrorContext(ctx, "misconfigured", "error", err)
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
