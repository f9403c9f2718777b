// Package events turns the events of a database into roll-ups (docs/design/events.md): which are
// held, which are absorbed, and when and by which instance a counter is rolled up.
//
//	pause.go       keeps an instance from what has failed
//	generation.go  what one instance knows of a counter, and the events that wait
//	coalescer.go   what it knows of all counters, and of the server's time
//	long.go        says which sums take longer than events can be held
//	claim.go       keeps others from a sum that takes long
//	alarm.go       makes the alarms to which events are deferred
//	turn.go        decides when a counter's turn is, by whom, and how this instance waits
//	chain.go       makes the alarms for when documents leave windows
//	missing.go     makes the alarms that wait for a document of the app's own
//	observe.go     says what a look, or a roll-up that was written, is to the events that wait
//	failed.go      says what a failure is to them
//	forget.go      forgets counters
//	prober.go      looks at a counter whenever that is due, and rolls it up
//	event.go       takes events: which are held, and which are absorbed
//	ring.go        takes alarms that ring
package events
