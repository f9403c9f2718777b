// Likes: once per user, at once, whatever gets lost, offline, and on several devices and tabs.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import {
  browser,
  call,
  entries,
  line,
  micros,
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

/** Whether the server has a user's like. */
const has = async (path, uid) => (await stack.rest('GET', `/${path}/${uid}`)) !== null;

/** Waits until the server has a user's like, or has it no more. */
function arrives(path, uid, liked) {
  return until(
    async () => (await has(path, uid)) === liked,
    () => `the like of ${uid} is not ${liked ? 'there' : 'gone'}`,
  );
}

/** Another user's like, past the rules. */
const like = (path, uid) => stack.set(`${path}/${uid}`, {});

/** Waits until nothing of the pages' own is on the way, and all agree on a total. */
async function agree(path, total, ...pages) {
  for (const page of pages) await shows(page, total);
  await rolledUp(path, total);
  assert.equal(await sum(path), total);
  for (const page of pages) {
    await shows(page, total);
    assert.equal((await shown(page)).error, null);
  }
}

/** Waits until the total was shown one after the other. */
function called(page, ...totals) {
  return until(
    async () => isDeepStrictEqual((await shown(page)).calls, totals),
    async () => `shown ${JSON.stringify(await shown(page))}, want ${totals}`,
  );
}

/** Likes and takes back in a row, without waiting. Returns what resolves when all have arrived. */
const taps = (page, ...methods) =>
  page.evaluate((methods) => Promise.all(methods.map((method) => shown.like[method]())), methods);

/** Waits until a page's listener has been told certain likes, one after the other. */
function told(page, ...likes) {
  const read = () => page.evaluate(() => shown.liked);
  return until(
    async () => isDeepStrictEqual(await read(), likes),
    async () => `it was told ${await read()}, want ${likes}`,
  );
}

/** Has a page listen to the user's own like. */
const listen = (page) => page.evaluate(() => tally.watchLike());

test('once per user, and back', async () => {
  const path = await newLikes();
  const [page, other, bobs] = [await open(path, ann), await open(path, ann), await open(path, bob)];
  assert.equal(await call(page, 'unset'), 'done', 'nothing to take back');
  await taps(page, 'set', 'set');
  assert.equal(await call(page, 'set'), 'done');
  await shows(page, 1);
  assert.equal(await call(bobs, 'set'), 'done');
  await agree(path, 2, page, other, bobs);
  assert.deepEqual((await shown(page)).calls, [0, 1, 2]);

  assert.equal(await call(other, 'set'), 'done');
  assert.equal(await call(other, 'unset'), 'done');
  await agree(path, 1, page, other, bobs);
  assert.equal(Math.max(...(await shown(other)).calls), 2);
  assert.equal(await call(page, 'set'), 'done');
  await agree(path, 2, page, other, bobs);
});

test('quick taps, as roll-ups come: the number is the like, with each SDK and cache', async () => {
  const tapped = async (version, cache) => {
    const path = await newLikes();
    const page = await open(path, { ...ann, version, cache });
    for (let round = 0; round < 8; round++) {
      await taps(page, 'set', 'unset', 'set');
      assert.equal((await shown(page)).last.pending, 0);
      await taps(page, 'unset', 'set', 'unset');
    }
    await taps(page, 'set');
    await agree(path, 1, page);
    await saved(page, path, 0); // all is covered
    const calls = Array.from({ length: 50 }, (_, n) => n % 2);
    assert.deepEqual((await shown(page)).calls, calls, `${version} ${cache}: roll-ups made no difference`);
  };
  const cases = versions.flatMap((version) => ['memory', 'eager', 'persistent'].map((cache) => tapped(version, cache)));
  await Promise.all(cases);
});

test('taken back just as others like: what the total lacks is known, with each SDK and cache', async () => {
  const case_ = async (version, cache) => {
    const path = await newLikes();
    await like(path, 'ann');
    await rolledUp(path, 1);
    const page = await open(path, { ...ann, version, cache });
    await shows(page, 1);
    return { path, page, name: `${version} ${cache}` };
  };
  const pages = await Promise.all(
    versions.flatMap((version) => ['memory', 'eager', 'persistent'].map((cache) => case_(version, cache))),
  );
  stack.pause(); // so that one roll-up has all
  for (const { path, page } of pages) {
    await like(path, 'bob');
    assert.equal(await call(page, 'unset'), 'done');
    await like(path, 'dan');
    assert.deepEqual((await shown(page)).calls, [1, 0]);
  }
  stack.resume();
  for (const { path, page, name } of pages) {
    await agree(path, 2, page);
    assert.deepEqual((await shown(page)).calls, [1, 0, 2], name);
  }
});

test('a like whose answer is lost is a like, and so is one that is taken back', async () => {
  const path = await newLikes();
  const page = await open(path, ann);
  const other = newLikesOfNoPost();
  stack.pause();
  for (const [method, liked] of [
    ['set', true],
    ['unset', false],
  ]) {
    await page.evaluate((other) => tally.call(other, { uid: 'ann' }, 'set'), other); // a session of writes is open
    line.hold();
    const outcome = call(page, method);
    await arrives(path, 'ann', liked);
    await page.evaluate(() => (shown.calls = [shown.last.total]));
    line.lose();
    await online(page);
    assert.equal(await outcome, 'done');
    assert.deepEqual((await shown(page)).calls, [Number(liked)], 'it does not flicker');
    assert.equal((await shown(page)).last.pending, 0);
  }
  stack.resume();
  await agree(path, 0, page);
});

test('a roll-up that comes before the acknowledgement does not count twice', async () => {
  const path = await newLikes();
  const page = await open(path, ann);
  const other = newLikesOfNoPost();
  for (const [method, total] of [
    ['set', 1],
    ['unset', 0],
  ]) {
    await page.evaluate((other) => tally.call(other, { uid: 'ann' }, 'set'), other); // a session of writes is open
    line.hold();
    const outcome = call(page, method);
    await rolledUp(path, total);
    const { tally } = (await stack.rest('GET', `/${placesOf(path).rollUp}`)).fields;
    const asOf = Date.parse(tally.mapValue.fields.as_of.timestampValue);
    await until(
      async () => (await shown(page)).last.asOf >= asOf,
      () => 'the roll-up does not come',
    );
    assert.equal((await shown(page)).last.pending, 1);
    line.restore();
    assert.equal(await outcome, 'done');
    await shows(page, total);
  }
  assert.deepEqual((await shown(page)).calls, [0, 1, 0]);
  await like(path, 'bob');
  await agree(path, 1, page);
});

for (const cache of ['memory', 'multiTab']) {
  test(`two tabs see each other's like at once, before a roll-up has it: ${cache}`, async () => {
    const path = await newLikes();
    const context = await browser.newContext();
    const tabs = [await open(path, { ...ann, context, cache }), await open(path, { ...ann, context, cache })];
    for (const tab of tabs) {
      await listen(tab);
      await told(tab, false);
    }
    stack.pause(); // so that only the listener can tell
    assert.equal(await call(tabs[0], 'set'), 'done');
    for (const tab of tabs) await called(tab, 0, 1);
    assert.equal(await call(tabs[1], 'unset'), 'done');
    for (const tab of tabs) await called(tab, 0, 1, 0);
    assert.equal(await call(tabs[1], 'set'), 'done');
    for (const tab of tabs) await called(tab, 0, 1, 0, 1);
    await like(path, 'bob');
    stack.resume();
    await agree(path, 2, ...tabs);
    for (const tab of tabs) {
      await called(tab, 0, 1, 0, 1, 2);
      await told(tab, false, true, false, true);
    }

    line.cut();
    void call(tabs[0], 'unset');
    await called(tabs[0], 0, 1, 0, 1, 2, 1);
    if (cache === 'multiTab') await called(tabs[1], 0, 1, 0, 1, 2, 1); // they share what waits
    stack.pause(); // the emulator may tell a listener of a roll-up before another of what that counts
    await online(...tabs);
    for (const tab of tabs) await called(tab, 0, 1, 0, 1, 2, 1);
    stack.resume();
    await rolledUp(path, 1);
    for (const tab of tabs) await shows(tab, 1);
    for (const tab of tabs) await called(tab, 0, 1, 0, 1, 2, 1);
    await like(path, 'dan');
    await agree(path, 2, ...tabs);
  });
}

for (const version of versions) {
  test(`two devices of a user like, and take it back: it counts once, ${version}`, async () => {
    const path = await newLikes();
    const [page, phone] = [
      await open(path, { ...ann, version, cache: 'persistent' }),
      await open(path, { ...ann, version }),
    ];
    await Promise.all([page, phone].map((device) => call(device, 'set')));
    await agree(path, 1, page, phone);
    await phone.context().setOffline(true);
    void call(phone, 'unset');
    await until(
      async () => (await shown(phone)).last.pending === 1,
      () => 'not pending',
    );
    assert.equal(await call(page, 'unset'), 'done');
    await agree(path, 0, page);
    await phone.context().setOffline(false);
    await shows(phone, 0);
    for (const device of [page, phone]) assert.deepEqual((await shown(device)).calls, [0, 1, 0]);
    await like(path, 'bob');
    await agree(path, 1, page, phone);
  });
}

test('a like that another device changed can be given and taken back', async () => {
  const path = await newLikes();
  const [page, phone] = [await open(path, { ...ann, cache: 'persistent' }), await open(path, ann)];
  for (const [device, method, total] of [
    [page, 'set', 1],
    [phone, 'unset', 0],
    [page, 'set', 1],
    [phone, 'set', 1],
    [page, 'unset', 0],
    [phone, 'unset', 0],
  ]) {
    assert.equal(await call(device, method), 'done');
    await agree(path, total, page, phone);
  }
});

test('an offline like is sent later, after what another device did', async () => {
  const path = await newLikes();
  const [page, phone, bobs] = [await open(path, ann), await open(path, ann), await open(path, bob)];
  await phone.context().setOffline(true);
  const sent = call(phone, 'set');
  await called(phone, 0, 1);
  assert.equal((await shown(phone)).last.pending, 1);
  for (const method of ['set', 'unset']) assert.equal(await call(page, method), 'done');
  assert.equal(await call(bobs, 'set'), 'done');
  await agree(path, 1, page, bobs);
  await phone.context().setOffline(false);
  assert.equal(await sent, 'done');
  await agree(path, 2, page, phone, bobs);
  assert.deepEqual((await shown(phone)).calls, [0, 1, 2]);
});

test('offline, a like and one that is taken back are still there after a reload, and count once', async () => {
  const path = await newLikes();
  const [page, bobs] = [
    await open(path, { ...ann, cache: 'persistent' }),
    await open(path, { ...bob, cache: 'multiTab' }),
  ];
  assert.equal(await call(bobs, 'set'), 'done');
  await agree(path, 1, page, bobs);
  line.cut();
  await page.evaluate(() => ['set', 'unset', 'set'].forEach((method) => void shown.like[method]()));
  await bobs.evaluate(() => void shown.like.unset());
  await called(page, 0, 1, 2, 1, 2);
  await called(bobs, 0, 1, 0);
  await queued(page, path, 1, 1);
  await saved(bobs, path, 1);
  for (const [reloaded, total] of [
    [page, 2],
    [bobs, 0],
  ]) {
    await reloaded.load();
    await called(reloaded, total);
    assert.equal((await shown(reloaded)).last.pending, 1);
  }
  void call(page, 'set'); // changes nothing
  await online(page, bobs);
  await agree(path, 1, page, bobs);
  assert.deepEqual((await shown(page)).calls.slice(0, 1), [2]);
  assert.ok((await shown(bobs)).calls.every((total) => total <= 1));
});

test('what no roll-up covers yet is still there after a reload, and counts once, with each cache', async () => {
  for (const cache of ['memory', 'persistent']) {
    const path = await newLikes();
    const page = await open(path, { ...ann, cache });
    for (const [method, total] of [
      ['set', 1],
      ['unset', 0],
    ]) {
      stack.pause();
      assert.equal(await call(page, method), 'done');
      await page.load();
      await shows(page, total);
      assert.equal(await call(page, method), 'done');
      stack.resume();
      await agree(path, total, page);
      assert.deepEqual((await shown(page)).calls, [total], `${cache} ${method}`);
    }
  }
});

test('a listener tells the like: of this device and another, offline, and after a reload', async () => {
  const path = await newLikes();
  const [page, phone] = [await open(path, { ...ann, cache: 'persistent' }), await open(path, ann)];
  for (const device of [page, phone]) {
    await listen(device);
    await told(device, false);
  }
  assert.equal(await call(page, 'unset'), 'done', 'which changes nothing');
  assert.equal(await call(page, 'set'), 'done');
  for (const device of [page, phone]) await told(device, false, true);
  assert.equal(await call(page, 'set'), 'done', 'which changes nothing');
  assert.equal(await call(phone, 'unset'), 'done');
  for (const device of [page, phone]) await told(device, false, true, false);
  await agree(path, 0, page, phone);

  line.cut();
  await page.evaluate(() => void shown.like.set());
  await told(page, false, true, false, true);
  await queued(page, path, 1);
  await page.load();
  await listen(page);
  await told(page, true);
  await page.evaluate(() => shown.stopLiked());
  await online(page, phone);
  await told(phone, false, true, false, true);
  await agree(path, 1, page, phone);
  assert.equal(await call(phone, 'unset'), 'done');
  await agree(path, 0, page, phone);
  await told(page, true);
});

test('offline, a like that the memory cache has dropped is still known', async () => {
  const path = await newLikes();
  await like(path, 'ann');
  await rolledUp(path, 1);
  const page = await open(path, { ...ann, cache: 'eager' });
  await listen(page);
  await told(page, true);
  await page.evaluate(() => {
    shown.stopLiked();
    shown.stop();
  });
  await page.evaluate(() => tally.firestore.disableNetwork(tally.db()));
  await listen(page);
  await told(page, true);
  await page.evaluate(() => void shown.like.set());
  await queued(page, path, 1, 0);
  await page.evaluate(() => tally.firestore.enableNetwork(tally.db()));
  await arrives(path, 'ann', true);
  assert.deepEqual((await shown(page)).calls, [1]);
  await told(page, true);
});

test("a signed-out listener, and one of another user's like", async () => {
  const path = await newLikes();
  const [signedOut, bobs] = [await open(path, { options: { uid: '' } }), await open(path, { options: { uid: 'bob' } })];
  for (const page of [signedOut, bobs]) await listen(page);
  await told(signedOut, 'not-signed-in');
  await told(bobs, 'permission-denied');
  assert.deepEqual([(await shown(bobs)).last.total, (await shown(bobs)).error], [0, null], 'the total is told');
});

for (const version of versions) {
  test(`a refused like goes back, and says whether no user is signed in or no rule allows it: ${version}`, async () => {
    const path = await newLikes();
    const page = await open(path, { version, options: { uid: 'bob' } }); // signed in is ann
    const fails = (page, path, method) =>
      page.evaluate(([path, method]) => tally.call(path, { uid: 'bob' }, method), [path, method]);
    const { code, message } = await fails(page, path, 'set');
    assert.equal(code, 'permission-denied');
    assert.ok(message.startsWith(`set() of ${path} as bob was refused: no rule lets the user ann do that.`), message);
    assert.deepEqual((await shown(page)).calls, [0, 1, 0]);
    const outcomes = await page.evaluate(async () => {
      const outcomes = await Promise.allSettled([shown.like.set(), shown.like.unset()]);
      return outcomes.map(({ reason }) => reason?.code);
    });
    assert.deepEqual(outcomes, ['permission-denied', 'permission-denied']);
    await called(page, 0, 1, 0, 1, 0);
    assert.deepEqual(await entries(page, path), []);

    const nobody = await open(path, { version, uid: null, show: false });
    const signedOut = await fails(nobody, path, 'unset');
    assert.equal(signedOut.code, 'not-signed-in', signedOut.message);
    assert.match(signedOut.message, /^unset\(\) of posts\/p\d+\/likes as bob was refused: no user is signed in\./);
  });
}

test('who cheats with likes is refused, and moves no number', async () => {
  const path = await newLikes();
  const [page, bobs] = [await open(path, ann), await open(path, bob)];
  assert.equal(await call(bobs, 'set'), 'done');
  const attempts = await page.evaluate(async (path) => {
    const { collection, deleteDoc, doc, getDocs, serverTimestamp, setDoc, updateDoc } = tally.firestore;
    const at = (uid) => doc(tally.db(), path, uid);
    const attempts = {
      'another field': () => setDoc(at('ann'), { at: serverTimestamp(), text: 'x' }),
      "another's": () => setDoc(at('dan'), { at: serverTimestamp() }),
      "another's, back": () => deleteDoc(at('bob')),
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
    assert.equal(await call(page, 'set'), 'done');
    await shows(page, 1);
    const lasts = async () => [(await shown(page)).last, (await shown(bobs)).last];
    const missing = { asOf: null, pending: 0, missing: true };
    assert.deepEqual(await lasts(), [
      { total: 1, ...missing },
      { total: 0, ...missing },
    ]);
    const read = () => page.evaluate(() => shown.counter.total());
    assert.deepEqual([(await read()).missing, (await read()).total], [true, 1]);
    await page.load();
    await shows(page, 1);

    await stack.set(placesOf(path).rollUp, { stars: 5 });
    await until(
      async () => (await lasts()).every(({ missing }) => !missing),
      async () => `the post is missing still: ${JSON.stringify(await lasts())}`,
    );
    assert.equal(await call(bobs, 'set'), 'done');
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
    tally.total(post.path, 'comments').onTotal(({ total }) => (shown.comments = total));
  }, path);
  assert.equal(await call(page, 'set'), 'done');
  await agree(path, 1, page);
  const listeners = line
    .sent()
    .slice(before)
    .split(`"documents":["projects/${stack.project}/databases/(default)/documents/${placesOf(path).rollUp}"]`);
  assert.equal(listeners.length - 1, 1);
  line.cut();
  await page.evaluate(() => void shown.edit('edited'));
  void call(page, 'unset');
  await called(page, 0, 1, 0);
  await online(page);
  await agree(path, 0, page);
  assert.deepEqual((await shown(page)).calls, [0, 1, 0]);
  assert.equal(await page.evaluate(() => shown.titles.at(-1)), 'edited');
  assert.equal(await page.evaluate(() => shown.comments), 0, 'a like is in no other total');
});

test('several likes and totals in one page, in any order; one that nobody listens to any more costs nothing', async () => {
  const [path, other] = [await newLikes(), await newLikes()];
  const page = await open(path, { ...ann, cache: 'persistent' });
  stack.pause();
  await page.evaluate(
    async ([path, other]) => {
      const likes = [path, other].map((path) => tally.like(path, { uid: 'ann' }));
      await Promise.all(likes.map((like) => like.set()));
      shown.others = [];
      const [above] = other.split('/likes');
      shown.stopOthers = tally.total(above, 'likes').onTotal(({ total }) => shown.others.push(total));
    },
    [path, other],
  );
  await called(page, 0, 1);
  const others = () => page.evaluate(() => shown.others);
  await until(
    async () => (await others()).at(-1) === 1,
    async () => `shown ${await others()}`,
  );
  assert.ok((await others()).length <= 2, 'it may be told before its like is known');
  const before = line.sent().length;
  await page.evaluate(() => {
    shown.stopOthers();
    shown.stop();
  });
  await until(
    () => line.sent().slice(before).split('"removeTarget"').length === 5,
    () => `the listeners of two totals and two likes are left open: ${line.sent().slice(before)}`,
  );
  stack.resume();
});

test('the time of a like is that of its document at the server, and of one taken back hardly later', async () => {
  const timed = async (version, cache) => {
    const path = await newLikes();
    const page = await open(path, { ...ann, version, cache });
    await shows(page, 0);
    return { path, page, name: `${version} ${cache}` };
  };
  const pages = await Promise.all(
    versions.flatMap((version) => ['memory', 'eager', 'persistent', 'multiTab'].map((cache) => timed(version, cache))),
  );
  stack.pause(); // or a roll-up covers them
  for (const { path, page, name } of pages) {
    const changes = async (n) => {
      const kept = async () => (await entries(page, path))[0]?.changes ?? [];
      await until(
        async () => (await kept()).length === n && (await kept()).every(({ by }) => by !== null),
        async () => `${name}: ${JSON.stringify(await kept())}`,
      );
      return kept();
    };
    assert.equal(await call(page, 'set'), 'done');
    const { createTime } = await stack.rest('GET', `/${path}/ann`);
    await until(
      async () => (await changes(1))[0].after === micros(createTime) - 1,
      async () => `${name}: ${JSON.stringify(await changes(1))}, created ${createTime}`,
    );
    const before = micros((await stack.set(`${path}/before`, {})).updateTime);
    assert.equal(await call(page, 'unset'), 'done');
    const after = micros((await stack.set(`${path}/after`, {})).updateTime);
    const [, { by }] = await changes(2);
    assert.ok(before < by && by < after + 1e6, `${name}: ${before} < ${by} < ${after}`);
  }
  stack.resume();
});
