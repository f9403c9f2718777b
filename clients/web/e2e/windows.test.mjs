// Totals with windows in three browsers, which fall by themselves: nothing is written when a
// document leaves. A window's total is a total like any other.
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { launch, servePage } from './browser.mjs';
import { patience, root, startStack, until } from './stack.mjs';

const routes = [
  'songs/{song}/likes/{user} -> songs/{song} : count() as likes, count() where at > now - 1m as trending : existing',
  'rooms/{room}/members/{user} -> rooms/{room} : count() where seen > now - 1m as online : existing',
];

let stack, browser, site, dir;
before(async () => {
  dir = await mkdtemp(join(tmpdir(), 'tally-windows-'));
  const rules = join(dir, 'firestore.rules');
  const shared = await readFile(join(root, 'firestore.rules'), 'utf8');
  const open =
    'match /songs/{document=**} { allow read: if true; }\n    match /rooms/{document=**} { allow read: if true; }\n    ';
  await writeFile(
    rules,
    shared.replace('match /rollups/{counter}', (place) => open + place),
  );
  [stack, browser, site] = await Promise.all([
    startStack({
      project: 'demo-windows',
      flags: ['--rules', rules],
      env: { TALLY_ROUTES: routes.join('\n') },
      instances: 2,
    }),
    launch(),
    servePage('firebase'),
  ]);
});
after(async () => {
  await browser?.close();
  await site?.close();
  await stack?.stop();
  await rm(dir, { recursive: true });
});

/** Writes a document past the rules, with a time that many seconds ago. */
function put(path, field, ago = 0) {
  const at = new Date(Date.now() - 1000 * ago).toISOString();
  return stack.rest('PATCH', `/${path}`, { fields: field ? { [field]: { timestampValue: at } } : {} });
}

/** A browser of its own that shows a total. */
async function watch(path, total) {
  const page = await (await browser.newContext()).newPage();
  page.setDefaultTimeout(patience);
  await page.goto(`http://127.0.0.1:${site.port}/`);
  await page.evaluate(
    ({ project, port, path, options }) => {
      tally.open({ project, port, uid: 'ann' });
      tally.show(path, options);
    },
    { project: stack.project, port: stack.port, path, options: { total } },
  );
  return page;
}

/** Waits until all pages show a total. */
async function show(pages, want) {
  const totals = () => Promise.all(pages.map((page) => page.evaluate(() => shown.last?.total ?? shown.error)));
  await until(
    async () => (await totals()).every((total) => total === want),
    async () => `they show ${JSON.stringify(await totals())}, want ${want}`,
  );
}

// What has a window is written when all pages are open, and leaves long after it is shown: a slow
// machine must show each total. Both tests mostly wait.
describe('totals with windows', { concurrency: true }, () => {
  test('trending falls by itself', async () => {
    await put('songs/p');
    await put('songs/p/likes/old', 'at', 3600);
    const pages = await Promise.all([1, 2, 3].map(() => watch('songs/p/likes', 'trending')));
    const all = await watch('songs/p/likes', 'likes');
    await show(pages, 0);
    await put('songs/p/likes/ann', 'at', 25);
    await put('songs/p/likes/bob', 'at');
    await show(pages, 2);
    await show([all], 3);
    await show(pages, 1);
    await show(pages, 0);
    await show([all], 3);
    for (const page of pages) assert.deepEqual((await page.evaluate(() => shown)).error, null);
  });

  test('online falls by itself, and rises with a heartbeat', async () => {
    await put('rooms/r');
    const pages = await Promise.all([1, 2, 3].map(() => watch('rooms/r/members', 'online')));
    await show(pages, 0);
    await put('rooms/r/members/ann', 'seen', 30);
    await put('rooms/r/members/bob', 'seen', 5);
    await show(pages, 2);
    await show(pages, 1);
    await put('rooms/r/members/ann', 'seen', 5);
    await show(pages, 2);
    await show(pages, 1);
    await show(pages, 0);
  });
});
