// The package online: totals, times of commit, clocks, shards, errors, listeners.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { deleteApp, initializeApp } from 'firebase/app';
import firebase from 'firebase/compat/app';
import 'firebase/compat/firestore';
import { connectFirestoreEmulator, getFirestore } from 'firebase/firestore';
import { counter } from '../src/index.js';
import {
  endsAt,
  entries,
  line,
  micros,
  newCounter,
  open,
  placesOf,
  queued,
  rolledUp,
  shown,
  stack,
  tap,
  versions,
} from './pages.mjs';
import { until } from './stack.mjs';

const caches = ['memory', 'persistent', 'multiTab'];

test('the time of a commit is that of its shard at the server, with each SDK and cache', async () => {
  stack.pause(); // or a roll-up covers them
  const commit = async (version, cache) => {
    const path = newCounter();
    const page = await open(path, { version, cache });
    await tap(page, 5);
    const settled = async () => (await entries(page, path)).every(({ by }) => by !== null);
    await until(settled, async () => JSON.stringify(await entries(page, path)));
    const saved = await entries(page, path);
    assert.equal(new Set(saved.map(({ shard }) => shard)).size, 5);
    for (const { shard, after, by } of saved) {
      const { updateTime } = await stack.rest('GET', `/${path}/shards/${shard}`);
      assert.equal(by, micros(updateTime));
      assert.equal(after, by - 1);
    }
    return () => endsAt(path, 5, page);
  };
  const cases = versions.flatMap((version) => caches.map((cache) => commit(version, cache)));
  const ends = await Promise.all(cases);
  stack.resume();
  await Promise.all(ends.map((end) => end()));
});

for (const version of versions) {
  test(`two browsers see each other's rapid taps, and no number ever falls: ${version}`, async () => {
    const path = newCounter();
    const [ann, bob] = [await open(path, { version }), await open(path, { version, uid: 'bob' })];
    for (let round = 1; round <= 3; round++) {
      const before = (await shown(ann)).last?.total ?? 0;
      assert.ok((await tap(ann, 10, false)) >= before + 10, 'a tap shows at once');
      await tap(bob, 5);
      await rolledUp(path, round * 15);
    }
    await endsAt(path, 45, ann, bob);
  });
}

test('a slow roll-up: own increments are in the total until it covers them', async () => {
  const path = newCounter();
  const page = await open(path);
  await tap(page, 2);
  await rolledUp(path, 2);
  stack.pause();
  for (let total = 3; total <= 8; total++) assert.equal(await tap(page), total);
  assert.equal((await shown(page)).last.pending, 0);
  stack.resume();
  await endsAt(path, 8, page);
});

test('a roll-up that comes before the acknowledgement does not count twice', async () => {
  const path = newCounter();
  const page = await open(path);
  await tap(page);
  await endsAt(path, 1, page);
  line.hold();
  assert.equal(await tap(page, 1, false), 2);
  await rolledUp(path, 2);
  const { tally } = (await stack.rest('GET', `/${placesOf(path).rollUp}`)).fields;
  const asOf = Date.parse(tally.mapValue.fields.as_of.timestampValue);
  await until(
    async () => (await shown(page)).last.asOf >= asOf,
    () => 'the roll-up does not come',
  );
  assert.deepEqual((await shown(page)).last, { ...(await shown(page)).last, total: 2, pending: 1 });
  line.restore();
  await endsAt(path, 2, page);
  assert.deepEqual((await shown(page)).calls.slice(-2), [1, 2]);
});

test('clocks that are 6 hours slow and fast', async () => {
  const skewed = async (hours) => {
    const path = newCounter();
    const init = `{
      const Real = Date;
      const now = () => Real.now() + ${hours} * 3600_000;
      globalThis.Date = class extends Real {
        constructor(...args) { super(...(args.length > 0 ? args : [now()])); }
        static now = now;
      };
    }`;
    const page = await open(path, { init });
    const skew = (await page.evaluate(() => Date.now())) - Date.now();
    assert.ok(Math.abs(skew - hours * 3600_000) < 60_000);
    await tap(page, 3);
    await rolledUp(path, 3);
    return { path, page };
  };
  const pages = await Promise.all([-6, 6].map(skewed));
  stack.pause();
  for (const { page } of pages) assert.equal(await tap(page, 3), 6);
  stack.resume();
  for (const { path, page } of pages) await endsAt(path, 6, page);
});

test('App Check: what is sent carries the token', async () => {
  const path = newCounter();
  const page = await open(path, { appCheck: true });
  await tap(page, 2);
  await endsAt(path, 2, page);
  assert.match(line.sent(), /X-Firebase-AppCheck:app-check-token/i);
});

test('fewer shards while the page is open: increments move to those that are left', async () => {
  const path = newCounter();
  await stack.set(path, { num_shards: 20 });
  const page = await open(path);
  await tap(page, 20);
  await endsAt(path, 20, page);
  const beyond = async () => {
    const { documents } = await stack.rest('GET', `/${path}/shards?pageSize=1000`);
    return documents.filter(({ name }) => Number(name.split('/').pop()) >= 2).map(({ updateTime }) => updateTime);
  };
  const before = await beyond();
  await stack.set(path, { num_shards: 2 });
  // One by one: the emulator applies what is on its way behind a refused write, and the SDK sends
  // it again.
  for (let i = 0; i < 10; i++) await tap(page);
  await endsAt(path, 30, page);
  assert.deepEqual(await beyond(), before);
});

test('more shards while the page is open: used after a minute', async () => {
  const path = newCounter();
  await stack.set(path, { num_shards: 1 });
  const init = `{
    const now = performance.now.bind(performance);
    performance.now = () => now() + (window.ahead ?? 0);
  }`;
  const page = await open(path, { init });
  await tap(page, 5);
  await stack.set(path, { num_shards: 50 });
  await tap(page, 5);
  const shards = async () => (await stack.rest('GET', `/${path}/shards?pageSize=1000`)).documents.length;
  assert.equal(await shards(), 1);
  await page.evaluate(() => (window.ahead = 60_000));
  let total = 10;
  await until(
    async () => {
      await tap(page);
      total++;
      return (await shards()) > 1;
    },
    () => 'the new shards are not used',
  );
  await endsAt(path, total, page);
});

test("the number of shards may be the app's; where writes meet in a shard, its version is only a bound", async () => {
  const path = newCounter();
  const page = await open(path, { options: { shards: 1 } });
  await tap(page);
  await endsAt(path, 1, page);
  stack.pause();
  await tap(page, 4);
  const settled = async () => (await entries(page, path)).every(({ by }) => by !== null);
  await until(settled, async () => JSON.stringify(await entries(page, path)));
  const saved = await entries(page, path);
  const { updateTime } = await stack.rest('GET', `/${path}/shards/0`);
  assert.deepEqual(
    saved.map(({ shard, by }) => [shard, by]),
    Array(4).fill(['0', micros(updateTime)]),
  );
  assert.ok(saved.every(({ after, by }) => after < by - 1));
  stack.resume();
  await endsAt(path, 5, page);
});

test('one read of the total, and of the shards', async () => {
  const path = newCounter();
  const page = await open(path, { show: false });
  const call = (method, ...args) =>
    page.evaluate(([path, method, args]) => tally.call(path, {}, method, ...args), [path, method, args]);
  assert.deepEqual(await call('total'), { value: 0 });
  stack.pause();
  assert.deepEqual(await call('increment'), { value: undefined });
  assert.deepEqual(await call('total'), { value: 1 });
  assert.deepEqual(await call('exact'), { value: 1 });
  stack.resume();
  await rolledUp(path, 1);
  assert.deepEqual(await call('total'), { value: 1 });
  line.cut();
  const offline = await call('exact');
  assert.equal(offline.code, 'unavailable', offline.message);
});

test('errors say what to do', async () => {
  const path = newCounter();
  const frozen = newCounter();
  await stack.set(frozen, { num_shards: 5, frozen: true });
  const [ann, signedOut] = [await open(path, { show: false }), await open(path, { show: false, uid: null })];
  const fails = async (page, code, message, path, options, method, ...args) => {
    const got = await page.evaluate((args) => tally.call(...args), [path, options, method, ...args]);
    assert.equal(got.name, 'TallyError', JSON.stringify(got));
    assert.equal(got.code, code, got.message);
    assert.match(got.message, message);
  };
  await fails(signedOut, 'not-signed-in', /no user is signed in/, path, {}, 'increment');
  await fails(ann, 'permission-denied', /no rule lets the user ann do that/, 'unruled/c', {}, 'increment');
  await fails(signedOut, 'not-signed-in', /option uid/, 'posts/7/likes', { uid: '' }, 'set');
  for (const n of [2, -1]) await fails(ann, 'permission-denied', /add 1 and nothing else/, path, {}, 'increment', n);
  await fails(ann, 'permission-denied', /says frozen: true/, frozen, {}, 'increment');
  for (const n of [0, 1.5, NaN, Infinity, '1', 2 ** 60])
    await fails(ann, 'invalid-argument', /whole number/, path, {}, 'increment', n);
  await fails(ann, 'invalid-argument', /path/, 'counters', {}, 'total');
  await fails(ann, 'invalid-argument', /shards/, path, { shards: 0 }, 'total');
  await fails(ann, 'invalid-argument', /rollUp/, path, { rollUp: 'rollups' }, 'total');
  await fails(ann, 'invalid-argument', /collection/, path, { collection: 'a/b' }, 'total');
  await fails(ann, 'permission-denied', /firestore.rules/, path, { rollUp: 'rollup_audit/x' }, 'total');
  const error = await ann.evaluate(async (path) => {
    tally.show(path, { rollUp: 'rollup_audit/x' });
    while (!shown.error) await new Promise(requestAnimationFrame);
    return shown.error;
  }, path);
  assert.equal(error.code, 'permission-denied');
});

test('the namespaced API: an increment without a user says that no user is signed in', async (t) => {
  const app = firebase.initializeApp({ projectId: stack.project }, 'namespaced');
  t.after(() => app.delete());
  const db = app.firestore();
  db.useEmulator(stack.host, stack.port);
  const refused = { code: 'not-signed-in', message: /no user is signed in/ };
  await assert.rejects(counter(db, newCounter()).increment(), refused);
});

test('a refused increment is out of the total again', async () => {
  const path = newCounter();
  const page = await open(path);
  await tap(page, 2);
  await endsAt(path, 2, page);
  const calls = await page.evaluate(async () => {
    await shown.counter.increment(5).catch(() => {});
    return shown.calls;
  });
  assert.deepEqual(calls.slice(-2), [7, 2]);
  assert.deepEqual(await entries(page, path), []);
});

for (const version of versions) {
  test(`an app's own listener that is refused: an increment on its way is settled all the same: ${version}`, async () => {
    const path = newCounter();
    const page = await open(path, { version, cache: 'eager' }); // drops what nobody listens to
    stack.pause(); // or a roll-up comes while the page connects again
    line.hold();
    await tap(page, 1, false);
    await queued(page, path, 1);

    await stack.set(path, { closed: true });
    const refusals = await page.evaluate((path) => {
      const { doc, onSnapshot } = tally.firestore;
      const refusal = (shard) =>
        new Promise((told) => {
          const next = ({ metadata }) => metadata.fromCache || told('none');
          const ref = doc(tally.db(), `${path}/shards/${shard}`);
          onSnapshot(ref, { includeMetadataChanges: true }, next, ({ code }) => told(code));
        });
      return Promise.all(Array.from({ length: 10 }, (_, shard) => refusal(shard)));
    }, path);
    assert.deepEqual(refusals, Array(10).fill('permission-denied'));

    await stack.set(path, {});
    line.restore();
    const settled = async () => (await entries(page, path))[0].by !== null;
    await until(settled, async () => `not settled: ${JSON.stringify(await entries(page, path))}`);
    stack.resume();
    await endsAt(path, 1, page);
  });
}

test('an SDK that does not tell versions is an error, not a guess', async () => {
  const path = newCounter();
  const page = await open(path);
  await page.evaluate(() => {
    const documents = new WeakMap();
    Object.defineProperty(tally.firestore.DocumentSnapshot.prototype, '_document', {
      get() {
        return documents.get(this);
      },
      set(document) {
        documents.set(this, document && Object.create(document, { version: { value: undefined } }));
      },
    });
  });
  await page.evaluate(() => shown.counter.increment());
  const { error } = await until(
    async () => {
      const now = await shown(page);
      return now.error && now;
    },
    () => 'no error',
  );
  assert.equal(error.code, 'unsupported-sdk');
});

test('what is not asked for any more, ends', async () => {
  const path = newCounter();
  const page = await open(path);
  await tap(page);
  await endsAt(path, 1, page);
  const before = line.sent().length;
  const calls = await page.evaluate(async (path) => {
    const calls = [];
    const stops = [1, 2].map((n) => tally.counter(path).onTotal(({ total }) => calls.push([n, total])));
    await new Promise(requestAnimationFrame);
    for (const stop of [...stops, ...stops]) stop();
    return calls;
  }, path);
  assert.deepEqual(calls, [
    [1, 1],
    [2, 1],
  ]);
  assert.doesNotMatch(line.sent().slice(before), /Target/, 'they share a listener');
  await page.evaluate(() => shown.stop());
  await until(
    () => /"removeTarget"/.test(line.sent().slice(before)),
    () => 'the listener is left open',
  );
  const other = await open(path);
  await tap(other, 2);
  await endsAt(path, 3, other);
  assert.equal((await shown(page)).last.total, 1);
});

test('after the last subscription and the last acknowledgement, nothing listens any more', async (t) => {
  const path = newCounter();
  const app = initializeApp({ projectId: stack.project });
  t.after(() => deleteApp(app));
  const db = getFirestore(app);
  connectFirestoreEmulator(db, stack.host, stack.port, { mockUserToken: { sub: 'ann' } });
  // The SDK's own list of listeners: no public API tells it.
  const queries = () => db._firestoreClient?._onlineComponents?.eventManager.queries;
  const listeners = () => queries()?.size();
  const listensToShard = () => {
    let listens = false;
    queries().forEach((query) => (listens ||= query.path.canonicalString().startsWith(`${path}/shards/`)));
    return listens;
  };
  const totals = [];
  const subscribe = () => counter(db, path).onTotal(({ total }) => totals.push(total));
  const first = subscribe();
  await until(
    () => totals.length === 1,
    () => 'not told',
  );
  first();
  const stop = subscribe();
  await until(
    () => totals.length === 2,
    () => 'not told once more',
  );

  // Shards are listened to for a few milliseconds, so each turn of the event loop looks.
  let listened = false;
  let written = false;
  const likes = [1, 2, 3].map(() => counter(db, path).increment());
  void Promise.allSettled(likes).then(() => (written = true));
  while (!written) {
    listened ||= listensToShard();
    await setImmediate();
  }
  await Promise.all(likes);
  assert.ok(listened, 'no shard is listened to');

  await until(
    () => listeners() === 1,
    () => `${listeners()} listeners, want that of the roll-up`,
  );
  assert.equal(totals.at(-1), 3);
  stop();
  await until(
    () => listeners() === 0,
    () => `${listeners()} listeners are left`,
  );
});
