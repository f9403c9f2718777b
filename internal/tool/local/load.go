package local

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/firestore-tally/tally/internal/cloud/billing"
	"github.com/firestore-tally/tally/internal/tool/load"
	"github.com/firestore-tally/tally/internal/tool/local/eventrelay"
	"github.com/firestore-tally/tally/shards"
	"github.com/googleapis/gax-go/v2"
	"golang.org/x/sync/errgroup"
)

// A Load increments new counters of the default route on a stack. It begins with lone increments:
// each comes to a counter that was idle for so long that the functions have forgotten it. All other
// increments follow at a rate.
type Load struct {
	load.Load
	Counters int
	Shards   int  // of each counter; 0: 10, and more when they are needed
	Kill     bool // kill -9 one functions process in the middle, and start another
}

// loneRounds is how many lone increments each counter gets, if there are enough increments.
const loneRounds = 3

// LoneIncrements returns how many of the increments are lone ones.
func (l Load) LoneIncrements() int { return l.Counters * min(loneRounds, l.Increments/l.Counters) }

// A Result says what became of a load. tally demo --help explains its JSON form.
type Result struct {
	Increments   int              `json:"increments"`
	Acknowledged int64            `json:"acknowledged"`
	InDoubt      int64            `json:"in_doubt"`
	Expected     map[string]int64 `json:"expected"`
	RolledUp     map[string]int64 `json:"rolled_up"`
	Exact        bool             `json:"exact"`

	Lag      load.Lag `json:"lag_ms"`
	QuietLag load.Lag `json:"quiet_lag_ms,omitzero"` // of lone increments; zero if there were none

	Events      int   `json:"events"`
	Redelivered int   `json:"redelivered"`
	RollUps     int64 `json:"rollup_writes"`
	Reads       int64 `json:"reads"`

	Seen            int     `json:"rollups_seen"`
	WritesPerSecond int     `json:"writes_per_counter_per_second_max"` // of those seen
	Seconds         float64 `json:"seconds"`

	Wrong map[string]bool `json:"-"` // counters whose roll-up is not what it must be
}

// A loadRun is a load on a stack.
type loadRun struct {
	Load
	stack    *Stack
	counters []*counter
	made     atomic.Int64 // increments
}

type counter struct {
	load.Counter
	id     string
	shards *shards.Counter
}

// A usage counts what a stack has done until a moment.
type usage struct {
	at     time.Time
	events eventrelay.Stats
	billed billing.Counts
}

// Run creates the counters, increments them, waits until their roll-ups cover every increment, and
// compares the roll-ups with the increments that were acknowledged. If ctx ends early, the error
// says what Run was waiting for.
func (l Load) Run(ctx context.Context, s *Stack) (Result, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)

	r := &loadRun{Load: l, stack: s}
	result, err := r.run(ctx, stop)
	if err != nil {
		events := s.Relay.Stats()
		return Result{}, fmt.Errorf("%w; %d of %d increments were made, and %d of %d events are acknowledged",
			err, r.made.Load(), l.Increments, events.Acknowledged, events.Events)
	}
	return result, nil
}

// run goes through the stages of the load. It has fail called if a listener fails.
func (r *loadRun) run(ctx context.Context, fail func(error)) (Result, error) {
	r.Stage("creating counters")
	created, err := r.create(ctx, fail)
	if err != nil {
		return Result{}, err
	}

	r.Stage("lone increments on idle counters")
	err = r.incrementAlone(ctx)
	if err != nil {
		return Result{}, err
	}

	r.Stage("increments from all clients")
	began := time.Now()
	err = r.incrementTogether(ctx)
	if err != nil {
		return Result{}, err
	}

	r.Stage("waiting for the last roll-ups")
	end, err := r.settle(ctx)
	if err != nil {
		return Result{}, err
	}
	return r.result(created, began, end), nil
}

// limit is how long one step may take, even on a slow machine.
func (r *loadRun) limit() time.Duration { return 10*r.stack.Config.Cadence + 2*time.Minute }

// lateError is the error of a step that takes longer than limit.
func (r *loadRun) lateError() error { return fmt.Errorf("not done after %v", r.limit()) }

// withLimit returns a context for one step.
func (r *loadRun) withLimit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, r.limit(), r.lateError())
}

// create creates the counters, and waits until the functions are done with that.
func (r *loadRun) create(ctx context.Context, fail func(error)) (usage, error) {
	digits := len(strconv.Itoa(r.Counters)) // the same for all, so that ids sort by their number
	for n := range r.Counters {
		c, err := r.createOne(ctx, fail, fmt.Sprintf("demo-%0*d", digits, n+1))
		if err != nil {
			return usage{}, cmp.Or(context.Cause(ctx), err)
		}
		r.counters = append(r.counters, c)
	}
	return r.settle(ctx)
}

// createOne creates a counter. A timer bounds the step. A limited context would not do: it would
// end the counter's listener, which lives on.
func (r *loadRun) createOne(ctx context.Context, fail func(error), id string) (*counter, error) {
	late := time.AfterFunc(r.limit(), func() { fail(r.lateError()) })
	defer late.Stop()

	client := r.stack.Clients[0]
	c := &counter{id: id, shards: shards.New(client, "counters/"+id)}
	err := c.Listen(ctx, fail, client, "rollups/"+id, "count")
	if err != nil {
		return nil, err
	}
	if r.Shards == 0 {
		return c, c.shards.CreateAuto(ctx)
	}
	return c, c.shards.Create(ctx, r.Shards)
}

// settle waits until the roll-ups cover every increment and every event is acknowledged. It returns
// what the stack has done until then.
func (r *loadRun) settle(ctx context.Context) (usage, error) {
	ctx, cancel := r.withLimit(ctx)
	defer cancel()

	for _, c := range r.counters {
		err := c.Await(ctx)
		if err != nil {
			return usage{}, err
		}
	}

	err := r.stack.Relay.Wait(ctx)
	if err != nil {
		return usage{}, cmp.Or(context.Cause(ctx), err)
	}

	used, err := r.stack.Used()
	return usage{time.Now(), r.stack.Relay.Stats(), used.Counts}, err
}

// incrementAlone makes the lone increments, one at a time. The functions forget a counter about a
// cadence after its last roll-up. A counter that has rested for two and a half is idle, on a slow
// machine too.
func (r *loadRun) incrementAlone(ctx context.Context) error {
	idle := r.stack.Config.Cadence * 5 / 2
	for n := range r.LoneIncrements() {
		c := r.counters[n%len(r.counters)]
		last, _ := c.Last()
		err := gax.Sleep(ctx, time.Until(last.Seen.Add(idle)))
		if err != nil {
			return context.Cause(ctx)
		}

		err = r.increment(ctx, c)
		if err != nil {
			return err
		}
		err = r.await(ctx, c)
		if err != nil {
			return err
		}
	}
	return nil
}

// await waits until a counter's roll-up covers every increment.
func (r *loadRun) await(ctx context.Context, c *counter) error {
	ctx, cancel := r.withLimit(ctx)
	defer cancel()
	return c.Await(ctx)
}

// incrementTogether makes the other increments at the rate.
func (r *loadRun) incrementTogether(ctx context.Context) error {
	restart, up := errgroup.WithContext(ctx)
	others := r.Increments - r.LoneIncrements()
	err := r.WriteAll(up, others, func(ctx context.Context, n int) error {
		if r.Kill && n == (others-1)/2 {
			r.stack.kill(up, restart)
		}
		return r.increment(ctx, r.counters[n%len(r.counters)])
	})
	return cmp.Or(err, restart.Wait(), context.Cause(ctx))
}

// kill ends the first functions process as kill -9 does, and has the group start another.
func (s *Stack) kill(ctx context.Context, restart *errgroup.Group) {
	killed := s.Process(0)
	killed.Kill()
	s.Say("killed functions process %d; starting another", killed.Pid)
	restart.Go(func() error { return s.Restart(ctx, 0) })
}

// increment makes one increment.
func (r *loadRun) increment(ctx context.Context, c *counter) error {
	ctx, cancel := r.withLimit(ctx)
	defer cancel()

	err := c.Add(ctx, func(ctx context.Context) (time.Time, error) { return c.shards.Increment(ctx, 1) })
	if err != nil {
		return err
	}
	r.Progress(int(r.made.Add(1)))
	return nil
}

// result compares what was acknowledged with what was rolled up. It leaves out what the stack did
// to create the counters.
func (r *loadRun) result(created usage, began time.Time, end usage) Result {
	result := Result{
		Increments:  r.Increments,
		Expected:    make(map[string]int64),
		RolledUp:    make(map[string]int64),
		Wrong:       make(map[string]bool),
		Events:      end.events.Events - created.events.Events,
		Redelivered: end.redelivered() - created.redelivered(),
		RollUps:     end.billed.Writes - created.billed.Writes,
		Reads:       end.billed.Reads - created.billed.Reads,
	}

	var quiet, lags []time.Duration
	for _, c := range r.counters {
		result.compare(c)
		writes, _ := c.Writes()
		seen := c.Seen()
		lags = append(lags, load.Lags(writes, seen, 0)...) // the emulator's clock is this machine's
		lone := slices.DeleteFunc(writes, func(w load.Write) bool { return !w.Committed.Before(began) })
		quiet = append(quiet, load.Lags(lone, seen, 0)...)
		last, _ := c.Last()
		result.Seconds = max(result.Seconds, last.Seen.Sub(began).Seconds())

		since := slices.DeleteFunc(seen, func(r load.RollUp) bool { return r.Seen.Before(created.at) })
		result.Seen += len(since)
		result.WritesPerSecond = max(result.WritesPerSecond, mostRollUpsWithin(time.Second, since))
	}

	result.Exact = len(result.Wrong) == 0
	result.Lag, result.QuietLag = load.LagOf(lags), load.LagOf(quiet)
	return result
}

// redelivered returns how many deliveries repeated an event.
func (u usage) redelivered() int { return u.events.Redelivered + u.events.Duplicated }

// compare adds a counter to the result.
func (r *Result) compare(c *counter) {
	writes, inDoubt := c.Writes()
	r.Acknowledged += int64(len(writes))
	r.InDoubt += int64(inDoubt)

	total, exact := c.Total()
	r.Expected[c.id], r.RolledUp[c.id] = int64(len(writes)), total
	if !exact {
		r.Wrong[c.id] = true
	}
}

// mostRollUpsWithin returns the most roll-ups that were written within any window of length d.
func mostRollUpsWithin(d time.Duration, rollUps []load.RollUp) (most int) {
	for i, first := range rollUps {
		n := 0
		for n < len(rollUps)-i && rollUps[i+n].Written.Sub(first.Written) < d {
			n++
		}
		most = max(most, n)
	}
	return most
}
