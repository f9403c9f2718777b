// Package tally holds Tally's two Cloud Functions, which keep one roll-up document for each
// distributed counter in Cloud Firestore.
//
// Apps increment random shards with the plain Firebase SDKs and read the roll-up, or listen to it,
// instead of summing the shards:
//
//	app ──increment──▶ counters/{c}/shards/{n} ──document.v1.written──▶ RollUpOnWrite ─┐
//	app ◀──listen──── rollups/{c} ◀───────────── paced, one write per cadence ──────────┤
//	                              Cloud Scheduler ──HTTP (OIDC)──▶ RollUpOnSchedule ───┘
//
// The functions are registered with the functions framework when the package is imported; nothing
// else happens until a request comes.
//
// A tour, from the bottom up:
//
//   - internal/document is the map tally of a roll-up document, and the names of what Tally keeps;
//     internal/value is what a total can be.
//   - rollup is the engine: routes, the roll-up, the coalescer that bounds how often it happens,
//     the audit. It imports the standard library, and else only those two.
//   - internal/memstore and internal/firestorestore are its stores, in memory and on Firestore;
//     internal/storetest is the suite that both pass.
//   - internal/trigger decodes Firestore's events; internal/billing counts what Firestore bills;
//     internal/telemetry records and exports metrics and spans.
//   - internal/app is what both functions run: configuration, logs, what an event ends in.
//   - shards is for Go servers: it creates, increments and reads counters. It knows rollup only by
//     the documents.
//   - internal/migration takes over the counters of Firebase's firestore-counter extension.
//   - internal/bench measures what counters cost, and how late their totals are.
//   - internal/localstack runs all of it on one machine, for tally dev and tally demo: Google's own
//     Firestore emulator by internal/emulator, the functions by internal/framework, and the events
//     between them by internal/eventrelay. internal/freeport holds the ports for them.
//   - internal/appfolder reads tally.yaml and the Firebase CLI's files.
//   - internal/doctor reads what is deployed and judges it.
//   - deploy is what a deployment consists of, and the gcloud commands that tally deploy makes of
//     it.
//   - internal/dashboard shows all counters live on a page; tally dev and tally dashboard serve it.
//   - cmd/tally is the command line.
//   - e2e runs the functions on the emulator and has things go wrong: processes killed and frozen,
//     Firestore paused, failing and far away. internal/rules tests firestore.rules, and
//     internal/needs lists what the tests need beside Go.
//
// The pages in docs/design say how they work together, and why it is so.
package tally
