// Package events turns the events of a database into roll-ups (docs/design/events.md): which are
// held, which are absorbed, and when and by which instance a counter is rolled up.
//
//	coalescer.go   takes events: which are held, and which are absorbed
//	generation.go  what one instance knows of a counter, and the events that wait
//	prober.go      looks at a counter whenever that is due
//	turn.go        decides when a counter's turn is, by whom, and how this instance waits
//	pause.go       keeps an instance from what has failed
//	claim.go       keeps others from a sum that takes long
//	long.go        keeps events from sums that take longer than they can be held
//	alarm.go       defers events to alarms, and takes alarms that ring
//	chain.go       makes the alarms that have documents leave windows
//	missing.go     makes the alarms that wait for a document of the app's own
package events
