// Package rollup is Tally's engine: it decides when and how a counter's shards become its roll-up
// document. A Store acts for it, on Firestore or in memory. The package imports only the standard
// library, the language of routes, the names of the documents and the type of their totals.
//
// The pages in docs/design tell how it works: docs/design/rollup.md how one roll-up is made,
// docs/design/events.md how events are held and acknowledged, with the invariant on which all of it
// rests, and docs/design/schedule.md what ticks and audits do. docs/design/rules.md has each rule
// by its name and says what goes wrong without it.
//
// # What you need to know about Firestore
//
// Firestore sustains about one write a second on one document. So an app spreads a count over
// several documents, the shards, and somebody has to add them up.
//
// Each write has a commit time, by one clock for the whole database. A snapshot is the database at
// one instant of that clock: it has every write that was committed at or before it, and none after
// it. A write may demand that the document is still as it was read. Otherwise Firestore refuses it.
// A write whose answer was lost may have happened, may happen later, or may never happen.
//
// Firestore sends an event for each write, some time after the commit. An event may come late,
// twice, or after a later one. It is sent again until it is acknowledged, for a day. Only a
// snapshot that begins after an event has come is sure to hold the change that caused the event.
//
// Firestore bills each document that is read. An aggregation query adds up an index on the server,
// and bills one read for each 1,000 entries.
//
// # How it works
//
// Package route says which documents make which totals. This package calls all source documents
// shards, even if they are the likes of a post, and everything that goes into one roll-up a
// counter.
//
// A look takes a read-only snapshot and sums all shards in it. The totals are written with as_of,
// the snapshot's own time, on the precondition that the roll-up document is still the one seen in
// the snapshot. An event carries no amount, so it may come twice, late or in any order. Instances
// meet only at the roll-up document. They need no lock, lease or leader.
//
// A Coalescer takes events. On Cloud Run, work done after a function has answered is not safe, and
// an event that was acknowledged need not come again. So an event that is not acknowledged yet
// serves as the timer: the first event of a counter is held until a roll-up covers it. Later ones
// are acknowledged at once, because the first stands for them. Where a counter is due later than
// events can be held, an alarm rings outside of all instances.
//
// Keep rolls up the counters of routes that say "every", which need no events, and shares its time
// and reads among them. Audit walks all counters, some in each call, and repairs what lost events,
// a late installation or a restored backup left behind.
//
// # The files
//
// One roll-up, by events or by the schedule:
//
//	store.go       what the engine asks of a database
//	options.go     how coalescers, audits and Keep are configured
//	roller.go      what they have in common, and how they wait
//	look.go        looks: takes a snapshot, and sums in it
//	decide.go      decides what a look asks for
//	publish.go     publishes: writes the roll-up, or removes it
//	contention.go  when a write locks its document
//	pace.go        when a counter may be rolled up
//	foreign.go     totals that somebody else wrote: left out, or repaired and kept
//	owner.go       whether the document exists within which Tally makes a roll-up
//	logged.go      what the log has said lately
//
// Events:
//
//	coalescer.go   takes events: which are held, and which are absorbed
//	generation.go  what one instance knows of a counter, and the events that wait
//	prober.go      looks at a counter whenever that is due
//	turn.go        decides when a counter's turn is, by whom, and how this instance waits
//	pause.go       keeps an instance from what has failed
//	claim.go       keeps others from a sum that takes long
//	long.go        keeps events from sums that take longer than they can be held
//	alarm.go       defers events to alarms, and takes alarms that ring
//	window.go      makes the alarms that have documents leave windows
//	missing.go     makes the alarms that wait for a document of the app's own
//
// The schedule:
//
//	keep.go        visits the counters of routes that say "every"
//	find.go        finds these counters
//	fair.go        says which of them is next
//	audit.go       walks all counters
//	compare.go     compares one counter with its shards
//	cycle.go       when the walks begin again
//	cursor.go      where a walk goes on
//	note.go        tells audits what does not wait for the next cycle
//
// The simulation that the tests run is in sim_*_test.go. It begins in sim_test.go.
package rollup
