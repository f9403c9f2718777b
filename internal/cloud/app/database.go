package app

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/firestore-tally/tally/internal/cloud/firestorestore"
	"github.com/firestore-tally/tally/internal/cloud/growth"
	"github.com/firestore-tally/tally/internal/document"
	"github.com/firestore-tally/tally/rollup"
)

// A documentStore is what the functions need of a database.
type documentStore interface {
	rollup.AuditStore
	growth.Store

	// Fields returns some fields of the document at a path, in maps that are nested as in the
	// document, and when the document was created. If it does not exist, that is zero.
	Fields(ctx context.Context, path string, fields []document.Field) (map[string]any, time.Time, error)
}

// A database is one that is open.
type database struct {
	name      string // resource name
	store     documentStore
	logger    *slog.Logger
	logged    *rollup.Logged // shared by events and ticks
	alarms    rollup.Alarms  // nil: there are none
	coalescer *rollup.Coalescer
	notes     *rollup.Notes
	grower    *growth.Grower
}

// database returns the database with an id, and opens it on first use. It waits for the hold limit
// at most. Calls for other databases do not wait meanwhile. If opening fails, the next call tries
// again.
func (s *service) database(ctx context.Context, id string) (*database, error) {
	if d, ok := s.databases.Load(id); ok {
		return d.(*database), nil
	}

	ctx, cancel := context.WithTimeout(ctx, s.config.HoldLimit)
	defer cancel()
	opened := s.opening.DoChan(id, func() (any, error) { return s.openDatabase(ctx, id) })

	select {
	case r := <-opened:
		d, _ := r.Val.(*database)
		return d, r.Err
	case <-ctx.Done():
		return nil, fmt.Errorf("database %s is not open yet: %w", id, context.Cause(ctx))
	}
}

// openDatabase opens a database, unless another call has just done so. ctx is of the request that
// needs the database first. The database stays open when that request ends.
func (s *service) openDatabase(ctx context.Context, id string) (any, error) {
	if d, ok := s.databases.Load(id); ok {
		return d, nil
	}

	store, err := s.open(context.WithoutCancel(ctx), id)
	if err != nil {
		return nil, err
	}

	logger := s.logger.With("database", id)
	logged := rollup.NewLogged(firestorestore.Cause)
	options := s.options(id, logger, logged)
	grower := growth.New(store, s.config.Routes.Live(), logger)
	d := &database{s.resourceName(id), store, logger, logged, options.Alarms, rollup.NewCoalescer(store, options), rollup.NewNotes(store), grower}
	s.databases.Store(id, d)
	return d, nil
}

// options returns the options of the work for which the events of a database wait.
func (s *service) options(id string, logger *slog.Logger, logged *rollup.Logged) rollup.Options {
	o := rollup.Options{
		Cadence:        s.config.Cadence,
		ReadsPerSecond: s.config.Billed(),
		Burst:          s.config.Burst,

		Timeout:     s.config.HoldLimit / 2, // an event outlives one call that never answers
		LongTimeout: s.config.LongTimeout(),
		Hold:        s.config.HoldLimit,
		Logger:      logger,
		Logged:      logged,
	}
	if s.queue != nil {
		o.Alarms = s.queue.ForDatabase(s.resourceName(id))
	}
	return o
}

// resourceName returns the resource name of a database.
func (s *service) resourceName(id string) string {
	return "projects/" + s.config.Project + "/databases/" + id
}
