// Package bench measures Tally on the Firestore emulator: what it costs, compared with the obvious
// way to aggregate, and how long its clients wait. It holds benchmarks only. docs/performance.md
// says how to run them.
package bench
