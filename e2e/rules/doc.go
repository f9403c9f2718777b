// Package rules holds the tests of firestore.rules, in the rules engine of Google's emulator. It
// has no code of its own.
//
//   - The rules allow what honest apps send, and refuse attacks: TestHonest, TestAttacks,
//     TestReads. Each attack names the part of the rules that refuses it. The test also softens
//     that part, and the attack must get through then. So no other part refuses it, and the test
//     fails if the part is lost.
//   - Every rule that allows lists, in firestore.rules and in the docs, refuses a query with an
//     offset, whichever SDK sends it: TestListRules, TestOffsets, TestOffsetsOfGo. docs/test sends
//     lists by the other SDKs.
//   - A change that rules cannot see makes no drift: TestDoubleNumShards.
//   - Whatever clients commit, in any order, a total is the sum of the accepted amounts, also where
//     clients create counters: TestAnyCommits.
//   - What docs/security-rules.md says holds: its limits, the changes that it offers, and its
//     blocks and those of docs/recipes.md, with attacks of their own: TestLimits, TestRequests,
//     TestChanges, TestBlocks, TestRecipes.
//   - Under the rules that tally init writes, no client makes a total up, whatever the routes, and
//     each condition has an attack that succeeds without it: TestLaw, TestEachCondition. They
//     accept what the recipes' code writes, or say who must decide: TestHonestUnderInit.
package rules
