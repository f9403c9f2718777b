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
// The functions are registered with the functions framework when the package is imported. On Cloud
// Run the configuration is read then, too. Nothing else happens until a request comes.
//
// # What is deployed
//
// The packages of the functions, from the bottom up:
//
//   - internal/document has the names of the documents and fields that Tally keeps, and encodes the
//     map tally of a roll-up document. internal/value is what a total can be.
//   - rollup/route is the language of routes, which say which documents make which totals.
//   - rollup is the engine. Below it, roll makes one roll-up, note keeps what events leave for
//     audits, events bounds how often roll-ups happen, and schedule audits. They import only the
//     standard library and the packages above.
//   - internal/reason says why totals do not have a document, in the words of all that tell it.
//   - internal/cloud/firestorestore is the engine's store on Firestore. It begins with what you
//     need to know of Firestore.
//   - internal/cloud/config reads what the functions take from their environment, and computes how
//     much time and how many reads they have.
//   - internal/cloud/alarm makes the alarms by which the engine is called at a later time, as tasks
//     of Cloud Tasks, and reads those that ring.
//   - internal/cloud/growth creates more shards for counters whose shards are written too often.
//   - internal/cloud/trigger decodes Firestore's events. internal/cloud/billing counts what
//     Firestore bills.
//   - internal/cloud/app is what both functions run. It wires the others together, logs, and
//     decides how an event is answered.
//
// Package shards is for Go servers: it creates, increments and reads counters. It does not import
// rollup. The two agree only on the documents. clients/web does the same for browsers.
//
// # What serves the command line
//
//   - cmd/tally parses, calls and prints. Its package counters has the commands about counters.
//     Its packages session, counter, court, draft, settings and command have what commands share.
//     internal/tool/terminal shows text, tables, progress and questions.
//   - internal/tool/mistakes has the sentences about mistakes in routes, and says what to write
//     instead. The functions do not link it.
//   - internal/tool/appfolder is the app's own folder: tally.yaml, firebase.json, its rules and
//     indexes.
//   - internal/tool/rules writes security rules for routes, reads those of an app, and judges on an
//     emulator whether they go together with totals.
//   - internal/tool/deploy is what a deployment consists of, and makes it so. internal/tool/doctor
//     reads what is deployed and judges it.
//   - internal/tool/dashboard shows all counters live on a page. tally dev and tally dashboard
//     serve it.
//   - internal/tool/migration takes over the counters of Firebase's firestore-counter extension.
//   - internal/tool/local runs all of it on one machine: emulator is Google's own Firestore
//     emulator, eventrelay delivers its events as Eventarc does, taskqueue makes calls at their
//     time as Cloud Tasks does, framework runs a functions process, and freeport gives ports to
//     all of them.
//   - internal/tool/trial tries the functions that are deployed in a project. There and on one
//     machine, internal/tool/load writes, listens to the roll-ups, and compares.
//
// # What only tests use
//
//   - internal/test holds laws about the repository, such as which package may import which.
//   - internal/test/memstore is the engine's store in memory. internal/test/storetest is the suite
//     that both stores pass.
//   - internal/test/emulatortest gives tests an emulator. Most share one, which
//     internal/test/emulatortest/shared keeps in the background.
//   - internal/test/googletest stands in for Google's APIs of deployments, and
//     internal/test/firebasetest for the Firebase CLI.
//   - internal/test/needs says what the tests need of a machine, and internal/test/changed which
//     checks of .ci/run need not run again.
//
// The tests of one package are in it. Those that span packages are in e2e. There processes are
// killed and frozen, and Firestore pauses, fails and is far away. e2e/apps runs the ways in which
// apps keep counters, e2e/rules attacks the security rules, and e2e/bench measures.
//
// docs holds the pages, with tests that compare them with the code; docs/test runs what they show,
// of which likes is the Go. The pages in docs/design say how the parts work together, and why it is
// so.
package tally
