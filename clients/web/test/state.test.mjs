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
import { counter } from '../src/counter.js';
import { restored } from '../src/earlier.js';
import { like } from '../src/like.js';
import { State, stateOf } from '../src/state.js';
import { total } from '../src/total.js';

setLogLevel('silent');

let app;
let db;
let state;

const places = {
  counter: 'counters/c',
  shards: 'counters/c/shards',
  rollUp: 'rollups/c',
  field: 'count',
  total: 'count',
};

beforeEach(async () => {
  app = initializeApp({ projectId: 'offline' });
  db = getFirestore(app);
  await disableNetwork(db);
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
  void setDoc(doc(db, places.rollUp), fields);
  return getDocFromCache(doc(db, places.rollUp));
}

/** What a listener is told, offline, of a document that the cache does not have. */
function missing() {
  return new Promise((resolve) => onSnapshot(doc(db, 'rollups/missing'), resolve));
}

test('a roll-up that the cache has dropped is still known', async () => {
  assert.equal(state.feed.take(await rollUp(100, 50)).total, 100);
  const gone = await missing();
  assert.deepEqual([gone.exists(), gone.metadata.fromCache], [false, true]);
  const { total, asOf, missing: told } = state.feed.take(gone);
  assert.deepEqual([total, asOf?.seconds, told], [100, 50, false]);
});

test('offline from the start there is no roll-up', async () => {
  state.writes.tap(1);
  const { total, asOf, missing: told } = state.feed.take(await missing());
  assert.deepEqual([total, asOf, told], [1, null, false]);
});

test('the first roll-up does not have what is not sent yet, and may have what is', async () => {
  const [waits, sent] = [state.writes.tap(1), state.writes.tap(1)];
  state.writes.send(sent, '0');
  assert.equal(state.feed.take(await rollUp(100, 50)).total, 101);
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
    const { total, asOf } = state.feed.take(await document({ count: 7, ...fields }));
    assert.deepEqual([total, asOf], [7, null], JSON.stringify(fields));
  }
  const tap = state.writes.tap(1);
  assert.equal(tap.entry.after, null);
  assert.equal(state.feed.take(await rollUp(9, 50)).asOf.seconds, 50);
});

test("a total in the app's own document", async () => {
  const post = doc(db, 'posts/7');
  const likes = total(db, 'posts/7', 'likes');
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

test('who subscribes after a read of the same total is told it', { timeout: 10_000 }, async () => {
  void setDoc(doc(db, 'posts/7'), { title: 'Hello' });
  const likes = total(db, 'posts/7', 'likes');
  const nothing = { total: 0, asOf: null, pending: 0, missing: false };
  assert.deepEqual(await likes.total(), nothing);
  const told = [];
  const stops = await new Promise((resolve) => {
    const next = (total) => told.push(total) === 2 && resolve(stops);
    const stops = [likes.onTotal(next), likes.onTotal(next)];
  });
  for (const stop of stops) stop();
  assert.deepEqual(told, [nothing, nothing]);
});

test('a total that is a time or null is as the SDK gives it', async () => {
  const post = doc(db, 'posts/7');
  const last = total(db, 'posts/7', 'last');
  const tally = { as_of: new Timestamp(50, 0), totals: ['last'] };
  const at = new Timestamp(40, 123456000);
  const told = [];
  const heard = async (total) => {
    void setDoc(post, { last: total, tally });
    assert.deepEqual((await last.total()).total, total);
    await new Promise((resolve) => setImmediate(resolve));
  };

  await heard(at);
  const stop = last.onTotal(({ total, asOf, pending }) => told.push([total, asOf.seconds, pending]));
  await heard(at);
  await heard(null);
  await heard(at);
  await heard(7);
  stop();
  const kinds = told.map(([total]) => total).filter((total, i, all) => i === 0 || String(total) !== String(all[i - 1]));
  assert.deepEqual(kinds, [at, null, at, 7]);
  assert.ok(told[0][0] instanceof Timestamp);
  assert.deepEqual(told[0].slice(1), [50, 0]);

  void setDoc(post, { tally });
  assert.equal((await last.total()).total, 0, 'a total that is missing is 0');
});

test('counters share what they know if all of their places are the same, and nothing else', async () => {
  const kinds = [
    places,
    { ...places, counter: 'counters/c:1' },
    { ...places, total: 'count:1' },
    { ...places, total: 'count:' },
    { ...places, field: 'a|b', total: 'c' },
    { ...places, field: 'a', total: 'b|c' },
    { ...places, field: 'a","b', total: 'c' },
    { ...places, field: 'a', total: 'b","c' },
    { ...places, counter: 'a/b', shards: 'a/b/c', rollUp: 'a/b' },
    { ...places, counter: 'a/b', shards: 'c/d/e', rollUp: 'a/b' },
  ];
  globalThis.localStorage = Object.create({
    getItem: (key) => localStorage[key] ?? null,
    removeItem: (key) => void delete localStorage[key],
    setItem: (key, value) => void (localStorage[key] = value),
  });
  const other = initializeApp({ projectId: 'offline' }, 'with localStorage');
  const states = kinds.map((kind) => stateOf(getFirestore(other), kind));
  assert.equal(new Set(states).size, kinds.length);
  kinds.forEach((kind, i) => assert.equal(stateOf(getFirestore(other), { ...kind }), states[i]));

  const entry = { id: '1-2-3-4', n: 1, after: null, by: null };
  states.forEach(({ saved }, i) => saved.save(entry, String(i)));
  states.forEach(({ saved }, i) =>
    assert.deepEqual(
      saved.all().map(({ shard }) => shard),
      [String(i)],
    ),
  );
  await deleteApp(other);
});

test('a stored entry that is broken does not stop the number', async () => {
  const saved = { n: 1, after: 59e6, by: 60e6, at: Date.now() };
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
  state = new State(db, places, 'c');
  void setDoc(doc(db, places.rollUp), {
    count: 100,
    tally: { as_of: new Timestamp(50, 0), num_shards: 1, totals: ['count'] },
  });
  let stop;
  const { total } = await new Promise((next, error) => (stop = state.feed.observe({ next, error })));
  stop();
  assert.equal(total, 101);
  assert.deepEqual(Object.keys(localStorage), ['tally:c:good', 'tally:d:good']);
});

test('an increment of an earlier page outlives a Firestore instance that the app has terminated', async () => {
  const saved = JSON.stringify({ id: 'good', n: 1, after: null, by: null, shard: '3', at: Date.now() });
  const localStorage = { 'tally:c:good': saved };
  globalThis.localStorage = Object.create({
    getItem: (key) => localStorage[key] ?? null,
    removeItem: (key) => void delete localStorage[key],
  });
  Object.assign(globalThis.localStorage, localStorage);
  await terminate(db);
  await restored(new State(db, places, 'c'));
  assert.deepEqual(Object.keys(localStorage), ['tally:c:good']);
});

test('listeners on a Firestore that the app has terminated: the error is told', { timeout: 10_000 }, async () => {
  await terminate(db);
  const { onTotal } = total(db, 'posts/7', 'likes');
  const { onLiked } = like(db, 'posts/7/likes', { uid: 'ann' });
  for (const listen of [onTotal, onLiked]) {
    const { name, code, cause } = await new Promise((error) => listen(assert.fail, error));
    assert.deepEqual([name, code, cause.code], ['TallyError', 'failed', 'failed-precondition']);
  }
});

test('offline, without the number of shards: ten, however many the roll-up counted', async () => {
  state.feed.take(await rollUp(7, 50));
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

/** Waits until a document in the cache is as wanted, and returns what it says; undefined: it is missing. */
function until(path, want) {
  return new Promise((resolve) => onSnapshot(doc(db, path), (d) => d.exists() === want && resolve(d.data())));
}

test("likes in a post: a document for each user, and a total in the app's own", async () => {
  const [likes, own] = [total(db, 'posts/7', 'likes'), like(db, 'posts/7/likes', { uid: 'ann' })];
  const seen = [];
  const stop = likes.onTotal(({ total, asOf, pending }) => seen.push([total, asOf?.seconds ?? null, pending]));
  const as_of = new Timestamp(50, 0);
  void setDoc(doc(db, 'posts/7'), { title: 'Hello', likes: 12, tally: { as_of, totals: ['comments', 'likes'] } });
  assert.equal((await likes.total()).total, 12);
  const liked = [];
  const stopLiked = own.onLiked((now) => liked.push(now), assert.fail);

  void own.set();
  assert.deepEqual(Object.keys(await until('posts/7/likes/ann', true)), ['at']);
  assert.deepEqual([seen.at(-1), liked.at(-1)], [[13, 50, 1], true]);
  void own.set(); // again
  void own.unset();
  assert.deepEqual([seen.at(-1), liked.at(-1)], [[12, 50, 3], false], 'at once');
  await until('posts/7/likes/ann', false);
  stop();
  stopLiked();
});

test('a like before anything is known: it is in the total when the cache has told', async () => {
  void setDoc(doc(db, 'posts/7'), { likes: 12 });
  void setDoc(doc(db, 'posts/7/likes/bob'), {});
  void like(db, 'posts/7/likes', { uid: 'ann' }).set();
  await until('posts/7/likes/ann', true);
  assert.equal((await total(db, 'posts/7', 'likes').total()).total, 13);
  void like(db, 'posts/7/likes', { uid: 'bob' }).unset();
  await until('posts/7/likes/bob', false);
});

test('where a like is, what it says, and which total counts it', async () => {
  const tally = { as_of: new Timestamp(50, 0), totals: ['likes', 'fans', 'saves'] };
  void setDoc(doc(db, 'shops/s'), { likes: 1, fans: 2, saves: 3, tally });
  await like(db, 'shops/s/likes', { uid: () => null })
    .set()
    .then(assert.fail, ({ code }) => assert.equal(code, 'not-signed-in'));
  for (const [path, options, totals] of [
    ['shops/s/likes', {}, [2, 2, 3]],
    ['shops/s/followers', { total: 'fans' }, [2, 3, 3]],
    ['shops/s/saves', { data: { up: 1 } }, [2, 3, 4]],
    ['shops/t/likes', { rollUp: 'shops/s' }, [3, 3, 4]],
  ]) {
    await Promise.all(['likes', 'fans', 'saves'].map((name) => total(db, 'shops/s', name).total()));
    void like(db, path, { uid: () => 'ann', ...options }).set();
    const said = await until(`${path}/ann`, true);
    assert.deepEqual(Object.keys(said), Object.keys(options.data ?? { at: 0 }));
    const shown = ['likes', 'fans', 'saves'].map(async (name) => (await total(db, 'shops/s', name).total()).total);
    assert.deepEqual(await Promise.all(shown), totals, `${path} ${JSON.stringify(options)}`);
  }
});

test('paths are checked', () => {
  const refused = (message) => ({ name: 'TallyError', code: 'invalid-argument', message });
  assert.throws(() => counter(db, 'likes'), refused(/"likes".*"counters\/likes"/));
  assert.throws(() => counter(db, 'posts/7/likes'), refused(/"posts\/7\/likes".*"counters\/likes"/));
  assert.throws(() => counter(db, 'posts//likes/7'), refused(/"posts\/\/likes\/7"/));
  assert.throws(() => total(db, 'posts/7/likes', 'likes'), refused(/"posts\/7\/likes"/));
  assert.throws(() => like(db, 'posts/7', { uid: 'ann' }), refused(/"posts\/7".*"posts\/7\/likes"/));
  assert.throws(() => like(db, 'likes', { uid: 'ann' }), refused(/option rollUp is ""/));
  assert.throws(() => like(db, 'posts/7/likes', { uid: 'ann', rollUp: 'posts' }), refused(/option rollUp is "posts"/));
});

test('a signed-out listener: the error comes at once', () => {
  const errors = [];
  const stop = like(db, 'posts/7/likes', { uid: () => null }).onLiked(assert.fail, (error) => errors.push(error.code));
  assert.deepEqual(errors, ['not-signed-in']);
  stop();
});

test('a uid that is no document id: the error is a TallyError', async () => {
  const own = like(db, 'posts/7/likes', { uid: 'a/b' });
  const failed = { name: 'TallyError', code: 'failed', message: /a\/b/ };
  await assert.rejects(own.set(), failed);
  assert.throws(() => own.onLiked(assert.fail), failed);
});
