// Package bench measures Tally on the Firestore emulator: what it costs beside the obvious way to
// aggregate, and what its clients feel of it. It holds benchmarks only; docs/performance.md says
// how to run them.
package bench
