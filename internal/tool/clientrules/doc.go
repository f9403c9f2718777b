// Package clientrules writes the security rules of an app whose clients write what Tally counts:
// who may write each document, and with which values. tally init puts them into firestore.rules.
//
// Security rules allow what any of their blocks allows. So each path has one block, which joins
// what every route says about its documents: those that the route counts, and those that hold the
// route's totals. docs/design/rules.md says how they are joined, and which law the result keeps,
// under "What clients may write". Where a person must decide, the rules say false, and why:
//
//	allow create: if isId(post) && isUncounted('likes') && lacks(['tally'])
//	  && false; // decide: who creates posts/{post}, such as mayWrite()
//
// The package is pure: it maps routes to text. Test e2e/rules.TestLaw attacks what it writes.
package clientrules
