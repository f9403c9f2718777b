// Votes: once per user, whatever gets lost, and on several devices.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { call, endsAt, line, newCounter, online, open, queued, rolledUp, shown, shows, stack } from './pages.mjs';
import { until } from './stack.mjs';

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
    await online(page);
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
  await online(page);
  await endsAt(path, 1, page);
});
