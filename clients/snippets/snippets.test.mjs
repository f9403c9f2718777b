// Runs the Web and Node.js snippets of docs/clients.md, as they stand there, against the whole stack.
import assert from 'node:assert/strict';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { Firestore } from '@google-cloud/firestore';
import { deleteApp, initializeApp } from 'firebase/app';
import { connectFirestoreEmulator, doc, getDoc, getFirestore } from 'firebase/firestore';
import { startStack } from './stack.mjs';

const page = await readFile(new URL('../../docs/clients.md', import.meta.url), 'utf8');

/** The route of a sample, from the page's table. */
function routeOf(sample) {
  const row = page.match(new RegExp(`^\\| \\[${sample.replaceAll('.', '\\.')}\\]\\(.+?\\) \\| \`([^\`]+)\``, 'm'));
  assert.ok(row, `no route of ${sample} in docs/clients.md`);
  return row[1];
}

/** Imports the JavaScript below a heading of the page. Packages resolve from this folder. */
async function snippet(heading) {
  const section = page.split(/^## /m).find((text) => text.startsWith(`${heading}\n`)) ?? '';
  const blocks = [...section.matchAll(/^```js\n(.*?)^```/gms)];
  assert.equal(blocks.length, 1, `JavaScript blocks below ${heading} in docs/clients.md`);
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
  stack = await startStack(routeOf('Web'));
}, { timeout: 300_000 });
after(() => stack?.stop());

/** What the roll-up says, and tally verifies, of a counter whose total is shown. */
async function exact(counter, total, numShards) {
  const { total: sum, rollup } = JSON.parse(await stack.tally('get', counter, '--json'));
  assert.deepEqual({ sum, total: rollup.total, numShards: rollup.num_shards }, { sum: total, total, numShards });
}

test('Node.js', async () => {
  const { create, add, watch } = await snippet('Node.js');
  process.env.METADATA_SERVER_DETECTION = 'none'; // there is none here, and looking for it takes seconds
  process.env.FIRESTORE_EMULATOR_HOST = `${stack.host}:${stack.port}`;
  const db = new Firestore({ projectId: stack.project });
  try {
    // The last total is the highest on the way.
    const live = shown(watch, db, 'node', 9);
    await add(db, 'node', -2);
    await Promise.all([1, 1, 1, 1, 1, 1, 5].map((n) => add(db, 'node', n))); // shards appear as they are needed
    await live;
    await create(db, 'node'); // loses nothing
    await add(db, 'node');
    await shown(watch, db, 'node', 10);
    await exact('node', 10, 10);
  } finally {
    await db.terminate();
  }
});

test('Web', async () => {
  const { create, add, watch } = await snippet('Web');
  const connect = (name, mockUserToken) => {
    const db = getFirestore(initializeApp({ projectId: stack.project }, name));
    connectFirestoreEmulator(db, stack.host, stack.port, { mockUserToken });
    return db;
  };
  const owner = connect('owner', 'owner'); // past the rules, which let no user create counters
  const alice = connect('alice', { sub: 'alice' });
  const bob = connect('bob', { sub: 'bob' });
  const stranger = connect('stranger', undefined);
  try {
    await assert.rejects(create(alice, 'web', 3), { code: 'permission-denied' });
    await create(owner, 'web', 3);
    const live = shown(watch, stranger, 'web', 8);
    await add(bob, 'web', -1);
    await add(bob, 'web', -1);
    for (let i = 0; i < 5; i++) await Promise.all([add(alice, 'web'), add(bob, 'web')]);
    await live;
    await assert.rejects(add(stranger, 'web'), { code: 'permission-denied' });
    await assert.rejects(add(alice, 'web', 2), { code: 'permission-denied' });
    await exact('web', 8, 3);
    assert.equal((await getDoc(doc(alice, 'rollups', 'web'))).get('count'), 8);
  } finally {
    await Promise.all([owner, alice, bob, stranger].map((db) => deleteApp(db.app)));
  }
});
