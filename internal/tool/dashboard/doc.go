// Package dashboard shows all counters live on a page that a browser on the same machine opens.
//
// A [Board] follows the roll-up documents of its routes and keeps what they say. A page asks for
// itself four times a second: the figures, up to 100 rows and the counter that is open. The answer
// is the whole page, and the one in the browser becomes like it. So a page that missed some answers
// needs only the next one.
//
//	Firestore ──snapshot listeners──▶ model ──page.html──GET /state──▶ page
//
// A snapshot listener first gets all documents that a query finds, and then each change. Firestore
// bills a read for each document that it sends. Google's emulator is slow at this and keeps
// clients' writes waiting, so the board polls an emulator instead.
//
// The board only reads. A row comes from the roll-up document alone, so a counter without one is
// not shown. The shards of a counter are followed only while a page has it open, because each write
// to a shard then bills a read.
//
// Bounds: the board keeps the last 120 roll-ups of each counter. Days that ended more than 31 days
// ago, weeks more than 31 weeks and months more than 31 months ago, are shown only once they
// change.
//
// page.html is the page as a template. The folder page holds what it loads: CSS and JavaScript as
// the browser runs them.
package dashboard
