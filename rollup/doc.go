// Package rollup is Tally's engine: it decides when and how a counter's shards become its roll-up
// document. A Store acts for it, on Firestore or in memory. The package imports only the standard
// library, the language of routes, the names of the documents and the type of their totals.
//
// The pages in docs/design say why the engine is as it is, and docs/design/rules.md says what goes
// wrong otherwise.
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
// # Counters
//
// Package route says which documents make which totals. This package calls all source documents
// shards, even if they are the likes of a post. It calls a counter whatever goes into one roll-up.
//
// # One roll-up
//
// A roll-up sums all shards in one read-only snapshot. It writes the totals with as_of, the
// snapshot's own time, on the precondition that the roll-up document is still the one seen in the
// snapshot. If others write the document all the time, it locks the document, and compares only
// what Tally itself wrote there. An event carries no amount, so it may come twice, late or in any
// order.
//
//	counters/likes/shards/0  {count: 3}          ┐
//	counters/likes/shards/1  {count: 4}          ├─ one snapshot, at t
//	rollups/likes            {tally: {as_of: s}} ┘
//	                │
//	                ▼  if last written as seen
//	rollups/likes            {count: 7, tally: {as_of: t, num_shards: 2, …}}
//
// # The coalescer
//
// A Coalescer bounds how often a counter is rolled up, by a pace. In the long run that is one
// roll-up a cadence. Short bursts may be faster. Work done after a function has answered is not
// safe on Cloud Run, and an event that was acknowledged need not come again. So an event that is
// not acknowledged yet serves as the timer, and it survives any crash.
//
// An instance has at most one open generation of each counter. The first event in it becomes its
// anchor and is held. Each later event is absorbed: it is acknowledged at once, because the anchor
// stands for it. A generation passes through these states:
//
//	            an event that finds none open becomes the anchor: it is held
//	                                     │
//	                                     ▼
//	┌──────────────────────────────────────────────────────────────────────────┐
//	│ open    absorbs events: each is acknowledged at once                     │
//	└──────────────────────────────────────────────────────────────────────────┘
//	                                     │ the prober wakes
//	                                     ▼
//	┌──────────────────────────────────────────────────────────────────────────┐
//	│ closed  absorbs nothing more                                             │
//	└──────────────────────────────────────────────────────────────────────────┘
//	                                     │ a look begun after that is answered
//	                                     ▼
//	┌──────────────────────────────────────────────────────────────────────────┐
//	│ looked  covered-from is that look's read time, and never moves           │
//	└──────────────────────────────────────────────────────────────────────────┘
//	          │                  │                  │                  │
//	 a roll-up is as of   the counter is     the counter        the anchor's
//	 covered-from or      due only later,    cannot be          time is up
//	 later, or the        and an alarm       rolled up at all   (from any
//	 document is the      stands for it      (at any time)      state above)
//	 app's and missing           │                  │                  │
//	          ▼                  ▼                  ▼                  ▼
//	┌──────────────────┐ ┌────────────────┐ ┌────────────────┐ ┌───────────────┐
//	│ covered          │ │ deferred       │ │ unkept         │ │ failed        │
//	│ the anchor is    │ │ the anchor is  │ │ the anchor is  │ │ the anchor    │
//	│ acknowledged     │ │ acknowledged   │ │ acknowledged   │ │ comes again   │
//	└──────────────────┘ └────────────────┘ └────────────────┘ └───────────────┘
//
// Each instance has one prober for a counter, which looks when the counter is due. It first closes
// the open generation, and then begins the snapshot. So the snapshot holds everything that was
// absorbed. If the pace does not allow a roll-up yet, the prober waits. If another instance has
// just rolled the counter up, the prober also waits a little, so that instances do not get in each
// other's way. Instances meet only at the roll-up document. They need no lock, lease or leader.
//
// If sums take long and cost much, an instance claims the next sum in another document, which the
// others read before they sum. Claims only save costs. If the claiming instance dies, the others
// wait one and a half times as long as the last sum took, and no longer.
//
// If a counter's cadence is longer than events can be held, a queue outside of all instances has an
// alarm ring when the counter is due. Events that come well before that are deferred to it: they
// are acknowledged at once. The instance that the alarm reaches rolls the counter up.
//
// Some totals change with time alone, such as that of the likes of the last 24 hours. A roll-up
// with such a total is written only once an alarm stands that rings when the first like leaves. It
// is as exact as any other: what was later than its as_of less 24 hours.
//
// After a change of routes, several revisions are at work for a while. The roll-up of one does not
// cover the events of another. They take turns: each roll-up keeps when the others rolled up last,
// and the one that has waited longest goes first.
//
// The invariant: for each acknowledged event and each counter that it concerns, one of these
// statements holds.
//
//   - A snapshot later than the event's arrival was rolled up.
//   - Such a snapshot found the app's own document missing.
//   - The counter was unkept.
//   - Another event of the same counter still stands for it, and no copy of the other event was
//     acknowledged.
//   - An alarm of the same counter stands for it, whose time is later than the event's arrival.
//   - The event changed no total of the counter, and was young.
//
// An event concerns each counter that its old or its new document belongs to. It enters a
// generation of each, and is acknowledged when all are done with it. While it is held, further
// copies of it wait with it for the same answer. A copy must not become an anchor. The answer to
// the first may acknowledge all copies, and then nothing would stand for the events that the copy
// had absorbed.
//
// A counter is unkept while its sum or its write fails in a way that waiting cannot fix: see
// ErrUnkept. If its events failed, they would come again for a day and slow all others down. So the
// instance acknowledges them, and also the events that come in the pause until it looks again. The
// roll-up's as_of does not advance, and each audit and each tick tries again. See Logged for how
// often this is logged.
//
// An event that changes no total, by its own old and new values, is acknowledged at once while it
// is younger than a redelivery can be. An older one is treated as any other, but no change relies
// on it: it absorbs only events that change no total either, and none that is older than itself.
//
// Two consequences may surprise. First, nothing is acknowledged on a comparison. While an event
// waits, even equal totals are written, with a new as_of: another instance's older sum may be on
// its way, and only a write makes Firestore refuse it. Second, an event is never acknowledged
// because its own commit is older than as_of. It may be the anchor of a generation that died with
// its process.
//
// # The schedule
//
// Keep rolls up the counters of routes that say "every", which need no events. When there are more
// counters than it has time or reads for, it divides its visits among three classes of counters by
// fixed shares. Within a class, the counter that has been due longest goes first:
//
//	changed    it differed at its last visit, or had its first roll-up   three visits in five
//	without    it has no roll-up yet                                     one
//	unchanged  the rest                                                  one
//
// Visits that a class does not use go to the others. The invariant: a counter waits at most as long
// as the visits to its own class take at that share. None is left out, however many counters
// somebody makes up.
//
// The next call may run in another process, so each call leaves it a cursor. The cursor has the
// counters of the first class, with which the next call begins, and the places up to which the
// others were visited. The next call goes on from those places. It finds the others by their
// roll-ups and by their shards, a page at a time, and no faster than it visits them.
//
// Audit walks all roll-ups and all counters that have shards, some in each call. It repairs the
// differences that lost events, a late installation or a restored backup left behind. A difference
// is called drift if it is still there after every event has had the time to come. A healthy system
// has no drift.
//
// # The files
//
// Routes are read by lex.go, syntax.go, parse.go, mistake.go and conflict.go. The result is in
// route.go, template.go, total.go, condition.go, window.go and indexes.go, and concern.go says
// which counters an event is about.
//
// One roll-up, by events or by the schedule:
//
//	store.go      what the engine asks of a database
//	options.go    how coalescers, audits and Keep are configured
//	roller.go     what they have in common, and how they wait
//	look.go       looks: takes a snapshot, and sums in it
//	decide.go     decides what a look asks for
//	publish.go    publishes: writes the roll-up, or removes it
//	pace.go       when a counter may be rolled up
//	totals.go     what documents add up to
//	logged.go     what the log has said lately
//
// Events:
//
//	coalescer.go  takes events: which are held, and which are absorbed
//	generation.go what one instance knows of a counter, and the events that wait
//	prober.go     looks at a counter whenever that is due
//	turn.go       when it is this instance's turn to roll up
//	alarm.go      defers events to alarms, and takes alarms that ring
//	window.go     makes the alarms that have documents leave windows
//	long.go       keeps events from sums that take longer than they can be held
//	claim.go      keeps others from a sum that takes long
//
// The schedule:
//
//	keep.go       visits the counters of routes that say "every"; find.go finds them, fair.go says
//	              which is next
//	audit.go      walks all counters; compare.go compares one with its shards
//	untold.go     notes for audits which events had no room for their documents
//	cursor.go     where a walk goes on
//
// The simulation that the tests run is in sim_*_test.go. It begins in sim_test.go.
package rollup
