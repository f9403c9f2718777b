// Package shards is for Go servers that use distributed counters. It creates, increments, reads,
// resizes, sets, imports and deletes them, on the Firestore SDK.
//
// Firestore sustains about one write per second to one document. A distributed counter spreads its
// writes over several documents, its shards. Its value is their sum. Package shards keeps to the
// layout of Firebase's own guide, https://firebase.google.com/docs/firestore/solutions/counters, so
// that a Go server and the app's other clients share one counter:
//
//	counters/visitors            num_shards: 3
//	counters/visitors/shards/0   count: 17
//	counters/visitors/shards/1   count: 20
//	counters/visitors/shards/2   count: 5       the value is 42
//
// The counter document may be absent, and so may any shard: an increment creates the shard that it
// needs. Every document in the collection counts, whatever its id. An app's counters may be laid
// out otherwise, as in Firebase's samples. [Field], [Collection], [NumShards] and [RollUpAt] say
// how: see the example of [New].
//
// # What you need to know about Firestore
//
// An increment is a write that adds to a field. It reads nothing, so no client can overwrite what
// others have added. But a commit whose answer was lost may have been applied, and an increment
// that is sent again then counts twice. A commit can hold several writes, which take effect
// together. Each write may demand that its document is still as it was read, or does not exist. If
// one of the demands fails, Firestore refuses the whole commit. So an increment counts once if it
// shares its commit with the creation of a document.
//
// A commit has a time by Firestore's clock. A read-only transaction sees the database at one
// instant of that clock, and takes no locks. Security rules bind browsers and apps, but not
// servers.
//
// # Writing and reading
//
// [Counter.Increment] and [Counter.IncrementFloat] add to one shard picked at random. A call never
// counts twice, although the SDK may send a commit twice. A server that may do its work twice, a
// queue's handler say, increments by [Counter.IncrementOnce]. [Counter.Create] makes all shards in
// advance, for clients that only update, and [Counter.CreateAuto] has Tally make more of them when
// they are written too often.
//
// [Counter.Get] has Firestore add up the shards. The sum is exact at one instant, and bills one
// read per 1,000 shards. [Counter.RollUp] reads the one document that Tally's functions keep up to
// date, the roll-up. It costs one read, and the answer says exactly how old it is.
// [Counter.RollUps] listens to the roll-up, and [Counter.RollUpAfter] waits until the roll-up has a
// write. Only Tally writes it:
//
//	rollups/visitors   count: 42   tally: {as_of: 2026-05-01T09:30:00.123456Z, totals: ["count"], num_shards: 3, …}
//
// # Later
//
// [Counter.Resize] changes the number of shards, [Counter.Set] and [Counter.Import] the total, and
// [Counter.Carry] adds a total that something else has counted until now. All are safe while
// clients go on incrementing and Tally rolls up. The comment of each says what is atomic, and what
// a retry does.
//
// [Counter.Verify] compares a counter with another number, and [Counter.Delete] deletes it.
//
// To close a counter to clients, write frozen: true into its document. Tally's firestore.rules then
// refuse every client's write to the shards, and Tally creates no more of them. Totals stay
// readable. Rules do not bind servers, so this package and the Admin SDKs go on writing:
//
//	client.Doc("counters/visitors").Set(ctx, map[string]any{"frozen": true}, firestore.MergeAll)
package shards
