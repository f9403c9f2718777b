// Package rollup is Tally's engine: it decides when and how a counter's shards become its roll-up
// document. A Store acts for it, on Firestore or in memory. The engine imports only the standard
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
// # The rooms
//
// This package is a face. Four packages below it do the work:
//
//	internal/roll      makes one roll-up: looks, sums, decides, publishes
//	internal/note      what events leave for audits
//	internal/events    events, and the alarms to which they are deferred
//	internal/schedule  audits and Keep
//
// Events and the schedule stand on the first two, and do not know each other. Each package's doc.go
// says what its files are for. The tests of the engine as a whole are here.
//
// The simulation that the tests run is in sim_*_test.go. It begins in sim_test.go.
package rollup
