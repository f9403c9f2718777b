// Writes a counter as Firebase's sample for Web does: its number of shards with all shards in one
// batch, then updates.
import { initializeApp } from 'firebase/app';
import { collection, connectFirestoreEmulator, doc, getFirestore, increment, updateDoc, writeBatch } from 'firebase/firestore';

const NUM_SHARDS = 3;

window.sample = async (projectId, host, port) => {
  const db = getFirestore(initializeApp({ projectId }));
  connectFirestoreEmulator(db, host, port, { mockUserToken: 'owner' }); // its rules let clients create counters
  const counter = doc(db, 'counters/web-sample');
  const shard = (i) => doc(collection(counter, 'shards'), String(i));
  const batch = writeBatch(db);
  batch.set(counter, { num_shards: NUM_SHARDS });
  for (let i = 0; i < NUM_SHARDS; i++) batch.set(shard(i), { count: 0 });
  await batch.commit();
  for (let i = 0; i < 7; i++) await updateDoc(shard(Math.floor(Math.random() * NUM_SHARDS)), 'count', increment(1));
};
