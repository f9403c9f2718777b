// Package apps proves Tally's promise on what apps really write, on the real thing: Google's
// Firestore emulator makes the events, a relay delivers them as Eventarc does, and the functions
// framework serves the functions over HTTP. It holds tests only.
//
// The functions run in this process, one app for each project (database_test.go). Apps write in the
// layouts of Firebase's documentation, odd values, and documents that the schedule keeps. Events go
// wrong and callers go away. Counters of Firebase's extension and of triggers are migrated as
// docs/migrate.md says, while clients go on writing. The Go code in docs/clients.md is run as it
// stands there.
package apps
