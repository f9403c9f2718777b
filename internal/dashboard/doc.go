// Package dashboard shows all counters live on a page that a browser on the same machine opens.
//
// A [Board] follows the roll-up documents of its routes and keeps what they say. A page asks for
// what it shows, four times a second: the figures, the rows in view and the counter that is open.
// The answer holds all of that, so a page that missed some answers needs only the next one.
//
//	Firestore ──snapshot listeners──▶ model ──GET /state──▶ page
//
// The board listens to Firestore. It polls an emulator instead, because listeners there keep
// clients' writes waiting.
//
// It only reads. A row comes from the roll-up document alone, so a counter without one is not
// shown. The shards of a counter are followed only while a page has it open, because each write to
// a shard then bills a read.
//
// Bounds: the board keeps the last 120 roll-ups of each counter, and serves 16 pages.
//
// The folder page holds the page: plain HTML, CSS and JavaScript, as the browser runs it. It is
// part of the binary.
package dashboard
