package tally

import _ "embed"

// Rules are the security rules of firestore.rules, which tally dev takes for an app that has none
// of its own. The functions do not use them.
//
//go:embed firestore.rules
var Rules string
