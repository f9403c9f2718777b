// Package rules holds the tests of firestore.rules, in the rules engine of Google's emulator. It
// has no code of its own.
//
//   - What honest apps send is allowed, and what the rules are to stop is refused: TestHonest,
//     TestAttacks, TestReads. Each attack names the part of the rules that refuses it, and is let
//     through once that part is softened: so it is well made, and fails if the part is lost.
//   - Every list, of firestore.rules and of the docs, refuses an offset, from whatever sends it:
//     TestListRules, TestOffsets, TestOffsetsOfGo. docs/test sends lists by the other SDKs.
//   - A change that rules cannot see makes no drift: TestDoubleNumShards.
//   - Whatever clients commit, in any order, a total is the sum of the accepted amounts, and each vote
//     is 0 or 1, of its user: TestAnyCommits.
//   - Limits that docs/recipes.md tells, what it says to change, and its blocks for other routes, with
//     attacks of their own: TestLimits, TestChanges, TestBlocks, TestRecipes.
package rules
