// Package rules is about the security rules of an app: it writes those that Tally's routes need,
// reads those that an app has, and judges whether these go together with the totals of the routes.
//
// # Writing
//
// [For] writes what clients may do with the documents of routes: who may write each, and with which
// values (write.go, block.go). tally init puts that into firestore.rules. Who writes documents and
// what fields hold is guessed by names, unless somebody says it (writer.go, reads.go, value.go).
//
// Security rules allow what any of their blocks allows. So each path has one block, which joins
// what every route says about its documents: those that the route counts, and those that hold the
// route's totals. docs/design/rules.md says how they are joined, and which law the result keeps,
// under "What clients may write". Where a person must decide, the rules say false, and why:
//
//	allow create: if isId(post) && isUncounted('likes') && lacks(['tally'])
//	  && false; // decide: who creates posts/{post}, such as mayWrite()
//
// Writing is pure: it maps routes to text. Test e2e/rules.TestLaw attacks what it writes.
//
// # Reading and judging
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
