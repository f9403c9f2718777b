// Package roll makes one roll-up (docs/design/rollup.md): it looks at a counter, sums its shards,
// decides whether the two agree, and publishes. It says when a counter may be rolled up, and which
// alarm a roll-up needs. It does not know why a counter is looked at: because of an event, or by
// the schedule.
//
//	rollup.go      a roll-up document, and what in it no roll-up wrote
//	label.go       the ids of a roll-up's path that stand in its fields
//	store.go       what one roll-up asks of a database, and of a queue
//	logged.go      what the log has said lately
//	options.go     how coalescers, audits and Keep are configured
//	roller.go      what they have in common, how they pause, and what they tell once
//	look.go        looks: takes a snapshot, and sums in it
//	agree.go       says whether a roll-up agrees with its shards
//	pace.go        when a counter may be rolled up
//	turns.go       the last roll-up by each revision that is at work
//	contention.go  when a write locks its document
//	alarm.go       makes alarms
//	window.go      when documents leave windows, and which alarm a roll-up needs then
//	publish.go     publishes: writes the roll-up, or removes it
package roll
