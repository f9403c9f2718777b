// Package shards is a distributed counter's whole life on the Firestore SDK, for Go servers:
// create, increment, read, resize, set, import and delete.
//
// Firestore sustains about one write per second to one document. A distributed counter spreads its
// writes over several documents, its shards; its value is their sum. Package shards keeps to the
// layout of Firebase's own guide, https://firebase.google.com/docs/firestore/solutions/counters, so
// that a Go server and the app's other clients share one counter:
//
//	counters/visitors            num_shards: 3
//	counters/visitors/shards/0   count: 17
//	counters/visitors/shards/1   count: 20
//	counters/visitors/shards/2   count: 5       the value is 42
//
// The counter document may be absent, and so may any shard: an increment creates the shard that it
// needs. Every document in the collection counts, whatever its id. [Field], [Collection],
// [NumShards] and [RollUpAt] name how an app's counters differ, such as those of Firebase's
// samples: see the example of [New].
//
// # Writing and reading
//
// [Counter.Increment] and [Counter.IncrementFloat] add to one shard picked at random. A call never
// counts twice, although the SDK may send a commit twice. A server that may do its work twice, a
// queue's handler say, increments by [Counter.IncrementOnce]. [Counter.Create] makes all shards in
// advance, for clients that only update.
//
// [Counter.Get] has Firestore add up the shards: exact at that instant, for one billed read per
// 1,000 shards. [Counter.RollUp] reads the one document that Tally's functions keep up to date: one
// billed read, and the answer says exactly how old it is. [Counter.RollUps] listens to it. Tally
// alone writes it:
//
//	rollups/visitors   count: 42   tally: {as_of: 2026-05-01T09:30:00.123456Z, totals: ["count"], num_shards: 3, …}
//
// # Later
//
// [Counter.Resize] changes the number of shards, [Counter.Set] and [Counter.Import] the total, and
// [Counter.Carry] adds a total that something else has counted until now. All are safe while
// clients go on incrementing and Tally rolls up; the comment of each says what is atomic, and what
// a retry does.
//
// [Counter.Verify] compares a counter with another number, [Counter.Freeze] closes it to clients,
// and [Counter.Delete] deletes it. [Counter.CreateOncePerUser] makes a counter in which each user
// has one vote.
package shards
