// Package schedule does what the calls of the schedule do (docs/design/schedule.md). Keep rolls up
// the counters of routes that say "every". Audit walks all counters, and repairs those that differ
// from their shards.
//
//	store.go    what the schedule asks of a database
//	keep.go     visits the counters of routes that say "every"
//	find.go     finds these counters
//	fair.go     says which of them is next
//	audit.go    walks all counters
//	compare.go  compares one counter with its shards
//	decide.go   decides what to do with a counter that was looked at
//	left.go     says whether time alone explains how a roll-up differs
//	cycle.go    when the walks begin again
//	cursor.go   where a walk goes on
//	note.go     reads the notes that events have left, and takes them away
//	time.go     compares times, and waits
package schedule
