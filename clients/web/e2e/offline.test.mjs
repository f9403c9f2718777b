// The package offline, after a reload, and in several tabs. What must show after a reload was tapped
// behind the last roll-up: one that comes later may have it, as far as the next page knows. So there is
// one event before, which makes one roll-up; of two events the second may make another at any time.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  browser,
  endsAt,
  line,
  newCounter,
  open,
  queued,
  reconnect,
  rolledUp,
  saved,
  shown,
  shows,
  showsSome,
  stack,
  tap,
  versions,
} from './pages.mjs';
import { until } from './stack.mjs';

test('taps that were not sent are shown after a reload, and are sent, with each SDK and cache that keeps them', async () => {
  const ready = async (version, cache) => {
    const path = newCounter();
    const page = await open(path, { version, cache });
    await tap(page, 1);
    await endsAt(path, 1, page);
    return { path, page };
  };
  const cases = versions.flatMap((version) => ['persistent', 'multiTab'].map((cache) => ready(version, cache)));
  const pages = await Promise.all(cases);
  line.cut();
  const reloaded = async ({ path, page }) => {
    assert.equal(await tap(page, 3, false), 4);
    await queued(page, path, 3);
    await page.load();
    await showsSome(page);
    assert.deepEqual((await shown(page)).calls, [4]);
    assert.equal((await shown(page)).last.pending, 3);
  };
  await Promise.all(pages.map(reloaded));
  await reconnect(...pages);
  await Promise.all(pages.map(({ path, page }) => endsAt(path, 4, page)));
});

test('offline, then online', async () => {
  const path = newCounter();
  const page = await open(path);
  await tap(page, 2);
  await endsAt(path, 2, page);
  line.cut();
  assert.equal(await tap(page, 12, false), 14, 'more than shards, and more than the SDK has on its way at once');
  assert.equal((await shown(page)).last.pending, 12);
  await stack.rest('POST', ':commit', {
    writes: [
      {
        transform: {
          document: `projects/${stack.project}/databases/(default)/documents/${path}/shards/0`,
          fieldTransforms: [{ fieldPath: 'count', increment: { integerValue: 1 } }],
        },
      },
    ],
  });
  await rolledUp(path, 3);
  await reconnect({ path, page });
  await endsAt(path, 15, page);
});

test('offline from the start: an increment is shown and queued, with nothing known', async () => {
  const path = newCounter();
  line.cut();
  const page = await open(path, { cache: 'persistent', wait: false });
  await page.evaluate(() => void shown.counter.increment());
  await until(
    async () => (await shown(page)).last?.total === 1,
    async () => JSON.stringify(await shown(page)),
  );
  await reconnect({ path, page });
  await endsAt(path, 1, page);
});

test('with a memory cache, a reload keeps what was acknowledged and drops what was not', async () => {
  const path = newCounter();
  const page = await open(path);
  stack.pause();
  await tap(page, 2);
  line.cut();
  await tap(page, 1, false);
  await saved(page, path, 3);
  await page.load();
  line.restore();
  await shows(page, 2);
  stack.resume();
  await rolledUp(path, 2);
  await shows(page, 2);
  assert.deepEqual((await shown(page)).calls, [2]);
  assert.equal(await stack.sum(path), 2);
});

test('two tabs, online and offline, with each cache', async () => {
  const ready = async (cache) => {
    const path = newCounter();
    const context = await browser.newContext();
    const tabs = [await open(path, { context, cache }), await open(path, { context, cache })];
    await Promise.all(tabs.map((tab) => tap(tab, 8)));
    await endsAt(path, 16, ...tabs);
    return { path, tabs };
  };
  const counters = await Promise.all(['memory', 'multiTab'].map(ready));
  line.cut();
  for (const tab of counters.flatMap(({ tabs }) => tabs)) assert.equal(await tap(tab, 4, false), 20);
  await reconnect(...counters.flatMap(({ path, tabs }) => tabs.map((page) => ({ path, page }))));
  await Promise.all(counters.map(({ path, tabs }) => endsAt(path, 24, ...tabs)));
});

test('a tab that is closed offline: its tap is shown by the next one, and is sent', async () => {
  const path = newCounter();
  const context = await browser.newContext();
  const first = await open(path, { context, cache: 'multiTab' });
  await tap(first, 1);
  await endsAt(path, 1, first);
  line.cut();
  await tap(first, 1, false);
  await queued(first, path, 1);
  await first.close();
  const second = await open(path, { context, cache: 'multiTab' });
  assert.deepEqual((await shown(second)).calls, [2]);
  await reconnect({ path, page: second });
  await endsAt(path, 2, second);
});
