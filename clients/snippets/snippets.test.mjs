// Runs the snippets of docs/clients.md that have an SDK here, and a trigger of docs/migrate.md, as they stand there, against
// the whole stack; and what Firebase's samples write with these SDKs. Go's are run by clients_test.go, at the root.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Firestore } from '@google-cloud/firestore';
import { build } from 'esbuild';
import { deleteApp, initializeApp } from 'firebase/app';
import { connectFirestoreEmulator, getFirestore, setLogLevel } from 'firebase/firestore';
import { chromium } from 'playwright-core';
import { startStack, until } from '../web/e2e/stack.mjs';

const at = (path) => fileURLToPath(new URL(path, import.meta.url));
const read = (name) => readFile(at(`../../docs/${name}`), 'utf8');
const [page, migration] = await Promise.all(['clients.md', 'migrate.md'].map(read));

/** The route of a sample, from the page's table. */
function routeOf(sample) {
  const row = page.match(new RegExp(`^\\| \\[${sample.replaceAll('.', '\\.')}\\]\\(.+?\\) \\| \`([^\`]+)\``, 'm'));
  assert.ok(row, `no route of ${sample} in docs/clients.md`);
  return row[1];
}

/** The only block of code below a heading that has the text in it. */
function block(heading, language, having = '', text = page) {
  const section = text.split(/^## /m).find((section) => section.startsWith(`${heading}\n`)) ?? '';
  const blocks = [...section.matchAll(new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\``, 'gms'))].map(([, code]) => code);
  const found = blocks.filter((code) => code.includes(having));
  assert.equal(found.length, 1, `blocks of ${language} with ${having} below ${heading}`);
  return found[0];
}

/** Imports JavaScript. Packages resolve from this folder. */
async function imported(code) {
  const file = new URL(`.snippet-${process.pid}-${++files}.mjs`, import.meta.url);
  await writeFile(file, code);
  try {
    return await import(file);
  } finally {
    await rm(file);
  }
}
let files = 0;

/** Runs a program, with files at hand in a folder, until it ends well. The functions of `command` are given that folder. */
async function run(t, code, command) {
  const dir = await mkdtemp(join(tmpdir(), 'tally-snippet-'));
  t.after(() => rm(dir, { recursive: true }));
  for (const [name, text] of Object.entries(code)) await writeFile(join(dir, name), text);
  const env = { ...process.env, FIRESTORE_EMULATOR_HOST: `${stack.host}:${stack.port}`, GOOGLE_CLOUD_PROJECT: stack.project, PYTHONPATH: dir };
  for (const [program, ...args] of command(dir)) await promisify(execFile)(program, args, { env, timeout: 120_000 });
}
const python = (t, story, code = {}) => run(t, code, () => [[at('python/.venv/bin/python'), at(`python/${story}.py`)]]);
const java = (t, story, code = {}) =>
  run(t, code, (dir) => {
    const path = [dir, at('java/target/dependency/*')].join(delimiter);
    return [
      ['javac', '-cp', path, '-d', dir, at(`java/${story}.java`), ...Object.keys(code).map((name) => join(dir, name))],
      ['java', '-cp', path, story],
    ];
  });

/** Watches a total by the snippet until it shows want. */
function shown(watch, db, path, field, want) {
  return new Promise((resolve, reject) => {
    const totals = [];
    const end = watch(db, path, field, (total) => {
      totals.push(total);
      if (total === want) finish(resolve, totals);
    });
    const deadline = setTimeout(() => finish(reject, new Error(`${path} shows ${totals}, want ${want} at last`)), 60_000);
    function finish(settle, value) {
      clearTimeout(deadline);
      end();
      settle(value);
    }
  });
}

let stack;
before(async () => {
  const routes = new Set(['Web', 'Kotlin and Java', 'Python', 'Node.js'].map(routeOf));
  stack = await startStack({ env: { TALLY_ROUTES: [...routes].join('; ') } });
});
after(() => stack?.stop());

/** Checks the roll-up of a counter that nobody writes any more, as soon as it covers all shards. */
async function exact(counter, want) {
  const { documents } = await stack.rest('GET', `/counters/${counter}/shards?pageSize=300`);
  const last = documents.map(({ updateTime }) => micros(updateTime)).sort().at(-1);
  let rollUp;
  await until(
    async () => {
      rollUp = await stack.rest('GET', `/rollups/${counter}`);
      return rollUp && micros(rollUp.fields.tally.mapValue.fields.as_of.timestampValue) >= last;
    },
    () => `no roll-up of ${counter} covers ${last}: ${JSON.stringify(rollUp)}`,
  );
  const { count, tally } = rollUp.fields;
  const got = { total: Number(count.integerValue), numShards: Number(tally.mapValue.fields.num_shards.integerValue) };
  assert.deepEqual(got, { total: want, numShards: documents.length });
  assert.equal(documents.reduce((sum, { fields }) => sum + Number(fields.count.integerValue), 0), want);
  return got;
}

/** A time with six digits of fraction, so that later times sort later. */
const micros = (time) => time.replace(/(\.\d*)?Z$/, (_, fraction = '.') => fraction.padEnd(7, '0').slice(0, 7));

/** A database as the user sees it; 'owner' is past the rules, null is not signed in. */
function web(t, user) {
  const db = getFirestore(initializeApp({ projectId: stack.project }, `${t.name} ${user}`));
  connectFirestoreEmulator(db, stack.host, stack.port, { mockUserToken: user === 'owner' ? user : user && { sub: user } });
  t.after(() => deleteApp(db.app));
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

test('Web', async (t) => {
  const { add, vote, watch } = await imported(block('Web', 'js'));
  const [alice, bob, nobody] = [web(t, 'alice'), web(t, 'bob'), web(t, null)];
  await stack.set('counters/web', { num_shards: 3 });
  const live = shown(watch, nobody, 'rollups/web', 'count', 10);
  for (let i = 0; i < 5; i++) await Promise.all([add(alice, 'web'), add(bob, 'web')]);
  await live;
  await assert.rejects(add(nobody, 'web'), denied);
  await assert.rejects(add(alice, 'web', 2), denied);
  await exact('web', 10);

  await stack.set('counters/web-votes', { num_shards: 3, once_per_user: true });
  for (const up of [true, true, false, true]) await vote(alice, 'web-votes', 'alice', up);
  for (const up of [true, false]) await vote(bob, 'web-votes', 'bob', up);
  await assert.rejects(vote(bob, 'web-votes', 'alice'), denied);
  await assert.rejects(vote(nobody, 'web-votes', 'nobody'), denied);
  await exact('web-votes', 1);
});

test('Web, a counter without a document, and one of the Swift sample', async (t) => {
  const { add } = await imported(block('Web', 'js'));
  const db = web(t, 'alice');
  await stack.set('counters/swift', { numShards: 2 });
  for (const counter of ['undeclared', 'swift']) {
    for (let i = 0; i < 3; i++) await add(db, counter);
    await exact(counter, 3);
  }
});

test('Node.js, whose shards appear as they are incremented', async (t) => {
  const { add, vote, watch } = await imported(block('Node.js', 'js'));
  const db = server(t);
  // The last total is the highest on the way.
  const live = shown(watch, db, 'rollups/node', 'count', 9);
  await add(db, 'node', -2);
  await Promise.all([1, 1, 1, 1, 1, 1, 5].map((n) => add(db, 'node', n)));
  await live;
  await exact('node', 9);
  await votes((uid, up) => vote(db, 'node-votes', uid, up));
  await exact('node-votes', 1);
});

/** Two users vote, one of them twice; the other takes it back. */
async function votes(vote) {
  await Promise.all([vote('ann', true), vote('bob', true)]);
  await Promise.all([vote('bob', true), vote('ann', false)]);
}

test('Python', async (t) => {
  await python(t, 'story', { 'snippet.py': block('Python', 'python', 'firestore.Client') });
  await exact('python', 7);
  await exact('python-votes', 1);
});

test('Python, async', async (t) => {
  await python(t, 'story_async', { 'snippet.py': block('Python', 'python', 'firestore.AsyncClient') });
  await exact('python-async', 7);
  await exact('python-async-votes', 1);
});

test('Java, on a server', async (t) => {
  await java(t, 'Story', { 'Totals.java': block('Java', 'java', 'com.google.cloud.firestore') });
  await exact('java', 7);
  await exact('java-votes', 1);
});

/** Runs web/sample.mjs in Chromium: that of CHROMIUM, or Debian's. */
async function browser(t) {
  const { outputFiles } = await build({ entryPoints: [at('web/sample.mjs')], bundle: true, write: false });
  const server = createServer((_, response) => response.setHeader('Content-Type', 'text/html').end('<!doctype html>'));
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  // prettier-ignore
  const args = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'];
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args });
  t.after(() => browser.close());
  const page = await browser.newPage();
  await page.goto(`http://127.0.0.1:${server.address().port}/`);
  await page.addScriptTag({ content: outputFiles[0].text });
  await page.evaluate((where) => sample(...where), [stack.project, stack.host, stack.port]);
}

// What Firebase's samples write. That of Node.js is what the page has, too.
for (const [name, counter, write, document] of [
  ['Web, in a browser', 'web-sample', browser, { num_shards: { integerValue: '3' } }],
  ['Python', 'python-sample', (t) => python(t, 'sample'), undefined],
  ['Python, async', 'python-async-sample', (t) => python(t, 'sample_async'), undefined],
  ['Java', 'java-sample', (t) => java(t, 'Sample'), { numShards: { integerValue: '3' } }],
]) {
  test(`Firebase's sample: ${name}`, async (t) => {
    await write(t);
    const { numShards } = await exact(counter, 7);
    assert.equal(numShards, 3);
    assert.deepEqual((await stack.rest('GET', `/counters/${counter}`))?.fields, document);
  });
}

test('Node.js, a trigger of one event that comes twice', async (t) => {
  const { count } = await imported(block('From a trigger that adds to a total', 'js', '', migration));
  const db = server(t);
  for (const event of ['a', 'b', 'a']) await count(db, 'p', event);
  const shards = await db.collection('posts/p/shards').get();
  assert.equal(shards.docs.reduce((sum, shard) => sum + shard.get('likes'), 0), 2);
});
