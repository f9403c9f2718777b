// Lists as each SDK that runs here sends them, by firestore.rules: without an offset they are allowed,
// with one refused. e2e/rules does the same for Go, and for every rule of the docs.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Firestore } from '@google-cloud/firestore';
import { deleteApp, initializeApp } from 'firebase/app';
import * as webSDK from 'firebase/firestore';
import { startStack } from '../../clients/web/e2e/stack.mjs';
import { cdn, openPage } from './browser.mjs';
import { startSignIn } from './signin.mjs';

const at = (path) => fileURLToPath(new URL(path, import.meta.url));
const shipped = await readFile(at('../../firestore.rules'), 'utf8');
const condition = shipped.match(/return (!\('offset' in request\.query\).*);/)[1];
const softened = shipped.replace(condition, 'true');

let stack, ann;
before(async () => {
  stack = await startStack({ project: 'demo-lists' });
  for (const id of ['a', 'b', 'c']) await stack.set(`rollups/${id}`, { count: 1 });
  ann = await startSignIn(stack.port, 'ann');
});
after(async () => {
  await ann?.close();
  await stack?.stop();
});

async function setRules(content) {
  const url = `http://${stack.host}:${stack.port}/emulator/v1/projects/${stack.project}:securityRules`;
  const body = JSON.stringify({ rules: { files: [{ name: 'firestore.rules', content }] } });
  const { ok } = await fetch(url, { method: 'PUT', headers: { 'Content-Type': 'application/json' }, body });
  assert.ok(ok);
}

/** Runs a program as ann, and returns what it prints: lines such as "1 query denied". */
async function run(program, ...args) {
  const env = { ...process.env, FIRESTORE_EMULATOR_HOST: `127.0.0.1:${ann.port}`, GOOGLE_CLOUD_PROJECT: stack.project };
  return (await promisify(execFile)(program, args, { env })).stdout;
}

/** What comes of a read: "allowed", or "denied". */
async function outcome(read) {
  try {
    await read();
    return 'allowed';
  } catch (error) {
    if (error.code !== 7 && !error.message.startsWith('Error 7:')) throw error; // a listener's has no code
    return 'denied';
  }
}

async function node() {
  process.env.METADATA_SERVER_DETECTION = 'none'; // there is none here, and looking for it takes seconds
  process.env.FIRESTORE_EMULATOR_HOST = `127.0.0.1:${ann.port}`;
  const db = new Firestore({ projectId: stack.project });
  const lines = [];
  for (const [limit, offset] of [[100, 0], [1, 2 ** 30]]) {
    const query = db.collection('rollups').limit(limit).offset(offset);
    const listen = async () => {
      let end;
      await new Promise((resolve, reject) => (end = query.onSnapshot(resolve, reject))).finally(() => end());
    };
    for (const [name, read] of Object.entries({ query: () => query.get(), aggregation: () => query.count().get(), listener: listen }))
      lines.push(`${offset} ${name} ${await outcome(read)}`);
  }
  await db.terminate();
  return lines.join('\n');
}

/** REST has queries and aggregations. */
async function rest() {
  const url = `http://${stack.host}:${stack.port}/v1/projects/${stack.project}/databases/(default)/documents`;
  const headers = { Authorization: `Bearer ${ann.token}`, 'Content-Type': 'application/json' };
  const lines = [];
  for (const [limit, offset] of [[100], [100, 0], [1, 2 ** 30]]) {
    const structuredQuery = { from: [{ collectionId: 'rollups' }], limit, offset };
    for (const [name, method, body] of [
      ['query', 'runQuery', { structuredQuery }],
      ['aggregation', 'runAggregationQuery', { structuredAggregationQuery: { structuredQuery, aggregations: [{ count: {} }] } }],
    ]) {
      const { status } = await fetch(`${url}:${method}`, { method: 'POST', headers, body: JSON.stringify(body) });
      lines.push(`${offset ?? 0} ${name} ${{ 200: 'allowed', 403: 'denied' }[status] ?? status}`);
    }
  }
  return lines.join('\n');
}

for (const [name, lists] of [
  ['Node.js', node],
  ['Python', () => run(at('.venv/bin/python'), at('lists.py'))],
  ['Java', () => run('java', '-cp', at('target/dependency/*'), at('Lists.java'))],
  ['REST', rest],
]) {
  test(`${name}: a list is allowed, and with an offset refused`, { timeout: 300_000 }, async (t) => {
    t.after(() => setRules(shipped));
    for (const [rules, of] of [[softened, 'allowed'], [shipped, 'denied']]) {
      await setRules(rules);
      const lines = (await lists()).trim().split('\n');
      assert.ok(lines.length >= 6);
      for (const line of lines) assert.match(line, line.startsWith('0 ') ? / allowed$/ : new RegExp(` ${of}$`));
    }
  });
}

/** Lists by Web's SDK, which has no offsets. Returns how many documents each list has. */
async function web(sdk, { project, host, port }) {
  const { initializeApp, connectFirestoreEmulator, getCountFromServer, getDocs, getFirestore, onSnapshot } = sdk;
  const { collection, limit, limitToLast, orderBy, query } = sdk;
  const db = getFirestore(initializeApp({ projectId: project }, 'lists'));
  connectFirestoreEmulator(db, host, port, { mockUserToken: { sub: 'ann' } });
  const rollUps = collection(db, 'rollups');
  const sizes = [];
  for (const list of [
    query(rollUps, limit(100)),
    query(rollUps, orderBy('count', 'desc'), limit(2)),
    query(rollUps, orderBy('count'), limitToLast(2)),
  ]) {
    sizes.push((await getDocs(list)).size, (await getCountFromServer(list)).data().count);
    sizes.push((await new Promise((resolve, reject) => onSnapshot(list, resolve, reject))).size);
  }
  const shards = collection(db, 'counters/c/shards');
  sizes.push((await getDocs(shards)).size);
  return sizes;
}
const sizes = [3, 3, 3, 2, 2, 2, 2, 2, 2, 0];

test('Web, in Node.js: lists are allowed', async (t) => {
  const apps = [];
  t.after(() => Promise.all(apps.map(deleteApp)));
  const sdk = { ...webSDK, initializeApp: (...args) => (apps.push(initializeApp(...args)), apps[0]) };
  assert.deepEqual(await web(sdk, stack), sizes);
});

test('Web, in a browser: lists are allowed', { timeout: 300_000 }, async (t) => {
  const page = await openPage(t, '<!doctype html>');
  const { project, host, port } = stack;
  const lists = `(async () => {
    const [app, firestore] = await Promise.all(['app', 'firestore'].map((name) => import('${cdn}/firebase-' + name + '.js')));
    return (${web})({ ...app, ...firestore }, ${JSON.stringify({ project, host, port })});
  })()`;
  assert.deepEqual(await page.evaluate(lists), sizes);
});
