// Votes, in counters and as likes of posts: once per user, whatever gets lost, and on several devices.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import {
  call,
  entries,
  line,
  newCounter,
  newLikes,
  newLikesOfNoPost,
  online,
  open,
  placesOf,
  queued,
  rolledUp,
  saved,
  shown,
  shows,
  stack,
  sum,
  versions,
} from './pages.mjs';
import { until } from './stack.mjs';

const ann = { options: { uid: 'ann' } };
const bob = { uid: 'bob', options: { uid: 'bob' } };

/** A counter that each user moves once. */
async function newVotes() {
  const path = newCounter();
  await stack.set(path, { once_per_user: true });
  return path;
}

/** A test of a counter's votes, and of a post's likes. It is given what makes a new one of them. */
function testBoth(name, run) {
  test(`votes: ${name}`, () => run(newVotes));
  test(`likes: ${name}`, () => run(newLikes));
}

/** The path of a user's vote. */
const voteAt = (path, uid) => `${placesOf(path).documents}/${uid}`;

/** The vote that the server has; null: none. */
async function voteOf(path, uid) {
  const document = await stack.rest('GET', `/${voteAt(path, uid)}`);
  return document && Number(document.fields[placesOf(path).field].integerValue);
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
  assert.equal(await sum(path), total);
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

testBoth('once per user, and back', async (newVote) => {
  const path = await newVote();
  const [page, other, bobs] = [await open(path, ann), await open(path, ann), await open(path, bob)];
  assert.equal(await call(page, 'hasVoted'), false);
  assert.equal(await call(page, 'unvote'), 'done', 'nothing to take back');
  await moves(page, 'vote', 'vote');
  assert.equal(await call(page, 'hasVoted'), true);
  assert.equal(await call(page, 'vote'), 'done');
  assert.equal(await call(bobs, 'vote'), 'done');
  assert.equal(await call(bobs, 'increment'), newVote === newLikes ? 'invalid-argument' : 'permission-denied');
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

testBoth('whether the user has voted is one document', async (newVote) => {
  const path = await newVote();
  await stack.set(voteAt(path, 'ann'), { [placesOf(path).field]: 1 });
  const page = await open(path, ann);
  const before = line.sent().length;
  assert.equal(await call(page, 'hasVoted'), true);
  const read = line
    .sent()
    .slice(before)
    .match(/"documents":\[[^\]]*\]/g);
  assert.deepEqual(read, [
    `"documents":["projects/${stack.project}/databases/(default)/documents/${voteAt(path, 'ann')}"]`,
  ]);
});

testBoth('given, taken back and given, as roll-ups come: the number is the vote, with each cache', async (newVote) => {
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

testBoth('a vote whose answer is lost is a vote, and so is one that is taken back', async (newVote) => {
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
  testBoth(`two devices of a user vote, and take the vote back: it counts once, ${version}`, async (newVote) => {
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
    const { updateTime } = await stack.rest('GET', `/${voteAt(path, 'ann')}`);
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

testBoth('a vote that another device changed can be given and taken back', async (newVote) => {
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

testBoth('an offline vote is sent later, after what another device did', async (newVote) => {
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

testBoth('a vote that waits is still there after a reload, and counts once', async (newVote) => {
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

testBoth('a vote that no roll-up covers yet is still there after a reload, and counts once', async (newVote) => {
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

test('votes in a row that are all refused leave the vote as it was', async () => {
  const path = newCounter();
  await stack.set(path, { once_per_user: true, frozen: true });
  const page = await open(path, ann);
  const codes = await page.evaluate(async () => {
    const outcomes = await Promise.allSettled([shown.counter.vote(), shown.counter.unvote()]);
    return outcomes.map(({ reason }) => reason?.code);
  });
  assert.deepEqual(codes, ['permission-denied', 'permission-denied']);
  assert.deepEqual((await shown(page)).calls, [0, 1, 0]);
  assert.deepEqual(await entries(page, path), []);

  await stack.set(path, { once_per_user: true });
  stack.pause(); // so that only the page's own knowledge moves the number
  assert.equal(await call(page, 'vote'), 'done');
  await shows(page, 1);
  stack.resume();
  await agree(path, 1, page);
});

/** Waits until a page's listener has been told certain votes, one after the other. */
function told(page, ...votes) {
  const read = () => page.evaluate(() => shown.voted);
  return until(
    async () => isDeepStrictEqual(await read(), votes),
    async () => `it was told ${await read()}, want ${votes}`,
  );
}

/** Has a page listen to the user's own vote. */
const listen = (page) => page.evaluate(() => tally.watchVote());

testBoth('a listener tells the vote: of this device and another, offline, and after a reload', async (newVote) => {
  const path = await newVote();
  const [page, phone] = [await open(path, { ...ann, cache: 'persistent' }), await open(path, ann)];
  for (const device of [page, phone]) {
    await listen(device);
    await told(device, false);
  }
  assert.equal(await call(page, 'unvote'), 'done', 'which changes nothing');
  assert.equal(await call(page, 'vote'), 'done');
  for (const device of [page, phone]) await told(device, false, true);
  assert.equal(await call(page, 'vote'), 'done', 'which changes nothing');
  assert.equal(await call(phone, 'unvote'), 'done');
  for (const device of [page, phone]) await told(device, false, true, false);
  await agree(path, 0, page, phone);

  await page.context().setOffline(true);
  void call(page, 'vote');
  await told(page, false, true, false, true);
  await queued(page, path, 1);
  await page.context().setOffline(false);
  await told(phone, false, true, false, true);
  await agree(path, 1, page, phone);

  line.cut();
  await page.load();
  await listen(page);
  await told(page, true);
  await page.evaluate(() => shown.stopVoted());
  await online(page, phone);
  assert.equal(await call(phone, 'unvote'), 'done');
  await agree(path, 0, page, phone);
  await told(page, true);
});

testBoth('offline, a vote that the memory cache has dropped is still known', async (newVote) => {
  const path = await newVote();
  await stack.set(voteAt(path, 'ann'), { [placesOf(path).field]: 1 });
  await rolledUp(path, 1);
  const page = await open(path, { ...ann, cache: 'eager' });
  await shows(page, 1);
  assert.equal(await call(page, 'hasVoted'), true);

  await page.evaluate(() => tally.firestore.disableNetwork(tally.db()));
  await listen(page);
  await told(page, true);
  await page.evaluate(() => void shown.counter.vote());
  await queued(page, path, 1, 0);
  assert.deepEqual((await shown(page)).calls, [1]);
  await page.evaluate(() => tally.firestore.enableNetwork(tally.db()));
  await agree(path, 1, page);
  assert.deepEqual((await shown(page)).calls, [1]);
  await told(page, true);
});

testBoth('with a listener, a vote that another device took back is given again at once', async (newVote) => {
  const path = await newVote();
  const [page, phone] = [await open(path, ann), await open(path, ann)];
  await listen(page);
  await told(page, false);
  assert.equal(await call(page, 'vote'), 'done');
  await agree(path, 1, page, phone);
  assert.equal(await call(phone, 'unvote'), 'done');
  await agree(path, 0, page, phone);
  await told(page, false, true, false);

  stack.pause(); // so that only the page's own knowledge moves the number
  assert.equal(await call(page, 'vote'), 'done');
  await shows(page, 1);
  await told(page, false, true, false, true);
  assert.equal(await call(phone, 'unvote'), 'done');
  await told(page, false, true, false, true, false);
  assert.equal(await call(page, 'vote'), 'done');
  await shows(page, 1);
  stack.resume();
  await agree(path, 1, page, phone);
  assert.deepEqual((await shown(page)).calls, [0, 1, 0, 1]);
});

test("a signed-out listener, and one of another user's vote", async () => {
  const path = await newLikes();
  const [signedOut, bobs] = [await open(path), await open(path, { options: { uid: 'bob' } })];
  for (const page of [signedOut, bobs]) await listen(page);
  await told(signedOut, 'not-signed-in');
  await told(bobs, 'permission-denied');
});

test('a refused listener of a vote on its way ends no other: the total is still told', async () => {
  const path = await newLikes();
  const [page, bobs] = [await open(path, { options: { uid: 'bob' } }), await open(path, bob)]; // the first is ann's
  line.hold();
  const refused = call(page, 'vote');
  await queued(page, path, 1);
  await listen(page);
  await told(page, true, 'permission-denied');
  line.restore();
  assert.equal(await refused, 'permission-denied');
  assert.equal(await call(bobs, 'vote'), 'done');
  await agree(path, 1, page, bobs);
});

for (const version of versions) {
  test(`a refused like says whether no user is signed in or no rule allows it: ${version}`, async () => {
    const path = await newLikes();
    const ruled = 'unruled/7/likes';
    const fails = async (uid, path) => {
      const page = await open(path, { version, uid, show: false });
      return page.evaluate((path) => tally.call(path, { uid: 'ann' }, 'vote'), path);
    };
    const signedOut = await fails(null, path);
    assert.equal(signedOut.code, 'not-signed-in', signedOut.message);
    assert.match(signedOut.message, /^vote\(\) of posts\/p\d+\/likes as ann was refused: no user is signed in\./);
    const unruled = await fails('ann', ruled);
    assert.equal(unruled.code, 'permission-denied', unruled.message);
    assert.ok(unruled.message.includes(`no rule lets the user ann do that`), unruled.message);
  });
}

test('a like that is refused is out of the total again', async () => {
  const path = await newLikes();
  const page = await open(path, { options: { uid: 'bob' } }); // signed in is ann
  const before = line.sent().length;
  const { code, message } = await page.evaluate((path) => tally.call(path, { uid: 'bob' }, 'vote'), path);
  assert.equal(code, 'permission-denied');
  assert.ok(message.includes(`vote() of ${path} as bob was refused: no rule lets the user ann do that`), message);
  assert.deepEqual((await shown(page)).calls, [0, 1, 0]);
  assert.deepEqual(await entries(page, path), []);
  assert.doesNotMatch(line.sent().slice(before), /"documents":\[/, 'a post does not say why: it is not read');
});

test('who cheats with likes is refused, and moves no number', async () => {
  const path = await newLikes();
  const [page, bobs] = [await open(path, ann), await open(path, bob)];
  assert.equal(await call(bobs, 'vote'), 'done');
  const attempts = await page.evaluate(async (path) => {
    const { collection, deleteDoc, doc, getDocs, increment, setDoc, updateDoc } = tally.firestore;
    const at = (uid) => doc(tally.db(), path, uid);
    const attempts = {
      'more than one': () => setDoc(at('ann'), { on: 1000 }),
      'less than none': () => setDoc(at('ann'), { on: -1 }),
      'one more': () => setDoc(at('ann'), { on: increment(2) }),
      'another field': () => setDoc(at('ann'), { on: 1, text: 'x' }),
      "another's": () => setDoc(at('dan'), { on: 1 }),
      "another's, back": () => setDoc(at('bob'), { on: 0 }),
      'a deletion': () => deleteDoc(at('ann')),
      'the total': () => updateDoc(collection(tally.db(), path).parent, { likes: 1000 }),
      'who liked': () => getDocs(collection(tally.db(), path)),
    };
    const outcomes = {};
    for (const [name, attempt] of Object.entries(attempts)) {
      outcomes[name] = await attempt().then(
        () => 'done',
        ({ code }) => code,
      );
    }
    return outcomes;
  }, path);
  for (const [name, outcome] of Object.entries(attempts)) assert.equal(outcome, 'permission-denied', name);
  await agree(path, 1, page, bobs);
  assert.deepEqual((await shown(bobs)).calls, [0, 1]);
});

for (const version of versions) {
  test(`likes of a post that does not exist: all are told, and told when the app has created it: ${version}`, async () => {
    const path = newLikesOfNoPost();
    const [page, bobs] = [await open(path, { ...ann, version }), await open(path, { ...bob, version })];
    assert.equal(await call(page, 'vote'), 'done');
    await shows(page, 1);
    const lasts = async () => [(await shown(page)).last, (await shown(bobs)).last];
    const missing = { asOf: null, pending: 0, missing: true };
    assert.deepEqual(await lasts(), [
      { total: 1, ...missing },
      { total: 0, ...missing },
    ]);
    assert.equal((await page.evaluate((path) => tally.counter(path).total(), path)).missing, true);

    await stack.set(placesOf(path).rollUp, { stars: 5 });
    await until(
      async () => (await lasts()).every(({ missing }) => !missing),
      async () => `the post is missing still: ${JSON.stringify(await lasts())}`,
    );
    assert.equal((await page.evaluate((path) => tally.counter(path).total(), path)).missing, false);
    assert.equal(await call(bobs, 'vote'), 'done');
    await agree(path, 2, page, bobs);
  });
}

test('likes in a post that the app edits and listens to itself: the post is read once, and the number stays', async () => {
  const path = await newLikes();
  const before = line.sent().length;
  const page = await open(path, { ...ann, cache: 'persistent' });
  await page.evaluate((path) => {
    const { collection, onSnapshot, updateDoc } = tally.firestore;
    const post = collection(tally.db(), path).parent;
    shown.titles = [];
    onSnapshot(post, (snapshot) => shown.titles.push(snapshot.get('title')));
    shown.edit = (title) => updateDoc(post, { title });
  }, path);
  assert.equal(await call(page, 'vote'), 'done');
  await agree(path, 1, page);
  const listeners = line
    .sent()
    .slice(before)
    .split(`"documents":["projects/${stack.project}/databases/(default)/documents/${placesOf(path).rollUp}"]`);
  assert.equal(listeners.length - 1, 1);
  line.cut();
  await page.evaluate(() => void shown.edit('edited'));
  void call(page, 'unvote');
  await queued(page, path, 1);
  assert.deepEqual((await shown(page)).calls, [0, 1, 0]);
  await online(page);
  await agree(path, 0, page);
  assert.deepEqual((await shown(page)).calls, [0, 1, 0]);
  assert.equal(await page.evaluate(() => shown.titles.at(-1)), 'edited');
});
