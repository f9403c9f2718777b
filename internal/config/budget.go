package config

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/firestore-tally/tally/rollup"
)

// How much time a deployment gives its functions. tally deploy sets this, tally doctor and tally
// audit judge by it, and the functions assume it where Cloud Run tells them nothing.
const (
	// OnWriteTimeout is the timeout of RollUpOnWrite. The hold limit ends an event before that, so
	// there is time for a cold start.
	OnWriteTimeout = 60 * time.Second

	// SchedulePeriod is how often Cloud Scheduler calls RollUpOnSchedule. It is the default of
	// TALLY_SCHEDULE_PERIOD.
	SchedulePeriod = 10 * time.Minute

	// OnScheduleTimeout is the timeout of RollUpOnSchedule: a call may work until the next one is
	// due, and then finish what it has begun, which takes longestCall at most.
	OnScheduleTimeout = SchedulePeriod + time.Minute

	// AuditConcurrency is how many counters of a database are in work at once: enough to hide
	// Firestore's latency, few enough for one instance's memory.
	AuditConcurrency = 32

	// longestCall bounds a look and a write where no event is held. A write must follow its
	// snapshot within 60 s, and Firestore gives a query as much.
	longestCall = 45 * time.Second

	// leastAckDeadline is the acknowledgement deadline that Pub/Sub gives a subscription by default
	// (https://cloud.google.com/pubsub/docs/subscription-properties#ack_deadline).
	leastAckDeadline = 10 * time.Second
)

// AckDeadline returns how long a delivery may wait for its answer, in whole seconds. It is longer
// than an event is held, or the event would be delivered a second time meanwhile.
func (c Config) AckDeadline() time.Duration {
	return max(leastAckDeadline, c.HoldLimit.Truncate(time.Second)+2*time.Second)
}

// CheckHoldLimit returns an error if an event can be held as long as RollUpOnWrite's timeout.
func (c Config) CheckHoldLimit(timeout time.Duration) error {
	if c.HoldLimit < timeout {
		return nil
	}
	return &problem{"TALLY_HOLD_LIMIT", fmt.Errorf("=%v: want less than the function's timeout, %v; shorten one or lengthen the other", c.HoldLimit, timeout)}
}

// TickTime returns for how long a call of RollUpOnSchedule begins work, and how much time it
// reserves after that: for what has begun, the cursor and the answer. While routes say "every", it
// begins nothing once the next call is due.
func (c Config) TickTime() (work, reserve time.Duration) {
	work, reserve = c.callTime()
	if len(c.Routes.Scheduled()) > 0 {
		work = min(work, c.SchedulePeriod)
	}
	return work, reserve
}

// callTime is TickTime of a call that need not end with its period.
func (c Config) callTime() (work, reserve time.Duration) {
	timeout := cmp.Or(time.Duration(c.FunctionTimeout)*time.Second, OnScheduleTimeout)
	reserve = min(longestCall, timeout/4)
	return timeout - reserve, reserve
}

// AuditOptions returns how an audit of one database goes: by RollUpOnSchedule, if it has a whole
// call for that, and by the command line. The caller sets what ends it; an audit that has less time
// for that may keep no grace.
func (c Config) AuditOptions(logger *slog.Logger) rollup.AuditOptions {
	work, _ := c.callTime()
	return rollup.AuditOptions{
		Options:     rollup.Options{Cadence: c.Cadence, Burst: c.Burst, Timeout: longestCall, Logger: logger},
		Concurrency: AuditConcurrency,
		Grace:       rollup.FittingGrace(c.Grace(), work),
	}
}

// Grace returns how late an event may come that failed once.
func (c Config) Grace() time.Duration { return rollup.Grace(c.Cadence, c.HoldLimit) }

// CheckGrace returns an error if RollUpOnSchedule's audits can never report drift: its databases
// share the time of a call, and an audit that has too little of it keeps no grace.
func (c Config) CheckGrace() error {
	work, _ := c.TickTime()
	databases := max(len(c.Databases), 1)
	each := work / time.Duration(databases)
	if rollup.FittingGrace(c.Grace(), each) > 0 {
		return nil
	}
	return fmt.Errorf("audits cannot report drift: %d databases share the %v of a call, %v each, and an audit needs twice the %v that an event may take; shorten TALLY_HOLD_LIMIT or TALLY_CADENCE, or serve fewer databases",
		databases, work, each.Round(time.Second), c.Grace())
}
