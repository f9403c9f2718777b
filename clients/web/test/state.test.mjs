// With the real SDK, offline: what its cache gives.
import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import { deleteApp, initializeApp } from 'firebase/app';
import {
  collection,
  disableNetwork,
  doc,
  getDocFromCache,
  getFirestore,
  onSnapshot,
  setDoc,
  setLogLevel,
  terminate,
  Timestamp,
} from 'firebase/firestore';
import { counter, stateOf } from '../src/counter.js';
import { State } from '../src/state.js';

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

afterEach(async () => {
  await deleteApp(app);
  delete globalThis.localStorage;
});

/** A snapshot of a roll-up from the cache. */
function rollUp(count, seconds) {
  return document({ count, tally: { as_of: new Timestamp(seconds, 0), num_shards: 1, totals: ['likes', 'count'] } });
}

function document(fields) {
  void setDoc(state.rollUp, fields);
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

test('a roll-up that does not say it has the total in it covers nothing', async () => {
  const as_of = new Timestamp(50, 0);
  for (const fields of [
    {},
    { as_of },
    { tally: null },
    { tally: 'as_of' },
    { tally: { as_of } },
    { tally: { as_of, totals: ['likes'], former: ['count'] } },
    { tally: { as_of, totals: 'count' } },
    { tally: { as_of: 50, totals: ['count'] } },
  ]) {
    const { total, asOf } = state.take(await document({ count: 7, ...fields }));
    assert.deepEqual([total, asOf], [7, null], JSON.stringify(fields));
  }
  const tap = state.tap(1);
  assert.equal(tap.entry.after, null);
  assert.equal(state.take(await rollUp(9, 50)).asOf.seconds, 50);
});

test("a total in the app's own document", async () => {
  const post = doc(db, 'posts/7');
  const likes = counter(db, 'posts/7', { rollUp: 'posts/7', field: 'likes' });
  const totalOf = async (fields) => {
    void setDoc(post, fields);
    const { total, asOf } = await likes.total();
    return [total, asOf?.seconds ?? null];
  };
  const as_of = new Timestamp(50, 0);
  assert.deepEqual(await totalOf({ title: 'Hello' }), [0, null]);
  assert.deepEqual(await totalOf({ title: 'Hello', likes: 12 }), [12, null]);
  assert.deepEqual(await totalOf({ likes: 12, tally: { as_of, totals: ['comments'], former: ['likes'] } }), [12, null]);
  assert.deepEqual(await totalOf({ likes: 13, tally: { as_of, totals: ['comments', 'likes'] } }), [13, 50]);
});

test('a stored entry that is broken does not stop the number', async () => {
  const saved = { n: 1, after: 59e6, by: 60e6, voter: null, at: Date.now() };
  const entries = {
    'tally:c:json': '{',
    'tally:c:empty': JSON.stringify({ ...saved, id: 'empty', shard: '' }),
    'tally:c:slash': JSON.stringify({ ...saved, id: 'slash', shard: 'a/b' }),
    'tally:c:unsent': JSON.stringify({ ...saved, id: 'unsent', shard: '/', by: null }),
    'tally:c:good': JSON.stringify({ ...saved, id: 'good', shard: '3' }),
    'tally:d:good': JSON.stringify({ ...saved, id: 'good', shard: '3' }),
  };
  globalThis.localStorage = Object.create({
    getItem: (key) => localStorage[key] ?? null,
    removeItem: (key) => void delete localStorage[key],
  });
  Object.assign(localStorage, entries);
  state = new State(db, state.places, 'c');
  void setDoc(state.rollUp, { count: 100, tally: { as_of: new Timestamp(50, 0), num_shards: 1, totals: ['count'] } });
  let stop;
  const { total } = await new Promise((next, error) => (stop = state.observe({ next, error })));
  stop();
  assert.equal(total, 101);
  assert.deepEqual(Object.keys(localStorage), ['tally:c:good', 'tally:d:good']);
});

test('an increment of an earlier page outlives a Firestore instance that the app has terminated', async () => {
  const saved = JSON.stringify({ id: 'good', n: 1, after: null, by: null, voter: null, shard: '3', at: Date.now() });
  const localStorage = { 'tally:c:good': saved };
  globalThis.localStorage = Object.create({
    getItem: (key) => localStorage[key] ?? null,
    removeItem: (key) => void delete localStorage[key],
  });
  Object.assign(globalThis.localStorage, localStorage);
  await terminate(db);
  await new State(db, state.places, 'c').restored();
  assert.deepEqual(Object.keys(localStorage), ['tally:c:good']);
});

test('offline, votes: what changes nothing is not pending', async () => {
  const votes = counter(db, 'counters/c', { uid: 'ann' });
  state.take(await rollUp(7, 50));
  /** The totals after each call, and what is on the way then. */
  const seen = [];
  const stop = state.observe({ next: ({ total, pending }) => seen.push([total, pending]), error: assert.fail });
  for (const vote of [false, true, true, false, true]) void (vote ? votes.vote() : votes.unvote());
  const shard = doc(db, 'counters/c/shards/ann');
  await new Promise((resolve) => onSnapshot(shard, (d) => state.votes.has('ann') && d.get('count') === 1 && resolve()));
  stop();
  assert.deepEqual(seen.at(-1), [8, 3]);
  assert.ok(seen.every(([total], i) => total >= 7 && total <= 8 && total - (seen[i - 1]?.[0] ?? 7) <= 1));
  assert.equal(await votes.hasVoted(), true);
  assert.deepEqual((await getDocFromCache(shard)).data(), { count: 1 });
});

test('offline, without the number of shards: ten, however many the roll-up counted', async () => {
  state.take(await rollUp(7, 50));
  for (let i = 0; i < 10; i++) void counter(db, 'counters/c').increment();
  const shards = collection(db, 'counters/c/shards');
  const ids = await new Promise((resolve) =>
    onSnapshot(
      shards,
      { includeMetadataChanges: true },
      ({ docs }) => docs.length === 10 && resolve(docs.map(({ id }) => id)),
    ),
  );
  assert.deepEqual(ids, [...'0123456789']);
});
