package local

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/firestore-tally/tally/internal/billing"
	"github.com/firestore-tally/tally/internal/lag"
	"github.com/firestore-tally/tally/internal/local/eventrelay"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
)

// A Load is what clients do to new counters on a stack: lone increments on idle counters first, and
// then all others at a rate.
type Load struct {
	Counters   int
	Shards     int // of each counter
	Increments int // in all, each by 1
	Clients    int // that increment at once
	Rate       float64
	Kill       bool // kill -9 one functions process in the middle, and start another

	Stage    func(name string) // is told what begins
	Progress func(done int)    // increments; may be called in parallel
}

// loneRounds is how many lone increments each counter gets, if there are enough.
const loneRounds = 3

// Lone is how many increments are lone ones.
func (l Load) Lone() int { return l.Counters * min(loneRounds, l.Increments/l.Counters) }

// A Result is what became of a load. tally demo --help explains its JSON form.
type Result struct {
	Increments   int              `json:"increments"`
	Acknowledged int64            `json:"acknowledged"`
	InDoubt      int64            `json:"in_doubt"`
	Expected     map[string]int64 `json:"expected"`
	RolledUp     map[string]int64 `json:"rolled_up"`
	Exact        bool             `json:"exact"`

	Lag      lag.Lag `json:"lag_ms"`
	QuietLag lag.Lag `json:"quiet_lag_ms,omitzero"` // of lone increments; zero: there were none

	Events      int   `json:"events"`
	Redelivered int   `json:"redelivered"`
	RollUps     int64 `json:"rollup_writes"`
	Reads       int64 `json:"reads"`

	Seen            int     `json:"rollups_seen"`
	WritesPerSecond int     `json:"writes_per_counter_per_second_max"` // of those seen
	Seconds         float64 `json:"seconds"`

	Wrong map[string]bool `json:"-"` // counters whose roll-up is not what it must be
}

// A running is a load on a stack.
type running struct {
	Load
	stack    *Stack
	counters []*Counter
	made     atomic.Int64 // increments
}

// usage is what a stack was used for until some moment.
type usage struct {
	at     time.Time
	events eventrelay.Stats
	billed billing.Counts
}

// Run creates the counters, increments them, waits until the roll-ups cover everything, and
// compares them with what was acknowledged. If ctx ends early, the error says what it was waiting
// for.
func (l Load) Run(ctx context.Context, s *Stack) (Result, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r := &running{Load: l, stack: s}
	var created, end usage
	var began time.Time
	for _, stage := range []struct {
		name string
		run  func() error
	}{
		{"creating counters", func() (err error) { created, err = r.create(ctx, stop); return err }},
		{"lone increments on idle counters", func() error { return r.alone(ctx) }},
		{"increments from all clients", func() error { began = time.Now(); return r.together(ctx) }},
		{"waiting for the last roll-ups", func() (err error) { end, err = r.settled(ctx); return err }},
	} {
		r.Stage(stage.name)
		if err := stage.run(); err != nil {
			events := s.Relay.Stats()
			return Result{}, fmt.Errorf("%w; %d of %d increments were made, and %d of %d events are acknowledged",
				err, r.made.Load(), l.Increments, events.Acknowledged, events.Events)
		}
	}
	return r.result(created, began, end), nil
}

// limit is how long one step may take, even on a slow machine.
func (r *running) limit() time.Duration { return 10*r.stack.Config.Cadence + 2*time.Minute }

func (r *running) late() error { return fmt.Errorf("not done after %v", r.limit()) }

// limited returns a context for one step.
func (r *running) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, r.limit(), r.late())
}

func (r *running) create(ctx context.Context, fail func(error)) (usage, error) {
	for n := range r.Counters {
		id := fmt.Sprintf("demo-%0*d", len(strconv.Itoa(r.Counters)), n+1) // of one length, to be sorted
		late := time.AfterFunc(r.limit(), func() { fail(r.late()) })       // the listener outlives the step
		c, err := Listen(ctx, fail, r.stack.Clients[0], id)
		if err == nil {
			err = c.Create(ctx, r.Shards)
		}
		late.Stop()
		if err != nil {
			return usage{}, cmp.Or(context.Cause(ctx), err)
		}
		r.counters = append(r.counters, c)
	}
	return r.settled(ctx)
}

// settled waits until the roll-ups cover every increment and every event is acknowledged, and
// returns what the stack was used for until then.
func (r *running) settled(ctx context.Context) (usage, error) {
	ctx, cancel := r.limited(ctx)
	defer cancel()
	for _, c := range r.counters {
		if err := c.covered(ctx); err != nil {
			return usage{}, err
		}
	}
	if err := r.stack.Relay.Wait(ctx); err != nil {
		return usage{}, cmp.Or(context.Cause(ctx), err)
	}
	billed, err := r.stack.Billed()
	return usage{time.Now(), r.stack.Relay.Stats(), billed}, err
}

// alone increments idle counters, one at a time. A counter has been forgotten two cadences after
// its last roll-up; half a cadence is for slow machines.
func (r *running) alone(ctx context.Context) error {
	idle := r.stack.Config.Cadence * 5 / 2
	for n := range r.Lone() {
		c := r.counters[n%len(r.counters)]
		if err := Sleep(ctx, time.Until(c.History().last().Seen.Add(idle))); err != nil {
			return err
		}
		if err := r.increment(ctx, c); err != nil {
			return err
		}
		if err := r.covered(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// covered waits until a counter's roll-up covers every increment.
func (r *running) covered(ctx context.Context, c *Counter) error {
	ctx, cancel := r.limited(ctx)
	defer cancel()
	return c.covered(ctx)
}

// together makes the other increments at the rate.
func (r *running) together(ctx context.Context) error {
	limiter := rate.NewLimiter(rate.Limit(r.Rate), 1)
	restart, up := errgroup.WithContext(ctx)
	clients, working := errgroup.WithContext(up)
	clients.SetLimit(r.Clients)
	others := r.Increments - r.Lone()
	for turn := range others {
		if r.Kill && turn == others/2 {
			killed := r.stack.Process(0)
			killed.Kill()
			r.stack.Say("killed functions process %d; starting another", killed.Pid)
			restart.Go(func() error { return r.stack.Restart(up, 0) })
		}
		if err := limiter.Wait(working); err != nil {
			return cmp.Or(clients.Wait(), restart.Wait(), context.Cause(ctx), err)
		}
		clients.Go(func() error { return r.increment(working, r.counters[turn%len(r.counters)]) })
	}
	return cmp.Or(clients.Wait(), restart.Wait(), context.Cause(ctx))
}

func (r *running) increment(ctx context.Context, c *Counter) error {
	ctx, cancel := r.limited(ctx)
	defer cancel()
	if err := c.Add(ctx); err != nil {
		return err
	}
	r.Progress(int(r.made.Add(1)))
	return nil
}

// result compares what was acknowledged with what was rolled up.
func (r *running) result(created usage, began time.Time, end usage) Result {
	result := Result{
		Increments: r.Increments,
		Expected:   make(map[string]int64),
		RolledUp:   make(map[string]int64),
		Wrong:      make(map[string]bool),
		Events:     end.events.Events - created.events.Events,
		Redelivered: end.events.Redelivered + end.events.Duplicated - created.events.Redelivered -
			created.events.Duplicated,
		RollUps: end.billed.Writes - created.billed.Writes,
		Reads:   end.billed.Reads - created.billed.Reads,
	}
	var quiet, lags []time.Duration
	for _, c := range r.counters {
		h := c.History()
		result.compare(c.ID, h)
		quiet = append(quiet, h.lags(began)...)
		lags = append(lags, h.lags(end.at)...)
		result.Seconds = max(result.Seconds, h.last().Seen.Sub(began).Seconds())
		h.RollUps = slices.DeleteFunc(h.RollUps, func(r lag.RollUp) bool { return r.Seen.Before(created.at) })
		result.Seen += len(h.RollUps)
		result.WritesPerSecond = max(result.WritesPerSecond, mostWithin(time.Second, h.RollUps))
	}
	result.Exact = len(result.Wrong) == 0
	result.Lag, result.QuietLag = lag.Of(lags), lag.Of(quiet)
	return result
}

// compare adds a counter to the result. Each increment in doubt may be in the total or not.
func (r *Result) compare(id string, h History) {
	acknowledged, inDoubt := int64(len(h.Acknowledged)), int64(h.InDoubt)
	total, isInteger := h.last().Total.Int64()
	r.Expected[id], r.RolledUp[id] = acknowledged, total
	r.Acknowledged += acknowledged
	r.InDoubt += inDoubt
	if !isInteger || total < acknowledged || total > acknowledged+inDoubt {
		r.Wrong[id] = true
	}
}
