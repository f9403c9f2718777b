// Runs the Web and Node.js snippets of docs/clients.md, and a trigger of docs/migrate.md, as they stand there, against
// the whole stack.
import assert from 'node:assert/strict';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { Firestore } from '@google-cloud/firestore';
import { deleteApp, initializeApp } from 'firebase/app';
import { connectFirestoreEmulator, getFirestore, setLogLevel } from 'firebase/firestore';
import { startStack } from '../web/e2e/stack.mjs';

const read = (name) => readFile(new URL(`../../docs/${name}`, import.meta.url), 'utf8');
const [page, migration] = await Promise.all(['clients.md', 'migrate.md'].map(read));

/** The route of a sample, from the page's table. */
function routeOf(sample) {
  const row = page.match(new RegExp(`^\\| \\[${sample.replaceAll('.', '\\.')}\\]\\(.+?\\) \\| \`([^\`]+)\``, 'm'));
  assert.ok(row, `no route of ${sample} in docs/clients.md`);
  return row[1];
}

/** Imports the JavaScript below a heading. Packages resolve from this folder. */
async function snippet(heading, text = page) {
  const section = text.split(/^## /m).find((section) => section.startsWith(`${heading}\n`)) ?? '';
  const blocks = [...section.matchAll(/^```js\n(.*?)^```/gms)];
  assert.equal(blocks.length, 1, `JavaScript blocks below ${heading}`);
  const file = new URL(`.${heading}-${process.pid}.mjs`, import.meta.url);
  await writeFile(file, blocks[0][1]);
  try {
    return await import(file);
  } finally {
    await rm(file);
  }
}

/** Watches a counter by the snippet until it shows want. */
function shown(watch, db, counter, want) {
  return new Promise((resolve, reject) => {
    const totals = [];
    const end = watch(db, counter, (total) => {
      totals.push(total);
      if (total === want) finish(resolve, totals);
    });
    const deadline = setTimeout(() => finish(reject, new Error(`${counter} shows ${totals}, want ${want} at last`)), 60_000);
    function finish(settle, value) {
      clearTimeout(deadline);
      end();
      settle(value);
    }
  });
}

let stack;
before(async () => {
  assert.equal(routeOf('Web'), routeOf('Node.js'));
  stack = await startStack({ env: { TALLY_ROUTES: routeOf('Web') } });
});
after(() => stack?.stop());

/** Checks the shards' sum and the roll-up of a counter whose total is shown. */
async function exact(counter, total, numShards) {
  const { fields } = await stack.rest('GET', `/rollups/${counter}`);
  const tally = fields.tally.mapValue.fields;
  const got = { sum: await stack.sum(`counters/${counter}`), total: Number(fields.count.integerValue), numShards: Number(tally.num_shards.integerValue) };
  assert.deepEqual(got, { sum: total, total, numShards });
}

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

test('Node.js', async (t) => {
  const { create, add, watch } = await snippet('Node.js');
  const db = server(t);
  // The last total is the highest on the way.
  const live = shown(watch, db, 'node', 9);
  await add(db, 'node', -2);
  await Promise.all([1, 1, 1, 1, 1, 1, 5].map((n) => add(db, 'node', n))); // shards appear as they are needed
  await live;
  await create(db, 'node'); // loses nothing
  await add(db, 'node');
  await shown(watch, db, 'node', 10);
  await exact('node', 10, 10);
});

test('Node.js, a trigger of one event that comes twice', async (t) => {
  const { count } = await snippet('From a trigger that adds to a total', migration);
  const db = server(t);
  for (const event of ['a', 'b', 'a']) await count(db, 'p', event);
  const shards = await db.collection('posts/p/shards').get();
  assert.equal(shards.docs.reduce((sum, shard) => sum + shard.get('likes'), 0), 2);
});

test('Web', async (t) => {
  const { create, add, watch } = await snippet('Web');
  const [alice, bob, nobody, owner] = [web(t, 'alice'), web(t, 'bob'), web(t, null), web(t, 'owner')];
  await assert.rejects(create(alice, 'web', 3), denied);
  await create(owner, 'web', 3);
  const live = shown(watch, nobody, 'web', 8);
  await add(bob, 'web', -1);
  await add(bob, 'web', -1);
  for (let i = 0; i < 5; i++) await Promise.all([add(alice, 'web'), add(bob, 'web')]);
  await live;
  await assert.rejects(add(nobody, 'web'), denied);
  await assert.rejects(add(alice, 'web', 2), denied);
  await exact('web', 8, 3);

  await stack.set('counters/web', { num_shards: 3, once_per_user: false });
  await create(owner, 'web', 3); // again: loses nothing
  assert.equal(await stack.sum('counters/web'), 8);
  const { fields } = await stack.rest('GET', '/counters/web');
  assert.deepEqual(Object.keys(fields).sort(), ['num_shards', 'once_per_user']);
});

test('Web, a counter without a document, and one of the Swift sample', async (t) => {
  const { add, watch } = await snippet('Web');
  const db = web(t, 'alice');
  await stack.set('counters/swift', { numShards: 2 });
  for (const counter of ['undeclared', 'swift']) {
    for (let i = 0; i < 3; i++) await add(db, counter);
    await shown(watch, db, counter, 3);
    assert.equal(await stack.sum(`counters/${counter}`), 3);
  }
});

test('Web, once per user', async (t) => {
  const { watch } = await snippet('Web');
  const { vote, unvote } = await snippet('For every language');
  const [alice, bob, nobody] = [web(t, 'alice'), web(t, 'bob'), web(t, null)];
  await stack.set('counters/votes', { num_shards: 3, once_per_user: true });
  await vote(alice, 'votes', 'alice', 3);
  await assert.rejects(vote(alice, 'votes', 'alice', 3), denied);
  await assert.rejects(vote(bob, 'votes', 'alice', 3), denied);
  await assert.rejects(vote(nobody, 'votes', 'nobody', 3), denied);
  await vote(bob, 'votes', 'bob', 3);
  await shown(watch, nobody, 'votes', 2);
  await unvote(alice, 'votes', 'alice', 3);
  await shown(watch, nobody, 'votes', 1);
  assert.equal(await stack.sum('counters/votes'), 1);
});
