// Package migration moves counters of Firebase's firestore-counter extension to Tally.
//
// The extension keeps a total in a field of a document. Clients increment shards with random ids in
// the document's subcollection _counter_shards_, and the extension adds them to the field and
// deletes them, under load by way of partial sums in the same collection:
//
//	pages/hello                               {visits: 1000}
//	pages/hello/_counter_shards_/0b9f1c52-…   {visits: 3}
//	pages/hello/_counter_shards_/\t\t\t\t0    {_updates_: [{_id_: …, _data_: {visits: 2}}]}
//
// The truth is all of it together, here 1005. A roll-up of Tally sums the shards' own fields, here
// 3. So two things have to be done for each document: [shards.Counter.Renumber] folds its partial
// sums and its random shards into numbered shards, and [shards.Counter.Carry] adds to a shard what
// the field holds, and notes that below the document.
//
// [Scan] finds the documents and what is left to do for each. [Plan.Run] does it. [Plan.Compare]
// compares what a second scan finds with the first. No progress is stored: both steps are made of
// commits that leave the truth as it is, so the next scan finds what is left, whatever ended a run.
package migration
