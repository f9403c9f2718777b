// Runs the recipes of docs/recipes.md as they stand there: all routes of the page, and the web SDK
// under firestore.rules with all blocks of that page and of docs/security-rules.md. e2e/rules attacks
// those blocks.
//
// recipes-init.test.mjs runs the same code under the rules that tally init writes for the page's
// routes, with its questions answered as the recipes do. Nothing else of these rules is changed, so
// whatever fails without an answer is a question that tally init lists. TestHonestUnderInit of
// e2e/rules says which these are, and TestLaw attacks rules of init.
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { isDeepStrictEqual, promisify } from 'node:util';
import { deleteApp, initializeApp } from 'firebase/app';
import {
  collection,
  connectFirestoreEmulator,
  deleteDoc,
  doc,
  getDoc,
  getDocs,
  getFirestore,
  increment,
  limit,
  onSnapshot,
  orderBy,
  query,
  runTransaction,
  serverTimestamp,
  setDoc,
  setLogLevel,
  updateDoc,
  where,
} from 'firebase/firestore';
import { patience, startStack, until } from '../../clients/web/e2e/stack.mjs';
import { startLine } from './line.mjs';
import { below, blocks, imported } from './markdown.mjs';

const run = promisify(execFile);
const read = (path) => readFile(new URL(`../../${path}`, import.meta.url), 'utf8');
const [recipes, security, rulesFile] = await Promise.all(['docs/recipes.md', 'docs/security-rules.md', 'firestore.rules'].map(read));
const page = recipes + security;

/** Imports the only JavaScript below a heading. Packages resolve from this folder. */
async function recipe(heading) {
  const code = blocks(below(heading, page), 'js').filter((block) => block.startsWith('import '));
  assert.equal(code.length, 1, `blocks of JavaScript below ${heading}`);
  return imported(code[0]);
}
const { watch, top } = await recipe('Show totals');
const { like, unlike, comment: commentOn } = await recipe('Likes and comments in a post');

const underInit = process.env.RULES_OF === 'init';
const routes = blocks(page, '').join('');

/** firestore.rules with the blocks of both pages. */
function rulesOfPage() {
  const all = blocks(page, 'js').filter((block) => block.startsWith('match '));
  const rollUps = '    match /rollups/{counter} {\n';
  assert.equal(rulesFile.split(rollUps).length, 2);
  return rulesFile.replace(rollUps, () => all.join('\n') + rollUps);
}

/** What the recipes answer, by how a question begins. Else they do what the question proposes. */
const answers = {
  'who gets ': 'true',
  'who lists ': 'listsAtMost(100)',
  'who else gets ': 'true',
  'who changes posts/{post}': 'mayWrite()',
  'who changes songs/{song}': 'mayWrite()',
  'what users may write into size': "request.resource.data.size == request.resource.data['text'].size()",
  'which parent the document may have': 'true',
  'who changes threads/': 'mayWrite() && resource.data.by == request.auth.uid',
  'whose id followee may be': 'true',
  'who changes follows/': 'mayWrite() && resource.data.follower == request.auth.uid',
  'who deletes follows/': 'mayWrite() && resource.data.follower == request.auth.uid',
  'who writes kind == ': 'true',
  'who creates rooms/{room}/members/': 'mayWrite() && request.auth.uid == user',
  'who writes value == ': 'true',
  'whose id to may be': 'true',
  'who changes chats/{chat}/inbox/': 'mayWrite() && resource.data.to == request.auth.uid',
  'who deletes chats/{chat}/inbox/': 'mayWrite() && resource.data.to == request.auth.uid',
  'who deletes tags/{tag}/stories/': 'get(/databases/$(database)/documents/stories/$(story)).data.by == request.auth.uid',
};

/** The rules that tally init writes for the page's routes, with the recipes' answers. */
async function rulesOfInit() {
  const folder = join(dir, 'init');
  await mkdir(folder);
  await run(process.env.TALLY, ['init', '--routes', routes], { cwd: folder });
  const unused = new Set(Object.keys(answers));
  const lines = (await readFile(join(folder, 'firestore.rules'), 'utf8')).split('\n').map((line) => {
    const [, open, question] = line.match(/^(.*) \/\/ decide: (.*)$/) ?? [];
    if (!question) return line;
    const begins = Object.keys(answers).filter((text) => question.startsWith(text)).at(-1);
    unused.delete(begins);
    const answer = answers[begins] ?? question.match(/, such as (.*)$/)?.[1];
    return answer ? open.replace(/(false|request\.auth\.uid == \w+|\(isLeft\(.*\)|request\.resource\.data\.get\('.*', null\) != .*?)(;?)$/, (_, was, end) => answer + end) : line;
  });
  assert.deepEqual([...unused], [], 'questions that tally init does not ask');
  return lines.join('\n').replace(/(match \/players\/\{player\} \{\n.*\n.*listsAtMost\()100/, (_, before) => `${before}1000`); // as the recipe says
}

let stack, dir;
before(async () => {
  dir = await mkdtemp(join(tmpdir(), 'tally-recipes-'));
  await writeFile(join(dir, 'firestore.rules'), underInit ? await rulesOfInit() : rulesOfPage());
  stack = await startStack({
    project: underInit ? 'demo-recipes-init' : 'demo-recipes',
    flags: ['--rules', join(dir, 'firestore.rules')],
    env: { TALLY_ROUTES: routes },
  });
});
after(async () => {
  await stack?.stop();
  await rm(dir, { recursive: true });
});

/** A database as the user sees it; 'owner' is past the rules, as servers are. */
function web(t, user, port = stack.port, projectId = stack.project) {
  const db = getFirestore(initializeApp({ projectId }, `${t.name} ${user}`));
  connectFirestoreEmulator(db, stack.host, port, { mockUserToken: user === 'owner' ? user : { sub: user } });
  t.after(() => deleteApp(db.app));
  return db;
}

/**
 * Waits until a document is there. The emulator may tell a client for minutes that a document that
 * was about to appear does not exist, so one is watched only then. A query may be watched before.
 */
const appeared = (path) => until(() => stack.rest('GET', `/${path}`), () => `no ${path} appears`);

/** Watches until the end of the test. Returns a function that waits until it shows want. */
async function watching(t, watch) {
  let last, shown, notify;
  await new Promise((began) => {
    notify = began;
    t.after(watch((...values) => ((last = values), (shown = true), notify())));
  });
  assert.ok(shown);
  return async (...want) => {
    const deadline = setTimeout(() => notify(new Error('too late')), patience);
    try {
      while (!isDeepStrictEqual(last, want)) {
        const late = await new Promise((resolve) => (notify = resolve));
        if (late) assert.deepEqual(last, want);
      }
    } finally {
      clearTimeout(deadline);
    }
  };
}

setLogLevel('silent'); // refusals and lost connections are expected
const denied = { code: 'permission-denied' };

/** Sees that the rules of the recipe refuse a request. Those of tally init have tests of their own. */
async function refused(attack) {
  if (!underInit) await assert.rejects(attack, denied);
}

test('likes and comments in a post', async (t) => {
  const [alice, bob] = [web(t, 'alice'), web(t, 'bob')];
  const shows = await watching(t, (show) =>
    top(bob, 'posts', 'likes', (posts) => show(posts.map(({ id, title, likes, comments = 0 }) => [id, title, likes, comments]))),
  );
  for (const id of ['p', 'q', 'r']) await setDoc(doc(alice, 'posts', id), { title: id, likes: 0 });

  await Promise.all([like(alice, 'posts/p', 'alice'), like(bob, 'posts/p', 'bob'), like(bob, 'posts/p', 'bob'), like(bob, 'posts/q', 'bob')]);
  const said = await commentOn(alice, 'p', 'alice', 'First!');
  await shows([['p', 'p', 2, 1], ['q', 'q', 1, 0], ['r', 'r', 0, 0]]);
  await updateDoc(doc(alice, 'posts', 'p'), { title: 'edited' });
  await Promise.all([unlike(alice, 'posts/p', 'alice'), like(alice, 'posts/q', 'alice')]);
  await shows([['q', 'q', 2, 0], ['p', 'edited', 1, 1], ['r', 'r', 0, 0]]);

  for (const attack of [
    () => updateDoc(doc(alice, 'posts', 'p'), { likes: 1000 }),
    () => updateDoc(doc(alice, 'posts', 'p'), { comments: increment(1) }),
    () => updateDoc(doc(bob, said.path), { text: 'Second!' }),
    () => setDoc(doc(alice, 'posts/r/likes/alice'), { at: 'text' }),
    () => like(alice, 'posts/r', 'bob'),
    () => unlike(alice, 'posts/q', 'bob'),
  ])
    await refused(attack);
  await deleteDoc(said);
  await shows([['q', 'q', 2, 0], ['p', 'edited', 1, 0], ['r', 'r', 0, 0]]);
});

test('likes that show at once', async (t) => {
  const { showLikes } = await recipe('Likes that show at once');
  const [alice, bob] = [web(t, 'alice'), web(t, 'bob')];
  for (const post of ['shown', 'other']) await setDoc(doc(alice, 'posts', post), { title: post, likes: 0 });

  /** The likes of a post as a page shows them to a user. */
  async function likesOf(post, db, uid) {
    const [number, button] = [{}, {}];
    t.after(showLikes(db, post, uid, number, button));
    const likes = {
      click: () => button.onclick(),
      shows: (total, own) =>
        until(
          () => number.textContent === total && button.ariaPressed === String(own),
          () => `${uid} sees ${JSON.stringify({ number, button })} of ${post}, want ${total} and ${own}`,
        ),
    };
    await likes.shows(0, false);
    return likes;
  }
  const [own, others, other] = [await likesOf('shown', alice, 'alice'), await likesOf('shown', bob, 'bob'), await likesOf('other', bob, 'bob')];
  const clicks = [own.click(), other.click()];
  await Promise.all([own.shows(1, true), others.shows(1, false), other.shows(1, true)]);
  await Promise.all(clicks);
  await like(bob, 'posts/shown', 'bob'); // by another app of theirs
  await Promise.all([own.shows(2, true), others.shows(2, true)]);
  await Promise.all([own.click(), others.click()]);
  await Promise.all([own.shows(0, false), others.shows(0, false)]);
});

test("a site's statistics in one document", async (t) => {
  const { join } = await recipe("A site's statistics in one document");
  const [alice, bob] = [web(t, 'alice'), web(t, 'bob')];
  let last = {};
  t.after(watch(bob, 'stats/site', (totals) => (last = totals)));
  const before = (await getDoc(doc(bob, 'stats/site'))).data() ?? {};
  await Promise.all([join(alice, 'alice', 'Alice'), join(bob, 'bob', 'Bob'), join(bob, 'bob', 'Bobby')]);
  await setDoc(doc(alice, 'posts/of-the-site'), { title: 'p', likes: 0 });
  await until(
    () => last.users === 2 && last.posts > (before.posts ?? 0) && last.likes >= 0,
    () => JSON.stringify({ before, last }),
  );
  for (const attack of [
    () => join(alice, 'bob', 'Alice'),
    () => setDoc(doc(alice, 'stats/site'), { users: 1000 }),
  ])
    await refused(attack);
});

test('counts by owner', async (t) => {
  const { write, edit } = await recipe('Counts by owner');
  const [alice, bob, owner] = [web(t, 'alice'), web(t, 'bob'), web(t, 'owner')];
  for (const user of ['alice', 'bob']) await setDoc(doc(owner, 'accounts', user), { notes: 0 });
  const aliceHas = await watching(t, (show) => watch(alice, 'accounts/alice', ({ notes = 0, size = 0 }) => show(notes, size)));
  const bobHas = await watching(t, (show) => watch(bob, 'accounts/bob', ({ notes = 0, size = 0 }) => show(notes, size)));
  const notes = await Promise.all([write(alice, 'alice', 'one'), write(alice, 'alice', 'three'), write(bob, 'bob', 'ä')]);
  await Promise.all([aliceHas(2, 8), bobHas(1, 1)]);
  await edit(notes[0], '');
  await aliceHas(2, 5);
  await deleteDoc(notes[1]);
  await aliceHas(1, 0);
  await updateDoc(doc(owner, notes[0].path), { owner: 'bob' }); // a server may
  await Promise.all([aliceHas(0, 0), bobHas(2, 1)]);
  for (const attack of [
    () => write(alice, 'bob', 'as another'),
    () => setDoc(doc(alice, 'notes/x'), { owner: 'alice', text: 'a', size: -1000 }),
    () => updateDoc(doc(alice, 'accounts/alice'), { size: 0 }),
    () => getDoc(doc(alice, 'accounts/bob')),
  ])
    await refused(attack);
});

test('replies', async (t) => {
  const { say, edit, answers } = await recipe('Replies');
  const [alice, bob, owner] = [web(t, 'alice'), web(t, 'bob'), web(t, 'owner')];
  const first = await say(alice, 't', 'alice', 'first');
  const top = await watching(t, (show) => answers(bob, 't', null, (all) => show(all.map((c) => [c.text, c.replies]))));
  await top([['first', 0]]);
  const [second, third] = await Promise.all([say(bob, 't', 'bob', 'second', first.id), say(alice, 't', 'alice', 'third', first.id)]);
  await top([['first', 2]]);
  const below = await watching(t, (show) => answers(alice, 't', second.id, (all) => show(all.map((c) => c.text))));
  await say(bob, 't', 'bob', 'fourth', second.id);
  await below(['fourth']);
  const ofSecond = await watching(t, (show) => watch(bob, second.path, ({ replies }) => show(replies)));
  await ofSecond(1);
  await edit(first, '');
  await top([['', 2]]);
  await updateDoc(doc(owner, third.path), { parent: second.id }); // a server may
  await Promise.all([top([['', 1]]), ofSecond(2)]);
  for (const attack of [
    () => say(alice, 't', 'bob', 'as another'),
    () => say(alice, 't', 'alice', 'to none', 'gone'),
    () => updateDoc(doc(alice, first.path), { replies: 5 }),
    () => deleteDoc(doc(alice, first.path)),
  ])
    await refused(attack);
});

test('sales by day, and totals of any size', async (t) => {
  const { daysOf } = await recipe('Sales by day, and totals of any size');
  const [alice, bob, owner] = [web(t, 'alice'), web(t, 'bob'), web(t, 'owner')];
  await setDoc(doc(owner, 'stores/s'), { owner: 'alice' });
  await setDoc(doc(owner, 'stores/r'), { owner: 'bob' });
  const inS = await watching(t, (show) => watch(alice, 'stores/s', ({ sales = 0, revenue = 0 }) => show(sales, revenue)));
  const inR = await watching(t, (show) => watch(bob, 'stores/r', ({ sales = 0, revenue = 0 }) => show(sales, revenue)));
  const sells = (id, store, amount, at) => setDoc(doc(owner, 'sales', id), { store, amount, at: new Date(at) });
  await Promise.all([
    sells('1', 's', 100, '2026-11-26T23:59:59.999Z'),
    sells('2', 's', 20, '2026-11-27T00:00:00Z'),
    sells('3', 's', 3, '2026-11-27T12:00:00Z'),
    sells('4', 's', 5000, '2026-12-01T00:00:00Z'),
    sells('5', 'r', 7, '2026-11-27T00:00:00Z'),
  ]);
  await Promise.all([inS(4, 5123), inR(1, 7)]);
  const days = async () => Object.fromEntries(await daysOf(alice, 's', '2026-11-01', '2026-11-30'));
  const november = { '2026-11-26': { sales: 1, revenue: 100 }, '2026-11-27': { sales: 2, revenue: 23 } };
  assert.deepEqual(await days(), november);

  await updateDoc(doc(owner, 'sales/3'), { at: new Date('2026-11-26T12:00:00Z'), amount: 4 }); // to another day
  await updateDoc(doc(owner, 'sales/4'), { store: 'r' });
  await Promise.all([inS(3, 124), inR(2, 5007)]);
  assert.deepEqual(await days(), { '2026-11-26': { sales: 2, revenue: 104 }, '2026-11-27': { sales: 1, revenue: 20 } });
  for (const attack of [
    () => daysOf(bob, 's', '2026-11-01', '2026-11-30'),
    () => getDoc(doc(bob, 'stores/s')),
    () => updateDoc(doc(alice, 'stores/s'), { revenue: 1000 }),
    () => setDoc(doc(alice, 'stores/s/days/2026-11-28'), { revenue: 1000 }),
  ])
    await refused(attack);
});

test('tokens by user and month', async (t) => {
  const [alice, bob, owner] = [web(t, 'alice'), web(t, 'bob'), web(t, 'owner')];
  for (const user of ['alice', 'bob']) await setDoc(doc(owner, 'customers', user), { name: user });
  const months = await watching(t, (show) =>
    onSnapshot(collection(owner, 'customers/alice/months'), ({ docs }) => show(Object.fromEntries(docs.map((d) => [d.id, [d.get('tokens'), d.get('calls')]])))),
  );
  const uses = (user, tokens, at) => setDoc(doc(collection(owner, 'usage')), { user, tokens, at });
  await Promise.all([
    uses('alice', 100, new Date()),
    uses('alice', 20, new Date()),
    uses('alice', 3, new Date('2025-10-31T23:59:59Z')),
    uses('alice', 4, new Date('2025-11-01T00:00:00Z')),
    uses('bob', 1000, new Date()),
  ]);
  await months({ [new Date().toISOString().slice(0, 7)]: [120, 2], '2025-10': [3, 1], '2025-11': [4, 1] });
  const october = await watching(t, (show) => watch(alice, 'customers/alice/months/2025-10', ({ tokens = 0, calls = 0 }) => show(tokens, calls)));
  await october(3, 1);
  for (const attack of [
    () => setDoc(doc(collection(alice, 'usage')), { user: 'bob', tokens: 1000, at: new Date() }),
    () => getDoc(doc(bob, 'customers/alice/months/2025-10')),
    () => updateDoc(doc(alice, 'customers/alice/months/2025-10'), { tokens: 0 }),
  ])
    await refused(attack);
});

test('a board for each week', { skip: underInit && 'tally init opens no collection group' }, async (t) => {
  const { bestOf, rankOf } = await recipe('A board for each week');
  const [alice, owner] = [web(t, 'alice'), web(t, 'owner')];
  const best = await watching(t, (show) => bestOf(alice, '2026-W48', (all) => show(...all.map(({ racer, points }) => `${racer} ${points}`))));
  for (const racer of ['ann', 'bob', 'cy']) await setDoc(doc(owner, 'racers', racer), {});
  const laps = (racer, points, at) => setDoc(doc(collection(owner, 'laps')), { racer, points, at: new Date(at) });
  await Promise.all([
    laps('ann', 1000, '2026-11-22T14:59:59Z'), // on Sunday
    laps('ann', 3, '2026-11-22T15:00:00Z'), // Tokyo's Monday
    laps('bob', 5, '2026-11-25T12:00:00Z'),
    laps('cy', 4, '2026-11-29T14:59:59Z'),
    laps('cy', 1000, '2026-11-29T15:00:00Z'),
    setDoc(doc(owner, 'seasons/1/weeks/x'), { week: '2026-W48', points: 999 }), // another collection of the name
  ]);
  await best('bob 5', 'cy 4', 'ann 3');
  assert.equal(await rankOf(alice, '2026-W48', 4), 3); // the other collection's counts, too
  await laps('ann', 4, '2026-11-26T12:00:00Z');
  await best('ann 7', 'bob 5', 'cy 4');
  for (const attack of [
    () => updateDoc(doc(alice, 'racers/ann/weeks/2026-W48'), { points: 1000 }),
    () => setDoc(doc(alice, 'racers/alice/weeks/2026-W48'), { week: '2026-W48', points: 1000 }),
    () => getDocs(query(collection(alice, 'laps'), limit(1))),
  ])
    await refused(attack);
});

test('followers', async (t) => {
  const { follow, unfollow } = await recipe('Followers');
  const [alice, bob, owner] = [web(t, 'alice'), web(t, 'bob'), web(t, 'owner')];
  for (const user of ['alice', 'bob']) await setDoc(doc(owner, 'people', user), { followers: 0 });
  const ofAlice = await watching(t, (show) => watch(bob, 'people/alice', ({ followers = 0, following = 0 }) => show(followers, following)));
  const ofBob = await watching(t, (show) => watch(bob, 'people/bob', ({ followers = 0, following = 0 }) => show(followers, following)));
  await Promise.all([follow(alice, 'alice', 'bob'), follow(alice, 'alice', 'bob'), follow(bob, 'bob', 'alice')]);
  await Promise.all([ofAlice(1, 1), ofBob(1, 1)]);
  await unfollow(alice, 'alice', 'bob');
  await Promise.all([ofAlice(1, 0), ofBob(0, 1)]);
  for (const attack of [
    () => follow(alice, 'bob', 'alice'),
    () => follow(alice, 'alice', 'alice'),
    () => unfollow(alice, 'bob', 'alice'),
    () => updateDoc(doc(alice, 'people/alice'), { followers: 1000 }),
  ])
    await refused(attack);
});

// TestSeatsAreHeld has more users.
test('numbered seats', async (t) => {
  const { takeSeat, leaveSeat } = await recipe('Numbered seats');
  const users = [...Array(8).keys()].map((n) => `user${n}`);
  const apps = users.map((user) => web(t, user));
  const owner = web(t, 'owner');
  await setDoc(doc(owner, 'events/e'), { seats: 3 });
  const shows = await watching(t, (show) => watch(apps[0], 'events/e', ({ taken = 0, seats }) => show(taken, seats)));
  const got = await Promise.all(users.map((user, n) => takeSeat(apps[n], 'e', user)));
  assert.deepEqual(got.filter((seat) => seat >= 0).sort(), [0, 1, 2]);
  await shows(3, 3);
  const first = got.findIndex((seat) => seat >= 0);
  const last = got.findIndex((seat) => seat < 0);
  await refused(() => leaveSeat(apps[last], 'e', got[first]));
  await leaveSeat(apps[first], 'e', got[first]);
  await shows(2, 3);
  assert.equal(await takeSeat(apps[last], 'e', users[last]), got[first]);
  await shows(3, 3);
  await refused(() => setDoc(doc(apps[0], 'events/e'), { seats: 1000 }));
  await setDoc(doc(owner, 'events/f'), { seats: 'many' });
  await refused(() => setDoc(doc(apps[0], 'events/f/seats/0'), { by: users[0], at: serverTimestamp() }));
});

test('karma of authors', async (t) => {
  const { publish } = await recipe('Karma of authors');
  const [alice, bob, cat, owner] = ['alice', 'bob', 'cat', 'owner'].map((user) => web(t, user));
  for (const author of ['alice', 'bob']) await setDoc(doc(owner, 'authors', author), { karma: 0 });
  const aliceHas = await watching(t, (show) => watch(cat, 'authors/alice', ({ karma = 0, essays = 0 }) => show(karma, essays)));
  const bobHas = await watching(t, (show) => watch(cat, 'authors/bob', ({ karma = 0, essays = 0 }) => show(karma, essays)));
  await Promise.all([publish(alice, 'alice', 'a', 'A'), publish(alice, 'alice', 'b', 'B'), publish(bob, 'bob', 'c', 'C')]);
  await Promise.all([aliceHas(0, 2), bobHas(0, 1)]);

  await Promise.all([like(bob, 'essays/alice_a', 'bob'), like(cat, 'essays/alice_a', 'cat'), like(cat, 'essays/alice_b', 'cat'), like(cat, 'essays/alice_b', 'cat'), like(alice, 'essays/bob_c', 'alice')]);
  await Promise.all([aliceHas(3, 2), bobHas(1, 1)]);
  await unlike(cat, 'essays/alice_a', 'cat');
  await aliceHas(2, 2);
  await deleteDoc(doc(owner, 'essays/alice_b'));
  await aliceHas(1, 1);
  await updateDoc(doc(owner, 'essays/alice_a'), { author: 'bob' }); // a server may
  await Promise.all([aliceHas(0, 0), bobHas(2, 2)]);

  for (const attack of [
    () => like(alice, 'essays/alice_a', 'bob'),
    () => like(bob, 'essays/alice_a', 'bob'),
    () => updateDoc(doc(alice, 'authors/alice'), { karma: 1000 }),
    () => setDoc(doc(alice, 'essays/alice_d'), { author: 'alice', title: 'D', likes: 1000 }),
    () => setDoc(doc(bob, 'essays/alice_b'), { author: 'bob', title: 'B', likes: 0 }), // it was deleted, and its like is there
    () => updateDoc(doc(bob, 'essays/alice_a'), { author: 'alice' }),
    () => updateDoc(doc(bob, 'essays/alice_a'), { likes: increment(1000) }),
  ])
    await refused(attack);
});

test('approved comments, and the latest', async (t) => {
  const { comment, edit } = await recipe('Approved comments, and the latest');
  const [alice, bob, owner] = [web(t, 'alice'), web(t, 'bob'), web(t, 'owner')];
  for (const article of ['p', 'q']) await setDoc(doc(owner, 'articles', article), { last_comment: null });
  const shows = await watching(t, (show) =>
    top(bob, 'articles', 'last_comment', (articles) => show(articles.map(({ id, comments, last_comment: last }) => [id, comments ?? 0, last?.toMillis() ?? null]))),
  );
  const timeOf = async (said) => (await getDoc(doc(owner, said.path))).get('at').toMillis();
  const approve = (said) => updateDoc(doc(owner, said.path), { approved: true });
  const first = await comment(alice, 'p', 'alice', 'First!');
  const second = await comment(bob, 'q', 'bob', 'Second!');
  await approve(first);
  await shows([['p', 1, await timeOf(first)], ['q', 0, null]]);
  await approve(second);
  await shows([['q', 1, await timeOf(second)], ['p', 1, await timeOf(first)]]);
  await edit(second, 'Changed my mind');
  await shows([['p', 1, await timeOf(first)], ['q', 0, null]]);

  for (const attack of [
    () => updateDoc(second, { approved: true }),
    () => edit(doc(bob, first.path), 'not mine'),
    () => setDoc(doc(bob, 'articles/p/comments/bob'), { by: 'bob', text: '', at: new Date(9999, 1), approved: false }),
    () => getDoc(doc(alice, second.path)),
    () => updateDoc(doc(bob, 'articles/q'), { comments: 1 }),
  ])
    await refused(attack);
});

test('orders and revenue of a shop, and its last 30 days', async (t) => {
  const { order } = await recipe('Orders and revenue of a shop, and its last 30 days');
  const [alice, bob, cid, owner] = ['alice', 'bob', 'cid', 'owner'].map((user) => web(t, user));
  await setDoc(doc(owner, 'shop_sales/s'), { owner: 'bob' });
  await setDoc(doc(owner, 'shop_sales/r'), { owner: 'cid' });
  const shows = await watching(t, (show) => watch(bob, 'shop_sales/s', ({ orders = 0, revenue = 0, revenue_30d = 0 }) => show([orders, revenue, revenue_30d])));
  const showsOther = await watching(t, (show) => watch(cid, 'shop_sales/r', ({ orders = 0, revenue = 0, revenue_30d = 0 }) => show([orders, revenue, revenue_30d])));
  const orders = await Promise.all([1999, 500, 1].map((amount) => order(alice, 's', 'alice', amount)));
  await shows([3, 0, 0]);
  const set = (at, fields) => updateDoc(doc(owner, orders[at].path), fields);
  await Promise.all([set(0, { status: 'paid' }), set(1, { status: 'paid' })]);
  await shows([3, 2499, 2499]);
  const before = (id, age) => setDoc(doc(owner, 'orders', id), { shop: 's', buyer: 'dan', amount: 1000, status: 'paid', at: ago(age) });
  await Promise.all([before('old', 30 * day + minute), before('last', 29 * day)]);
  await shows([5, 4499, 3499]);
  await deleteDoc(doc(owner, 'orders/last'));
  await set(0, { shop: 'r' });
  await Promise.all([shows([3, 1500, 500]), showsOther([1, 1999, 1999])]);
  await Promise.all([set(1, { status: 'refunded' }), set(0, { amount: 2000 })]);
  await Promise.all([shows([3, 1000, 0]), showsOther([1, 2000, 2000])]);

  for (const attack of [
    () => order(alice, 'none', 'alice', 5),
    () => order(alice, 's', 'bob', 5),
    () => updateDoc(orders[2], { status: 'paid' }),
    () => setDoc(doc(alice, 'orders/x'), { shop: 's', buyer: 'alice', amount: 5, status: 'new', at: ago(-day) }),
    () => getDoc(doc(alice, 'shop_sales/s')),
  ])
    await refused(attack);
});

/** A time that long ago, by this machine's clock, which is the emulator's. */
const ago = (ms) => new Date(Date.now() - ms);
const [minute, day] = [60_000, 86_400_000];

// What leaves does so long after it is shown: a slow machine must show each total. Both mostly wait.
describe('totals that fall by themselves', { concurrency: true }, () => {
  test('trending', async (t) => {
    const [alice, bob, owner] = [web(t, 'alice'), web(t, 'bob'), web(t, 'owner')];
    for (const song of ['p', 'q', 'r']) await setDoc(doc(owner, 'songs', song), { trending: 0 });
    const shows = await watching(t, (show) =>
      top(bob, 'songs', 'trending', (songs) => show(songs.map(({ id, likes = 0, trending }) => [id, likes, trending]))),
    );
    await setDoc(doc(owner, 'songs/q/likes/old'), { at: ago(2 * day) });
    await setDoc(doc(owner, 'songs/q/likes/older'), { at: ago(day + minute) });
    await setDoc(doc(owner, 'songs/p/likes/leaving'), { at: ago(day - 40_000) });
    await Promise.all([like(alice, 'songs/p', 'alice'), like(bob, 'songs/q', 'bob')]);
    await shows([['p', 2, 2], ['q', 3, 1], ['r', 0, 0]]);
    await like(alice, 'songs/q', 'alice');
    await unlike(alice, 'songs/p', 'alice');
    await shows([['q', 4, 2], ['p', 1, 1], ['r', 0, 0]]);
    await shows([['q', 4, 2], ['r', 0, 0], ['p', 1, 0]]); // it has left by itself

    for (const attack of [
      () => setDoc(doc(alice, 'songs/p/likes/alice'), { at: ago(-day) }),
      () => setDoc(doc(alice, 'songs/p/likes/alice'), { at: new Date(9999, 1) }),
      () => like(alice, 'songs/p', 'bob'),
      () => updateDoc(doc(alice, 'songs/p'), { trending: 1000 }),
    ])
      await refused(attack);
  });

  test('online now', async (t) => {
    const { enter } = await recipe('Online now');
    const [alice, bob, owner] = [web(t, 'alice'), web(t, 'bob'), web(t, 'owner')];
    await setDoc(doc(owner, 'rooms/r'), { name: 'r' });
    const shows = await watching(t, (show) => watch(bob, 'rooms/r', ({ online = 0 }) => show(online)));
    const leave = enter(alice, 'r', 'alice');
    const leaveToo = enter(bob, 'r', 'bob');
    await shows(2);
    await setDoc(doc(owner, 'rooms/r/members/dan'), { seen: ago(2 * minute - 40_000) }); // closed the page
    await shows(3);
    await shows(2);
    await leave();
    await shows(1);
    await leaveToo();
    await shows(0);
    await refused(() => setDoc(doc(alice, 'rooms/r/members/alice'), { seen: ago(-day) }));
    await refused(() => updateDoc(doc(alice, 'rooms/r'), { online: 1000 }));
  });
});

test('songs that clients publish trend, and by likes alone', async (t) => {
  const { publish } = await recipe('Trending');
  const [alice, bob] = [web(t, 'alice'), web(t, 'bob')];
  await publish(alice, 'own', 'Own');
  const shows = await watching(t, (show) =>
    top(bob, 'songs', 'trending', (songs) => show(songs.filter(({ id }) => id === 'own').map(({ likes, trending }) => [likes, trending]))),
  );
  await shows([[0, 0]]);
  await like(bob, 'songs/own', 'bob');
  await shows([[1, 1]]);
  await updateDoc(doc(alice, 'songs/own'), { title: 'Edited' });

  for (const attack of [
    () => setDoc(doc(alice, 'songs/other'), { title: 'Other', likes: 0, trending: 1000 }),
    () => setDoc(doc(alice, 'songs/other'), { title: 'Other', likes: 1000, trending: 0 }),
    () => updateDoc(doc(alice, 'songs/own'), { trending: 1000 }),
    () => updateDoc(doc(alice, 'songs/own'), { trending: increment(1) }),
    () => getDocs(query(collection(alice, 'songs'), orderBy('trending', 'desc'))), // no limit
  ])
    await refused(attack);
});

test('a leaderboard', async (t) => {
  const { rank } = await recipe('Leaderboard');
  const [alice, owner] = [web(t, 'alice'), web(t, 'owner')];
  const shows = await watching(t, (show) => top(alice, 'players', 'points', (best) => show(best.map(({ name, points }) => [name, points]))));
  await setDoc(doc(alice, 'players/alice'), { name: 'Alice', points: 0 });
  const score = (player, points) => setDoc(doc(collection(owner, 'players', player, 'rounds')), { points });
  for (let i = 1; i <= 12; i++) {
    await setDoc(doc(owner, `players/${i}`), { name: `${i}` });
    await Promise.all([score(`${i}`, 10 * i), score(`${i}`, -i)]);
  }
  const best = [12, 11, 10, 9, 8, 7, 6, 5, 4, 3].map((i) => [`${i}`, 9 * i]);
  await shows(best);
  await score('alice', 95);
  await shows([best[0], best[1], ['Alice', 95], ...best.slice(2, 9)]);
  assert.deepEqual(await Promise.all([108, 95, 90, 0].map((points) => rank(alice, points))), [1, 3, 4, 14]);

  for (const attack of [
    () => updateDoc(doc(alice, 'players/alice'), { points: 1000 }),
    () => setDoc(doc(collection(alice, 'players/alice/rounds')), { points: 1000 }),
    () => getDocs(collection(alice, 'players')),
  ])
    await refused(attack);
});

test('totals per day and per hour', async (t) => {
  const { add, totals } = await recipe('Totals per day and per hour');
  const alice = web(t, 'alice');
  const times = ['16T09:59:59', '16T10:00:00', '16T10:30:00', '18T10:00:00', '22T23:59:59', '23T00:00:00'];
  for (const time of times) await add(alice, 'sales', new Date(`2025-11-${time}Z`));
  const day = (n) => `sales-day-2025-11-${n}`;
  const hour = (n) => `sales-hour-2025-11-16T${n}`;
  for (const [first, last, want] of [
    [day(16), day(22), [[day(16), 3], [day(18), 1], [day(22), 1]]],
    [hour('00'), hour(23), [[hour('09'), 1], [hour(10), 2]]],
  ])
    await until(
      async () => isDeepStrictEqual([...(await totals(alice, first, last))], want),
      async () => JSON.stringify([...(await totals(alice, first, last))]),
    );
  await add(alice, 'now');
  await until(
    async () => (await totals(alice, 'now-day-', 'now-hour-~')).size === 2,
    () => 'no totals of today',
  );
});

test('shops by average rating', async (t) => {
  const { rate } = await recipe('Shops by average rating');
  const [alice, bob, owner] = [web(t, 'alice'), web(t, 'bob'), web(t, 'owner')];
  for (const shop of ['r', 's']) await setDoc(doc(owner, 'shops', shop), { rating: null });
  const shows = await watching(t, (show) =>
    top(bob, 'shops', 'rating', (shops) => show(Object.fromEntries(shops.map(({ id, rating, ratings = 0 }) => [id, [rating, ratings]])))),
  );
  await Promise.all([rate(alice, 's', 'alice', 5), rate(bob, 's', 'bob', 2), rate(bob, 'r', 'bob', 4)]);
  await shows({ r: [4, 1], s: [3.5, 2] });
  await rate(bob, 's', 'bob', 4);
  await shows({ s: [4.5, 2], r: [4, 1] });
  await refused(() => rate(bob, 's', 'bob', 6));
  await Promise.all(['alice', 'bob'].map((user) => deleteDoc(doc(user === 'bob' ? bob : alice, 'shops/s/ratings', user))));
  await shows({ r: [4, 1], s: [null, 0] });
});

test('reactions, and polls', async (t) => {
  const { react, takeBack } = await recipe('Reactions, and polls');
  const [alice, bob, owner] = [web(t, 'alice'), web(t, 'bob'), web(t, 'owner')];
  await setDoc(doc(owner, 'talks/p'), { title: 'p' });
  const shows = await watching(t, (show) => watch(alice, 'talks/p', ({ love = 0, laugh = 0, wow = 0 }) => show({ love, laugh, wow })));
  await shows({ love: 0, laugh: 0, wow: 0 });
  await Promise.all([react(alice, 'p', 'alice', 'love'), react(bob, 'p', 'bob', 'love')]);
  await shows({ love: 2, laugh: 0, wow: 0 });
  await react(bob, 'p', 'bob', 'wow');
  await shows({ love: 1, laugh: 0, wow: 1 });
  await takeBack(alice, 'p', 'alice');
  await shows({ love: 0, laugh: 0, wow: 1 });
  await refused(() => react(bob, 'p', 'bob', 'hate'));
  await refused(() => react(bob, 'p', 'alice', 'wow'));
});

test('votes for what has no document', async (t) => {
  const { vote } = await recipe('Votes for what has no document');
  const [alice, bob] = [web(t, 'alice'), web(t, 'bob')];
  await Promise.all([vote(alice, 'p', 'alice'), vote(bob, 'p', 'bob'), vote(bob, 'p', 'bob')]);
  await appeared('poll_totals/p');
  const shows = await watching(t, (show) => watch(alice, 'poll_totals/p', ({ yes = 0 }) => show(yes)));
  await shows(2);
  await vote(bob, 'p', 'bob', 0);
  await shows(1);
  await refused(() => vote(bob, 'p', 'bob', 2));
  await refused(() => vote(bob, 'p', 'alice', 0));
});

test('unread messages', async (t) => {
  const { send, markRead } = await recipe('Unread messages');
  const [alice, bob, owner] = [web(t, 'alice'), web(t, 'bob'), web(t, 'owner')];
  await setDoc(doc(owner, 'users/alice'), { name: 'Alice' });
  const shows = await watching(t, (show) => watch(alice, 'users/alice', ({ unread = 0 }) => show(unread)));
  const sent = await Promise.all(['Hello', 'Are you there?', '!'].map((text) => send(bob, 'alice', 'bob', text)));
  await shows(3);
  const mine = (message) => doc(alice, message.path);
  await Promise.all([markRead(mine(sent[0])), deleteDoc(mine(sent[2]))]);
  await shows(1);
  await markRead(mine(sent[1]));
  await shows(0);
  for (const attack of [
    () => send(bob, 'alice', 'alice', 'as another'),
    () => markRead(sent[1]),
    () => getDoc(doc(bob, 'users/alice')),
    () => updateDoc(doc(alice, 'users/alice'), { unread: 0 }),
  ])
    await refused(attack);
});

test('unread by member and room', async (t) => {
  const { say } = await recipe('Unread by member and room');
  const { markRead } = await recipe('Unread messages');
  const [alice, bob, owner] = [web(t, 'alice'), web(t, 'bob'), web(t, 'owner')];
  for (const chat of ['c', 'd']) for (const user of ['alice', 'bob', 'cat']) await setDoc(doc(owner, 'chats', chat, 'members', user), { unread: 0 });
  const inC = await watching(t, (show) => watch(alice, 'chats/c/members/alice', ({ unread = 0 }) => show(unread)));
  const inD = await watching(t, (show) => watch(alice, 'chats/d/members/alice', ({ unread = 0 }) => show(unread)));
  const all = ['alice', 'bob', 'cat'];
  await Promise.all([say(bob, 'c', all, 'bob', 'Hello'), say(bob, 'c', all, 'bob', 'Are you there?'), say(bob, 'd', all, 'bob', 'Here?')]);
  await Promise.all([inC(2), inD(1)]);
  const mine = await getDocs(query(collection(alice, 'chats/c/inbox'), where('to', '==', 'alice'), limit(100)));
  await markRead(mine.docs[0].ref);
  await inC(1);
  await deleteDoc(mine.docs[1].ref);
  await Promise.all([inC(0), inD(1)]);
  for (const attack of [
    () => say(bob, 'c', all, 'alice', 'as another'),
    () => say(bob, 'c', ['dan'], 'bob', 'to somebody outside'),
    () => markRead(doc(bob, mine.docs[0].ref.path)),
    () => updateDoc(doc(alice, 'chats/c/members/alice'), { unread: 0 }),
    () => getDoc(doc(bob, 'chats/c/members/alice')),
  ])
    await refused(attack);
});

test('posts by tag', async (t) => {
  const { retag } = await recipe('Posts by tag');
  const [alice, owner] = [web(t, 'alice'), web(t, 'owner')];
  for (const tag of ['go', 'java', 'web']) await setDoc(doc(owner, 'tags', tag), { stories: 0 });
  for (const story of ['a', 'b', 'c']) await setDoc(doc(owner, 'stories', story), { by: story === 'c' ? 'bob' : 'alice' });
  const shows = await watching(t, (show) => top(alice, 'tags', 'stories', (tags) => show(...tags.map(({ id, stories }) => [id, stories]))));
  await retag(alice, 'a', [], ['go', 'web']);
  await retag(alice, 'b', [], ['go']);
  await shows(['go', 2], ['web', 1], ['java', 0]);
  await retag(alice, 'b', ['go'], ['java', 'web']);
  await shows(['web', 2], ['java', 1], ['go', 1]);
  await refused(() => retag(alice, 'c', [], ['go']));
  await refused(() => retag(alice, 'a', ['go', 'web'], ['go', 'new']));
});

test('the best score, and its reset', async (t) => {
  const [alice, owner] = [web(t, 'alice'), web(t, 'owner')];
  await setDoc(doc(owner, 'games/g'), { title: 'g' });
  const shows = await watching(t, (show) => watch(alice, 'games/g', ({ best = null }) => show(best)));
  await shows(null);
  const scores = collection(owner, 'games/g/scores');
  for (const [player, points] of [['a', 3], ['b', 99], ['c', 7], ['d', -1]]) await setDoc(doc(scores, player), { player, points });
  await shows(99);
  await deleteDoc(doc(scores, 'b'));
  await shows(7);
  await Promise.all(['a', 'c', 'd'].map((score) => deleteDoc(doc(scores, score))));
  await shows(null);
  await setDoc(doc(scores, 'e'), { player: 'e', points: 1 });
  await shows(1);
  await refused(() => setDoc(doc(alice, 'games/g/scores/alice'), { player: 'alice', points: 1000 }));
});

test('unique visitors', async (t) => {
  const { visit } = await recipe('Unique visitors');
  const [alice, bob] = [web(t, 'alice'), web(t, 'bob')];
  const DAY = 24 * 60 * 60 * 1000;
  const today = Date.now();
  const date = (time) => new Date(time).toISOString().slice(0, 10);
  /** A visit at a time by the phone's clock. */
  function visitAt(time, db, user) {
    t.mock.timers.enable({ apis: ['Date'], now: time });
    try {
      return visit(db, user);
    } finally {
      t.mock.timers.reset();
    }
  }
  for (const [db, user] of [[alice, 'alice'], [alice, 'alice'], [bob, 'bob']]) await visitAt(today, db, user);
  await appeared(`visitor_totals/${date(today)}`);
  const shows = await watching(t, (show) =>
    onSnapshot(doc(bob, 'visitor_totals', date(today)), (totals) => show(totals.data()?.visitors ?? 0)),
  );
  await shows(2);
  for (const days of [-9, 2]) await refused(() => visitAt(today + days * DAY, alice, 'alice'));
  await refused(() => visitAt(today, alice, 'bob'));
});

/** A test of code that needs more than the rules of routes: a block of its own, or a folder. */
const testOfPage = underInit ? () => {} : test;

testOfPage('counters that clients create', async (t) => {
  const { createCounter } = await recipe('Counters that clients create');
  const [alice, bob] = [web(t, 'alice'), web(t, 'bob')];
  const shard = (db, counter, i) => doc(db, 'counters', counter, 'shards', String(i));

  await createCounter(alice, 'room', 12);
  await appeared('rollups/room');
  const shows = await watching(t, (show) =>
    onSnapshot(doc(bob, 'rollups/room'), (room) => show(room.data()?.count, room.data()?.tally.num_shards)),
  );
  await shows(0, 12);
  await Promise.all([0, 5, 11].map((i) => updateDoc(shard(bob, 'room', i), { count: increment(1) }))); // as the samples do
  await shows(3, 12);
  for (const numShards of [12, 10, 20]) await assert.rejects(createCounter(bob, 'room', numShards), denied);
  for (const numShards of [1, 9, 101]) await assert.rejects(createCounter(bob, 'another', numShards), denied);
  assert.equal(await stack.sum('counters/room'), 3);

  // As the samples for Swift, Kotlin and Java do. Swift's goes on to shard N.
  await setDoc(doc(alice, 'counters/phone'), { numShards: 10 });
  await Promise.all([...Array(10).keys()].map((i) => setDoc(shard(alice, 'phone', i), { count: 0 })));
  await assert.rejects(setDoc(shard(alice, 'phone', 10), { count: 0 }), denied);
  await updateDoc(shard(bob, 'phone', 9), { count: increment(1) });
  assert.equal(await stack.sum('counters/phone'), 1);
});

testOfPage('increments: a lost answer', async (t) => {
  const { addOnce } = await recipe('Increments that count once');
  const line = await startLine(stack.port);
  t.after(() => line.close());
  const alice = web(t, 'alice', line.port);
  const shard = (counter) => doc(alice, 'counters', counter, 'shards', '0');

  /**
   * Adds 1 to a counter by add(counter, lose), which calls lose before it is answered. Returns the
   * total.
   */
  async function afterALostAnswer(counter, add) {
    await setDoc(shard('other'), { count: increment(1) }, { merge: true }); // the SDK is connected
    let lost = 0;
    const done = add(counter, () => ++lost === 1 && line.lose());
    await until(
      async () => (await stack.sum(`counters/${counter}`)) === 1,
      () => `the increment of ${counter} does not arrive`,
    );
    const before = line.connections();
    line.restore();
    await done;
    assert.ok(line.connections() > before, 'the SDK connects again');
    return stack.sum(`counters/${counter}`);
  }

  async function plain(counter, lose) {
    lose();
    await setDoc(shard(counter), { count: increment(1) }, { merge: true });
  }
  function transaction(counter, lose) {
    return runTransaction(alice, async (tx) => {
      const count = (await tx.get(shard(counter))).data()?.count ?? 0;
      lose();
      tx.set(shard(counter), { count: count + 1 }, { merge: true });
    });
  }
  async function once(counter, lose) {
    lose();
    await addOnce(alice, counter);
  }
  const got = {};
  for (const add of [plain, transaction, once]) got[add.name] = await afterALostAnswer(add.name, add);
  assert.deepEqual(got, { plain: 2, transaction: 2, once: 1 });

  await appeared('rollups/once');
  const shows = await watching(t, (show) => watch(alice, 'rollups/once', ({ count = 0 }) => show(count)));
  await addOnce(alice, 'once');
  await shows(2);
  const { documents } = await stack.rest('GET', '/counters/once/tokens');
  assert.equal(documents.length, 2);
  // What is refused for another reason is an error.
  await stack.set('counters/none', { num_shards: 0 });
  await assert.rejects(addOnce(alice, 'none'), denied);
});

// The first section, as it stands there, except for the emulator's port, which is any that is free.
testOfPage('from nothing to a total', async (t) => {
  const section = below('From nothing to a total', page);
  const [program] = blocks(section, 'js');
  const [, init] = section.match(/^ {4}(tally init .*)$/m);
  const folder = await mkdtemp(join(tmpdir(), 'tally-first-')); // no firebase.json is above it
  await symlink(join(import.meta.dirname, 'node_modules'), join(folder, 'node_modules'));
  t.after(() => rm(folder, { recursive: true }));
  const bin = dirname(process.env.TALLY);
  const said = await run('sh', ['-c', init], { cwd: folder, env: { ...process.env, PATH: `${bin}:${process.env.PATH}` } });
  assert.match(said.stdout, /^wrote tally\.yaml, firebase\.json, firestore\.rules; /);
  let rules = await readFile(join(folder, 'firestore.rules'), 'utf8');
  const decisions = [...section.matchAll(/replace `([^`]+)` with `([^`]+)`/g)];
  assert.equal(decisions.length, 2);
  for (const [, open, decided] of decisions) {
    assert.ok(said.stdout.includes(open.split('decide: ')[1]), said.stdout);
    assert.equal(rules.split(open).length, 2, rules);
    rules = rules.replace(open, decided);
  }
  await writeFile(join(folder, 'firestore.rules'), rules);

  const dev = await startStack({ cwd: folder });
  t.after(() => dev.stop());
  await until(() => dev.output().includes('who deletes products/{product}; its votes remain'), dev.output);
  await writeFile(join(folder, 'app.mjs'), program.replace('8080', dev.port));
  const app = spawn(process.execPath, ['app.mjs'], { cwd: folder });
  t.after(() => app.kill());
  let printed = '';
  for (const stream of [app.stdout, app.stderr]) stream.on('data', (data) => (printed += data));
  await until(() => printed.endsWith('1\n'), () => `it prints ${printed}\n${dev.output()}`);
  assert.match(printed, /^(0\n)+1\n$/);

  // Nothing else is allowed.
  const [ann, bob] = ['ann', 'bob'].map((user) => web(t, user, dev.port, dev.project));
  for (const [what, write] of Object.entries({
    'a vote for another user': setDoc(doc(ann, 'products/p1/votes/bob'), {}),
    'a total': updateDoc(doc(ann, 'products/p1'), { votes: 5 }),
    'a product with votes': setDoc(doc(ann, 'products/p2'), { name: 'Desk', votes: 5 }),
    'a product that pretends to be counted': setDoc(doc(ann, 'products/p5'), { name: 'Desk', tally: {} }),
  })) {
    await assert.rejects(write, { code: 'permission-denied' }, what);
  }

  // What is allowed is not told as refused, and a vote for a product that is missing is told.
  await setDoc(doc(bob, 'products/p3'), { name: 'Chair' });
  await setDoc(doc(bob, 'products/p4/votes/bob'), {});
  await until(() => dev.output().includes('products/p4/votes/bob belongs to products/p4, which does not exist'), dev.output);
  await until(() => dev.output().split('refused: ').length === 5, dev.output);
  assert.doesNotMatch(dev.output(), /refused: .*(p3|p4|votes\/ann)/);
});
