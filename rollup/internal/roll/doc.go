// Package roll makes one roll-up (docs/design/rollup.md): it looks at a counter, sums its shards,
// decides whether the two agree, and publishes. It says when a counter may be rolled up, and which
// alarm a roll-up needs. It does not know why a counter is looked at: because of an event, or by
// the schedule.
//
//	store.go       what one roll-up asks of a database
//	options.go     how coalescers, audits and Keep are configured
//	roller.go      what they have in common, and how they pause
//	look.go        looks: takes a snapshot, and sums in it
//	agree.go       says whether a roll-up agrees with its shards
//	publish.go     publishes: writes the roll-up, or removes it
//	contention.go  when a write locks its document
//	pace.go        when a counter may be rolled up
//	turns.go       the last roll-up by each revision that is at work
//	alarm.go       alarms: calls at a later time
//	window.go      when documents leave windows, and which alarm a roll-up needs then
//	foreign.go     totals that somebody else wrote: left out, or replaced and kept
//	label.go       the ids of a roll-up's path that stand in its fields
//	owner.go       since when the document is missing within which Tally makes a roll-up
//	logged.go      what the log has said lately
package roll
