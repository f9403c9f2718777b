package rollup

import (
	"context"
	"time"
)

// An Alarm is a call of RollUpOnWrite at a later time. Two alarms with the same fields are one.
type Alarm struct {
	RollUp string    // path of the roll-up document below the database's root
	Routes string    // Template.Hash of the counter's routes
	At     time.Time // the earliest time at which it rings, in microseconds
	Last   bool      // no further alarm is made for it
	Salt   string    // random for alarms of audits and commands; "" otherwise
}

// Alarms makes the alarms of one database. It must be safe for concurrent use.
type Alarms interface {
	// Create makes sure that the alarm stands, or has already rung, at its time or later. An error
	// proves nothing: the alarm may stand or not.
	Create(ctx context.Context, a Alarm) error
}
