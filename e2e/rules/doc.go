// Package rules holds the tests of security rules, in the rules engine of Google's emulator. It
// has no code of its own. There are three suites:
//
//   - Requests at random, under firestore.rules: TestAnyCommits. Whatever clients send, in any
//     order, a total is the sum of the accepted amounts, and no one reads more than everybody may.
//     Honest requests are accepted. Without any one part of the rules, a request succeeds that
//     must not. TestLimits and TestDoubleNumShards say where the rules end.
//   - The law, under the rules that tally init writes: TestLaw, TestEachCondition,
//     TestComparedAlike. No client makes a total up, whatever the routes. Without any one
//     condition, an attack succeeds.
//   - The recipes, and all that docs/recipes.md and docs/security-rules.md offer: TestRecipes,
//     TestBlocks, TestChanges, TestRequests, with attacks of their own, each stopped by the part
//     of the rules that it names. TestOffsets sends every list of the docs with an offset;
//     docs/test does so by the other SDKs. TestHonestUnderInit and TestHonestEdits make the same
//     requests under the rules that tally init writes for the same routes.
package rules
