// Package e2e proves Tally's promise on the real thing, while things go wrong. The tests run
// Google's Firestore emulator and functions in processes of their own. Events come as Eventarc
// delivers them: some late, some out of order, some again after they were acknowledged. It holds
// tests only.
//
// Each scenario increments counters without pause and meanwhile has one thing go wrong, again and
// again:
//
//   - a functions process is killed by SIGKILL at random moments, and another takes its place
//   - the emulator is paused
//   - Firestore answers UNAVAILABLE, ABORTED or DEADLINE_EXCEEDED, having done the work or not
//   - Firestore refuses all calls of the functions for a while, or does not answer
//   - a functions process is far from Firestore
//   - a functions process is frozen: at any moment, between its snapshot and its write, or with its
//     write on the way
//
// Other scenarios need no load. In one a call, or the whole connection to Firestore, goes dead: the
// event that waits for it is rolled up nevertheless. In another a functions process gets SIGTERM
// while it holds an event: it ends only after the event, or at the hold limit. In a third the
// functions move to another region, without the alarms of their old queue.
//
// A functions process under load reaches the emulator through a proxy of its own, which makes these
// things happen and notes every roll-up that the emulator accepted:
//
//	clients ──increment──▶ emulator ──event──▶ relay ──▶ functions process
//	   ▲                    │  ▲                                │
//	   └──────listen────────┘  └────────────── proxy ◀──────────┘
//
// Whatever goes wrong, three things must hold:
//
//   - Each roll-up that the emulator accepted, or that a listener saw, equals the sum of the
//     increments that were committed at or before its as_of. It may lack those that were committed,
//     but not yet answered, at that instant: the emulator may miss them.
//   - as_of never goes back.
//   - Once the load has ended, the roll-ups come to the sum of the shards, without an audit.
//
// Some scenarios count documents that an app has anyway, and kill functions processes meanwhile:
// likes and comments of posts that come and go and that the app edits, ratings, a poll, a post that
// is deleted with all its likes. In one, sources come and go while old and new revisions serve at
// once.
//
// The upload is tested here too. It has the files that the functions are built from and no others,
// and Google's buildpack can make of them a binary that rolls up.
//
// Package apps, below this one, has the tests that need no functions process of their own.
//
// The short form runs with all other tests. The long form has more load and more faults:
//
//	go test ./e2e -faults.long -faults.seed 7
//
// The seed decides what fails and when it is killed, but not how the processes are scheduled.
package e2e
