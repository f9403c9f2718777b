package rollup

import (
	"context"
	"math/rand/v2"
	"time"
)

// A roller looks at counters and publishes roll-ups. Coalescers, audits and Keep each have one.
type roller struct {
	store   Store
	options Options
	prune   bool // writes take former totals away
}

// newRoller returns a roller, and fills in the options that have defaults.
func newRoller(store Store, o Options) roller {
	if o.Random == nil {
		o.Random = rand.Float64
	}
	if o.Logged == nil {
		o.Logged = NewLogged()
	}
	return roller{store: store, options: o}
}

// call makes a call of the Store.
func (r *roller) call(ctx context.Context, name string, f func(context.Context) error) error {
	if r.options.Calling == nil {
		return f(ctx)
	}
	ctx, called := r.options.Calling(ctx, name)
	err := f(ctx)
	called(err)
	return err
}

// firstPause is how long the first pause takes, less up to a half of that at random. Each further
// pause is twice as long, up to the cadence.
const firstPause = 50 * time.Millisecond

// pause returns how long the n-th pause in a row takes. The 0th takes no time.
func (r *roller) pause(n int) time.Duration {
	if n <= 0 {
		return 0
	}
	delay := min(firstPause<<min(n-1, 10), r.options.Cadence)
	return time.Duration((0.5 + r.options.Random()/2) * float64(delay))
}
