// Votes: once per user, whatever gets lost, and on several devices.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  call,
  entries,
  line,
  newCounter,
  online,
  open,
  queued,
  rolledUp,
  saved,
  shown,
  shows,
  stack,
  versions,
} from './pages.mjs';
import { until } from './stack.mjs';

const ann = { options: { uid: 'ann' } };
const bob = { uid: 'bob', options: { uid: 'bob' } };

/** A counter that each user moves once. */
async function newVote() {
  const path = newCounter();
  await stack.set(path, { once_per_user: true });
  return path;
}

/** The vote that the server has; null: none. */
async function voteOf(path, uid) {
  const document = await stack.rest('GET', `/${path}/shards/${uid}`);
  return document && Number(document.fields.count.integerValue);
}

/** Waits until the server has a vote. */
function arrives(path, uid, vote) {
  return until(
    async () => (await voteOf(path, uid)) === vote,
    async () => `the vote of ${uid} is ${await voteOf(path, uid)}, want ${vote}`,
  );
}

/** Waits until nothing of the pages' own is on the way or uncovered, and all agree on a total. */
async function agree(path, total, ...pages) {
  for (const page of pages) await shows(page, total);
  await rolledUp(path, total);
  assert.equal(await stack.sum(path), total);
  for (const page of pages) {
    await saved(page, path, 0);
    await shows(page, total);
    assert.equal((await shown(page)).error, null);
  }
}

/**
 * Moves the vote several times in a row, without waiting. Returns what resolves when all have
 * arrived.
 */
const moves = (page, ...methods) =>
  page.evaluate((methods) => Promise.all(methods.map((method) => shown.counter[method]())), methods);

test('votes: once per user, and back', async () => {
  const path = await newVote();
  const [page, other, bobs] = [await open(path, ann), await open(path, ann), await open(path, bob)];
  assert.equal(await call(page, 'hasVoted'), false);
  assert.equal(await call(page, 'unvote'), 'done', 'nothing to take back');
  await moves(page, 'vote', 'vote');
  assert.equal(await call(page, 'hasVoted'), true);
  assert.equal(await call(page, 'vote'), 'done');
  assert.equal(await call(bobs, 'vote'), 'done');
  assert.equal(await call(bobs, 'increment'), 'permission-denied');
  assert.equal(await call(bobs, 'exact'), 'permission-denied');
  await agree(path, 2, page, other, bobs);
  assert.deepEqual((await shown(page)).calls, [0, 1, 2]);
  assert.deepEqual([await voteOf(path, 'ann'), await voteOf(path, 'bob')], [1, 1]);

  assert.equal(await call(other, 'hasVoted'), true);
  assert.equal(await call(other, 'vote'), 'done');
  assert.equal(await call(other, 'unvote'), 'done');
  await agree(path, 1, page, other, bobs);
  assert.equal(Math.max(...(await shown(other)).calls), 2);
  assert.equal(await call(page, 'hasVoted'), false);
  assert.equal(await call(page, 'vote'), 'done');
  await agree(path, 2, page, other, bobs);
});

test('whether the user has voted is one document', async () => {
  const path = await newVote();
  await stack.set(`${path}/shards/ann`, { count: 1 });
  const page = await open(path, ann);
  const before = line.sent().length;
  assert.equal(await call(page, 'hasVoted'), true);
  const read = line
    .sent()
    .slice(before)
    .match(/"documents":\[[^\]]*\]/g);
  assert.deepEqual(read, [
    `"documents":["projects/${stack.project}/databases/(default)/documents/${path}/shards/ann"]`,
  ]);
});

test('given, taken back and given, as roll-ups come: the number is the vote, with each cache', async () => {
  const moved = async (cache) => {
    const path = await newVote();
    const page = await open(path, { ...ann, cache });
    for (let round = 0; round < 8; round++) {
      await moves(page, 'vote', 'unvote', 'vote');
      assert.equal((await shown(page)).last.pending, 0);
      await moves(page, 'unvote', 'vote', 'unvote');
    }
    await moves(page, 'vote');
    await agree(path, 1, page);
    const calls = Array.from({ length: 50 }, (_, n) => n % 2);
    assert.deepEqual((await shown(page)).calls, calls, 'roll-ups made no difference');
  };
  await Promise.all(['memory', 'persistent'].map(moved));
});

test('a vote whose answer is lost is a vote, and so is one that is taken back', async () => {
  const path = await newVote();
  const page = await open(path, ann);
  const other = newCounter();
  stack.pause();
  for (const [method, vote] of [
    ['vote', 1],
    ['unvote', 0],
  ]) {
    await page.evaluate((other) => tally.call(other, {}, 'increment'), other); // a session of writes is open
    line.hold();
    const outcome = call(page, method);
    await arrives(path, 'ann', vote);
    await page.evaluate(() => (shown.calls = [shown.last.total]));
    line.lose();
    await online(page);
    assert.equal(await outcome, 'done');
    assert.deepEqual((await shown(page)).calls, [vote], 'it does not flicker');
    assert.equal((await shown(page)).last.pending, 0);
    assert.equal(await call(page, 'hasVoted'), vote === 1);
  }
  stack.resume();
  await agree(path, 0, page);
});

for (const version of versions) {
  test(`two devices of a user vote, and take the vote back: it counts once, ${version}`, async () => {
    const path = await newVote();
    const [page, phone] = [
      await open(path, { ...ann, version, cache: 'persistent' }),
      await open(path, { ...ann, version }),
    ];
    for (const device of [page, phone]) assert.equal(await call(device, 'hasVoted'), false);
    stack.pause(); // so that neither device can know of the other
    for (const device of [page, phone]) {
      assert.equal(await call(device, 'vote'), 'done');
      assert.deepEqual((await shown(device)).calls, [0, 1]);
    }
    const { updateTime } = await stack.rest('GET', `/${path}/shards/ann`);
    const [[one], [two]] = [await entries(page, path), await entries(phone, path)];
    assert.equal(one.by, two.by, `both are what was committed at ${updateTime}`);
    stack.resume();
    await agree(path, 1, page, phone);

    await phone.context().setOffline(true);
    void call(phone, 'unvote');
    await until(
      async () => (await shown(phone)).last.pending === 1,
      () => 'not pending',
    );
    assert.equal(await call(page, 'unvote'), 'done');
    await agree(path, 0, page);
    await phone.context().setOffline(false);
    await agree(path, 0, phone);
    for (const device of [page, phone]) assert.deepEqual((await shown(device)).calls, [0, 1, 0]);
  });
}

test('a vote that another device changed can be given and taken back', async () => {
  const path = await newVote();
  const [page, phone] = [await open(path, { ...ann, cache: 'persistent' }), await open(path, ann)];
  for (const [device, method, total] of [
    [page, 'vote', 1],
    [phone, 'unvote', 0], // which it does not know of
    [page, 'vote', 1],
    [phone, 'vote', 1],
    [page, 'unvote', 0],
    [phone, 'unvote', 0],
  ]) {
    assert.equal(await call(device, method), 'done');
    await agree(path, total, page, phone);
  }
});

test('an offline vote is sent later, after what another device did', async () => {
  const path = await newVote();
  const [page, phone, bobs] = [await open(path, ann), await open(path, ann), await open(path, bob)];
  for (const device of [page, phone]) assert.equal(await call(device, 'hasVoted'), false);
  await phone.context().setOffline(true);
  const sent = call(phone, 'vote');
  await until(
    async () => (await shown(phone)).last.total === 1,
    () => 'not shown',
  );
  assert.equal((await shown(phone)).last.pending, 1);
  for (const method of ['vote', 'unvote']) assert.equal(await call(page, method), 'done');
  assert.equal(await call(bobs, 'vote'), 'done');
  await agree(path, 1, page, bobs);
  await phone.context().setOffline(false);
  assert.equal(await sent, 'done');
  await agree(path, 2, page, phone, bobs);
  assert.deepEqual((await shown(phone)).calls, [0, 1, 2]);
});

test('a vote that waits is still there after a reload, and counts once', async () => {
  const path = await newVote();
  const page = await open(path, { ...ann, cache: 'persistent' });
  assert.equal(await call(page, 'hasVoted'), false);
  line.cut();
  await page.evaluate(() => ['vote', 'unvote', 'vote'].forEach((method) => void shown.counter[method]()));
  await until(
    async () => (await shown(page)).last.pending === 3,
    () => 'not pending',
  );
  await queued(page, path, 1, 3);
  await page.load();
  await until(
    async () => (await shown(page)).last?.total === 1,
    async () => JSON.stringify(await shown(page)),
  );
  void call(page, 'vote'); // changes nothing
  await online(page);
  await agree(path, 1, page);
  assert.deepEqual((await shown(page)).calls, [1]);
  assert.equal(await call(page, 'hasVoted'), true);
});

test('a vote that no roll-up covers yet is still there after a reload, and counts once', async () => {
  const path = await newVote();
  const page = await open(path, ann);
  stack.pause();
  assert.equal(await call(page, 'vote'), 'done');
  await page.load();
  await shows(page, 1);
  assert.equal(await call(page, 'vote'), 'done');
  stack.resume();
  await agree(path, 1, page);
  assert.deepEqual((await shown(page)).calls, [1]);
});

test('a vote that is refused is out of the total again', async () => {
  const path = newCounter();
  await stack.set(path, { num_shards: 5 });
  const page = await open(path, ann);
  assert.equal(await call(page, 'vote'), 'permission-denied');
  assert.deepEqual((await shown(page)).calls, [0, 1, 0]);
  assert.deepEqual(await entries(page, path), []);
  await stack.set(path, { once_per_user: true });
  assert.equal(await call(page, 'vote'), 'done');
  await agree(path, 1, page);
  assert.deepEqual((await shown(page)).calls, [0, 1, 0, 1]);
});
