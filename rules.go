package tally

import _ "embed"

// Rules is the text of firestore.rules, the security rules that Tally ships. tally dev uses them
// for an app that names none of its own. The functions do not use them.
//
//go:embed firestore.rules
var Rules string
