// Package rules reads an app's security rules, and judges whether they go together with the totals
// of routes.
//
// Text says little about what rules allow, so they are tried. [Requests] are the requests that
// matter: by users, of documents that hold totals, and of what Tally keeps. A [Judge] makes them on
// an emulator (ask.go), on copies of the app's own documents, or where there are none on documents
// that it makes up from what the rules name (invent.go). Who may make a request, and what the app's
// own code changes, is guessed (guess.go). Rules that refuse a request without totals, too, say
// nothing by refusing it with them. So each [Answer] is one of three: allowed, refused, or not
// tried, with the reason.
//
// [Parse] reads which blocks match a document, with their lines (read.go). That serves answers, and
// finds two blocks of one path that both allow writes.
package rules
