// With the real SDK, offline: what its cache gives.
import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import { deleteApp, initializeApp } from 'firebase/app';
import {
  disableNetwork,
  doc,
  getDocFromCache,
  getFirestore,
  onSnapshot,
  setDoc,
  setLogLevel,
  Timestamp,
} from 'firebase/firestore';
import { stateOf } from '../dist/state.js';

setLogLevel('silent');

let app;
let db;
let state;

beforeEach(async () => {
  app = initializeApp({ projectId: 'offline' });
  db = getFirestore(app);
  await disableNetwork(db);
  const places = { counter: 'counters/c', shards: 'counters/c/shards', rollUp: 'rollups/c', field: 'count' };
  state = stateOf(db, places);
});

afterEach(() => deleteApp(app));

/** A snapshot of a roll-up from the cache. */
function rollUp(count, seconds) {
  void setDoc(state.rollUp, { count, as_of: new Timestamp(seconds, 0) });
  return getDocFromCache(state.rollUp);
}

/** What a listener is told, offline, of a document that the cache does not have. */
function missing() {
  return new Promise((resolve) => onSnapshot(doc(db, 'rollups/missing'), resolve));
}

test('a roll-up that the cache has dropped is still known', async () => {
  assert.equal(state.take(await rollUp(100, 50)).total, 100);
  const gone = await missing();
  assert.deepEqual([gone.exists(), gone.metadata.fromCache], [false, true]);
  const { total, asOf } = state.take(gone);
  assert.deepEqual([total, asOf?.seconds], [100, 50]);
});

test('offline from the start there is no roll-up', async () => {
  state.tap(1);
  const { total, asOf } = state.take(await missing());
  assert.deepEqual([total, asOf], [1, null]);
});

test('the first roll-up does not have what is not sent yet, and may have what is', async () => {
  const [waits, sent] = [state.tap(1), state.tap(1)];
  state.sending(sent, '0');
  assert.equal(state.take(await rollUp(100, 50)).total, 101);
  assert.deepEqual([waits.entry.after, sent.entry.after], [50e6, null]);
});
