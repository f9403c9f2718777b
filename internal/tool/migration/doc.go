// Package migration moves counters of Firebase's firestore-counter extension to Tally.
//
// The extension keeps a total in a field of a document. Clients increment shards with random ids in
// the document's subcollection _counter_shards_. The extension adds the shards to the field and
// deletes them. Under load it first adds them to partial sums in the same collection:
//
//	pages/hello                               {visits: 1000}
//	pages/hello/_counter_shards_/0b9f1c52-…   {visits: 3}
//	pages/hello/_counter_shards_/\t\t\t\t0    {_updates_: [{_id_: …, _data_: {visits: 2}}]}
//
// The true total is all of this together, here 1005. A roll-up of Tally sums the shards' own
// fields, here 3. So each document takes two steps:
//
//   - Its partial sums and random shards are folded into numbered shards. One commit deletes one of
//     them, and adds what it held to a numbered shard.
//   - [shards.Counter.Carry] adds to a shard what the field holds, and notes that below the
//     document.
//
// [Scan] finds the documents, and what is left to do for each. [Plan.Run] does it. [Plan.Compare]
// compares what a second scan finds with the first. No progress is stored. Each commit of the two
// steps leaves the true total as it is. So whatever ends a run, the next scan finds what is left.
//
// This package goes on 1 April 2027, with tally migrate --from-extension. From then on Firebase
// does not manage its extensions any more.
package migration
