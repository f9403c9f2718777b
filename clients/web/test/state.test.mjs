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
import { refused } from '../src/settle.js';
import { State, stateOf } from '../src/state.js';
import { heard } from '../src/votes.js';

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

test('who subscribes after a read of the same total is told it', { timeout: 10_000 }, async () => {
  void setDoc(doc(db, 'posts/7'), { title: 'Hello' });
  const likes = counter(db, 'posts/7/likes');
  const total = { total: 0, asOf: null, pending: 0, missing: false };
  assert.deepEqual(await likes.total(), total);
  const told = [];
  const stops = await new Promise((resolve) => {
    const next = (total) => told.push(total) === 2 && resolve(stops);
    const stops = [likes.onTotal(next), likes.onTotal(next)];
  });
  for (const stop of stops) stop();
  assert.deepEqual(told, [total, total]);
});

test('a total that is a time or null is as the SDK gives it', async () => {
  const post = doc(db, 'posts/7');
  const last = counter(db, 'posts/7', { rollUp: 'posts/7', field: 'last' });
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
    { ...places, counter: null, shards: 'a/b/c', rollUp: 'a/b' },
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

  const entry = { id: '1-2-3-4', n: 1, after: null, by: null, voter: null };
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
  const saved = JSON.stringify({ id: 'good', n: 1, after: null, by: null, voter: null, shard: '3', at: Date.now() });
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
  const likes = counter(db, 'posts/7/likes', { uid: 'ann' });
  for (const method of ['onTotal', 'onVoted']) {
    const { name, code, cause } = await new Promise((error) => likes[method](assert.fail, error));
    assert.deepEqual([name, code, cause.code], ['TallyError', 'failed', 'failed-precondition'], method);
  }
});

test('offline, votes: what changes nothing is not pending', async () => {
  const votes = counter(db, 'counters/c', { uid: 'ann' });
  state.feed.take(await rollUp(7, 50));
  /** The totals after each call, and what is on the way then. */
  const seen = [];
  const stop = state.feed.observe({ next: ({ total, pending }) => seen.push([total, pending]), error: assert.fail });
  for (const vote of [false, true, true, false, true]) void (vote ? votes.vote() : votes.unvote());
  const shard = doc(db, 'counters/c/shards/ann');
  await new Promise((resolve) => onSnapshot(shard, (d) => state.votes.has('ann') && d.get('count') === 1 && resolve()));
  stop();
  assert.deepEqual(seen.at(-1), [8, 3]);
  assert.ok(seen.every(([total], i) => total >= 7 && total <= 8 && total - (seen[i - 1]?.[0] ?? 7) <= 1));
  assert.equal(await votes.hasVoted(), true);
  assert.deepEqual((await getDocFromCache(shard)).data(), { count: 1 });
});

test('what is heard of a vote does not replace one that is on its way', async () => {
  const vote = doc(db, 'counters/c/shards/ann');
  void setDoc(vote, { count: 0 });
  const before = await getDocFromCache(vote);
  state.votes.set('ann', 1);
  const write = state.writes.tap(1, 'ann');
  state.writes.send(write, 'ann');
  heard(state, 'ann', before);
  assert.equal(state.votes.get('ann'), 1);
  refused(state, write);
  heard(state, 'ann', before);
  assert.equal(state.votes.get('ann'), 0);
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

test("likes in a post: a document for each user, and a total in the app's own", async () => {
  const likes = counter(db, 'posts/7/likes', { uid: 'ann' });
  const seen = [];
  const stop = likes.onTotal(({ total, asOf, pending }) => seen.push([total, asOf?.seconds ?? null, pending]));
  const as_of = new Timestamp(50, 0);
  void setDoc(doc(db, 'posts/7'), {
    title: 'Hello',
    on: 99,
    likes: 12,
    tally: { as_of, totals: ['comments', 'likes'] },
  });
  assert.equal((await likes.total()).total, 12);
  const voted = [];
  const stopVoted = likes.onVoted((vote) => voted.push(vote), assert.fail);
  void likes.vote();
  const document = doc(db, 'posts/7/likes/ann');
  await new Promise((resolve) => onSnapshot(document, (d) => d.get('on') === 1 && resolve()));
  assert.deepEqual((await getDocFromCache(document)).data(), { on: 1 });
  assert.deepEqual(seen.at(-1), [13, 50, 1]);
  assert.equal(await likes.hasVoted(), true);
  assert.deepEqual(voted.at(-1), true);

  void likes.unvote();
  await new Promise((resolve) => onSnapshot(document, (d) => d.get('on') === 0 && resolve()));
  assert.deepEqual(seen.at(-1), [12, 50, 2]);
  assert.deepEqual(voted.at(-1), false);
  stop();
  stopVoted();
});

test('the names of a total and of the fields that it adds up', async () => {
  const as_of = new Timestamp(50, 0);
  void setDoc(doc(db, 'shops/s'), { likes: 1, fans: 2, on: 3, tally: { as_of, totals: ['likes', 'fans', 'on'] } });
  for (const [path, options, want] of [
    ['shops/s/likes', {}, 1],
    ['shops/s/likes', { total: 'fans' }, 2],
    ['shops/s/likes', { field: 'up' }, 1],
    ['shops/s', { rollUp: 'shops/s', field: 'on' }, 3],
    ['shops/s', { rollUp: 'shops/s', field: 'on', total: 'fans' }, 2],
    ['shops/t/likes', { rollUp: 'shops/s' }, 1],
  ]) {
    const { total, asOf } = await counter(db, path, options).total();
    assert.deepEqual([total, asOf.seconds], [want, 50], `${path} ${JSON.stringify(options)}`);
  }
  const up = counter(db, 'shops/s/likes', { field: 'up', uid: 'ann' });
  void up.vote();
  const document = doc(db, 'shops/s/likes/ann');
  await new Promise((resolve) => onSnapshot(document, (d) => d.exists() && resolve()));
  assert.deepEqual((await getDocFromCache(document)).data(), { up: 1 });
});

test('totals of one document and counters of one total are told apart', async () => {
  void setDoc(doc(db, 'posts/7'), { likes: 12, saves: 3 });
  const of = (path, options) => counter(db, path, { uid: 'ann', ...options });
  await of('posts/7/likes').total();
  void of('posts/7/likes').vote();
  await new Promise((resolve) => onSnapshot(doc(db, 'posts/7/likes/ann'), (d) => d.exists() && resolve()));
  for (const [path, options, want] of [
    ['posts/7/likes', {}, 13],
    ['posts/7/saves', {}, 3],
    ['posts/7/likes', { total: 'saves' }, 3],
  ]) {
    assert.equal((await of(path, options).total()).total, want, `${path} ${JSON.stringify(options)}`);
  }
});

test('increments are for shards', async () => {
  const refused = { name: 'TallyError', code: 'invalid-argument', message: /posts\/7\/likes.*vote\(\)/ };
  await assert.rejects(counter(db, 'posts/7/likes', { uid: 'ann' }).increment(), refused);
  assert.throws(() => counter(db, 'likes'), { code: 'invalid-argument', message: /"likes".*"counters\/likes"/ });
  assert.throws(() => counter(db, 'posts//likes'), { code: 'invalid-argument', message: /"posts\/\/likes"/ });
});

test('a signed-out listener: the error comes at once', () => {
  const errors = [];
  const stop = counter(db, 'posts/7/likes', { uid: () => null }).onVoted(assert.fail, (error) =>
    errors.push(error.code),
  );
  assert.deepEqual(errors, ['not-signed-in']);
  stop();
});

test('a uid that is no document id: the error is a TallyError', async () => {
  const likes = counter(db, 'posts/7/likes', { uid: 'a/b' });
  const failed = { name: 'TallyError', code: 'failed', message: /a\/b/ };
  await assert.rejects(likes.vote(), failed);
  await assert.rejects(likes.hasVoted(), failed);
});
