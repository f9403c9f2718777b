// Runs the snippets of the README and of docs/clients.md that have an SDK here, and a trigger of
// docs/migrate.md, as they stand there, against the whole stack; and what Firebase's samples write
// with these SDKs. Go's are run by e2e/clients_test.go.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, delimiter, join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Firestore } from '@google-cloud/firestore';
import { counter as webCounter, like as webLike, total as webTotal } from '@firestore-tally/web';
import { deleteApp, initializeApp } from 'firebase/app';
import firebase from 'firebase/compat/app';
import 'firebase/compat/firestore';
import { connectFirestoreEmulator, getFirestore, setLogLevel } from 'firebase/firestore';
import { startStack, until } from '../../clients/web/e2e/stack.mjs';
import { cdn, openPage } from './browser.mjs';
import { below, blocks, imported } from './markdown.mjs';
import { idToken } from './signin.mjs';

const at = (path) => fileURLToPath(new URL(path, import.meta.url));
const read = (name) => readFile(at(`../${name}`), 'utf8');
const [page, migration, rules, readme] = await Promise.all(['clients.md', 'migrate.md', 'recipes.md', '../README.md'].map(read));

/** The route of a sample, from the page's table. */
function routeOf(sample) {
  const row = page.match(new RegExp(`^\\| \\[${sample.replaceAll('.', '\\.')}\\]\\(.+?\\) \\| \`([^\`]+)\``, 'm'));
  assert.ok(row, `no route of ${sample} in docs/clients.md`);
  return row[1];
}

/** The only block of code below a heading that has the text in it. */
function block(heading, language, having = '', text = page) {
  const found = blocks(below(heading, text), language).filter((code) => code.includes(having));
  assert.equal(found.length, 1, `blocks of ${language} with ${having} below ${heading}`);
  return found[0];
}

/**
 * Runs programs, each until it ends well. `commands` names them, given a folder with the code in
 * it.
 */
async function run(t, code, commands) {
  const dir = await mkdtemp(join(tmpdir(), 'tally-snippet-'));
  t.after(() => rm(dir, { recursive: true }));
  for (const [name, text] of Object.entries(code)) await writeFile(join(dir, name), text);
  const env = { ...process.env, FIRESTORE_EMULATOR_HOST: `${stack.host}:${stack.port}`, GOOGLE_CLOUD_PROJECT: stack.project, PYTHONPATH: dir };
  for (const [program, ...args] of commands(dir)) await promisify(execFile)(program, args, { env, signal: t.signal });
}
const python = (t, story) => run(t, {}, () => [[at('.venv/bin/python'), at(`${story}.py`)]]);
const java = (t, story) => run(t, {}, (dir) => compiled(dir, at(`${story}.java`)));

/** The commands that compile a class into a folder, and run it once for each argument. */
function compiled(dir, file, ...each) {
  const path = [dir, at('target/dependency/*')].join(delimiter);
  const start = ['java', '-cp', path, basename(file, '.java')];
  return [['javac', '-cp', path, '-d', dir, file], ...(each.length > 0 ? each.map((argument) => [...start, argument]) : [start])];
}

/**
 * Has the roll-up of a counter appear, with one shard. The emulator may tell a client for minutes that
 * a document that was about to appear does not exist, so one is watched only when it is there.
 */
async function rolledUp(id) {
  await stack.set(`counters/${id}/shards/0`, { count: 0 });
  await until(() => stack.rest('GET', `/rollups/${id}`), () => `no rollups/${id} appears`);
}

/**
 * Watches a total by the snippet. Once it is shown at all, resolves to a function that waits until
 * it is shown as `want`.
 */
async function watched(watch, db, path, field) {
  const totals = [];
  const end = watch(db, path, field, (total) => totals.push(total));
  await until(() => totals.length > 0, () => `${path} shows nothing`);
  return (want) => until(() => totals.at(-1) === want, () => `${path} shows ${totals}, want ${want} at last`).finally(end);
}

let stack;
before(async () => {
  const [, likes] = page.match(/`(posts\/[^`]+ -> [^`]+)`/);
  const routes = new Set([...['Web', 'Kotlin and Java', 'Python', 'Node.js'].map(routeOf), likes]);
  // firestore.rules with the blocks that docs/recipes.md has for likes of posts.
  const dir = await mkdtemp(join(tmpdir(), 'tally-snippets-'));
  const likesRules = ['Likes', "Totals in the app's own documents"].map((heading) => block(heading, 'js', 'match /', rules));
  const place = 'match /rollups/{counter}';
  const shipped = await readFile(at('../../firestore.rules'), 'utf8');
  await writeFile(join(dir, 'firestore.rules'), shipped.replace(place, `${likesRules.join('\n')}\n${place}`));
  try {
    stack = await startStack({ env: { TALLY_ROUTES: [...routes].join('; ') }, flags: ['--rules', join(dir, 'firestore.rules')] });
  } finally {
    await rm(dir, { recursive: true });
  }
});
after(() => stack?.stop());

const counter = (id) => ({ source: `counters/${id}/shards`, path: `rollups/${id}`, field: 'count', of: 'count' });
const likes = (post) => ({ source: `posts/${post}/likes`, path: `posts/${post}`, field: 'likes' }); // counted

/** Checks a total whose source no one writes any more, as soon as it covers all documents there. */
async function exact({ source, path, field, of }, want) {
  const { documents } = await stack.rest('GET', `/${source}?pageSize=300`);
  const last = documents.map(({ updateTime }) => micros(updateTime)).sort().at(-1);
  let total;
  await until(
    async () => {
      total = await stack.rest('GET', `/${path}`);
      const { tally } = total?.fields ?? {};
      return tally && micros(tally.mapValue.fields.as_of.timestampValue) >= last;
    },
    () => `${path} does not cover ${last}: ${JSON.stringify(total)}`,
  );
  const number = (fields, name) => Number(fields[name].integerValue);
  assert.equal(documents.reduce((sum, { fields }) => sum + (of ? number(fields, of) : 1), 0), want);
  const { tally } = total.fields;
  const got = { total: number(total.fields, field), numShards: number(tally.mapValue.fields, 'num_shards') };
  assert.deepEqual(got, { total: want, numShards: documents.length });
  return got;
}

/** A time with six digits of fraction, so that later times sort later. */
const micros = (time) => time.replace(/(\.\d*)?Z$/, (_, fraction = '.') => fraction.padEnd(7, '0').slice(0, 7));

/** A database as the user sees it; null is not signed in. */
function web(t, user) {
  const db = getFirestore(initializeApp({ projectId: stack.project }, `${t.name} ${user}`));
  connectFirestoreEmulator(db, stack.host, stack.port, { mockUserToken: user && { sub: user } });
  t.after(() => deleteApp(db.app));
  return db;
}

/** The same by the namespaced API. */
function namespaced(t, user) {
  const app = firebase.initializeApp({ projectId: stack.project }, `${t.name} ${user}`);
  const db = app.firestore();
  db.useEmulator(stack.host, stack.port, user ? { mockUserToken: { sub: user } } : {});
  t.after(() => app.delete());
  return db;
}

/** A database as a server sees it. */
function server(t) {
  process.env.METADATA_SERVER_DETECTION = 'none'; // there is none here, and looking for it takes seconds
  process.env.FIRESTORE_EMULATOR_HOST = `${stack.host}:${stack.port}`;
  const db = new Firestore({ projectId: stack.project });
  t.after(() => db.terminate());
  return db;
}

setLogLevel('silent'); // refusals are expected
const denied = { code: 'permission-denied' };

/** What users do with likes: two of three are left. */
const story = [
  ['ann', true],
  ['bob', true],
  ['bob', true],
  ['ann', false],
  ['cid', true],
];

test("The README's first snippet, after the lines that tally dev prints", async (t) => {
  const code = block('Use it', 'js', 'a random shard', readme);
  const [connect] = stack.output().match(/const db = .*\n.*ann is signed in\n.*connectFirestoreEmulator\(.*/);
  const { use } = await imported(`import { initializeApp } from 'firebase/app';
import { connectFirestoreEmulator, doc, getFirestore, increment, onSnapshot, setDoc } from 'firebase/firestore';
export async function use(user, show) {\n${[connect, code].join('\n')}\nreturn db.app;\n}`);
  const totals = [];
  const app = await use({ uid: 'ann' }, (total) => totals.push(total));
  t.after(() => deleteApp(app));
  await until(() => totals.at(-1) === 1, () => `it shows ${totals}, want 1 at last`);
  await exact(counter('likes'), 1);
});

// React Native's package cannot run here. The web SDK has the functions that it is named for. The
// namespaced API has no sums, so the modular one sums by its databases.
const modular = await imported(block('Web', 'js'));
for (const [name, id, shards, open, { add, watch }] of [
  ['Web', 'web', 3, web, modular],
  ['Web, by the namespaced API', 'namespaced', 10, namespaced, await imported(block('Namespaced API', 'js'))],
]) {
  test(name, async (t) => {
    const [ann, bob, guest] = ['ann', 'bob', null].map((user) => open(t, user));
    await stack.set(`counters/${id}`, { num_shards: shards });
    await rolledUp(id);
    const shows = await watched(watch, guest, `rollups/${id}`, 'count');
    for (let i = 0; i < 5; i++) await Promise.all([add(ann, id), add(bob, id)]);
    await shows(10);
    await assert.rejects(add(guest, id), denied);
    await assert.rejects(add(ann, id, 2), denied);
    await exact(counter(id), 10);
    assert.equal(await modular.exact(guest, `counters/${id}/shards`, 'count'), 10);
  });
}

test('Web, likes', async (t) => {
  const { like, watch, exact: sumNow } = modular;
  const [ann, bob, cid, guest] = ['ann', 'bob', 'cid', null].map((user) => web(t, user));
  await stack.set('posts/web', {});
  const showsLikes = await watched(watch, guest, 'posts/web', 'likes');
  for (const [uid, yes] of story) await like({ ann, bob, cid }[uid], 'web', uid, yes);
  await assert.rejects(like(bob, 'web', 'ann'), denied);
  await assert.rejects(like(guest, 'web', 'guest'), denied);
  await showsLikes(2);
  await exact(likes('web'), 2);
  await assert.rejects(sumNow(ann, 'posts/web/likes', 'at'), denied);
});

test('The web client, with the namespaced API', async (t) => {
  const db = namespaced(t, 'ann');
  await stack.set('posts/wrapped', { likes: 0 });
  const visits = webCounter(db, 'counters/wrapped');
  const own = webLike(db, 'posts/wrapped/likes', { uid: 'ann' });
  const likes = webTotal(db, 'posts/wrapped', 'likes');
  const totals = [];
  t.after(visits.onTotal(({ total }) => totals.push(total)));
  await until(() => totals.at(-1) === 0, () => `it shows ${totals}, want 0`);

  const liked = [];
  t.after(own.onLiked((now) => liked.push(now)));
  await until(() => liked.at(-1) === false, () => `it tells ${liked}, want false`);
  assert.equal((await likes.total()).total, 0);

  const written = [visits.increment(), visits.increment(), own.set()];
  assert.deepEqual([(await visits.total()).total, (await likes.total()).total], [2, 1]); // at once
  await Promise.all(written);
  await exact(counter('wrapped'), 2);
  await until(async () => (await stack.rest('GET', '/posts/wrapped')).fields.likes.integerValue === '1', stack.output);
  assert.equal(await visits.exact(), 2);
  assert.deepEqual(liked, [false, true]);
  assert.deepEqual([...new Set(totals)], [0, 1, 2]);
});

test('Web, a counter without a document, and one of the Swift sample', async (t) => {
  const { add } = await imported(block('Web', 'js'));
  const db = web(t, 'ann');
  await stack.set('counters/swift', { numShards: 2 });
  for (const id of ['undeclared', 'swift']) {
    for (let i = 0; i < 3; i++) await add(db, id);
    await exact(counter(id), 3);
  }
});

test('Node.js, whose shards appear as they are incremented', async (t) => {
  const { add, like, watch, exact: sumNow } = await imported(block('Node.js', 'js'));
  const db = server(t);
  await rolledUp('node');
  const shows = await watched(watch, db, 'rollups/node', 'count');
  await add(db, 'node', -2);
  await Promise.all([1, 1, 1, 1, 1, 1, 5].map((n) => add(db, 'node', n)));
  await shows(9);
  await exact(counter('node'), 9);
  assert.equal(await sumNow(db, 'counters/node/shards', 'count'), 9);

  await stack.set('posts/node', {});
  const showsLikes = await watched(watch, db, 'posts/node', 'likes');
  for (const [uid, yes] of story) await like(db, 'node', uid, yes);
  await showsLikes(2);
  await exact(likes('node'), 2);
});

// The programs of other languages increment counters/visits, like posts/7 as a user, and wait for the
// total. A file of theirs has the sum.
const program = (language, id) => block(language, id).replaceAll('visits"', `${id}"`).replaceAll('visits/', `${id}/`).replaceAll('posts/7', `posts/${id}`);
const users = ['ann', 'bob', 'cid'];
for (const [name, id, tell] of [
  [
    'Python',
    'python',
    async (t) => {
      await run(t, { 'visits.py': program('Python', 'python') }, (dir) => users.map((user) => [at('.venv/bin/python'), join(dir, 'visits.py'), user]));
      await python(t, 'story');
    },
  ],
  [
    'Java, on a server',
    'java',
    async (t) => {
      await run(t, { 'Visits.java': program('Java', 'java') }, (dir) => compiled(dir, join(dir, 'Visits.java'), ...users));
      await java(t, 'Story');
    },
  ],
]) {
  test(name, { timeout: 300_000 }, async (t) => {
    await stack.set(`posts/${id}`, {});
    await tell(t);
    await exact(counter(id), 3);
    await exact(likes(id), 3);
  });
}

test('days, weeks and months by Python', async (t) => {
  const [, day, week, month] = page.match(/^\| Python \| `(.+?)` \| `(.+?)` \| `(.+?)` \|$/m);
  await run(t, {}, () => [[at('.venv/bin/python'), at('days.py'), at('../../clients/web/test/days.json'), day, week, month]]);
});

test('REST, by curl', async (t) => {
  const code = block('REST', 'sh').replace('https://firestore.googleapis.com', `http://${stack.host}:${stack.port}`);

  /** Calls functions of the snippet as a user. Resolves to what the last one answers. */
  async function rest(user, calls) {
    const env = { ...process.env, PROJECT: stack.project, ID_TOKEN: idToken(user) };
    const { stdout } = await promisify(execFile)('bash', ['-euc', `${code}\n${calls}`], { env, signal: t.signal });
    return JSON.parse(stdout);
  }
  const refused = (status) => ({ code: 22, stderr: new RegExp(`error: ${status}`) }); // of curl

  await assert.rejects(rest('ann', 'total rollups/rest count'), refused(404));
  await rest('ann', 'for i in {1..11}; do increment rest >&2; done; increment rest'); // more than there are shards
  await exact(counter('rest'), 12);
  const { fields } = await rest('', 'total rollups/rest count');
  assert.deepEqual(fields, { count: { integerValue: '12' } });
  const [{ result }] = await rest('bob', 'exact rest count');
  assert.deepEqual(result.aggregateFields, { total: { integerValue: '12' } });

  await stack.set('posts/rest', {});
  for (const [user, yes] of story) await rest(user, `${yes ? 'like' : 'unlike'} rest ${user}`);
  await exact(likes('rest'), 2);
  for (const [user, call] of [
    ['bob', 'like rest ann'],
    ['bob', 'unlike rest cid'],
    ['bob', 'total rollup_audit/cursor at'],
    ['', 'increment rest'],
  ])
    await assert.rejects(rest(user, call), refused(403), call);
});

/** Runs sample.mjs in Chromium, with the SDK that Google's CDN has. */
async function browser(t) {
  const scripts = ['app', 'firestore'].map((name) => `<script src="${cdn}/firebase-${name}-compat.js"></script>`);
  const page = await openPage(t, `<!doctype html>${scripts.join('')}`);
  await page.addScriptTag({ type: 'module', content: await readFile(at('sample.mjs'), 'utf8') });
  await page.waitForFunction(() => window.sample);
  await page.evaluate((where) => sample(...where), [stack.project, stack.host, stack.port]);
}

// What Firebase's samples write. That of Node.js is what the page has, too.
for (const [name, id, write, document] of [
  ['Web, in a browser', 'web-sample', browser, { num_shards: { integerValue: '3' } }],
  ['Python', 'python-sample', (t) => python(t, 'sample'), undefined],
  ['Python, async', 'python-async-sample', (t) => python(t, 'sample_async'), undefined],
  ['Java', 'java-sample', (t) => java(t, 'Sample'), { numShards: { integerValue: '3' } }],
]) {
  test(`Firebase's sample: ${name}`, { timeout: 300_000 }, async (t) => {
    await write(t);
    const { numShards } = await exact(counter(id), 7);
    assert.equal(numShards, 3);
    assert.deepEqual((await stack.rest('GET', `/counters/${id}`))?.fields, document);
  });
}

test('Node.js, a trigger of one event that comes twice', async (t) => {
  const { count } = await imported(block('If it counts something that leaves no documents', 'js', '', migration));
  const db = server(t);
  for (const event of ['a', 'b', 'a']) await count(db, 'p', event);
  const shards = await db.collection('posts/p/shards').get();
  assert.equal(shards.docs.reduce((sum, shard) => sum + shard.get('likes'), 0), 2);
});
