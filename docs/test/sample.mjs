// Writes a counter as Firebase's sample for Web does, by the namespaced API: its number of shards with
// all shards in one batch, then updates.
const NUM_SHARDS = 3;
const { firebase } = window;

window.sample = async (projectId, host, port) => {
  const db = firebase.initializeApp({ projectId }).firestore();
  db.useEmulator(host, port, { mockUserToken: 'owner' }); // firestore.rules let no client create counters
  const ref = db.collection('counters').doc('web-sample');
  const shard = (i) => ref.collection('shards').doc(String(i));
  const batch = db.batch();
  batch.set(ref, { num_shards: NUM_SHARDS });
  for (let i = 0; i < NUM_SHARDS; i++) batch.set(shard(i), { count: 0 });
  await batch.commit();
  for (let i = 0; i < 7; i++) {
    await shard(Math.floor(Math.random() * NUM_SHARDS)).update('count', firebase.firestore.FieldValue.increment(1));
  }
};
