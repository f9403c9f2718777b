// Package dashboard shows all counters live on a page that a browser on the same machine opens.
//
// A [Board] listens to the roll-up documents of its routes, keeps what they say, and serves the page
// and a stream of changes to it:
//
//	Firestore ──snapshot listeners──▶ model ──server-sent events, 4 a second──▶ page
//
// An emulator it asks once a second instead, because listeners there keep clients' writes waiting.
//
// It only reads. What it shows of a counter comes from the roll-up document alone; the shards of a
// counter are listened to only while somebody looks at that counter, because that bills a read for
// each write to a shard. Counters that have no roll-up yet are not shown.
//
// Bounds: of each counter the last 120 roll-ups are kept, and of each shard a number for each of the
// last ten seconds. A page that reads slowly is not queued for: it is sent the latest state when it
// is ready for it. At most 16 streams are served at once.
//
// The files of the page are in the folder page, plain HTML, CSS and JavaScript as the browser runs
// it, and are part of the binary.
package dashboard
