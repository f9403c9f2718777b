// Runs the recipe of a board for each week in Chromium, against `tally dev`. Sunday turns into Monday
// under the page, by a clock that the test sets.
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { startStack } from '../../clients/web/e2e/stack.mjs';
import { cdn, openPage } from './browser.mjs';
import { below, blocks } from './markdown.mjs';

const read = (path) => readFile(new URL(`../../${path}`, import.meta.url), 'utf8');
const [recipes, rules] = await Promise.all(['docs/recipes.md', 'firestore.rules'].map(read));
const section = below('A board for each week', recipes);
const [route] = blocks(section, '');
const [code, block] = blocks(section, 'js');
const days = fileURLToPath(import.meta.resolve('@firestore-tally/web/days'));

const scripts = { 'firebase/app': 'app', 'firebase/firestore': 'firestore' };
const imports = Object.fromEntries(Object.entries(scripts).map(([name, file]) => [name, `${cdn}/firebase-${file}.js`]));
const html = `<!doctype html><script type="importmap">${JSON.stringify({ imports: { ...imports, '@firestore-tally/web/days': '/days.js' } })}</script>`;

for (const [zone, sunday, monday] of [
  ['Asia/Tokyo', '2026-11-29T14:59:59Z', '2026-11-29T15:00:00Z'],
  ['America/New_York', '2026-11-30T04:59:59Z', '2026-11-30T05:00:00Z'],
]) {
  test(`Sunday turns into Monday in ${zone}`, { timeout: 300_000 }, async (t) => {
    const dir = await mkdtemp(join(tmpdir(), 'tally-board-'));
    t.after(() => rm(dir, { recursive: true }));
    const first = '    match /rollups/{counter} {\n';
    await writeFile(join(dir, 'firestore.rules'), rules.replace(first, () => block + first));
    const stack = await startStack({
      project: `demo-board-${zone.toLowerCase().replace(/[\W_]/g, '-')}`,
      flags: ['--rules', join(dir, 'firestore.rules')],
      env: { TALLY_ROUTES: route.replace('Asia/Tokyo', zone) },
    });
    t.after(() => stack.stop());

    const put = (path, fields) => stack.rest('PATCH', `/${path}`, { fields });
    const lap = (id, racer, points, at) =>
      put(`laps/${id}`, { racer: { stringValue: racer }, points: { integerValue: points }, at: { timestampValue: at } });
    for (const racer of ['ann', 'bob']) await put(`racers/${racer}`, {});
    await lap(1, 'ann', 5, sunday);
    await lap(2, 'bob', 7, sunday);
    await lap(3, 'ann', 9, monday);

    const page = await openPage(t, html);
    await page.route('**/days.js', (request) => request.fulfill({ path: days, contentType: 'text/javascript' }));
    await page.clock.install({ time: new Date(Date.parse(monday) - 10 * 60_000) });
    await page.addScriptTag({
      type: 'module',
      content: `${code}
        import { initializeApp } from 'firebase/app';
        import { connectFirestoreEmulator, getFirestore } from 'firebase/firestore';
        const db = getFirestore(initializeApp({ projectId: '${stack.project}' }));
        connectFirestoreEmulator(db, '${stack.host}', ${stack.port});
        bestOfNow(db, '${zone}', (week, best) => (window.board = [week, ...best.map(({ racer, points }) => racer + ' ' + points)].join(', ')));`,
    });

    const shows = (board) => page.waitForFunction((want) => window.board === want, board, { timeout: 60_000, polling: 50 });
    await shows('2026-W48, bob 7, ann 5');
    await page.clock.fastForward(10 * 60_000);
    await shows('2026-W49, ann 9');
    await lap(4, 'bob', 10, monday);
    await shows('2026-W49, bob 10, ann 9');
    assert.equal((await stack.rest('GET', '/racers/bob/weeks/2026-W48')).fields.points.integerValue, '7');
  });
}
