package roll

import (
	"log/slog"
	"time"
)

// Options configure a Coalescer, Audit and Keep.
type Options struct {
	// Cadence is how much time one roll-up of a counter uses up, by Firestore's clock. It keeps the
	// roll-up document within the rate of writes that Firestore sustains on one document, about one
	// a second. It must be positive. A route that says "cadence" has its own.
	Cadence time.Duration

	// ReadsPerSecond is what the sums of one counter may be billed on average, in reads. The cadence
	// of a counter whose sums bill more is as much longer. Zero: no bound. A Coalescer keeps it only
	// with Alarms.
	ReadsPerSecond int64

	// Burst is how many roll-ups may follow each other at once after a quiet time. So in any time w
	// there are at most Burst + w/Cadence roll-ups. 0 means 1.
	Burst int

	// Timeout bounds each look together with its sum, and each write. It must be positive. If
	// events are held, it must be well below Hold, so that an event outlives a call that is never
	// answered.
	Timeout time.Duration

	// LongTimeout takes the place of Timeout for a sum that takes so long that only alarms wait for
	// it. Such a sum takes more than a quarter of Hold. An alarm waits for Hold and LongTimeout at
	// most. Zero, or less than Timeout, means Timeout.
	LongTimeout time.Duration

	// Hold is how long an event may be held. Zero means as long as its context lasts. With Alarms it
	// must be more than 5 s.
	Hold time.Duration

	// Alarms makes the alarms to which a Coalescer defers the events that it cannot hold until their
	// counter is due. Nil means that there are none. Then no cadence is longer than events can be
	// held, whatever is configured.
	Alarms Alarms

	// Logger must not be nil.
	Logger *slog.Logger

	// Logged remembers what was logged lately, so that it is not logged again. Nil means a new one
	// that nothing else shares.
	Logged *Logged

	// Random returns uniform numbers in [0, 1). They spread the wake-ups of many instances. It must
	// be safe for concurrent use. Nil means math/rand/v2.
	Random func() float64
}
