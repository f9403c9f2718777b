// Package e2e proves Tally's promise on the real thing, while things go wrong: Google's Firestore
// emulator, functions in processes of their own, events delivered as Eventarc delivers them, some
// late, out of order or again after they were acknowledged. It holds tests only.
//
// Each scenario increments counters without pause and meanwhile has one thing go wrong, again and
// again:
//
//   - a functions process is killed by SIGKILL at random moments, and another takes its place
//   - the emulator is paused
//   - Firestore answers UNAVAILABLE, ABORTED or DEADLINE_EXCEEDED, having done the work or not
//   - a functions process is far from Firestore
//   - a functions process is frozen: at any moment, between its snapshot and its write, or with its
//     write on the way
//
// Other scenarios need no load. A call, or the whole connection, goes dead: the event that needs it
// outlives that. A functions process is ended by SIGTERM while it holds an event: it waits for the
// event, up to the hold limit.
//
// A functions process under load reaches the emulator through a proxy of its own, which makes these
// things happen and notes every roll-up that the emulator accepted:
//
//	clients ──increment──▶ emulator ──event──▶ relay ──▶ functions process
//	   ▲                    │  ▲                                │
//	   └──────listen────────┘  └────────────── proxy ◀──────────┘
//
// Whatever goes wrong, each roll-up accepted, and each that a listener saw, must equal the sum of
// the increments committed at or before its as_of, those on their way back to the client at that
// instant excepted, which the emulator may miss; as_of must never go back; and once the load has
// ended, the roll-ups must come to the sum of the shards, without an audit.
//
// Others count documents that an app has anyway, and kill functions processes meanwhile: likes and
// comments of posts that come and go and that the app edits, ratings, a poll, a post that is
// deleted with all its likes. Sources come and go while revisions of both routes serve.
//
// Package apps, below, tests what needs no process of its own.
//
// Telemetry is tested here too: that a functions process has exported what a request did before it
// answers, to a collector of OpenTelemetry's own service definitions, and the rest when it is
// ended.
//
// So is what is deployed: that gcloud uploads the files that the functions are built from and no
// others, and that Google's buildpack can make of them a binary that rolls up.
//
// The short form runs with all other tests. The long form has more load and more faults:
//
//	go test ./e2e -faults.long -faults.seed 7
//
// The seed decides what fails and when it is killed, but not how the processes are scheduled.
package e2e
