// The package in a real browser, with the real SDK, the real emulator with firestore.rules enforced and the real
// functions.
import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';
import { deleteApp, initializeApp } from 'firebase/app';
import { connectFirestoreEmulator, getFirestore } from 'firebase/firestore';
import { counter } from '../dist/index.js';
import { launch, servePage, startLine } from './browser.mjs';
import { startStack, until } from './stack.mjs';

/** The newest and the oldest firebase that the package is for, as package.json names them. */
const versions = ['firebase', 'firebase-oldest'];
const caches = ['memory', 'persistent', 'multiTab'];

let stack;
let browser;
let line;
const sites = {};

before(async () => {
  [stack, browser] = await Promise.all([startStack(), launch()]);
  line = await startLine(stack.port);
  for (const version of versions) sites[version] = await servePage(version);
});

afterEach(async () => {
  line.mend();
  stack.resume();
  for (const context of browser.contexts()) await context.close();
});

after(async () => {
  await browser?.close();
  for (const site of Object.values(sites)) await site.close();
  await line?.close();
  await stack?.stop();
});

let counters = 0;

/** A path of a counter that no other test uses. */
const newCounter = () => `counters/c${++counters}`;

const rollUpOf = (path) => path.replace('counters', 'rollups');

/** A page that shows a counter, in a context of its own unless one is given. */
async function open(path, { version = 'firebase', context, init, options, show = true, ...open } = {}) {
  const page = await (context ?? (await browser.newContext())).newPage();
  page.on('pageerror', (error) => assert.fail(error));
  if (init) await page.addInitScript(init);
  page.load = async () => {
    await page.goto(`http://127.0.0.1:${sites[version].port}/`);
    await page.evaluate((o) => tally.open(o), { project: stack.project, port: line.port, uid: 'ann', ...open });
    if (show) await page.evaluate(([path, options]) => tally.show(path, options), [path, options]);
  };
  await page.load();
  return page;
}

/** What a page has shown. */
const shown = (page) =>
  page.evaluate(() => ({ calls: shown.calls, frames: shown.frames, last: shown.last, error: shown.error }));

/** Taps n times in a row; the outcomes are waited for if `wait`. */
function tap(page, n = 1, wait = true) {
  return page.evaluate(
    async ([n, wait]) => {
      const taps = Array.from({ length: n }, () => shown.counter.increment());
      if (wait) await Promise.all(taps);
      return shown.last?.total;
    },
    [n, wait],
  );
}

/** Calls a method of the counter that a page shows: its value, "done", or the code of its error. */
function call(page, method) {
  return page.evaluate(async (method) => {
    try {
      return (await shown.counter[method]()) ?? 'done';
    } catch (error) {
      return error.code;
    }
  }, method);
}

/** Waits until a page shows a total of which nothing is pending. */
function shows(page, total) {
  const is = async () => {
    const { last } = await shown(page);
    return last?.total === total && last.pending === 0;
  };
  return until(is, async () => `${total} is not shown: ${JSON.stringify(await shown(page))}\n${stack.output()}`);
}

/** Waits until the roll-up document says a total. */
function rolledUp(path, total) {
  const read = async () => (await stack.rest('GET', `/${rollUpOf(path)}`))?.fields.count.integerValue;
  return until(
    async () => (await read()) === String(total),
    async () => `no roll-up of ${total}: ${await read()}\n${stack.output()}`,
  );
}

/** Waits until roll-up and page agree on a total that the shards add up to, and that nothing was shown that fell. */
async function endsAt(path, total, ...pages) {
  await rolledUp(path, total);
  assert.equal(await stack.sum(path), total);
  for (const page of pages) {
    await shows(page, total);
    // Covered: nothing of it is kept.
    await until(
      async () => (await entries(page, path)).length === 0,
      async () => `entries are left: ${JSON.stringify(await entries(page, path))}`,
    );
    await neverFell(page);
  }
}

async function neverFell(page) {
  const { calls, frames, error } = await shown(page);
  assert.equal(error, null);
  for (const totals of [calls, frames]) {
    const fell = totals.findIndex((total, i) => i > 0 && total < totals[i - 1]);
    assert.equal(fell, -1, `fell: ${totals.join(' ')}`);
  }
}

/** Waits until the SDK of a page has n writes of a counter in its queue, and the page has saved them. */
async function queued(page, path, n) {
  const pending = () =>
    page.evaluate(async (path) => {
      const { collection, getDocsFromCache } = tally.firestore;
      const { docs } = await getDocsFromCache(collection(tally.db(), `${path}/shards`));
      return docs.filter((doc) => doc.metadata.hasPendingWrites).length;
    }, path);
  await until(
    async () => (await pending()) === n && (await entries(page, path)).length === n,
    () => 'not queued',
  );
}

/** The own increments of a counter that a page has saved. */
function entries(page, path) {
  return page.evaluate((path) => {
    const keys = Object.keys({ ...localStorage }).filter(
      (key) => key.startsWith('tally:') && key.includes(`|${path}|`),
    );
    return keys.map((key) => JSON.parse(localStorage.getItem(key)));
  }, path);
}

const micros = (time) => {
  const [, seconds, fraction = ''] = /^([^.Z]*)\.?(\d*)Z$/.exec(time);
  return (Date.parse(`${seconds}Z`) / 1000) * 1e6 + Number(fraction.padEnd(6, '0'));
};

for (const version of versions) {
  for (const cache of caches) {
    test(`the time of a commit is that of its shard at the server: ${version}, ${cache} cache`, async () => {
      const path = newCounter();
      const page = await open(path, { version, cache });
      await until(
        async () => (await shown(page)).last,
        () => 'nothing is shown',
      );
      stack.pause(); // or a roll-up covers them
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
      stack.resume();
      await endsAt(path, 5, page);
    });
  }

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

  for (const cache of ['persistent', 'multiTab']) {
    test(`taps that were not sent are shown after a reload, and are sent: ${version}, ${cache} cache`, async () => {
      const path = newCounter();
      const page = await open(path, { version, cache });
      await tap(page, 2);
      await endsAt(path, 2, page);
      line.cut();
      assert.equal(await tap(page, 3, false), 5);
      await queued(page, path, 3);
      await page.load();
      await until(
        async () => (await shown(page)).last,
        () => 'nothing is shown',
      );
      assert.deepEqual((await shown(page)).calls, [5]);
      assert.equal((await shown(page)).last.pending, 3);
      line.mend();
      await endsAt(path, 5, page);
    });
  }
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
  const asOf = Date.parse((await stack.rest('GET', `/${rollUpOf(path)}`)).fields.as_of.timestampValue);
  await until(
    async () => (await shown(page)).last.asOf >= asOf,
    () => 'the roll-up does not come',
  );
  assert.deepEqual((await shown(page)).last, { ...(await shown(page)).last, total: 2, pending: 1 });
  line.mend();
  await endsAt(path, 2, page);
  assert.deepEqual((await shown(page)).calls.slice(-2), [1, 2]);
});

test('offline, then online', async () => {
  const path = newCounter();
  const page = await open(path);
  await tap(page, 2);
  await endsAt(path, 2, page);
  line.cut();
  assert.equal(await tap(page, 12, false), 14, 'more than shards, and more than the SDK has on its way at once');
  assert.equal((await shown(page)).last.pending, 12);
  await stack.rest('POST', ':commit', {
    writes: [
      {
        transform: {
          document: `projects/${stack.project}/databases/(default)/documents/${path}/shards/0`,
          fieldTransforms: [{ fieldPath: 'count', increment: { integerValue: 1 } }],
        },
      },
    ],
  });
  await rolledUp(path, 3);
  line.mend();
  await endsAt(path, 15, page);
});

test('offline from the start: an increment is shown and queued, with nothing known', async () => {
  const path = newCounter();
  line.cut();
  const page = await open(path, { cache: 'persistent' });
  await page.evaluate(() => void shown.counter.increment());
  await until(
    async () => (await shown(page)).last?.total === 1,
    async () => JSON.stringify(await shown(page)),
  );
  line.mend();
  await endsAt(path, 1, page);
});

test('offline, without the number of shards: no more than the roll-up counted', async () => {
  const path = newCounter();
  await stack.set(path, { num_shards: 1 });
  const [page, other] = [await open(path), await open(path)];
  await tap(other);
  await shows(page, 1);
  line.cut();
  await tap(page, 3, false);
  await until(
    async () => (await entries(page, path)).length === 3,
    () => 'not saved',
  );
  line.mend();
  await endsAt(path, 4, page, other);
});

test('with a memory cache, a reload keeps what was acknowledged and drops what was not', async () => {
  const path = newCounter();
  const page = await open(path);
  await until(
    async () => (await shown(page)).last,
    () => 'nothing is shown',
  );
  stack.pause();
  await tap(page, 2);
  line.cut();
  await tap(page, 1, false);
  await until(
    async () => (await entries(page, path)).length === 3,
    () => 'not saved',
  );
  await page.load();
  line.mend();
  await shows(page, 2);
  stack.resume();
  await rolledUp(path, 2);
  await shows(page, 2);
  assert.deepEqual((await shown(page)).calls, [2]);
  assert.equal(await stack.sum(path), 2);
});

for (const cache of ['memory', 'multiTab']) {
  test(`two tabs, online and offline: ${cache} cache`, async () => {
    const path = newCounter();
    const context = await browser.newContext();
    const tabs = [await open(path, { context, cache }), await open(path, { context, cache })];
    await Promise.all(tabs.map((tab) => tap(tab, 8)));
    await endsAt(path, 16, ...tabs);
    line.cut();
    for (const tab of tabs) assert.equal(await tap(tab, 4, false), 20);
    line.mend();
    await endsAt(path, 24, ...tabs);
  });
}

test('a tab that is closed offline: its tap is shown by the next one, and is sent', async () => {
  const path = newCounter();
  const context = await browser.newContext();
  const first = await open(path, { context, cache: 'multiTab' });
  await tap(first, 2);
  await endsAt(path, 2, first);
  line.cut();
  await tap(first, 1, false);
  await queued(first, path, 1);
  await first.close();
  const second = await open(path, { context, cache: 'multiTab' });
  await until(
    async () => (await shown(second)).last,
    () => 'nothing is shown',
  );
  assert.deepEqual((await shown(second)).calls, [3]);
  line.mend();
  await endsAt(path, 3, second);
});

for (const hours of [-6, 6]) {
  test(`a clock that is ${hours} hours off`, async () => {
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
    stack.pause();
    assert.equal(await tap(page, 3), 6);
    stack.resume();
    await endsAt(path, 6, page);
  });
}

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
  // One by one: the emulator applies what is on its way behind a refused write, and the SDK sends it again.
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

test('votes: once per user, and back', async () => {
  const path = newCounter();
  await stack.set(path, { num_shards: 5, once_per_user: true });
  const [page, other, bob] = [
    await open(path, { options: { uid: 'ann' } }),
    await open(path, { options: { uid: 'ann' } }),
    await open(path, { uid: 'bob', options: { uid: 'bob' } }),
  ];
  const voters = async () => ((await stack.rest('GET', `/${path}/voters`)).documents ?? []).length;
  assert.equal(await call(page, 'hasVoted'), false);
  assert.equal(await call(page, 'unvote'), 'not-voted');
  const twice = await page.evaluate(() => Promise.allSettled([shown.counter.vote(), shown.counter.vote()]));
  assert.deepEqual(
    twice.map(({ status }) => status),
    ['fulfilled', 'rejected'],
  );
  assert.equal(await call(page, 'hasVoted'), true);
  assert.equal(await call(page, 'vote'), 'already-voted');
  assert.equal(Math.max(...(await shown(page)).calls), 1, 'a vote too many is not even shown');
  assert.equal(await call(bob, 'vote'), 'done');
  assert.equal(await call(bob, 'increment'), 'permission-denied');
  assert.equal(await voters(), 2);
  assert.equal(await stack.sum(path), 2);
  await rolledUp(path, 2);
  for (const p of [page, other, bob]) await shows(p, 2);

  assert.equal(await call(other, 'vote'), 'already-voted', 'which only the server knows');
  await shows(other, 2);

  await stack.set(path, { num_shards: 1, once_per_user: true });
  assert.equal(await call(other, 'unvote'), 'done');
  assert.equal(await call(other, 'unvote'), 'not-voted');
  await shows(page, 1);
  assert.equal(await call(page, 'unvote'), 'not-voted', 'which only the server knows');
  assert.equal(await call(page, 'hasVoted'), false);
  assert.equal(await call(page, 'vote'), 'done');
  assert.equal(await call(page, 'unvote'), 'done');
  assert.equal(await voters(), 1);
  assert.equal(await stack.sum(path), 1);
  await rolledUp(path, 1);
  for (const p of [page, other, bob]) await shows(p, 1);
});

test('a vote whose answer is lost is a vote, and so is one that is taken back', async () => {
  const path = newCounter();
  await stack.set(path, { num_shards: 5, once_per_user: true });
  const page = await open(path, { options: { uid: 'ann' } });
  const other = newCounter();
  assert.equal(await call(page, 'hasVoted'), false);
  stack.pause();
  for (const [method, voted, total] of [
    ['vote', true, 1],
    ['unvote', false, 0],
  ]) {
    await page.evaluate((other) => tally.call(other, {}, 'increment'), other); // a session of writes is open
    line.hold();
    const outcome = call(page, method);
    await until(
      async () => ((await stack.rest('GET', `/${path}/voters/ann`)) !== null) === voted,
      () => `${method} does not arrive`,
    );
    await page.evaluate(() => (shown.calls = [shown.last.total]));
    line.lose();
    assert.equal(await outcome, 'done');
    assert.deepEqual((await shown(page)).calls, [total], 'it does not flicker');
    assert.equal((await shown(page)).last.pending, 0);
    assert.equal(await call(page, 'hasVoted'), voted);
  }
  stack.resume();
  await rolledUp(path, 0);
  await shows(page, 0);
  assert.equal(await call(page, 'vote'), 'done');
  await rolledUp(path, 1);
  await shows(page, 1);
});

test('a vote that another device took back can be cast again, and the other way round', async () => {
  const path = newCounter();
  await stack.set(path, { num_shards: 5, once_per_user: true });
  const options = { uid: 'ann' };
  const [page, phone] = [await open(path, { options, cache: 'persistent' }), await open(path, { options })];
  assert.equal(await call(page, 'vote'), 'done');
  assert.equal(await call(phone, 'unvote'), 'done');
  assert.equal(await call(page, 'vote'), 'done');
  assert.equal(await call(page, 'unvote'), 'done');
  assert.equal(await call(phone, 'vote'), 'done');
  assert.equal(await call(page, 'unvote'), 'done');
  assert.equal(await stack.sum(path), 0);
});

test('a vote is taken back from the shard that the rules say, whatever the option shards', async () => {
  const path = newCounter();
  await stack.set(path, { num_shards: 5, once_per_user: true });
  await stack.rest('PATCH', `/${path}/voters/ann`, { fields: { shard: { stringValue: '4' } } });
  await stack.set(`${path}/shards/4`, { count: 1 });
  const page = await open(path, { options: { uid: 'ann', shards: 2 } });
  assert.equal(await call(page, 'unvote'), 'done');
  assert.equal(await stack.sum(path), 0);
});

test('a vote offline is queued, also over a reload', async () => {
  const path = newCounter();
  await stack.set(path, { num_shards: 5, once_per_user: true });
  const page = await open(path, { cache: 'persistent', options: { uid: 'ann' } });
  assert.equal(await page.evaluate(() => shown.counter.hasVoted()), false);
  await until(
    async () => (await shown(page)).last,
    () => 'nothing is shown',
  );
  line.cut();
  await page.evaluate(() => void shown.counter.vote());
  await until(
    async () => (await shown(page)).last.total === 1,
    () => 'the vote is not shown',
  );
  await queued(page, path, 1);
  await page.load();
  assert.equal(await page.evaluate(() => shown.counter.vote().catch((error) => error.code)), 'already-voted');
  await until(
    async () => (await shown(page)).last?.total === 1,
    async () => JSON.stringify(await shown(page)),
  );
  line.mend();
  await endsAt(path, 1, page);
});

test('errors say what to do', async () => {
  const path = newCounter();
  const votes = newCounter();
  await stack.set(votes, { num_shards: 5, once_per_user: true });
  const [ann, nobody] = [await open(path, { show: false }), await open(path, { show: false, uid: null })];
  const fails = async (page, code, message, path, options, method, ...args) => {
    const got = await page.evaluate((args) => tally.call(...args), [path, options, method, ...args]);
    assert.equal(got.name, 'TallyError', JSON.stringify(got));
    assert.equal(got.code, code, got.message);
    assert.match(got.message, message);
  };
  await fails(nobody, 'permission-denied', /nobody is signed in/, path, {}, 'increment');
  await fails(nobody, 'not-signed-in', /Sign a user in/, path, { uid: '' }, 'increment');
  await fails(nobody, 'not-signed-in', /option uid/, votes, {}, 'vote');
  await fails(ann, 'permission-denied', /above the bound/, path, {}, 'increment', 2);
  await fails(ann, 'permission-denied', /Use vote\(\)/, votes, {}, 'increment');
  await fails(ann, 'permission-denied', /once_per_user: true/, path, { uid: 'ann' }, 'vote');
  for (const n of [0, 1.5, NaN, Infinity, '1', 2 ** 60])
    await fails(ann, 'invalid-argument', /whole number/, path, {}, 'increment', n);
  await fails(ann, 'invalid-argument', /path/, 'counters', {}, 'total');
  await fails(ann, 'invalid-argument', /shards/, path, { shards: 0 }, 'total');
  await fails(ann, 'invalid-argument', /rollUp/, path, { rollUp: 'rollups' }, 'total');
  await fails(ann, 'invalid-argument', /collection/, path, { collection: 'a/b' }, 'total');
  await fails(ann, 'permission-denied', /firestore.rules/, path, { rollUp: 'rollup_pending/x' }, 'total');
  const error = await ann.evaluate(async (path) => {
    tally.show(path, { rollUp: 'rollup_pending/x' });
    while (!shown.error) await new Promise(requestAnimationFrame);
    return shown.error;
  }, path);
  assert.equal(error.code, 'permission-denied');
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

test('an SDK that does not tell versions is an error, not a guess', async () => {
  const path = newCounter();
  const page = await open(path);
  await until(
    async () => (await shown(page)).last,
    () => 'nothing is shown',
  );
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

test('after the last subscription and the last acknowledgement, nothing listens any more', async () => {
  const path = newCounter();
  const app = initializeApp({ projectId: stack.project });
  const db = getFirestore(app);
  connectFirestoreEmulator(db, stack.host, stack.port, { mockUserToken: { sub: 'ann' } });
  // The SDK's own list of listeners: no public API tells it.
  const listeners = () => db._firestoreClient?._onlineComponents?.eventManager.queries.size();
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
  const likes = [1, 2, 3].map(() => counter(db, path).increment());
  await until(
    () => listeners() > 1,
    () => 'no shard is listened to',
  );
  await Promise.all(likes);
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
  await deleteApp(app);
});
