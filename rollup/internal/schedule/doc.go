// Package schedule does what the calls of the schedule do (docs/design/schedule.md). Keep rolls up
// the counters of routes that say "every". Audit walks all counters, and repairs those that differ
// from their shards.
//
//	time.go     waits
//	options.go  how audits are configured
//	cursor.go   where a walk goes on
//	store.go    what the schedule asks of a database
//	walk.go     goes through counters by their roll-ups, or by their shards
//	left.go     says whether time alone explains how a roll-up differs
//	decide.go   decides what to do with a counter that was looked at
//	compare.go  compares one counter with its shards, and repairs it
//	report.go   what an audit found
//	cycle.go    which walks go on, and when they begin again
//	note.go     reads the notes that events have left, and takes them away
//	audit.go    walks all counters
//	fair.go     says which counter of a route that says "every" is next
//	keeper.go   what a call of Keep knows of these counters
//	find.go     finds them
//	memory.go   where the next call of Keep goes on
//	kept.go     what a call of Keep did, and how old it found roll-ups
//	keep.go     visits these counters
package schedule
