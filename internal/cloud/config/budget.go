package config

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/firestore-tally/tally/internal/cloud/billing"
	"github.com/firestore-tally/tally/rollup"
	"github.com/firestore-tally/tally/rollup/route"
)

// These are the times that a deployment gives its functions. tally deploy sets them, and tally
// doctor and tally audit judge by them. The functions assume them where Cloud Run tells them
// nothing.
const (
	// OnWriteTimeout is the timeout of RollUpOnWrite. The hold limit ends an event before that, so
	// there is time for a cold start.
	OnWriteTimeout = 60 * time.Second

	// SchedulePeriod is how often Cloud Scheduler calls RollUpOnSchedule. It is the default of
	// TALLY_SCHEDULE_PERIOD.
	SchedulePeriod = 10 * time.Minute

	// OnScheduleTimeout is the timeout of RollUpOnSchedule. It is longer than the period, so that a
	// call that works until the next one is due can finish what it has begun. That takes
	// longestCall at most.
	OnScheduleTimeout = SchedulePeriod + time.Minute

	// AuditConcurrency is how many counters of a database are in work at once: enough to hide
	// Firestore's latency, few enough for one instance's memory.
	AuditConcurrency = 32

	// longestCall bounds a look and a write for which no event is held. A write must follow its
	// snapshot within 60 s. Firestore ends a query after 60 s, too.
	longestCall = 45 * time.Second

	// leastAckDeadline is the shortest acknowledgement deadline that Tally sets. It has room for the
	// 8 s that an event is held by default, a cold start and a wait for a free instance. Pub/Sub's
	// own default, 10 s, barely holds them, and a delivery that lasts longer is made a second time:
	// https://cloud.google.com/pubsub/docs/subscription-properties#ack_deadline
	leastAckDeadline = 30 * time.Second
)

// AckDeadline returns how long a delivery may wait for its answer, in whole seconds. It is longer
// than an event is held. Otherwise the event would be delivered a second time while it is held.
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

// TickTime returns for how long a call of RollUpOnSchedule begins new work, and how much time it
// reserves after that. In the reserve the call finishes what it has begun, saves its cursor and
// answers. While routes say "every", it begins nothing once the next call is due.
func (c Config) TickTime() (work, reserve time.Duration) {
	work, reserve = c.callTime()
	if len(c.Routes.Scheduled()) > 0 {
		work = min(work, c.SchedulePeriod)
	}
	return work, reserve
}

// callTime is TickTime without regard to when the next call is due.
func (c Config) callTime() (work, reserve time.Duration) {
	timeout := cmp.Or(time.Duration(c.FunctionTimeout)*time.Second, OnScheduleTimeout)
	reserve = min(longestCall, timeout/4)
	return timeout - reserve, reserve
}

// LongTimeout returns how long RollUpOnWrite may take for a sum that only alarms wait for. The
// alarm waits as long as an event before that, and there is time left to write the roll-up and to
// answer. It is not positive if the function's timeout is too short.
func (c Config) LongTimeout() time.Duration {
	timeout := cmp.Or(time.Duration(c.FunctionTimeout)*time.Second, OnWriteTimeout)
	return min(longestCall, timeout-c.HoldLimit-5*time.Second)
}

// By "auto", a cycle of audits takes shortestAuto at least and longestAuto at most. In between, the
// audits of a month are billed monthlyReads: a dollar at the list price of us-central1.
const (
	shortestAuto = time.Hour
	longestAuto  = 24 * time.Hour
	monthlyReads = 3_300_000
)

// Takes returns how long a cycle of audits takes at least, if the last one was billed so many
// reads; 0: unknown. It returns 0 where nothing is billed, on an emulator, unless TALLY_AUDIT says
// how long. Then each call of RollUpOnSchedule is a cycle.
func (c Config) Takes(reads int64) time.Duration {
	switch {
	case c.Audit != 0:
		return time.Duration(c.Audit)
	case c.EmulatorHost != "":
		return 0
	default:
		const month = 30 * 24 * time.Hour
		affordable := time.Duration(float64(reads) / monthlyReads * float64(month))
		return min(max(affordable, shortestAuto), longestAuto)
	}
}

// TwoCycles returns for how long what audits found is told: two of their cycles, the longest that
// there are, and a day at least. What lasts is found once in each.
func (c Config) TwoCycles() time.Duration {
	return max(2*cmp.Or(time.Duration(c.Audit), longestAuto), 24*time.Hour)
}

// AuditOptions returns the options for an audit of one database that has a whole call of
// RollUpOnSchedule for itself. The command line audits by them, too. The caller sets when the audit
// ends. If that leaves it less time, it may have no time for a grace.
func (c Config) AuditOptions(logger *slog.Logger) rollup.AuditOptions {
	work, _ := c.callTime()
	return rollup.AuditOptions{
		Options:     rollup.Options{Cadence: c.Cadence, Burst: c.Burst, ReadsPerSecond: c.Billed(), Timeout: longestCall, Logger: logger},
		Concurrency: AuditConcurrency,
		Grace:       rollup.FittingGrace(c.Grace(), work),
	}
}

// Billed returns ReadsPerSecond, or on Enterprise what costs the same money there. It returns 0 if
// there is no queue. Without one, the events of a counter whose sums bill much could not be held
// until it is due.
func (c Config) Billed() int64 {
	if c.Queue == "" {
		return 0
	}
	if c.Edition == route.Enterprise {
		return billing.SameMoney(c.ReadsPerSecond)
	}
	return c.ReadsPerSecond
}

// CheckAlarms returns an error for each cadence and each route that needs alarms, if there is no
// queue that makes them. The functions refuse to start with such a configuration.
func (c Config) CheckAlarms() error {
	if c.Queue != "" {
		return nil
	}

	longest := rollup.LongestCadence(c.HoldLimit)
	tooLong := func(what string, cadence time.Duration) error {
		return fmt.Errorf("%s: without a queue (TALLY_QUEUE) want at most %v, the longest through which TALLY_HOLD_LIMIT=%v can hold an event, (limit - 5s) / 3; \": every %v\" needs no queue",
			what, longest, c.HoldLimit, cadence)
	}

	var problems []error
	if c.Cadence > longest {
		problems = append(problems, tooLong(fmt.Sprintf("TALLY_CADENCE=%v", c.Cadence), c.Cadence))
	}
	for _, r := range c.Routes {
		if len(r.Windows()) > 0 {
			problems = append(problems, fmt.Errorf("TALLY_ROUTES: route %q: a total with a window needs a queue (TALLY_QUEUE), whose alarms have it rolled up when a document leaves", r))
		}
		if r.Template.Cadence > longest {
			problems = append(problems, tooLong(fmt.Sprintf("TALLY_ROUTES: route %q: cadence %v", r, r.Template.Cadence), r.Template.Cadence))
		}
	}
	return errors.Join(problems...)
}

// Grace returns how late an event can be that failed once and was delivered again.
func (c Config) Grace() time.Duration { return rollup.Grace(c.Cadence, c.HoldLimit) }

// CheckGrace returns an error if RollUpOnSchedule's audits can never report drift. The databases
// share the time of a call. An audit whose share is too short for a grace repairs every difference
// at once, and cannot tell drift from an event on its way.
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
