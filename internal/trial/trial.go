// Package trial tries what is deployed on a project: it writes documents under an id of its own,
// listens to what the functions make of them, compares, asks what no emulator can answer, and deletes
// all that it made.
//
// From the bottom up:
//
//   - A [Deployment] (deployed.go) is what is deployed.
//   - A part (part.go) is one counter of the trial.
//   - The traces (traces.go) are the documents that the trial made.
//   - The questions (questions.go) are those that only production can answer.
//   - A [Trial] is all of it, and makes a [Report].
package trial

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"cloud.google.com/go/firestore"
	"github.com/firestore-tally/tally/internal/billing"
	"github.com/firestore-tally/tally/internal/firestorestore"
	"github.com/firestore-tally/tally/internal/lag"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
)

// Options say how a trial is made.
type Options struct {
	Increments int // in all, of all parts
	Rate       float64
	Clients    int           // that write at once
	Shards     int           // of the counter
	Timeout    time.Duration // how long the functions may take for a roll-up

	Address string // host:port of a Firestore on this machine; "": Google's
	Dial    []grpc.DialOption

	Stage    func(name string) // is told what begins
	Progress func(done int)    // writes; may be called in parallel
}

// A Trial is to be made of a Deployment.
type Trial struct {
	*Deployment
	Options
	ID      string    // of its documents
	Skipped []Skipped // what no route lets it try

	parts []*part
}

// New returns a trial, which nothing was written for yet. It is an error if no route fits.
func New(d *Deployment, o Options) (*Trial, error) {
	t := &Trial{Deployment: d, Options: o, ID: "tally-demo-" + strings.ToLower(rand.Text()[:8])}
	var reasons []error
	for _, s := range shapes {
		r := s.find(d.Config.Routes)
		if r == nil {
			t.Skipped = append(t.Skipped, Skipped{s.kind, "no deployed route has counters of that kind of which one can be the demo's own", s.would})
			reasons = append(reasons, fmt.Errorf("this route would let the demo run: %s", s.would))
			continue
		}

		p, err := newPart(s.kind, r, t.ID)
		if err != nil {
			return nil, err
		}
		t.parts = append(t.parts, p)
	}
	if len(t.parts) == 0 {
		return nil, errors.Join(append([]error{errors.New("no deployed route has counters of which one can be the demo's own")}, reasons...)...)
	}
	return t, nil
}

// extra is how many documents a trial writes beside its increments, at most.
const extra = 20

// Takes returns about how long the trial takes if the functions answer.
func (t *Trial) Takes() time.Duration {
	const rest = 30 * time.Second // the first roll-ups, the questions, the deletion
	return time.Duration(float64(t.Increments)/t.Rate*float64(time.Second)) + rest
}

// Dollars returns what the trial costs at most, at list price in the database's location, without
// free quotas: as if each write and each deletion were rolled up by itself.
func (t *Trial) Dollars() float64 {
	documents := int64(t.Increments + extra)
	rollUps := 2 * documents
	var most int64
	for _, p := range t.parts {
		most = max(most, queries(p.counter))
	}

	const polls = 200
	counts := billing.Counts{Reads: rollUps*(2+most) + 2*documents + polls, Writes: documents + rollUps, Deletes: 2 * documents}
	functions := float64(rollUps)*(billing.Request+billing.Event) + t.Takes().Seconds()*billing.OnWriteSecond
	return counts.CostIn(t.Database.Location) + functions
}

// A PartResult is what became of a part.
type PartResult struct {
	Kind     string `json:"kind"`
	Route    string `json:"route"`
	RollUp   string `json:"roll_up"`
	Total    string `json:"total"`
	Written  int    `json:"written"`
	InDoubt  int    `json:"in_doubt"`
	RolledUp int64  `json:"rolled_up"`
	Exact    bool   `json:"exact"`
}

// A Report is the result of a trial. tally demo --help explains its JSON form.
type Report struct {
	Project   string         `json:"project"`
	Database  string         `json:"database"`
	Location  string         `json:"location"`
	ID        string         `json:"id"`
	Parts     []PartResult   `json:"parts"`
	Skipped   []Skipped      `json:"skipped,omitempty"`
	Exact     bool           `json:"exact"`
	Lag       lag.Lag        `json:"lag_ms"`
	Clock     float64        `json:"clock_error_ms"` // of each lag, either way
	RollUps   int            `json:"rollups_seen"`
	Billed    billing.Counts `json:"billed"`             // of this machine
	Functions billing.Counts `json:"functions_at_least"` // by the roll-ups that were seen
	Dollars   float64        `json:"dollars"`            // of both, list price of Firestore's operations
	Questions []Question     `json:"questions"`
	Left      []string       `json:"left,omitempty"` // paths of documents that may not be deleted
}

// A run is a trial at work.
type run struct {
	*Trial
	store   *firestorestore.Store
	client  *firestore.Client
	meter   *billing.Meter
	traces  traces
	clock   clock
	watches []*lag.Watch
	done    atomic.Int64

	listening context.Context // outlives an interrupt, for the deletion //nolint:containedctx // a run is one call
	fail      func(error)     // of a listener
}

// Run makes the trial and deletes all that it made, also after an error or when ctx ends.
func (t *Trial) Run(ctx context.Context) (Report, error) {
	r := &run{Trial: t, meter: billing.NewMeter(nil)}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	r.fail = fail
	listening, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	r.listening = listening

	var err error
	dial := append(r.meter.DialOptions(), t.Dial...)
	r.store, err = firestorestore.Open(listening, t.Address, t.Project, t.Database.ID, slog.New(slog.DiscardHandler), dial...)
	if err != nil {
		return Report{}, err
	}
	defer r.store.Close()
	r.client = r.store.Client()

	report, err := r.try(ctx)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if errors.Is(err, errSilent) {
		err = fmt.Errorf("%w; this tells why:\n  tally doctor --project %s", err, t.Project)
	}
	t.Stage("deleting what the demo made")
	left, unclean := r.clean(listening)
	report.Left = left
	r.bill(&report)
	return report, errors.Join(err, unclean)
}

// try writes, waits, compares and asks.
func (r *run) try(ctx context.Context) (Report, error) {
	report := Report{Project: r.Project, Database: r.Database.ID, Location: r.Database.Location, ID: r.ID, Skipped: r.Skipped}
	r.Stage("waiting for the first roll-ups")
	for _, p := range r.parts {
		if err := r.begin(ctx, p); err != nil {
			return report, err
		}
		if err := r.write(ctx, p, 0); err != nil {
			return report, err
		}
		if err := r.covered(ctx, p); err != nil {
			return report, err
		}
		p.first, _, _ = p.written()
	}

	r.Stage("writing")
	if err := r.load(ctx); err != nil {
		return report, err
	}
	r.Stage("waiting for the last roll-ups")
	for _, p := range r.parts {
		if err := r.covered(ctx, p); err != nil {
			return report, err
		}
	}
	r.compare(&report)

	r.Stage("asking")
	report.Questions = r.ask(ctx)
	return report, nil
}

// load makes the increments at the rate, of each part in turn.
func (r *run) load(ctx context.Context) error {
	limiter := rate.NewLimiter(rate.Limit(r.Rate), 1)
	clients, working := errgroup.WithContext(ctx)
	clients.SetLimit(r.Clients)
	for turn := range r.Increments {
		if err := limiter.Wait(working); err != nil {
			return errors.Join(clients.Wait(), context.Cause(ctx))
		}
		clients.Go(func() error {
			if err := r.write(working, r.parts[turn%len(r.parts)], turn+1); err != nil {
				return err
			}
			r.Progress(int(r.done.Add(1)))
			return nil
		})
	}
	return clients.Wait()
}

// compare compares each total with the writes that were acknowledged; each in doubt may be in it.
func (r *run) compare(report *Report) {
	report.Exact = true
	var lags []time.Duration
	ahead, doubt := r.clock.ahead()
	for _, p := range r.parts {
		written, inDoubt, _ := p.written()
		last, _ := p.watch.Last()
		total, isInteger := last.Total.Int64()
		exact := isInteger && total >= int64(written) && total <= int64(written+inDoubt)
		report.Parts = append(report.Parts, PartResult{p.kind, p.route.String(), p.counter.RollUp, p.total, written, inDoubt, total, exact})
		report.Exact = report.Exact && exact
		report.RollUps += len(p.watch.Seen())
		report.Functions = report.Functions.Add(p.billed())

		for _, committed := range p.committed[p.first:] {
			if covering, ok := lag.Covering(p.watch.Seen(), committed); ok {
				lags = append(lags, covering.Seen.Sub(committed)+ahead)
			}
		}
	}
	report.Lag, report.Clock = lag.Of(lags), float64(doubt.Microseconds())/1000
}

// billed returns what the functions were billed for the roll-ups that were seen, at least.
func (p *part) billed() billing.Counts {
	seen := int64(len(p.watch.Seen()))
	return billing.Counts{Reads: seen * (1 + queries(p.counter)), Writes: seen}
}

// bill notes what this machine was billed. A listener is billed for each version.
func (r *run) bill(report *Report) {
	report.Billed = r.meter.Counts()
	for _, w := range r.watches {
		report.Billed.Reads += int64(len(w.Seen()))
	}
	report.Dollars = report.Billed.Add(report.Functions).CostIn(r.Database.Location)
}

// String says what the trial will write, where, how long it takes and what it costs.
func (t *Trial) String() string {
	w := new(strings.Builder)
	fmt.Fprintf(w, "In project %s, database %s in %s:\n", t.Project, t.Database.ID, t.Database.Location)
	for _, p := range t.parts {
		fmt.Fprintf(w, "  writes documents of %s, and listens to %s of %s\n", p.collection, p.total, p.counter.RollUp)
	}
	for _, s := range t.Skipped {
		fmt.Fprintf(w, "  skips %s: %s. This one would let it run:\n    %s\n", s.Kind, s.Why, s.Would)
	}
	fmt.Fprintf(w, "%d writes at %v a second take about %v. All is deleted afterwards. It costs at most $%.4f by list price.\n",
		t.Increments, t.Rate, t.Takes().Round(time.Second), t.Dollars())
	return w.String()
}

// Delete returns the commands that delete documents, one to a line.
func (t *Trial) Delete(paths []string) string {
	w := new(strings.Builder)
	for _, path := range paths {
		fmt.Fprintf(w, "  firebase firestore:delete --force --project=%s --database='%s' '%s'\n", t.Project, t.Database.ID, path)
	}
	return strings.TrimSuffix(w.String(), "\n")
}
